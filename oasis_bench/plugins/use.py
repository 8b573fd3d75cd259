"""Use a fitted learner: find the nearest rows of a gallery, embed rows, or make index vectors.

If the learner is in a pipeline with its scaling, rows are given before this scaling.  Columns of a
DataFrame are matched by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.extmath import row_norms

from oasis_bench.data import FloatArray, ReadTable, class_labels
from oasis_bench.plugins.blending import Blend, baseline_scores
from oasis_bench.plugins.learner import (
    BilinearLearner,
    EmbeddingLearner,
    as_inner_product,
    baseline_rows,
    form_of,
    learner_of,
    of_distances,
    read_rows,
)
from oasis_bench.plugins.metric_learner import TIES_SEED, MetricLearner
from oasis_bench.plugins.posterior import Posterior, without_votes
from oasis_bench.system import Progress, UsageError, no_progress
from oasis_bench.tasks import Calibration, Numbers, Truth, Verification, as_items, take_items, top_k

ROUNDING = 1e-9
"""Squared lengths that differ by this share are equal."""


def neighbours(
    estimator: Any, gallery: Any, queries: Any, k: int = 10, *, progress: Progress = no_progress
) -> tuple[Numbers, FloatArray]:
    """Find the k gallery items that are most similar to each query.

    Similarities are computed block by block, so memory is bounded.  If the estimator has a blend
    with the Euclidean baseline (attribute `blend_`), items are ranked by the blend.

    Parameters
    ----------
    estimator : MetricLearner, Pipeline or search
        A fitted estimator, for example from `oasis_bench.fit` or `oasis_bench.plugins.load_model`.
    gallery, queries : array, CSR, DataFrame or Patches
        Items for the first step of the estimator, such as rows of shape (n_items, n_features).  A
        query that is also in the gallery is ranked too, usually first.
    k : int, default 10
        Number of neighbours, at most the number of gallery items.
    progress : callable, default no_progress
        Called as ``progress(what, done, total)``.

    Returns
    -------
    rows : ndarray of shape (n_queries, k)
        Row numbers of gallery items, the most similar first.
    similarities : ndarray of shape (n_queries, k)
        Larger is more similar.

    Raises
    ------
    UsageError
        If `k` is out of bounds, a column is missing, or the learner cannot compare such items.
    """
    similarity, (items, asked) = ranking_of(estimator, [gallery, queries])
    return top_k(similarity, asked, items, k, TIES_SEED, progress=progress)


def ranking_of(
    estimator: Any, given: list[Any]
) -> tuple[Callable[[Any, Any], FloatArray], tuple[Any, ...]]:
    """Return the similarity by which an estimator ranks, with its blend, and the items for it.

    `given` are the gallery and the queries, or only the gallery if its items are the queries.
    """
    learner, prepared = learner_of(estimator, given)
    items = as_items(*prepared)
    blend: Blend | None = getattr(estimator, "blend_", None)
    if blend is None or blend.weight == 1:
        return learner.similarity, items
    of_baseline = as_items(*baseline_rows(estimator, given, prepared))
    if blend.weight == 0:
        return baseline_scores, of_baseline
    both = [*zip(items, of_baseline, strict=True)]
    numbers = tuple(np.arange(X.shape[0]) for X in items)
    return _blended(learner, blend, queries=both[-1], gallery=both[0]), numbers


def _blended(
    learner: MetricLearner, blend: Blend, queries: tuple[Any, Any], gallery: tuple[Any, Any]
) -> Callable[[Numbers, Numbers], FloatArray]:
    """Return the similarity of a blend: of queries, by their numbers, with the whole gallery.

    Queries and gallery are pairs: the rows for the learner, and the rows for the baseline.  The
    gallery is embedded only once, not for each block.
    """
    # Copies, by rows as the queries are: BLAS rounds columns otherwise.
    rows, others = (take_items(X, np.arange(X.shape[0])) for X in gallery)
    held = learner.embed(rows) if learner.has_embedding else rows

    def similarity(asked: Numbers, _: Numbers) -> FloatArray:
        own, of_baseline = (take_items(X, asked) for X in queries)
        if learner.has_embedding:
            scores = learner.finite_scores(learner.embed(own), held)
        else:
            scores = learner.similarity(own, held)
        learned = as_inner_product(type(learner), scores)
        return blend.mix(baseline_scores(of_baseline, others), learned)

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
        For `PsdOASIS`, `CosineOASIS` and the posterior use of any learner, the inner product of
        two points is the similarity.

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
            f"product of points: call neighbours, or take {learner.with_transform}; an index takes "
            "its query_vectors and gallery_vectors"
        )
    points: FloatArray = make(items)
    return points


def vectors(estimator: Any, X: Any, bound: float | None, of_queries: bool) -> Any:
    """Return the vectors of items for an index: `query_vectors` or `gallery_vectors`.

    The score of a query and an item is the sum over p of w_p (u_p'v_p + a_p + c_p), where p are the
    learner and the baseline of its blend.  So it is the inner product of

        query    [w_1 u_1 ; w_2 u_2 ; w_1 ; w_2 ; w_1 a_1 + w_2 a_2]
        gallery  [v_1     ; v_2     ; c_1 ; c_2 ; 1]

    without the w_p and c_p of a part that has no terms, and without the last column if none has.
    With a bound B it is minus half of the squared distance, but for a constant of each query, of

        query    [r_1 u_1 ; r_2 u_2 ; 0]
        gallery  [r_1 v_1 ; r_2 v_2 ; sqrt(B^2 - sum over p of w_p (|v_p|^2 + 2 c_p))]

    with r_p^2 = w_p; that sum is 0 for distances, and the last column is left out if B is 0.  If
    v_1 and v_2 are the same rows, they are one part.
    """
    learner, prepared = learner_of(estimator, [X])
    (items,) = as_items(*prepared)
    blend: Blend | None = getattr(estimator, "blend_", None)
    of_baseline, of_learned = (0.0, 1.0) if blend is None else blend.factors
    parts: list[tuple[float, Any, FloatArray | None]] = []
    if of_learned:
        points = learner.embed(items)
        parts.append((of_learned, *form_of(learner)(points, of_queries)))
    if of_baseline:
        own = baseline_rows(estimator, [X], prepared)
        (rows,) = as_items(*own)
        rows = rows.to_numpy() if hasattr(rows, "to_numpy") else rows
        if own is prepared:  # the digits of rows far from zero stay
            rows = without_votes(learner)._centred(rows)
        rows, norms = of_distances(rows)
        is_bilinear = isinstance(learner, BilinearLearner)
        if parts and own is prepared and is_bilinear and type(learner).embed is MetricLearner.embed:
            ((_, u, _),) = parts
            parts = []
            rows = u * (of_learned / of_baseline) + rows if of_queries else rows
        parts.append((of_baseline, rows, norms))
    n, terms = items.shape[0], [(w, a) for w, _, a in parts if a is not None]
    if bound is not None:
        columns = [u * np.sqrt(w) for w, u, _ in parts]
        last = [np.zeros(n) if of_queries else _filler(parts, bound)]
    elif of_queries:
        columns = [u * w for w, u, _ in parts]
        last = [*(np.full(n, w) for w, _ in terms), np.sum([w * a for w, a in terms], axis=0)]
    else:
        columns = [v for _, v, _ in parts]
        last = [*(c for _, c in terms), np.ones(n)]
    if bound or (terms and bound is None):
        columns.append(np.column_stack(last))
    if any(map(sparse.issparse, columns)):
        return sparse.csr_array(sparse.hstack([sparse.csr_array(it) for it in columns]))
    return columns[0] if len(columns) == 1 else np.hstack(columns)


def _filler(parts: list[tuple[float, Any, FloatArray | None]], bound: float) -> FloatArray:
    """Return the last column (n_items,) of gallery vectors with this bound."""
    squares = np.array([w * row_norms(v, squared=True).astype(np.float64) for w, v, _ in parts])
    types = [np.result_type(v.dtype, np.float32) for _, v, _ in parts]
    rounding = max(ROUNDING, *(8 * np.finfo(one).eps for one in types))
    terms = [2 * w * c for w, _, c in parts if c is not None]
    needed = squares.sum(axis=0) + np.sum(terms, axis=0)
    if not needed.max(initial=0) <= bound**2 + rounding * squares.max(initial=0) < np.inf:
        least = np.sqrt(needed.max()) * (1 + 5e-6)  # six digits may round down
        raise UsageError(
            f"bound = {bound:g}: these items need {least:.6g} or more: give a number "
            "with room for later items, the same one for all vectors of the index"
        )
    filler: FloatArray = np.sqrt(np.maximum(bound**2 - needed, 0))
    return filler


def calibrated(model: Any, X: Any, y: Any, groups: Any) -> Calibration:
    """Return the probability of one class by the scores of a model: see `Model.fit_same`."""
    from sklearn.model_selection import GroupKFold, KFold  # here: they are slow to import

    read = ReadTable.taken_from(model)
    (X,) = as_items(read_rows(model, X))
    codes = np.unique(class_labels(y, X.shape[0]), return_inverse=True)[1]
    found: list[Any] = []
    try:
        n_folds = 5 if groups is None else min(5, len(np.unique(groups)) // 2)
        folds = (KFold if groups is None else GroupKFold)(n_folds, shuffle=True, random_state=0)
        for train, test in folds.split(codes, groups=groups):
            copy = _refitted(read, take_items(X, train), codes[train])
            score, (items,) = ranking_of(copy, [take_items(X, test)])
            one: Any = Verification().evaluate(Truth(y=codes[test]), score, items, seed=0)
            found.append((one.scores, one.same))
    except ValueError as error:
        raise UsageError(
            f"a fold of the {len(codes)} rows does not show how similar rows of one class are: "
            f"{error}; if classes have few rows, give groups=y, which keeps each in one fold"
        ) from error
    scores, same = (np.concatenate(it) for it in zip(*found, strict=True))
    counts = np.bincount(codes)
    prior = (counts * (counts - 1)).sum() / (len(codes) * (len(codes) - 1))
    return Calibration.of(scores, same, float(prior))


def _refitted(model: Any, X: Any, y: Any) -> Any:
    """Return a copy of a model fitted on other rows: its scaling, learner, votes and blend."""
    steps, rows = _fitted([step for _, step in model.steps[:-1]], X)
    last, blend = model[-1], getattr(model, "blend_", None)
    learner = clone(without_votes(last)).fit(rows, y)
    if isinstance(last, Posterior):
        learner = clone(last).set_params(learner=learner).fit(rows, y)
    copy = type(model)(make_pipeline(*steps, learner).steps)
    if blend is not None:
        own = (None, None) if blend.steps is None else _fitted(blend.steps, X)
        copy.blend_ = Blend.of(learner, rows, blend.weight, 0, *own)
    return copy


def _fitted(steps: Any, X: Any) -> tuple[tuple[Any, ...], Any]:
    """Return copies of transformers, each fitted on the rows after the one before, and the last."""
    copies = tuple(clone(step) for step in steps if step not in (None, "passthrough"))
    for step in copies:
        X = step.fit_transform(X)
    return copies, X
