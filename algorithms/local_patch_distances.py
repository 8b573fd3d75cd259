"""Local distance functions of pictures with patches: the learner on feature-to-set distances.

These go from each patch of exemplar pictures to the sets of patches of other pictures.  Descriptors
may be projected first, and may include the locations of the patches.
"""

from __future__ import annotations

import hashlib
import math
import os
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA
from sklearn.utils import check_random_state

from oasis_bench.algorithms._dual_ascent import Float64Array
from oasis_bench.algorithms.base import Count, FromZero
from oasis_bench.algorithms.local_distances import LocalDistances
from oasis_bench.data import Descriptors, FloatArray, Patches, PatchKind, check_items, class_labels
from oasis_bench.plugins import FittedArray
from oasis_bench.system import (
    Progress,
    UsageError,
    cache_home,
    n_blas_threads,
    no_progress,
    one_blas_thread,
    side_by_side,
    slices,
    whole_file,
)

PICTURES = 16
"""Exemplars whose distances to all pictures are held at a time."""


class LocalPatchDistances(LocalDistances):
    r"""`LocalDistances` for pictures: a non-negative weight for each patch of a training picture.

    d_ji,m is the smallest Euclidean distance of patch m of picture j to any patch of the same kind
    of picture i.  M_j is the number of patches of picture j, of all kinds.  Patches with a weight
    of 0 take no time at queries.  The memory of `fit` is that of the distances of the pairs, 4
    bytes for each patch and pair: 5 GB for 1500 pictures with 1200 patches and the default
    `n_nearest`.

    `n_components` compares descriptors by fewer numbers.  We measured this on 150 training pictures
    of ten classes of Caltech101, with 100 patches each of gb70, gb42 (204 numbers) and hsv (364),
    on one core:

    ============  ================  ===================  ================
    n_components  distances, CPU s  mean relative error  mean recognition
    ============  ================  ===================  ================
    None          7.0               0                    .747
    64            2.1               .027                 .727
    32            1.4               .097                 .717
    16            1.2               .220                 .703
    ============  ================  ===================  ================

    Recognition is the mean of three random splits, with a standard deviation of .02 to .03.  The
    distances become shorter, and the weights compensate for most of this.

    `location_weight` also compares where patches are.  The location of a patch is measured from the
    mean of the points of its picture and kind, and divided by the root mean square distance of
    these points from their mean.  The squared distance of two patches is

    .. math::

        |x - y|^2 + \lambda V |u - v|^2

    for descriptors x and y, locations u and v, the weight :math:`\lambda`, and the total variance V
    of the kind's descriptors in training (after projection).  At a weight of 1, locations have the
    same total variance as descriptors.

    Parameters
    ----------
    C, max_passes, tol, least_growth, consistent, n_nearest, random_state
        As in `LocalDistances`.
    kinds : str or None, default None
        The kinds of patches to use, joined by +; None: all that the pictures have.
    n_components : int or None, default None
        The number of principal components of the training patches by which descriptors of each kind
        are compared.  This is faster, and not exact.  A kind with no more numbers for each patch is
        not changed.  None: all numbers.
    location_weight : float, default 0
        The weight of the locations of patches.  0: descriptors only, as in the paper.  We selected
        0.4 on ten classes of Caltech256.
    keep : bool, default False
        Keep the distances of training pictures and queries in the cache folder.  Other learners on
        the same pictures, or a repeated fit, then read them, so their times do not include the
        computation of distances.

    Attributes
    ----------
    exemplars_ : Patches
        The training pictures, projected if `directions_` are used, and with locations as the last
        two numbers of a descriptor if `location_weight` is not 0.
    directions_ : dict of str to ndarray of shape (n_components, p), float32
        The principal components of each kind; empty if `n_components` is None.
    location_factors_ : dict of str to float
        The factor of locations, :math:`(\lambda V)^{1/2}`, of each kind; empty if
        `location_weight` is 0.
    weights_ : list of ndarray of shape (M_j,), float64
        The weights of each picture: kinds in the order of ``exemplars_.kinds``, patches in their
        order.
    C_, gap_, primal_, duals_, n_passes_, n_triplets_, zero_share_
        As in `LocalDistances`.

    References
    ----------
    As of `LocalDistances`.  Locations in descriptors: Boiman, Shechtman & Irani (2008), In Defense
    of Nearest-Neighbor Based Image Classification, CVPR.
    """

    name: ClassVar = "LocalPatchDistances"
    summary: ClassVar = "a weight for each patch of a training picture, learned with a hinge loss"
    cost: ClassVar = (
        "time (n M)^2 for the distances, n^2 M + n^3 a pass, memory n^2 M + n^3; "
        "M patches a picture"
    )
    takes: ClassVar = "patches"

    directions_: dict[str, Descriptors] = field(init=False)
    location_factors_: dict[str, float] = field(init=False)

    kinds: str | None = None
    keep: bool = False
    n_components: Count | None = None
    location_weight: FromZero = 0.0

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
        self.location_factors_ = {}
        if self.location_weight > 0:
            for name, kind in X.kinds.items():
                variance = float(kind.descriptors.var(axis=0, dtype=np.float64).sum())
                self.location_factors_[name] = math.sqrt(self.location_weight * variance)
        return located(X, self.location_factors_), y

    def _check_items(self, X: Any) -> Any:
        X = super()._check_items(X).of_kinds("+".join(self.exemplars_.kinds))
        return located(projected(X, self.directions_), self.location_factors_)

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
        state = super()._fitted_state()
        del state["exemplars_"]  # they are Patches
        return state


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


