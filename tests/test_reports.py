"""What the reports make of a run's store."""

import base64
import io
import json
import re
import shutil
import subprocess
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from oasis_bench.reports import summary_text, write_report
from oasis_bench.reports.differences import difference_tables
from oasis_bench.reports.figures import (
    draw_all,
    draw_along_steps,
    draw_precision_at_k,
    draw_runtime,
    draw_symmetry,
)
from oasis_bench.reports.latex import to_latex
from oasis_bench.reports.precision import precision_numbers, precision_tables
from oasis_bench.reports.retrieved import all_pictures, retrieved
from oasis_bench.reports.scaling import scaling_tables
from oasis_bench.reports.settings import settings_text
from oasis_bench.reports.symmetry import symmetry_tables
from oasis_bench.reports.tables import runtime_table, selection_table, unfinished_table
from oasis_bench.store.run_file import Store, read_run
from oasis_bench.system.errors import UsageError
from oasis_bench.trial.record import TrialRecord

HOSTILE = "<script>alert(1)</script> 50% a_b & #1 {$x_1$} ~ ^ \\"


def trial(learner, n_classes=10, partition=0, mAP=0.5, steps=None, params=None, **columns):
    """A trial; precision at k falls from mAP + 0.2 at k = 1 by 0.001 each k."""
    n_test = n_classes * 25
    text = json.dumps(params or {})
    identity = {
        "trial_id": f"{learner}/{n_classes}/{partition}",
        "learner": learner,
        "algorithm": "OASIS",
        "dataset": "made up",
        "subset": str(n_classes),
        "n_classes": n_classes,
        "partition": partition,
        "n_train": n_classes * 40,
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


def make_run(
    folder, trials, labels, classes=(10,), partitions=5, info=None, params=None, pictures=()
):
    """Write a run as the harness does and read it back; `params` are those of each learner."""
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
            "budget": "1h",
            "memory": "off",
            "learners": {
                label: {
                    "algorithm": "OASIS",
                    "params": (params or {}).get(label, {}),
                    "budget": "10m" if label == "lost" else None,
                    "memory": None,
                }
                for label in labels
            },
        },
        "classes": {str(n): [f"class {i}" for i in range(n)] for n in classes},
        "provenance": {"machine": {"cpu": "a CPU", "cores": 2}, "load": [0.1, 0.2]},
        "planned_trials": len(labels) * len(classes) * partitions,
        "started": "2025-11-21T06:00:00+00:00",
        "finished": "2025-11-21T07:00:00+00:00",
        **(info or {}),
    }
    with Store.create(folder) as store:
        if values["finished"] is None:
            del values["finished"]
        store.write_info(**values)
        store.add_pictures(pictures)
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
            "command": "oasis-bench run 'a b'",
            "sources": {
                "dataset": {"name": "<q>", "summary": "<q>", "citation": "<q>", "licence": "<q>"},
                "learners": {"_$y_2$": {"summary": "<q>", "citation": "Us & them (2010)"}},
            },
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
    ((_, note),) = table.notes[1:]
    assert note.startswith("Bold: best, or not distinguishable from the best")
    assert note.endswith("(level 0.05 for all comparisons of a row together, by Holm).")


