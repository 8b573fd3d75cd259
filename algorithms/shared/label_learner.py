"""What learners of L from dense rows and class labels share: checks of input, labels and memory."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets

from oasis_bench.algorithms.shared.hyper_parameters import HyperParameters
from oasis_bench.algorithms.shared.triplet_learner import check_triplets
from oasis_bench.data import without_offset
from oasis_bench.plugins import MahalanobisLearner
from oasis_bench.system import require_memory, shared, sharing


class LabelLearner(HyperParameters, MahalanobisLearner, kw_only=True):
    """A learner of L from rows and class labels.

    A learner gives `_fit` and `_n_numbers`, and says by class attributes what it needs.
    """

    _least_classes: ClassVar[int] = 2
    _least_in_class: ClassVar[int] = 1  # rows of each class
    _least_in_largest: ClassVar[int] = 1  # rows of the largest class
    _matrix_type: ClassVar[type[np.floating] | None] = np.float64  # None: that of the rows
    _remedy: ClassVar[str] = "use fewer rows or features"  # where memory is short

    random_state: Annotated[int | np.random.RandomState | None, "random_state"] = None

    @abstractmethod
    def _fit(self, X: Any, y: Any) -> None:
        """Set `components_` and the other fitted attributes, from rows and labels that passed."""

    @abstractmethod
    def _n_numbers(self, n: int, d: int, c: int) -> int:
        """Estimate how many numbers are held at once for n rows, d features and c classes."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn L from rows `X` (n_rows, n_features) and class labels `y` (n_rows,).

        Warns
        -----
        ConvergenceWarning
            Where a learner with the parameter `max_iter` stopped there, short of `tol`.

        Raises
        ------
        ValueError
            Where a parameter is out of bounds, where classes or their rows are too few, and where
            the rows do not vary in the way that the learner learns from.
        MemoryError
            Where the rows and matrices take more than the memory that is free.
        """
        self._validate_params()
        X, y = self._validated(X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(y)
        self._check(X, y)
        with sharing():
            self._fit(shared(without_offset, X), y)
        return self

    def _validated_pairs(
        self, X: Any, alike: npt.ArrayLike, unlike: npt.ArrayLike
    ) -> tuple[Any, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return rows near zero, and pairs of them, for ``partial_fit_pairs``."""
        self._validate_params()
        X = self._validated(X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        pairs = [check_triplets(part, len(X), 2) for part in (alike, unlike)]
        require_memory(
            8 * self._n_numbers(len(X), X.shape[1], 2),
            f"{self.name} on {len(X)} rows",
            self._remedy,
        )
        return without_offset(X), *pairs

    def _check(self, X: Any, y: Any) -> None:
        classes, counts = np.unique(y, return_counts=True)
        if len(classes) < self._least_classes:
            raise ValueError(
                f"{self.name} needs at least {self._least_classes} classes, "
                f"but y has 1 class ({classes[0]!s})"
            )
        if counts.min() < self._least_in_class:
            raise ValueError(
                f"class {classes[counts.argmin()]!s} has 1 row, but {self.name} needs at least "
                f"{self._least_in_class} rows of each class"
            )
        if counts.max() < self._least_in_largest:
            raise ValueError(
                f"each of the {len(classes)} classes has 1 row, but {self.name} needs a class of "
                f"at least {self._least_in_largest} rows: are these labels, or numbers to predict?"
            )
        n_rows, n_features = X.shape
        number_bytes = np.dtype(self._matrix_type or X.dtype).itemsize
        require_memory(
            number_bytes * self._n_numbers(n_rows, n_features, len(classes)),
            f"{self.name} on {n_rows} rows of {n_features} features",
            self._remedy,
        )


def possible_neighbours(n_neighbors: int, smallest: int, stacklevel: int) -> int:
    """Return how many neighbours of its class each row has, `n_neighbors` at most.

    It warns where they are fewer, as the smallest class has `smallest` rows.
    """
    if smallest <= n_neighbors:
        warnings.warn(
            f"n_neighbors={n_neighbors} is lowered to {smallest - 1}: "
            f"the smallest class has {smallest} rows",
            stacklevel=stacklevel + 1,
        )
    return min(n_neighbors, smallest - 1)
