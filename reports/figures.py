"""A run's figures: precision at k, mAP along the steps and over classes, run time.

Each learner keeps its colour, marker and line style in all of them.  Labels come from users: none
is ever read as mathematics.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, cycle
from typing import Any, TypeAlias

import matplotlib as mpl
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator, MaxNLocator, NullFormatter

from oasis_bench.reports.tables import clip, finished, learners, plural, subset_title, subsets
from oasis_bench.statistics import summarise
from oasis_bench.store import RunRecord

PANELS_A_ROW = 3
LABEL_WIDTH = 32
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)), (0, (3, 1, 1, 1, 1, 1)))
CHANCE: dict[str, Any] = {"color": "0.35", "linestyle": (0, (4, 3)), "linewidth": 1}
STYLE = {
    **sns.axes_style("whitegrid"),
    **sns.plotting_context("notebook", font_scale=0.85),
    "axes.edgecolor": "0.6",
    "axes.linewidth": 0.8,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.family": ["DejaVu Sans"],
    "grid.color": "0.92",
    "lines.linewidth": 1.6,
    "lines.markersize": 4.5,
    "svg.hashsalt": "oasis-bench",
}

LearnerStyle: TypeAlias = Mapping[str, Any]


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
        'png' and 'svg', or nothing.
    """

    name: str
    title: str
    caption: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class _Plan:
    """A figure to be drawn: `draw` returns it, or None where the run holds nothing for it.

    What its bars and bands are, `spread`, stands in the figure itself too: files travel alone.
    """

    name: str
    title: str
    spread: str
    caption: str
    without: str
    draw: Callable[[RunRecord], Figure | None]


def draw_all(run: RunRecord) -> dict[str, Drawing]:
    """Draw every figure of a run, by name."""
    partitions = plural(run.info["experiment"]["partitions"], "partition")
    standard_error = f"mean ± standard error over {partitions}"
    plans = (
        _Plan(
            name="precision_at_k",
            title="Precision at the top k",
            spread=standard_error,
            caption="Dashed grey: chance level.",
            without="no trial has finished",
            draw=draw_precision_at_k,
        ),
        _Plan(
            name="map_along_steps",
            title="mAP along the learning steps",
            spread=standard_error,
            caption="Drawn as far as every partition was followed. Solid: test images; dashed: "
            "training images; dotted: validation images of the inner folds, for the chosen "
            "hyper-parameters (mean alone); triangle: median of the chosen numbers of steps. "
            "Learners without steps are level lines at their test mAP.",
            without="no incremental learner has a trace",
            draw=draw_along_steps,
        ),
        _Plan(
            name="runtime",
            title="Run time of the final fit",
            spread=f"median over {partitions}, bars from the shortest to the longest",
            caption="Logarithmic scale.",
            without="no trial has finished",
            draw=draw_runtime,
        ),
        _Plan(
            name="map_by_classes",
            title="mAP against the number of classes",
            spread=standard_error,
            caption="Dashed grey: chance level.",
            without="fewer than two class subsets have a result",
            draw=draw_by_classes,
        ),
    )
    drawings = {}
    with mpl.rc_context(STYLE):
        for plan in plans:
            figure = plan.draw(run)
            if figure is None:
                drawings[plan.name] = Drawing(
                    plan.name, plan.title, f"Not drawn: {plan.without}.", {}
                )
                continue
            figure.suptitle(f"{plan.title}\n{plan.spread}", fontsize="medium")
            caption = f"{plan.spread.capitalize()}. {plan.caption}"
            drawings[plan.name] = Drawing(plan.name, plan.title, caption, _render(figure))
    return drawings


def learner_styles(names: Sequence[str]) -> dict[str, LearnerStyle]:
    """Give each learner a colour, a marker and a line style by its place in the experiment."""
    palette = sns.color_palette("colorblind")
    return {
        name: {"color": color, "marker": marker, "linestyle": line}
        for name, color, marker, line in zip(
            names, cycle(palette), cycle(MARKERS), cycle(LINES), strict=False
        )
    }


def draw_precision_at_k(run: RunRecord) -> Figure | None:
    """Draw precision against k, a panel for each subset."""
    if run.precision_at_k.empty:
        return None
    styles = learner_styles(learners(run))
    shown = _subsets_with(run, run.precision_at_k)
    figure, panels = _panels(run, shown, "k (images retrieved)", "Precision at k")
    for axes, subset in zip(panels, shown, strict=True):
        rows = run.precision_at_k[run.precision_at_k["subset"] == subset]
        for learner, style in styles.items():
            band = _bands(rows[rows["learner"] == learner], "k", "precision")
            _draw_band(axes, band, style, markevery=[0, *range(9, len(band), 10)])
        axes.axhline(_chance(run, subset), **CHANCE)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    _legend(figure, _present(styles, run.precision_at_k), {"chance": Line2D([], [], **CHANCE)})
    return figure