def test_differences_from_the_best_have_an_interval_a_corrected_p_and_what_could_be_seen(tmp_path):
    run = make_run(
        tmp_path / "run",
        [
            *five("top", [0.71, 0.72, 0.73, 0.74, 0.75]),
            *five("near", [0.70, 0.70, 0.70, 0.70, 0.70]),
            *five("middle", [0.67, 0.67, 0.67, 0.67, 0.67]),
            *five("far", [0.30, 0.31, 0.32, 0.33, 0.34]),
        ],
        ["top", "near", "middle", "far"],
    )
    (table,) = difference_tables(run)
    assert (table.name, table.header[4]) == ("differences_10", "p, Holm")
    assert table.title == "mAP of top, the best, less that of each learner, 10 classes"
    # sd 0.0158, standard error 0.0158 sqrt(1/5 + 250/400) = 0.01436; t(4) reaches 2.776 of these,
    # and p of t = 2.089 and 4.178 is 0.105 and 0.0139.  Seen with power 0.8: 3.761 of these.
    assert texts(table) == [
        ["near", "0.030", "-0.010 to 0.070", "0.10", "0.10", "not told apart", "0.054"],
        ["middle", "0.060", "0.020 to 0.100", "0.014", "0.028", "worse", "0.054"],
        ["far", "0.410", "0.410 to 0.410", "< 0.0001", "< 0.0001", "worse", "0.000"],
    ]
    assert "corrected for the 3 comparisons of this table" in table.notes[0][1]
    assert "over 5 partitions, a true difference of 0.000 to 0.054" in table.notes[1][1]
    assert set(table.numbers["measure"]) == {"mAP", *(f"precision at {k}" for k in (1, 10, 50))}
    page = write_report(tmp_path / "run").read_text()
    assert page.count("mAP of top, the best, less") == 2  # the caption, and the table's label
    assert (tmp_path / "run" / "tables" / "differences_10.tex").is_file()


def test_without_a_comparison_there_is_no_table_of_differences(tmp_path):
    run = make_run(tmp_path / "run", [trial("A"), trial("B")], ["A", "B"])
    assert difference_tables(run) == []
    assert "Differences from the best" not in write_report(tmp_path / "run").read_text()


def test_with_one_partition_nothing_is_bold_and_the_spread_is_not_available(tmp_path):
    run = make_run(tmp_path / "run", [trial("A", mAP=0.9), trial("B")], ["A", "B"], partitions=1)
    (table,) = precision_tables(run)
    assert texts(table)[0] == ["mAP", "0.900 ± n/a", "0.500 ± n/a", "0.096"]
    assert "on fewer nothing can be told apart" in table.notes[-1][1]


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
    assert table.notes[-1][1].endswith("on the partitions that it and the best both finished.")
    assert texts(unfinished_table(run)) == [["B", "10", "0, 1, 2, 3", "failed", "ValueError: no"]]
    assert unfinished_table(run).numbers["partition"].tolist() == [0, 1, 2, 3]


def test_who_could_not_be_compared_with_the_best_is_told_and_not_bold(tmp_path):
    run = make_run(
        tmp_path / "run",
        [*five("A", [0.5, 0.6, 0.7, 0.8, 0.9]), *five("B", [0.1] * 5), *five("C", [0.99])],
        ["A", "B", "C"],
    )
    (table,) = precision_tables(run)
    assert [cell.bold for cell in table.rows[0][1:4]] == [True, False, False]
    told = "C: not compared, as it shares 1 partition with A, the best; 2 are needed."
    assert told in dict(table.notes).values()


def test_who_is_above_the_best_where_both_finished_is_bold_with_a_word_on_it(tmp_path):
    trials = [*five("A", [0.1, 0.2, 0.3, 0.4, 0.5]), *five("B", [0.2, 0.3, 0.4, 0.5])]
    (table,) = precision_tables(make_run(tmp_path / "run", trials, ["A", "B"]))
    assert [cell.bold for cell in table.rows[0][1:3]] == [True, True]
    told = "B: above A, the best, on the 4 partitions that both finished."
    assert told in dict(table.notes).values()


def test_a_learner_that_cannot_take_the_data_is_a_dash_but_is_not_called_failed(tmp_path):
    lost = {"status": "not applicable", "reason": "LMNN takes one label an image, not several"}
    trials = [*five("A", [0.5] * 5), *(trial("LMNN", partition=p, **lost) for p in range(5))]
    run = make_run(tmp_path / "run", trials, ["A", "LMNN"])
    (table,) = precision_tables(run)
    assert table.rows[0][2].text == "-"
    assert table.notes[0] == (
        "a",
        "LMNN: not applicable: LMNN takes one label an image, not several.",
    )
    page = write_report(tmp_path / "run").read_text()
    assert "Trials without a result" in page
    assert "failed" not in page.lower()
    assert texts(unfinished_table(run))[0][2:4] == ["0, 1, 2, 3, 4", "not applicable"]


