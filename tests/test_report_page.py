"""The page of a run, its files and its summary; hostile names stay text."""

import re
import shutil
import subprocess
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trial, fake_trials, make_run, split_source, task_source
from report_helpers import contents, texts

from oasis_bench.reports import summary_text, write_report
from oasis_bench.reports.run.cost_tables import cost_tables
from oasis_bench.reports.run.measure_tables import measure_numbers, measure_tables
from oasis_bench.reports.run.step_figures import draw_along_steps
from oasis_bench.reports.run.task_figures import draw_precision_at_k
from oasis_bench.reports.table import to_latex
from oasis_bench.runs import read_run
from oasis_bench.system import UsageError
from oasis_bench.trial import TrialResult

HOSTILE = "<script>alert(1)</script> 50% a_b & #1 {$x_1$} ~ ^ \\"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The folder of a report whose every text wants to be code, and its files' bytes."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    make_run(
        folder,
        [
            fake_trial(HOSTILE, mAP=0.5, n_steps=1000, params={"<i>": "&"}),
            fake_trial(HOSTILE, mAP=0.6, partition=1, n_steps=500),
            fake_trial("_$y_2$", mAP=0.4),
            fake_trial(
                "_$y_2$",
                partition=1,
                status="failed",
                reason="Error: <b>100%</b>",
                traceback='File "<img src=x>", line 1',
            ),
        ],
        [HOSTILE, "_$y_2$"],
        partitions=2,
        info={
            "classes": {"10": ["<u>cat</u>"] * 10},
            "provenance": {"<em>": {"link": "https://example.org/<x>"}},
            "command": "oasis-bench run 'a b'",
            "sources": {
                "dataset": {"name": "<q>", "summary": "<q>", "citation": "<q>", "licence": "<q>"},
                "learners": {
                    label: {"summary": "<q>", "citation": "Us & them (2010)"}
                    for label in (HOSTILE, "_$y_2$")
                },
                "tasks": {"retrieval": {**task_source("retrieval"), "summary": "<q>"}},
                "splits": {"seen-classes": {**split_source("seen-classes"), "summary": "<q>"}},
            },
        },
    )
    write_report(folder)
    return folder, contents(folder)


def test_csv_holds_the_raw_numbers(hostile):
    folder, _ = hostile
    numbers = measure_numbers(read_run(folder), "retrieval")
    numbers = numbers[numbers["k"].isna() | numbers["k"].isin([1, 10, 50])]
    written = pd.read_csv(
        folder / "tables" / "retrieval_10.csv", keep_default_na=False, na_values=[""]
    )
    of_learners = written[: len(numbers)]
    assert of_learners["learner"].tolist() == numbers["learner"].tolist()
    np.testing.assert_array_equal(of_learners["mean"], numbers["mean"])


def test_no_text_becomes_markup_in_the_page(hostile):
    page = hostile[1]["report.html"].decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert page.count("<script") == 1  # the page's own
    for tag in ("<b>", "<u>", "<em>", "<i>", "<q>", "<img src=x"):
        assert tag not in page
    for text in ("&lt;b&gt;100%&lt;/b&gt;", "&lt;u&gt;cat", "&lt;em&gt;", "&lt;img src=x&gt;"):
        assert text in page


class _Targets(HTMLParser):
    """Whatever a page could load or link to."""

    def __init__(self):
        super().__init__()
        self.targets = []

    def handle_starttag(self, tag, attributes):
        loading = ("src", "href", "xlink:href", "srcset", "data", "action")
        self.targets += [v for k, v in attributes if k in loading]


def test_the_page_loads_nothing(hostile):
    page = hostile[1]["report.html"].decode()
    parser = _Targets()
    parser.feed(page)
    numbers = [target for target in parser.targets if target.startswith("data:text/csv;")]
    assert len(numbers) == page.count("<svg") == 6
    assert all(target.startswith("#") for target in set(parser.targets) - set(numbers))
    assert not re.search(r"url\((?!data:|#)|@import", page)


