"""Base classes of learners: hyper-parameters from fields, learners from triplets and from labels.

Each checks its rows, labels and memory, and a learner gives it what is its own.
"""

from __future__ import annotations

import inspect
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field, fields
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args, get_origin

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length

from oasis_bench.data import FloatArray, Patches, check_magnitude, checked_labels, without_offset
from oasis_bench.plugins import (
    Fields,
    FittedArray,
    IncrementalLearner,
    MahalanobisLearner,
    MetricLearner,
)
from oasis_bench.sampling import ClassTripletSampler, RelevanceTripletSampler, seed_state
from oasis_bench.system import Progress, UsageError, no_progress, require_memory, shared, slices

# The kinds of hyper-parameters: whole numbers of 1 or more, and of 0 or more; numbers above 0, and
# from 0 on.
Count = Annotated[int, Interval(Integral, 1, None, closed="left")]
Whole = Annotated[int, Interval(Integral, 0, None, closed="left")]
Positive = Annotated[float, Interval(Real, 0, None, closed="neither")]
FromZero = Annotated[float, Interval(Real, 0, None, closed="left")]


class HyperParameters(Fields, kw_only=True):
    """Makes the fields of a learner its hyper-parameters, which `__init__` takes in their order.

    scikit-learn checks them by their types: ``Annotated[int, Interval(...)]`` bounds a number.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"random_state": ["random_state"]}

    random_state: int | np.random.RandomState | None = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        made: Any = cls
        of_bases = [vars(base).get("_parameter_constraints", {}) for base in reversed(cls.__mro__)]
        own = [f.name for f in fields(made) if f.name in inspect.get_annotations(cls)]
        if own and all(isinstance(known, dict) for known in of_bases):  # else a property
            hints = inspect.get_annotations(cls, eval_str=True)
            constraints = {name: _constraints(hints[name]) for name in own}
            of_bases.append({name: known for name, known in constraints.items() if any(known)})
            cls._parameter_constraints = {k: v for known in of_bases for k, v in known.items()}

    def _new_seed(self) -> int:
        """Draw a seed by the parameter `random_state`."""
        return int(check_random_state(self.random_state).randint(2**31))


def _constraints(hint: Any) -> list[Any]:
    """Return what scikit-learn may take for a hyper-parameter of this type; [None] says nothing."""
    found = list(getattr(hint, "__metadata__", ()))
    plain = hint.__origin__ if found else hint
    for kind in [plain] if get_origin(plain) is Literal else get_args(plain) or [plain]:
        found += getattr(kind, "__metadata__", ())
        if get_origin(kind) is Literal:
            found.append(StrOptions(set(get_args(kind))))
        elif kind is bool:
            found.append("boolean")
        elif kind is str:
            found.append(str)
        elif kind is type(None):
            found.append(None)
    return found


TripletSampler: TypeAlias = ClassTripletSampler | RelevanceTripletSampler

TORCH = ("torch", "torch._dynamo")
"""What learners of torch name as their imports: optimizers import the latter when first made."""

TRIPLETS_PER_DRAW = 65_536
"""Triplets drawn at once: several blocks, so that few passes over W end without a next block."""

CACHE_LINE = 64
"""Bytes."""


class TripletLearner(HyperParameters, IncrementalLearner, kw_only=True):
    """A learner from triplets, by steps on a matrix that starts as I.

    A subclass defines `_step`.  Where its model is not the matrix that the steps change, it names
    that matrix in `_learned` and derives the model in `_finish`.

    Attributes
    ----------
    n_steps_ : int
        Steps done since `fit` began.
    n_updates_ : int
        Steps among them whose loss was positive, so that the matrix changed.
    """

    rotation_invariant: ClassVar = True
    takes_sparse: ClassVar = True
    takes_relevance: ClassVar = True
    with_transform: ClassVar = "PsdOASIS or CosineOASIS, its positive variants"
    takes_triplets: ClassVar = True

    _learned: ClassVar[str] = "bilinear_matrix_"
    _matrix_type: ClassVar[type[np.floating] | None] = None  # that of the rows
    _fitted_arrays: ClassVar = {
        "_sampler_state": FittedArray((4,), np.uint64, nonzero=True),
        "n_steps_": FittedArray((), np.integer),
        "n_updates_": FittedArray((), np.integer),
    }
    _sampler_state: npt.NDArray[np.uint64] = field(init=False)

    n_steps: Whole = 30_000
    weighted_positives: bool = False
    negatives: Literal["exact", "any"] = "exact"
    threshold: FromZero = 0.0
    n_steps_: int = field(init=False)
    n_updates_: int = field(init=False)

    @abstractmethod
    def _step(self, X: Any, triplets: npt.NDArray[np.intp], W: FloatArray) -> int:
        """Change `W` in place by the triplets in their order; count the updates."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from scratch with `n_steps` triplets.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
            Finite; rows of about unit length suit the margin of 1.
        y : array of shape (n_rows,), or sparse matrix of shape (n_rows, n_labels)
            Class labels: at least two classes, one of at least two rows.  Or how relevant each
            row is to each of several labels: rows that share one are relevant to each other.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If a parameter, the rows or the labels are not of this kind; the learner is then
            what it was before.
        MemoryError
            If its matrices of n_features^2 numbers take more than the memory that is free;
            the learner is then what it was before.
        """
        return self._learn(X, y, self.n_steps, afresh=True)

    def partial_fit(
        self,
        X: Any,
        y: Any,
        n_steps: int | None = None,
        progress: Progress = no_progress,
    ) -> Self:
        """Continue learning with `n_steps` more triplets (default: the parameter `n_steps`).

        Two calls with a and b steps on the same rows give the same W as one call with a + b steps,
        up to rounding.  Errors are those of `fit`.  `progress` is called now and then as
        ``progress('learning', done, n_steps)``.
        """
        n_steps = self.n_steps if n_steps is None else n_steps
        check_scalar(n_steps, "n_steps", Integral, min_val=0)
        afresh = not hasattr(self, self._learned)
        return self._learn(X, y, int(n_steps), afresh, progress)

    def partial_fit_triplets(self, X: Any, triplets: npt.ArrayLike) -> Self:
        """Learn from given triplets, in their order.

        Parameters
        ----------
        X : array or CSR of shape (n_rows, n_features)
        triplets : array of shape (n_triplets, 3), integers
            Row numbers of `X`: query, positive, negative.

        Raises
        ------
        ValueError
            If the triplets are not row numbers of `X`; nothing is learned then.
        MemoryError
            As in `fit`.
        """
        self._validate_params()
        afresh = not hasattr(self, self._learned)
        with self._unchanged_on_error():
            X = self._validate_rows(X, afresh)
            triplets = check_triplets(triplets, X.shape[0])
            self._check_memory(X, afresh)
            if afresh:
                self._start(X)
                self._sampler_state = self._seeded()
        self._apply(X, triplets)
        self._finish(X)
        return self

    def _learn(
        self, X: Any, y: Any, n_steps: int, afresh: bool, progress: Progress = no_progress
    ) -> Self:
        self._validate_params()
        with self._unchanged_on_error():
            X, y = self._validate_rows(X, afresh, y)
            self._check_memory(X, afresh)
            state = self._seeded() if afresh else self._sampler_state
            sampler = self._sampler(y, state)
            if afresh:
                self._start(X)
                self._sampler_state = state
        self._run(X, sampler, n_steps, progress)
        self._finish(X)
        return self

    def _run(self, X: Any, sampler: TripletSampler, n_steps: int, progress: Progress) -> None:
        for part in slices(n_steps, TRIPLETS_PER_DRAW):
            self._apply(X, sampler.draw(part.stop - part.start))
            progress("learning", part.stop, n_steps)

    def _start(self, X: Any) -> None:
        setattr(self, self._learned, _aligned_identity(X.shape[1], X.dtype))
        self.n_steps_ = self.n_updates_ = 0

    def _apply(self, X: Any, triplets: npt.NDArray[np.intp]) -> None:
        self.n_updates_ += self._step(X, triplets, getattr(self, self._learned))
        self.n_steps_ += len(triplets)

    def _check(self, X: Any, y: Any) -> None:
        """Raise a ValueError where these labels give no triplet."""
        self._sampler(y, seed_state(0))

    def _finish(self, X: Any = None) -> None:
        """Set the public attributes that derive from the learned matrix, where there are any.

        `X` are the rows of the last steps, where they are here.
        """

    def _sampler(self, y: Any, state: npt.NDArray[np.uint64]) -> TripletSampler:
        if not sparse.issparse(y):
            return ClassTripletSampler(y, state)
        return RelevanceTripletSampler(
            y, state, self.weighted_positives, self.negatives, float(self.threshold)
        )

    def _seeded(self) -> npt.NDArray[np.uint64]:
        """Return the state in which a sampler starts."""
        return seed_state(self._new_seed())

    def _validate_rows(self, X: Any, afresh: bool, y: Any = "no_validation") -> Any:
        if sparse.issparse(y):  # the sampler checks its values
            check_consistent_length(X, y)
            return TripletLearner._validate_rows(self, X, afresh), checked_labels(y)
        dtype = [np.float64, np.float32] if afresh else self._precision()
        validated = self._validated(
            X,
            y,
            reset=afresh,
            accept_sparse="csr" if self.takes_sparse else False,
            dtype=dtype,
            order="C",
            ensure_min_samples=2,
        )
        if not afresh:  # rows in the precision of those that it goes on from
            check_magnitude(validated[0] if isinstance(validated, tuple) else validated)
        if isinstance(validated, tuple):
            check_classification_targets(validated[1])
        return validated

    @contextmanager
    def _unchanged_on_error(self) -> Iterator[None]:
        """Put the attributes back where input is refused: scikit-learn sets some of them early."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_memory(self, X: Any, afresh: bool) -> None:
        n, d = self._n_matrices(afresh), X.shape[1]
        dtype = np.dtype(self._matrix_type or X.dtype)
        lighter = ", float32 rows" if X.dtype == np.float64 and not self._matrix_type else ""
        require_memory(
            n * d**2 * dtype.itemsize,
            f"{self.name}, with {n} {'matrix' if n == 1 else 'matrices'} of {d} x {d} {dtype},",
            f"use fewer features (fewer visterms, feature selection){lighter} or a machine "
            "with more memory",
        )

    def _n_matrices(self, afresh: bool) -> int:
        """Count the (d, d) matrices that a call holds at once, beyond those of earlier calls."""
        return int(afresh)

    def _fitted_state(self) -> dict[str, FittedArray]:
        learned = FittedArray(("n_features", "n_features"))
        return {self._learned: learned, **super()._fitted_state()}

    def _precision(self) -> npt.DTypeLike:
        """Return the type of the rows that learning goes on with."""
        dtype: npt.DTypeLike = getattr(self, self._learned).dtype
        return dtype


