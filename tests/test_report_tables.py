"""The numbers of a report's tables, and which cells are bold, on made-up runs."""

import numpy as np
import pandas as pd
import pytest
from fake_runs import FakeTrial, fake_trial, fake_trials, make_run
from report_helpers import marks, texts

from oasis_bench.reports import summary_text
from oasis_bench.reports.measures import (
    ABSTAINED,
    confusion_shares,
    confusion_tables,
    difference_tables,
    measure_tables,
)
from oasis_bench.reports.table import Column, Table, table_lines
from oasis_bench.reports.trials import cost_tables, selection_table, unfinished_table
from oasis_bench.reports.view import view_of

BOTH = ("retrieval", "classification")
NOT_APPLICABLE = {"classification": ("not applicable", "no similarity to training images")}


def run_of(folder, **scores):
    """Make a run of learners with these mAPs, one a partition."""
    trials = [trial for name, own in scores.items() for trial in fake_trials(name, own)]
    return make_run(folder / "run", trials, list(scores))


def test_a_terminal_shows_that_all_values_are_the_baselines():
    columns = [Column("Learner", ["A"], align="l"), Column("mAP", [f"0.500{ABSTAINED}"])]
    lines = table_lines(Table("t", "t", columns, pd.DataFrame()))
    assert lines[-1].endswith("0.500 =\u00a0Euclidean")


def test_means_deviations_and_chance_are_those_of_hand(tmp_path):
    run = run_of(tmp_path, A=[0.60, 0.62, 0.64, 0.66, 0.68], B=[0.5] * 5)
    (table,) = measure_tables(view_of(run), "retrieval")
    at_k = [f"precision at {k}" for k in (1, 10, 50)]
    assert table.header == ("Learner", "mAP", *at_k)
    assert texts(table) == [
        # sd of 0.60 ... 0.68 is sqrt(0.001) = 0.0316.  Chance of precision is R / n = 24 / 249; of
        # mAP, with H_n = 6.0966, ((R - 1) / (n - 1) (n - H_n) + H_n) / n = 0.1149.
        ["A", "0.640 ± 0.032*", "0.740 ± 0.032*", "0.731 ± 0.032*", "0.691 ± 0.032*"],
        ["B", "0.500 ± 0.000", "0.600 ± 0.000", "0.591 ± 0.000", "0.551 ± 0.000"],
        ["chance", "0.115", "0.096", "0.096", "0.096"],
    ]
    rows = table.numbers.set_index(["learner", "name"])
    assert rows.loc[("A", "mAP"), ["mean", "sd", "n"]].tolist() == pytest.approx(
        [0.64, np.sqrt(0.001), 5]
    )
    assert rows.loc[("chance", at_k[0]), ["mean", "n"]].tolist() == pytest.approx([24 / 249, 5])


def test_the_first_measure_has_a_column_for_each_use(tmp_path):
    """A is used by posterior, B directly; C has no posterior on one partition, D on none."""
    uses = {"A": (0.2, 0.2), "B": (-0.1, -0.1), "C": (0.1, None), "D": (None, None)}
    trials = [
        fake_trial(name, 10, p, 0.5, lift=0.3, blend=0.5, gain=gain, use="direct")
        for name, gains in uses.items()
        for p, gain in enumerate(gains)
        if name != "A"
    ]
    trials += [
        fake_trial("A", 10, p, 0.5, lift=0.3, blend=0.0, gain=0.2, use="posterior")
        for p in range(2)
    ]
    run = make_run(tmp_path / "run", trials, list(uses), partitions=2)
    (table,) = measure_tables(view_of(run), "retrieval")
    assert table.header[:6] == (
        *("Learner", "mAP", "direct", "posterior", "as learned"),
        "precision at 1",
    )
    assert [row[:5] for row in texts(table)[:4]] == [
        ["A", "0.700 ± 0.000", "0.500", "0.700", "0.200"],
        ["B", "0.500 ± 0.000", "0.500", "0.400", "0.200"],
        ["C", "0.500 ± 0.000", "0.500", "-", "0.200"],
        ["D", "0.500 ± 0.000", "0.500", "-", "0.200"],
    ]
    assert any("mAP of both uses of a learner" in text for text in table.notes)
    numbers = selection_table(view_of(run))
    column = numbers.header.index("Use")
    assert [row[column] for row in texts(numbers)] == [
        "posterior, tau 0.3, b 0.75",
        *["direct, b 0.5"] * 3,
    ]


