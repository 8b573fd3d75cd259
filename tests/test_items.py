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