def _aligned_identity(d: int, dtype: npt.DTypeLike) -> FloatArray:
    """Return I (d, d) that begins at a cache line: steps on dense rows take a tenth less time."""
    n_bytes = d**2 * np.dtype(dtype).itemsize
    memory = np.zeros(n_bytes + CACHE_LINE, dtype=np.uint8)
    start = -memory.ctypes.data % CACHE_LINE
    identity: FloatArray = memory[start : start + n_bytes].view(dtype).reshape(d, d)
    np.fill_diagonal(identity, 1)
    return identity


def check_triplets(triplets: npt.ArrayLike, n_items: int, width: int = 3) -> npt.NDArray[np.intp]:
    """Return triplets of item numbers (n_triplets, 3), or pairs (n_pairs, 2), checked."""
    array, what = np.asarray(triplets), "triplets" if width == 3 else "pairs"
    if array.ndim != 2 or array.shape[1] != width:
        raise UsageError(f"{what} of shape {array.shape}: (n_{what}, {width}) is needed")
    if not np.issubdtype(array.dtype, np.integer):
        raise UsageError(f"{what} of type {array.dtype}: item numbers must be integers")
    if array.size and (array.min() < 0 or array.max() >= n_items):
        raise UsageError(
            f"{what} name items {array.min()} to {array.max()}, but X has items 0 to {n_items - 1}"
        )
    return np.ascontiguousarray(array, dtype=np.intp)


