"""Few rows of many features: learned from in the coordinates of what they span."""

import numpy as np
import pytest
from sklearn.model_selection import ParameterGrid

from oasis_bench.plugins import Registry
from oasis_bench.plugins.contract import quick
from oasis_bench.system import shared
from oasis_bench.tasks import Truth
from oasis_bench.trial import FitData


@pytest.fixture
def wide():
    """40 rows of 60 features in four classes, 10 of them to validate on."""
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    X = rng.normal(size=(40, 60)) + 2 * rng.normal(size=(4, 60))[y]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return FitData(X[:30], y[:30], None, None, 0, X[30:], Truth(y=y[30:]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, int])
@pytest.mark.parametrize("n_rows", [5, 20])
def test_coordinates_have_the_inner_products_of_the_rows(n_rows, dtype):
    X = (5 * np.random.default_rng(0).normal(size=(n_rows, 30))).astype(dtype)
    X[3] = X[1] + X[2]
    one = FitData(X[:4], np.arange(4), None, None, 0, X[4:]).in_their_span()
    found = np.vstack([one.X, one.queries])
    assert found.shape == (n_rows, n_rows)
    assert found.dtype == (np.float32 if dtype is np.float32 else np.float64)
    is_single = dtype is np.float32
    bounds = {"rtol": 1e-6, "atol": 1e-4} if is_single else {"atol": 1e-12}
    np.testing.assert_allclose(found @ found.T, X @ X.T, **bounds)


LEARNERS = Registry.load().algorithms
INVARIANT = [
    name for name in LEARNERS if not name.startswith("metric") and LEARNERS[name].rotation_invariant
]


@pytest.mark.parametrize("name", INVARIANT)
def test_who_says_that_rotations_do_not_matter_scores_in_the_span_as_before(name, wide):
    scores = []
    for one in (wide, wide.in_their_span()):
        learner = quick(LEARNERS[name](), 500)
        one.fit(learner)
        scores.append(learner.similarity(one.queries, one.X))
    assert one.X.shape == (30, 40)
    # FastLMNN stops within 1 % of its minimum, so that rounding may decide where.
    np.testing.assert_allclose(*scores, rtol=1e-2, atol=1e-2 * np.abs(scores[0]).max())


@pytest.mark.parametrize("name", ["LFDA", "MMC", "MCML", "RCA", "GMML", "PLDA", "WCCN"])
def test_candidates_that_share_work_learn_what_each_learns_alone(name, wide):
    grid = ParameterGrid(dict(LEARNERS[name].search_space))
    alone = [LEARNERS[name](**params).fit(wide.X, wide.y) for params in grid]
    kept = {}
    for params, expected in zip(grid, alone, strict=True):
        with shared.within(kept):
            found = LEARNERS[name](**params).fit(wide.X, wide.y)
        np.testing.assert_array_equal(found.components_, expected.components_)
        assert getattr(found, "n_iter_", 0) == getattr(expected, "n_iter_", 0)
