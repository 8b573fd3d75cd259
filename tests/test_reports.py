"""What the reports make of a run's store."""

import base64
import json
import re
import shutil
import subprocess
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from oasis_bench.errors import UsageError
from oasis_bench.reports import summary_text, write_report
from oasis_bench.reports.figures import draw_along_steps, draw_precision_at_k
from oasis_bench.reports.html import to_latex
from oasis_bench.reports.tables import (
    precision_numbers,
    precision_tables,
    runtime_table,
    selection_table,
    unfinished_table,
)
from oasis_bench.store import Store, TrialRecord, read_run

HOSTILE = "<script>alert(1)</script> 50% a_b & #1 {$x_1$} ~ ^ \\"


def trial(learner, subset=10, partition=0, mAP=0.5, steps=None, params=None, **columns):
    """A trial; precision at k falls from mAP + 0.2 at k = 1 by 0.001 each k."""
    n_test = subset * 25
    text = json.dumps(params or {})
    identity = {
        "trial_id": f"{learner}/{subset}/{partition}",
        "learner": learner,
        "algorithm": "OASIS",
        "dataset": "made up",
        "subset": str(subset),
        "n_classes": subset,
        "partition": partition,
        "n_train": subset * 40,
        "n_test": n_test,
        "n_features": 64,
        "threads": 1,
        "shared_cores": 0,
        "finished": "2025-11-21T07:00:00+00:00",
    }
    if columns.get("status", "ok") != "ok":
        return TrialRecord({**identity, **columns})
    measured = {
        "status": "ok",
        "params": text,
        "n_steps": steps,
        "fit_seconds": 1.0,
        "fit_cpu_seconds": 1.0,
        "fit_peak_bytes": 2**21,
        "selection_fit_seconds": 5.0,
        "selection_score_seconds": 2.0,
        "mean_average_precision": mAP,
        "chance_level": 24 / (n_test - 1),
        "n_queries": n_test,
        "n_queries_left_out": 0,
    }
    missing = {} if steps is None else {500: 0.2, 1000: 0.1, 2000: 0.02, 4000: 0.0}
    return TrialRecord(
        {**identity, **measured, **columns},
        precision_at_k=[
            {"k": k, "precision": mAP + 0.2 - 0.001 * (k - 1)}
            for k in range(1, min(50, n_test - 1) + 1)
        ],
        validation=[
            {
                "params": text,
                "n_steps": n_steps,
                "fold": fold,
                "mean_average_precision": mAP - lack + 0.01 * fold,
            }
            for n_steps, lack in missing.items()
            for fold in range(5)
        ],
        traces=[
            {"split": split, "n_steps": n_steps, "mean_average_precision": mAP - lack + more}
            for n_steps, lack in missing.items()
            for split, more in (("train", 0.1), ("test", 0.0))
        ],
    )


def make_run(folder, trials, labels, classes=(10,), partitions=5, info=None):
    """Write a run as the harness does and read it back."""
    values = {
        "experiment": {
            "title": "A made-up comparison",
            "dataset": "made up",
            "classes": list(classes),
            "partitions": partitions,
            "inner_folds": 5,
            "train_per_class": 40,
            "test_per_class": 25,
            "seed": 3,
            "threads": 1,
            "normalize": "l2",
            "learners": {label: {"algorithm": "OASIS", "params": {}} for label in labels},
        },
        "classes": {str(n): [f"class {i}" for i in range(n)] for n in classes},
        "provenance": {"machine": {"cpu": "a CPU", "cores": 2}, "load": [0.1, 0.2]},
        "planned_trials": len(labels) * len(classes) * partitions,
        "started": "2025-11-21T06:00:00+00:00",
        "finished": "2025-11-21T07:00:00+00:00",
        **(info or {}),
    }
    with Store.create(folder) as store:
        store.write_info(**{key: value for key, value in values.items() if value is not None})
        for record in trials:
            store.add(record)
    return read_run(folder)


def texts(table):
    """The rows of a table as text, bold ones starred, without footnote marks."""
    return [[cell.text + "*" * cell.bold for cell in row] for row in table.rows]


