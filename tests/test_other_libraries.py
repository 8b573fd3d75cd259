"""pylmnn's LMNN and scikit-learn's NCA: as they are by themselves, and where they are helped."""

from importlib.util import find_spec

import numpy as np
import pytest
from definitions import lmnn_objective
from sklearn.datasets import load_iris
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import LMNN, PyLMNN, ScikitLearnNCA

needs_pylmnn = pytest.mark.skipif(
    find_spec("pylmnn") is None, reason='needs pip install "oasis-bench[pylmnn]"'
)


@pytest.fixture(autouse=True)
def one_thread():
    """On rows this few threads of BLAS wait for each other most of the time."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def iris():
    """Every third iris, moved a little: its millimetres make many distances equal."""
    X, y = load_iris(return_X_y=True)
    return (X + 0.01 * np.random.default_rng(0).normal(size=X.shape))[::3], y[::3]


@needs_pylmnn
def test_pylmnn_comes_near_the_least_value_of_the_objective(iris):
    X, y = iris
    found = PyLMNN(random_state=0, max_iter=500, tol=1e-9).fit(X, y)
    best = LMNN(n_neighbors=3, pull_weight=0.5).fit(X, y)  # proven by its gap
    least = lmnn_objective(best.components_, X, y, 3, 0.5)
    reached = lmnn_objective(found.components_, X, y, 3, 0.5)
    assert lmnn_objective(np.eye(4), X, y, 3, 0.5) > 1.5 * least
    assert (1 - 1e-6) * least < reached < 1.1 * least  # the hinges stop its L-BFGS before


def test_scikit_learns_nca_is_as_it_is_by_itself(iris):
    X, y = iris
    by_itself = NeighborhoodComponentsAnalysis(n_components=2, random_state=0).fit(X, y)
    learner = ScikitLearnNCA(n_components=2, random_state=0).fit(X, y)
    np.testing.assert_array_equal(learner.components_, by_itself.components_)
    assert learner.n_iter_ == by_itself.n_iter_
