"""The page of a run, its files and its summary; hostile names stay text."""

import re
import shutil
import subprocess
import warnings

import numpy as np
import pandas as pd
import pytest
from fake_runs import FakeTrial, fake_trial, make_run, split_source, task_source
from report_helpers import contents

from oasis_bench.reports import summary_text, write_report
from oasis_bench.reports.figures import draw_along_steps
from oasis_bench.reports.measures import measure_tables
from oasis_bench.reports.report import methods, references
from oasis_bench.reports.report_files import unbroken
from oasis_bench.reports.table import to_latex
from oasis_bench.reports.view import view_of
from oasis_bench.runs import read_run

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
    numbers = view_of(read_run(folder)).numbers["retrieval"]
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


def test_a_rebuilt_report_is_the_same_bytes_and_leaves_nothing_else(hostile):
    folder, first = hostile
    write_report(folder)
    assert contents(folder) == first
    figures = [f"retrieval_{it}" for it in ("against_time", "precision_at_k")]
    tables = ("retrieval_10", "costs", "selection", "unfinished")
    assert set(first) == {
        "report.html",
        "results.sqlite",
        *(f"figures/{name}.svg" for name in (*figures, "along_steps")),
        *(f"tables/{name}.{kind}" for name in tables for kind in ("csv", "tex")),
    }


def test_options_and_percentages_stay_on_a_line_and_texts_stay_escaped():
    text = "run a-b --test-share 0.5 -m <b> (--blend off) x--y 95 % of"
    whole = '<span class="whole">{}</span>'.format
    assert unbroken(text) == (
        f"run a-b {whole('--test-share')} 0.5 {whole('-m')} &lt;b&gt; "
        f"({whole('--blend')} off) x--y 9{whole('5 %')} of"
    )


def test_latex_text_is_escaped(hostile):
    (table,) = measure_tables(view_of(read_run(hostile[0])), "retrieval")
    latex = to_latex(table)
    assert (
        r"\textless{}script\textgreater{}alert(1)\textless{}/script\textgreater{} "
        r"50\% a\_b \& \#1 \{\$x\_1\$\} \textasciitilde{} \textasciicircum{} \textbackslash{}"
    ) in latex
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [4] * 4


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex")
def test_latex_compiles(hostile, tmp_path):
    tables = sorted((hostile[0] / "tables").glob("*.tex"))
    body = "\n".join(table.read_text() for table in tables)
    source = tmp_path / "all.tex"
    source.write_text(f"\\documentclass{{article}}\\begin{{document}}{body}\\end{{document}}")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", source.name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def test_curves_along_the_steps_end_where_a_partition_was_followed_no_further(tmp_path):
    whole = fake_trial("A", partition=0, n_steps=500)
    cut = fake_trial("A", partition=1, n_steps=500)
    cut = FakeTrial(cut.columns, traces=[row for row in cut.traces if row["n_steps"] < 4000])
    run = make_run(tmp_path / "run", [whole, cut], ["A"], partitions=2)
    axes = draw_along_steps(view_of(run), "seen-classes").panels[0]
    ends = {tuple(line.get_xdata()) for line in axes.get_lines() if len(line.get_xdata()) > 2}
    assert (500, 1000, 2000) in ends
    test_line = axes.get_lines()[0]
    np.testing.assert_allclose(test_line.get_ydata(), [0.3, 0.4, 0.48])


@pytest.mark.parametrize(
    ("trials", "said"),
    [
        ([], "incomplete: 0 of 5 trials"),
        (
            [
                fake_trial("A", partition=p, status="crashed", reason="killed by signal 9")
                for p in range(5)
            ],
            "killed by signal 9",
        ),
        ([fake_trial("A")], "incomplete: 1 of 5 trials"),
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
    assert not re.search(r"\bnan\b", page)
    assert "nan" not in summary


def test_the_methods_cite_each_source_once_and_are_valid_latex(hostile):
    text, latex, bibtex = methods(view_of(read_run(hostile[0])))
    assert "<script>" in text
    assert "\\cite" not in text
    assert r"\textless{}script\textgreater{}" in latex
    keys = [key for keys in re.findall(r"\\cite\{(.*?)\}", latex) for key in keys.split(",")]
    assert "oasisbench" in keys
    assert "holm1979" not in keys  # one partition has both learners: nothing is tested
    assert re.findall(r"@misc\{(\w+),", bibtex) == list(dict.fromkeys(keys))


def test_a_citation_has_the_key_of_its_first_author_and_year():
    assert references(
        "Bar-Hillel & Šaul, ICML 20 (2003); MAP@R: Oh Song et al. (2016), A; a library"
    ) == {
        "barhillel2003": "Bar-Hillel & Šaul, ICML 20 (2003)",
        "oh2016": "Oh Song et al. (2016), A",
    }
    assert references("none") == {}
    assert [*references("van den Oord et al., arXiv:1807.03748 (2018)")] == ["van2018"]