class LearnerOfKinds(HyperParameters, kw_only=True):
    """A learner that uses the mean descriptor of each chosen kind of `Patches`.

    Its subclasses describe `kinds_` and `widths_`, the names and numbers of features of the kinds.
    """

    takes: ClassVar = "patches"

    _fitted_arrays: ClassVar = {
        "kinds_": FittedArray(("n_kinds",), np.object_),
        "widths_": FittedArray(("n_kinds",), np.integer),
    }
    kinds_: npt.NDArray[np.object_] = field(init=False)
    widths_: npt.NDArray[np.int64] = field(init=False)

    kinds: str | None = None

    def _choose(self, X: Patches) -> None:
        chosen = X.of_kinds(self.kinds).kinds
        self.kinds_ = np.array(list(chosen), dtype=object)
        widths = [kind.descriptors.shape[1] for kind in chosen.values()]
        self.widths_ = np.array(widths, np.int64)

    def _means(self, X: Patches) -> list[FloatArray]:
        """Return the mean descriptors of the kinds that it has learned of, checked."""
        chosen = X.of_kinds("+".join(self.kinds_))
        for (name, kind), width in zip(chosen.kinds.items(), self.widths_, strict=True):
            if kind.descriptors.shape[1] != width:
                raise UsageError(
                    f"features of kind {name} have {kind.descriptors.shape[1]} numbers: {width} "
                    "are needed, as in training"
                )
        return [kind.means() for kind in chosen.kinds.values()]


