"""The scalings of rows before any learner sees them, learned from training rows only."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse
from sklearn import preprocessing
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from oasis_bench.data.matrices import canonical
from oasis_bench.data.preparing import Prepare
from oasis_bench.data.rows import Rows
from oasis_bench.data.schema import Encoding
from oasis_bench.system import UsageError, unknown_name

UNLIKE = 1000.0
"""Columns whose ranges differ by more are worth a warning."""


def _kind(step: Any) -> tuple[str, Any]:
    """Return the type and the parameters of a transformer, without what it has learned."""
    return type(step).__name__, step.get_params() if hasattr(step, "get_params") else None


class Normalizer(preprocessing.Normalizer):  # type: ignore[misc]
    """scikit-learn's Normalizer, also for sparse rows that list a feature twice."""

    def transform(self, X: Rows, copy: bool | None = None) -> Any:
        """Return the rows divided by their length."""
        return super().transform(canonical(X), copy)


class PrincipalComponents(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The first principal components of the training rows, or as many as there are; dense.

    They keep the matrix W small if there are thousands of features: Wang et al. 2014 take 1000 of a
    kernel PCA.
    """

    def __init__(self, n_components: int = 256) -> None:
        self.n_components = n_components

    def fit(self, X: Rows, y: object = None) -> Self:
        """Find the components of the rows X (n_rows, n_features)."""
        from sklearn.decomposition import PCA  # here: it is slow to import

        self.n_features_in_ = X.shape[1]
        n_components = min(self.n_components, *X.shape)
        solver = {"svd_solver": "randomized", "iterated_power": 2}
        if sparse.issparse(X):
            solver = {"svd_solver": "arpack"}
            n_components = min(self.n_components, min(X.shape) - 1)
        pca = PCA(n_components, random_state=0, **solver).fit(X)
        self.mean_, self.components_ = pca.mean_, np.ascontiguousarray(pca.components_)
        return self

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def transform(self, X: Rows) -> Any:
        """Return the components of rows (n_rows, n_components)."""
        if sparse.issparse(X):
            return X @ self.components_.T - self.mean_ @ self.components_.T
        return (X - self.mean_) @ self.components_.T


class Dense(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Makes sparse rows dense, for a learner that takes no others."""

    def fit(self, X: Rows, y: object = None) -> Self:
        """Note the number of features."""
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Rows) -> Any:
        """Return the rows as an array."""
        return X.toarray() if sparse.issparse(X) else X