def test_a_k_beyond_the_other_test_images_is_a_dash_that_says_so(tmp_path):
    run = make_run(
        tmp_path / "run", [trial("A", 2, 0), trial("A", 2, 1)], ["A"], classes=[2], partitions=2
    )
    (table,) = precision_tables(run)
    assert texts(table)[3] == ["precision at 50", "-", "-"]
    assert [row[0].marks for row in table.rows] == [(), (), (), ("a",)]
    assert table.notes[0] == ("a", "Only 49 other test images.")


def test_where_k_exceeds_the_relevant_images_the_row_tells_the_ceiling(tmp_path):
    run = make_run(tmp_path / "run", five("A", [0.5] * 5), ["A"])
    (table,) = precision_tables(run)
    assert [row[0].marks for row in table.rows] == [(), (), (), ("a",)]
    assert table.notes[0] == ("a", "At most 0.48: 24 relevant images for 50 places.")


def test_test_images_that_are_no_queries_are_told(tmp_path):
    trials = [trial(x, partition=p, n_queries_left_out=p) for x in "AB" for p in (0, 3)]
    run = make_run(tmp_path / "run", trials, ["A", "B"], partitions=2)
    (table,) = precision_tables(run)
    assert table.notes[-1] == (
        "",
        "Of the 250 test images of a partition, 1.5 on average have no relevant other and are no "
        "queries.",
    )


def test_the_chance_level_counts_each_partition_once_whoever_finished_it(tmp_path):
    trials = [trial("A", partition=p, chance_level=0.1 * (p + 1)) for p in (0, 1)]
    trials += [trial("B", partition=0, chance_level=0.1)]
    run = make_run(tmp_path / "run", trials, ["A", "B"], partitions=2)
    assert precision_tables(run)[0].rows[0][-1].text == "0.150"


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


@pytest.mark.parametrize(
    ("waiting", "seconds", "is_noisy"),
    [(0.06, 1.0, True), (0.04, 1.0, False), (0.009, 0.01, False), (None, 1.0, False)],
    ids=["over 5 %", "under 5 %", "under 10 ms", "not measurable"],
)
def test_a_fit_that_waited_for_a_core_is_marked(tmp_path, waiting, seconds, is_noisy):
    other = [trial("B", partition=p, fit_waiting_seconds=None) for p in range(5)]
    waited = trial("A", partition=0, fit_seconds=seconds, fit_waiting_seconds=waiting)
    clean = [trial("A", partition=p, fit_waiting_seconds=0.0) for p in range(1, 5)]
    run = make_run(tmp_path / "run", [waited, *clean, *other], ["A", "B"])
    table, figure = runtime_table(run), draw_runtime(run)
    assert [bool(row[2].marks) for row in table.rows] == [is_noisy, False]
    assert any("Noisy in 1 of 5 partitions:" in text for _, text in table.notes) == is_noisy
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["A", "B", *(["noisy"] if is_noisy else [])]
    said = "1 of 10 trials; the table says whose"
    assert (said in draw_all(run)["runtime"].caption) == is_noisy
    assert ("fit times of 1 trial are noisy" in summary_text(run)) == is_noisy


def test_fit_time_has_an_exponent_where_there_are_three_sizes(tmp_path):
    """A's medians are n ** 1.5, whatever single partitions took; B has two sizes."""
    trials = [
        trial("A", n, partition=p, fit_seconds=1e-6 * (40 * n) ** 1.5 * factor)
        for n in (2, 5, 10, 20)
        for p, factor in enumerate((0.5, 1, 7))
    ]
    trials += [trial("B", n, partition=p) for n in (2, 5) for p in range(3)]
    run = make_run(tmp_path / "run", trials, ["A", "B"], classes=(2, 5, 10, 20), partitions=3)
    (table,) = scaling_tables(run)
    assert texts(table) == [["A", "1.50", "1.50 to 1.50", "80, 200, 400, 800"]]
    assert "Each class has 40 training images" in table.notes[-1][1]
    assert "Growth of fit time" in write_report(tmp_path / "run").read_text()


