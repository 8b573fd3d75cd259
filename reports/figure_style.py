"""The look of all figures: style, panels, bands, legend and files; labels are never mathematics.

The `figures` modules decide what is drawn.
"""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, Literal, TypeAlias

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

from oasis_bench.reports.formatting import clip
from oasis_bench.reports.table import to_csv

PANELS_PER_ROW = 3
LABEL_WIDTH, TITLE_WIDTH, TICKS_WIDTH = 32, 40, 60
LABELLED_CLASSES, MATRIX_LABEL_WIDTH = 12, 14
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
ENDS = ("middle", "low", "high")
CHANCE: dict[str, Any] = {
    "label": "chance",
    "color": "0.35",
    "linestyle": (0, (4, 3)),
    "linewidth": 1,
}
PUBLISHED: dict[str, Any] = {"color": "0.1", "marker": "*", "markersize": 11, "linestyle": ""}
STYLE = {
    "image.composite_image": False,  # in SVG each picture keeps its own pixels
    **sns.axes_style("whitegrid"),
    **sns.plotting_context("notebook", font_scale=0.85),
    "axes.edgecolor": "0.6",
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,  # of figures that are no `Plot`
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "grid.color": "0.92",
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",  # texts stay text: smaller, sooner drawn, and they can be searched
}

TOO_LIGHT = (6, 8)
"""Of seaborn's palette: pink and yellow, which hardly show on white."""

POINT_COLUMNS = ["panel", "quantity", "series", "x", "value", "low", "high"]
TITLE_HEIGHT, PANEL_TITLE, LEGEND_ROW = 0.55, 0.3, 0.22
"""Heights in inches."""

LearnerStyle: TypeAlias = Mapping[str, Any]


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
        height = TITLE_HEIGHT + PANEL_TITLE + rows * panel[1] + (rows - 1) * self._down + bottom
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
            top=1 - (TITLE_HEIGHT + PANEL_TITLE) / height,
            wspace=self._across / self._panel[0],
            hspace=self._down / self._panel[1],
        )

    def numbers(self) -> pd.DataFrame | None:
        """Return what is drawn, a row for each point: see `record`; None where nothing was kept."""
        return pd.DataFrame(self._drawn, columns=POINT_COLUMNS) if self._drawn else None

    def keep(self, points: Iterable[tuple[object, ...]]) -> None:
        """Keep points that are drawn, a value for each of `POINT_COLUMNS`."""
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


@dataclass(frozen=True)
class Drawing:
    """A figure as files, or the reason why there is none.

    Attributes
    ----------
    name : str
        The stem of its files.
    title : str
    caption : str
        What the lines and bars are; where there are no files, why.
    files : dict of str to bytes
        'svg', and 'csv' of its numbers where these were kept; or nothing.
    numbers : DataFrame, optional
        What is drawn, a row for each point.
    """

    name: str
    title: str
    caption: str
    files: Mapping[str, bytes]
    numbers: pd.DataFrame | None = None


def finish(
    name: str, title: str, figure: Figure | None, spread: str, caption: str, without: str = ""
) -> Drawing:
    """Title a figure and render it; where it is None there are no files: `without` may say why.

    `spread` says what bars and bands are.  It is written into the figure too, since its files are
    also used without the page.
    """
    if figure is None:
        return Drawing(name, title, f"Not drawn: {without}." * bool(without), {})
    figure.suptitle(f"{title}\n{spread}", fontsize="medium")
    numbers = figure.numbers() if isinstance(figure, Plot) else None
    files = render(figure, name)
    if numbers is not None:
        files["csv"] = to_csv(numbers)
    return Drawing(name, title, f"{spread[:1].upper()}{spread[1:]}. {caption}", files, numbers)


def learner_styles(names: Sequence[str]) -> dict[str, LearnerStyle]:
    """Give each learner a colour, a marker and a line style by its place in the experiment."""
    colorblind = sns.color_palette("colorblind")
    palette = [color for number, color in enumerate(colorblind) if number not in TOO_LIGHT]
    return {
        name: {"label": name, "color": color, "marker": marker, "linestyle": line}
        for name, color, marker, line in zip(
            names, cycle(palette), cycle(MARKERS), cycle(LINES), strict=False
        )
    }


def panels_of(titles: Sequence[str], x_label: str, y_label: str) -> tuple[Plot, list[Axes]]:
    """Make a figure with a panel for each title."""
    one = (4.9, 2.5) if len(titles) == 1 else (2.9, 2.1)
    figure = Plot(len(titles), PANELS_PER_ROW, one, y_label, share=True)
    for number, (axes, title) in enumerate(zip(figure.panels, titles, strict=True)):
        figure.set_panel_title(axes, clip(title, TITLE_WIDTH))
        axes.set_xlabel(x_label)
        if number % PANELS_PER_ROW == 0:
            axes.set_ylabel(y_label)
    return figure, figure.panels


