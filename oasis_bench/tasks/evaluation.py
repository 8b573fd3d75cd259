"""The judgement of one answer: takes scores in blocks, gives measures, each beside its chance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oasis_bench.tasks.ranking import Scores, kernel_ready


class Measurement(NamedTuple):
    """One measure of one trial.

    Attributes
    ----------
    measure : str
        Its name, such as 'mAP' or 'precision'.
    k : int or None
        How many of the first items it looks at, where it has such a number.
    value : float
    chance : float or None
        The expected value of this very measure where the order is random; None where the measure
        is not of the learner.
    """

    measure: str
    k: int | None
    value: float
    chance: float | None


class Evaluation(ABC):
    """The judgement of one trial's answer to one task: takes scores, gives measures.

    Parameters
    ----------
    n_asked : int
        Queries whose scores come: the test items.
    n_gallery : int
        Items that each is compared with.
    kept : tuple of str
        The names of the measures to compute.

    Attributes
    ----------
    n_queries, n_left_out : int
        Queries that count, and those that do not, for no item is relevant to them.
    kept : tuple of str
    """

    n_queries: int
    n_left_out: int = 0

    def __init__(self, n_asked: int, n_gallery: int, kept: tuple[str, ...]) -> None:
        self.kept = kept
        self._n_gallery = n_gallery
        self._came = np.zeros(n_asked, dtype=bool)

    def add(self, start: int, scores: Scores) -> None:
        """Take the scores of a block of queries.

        Parameters
        ----------
        start : int
            The first query of the block, a place among the test items.
        scores : ndarray of shape (n_block, n_gallery), float32 or float64
            They are not kept.

        Raises
        ------
        ValueError
            Where a score is NaN, or the block is not of this shape or not of these queries.
        """
        n_asked = len(self._came)
        if scores.ndim != 2 or scores.shape[1] != self._n_gallery:
            raise ValueError(
                f"scores of shape {scores.shape}: {self._n_gallery} for each query are needed"
            )
        if not 0 <= start <= start + len(scores) <= n_asked:
            raise ValueError(
                f"scores of queries {start} to {start + len(scores) - 1}: there are 0 to "
                f"{n_asked - 1}"
            )
        self.judge(start, kernel_ready(scores))
        self._came[start : start + len(scores)] = True

    @abstractmethod
    def judge(self, start: int, scores: Scores) -> None:
        """Evaluate a block of queries: as `add`, with scores that have been checked but for NaN."""

    @abstractmethod
    def values(self, measure: str) -> Mapping[int | None, float]:
        """Return the value at each k, or at None, of a measure that is kept."""

    @abstractmethod
    def chances(self, measure: str) -> Mapping[int | None, float]:
        """Return the chance at each k, or at None; nothing where the measure has none."""

    def value(self, measure: str, k: int | None = None) -> float:
        """Return the value of one measure.

        Raises
        ------
        ValueError
            Where the gallery is too small for this k, or scores have not come.
        """
        self.refuse_gaps()
        values = self.values(measure)
        if k not in values:
            most = max((known for known in values if known is not None), default="none")
            raise ValueError(
                f"{measure}@{k} cannot be computed here: the items are enough for k of at most "
                f"{most}: choose by another measure, or take more items"
            )
        return values[k]

    def measurements(self) -> list[Measurement]:
        """Return all measures that are kept, each beside its chance.

        Raises
        ------
        ValueError
            Where the scores of a query have not come.
        """
        self.refuse_gaps()
        return [
            Measurement(measure, k, value, chances.get(k))
            for measure in self.kept
            for chances in (self.chances(measure),)
            for k, value in self.values(measure).items()
        ]

    def refuse_gaps(self) -> None:
        """Raise ValueError where the scores of a query have not come."""
        if not self._came.all():
            raise ValueError(
                f"the scores of {np.count_nonzero(~self._came)} of {len(self._came)} queries are "
                "missing"
            )

    def confusion(
        self, measure: str | None = None, k: int | None = None
    ) -> npt.NDArray[np.int64] | None:
        """Count the predicted classes (columns) of each true class; None where there are none.

        They are predicted by the rule of a measure, by default the first.
        """
        return None
