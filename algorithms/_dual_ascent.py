"""The dual of local distance functions, raised by row actions to a certified gap.

The triplets are kept as pairs and groups of pairs, never one row a triplet: a pair is an exemplar j
and a reference i with the distances d_ji.  The learner makes its triplets from classes; `solve`
takes distances and triplets as they are.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

import oasis_bench.algorithms._row_action as _row_action
from oasis_bench.algorithms.base import check_triplets
from oasis_bench.data import FloatArray
from oasis_bench.system import (
    Progress,
    UsageError,
    n_blas_threads,
    no_progress,
    side_by_side,
    slices,
)

Float64Array = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.intp]

PASSES_PER_CHECK = 5
"""Passes between two looks at the gap, which cost about one pass together."""

PART_NUMBERS = 2**20
"""Distances that a thread reads at a stretch.  Sums do not depend on how many threads there are."""

GROUP_NUMBERS = 2**16
"""Distances of a group that are worth a thread, of some ten microseconds."""


class DualAscent:
    """A point of the dual, alpha = 0 at first, and the steps that raise it.

    Parameters
    ----------
    constraints : Constraints
    C : float
    rng : numpy.random.Generator
        Draws the order of the groups.

    Attributes
    ----------
    alphas : ndarray of shape (n_triplets,)
    U : ndarray of shape (n_weights,)
        sum alpha X; the weights of all exemplars are W = max(U, 0).
    products, curvatures, moves, growths, alphas_before : ndarray
        Working memory of the kernel, which says what they hold.
    """

    def __init__(self, constraints: Constraints, C: float, rng: np.random.Generator) -> None:
        self.constraints, self.C, self._rng = constraints, C, rng
        n_pairs = len(constraints.rows)
        self.alphas = np.zeros(constraints.n_triplets)
        self.U = np.zeros(constraints.starts[-1])
        self.products, self.curvatures, self.moves, self.growths = np.zeros((4, n_pairs))
        of_groups = np.bincount(
            constraints.groups, constraints.last - constraints.first, constraints.n_groups
        )
        self.alphas_before = np.empty(int(of_groups.max(initial=0)))

    @property
    def weights(self) -> Float64Array:
        """W, shape (n_weights,)."""
        return np.maximum(self.U, 0)

    def dual(self) -> float:
        """Return sum alpha - |W|^2 / 2."""
        W = self.weights
        return float(self.alphas.sum() - W @ W / 2)

    def primal(self, W: Float64Array) -> float:
        """Return |W|^2 / 2 + C times the sum of all losses, for any weights of 0 or more."""
        c = self.constraints

        def weigh(exemplars: slice) -> None:
            _row_action.weigh_pairs(c.number, self, c.pairs_of(exemplars), W)

        def sum_losses(part: slice) -> float:
            return float(_row_action.sum_losses(self, part.start, part.stop))

        side_by_side(weigh, self._parts(len(c.distances)))
        losses = side_by_side(sum_losses, self._parts(len(c.negatives)))
        return float(W @ W / 2 + self.C * math.fsum(losses))

    def take_row_actions(self) -> float:
        """Take the row action of each triplet in turn; return the mean of the losses before.

        If each group has one exemplar, threads share the groups: no two touch the same weights.
        """
        c = self.constraints
        groups = self._rng.permutation(c.n_groups)
        seen = np.full(len(c.rows), -1, dtype=np.intp)
        changes = np.zeros(len(c.distances), dtype=np.intp)

        def act(part: slice) -> float:
            order = c.negatives_of(groups[part])
            return float(_row_action.take_row_actions(c.number, self, order, seen, changes))

        parts = [slice(0, len(groups))] if c.consistent else self._parts(len(groups))
        return math.fsum(side_by_side(act, parts)) / max(1, c.n_triplets)

    def visit_groups(self) -> None:
        """Visit each group once: the same row actions on a model of a group, several times faster.

        If groups have one exemplar, `take_row_actions`.
        """
        c = self.constraints
        if not c.consistent:
            self.take_row_actions()
            return
        groups = self._rng.permutation(c.n_groups)
        share, arrivals = np.zeros(1), np.zeros(1, dtype=np.longlong)
        n_threads = n_blas_threads() if _row_action.CAN_MEET else 1
        n_threads = max(1, min(n_threads, c.n_numbers // (max(1, c.n_groups) * GROUP_NUMBERS)))

        def visit(thread: int) -> None:
            _row_action.visit_groups(c.number, self, groups, share, arrivals, thread, n_threads)

        side_by_side(visit, range(n_threads), n_threads)

    def _parts(self, n: int) -> list[slice]:
        n_parts = max(1, self.constraints.n_numbers // PART_NUMBERS)
        return list(slices(n, max(1, n // n_parts)))

    def move_to(self, alphas: Float64Array) -> None:
        """Take other alphas, and sum U afresh."""
        c = self.constraints
        sums = np.zeros(len(c.rows))
        _row_action.sum_triplets(self, alphas, sums)
        U = np.zeros_like(self.U)

        def add(exemplars: slice) -> None:
            _row_action.add_pairs(c.number, self, c.pairs_of(exemplars), sums, U)

        side_by_side(add, self._parts(len(c.distances)))
        self.alphas, self.U = alphas, U


@dataclass
class Solution:
    """Weights and how good they are proven to be; the dual after each pass never falls."""

    weights: Float64Array
    primal: float
    duals: list[float] = field(default_factory=list)

    @property
    def gap(self) -> float:
        """The primal less the dual: the primal is at most so far from its least value."""
        return max(0.0, self.primal - max(self.duals))

    @property
    def passes(self) -> int:
        """The number of passes."""
        return len(self.duals) - 1

    def is_within(self, tol: float) -> bool:
        """Say whether the gap is at most this share of the primal."""
        return self.gap <= tol * self.primal


def maximise(
    ascent: DualAscent,
    tol: float,
    least_growth: float,
    max_passes: int,
    progress: Progress = no_progress,
) -> Solution:
    """Visit all groups, again and again, until the gap is small or the dual hardly grows.

    Between two passes it goes on in the direction of the last ones (Nesterov's momentum), unless
    the dual would fall.  The primal is looked at now and then, at the weights and at their mean
    over the last passes; the best weights are the solution.

    Parameters
    ----------
    ascent : DualAscent
        Changed.
    tol : float
        Gap at which it stops, as a share of the primal.
    least_growth : float
        Growth of the dual over a pass, as a share of it, below which it stops; 0: never for that.
        It also stops where a pass changes nothing.
    max_passes : int
    progress : callable, optional
        Called as ``progress('passes', done, None)`` after each pass.
    """
    best = Solution(ascent.weights, ascent.primal(ascent.weights), [ascent.dual()])
    before, momentum = ascent.alphas.copy(), 0
    total = np.zeros_like(ascent.U)
    for n in range(1, max_passes + 1):
        ascent.visit_groups()
        best.duals.append(ascent.dual())
        progress("passes", n, None)
        total += ascent.weights
        grown = best.duals[-1] - best.duals[-2]
        stalls = grown < least_growth * best.duals[-1] if least_growth else False
        stalls = stalls or np.array_equal(ascent.alphas, before)
        if n % PASSES_PER_CHECK == 0 or stalls or n == max_passes:
            for W in (ascent.weights, total / ((n - 1) % PASSES_PER_CHECK + 1)):
                if (primal := ascent.primal(W)) < best.primal:
                    best.weights, best.primal = W, primal
            if best.is_within(tol) or stalls:
                break
            total[:] = 0
        momentum = _extrapolate(ascent, before, momentum + 1, best.duals[-1])
    return best


def _extrapolate(ascent: DualAscent, before: Float64Array, momentum: int, dual: float) -> int:
    """Go on from the alphas `before` to those of now and beyond; return the momentum, 0: none.

    `before` becomes the alphas of now.
    """
    now, U = ascent.alphas, ascent.U
    ahead = now - before
    ahead *= (momentum - 1) / (momentum + 2)
    ahead += now
    np.clip(ahead, 0, ascent.C, out=ahead)
    before[:] = now
    if momentum > 1:
        ascent.move_to(ahead)
        if ascent.dual() < dual:
            ascent.alphas, ascent.U = now, U
            return 0
    return momentum


def choose_by_one_pass(constraints: Constraints, seed: int) -> DualAscent:
    """Return the ascent after one online pass with the C whose mean loss is smallest.

    Frome et al. 2007, 5.4: each triplet's loss counts before its update.  C goes over half orders
    of magnitude, from that nearest to 1 / |X|^2 up while the loss falls, or down where it does
    not; of equal losses the smallest C wins.
    """

    def one_pass(exponent: int) -> tuple[float, DualAscent]:
        ascent = DualAscent(constraints, 10 ** (exponent / 2), np.random.default_rng(seed))
        return ascent.take_row_actions(), ascent

    mean_square = 2 * float(constraints.squares.mean()) if len(constraints.rows) else 0.0
    start = round(-2 * math.log10(mean_square)) if mean_square > 0 else 0
    here, above = side_by_side(one_pass, [start, start + 1])
    best, step = (above, 1) if above[0] < here[0] else (here, -1)
    exponent = start + 2 if step > 0 else start - 1
    while (following := one_pass(exponent))[0] < best[0]:
        best, exponent = following, exponent + step
    return best[1]


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
        If an argument is not of this kind.

    Warns
    -----
    ConvergenceWarning
        If `max_passes` came first.
    """
    for name, value in (("C", C), ("tol", tol)):
        if not 0 < value < math.inf:
            raise UsageError(f"{name} is {value}: give a finite number above 0")
    if max_passes < 1:
        raise UsageError(f"max_passes is {max_passes!r}: give a whole number, 1 or more")
    arrays = check_distances(distances)
    given = triplets if np.size(triplets) else np.empty((0, 3), np.intp)
    constraints = Constraints.of_triplets(arrays, check_triplets(given, len(arrays)))
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
    """Return distances (n_images, M_j) as C-contiguous arrays of one type, float32 or float64."""
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


@dataclass(eq=False)
class Constraints:
    """Triplets of a negative pair and a positive pair: w_k'd_ki >= w_j'd_ji + 1.

    Each negative goes with a run of `positives`: triplet t = first_alpha[n] + q - first[n] is the
    negative n and the positive q.

    Attributes
    ----------
    distances : list of ndarray of shape (n_rows_j, M_j)
        C-contiguous, float32 or float64, all alike.
    exemplars : ndarray of shape (n_pairs,)
        j of each pair.
    rows : ndarray of shape (n_pairs,)
        The row of ``distances[j]`` that is d_ji.
    groups : ndarray of shape (n_negatives,)
        Negatives of one group share what has to be read for them: they are visited together.
    negatives : ndarray of shape (n_negatives,)
        The pair of each.
    first, last, first_alpha : ndarray of shape (n_negatives,)
        Its positives are ``positives[first:last]``, its triplets begin at `first_alpha`.
    positives : ndarray
        Pairs.
    """

    distances: list[FloatArray]
    exemplars: Numbers
    rows: Numbers
    groups: Numbers
    negatives: Numbers
    first: Numbers
    last: Numbers
    positives: Numbers
    pair_bounds: Numbers
    consistent: bool = True

    def __post_init__(self) -> None:
        places = np.array([array.ctypes.data for array in self.distances], dtype=np.intp)
        strides = np.array([array.strides[0] for array in self.distances], dtype=np.intp)
        self.addresses = places[self.exemplars] + strides[self.exemplars] * self.rows
        self.number = np.zeros(1, self.distances[0].dtype if self.distances else np.float64)
        self.starts = np.cumsum([0, *(a.shape[1] for a in self.distances)], dtype=np.intp)
        self.bounds = np.searchsorted(self.groups, np.arange(self.n_groups + 1))
        counts = self.last - self.first
        self.n_triplets = int(counts.sum())
        self.first_alpha = np.cumsum(counts, dtype=np.intp) - counts
        self._by_exemplar = np.argsort(self.exemplars, kind="stable")
        self._exemplar_bounds = np.searchsorted(
            self.exemplars[self._by_exemplar], np.arange(len(self.distances) + 1)
        )
        self.squares = np.empty(len(self.rows))
        for j, array in enumerate(self.distances):
            pairs = self.pairs_of(slice(j, j + 1))
            chosen = array[self.rows[pairs]]
            self.squares[pairs] = np.einsum("ij,ij->i", chosen, chosen, dtype=np.float64)

    @property
    def n_groups(self) -> int:
        """The number of groups, empty ones among them."""
        return len(self.pair_bounds) - 1

    @property
    def n_numbers(self) -> int:
        """About how many distances all pairs have."""
        return len(self.rows) * int(self.starts[-1]) // max(1, len(self.distances))

    def pairs_of(self, exemplars: slice) -> Numbers:
        """Return the pairs of some exemplars."""
        bounds = self._exemplar_bounds
        return self._by_exemplar[bounds[exemplars.start] : bounds[exemplars.stop]]

    def negatives_of(self, groups: Numbers) -> Numbers:
        """Return the negatives of some groups, group after group."""
        parts = [np.arange(self.bounds[g], self.bounds[g + 1]) for g in groups]
        return np.concatenate([np.empty(0, dtype=np.intp), *parts])

    def in_triplets(self) -> npt.NDArray[np.bool_]:
        """Say of each exemplar whether it is in a triplet, shape (n_exemplars,)."""
        found = np.zeros(len(self.distances), dtype=bool)
        found[self.exemplars[self.negatives]] = True
        for g in np.unique(self.groups):
            n = self.bounds[g]
            found[self.exemplars[self.positives[self.first[n] : self.last[n]]]] = True
        return found

    @classmethod
    def of_triplets(cls, distances: list[FloatArray], triplets: Numbers) -> Self:
        """Take triplets (n_triplets, 3) of reference, positive and negative, each an alpha."""
        n_images = distances[0].shape[0] if distances else 0
        references, of_positives, of_negatives = triplets.T
        codes = np.tile(references, 2) * n_images + np.concatenate([of_positives, of_negatives])
        pairs, numbers = np.unique(codes, return_inverse=True)
        positives, negatives = np.split(numbers, 2)
        order = np.argsort(negatives, kind="stable")
        distinct, first, counts = np.unique(negatives[order], return_index=True, return_counts=True)
        of_pairs = pairs // max(1, n_images)
        return cls(
            distances,
            exemplars=pairs % max(1, n_images),
            rows=of_pairs,
            groups=of_pairs[distinct],
            negatives=distinct,
            first=first,
            last=first + counts,
            positives=positives[order],
            pair_bounds=np.searchsorted(of_pairs, np.arange(n_images + 1)),
        )

    @classmethod
    def of_classes(
        cls,
        distances: list[FloatArray],
        references: Sequence[Numbers],
        y: npt.NDArray[Any],
        consistent: bool = True,
    ) -> Self:
        """Take all pairs of a positive and a negative with the same reference, or exemplar.

        Parameters
        ----------
        distances : list of ndarray of shape (n_rows_j, M_j)
        references : sequence of ndarray of shape (n_rows_j,)
            The references i of the rows of ``distances[j]``.
        y : ndarray of shape (n_images,)
            Classes: a pair is positive where j and i are of one class.
        consistent : bool
            Whether a group is of one reference, as in 2007; else of one exemplar, as in 2006.
        """
        counts = [len(numbers) for numbers in references]
        exemplars = np.repeat(np.arange(len(distances)), counts)
        of_rows = np.concatenate([np.arange(count) for count in counts])
        of_references = np.concatenate([np.asarray(part, dtype=np.intp) for part in references])
        order = np.argsort(of_references if consistent else exemplars, kind="stable")
        exemplars, of_rows, of_references = exemplars[order], of_rows[order], of_references[order]
        groups = of_references if consistent else exemplars
        is_positive = y[exemplars] == y[of_references]
        positives, negatives = np.flatnonzero(is_positive), np.flatnonzero(~is_positive)
        bounds = np.searchsorted(groups[positives], np.arange(len(y) + 1))
        first, last = bounds[groups[negatives]], bounds[groups[negatives] + 1]
        kept = last > first
        return cls(
            distances,
            exemplars=exemplars,
            rows=of_rows,
            groups=groups[negatives[kept]],
            negatives=negatives[kept],
            first=first[kept],
            last=last[kept],
            positives=positives,
            pair_bounds=np.searchsorted(groups, np.arange(len(y) + 1)),
            consistent=consistent,
        )