def test_noisy_timings_are_left_out_of_the_exponent(tmp_path):
    """Fit time is linear, but for one trial of the largest size that waited for a core."""
    sizes = (2, 5, 10)
    trials = [
        trial("A", n, partition=p, fit_seconds=float(n), fit_waiting_seconds=0.0)
        for n in sizes
        for p in range(2)
    ]
    trials[-1] = trial("A", 10, partition=1, fit_seconds=1000.0, fit_waiting_seconds=900.0)
    run = make_run(tmp_path / "run", trials, ["A"], classes=sizes, partitions=2)
    (table,) = scaling_tables(run)
    assert texts(table) == [["A", "1.00", "1.00 to 1.00", "80, 200, 400"]]
    assert table.rows[0][2].marks == ("a",)
    assert table.notes[0][1].startswith("Left out: 1 of 6 trials, as the fit waited for a core")


def test_a_size_whose_timings_are_all_noisy_is_dropped_only_where_three_are_left(tmp_path):
    """n ** 1 but for the last size of each learner, of 10 times that; A has four sizes, B three."""
    sizes = {"A": (2, 5, 10, 20), "B": (2, 5, 20)}
    trials = [
        trial(
            *(learner, n),
            fit_seconds=n * (10.0 if n == 20 else 1.0),
            fit_waiting_seconds=9.0 * n if n == 20 else 0.0,
        )
        for learner, own in sizes.items()
        for n in own
    ]
    run = make_run(tmp_path / "run", trials, ["A", "B"], classes=sizes["A"], partitions=1)
    (table,) = scaling_tables(run)
    slope = np.polyfit(np.log([2, 5, 20]), np.log([2, 5, 200]), 1)[0]
    assert [(row[1], row[3]) for row in texts(table)] == [
        ("1.00", "80, 200, 400"),
        (f"{slope:.2f}", "80, 200, 800"),
    ]
    assert table.rows[0][2].marks == ("a",)
    assert table.notes[0][1].startswith("Left out: 1 of 4 trials")
    assert table.notes[1][1].startswith("Noisy: 1 of 3 trials")
    assert "so they are kept" in table.notes[1][1]


def test_an_exponent_of_fits_on_shared_cores_is_marked(tmp_path):
    trials = [
        trial(learner, n, fit_seconds=float(n), shared_cores=int(learner == "B" and n == 5))
        for learner in "AB"
        for n in (2, 5, 10)
    ]
    run = make_run(tmp_path / "run", trials, ["A", "B"], classes=(2, 5, 10), partitions=1)
    (table,) = scaling_tables(run)
    assert [row[2].marks for row in table.rows] == [(), ("a",)]
    assert table.notes[0][1].startswith("From fits on shared cores")


def test_a_wide_interval_of_an_exponent_is_marked(tmp_path):
    seconds = {2: 1.0, 5: 4.0, 10: 5.0}
    trials = [trial("A", n, partition=0, fit_seconds=s) for n, s in seconds.items()]
    run = make_run(tmp_path / "run", trials, ["A"], classes=(2, 5, 10), partitions=1)
    (table,) = scaling_tables(run)
    assert table.rows[0][2].marks == ("a",)
    assert table.notes[0][1].startswith("Wide: the interval does not tell linear growth")


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


def test_only_a_search_that_ended_at_its_last_checkpoint_is_called_cut_off(tmp_path):
    """The checkpoints of `trial` go from 500 to 4000; B's steps were given, nothing was seen."""
    given = [trial("B", partition=p, steps=4000) for p in range(3)]
    given = [TrialRecord(record.columns) for record in given]
    searched = [trial("A", partition=p, steps=n) for p, n in enumerate((4000, 500, 4000))]
    run = make_run(tmp_path / "run", [*searched, *given], ["A", "B"], partitions=3)
    table = selection_table(run)
    assert [row[4].marks for row in table.rows] == [("a",), ()]
    assert table.notes == [
        (
            "a",
            "In 2 of 3 partitions mAP still rose at the last checkpoint (4,000 steps): a larger "
            "max_steps may do better.",
        )
    ]


