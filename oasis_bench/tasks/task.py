"""What a task is: a question to a fitted learner, and how its answer is evaluated.

A task is a plugin: a class derived from `Task`, named by an entry point of the group
`oasis_bench.tasks` or in a file given with `--plugin`.  Rankings come from
`oasis_bench.tasks.ranking`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from oasis_bench.data import (
    JudgedTriplets,
    Judgements,
    LabelledRows,
    Labels,
    Ratings,
    checked_labels,
)
from oasis_bench.system import Text, UsageError
from oasis_bench.tasks.ranking import (
    Numbers,
    Scores,
    Similarity,
    as_items,
    kernel_ready,
    score_in_blocks,
    tie_order,
)


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


class GroupSum(NamedTuple):
    """What one group of judgements adds to a measure: the mean of all n judgements is the measure.

    Attributes
    ----------
    measure : str
    k : int or None
    cluster : int
        The text query, reference or rated query.
    n : int
        Judgements of it that count.
    value : float
        Their sum.
    """

    measure: str
    k: int | None
    cluster: int
    n: int
    value: float


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

    def of_groups(self) -> list[GroupSum]:
        """Return what each group of judgements adds to the measures; none, the default: no groups.

        Groups are independent of each other, so that a bootstrap over them gives an interval.
        """
        return []

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

    def predicted(
        self, measure: str | None = None, k: int | None = None
    ) -> npt.NDArray[np.int64] | None:
        """Return the class that each query gets, by the rule of a measure, by default the first.

        None where the task predicts no classes.
        """
        return None


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is known of the items: the harness has it, the learner's process has not.

    `y` is of the test items: class numbers, or relevance to queries; `training` of the training
    items, for a task whose gallery is these.  Judgements number the test items by their places.
    """

    y: Labels | None = None
    training: Labels | None = None
    judged: JudgedTriplets | None = None
    ratings: Ratings | None = None

    @classmethod
    def of(cls, judgements: Judgements) -> Truth:
        """Return judgements as what is known of the items that test."""
        if isinstance(judgements, JudgedTriplets):
            return cls(judged=judgements)
        return cls(ratings=judgements)

    def __post_init__(self) -> None:
        for name in ("y", "training"):
            if (labels := getattr(self, name)) is not None:
                object.__setattr__(self, name, checked_labels(labels))


class Task(ABC):
    """A question to a fitted learner.

    Attributes
    ----------
    name, summary, citation : str
        What `--tasks` takes, one line on it, and the paper.
    split : str
        The name of the split that it is asked on, unless `--split` names another one in its place.
        Tasks of one split are asked of the same fit.
    gallery : str
        A key of `GALLERIES`.
    measures : tuple of str
        Names; the first is that by which inner folds choose by default.
    ks : mapping of str to tuple of int, default {}
        For measures that look at the first k items only: these k.
    ranges : mapping of str to tuple of float, default {}
        The least and the greatest value of a measure, where these are not 0 and 1.
    of_data : tuple of str, default ()
        Measures of the data, not of the learner: none can be chosen by.
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
        """Say what a data set lacks for this task, or return None."""

    def measures_of(self, rows: LabelledRows) -> tuple[str, ...]:
        """Return the measures that a data set has all the numbers for; by default all."""
        return self.measures

    @abstractmethod
    def evaluation(
        self,
        truth: Truth,
        n_gallery: int,
        ties: Numbers,
        measures: Collection[str] | None = None,
    ) -> Evaluation:
        """Make the evaluation of one trial.

        Parameters
        ----------
        truth : Truth
        n_gallery : int
            Items that a query is compared with, itself among them where it is one.
        ties : ndarray of shape (n_gallery,)
            A permutation of the gallery's numbers: the order within ties.
        measures : collection of str, optional
            The measures to compute; by default all.

        Raises
        ------
        ValueError
            Where no query can be judged.
        """

    def evaluate(
        self,
        truth: Truth,
        similarity: Similarity,
        X: Any,
        seed: int,
        training: Any = None,
        measures: Collection[str] | None = None,
        also: Callable[[int, Scores], object] = lambda start, scores: None,
    ) -> Evaluation:
        """Ask this of a similarity, in this process, a block of queries at a time.

        The test items `X` are the queries; `training` is the gallery of a task that compares with
        these. `seed` decides the order within ties, and that in which the gallery is scored.
        ``also(start, scores)`` gets each block of scores, too.
        """
        gallery = X if self.gallery == "test" else training
        X, gallery = as_items(X, gallery)
        n_gallery = gallery.shape[0]
        evaluation = self.evaluation(truth, n_gallery, tie_order(seed, n_gallery), measures)

        def take(start: int, scores: Scores) -> None:
            evaluation.add(start, scores)
            also(start, scores)

        score_in_blocks(similarity, X, np.arange(X.shape[0]), gallery, take, seed=seed)
        return evaluation

    def has_measure(self, text: str) -> bool:
        """Tell whether it has the measure of a text such as 'mAP' or 'accuracy@3', with any k."""
        return _split_name(text, self)[0] in self.measures

    @staticmethod
    def parse_measure(text: str, task: Task | type[Task]) -> tuple[str, int | None]:
        """Read a measure of a task, such as 'mAP' or 'accuracy@3', and its k.

        Without a k in the text it is the first that the measure has, or None.  What a task cannot
        choose by is refused with the names of what it can.
        """
        measure, at, number = _split_name(text, task)
        if measure not in task.measures or measure in task.of_data:
            known = Task.measure_names(task, of_data=False)
            raise UsageError(Text.unknown_name(f"measure of the task {task.name}", text, known))
        ks = task.ks.get(measure)
        if not at:
            return measure, None if ks is None else ks[0]
        if ks is None:
            raise UsageError(f"measure {text!r}: {measure} has no k: write {measure}")
        if not number.isdecimal() or int(number) not in ks:
            raise UsageError(
                f"measure {text!r}: k is {number or 'missing'}: {measure} has k = {_in_words(ks)}"
            )
        return measure, int(number)

    @staticmethod
    def measure_names(task: type[Task] | Task, *, of_data: bool = True) -> list[str]:
        """Return the measures of a task with their k, such as 'accuracy@1, 3, 5 or 7'."""
        return [
            f"{name}@{_in_words(task.ks[name])}" if name in task.ks else name
            for name in task.measures
            if of_data or name not in task.of_data
        ]


def _split_name(text: str, task: Task | type[Task]) -> tuple[str, str, str]:
    """Return measure, '@' and k of a text; MAP@R is a name."""
    return text.rpartition("@") if "@" in text and text not in task.measures else (text, "", "")


def _in_words(ks: tuple[int, ...]) -> str:
    if len(ks) > 2 and ks == tuple(range(ks[0], ks[-1] + 1)):
        return f"{ks[0]} to {ks[-1]}"
    *others, last = map(str, ks)
    return f"{', '.join(others)} or {last}" if others else last
