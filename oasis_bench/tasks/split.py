"""What a split is: a way to divide items into those that train and those that test.

A split is a plugin: a class derived from `Split`, named by an entry point of the group
`oasis_bench.splits` or in a file given with `--plugin`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple, Protocol, TypeAlias

from oasis_bench.data import Judgements, LabelledRows, Labels
from oasis_bench.system import UsageError
from oasis_bench.tasks.ranking import Numbers

Classes: TypeAlias = "Sequence[int]"
"""Class numbers."""


class NotSplittableError(UsageError):
    """Too few classes in a subset, or to train on: trials of that subset are not applicable."""


class SplitSettings(Protocol):
    """What a split asks of an experiment, which has these settings."""

    @property
    def per_class(self) -> tuple[int, int]:
        """Training and test items a class."""

    @property
    def seed(self) -> int:
        """What decides all that is random."""

    @property
    def test_share(self) -> float:
        """Share of the items, or of judged groups, that test."""

    @property
    def most_items(self) -> int | None:
        """The most items that train, and that test, of a stratified split."""


class Partition(NamedTuple):
    """Which items train and which test: of a data set, or of the training items in an inner fold.

    Attributes
    ----------
    train, test : ndarray of int
        Row numbers of the data set; in an inner fold places among the training items.
    training, tested : JudgedTriplets, Ratings or None
        The judgements of a split of these, renumbered to places in `train` and in `test`.
    n_dropped : int
        Judgements of training groups that are left out because an item of theirs tests.
    """

    train: Numbers
    test: Numbers
    training: Judgements | None = None
    tested: Judgements | None = None
    n_dropped: int = 0


class Split(ABC):
    """A way to divide items into those that train and those that test.

    A task names its split; tasks of one split are asked of the same fit.  The inner folds divide
    the training items in the same way.

    Attributes
    ----------
    name, summary, citation : str
        What tasks and `--split` call it, one line on it, and the paper.
    in_place_of : tuple of str, default ()
        The splits of tasks that `--split` may replace by this one; none: tasks name this one.
    no_sizes : str, default ''
        Why ``--train`` and ``--test`` cannot be given, in words that follow a data set's name;
        empty: they can.
    all_may_test : bool, default False
        Whether a saved model may be evaluated on all items at once (``test_share = 1``).
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str]
    in_place_of: ClassVar[tuple[str, ...]] = ()
    no_sizes: ClassVar[str] = ""
    all_may_test: ClassVar[bool] = False

    USUAL: ClassVar = "seen-classes"
    """The split that names of trials leave out."""

    def __init__(self, settings: SplitSettings) -> None:
        self.settings = settings

    def for_rows(self, rows: LabelledRows) -> Split:
        """Return what this split is on such rows; by default itself."""
        return self

    def refusal(self, rows: LabelledRows) -> str | None:
        """Say why rows cannot be divided so, in words that follow a data set's name, or None.

        By default rows with folds are refused.
        """
        if rows.folds is None:
            return None
        return (
            f"has folds of its own, and {self.name} divides items otherwise: leave out the folds, "
            "or take another split (--split) or task"
        )

    def nothing_left(self) -> str | None:
        """Say that no item is left to train where all items are to test; for a split by share."""
        if self.settings.test_share < 1:
            return None
        return "has no item left to train where test_share = 1: give a number below 1"

    def in_words(self) -> str:
        """Say for a report how items are divided; by default the summary."""
        return self.summary

    def n_partitions(self, rows: LabelledRows) -> int | None:
        """Return how many partitions there can be; None, the default: any number."""
        return None

    def needed_per_class(self) -> tuple[int, int] | None:
        """Return the training and test items that a class must have.

        None, the default: classes do not matter, and all of them are one subset.
        """
        return None

    def judgements(self, rows: LabelledRows) -> Judgements | None:
        """Return the judgements that are divided; None, the default: items are."""
        return None

    @abstractmethod
    def sizes(self, rows: LabelledRows, classes: Classes, partition: int) -> tuple[int, int]:
        """Count the training and test items of a partition, or the most that there can be."""

    def rho(self, rows: LabelledRows, classes: Classes, partition: int) -> float:
        """Return the correlation of two partitions: the share of the pool that one tests.

        The pool has all items that may test.  By default it is used whole, by test and training
        items together: then the t-test that rho corrects is that of Nadeau & Bengio (2003).
        """
        n_train, n_test = self.sizes(rows, classes, partition)
        return n_test / (n_train + n_test)

    @abstractmethod
    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Draw a partition of the items of some classes.

        `partition` is its number, from 0; `seed`, another one for each, decides what is random.
        """

    @abstractmethod
    def inner_folds(
        self, y: Labels, judgements: Judgements | None, n_folds: int, seed: int
    ) -> list[Partition]:
        """Divide the training items, of labels `y`, into at most `n_folds` folds.

        Each fold tests once: it validates what was learned from the others.
        """

    def can_tune(self, n_classes: int) -> bool:
        """Tell whether inner folds can divide what trains of so many classes; by default yes."""
        return True

    def n_validated(self, n_train: int, n_folds: int) -> int | None:
        """Return how many of the training items an inner fold validates on; None: not known."""
        return None

    @staticmethod
    def named_unless_usual(split: str) -> tuple[str, ...]:
        """Return a split's name for that of a trial: nothing for the usual one."""
        return () if split == Split.USUAL else (split,)
