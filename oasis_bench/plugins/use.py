"""Use a fitted learner: find the nearest rows of a gallery, or embed rows in the learned space.

If the learner is in a pipeline with its scaling, rows are given before this scaling.  Columns of a
DataFrame are matched by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_random_state

from oasis_bench.data import FloatArray
from oasis_bench.plugins.blending import Blend
from oasis_bench.plugins.learner import (
    BilinearLearner,
    EmbeddingLearner,
    baseline_rows,
    learner_of,
)
from oasis_bench.plugins.metric_learner import TIES_SEED, MetricLearner
from oasis_bench.system import (
    Progress,
    Text,
    UsageError,
    Value,
    no_progress,
    require_memory,
    require_packages,
    slices,
)
from oasis_bench.tasks import Numbers, Scores, as_items, take_items, top_k


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

    Similarities are computed block by block, so memory is bounded.  If the estimator has a blend
    with the Euclidean baseline (attribute `blend_`), items are ranked by the blend.

    Parameters
    ----------
    estimator : MetricLearner, Pipeline or search
        A fitted estimator, such as `oasis_bench.fit` or `oasis_bench.plugins.load_model` return.
    gallery, queries : array, CSR, DataFrame or Patches
        Items for the first step of the estimator, such as rows of shape (n_items, n_features).
    k : int, default 10
        Number of neighbours, at most the number of gallery items.
    index : {'faiss'}, optional
        Search only a part of the gallery, with `ApproximateGallery`.  The learner must have a
        distance or a bilinear form, and items are ranked without the blend.  Default: compare with
        every gallery item.
    n_probes : int, default 8
        Number of lists of the index that are searched for each query.  A larger number finds more
        of the nearest items, and takes longer.
    progress : callable, default no_progress
        Called as ``progress(what, done, total)``.

    Returns
    -------
    rows : ndarray of shape (n_queries, k)
        Row numbers of gallery items, the most similar first; -1 if the searched lists have fewer
        than k items.
    similarities : ndarray of shape (n_queries, k)
        Larger is more similar.

    Raises
    ------
    UsageError
        If `k` is out of bounds, a column is missing, or the learner cannot compare such items.
    """
    given = [gallery, queries]
    learner, prepared = learner_of(estimator, given)
    items, asked = as_items(*prepared)
    if not 1 <= k <= items.shape[0]:
        n = items.shape[0]
        raise UsageError(f"k = {k}: the gallery has {n} items: give a number from 1 to {n}")
    if index not in (None, "faiss"):
        raise UsageError(f"index = {Text.shown(index)}: 'faiss' or None is needed")
    if index is None:
        blend: Blend | None = getattr(estimator, "blend_", None)
        if blend is None or blend.weight == 1:
            return top_k(learner.similarity, asked, items, k, TIES_SEED, progress=progress)
        others, own = as_items(*baseline_rows(estimator, given, prepared))
        if blend.weight == 0:
            return top_k(blend.baseline_scores, own, others, k, TIES_SEED, progress=progress)
        similarity = _blended(learner, blend, (asked, own), (items, others))
        rows_asked, rows = (np.arange(X.shape[0]) for X in (asked, items))
        return top_k(similarity, rows_asked, rows, k, TIES_SEED, progress=progress)
    lists = ApproximateGallery(learner, items, progress=progress)
    return lists.top_k(asked, k, min(n_probes, lists.n_lists))


def _blended(
    learner: MetricLearner, blend: Blend, queries: tuple[Any, Any], gallery: tuple[Any, Any]
) -> Callable[[Numbers, Numbers], Scores]:
    """Return the similarity of a blend, as a function of row numbers.

    Queries and gallery are pairs: the rows for the learner, and the rows for the baseline.  The
    gallery is embedded only once, not for each block.
    """
    kept: dict[str, Any] = {}

    def similarity(asked: Numbers, numbers: Numbers) -> Scores:
        if kept.get("numbers") is not numbers:
            rows = [take_items(X, numbers) for X in gallery]
            rows[0] = learner.embed(rows[0]) if learner.has_embedding else rows[0]
            kept.update(numbers=numbers, rows=rows)
        own, of_baseline = (take_items(X, asked) for X in queries)
        held, others = kept["rows"]
        if learner.has_embedding:
            scores = learner.finite_scores(learner.embed(own), held)
        else:
            scores = learner.similarity(own, held)
        learned = blend.as_inner_product(type(learner), scores)
        return blend.mix(blend.baseline_scores(of_baseline, others), learned)

    return similarity