def test_a_rebuilt_report_is_the_same_bytes_and_leaves_nothing_else(hostile):
    folder, first = hostile
    write_report(folder)
    assert contents(folder) == first
    figures = ("along_steps", "along_seconds", "costs")
    figures += tuple(f"retrieval_{it}" for it in ("against_time", "precision_at_k", "partitions"))
    tables = ("retrieval_10", "retrieval_10_every", "costs", "selection", "unfinished")
    tables += ("candidates", "trials")
    assert set(first) == {
        "report.html",
        "results.sqlite",
        *(f"figures/{name}.{kind}" for name in figures for kind in ("csv", "svg")),
        *(f"tables/{name}.{kind}" for name in tables for kind in ("csv", "tex")),
    }


def test_the_command_is_shown_where_there_was_one(hostile, tmp_path):
    assert "<pre>oasis-bench run &#39;a b&#39;</pre>" in hostile[1]["report.html"].decode()
    make_run(tmp_path / "run", [fake_trial("A")], ["A"], info={"command": None})  # from Python
    assert "To repeat this run" not in write_report(tmp_path / "run").read_text()


def test_sources_are_shown(hostile):
    page = hostile[1]["report.html"].decode()
    assert "Licence: &lt;q&gt;" in page
    assert "Us &amp; them (2010)" in page


def test_latex_text_is_escaped(hostile):
    _, (every,) = measure_tables(read_run(hostile[0]), "retrieval")
    latex = to_latex(every)
    assert (
        r"\textbf{\textless{}script\textgreater{}alert(1)\textless{}/script\textgreater{} "
        r"50\% a\_b \& \#1 \{\$x\_1\$\} \textasciitilde{} \textasciicircum{} \textbackslash{}}"
    ) in latex
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [3] * 52


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles(hostile, tmp_path):
    tables = sorted((hostile[0] / "tables").glob("*.tex"))
    body = "\n".join(table.read_text() for table in tables)
    source = tmp_path / "all.tex"
    source.write_text(f"\\documentclass{{article}}\\begin{{document}}{body}\\end{{document}}")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", source.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def test_labels_in_figures_are_never_mathematics(hostile):
    figure = draw_precision_at_k(read_run(hostile[0]), "retrieval")
    entries = figure.legends[0].get_texts()
    assert [entry.get_text() for entry in entries] == [
        "<script>alert(1)</script> 50% a…",
        "_$y_2$",
        "chance",
    ]
    assert not any(entry.get_parse_math() for entry in entries)


def test_a_learner_looks_the_same_whoever_else_has_results(tmp_path):
    trials = [fake_trial("B", partition=p) for p in range(5)]
    alone = draw_precision_at_k(make_run(tmp_path / "one", trials, ["A", "B"]), "retrieval")
    both = draw_precision_at_k(
        make_run(tmp_path / "two", [*fake_trials("A", [0.5] * 5), *trials], ["A", "B"]),
        "retrieval",
    )
    colours = [
        {
            text.get_text(): handle.get_color()
            for text, handle in zip(
                figure.legends[0].get_texts(), figure.legends[0].get_lines(), strict=True
            )
        }
        for figure in (alone, both)
    ]
    assert colours[0]["B"] == colours[1]["B"] != colours[1]["A"]


def test_curves_along_the_steps_end_where_a_partition_was_followed_no_further(tmp_path):
    whole = fake_trial("A", partition=0, n_steps=500)
    cut = fake_trial("A", partition=1, n_steps=500)
    cut = TrialResult(cut.columns, traces=[row for row in cut.traces if row["n_steps"] < 4000])
    run = make_run(tmp_path / "run", [whole, cut], ["A"], partitions=2)
    axes = draw_along_steps(run, "seen-classes").axes[0]
    ends = {tuple(line.get_xdata()) for line in axes.get_lines() if len(line.get_xdata()) > 2}
    assert (500, 1000, 2000) in ends
    test_line = axes.get_lines()[0]
    np.testing.assert_allclose(test_line.get_ydata(), [0.3, 0.4, 0.48])


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        ([], "cut short: 0 of 5 trials"),
        (
            [
                fake_trial("A", partition=p, status="crashed", reason="killed by signal 9")
                for p in range(5)
            ],
            "killed by signal 9",
        ),
        ([fake_trial("A")], "cut short: 1 of 5 trials"),
    ],
    ids=["no trial", "all crashed", "one trial"],
)
def test_a_poor_run_still_has_a_report(tmp_path, trials, said):
    make_run(tmp_path / "run", trials, ["A"], info={"finished": None})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        page = write_report(tmp_path / "run").read_text()
        summary = summary_text(read_run(tmp_path / "run"))
    assert said in page
    assert "Not drawn: no incremental learner has a trace." in page
    assert not re.search(r"\bnan\b", page)
    assert "nan" not in summary


