"""The stratified split: the class counts of scikit-learn's, and cases worked by hand."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from small_runs import trials_of

from oasis_bench.command_line import main
from oasis_bench.data import LabelledRows
from oasis_bench.experiment import Experiment, LearnerSpec
from oasis_bench.plugins import Registry
from oasis_bench.runs import read_run
from oasis_bench.system import UsageError

IMBALANCED = (211, 97, 60, 31, 13)


def rows_of(*counts, seed=0, **more):
    y = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    names = tuple(f"class {number}" for number in range(len(counts)))
    return LabelledRows(np.arange(2.0 * len(y)).reshape(-1, 2), y, names, **more)


def stratified(share, most_items=None):
    settings = SimpleNamespace(test_share=share, most_items=most_items)
    return Registry.load().splits["stratified"](settings)


def test_no_more_items_train_and_test_than_the_most():
    rows, classes = rows_of(600, 300, 99, 1 + 1), (0, 1, 2, 3)
    split = stratified(0.5, most_items=100)
    # 100 of 1001 test: 59.9, 30.0, 9.9, .2; of the 901 left 100 train
    train, test, *_ = split.draw(rows, classes, 0, seed=1)
    assert np.bincount(rows.y[test]).tolist() == [60, 30, 10, 1]
    assert np.bincount(rows.y[train]).tolist() == [60, 30, 10, 1]
    assert not set(train) & set(test)
    assert split.sizes(rows, classes, 0) == (101, 101)
    assert split.rho(rows, classes, 0) == pytest.approx(101 / 1001)


@pytest.mark.parametrize("share", [0.1, 0.2, 0.37, 0.45, 0.8])
def test_classes_have_the_counts_of_scikit_learns_stratified_shuffle_split(share):
    rows = rows_of(*IMBALANCED)
    train, test, *_ = stratified(share).draw(rows, range(5), partition=0, seed=3)
    theirs = StratifiedShuffleSplit(1, test_size=len(test), random_state=0)
    (their_train, their_test), *_ = theirs.split(rows.X, rows.y)
    assert len(test) == round(share * sum(IMBALANCED))
    np.testing.assert_array_equal(np.bincount(rows.y[test]), np.bincount(rows.y[their_test]))
    np.testing.assert_array_equal(np.bincount(rows.y[train]), np.bincount(rows.y[their_train]))
    assert sorted([*train, *test]) == list(range(len(rows.y)))


@pytest.mark.parametrize(
    ("counts", "share", "expected"),
    [
        ((50, 30, 20), 0.1, (5, 3, 2)),
        ((45, 35, 20), 0.1, (5, 3, 2)),  # 4.5, 3.5 and 2: the first of equal remainders
        ((90, 2, 2), 0.1, (9, 1, 1)),  # 8.6, 0.2 and 0.2, but one of each class tests
        ((90, 2, 2), 0.9, (81, 1, 1)),  # 81.4, 1.8 and 1.8 of 85, but one of each class trains
        ((2, 2), 0.01, (1, 1)),
    ],
)
def test_test_items_are_dealt_in_proportion_and_one_of_each_class_tests_and_trains(
    counts, share, expected
):
    rows, split = rows_of(*counts), stratified(share)
    train, test, *_ = split.draw(rows, range(len(counts)), partition=0, seed=0)
    assert tuple(np.bincount(rows.y[test])) == expected
    assert split.sizes(rows, range(len(counts)), 0) == (len(train), len(test))


def test_partitions_of_other_seeds_differ_and_each_item_is_as_likely_to_test():
    # 20 of 100 items of the class test: over 400 draws one tests 80 times, deviation 8.
    rows, split = rows_of(100, 40), stratified(0.2)
    times = np.zeros(140)
    for seed in range(400):
        times[split.draw(rows, range(2), 0, seed).test] += 1
    of_class = times[rows.y == 0]
    assert of_class.mean() == 80
    assert np.abs(of_class - 80).max() < 5 * 8
    same = [split.draw(rows, range(2), 0, 7).test for _ in range(2)]
    np.testing.assert_array_equal(*same)


def test_inner_folds_are_those_of_scikit_learns_stratified_k_fold():
    y = rows_of(*IMBALANCED).y
    folds = stratified(0.2).inner_folds(y, None, 5, seed=11)
    theirs = StratifiedKFold(5, shuffle=True, random_state=11).split(y, y)
    for fold, (learn, validate) in zip(folds, theirs, strict=True):
        np.testing.assert_array_equal(fold.train, learn)
        np.testing.assert_array_equal(fold.test, validate)


@pytest.mark.parametrize(
    ("counts", "split", "advice"),
    [
        ((50, 30, 1), "stratified", "take the other classes alone with --classes 2"),
        ((50, 30, 1), "folds", "take the other classes alone with --classes 2"),
        ((1, 1, 1), "stratified", "is the label an id? name another one with --label"),
        ((50, 1), "stratified", "add items to this class"),
        ((5, 5, 5), None, "add items to these classes"),
    ],
)
def test_classes_that_are_too_small_are_refused_with_advice_not_yet_followed(counts, split, advice):
    folds = np.arange(sum(counts)) % 2 if split == "folds" else None
    learners, split = {"Euclidean": LearnerSpec("Euclidean")}, None if split == "folds" else split
    asked = Experiment("One", "digits", learners, classes=("all",), split=split)
    fewer = r"have fewer than (6 items|the 2 items that are needed) \(such as"
    with pytest.raises(UsageError, match=fewer) as error:
        trials_of(asked, rows_of(*counts, folds=folds))
    assert str(error.value).endswith(f"): {advice}")


HOW = ["--dataset", "digits", "--classes", "3", "--partitions", "1", "--no-traces"]


def test_a_run_from_the_command_line_divides_both_tasks_of_seen_classes(tmp_path, capsys):
    tasks = ["--tasks", "retrieval,classification,unseen-classes", "--algorithms", "Euclidean"]
    sizes = ["--train", "8", "--test", "6", "--inner-folds", "2"]  # of unseen classes
    how = [*HOW, "--classes", "4", *tasks, *sizes, "--split", "stratified", "--test-share", "0.25"]
    assert main(["run", *how, "--output", str(tmp_path / "run")]) == 0
    run = read_run(tmp_path / "run")
    assert set(run.trials["status"]) == {"ok"}
    assert {name: task.split for name, task in run.info.sources.tasks.items()} == {
        "retrieval": "stratified",
        "classification": "stratified",
        "unseen-classes": "unseen-classes",
    }
    sizes = run.trials.set_index("split")[["n_train", "n_test"]]
    y = load_digits().target
    n = int(np.isin(y, [int(name) for name in run.info.classes["4"]]).sum())
    assert sizes.loc["stratified"].tolist() == [n - round(n / 4), round(n / 4)]
    assert sizes.loc["unseen-classes"].tolist() == [16, 12]


def test_a_split_in_a_file_of_ones_own_is_run(tmp_path, plugins):
    how = ["--algorithms", "OASIS,Euclidean", "--plugin", str(plugins / "every_third.py")]
    how += ["--split", "every-third", "--inner-folds", "2"]
    how += ["--search", "2", "--max-steps", "500", "--output", str(tmp_path / "run")]
    assert main(["run", *HOW, *how]) == 0
    run = read_run(tmp_path / "run")
    assert set(run.trials["status"]) == {"ok"}
    assert set(run.trials["split"]) == {"every-third"}
