"""The items of one trial: drawn and prepared by the harness, handed to its processes sealed.

The learner's process gets the training items with their labels and, after the fit, the test items
without labels, in a random order.  What the harness alone has is the `Truth`.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data.judgements import JudgedTriplets, Judgements, Ratings
from oasis_bench.data.patches import Patches, PatchKind
from oasis_bench.data.rows import LabelledRows, Labels
from oasis_bench.data.scaling import learn_preparation
from oasis_bench.experiment.judged_splits import draw_groups
from oasis_bench.experiment.plan import TrialSpec
from oasis_bench.experiment.seeds import derive_seed
from oasis_bench.experiment.splits import (
    Indices,
    Partition,
    draw_partition,
    draw_share,
    draw_unseen_classes,
)
from oasis_bench.plugins.learner import MetricLearner
from oasis_bench.system.sealed_arrays import map_arrays, seal_arrays
from oasis_bench.tasks.ranking import tie_order
from oasis_bench.tasks.task import Truth
from oasis_bench.tasks.unseen_classes import too_few_classes

FEW_A_CLASS, FEW_OF_SEVERAL_LABELS = 8, 100
"""Training items of the warm-up: of each of two classes, or in all."""

DENSE_BYTES = 2 * 2**30
"""Sparse rows are made dense for a learner that takes no others, up to this size."""

N_SAMPLE = 30
"""Test items that are asked once more alone; half of them, where there are fewer than 60."""


class NotApplicableError(Exception):
    """A learner that cannot learn from a data set of this kind, for a reason known beforehand."""


@dataclass(frozen=True)
class TrialItems:
    """What a trial works on.

    Attributes
    ----------
    train, test : array or CSR
        Prepared items.  The test items are in the order in which the learner sees them.
    y : Labels
        Of the training items.
    judgements : JudgedTriplets, Ratings or None
        What people said of the training items, for the learner.
    test_rows : ndarray of shape (n_test,)
        The test items' row numbers in the data set.
    train_rows : ndarray of shape (n_train,)
        Those of the training items.
    original_order : ndarray of shape (n_test,)
        The place of each test item in the order in which the partition was drawn.
    truth : Truth
    ties : dict of str to ndarray
        For a gallery of 'test' or 'training' items the order within ties.
    n_features : int
        Numbers of an item as the data set gives it.
    sample : ndarray
        Places of the test items that are asked once more alone.
    """

    train: Any
    y: Labels
    judgements: Judgements | None
    test: Any
    test_rows: Indices
    train_rows: Indices
    original_order: Indices
    truth: Truth
    ties: Mapping[str, Indices]
    n_features: int
    sample: Indices
    _descriptors: list[int] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        # The files are closed when no trial has the items any more; processes keep theirs.
        weakref.finalize(self, _close_all, self._descriptors)

    @property
    def training_truth(self) -> Truth:
        """What is known of the training items, in their order."""
        return Truth(y=self.y) if self.judgements is None else truth_of(self.judgements)

    @cached_property
    def sealed_few(self) -> int:
        """A file of few training items with labels, for a warm-up."""
        if isinstance(self.y, sparse.csr_array):
            few = np.arange(min(FEW_OF_SEVERAL_LABELS, self.train.shape[0]))
        else:
            classes = np.unique(self.y)[:2]
            few = np.concatenate(
                [np.flatnonzero(self.y == number)[:FEW_A_CLASS] for number in classes]
            )
        return self._seal(X=self.train[few], y=self.y[few])

    @cached_property
    def sealed_training(self) -> int:
        """A file of the training items with labels."""
        return self._seal(X=self.train, y=self.y, **_judgements_to_arrays(self.judgements))

    @cached_property
    def sealed_gallery(self) -> int:
        """A file of the training items without labels."""
        return self._seal(X=self.train)

    @cached_property
    def sealed_test(self) -> int:
        """A file of the test items."""
        return self._seal(X=self.test)

    @cached_property
    def sealed_sample(self) -> int:
        """A file of the test items that are asked once more alone."""
        return self._seal(X=self.test[self.sample])

    def _seal(self, **parts: Any) -> int:
        self._descriptors.append(seal_items(**parts))
        return self._descriptors[-1]


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def draw_items(spec: TrialSpec, rows: LabelledRows, learner: type[MetricLearner]) -> TrialItems:
    """Draw training and test items of a trial, and prepare them.

    Raises
    ------
    NotApplicableError
        Where the learner does not take such items or labels.
    """
    X = rows.items(learner.takes)
    must_be_dense = sparse.issparse(X) and not learner.takes_sparse
    if rows.multi_label and not learner.takes_relevance:
        raise NotApplicableError(f"{learner.name} takes one label an image, not several")
    n_bytes = spec.n_train * X.shape[1] * X.dtype.itemsize if must_be_dense else 0
    if n_bytes > DENSE_BYTES:
        raise NotApplicableError(
            f"{learner.name} takes dense rows only, and these would be {n_bytes / 2**30:.1f} GiB"
        )
    partition, training, tested = _divide(spec, rows)
    # The learner's process must not be able to find this order: it is made of what that process
    # does not have, the content of the whole data set.  All seeds of 32 bits could be tried.
    whole = (str(spec.identity["data"]), spec.subset, spec.partition, "order")
    rng = np.random.default_rng([derive_seed(*whole, part) for part in range(4)])
    order = rng.permutation(len(partition.test))
    test = partition.test[order]
    X_train, X_test = X[partition.train], X[test]
    if learner.takes == "rows":
        prepare = learn_preparation(spec.normalize, X_train)
        X_train, X_test = prepare(X_train), prepare(X_test)
    if must_be_dense:
        X_train, X_test = X_train.toarray(), X_test.toarray()
    ties = tie_order(spec.seed_for("ties"), len(test))
    return TrialItems(
        train=X_train,
        y=rows.y[partition.train],
        test=X_test,
        test_rows=test,
        train_rows=partition.train,
        original_order=order,
        judgements=training,
        truth=_truth(rows.y[test], rows.y[partition.train], tested, order),
        ties={
            "test": np.argsort(order)[ties].astype(np.intp),
            "training": tie_order(spec.seed_for("ties"), len(partition.train)),
        },
        n_features=n_features(X),
        sample=np.sort(rng.choice(len(test), min(N_SAMPLE, (len(test) + 1) // 2), replace=False)),
    )


def n_features(X: Any) -> int:
    """Return how many numbers an item has; of patches, each descriptor of all kinds together."""
    if isinstance(X, Patches):
        return sum(kind.descriptors.shape[1] for kind in X.kinds.values())
    return int(np.prod(X.shape[1:]))


def seal_items(**parts: Any) -> int:
    """Write arrays, CSR arrays and patches by name into a sealed file; return its descriptor."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, part in parts.items():
        arrays |= _to_arrays(name, part)
    return seal_arrays(arrays)


