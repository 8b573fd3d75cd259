"""Nearest-neighbour classification: each test item is compared with the training items."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from oasis_bench.data import FloatArray, LabelledRows
from oasis_bench.tasks import chance
from oasis_bench.tasks.ranking import Numbers, best_of, places, rank_in_parts
from oasis_bench.tasks.task import Evaluation, Measures, Task, Truth

ClassNumbers = npt.NDArray[np.int64]

VOTERS = (1, 3, 5, 7)
"""Numbers of neighbours that vote."""

FROME_DEPTH = 10
"""Frome et al. look for a class that is seen twice among so many."""

ACCURACY, BY_FROME = "accuracy", "accuracy by Frome's rule"
RECOGNITION, RECOGNITION_BY_FROME = "mean recognition", "mean recognition by Frome's rule"


def vote(ranked: ClassNumbers) -> ClassNumbers:
    """Return the class of the most neighbours in each row of `ranked`, classes nearest first.

    Of classes with equally many, that whose first member comes first.
    """
    votes = (ranked[:, :, None] == ranked[:, None, :]).sum(axis=2)
    return _at(ranked, votes.argmax(axis=1))


def first_seen_twice(ranked: ClassNumbers) -> ClassNumbers:
    """Return, for each row of `ranked`, the first class to be seen twice, else the first class.

    Frome, Sha, Singer & Malik (2007), section 6.
    """
    seen = ranked[:, :, None] == ranked[:, None, :]
    again = np.tril(seen, -1).any(axis=2)
    return _at(ranked, again.argmax(axis=1))  # 0, the first, where none is seen again


def _at(ranked: ClassNumbers, column: npt.NDArray[np.intp]) -> ClassNumbers:
    return np.asarray(np.take_along_axis(ranked, column[:, None], axis=1)[:, 0])


class NeighbourVotes(Evaluation):
    """Classifies each test item (classes `y`) by the classes of the training items nearest to it.

    `ties` is the order of training items of equal score.
    """

    takes_classes: ClassVar = True

    def __init__(
        self,
        y: ClassNumbers,
        training: ClassNumbers,
        ties: Numbers,
        measures: Measures = None,
    ) -> None:
        kept = Classification.measures if measures is None else tuple(measures)
        super().__init__(len(y), kept)
        self.n_queries = len(y)
        self._y, self._training, self._place = y, training, places(ties)
        depth = min(FROME_DEPTH, len(training))
        self._ranked = np.full((len(y), depth), -1, dtype=np.int64)

    def judge(self, start: int, scores: FloatArray) -> None:
        """Keep the classes of the ten training items that are nearest to each query."""
        none = np.full(len(scores), -1, dtype=np.intp)
        depth = self._ranked.shape[1]
        found = rank_in_parts(
            scores, lambda part: best_of(scores[part], none[part], self._place, depth)
        )
        self._ranked[start : start + len(scores)] = self._training[np.concatenate(found)]

    def add_classes(self, classes: ClassNumbers) -> None:
        """Take the class of each query, as if all its neighbours were of this class."""
        self._ranked[:] = classes[:, None]
        self._came[:] = True

    def predictions(self, k: int | None) -> ClassNumbers:
        """Return the class that k neighbours vote for; None: that of Frome's rule."""
        return first_seen_twice(self._ranked) if k is None else vote(self._ranked[:, :k])

    def values(self, measure: str) -> dict[int | None, float]:
        """Return the accuracy, over all test items or as a mean over their classes."""
        return {
            k: self._mean(measure, (self.predictions(k) == self._y).astype(float))
            for k in self._ks(measure)
        }

    def chances(self, measure: str) -> dict[int | None, float]:
        """Return what the neighbours of a random order vote for."""
        classes, counts = np.unique(self._training, return_counts=True)
        column = np.minimum(np.searchsorted(classes, self._y), len(classes) - 1)
        known = classes[column] == self._y
        won = {
            k: chance.first_seen_twice_of_chance(counts, self._ranked.shape[1])
            if k is None
            else chance.vote_of_chance(counts, k)
            for k in self._ks(measure)
        }
        return {k: self._mean(measure, known * p[column]) for k, p in won.items()}

    def _mean(self, measure: str, of_items: npt.NDArray[np.float64]) -> float:
        if measure in (ACCURACY, BY_FROME):
            return float(of_items.mean())
        _, classes, counts = np.unique(self._y, return_inverse=True, return_counts=True)
        return float((np.bincount(classes, of_items) / counts).mean())

    def _ks(self, measure: str | None) -> list[int | None]:
        if measure in (BY_FROME, RECOGNITION_BY_FROME):
            return [None]
        return [k for k in VOTERS if k <= self._ranked.shape[1]]

    def predicted(self, measure: str | None = None, k: int | None = None) -> ClassNumbers:
        """Return the class that each query gets.

        By Frome's rule where the measure is by it, else by the vote of k, 1 by default.
        """
        self.refuse_gaps()
        return self.predictions(k or self._ks(measure)[0])


class FirstOfTied(NeighbourVotes):
    """As `NeighbourVotes`; but of classes with equally many votes, the lowest number wins."""

    def predictions(self, k: int | None) -> ClassNumbers:
        """Return the class that k neighbours vote for; None: that of Frome's rule."""
        return super().predictions(k) if k is None else vote(np.sort(self._ranked[:, :k], axis=1))

    def chances(self, measure: str) -> dict[int | None, float]:
        """Return nothing: the chance levels of `NeighbourVotes` are of its own rule."""
        return {}


class Classification(Task):
    """Each test item gets a class from the training items nearest to it.

    The k nearest vote; of classes with equally many votes, that of the nearest of their voters
    wins.  Frome's rule: down the ranking, the first class to be seen twice among the first ten
    wins, else the class of the first.  Mean recognition is the mean over classes of the accuracy
    within the class.  The confusion matrix is by the rule that the experiment chooses by, by
    default that of the nearest training item.
    """

    name = "classification"
    summary = "the training items nearest to a test item vote for its class"
    citation = (
        "Cover & Hart (1967), Nearest neighbor pattern classification, IEEE Transactions on "
        "Information Theory 13; Frome's rule: Frome, Sha, Singer & Malik (2007), Learning "
        "Globally-Consistent Local Distance Functions for Shape-Based Image Retrieval and "
        "Classification, ICCV, section 6"
    )
    split = "seen-classes"
    gallery = "training"
    measures = (ACCURACY, BY_FROME, RECOGNITION, RECOGNITION_BY_FROME)
    ks: ClassVar = {ACCURACY: VOTERS, RECOGNITION: VOTERS}
    votes: ClassVar = NeighbourVotes

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows of several labels."""
        return "its rows have several labels, not one class each" if rows.multi_label else None

    def evaluation(self, truth: Truth, ties: Numbers, measures: Measures = None) -> NeighbourVotes:
        """Make the evaluation; `truth` holds the labels of test and training items."""
        y, training = np.asarray(truth.y), np.asarray(truth.training)
        return self.votes(y, training, ties, measures)


class KNeighborsClassification(Classification):
    """As `Classification`; but of classes with equally many votes, the first in order wins.

    This is the rule of scikit-learn's KNeighborsClassifier, by which many published accuracies are.
    """

    name = "knn-classification"
    summary = "classification, with tied votes for the first class, as scikit-learn has it"
    votes = FirstOfTied