def test_what_was_searched_and_what_was_fixed_is_told_from_the_data(tmp_path):
    points = [
        {"params": json.dumps({"k": k}), "n_steps": None, "fold": 0, "mean_average_precision": 0.1}
        for k in (1, 3)
    ]
    own_space = TrialRecord(trial("own space", params={"k": 3}).columns, validation=points)
    run = make_run(
        tmp_path / "run",
        [
            trial("early stopping", steps=500, params={"C": 0.1}),
            own_space,
            trial("fixed", params={"pull": 0.5, "n_steps": 7}),
            trial("lost", status="failed", reason="no"),
            trial("plain"),
        ],
        ["early stopping", "own space", "fixed", "lost", "plain"],
        params={"early stopping": {"C": 0.1}, "lost": {"eta": [1, 2], "mu": 4}},
    )
    assert settings_text(run) == (
        "Chosen on 5 inner folds of the training images: early stopping (steps), own space (k), "
        "lost (eta). Fixed: early stopping C = 0.1; fixed pull = 0.5, n_steps = 7; lost mu = 4. "
        "All else is at the learners' defaults. "
        "Limits of a fit: time 1h, memory off; lost time 10m."
    )
    assert settings_text(run).replace("'", "&#39;") in write_report(tmp_path / "run").read_text()


def test_limits_given_when_a_run_went_on_are_told_too(tmp_path):
    resumed = [
        {"started": "2026-11-20T06:00:00+00:00"},  # by a version that did not keep them
        {"started": "2026-11-20T07:00:00+00:00", "limits": {}},
        {"started": "2026-11-21T06:00:00+00:00", "limits": {"budget": "5m"}},
        {"started": "2026-11-22T06:00:00+00:00", "limits": {"memory": "<b>", "budget": "9m"}},
    ]
    limits = (
        "Limits of a fit: time 1h, memory off; after {0} was resumed on 2026-11-21: time 5m for "
        "all; after {0} was resumed on 2026-11-22: time 9m, memory <b> for all."
    )
    run = make_run(tmp_path / "run", [trial("A")], ["A"], info={"resumed": resumed})
    assert settings_text(run).endswith(limits.format("the run"))
    assert "memory &lt;b&gt; for all" in write_report(tmp_path / "run").read_text()
    part = {"started": "2026-11-20", "commit": None, "resumed": resumed}
    merged = make_run(tmp_path / "merged", [trial("A")], ["A"], info={"merged": {"runs/a": part}})
    assert settings_text(merged).endswith(limits.format("runs/a"))


def test_without_a_choice_none_is_claimed(tmp_path):
    run = make_run(tmp_path / "run", [trial("A")], ["A"])
    assert settings_text(run).startswith("No hyper-parameter was searched. All else")
    assert "cross-validation" not in write_report(tmp_path / "run").read_text()


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
    for tag in ("<script", "<b>", "<u>", "<em>", "<i>", "<q>", "<img src=x"):
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
    assert not re.search(r"url\((?!data:)|@import", page)
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


def test_the_command_is_shown_where_there_was_one(hostile, tmp_path):
    assert "<pre>oasis-bench run &#39;a b&#39;</pre>" in hostile[1]["report.html"].decode()
    make_run(tmp_path / "run", [trial("A")], ["A"], info={"command": None})  # from Python
    assert "To repeat this run" not in write_report(tmp_path / "run").read_text()


def test_sources_are_shown_where_the_run_tells_them(hostile, tmp_path):
    page = hostile[1]["report.html"].decode()
    assert "Licence: &lt;q&gt;" in page
    assert "Us &amp; them (2010)" in page
    make_run(tmp_path / "run", [trial("A")], ["A"])
    assert 'id="sources"' not in write_report(tmp_path / "run").read_text()


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