def test_differences_have_an_interval_a_corrected_p_and_what_could_be_seen(tmp_path):
    run = run_of(
        tmp_path,
        top=[0.71, 0.72, 0.73, 0.74, 0.75],
        near=[0.70] * 5,
        middle=[0.67] * 5,
        far=[0.30, 0.31, 0.32, 0.33, 0.35],
    )
    (means,) = measure_tables(view_of(run), "retrieval")
    assert [row[1].bold for row in means.cells] == [True, True, False, False, False]
    (table,) = difference_tables(view_of(run), "retrieval")
    # sd 0.0158, standard error 0.0158 sqrt(1/5 + 250/400) = 0.01436; t(4) reaches 2.776 of these,
    # and p of t = 2.089 and 4.178 is 0.105 and 0.0139.  Seen with power 0.8: 3.761 of these.
    # Of far: sd sqrt(0.00002) = 0.00447, standard error 0.00406.
    assert texts(table) == [
        ["near", "0.030", "-0.010 to 0.070", "0.10", "0.10", "not distinguishable", "0.054"],
        ["middle", "0.060", "0.020 to 0.100", "0.014", "0.028", "worse", "0.054"],
        ["far", "0.408", "0.397 to 0.419", "< 0.0001", "< 0.0001", "worse", "0.015"],
    ]
    assert set(table.numbers["measure"]) == {"mAP", *(f"precision at {k}" for k in (1, 10, 50))}
    # Of far less middle: sd sqrt(0.00037) = 0.0192, standard error 0.01747.
    (table,) = difference_tables(view_of(run), "retrieval", "middle")
    assert [row[:3] + row[5:6] for row in texts(table)] == [
        ["top", "0.060", "0.020 to 0.100", "better"],
        ["near", "0.030", "-", "not testable"],
        ["far", "-0.348", "-0.397 to -0.299", "worse"],
    ]


def test_who_was_not_measured_on_all_partitions_is_never_bold_and_it_is_told_why(tmp_path):
    """B is as good as A, but for a time-out on one partition."""
    late = {"status": "timeout", "reason": "longer than 1h"}
    trials = [
        *fake_trials("A", [0.50, 0.52, 0.54, 0.56, 0.58]),
        *fake_trials("B", [0.51, 0.51, 0.55, 0.55]),
        fake_trial("B", partition=4, **late),
        *(fake_trial("C", partition=p, status="failed", reason="no") for p in range(4)),
        *fake_trials("D", [0.10, 0.11, 0.12, 0.13, 0.15]),
    ]
    run = make_run(tmp_path / "run", trials, ["A", "B", "C", "D"])
    (table,) = measure_tables(view_of(run), "retrieval")
    assert texts(table)[2] == ["C", "-", "-", "-", "-"]
    numbers = table.numbers[table.numbers["name"] == "mAP"].set_index("learner")
    verdicts = {"A": "best", "B": "unclear", "C": "", "D": "worse", "chance": ""}
    assert numbers["verdict"].to_dict() == verdicts
    assert numbers.index[numbers["bold"]].tolist() == ["A"]
    assert marks(table, 0) == ["", "a", "b", "", ""]
    assert [text for _, text in table.marked_notes[:2]] == [
        "B: 4 of 5 partitions finished; 1 timeout: longer than 1h.",
        "C: 0 of 5 partitions finished; 4 failed: no; 1 not run.",
    ]
    assert texts(unfinished_table(view_of(run))) == [
        ["B", "10", "All", "4", "timeout", "longer than 1h"],
        ["C", "10", "All", "0, 1, 2, 3", "failed", "no"],
    ]


