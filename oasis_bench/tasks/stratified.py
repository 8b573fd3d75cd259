"""The stratified split: of each class the same share tests, in the data set's own frequencies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from oasis_bench.data import LabelledRows
from oasis_bench.tasks.class_splits import SameClassesSplit
from oasis_bench.tasks.split import USUAL, Classes, Partition


class StratifiedSplit(SameClassesSplit):
    """The share ``test_share`` of each class tests, and the rest of it trains.

    Test items are dealt to the classes by largest remainders: of n items in all, class c of n_c
    items has ``n_test * n_c / n`` of the ``n_test = round(test_share * n)``, rounded up where the
    fraction is among the largest.  But at least one item of each class trains and one tests.
    """

    name = "stratified"
    summary = "the same share of each class tests, the rest trains: classes keep their frequencies"
    citation = (
        "Kohavi (1995), A Study of Cross-Validation and Bootstrap for Accuracy Estimation and "
        "Model Selection, IJCAI"
    )
    in_place_of = (USUAL, "pairs")
    no_sizes = (
        "is split by a share of each class (--split stratified): use --test-share in place of "
        "--train and --test"
    )

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows of several labels or with folds, and a share that leaves nothing to train."""
        if rows.multi_label:
            return "has several labels an item, and no classes to keep the frequencies of"
        return super().refusal(rows) or self.nothing_left()

    def needed_per_class(self) -> tuple[int, int]:
        """Return one each."""
        return 1, 1

    def sizes(self, rows: LabelledRows, classes: Classes, partition: int) -> tuple[int, int]:
        """Count the items that train and that test."""
        counts = rows.class_counts()[list(classes)]
        n_test = int(self.n_test(counts).sum())
        return int(counts.sum()) - n_test, n_test

    def n_test(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many items of each class test, of classes with so many items."""
        n_test = round(self.settings.test_share * counts.sum())
        share = n_test * counts / counts.sum()
        tests = np.floor(share).astype(np.int64)
        left = n_test - int(tests.sum())
        tests[np.argsort(tests - share, kind="stable")[:left]] += 1
        return np.asarray(np.clip(tests, 1, counts - 1))

    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Draw the test items of each class at random."""
        rng = np.random.default_rng(seed)
        drawn = [rng.permutation(np.flatnonzero(rows.y == number)) for number in classes]
        n_test = self.n_test(np.array([len(own) for own in drawn]))
        return Partition(
            np.concatenate([own[n:] for own, n in zip(drawn, n_test, strict=True)]).astype(np.intp),
            np.concatenate([own[:n] for own, n in zip(drawn, n_test, strict=True)]).astype(np.intp),
        )