class SupervisedLearner(HyperParameters, MetricLearner, kw_only=True):
    """A learner from rows and class labels.

    A learner gives `_fit` and `_n_numbers`, and says by class attributes what it needs.
    """

    _least_classes: ClassVar[int] = 2
    _least_in_class: ClassVar[int] = 1  # classes of fewer rows are left out, with a warning
    _least_in_largest: ClassVar[int] = 1  # rows of the largest class
    _learns_within: ClassVar[bool] = False  # whether rows of a class have to differ
    _remedy: ClassVar[str] = "use fewer rows or features"  # where memory is short

    @abstractmethod
    def _fit(self, X: Any, y: Any) -> None:
        """Set the fitted attributes, from rows and labels that passed."""

    @abstractmethod
    def _n_numbers(self, n: int, d: int, c: int) -> int:
        """Estimate how many numbers are held at once for n rows, d features and c classes."""

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from rows `X` (n_rows, n_features) and class labels `y` (n_rows,).

        Warns
        -----
        ConvergenceWarning
            If a learner with the parameter `max_iter` stopped there, short of `tol`.
        UserWarning
            If classes are left out that have fewer rows than the learner needs of each class.

        Raises
        ------
        ValueError
            If a parameter is out of bounds, if there are too few classes or rows, or if the rows
            do not vary in the way that the learner learns from.
        MemoryError
            If the rows and matrices take more than the memory that is free.
        """
        self._validate_params()
        X, y = self._validated(X, y, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_classification_targets(y)
        if self._least_in_class > 1:
            X, y = self._without_small_classes(X, y)
        self._check(X, y)
        with shared.within():
            self._fit(shared(without_offset, X) if self._shift_invariant else X, y)
        return self

    def _without_small_classes(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return the rows of classes that have enough of them, and their labels."""
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        is_small = counts < self._least_in_class
        if not is_small.any() or is_small.all():  # `_check` refuses the latter
            return X, y
        warnings.warn(
            f"{self.name} leaves out {is_small.sum()} of {len(classes)} classes, as "
            f"{classes[is_small][0]!s}: it needs {self._least_in_class} rows of each class",
            stacklevel=3,
        )
        kept = ~is_small[codes]
        return X[kept], y[kept]

    def _check(self, X: Any, y: Any) -> None:
        classes, counts = np.unique(y, return_counts=True)
        if len(classes) < self._least_classes:
            raise ValueError(
                f"{self.name} needs at least {self._least_classes} classes, "
                f"but y has 1 class ({classes[0]!s})"
            )
        least = max(self._least_in_largest, self._least_in_class)
        if counts.max() < least:
            raise ValueError(
                f"each of the {len(classes)} classes has 1 row, but {self.name} needs a class of "
                f"at least {least} rows: are these labels, or numbers to predict?"
            )
        n_rows, n_features = X.shape
        require_memory(
            8 * self._n_numbers(n_rows, n_features, len(classes)),
            f"{self.name} on {n_rows} rows of {n_features} features",
            self._remedy,
        )
        if self._learns_within and all((X[y == c] == X[y == c][0]).all() for c in classes):
            raise ValueError(
                "the rows of each class are equal: the covariance within classes has rank 0, and "
                f"{self.name} learns from how a class varies"
            )


class LabelLearner(SupervisedLearner, MahalanobisLearner):
    """A learner of the distance |Lx - Ly| from rows and class labels, or from pairs of rows."""

    def _validated_pairs(
        self, X: Any, alike: npt.ArrayLike, unlike: npt.ArrayLike
    ) -> tuple[Any, npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return rows near zero, and pairs of them, for ``partial_fit_pairs``."""
        self._validate_params()
        X = self._validated(X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        pairs = [check_triplets(part, len(X), 2) for part in (alike, unlike)]
        n_pairs, n_features = sum(map(len, pairs)), X.shape[1]
        n_numbers = self._n_numbers(len(X), n_features, 2) + 3 * n_pairs * n_features
        require_memory(
            8 * n_numbers, f"{self.name} on {len(X)} rows and {n_pairs} pairs", self._remedy
        )
        return without_offset(X), *pairs


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
