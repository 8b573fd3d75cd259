"""The figures of a task: precision at k, its first measure by classes, its confusion matrix.

Each learner keeps its colour, marker and line style in all figures of a run.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from oasis_bench.analysis import headlines, summarise, task_measures
from oasis_bench.claims import PAPERS_PER_CLASS, list_of, published_precision
from oasis_bench.reports.figure_style import (
    CHANCE,
    PUBLISHED,
    STYLE,
    Drawing,
    LearnerStyle,
    categories,
    draw_band,
    draw_bars,
    draw_legend,
    draw_matrices,
    finish,
    learner_styles,
)
from oasis_bench.reports.plot import record
from oasis_bench.reports.run.confusion import (
    best_learner,
    class_names,
    confusion_shares,
    rule_text,
)
from oasis_bench.reports.run.facts import (
    dagger_notes,
    finished,
    learners,
    marked,
    partitions_text,
    split_of,
    subset_title,
    subsets,
    task_title,
)
from oasis_bench.reports.run.figure_parts import band_of, entries, panels, side_by_side, subset_axis
from oasis_bench.runs import StoredRun


@mpl.rc_context(STYLE)
def task_figures(run: StoredRun, task: str) -> list[Drawing]:
    """Draw the figures that a task has: nothing where it has no curve and no confusion matrix."""
    standard_error = f"mean ± standard error over {partitions_text(run)}"
    title, measures = task_title(task), run.info.sources.tasks[task].measures
    daggers = dagger_notes(run, finished(run, split_of(run, task))["learner"])
    caption = " ".join(["Dashed grey: chance.", *daggers])
    drawings = []
    if not run.info.multi_label:
        first = headlines(run, task)[0]
        drawings.append(
            finish(
                f"{task}_by_classes",
                f"{title}: {first} against the number of classes",
                draw_by_classes(run, task),
                spread=standard_error,
                caption=caption,
                without="fewer than two class subsets have a result",
            )
        )
    if "precision" in measures:
        drawings.append(
            finish(
                f"{task}_precision_at_k",
                f"{title}: precision at the top k",
                draw_precision_at_k(run, task),
                spread=standard_error,
                caption=caption,
                without="no trial has finished",
            )
        )
    if (run.confusion["task"] == task).any():
        drawings.append(
            finish(
                f"{task}_confusion",
                f"{title}: confusion matrix",
                draw_confusion(run, task),
                spread=f"sum over {partitions_text(run)}",
                caption=" ".join(
                    [
                        "Rows: true class; columns: predicted class; shares of the true class.",
                        rule_text(run, task),
                        "The CSV file of the table below has the matrices of all learners.",
                        *daggers,
                    ]
                ),
                without="",
            )
        )
    return drawings


def draw_precision_at_k(run: StoredRun, task: str) -> Figure | None:
    """Draw precision against k, a panel for each subset."""
    values = task_measures(run, task)
    curve = values[values["measure"] == "precision"]
    if curve.empty:
        return None
    styles = learner_styles(learners(run))
    others: dict[str, Artist] = {"chance": Line2D([], [], **CHANCE)}
    figure, of_subset = panels(run, curve, f"k ({run.info.items} retrieved)", "Precision at k")
    for subset, axes in of_subset.items():
        rows = curve[curve["subset"] == subset]
        for learner, style in styles.items():
            band = band_of(rows[rows["learner"] == learner], "k", "value")
            draw_band(axes, band, style, markevery=[0, *range(9, len(band), 10)])
        chance = rows.drop_duplicates(["partition", "k"]).groupby("k")["chance"].mean()
        axes.plot(chance.index, chance, **CHANCE)
        record(axes, "chance", chance.index, chance.to_numpy())
        comparable = task == "retrieval" and run.info.experiment.per_class == PAPERS_PER_CLASS
        if comparable and (found := list_of(run, subset)) is not None:
            points = published_precision(found.name).dropna(subset=["k"])
            _draw_published(axes, points[points["learner"].isin(rows["learner"])], styles)
            of_others = ", of other classes" * found.stand_in
            others[f"published{of_others}"] = Line2D([], [], **PUBLISHED)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    draw_legend(figure, entries(run, styles, curve), others)
    return figure


def _draw_published(axes: Axes, points: pd.DataFrame, styles: Mapping[str, LearnerStyle]) -> None:
    """Mark published means at their k, each in the colour of its learner."""
    for learner, own in points.groupby("learner"):
        look = {**PUBLISHED, "color": styles[str(learner)]["color"]}
        axes.plot(own["k"], own["mean"], zorder=5, **look)
        record(axes, f"{learner}, published", own["k"], own["mean"])


def draw_by_classes(run: StoredRun, task: str) -> Figure | None:
    """Draw the first measure of a task against the number of classes."""
    values, first = task_measures(run, task), headlines(run, task)[0]
    values = values[values["name"] == first]
    if values["subset"].nunique() < 2:
        return None
    figure, (axes,) = categories(*subset_axis(run), [first])
    styles = learner_styles(learners(run))
    for learner, x in side_by_side(run).items():
        own = values[values["learner"] == learner]
        summaries = [summarise(own.loc[own["subset"] == it, "value"]) for it in subsets(run)]
        points = pd.DataFrame(
            [(s.mean, s.mean - s.standard_error, s.mean + s.standard_error) for s in summaries],
            columns=["middle", "low", "high"],
        )
        draw_bars(axes, x, points, styles[learner])
    each_once = values.drop_duplicates(["subset", "partition"])
    chances = each_once.groupby("subset")["chance"].mean().reindex(list(subsets(run)))
    axes.plot(range(len(chances)), chances, **CHANCE)
    record(axes, "chance", range(len(chances)), chances.to_numpy())
    draw_legend(figure, entries(run, styles, values), {"chance": Line2D([], [], **CHANCE)})
    return figure


def draw_confusion(run: StoredRun, task: str) -> Figure:
    """Draw the confusion matrix of the best learner, a panel for each subset that has one."""
    shares = confusion_shares(run, task)
    matrices = {}
    for subset in subsets(run):
        learner = best_learner(run, task, subset)
        own = shares[(shares["subset"] == subset) & (shares["learner"] == learner)]
        if len(own):
            names = class_names(run, subset, split_of(run, task))
            matrix = own.pivot(index="label", columns="predicted", values="share")
            matrix = matrix.reindex(index=list(names), columns=list(names)).fillna(0)
            title = f"{subset_title(run, subset)}: {marked(run, str(learner))}"
            matrices[title] = matrix.rename(index=names, columns=names)
    return draw_matrices(matrices, "predicted class", "true class")
