"""What a data set is to the harness: a class that loads labelled rows, with its facts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from oasis_bench.data import LabelledRows
from oasis_bench.system import Progress, no_progress


class Dataset(ABC):
    """A data set that the registry can find and the command line can name.

    Class attributes
    ----------------
    name : str
        What the user types.
    summary : str
        One line for `list`.
    citation, licence, home : str
        Shown where the data set is described; `home` is how to get it, in one line.
    scaling : str or tuple of str, default 'l2'
        How the harness scales rows, where an experiment does not say: keys of
        `oasis_bench.data.Scaling.WORDS`.  Of several the inner folds choose for each learner.
    items : str, default 'rows'
        What reports call its items: a plural noun, such as 'images' or 'documents'.
    class_subsets : mapping of str to tuple of str
        Named subsets of classes, as the papers give them.
    gives : tuple of {'rows', 'pixels', 'patches'}, default ('rows',)
        What its items can be to a learner.  Where it makes some of them only when asked, the option
        that asks is a parameter of their name, such as `pixels`.
    notes : mapping of str to str
        What a reader of results on a subset must know, by the subset's name.
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
        """What reports call it: its name, unless an option says which of several sets it is."""
        return self.name

    def location(self) -> str | None:
        """Say where the data lies on this machine, or None where it is not there yet."""
        return None

    def class_sizes(self) -> Mapping[str, int]:
        """Count the items of each class that are on this machine, without reading one.

        Empty where there are none yet, and where they cannot be counted without reading them.
        """
        return {}

    def description(self) -> list[str]:
        """Return more lines for 'data describe', before the rows are checked."""
        return []

    def default_scaling(self, rows: LabelledRows) -> str | tuple[str, ...]:
        """Return how these rows are scaled, where an experiment does not say."""
        return self.scaling

    @abstractmethod
    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the data, downloading it first where it is not on disk.

        Parameters
        ----------
        progress : callable, default no_progress
            Called as ``progress(what, done, total)`` during long downloads.

        Raises
        ------
        UsageError
            Where the data cannot be had, with the remedy.
        """

    def load_items(
        self,
        kind: str = "rows",
        columns: Sequence[str] | None = None,
        name: str | None = None,
        progress: Progress = no_progress,
        raw: bool = False,
    ) -> tuple[Any, list[str] | None]:
        """Load items to rank or to embed, without labels, and their names where they have any.

        Parameters
        ----------
        kind : str, default 'rows'
            What the learner takes.
        columns : sequence of str, optional
            The features of a table, in the order in which the learner takes them.
        name : str, optional
            The column of a table that names its rows.  Pictures are named by their paths.
        progress : callable, default no_progress
            As `load` takes it.
        raw : bool, default False
            Whether the model prepares raw values, so that a table may give them as a DataFrame.
        """
        rows = self.load(progress)
        return rows.items(kind), None if rows.images is None else [*map(str, rows.images)]
