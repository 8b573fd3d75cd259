"""The base class of splits, which divide items into training and test items.

A split is a plugin: a class derived from `Split`, named by an entry point of the group
`oasis_bench.splits` or in a file given with `--plugin`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

from oasis_bench.data import Judgements, LabelledRows, Labels
from oasis_bench.system import UsageError
from oasis_bench.tasks.ranking import Numbers

Classes: TypeAlias = "Sequence[int]"
"""Class numbers."""


class NotSplittableError(UsageError):
    """A subset has too few classes for a split; its trials are reported as not applicable."""


class SplitSettings(Protocol):
    """The settings of an experiment that a split uses."""

    @property
    def per_class(self) -> tuple[int, int]:
        """The number of training and of test items of a class."""

    @property
    def seed(self) -> int:
        """The seed of everything that is random."""

    @property
    def test_share(self) -> float:
        """The share of the items, or of judged groups, in the test set."""

    @property
    def most_items(self) -> int | None:
        """The largest number of training items, and of test items, of a stratified split."""


class Partition(NamedTuple):
    """The training and test items of one random split, or of one inner fold.

    Attributes
    ----------
    train, test : ndarray of int
        Row numbers of the data set.  In an inner fold: indices of the training items.
    training, tested : JudgedTriplets, Ratings or None
        The judgements of the training and of the test set, if judgements are split.  Their items
        are indices of `train` and of `test`.
    n_dropped : int
        The number of training judgements that are left out because they have a test item.
    """

    train: Numbers
    test: Numbers
    training: Judgements | None = None
    tested: Judgements | None = None
    n_dropped: int = 0


def shared_part(n_train: float, n_test: float, n_pool: Numbers | float) -> Any:
    """Return the correlation of two random partitions of a pool of so many items.

    A result is thought of as a sum of the effects of its items, of equal variance for each item
    that trains and each that tests.  Two partitions then correlate by the harmonic mean of the
    shares of the pool that train and that test.  The rule of Nadeau & Bengio (2003) has only the
    second, n_test / n_pool: it is the same where as many items train as test, and is taken where
    more items test.
    """
    return max(n_test, 2 * n_train * n_test / (n_train + n_test)) / n_pool


class Split(ABC):
    """A way to divide items into training and test items.

    A task names its split.  Tasks of one split share a fit.  The inner folds divide the training
    items in the same way.

    Class attributes
    ----------------
    name : str
        The name for tasks and for ``--split``.
    summary : str
        One line for ``list splits``.
    citation : str
        The paper, or 'none'.
    in_place_of : tuple of str, default ()
        The splits that ``--split`` may replace by this one.  If empty, only tasks can name it.
    no_sizes : str, default ''
        The reason why ``--train`` and ``--test`` cannot be set, in words that follow the name of a
        data set; empty if they can.
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
        """Return the split to use on these rows; by default itself."""
        return self

    def refusal(self, rows: LabelledRows) -> str | None:
        """Return the reason why rows cannot be split in this way, or None.

        The reason is in words that follow the name of a data set.  By default, rows with folds
        cannot be split.
        """
        if rows.folds is None:
            return None
        return (
            f"has folds of its own, and {self.name} divides items otherwise: leave out the folds, "
            "or take another split (--split) or task"
        )

    def nothing_left(self) -> str | None:
        """Return the reason why all items cannot be test items, for a split by share, or None."""
        if self.settings.test_share < 1:
            return None
        return "has no item left to train where test_share = 1: give a number below 1"

    def in_words(self) -> str:
        """Describe for a report how items are divided; by default the summary."""
        return self.summary

    def n_partitions(self, rows: LabelledRows) -> int | None:
        """Return the number of possible partitions; None (the default) if there is no limit."""
        return None

    def needed_per_class(self) -> tuple[int, int] | None:
        """Return the number of training and of test items that a class must have.

        None (the default) if classes do not matter, so that all classes are one subset.
        """
        return None

    def judgements(self, rows: LabelledRows) -> Judgements | None:
        """Return the judgements that are split; None (the default) if items are split."""
        return None

    @abstractmethod
    def sizes(self, rows: LabelledRows, classes: Classes, partition: int) -> tuple[int, int]:
        """Return the number of training and of test items of a partition, or an upper bound."""

    def rho(self, rows: LabelledRows, classes: Classes, partition: int) -> float:
        """Return the correlation of two partitions, for the corrected t-test.

        By default it is `shared_part` of partitions that use all available items.
        """
        n_train, n_test = self.sizes(rows, classes, partition)
        return float(shared_part(n_train, n_test, n_train + n_test))

    @abstractmethod
    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Sample a partition.

        Parameters
        ----------
        rows : LabelledRows
            The data set.
        classes : sequence of int
            The class numbers of the class subset.
        partition : int
            The number of the partition, from 0.
        seed : int
            The seed of everything that is random, different for each partition.

        Returns
        -------
        Partition
        """

    @abstractmethod
    def inner_folds(
        self, y: Labels, judgements: Judgements | None, n_folds: int, seed: int
    ) -> list[Partition]:
        """Divide the training items into inner folds, each of which is the validation set once.

        Parameters
        ----------
        y : array of shape (n_items,), or sparse relevance
            The labels of the training items.
        judgements : JudgedTriplets, Ratings or None
            The training judgements, if judgements are split.
        n_folds : int
            The largest number of folds.
        seed : int
            The seed of everything that is random.

        Returns
        -------
        list of Partition
        """

    def can_tune(self, n_classes: int) -> bool:
        """Return whether inner folds are possible with this many classes; by default yes."""
        return True

    def n_validated(self, n_train: int, n_folds: int) -> int | None:
        """Return the number of validation items of an inner fold; None if it is not known."""
        return None

    @staticmethod
    def named_unless_usual(split: str) -> tuple[str, ...]:
        """Return a split's name as part of a trial's name; empty for the usual split."""
        return () if split == Split.USUAL else (split,)
