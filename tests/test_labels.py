"""Labels as Python calls give them: what counts as missing, and which forms are taken."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris

from oasis_bench import scorers
from oasis_bench.algorithms import (
    LEGO,
    LMNN,
    OASIS,
    ClassifierPosterior,
    Euclidean,
    GoldenFeature,
    LocalDistances,
    NearestNeighbourMemory,
)
from oasis_bench.data import LabelledRows, Patches
from oasis_bench.system import UsageError
from oasis_bench.tasks import Truth, evaluate_ranking
from oasis_bench.tasks.classification import Classification

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["a", "b", "c"], dtype=object)[Y]
LEARNER = Euclidean().fit(X)


def one_missing(value, labels=NAMES):
    labels = labels.astype(object)
    labels[3] = value
    return labels


MISSING = {
    "NaN": np.where(np.arange(150) == 3, np.nan, Y),
    "all NaN": np.full(150, np.nan),
    "NaN among names": one_missing(np.nan),
    "NaN in a list of names": one_missing(np.nan).tolist(),
    "None": one_missing(None),
    "None among numbers": one_missing(None, Y).tolist(),
    "pandas.NA": one_missing(pd.NA),
    "pandas.NaT": one_missing(pd.NaT),
    "Int64": pd.Series(one_missing(pd.NA, Y), dtype="Int64"),
    "text": pd.Series(one_missing(None), dtype="string"),
    "categories": pd.Categorical(one_missing(None)),
    "dates": np.where(np.arange(150) == 3, np.datetime64("NaT"), np.datetime64("2024-01-01")),
    "masked": np.ma.masked_equal(Y, 1),
    "a column": one_missing(None)[:, None],
}

READERS = {
    "score": lambda y: LEARNER.score(X, y),
    "mean_average_precision": lambda y: scorers.mean_average_precision(LEARNER, X, y),
    "measures": lambda y: scorers.measures("mAP", "recall@1")(LEARNER, X, y)["mAP"],
    "evaluate_ranking": lambda y: (
        evaluate_ranking(LEARNER.similarity, X, y, 0).mean_average_precision
    ),
}

FITS = {
    type(learner).__name__: lambda y, learner=learner: clone(learner).fit(X, y)
    for learner in (
        OASIS(n_steps=10),
        LMNN(),
        LEGO(n_steps=10),
        LocalDistances(max_passes=1),
        NearestNeighbourMemory(),
        ClassifierPosterior(),
    )
}

ENTRIES = {
    **READERS,
    **FITS,
    "knn_accuracy": lambda y: scorers.knn_accuracy()(LEARNER, X, y),
    "partial_fit": lambda y: OASIS().partial_fit(X, y, n_steps=10),
    "GoldenFeature": lambda y: GoldenFeature().fit(Patches.one_each({"rows": X}), y),
    "Truth": lambda y: Truth(y=y),
    "training labels": lambda y: Truth(training=y),
}


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("labels", MISSING)
def test_a_missing_label_is_no_class(entry, labels):
    with pytest.raises(UsageError, match=r"^Input y contains NaN: \d+ labels? (is|are) missing"):
        ENTRIES[entry](MISSING[labels])


def test_a_learner_says_before_the_fit_that_labels_are_missing():
    assert "1 label is missing" in LMNN().refusal(X, one_missing(None))
    assert LMNN().refusal(X, NAMES) is None


@pytest.mark.parametrize("entry", READERS)
def test_labels_may_be_of_any_form_that_fit_takes(entry):
    expected = READERS[entry](Y)
    for labels in (Y.tolist(), NAMES, NAMES.tolist(), pd.Series(Y, dtype="Int64"), Y.astype(float)):
        assert READERS[entry](labels) == expected
    for one_each in (sparse.csr_array, sparse.csr_matrix, sparse.coo_array):
        assert READERS[entry](one_each(np.eye(3)[Y])) == expected
    with pytest.warns(UserWarning, match="column-vector y"):  # as in fit
        assert READERS[entry](Y[:, None]) == expected


@pytest.mark.parametrize("entry", [*READERS, "knn_accuracy"])
def test_labels_that_do_not_fit_the_rows_are_refused_in_a_line(entry):
    for labels in (Y[:-1], Y[:-1].tolist()):
        with pytest.raises(UsageError, match=r"^150 rows but 149 labels: one each is needed$"):
            ENTRIES[entry](labels)
    for labels, shape in ((np.eye(3)[Y], r"\(150, 3\)"), (None, r"\(\)")):
        with pytest.raises(UsageError, match=f"^y of shape {shape}: one label for each item"):
            ENTRIES[entry](labels)


def test_relevance_that_does_not_fit_the_rows_is_refused():
    with pytest.raises(UsageError, match="150 rows but 149 labels"):
        LEARNER.score(X, sparse.csr_array(np.eye(3)[Y][:-1]))
    for entry in (ENTRIES["knn_accuracy"], FITS["LMNN"]):
        with pytest.raises(UsageError, match="y has several labels an item"):
            entry(sparse.csr_array(np.eye(3)[Y]))


def test_rows_are_taken_as_lists_and_tables():
    table = pd.DataFrame(X, columns=list("abcd"))
    learner = OASIS(n_steps=1000, random_state=0).fit(table, Y)
    expected = pytest.approx(OASIS(n_steps=1000, random_state=0).fit(X, Y).score(X, Y))
    assert learner.score(table, Y) == expected
    assert evaluate_ranking(learner.similarity, table, Y, 0).mean_average_precision == expected
    assert LEARNER.score(X.tolist(), Y) == LEARNER.score(X, Y)


def test_class_numbers_of_a_data_set_are_whole():
    with pytest.raises(UsageError, match="labels of type float64: int64"):
        LabelledRows(X, Y.astype(float), ("a", "b", "c"))


def test_classes_are_voted_for_by_name():
    images, digits = load_digits(return_X_y=True)
    names = np.array([f"class {n}" for n in range(10)])[digits]
    learner = Euclidean().fit(images)
    accuracy = scorers.knn_accuracy(3)
    assert accuracy(learner, images[:300], names[:300]) == accuracy(
        learner, images[:300], digits[:300]
    )
    truth = Truth(y=digits[:5], training=digits[5:30])
    assert Classification().evaluation(truth, 25, np.arange(25)).n_queries == 5