def five(learner, values, **columns):
    return [trial(learner, partition=p, mAP=value, **columns) for p, value in enumerate(values)]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """The folder of a report whose every text wants to be code, and its files' bytes."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    make_run(
        folder,
        [
            trial(HOSTILE, mAP=0.5, steps=1000, params={"<i>": "&"}),
            trial(HOSTILE, mAP=0.6, partition=1, steps=500),
            trial("_$y_2$", mAP=0.4),
            trial(
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
            "command": ["oasis-bench", "run", "a b"],
        },
    )
    write_report(folder)
    return folder, contents(folder)


def contents(folder):
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_precision_cells_are_hand_computed_means_and_deviations(tmp_path):
    run = make_run(
        tmp_path / "run",
        [*five("A", [0.60, 0.62, 0.64, 0.66, 0.68]), *five("B", [0.50, 0.50, 0.50, 0.50, 0.50])],
        ["A", "B"],
    )
    (table,) = precision_tables(run)
    assert table.header == ("", "A", "B", "Chance")
    assert texts(table) == [  # sd of 0.60 ... 0.68 is sqrt(0.001) = 0.0316; chance is 24 / 249
        ["mAP", "0.640 ± 0.032*", "0.500 ± 0.000", "0.096"],
        ["precision at 1", "0.840 ± 0.032*", "0.700 ± 0.000", "0.096"],
        ["precision at 10", "0.831 ± 0.032*", "0.691 ± 0.000", "0.096"],
        ["precision at 50", "0.791 ± 0.032*", "0.651 ± 0.000", "0.096"],
    ]
    raw = table.numbers.set_index(["learner", "measure"]).loc[("A", "mAP")]
    assert (raw["mean"], raw["sd"], raw["n"]) == pytest.approx((0.64, np.sqrt(0.001), 5))


def test_whoever_is_not_distinguishable_from_the_best_is_bold_too(tmp_path):
    run = make_run(
        tmp_path / "run",
        [
            *five("top", [0.71, 0.72, 0.73, 0.74, 0.75]),
            *five("near", [0.70, 0.70, 0.70, 0.70, 0.70]),  # differs by 0.03 ± 0.040
            *five("far", [0.30, 0.31, 0.32, 0.33, 0.34]),
        ],
        ["top", "near", "far"],
    )
    (table,) = precision_tables(run)
    assert [cell.bold for cell in table.rows[0][1:4]] == [True, True, False]
    assert table.notes == [
        ("", "Bold: best, or not distinguishable from the best by the paired 95 % interval.")
    ]


def test_with_one_partition_nothing_is_bold_and_the_spread_is_not_available(tmp_path):
    run = make_run(tmp_path / "run", [trial("A", mAP=0.9), trial("B")], ["A", "B"], partitions=1)
    (table,) = precision_tables(run)
    assert texts(table)[0] == ["mAP", "0.900 ± n/a", "0.500 ± n/a", "0.096"]
    assert "fewer than two shared partitions nothing can be told apart" in table.notes[-1][1]


def test_a_failed_learner_is_a_dash_with_its_reason_and_a_partial_one_says_how_partial(tmp_path):
    lost = {"status": "failed", "reason": "ValueError: no", "traceback": "Traceback ..."}
    run = make_run(
        tmp_path / "run",
        [
            *five("A", [0.5, 0.6, 0.7, 0.8, 0.9]),
            *(trial("B", partition=p, **lost) for p in range(4)),
            *five("C", [0.1, 0.2, 0.3, 0.4]),
        ],
        ["A", "B", "C"],
    )
    (table,) = precision_tables(run)
    assert table.rows[0][2].text == "-"
    assert [cell.marks for cell in table.rows[0]] == [(), (), ("a",), ("b",), ()]
    assert table.notes[:2] == [
        ("a", "B: 0 of 5 partitions finished; 4 failed: ValueError: no; 1 not run."),
        ("b", "C: 4 of 5 partitions finished; 1 not run."),
    ]
    assert table.notes[2][1].endswith("Compared on the 4 partitions that all share.")
    assert texts(unfinished_table(run)) == [
        ["B", "10", str(p), "failed", "ValueError: no"] for p in range(4)
    ]


def test_a_k_beyond_the_other_test_images_is_a_dash_that_says_so(tmp_path):
    run = make_run(
        tmp_path / "run", [trial("A", 2, 0), trial("A", 2, 1)], ["A"], classes=[2], partitions=2
    )
    (table,) = precision_tables(run)
    assert texts(table)[3] == ["precision at 50", "-", "-"]
    assert table.notes[0] == ("a", "Only 49 other test images.")


def test_subsets_stand_in_order_of_size_and_learners_in_that_of_the_experiment(tmp_path):
    trials = [trial(learner, n) for n in (10, 2) for learner in ("a", "z")]
    run = make_run(tmp_path / "run", trials, ["z", "a"], classes=(10, 2), partitions=1)
    rows = texts(runtime_table(run))
    assert [row[:2] for row in rows] == [["2", "z"], ["2", "a"], ["10", "z"], ["10", "a"]]


def test_runtime_is_median_and_range_with_memory_choice_and_shared_cores(tmp_path):
    seconds = [4.0, 1.0, 3.0, 2.0, 100.0]
    run = make_run(
        tmp_path / "run",
        [
            trial(
                "A",
                partition=p,
                fit_seconds=s,
                fit_cpu_seconds=2 * s,
                fit_peak_bytes=None if p else 3 * 2**20,
                steps=(500, 1000, 1000, 2000, 4000)[p],
                params={"C": 0.1 if p < 4 else 0.2},
                shared_cores=int(p == 2),
            )
            for p, s in enumerate(seconds)
        ]
        + [trial("B", partition=p, fit_peak_bytes=None) for p in range(5)],
        ["A", "B"],
    )
    table = runtime_table(run)
    assert texts(table) == [
        ["10", "A", "3.00 [1.00 – 100]", "6.00", "3.0", "C=0.1 (4 of 5)", "1,000", "5.00", "2.00"],
        ["10", "B", "1.00 [1.00 – 1.00]", "1.00", "n/a", "none", "none", "5.00", "2.00"],
    ]
    assert table.rows[0][2].marks == ("a",)
    assert "ran on the same cores" in table.notes[0][1]
    raw = table.numbers.set_index(["learner", "quantity"]).loc[("A", "fit_seconds")]
    assert raw[["median", "min", "max", "n"]].tolist() == [3, 1, 100, 5]


def test_selection_shows_what_was_chosen_and_what_its_folds_scored(tmp_path):
    run = make_run(
        tmp_path / "run",
        [
            trial("A", partition=p, mAP=0.5, steps=n, params={"C": n})
            for p, n in ((1, 2000), (0, 500))
        ],
        ["A"],
        partitions=2,
    )
    # The folds add 0, 0.01 ... 0.04; at 2000 steps 0.02 is missing to 0.5, at 500 steps 0.2.
    assert texts(selection_table(run)) == [
        ["10", "A", "1", "C=500 (1); C=2000 (1)", "500, 2,000", "0.410", "0.500"]
    ]


def test_csv_holds_the_raw_numbers(hostile):
    folder, _ = hostile
    numbers = precision_numbers(read_run(folder))
    written = pd.read_csv(
        folder / "tables" / "precision_10.csv", keep_default_na=False, na_values=[""]
    )
    assert written["learner"].tolist() == numbers["learner"].tolist()
    np.testing.assert_array_equal(written["mean"], numbers["mean"])


def test_no_text_becomes_markup_in_the_page(hostile):
    page = hostile[1]["report.html"].decode()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    for tag in ("<script", "<b>", "<u>", "<em>", "<i>", "<img src=x"):
        assert tag not in page
    for text in ("&lt;b&gt;100%&lt;/b&gt;", "&lt;u&gt;cat", "&lt;em&gt;", "&lt;img src=x&gt;"):
        assert text in page


class _Targets(HTMLParser):
    """Whatever a page could load or link to."""

    def __init__(self):
        super().__init__()
        self.targets = []

    def handle_starttag(self, tag, attributes):
        self.targets += [
            v for k, v in attributes if k in ("src", "href", "srcset", "data", "action")
        ]


def test_the_page_loads_nothing(hostile):
    page = hostile[1]["report.html"].decode()
    parser = _Targets()
    parser.feed(page)
    pictures = [target for target in parser.targets if target.startswith("data:image/svg+xml;")]
    assert len(pictures) == 3
    assert all(target.startswith("#") for target in set(parser.targets) - set(pictures))
    assert not re.search(r"url\(|@import", page)
    for picture in pictures:
        svg = base64.b64decode(picture.partition("base64,")[2]).decode()
        assert svg.rstrip().endswith("</svg>")
        assert not re.search(r"""href=["'](?!#)""", svg)


