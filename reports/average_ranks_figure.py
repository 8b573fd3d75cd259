"""The figure of average ranks: learners along a line, bars that join those not told apart.

After figure 1 of Demšar, JMLR 7 (2006), the best at the left.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from oasis_bench.analysis import AverageRanks
from oasis_bench.reports.figure_style import LABEL_WIDTH
from oasis_bench.reports.formatting import clip

INK, GREY, WIDTH = "0.15", "0.35", 7.5
ABOVE, BAR_GAP, NAME_GAP = 0.75, 0.13, 0.24
"""Inches: from the line up to the critical difference, between bars, between names."""


def draw_average_ranks(ranks: AverageRanks, title: str) -> Figure:
    """Draw average ranks on a line, the learners' names, and the critical difference.

    The critical difference is drawn where Friedman's test rejects that all rank alike: elsewhere
    it has no meaning.
    """
    names = ranks.names
    n_left = -(-len(names) // 2)
    bars_end = BAR_GAP * (len(ranks.groups) + 1)
    depth = bars_end + NAME_GAP * n_left
    figure = Figure(figsize=(WIDTH, ABOVE + depth + 0.9))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(1, len(names))
    axes.set_ylim(-depth, ABOVE + 0.2)
    axes.plot([1, len(names)], [0, 0], color=INK, linewidth=1.2)
    for rank in range(1, len(names) + 1):
        axes.plot([rank, rank], [0, 0.08], color=INK, linewidth=1)
        axes.text(rank, 0.12, str(rank), ha="center", va="bottom", fontsize="small")
    if ranks.differ:
        ends, y = [1, 1 + ranks.critical_difference], ABOVE - 0.25
        axes.plot(ends, [y, y], color=INK, linewidth=1.2, marker="|", markersize=8, clip_on=False)
        text = f"critical difference {ranks.critical_difference:.2f}"
        axes.text(1, y + 0.08, text, ha="left", va="bottom", fontsize="small")
    left, right = names[:n_left], names[n_left:][::-1]
    for side, edge, alignment in ((left, 1, "right"), (right, len(names), "left")):
        for number, name in enumerate(side, start=1):
            y = -bars_end - NAME_GAP * number
            _draw_name(axes, name, ranks.average[name], edge, alignment, y)
    for number, group in enumerate(ranks.groups, start=1):
        y = -BAR_GAP * number
        ends = [ranks.average[group[0]], ranks.average[group[-1]]]
        axes.plot(ends, [y, y], color=INK, linewidth=4, marker="", solid_capstyle="projecting")
    figure.suptitle(title, fontsize="medium")
    return figure


def _draw_name(axes: Axes, name: str, rank: float, edge: float, alignment: str, y: float) -> None:
    """Draw a line from a rank down and to the side, and a learner's name and rank at its end."""
    axes.plot([rank, rank, edge], [0, y, y], color=GREY, linewidth=1, zorder=1, clip_on=False)
    label = clip(name, LABEL_WIDTH)
    text = f"{label}  {rank:.2f} " if alignment == "right" else f" {rank:.2f}  {label}"
    axes.text(edge, y, text, ha=alignment, va="center", parse_math=False)