def embed(estimator: Any, X: Any) -> FloatArray:
    """Return the points of items in the learned space, for an index or another program.

    The blend of an estimator with the Euclidean baseline is not part of the embedding.

    Parameters
    ----------
    estimator : MetricLearner, Pipeline or search
        A fitted estimator.
    X : array, CSR, DataFrame or Patches
        Items for the first step of the estimator, such as rows of shape (n_items, n_features).

    Returns
    -------
    ndarray of shape (n_items, n_components)
        For a learner of a distance, the Euclidean distance of two points is the learned distance.
        For `PsdOASIS` and `CosineOASIS`, the inner product of two points is the similarity.

    Raises
    ------
    UsageError
        If the learner has no embedding, or a column is missing.
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


# --- a large gallery that is searched in part, so that answers come sooner; by faiss, an extra

POINTS_PER_LIST = 64
"""Gallery items for each list that k-means sees, at most."""

AT_ONCE = 65_536
"""Gallery items that are put into lists at a time."""

Float32Array = npt.NDArray[np.float32]


class ApproximateGallery:
    r"""An approximate index that finds most of the k most similar gallery items of a query.

    k-means divides the gallery into lists, and a query searches only the lists with the nearest
    means (an inverted file: Jégou, Douze and Schmid 2011).  For a distance
    :math:`|f(x) - f(y)|` the points are f(y).  For a bilinear form x'Wy they are
    :math:`(y, \sqrt{m^2 - |y|^2})`, where m is the largest norm of a y, and the point of a query is
    (W'x, 0).  Then the nearest points have the highest scores (Bachrach et al. 2014).

    Needs faiss: ``pip install "oasis-bench[faiss]"``.  Points are float32, and all are in memory.

    Parameters
    ----------
    estimator : MetricLearner, Pipeline or search
        A fitted estimator whose learner has a distance or a bilinear form.
    gallery : array or CSR of shape (n_gallery, n_features), pixels or Patches
        Items for the first step of the estimator.
    n_lists : int, optional
        Number of lists.  Default: the square root of n_gallery.
    random_state : int, RandomState or None, default 0
        Seed of k-means and of the order within ties.
    progress : callable, default no_progress
        Called as ``progress('filling lists', done, n_gallery)``.

    Raises
    ------
    UsageError
        If faiss is not installed, or the learner has neither of these forms.
    MemoryError
        If the points do not fit into memory.

    References
    ----------
    H. Jégou, M. Douze and C. Schmid. Product quantization for nearest neighbor search. TPAMI 33(1),
    2011 (section IV).
    Y. Bachrach et al. Speeding up the Xbox recommender system using a Euclidean transformation for
    inner-product spaces. RecSys, 2014.
    """

    def __init__(
        self,
        estimator: Any,
        gallery: Any,
        n_lists: int | None = None,
        random_state: int | np.random.RandomState | None = 0,
        progress: Progress = no_progress,
    ) -> None:
        require_packages("ApproximateGallery", ["faiss"], "faiss")
        import faiss

        learner, items = learner_of(estimator, [gallery])
        (items,) = as_items(*items)
        self._estimator, self._learner, self._gallery = estimator, learner, gallery
        self._is_bilinear = _is_bilinear(learner)
        n = items.shape[0]
        rng = check_random_state(random_state)
        # As in `score_in_blocks`: equal items are not found in the order of their classes.
        order = rng.permutation(n)
        points = self._points(take_items(items, order))
        self.n_lists = round(n**0.5) if n_lists is None else n_lists
        Value.check("n_lists", self.n_lists, int, least=1, most=n)
        means = faiss.IndexFlatL2(points.shape[1])
        self._index = faiss.IndexIVFFlat(means, points.shape[1], self.n_lists)
        self._index.cp.seed = int(rng.randint(2**31))
        self._index.cp.max_points_per_centroid = POINTS_PER_LIST
        self._index.cp.min_points_per_centroid = 1  # it warns of fewer
        self._index.train(points)
        for part in slices(n, AT_ONCE):
            self._index.add_with_ids(points[part], order[part])
            progress("filling lists", part.stop, n)

    def top_k(
        self, queries: Any, k: int, n_probes: int = 8
    ) -> tuple[npt.NDArray[np.intp], Float32Array]:
        """Find gallery items with high scores for each query.

        Parameters
        ----------
        queries : array or CSR of shape (n_queries, n_features), pixels or Patches
        k : int
            Number of neighbours.
        n_probes : int, default 8
            Number of lists that are searched for each query.  With `n_lists` the result is exact,
            up to rounding.

        Returns
        -------
        rows : ndarray of shape (n_queries, k)
            Row numbers of gallery items, the most similar first; -1 if the searched lists have
            fewer than k items.
        scores : ndarray of shape (n_queries, k), float32
            The similarity, up to rounding; minus infinity if the row number is -1.
        """
        Value.check("k", k, int, least=1, most=self._index.ntotal)
        Value.check("n_probes", n_probes, int, least=1, most=self.n_lists)
        _, (items,) = learner_of(self._estimator, [queries])
        points = self._points_of_queries(items)
        self._index.nprobe = n_probes
        squared, rows = self._index.search(points, k)
        if self._is_bilinear:
            lengths = np.einsum("ij,ij->i", points, points)[:, None]
            scores = (lengths + self._longest**2 - squared) / 2
        else:
            scores = -np.sqrt(squared)
        return rows.astype(np.intp), np.where(rows < 0, -np.inf, scores).astype(np.float32)

    def recall(self, queries: Any, k: int, n_probes: int = 8) -> float:
        """Return the share of the exact k nearest items of these queries that `top_k` finds.

        `oasis_bench.tasks.top_k`, which compares with every item, finds the exact ones.
        """
        learner, (asked, ranked) = learner_of(self._estimator, [queries, self._gallery])
        best, _ = top_k(learner.similarity, asked, ranked, k, seed=0)
        found, _ = self.top_k(queries, k, n_probes)
        return float(np.mean([np.isin(*rows).mean() for rows in zip(best, found, strict=True)]))

    def _points(self, items: Any) -> Float32Array:
        """Return the points of gallery items (n_items, n_numbers)."""
        points = _dense(self._learner.embed(items))
        if not self._is_bilinear:
            return points
        squared = np.einsum("ij,ij->i", points, points, dtype=np.float64)
        self._longest = float(np.sqrt(squared.max()))
        missing = np.sqrt(np.maximum(squared.max() - squared, 0))
        return np.column_stack([points, missing]).astype(np.float32)

    def _points_of_queries(self, items: Any) -> Float32Array:
        points = self._learner.embed(items)
        if not self._is_bilinear:
            return _dense(points)
        projected = _dense(points @ self._learner.bilinear_matrix_)
        return np.pad(projected, ((0, 0), (0, 1)))


def _is_bilinear(learner: MetricLearner) -> bool:
    """Tell whether a learner is of a bilinear form or of a distance; others are refused."""
    score = type(learner).score_embeddings
    if score is BilinearLearner.score_embeddings:
        return True
    if score is EmbeddingLearner.score_embeddings and learner.has_embedding:
        return False
    raise UsageError(
        f"{type(learner).__name__} has neither a bilinear form x'Wy nor a distance |f(x) - f(y)|, "
        "which an approximate search needs: take oasis_bench.tasks.top_k"
    )


def _dense(points: Any) -> Float32Array:
    """Return points as contiguous float32; sparse ones only where they fit into memory."""
    n, d = points.shape
    require_memory(12 * n * d, f"a gallery of {n} points of {d} numbers", "use a smaller one")
    several = sparse.issparse(points)  # apart: the type checker would take points for less
    return np.ascontiguousarray(points.toarray() if several else points, dtype=np.float32)
