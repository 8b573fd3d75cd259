"""Runs of several tasks and splits: a chapter for each task, and nothing is mixed."""

import re

import pandas as pd
import pytest
from fake_runs import fake_trial, make_run
from report_helpers import marks, texts

from oasis_bench.reports import summary_text, write_report
from oasis_bench.reports.run.costs import cost_tables
from oasis_bench.reports.run.measures import measure_tables
from oasis_bench.reports.run.protocol import protocol_text
from oasis_bench.reports.run.tasks import confusion_shares, confusion_tables, draw_precision_at_k
from oasis_bench.reports.run.trials import selection_table, unanswered_table
from oasis_bench.reports.run.view import view_of
from oasis_bench.reports.table import to_latex
from oasis_bench.trial import TrialResult

BOTH = ("retrieval", "classification")
LAST = ["2.00", "[2.00", "-", "2.00]", "1,024.0"]
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


def test_each_task_is_a_chapter_in_the_order_of_the_run(two_splits, tmp_path):
    page = write_report(tmp_path / "run").read_text()
    chapters = re.findall(r'<h2 id="([\w-]+)"', page)
    assert chapters[:7] == [
        *("answer", "protocol"),
        *("seen-and-unseen", "classification", "unseen-classes", "retrieval", "steps"),
    ]
    assert "Asked of each: classification, unseen-classes and retrieval." in page
    files = {path.stem for path in (tmp_path / "run" / "tables").iterdir()}
    assert {"classification_10", "unseen-classes_10", "retrieval_10"} < files
    figures = {path.stem for path in (tmp_path / "run" / "figures").iterdir()}
    assert figures == {
        *("retrieval_precision_at_k", "unseen-classes_precision_at_k", "classification_confusion"),
        *("costs_seen-classes", "costs_unseen-classes"),
        *(f"{task}_against_time" for task in ("retrieval", "unseen-classes", "classification")),
        *("retrieval_partitions", "unseen-classes_partitions"),
    }


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


def test_what_a_learner_did_not_answer_is_told_with_the_reason(two_splits, tmp_path):
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
    assert "Every trial that was run gave a result." in write_report(tmp_path / "run").read_text()
    assert f"classification, 10 classes, {told}" in summary_text(two_splits).splitlines()


def test_costs_are_told_for_each_split(two_splits):
    seen, unseen = cost_tables(view_of(two_splits))
    assert (seen.name, unseen.name) == ("costs_seen-classes", "costs_unseen-classes")
    for table, fit in ((seen, "1.00 [1.00 – 1.00]"), (unseen, "3.00 [3.00 – 3.00]")):
        assert [row[:5] for row in texts(table)] == [
            ["10", "A", "7.00", fit, "1.00"],
            ["10", "B †", "7.00", fit, "1.00"],
        ]
    lines = summary_text(two_splits).splitlines()
    at = lines.index("costs, unseen-classes:")
    assert lines[at + 2].split() == ["10", "A", "7.00", "3.00", "[3.00", "-", "3.00]", *LAST]


def test_a_transductive_learner_is_marked_wherever_it_stands(two_splits, tmp_path):
    (table,), _ = measure_tables(view_of(two_splits), "retrieval")
    assert [row[0] for row in texts(table)] == ["A", "B †", "chance"]
    _, (every,) = measure_tables(view_of(two_splits), "retrieval")
    assert every.header == ("Measure", "A", "B †", "chance")
    assert table.marked_notes[-1][1].startswith("† transductive: the learner may use")
    assert r"\textbf{B \dag{}}" in to_latex(every)
    figure = draw_precision_at_k(view_of(two_splits), "retrieval")
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["A", "B †", "chance"]
    assert "† transductive" in summary_text(two_splits)
    page = write_report(tmp_path / "run").read_text()
    assert "(A and B †)" in page


def test_without_a_transductive_learner_there_is_no_dagger(tmp_path):
    run = make_run(tmp_path / "run", [fake_trial("A")], ["A"])
    assert "†" not in write_report(tmp_path / "run").read_text() + summary_text(run)


def test_the_pairs_confused_most_are_those_of_the_best_and_the_file_has_all(tmp_path):
    best = fake_trial("best", 2, mAP=0.6, tasks=("classification",))
    counts = [(0, 0, 21), (0, 1, 4), (1, 1, 24), (1, 0, 1)]
    names = ("label", "predicted", "n")
    best = TrialResult(
        best.columns,
        best.answers,
        best.measures,
        [{"task": "classification", **dict(zip(names, row, strict=True))} for row in counts],
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
    assert table.notes == (
        "Classes are predicted as for accuracy, k = 1; the learner shown is the best by it.",
    )
    assert set(table.numbers["learner"]) == {"best", "other"}
    shares = (
        confusion_shares(view_of(run), "classification")
        .groupby(["learner", "label"])["share"]
        .sum()
    )
    assert shares.tolist() == pytest.approx([1] * 4)
    write_report(tmp_path / "run")
    written = pd.read_csv(tmp_path / "run" / "tables" / "classification_confusion.csv")
    assert len(written) == 8


def test_confusion_is_of_the_best_learner_by_the_measure_that_chooses(tmp_path):
    counts = [{"task": "classification", "label": 0, "predicted": 1, "n": 1}]
    trials = []
    for learner, values in (("near", {1: 0.9, 3: 0.5}), ("votes", {1: 0.8, 3: 0.6})):
        made = fake_trial(learner, 2, tasks=("classification",))
        rows = [
            {"task": "classification", "measure": "accuracy", "k": k, "value": v}
            | {"as_learned": v, "chance": 0.5}
            for k, v in values.items()
        ]
        trials.append(TrialResult(made.columns, made.answers, rows, counts))
    settings = {"classes": (2,), "tasks": ["classification"]}
    info = {"classes": {"2": ["cat", "dog"]}}
    for choose_by, k, shown in ((None, 1, "near"), ("accuracy@3", 3, "votes")):
        chosen = {**settings, "choose_by": choose_by, "info": info}
        run = make_run(tmp_path / str(k), trials, ["near", "votes"], **chosen)
        (table,) = confusion_tables(view_of(run), "classification")
        assert texts(table)[0][1] == shown
        assert f"accuracy, k = {k};" in table.notes[0]


def test_what_the_inner_folds_choose_by_is_told_and_shown(tmp_path):
    trials = [fake_trial("A", partition=p, n_steps=2000, tasks=BOTH) for p in range(2)]
    settings = {"partitions": 2, "tasks": list(BOTH)}
    run = make_run(tmp_path / "first", trials, ["A"], **settings)
    assert "inner folds of the training images, by mAP of the task retrieval:" in protocol_text(
        view_of(run)
    )
    assert texts(selection_table(view_of(run)))[0][-1] == "0.500"
    run = make_run(tmp_path / "named", trials, ["A"], **settings, choose_by="accuracy@3")
    assert "by accuracy, k = 3 of the task classification:" in protocol_text(view_of(run))
    assert texts(selection_table(view_of(run)))[0][-1] == "0.680"  # mAP + 0.2 - 0.01 * 2
    assert (
        "accuracy, k = 3 along the learning steps" in write_report(tmp_path / "named").read_text()
    )


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
    assert "Split judged: triplets of some groups train, those of the others test" in " ".join(
        write_report(tmp_path / "run").read_text().split()
    )
