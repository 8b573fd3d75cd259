"""The items of one trial, drawn by the harness.

The learner's process gets the training items with their labels and, after the fit, the test items
without labels, in a random order (`oasis_bench.trial.sealed_items`).  What the harness alone has is
the `Truth`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from oasis_bench.data import JudgedTriplets, Judgements, LabelledRows, Labels, Patches
from oasis_bench.experiment import Queries, TrialSpec, split_of
from oasis_bench.plugins import MetricLearner
from oasis_bench.system import UsageError, derive_seed, shown
from oasis_bench.tasks import NotSplittableError, Numbers, Partition, Truth, tie_order

DENSE_BYTES = 2 * 2**30
"""Sparse rows are made dense for a learner that takes no others, up to this size."""

N_SAMPLE = 30
"""Test items scored a second time, by a process that has no others.

Half of them, where there are fewer than 60."""


class NotApplicableError(Exception):
    """A learner that cannot learn from a data set of this kind, for a reason known beforehand."""


@dataclass(frozen=True)
class TrialItems:
    """What a trial works on.

    Attributes
    ----------
    X : array, CSR or Patches
        All items of the data set, as it gives them.
    y : Labels
        Of the training items.
    judgements : JudgedTriplets, Ratings or None
        What people said of the training items, for the learner.
    test_rows : ndarray of shape (n_test,)
        The test items' row numbers in the data set, in the order in which the learner sees them.
    train_rows : ndarray of shape (n_train,)
        Those of the training items.
    original_order : ndarray of shape (n_test,)
        The place of each test item in the order in which the partition was drawn.
    truth : Truth
    ties : dict of str to ndarray
        For a gallery of 'test' or 'training' items the order within ties.
    sample : ndarray
        Places of the test items that are scored a second time, alone.
    """

    X: Any
    y: Labels
    judgements: Judgements | None
    test_rows: Numbers
    train_rows: Numbers
    original_order: Numbers
    truth: Truth
    ties: Mapping[str, Numbers]
    sample: Numbers

    @property
    def n_features(self) -> int:
        """Numbers of an item as the data set gives it; of patches, each descriptor together."""
        if isinstance(self.X, Patches):
            pixels = 0 if self.X.pixels is None else np.prod(self.X.pixels.shape[1:])
            return int(pixels + sum(kind.descriptors.shape[1] for kind in self.X.kinds.values()))
        return int(np.prod(self.X.shape[1:]))

    @property
    def training_truth(self) -> Truth:
        """What is known of the training items, in their order."""
        return Truth(y=self.y) if self.judgements is None else truth_of(self.judgements)


def draw_items(spec: TrialSpec, rows: LabelledRows, learner: type[MetricLearner]) -> TrialItems:
    """Draw training and test items of a trial.

    Raises
    ------
    NotApplicableError
        Where the learner does not take such items or labels.
    """
    X = rows.items(learner.takes, spec.features)
    must_be_dense = sparse.issparse(X) and not learner.takes_sparse
    if rows.multi_label and not learner.takes_relevance:
        raise NotApplicableError(f"{learner.name} takes one label an item, not several")
    n_bytes = spec.n_train * X.shape[1] * X.dtype.itemsize if must_be_dense else 0
    if n_bytes > DENSE_BYTES:
        raise NotApplicableError(
            f"{learner.name} takes dense rows only, and these would be {n_bytes / 2**30:.1f} GiB"
        )
    partition = divide(spec, rows)
    # The learner's process must not be able to find this order: it is made of what that process
    # does not have, the content of the whole data set.  All seeds of 32 bits could be tried.
    whole = (str(spec.identity["data"]), spec.subset, spec.partition, "order")
    rng = np.random.default_rng([derive_seed(*whole, part) for part in range(4)])
    order = rng.permutation(len(partition.test))
    ties = tie_order(spec.seed_for("ties"), len(order))
    return TrialItems(
        X=X,
        y=rows.y[partition.train],
        test_rows=partition.test[order],
        train_rows=partition.train,
        original_order=order,
        judgements=partition.training,
        truth=_truth(
            rows.y[partition.test[order]], rows.y[partition.train], partition.tested, order
        ),
        ties={
            "test": np.argsort(order)[ties].astype(np.intp),
            "training": tie_order(spec.seed_for("ties"), len(partition.train)),
        },
        sample=np.sort(rng.choice(len(order), min(N_SAMPLE, (len(order) + 1) // 2), replace=False)),
    )


def divide(spec: TrialSpec, rows: LabelledRows) -> Partition:
    """Draw training and test items, and the judgements of each, where the split has any."""
    split = split_of(spec).for_rows(rows)
    try:
        return split.draw(rows, spec.classes, spec.partition, spec.seed_for("partition"))
    except NotSplittableError as error:
        raise NotApplicableError(str(error)) from error


def refuse_untested_queries(specs: Sequence[TrialSpec], rows: LabelledRows) -> None:
    """Check that each of the `queries` of an experiment names a test item of a first partition.

    Raises
    ------
    UsageError
        Where one does not.
    """
    first = {spec.subset: spec for spec in specs if spec.shows_examples}
    queries = next((spec.queries for spec in first.values()), None)
    if queries is None:
        return
    tested = np.unique(np.concatenate([divide(spec, rows).test for spec in first.values()]))
    for row in set(queries.rows).difference(tested.tolist()):
        raise UsageError(
            f"--queries {row}: this picture is no test item of the first partition: name one of "
            f"those that are, such as {', '.join(map(str, tested[:5]))}, or a class"
        )
    for number in queries.classes:
        if not Queries((), (number,)).among(tested, rows.y[tested]).any():
            raise UsageError(
                f"--queries {shown(rows.class_names[number])}: no test item of the first partition "
                "is of this class: name one of the --classes"
            )


def _truth(y: Labels, training: Labels, tested: Judgements | None, order: Numbers) -> Truth:
    """Return what is known of the test items, which are in another order than the judgements."""
    if tested is None:
        return Truth(y=y, training=training)
    return truth_of(tested.among(order))


def truth_of(judgements: Judgements) -> Truth:
    """Return judgements as what is known of the items that test."""
    if isinstance(judgements, JudgedTriplets):
        return Truth(judged=judgements)
    return Truth(ratings=judgements)