def test_the_chance_level_counts_each_partition_once_whoever_finished_it(tmp_path):
    trials = [fake_trial("A", partition=p, chance=0.1 * (p + 1)) for p in (0, 1)]
    trials += [fake_trial("B", partition=0, chance=0.1)]
    run = make_run(tmp_path / "run", trials, ["A", "B"], partitions=2)
    (table,) = measure_tables(view_of(run), "retrieval")
    assert texts(table)[-1][2] == "0.150"


@pytest.fixture
def two_splits(tmp_path):
    """Two learners, three tasks, two splits; B is transductive and refuses to classify."""
    trials = [
        fake_trial(
            learner,
            partition=p,
            mAP=mAP + 0.01 * p + (0.2 if tasks == BOTH else 0.0),
            tasks=tasks,
            transductive=int(learner == "B"),
            unanswered=NOT_APPLICABLE if learner == "B" and tasks == BOTH else None,
        )
        for tasks in (BOTH, ("unseen-classes",))
        for learner, mAP in (("A", 0.5), ("B", 0.3))
        for p in range(3)
    ]
    tasks = ["classification", "unseen-classes", "retrieval"]
    return make_run(tmp_path / "run", trials, ["A", "B"], partitions=3, tasks=tasks)


def test_a_task_has_its_own_values_and_its_own_chance(two_splits):
    (table,) = measure_tables(view_of(two_splits), "classification")
    assert [row[:2] for row in texts(table)] == [
        *(["A", "0.910 ± 0.010"], ["B †", "-"], ["chance", "0.100"]),
    ]
    numbers = table.numbers.set_index(["learner", "name"])["mean"]
    assert numbers["A", "mean recognition, k = 7"] == pytest.approx(0.8)
    for task, mAP in (("retrieval", 0.71), ("unseen-classes", 0.51)):
        (table,) = measure_tables(view_of(two_splits), task)
        assert texts(table)[0][:2] == ["A", f"{mAP:.3f} ± 0.010"]
        numbers = table.numbers.set_index(["learner", "name"])["mean"]
        assert len(numbers["A"]) == 51
        assert numbers["A", "precision at 20"] == pytest.approx(mAP + 0.1 - 0.019)


def test_what_a_learner_did_not_answer_is_told_with_the_reason(two_splits):
    told = "B †: not applicable: no similarity to training images."
    (table,) = measure_tables(view_of(two_splits), "classification")
    assert table.marked_notes[0] == ("a", told)
    assert texts(unfinished_table(view_of(two_splits))) == [
        [
            *("B †", "10", "seen-classes", "Classification", "0, 1, 2", "not applicable"),
            "no similarity to training images",
        ]
    ]
    line = "B † could not be used in 3 of 3 trials of classification: no similarity to training"
    assert line in summary_text(two_splits)


def test_the_pairs_confused_most_are_those_of_the_best_and_the_file_has_all(tmp_path):
    best = fake_trial("best", 2, mAP=0.6, tasks=("classification",))
    counts = [(0, 0, 21), (0, 1, 4), (1, 1, 24), (1, 0, 1)]
    names = ("task", "label", "predicted", "n")
    best = FakeTrial(
        best.columns,
        best.answers,
        best.measures,
        predicted_classes=[
            dict(zip(names, ("classification", *row), strict=True)) for row in counts
        ],
    )
    other = fake_trial("other", 2, tasks=("classification",))
    info = {"classes": {"2": ["cat", "dog"]}}
    own = {"classes": (2,), "tasks": ["classification"], "info": info}
    view = view_of(make_run(tmp_path / "run", [best, other], ["other", "best"], **own))
    (table,) = confusion_tables(view, "classification")
    assert texts(table) == [
        ["2", "best", "cat", "dog", "4", "0.160"],
        ["2", "best", "dog", "cat", "1", "0.040"],
    ]
    assert set(table.numbers["learner"]) == {"best", "other"}
    shares = confusion_shares(view, "classification").groupby(["learner", "label"])["share"].sum()
    assert shares.tolist() == pytest.approx([1] * 4)


