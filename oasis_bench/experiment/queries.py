"""Which test items may be the examples of a report: those that the setting `queries` names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import LabelledRows, Labels
from oasis_bench.experiment.settings import Experiment
from oasis_bench.system import UsageError, unknown_name


@dataclass(frozen=True)
class Queries:
    """What `--queries` names.

    Attributes
    ----------
    rows : tuple of int
        Row numbers of the data set.
    classes : tuple of int
        Class numbers; with several labels an item, those of words.
    """

    rows: tuple[int, ...]
    classes: tuple[int, ...]

    def among(self, rows: npt.NDArray[np.intp], y: Labels) -> npt.NDArray[np.bool_]:
        """Tell which of the items with these row numbers and labels it names."""
        if isinstance(y, sparse.csr_array):
            of_class = np.asarray(y[:, list(self.classes)].sum(axis=1)).ravel() > 0
        else:
            of_class = np.isin(y, self.classes)
        return np.asarray(of_class | np.isin(rows, self.rows))


def find_queries(e: Experiment, rows: LabelledRows) -> Queries | None:
    """Return what an experiment's `queries` name; None where it has none.

    What is the name of a class is this class; any other whole number is a row.

    Raises
    ------
    UsageError
        Where there are no pictures to show, or no such class or row.
    """
    if e.queries is None:
        return None
    if rows.images is None:
        raise UsageError(
            f"--queries chooses pictures, and {e.dataset} has none: leave the option out"
        )
    numbers = {name: number for number, name in enumerate(rows.class_names)}
    found: dict[str, Any] = {"rows": (), "classes": ()}
    for text in e.queries:
        if text in numbers:
            found["classes"] += (numbers[text],)
        elif text.isdecimal() and int(text) < rows.y.shape[0]:
            found["rows"] += (int(text),)
        elif text.isdecimal():
            raise UsageError(
                f"--queries {text}: rows of {e.dataset} are 0 to {rows.y.shape[0] - 1}"
            )
        else:
            raise UsageError(unknown_name("class", text, rows.class_names))
    return Queries(**found)
