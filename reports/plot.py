"""A matplotlib figure of panels that keeps the numbers drawn in it, with margins in inches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

COLUMNS = ["panel", "quantity", "series", "x", "value", "low", "high"]
TITLE, PANEL_TITLE, LEGEND_ROW = 0.55, 0.3, 0.22
"""Heights in inches."""


class Plot(Figure):
    """A figure of panels, laid out by margins: constrained layout takes half of the time to draw.

    Parameters
    ----------
    n_panels, a_row : int
        Panels, and how many of them stand in a row.
    panel : tuple of two float
        Width and height of a panel, in inches.
    quantity : str
        What the y axis of all panels shows; '' where each has a label of its own.
    left, bottom : float
        Room for the labels of an axis, in inches.
    share : bool
        Whether panels share the y axis, and only the first of a row has its labels.
    """

    def __init__(
        self,
        n_panels: int,
        a_row: int,
        panel: tuple[float, float],
        quantity: str = "",
        left: float = 0.75,
        bottom: float = 0.55,
        share: bool = False,
    ) -> None:
        columns = min(a_row, n_panels)
        rows = -(-n_panels // columns)
        self._across = 0.2 if share else left
        self._left, self._bottom = left, bottom
        self._down = bottom + PANEL_TITLE
        self._legend_rows = 0
        self.quantity, self.names = quantity, list[str]()
        self._drawn: list[tuple[object, ...]] = []
        width = left + columns * panel[0] + (columns - 1) * self._across + 0.2
        height = TITLE + PANEL_TITLE + rows * panel[1] + (rows - 1) * self._down + bottom
        layout: Any = "none"  # matplotlib has it, its stubs do not
        super().__init__(figsize=(width, height), layout=layout)
        grid = self.subplots(rows, columns, sharey=share, squeeze=False)
        self.panels: list[Axes] = list(grid.flat)[:n_panels]
        for axes in list(grid.flat)[n_panels:]:
            axes.remove()
        for axes in self.panels:
            self.set_panel_title(axes, "")
        self._panel = panel
        self.arrange()

    def set_panel_title(self, axes: Axes, title: str) -> None:
        """Put a title above a panel: at a given place, as to find one takes half of the drawing."""
        axes.set_title(title, parse_math=False, y=1.0)

    def add_legend_rows(self, rows: int) -> None:
        """Make room for a legend below all panels."""
        self._legend_rows += rows
        self.set_figheight(self.get_figheight() + LEGEND_ROW * rows)
        self.arrange()

    def arrange(self) -> None:
        """Put the panels where the margins leave room."""
        width, height = self.get_size_inches()
        self.subplots_adjust(
            left=self._left / width,
            right=1 - 0.2 / width,
            bottom=(self._bottom + LEGEND_ROW * self._legend_rows) / height,
            top=1 - (TITLE + PANEL_TITLE) / height,
            wspace=self._across / self._panel[0],
            hspace=self._down / self._panel[1],
        )

    def numbers(self) -> pd.DataFrame | None:
        """Return what is drawn, a row for each point: see `record`; None where nothing was kept."""
        return pd.DataFrame(self._drawn, columns=COLUMNS) if self._drawn else None

    def keep(self, points: Iterable[tuple[object, ...]]) -> None:
        """Keep points that are drawn, a value for each of `COLUMNS`."""
        self._drawn += points


def record(
    axes: Axes,
    series: str,
    x: npt.ArrayLike | Sequence[object],
    value: npt.ArrayLike,
    low: npt.ArrayLike | None = None,
    high: npt.ArrayLike | None = None,
) -> None:
    """Keep the points of one learner, or of chance, for the CSV file of the figure.

    `low` and `high` are the ends of bars or bands.  On an axis of names `x` is a place near one.
    """
    figure = axes.get_figure()
    if not isinstance(figure, Plot):
        return
    places = np.asarray(x).tolist()
    if figure.names:
        places = [figure.names[round(place)] for place in places]
    panel, quantity = axes.get_title(), axes.get_ylabel() or figure.quantity
    nothing = [math.nan] * len(places)
    numbers = [nothing if it is None else np.asarray(it).tolist() for it in (value, low, high)]
    figure.keep((panel, quantity, series, *point) for point in zip(places, *numbers, strict=True))
