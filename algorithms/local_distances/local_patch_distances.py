"""Local distance functions of pictures with patches: the learner on feature-to-set distances."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from numbers import Integral
from typing import Annotated, Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval

from oasis_bench.algorithms.local_distances._dual_ascent import Float64Array
from oasis_bench.algorithms.local_distances.local_distances import DUALS, LocalDistances
from oasis_bench.algorithms.local_distances.set_distances import (
    first_directions,
    projected,
    set_distances,
)
from oasis_bench.data import Descriptors, FloatArray, Patches, PatchKind, check_items, class_labels
from oasis_bench.plugins import ExemplarLearner, FittedArray
from oasis_bench.system import Progress, cache_home, no_progress, slices

PICTURES = 16
"""Exemplars whose distances to all pictures are held at a time."""


class LocalPatchDistances(LocalDistances):
    """`LocalDistances` of pictures with patches: a weight of 0 or more for each patch.

    d_ji,m is the smallest Euclidean distance of patch m of picture j to any patch of the same kind
    of picture i, and M_j counts the patches of all kinds.  Patches whose weight is 0 take no time
    when queries are asked about.  Memory of `fit` is that of the distances of the pairs, 4 bytes a
    patch and pair: 5 GB for 1500 pictures of 1200 patches at the default `n_nearest`.

    `n_components` compares descriptors by fewer numbers.  Measured on 150 training pictures of ten
    classes of Caltech101, 100 patches each of gb70, gb42 (204 numbers) and hsv (364), on one core:

    ============  ================  ===================  ================
    n_components  distances, CPU s  mean relative error  mean recognition
    ============  ================  ===================  ================
    None          7.0               0                    .747
    64            2.1               .027                 .727
    32            1.4               .097                 .717
    16            1.2               .220                 .703
    ============  ================  ===================  ================

    Recognition is the mean of three draws, of standard deviation .02 to .03.  The distances become
    shorter, and the weights make up for most of it.

    Parameters
    ----------
    C, max_passes, tol, least_growth, consistent, n_nearest, random_state
        As in `LocalDistances`.
    kinds : str or None, default None
        The kinds of patches to use, joined by +; None: all that the pictures have.
    n_components : int or None, default None
        Compare descriptors by so many first principal directions of the training patches, kind by
        kind: faster, and not exact.  A kind of no more numbers a patch is compared as it is.  None:
        all numbers.
    keep : bool, default False
        Keep the distances of training pictures and queries in the cache folder, as `set_distances`
        does, kind by kind: another learner on the same pictures, or a fit that goes on after it
        was killed, reads them.  Its times are then without them.

    Attributes
    ----------
    exemplars_ : Patches
        The training pictures, projected where there are `directions_`.
    directions_ : dict of str to ndarray of shape (n_components, p), float32
        By kind; empty where `n_components` is None.
    weights_ : list of ndarray of shape (M_j,), float64
        Kinds in the order of ``exemplars_.kinds``, each kind's patches in their order.
    C_, gap_, primal_, duals_, n_passes_, n_triplets_, zero_share_
        As in `LocalDistances`.

    References
    ----------
    As of `LocalDistances`.
    """

    name: ClassVar = "LocalPatchDistances"
    summary: ClassVar = "a weight for each patch of each training picture, by a large margin"
    cost: ClassVar = "time (n M)^2 for the distances, n^2 M + n^3 a pass, memory n^2 M + n^3"
    takes: ClassVar = "patches"

    directions_: dict[str, Descriptors] = field(init=False)

    kinds: str | None = None
    keep: bool = False
    n_components: Annotated[int | None, Interval(Integral, 1, None, closed="left")] = None

    def _check_training(self, X: Any, y: Any) -> tuple[Any, Any]:
        check_items("patches", X)
        X = X.of_kinds(self.kinds)
        y = class_labels(y, len(X))
        self._check(X, y)
        self.directions_ = {}
        if self.n_components is not None:
            rng = check_random_state(self.random_state)
            self.directions_ = first_directions(X, self.n_components, rng)
            X = projected(X, self.directions_)
        return X, y

    def _check_items(self, X: Any) -> Any:
        X = super()._check_items(X).of_kinds(self.kinds)
        return X if self.n_components is None else projected(X, self.directions_)

    def _widths(self, X: Any) -> list[int]:
        return [sum(map(len, picture.values())) for picture in X.of_kinds(self.kinds)]

    def _training_distances(self, X: Any, progress: Progress) -> Iterator[npt.NDArray[np.float32]]:
        if self.keep:
            yield from kept_distances(X, X, progress)
            return
        for part in slices(len(X), PICTURES):
            yield from set_distances(X[part], X, progress=_of_all(progress, part.start, len(X)))

    def _row_bytes(self) -> int:
        return 4 * PICTURES * max(len(w) for w in self.weights_)

    def _distances_to(self, queries: Any) -> list[FloatArray]:
        found: list[FloatArray] = []
        if self.keep:
            kept = kept_distances(self.exemplars_, queries, no_progress)
            return [distances @ w for distances, w in zip(kept, self.weights_, strict=True)]
        for part in slices(len(self.weights_), PICTURES):
            exemplars, weights = weighted_patches(self.exemplars_[part], self.weights_[part])
            for distances, w in zip(set_distances(exemplars, queries), weights, strict=True):
                found.append(distances @ w)
        return found

    def _fitted_state(self) -> dict[str, FittedArray]:
        return {**ExemplarLearner._fitted_state(self), **DUALS}


def kept_distances(
    exemplars: Patches, others: Patches, progress: Progress
) -> Iterator[npt.NDArray[np.float32]]:
    """Go over the exemplars: their distances to all others, which the cache folder keeps."""
    n = len(exemplars)
    kinds = [
        set_distances(
            exemplars.of_kinds(kind),
            others.of_kinds(kind),
            cache_home() / "distances",
            _of_all(progress, number * n, len(exemplars.kinds) * n),
        )
        for number, kind in enumerate(exemplars.kinds)
    ]
    for parts in zip(*kinds, strict=True):
        yield np.concatenate(parts, axis=1)


def _of_all(progress: Progress, before: int, total: int) -> Progress:
    """Return the progress of a part, which comes after `before` of the `total` exemplars."""
    return lambda what, done, _: progress(what, before + done, total)


def weighted_patches(
    exemplars: Patches, weights: list[Float64Array]
) -> tuple[Patches, list[Float64Array]]:
    """Leave out patches whose weight is 0, but for the first of each kind of a picture."""
    bounds = [np.cumsum([0, *(len(part) for part in picture.values())]) for picture in exemplars]
    kept = []
    for w, starts in zip(weights, bounds, strict=True):
        used = w > 0
        used[starts[:-1]] = True
        kept.append(used)
    kinds = {}
    for number, (name, kind) in enumerate(exemplars.kinds.items()):
        parts = [
            used[starts[number] : starts[number + 1]]
            for used, starts in zip(kept, bounds, strict=True)
        ]
        mask = np.concatenate(parts)
        offsets = np.cumsum([0, *(int(part.sum()) for part in parts)], dtype=np.int64)
        kinds[name] = PatchKind(kind.descriptors[mask], offsets, kind.positions[mask])
    return Patches(kinds), [w[used] for w, used in zip(weights, kept, strict=True)]
