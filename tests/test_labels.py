"""Labels as Python calls give them: what counts as missing, and which forms are taken."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris

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
from oasis_bench.data import Patches
from oasis_bench.system import UsageError
from oasis_bench.tasks import Truth, evaluate_ranking

X, Y = load_iris(return_X_y=True)
NAMES = np.array(["a", "b", "c"], dtype=object)[Y]
LEARNER = Euclidean().fit(X)


def one_missing(value, labels=NAMES):
    labels = labels.astype(object)
    labels[3] = value
    return labels


MISSING = {
    "NaN": np.where(np.arange(150) == 3, np.nan, Y),
    "NaN among names": one_missing(np.nan),
    "None": one_missing(None),
    "pandas.NA": one_missing(pd.NA),
    "Int64": pd.Series(one_missing(pd.NA, Y), dtype="Int64"),
    "categories": pd.Categorical(one_missing(None)),
    "dates": np.where(np.arange(150) == 3, np.datetime64("NaT"), np.datetime64("2024-01-01")),
    "masked": np.ma.masked_equal(Y, 1),
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
