"""The tables of a task's measures and of differences from the best."""

import numpy as np
import pytest
from fake_runs import fake_trial, fake_trials, make_run
from report_helpers import marks, texts

from oasis_bench.reports import summary_text
from oasis_bench.reports.measures import difference_tables, measure_tables
from oasis_bench.reports.trials import (
    unfinished_table,
)
from oasis_bench.reports.view import view_of


def test_precision_cells_are_hand_computed_means_and_deviations(tmp_path):
    run = make_run(
        tmp_path / "run",
        [
            *fake_trials("A", [0.60, 0.62, 0.64, 0.66, 0.68]),
            *fake_trials("B", [0.50, 0.50, 0.50, 0.50, 0.50]),
        ],
        ["A", "B"],
    )
    (table,), _ = measure_tables(view_of(run), "retrieval")
    at_k = [f"precision at {k}" for k in (1, 10, 50)]
    assert table.header == ("Learner", "mAP", *at_k)
    assert texts(table) == [
        # sd of 0.60 ... 0.68 is sqrt(0.001) = 0.0316.  Chance of precision is R / n = 24 / 249; of
        # mAP, with H_n = 6.0966, ((R - 1) / (n - 1) (n - H_n) + H_n) / n = 0.1149.
        ["A", "0.640 ± 0.032*", "0.740 ± 0.032*", "0.731 ± 0.032*", "0.691 ± 0.032*"],
        ["B", "0.500 ± 0.000", "0.600 ± 0.000", "0.591 ± 0.000", "0.551 ± 0.000"],
        ["chance", "0.115", "0.096", "0.096", "0.096"],
    ]
    raw = table.numbers.set_index(["learner", "name"]).loc[("A", "mAP")]
    assert (raw["mean"], raw["sd"], raw["n"]) == pytest.approx((0.64, np.sqrt(0.001), 5))


def test_whoever_is_not_distinguishable_from_the_best_is_bold_too(tmp_path):
    run = make_run(
        tmp_path / "run",
        [
            *fake_trials("top", [0.71, 0.72, 0.73, 0.74, 0.75]),
            *fake_trials("near", [0.70, 0.70, 0.70, 0.70, 0.70]),  # differs by 0.03 ± 0.040
            *fake_trials("far", [0.30, 0.31, 0.32, 0.33, 0.35]),
        ],
        ["top", "near", "far"],
    )
    (table,), _ = measure_tables(view_of(run), "retrieval")
    assert [row[1].bold for row in table.cells] == [True, True, False, False]
    ((_, note),) = table.marked_notes
    assert note.startswith("Bold: best, or statistically tied with the best")
    assert note.endswith("(level 0.05 for all comparisons of a measure together, by Holm).")


def test_differences_from_the_best_have_an_interval_a_corrected_p_and_what_could_be_seen(tmp_path):
    run = make_run(
        tmp_path / "run",
        [
            *fake_trials("top", [0.71, 0.72, 0.73, 0.74, 0.75]),
            *fake_trials("near", [0.70, 0.70, 0.70, 0.70, 0.70]),
            *fake_trials("middle", [0.67, 0.67, 0.67, 0.67, 0.67]),
            *fake_trials("far", [0.30, 0.31, 0.32, 0.33, 0.35]),
        ],
        ["top", "near", "middle", "far"],
    )
    (table,) = difference_tables(view_of(run), "retrieval")
    assert (table.name, table.header[4]) == ("differences_retrieval_10", "p, Holm")
    assert table.title == "mAP: top, the best, less each other learner, 10 classes"
    # sd 0.0158, standard error 0.0158 sqrt(1/5 + 250/400) = 0.01436; t(4) reaches 2.776 of these,
    # and p of t = 2.089 and 4.178 is 0.105 and 0.0139.  Seen with power 0.8: 3.761 of these.
    # Of far: sd sqrt(0.00002) = 0.00447, standard error 0.00406.
    assert texts(table) == [
        ["near", "0.030", "-0.010 to 0.070", "0.10", "0.10", "not significant", "0.054"],
        ["middle", "0.060", "0.020 to 0.100", "0.014", "0.028", "worse", "0.054"],
        ["far", "0.408", "0.397 to 0.419", "< 0.0001", "< 0.0001", "worse", "0.015"],
    ]
    assert "corrected for the 3 comparisons of this table" in table.marked_notes[0][1]
    assert "over 5 partitions, a true difference of 0.015 to 0.054" in table.marked_notes[1][1]
    assert set(table.numbers["measure"]) == {"mAP", *(f"precision at {k}" for k in (1, 10, 50))}


