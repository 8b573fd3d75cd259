"""The items of a trial as its processes get them: scaled, and in files that cannot be changed."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import JudgedTriplets, Patches, PatchKind, Preparation, Ratings, learn_scaling
from oasis_bench.plugins import MetricLearner
from oasis_bench.system import map_arrays, seal_arrays
from oasis_bench.trial.items import TrialItems

FEW_PER_CLASS, FEW_OF_SEVERAL_LABELS = 8, 100
"""Training items of the warm-up: of each of two classes, or in all."""


class SealedItems:
    """The items of a trial in one scaling, each part in a file of its own when it is asked for.

    Parameters
    ----------
    items : TrialItems
    learner : type
        Decides whether sparse rows are made dense.
    scaling : str or None
        Learned from the training items; None: the items as the data set gives them.
    """

    def __init__(
        self, items: TrialItems, learner: type[MetricLearner], scaling: str | None
    ) -> None:
        self._items = items
        training = items.X[items.train_rows]
        if scaling is None:
            self._prepare: Preparation = lambda rows: rows
        else:
            self._prepare = learn_preparation(learner, scaling, training)
        self._training = self._prepare(training)
        self._descriptors: list[int] = []
        # The files are closed when no trial has the items any more; processes keep theirs.
        weakref.finalize(self, _close_all, self._descriptors)

    @cached_property
    def few(self) -> int:
        """A file of few training items with labels, for a warm-up."""
        y = self._items.y
        if isinstance(y, sparse.csr_array):
            few = np.arange(min(FEW_OF_SEVERAL_LABELS, y.shape[0]))
        else:
            classes = np.unique(y)[:2]
            few = np.concatenate(
                [np.flatnonzero(y == number)[:FEW_PER_CLASS] for number in classes]
            )
        return self._seal(X=self._training[few], y=y[few])

    @cached_property
    def training(self) -> int:
        """A file of the training items with labels."""
        judgements = _judgements_to_arrays(self._items.judgements)
        return self._seal(X=self._training, y=self._items.y, **judgements)

    @cached_property
    def gallery(self) -> int:
        """A file of the training items without labels."""
        return self._seal(X=self._training)

    @cached_property
    def test(self) -> int:
        """A file of the test items."""
        return self._seal(X=self.test_items(np.arange(len(self._items.test_rows))))

    @cached_property
    def sample(self) -> int:
        """A file of the test items that are scored a second time, alone."""
        return self._seal(X=self.test_items(self._items.sample))

    def test_items(self, places: npt.NDArray[np.intp]) -> Any:
        """Return some of the test items, by their places."""
        return self._prepare(self._items.X[self._items.test_rows[places]])

    def _seal(self, **parts: Any) -> int:
        self._descriptors.append(seal_items(**parts))
        return self._descriptors[-1]


Sealed = Callable[[str | None], SealedItems]
"""Gives the items of a trial in a scaling: for the same scaling, the same object."""


def _close_all(descriptors: list[int]) -> None:
    while descriptors:
        os.close(descriptors.pop())


def learn_preparation(learner: type[MetricLearner], scaling: str, X: Any) -> Preparation:
    """Make the function that turns items as the data set gives them into those of a learner.

    Rows are scaled with statistics of `X`, then made dense for a learner that takes no sparse ones;
    pixels and patches stay as they are.
    """
    if learner.takes != "rows":
        return lambda items: items
    scale = learn_scaling(scaling, X)
    if sparse.issparse(X) and not learner.takes_sparse:
        return lambda rows: scale(rows).toarray()
    return scale


def seal_items(**parts: Any) -> int:
    """Write arrays, CSR arrays and patches by name into a sealed file; return its descriptor."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for name, part in parts.items():
        arrays |= _to_arrays(name, part)
    return seal_arrays(arrays)


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
        pixels = {} if part.pixels is None else {f"{name}.pixels": part.pixels}
        return pixels | {
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
    csr = parts.pop("", {})
    if parts:
        kinds = {kind: PatchKind(**patches) for kind, patches in parts.items()}
        return Patches(kinds, csr.get("pixels"))
    return sparse.csr_array((csr["data"], csr["indices"], csr["indptr"]), shape=tuple(csr["shape"]))
