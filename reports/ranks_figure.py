"""The critical-difference figure: learners along their average ranks, bars that join tied ones.

After figure 1 of Demšar, JMLR 7 (2006), the best at the left.
"""

from __future__ import annotations

from itertools import chain

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from oasis_bench.analysis.average_ranks import Ranking
from oasis_bench.reports.canvas import LABEL_WIDTH
from oasis_bench.reports.text import clip

INK, GREY, WIDTH = "0.15", "0.45", 7.5
ABOVE, BAR_GAP, NAME_GAP = 0.75, 0.13, 0.24
"""Inches: from the line up to the critical difference, between bars, between names."""


def draw_ranks(ranking: Ranking, title: str) -> Figure:
    """Draw average ranks on a line, the names of the learners and, where it tells, the difference.

    The critical difference has no meaning where Friedman's test does not refuse that all are alike.
    """
    names = ranking.names
    n_left = -(-len(names) // 2)
    bars_end = BAR_GAP * (len(ranking.groups) + 1)
    depth = bars_end + NAME_GAP * n_left
    figure = Figure(figsize=(WIDTH, ABOVE + depth + 0.9))
    axes = figure.subplots()
    axes.set_axis_off()
    axes.set_xlim(1, len(names))
    axes.set_ylim(-depth, ABOVE + 0.2)
    _draw_line(axes, len(names))
    if ranking.differ:
        _draw_difference(axes, ranking.critical_difference)
    left, right = names[:n_left], names[n_left:]
    sides = chain(
        ((name, 1, "right", line) for line, name in enumerate(left, start=1)),
        ((name, len(names), "left", line) for line, name in enumerate(reversed(right), start=1)),
    )
    for name, edge, alignment, line in sides:
        _draw_name(axes, name, ranking.average[name], edge, alignment, -bars_end - NAME_GAP * line)
    for number, group in enumerate(ranking.groups, start=1):
        y = -BAR_GAP * number
        ends = [ranking.average[group[0]], ranking.average[group[-1]]]
        axes.plot(ends, [y, y], color=INK, linewidth=4, marker="", solid_capstyle="projecting")
    figure.suptitle(title, fontsize="medium")
    return figure


def _draw_line(axes: Axes, n_learners: int) -> None:
    """Draw the line with a tick and a number for each rank."""
    axes.plot([1, n_learners], [0, 0], color=INK, linewidth=1.2)
    for rank in range(1, n_learners + 1):
        axes.plot([rank, rank], [0, 0.08], color=INK, linewidth=1)
        axes.text(rank, 0.12, str(rank), ha="center", va="bottom", fontsize="small")


def _draw_difference(axes: Axes, difference: float) -> None:
    """Draw the critical difference above the line, from rank 1 on."""
    ends, y = [1, 1 + difference], ABOVE - 0.25
    axes.plot(ends, [y, y], color=INK, linewidth=1.2, marker="|", markersize=8, clip_on=False)
    text = f"critical difference {difference:.2f}"
    axes.text(1, y + 0.08, text, ha="left", va="bottom", fontsize="small")


def _draw_name(axes: Axes, name: str, rank: float, edge: float, alignment: str, y: float) -> None:
    """Lead from a rank down, then to the side, to the name of a learner and its average rank."""
    axes.plot([rank, rank, edge], [0, y, y], color=GREY, linewidth=1, zorder=1, clip_on=False)
    label = clip(name, LABEL_WIDTH)
    text = f"{label}  {rank:.2f} " if alignment == "right" else f" {rank:.2f}  {label}"
    axes.text(edge, y, text, ha=alignment, va="center", parse_math=False)
