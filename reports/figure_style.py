"""The look of all figures: style, panels, bands, legend and files; labels are never mathematics.

The `figures` modules decide what a figure shows.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal, TypeAlias
from zlib import crc32

import matplotlib as mpl
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

from oasis_bench.reports.table import clip, page_text
from oasis_bench.reports.words import WORDS

LABEL_WIDTH, TITLE_WIDTH = 32, 44
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
N_LOOKS = 56
"""Pairs of one of eight colours and one of seven markers."""

LINES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
CHANCE: dict[str, Any] = {
    "label": "chance",
    "color": "0.35",
    "linestyle": (0, (4, 3)),
    "linewidth": 1,
}
STYLE = {
    "image.composite_image": False,  # in SVG each picture keeps its own pixels
    **sns.axes_style("whitegrid"),
    **sns.plotting_context("notebook", font_scale=0.85),
    "axes.edgecolor": "0.6",
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],
    "grid.color": "0.92",
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",  # texts stay text: smaller, faster, and they can be searched
}

TOO_LIGHT = (6, 8)
"""Of seaborn's palette: pink and yellow, which hardly show on white."""

PANEL_TITLE, LEGEND_ROW, LEGEND_WIDTH = 0.3, 0.22, 3.7
"""In inches; a legend of this width fits a telephone."""

WIDEST = 740
"""Points of a row of panels in a file."""

LEARNERS = (
    *("OASIS", "LMNN", "ClassifierPosterior", "Euclidean", "LDA", "NCA", "RCA", "ITML", "MCML"),
    *("FastLMNN", "LFDA", "MMC", "LEGO", "Covariance", "StandardizedEuclidean", "CosineOASIS"),
    *("PsdOASIS", "AveragedOASIS", "WhitenedOASIS", "DissimOASIS", "ProjOASIS"),
    *(
        "OnlineProjOASIS",
        "MiniBatchOASIS",
        "NearestNeighbourMemory",
        "DeepRanking",
        "LocalDistances",
    ),
    *("GMML", "PLDA", "WCCN", "ForestProximity", "InfoNCE"),
)
"""Their places decide how learners look: a new one is added last."""

LearnerStyle: TypeAlias = Mapping[str, Any]


class Plot:
    """Panels of equal size.  Each is a separate picture, so a narrow page can stack them.

    Parameters
    ----------
    n_panels : int
    panel : tuple of two float
        Width and height of a panel, in inches.
    left, bottom : float
        Room for the labels of an axis, in inches.
    share : bool
        Whether panels share the y axis.
    """

    def __init__(
        self,
        n_panels: int,
        panel: tuple[float, float],
        left: float = 0.75,
        bottom: float = 0.55,
        share: bool = False,
    ) -> None:
        width, height = left + panel[0] + 0.15, bottom + panel[1] + PANEL_TITLE
        self.pictures: list[Figure] = []
        self.panels: list[Axes] = []
        for _ in range(n_panels):
            picture = self.add_picture(width, height)
            place = (left / width, bottom / height, panel[0] / width, panel[1] / height)
            axes = picture.add_axes(place, sharey=self.panels[0] if share and self.panels else None)
            set_title(axes, "")
            self.panels.append(axes)

    def add_picture(self, width: float, height: float) -> Figure:
        """Add an empty picture of this size in inches."""
        layout: Any = "none"  # matplotlib has it, its stubs do not
        picture = Figure(figsize=(width, height), layout=layout)
        self.pictures.append(picture)
        return picture


def set_title(axes: Axes, title: str) -> None:
    """Put a title above a panel: at a given place, as to find one takes half of the drawing."""
    axes.set_title(clip(title, TITLE_WIDTH), parse_math=False, y=1.0)


@dataclass(frozen=True)
class Drawing:
    """A figure as files.

    Attributes
    ----------
    name : str
        The stem of its files.
    title : str
    caption : str
        What the lines and bars show.
    parts : sequence of bytes
        The SVGs of the panels and of the legend, which a page shows.
    svg : bytes
        One SVG of all parts, for the file.
    """

    name: str
    title: str
    caption: str
    parts: Sequence[bytes]
    svg: bytes


def finish(name: str, plot: Plot | None, what: str, **values: object) -> list[Drawing]:
    """Render a figure; none if it is None.

    `what` names its title and caption in `words.toml`, which `values` complete.  A page shows both
    next to the figure, and its file has them as a description.
    """
    if plot is None:
        return []
    words = WORDS["figures"][what]
    title, caption = words["title"].format(**values), words["caption"].format(**values)
    parts = [render(it, f"{name}-{place}") for place, it in enumerate(plot.pictures)]
    sizes = [tuple(72 * it.get_size_inches()) for it in plot.pictures]
    svg = together(parts, sizes, f"{title}. {caption}")
    return [Drawing(name, title, caption, parts, svg)]


