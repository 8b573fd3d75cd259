"""Items of digits, and what each form of learner must compute: for the contract and for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from oasis_bench.data import FloatArray, Patches, PatchKind
from oasis_bench.plugins.learner import (
    BilinearLearner,
    EmbeddingLearner,
    ExemplarLearner,
    MahalanobisLearner,
)
from oasis_bench.plugins.metric_learner import MetricLearner
from oasis_bench.tasks import evaluate_ranking

CHANCE = 14 / 59
"""The share of relevant items among the others, for 15 of each of 4 classes."""


def digit_rows(dtype: type = np.float64) -> tuple[Any, Any]:
    """Return 15 training rows of each of 4 digits, of unit length, and their labels."""
    pictures, y = _digits()
    return normalize(pictures.reshape(len(y), -1)).astype(dtype), y


def digit_items(kind: str) -> tuple[Any, Any]:
    """Return the same digits as items of a kind of `LabelledRows.KINDS`; and their labels.

    Patches are the blocks of 4 x 4 and of 2 x 2 pixels on a grid that are not blank.
    """
    if kind == "rows":
        return digit_rows()
    pictures, y = _digits()
    grey = np.rint(pictures * 255 / 16).astype(np.uint8)
    pixels = np.repeat(grey[..., None], 3, axis=3)
    if kind == "pixels":
        return pixels, y
    kinds = {"block": _blocks(pictures, 4), "corner": _blocks(pictures, 2)}
    return Patches(kinds, pixels if kind == Patches.AND_PIXELS else None), y


def _digits() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    X, y = load_digits(return_X_y=True)
    numbers = np.concatenate([np.flatnonzero(y == digit)[:15] for digit in range(4)])
    return X[numbers].reshape(-1, 8, 8), y[numbers]


def _blocks(pictures: npt.NDArray[np.float64], side: int) -> PatchKind:
    """Return the blocks of `side` x `side` pixels every 2 pixels that are not blank."""
    corners = [(row, column) for row in range(0, 9 - side, 2) for column in range(0, 9 - side, 2)]
    descriptors, positions = [], []
    for picture in pictures:
        blocks = np.stack([picture[i : i + side, j : j + side].ravel() for i, j in corners])
        inked = blocks.any(axis=1)
        descriptors.append(blocks[inked])
        positions.append(np.array(corners)[inked, ::-1] + (side - 1) / 2)
    return PatchKind.joined(descriptors, positions)


def answers(learner: MetricLearner, queries: Any, gallery: Any) -> FloatArray:
    """Score queries against a gallery, which an exemplar learner was fitted on."""
    if isinstance(learner, ExemplarLearner):
        return learner.similarity_to_training(queries)
    return learner.similarity(queries, gallery)


def mean_average_precision(learner: MetricLearner, X: Any, y: Any) -> float:
    """Rank, for each of the items that the learner was fitted on, all others."""
    scores = answers(learner, X, X)
    numbers = np.arange(len(scores))
    return evaluate_ranking(
        lambda queries, _: scores[queries], numbers, y, seed=0
    ).mean_average_precision


def assert_close(found: FloatArray, expected: FloatArray, what: str = "") -> None:
    """Compare scores up to rounding, which is large for distances near 0."""
    atol = 1e-6 * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=atol, err_msg=what)


def only(condition: bool, otherwise: str) -> None:
    """Skip a test where the condition does not hold."""
    if not condition:
        pytest.skip(otherwise)


def arrays_of(X: Any) -> list[Any]:
    """Return the arrays that items consist of."""
    return list(X.arrays()) if isinstance(X, Patches) else [X]


def in_two_parts(X: sparse.csr_array) -> sparse.csr_array:
    """Return equal rows that name each of their features twice: entries of a CSR are summed."""
    parts = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr
    return sparse.csr_array(parts, shape=X.shape)


def check_bilinear_form(fitted: BilinearLearner, X: Any) -> None:
    """Compare `pair_score` with x'Wy."""
    x, y = X[:10], X[20:30]
    W = fitted.get_bilinear_matrix()
    pairs = np.stack([x, y], axis=1)
    np.testing.assert_allclose(fitted.pair_score(pairs), np.diag(x @ W @ y.T), rtol=1e-7)
    W[:] = 0
    assert fitted.bilinear_matrix_.any(), "get_bilinear_matrix must return a copy"


def check_embedding_form(fitted: EmbeddingLearner, X: Any) -> None:
    """Compare similarities with the distances of the embeddings."""
    embedded = fitted.transform(X)
    x, y = embedded[:10], embedded[20:30]
    distances = np.sqrt(((x[:, None] - y[None]) ** 2).sum(axis=2))
    assert_close(fitted.similarity(X[:10], X[20:30]), -distances)


def check_mahalanobis_form(fitted: MahalanobisLearner, X: Any) -> None:
    """Compare distances with (x - y)'M(x - y), and the embedding with them."""
    x, y = X[:10], X[20:30]
    pairs = np.stack([x, y], axis=1)
    squared = np.diag((x - y) @ fitted.get_mahalanobis_matrix() @ (x - y).T)
    np.testing.assert_allclose(fitted.pair_distance(pairs) ** 2, squared, rtol=1e-7)
    np.testing.assert_allclose(fitted.pair_score(pairs), -fitted.pair_distance(pairs))
    projected = fitted.transform(x) - fitted.transform(y)
    np.testing.assert_allclose((projected**2).sum(axis=1), squared, rtol=1e-7)
