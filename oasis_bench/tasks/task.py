"""The base class of tasks: what a fitted learner is evaluated on, and how.

A task is a plugin: a class derived from `Task`, named by an entry point of the group
`oasis_bench.tasks` or in a file given with `--plugin`.  Rankings come from
`oasis_bench.tasks.ranking`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from oasis_bench.data import (
    FloatArray,
    JudgedTriplets,
    Judgements,
    LabelledRows,
    Labels,
    Ratings,
    checked_labels,
)
from oasis_bench.system import UsageError, unknown_name
from oasis_bench.tasks import ranking
from oasis_bench.tasks.ranking import Numbers, Similarity

Measures: TypeAlias = "Collection[str] | None"
"""The names of the measures to compute; None: all."""


CHECHIK = (
    "Chechik, Sharma, Shalit & Bengio (2010), Large Scale Online Learning of Image Similarity "
    "Through Ranking, JMLR 11, section"
)
OH_SONG = (
    "Oh Song, Xiang, Jegelka & Savarese (2016), Deep Metric Learning via Lifted Structured "
    "Feature Embedding, CVPR"
)
MUSGRAVE = "Musgrave, Belongie & Lim (2020), A Metric Learning Reality Check, ECCV"
WANG = "Wang et al. (2014), Learning Fine-grained Image Similarity with Deep Ranking, CVPR, section"
HUANG = (
    "Huang, Ramesh, Berg & Learned-Miller (2007), Labeled Faces in the Wild, University of "
    "Massachusetts, technical report 07-49"
)
"""Papers that several tasks or splits cite."""


class GroupSum(NamedTuple):
    """The sum of a measure over the judgements of a group: a text query, reference or rated query.

    Attributes
    ----------
    measure : str
    k : int or None
    cluster : int
        The number of the group.
    n : int
        How many of its judgements count.
    value : float
        Their sum.
    """

    measure: str
    k: int | None
    cluster: int
    n: int
    value: float


class Measurement(NamedTuple):
    """One measure of one trial.

    Attributes
    ----------
    measure : str
        Its name, such as 'mAP' or 'precision'.
    k : int or None
        The number of first items that it uses, or None if it uses the whole ranking.
    value : float
    chance : float or None
        The expected value of the measure for a random ranking; None for a measure of the data.
    """

    measure: str
    k: int | None
    value: float
    chance: float | None


class Evaluation(ABC):
    """Computes the measures of one trial on one task, from its scores.

    Parameters
    ----------
    n_asked : int
        The number of queries: the test items.
    kept : tuple of str
        The names of the measures to compute.

    Attributes
    ----------
    n_queries : int
        The number of queries that count.
    n_left_out : int
        The number of queries that do not count, because no item is relevant to them.
    kept : tuple of str
        The names of the measures to compute.
    """

    takes_classes: ClassVar[bool] = False
    """Whether `add_classes` can replace scores."""

    n_queries: int
    n_left_out: int = 0

    def __init__(self, n_asked: int, kept: tuple[str, ...]) -> None:
        self.kept = kept
        self._came = np.zeros(n_asked, dtype=bool)

    def add(self, start: int, scores: FloatArray) -> None:
        """Evaluate the scores of a block of queries.

        Parameters
        ----------
        start : int
            The index of the first query of the block among the test items.
        scores : ndarray of shape (n_block, n_gallery), float32 or float64
            They are not kept.

        Raises
        ------
        ValueError
            If a score is NaN.
        """
        self.judge(start, ranking.kernel_ready(scores))
        self._came[start : start + len(scores)] = True

    def add_classes(self, classes: npt.NDArray[np.int64]) -> None:
        """Evaluate the predicted class of each query, in place of scores, if `takes_classes`."""
        raise NotImplementedError(f"{type(self).__name__} has no use for predicted classes")

    @abstractmethod
    def judge(self, start: int, scores: FloatArray) -> None:
        """Evaluate a block of queries, as `add`; scores are `kernel_ready`, and may be NaN."""

    @abstractmethod
    def values(self, measure: str) -> Mapping[int | None, float]:
        """Return the value of a measure for each k, or for the key None if it has no k."""

    @abstractmethod
    def chances(self, measure: str) -> Mapping[int | None, float]:
        """Return the chance level for each k, or for None; empty if the measure has none."""

    def of_groups(self) -> list[GroupSum]:
        """Return the sums of the groups of judgements; by default there are no groups.

        Groups are independent of each other, so they give an interval.
        """
        return []

    def value(self, measure: str, k: int | None = None) -> float:
        """Return the value of one measure.

        Raises
        ------
        ValueError
            If the gallery is too small for this k, or scores are missing.
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
        """Return all measures in `kept`, with their chance levels.

        Raises
        ------
        ValueError
            If the scores of a query are missing.
        """
        self.refuse_gaps()
        return [
            Measurement(measure, k, value, chances.get(k))
            for measure in self.kept
            for chances in (self.chances(measure),)
            for k, value in self.values(measure).items()
        ]

    def refuse_gaps(self) -> None:
        """Raise ValueError if the scores of a query are missing."""
        if not self._came.all():
            n_missing = np.count_nonzero(~self._came)
            raise ValueError(f"the scores of {n_missing} of {len(self._came)} queries are missing")

    def predicted(
        self, measure: str | None = None, k: int | None = None
    ) -> npt.NDArray[np.int64] | None:
        """Return the predicted class of each query, by the rule of a measure (default: the first).

        None if the task does not predict classes.
        """
        return None