def test_a_rebuilt_report_is_the_same_bytes_and_leaves_nothing_else(hostile):
    folder, first = hostile
    write_report(folder)
    assert contents(folder) == first
    figures = ("map_along_steps", "precision_at_k", "runtime")
    tables = ("precision_10", "runtime", "selection", "unfinished")
    assert set(first) == {
        "report.html",
        "results.sqlite",
        *(f"figures/{name}.{kind}" for name in figures for kind in ("png", "svg")),
        *(f"tables/{name}.{kind}" for name in tables for kind in ("csv", "tex")),
    }


def test_the_command_is_quoted_for_a_shell(hostile):
    assert "oasis-bench run &#39;a b&#39;" in hostile[1]["report.html"].decode()


def test_latex_text_is_escaped(hostile):
    latex = to_latex(precision_tables(read_run(hostile[0]))[0])
    assert (
        r"\textbf{\textless{}script\textgreater{}alert(1)\textless{}/script\textgreater{} "
        r"50\% a\_b \& \#1 \{\$x\_1\$\} \textasciitilde{} \textasciicircum{} \textbackslash{}}"
    ) in latex
    rows = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert [len(re.findall(r"(?<!\\)&", row)) for row in rows] == [3] * 5


def test_a_row_that_begins_with_a_bracket_or_star_is_no_option_of_the_row_before(tmp_path):
    lost = {"status": "failed", "reason": "no"}
    run = make_run(tmp_path / "run", [trial("[x]", **lost), trial("*", **lost)], ["[x]", "*"])
    latex = to_latex(unfinished_table(run))
    assert "\n{[}x{]} & 10" in latex
    assert "\n{*} & 10" in latex


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
    figure = draw_precision_at_k(read_run(hostile[0]))
    entries = figure.legends[0].get_texts()
    assert [entry.get_text() for entry in entries] == [
        "<script>alert(1)</script> 50% a…",
        "_$y_2$",
        "chance",
    ]
    assert not any(entry.get_parse_math() for entry in entries)


