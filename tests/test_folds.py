"""Folds that come with a data set: each tests once, and they are the partitions of a run."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from small_runs import trials_of

from oasis_bench.command_line import main
from oasis_bench.data import LabelledRows
from oasis_bench.datasets import TableFile
from oasis_bench.experiment import Experiment, LearnerSpec
from oasis_bench.runs import read_run
from oasis_bench.tasks import SeenClassesSplit

FOLDS = np.array([0, 1, 2, 0, 1, 2, 0, 0, 1])
LABELS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2])


def folded(folds=FOLDS, y=LABELS, n_classes=3):
    X = np.random.default_rng(0).normal(size=(len(folds), 2))
    return LabelledRows(X, y, tuple("abcdef"[:n_classes]), folds=np.asarray(folds, dtype=np.int64))


def drawn_from(rows, partition, classes):
    """Return the training and test rows of a fold; no setting matters."""
    split = SeenClassesSplit(SimpleNamespace(most_items=None))
    return split.for_rows(rows).draw(rows, classes, partition, seed=0)[:2]


def planned(rows, partitions=None):
    how = {"classes": ("all",), "tasks": ("classification",), "partitions": partitions}
    learners = {"Euclidean": LearnerSpec("Euclidean")}
    return trials_of(Experiment("Folds", "digits", learners, **how), rows)


def test_a_fold_tests_and_all_other_rows_of_the_classes_train():
    train, test = drawn_from(folded(), 0, [0, 2])
    assert test.tolist() == [0, 6, 7]
    assert train.tolist() == [1, 2, 8]


def test_all_folds_are_the_partitions_and_sizes_are_those_of_each():
    specs = planned(folded())
    assert [(spec.where.partition, spec.where.n_train, spec.where.n_test) for spec in specs] == [
        *((0, 5, 4), (1, 6, 3), (2, 7, 2))
    ]
    assert {spec.experiment.partitions for spec in specs} == {3}


def test_a_number_of_partitions_takes_the_first_folds():
    assert [spec.where.partition for spec in planned(folded(), partitions=2)] == [0, 1]


def test_inner_folds_of_small_classes_hold_every_row_once_without_a_warning():
    y = np.repeat([0, 1, 2], [9, 3, 1])
    with warnings.catch_warnings(action="error"):
        folds = SeenClassesSplit(None).inner_folds(y, None, 5, seed=0)
    assert len(folds) == 5
    assert sorted(np.concatenate([fold.test for fold in folds])) == list(range(13))


TABLE = "a,b,class,part\n1,0,x,ten\n2,0,y,nine\n3,1,x,nine\n4,2,y,ten\n5,2,x,nine\n6,3,y,nine\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(TABLE)
    return path


def test_a_column_of_folds_is_no_feature_and_its_names_are_sorted(table):
    rows = TableFile(table, fold_column="part").load()
    assert rows.X.shape == (6, 2)
    assert rows.folds.tolist() == [1, 0, 0, 1, 0, 0]  # nine, ten


@pytest.mark.parametrize("numbers", [["2", "10", "9"], ["2.0", "10.0", "9.0"]])
def test_folds_that_are_numbers_are_sorted_as_numbers(tmp_path, numbers):
    (tmp_path / "t.csv").write_text(
        "a,y,f\n" + "".join(f"{i},{i % 2},{number}\n" for i, number in enumerate(numbers))
    )
    assert TableFile(tmp_path / "t.csv", fold_column="f").load().folds.tolist() == [0, 2, 1]


def test_a_run_on_a_file_tests_on_its_folds(tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 3
    lines = [f"{a},{b},{c},{k},f{n % 4}" for n, ((a, b, c), k) in enumerate(zip(X, y, strict=True))]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,class,fold", *lines]))
    how = ["--algorithms", "LDA", "--tasks", "classification,retrieval", "--no-traces"]
    how += ["--inner-folds", "2", "--search", "2"]
    data = ["--dataset", str(tmp_path / "t.csv"), "--fold-column", "fold"]
    assert main(["run", *data, *how, "--output", str(tmp_path / "run")]) == 0
    run = read_run(tmp_path / "run")
    assert set(run.trials["status"]) == {"ok"}
    assert run.trials["n_test"].tolist() == [15] * 4
    assert run.trials["n_features"].tolist() == [3] * 4
    assert run.info.experiment.partitions == run.info.n_folds == 4