def test_a_folder_without_a_run_is_told_in_one_line(tmp_path):
    with pytest.raises(UsageError, match="holds no run"):
        write_report(tmp_path)


def test_what_is_in_the_way_stays_and_no_half_written_file_does(tmp_path):
    make_run(tmp_path / "run", [], ["A"])
    (tmp_path / "run" / "report.html").mkdir()
    with pytest.raises(UsageError, match=r"cannot write the report to .*: Is a directory"):
        write_report(tmp_path / "run")
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left == {"results.sqlite", "report.html", "tables"}


def test_the_summary_fits_and_marks_the_best_and_tells_what_failed(tmp_path):
    lost = {"status": "failed", "reason": "ValueError: \x1b[2J " + "far too long " * 50}
    long = "L" * 150
    run = make_run(
        tmp_path / "run",
        [
            *fake_trials("A", [0.60, 0.62, 0.64, 0.66]),
            fake_trial("A", partition=4, mAP=0.68, fit_seconds=3.0),
            *fake_trials("B", [0.50, 0.50, 0.50, 0.50, 0.50]),
            *(fake_trial(long, partition=p, **lost) for p in range(5)),
        ],
        ["A", "B", long],
    )
    lines = summary_text(run).splitlines()
    assert max(map(len, lines)) <= 110
    lines = lines[lines.index("retrieval:") :]  # after the answer in sentences
    assert lines[1].split() == ["classes", "learner", "mAP", "precision@1", "precision@10"]
    assert " ".join(lines[2].split()) == "10 A 0.640±0.032* 0.740±0.032* 0.731±0.032*"
    assert " ".join(lines[3].split()) == "10 B 0.500±0.000 0.600±0.000 0.591±0.000"
    places = [[place for place, char in enumerate(line) if char == "±"] for line in lines[2:4]]
    assert places[0] == places[1]
    assert lines[4].endswith("-")
    assert "LLL…" in lines[4]
    assert lines[5].split() == ["10", "chance", "0.115", "0.096", "0.096"]
    assert lines[5].index("0.115") == places[0][0] - len("0.600")
    assert lines[6] == "costs:"
    assert " ".join(lines[7].split()) == ("classes learner tuning, s fit, s query, ms model, KiB")
    assert " ".join(lines[8].split()) == "10 A 7.00 1.00 [1.00 - 3.00] 2.00 [2.00 - 2.00] 1,024.0"
    assert " ".join(lines[10].split()[2:]) == "- - - -"
    assert "0 of 5 partitions finished; 5 failed: ValueError:" in "\n".join(lines).replace(
        "\n  ", " "
    )
    assert "\x1b" not in "".join(lines)


def several_labels(folder, words=374):
    lost = {"status": "not applicable", "reason": "LMNN takes one label an item, not several"}
    sizes = {"subset": "all", "n_classes": words, "n_train": 4500, "n_test": 499}
    trials = [fake_trial("A", partition=p, chance=0.06, n_left_out=2, **sizes) for p in range(5)]
    trials += [fake_trial("LMNN", partition=p, **sizes, **lost) for p in range(5)]
    classes = {"all": [f"word{number}" for number in range(words)]}
    info = {"classes": classes, "multi_label": True, "scaling": ("tfidf",)}
    return make_run(folder, trials, ["A", "LMNN"], info=info)