def with_symmetry(record, at_steps):
    *_, last = at_steps.values()
    points = [{"n_steps": n, "symmetry_index": index} for n, index in at_steps.items()]
    return TrialRecord({**record.columns, "symmetry_index": last}, symmetry=points)


def test_the_symmetry_of_w_is_a_line_a_learner_with_its_end_in_a_table(tmp_path):
    run = make_run(
        tmp_path / "run",
        [
            with_symmetry(trial("A", partition=0), {500: 0.98, 1000: 0.96, 2000: 0.9}),
            with_symmetry(trial("A", partition=1), {500: 0.96, 1000: 0.92}),
            *(with_symmetry(trial("B", partition=p), {500: 1.0, 1000: 1.0}) for p in range(2)),
            *(trial("Euclidean", partition=p) for p in range(2)),
        ],
        ["A", "B", "Euclidean"],
        partitions=2,
    )
    figure = draw_symmetry(run)
    lines = {tuple(line.get_xdata()): line for line in figure.axes[0].get_lines()}
    assert list(lines) == [(500, 1000)]  # as far as both partitions of A went
    first, second = figure.axes[0].get_lines()
    np.testing.assert_allclose(first.get_ydata(), [0.97, 0.94])
    np.testing.assert_allclose(second.get_ydata(), [1, 1])
    # The standard error of two values is half their difference.
    low, high = np.sort(figure.axes[0].collections[0].get_paths()[0].vertices[:, 1])[[0, -1]]
    assert (low, high) == pytest.approx((0.92, 0.98))
    assert [entry.get_text() for entry in figure.legends[0].get_texts()] == ["A", "B"]

    (table,) = symmetry_tables(run)
    assert texts(table) == [["10", "A", "0.910 ± 0.014"], ["10", "B", "1.000 ± 0.000"]]
    page = write_report(tmp_path / "run").read_text()
    assert "came to 0.94 in the preprint" in page
    assert 'Learner</th><th scope="col" class="r">Symmetry index' in page
    assert {"figures/symmetry.svg", "tables/symmetry.csv"} < set(contents(tmp_path / "run"))


def test_a_run_without_a_symmetry_index_does_not_speak_of_it(tmp_path):
    run = make_run(tmp_path / "run", [trial("A", steps=500)], ["A"])
    assert draw_symmetry(run) is None
    assert symmetry_tables(run) == []
    assert "ymmetry" not in write_report(tmp_path / "run").read_text()


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
            *five("A", [0.60, 0.62, 0.64, 0.66]),
            trial("A", partition=4, mAP=0.68, fit_seconds=3.0),
            *five("B", [0.50, 0.50, 0.50, 0.50, 0.50]),
            *(trial(long, partition=p, **lost) for p in range(5)),
        ],
        ["A", "B", long],
    )
    lines = summary_text(run).splitlines()
    assert max(map(len, lines)) <= 110
    assert lines[0].split() == ["classes", "learner", "mAP", "P@1", "P@10", "P@50", "fit,", "s"]
    assert " ".join(lines[1].split()) == (
        "10 A 0.640±0.032* 0.840±0.032* 0.831±0.032* 0.791±0.032* 1.00 [1.00 - 3.00]"
    )
    assert " ".join(lines[2].split()) == (
        "10 B 0.500±0.000 0.700±0.000 0.691±0.000 0.651±0.000 1.00 [1.00 - 1.00]"
    )
    places = [[place for place, char in enumerate(line) if char == "±"] for line in lines[1:3]]
    assert places[0] == places[1]
    assert lines[3].endswith("-")
    assert "LLL…" in lines[3]
    assert "0 of 5 partitions finished; 5 failed: ValueError:" in "\n".join(lines).replace(
        "\n  ", " "
    )
    assert "\x1b" not in "".join(lines)


def jpeg(colour, size=(96, 64)):
    content = io.BytesIO()
    Image.new("RGB", size, colour).save(content, "JPEG")
    return content.getvalue()