def test_differences_from_a_baseline_are_of_each_learner_less_it(tmp_path):
    run = make_run(
        tmp_path / "run",
        [
            *fake_trials("top", [0.71, 0.72, 0.73, 0.74, 0.75]),
            *fake_trials("middle", [0.67, 0.67, 0.67, 0.67, 0.67]),
            *fake_trials("far", [0.30, 0.31, 0.32, 0.33, 0.34]),
        ],
        ["top", "middle", "far"],
    )
    (table,) = difference_tables(view_of(run), "retrieval", "middle")
    assert table.title == "mAP: each other learner less middle, 10 classes"
    # As above: standard error 0.01436, p of t = 0.06 / 0.01436 and of 0.35 / 0.01436, by Holm.
    assert [row[:4] + row[5:6] for row in texts(table)] == [
        ["top", "0.060", "0.020 to 0.100", "0.014", "better"],
        ["far", "-0.350", "-0.390 to -0.310", "< 0.0001", "worse"],
    ]
    assert set(table.numbers["baseline"]) == {"middle"}


def test_a_failed_learner_is_a_dash_with_its_reason_and_a_partial_one_says_how_partial(tmp_path):
    lost = {"status": "failed", "reason": "ValueError: no", "traceback": "Traceback ..."}
    run = make_run(
        tmp_path / "run",
        [
            *fake_trials("A", [0.5, 0.6, 0.7, 0.8, 0.9]),
            *(fake_trial("B", partition=p, **lost) for p in range(4)),
            *fake_trials("C", [0.1, 0.2, 0.3, 0.4]),
        ],
        ["A", "B", "C"],
    )
    (table,), _ = measure_tables(view_of(run), "retrieval")
    assert texts(table)[1] == ["B", "-", "-", "-", "-"]
    assert marks(table, 0) == ["", "a", "b", ""]
    assert table.marked_notes[:2] == [
        ("a", "B: 0 of 5 partitions finished; 4 failed: ValueError: no; 1 not run."),
        ("b", "C: 4 of 5 partitions finished; 1 not run."),
    ]
    assert "on those that it and the best both finished." in table.marked_notes[-1][1]
    unfinished = unfinished_table(view_of(run))
    assert texts(unfinished) == [["B", "10", "0, 1, 2, 3", "failed", "ValueError: no"]]
    assert unfinished.numbers["partition"].tolist() == [0, 1, 2, 3]


def test_bold_marks_only_what_was_measured_on_all_partitions(tmp_path):
    """B is as good as A, but for a time-out on one partition."""
    late = {"status": "timeout", "reason": "longer than 1h"}
    trials = [
        *fake_trials("A", [0.50, 0.52, 0.54, 0.56, 0.58]),
        *fake_trials("B", [0.51, 0.51, 0.55, 0.55]),
        fake_trial("B", partition=4, **late),
    ]
    run = make_run(tmp_path / "run", trials, ["A", "B"])
    (table,), _ = measure_tables(view_of(run), "retrieval")
    assert [row[1].bold for row in table.cells] == [True, False, False]
    numbers = table.numbers[table.numbers["name"] == "mAP"].set_index("learner")
    assert numbers["verdict"].to_dict() == {"A": "best", "B": "tied", "chance": ""}
    assert numbers["bold"].to_dict() == {"A": True, "B": False, "chance": False}
    told = [text for _, text in table.marked_notes]
    assert "B: 4 of 5 partitions finished; 1 timeout: longer than 1h." in told
    assert "Never bold: a learner that was not measured on all partitions." in told[-1]
    stars = [line for line in summary_text(run).splitlines() if "*" in line]
    assert [line.split()[1] for line in stars[:-1]] == ["A"]


def test_the_files_have_a_row_of_chance_that_is_not_compared(tmp_path):
    run = make_run(tmp_path / "run", fake_trials("A", [0.5] * 5), ["A"])
    (table,), _ = measure_tables(view_of(run), "retrieval")
    rows = table.numbers[table.numbers["learner"] == "chance"].set_index("name")
    assert rows["mean"].round(3).to_dict() == {
        "mAP": 0.115,  # as in the first test of this file
        **{f"precision at {k}": round(24 / 249, 3) for k in (1, 10, 50)},
    }
    assert rows["sd"].isna().all()
    assert set(rows["n"]) == {5}


def test_the_chance_level_counts_each_partition_once_whoever_finished_it(tmp_path):
    trials = [fake_trial("A", partition=p, chance=0.1 * (p + 1)) for p in (0, 1)]
    trials += [fake_trial("B", partition=0, chance=0.1)]
    run = make_run(tmp_path / "run", trials, ["A", "B"], partitions=2)
    (table,), _ = measure_tables(view_of(run), "retrieval")
    assert texts(table)[-1][2] == "0.150"