def test_a_learner_looks_the_same_whoever_else_has_results(tmp_path):
    trials = [trial("B", partition=p) for p in range(5)]
    alone = draw_precision_at_k(make_run(tmp_path / "one", trials, ["A", "B"]))
    both = draw_precision_at_k(
        make_run(tmp_path / "two", [*five("A", [0.5] * 5), *trials], ["A", "B"])
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
    whole = trial("A", partition=0, steps=500)
    cut = trial("A", partition=1, steps=500)
    cut = TrialRecord(cut.columns, traces=[row for row in cut.traces if row["n_steps"] < 4000])
    run = make_run(tmp_path / "run", [whole, cut], ["A"], partitions=2)
    axes = draw_along_steps(run).axes[0]
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
                trial("A", partition=p, status="crashed", reason="killed by signal 9")
                for p in range(5)
            ],
            "killed by signal 9",
        ),
        ([trial("A")], "cut short: 1 of 5 trials"),
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
            *five("A", [0.60, 0.62, 0.64, 0.66, 0.68]),
            *five("B", [0.50, 0.50, 0.50, 0.50, 0.50]),
            *(trial(long, partition=p, **lost) for p in range(5)),
        ],
        ["A", "B", long],
    )
    lines = summary_text(run).splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0].split() == ["classes", "learner", "mAP", "P@1", "P@10", "P@50", "fit,", "s"]
    assert " ".join(lines[1].split()) == "10 A 0.640 ± 0.032* 0.840* 0.831* 0.791* 1.00"
    assert " ".join(lines[2].split()) == "10 B 0.500 ± 0.000 0.700 0.691 0.651 1.00"
    assert lines[3].endswith("-")
    assert "LLL…" in lines[3]
    assert "0 of 5 partitions finished; 5 failed: ValueError:" in "\n".join(lines).replace(
        "\n  ", " "
    )
    assert "\x1b" not in "".join(lines)
