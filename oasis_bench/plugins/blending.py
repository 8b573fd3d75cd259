"""Blends of a learned similarity with the Euclidean baseline.

A blend is (1 - b) s0 / sd0 + b s1 / sd1 of two rows x and y: s0 is -|x - y|^2 / 2, and s1 the
learner's similarity, or -d^2 / 2 if it learns a distance d.  The baseline and the learner may need
differently scaled rows.  The standard deviations sd0 and sd1 are over the same pairs of training
rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from oasis_bench.data import FloatArray, far_middle, without_offset
from oasis_bench.plugins.learner import ExemplarLearner, blocks, s1_with, squared_distances
from oasis_bench.plugins.metric_learner import MetricLearner
from oasis_bench.plugins.posterior import Posterior
from oasis_bench.system import UsageError, quoted

PAIRED, PAIRED_WITH = 50, 40
"""Training rows, and others that each is compared with, for the standard deviations."""

CONSTANT = 100
"""Scores that vary by fewer units in the last place of their type are constant."""


@dataclass(frozen=True)
class Blend:
    """A blend of the Euclidean baseline with a fitted learner.

    Attributes
    ----------
    weight : float
        b, from 0 (only the baseline) to 1 (only the learner).
    baseline_sd, learned_sd : float
        sd0 and sd1; 0 if the scores are constant or not finite.
    steps : tuple of fitted transformers, optional
        The scaling of rows for the baseline, in place of the learner's scaling.  Default: the
        baseline gets the same rows as the learner.
    """

    WEIGHTS: ClassVar = (0.0, 0.25, 0.5, 0.75, 1.0)
    """The values of b that are tried."""

    weight: float
    baseline_sd: float
    learned_sd: float
    steps: tuple[Any, ...] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.weight <= 1:
            raise UsageError(f"weight = {quoted(self.weight)}: a number from 0 to 1 is needed")
        if min(self.baseline_sd, self.learned_sd) < 0:
            sds = f"baseline_sd = {self.baseline_sd}, learned_sd = {self.learned_sd}"
            raise UsageError(f"{sds}: deviations are not negative")
        if not self.learned_sd:
            object.__setattr__(self, "weight", 0.0)
        elif not self.baseline_sd:
            object.__setattr__(self, "weight", 1.0)

    @classmethod
    def of(
        cls,
        learner: MetricLearner,
        X: Any,
        weight: float,
        seed: int = 0,
        steps: tuple[Any, ...] | None = None,
        baseline_X: Any = None,
    ) -> Self:
        """Make the blend of a learner that was fitted on rows `X`.

        Parameters
        ----------
        learner : MetricLearner
        X : array or CSR of shape (n_rows, n_features)
            Its training rows, all and in their order if it learns similarities to these rows.
        weight : float
            b, from 0 to 1.
        seed : int, default 0
            Seed of the sample of row pairs.
        steps : tuple of fitted transformers, optional
            See the attributes.
        baseline_X : array or CSR of shape (n_rows, n_features), optional
            The training rows, transformed by `steps`.  Default: `X`.
        """
        of_baseline = sd_of_baseline(X if baseline_X is None else baseline_X, seed)
        return cls(weight, of_baseline, sd_of_learned(learner, X, seed), steps)

    @property
    def factors(self) -> tuple[float, float]:
        """What s0 and s1 are multiplied by; with a weight of 0 or 1, the only score by 1."""
        if self.weight in (0, 1):
            return 1 - self.weight, self.weight
        return (1 - self.weight) / self.baseline_sd, self.weight / self.learned_sd

    def mix(self, baseline: FloatArray, learned: FloatArray) -> FloatArray:
        """Return the blend of scores s0 and s1 of the same pairs."""
        if self.weight == 1:
            return learned
        if self.weight == 0:
            return baseline
        of_baseline, of_learned = self.factors
        mixed = baseline * np.float64(of_baseline)
        mixed += learned * np.float64(of_learned)
        return mixed


def baseline_scores(queries: Any, gallery: Any) -> FloatArray:
    """Return s0, -|x - y|^2 / 2, of every query and every gallery row, dense or sparse."""
    queries, gallery = (
        rows.to_numpy() if hasattr(rows, "to_numpy") else rows for rows in (queries, gallery)
    )
    if (middle := far_middle(gallery)) is not None:  # the digits of rows far from zero stay
        queries, gallery = (without_offset(rows, middle) for rows in (queries, gallery))
    return squared_distances(queries, gallery) / -2


def sd_of_baseline(X: Any, seed: int) -> float:
    """Return the standard deviation of s0 over pairs of training rows."""
    left, right = _pairs(X.shape[0], seed)
    return _deviation(baseline_scores(X[left], X[right])) if len(right) else 0.0


def sd_of_learned(learner: MetricLearner, X: Any, seed: int) -> float:
    """Return the standard deviation of s1 over the same pairs of training rows."""
    left, right = _pairs(X.shape[0], seed)
    if not len(right):
        return 0.0
    if isinstance(learner, Posterior):
        return sds_of_affinity(learner, seed, (learner.tau,))[0]
    if isinstance(learner, ExemplarLearner):
        return _deviation(s1_with(learner, X)(X[left])[:, right])
    return _deviation(s1_with(learner, X[right])(X[left]))


def sds_of_affinity(posterior: Posterior, seed: int, taus: Sequence[float]) -> list[float]:
    """Return, for each tau, the standard deviation of the affinity over these pairs of rows."""
    left, right = _pairs(posterior.rows_.shape[0], seed)
    places = np.concatenate([left, right])
    shares = posterior.shares(posterior.rows_[places], taus, places)
    n = len(left)
    return [_deviation(points[:n] @ points[n:].T) for points in posterior.points(shares)]


def mixed_affinities(
    ways: Sequence[tuple[FloatArray, FloatArray, Blend]], queries: Any, gallery: Any
) -> Iterator[tuple[int, list[FloatArray]]]:
    """Yield the first query of each block, and the blended affinities of the block, way by way.

    Each of the `ways` has the posterior points of the queries and of the gallery (see `Posterior`),
    and a blend.  `queries` and `gallery` are the same items as rows for the baseline.
    """
    for part in blocks(queries.shape[0], row_bytes=(3 + len(ways)) * 8 * gallery.shape[0]):
        of_baseline = baseline_scores(queries[part], gallery)
        yield (
            part.start,
            [blend.mix(of_baseline, own[part] @ others.T) for own, others, blend in ways],
        )


def is_the_baseline(learner: type[MetricLearner]) -> bool:
    """Tell whether a learner is the baseline that others are blended with.

    A class that is derived from the baseline is another learner.
    """
    return bool(vars(learner).get("is_baseline", False))


def _pairs(n_rows: int, seed: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Draw the rows that are compared, and those that they are compared with."""
    drawn = np.random.default_rng(seed).permutation(n_rows)
    n_left = min(PAIRED, (n_rows + 1) // 2)
    return drawn[:n_left], drawn[n_left : n_left + PAIRED_WITH]


def _deviation(scores: FloatArray) -> float:
    """Return the standard deviation of scores; 0 if they are constant or not finite."""
    least = CONSTANT * np.finfo(scores.dtype).eps * np.abs(scores).max()
    with np.errstate(over="ignore", invalid="ignore"):
        deviation = float(scores.std(dtype=np.float64))
    return deviation if np.isfinite(deviation) and deviation > least else 0.0
