"""What the OASIS family refuses, with the learner left as it was: rows, labels, triplets, size."""

import copy
import tracemalloc
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize
from test_oasis_family import FAMILY

from oasis_bench.algorithms import (
    LDA,
    MMC,
    _oasis_steps as _oasis,
    _oasis_symmetric_steps as _oasis_symmetric,
)
from oasis_bench.data import LabelledRows
from oasis_bench.datasets import Digits
from oasis_bench.experiment import LearnerSpec, Plan
from oasis_bench.plugins import Registry

Y = np.arange(30) % 3
TRIPLETS = np.random.default_rng(1).integers(30, size=(20, 3))


def sound_rows(n_features=8, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, n_features)) * (rng.random((30, n_features)) < 0.6)
    return normalize(X).astype(dtype)


def fitted(kind):
    return kind(n_steps=20, random_state=0).fit(sound_rows(), Y)


def with_value(value, form):
    X = sound_rows()
    X[3, 2] = value
    return form(X)


def with_part(form, part, place, value):
    X = form(sound_rows())
    setattr(X, part, getattr(X, part).astype(np.int64))
    getattr(X, part)[place] = value
    return X


def assert_unchanged(learner, before):
    """Every attribute is as it was, bit for bit, and so is what is learned next."""
    assert vars(learner).keys() == vars(before).keys()
    for name, value in vars(before).items():
        np.testing.assert_array_equal(getattr(learner, name), value, err_msg=name)
    if hasattr(before, before._learned):
        for one in (learner, before):
            one.partial_fit(sound_rows(), Y, n_steps=30)
        W, expected = (getattr(one, one._learned) for one in (learner, before))
        np.testing.assert_array_equal(W, expected)


def refuse(learner, call, message, error=ValueError):
    before = copy.deepcopy(learner)
    with pytest.raises(error, match=message):
        call(learner)
    assert_unchanged(learner, before)


BAD_ROWS = {
    "NaN": (lambda: with_value(np.nan, np.asarray), "contains NaN"),
    "infinite, sparse": (lambda: with_value(np.inf, sparse.csr_matrix), "contains infinity"),
    "NaN, by columns": (lambda: with_value(np.nan, sparse.csc_array), "contains NaN"),
    "complex": (lambda: sound_rows() * 1j, "Complex data not supported"),
    # What else makes them invalid is in test_csr.py.
    "a column that is 1 in 32 bits": (
        lambda: with_part(sparse.csr_array, "indices", 3, 2**32 + 1),
        "not valid CSR: .*< 8",
    ),
    "a row that ends before it begins": (
        lambda: with_part(sparse.csr_array, "indptr", 3, 10**6),
        "not valid CSR: indptr",
    ),
}