def categories(
    labels: Sequence[str], x_label: str, y_labels: Sequence[str]
) -> tuple[Plot, list[Axes]]:
    """Make a panel for each y label, with a place on the x axis for each label."""
    n_panels, longest = len(y_labels), max(map(len, labels))
    slanted = sum(map(len, labels)) > TICKS_WIDTH / n_panels
    one = (5.2 if n_panels == 1 else 2.7, 2.5)
    bottom = 0.55 + slanted * 0.035 * longest
    figure = Plot(n_panels, n_panels, one, bottom=bottom, left=0.85)
    figure.names = list(labels)
    for axes, y_label in zip(figure.panels, y_labels, strict=True):
        axes.set_xticks(range(len(labels)), labels, parse_math=False)
        if slanted:
            axes.tick_params("x", labelrotation=25)
            for text in axes.get_xticklabels():
                text.set(horizontalalignment="right", rotation_mode="anchor")
        axes.set_xlim(-0.5, len(labels) - 0.5)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.grid(visible=False, axis="x")
    return figure, figure.panels


def log_counts(axes: Axes) -> None:
    """Make the x axis one of counts, on a logarithmic scale."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator())
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_locator(NullLocator())


def log_seconds(axes: Axes, which: Literal["x", "y"]) -> None:
    """Make an axis logarithmic and label it in seconds, with units such as ms; set limits first.

    The labels are plain text, which is drawn sooner than powers of ten.
    """
    low, high = axes.get_xlim() if which == "x" else axes.get_ylim()
    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}scale": "log"})
    subs = (1, 2, 5) if high < 30 * low else (1,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=6 if which == "x" else None))
    axis.set_major_formatter(EngFormatter(unit="s"))
    axis.set_minor_locator(NullLocator())


def draw_band(
    axes: Axes,
    band: pd.DataFrame,
    style: LearnerStyle,
    shade: bool = True,
    markevery: Sequence[int] | None = None,
) -> None:
    """Draw means as a line and their standard errors as a band around it."""
    axes.plot(band["x"], band["mean"], **style, markevery=markevery)
    low, high = band["mean"] - band["se"], band["mean"] + band["se"]
    record(axes, style["label"], band["x"], band["mean"], low, high)
    if shade:
        axes.fill_between(band["x"], low, high, color=style["color"], alpha=0.18, linewidth=0)


def draw_bars(axes: Axes, x: Any, points: pd.DataFrame, style: LearnerStyle) -> None:
    """Draw the columns middle, low and high of `points` as markers with bars."""
    below, above = points["middle"] - points["low"], points["high"] - points["middle"]
    axes.errorbar(x, points["middle"], yerr=[below, above], capsize=2.5, elinewidth=1, **style)
    places = np.asarray(x)
    record(axes, style["label"], places, *(np.asarray(points[it]) for it in ENDS))


def draw_matrices(matrices: Mapping[str, pd.DataFrame], x_label: str, y_label: str) -> Figure:
    """Draw matrices of shares from 0 to 1, a panel for each title; small ones with their labels."""
    names = [str(name) for matrix in matrices.values() for name in matrix]
    labelled = max(len(matrix) for matrix in matrices.values()) <= LABELLED_CLASSES
    room = 0.5 + 0.075 * min(max(map(len, names)), MATRIX_LABEL_WIDTH) * labelled
    figure = Plot(len(matrices), PANELS_PER_ROW, (3.0, 3.0), "share", left=room, bottom=room)
    for axes, (title, matrix) in zip(figure.panels, matrices.items(), strict=True):
        axes.imshow(matrix, cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        figure.set_panel_title(axes, clip(title, TITLE_WIDTH))
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.grid(visible=False)
        for label, shares in matrix.iterrows():
            seen = shares[shares > 0]
            record(axes, str(label), seen.index.astype(str), seen)
        names = [clip(str(name), MATRIX_LABEL_WIDTH) for name in matrix]
        if len(names) > LABELLED_CLASSES:
            axes.set_xticks([])
            axes.set_yticks([])
            continue
        axes.set_xticks(range(len(names)), names, parse_math=False, rotation=90)
        axes.set_yticks(range(len(names)), names, parse_math=False)
        for (y, x), share in np.ndenumerate(matrix):
            if share >= 0.005:
                ink = "#fefefe" if share > 0.5 else "0.2"
                axes.text(x, y, f"{share:.2f}", ha="center", va="center", color=ink, fontsize=6)
    return figure


def draw_legend(
    figure: Plot,
    styles: Mapping[str, LearnerStyle],
    others: Mapping[str, Artist],
    lines: bool = True,
) -> None:
    """Put one legend below all panels: the learners, then what the line styles mean."""
    entries: list[tuple[str, Artist]] = [
        (clip(name, LABEL_WIDTH), Line2D([], [], **style if lines else {**style, "linestyle": "-"}))
        for name, style in styles.items()
    ]
    entries += others.items()
    longest = max(len(label) for label, _ in entries)
    columns = max(1, min(len(entries), int(figure.get_figwidth() / (0.6 + 0.072 * longest))))
    figure.add_legend_rows(-(-len(entries) // columns))
    # Labels are set afterwards: matplotlib drops legend entries that begin with an underscore.
    legend = figure.legend(
        [handle for _, handle in entries],
        [str(number) for number in range(len(entries))],
        loc="lower center",
        ncols=columns,
        frameon=False,
    )
    for text, (label, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_text(label)
        text.set_parse_math(False)


def render(figure: Figure, name: str = "oasis-bench") -> dict[str, bytes]:
    """Write a figure as SVG, the same bytes each time; its ids are those of `name`."""
    svg = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        # The font is that of who reads it: what DejaVu lacks, another has.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        vector: Any = FigureCanvasSVG(figure)
        vector.print_svg(svg, metadata={"Date": None})
    return {"svg": svg.getvalue()}