def test_several_labels_are_called_words_with_their_own_sizes(tmp_path):
    run = several_labels(tmp_path / "run")
    page = " ".join(write_report(tmp_path / "run").read_text().split())
    assert "with 374 words. Each of 5 outer partitions draws 4,500 training and 499 test" in page
    assert "images are relevant to each other where they share a word" in page
    assert "Rows of 64 features are scaled by tfidf: weighted by the idf of training rows" in page
    assert "images a class" not in page
    assert "of its class" not in page
    assert "classes" not in page
    # Noncentral t: 3.761 * sqrt(1/5 + 499/4500) = 2.097; without end 2.802 * sqrt(499/4500)
    assert "if it is at least 2.1 standard deviations of the paired differences." in page
    assert "No number of partitions does with fewer than 0.9," in page
    (table,), _ = measure_tables(run, "retrieval")
    assert table.title.startswith("Retrieval, all (374 words)")
    ceiling = "At most 0.60: 29.9 relevant images on average for 50 places."
    assert ceiling in dict(table.marked_notes).values()
    assert cost_tables(run)[0].header[0] == "Words"
    text = summary_text(run)
    assert "\nretrieval:\nwords " in text or text.startswith("retrieval:\nwords ")


def test_hundreds_of_names_are_folded_up(tmp_path):
    several_labels(tmp_path / "run")
    page = write_report(tmp_path / "run").read_text()
    parts = re.split(r"<details.*?</details>", page, flags=re.S)
    assert page.count("word373") == 1
    assert "word373" not in "".join(parts)


def test_subsets_of_one_size_are_told_apart_by_name(tmp_path):
    names = ["10", "B10", "bear+dog", "bear_dog", "+".join(f"class {n}" for n in range(90))]
    sizes = [10, 10, 2, 2, 90]
    trials = [
        fake_trial("A", n, partition=p, trial_id=f"{name}/{p}", subset=name)
        for name, n in zip(names, sizes, strict=True)
        for p in range(2)
    ]
    classes = {name: [f"c{i}" for i in range(n)] for name, n in zip(names, sizes, strict=True)}
    run = make_run(
        tmp_path / "run", trials, ["A"], partitions=2, info={"classes": classes, "command": "x"}
    )
    assert [row[0] for row in texts(cost_tables(run)[0])] == [
        "bear+dog (2)",
        "bear_dog (2)",
        "10",
        "B10 (10)",
        "class 0+class 1+class 2… (90)",
    ]
    page = " ".join(write_report(tmp_path / "run").read_text().split())
    assert "with bear+dog (2), bear_dog (2), 10, B10 (10) and class 0+class 1" in page
    files = sorted(path.stem for path in (tmp_path / "run" / "tables").glob("retrieval*.csv"))
    assert len(files) == 2 * 5  # of headlines, and of every measure
    assert {"retrieval_10", "retrieval_B10", "retrieval_bear+dog"} < set(files)
    assert max(map(len, files)) < 90
    assert max(map(len, summary_text(run).splitlines())) <= 110


def test_what_was_left_out_and_what_a_subset_needs_are_told(tmp_path):
    left_out = ["left out: 3 pictures too small <b>"]
    info = {"left_out": left_out, "notes": {"10": "two names are readings"}}
    make_run(tmp_path / "run", fake_trials("A", [0.5] * 5), ["A"], info=info)
    page = write_report(tmp_path / "run").read_text()
    assert "Left out: 3 pictures too small &lt;b&gt;" in page
    assert "On 10: two names are readings." in page


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seconds", [1e-3, 3.94e-4, 0.25])
def test_a_single_run_time_has_a_figure_without_a_warning(tmp_path, seconds):
    records = [fake_trial("A", fit_seconds=seconds)]
    make_run(tmp_path / "run", records, ["A"], partitions=1)
    write_report(tmp_path / "run")
    assert (tmp_path / "run" / "figures" / "costs.svg").stat().st_size > 1000