def with_found(record, found):
    """Add what a query brings up: query -> [(row, hit), ...]."""
    rows = [
        {"query": query, "rank": rank, "retrieved": row, "relevant": hit}
        for query, pairs in found.items()
        for rank, (row, hit) in enumerate(pairs, start=1)
    ]
    return TrialRecord(record.columns, retrievals=rows)


def picture_run(folder, queries=1):
    trials = [
        with_found(
            trial(learner),
            {query: [(row, int(row % 2 == 0)) for row in found] for query in range(queries)},
        )
        for learner, found in (("A", [12, 13, 14, 15, 16]), ("B", [13, 12, 15, 17, 99]))
    ]
    captions = {**{row: f"<s>{row}" for row in range(queries)}, 12: "bear", 13: 'dog" x="'}
    pictures = [
        {
            "row": row,
            "caption": captions.get(row, "owl"),
            "thumbnail": None if row == 14 else jpeg((row, 10, 10)),
        }
        for row in (*range(queries), *range(12, 18))
    ]
    make_run(folder, trials, ["A", "B", "C"], partitions=1, pictures=pictures)
    return write_report(folder).read_text()


class _Images(HTMLParser):
    """The named images of a page, in their order: (label, classes)."""

    def __init__(self):
        super().__init__()
        self.images = []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if values.get("role") == "img":
            self.images.append((values["aria-label"], values["class"].split()[1:]))


def images_of(page):
    parser = _Images()
    parser.feed(page)
    return parser.images


def test_a_query_is_followed_by_what_each_learner_brings_up_best_first(tmp_path):
    page = picture_run(tmp_path / "run")
    assert images_of(page) == [
        ("Query: <s>0", ["p0"]),
        ("bear, hit", ["hit", "p12"]),
        ('dog" x=", miss', ["miss", "p13"]),
        ("owl, hit", ["hit", "none"]),
        ("owl, miss", ["miss", "p15"]),
        ("owl, hit", ["hit", "p16"]),
        ('dog" x=", miss', ["miss", "p13"]),
        ("bear, hit", ["hit", "p12"]),
        ("owl, miss", ["miss", "p15"]),
        ("owl, miss", ["miss", "p17"]),
        ("row 99, miss", ["miss", "none"]),  # the run was cut off before it was kept
    ]
    section = page[page.index('<h2 id="retrieved">') : page.index('<h2 id="runtime">')]
    assert "<s>" not in section
    assert section.count(">✓</span>") == 4 + 1  # the legend's own
    assert section.count(">✗</span>") == 6 + 1
    assert re.findall(r'scope="row">(\w+) <small>(\d of \d)', section) == [
        ("A", "3 of 5"),
        ("B", "1 of 5"),
    ]


def test_queries_of_different_classes_are_seen_first(tmp_path):
    captions = ["bear", "bear", "dog", "bear", "dog", "owl"]
    pictures = [
        {"row": row, "caption": caption, "thumbnail": None} for row, caption in enumerate(captions)
    ]
    found = {row: [((row + 1) % 6, 0)] for row in range(6)}
    run = make_run(tmp_path / "run", [with_found(trial("A"), found)], ["A"], pictures=pictures)
    (queries,) = retrieved(run, all_pictures(run)).values()
    assert [query.picture.key for query in queries] == ["p0", "p2", "p5", "p1", "p4", "p3"]


def test_each_thumbnail_is_in_the_page_once_and_whole(tmp_path):
    page = picture_run(tmp_path / "run")
    pictures = dict(re.findall(r"\.(p\d+) \{ background-image: url\((data:[^)]+)\)", page))
    assert set(pictures) == {"p0", "p12", "p13", "p15", "p16", "p17"}
    assert page.count("data:image/jpeg;base64,") == len(pictures)
    content = pictures["p12"].partition(",")[2]
    assert base64.b64decode(content) == jpeg((12, 10, 10))


def test_many_queries_are_folded_up_and_without_any_there_is_no_section(tmp_path):
    page = picture_run(tmp_path / "many", queries=8)
    assert "<summary>6 more of 8 queries</summary>" in page
    assert [label for label, _ in images_of(page) if label.startswith("Query")] == [
        f"Query: <s>{query}" for query in range(8)
    ]
    make_run(tmp_path / "none", [trial("A")], ["A"])
    assert "etrieved images" not in write_report(tmp_path / "none").read_text()


