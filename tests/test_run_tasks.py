"""Runs that ask several tasks: splits, inputs and forms, from the experiment to the store."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from report_helpers import measured
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize
from small_runs import small, trials_of

from oasis_bench.data import Ratings
from oasis_bench.experiment import LearnerSpec
from oasis_bench.plugins import Registry
from oasis_bench.runs import How, read_run, run_experiment
from oasis_bench.system import UsageError
from oasis_bench.tasks import draw_partition

ALL_CLASSES = ("retrieval", "classification", "unseen-classes")


def experiment(dataset, learners, tasks, **changes):
    return small(learners, dataset, tasks=tasks, **{"classes": (8,), **changes})


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """A run of OASIS and Euclidean on eight digits, with three tasks."""
    folder = tmp_path_factory.mktemp("tasks") / "run"
    assert run_experiment(experiment("digits", ["OASIS", "Euclidean"], ALL_CLASSES), folder) == 0
    return read_run(folder)


def test_tasks_of_one_split_share_a_fit_and_others_have_their_own(digits):
    assert sorted(digits.trials["split"]) == ["seen-classes"] * 2 + ["unseen-classes"] * 2
    tasks = digits.answers.groupby("trial_id")["task"].apply(sorted)
    assert sorted(tasks) == [["classification", "retrieval"]] * 2 + [["unseen-classes"]] * 2
    sizes = digits.trials.drop_duplicates("split").set_index("split")[["n_train", "n_test"]]
    assert sizes.loc["seen-classes"].tolist() == [64, 48]
    assert sizes.loc["unseen-classes"].tolist() == [32, 24]


def test_accuracy_is_that_of_scikit_learns_nearest_neighbours(digits):
    X, y = load_digits(return_X_y=True)
    (spec,) = trials_of(experiment("digits", ["Euclidean"], ("classification",)))
    train, test, *_ = draw_partition(y, spec.where.classes, 8, 6, spec.seed_for("partition"))
    neighbours = KNeighborsClassifier(1).fit(normalize(X[train]), y[train])
    expected = neighbours.score(normalize(X[test]), y[test])
    found = measured(digits, "accuracy", k=1, by="learner")
    assert found["Euclidean"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("choose_by", "chosen"),
    [
        (None, [["mAP", "accuracy"], ["mAP"]]),  # by gallery
        ("accuracy@3", [["accuracy"], ["mAP"]]),
        ("MAP@R", [["MAP@R"], ["MAP@R"]]),
    ],
)
def test_inner_folds_choose_by_the_measure_that_is_named_where_the_split_has_it(choose_by, chosen):
    specs = trials_of(experiment("digits", ["OASIS"], ALL_CLASSES, choose_by=choose_by))
    assert [[by.measure for by in spec.chooses_by] for spec in specs] == chosen


def test_a_k_beyond_an_inner_fold_is_refused_before_the_run():
    # Of two classes, each of the two inner folds has as many items as one class trains.
    how = {"choose_by": "precision@10", "classes": (2,), "inner_folds": 2}
    assert trials_of(experiment("digits", ["OASIS"], ("retrieval",), **how, train_per_class=11))
    with pytest.raises(UsageError, match="an inner fold of the class subset 2 ranks 9 other"):
        trials_of(experiment("digits", ["OASIS"], ("retrieval",), **how, train_per_class=10))


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ("fails-at-scores", "ZeroDivisionError: no such scores"),
        ("fails-at-the-end", "LookupError: no such measure"),
    ],
)
def test_an_error_of_a_task_fails_its_trials_and_no_others(task, reason, plugins, tmp_path):
    files = [plugins / "failing_tasks.py"]
    # Tuned by mAP, so that only the harness evaluates the task.
    tasks = ("retrieval", task, "unseen-classes")
    asked = experiment("digits", ["OASIS"], tasks, choose_by="mAP")
    run_experiment(asked, tmp_path / "run", How(plugin_files=files))
    trials = read_run(tmp_path / "run").trials.set_index("split")
    assert trials["status"].to_dict() == {"seen-classes": "failed", "unseen-classes": "ok"}
    assert reason in trials.loc["seen-classes", "reason"]
    assert "failing_tasks.py" in trials.loc["seen-classes", "traceback"]


def test_a_k_beyond_the_test_items_ends_the_curves_alone(tmp_path):
    how = {"choose_by": "precision@12", "train_per_class": 15, "traces": True}
    asked = experiment("digits", ["OASIS"], ("retrieval",), classes=(2,), **how)
    run_experiment(asked, tmp_path / "run")
    (trial,) = read_run(tmp_path / "run").trials.to_dict("records")
    assert trial["status"] == "ok"
    assert "traces end early" in trial["reason"]


def test_pixels_and_patches_reach_their_learners_and_what_none_can_answer_is_a_row(
    plugins, tmp_path
):
    files = ["all_inputs.py", "pixel_embedding.py", "patch_sets.py"]
    learners = {name: LearnerSpec(name) for name in ("Euclidean", "Eigenpictures")}
    learners["SetDistance"] = LearnerSpec("SetDistance", {"power": [1.0, 2.0]})
    how = {"classes": (3,), "train_per_class": 10, "test_per_class": 5}
    inputs = experiment("all-inputs", learners, ("retrieval", "classification"), **how)
    paths = [plugins / name for name in files]
    assert run_experiment(inputs, tmp_path / "run", How(plugin_files=paths)) == 0
    run = read_run(tmp_path / "run")
    assert set(run.trials["status"]) == {"ok"}
    answers = run.answers.set_index(["learner", "task"])
    assert answers.loc[("SetDistance", "retrieval"), "status"] == "not applicable"
    assert "scores training items only" in answers.loc[("SetDistance", "retrieval"), "reason"]
    accuracy = measured(run, "accuracy", k=1, by="learner")
    assert set(accuracy.index) == set(learners)
    assert (accuracy > 0.6).all()
    assert len(run.validation[run.validation["learner"] == "SetDistance"]) == 2 * 2


@pytest.fixture(scope="module")
def judged(tmp_path_factory, plugins):
    """A run on items that people judged and rated, by the first of six columns."""
    folder = tmp_path_factory.mktemp("judged") / "run"
    learners, tasks = ["OASIS", "Euclidean", "LMNN"], ("judged-triplets", "ratings")
    of_people = experiment("judged-items", learners, tasks, test_share=0.3, partitions=2)
    assert run_experiment(of_people, folder, How(plugin_files=[plugins / "judged_items.py"])) == 0
    return read_run(folder)


def test_learners_of_triplets_learn_from_what_people_judged(judged):
    by_learner = measured(judged, "similarity precision", by="learner").groupby(level=0).mean()
    assert by_learner["OASIS"] > by_learner["Euclidean"] + 0.1  # of two times eight triplets


def test_splits_of_judgements_share_the_smaller_number_of_folds(plugins):
    file = plugins / "judged_items.py"
    rows = Registry.load([file]).datasets["judged-items"]().load()
    rated = rows.ratings
    few = Ratings(rated.queries[:12], rated.candidates[:12], rated.marks[:12])
    asked = experiment("judged-items", ["OASIS"], ("judged-triplets", "ratings"), partitions=None)
    asked = replace(asked, test_share=0.1)
    specs = trials_of(asked, replace(rows, ratings=few), [file])
    folds = Counter(spec.where.split for spec in specs)
    assert folds == {"judged": 6, "rated": 6}  # of 24 and of 6 queries


def test_ratings_have_the_level_of_people_beside(judged):
    rated = judged.measures[judged.measures["task"] == "ratings"]
    human = rated[(rated["measure"] == "human level") & (rated["k"] == 1)]["value"]
    assert human.tolist() == pytest.approx([human.iloc[0]] * len(human))
    euclidean = rated[(rated["learner"] == "Euclidean") & (rated["measure"] == "precision")]
    # All three raters mark the first candidate of each query, one of them the second, too.
    assert set(np.round(euclidean[euclidean["k"] == 2]["value"], 12)) == {round(4 / 6, 12)}
    assert set(np.round(euclidean[euclidean["k"] == 1]["chance"], 12)) == {round(4 / 6, 12)}
