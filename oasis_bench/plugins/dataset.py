"""The base class of data sets: it loads labelled rows, and describes them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, dataclass_transform

from oasis_bench.data import LabelledRows, Schema
from oasis_bench.plugins.metric_learner import MetricLearner
from oasis_bench.system import Progress, UsageError, no_progress, spelled

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = {
    "rows": ("features=histograms",),
    "pixels": ("pixels=SIZE",),
    "patches": ("patches=gb70+gb42", "features=lab+hog"),
}
"""Options that request a kind of items; a data set has at most one of them."""


class DescribedColumn(NamedTuple):
    """A column of a table, what becomes of it, and its values: numbers or texts, NaN if missing."""

    name: str
    words: str
    values: pd.Series[Any]


class Description(NamedTuple):
    """The first columns of a table, how many it has, and remarks on how its file is read."""

    columns: Sequence[DescribedColumn] = ()
    n_columns: int = 0
    remarks: Sequence[str] = ()

    def lines(self) -> list[str]:
        """Return the description as text; nothing of a data set without columns."""
        if not self.n_columns:
            return []
        width = max(len(column.name) for column in self.columns)
        lines = [", ".join([f"columns: {self.n_columns}", *self.remarks])]
        lines += [f"  {column.name:<{width}}  {column.words}" for column in self.columns]
        more = self.n_columns - len(self.columns)
        return [*lines, f"  ... and {more} more"] if more else lines


class Dataset(ABC):
    """The base class of a data set.

    Define `name`, `summary`, `citation` and `load`.  The parameters of ``__init__`` (int, float,
    str or bool, with defaults) are the options of the data set, which ``--data-option NAME=VALUE``
    sets.

    Class attributes
    ----------------
    name : str
        The name in commands.
    summary : str
        One line for ``data list``.
    citation : str
        The paper, or 'none'.
    licence : str, default 'not stated'
        The licence of the data.
    home : str, default 'not stated'
        How to get the data, in one line.
    scaling : str or tuple of str, default 'l2'
        The default scaling of rows: keys of `oasis_bench.data.Scaling.WORDS`.  Several are tuned
        for each learner.
    items : str, default 'rows'
        The word for the items in reports: a plural noun, such as 'images' or 'documents'.
    class_subsets : mapping of str to tuple of str, default {}
        Named subsets of classes, as in the papers.
    gives : tuple of {'rows', 'pixels', 'patches'}, default ('rows',)
        The kinds of input that the data set has for learners.  If a kind is only made on request,
        the option for it has the name of the kind, such as `pixels`.
    notes : mapping of str to str, default {}
        Notes for the reader of results on a subset, by the name of the subset.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    citation: ClassVar[str]
    licence: ClassVar[str] = "not stated"
    home: ClassVar[str] = "not stated"
    scaling: ClassVar[str | tuple[str, ...]] = "l2"
    items: ClassVar[str] = "rows"
    class_subsets: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    gives: ClassVar[tuple[str, ...]] = ("rows",)
    notes: ClassVar[Mapping[str, str]] = {}

    @property
    def title(self) -> str:
        """The name in reports: `name`, unless an option selects one of several sets."""
        return self.name

    def location(self) -> str | None:
        """Return where the data is on this machine, or None if it is not there yet."""
        return None

    def class_sizes(self) -> Mapping[str, int]:
        """Return the number of items of each class on this machine, without reading them.

        Empty if there are none yet, or if the data must be read to count them.
        """
        return {}

    def description(self) -> Description:
        """Describe the columns for ``data describe``, before the rows are read."""
        return Description()

    def default_scaling(self, rows: LabelledRows) -> str | tuple[str, ...]:
        """Return the scaling of these rows, if an experiment does not set one."""
        return self.scaling

    @abstractmethod
    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the data, and download it first if it is not on disk.

        Parameters
        ----------
        progress : callable, default no_progress
            Called as ``progress(what, done, total)`` during long downloads.

        Returns
        -------
        LabelledRows
            Rows (n_rows, n_features), class numbers (n_rows,), and the names of the classes.

        Raises
        ------
        UsageError
            If the data cannot be read or downloaded; the message says what to do.
        """

    def read_as(self, schema: Schema | None) -> Dataset:
        """Return the data set as a model reads it, by the schema of the table it was fitted on.

        Of use for tables of the user only.
        """
        return self

    def outline(self, progress: Progress = no_progress) -> LabelledRows:
        """Return rows of the sizes and labels of `load`, whose features need not be the true ones.

        A data set whose features take long to compute overrides it.
        """
        return self.load(progress)

    def load_items(
        self,
        kind: str = "rows",
        schema: Schema | None = None,
        name: str | None = None,
        progress: Progress = no_progress,
    ) -> tuple[Any, list[str] | None]:
        """Load items without labels, to rank or to embed them.

        Parameters
        ----------
        kind : str, default 'rows'
            The kind of input of the learner.
        schema : Schema, optional
            How the table of the model was read.
        name : str, optional
            The column of a table with the names of its rows.  The name of a picture is its path.
        progress : callable, default no_progress
            As for `load`.

        Returns
        -------
        items : array, CSR or Patches
            Rows are read by the schema.
        names : list of str or None
            None if the items have no names.
        """
        rows = self.read_as(schema).load(progress)
        try:
            rows = rows.read_as(schema)
        except UsageError as error:
            raise UsageError(f"{self.title}: {error}") from error
        return rows.items(kind), None if rows.images is None else [*map(str, rows.images)]

    @classmethod
    def options(cls) -> dict[str, inspect.Parameter]:
        """Return the parameters of ``__init__`` by name, except ``*args`` and ``**kwargs``."""
        return {
            name: parameter
            for name, parameter in inspect.signature(cls).parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

    @classmethod
    def needed_options(cls) -> list[str]:
        """Name the options that have no default."""
        return [name for name, option in cls.options().items() if option.default is option.empty]

    def load_checked(
        self, progress: Progress = no_progress, in_outline: bool = False
    ) -> LabelledRows:
        """Load the data, or its outline, and check what `load` returns."""
        rows: object = self.outline(progress) if in_outline else self.load(progress)
        if not isinstance(rows, LabelledRows):
            raise UsageError(
                f"data set {self.name}: load returns an object of type {type(rows).__name__}: "
                "return LabelledRows(X, y, class_names) of oasis_bench.data"
            )
        return rows

    def refuse_unless_taken_by(
        self, learner: type[MetricLearner], rows: LabelledRows, features: str | None = None
    ) -> None:
        """Raise UsageError if the items are not of the kind that a learner takes.

        `rows` are what the data set loaded, and `features` are the kinds of features in them that
        the learner takes.
        """
        kind = learner.takes
        if features is not None:
            rows.items(kind, features)
        try:
            rows.items(kind)
        except UsageError as error:
            what = f"{learner.name} takes {kind}, and data set {self.name}"
            options, parts = self.options(), kind.split("+")
            missing = [part for part in parts if getattr(rows, part, None) is None]
            asks = [
                " or ".join(one for one in EXAMPLES[part] if one.partition("=")[0] in options)
                for part in missing
            ]
            if asks and all(asks) and set(parts) <= set(self.gives):
                given = " and ".join(f"{spelled('dataset_options')} {one}" for one in asks)
                raise UsageError(
                    f"{what} makes {' and '.join(missing)} only on request: give {given}"
                ) from error
            raise UsageError(
                f"{what} gives {' and '.join(self.gives)}: choose another learner or data set"
            ) from error


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Fields:
    """Makes the fields of a class the parameters of its `__init__`, in their order.

    A class without a field of its own keeps the `__init__` that a base has, also a written one.
    """

    def __init_subclass__(cls, kw_only: bool = False, **options: Any) -> None:
        super().__init_subclass__(**options)
        if any("ClassVar" not in str(hint) for hint in inspect.get_annotations(cls).values()):
            dataclass(eq=False, repr=False, kw_only=kw_only)(cls)