@dataclass(frozen=True, kw_only=True)
class Truth:
    """The true labels or judgements, which the harness has and the learner's process has not.

    `y` has the class numbers of the test items, or their relevance to queries.  `training` has
    those of the training items, for a task with this gallery.  `groups` has the group of each test
    item: a query ranks no item of its own group.  No group has test and training items.  In
    judgements, the number of an item is its index among the test items.
    """

    y: Labels | None = None
    training: Labels | None = None
    groups: npt.NDArray[np.int64] | None = None
    judged: JudgedTriplets | None = None
    ratings: Ratings | None = None

    @classmethod
    def of(cls, judgements: Judgements) -> Truth:
        """Make the truth of test items from their judgements."""
        if isinstance(judgements, JudgedTriplets):
            return cls(judged=judgements)
        return cls(ratings=judgements)

    def __post_init__(self) -> None:
        for name in ("y", "training"):
            if (labels := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked_labels(labels))


class Task(ABC):
    """A task: what a fitted learner is evaluated on.

    Class attributes
    ----------------
    name : str
        The name for ``--tasks``.
    summary : str
        One line for ``list tasks``.
    citation : str
        The paper, or 'none'.
    split : str
        The name of its split, which ``--split`` may replace.  Tasks of one split share a fit.
    gallery : {'test', 'training'}
        What a query is compared with: the other test items, or the training items.
    measures : tuple of str
        The names of its measures, for all of which larger is better.  The first one is the default
        for tuning.
    ks : mapping of str to tuple of int, default {}
        For a measure of the first k items: the values of k.
    ranges : mapping of str to tuple of float, default {}
        The smallest and the largest possible value of a measure, if these are not 0 and 1.
    of_data : tuple of str, default ()
        Measures of the data, not of the learner, and curves.  They cannot be used for tuning.
    """

    GALLERIES: ClassVar[dict[str, str]] = {
        "test": "the other test items",
        "training": "the training items",
    }
    """What a query is compared with, in words."""

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str]
    split: str
    gallery: ClassVar[str]
    measures: ClassVar[tuple[str, ...]]
    ks: ClassVar[Mapping[str, tuple[int, ...]]] = {}
    ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    of_data: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def refusal(self, rows: LabelledRows) -> str | None:
        """Return the reason why a data set cannot be used for this task, or None.

        Parameters
        ----------
        rows : LabelledRows

        Returns
        -------
        str or None
        """

    def measures_of(self, rows: LabelledRows) -> tuple[str, ...]:
        """Return the measures that can be computed on a data set; by default all."""
        return self.measures

    @abstractmethod
    def evaluation(self, truth: Truth, ties: Numbers, measures: Measures = None) -> Evaluation:
        """Make the evaluation of one trial.

        Parameters
        ----------
        truth : Truth
            The true labels or judgements.
        ties : ndarray of shape (n_gallery,)
            A permutation of the indices of the gallery's items: the order within ties.
        measures : collection of str, optional
            The measures to compute.  Default: all.

        Returns
        -------
        Evaluation

        Raises
        ------
        ValueError
            If no query can be evaluated.
        """

    def evaluate(
        self,
        truth: Truth,
        similarity: Similarity,
        X: Any,
        seed: int,
        training: Any = None,
        measures: Measures = None,
        also: Callable[[int, FloatArray], object] = lambda start, scores: None,
    ) -> Evaluation:
        """Evaluate a similarity function in this process, one block of queries at a time.

        Parameters
        ----------
        truth : Truth
            The true labels or judgements.
        similarity : callable
            Called as ``similarity(queries, gallery)``; returns scores (n_queries, n_gallery).
        X : array, CSR or Patches of n_items items
            The test items, which are the queries.
        seed : int
            Seed of the order within ties, and of the order in which the gallery is scored.
        training : array, CSR or Patches, optional
            The training items, for a task with this gallery.
        measures : collection of str, optional
            The measures to compute.  Default: all.
        also : callable, optional
            Called as ``also(start, scores)`` for each block of scores.

        Returns
        -------
        Evaluation
        """
        gallery = X if self.gallery == "test" else training
        X, gallery = ranking.as_items(X, gallery)
        evaluation = self.evaluation(truth, ranking.tie_order(seed, gallery.shape[0]), measures)

        def take(start: int, scores: FloatArray) -> None:
            evaluation.add(start, scores)
            also(start, scores)

        ranking.score_in_blocks(similarity, X, np.arange(X.shape[0]), gallery, take, seed=seed)
        return evaluation

    def has_measure(self, text: str) -> bool:
        """Return whether the task has the measure of a text such as 'mAP' or 'accuracy@3'."""
        return self._split_measure(text)[0] in self.measures

    @classmethod
    def parse_measure(cls, text: str) -> tuple[str, int | None]:
        """Return the measure and the k of a text such as 'mAP' or 'accuracy@3'.

        Without k in the text, k is the first that the measure has, or None.  A measure that cannot
        be used for tuning raises UsageError.
        """
        measure, at, number = cls._split_measure(text)
        if measure not in cls.measures or measure in cls.of_data:
            known = cls.measure_names(of_data=False)
            raise UsageError(unknown_name(f"measure of the task {cls.name}", text, known))
        ks = cls.ks.get(measure)
        if not at:
            return measure, None if ks is None else ks[0]
        if ks is None:
            raise UsageError(f"measure {text!r}: {measure} has no k: write {measure}")
        if not number.isdecimal() or int(number) not in ks:
            raise UsageError(
                f"measure {text!r}: k is {number or 'missing'}: {measure} has k = {_in_words(ks)}"
            )
        return measure, int(number)

    @classmethod
    def measure_names(cls, *, of_data: bool = True) -> list[str]:
        """Return the measures with their k, such as 'accuracy@1, 3, 5 or 7'."""
        return [
            f"{name}@{_in_words(cls.ks[name])}" if name in cls.ks else name
            for name in cls.measures
            if of_data or name not in cls.of_data
        ]

    @classmethod
    def _split_measure(cls, text: str) -> tuple[str, str, str]:
        """Return measure, '@' and k of a text; MAP@R is a name."""
        return text.rpartition("@") if "@" in text and text not in cls.measures else (text, "", "")


def _in_words(ks: tuple[int, ...]) -> str:
    if len(ks) > 2 and ks == tuple(range(ks[0], ks[-1] + 1)):
        return f"{ks[0]} to {ks[-1]}"
    *others, last = map(str, ks)
    return f"{', '.join(others)} or {last}" if others else last
