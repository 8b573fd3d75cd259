"""The base class of splits, which divide items into training and test items; splits by class.

A split is a plugin: a class derived from `Split`, named by an entry point of the group
`oasis_bench.splits` or in a file given with `--plugin`.  Splits by class (JMLR 2010, section
5.3.2) are of seen classes, of unseen classes, and given folds; those of what people judged are in
`oasis_bench.tasks.judged_splits`.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
from scipy import sparse
from sklearn.model_selection import KFold, StratifiedKFold

from oasis_bench.data import Judgements, LabelledRows, Labels
from oasis_bench.system import UsageError, spelled
from oasis_bench.tasks.groups import RANKABLE, Groups, deal_groups, groups_per_class, hold_apart
from oasis_bench.tasks.ranking import Numbers
from oasis_bench.tasks.task import CHECHIK, OH_SONG

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
        """The largest number of training and of test items, if stratified or of given folds."""


class Partition(NamedTuple):
    """The training and test items of one random split, or of one inner fold.

    Attributes
    ----------
    train, test : ndarray of int
        Row numbers of the data set.  In an inner fold: indices of the training items.
    training, tested : JudgedTriplets, Ratings or None
        The judgements of the training and of the test set, if judgements are split.  Their items
        are indices of `train` and of `test`.
    """

    train: Numbers
    test: Numbers
    training: Judgements | None = None
    tested: Judgements | None = None


def shared_part(n_train: float, n_test: float, n_pool: Numbers | float) -> Any:
    """Return the correlation of two random partitions of a pool of so many items.

    The model: a result is the mean effect of its training items plus the mean effect of its test
    items, and all effects have the same variance.  Then the correlation is the harmonic mean of two
    shares of the pool: of training items and of test items.  The rule of Nadeau & Bengio (2003) has
    only the second, n_test / n_pool.  Both are the same for as many training as test items; theirs
    is used if there are more test items.
    """
    return max(n_test, 2 * n_train * n_test / (n_train + n_test)) / n_pool


class Split(ABC):
    """A way to divide items into training and test items.

    A task names its split.  Tasks of one split share a fit.  The inner folds divide the training
    items in the same way.  If rows have groups, `groups` are those of the rows that are divided,
    and no group crosses training, test or inner folds.

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
        The reason why training and test items a class cannot be set, in words that follow the name
        of a data set; empty if they can.  What to set instead is added.
    unread : tuple of str, default ()
        Those of the settings 'test_share', 'most_items' and 'label_budget' that it does not read.
        A value that no split of an experiment reads is refused.
    all_may_test : bool, default False
        Whether a saved model may be evaluated on all items at once (``test_share = 1``).
    least_groups : int, default 0
        The groups that a class must have if rows have groups, or else the split leaves it out.  If
        0, the split does not keep groups apart, and refuses such rows.
    knows_classes : bool or None, default None
        Whether the classes of the test items are those of the training items; None if people's
        judgements of single queries decide.  `for_rows` may change it.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str]
    in_place_of: ClassVar[tuple[str, ...]] = ()
    no_sizes: ClassVar[str] = ""
    unread: ClassVar[tuple[str, ...]] = ()
    all_may_test: ClassVar[bool] = False
    least_groups: ClassVar[int] = 0

    knows_classes: bool | None = None
    groups: Groups | None = None

    USUAL: ClassVar = "seen-classes"
    """The split that names of trials leave out."""

    def __init__(self, settings: SplitSettings) -> None:
        self.settings = settings

    def for_rows(self, rows: LabelledRows) -> Split:
        """Return the split to use on these rows; by default `for_groups`."""
        return self.for_groups(rows.groups)

    def for_groups(self, groups: Groups | None) -> Split:
        """Return the split of rows of these groups, for all rows or for inner folds."""
        split = copy(self)
        split.groups = groups
        return split

    def usable(self, rows: LabelledRows, classes: Classes | None = None) -> Classes:
        """Return those of the classes, by default of all, that have enough groups."""
        classes = range(len(rows.class_names)) if classes is None else classes
        if self.groups is None:
            return classes
        n_groups = groups_per_class(rows.y, self.groups)
        return [number for number in classes if n_groups[number] >= self.least_groups]

    def refusal(self, rows: LabelledRows) -> str | None:
        """Return the reason why rows cannot be split in this way, or None.

        The reason is in words that follow the name of a data set.  By default, rows with folds
        cannot be split, nor rows with too few groups, or with any where `least_groups` is 0.
        """
        if rows.groups is not None:
            if not self.least_groups:
                out = f"leave them out ({spelled('group')}), or take another {spelled('split')}"
                return f"has groups, which {self.name} does not keep apart: {out}"
            n, least = len(self.usable(rows)), 4 if self.knows_classes is False else 2
            if n < least:
                return f"has {n} classes of {self.least_groups} groups: {least} are needed"
        if rows.folds is None:
            return None
        return (
            f"has folds of its own, and {self.name} divides items otherwise: leave out the folds, "
            f"or take another split ({spelled('split')}) or task"
        )

    def nothing_left(self) -> str | None:
        """Return the reason why all items cannot be test items, for a split by share, or None."""
        if self.settings.test_share < 1:
            return None
        return "has no item left to train where test_share = 1: give a number below 1"

    def in_words(self) -> str:
        """Describe for a report how items are divided; by default the summary."""
        return self.summary + "; whole groups train or test" * (self.groups is not None)

    def n_partitions(self, rows: LabelledRows) -> int | None:
        """Return the number of possible partitions; None (the default) if there is no limit."""
        return None

    def needed_per_class(self) -> int | None:
        """Return the number of items that a class must have.

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

    def draw_within(
        self, budget: int | None, rows: LabelledRows, classes: Classes, partition: int, seed: int
    ) -> Partition:
        """Draw as `draw`, and keep of each class `budget` training items.

        Or, where test classes are new, the items of so many classes.  What a smaller budget keeps,
        a larger one keeps, too.  None is no limit.
        """
        drawn = self.draw(rows, classes, partition, seed)
        if budget is None or "label_budget" in self.unread:
            return drawn
        order = np.random.default_rng(seed).permutation(drawn.train)
        if self.knows_classes:
            kept = np.isin(order, few_of_each(rows.y, drawn.train, budget, seed))
        else:
            y = np.asarray(rows.y)[order]
            kept = np.isin(y, y[np.sort(np.unique(y, return_index=True)[1])[:budget]])
        return drawn._replace(train=order[kept])

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


MOST_VALIDATED = 3000
"""The largest number of validation items of an inner fold: ranking n items takes time n^2."""


def possible_folds(n_folds: int, largest: int) -> int:
    """Return so few folds that each has two items of a class of so many: one ranks nothing."""
    return n_folds if largest > n_folds else max(2, largest // 2)


class SameClassesSplit(Split):
    """What splits have in common whose training and test items are of the same classes."""

    citation = f"{CHECHIK} 5.3.2"
    knows_classes = True

    def whole_groups(
        self, rows: LabelledRows, classes: Classes, test_share: float, seed: int
    ) -> Partition:
        """Divide the groups so that of each class about this share of the rows tests."""
        if len(used := self.usable(rows, classes)) < 2:
            raise NotSplittableError(f"{len(used)} classes of {self.least_groups} groups: give 2")
        held = np.flatnonzero(np.isin(np.asarray(rows.y), used))
        assert self.groups is not None, "asked before"
        shares = test_share, 1 - test_share
        tests = deal_groups(rows.y[held], self.groups[held], shares, seed) == 0
        train, test = held[~tests], held[tests]
        return Partition(train, test[np.isin(rows.y[test], rows.y[train])])

    def inner_folds(
        self, y: Labels, judgements: Judgements | None, n_folds: int, seed: int
    ) -> list[Partition]:
        """Split the training items into folds; each validates once.

        With class labels `y` (n_train,), each class is split evenly: one of fewer than `n_folds`
        items is missing in some folds, and where all classes are that small there are fewer folds,
        of two items of the largest.  With relevance `y`, CSR (n_train, n_queries), all items
        are split at random.  Of a fold of more than `MOST_VALIDATED` items so many validate, drawn
        at random.  Groups are whole; there are so few folds that some class has two in each.
        """
        if self.groups is not None:
            most = int(groups_per_class(y, self.groups).max())
            n_folds = min(n_folds, max(2, most // RANKABLE))
            fold_of = deal_groups(y, self.groups, (1 / n_folds,) * n_folds, seed)
            held = [np.flatnonzero(fold_of == fold) for fold in range(n_folds)]
            every = np.arange(len(fold_of))
            return [Partition(np.delete(every, own), few_to_validate(own, seed)) for own in held]
        if isinstance(y, sparse.csr_array):
            folds = KFold(n_folds, shuffle=True, random_state=seed)
        else:
            largest = int(np.unique(y, return_counts=True)[1].max())
            if largest < 2:
                raise NotSplittableError("no class has 2 training items to divide into inner folds")
            n_folds = possible_folds(n_folds, largest)
            folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The least populated class", UserWarning)
            parts = list(folds.split(np.empty((y.shape[0], 0)), y))
        return [Partition(learn, few_to_validate(validate, seed)) for learn, validate in parts]


class SeenClassesSplit(SameClassesSplit):
    """The same number of training items of each class, and the same number of test items."""

    name = Split.USUAL
    summary = "training and test items of each class"
    unread = ("test_share", "most_items")
    least_groups = 2 * RANKABLE  # so that inner folds can learn from one and validate on another

    def for_rows(self, rows: LabelledRows) -> Split:
        """Return the data set's own folds, or a share of items of several labels, or as usual."""
        if rows.folds is not None:
            return GivenFoldsSplit(self.settings)
        return ShareSplit(self.settings) if rows.multi_label else super().for_rows(rows)

    def needed_per_class(self) -> int:
        """Return the sum of what `--train` and `--test` say."""
        return sum(self.settings.per_class)

    def sizes(self, rows: LabelledRows, classes: Classes, partition: int) -> tuple[int, int]:
        """Count those of all classes."""
        n_train, n_test = self.settings.per_class
        return len(classes) * n_train, len(classes) * n_test

    def rho(self, rows: LabelledRows, classes: Classes, partition: int) -> float:
        """Return the mean over classes of `shared_part`; with groups, as if all rows are used."""
        if self.groups is not None:
            return float(shared_part(*self.settings.per_class, sum(self.settings.per_class)))
        counts = rows.class_counts()[list(classes)]
        return float(np.mean(shared_part(*self.settings.per_class, counts)))

    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Draw training and test items of each class at random, or at most as many of groups."""
        if self.groups is not None:
            per_class = self.settings.per_class
            whole = self.whole_groups(rows, classes, per_class[1] / sum(per_class), seed)
            return few_per_class(rows.y, whole, per_class, seed)
        return draw_partition(rows.y, classes, *self.settings.per_class, seed)


class ShareSplit(SameClassesSplit):
    """A random share of all items is the test set, for items with several labels."""

    name = Split.USUAL
    summary = "a random share of all items is for testing, the rest for training"
    unread = ("most_items", "label_budget")
    no_sizes = "has several labels an item"

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse a share that leaves nothing."""
        return super().refusal(rows) or self.nothing_left()

    def sizes(self, rows: LabelledRows, classes: Classes, partition: int) -> tuple[int, int]:
        """Return the share, at least two items, and the rest."""
        n_rows = rows.y.shape[0]
        n_test = max(2, round(self.settings.test_share * n_rows))
        return n_rows - n_test, n_test

    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Draw the test items at random."""
        _, n_test = self.sizes(rows, classes, partition)
        order = np.random.default_rng(seed).permutation(rows.y.shape[0]).astype(np.intp)
        return Partition(order[n_test:], order[:n_test])


class GivenFoldsSplit(SameClassesSplit):
    """The folds that a data set is published with, used for seen classes if it has any.

    Of more than ``most_items`` items that test, or train, so many are drawn, in the frequencies of
    the classes.
    """

    name = Split.USUAL
    summary = "each fold of the data set is the test set once; the other folds train"
    unread = ("test_share",)
    no_sizes = "has folds, each of which tests while all other rows train"

    def refusal(self, rows: LabelledRows) -> str | None:
        """Return None: folds are what it takes."""
        return None

    def n_partitions(self, rows: LabelledRows) -> int:
        """Return the number of folds."""
        return rows.n_folds

    def needed_per_class(self) -> int:
        """Return two: a fold takes what there is."""
        return 2

    def sizes(self, rows: LabelledRows, classes: Classes, partition: int) -> tuple[int, int]:
        """Count the rows; raise UsageError where they are of no use."""
        train, test = self.draw(rows, classes, partition, 0)[:2]
        if not len(test):
            raise UsageError(
                f"fold {partition + 1} has no row of the {len(classes)} classes of "
                f"{spelled('classes')}"
            )
        if not isinstance(rows.y, sparse.csr_array):
            _, counts = np.unique(rows.y[train], return_counts=True)
            if len(counts) < 2 or counts.max() < 2:
                raise UsageError(
                    f"outside of fold {partition + 1} there are {len(train)} rows of "
                    f"{len(counts)} classes: at least 2 classes are needed, one of them with 2 rows"
                )
        return len(train), len(test)

    def rho(self, rows: LabelledRows, classes: Classes, partition: int) -> float:
        """Return the share that tests, the rule of Nadeau & Bengio (2003): no item tests twice."""
        n_train, n_test = self.sizes(rows, classes, partition)
        return n_test / (n_train + n_test)

    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Return the rows of a fold to test and all others to train; with relevance, all rows."""
        wanted = True if isinstance(rows.y, sparse.csr_array) else np.isin(rows.y, classes)
        tests = rows.folds == partition
        whole = Partition(np.flatnonzero(wanted & ~tests), np.flatnonzero(wanted & tests))
        most = None if isinstance(rows.y, sparse.csr_array) else self.settings.most_items
        return few_in_frequency(rows.y, whole, most, seed)


