"""The steps before a scaling: from raw rows to a matrix, and then to rows of finite numbers.

The `Schema` of a table is decided from the whole file, without labels.  `Prepare` learns from
training rows only.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline

from oasis_bench.data.schema import Column, Encoding, Schema, table_of
from oasis_bench.system import UsageError

NO_TEXT = -1.0
"""The code of a missing text, once it is a category."""


class ReadTable(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """The first step of a model that was fitted on a table: it reads raw rows by a schema.

    Parameters
    ----------
    schema : Schema
        The schema of the model's table.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    @property
    def n_features_in_(self) -> int:
        """The number of columns, also of those that are left out."""
        names = self.schema.names
        return self.schema.n_features if names is None else len(names)

    @property
    def feature_names_in_(self) -> npt.NDArray[np.object_]:
        """The names of the columns."""
        if self.schema.names is None:
            raise AttributeError("the features have no names")
        return np.array(self.schema.names, dtype=object)

    @classmethod
    def of_model(cls, model: Any) -> Schema:
        """Return how the table of a model was read: complete numbers if only names are known.

        The schema has no columns if the model was not fitted on a table.
        """
        first = model[0] if isinstance(model, Pipeline) else None
        if isinstance(first, cls):
            return first.schema
        names = getattr(model, "feature_names_in_", None)
        return Schema(None if names is None else tuple(Column(str(name)) for name in names))

    @classmethod
    def taken_from(cls, model: Any) -> Any:
        """Return a model without this step, for rows that are read already."""
        if not (isinstance(model, Pipeline) and isinstance(model[0], cls)):
            return model
        rest = model[1:]
        vars(rest).update({name: it for name, it in vars(model).items() if name.endswith("_")})
        return rest

    def fit(self, X: Any, y: object = None) -> Self:
        """Do nothing: the schema has all facts."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Any) -> Any:
        """Return raw rows as a matrix (see `Schema.rows_of`)."""
        return self.schema.rows_of(X)

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns."""
        return self.feature_names_in_


class Prepare(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Imputes numbers by their median, encodes categories as 0 and 1, leaves out other columns.

    The columns are as scikit-learn's SimpleImputer (median), MissingIndicator and OneHotEncoder
    (min_frequency, 'infrequent_if_exist') make them.  A missing category is a category.

    Parameters
    ----------
    encoding : Encoding
        The kinds of the columns.

    Attributes
    ----------
    medians_ : ndarray of shape (n_features_in_,)
        0 for columns without numbers.
    indicated_ : ndarray of shape (n_features_in_,), bool
        Whether a column has an indicator of missing numbers.
    frequent_ : list of ndarray
        The codes of each category column, in their order, that have a column of their own.
    joined_ : ndarray of shape (n_features_in_,), bool
        Whether a column has an indicator of categories that are rare or not seen in training.
    """

    MUCH_MISSING, RARE, LEAST_ROWS = 0.05, 0.01, 2
    """A column with at least the first share of its values missing gets an indicator.  A category
    is rare with less than the second share of the training rows, or fewer rows than the third."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn from training rows, a matrix in this encoding."""
        X = self._coded(X)
        kinds = [column[0] for column in self.encoding]
        is_number = np.isin(kinds, ("number", "date"))
        missing, least = np.isnan(X), max(Prepare.LEAST_ROWS, Prepare.RARE * len(X))
        self.n_features_in_ = X.shape[1]
        self.medians_ = np.zeros(X.shape[1], dtype=X.dtype)
        known = is_number & ~missing.all(axis=0)
        if known.any():  # without columns the median would warn
            self.medians_[known] = np.nanmedian(X[:, known], axis=0)
        self.indicated_ = is_number & (missing.mean(axis=0) >= Prepare.MUCH_MISSING)
        self.joined_ = np.zeros(X.shape[1], dtype=bool)
        self.frequent_ = []
        for i in self._of_kind("category"):
            codes, counts = np.unique(_with_missing(X[:, i]), return_counts=True)
            self.frequent_.append(codes[counts >= least])
            self.joined_[i] = (counts < least).any()
        return self

    @property
    def _n_features_out(self) -> int:
        n_more = self.indicated_.sum() + self.joined_[self._of_kind("category")].sum()
        return len(self._of_kind("number", "date")) + sum(map(len, self.frequent_)) + int(n_more)

    def refuse_broken(self) -> None:
        """Raise UsageError for an `encoding` or `frequent_` that no `fit` leaves."""
        n_known = len(self._of_kind("number", "date", "category", *Column.LEFT_OUT))
        texts = [column[1:] for column in self.encoding if column[0] == "category"]
        if not n_known == len(self.encoding) == self.n_features_in_ or not all(
            len(set(known)) == len(known) and all(isinstance(text, str) for text in known)
            for known in texts
        ):
            raise UsageError(f"encoding is not of {self.n_features_in_} columns of known kinds")
        if len(self.frequent_) != len(texts) or not all(
            codes.ndim == 1 and ((codes >= NO_TEXT) & (codes < len(known))).all()
            for codes, known in zip(self.frequent_, texts, strict=True)
        ):
            raise UsageError("frequent_ is not an array of codes for each column of categories")

    def transform(self, X: Any) -> Any:
        """Return rows of finite numbers: numbers, indicators of missing ones, categories."""
        X = self._coded(X)
        numbers = self._of_kind("number", "date")
        parts = [
            np.where(np.isnan(X[:, numbers]), self.medians_[numbers], X[:, numbers]),
            np.isnan(X[:, self.indicated_]),
        ]
        for i, frequent in zip(self._of_kind("category"), self.frequent_, strict=True):
            is_one = _with_missing(X[:, i])[:, None] == frequent
            parts += [is_one, ~is_one.any(axis=1, keepdims=True)][: 1 + self.joined_[i]]
        return np.hstack(parts).astype(X.dtype)

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Return a name for each number: of a column, of an indicator, or of a category.

        Columns are called x0, x1 and so on if `input_features` does not name them.
        """
        given = input_features
        names = [f"x{i}" for i in range(self.n_features_in_)] if given is None else [*given]
        found = [names[i] for i in self._of_kind("number", "date")]
        found += [f"{names[i]}_missing" for i in np.flatnonzero(self.indicated_)]
        for i, frequent in zip(self._of_kind("category"), self.frequent_, strict=True):
            texts = [*self.encoding[i][1:], "missing"]  # whose code is -1, the last
            found += [f"{names[i]}_{texts[int(code)]}" for code in frequent]
            found += [f"{names[i]}_rare"] * bool(self.joined_[i])
        return np.array(found, dtype=object)

    def _of_kind(self, *kinds: str) -> list[int]:
        return [i for i, column in enumerate(self.encoding) if column[0] in kinds]

    def _coded(self, X: Any) -> Any:
        X = np.asarray(table_of(X))
        if X.ndim != 2 or X.shape[1] != len(self.encoding):
            raise UsageError(
                f"rows of shape {X.shape}: it was learned from {len(self.encoding)} columns"
            )
        try:
            return X if X.dtype.kind == "f" else X.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise UsageError(f"rows of numbers are needed: {error}") from error


def _with_missing(codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.where(np.isnan(codes), NO_TEXT, codes)