BLOCK = 2048
"""Patches of exemplars in a product; the fewer, the larger the other pictures are."""

TILE = 2**20
"""Numbers in the product with one other picture: 4 MB, which the caches hold."""

KEPT_BYTES = 40 * 10**9
"""Distances that a folder keeps: beyond, those that were used longest ago are deleted."""

CLOSE = 0.01
"""Squared distances below this share of |x|^2 are computed again, as differences."""

SAMPLE = 20_000
"""Patches of a kind that tell the directions."""


def set_distances(
    exemplars: Patches,
    others: Patches,
    folder: Path | None = None,
    progress: Progress = no_progress,
) -> Iterable[npt.NDArray[np.float32]]:
    """Compute the distances d_ji,m from feature to set (Frome et al., ICCV 2007, section 3).

    d_ji,m is the smallest Euclidean distance of patch m of exemplar j to any patch of the same
    kind of picture i.  It is exact but for rounding: products |x|^2 + |y|^2 - 2 x'y in float32
    find the nearest patch, and short distances are computed again from the difference.  The
    relative error is below 1e-4, save where two patches of i are nearly equally near: there the
    error is below 1e-3 |x|.

    It works on as many cores as BLAS may use (`threadpool_limits`, OMP_NUM_THREADS); the result is
    the same on any number.

    Parameters
    ----------
    exemplars : Patches
        The pictures j.
    others : Patches
        The pictures i, of the same kinds of patches.
    folder : Path, optional
        Keep the distances in files there, under a hash of both arguments: what an earlier call has
        computed, also one that was killed, is read, and calls in two processes share the work.
        The arrays are then mapped, read-only, and take no memory.  Beyond `KEPT_BYTES`, distances
        of other arguments are deleted, first those that were used longest ago.
    progress : callable, optional
        Called with the number of exemplars done.

    Returns
    -------
    iterable of ndarray of shape (n_others, M_j), float32
        One array for each exemplar, in C order.  M_j counts its patches of all kinds, in the order
        of ``exemplars.kinds``, each kind's patches in their order.

    Raises
    ------
    UsageError
        If the kinds differ, or `folder` cannot be written.
    """
    _check_kinds(exemplars, others)
    if folder is None:
        return _computed(exemplars, others, None, progress)
    folder = folder / _content_hash(exemplars, others)
    paths = [folder / f"{j}.npy" for j in range(len(exemplars))]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        os.utime(folder)
        _free(folder.parent, 4 * len(others) * sum(_n_patches(exemplars)), keep=folder)
        _computed(exemplars, others, paths, progress)
        return map(partial(np.load, mmap_mode="r"), paths)  # one open file at a time
    except OSError as error:
        raise UsageError(
            f"cannot keep distances in {folder}: {error.strerror}: free space or choose another "
            "folder"
        ) from error