class UnseenClassesSplit(Split):
    """One half of the classes trains, the other tests; inner folds split the classes, too."""

    name = "unseen-classes"
    in_place_of = ("pairs",)
    summary = "training items from one half of the classes, test items from the other half"
    unread = ("test_share", "most_items")
    citation = f"{OH_SONG}, section 5"
    least_groups = RANKABLE
    knows_classes = False

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows of several labels, and fewer than four classes."""
        if rows.multi_label:
            return "has several labels an item, which cannot be split by class"
        too_few = too_few_classes(len(rows.class_names))
        return super().refusal(rows) or (too_few and f"has {too_few}")

    def needed_per_class(self) -> int:
        """Return the larger of what `--train` and `--test` say: a class trains or tests."""
        return max(self.settings.per_class)

    def sizes(self, rows: LabelledRows, classes: Classes, partition: int) -> tuple[int, int]:
        """Count those of the two halves."""
        n_train, n_test = self.settings.per_class
        half = len(classes) // 2
        return (len(classes) - half) * n_train, half * n_test

    def rho(self, rows: LabelledRows, classes: Classes, partition: int) -> float:
        """Return `shared_part` of the classes, which is at least that of all their items."""
        n_test = len(classes) // 2
        return float(shared_part(len(classes) - n_test, n_test, len(classes)))

    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Draw the halves, and items of each class, at random; groups are divided, too."""
        if self.groups is None:
            return draw_unseen_classes(rows.y, classes, *self.settings.per_class, seed)
        halves = halved(self.usable(rows, classes), np.random.default_rng(seed))
        y = np.asarray(rows.y)
        learns, tests = (np.isin(y, half) for half in halves)
        whole = Partition(*hold_apart(learns, tests, self.groups, seed))
        if min(len(np.unique(y[part])) for part in whole[:2]) < 2:
            raise NotSplittableError("groups across classes leave fewer than 2 classes in a part")
        return few_per_class(rows.y, whole, self.settings.per_class, seed)

    def inner_folds(
        self, y: Labels, judgements: Judgements | None, n_folds: int, seed: int
    ) -> list[Partition]:
        """Hold classes, and groups, apart."""
        folds = unseen_class_folds(y, n_folds, seed)
        if self.groups is None:
            return folds
        learns = [np.isin(np.arange(y.shape[0]), fold.train) for fold in folds]
        parts = [hold_apart(learn, ~learn, self.groups, seed) for learn in learns]
        return [Partition(train, few_to_validate(test, seed)) for train, test in parts]

    def can_tune(self, n_classes: int) -> bool:
        """Return whether there are four training classes or more."""
        return too_few_for_folds((n_classes + 1) // 2) is None


def draw_partition(y: Labels, classes: Classes, n_train: int, n_test: int, seed: int) -> Partition:
    """Draw so many training and test rows of each class at random, without overlap.

    Each class has at least ``n_train + n_test`` rows.
    """
    drawn = np.stack(_drawn(y, classes, n_train + n_test, np.random.default_rng(seed)))
    return Partition(drawn[:, :n_train].ravel(), drawn[:, n_train:].ravel())


def _drawn(y: Labels, classes: Classes, n_items: int, rng: np.random.Generator) -> list[Numbers]:
    """Draw so many rows of each class at random."""
    rows = (np.flatnonzero(y == number) for number in classes)
    return [rng.permutation(of_class)[:n_items].astype(np.intp) for of_class in rows]


def draw_unseen_classes(
    y: Labels, classes: Classes, n_train: int, n_test: int, seed: int
) -> Partition:
    """Draw training rows from one half of the classes at random, test rows from the other.

    Of an odd number of classes, one more trains.  Each training class has at least `n_train` rows,
    each test class `n_test`.
    """
    rng = np.random.default_rng(seed)
    train, test = (
        np.concatenate(_drawn(y, np.sort(half).tolist(), n, rng))
        for half, n in zip(halved(classes, rng), (n_train, n_test), strict=True)
    )
    return Partition(train, test)


def halved(classes: Classes, rng: np.random.Generator) -> list[Numbers]:
    """Divide the classes at random into those that train, one more if they are odd, and test."""
    if reason := too_few_classes(len(classes)):
        raise NotSplittableError(reason)
    return np.split(rng.permutation(np.asarray(classes)), [(len(classes) + 1) // 2])


def too_few_classes(n_classes: int) -> str | None:
    """Say why so few classes cannot be split into two parts of two or more, or return None."""
    if n_classes >= 4:
        return None
    return f"{n_classes} classes: 4 are needed, 2 to learn from and 2 to test on"


def too_few_for_folds(n_train_classes: int) -> str | None:
    """Say why folds of so few training classes cannot hold classes apart, or return None."""
    if n_train_classes >= 4:
        return None
    return f"{n_train_classes} training classes: 4 are needed to tune on inner folds, so 7 in all"


def unseen_class_folds(y: Labels, n_folds: int, seed: int) -> list[Partition]:
    """Split the training items into folds that hold classes apart; each class validates once.

    A fold validates on two or more classes and learns from all others, which are two or more: there
    are at most half as many folds as classes.  Of more than `MOST_VALIDATED` items so many
    validate.
    """
    assert isinstance(y, np.ndarray)
    present = np.unique(y)
    if reason := too_few_for_folds(len(present)):
        raise NotSplittableError(reason)
    classes = np.random.default_rng(seed).permutation(present)
    parts = np.array_split(classes, min(n_folds, len(classes) // 2))
    held = [np.isin(y, part) for part in parts]
    return [
        Partition(np.flatnonzero(~validates), few_to_validate(np.flatnonzero(validates), seed))
        for validates in held
    ]


def few_of_each(y: Any, rows: Numbers, most: Numbers | int, seed: int) -> Numbers:
    """Return these rows, of each class at most so many, drawn at random."""
    drawn = np.random.default_rng(seed).permutation(rows)
    drawn = drawn[np.argsort(y[drawn], kind="stable")]
    _, starts, sizes = np.unique(y[drawn], return_index=True, return_counts=True)
    most = np.repeat(np.broadcast_to(most, sizes.shape), sizes)
    return np.sort(drawn[np.arange(len(drawn)) - np.repeat(starts, sizes) < most])


def few_per_class(y: Any, whole: Partition, per_class: tuple[int, int], seed: int) -> Partition:
    """Draw from the two parts of a partition at most so many rows of each class."""
    train = few_of_each(y, whole.train, per_class[0], seed)
    return Partition(train, few_of_each(y, whole.test, per_class[1], seed))


def few_in_frequency(y: Any, whole: Partition, most: int | None, seed: int) -> Partition:
    """Return a partition with at most so many items in a part, in the frequencies of the classes.

    At least one item of each class stays.
    """

    def few(rows: Numbers) -> Numbers:
        if most is None or len(rows) <= most:
            return rows
        _, counts = np.unique(y[rows], return_counts=True)
        return few_of_each(y, rows, np.clip(dealt(counts, most), 1, counts), seed)

    return Partition(few(whole.train), few(whole.test))


def dealt(counts: Numbers, n: int) -> Numbers:
    """Deal n items to classes of so many items, by largest remainders."""
    share = n * counts / counts.sum()
    n_of = np.floor(share).astype(np.intp)
    n_of[np.argsort(n_of - share, kind="stable")[: n - int(n_of.sum())]] += 1
    return np.asarray(n_of)


def few_to_validate(validate: Numbers, seed: int) -> Numbers:
    """Return these places, or `MOST_VALIDATED` of them, ascending."""
    if len(validate) <= MOST_VALIDATED:
        return validate
    rng = np.random.default_rng(seed)
    return np.sort(rng.choice(validate, MOST_VALIDATED, replace=False))
