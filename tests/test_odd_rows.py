"""Rows that are legal and odd, given to every learner: it learns, or says why not.

Constant rows, one feature, one row a class, two classes of very different size; columns far from
zero; values near the ends of what floats can hold.
"""

import re
import warnings

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris

from oasis_bench.algorithms import (
    LMNN,
    MCML,
    OASIS,
    RCA,
    DissimOASIS,
    Euclidean,
    LocalDistances,
    MetricLearnLMNN,
)
from oasis_bench.plugins import MahalanobisLearner, Registry, load_model, save_model
from oasis_bench.plugins.contract import answers, quick
from oasis_bench.system import UsageError

REGISTRY = Registry.load().algorithms
LEARNERS = [name for name in REGISTRY if REGISTRY[name].takes == "rows"]
STEPS = {"max_iter": 20, "n_basis": 10, "max_proj": 1000}
"""Enough to see an error."""


def drawn(n, d):
    return np.random.default_rng(0).normal(size=(n, d))


ODD = {
    "constant rows": (np.ones((12, 3)), np.arange(12) % 2),
    "one feature": (drawn(16, 1), np.arange(16) % 2),
    "one row a class": (drawn(6, 3), np.arange(6)),
    "one class has one row": (drawn(12, 3), np.array([0] * 11 + [1])),
    "a constant feature": (np.column_stack([drawn(16, 2), np.ones(16)]), np.arange(16) % 2),
    "all rows twice": (np.repeat(drawn(8, 3), 2, axis=0), np.arange(16) % 2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", ODD)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_learns_from_odd_rows_or_says_why_not(name, rows):
    X, y = ODD[rows]
    learner = quick(REGISTRY[name](), 50)
    known = learner.get_params()
    learner.set_params(**{key: value for key, value in STEPS.items() if key in known})
    reason = learner.refusal(X, y)
    if reason is not None and "pip install" in reason:
        pytest.skip(reason)
    if reason is None:
        try:
            learner.fit(X, y)
        except ValueError as error:
            reason = str(error)
    if reason is not None:
        assert re.search(r"\b(rows?|classes)\b", reason)
        assert "\n" not in reason
        return
    scores = answers(learner, X, X)
    assert scores.shape == (len(X), len(X))
    assert np.isfinite(scores).all()


# ---- columns far from zero ---------------------------------------------------------------

IRIS, SPECIES = load_iris(return_X_y=True)
IRIS = np.round(IRIS * 1024) / 1024  # so that a shift by 2^30 is exact
SHIFT = np.array([0, 2.0**30, -(2.0**20), 2.0**30])
SHIFTED_IN_SINGLE = np.array([0, 2.0**13, 0, -(2.0**12)])  # 1024 of its values to a unit remain
DISTANCES = [name for name in LEARNERS if REGISTRY[name]._shift_invariant]


class Whitening(MahalanobisLearner):
    """As in the README: it sets its matrix and nothing else."""

    name, summary, citation = "Whitening", "a test", "none"

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        values, vectors = np.linalg.eigh(np.cov(X - X.mean(axis=0), rowvar=False))
        self.components_ = (vectors / np.sqrt(values)).T
        return self


def fitted(name, X):
    learner = Whitening() if name == "Whitening" else quick(REGISTRY[name](), 300)
    known = learner.get_params()
    learner.set_params(**{key: value for key, value in STEPS.items() if key in known})
    if "pip install" in (reason := learner.refusal(X, SPECIES) or ""):
        pytest.skip(reason)
    return learner.fit(X, SPECIES)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", [*DISTANCES, "Whitening"])
def test_a_shift_of_the_rows_changes_no_distance(name, dtype, tmp_path):
    shift = SHIFT if dtype == np.float64 else SHIFTED_IN_SINGLE
    near, far = IRIS.astype(dtype), (IRIS + shift).astype(dtype)
    learner = fitted(name, far)
    scores = learner.similarity(far[:50], far)
    if isinstance(learner, MahalanobisLearner):
        # the rows hold all digits of IRIS + shift, whose distances are those of IRIS
        mapped = near @ learner.components_.T.astype(np.float64)
        exact = cdist(mapped[:50], mapped)
        tolerance = 1e-6 if dtype == np.float64 else 1e-3
        np.testing.assert_allclose(scores, -exact, rtol=0, atol=tolerance * exact.max())
        pairs = np.stack([far[:50], far[50:100]], axis=1)
        expected = learner.pair_distance(pairs)
        np.testing.assert_allclose(
            -np.diag(scores[:, 50:100]), expected, rtol=0, atol=tolerance * exact.max()
        )
    assert learner.score(far, SPECIES) == pytest.approx(
        fitted(name, near).score(near, SPECIES), abs=0.01
    )
    if name != "Whitening":
        save_model(learner, tmp_path / "model.npz")
        loaded = load_model(tmp_path / "model.npz")
        np.testing.assert_array_equal(loaded.similarity(far[:50], far), scores)


def test_the_centre_is_of_the_last_fit_and_of_the_first_partial_fit():
    learner = RCA().fit(IRIS + SHIFT, SPECIES)
    np.testing.assert_array_equal(learner.centre_ != 0, SHIFT != 0)
    assert not hasattr(learner.fit(IRIS, SPECIES), "centre_")
    learner = DissimOASIS(random_state=0).partial_fit(IRIS + SHIFT, SPECIES, n_steps=10)
    centre = learner.centre_
    learner.partial_fit(IRIS + SHIFT + 1, SPECIES, n_steps=10)
    assert learner.centre_ is centre


def test_distances_have_their_digits_where_what_is_asked_is_far_from_what_was_learned():
    learner = Euclidean().fit(IRIS, SPECIES)
    asked = IRIS + 2.0**30
    np.testing.assert_allclose(learner.similarity(asked, asked), -cdist(IRIS, IRIS), atol=1e-12)
    outlier = np.vstack([IRIS, np.full(4, 1e12)])  # as far away as that: others keep theirs
    found = learner.similarity(outlier, outlier)
    np.testing.assert_allclose(found, -cdist(outlier, outlier), rtol=1e-7, atol=1e-12)


def test_it_warns_where_rounding_the_rows_has_cost_their_digits():
    with pytest.warns(UserWarning, match="column 1 varies by .* float32 has rounded off"):
        Euclidean().fit((IRIS + np.array([0, 1e6, 0, 0])).astype(np.float32))
    with pytest.warns(UserWarning, match="column 3 varies by .* float64 has rounded off"):
        Euclidean().fit(IRIS + np.array([0, 0, 0, 1e12]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Euclidean().fit(IRIS + SHIFT)
        Euclidean().fit((IRIS + SHIFTED_IN_SINGLE).astype(np.float32))


# ---- values near the ends of what floats can hold ------------------------------------------

ENDS = [(np.float32, 1e25), (np.float64, 1e-150)]


@pytest.mark.parametrize(("dtype", "scale"), ENDS)
@pytest.mark.parametrize("name", LEARNERS)
def test_rows_whose_products_are_no_numbers_are_refused_in_one_line(name, dtype, scale):
    rows, learner = IRIS.astype(dtype) * dtype(scale), quick(REGISTRY[name](), 50)
    message = rf"of {dtype.__name__} rows (overflow above|vanish below) 1e[+-](15|30): scale"
    reason = learner.refusal(rows, SPECIES)
    assert re.search(message, reason) or "pip install" in reason  # which is said first
    inputs = [rows, sparse.csr_array(rows)] if learner.takes_sparse else [rows]
    for X in inputs:
        with pytest.raises(UsageError, match=message) as refused:
            learner.fit(X, SPECIES)
        assert "\n" not in str(refused.value)
        assert not vars(learner).get("n_features_in_")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dtype", "scale"), [(np.float32, 1e-14), (np.float64, 1e29)])
@pytest.mark.parametrize("name", LEARNERS)
def test_rows_up_to_there_are_learned_from(name, dtype, scale):
    rows = IRIS.astype(dtype) * dtype(scale)
    try:
        learner = fitted(name, rows)
    except ValueError as error:  # an algorithm of another library may have bounds of its own
        if "metric-learn 0." not in str(error):
            raise
        pytest.skip(str(error))
    assert np.isfinite(answers(learner, rows, rows)).all()


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_a_learner_refuses_to_score_rows_or_with_a_matrix_that_overflow(tmp_path):
    learner = OASIS(n_steps=50, random_state=0).fit(IRIS, SPECIES)
    with pytest.raises(UsageError, match=r"a value of size 7.7e\+150: .* overflow above 1e\+30"):
        learner.similarity(IRIS, IRIS / IRIS.max() * 7.7e150)
    learner.bilinear_matrix_[0, 0] = 1e308
    save_model(learner, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    distance = RCA().fit(IRIS, SPECIES)
    distance.components_[0, 0] = 1e308
    local = LocalDistances(max_passes=0).fit(IRIS, SPECIES)
    local.weights_[0][:] = 1e308
    for ask in (
        lambda: loaded.similarity(IRIS, IRIS),
        lambda: loaded.score(IRIS, SPECIES),
        lambda: distance.similarity(IRIS, IRIS),
        lambda: local.similarity_to_training(IRIS),
    ):
        with pytest.raises(UsageError, match=r"NaN or infinity for \d+ of \d+ pairs: .* scale"):
            ask()


@pytest.mark.parametrize("learner", [LMNN(), MCML(), MetricLearnLMNN(max_iter=60)])
def test_classes_of_one_row_are_left_out_with_a_warning(learner):
    X, y = (part[::3] for part in load_iris(return_X_y=True))
    expected = learner.fit(X, y).components_
    more = np.concatenate([X, [[9.0, 0, 9, 0], [0, 9, 0, 9]]])
    with pytest.warns(UserWarning, match="leaves out 2 of 5 classes, as 7: it needs 2 rows of"):
        found = learner.fit(more, np.append(y, [7, 8])).components_
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ValueError, match="each of the 5 classes has 1 row"):
        learner.fit(X[:5], np.arange(5))