def draw_along_steps(run: RunRecord) -> Figure | None:
    """Draw mAP against the number of steps, on training, validation and test images."""
    if run.traces.empty:
        return None
    styles = learner_styles(learners(run))
    shown = _subsets_with(run, run.traces)
    validation = _chosen_validation(run)
    figure, panels = _panels(run, shown, "learning steps (triplets)", "Mean average precision")
    splits: dict[str, Any] = {"test": "-", "train": (0, (4, 2)), "validation": (0, (1, 1.2))}
    for axes, subset in zip(panels, shown, strict=True):
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator())
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        axes.xaxis.set_minor_formatter(NullFormatter())
        heights = (0.035 + 0.05 * number for number in count())  # no triangle hides another
        trials = finished(run)
        trials = trials[trials["subset"] == subset]
        for learner, style in styles.items():
            own = trials[trials["learner"] == learner]
            plain = {**style, "markersize": 3}
            for split, line in splits.items():
                rows = validation if split == "validation" else run.traces
                rows = rows[(rows["subset"] == subset) & (rows["learner"] == learner)]
                rows = rows[rows["split"] == split]
                band = _bands(rows, "n_steps", "mean_average_precision", partitions=len(own))
                _draw_band(axes, band, {**plain, "linestyle": line}, shade=split != "validation")
            chosen = pd.to_numeric(own["n_steps"]).dropna()
            if len(chosen):
                axes.plot(
                    [chosen.median()],
                    [next(heights)],
                    marker="^",
                    markersize=9,
                    color=style["color"],
                    markeredgecolor="white",
                    transform=axes.get_xaxis_transform(),
                    zorder=5,
                )
            elif len(own):
                level = own["mean_average_precision"].mean()
                axes.axhline(level, color=style["color"], linewidth=1.2)
                axes.plot(
                    [1], [level], **style, transform=axes.get_yaxis_transform(), clip_on=False
                )
    others: dict[str, Artist] = {
        split: Line2D([], [], color="0.3", linestyle=line) for split, line in splits.items()
    }
    others["chosen steps"] = Line2D([], [], color="0.3", marker="^", markersize=8, linestyle="")
    _legend(figure, _present(styles, finished(run)), others, lines=False)
    return figure


def draw_runtime(run: RunRecord) -> Figure | None:
    """Draw the seconds of the final fit against the number of classes."""
    trials = finished(run)
    if trials.empty:
        return None
    figure, axes = _over_classes(run, "Final fit, wall clock (seconds)")
    axes.set_yscale("log")
    styles = learner_styles(learners(run))
    for learner, places in _dodged(run).items():
        seconds = trials[trials["learner"] == learner].groupby("subset")["fit_seconds"]
        ends = seconds.agg(["median", "min", "max"]).reindex(list(subsets(run)))
        axes.errorbar(
            places,
            ends["median"],
            yerr=[ends["median"] - ends["min"], ends["max"] - ends["median"]],
            capsize=2.5,
            elinewidth=1,
            **styles[learner],
        )
    _legend(figure, _present(styles, trials), {})
    return figure


def draw_by_classes(run: RunRecord) -> Figure | None:
    """Draw test mAP against the number of classes."""
    trials = finished(run)
    shown = _subsets_with(run, trials)
    if len(shown) < 2:
        return None
    figure, axes = _over_classes(run, "Mean average precision")
    styles = learner_styles(learners(run))
    for learner, places in _dodged(run).items():
        own = trials[trials["learner"] == learner]
        summaries = [
            summarise(own.loc[own["subset"] == subset, "mean_average_precision"])
            for subset in subsets(run)
        ]
        axes.errorbar(
            places,
            [summary.mean for summary in summaries],
            yerr=[summary.standard_error for summary in summaries],
            capsize=2.5,
            elinewidth=1,
            **styles[learner],
        )
    axes.plot(range(len(subsets(run))), [_chance(run, name) for name in subsets(run)], **CHANCE)
    _legend(figure, _present(styles, trials), {"chance": Line2D([], [], **CHANCE)})
    return figure


