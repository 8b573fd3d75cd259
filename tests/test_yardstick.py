"""The plain C loop that the benchmarks compare with takes the steps of OASIS."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import OASIS


@pytest.fixture
def yardstick(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parent)
    module = importlib.import_module("asv_benchmarks.yardstick")
    try:
        module.compiler()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    return module


def sparse_rows():
    """So wide that OASIS takes blocks of steps; one row is empty."""
    X = sparse.random_array((60, 1300), density=0.02, format="csr", rng=0)
    return sparse.vstack([normalize(X), sparse.csr_array((1, 1300))], format="csr")


def dense_rows():
    return normalize(np.random.default_rng(0).normal(size=(61, 20)))


@pytest.mark.parametrize("rows", [sparse_rows, dense_rows])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-4)])
def test_the_yardstick_learns_what_oasis_does(yardstick, rows, dtype, tolerance):
    X = rows().astype(dtype)
    triplets = np.random.default_rng(1).integers(61, size=(2000, 3))
    learner = OASIS(aggressiveness=0.1).partial_fit_triplets(X, triplets)
    for flags in yardstick.FLAGS:
        W = np.eye(X.shape[1], dtype=dtype)
        n_updates = yardstick.Yardstick(dtype, flags).learn(X, triplets, 0.1, W)
        assert 0 < n_updates < 2000
        assert n_updates == pytest.approx(learner.n_updates_, abs=0 if dtype == "float64" else 5)
        np.testing.assert_allclose(W, learner.bilinear_matrix_, rtol=0, atol=tolerance)
