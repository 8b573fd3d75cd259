"""The data of a fit: all training items of a trial, or those of one inner fold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from scipy.linalg import qr

from oasis_bench.data import JudgedTriplets, Judgements, Labels
from oasis_bench.plugins import IncrementalLearner, MetricLearner
from oasis_bench.tasks import Truth

SPAN_BYTES = 256 * 2**20
"""Rows larger than this in double precision are not converted to coordinates of their span."""

NO_TRUTH = Truth()


@dataclass(frozen=True)
class FitData:
    """The data to fit on (`X`, `y`, judgements) and to evaluate on (`queries` and their `truth`).

    The final fit has only the first: the harness alone has its test labels.
    """

    X: Any  # array, CSR or Patches
    y: Labels
    triplets: npt.NDArray[np.int64] | None  # judged: query, positive, negative
    pairs: list[npt.NDArray[np.int64]] | None  # of same items, and of different items
    seed: int  # draws the order of triplets and pairs
    queries: Any = None  # as X
    truth: Truth = NO_TRUTH

    @classmethod
    def of(cls, X: Any, y: Labels, judgements: Judgements | None, seed: int) -> FitData:
        """Return items to fit on, with judged triplets or pairs if there are any.

        Marks by several raters are not used as pairs.
        """
        triplets = pairs = None
        if isinstance(judgements, JudgedTriplets):
            triplets = preferences(judgements)
        elif judgements is not None and judgements.marks.shape[1] == 1:
            are_same = judgements.marks[:, 0]
            pairs = [judgements.items[are_same], judgements.items[~are_same]]
            pairs = pairs if all(map(len, pairs)) else None
        return cls(X, y, triplets, pairs, seed)

    def reads_labels(self, learner: MetricLearner) -> bool:
        """Tell whether a learner uses the labels, alone or with triplets."""
        by_pairs = self.pairs is not None and learner.takes_pairs
        return not by_pairs and (self.triplets is None or not learner.takes_triplets)

    def in_their_span(self) -> FitData:
        """Return training and validation rows in coordinates of their common span.

        Inner products and distances stay the same up to rounding.  Data are unchanged if they are
        sparse, larger than `SPAN_BYTES`, or have at least as many rows as features.
        """
        if not isinstance(self.X, np.ndarray):
            return self
        n_learn, n_features = self.X.shape
        n_rows = n_learn + self.queries.shape[0]
        if n_rows >= n_features or 8 * n_rows * n_features > SPAN_BYTES:
            return self
        X = np.vstack([self.X, self.queries])
        (triangle,) = qr(X.T.astype(np.float64), mode="r", overwrite_a=True, check_finite=False)
        dtype = np.result_type(X.dtype, np.float32)  # float64 for integers
        rows = np.ascontiguousarray(triangle[:n_rows].T, dtype=dtype)
        return replace(self, X=rows[:n_learn], queries=rows[n_learn:])

    def fit(self, learner: MetricLearner, start: int = 0, stop: int | None = None) -> None:
        """Fit a learner from step `start` to step `stop`; without `stop`, with all its steps.

        A learner of triplets or pairs uses them if there are any, and also the labels if it takes
        both; other learners use the labels.  An incremental learner gets them in random order with
        replacement, another learner all at once.  Each kind of pairs is drawn separately, so that
        the steps are the same for any `stop`.
        """

        def chosen(items: npt.NDArray[np.int64], kind: int = 0) -> npt.NDArray[np.int64]:
            if not isinstance(learner, IncrementalLearner):
                return items
            last = learner.n_steps if stop is None else stop
            rng = np.random.default_rng([self.seed, kind] if kind else self.seed)
            return items[rng.integers(len(items), size=last)[start:]]

        by_judgements = cast("Any", learner)
        if self.triplets is not None and learner.takes_labels_with_triplets:
            by_judgements.fit(self.X, self.y, triplets=self.triplets)
        elif self.triplets is not None and learner.takes_triplets:
            by_judgements.partial_fit_triplets(self.X, chosen(self.triplets))
        elif self.pairs is not None and learner.takes_pairs:
            by_judgements.partial_fit_pairs(self.X, *map(chosen, self.pairs, (0, 1)))
        elif stop is None:
            learner.fit(self.X, self.y)
        else:
            assert isinstance(learner, IncrementalLearner)
            learner.partial_fit(self.X, self.y, n_steps=stop - start)


def preferences(judged: JudgedTriplets) -> npt.NDArray[np.int64]:
    """Return triplets (query, positive, negative) by majority vote; ties are dropped."""
    if judged.votes is None:
        return judged.items
    a, b = judged.votes.T
    turned = np.where((b > a)[:, None], judged.items[:, [0, 2, 1]], judged.items)
    return np.asarray(turned[a != b])


Values = npt.NDArray[np.float64]
"""One for each tuning measure; for the ways to use a learner of shape (n_measures, n_ways)."""

Baselines = Sequence[FitData]
"""For each measure, the rows of a fold in the scaling of the baseline."""