def _check_kinds(exemplars: Patches, others: Patches) -> None:
    widths = [
        {name: kind.descriptors.shape[1] for name, kind in patches.kinds.items()}
        for patches in (exemplars, others)
    ]
    if widths[0] != widths[1]:
        raise UsageError(
            f"patches of kinds and widths {widths[0]} compared with {widths[1]}: the same are "
            "needed"
        )


def _n_patches(patches: Patches) -> list[int]:
    """Count the patches of all kinds of each picture."""
    counts = np.sum([np.diff(kind.offsets) for kind in patches.kinds.values()], axis=0)
    return [int(count) for count in counts]


def _content_hash(exemplars: Patches, others: Patches) -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for patches in (exemplars, others):
        for array in patches.arrays():
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _free(folder: Path, needed: int, keep: Path) -> None:
    """Delete the folders of distances that were used longest ago, until `needed` bytes fit."""
    with suppress(FileNotFoundError):  # another process deletes the same
        sizes = {
            inner: sum(path.stat().st_size for path in inner.glob("*.npy"))
            for inner in folder.iterdir()
            if re.fullmatch("[0-9a-f]{64}", inner.name) and inner != keep and not inner.is_symlink()
        }
        room = KEPT_BYTES - needed - sum(sizes.values())
        for inner in sorted(sizes, key=lambda inner: inner.stat().st_mtime):
            if room >= 0:
                break
            with suppress(OSError):  # another process may write there
                for path in inner.glob("*.npy"):
                    path.unlink()
                inner.rmdir()
            room += sizes[inner]


