"""Linear maps trained with torch, by pytorch-metric-learning's losses and ours; else skipped."""

import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from oasis_bench import algorithms
from oasis_bench.algorithms import InfoNCE, SupervisedContrastive
from oasis_bench.plugins import load_model, save_model

pytest.importorskip("pytorch_metric_learning", reason='needs pip install -e ".[pml]"')

NAMES = ["ArcFace", "InfoNCE", "ProxyAnchor", "ProxyNCA", "SupervisedContrastive"]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return normalize(X - X.mean(axis=0)), y


def contrastive(L, X, y, temperature=0.1):
    """Return the loss of Khosla et al. (2020), equation 2, over all rows."""
    Z = X @ L.T
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    logits = Z @ Z.T / temperature
    np.fill_diagonal(logits, -np.inf)
    log_p = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    same = (y[:, None] == y) & ~np.eye(len(y), dtype=bool)
    return -np.mean([log_p[i, same[i]].mean() for i in range(len(y))])


def info_nce(L, X, y, temperature=0.05):
    """Return the mean over pairs of one class of - log of their share beside all other classes."""
    Z = X @ L.T
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    weights = np.exp(Z @ Z.T / temperature)
    losses = [
        -np.log(weights[i, j] / (weights[i, j] + weights[i, y != y[i]].sum()))
        for i in range(len(y))
        for j in range(len(y))
        if i != j and y[i] == y[j]
    ]
    return np.mean(losses)


@pytest.mark.parametrize(
    ("cls", "loss"), [(SupervisedContrastive, contrastive), (InfoNCE, info_nce)]
)
def test_the_first_step_goes_down_the_slope_of_the_published_loss(cls, loss):
    """Adam's first step is the learning rate against the sign of each slope."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 4)), np.repeat([0, 1, 2], 4)
    learner = cls(learning_rate=1e-3, n_epochs=1, random_state=0).fit(X, y)
    slopes, h = np.empty((4, 4)), 1e-5
    for place in np.ndindex(4, 4):
        change = np.zeros((4, 4))
        change[place] = h
        up, down = (loss(np.eye(4) + sign * change, X, y) for sign in (1, -1))
        slopes[place] = (up - down) / (2 * h)
    steep = np.abs(slopes) > 1e-3
    assert steep.sum() > 10
    moved = learner.components_ - np.eye(4)
    np.testing.assert_allclose(moved[steep], -1e-3 * np.sign(slopes[steep]), rtol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_each_learns_alike_for_equal_seeds_and_is_saved(name, digits, tmp_path):
    X, y = (part[:200] for part in digits)
    learners = [
        getattr(algorithms, name)(
            n_components=16, learning_rate=0.01, n_epochs=50, random_state=3
        ).fit(X, y)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(learners[0].components_, learners[1].components_)
    before = algorithms.Euclidean().fit(X, y).score(X, y)
    if name != "ProxyAnchor":  # at its defaults it needs more rows than these
        assert learners[0].score(X, y) > before + 0.05
    np.testing.assert_allclose(np.linalg.norm(learners[0].transform(X), axis=1), 1)
    save_model(learners[0], tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.similarity(X, X), learners[0].similarity(X, X))


FITS_AFTER_ITS_IMPORTS = """
import importlib, sys
import numpy as np
from oasis_bench.algorithms import DeepRanking, ProxyNCA

for learner in DeepRanking(n_steps=2, batch_size=4), ProxyNCA(n_epochs=1):
    for name in learner.imports:
        importlib.import_module(name)
    before = set(sys.modules)
    shape = (12, 16, 16, 3) if learner.takes == "pixels" else (12, 5)
    learner.fit(np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8), np.arange(12) % 3)
    print(len([name for name in set(sys.modules) - before if name.startswith("torch.")]))
"""


def test_a_fit_imports_no_large_part_of_torch_that_is_not_named():
    # A warm-up that ends in the middle of an import leaves half of a package, and the fit fails.
    words = [sys.executable, "-c", FITS_AFTER_ITS_IMPORTS]
    counts = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert len(counts) == 2
    assert all(int(count) < 10 for count in counts)
