"""Runs of several tasks and splits: a chapter for each task, and nothing is mixed."""

import pytest
from fake_runs import fake_trial, make_run
from report_helpers import marks, texts

from oasis_bench.reports import summary_text
from oasis_bench.reports.measures import confusion_shares, confusion_tables, measure_tables
from oasis_bench.reports.trials import unanswered_table
from oasis_bench.reports.view import view_of
from oasis_bench.trial import TrialResult

BOTH = ("retrieval", "classification")
NOT_APPLICABLE = {"classification": ("not applicable", "no similarity to training images")}


@pytest.fixture
def two_splits(tmp_path):
    """Two learners, three tasks, two splits; B is transductive and refuses to classify."""
    trials = [
        fake_trial(
            learner,
            partition=p,
            mAP=mAP + 0.01 * p + (0.2 if tasks == BOTH else 0.0),
            fit_seconds=1.0 if tasks == BOTH else 3.0,
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
    (classification,), _ = measure_tables(view_of(two_splits), "classification")
    assert [row[:2] for row in texts(classification)] == [
        *(["A", "0.910 ± 0.010"], ["B †", "-"], ["chance", "0.100"]),
    ]
    assert classification.header[-1] == "mean recognition, k = 1"
    assert [row[-1] for row in texts(classification)] == ["0.860 ± 0.010", "-", "0.100"]
    for task, mAP in (("retrieval", 0.71), ("unseen-classes", 0.51)):
        (table,), _ = measure_tables(view_of(two_splits), task)
        assert texts(table)[0][:2] == ["A", f"{mAP:.3f} ± 0.010*"]
        _, (every,) = measure_tables(view_of(two_splits), task)
        assert [row[0] for row in texts(every)] == [
            "mAP",
            *(f"precision at {k}" for k in range(1, 51)),
        ]
        assert texts(every)[20][1] == f"{mAP + 0.1 - 0.019:.3f} ± 0.010"
    _, (every,) = measure_tables(view_of(two_splits), "classification")
    assert texts(every)[-1] == ["mean recognition, k = 7", "0.800 ± 0.010", "-", "0.100"]


def test_what_a_learner_did_not_answer_is_told_with_the_reason(two_splits):
    (table,), _ = measure_tables(view_of(two_splits), "classification")
    assert marks(table, 0) == ["", "a", ""]
    told = "B †: not applicable: no similarity to training images."
    assert table.marked_notes[0] == ("a", told)
    _, (every,) = measure_tables(view_of(two_splits), "classification")
    assert every.marked_notes[0] == ("", told)
    assert texts(unanswered_table(view_of(two_splits), "classification")) == [
        [
            *("B †", "10", "seen-classes", "0, 1, 2", "not applicable"),
            "no similarity to training images",
        ]
    ]
    assert unanswered_table(view_of(two_splits), "retrieval").cells == []
    assert f"classification, 10 classes, {told}" in summary_text(two_splits).splitlines()


def test_the_pairs_confused_most_are_those_of_the_best_and_the_file_has_all(tmp_path):
    best = fake_trial("best", 2, mAP=0.6, tasks=("classification",))
    counts = [(0, 0, 21), (0, 1, 4), (1, 1, 24), (1, 0, 1)]
    names = ("label", "predicted", "n")
    best = TrialResult(
        best.columns,
        best.answers,
        best.measures,
        predicted_classes=[
            {"task": "classification", **dict(zip(names, row, strict=True))} for row in counts
        ],
    )
    other = fake_trial("other", 2, tasks=("classification",))
    run = make_run(
        tmp_path / "run",
        [best, other],
        ["other", "best"],
        classes=(2,),
        tasks=["classification"],
        info={"classes": {"2": ["cat", "dog"]}},
    )
    (table,) = confusion_tables(view_of(run), "classification")
    assert texts(table) == [
        ["2", "best", "cat", "dog", "4", "0.160"],
        ["2", "best", "dog", "cat", "1", "0.040"],
    ]
    assert set(table.numbers["learner"]) == {"best", "other"}
    shares = (
        confusion_shares(view_of(run), "classification")
        .groupby(["learner", "label"])["share"]
        .sum()
    )
    assert shares.tolist() == pytest.approx([1] * 4)
    assert len(table.numbers) == 8


def test_measures_of_the_data_itself_are_no_contest(tmp_path):
    trials = [
        fake_trial(learner, partition=p, mAP=mAP + 0.01 * p, tasks=("judged-triplets",))
        for learner, mAP in (("A", 0.7), ("B", 0.5))
        for p in range(3)
    ]
    run = make_run(tmp_path / "run", trials, ["A", "B"], partitions=3, tasks=["judged-triplets"])
    (table,), _ = measure_tables(view_of(run), "judged-triplets")
    assert texts(table) == [
        ["A", "0.810 ± 0.010*", "0.710 ± 0.010*", "0.900 ± 0.000"],
        ["B", "0.610 ± 0.010", "0.510 ± 0.010", "0.900 ± 0.000"],
        ["chance", "0.500", "0.500", "-"],
    ]