def together(
    parts: Sequence[bytes], sizes: Sequence[tuple[float, float]], description: str
) -> bytes:
    """Lay SVGs, of sizes in points, out in rows of at most `WIDEST` as one SVG."""
    x = y = below = across = 0.0
    placed = []
    for part, (width, height) in zip(parts, sizes, strict=True):
        if x and x + width > WIDEST:
            x, y = 0.0, below
        text = part.decode()
        head, _, rest = text[text.index("<svg") :].partition(">")
        head = head.replace("<svg", f'<svg x="{x:g}" y="{y:g}"').replace('pt"', '"')  # its own unit
        placed.append(f"{head}>{rest}")
        x += width
        below, across = max(below, y + height), max(across, x)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{across:g}pt" height="{below:g}pt" '
        f'viewBox="0 0 {across:g} {below:g}"><desc>{escape(page_text(description))}</desc>\n'
        f"{''.join(placed)}</svg>\n"
    ).encode()


def _style(name: str, place: int) -> LearnerStyle:
    """Return a colour, a marker and a line style; those of the first 56 places differ."""
    palette = [it for at, it in enumerate(sns.color_palette("colorblind")) if at not in TOO_LIGHT]
    looks = {"color": palette, "marker": MARKERS, "linestyle": LINES}
    return {"label": name, **{key: values[place % len(values)] for key, values in looks.items()}}


def styles_in_order(names: Sequence[str]) -> dict[str, LearnerStyle]:
    """Give items that are not learners a colour, a marker and a line style, by their place."""
    return {name: _style(name, place) for place, name in enumerate(names)}


def learner_styles(names: Sequence[str]) -> dict[str, LearnerStyle]:
    """Give each learner a colour, a marker and a line style by its name, the same in all reports.

    A name that is not in `LEARNERS` gets the place of its hash, or the next one if another of
    these learners has that place.
    """
    taken: dict[int, str] = {LEARNERS.index(name): name for name in names if name in LEARNERS}
    for name in sorted(set(names).difference(LEARNERS)):
        place = crc32(name.encode("utf-8", "replace")) % N_LOOKS
        while place in taken:
            place += 1
        taken[place] = name
    places = {name: place for place, name in taken.items()}
    return {name: _style(name, places[name]) for name in names}


def panels_of(titles: Sequence[str], x_label: str, y_label: str) -> tuple[Plot, list[Axes]]:
    """Make a figure with a panel for each title."""
    figure = Plot(len(titles), (3.9, 2.5) if len(titles) == 1 else (2.4, 2.0), share=True)
    for axes, title in zip(figure.panels, titles, strict=True):
        set_title(axes, title)
        axes.set(xlabel=x_label, ylabel=y_label)
    return figure, figure.panels


def log_counts(axes: Axes) -> None:
    """Make the x axis one of counts, on a logarithmic scale."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator())
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_minor_locator(NullLocator())


def log_seconds(axes: Axes, which: Literal["x", "y"] = "x") -> None:
    """Make an axis logarithmic and label it in seconds, with units such as ms; set limits first.

    The labels are plain text, which is faster than powers of ten.
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
    if shade:
        axes.fill_between(band["x"], low, high, color=style["color"], alpha=0.18, linewidth=0)


def draw_legend(
    figure: Plot,
    styles: Mapping[str, LearnerStyle],
    others: Mapping[str, Mapping[str, Any]],
    lines: bool = True,
) -> None:
    """Add the legend as a separate picture: the learners, then what the line styles mean."""
    entries = [
        (clip(name, LABEL_WIDTH), style if lines else {**style, "linestyle": "-"})
        for name, style in styles.items()
    ]
    entries += others.items()
    longest = max(len(label) for label, _ in entries)
    column = 0.5 + 0.073 * longest
    columns = max(1, min(len(entries), int(LEGEND_WIDTH / column)))
    rows = -(-len(entries) // columns)
    picture = figure.add_picture(columns * column, LEGEND_ROW * rows + 0.15)
    # Labels are set afterwards: matplotlib drops legend entries that begin with an underscore.
    legend = picture.legend(
        [Line2D([], [], **style) for _, style in entries],
        [str(number) for number in range(len(entries))],
        loc="center",
        ncols=columns,
        columnspacing=0.8,  # by default, columns of short names are wider than the picture
        frameon=False,
    )
    for text, (label, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_text(label)
        text.set_parse_math(False)


def render(figure: Figure, name: str) -> bytes:
    """Write a figure as SVG, the same bytes each time; its ids are those of `name`."""
    svg = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": name}), warnings.catch_warnings():
        # The font is that of who reads it: what DejaVu lacks, another has.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        vector: Any = FigureCanvasSVG(figure)
        vector.print_svg(svg, metadata={"Date": None})
    return page_text(svg.getvalue()).encode()
