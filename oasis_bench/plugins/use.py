"""What a fitted learner is for: the nearest rows of a gallery, and points in its learned space.

Rows are taken as they were before their scaling, where the learner is in a pipeline or a model file
that holds it; columns of a DataFrame by their names.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from oasis_bench.data import FloatArray
from oasis_bench.plugins.approximate import ApproximateGallery
from oasis_bench.plugins.blending import Blend, as_inner_product, baseline_scores
from oasis_bench.plugins.learner import EmbeddingLearner, learner_of
from oasis_bench.plugins.metric_learner import TIES_SEED, MetricLearner
from oasis_bench.system import Progress, UsageError, no_progress, shown
from oasis_bench.tasks import Scores, Similarity, as_items, top_k


def neighbours(
    estimator: Any,
    gallery: Any,
    queries: Any,
    k: int = 10,
    *,
    index: str | None = None,
    n_probes: int = 8,
    progress: Progress = no_progress,
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.floating]]:
    """Find the k gallery items that are most similar to each query.

    Similarities are computed a block at a time, so that memory is bounded.  Where the estimator has
    a blend with the Euclidean baseline (`blend_`, of a weight below 1), they are of this blend.

    Parameters
    ----------
    estimator : MetricLearner, Pipeline or search
        Fitted, such as `oasis_bench.plugins.load_model` or `oasis_bench.fit` give it.
    gallery, queries : array, CSR, DataFrame or Patches
        Items as the first step takes them.
    k : int, default 10
        At most the number of gallery items.
    index : {'faiss'}, optional
        Look at a part of the gallery alone, by `ApproximateGallery`; for a learner of a distance or
        of a bilinear form, which ranks as learned, without a blend.  Default: look at every item.
    n_probes : int, default 8
        Lists of that index that a query looks into: more find more, and take longer.
    progress : callable, default no_progress
        Called as ``progress(what, done, total)``.

    Returns
    -------
    rows : ndarray of shape (n_queries, k)
        Numbers of gallery items, best first; -1 where the lists hold fewer.
    similarities : ndarray of shape (n_queries, k)
        Larger is more similar.

    Raises
    ------
    UsageError
        Where `k` is out of bounds, a column is missing, or the learner cannot compare such items.
    """
    learner, items = learner_of(estimator, [gallery, queries])
    items, asked = as_items(*items)
    if not 1 <= k <= items.shape[0]:
        n = items.shape[0]
        raise UsageError(f"k = {k}: the gallery has {n} items: give a number from 1 to {n}")
    if index not in (None, "faiss"):
        raise UsageError(f"index = {shown(index)}: 'faiss' or None is needed")
    if index is None:
        blend: Blend | None = getattr(estimator, "blend_", None)
        similarity = learner.similarity if blend is None else _blended(learner, blend)
        return top_k(similarity, asked, items, k, TIES_SEED, progress=progress)
    lists = ApproximateGallery(learner, items, progress=progress)
    return lists.top_k(asked, k, min(n_probes, lists.n_lists))


def _blended(learner: MetricLearner, blend: Blend) -> Similarity:
    """Return the similarity of a blend, which embeds a gallery once and not once a block."""
    if blend.weight == 1:
        return learner.similarity
    if blend.weight == 0:
        return baseline_scores
    if not learner.has_embedding:
        return partial(blend.similarity, learner)
    kept: dict[str, Any] = {}

    def similarity(queries: Any, gallery: Any) -> Scores:
        if kept.get("gallery") is not gallery:
            kept.update(gallery=gallery, embedded=learner.embed(gallery))
        scores = learner.finite_scores(learner.embed(queries), kept["embedded"])
        learned = as_inner_product(type(learner), scores)
        return blend.mix(baseline_scores(queries, gallery), learned)

    return similarity


def embed(estimator: Any, X: Any) -> FloatArray:
    """Return the points of items in the learned space, for an index or a program of your own.

    They are as learned: a blend of the estimator with the Euclidean baseline is not in them.

    Parameters
    ----------
    estimator : MetricLearner, Pipeline or search
        Fitted.
    X : array, CSR, DataFrame or Patches
        Items as the first step takes them.

    Returns
    -------
    ndarray of shape (n_items, n_components)
        Of a learner of a distance the Euclidean distance of two points is that of the items; of
        `PsdOASIS` and `CosineOASIS` the inner product is their similarity.

    Raises
    ------
    UsageError
        Where the learner has no embedding, or a column is missing.
    """
    learner, (items,) = learner_of(estimator, [X])
    if type(learner).score_embeddings is EmbeddingLearner.score_embeddings:
        make: Any = learner.embed
    elif hasattr(learner, "transform"):
        make = learner.transform
    else:
        raise UsageError(
            f"{learner.name} has no embedding: its similarity is neither a distance nor an inner "
            f"product of points: call neighbours, or take {learner.with_transform}"
        )
    points: FloatArray = make(items)
    return points
