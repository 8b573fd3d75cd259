"""What the contract asks of a learner of any form, and what each form must compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oasis_bench.data import FloatArray, Patches
from oasis_bench.plugins.learner import (
    BilinearLearner,
    EmbeddingLearner,
    ExemplarLearner,
    MahalanobisLearner,
    MetricLearner,
)
from oasis_bench.tasks import evaluate_ranking

CHANCE = 14 / 59
"""The share of relevant items among the others, for 15 of each of 4 classes."""


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
