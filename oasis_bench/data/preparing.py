"""Tables with missing values, categories and dates as matrices of numbers, and back.

What a column is (`Encoding`) is decided from the file as a whole, without labels.  What `Prepare`
makes of it is learned from training rows only.
"""

from __future__ import annotations

from collections.abc import Sequence
from reprlib import repr as shown
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline

from oasis_bench.data.fitted import FittedArray
from oasis_bench.system import UsageError

if TYPE_CHECKING:  # pandas is imported where it is used: a trial does without
    import pandas as pd

Encoding: TypeAlias = tuple[tuple[str, ...], ...]
"""The kind of each column, and the texts that its codes stand for where it held text.

A matrix in this encoding holds NaN where a value is missing, codes for texts, days for dates."""

NO_TEXT = -1.0
"""The code of a missing text, once it is a category."""

DAY = np.timedelta64(86_400_000_000_000, "ns")


class Prepare(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Imputes numbers by their median, makes columns of 0 and 1 of categories, leaves others out.

    The columns are as scikit-learn's SimpleImputer (median), MissingIndicator and OneHotEncoder
    (min_frequency, 'infrequent_if_exist') make them.  A missing category is a category.

    Parameters
    ----------
    encoding : Encoding
        What the columns are; texts of columns that are left out need not be there.

    Attributes
    ----------
    medians_ : ndarray of shape (n_features_in_,)
        0 for what is no number.
    indicated_ : ndarray of shape (n_features_in_,), bool
        Whether a column of 0 and 1 says where a number is missing.
    frequent_ : list of ndarray
        The codes of each category column, in their order, that have a column of their own.
    joined_ : ndarray of shape (n_features_in_,), bool
        Whether a column stands for the rare categories, and for those not seen in training.
    """

    LEFT_OUT = ("constant", "id")
    """Kinds of columns that tell nothing about new rows."""

    MUCH_MISSING, RARE, LEAST_ROWS = 0.05, 0.01, 2
    """A column with at least the first share of its values missing gets an indicator.  A category
    is rare with less than the second share of the training rows, or fewer rows than the third."""

    _fitted_arrays: ClassVar = {
        "medians_": FittedArray(("n_features",)),
        "indicated_": FittedArray(("n_features",), np.bool_),
        "joined_": FittedArray(("n_features",), np.bool_),
    }

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding

    @classmethod
    def of_model(cls, model: Any) -> Self | None:
        """Return the step of a loaded model that prepares raw values of a table, if it has one."""
        first = model[0] if isinstance(model, Pipeline) else None
        return first if isinstance(first, cls) else None

    def fit(self, X: Any, y: object = None) -> Self:
        """Learn from training rows: a matrix in this encoding, or a DataFrame of raw values."""
        X = self._coded(X)
        kinds = [column[0] for column in self.encoding]
        is_number = np.isin(kinds, ("number", "date"))
        missing, least = np.isnan(X), max(Prepare.LEAST_ROWS, Prepare.RARE * len(X))
        self.n_features_in_ = X.shape[1]
        self.medians_ = np.zeros(X.shape[1], dtype=X.dtype)
        known = is_number & ~missing.all(axis=0)
        if known.any():  # of no column the median would warn
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
        """Raise UsageError for a state that no `fit` leaves, besides what `_fitted_arrays` says."""
        n_known = len(self._of_kind("number", "date", "category", *Prepare.LEFT_OUT))
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

    def needed(self, names: Sequence[str]) -> list[str]:
        """Return the names of the columns that are not left out."""
        columns = zip(names, self.encoding, strict=True)
        return [name for name, (kind, *_) in columns if kind not in Prepare.LEFT_OUT]

    def _of_kind(self, *kinds: str) -> list[int]:
        return [i for i, column in enumerate(self.encoding) if column[0] in kinds]

    def _coded(self, X: Any) -> Any:
        if X.shape[1] != len(self.encoding):
            raise UsageError(
                f"rows of {X.shape[1]} columns, and the preparation was learned from "
                f"{len(self.encoding)}: give rows of the same columns"
            )
        return Prepare.encode(X, self.encoding) if hasattr(X, "columns") else np.asarray(X)

    @staticmethod
    def in_full(X: Any, encoding: Encoding | None) -> Any:
        """Return the rows, prepared with statistics of all of them if they have an encoding."""
        return X if encoding is None else Prepare(encoding).fit_transform(X)

    @staticmethod
    def without_texts(encoding: Encoding | None) -> Encoding | None:
        """Return what `Prepare` needs of an encoding: no texts of columns that are left out."""
        if encoding is None:
            return None
        return tuple(column[:1] if column[0] in Prepare.LEFT_OUT else column for column in encoding)

    @staticmethod
    def without_left_out(X: Any, encoding: Encoding | None) -> Any:
        """Return rows with 0 in columns left out, as `encode` gives them: for their hashes."""
        if encoding is None:
            return X
        return np.where([column[0] in Prepare.LEFT_OUT for column in encoding], 0, X)

    @staticmethod
    def frame_of(X: Any, names: Sequence[str], encoding: Encoding | None) -> pd.DataFrame:
        """Return rows with texts in place of codes, missing ones as None, by names of columns."""
        import pandas as pd

        columns = []
        for i, (_, *texts) in enumerate(encoding or (("number",),) * len(names)):
            values = X[:, i]
            if texts:
                known = np.array([*texts, None], dtype=object)
                values = known[np.where(np.isnan(values), len(texts), values).astype(np.int64)]
            columns.append(pd.Series(values))
        frame = pd.concat(columns, axis=1)
        frame.columns = pd.Index(names)
        return frame

    @staticmethod
    def encode(frame: pd.DataFrame, encoding: Encoding) -> npt.NDArray[np.float64]:
        """Return raw values as a matrix in an encoding that is known; columns are in its order.

        A text that the encoding does not know gets the first code that stands for none.

        Raises
        ------
        UsageError
            Where a column of numbers or dates holds something else.
        """
        X = np.zeros(frame.shape)
        for i, (kind, *texts) in enumerate(encoding):
            column = frame.iloc[:, i]
            try:
                if kind == "category":
                    code = {text: number for number, text in enumerate(texts)}
                    X[:, i] = [
                        np.nan if gone else code.get(_text_of(value), len(texts))
                        for value, gone in zip(column, column.isna(), strict=True)
                    ]
                elif kind not in Prepare.LEFT_OUT:
                    is_days = kind == "date" and column.dtype.kind not in "iufb"
                    X[:, i] = Prepare.days_of(column) if is_days else column.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise UsageError(
                    f"column {shown(frame.columns[i])} was a {kind} where the model was fitted, "
                    f"and holds something else ({error}): give it as it was"
                ) from error
        return X

    @staticmethod
    def days_of(column: pd.Series[Any]) -> npt.NDArray[np.float64]:
        """Return dates, or ISO 8601 texts, as days since 1970, NaN where missing."""
        import pandas as pd

        dates = pd.to_datetime(column.astype(object), format="ISO8601", utc=True)
        values = dates.dt.tz_convert(None).to_numpy(dtype="datetime64[ns]")
        return np.where(np.isnat(values), np.nan, (values - np.datetime64(0, "ns")) / DAY)


def _with_missing(codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.where(np.isnan(codes), NO_TEXT, codes)


def _text_of(value: Any) -> str:
    """Return a cell as text: a column of 1 and 2 may be text in one file and numbers in another."""
    is_whole = isinstance(value, float | np.floating) and float(value).is_integer()
    return str(int(value) if is_whole else value).strip()