class InverseDocumentFrequency(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Weights counts by d_i = -log(r_i), r_i the share of training rows with feature i.

    Features in no training row, or in each one, have no weight and are left out (JMLR 2010,
    section 3).

    Attributes
    ----------
    features_ : ndarray of int
        The numbers of the kept features.
    idf_ : ndarray
        Their weights.
    """

    def fit(self, X: Rows, y: object = None) -> Self:
        """Count the rows with each feature; raise UsageError if no feature has a weight."""
        X = canonical(X)
        self.n_features_in_ = X.shape[1]
        share = np.asarray((X > 0).sum(axis=0)).ravel() / X.shape[0]
        self.features_ = np.flatnonzero((share > 0) & (share < 1))
        if not self.features_.size:
            raise UsageError("tfidf leaves no feature: each is in all rows or in none; use l2")
        self.idf_ = -np.log(share[self.features_]).astype(X.dtype)
        return self

    @property
    def _n_features_out(self) -> int:
        return len(self.features_)

    def transform(self, X: Rows) -> Any:
        """Return the weighted features of the rows."""
        kept = (canonical(X) if sparse.issparse(X) else np.asarray(X))[:, self.features_]
        if sparse.issparse(X):
            return sparse.csr_array(kept @ sparse.diags_array(self.idf_, format="csr"))
        return kept * self.idf_


class Scaling:
    """A scaling of rows, by its name: a key of `WORDS`, which `PCA` and a number may follow.

    Raise UsageError if no scaling has this name.
    """

    WORDS: ClassVar[Mapping[str, str]] = {
        "none": "as they are",
        "l2": "each row divided by its length",
        "center+l2": "minus the mean of the training rows, then each row divided by its length",
        "standard": "each column with mean 0 and standard deviation 1 over the training rows",
        "standard+l2": "as standard, then each row divided by its length",
        "minmax": "each column scaled to 0 to 1 over the training rows",
        "tfidf": "weighted by the idf of training rows, then each row divided by its length",
    }
    """Each scaling in words; `PCA` may follow each, with a number of components."""

    PCA = "+pca"
    """A projection on the first principal components of the training rows: 'standard+pca128'.

    Rows that had unit length are divided by their length again.
    """

    KEEPS_ZEROS = ("none", "l2", "tfidf")
    """Scalings that keep zeros, so that sparse rows stay sparse."""

    OF_COLUMNS = ("standard", "standard+l2", "minmax")
    """Scalings that give all columns the same scale."""

    STEPS: ClassVar[Mapping[str, type[Any]]] = {
        step.__name__: step
        for step in (
            *(StandardScaler, MinMaxScaler, Normalizer),
            *(PrincipalComponents, InverseDocumentFrequency, Dense, Prepare),
        )
    }
    """The transformers that `learn` makes, by name; a model file may have these."""

    def __init__(self, name: str) -> None:
        first, is_projected, number = name.partition(self.PCA)
        is_number = re.fullmatch("[1-9][0-9]{0,4}", number)
        if first not in self.WORDS or (is_projected and not is_number):
            raise UsageError(unknown_name("scaling", name, self.WORDS))
        self.name, self._first = name, first
        self._n_components = int(number) if is_projected else None

    @classmethod
    def of(cls, steps: Sequence[Any]) -> Self | None:
        """Return the scaling that has these transformers, or None.

        scikit-learn's Normalizer equals ours; `Prepare` and `Dense` are ignored.
        """
        kinds = [_kind(step) for step in steps if not isinstance(step, Dense | Prepare)]
        n_components = [
            step.n_components for step in steps if isinstance(step, PrincipalComponents)
        ]
        projected = f"{cls.PCA}{n_components[0]}" if n_components else ""
        known = (cls(f"{name}{projected}") for name in cls.WORDS)
        return next((it for it in known if [*map(_kind, it.steps())] == kinds), None)

    @property
    def words(self) -> str:
        """The scaling in words."""
        if self._n_components is None:
            return self.WORDS[self._first]
        projected = f"the first {self._n_components} principal components of the training rows"
        again = ", each row divided by its length" if self._first.endswith(("l2", "tfidf")) else ""
        return f"{self.WORDS[self._first]}; then {projected}{again}"

    def refuse(self, X: Rows) -> None:
        """Raise UsageError if rows cannot be scaled so."""
        if sparse.issparse(X) and self._first not in self.KEEPS_ZEROS:
            raise UsageError(
                f"scaling {self.name} turns the zeros of sparse rows into other numbers: use "
                f"{' or '.join(self.KEEPS_ZEROS)}"
            )
        values = canonical(X).data if sparse.issparse(X) else np.asarray(X)
        if self._first == "tfidf" and values.min(initial=0) < 0:
            raise UsageError("tfidf weights counts, but some values are negative: use l2 or none")

    def steps(self) -> tuple[Any, ...]:
        """Return the unfitted transformers that scale rows so, in their order."""
        first: tuple[Any, ...] = {
            "none": (),
            "l2": (Normalizer(),),
            "center+l2": (StandardScaler(with_std=False), Normalizer()),
            "standard": (StandardScaler(),),
            "standard+l2": (StandardScaler(), Normalizer()),
            "minmax": (MinMaxScaler(),),
            "tfidf": (InverseDocumentFrequency(), Normalizer()),
        }[self._first]
        if self._n_components is None:
            return first
        last = [Normalizer()] if first and isinstance(first[-1], Normalizer) else []
        return (*first, PrincipalComponents(self._n_components), *last)

    def learn(
        self,
        X: Rows,
        takes_sparse: bool = True,
        encoding: Encoding | None = None,
        saved: Sequence[Any] | None = None,
    ) -> list[Any]:
        """Fit the transformers on training rows, in their order.

        The first is `Prepare` if the rows have an `encoding`.  The last makes sparse rows dense if
        the learner takes only dense ones.  `saved` are the transformers of a model, used unchanged.
        Raise UsageError if the rows cannot be scaled so.  A row of zeros keeps its length; a column
        that does not vary becomes 0.
        """
        last = [] if takes_sparse or not sparse.issparse(X) else [Dense()]
        if saved is not None:
            return [*saved, *last]
        self.refuse(X)
        first = [] if encoding is None else [Prepare(encoding)]
        steps = [*first, *self.steps(), *last]
        for step in steps:
            X = step.fit_transform(X)
        return steps


def apply_steps(steps: Sequence[Any], X: Any) -> Any:
    """Return rows after fitted transformers, in order."""
    return reduce(lambda rows, step: step.transform(rows), steps, X)


def unlike_ranges(X: Rows) -> tuple[float, float] | None:
    """Return the least and the largest range of columns, if they differ by more than `UNLIKE`.

    A range is the largest value minus the least; constant columns do not count.  None for sparse
    rows: no scaling makes their columns alike and keeps them sparse.
    """
    if sparse.issparse(X):
        return None
    least, most = X.min(axis=0), X.max(axis=0)
    ranges = (most - least)[most > least]
    if not ranges.size or ranges.max() <= UNLIKE * ranges.min():
        return None
    return float(ranges.min()), float(ranges.max())