def test_measures_of_the_data_itself_are_no_contest(tmp_path):
    trials = [
        fake_trial(learner, partition=p, mAP=mAP + 0.01 * p, tasks=("judged-triplets",))
        for learner, mAP in (("A", 0.7), ("B", 0.5))
        for p in range(3)
    ]
    run = make_run(tmp_path / "run", trials, ["A", "B"], partitions=3, tasks=["judged-triplets"])
    (table,) = measure_tables(view_of(run), "judged-triplets")
    assert texts(table) == [
        ["A", "0.810 ± 0.010", "0.710 ± 0.010", "0.900 ± 0.000"],
        ["B", "0.610 ± 0.010", "0.510 ± 0.010", "0.900 ± 0.000"],
        ["chance", "0.500", "0.500", "-"],
    ]


def test_costs_are_medians_and_ranges(tmp_path):
    trials = [
        fake_trial(
            "A",
            partition=p,
            fit_seconds=s,
            fit_cpu_seconds=2 * s,
            fit_peak_bytes=None if p else 3 * 2**20,
            shared_cores=int(p == 2),
        )
        for p, s in enumerate([4.0, 1.0, 3.0, 2.0, 100.0])
    ]
    trials += [fake_trial("B", partition=p, fit_peak_bytes=None) for p in range(5)]
    (table,) = cost_tables(view_of(make_run(tmp_path / "run", trials, ["A", "B"])))
    assert texts(table) == [
        ["10", "A", "7.00", "3.00 [1.00 – 100]", "6.00", "2.00", "1,024.0", "3.0"],
        ["10", "B", "7.00", "1.00 [1.00 – 1.00]", "1.00", "2.00", "1,024.0", "n/a"],
    ]
    assert "ran on the same cores" in table.marked_notes[0][1]
    raw = table.numbers.set_index(["learner", "quantity"]).loc[("A", "fit_seconds")]
    assert raw[["median", "min", "max", "n"]].tolist() == [3, 1, 100, 5]


@pytest.mark.parametrize(
    ("waiting", "seconds", "is_noisy"),
    [(0.06, 1.0, True), (0.04, 1.0, False), (0.009, 0.01, False), (None, 1.0, False)],
    ids=["over 5 %", "under 5 %", "under 10 ms", "not measurable"],
)
def test_a_fit_that_waited_for_a_core_is_marked(tmp_path, waiting, seconds, is_noisy):
    trials = [fake_trial("A", fit_seconds=seconds, fit_waiting_seconds=waiting)]
    trials += [fake_trial("A", partition=p, fit_waiting_seconds=0.0) for p in range(1, 5)]
    run = make_run(tmp_path / "run", trials, ["A"])
    (table,) = cost_tables(view_of(run))
    assert any("Noisy in 1 of 5 partitions:" in text for _, text in table.marked_notes) == is_noisy
    assert ("1 noisy fit time: the fit waited" in summary_text(run)) == is_noisy


def test_selection_shows_what_was_chosen_and_what_its_folds_scored(tmp_path):
    trials = [
        fake_trial("A", partition=p, mAP=0.5, n_steps=n, params={"C": n})
        for p, n in ((1, 2000), (0, 500))
    ]
    run = make_run(tmp_path / "run", trials, ["A"], partitions=2)
    # The folds validate one candidate after each of four numbers of steps.
    # The folds add 0, 0.01 ... 0.04; at 2000 steps 0.02 is missing to 0.5, at 500 steps 0.2.
    assert texts(selection_table(view_of(run))) == [
        ["10", "A", "1", "4", "C=500 (1); C=2000 (1)", "500; 2,000", "0", "0.410", "0.500"]
    ]
