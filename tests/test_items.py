"""A report and the command call the items of a data set as the data set does."""

import html
import re

from fake_runs import fake_trials, make_run

from oasis_bench.datasets import TwentyNewsgroups
from oasis_bench.reports import write_report

TITLE = "Large Scale Image Similarity Learning"
"""Of a paper that the page cites beside the symmetry index."""


def text_of(folder):
    """Return what the page of a run shows to its reader, without the sources that it cites."""
    page = (folder / "report.html").read_text()
    page = re.sub(r"<(style|script)\b.*?</\1>|<h2 id=\"sources\">.*?</dl>", " ", page, flags=re.S)
    captions = " ".join(re.findall(r'\b(?:alt|title|aria-label)="([^"]*)"', page))
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", page) + captions).split())


def test_a_run_on_a_table_speaks_of_rows(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = [f"{i % 2 + i / 50},{i % 5},{'ab'[i % 2]}" for i in range(80)]
    (tmp_path / "mine.csv").write_text("\n".join(["length,width,kind", *lines]))
    options = "--dataset mine.csv --label kind --partitions 2 --inner-folds 2 --classes all"
    learners = "--algorithms OASIS,Euclidean --max-steps 500 --search 2"
    tasks = "--tasks retrieval,classification --output run"
    status, out, errors = command("run", *f"{options} {learners} {tasks}".split())
    assert status == 0, errors
    text = text_of(tmp_path / "run").replace(TITLE, "")
    told_to_all = " ".join([text, out, *errors]).lower()
    assert "image" not in told_to_all.replace("scikit-image", "")  # a library's version
    for told in (
        "25 training and 15 test rows a class at random",
        "inner folds of the training rows, by mAP",
        "over the ranks of the relevant rows",
        "At most 0.93: 14 relevant rows for 15 places.",
    ):
        assert told in text


def test_a_run_on_newsgroups_speaks_of_documents(tmp_path):
    info = {"items": TwentyNewsgroups.items}
    trials = fake_trials("A", [0.5, 0.6], n_steps=1000, transductive=1)
    make_run(tmp_path / "run", trials, ["A"], partitions=2, info=info)
    write_report(tmp_path / "run")
    text = text_of(tmp_path / "run").replace(TITLE, "")
    assert "image" not in text.lower()
    for told in (
        "40 training and 25 test documents a class",
        "the unlabelled test documents",
        "Solid: test documents; dashed: training documents",
        "Documents of one class are relevant to each other",
        "At most 0.48: 24 relevant documents for 50 places.",
    ):
        assert told in text
