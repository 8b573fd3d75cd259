"""The items of one trial, drawn by the harness, and sealed in files for the learner's side.

The learner's process gets the training items with their labels and, after the fit, the test items
without labels, in a random order.  Only the harness has the `Truth`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import (
    Encoding,
    Judgements,
    LabelledRows,
    Labels,
    Patches,
    Prepare,
    Scaling,
    Schema,
    apply_steps,
)
from oasis_bench.experiment import TrialSpec
from oasis_bench.plugins import MetricLearner
from oasis_bench.system import derive_seed, spelled
from oasis_bench.tasks import NotSplittableError, Numbers, Partition, Truth, tie_order
from oasis_bench.trial import wall

DENSE_BYTES = 2 * 2**30
"""Sparse rows up to this size are made dense for a learner of dense rows."""

FEW_PER_CLASS, FEW_OF_SEVERAL_LABELS = 8, 100
"""Training items of the warm-up: for each of two classes, or in all."""

MOST_SCORED = 200
"""Training items to score if there are no test items."""

N_SAMPLE = 30
"""Test items that a process with few other items scores a second time, as queries.

If there are fewer than 120 test items, a quarter of them."""


@dataclass(frozen=True)
class TrialItems:
    """The items of a trial."""

    X: Any  # array, CSR or Patches: all items of the data set, as it gives them
    y: Labels  # of the training items
    judgements: Judgements | None  # people's judgements of the training items
    test_rows: Numbers  # row numbers in the data set, in the order in which the learner sees them
    train_rows: Numbers
    original_order: Numbers  # the place of each test item in the order of the partition
    truth: Truth  # the labels of the test items
    ties: Mapping[str, Numbers]  # the order within ties of each gallery
    sample: Numbers  # places of the test items that are scored a second time as queries
    encoding: Encoding | None = None  # of the columns of X
    schema: Schema | None = None  # of the table of X
    groups: npt.NDArray[np.int64] | None = None  # of the training items

    @property
    def n_features(self) -> int:
        """Numbers per prepared item; for patches, the sum over all descriptors."""
        if isinstance(self.X, Patches):
            pixels = 0 if self.X.pixels is None else np.prod(self.X.pixels.shape[1:])
            return int(pixels + sum(kind.descriptors.shape[1] for kind in self.X.kinds.values()))
        if self.encoding is None:
            return int(np.prod(self.X.shape[1:]))
        return int(Prepare(self.encoding).fit_transform(self.X[self.train_rows]).shape[1])

    @property
    def classes(self) -> npt.NDArray[np.int64]:
        """The classes of the training items, ascending."""
        return np.unique(np.asarray(self.y))

    @property
    def training_truth(self) -> Truth:
        """Labels or judgements of the training items, in order."""
        if self.judgements is not None:
            return Truth.of(self.judgements)
        return Truth(y=self.y, groups=self.groups)


def draw_items(spec: TrialSpec, rows: LabelledRows, learner: type[MetricLearner]) -> TrialItems:
    """Draw training and test items of a trial.

    Raise NotApplicableError if the learner does not take such items or labels.
    """
    X = rows.items(learner.takes, spec.features)
    must_be_dense = sparse.issparse(X) and not learner.takes_sparse
    if rows.multi_label and not learner.takes_relevance:
        raise wall.NotApplicableError(f"{learner.name} takes one label an item, not several")
    is_wide = any(Scaling.PCA not in scaling for scaling in spec.scalings)  # PCA makes rows short
    n_bytes = spec.where.n_train * X.shape[1] * X.dtype.itemsize if must_be_dense and is_wide else 0
    if n_bytes > DENSE_BYTES:
        raise wall.NotApplicableError(
            f"{learner.name} takes dense rows only, and these would be {n_bytes / 2**30:.1f} GiB, "
            f"of {DENSE_BYTES / 2**30:g} at most: project them ({spelled('scaling', 'l2+pca256')})"
        )
    partition = divide(spec, rows)
    # The learner's process must not find this order, and it could try all seeds of 32 bits.  So the
    # seed depends on the content of the whole data set, which neither this process nor a file of
    # the run has.  The same applies to the order within ties, because kept scores contain it.
    whole = (rows.secret, spec.where.subset, spec.where.partition, "order")
    rng = np.random.default_rng([derive_seed(*whole, part) for part in range(4)])
    order = rng.permutation(len(partition.test))
    groups = rows.groups
    if partition.tested is None:
        tested = partition.test[order]
        # Without test items a few training items are scored, which may be of one group.
        left_out = None if groups is None or not spec.where.n_test else groups[tested]
        truth = Truth(y=rows.y[tested], training=rows.y[partition.train], groups=left_out)
    else:  # the test items are in another order than in the judgements
        truth = Truth.of(partition.tested.among(order))
    return TrialItems(
        X=X,
        encoding=spec.encoding,
        schema=rows.schema if learner.takes == "rows" and spec.features is None else None,
        y=rows.y[partition.train],
        groups=None if groups is None else groups[partition.train],
        test_rows=partition.test[order],
        train_rows=partition.train,
        original_order=order,
        judgements=partition.training,
        truth=truth,
        ties={
            "test": rng.permutation(len(order)),
            "training": tie_order(spec.seed_for("ties"), len(partition.train)),
        },
        sample=np.sort(rng.choice(len(order), min(N_SAMPLE, (len(order) + 3) // 4), replace=False)),
    )


def divide(spec: TrialSpec, rows: LabelledRows) -> Partition:
    """Draw training and test items, and the judgements of each, if the split has any.

    If the plan has no test items, all items train.  A few of them are scored, because a trial needs
    queries: two of each class, or those of the first judgements.
    """
    where = spec.where
    if not where.n_test:
        every = np.arange(rows.y.shape[0])
        if (judgements := spec.split.for_rows(rows).judgements(rows)) is not None:
            few = np.unique(judgements.items[:MOST_SCORED])
            return Partition(every, few, judgements, judgements.among(few))
        if isinstance(rows.y, sparse.csr_array):
            return Partition(every, every[:MOST_SCORED])
        of_class = [np.flatnonzero(rows.y == number) for number in where.classes]
        few = np.concatenate([own[:2] for own in of_class])[:MOST_SCORED]
        return Partition(np.sort(np.concatenate(of_class)), few)
    try:
        return spec.drawn(rows)
    except NotSplittableError as error:
        raise wall.NotApplicableError(str(error)) from error


class SealedItems:
    """The items of a trial in one scaling; the first use of a part writes its file.

    The scaling is learned from the training items, or `saved` with a model; with None, items stay
    as the data set gives them.  Sparse rows are made dense if the learner takes only dense rows.
    `steps` are the transformers for this.
    """

    def __init__(
        self,
        items: TrialItems,
        learner: type[MetricLearner],
        scaling: str | None,
        saved: Sequence[Any] | None = None,
    ) -> None:
        self._items = items
        training = items.X[items.train_rows]
        self.steps = (
            []
            if scaling is None
            else wall.learn_preparation(learner, scaling, training, items.encoding, saved)
        )
        self.training_rows = apply_steps(self.steps, training)
        """The training items, as the learner gets them."""

    @cached_property
    def few(self) -> int:
        """A file of a few training items with labels, for the warm-up."""
        y = self._items.y
        if isinstance(y, sparse.csr_array):
            few = np.arange(min(FEW_OF_SEVERAL_LABELS, y.shape[0]))
        else:
            classes = np.unique(y)[:2]
            few = np.concatenate(
                [np.flatnonzero(y == number)[:FEW_PER_CLASS] for number in classes]
            )
        return self._seal(self.training_rows[few], y[few])

    @cached_property
    def test_rows(self) -> Any:
        """The test items as the learner gets them, from the file."""
        return wall.map_items(self.test).X

    @cached_property
    def training(self) -> int:
        """A file of the training items with labels."""
        items = self._items
        return self._seal(self.training_rows, items.y, items.judgements, items.groups)

    @cached_property
    def gallery(self) -> int:
        """A file of the training items without labels."""
        return self._seal(self.training_rows)

    @cached_property
    def test(self) -> int:
        """A file of the test items."""
        return self._seal(apply_steps(self.steps, self._items.X[self._items.test_rows]))

    def _seal(self, *parts: Any) -> int:
        descriptor = wall.seal_items(wall.Items(*parts))
        # It is closed when no trial has the items any more; processes keep theirs.
        weakref.finalize(self, os.close, descriptor)
        return descriptor


Sealed = Callable[[str | None], SealedItems]
"""Returns the items of a trial in a scaling; equal scalings share one object."""
