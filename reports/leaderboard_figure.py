"""The figure of a leaderboard: each learner's Elo rating with its interval."""

from __future__ import annotations

from matplotlib.figure import Figure

from oasis_bench.analysis import CENTRE
from oasis_bench.reports.figure_style import CHANCE, LABEL_WIDTH
from oasis_bench.reports.formatting import clip
from oasis_bench.reports.leaderboard import Leaderboard

COLOR, WIDTH, ROW = "#0072b2", 7.5, 0.26


def draw_ratings(board: Leaderboard, title: str) -> Figure:
    """Draw ratings as points with their intervals; hollow points for learners not placed."""
    standing = board.standing
    n_datasets = len(board.datasets)
    figure = Figure(figsize=(WIDTH, 1.3 + ROW * len(standing)))
    axes = figure.subplots()
    places = range(len(standing))
    axes.axvline(CENTRE, **CHANCE)
    axes.hlines(places, standing["low"], standing["high"], color=COLOR, linewidth=1.6)
    for marker, own in (("o", standing["placed"]), ("D", ~standing["placed"])):
        axes.plot(
            standing.loc[own, "rating"],
            standing.index[own],
            linestyle="",
            marker=marker,
            color=COLOR,
            markerfacecolor=COLOR if marker == "o" else "white",
        )
    labels = [
        f"{clip(name, LABEL_WIDTH)}  {n}/{n_datasets}"
        for name, n in zip(standing["learner"], standing["datasets"], strict=True)
    ]
    axes.set_yticks(places, labels, parse_math=False)
    axes.set_ylim(len(standing) - 0.4, -0.6)
    axes.set_xlabel("Elo (1000: an imagined average learner)")
    axes.grid(visible=False, axis="y")
    figure.suptitle(title, fontsize="medium")
    return figure