def _divide(
    spec: TrialSpec, rows: LabelledRows
) -> tuple[Partition, Judgements | None, Judgements | None]:
    """Draw training and test items, and the judgements of each, where the split has any."""
    e, seed = spec.experiment, spec.seed_for("partition")
    judgements = {"judged": rows.judged, "rated": rows.ratings}.get(spec.split)
    if judgements is not None:
        drawn = draw_groups(judgements, rows.y.shape[0], e.test_share, seed)
        return Partition(drawn.train, drawn.test), drawn.training, drawn.tested
    if isinstance(rows.y, sparse.csr_array):
        return draw_share(rows.y.shape[0], spec.n_test, seed), None, None
    if spec.split == "unseen-classes" and (reason := too_few_classes(len(spec.classes))):
        raise NotApplicableError(reason)
    draw = draw_unseen_classes if spec.split == "unseen-classes" else draw_partition
    sizes = e.train_per_class, e.test_per_class
    return draw(rows.y, spec.classes, *sizes, seed), None, None


def _truth(y: Labels, training: Labels, tested: Judgements | None, order: Indices) -> Truth:
    """Return what is known of the test items, which are in another order than the judgements."""
    if tested is None:
        return Truth(y=y, training=training)
    return truth_of(tested.among(order))


def truth_of(judgements: Judgements) -> Truth:
    """Return judgements as what is known of the items that test."""
    if isinstance(judgements, JudgedTriplets):
        return Truth(judged=judgements)
    return Truth(ratings=judgements)


def map_items(descriptor: int) -> dict[str, Any]:
    """Map what `seal_items` wrote, for reading only; return it by name."""
    arrays = map_arrays(descriptor)
    return {name: _of_arrays(name, arrays) for name in {key.partition(".")[0] for key in arrays}}


def _judgements_to_arrays(judged: JudgedTriplets | Ratings | None) -> dict[str, Any]:
    """Return the arrays of judgements, to be sealed with the training items."""
    if judged is None:
        return {}
    name = "judged" if isinstance(judged, JudgedTriplets) else "rated"
    return {f"{name}_{key}": array for key, array in vars(judged).items() if array is not None}


def _to_arrays(name: str, part: Any) -> dict[str, npt.NDArray[Any]]:
    if isinstance(part, sparse.csr_array):
        parts = {"data": part.data, "indices": part.indices, "indptr": part.indptr}
        return {
            **{f"{name}.{key}": array for key, array in parts.items()},
            f"{name}.shape": np.array(part.shape),
        }
    if isinstance(part, Patches):
        return {
            f"{name}.{kind}.{key}": array
            for kind, patches in part.kinds.items()
            for key, array in vars(patches).items()
        }
    return {name: part}


def _of_arrays(name: str, arrays: Mapping[str, npt.NDArray[Any]]) -> Any:
    if name in arrays:
        return arrays[name]
    parts: dict[str, dict[str, npt.NDArray[Any]]] = {}
    for key, array in arrays.items():
        of, _, rest = key.partition(".")
        if of == name:
            kind, _, part = rest.rpartition(".")
            parts.setdefault(kind, {})[part] = array
    if "" not in parts:
        return Patches({kind: PatchKind(**patches) for kind, patches in parts.items()})
    csr = parts[""]
    return sparse.csr_array((csr["data"], csr["indices"], csr["indptr"]), shape=tuple(csr["shape"]))
