"""The solver for given distances and triplets; the learner makes its own from classes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from oasis_bench.algorithms.local_distances._constraints import Constraints, Numbers
from oasis_bench.algorithms.local_distances._dual_ascent import DualAscent, Float64Array, maximise
from oasis_bench.data import FloatArray
from oasis_bench.system import UsageError


def solve(
    distances: Sequence[Any],
    triplets: npt.ArrayLike,
    C: float,
    tol: float,
    *,
    max_passes: int = 100_000,
    random_state: int = 0,
) -> tuple[list[Float64Array], float]:
    r"""Minimise the primal of globally consistent local distance functions over given triplets.

    .. math::

        \min_{W \ge 0} \tfrac{1}{2} |W|^2
        + C \sum_{(i, j, k)} [\, 1 - w_k^\top d_{ki} + w_j^\top d_{ji} \,]_+

    (Frome, Sha, Singer & Malik 2007, equations 3 and 4).  Time a pass: a few passes over the
    distances of the pairs (j, i) and (k, i) that occur, and t for t triplets.  Memory beside the
    distances: 6 numbers a triplet.

    Parameters
    ----------
    distances : sequence of ndarray of shape (n_images, M_j)
        ``distances[j][i]`` is d_ji, none negative; of any type of real numbers.  float32 and
        float64 are read as they are, memory-mapped ones too.
    triplets : array of shape (n_triplets, 3), integers
        Reference i, positive j and negative k, numbers of images.  One that is there twice counts
        twice.
    C : float
        What a loss of 1 costs, above 0.
    tol : float
        Stop where the gap is at most this share of the primal; above 0.
    max_passes : int, default 100 000
        Passes over the triplets at most.
    random_state : int, default 0
        Draws the order in which references are visited.

    Returns
    -------
    weights : list of ndarray of shape (M_j,)
        w_j of each image; 0 where it is in no triplet.
    gap : float
        The primal of these weights less a value of the dual: the primal is at most so far from
        its least value.

    Raises
    ------
    UsageError
        Where an argument is not of this kind.

    Warns
    -----
    ConvergenceWarning
        Where `max_passes` came first.
    """
    for name, value in (("C", C), ("tol", tol)):
        if not 0 < value < math.inf:
            raise UsageError(f"{name} is {value}: give a finite number above 0")
    if max_passes < 1:
        raise UsageError(f"max_passes is {max_passes!r}: give a whole number, 1 or more")
    arrays = check_distances(distances)
    constraints = Constraints.of_triplets(arrays, _check_triplets(triplets, len(arrays)))
    ascent = DualAscent(constraints, float(C), np.random.default_rng(random_state))
    found = maximise(ascent, tol, 0.0, max_passes)
    if not found.is_within(tol):
        warnings.warn(
            f"the gap is {found.gap:.1e}, {found.gap / found.primal:.1e} of the primal, after "
            f"{found.passes} passes, above tol={tol:g}: raise tol, or max_passes={max_passes}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return [part.copy() for part in np.split(found.weights, constraints.starts[1:-1])], found.gap


def check_distances(distances: Sequence[Any]) -> list[FloatArray]:
    """Return distances (n_images, M_j) as C-contiguous arrays of one type, float32 or float64.

    Raises
    ------
    UsageError
        Where one has another shape, is not of numbers, or holds NaN, infinity or a negative
        number.
    """
    arrays = [np.asarray(array) for array in distances]
    if not arrays:
        raise UsageError("distances of 0 images: at least 1 is needed")
    for j, array in enumerate(arrays):
        if array.ndim != 2 or len(array) != len(arrays) or array.dtype.kind not in "fiu":
            raise UsageError(
                f"distances[{j}] has shape {array.shape} and type {array.dtype}: an array of "
                f"real numbers of shape ({len(arrays)}, M_{j}), a row for each of the "
                f"{len(arrays)} images, is needed"
            )
    is_single = all(a.dtype.kind == "f" and a.dtype.itemsize <= 4 for a in arrays)
    dtype = np.float32 if is_single else np.float64
    arrays = [np.ascontiguousarray(array, dtype=dtype) for array in arrays]
    for j, array in enumerate(arrays):
        if not array.size:
            continue
        least, most = array.min(), array.max()
        if not (least >= 0 and most < np.inf):
            raise UsageError(
                f"distances[{j}] has values from {least} to {most}: finite numbers of 0 or more "
                "are needed"
            )
    return arrays


def _check_triplets(triplets: npt.ArrayLike, n_images: int) -> Numbers:
    array = np.asarray(triplets)
    if not array.size:
        array = np.empty((0, 3), dtype=np.intp)
    if array.ndim != 2 or array.shape[1] != 3 or array.dtype.kind not in "iu":
        raise UsageError(
            f"triplets of shape {array.shape} and type {array.dtype}: whole numbers of shape "
            "(n_triplets, 3), reference, positive and negative, are needed"
        )
    if array.size and not 0 <= array.min() <= array.max() < n_images:
        raise UsageError(
            f"triplets hold image numbers from {array.min()} to {array.max()}: 0 to "
            f"{n_images - 1}, a number of one of the {n_images} images, is needed"
        )
    return array.astype(np.intp)