def _is_kept(path: Path, shape: tuple[int, int]) -> bool:
    """Tell whether a file holds distances of that shape, all of them."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, ValueError, EOFError):  # the last two where it is damaged
        return False
    return bool(array.shape == shape and array.dtype == np.float32)


def _computed(
    exemplars: Patches,
    others: Patches,
    paths: Sequence[Path] | None,
    progress: Progress,
) -> list[npt.NDArray[np.float32]]:
    """Compute the distances of exemplars, in groups.

    With `paths` those of each exemplar are written to its own, but for groups that are there, and
    none are returned.
    """
    n_done, lock = 0, Lock()
    sizes, groups = _n_patches(exemplars), _groups(exemplars)

    def work(group: list[int]) -> list[npt.NDArray[np.float32]]:
        nonlocal n_done
        found: list[npt.NDArray[np.float32]] = []
        if paths is None:
            found = _of_group(exemplars[group], others)
        # Whole groups: where a patch stands in a product decides the last bit.
        elif not all(_is_kept(paths[j], (len(others), sizes[j])) for j in group):
            for j, distances in zip(group, _of_group(exemplars[group], others), strict=True):
                with whole_file(paths[j]) as file:
                    np.save(file, distances, allow_pickle=False)
        with lock:
            n_done += len(group)
            progress("distances between patches", n_done, len(exemplars))
        return found

    if paths is not None:  # in any order: another process that does the same meets few groups
        groups = random.sample(groups, len(groups))
    n_threads = n_blas_threads()
    with one_blas_thread:
        return list(chain(*side_by_side(work, groups, n_threads)))


def _groups(exemplars: Patches) -> list[list[int]]:
    """Divide exemplars into groups with as many patches as fill a block, or one more picture."""
    groups: list[list[int]] = []
    room = 0
    for j, size in enumerate(_n_patches(exemplars)):
        if room <= 0:
            groups.append([])
            room = BLOCK * len(exemplars.kinds)
        groups[-1].append(j)
        room -= size
    return groups


def _of_group(exemplars: Patches, others: Patches) -> list[npt.NDArray[np.float32]]:
    """Compute the distances of a few exemplars: one array (n_others, M_j) each."""
    parts = []
    for name, kind in exemplars.kinds.items():
        nearest = _nearest(kind.descriptors, others.kinds[name])
        parts.append(np.split(nearest, kind.offsets[1:-1], axis=1))
    return [np.concatenate(of_kinds, axis=1) for of_kinds in zip(*parts, strict=True)]


def _nearest(rows: Descriptors, kind: PatchKind) -> npt.NDArray[np.float32]:
    """Return the distances (n_others, n_rows) of patches to the nearest patch of each picture.

    |y|^2 - 2 x'y is one product: of y and |y|^2 with -2 x and 1.
    """
    found = np.empty((len(kind), len(rows)), np.float32)
    largest = int(np.diff(kind.offsets).max(initial=1))
    step = min(BLOCK, max(64, TILE // largest))
    tiles = np.empty((largest, step), np.float32)
    others = np.empty((largest, rows.shape[1] + 1), np.float32)
    for part in slices(len(rows), step):
        x = rows[part]
        squares = np.einsum("mp,mp->m", x, x)
        factors = np.concatenate([-2 * x, np.ones((len(x), 1), np.float32)], axis=1).T
        for i, y in enumerate(kind):
            left, tile = others[: len(y)], tiles[: len(y), : len(x)]
            left[:, :-1] = y
            np.einsum("mp,mp->m", y, y, out=left[:, -1])
            np.matmul(left, factors, out=tile)
            nearest = tile.min(axis=0) + squares
            close = np.flatnonzero(nearest <= CLOSE * squares)
            if len(close):
                differences = x[close] - y[tile[:, close].argmin(axis=0)]
                nearest[close] = np.einsum("mp,mp->m", differences, differences)
            np.sqrt(np.maximum(nearest, 0, out=nearest), out=found[i, part])
    return found


def first_directions(
    patches: Patches, n_components: int, rng: np.random.RandomState
) -> dict[str, Descriptors]:
    """Return the first principal directions (n_components, p) of the patches of each kind.

    They are those of a sample of 20 000 patches.  A kind that has no more numbers a patch, or no
    more patches, is not there.
    """
    found = {}
    for name, kind in patches.kinds.items():
        rows = kind.descriptors
        if len(rows) > SAMPLE:
            rows = rows[rng.choice(len(rows), SAMPLE, replace=False)]
        if n_components < min(rows.shape):
            pca = PCA(n_components, svd_solver="covariance_eigh").fit(rows)
            found[name] = pca.components_.astype(np.float32)
    return found


def projected(patches: Patches, directions: Mapping[str, Descriptors]) -> Patches:
    """Project the descriptors of the kinds that have directions.

    The mean is not taken away first: distances are the same without it.
    """
    kinds = dict(patches.kinds)
    for name, axes in directions.items():
        kind = kinds[name]
        width = kind.descriptors.shape[1]
        if width != axes.shape[1]:
            raise UsageError(
                f"patches of the kind {name!r} with {width} numbers: {axes.shape[1]} are needed, "
                "as the training pictures have"
            )
        kinds[name] = PatchKind(kind.descriptors @ axes.T, kind.offsets, kind.positions)
    return Patches(kinds)


def located(patches: Patches, factors: Mapping[str, float]) -> Patches:
    """Append the locations of patches, times the factor of their kind, to the descriptors.

    A kind without a factor stays as it is.  A location is measured from the mean of the positions
    of its picture, and divided by their root mean square distance from it.  It is 0 if all
    positions are equal.
    """
    kinds = dict(patches.kinds)
    for name in kinds.keys() & factors.keys():
        kind = kinds[name]
        sizes = np.diff(kind.offsets)
        places = kind.positions - np.repeat(kind.means(kind.positions), sizes, axis=0)
        squares = kind.means((places**2).sum(axis=1, keepdims=True))
        scales = factors[name] / np.sqrt(np.where(squares > 0, squares, 1))
        places *= np.repeat(scales, sizes, axis=0)
        joined = np.concatenate([kind.descriptors, places], axis=1, dtype=np.float32)
        kinds[name] = PatchKind(joined, kind.offsets, kind.positions)
    return Patches(kinds)
