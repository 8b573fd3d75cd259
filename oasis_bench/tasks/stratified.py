"""The stratified split: of each class the same share tests, in the data set's own frequencies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oasis_bench.data import LabelledRows
from oasis_bench.tasks.groups import RANKABLE
from oasis_bench.tasks.ranking import Numbers
from oasis_bench.tasks.split import (
    Classes,
    Partition,
    SameClassesSplit,
    Split,
    dealt,
    few_in_frequency,
    shared_part,
)


class StratifiedSplit(SameClassesSplit):
    """The share ``test_share`` of each class tests, and the rest of it trains.

    Of more than ``most_items`` items that test, or train, so many are drawn, in the frequencies
    of the classes.

    Test items are dealt to the classes by largest remainders: of n items in all, class c of n_c
    items has ``n_test * n_c / n`` of the ``n_test = round(test_share * n)``, rounded up where the
    fraction is among the largest.  But at least one item of each class trains and one tests.
    """

    name = "stratified"
    summary = "the same share of each class is for testing, so classes keep their frequencies"
    citation = (
        "Kohavi (1995), A Study of Cross-Validation and Bootstrap for Accuracy Estimation and "
        "Model Selection, IJCAI"
    )
    in_place_of = (Split.USUAL, "pairs")
    no_sizes = "is split by shares of classes"
    least_groups = 2 * RANKABLE

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows of several labels or with folds, and a share that leaves nothing to train."""
        if rows.multi_label:
            return "has several labels an item, and no classes to keep the frequencies of"
        return super().refusal(rows) or self.nothing_left()

    def needed_per_class(self) -> int:
        """Return two: one trains and one tests."""
        return 2

    def sizes(self, rows: LabelledRows, classes: Classes, partition: int) -> tuple[int, int]:
        """Count the items that train and that test; with groups, all or the most."""
        if self.groups is not None:
            n_rows = int(rows.class_counts()[list(classes)].sum())
            most = min(n_rows, (self.settings.most_items or n_rows) + len(classes))
            return most, most
        n_train, n_test = self._of_each(rows.class_counts()[list(classes)])
        return int(n_train.sum()), int(n_test.sum())

    def rho(self, rows: LabelledRows, classes: Classes, partition: int) -> float:
        """Return `shared_part` of all items of the classes."""
        share, n_pool = self.settings.test_share, int(rows.class_counts()[list(classes)].sum())
        if self.groups is not None:
            return float(shared_part(1 - share, share, 1))
        return float(shared_part(*self.sizes(rows, classes, partition), n_pool))

    def _of_each(self, counts: npt.NDArray[np.int64]) -> tuple[Numbers, Numbers]:
        """Return how many items of each class train and test, of classes with so many items."""
        most = self.settings.most_items or int(counts.sum())
        n_test = min(most, round(self.settings.test_share * counts.sum()))
        tests = np.clip(dealt(counts, n_test), 1, counts - 1)
        left = counts - tests
        return np.clip(dealt(left, min(most, int(left.sum()))), 1, left), tests

    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Draw the items of each class at random; of whole groups in their frequencies."""
        if self.groups is not None:
            whole = self.whole_groups(rows, classes, self.settings.test_share, seed)
            return few_in_frequency(rows.y, whole, self.settings.most_items, seed)
        rng = np.random.default_rng(seed)
        drawn = [rng.permutation(np.flatnonzero(rows.y == number)) for number in classes]
        parts = list(zip(drawn, *self._of_each(np.array([len(own) for own in drawn])), strict=True))
        return Partition(
            np.concatenate([own[tests:][:trains] for own, trains, tests in parts]),
            np.concatenate([own[:tests] for own, _, tests in parts]),
        )
