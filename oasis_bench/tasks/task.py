"""What a task is: a question to a fitted learner, and how its answer is evaluated.

A task is a plugin: a class derived from `Task`, named by an entry point of the group
`oasis_bench.tasks` or in a file given with `--plugin`.  Rankings come from
`oasis_bench.tasks.ranking`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from oasis_bench.data import (
    JudgedTriplets,
    Judgements,
    LabelledRows,
    Labels,
    Ratings,
    checked_labels,
)
from oasis_bench.system import UsageError, unknown_name
from oasis_bench.tasks.evaluation import (
    Evaluation as Evaluation,  # for tasks of one's own
    Measurement as Measurement,
)
from oasis_bench.tasks.ranking import Numbers, Similarity, as_items, score_in_blocks, tie_order

GALLERIES = {
    "test": "the other test items",
    "training": "the training items",
}
"""What a query is compared with, in words."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is known of the items: the harness has it, the learner's process has not.

    Attributes
    ----------
    y : Labels, optional
        Of the test items: class numbers, or relevance to queries.
    training : Labels, optional
        Of the training items, for a task whose gallery is these.
    judged : JudgedTriplets, optional
        Item numbers are places among the test items.
    ratings : Ratings, optional
        Likewise.
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
    task: Task,
    truth: Truth,
    similarity: Similarity,
    X: Any,
    seed: int,
    training: Any = None,
    measures: Collection[str] | None = None,
) -> Evaluation:
    """Ask a task of a similarity, in this process, a block of queries at a time.

    Parameters
    ----------
    task : Task
    truth : Truth
    similarity : callable
        ``similarity(queries, gallery)`` gives scores (n_queries, n_gallery): a fitted learner's
        method.
    X : array or CSR of shape (n_test, n_features)
        The test items, which are the queries.
    seed : int
        Decides the order within ties, and that in which the gallery is scored.
    training : array or CSR of shape (n_train, n_features), optional
        The training items, for a task whose gallery is these.
    measures : collection of str, optional
        The measures to compute; by default all.

    Raises
    ------
    ValueError
        Where a similarity is NaN or not of its shape, or no query can be judged.
    """
    gallery = X if task.gallery == "test" else training
    X, gallery = as_items(X, gallery)
    n_gallery = gallery.shape[0]
    evaluation = task.evaluation(truth, n_gallery, tie_order(seed, n_gallery), measures)
    score_in_blocks(similarity, X, np.arange(X.shape[0]), gallery, evaluation.add, seed=seed)
    return evaluation


def has_measure(task: Task, text: str) -> bool:
    """Tell whether a task has the measure of a text such as 'mAP' or 'accuracy@3', with any k."""
    return _split_name(text, task)[0] in task.measures


def _split_name(text: str, task: Task | type[Task]) -> tuple[str, str, str]:
    """Return measure, '@' and k of a text; MAP@R is a name."""
    return text.rpartition("@") if "@" in text and text not in task.measures else (text, "", "")


def parse_measure(text: str, task: Task | type[Task]) -> tuple[str, int | None]:
    """Read a measure of a task, such as 'mAP' or 'accuracy@3'.

    Returns
    -------
    measure : str
    k : int or None
        The first of those that the measure has where the text names none; None where it has none.

    Raises
    ------
    UsageError
        Where the task has no such measure to choose by; the line lists those that it has.
    """
    measure, at, number = _split_name(text, task)
    if measure not in task.measures or measure in task.of_data:
        known = measure_names(task, of_data=False)
        raise UsageError(unknown_name(f"measure of the task {task.name}", text, known))
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


def measure_names(task: type[Task] | Task, *, of_data: bool = True) -> list[str]:
    """Return the measures of a task with their k, such as 'accuracy@1, 3, 5 or 7'."""
    return [
        f"{name}@{_in_words(task.ks[name])}" if name in task.ks else name
        for name in task.measures
        if of_data or name not in task.of_data
    ]


def _in_words(ks: tuple[int, ...]) -> str:
    if len(ks) > 2 and ks == tuple(range(ks[0], ks[-1] + 1)):
        return f"{ks[0]} to {ks[-1]}"
    *others, last = map(str, ks)
    return f"{', '.join(others)} or {last}" if others else last