def _panels(
    run: RunRecord, shown: Sequence[str], x_label: str, y_label: str
) -> tuple[Figure, list[Axes]]:
    """Make a figure with a titled panel for each subset."""
    columns = min(PANELS_A_ROW, len(shown))
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(max(5.2, 3.4 * columns), 2.8 * rows + 0.6))
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
    for axes in list(grid.flat)[len(shown) :]:
        axes.remove()
    panels = list(grid.flat)[: len(shown)]
    for number, (axes, subset) in enumerate(zip(panels, shown, strict=True)):
        axes.set_title(subset_title(run, subset), parse_math=False)
        axes.set_xlabel(x_label)
        if number % columns == 0:
            axes.set_ylabel(y_label)
    return figure, panels


def _over_classes(run: RunRecord, y_label: str) -> tuple[Figure, Axes]:
    """Make a figure of one panel with a place for each subset."""
    figure = Figure(figsize=(6.2, 3.7))
    axes = figure.subplots()
    labels = [
        name if name == str(size) else f"{name} ({size})" for name, size in subsets(run).items()
    ]
    axes.set_xticks(range(len(labels)), labels, parse_math=False)
    axes.set_xlabel("number of classes")
    axes.set_ylabel(y_label)
    axes.grid(visible=False, axis="x")
    return figure, axes


def _dodged(run: RunRecord) -> dict[str, np.ndarray[Any, np.dtype[np.float64]]]:
    """Place each learner's points a little beside the others'."""
    names = learners(run)
    shifts = (np.arange(len(names)) - (len(names) - 1) / 2) * min(0.06, 0.4 / len(names))
    return {
        name: np.arange(len(subsets(run))) + shift
        for name, shift in zip(names, shifts, strict=True)
    }


def _bands(rows: pd.DataFrame, x: str, y: str, partitions: int | None = None) -> pd.DataFrame:
    """Return mean and standard error of `y` at each `x` (both where `partitions` values are)."""
    points = [
        (place, summary.mean, summary.standard_error)
        for place, values in rows.groupby(x)[y]
        if (summary := summarise(values)).n == (partitions or summary.n)
    ]
    return pd.DataFrame(points, columns=["x", "mean", "se"], dtype=float)


def _draw_band(
    axes: Axes,
    band: pd.DataFrame,
    style: LearnerStyle,
    shade: bool = True,
    markevery: Sequence[int] | None = None,
) -> None:
    """Draw means as a line and their standard errors as a band around it."""
    axes.plot(band["x"], band["mean"], **style, markevery=markevery)
    if shade:
        low, high = band["mean"] - band["se"], band["mean"] + band["se"]
        axes.fill_between(band["x"], low, high, color=style["color"], alpha=0.18, linewidth=0)


def _chosen_validation(run: RunRecord) -> pd.DataFrame:
    """Return the mean over folds of what the chosen hyper-parameters scored at each step."""
    chosen = finished(run)[["trial_id", "params"]]
    rows = run.validation.merge(chosen, on=["trial_id", "params"])
    keys = ["learner", "subset", "partition", "n_steps"]
    means = rows.groupby(keys)["mean_average_precision"].mean()
    return means.reset_index().assign(split="validation")


def _chance(run: RunRecord, subset: str) -> float:
    trials = finished(run)
    return summarise(trials.loc[trials["subset"] == subset, "chance_level"]).mean


def _subsets_with(run: RunRecord, rows: pd.DataFrame) -> list[str]:
    held = set(rows["subset"])
    return [subset for subset in subsets(run) if subset in held]


def _present(styles: Mapping[str, LearnerStyle], rows: pd.DataFrame) -> dict[str, LearnerStyle]:
    held = set(rows["learner"])
    return {name: style for name, style in styles.items() if name in held}


def _legend(
    figure: Figure,
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
    figure.set_figheight(figure.get_figheight() + 0.22 * -(-len(entries) // columns))
    # Labels are set afterwards: a legend leaves out those that begin with an underscore.
    legend = figure.legend(
        [handle for _, handle in entries],
        [str(number) for number in range(len(entries))],
        loc="outside lower center",
        ncols=columns,
        frameon=False,
    )
    for text, (label, _) in zip(legend.get_texts(), entries, strict=True):
        text.set_text(label)
        text.set_parse_math(False)


def _render(figure: Figure) -> dict[str, bytes]:
    """Write a figure as PNG and SVG, the same bytes each time."""
    FigureCanvasAgg(figure)
    files = {}
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        buffer = io.BytesIO()
        with warnings.catch_warnings():  # the page's tables show what the font cannot
            warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
            figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
        files[kind] = buffer.getvalue()
    return files