def several_labels(folder, words=374):
    lost = {"status": "not applicable", "reason": "LMNN takes one label an image, not several"}
    sizes = {"subset": "all", "n_classes": words, "n_train": 4500, "n_test": 499}
    trials = [
        trial("A", partition=p, chance_level=0.06, n_queries_left_out=2, **sizes) for p in range(5)
    ]
    trials += [trial("LMNN", partition=p, **sizes, **lost) for p in range(5)]
    classes = {"all": [f"word{number}" for number in range(words)]}
    info = {"classes": classes, "multi_label": True, "normalize": "tfidf"}
    return make_run(folder, trials, ["A", "LMNN"], info=info)


def test_several_labels_are_called_words_with_their_own_sizes(tmp_path):
    run = several_labels(tmp_path / "run")
    page = " ".join(write_report(tmp_path / "run").read_text().split())
    assert "with 374 words. Each of 5 outer partitions draws 4,500 training and 499 test" in page
    assert "an image is relevant to another where they share a word" in page
    assert "64 features are counts, weighted by their inverse document frequency" in page
    assert "images a class" not in page
    assert "of its class" not in page
    assert "classes" not in page
    # Noncentral t: 3.761 * sqrt(1/5 + 499/4500) = 2.097; without end 2.802 * sqrt(499/4500)
    assert "if it is at least 2.1 standard deviations of the paired differences." in page
    assert "No number of partitions does with fewer than 0.9," in page
    (table,) = precision_tables(run)
    assert table.title.startswith("Precision, all (374 words)")
    ceiling = "At most 0.60: 29.9 relevant images on average for 50 places."
    assert ceiling in dict(table.notes).values()
    assert runtime_table(run).header[0] == "Words"
    assert summary_text(run).startswith("words")


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
        trial("A", n, partition=p, trial_id=f"{name}/{p}", subset=name)
        for name, n in zip(names, sizes, strict=True)
        for p in range(2)
    ]
    classes = {name: [f"c{i}" for i in range(n)] for name, n in zip(names, sizes, strict=True)}
    run = make_run(
        tmp_path / "run", trials, ["A"], partitions=2, info={"classes": classes, "command": "x"}
    )
    assert [row[0] for row in texts(runtime_table(run))] == [
        "bear+dog (2)",
        "bear_dog (2)",
        "10",
        "B10 (10)",
        "class 0+class 1+class 2… (90)",
    ]
    page = " ".join(write_report(tmp_path / "run").read_text().split())
    assert "with bear+dog (2), bear_dog (2), 10, B10 (10) and class 0+class 1" in page
    files = sorted(path.stem for path in (tmp_path / "run" / "tables").glob("precision*.csv"))
    assert len(files) == 5
    assert {"precision_10", "precision_B10", "precision_bear+dog"} < set(files)
    assert max(map(len, files)) < 80
    assert max(map(len, summary_text(run).splitlines())) <= 110


def test_what_was_left_out_and_what_a_subset_needs_are_told(tmp_path):
    left_out = ["left out: 3 pictures too small <b>"]
    info = {"left_out": left_out, "notes": {"10": "two names are readings"}}
    make_run(tmp_path / "run", five("A", [0.5] * 5), ["A"], info=info)
    page = write_report(tmp_path / "run").read_text()
    assert "Left out: 3 pictures too small &lt;b&gt;" in page
    assert "On 10: two names are readings." in page


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seconds", [1e-3, 3.94e-4, 0.25])
def test_a_single_run_time_has_a_figure_without_a_warning(tmp_path, seconds):
    records = [trial("A", fit_seconds=seconds)]
    make_run(tmp_path / "run", records, ["A"], partitions=1)
    write_report(tmp_path / "run")
    assert (tmp_path / "run" / "figures" / "runtime.svg").stat().st_size > 1000