@pytest.mark.parametrize(("make", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
@pytest.mark.parametrize("kind", FAMILY)
def test_rows_that_no_step_can_be_taken_on_change_nothing(kind, make, message):
    learner, X = fitted(kind), make()
    refuse(learner, lambda it: it.fit(X, Y), message)
    refuse(learner, lambda it: it.partial_fit(X, Y), message)
    refuse(learner, lambda it: it.partial_fit_triplets(X, TRIPLETS), message)


def relevance(value):
    R = sparse.csr_array(np.eye(3)[Y])
    R.data[5] = value
    return R


BAD_LABELS = {
    "one class": (np.zeros(30), "at least 2 classes"),
    "NaN": (np.where(Y == 1, np.nan, 0.0), "contains NaN"),
    "too few": (Y[1:], "inconsistent numbers of samples"),
    "relevance NaN": (relevance(np.nan), "it must be finite"),
    "relevance to nothing": (relevance(1) * 0.0, "somewhere positive"),
}


@pytest.mark.filterwarnings("ignore:The number of unique classes is greater")
@pytest.mark.parametrize(("y", "message"), BAD_LABELS.values(), ids=BAD_LABELS)
@pytest.mark.parametrize("kind", FAMILY)
def test_labels_that_give_no_triplet_change_nothing(kind, y, message):
    learner = fitted(kind)
    other = pd.DataFrame(sound_rows(5)).add_prefix("feature ")
    refuse(learner, lambda it: it.fit(other, y), message)
    refuse(learner, lambda it: it.partial_fit(sound_rows(), y), message)


BAD_TRIPLETS = {
    "too far": ([[0, 1, 30]], "items 0 to 30, but X has items 0 to 29"),
    "negative": ([[0, -1, 2]], "items -1 to 2, but X has items 0 to 29"),
    "beyond 64 bits": ([[0, 1, 2**64]], "type object: item numbers must be integers"),
    "fractions": ([[0, 1, 1.5]], "type float64: item numbers must be integers"),
    "text": ([["0", "1", "2"]], "item numbers must be integers"),
    "pairs": ([[0, 1]], r"shape \(1, 2\): \(n_triplets, 3\) is needed"),
    "of unequal length": ([[0, 1], [0, 1, 2]], "inhomogeneous"),
}


@pytest.mark.parametrize(("triplets", "message"), BAD_TRIPLETS.values(), ids=BAD_TRIPLETS)
@pytest.mark.parametrize("kind", FAMILY)
def test_triplets_that_are_not_rows_change_nothing(kind, triplets, message):
    refuse(fitted(kind), lambda it: it.partial_fit_triplets(sound_rows(), triplets), message)


# ---- sparse rows that are taken ----------------------------------------------------------


def test_kernels_take_indices_of_64_bits():
    # scipy gives 64 bits only where 32 are too few, so that only a direct call can show it.
    X, d = sparse.csr_array(sound_rows()), 8
    triplets = np.ascontiguousarray(TRIPLETS, dtype=np.intp)

    def run(index):
        parts = X.data, X.indices.astype(index), X.indptr.astype(index), triplets
        work = np.zeros((2, d)), np.empty((2, d)), np.empty((2, d), np.int32)
        matrices = np.stack([np.eye(d)] * 3)
        _oasis.step_csr(
            *parts, 0.1, matrices[0], np.empty(d), np.empty(d, dtype=np.int32), np.zeros(d)
        )
        parts = (np.empty((0, 0)), *parts)
        _oasis_symmetric.step(*parts, 0.1, False, matrices[1], *work)
        _oasis_symmetric.step(*parts, 0.1, True, matrices[2], *work)
        return matrices

    found = run(np.int64)
    assert (found != np.eye(d)).any(axis=(1, 2)).all()
    np.testing.assert_array_equal(found, run(np.int32))


def test_kernels_refuse_none_in_place_of_an_array():
    with pytest.raises(TypeError, match="'W' must not be None"):
        _oasis.step_dense(sound_rows(), TRIPLETS.astype(np.intp), 0.1, None, np.empty(8))


# ---- matrices that memory does not hold --------------------------------------------------


def wide_rows():
    """30 sparse rows of 500 000 features, of which each has 2."""
    rng = np.random.default_rng(0)
    columns = rng.integers(500_000, size=60)
    return sparse.csr_array((np.ones(60), columns, np.arange(0, 61, 2)), shape=(30, 500_000))


@pytest.mark.parametrize("kind", FAMILY)
def test_matrices_beyond_memory_are_refused_before_anything_is_allocated(kind):
    learner, X = fitted(kind), wide_rows()
    message = (
        r"OASIS, with \d matri\w+ of 500000 x 500000 float64, needs [\d,]+\.\d GiB, but "
        r"[\d.,]+ [GM]iB are free: use fewer features"
    )
    tracemalloc.start()
    refuse(learner, lambda it: it.fit(X, Y), message, MemoryError)
    refuse(kind(), lambda it: it.partial_fit(X, Y), message, MemoryError)
    refuse(kind(), lambda it: it.partial_fit_triplets(X, TRIPLETS), message, MemoryError)
    assert tracemalloc.get_traced_memory()[1] < 2e6
    tracemalloc.stop()


def test_what_takes_more_than_rows_and_features_say_is_refused_too():
    X, pairs = sound_rows(20_000), np.zeros((10**6, 2), dtype=int)
    # With a shrinkage of 1, scikit-learn makes matrices of d x d.
    with pytest.raises(MemoryError, match="LDA on 30 rows of 200000 features needs"):
        LDA(shrinkage=1).fit(np.tile(X, 10), Y)
    with pytest.raises(MemoryError, match="MMC on 30 rows and 2000000 pairs needs"):
        MMC().partial_fit_pairs(X, pairs, pairs)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", FAMILY)
def test_what_a_learner_says_it_needs_is_what_it_takes(kind, dtype):
    d = 400
    X, y = np.tile(sound_rows(d, dtype), (7, 1)), np.tile(Y, 7)  # of fewer, a span takes less
    learner = kind(n_steps=10, random_state=0)
    matrix_bytes = d**2 * np.dtype(learner._matrix_type or dtype).itemsize
    for learn in (learner.fit, learner.partial_fit, learner.fit):
        said = learner._n_matrices(afresh=learn == learner.fit)
        tracemalloc.start()
        learn(X, y)
        taken = tracemalloc.get_traced_memory()[1] / matrix_bytes
        tracemalloc.stop()
        # Half a matrix for all else.
        assert said - 0.5 <= taken < said + 0.5


def test_a_trial_beyond_memory_is_a_row_with_that_line(experiment, run_trial):
    rows = LabelledRows(wide_rows(), np.arange(30) % 2, ("even", "odd"))
    tiny = replace(experiment, learners={"OASIS": LearnerSpec("OASIS")}, classes=(2,), partitions=1)
    (spec,) = Plan.of(tiny, Digits(), rows, Registry.load()).trials
    row = run_trial(spec, rows).row
    assert row.status == "out of memory"
    assert row.reason.startswith("MemoryError: OASIS, with 1 matrix of 500000 x 500000 ")
    assert "\n" not in row.reason


@pytest.mark.parametrize("kind", [kind for kind in FAMILY if hasattr(kind, "aggressiveness")])
def test_an_aggressiveness_of_0_is_refused(kind):
    with pytest.raises(ValueError, match=f"'aggressiveness' parameter of {kind.name} must be"):
        kind(aggressiveness=0).fit(sound_rows(), Y)
