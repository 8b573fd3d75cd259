"""The figures of a task, and its confusion matrices: curves, partitions, pairs that are confused.

The figures show precision at k, the first measure by classes and by partition, and confusion.
"""

from __future__ import annotations

from collections.abc import Mapping

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from oasis_bench.claims import PAPERS_PER_CLASS, list_of, published_precision
from oasis_bench.reports import figure_style as fs, figures
from oasis_bench.reports.table import Column, Table, clip
from oasis_bench.reports.view import RunView, task_title

PAIRS = 8
"""The pairs of classes that the table of confusion shows of a subset."""

LABELLED_CLASSES = 12
"""The most classes of a confusion matrix that is drawn: a larger one could not be read."""


@mpl.rc_context(fs.STYLE)
def task_figures(view: RunView, task: str) -> list[fs.Drawing]:
    """Draw the figures that a task has: nothing where it has no curve and no confusion matrix."""
    standard_error = f"mean ± standard error over {view.partitions_text}"
    title = task_title(task)
    by_classes = None if view.info.multi_label else draw_by_classes(view, task)
    return [
        *fs.finish(
            f"{task}_by_classes",
            f"{title}: {view.headlines[task][0]} against the number of classes",
            by_classes,
            spread=standard_error,
            caption="Dashed grey: chance.",
        ),
        *fs.finish(
            f"{task}_precision_at_k",
            f"{title}: precision at the top k",
            draw_precision_at_k(view, task),
            spread=standard_error,
            caption="Dashed grey: chance.",
        ),
        *fs.finish(
            f"{task}_confusion",
            f"{title}: confusion matrix",
            draw_confusion(view, task),
            spread=f"sum over {view.partitions_text}",
            caption="Rows: true class; columns: predicted class; shares of the true class. "
            f"{_rule_text(view, task)}",
        ),
    ]


def draw_precision_at_k(view: RunView, task: str) -> fs.Plot | None:
    """Draw precision against k, a panel for each subset."""
    values = view.values[task]
    curve = values[values["measure"] == "precision"]
    if curve.empty:
        return None
    styles = fs.learner_styles(view.learners)
    others: dict[str, Artist] = {"chance": Line2D([], [], **fs.CHANCE)}
    figure, of_subset = figures.panels(
        view, curve, f"k ({view.info.items} retrieved)", "Precision at k"
    )
    for subset, axes in of_subset.items():
        rows = curve[curve["subset"] == subset]
        for learner, style in styles.items():
            band = figures.band_of(rows[rows["learner"] == learner], "k", "value")
            fs.draw_band(axes, band, style, markevery=[0, *range(9, len(band), 10)])
        chance = rows.drop_duplicates(["partition", "k"]).groupby("k")["chance"].mean()
        axes.plot(chance.index, chance, **fs.CHANCE)
        fs.record(axes, "chance", chance.index, chance.to_numpy())
        comparable = task == "retrieval" and view.experiment.per_class == PAPERS_PER_CLASS
        if comparable and (found := list_of(view.stored, subset)) is not None:
            points = published_precision(found.name).dropna(subset=["k"])
            _draw_published(axes, points[points["learner"].isin(rows["learner"])], styles)
            of_others = ", of other classes" * found.stand_in
            others[f"published{of_others}"] = Line2D([], [], **fs.PUBLISHED)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    fs.draw_legend(figure, figures.entries(view, styles, curve), others)
    return figure


def _draw_published(
    axes: Axes, points: pd.DataFrame, styles: Mapping[str, fs.LearnerStyle]
) -> None:
    """Mark published means at their k, each in the colour of its learner."""
    for learner, own in points.groupby("learner"):
        look = {**fs.PUBLISHED, "color": styles[str(learner)]["color"]}
        axes.plot(own["k"], own["mean"], zorder=5, **look)
        fs.record(axes, f"{learner}, published", own["k"], own["mean"])


def draw_by_classes(view: RunView, task: str) -> fs.Plot | None:
    """Draw the first measure of a task against the number of classes."""
    values, first = view.values[task], view.headlines[task][0]
    values = values[values["name"] == first]
    if values["subset"].nunique() < 2:
        return None
    figure, (axes,) = fs.categories(*figures.subset_axis(view), [first])
    styles = fs.learner_styles(view.learners)
    for learner, x in figures.side_by_side(view).items():
        own = values[values["learner"] == learner]
        points = own.groupby("subset")["value"].agg(["mean", "sem"]).reindex(list(view.subsets))
        low, high = points["mean"] - points["sem"], points["mean"] + points["sem"]
        points = points.assign(middle=points["mean"], low=low, high=high)
        fs.draw_bars(axes, x, points, styles[learner])
    each_once = values.drop_duplicates(["subset", "partition"])
    chances = each_once.groupby("subset")["chance"].mean().reindex(list(view.subsets))
    axes.plot(range(len(chances)), chances, **fs.CHANCE)
    fs.record(axes, "chance", range(len(chances)), chances.to_numpy())
    fs.draw_legend(
        figure, figures.entries(view, styles, values), {"chance": Line2D([], [], **fs.CHANCE)}
    )
    return figure


@mpl.rc_context(fs.STYLE)
def partition_figures(view: RunView, task: str, asked: str | None = None) -> list[fs.Drawing]:
    """Draw how far learners are from a baseline: nothing of one partition, or of one learner.

    `asked` is the baseline, where one is named; likewise below.
    """
    if view.experiment.n_partitions < 2 or len(view.learners) < 2:
        return []
    first, name = view.headlines[task][0], view.marked(view.find_baseline(asked))
    return fs.finish(
        f"{task}_partitions",
        f"{task_title(task)}: {first} less that of {clip(name, fs.LABEL_WIDTH)}",
        draw_partitions(view, task, asked),
        spread=f"each of {view.partitions_text}, paired",
        caption="Box: from the first to the third quartile, with the median; line: from the "
        f"smallest to the largest; dots: partitions. Right of 0 is better than {name}.",
    )


def differences(view: RunView, task: str, asked: str | None = None) -> pd.DataFrame:
    """Return value less that of the baseline on the same partition, by the first headline.

    Its columns: subset, learner (not the baseline), partition, difference.
    """
    values = view.values[task]
    values = values[values["name"] == view.headlines[task][0]]
    keys = ["subset", "partition"]
    name = view.find_baseline(asked)
    reference = values.loc[values["learner"] == name, [*keys, "value"]]
    paired = values.merge(reference, on=keys, suffixes=("", "_of_baseline"))
    paired = paired[paired["learner"] != name]
    paired = paired.assign(difference=paired["value"] - paired["value_of_baseline"])
    return paired[["subset", "learner", "partition", "difference"]]


def draw_partitions(view: RunView, task: str, asked: str | None = None) -> fs.Plot | None:
    """Draw a box for each learner, the best at the top, a panel for each subset."""
    rows = differences(view, task, asked)
    if rows.empty:
        return None
    shown = [subset for subset in view.subsets if (rows["subset"] == subset).any()]
    present = set(rows["learner"])
    names = [name for name in view.learners if name in present]
    last = rows[rows["subset"] == shown[-1]].groupby("learner")["difference"].median()
    names.sort(key=lambda name: last.get(name, -np.inf))
    labels = [clip(view.marked(name), figures.NAME_WIDTH) for name in names]
    styles = fs.learner_styles(view.learners)
    panel = (3.2 if len(shown) == 1 else 2.0, 0.5 + 0.26 * len(names))
    figure = fs.Plot(
        *(len(shown), panel, view.headlines[task][0] + ", difference"),
        left=0.15 + 0.08 * max(map(len, labels)),
        share=True,
    )
    for subset, axes in zip(shown, figure.panels, strict=True):
        fs.set_title(axes, view.subset_title(subset))
        axes.set_xlabel("difference")
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.axvline(0, color="0.35", linewidth=1, zorder=1)
        for place, name in enumerate(names):
            own = rows[(rows["subset"] == subset) & (rows["learner"] == name)]
            if own.empty:
                continue
            values = own["difference"].to_numpy()
            low, first, median, third, high = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
            color = styles[name]["color"]
            axes.plot([low, high], [place, place], color=color, linewidth=1)
            axes.barh(place, third - first, left=first, height=0.55, color=color, alpha=0.3)
            axes.plot([median, median], [place - 0.28, place + 0.28], color=color, linewidth=2)
            axes.plot(values, np.full(len(values), place), ".", color=color, markersize=3)
            fs.record(axes, name, own["partition"].to_numpy(), values)
        axes.set_yticks(range(len(names)), labels, parse_math=False)
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.grid(visible=False, axis="y")
    return figure


def _matrix_measure(view: RunView, task: str) -> str:
    """Name the measure by whose rule the classes of a task's matrices are predicted.

    It is the measure of tuning, where that is of the task; else its first.
    """
    of_task, name = view.tuned_by[view.split_of(task)]
    return name if of_task == task else view.headlines[task][0]


def _best_learner(view: RunView, task: str, subset: str) -> str:
    """Return the learner with the highest mean of `_matrix_measure`; '' without any."""
    values = view.values[task]
    own = values[(values["subset"] == subset) & (values["name"] == _matrix_measure(view, task))]
    return "" if own.empty else str(own.groupby("learner")["value"].mean().idxmax())


def _rule_text(view: RunView, task: str) -> str:
    """Say how classes are predicted and which learner is shown."""
    measure = _matrix_measure(view, task)
    return f"Classes are predicted as for {measure}; the learner shown is the best by it."


def confusion_shares(view: RunView, task: str) -> pd.DataFrame:
    """Sum confusion matrices over partitions; none of class sets, each of which has other classes.

    A row for each subset, learner, label and predicted class that occur together: n test items,
    and share, n over those of the label.
    """
    counts = view.stored.confusion
    keys = ["subset", "learner", "label"]
    is_shown = (counts["task"] == task) & (not view.experiment.replicates)
    sums = counts[is_shown].groupby([*keys, "predicted"], sort=False)["n"].sum()
    shares: pd.DataFrame = sums.reset_index()
    return shares.assign(share=shares["n"] / shares.groupby(keys)["n"].transform("sum"))


def draw_confusion(view: RunView, task: str) -> fs.Plot | None:
    """Draw the confusion matrix of the best learner, a panel for each subset of few classes."""
    shares = confusion_shares(view, task)
    matrices = {}
    for subset in view.subsets_of(view.split_of(task)):
        learner = _best_learner(view, task, subset)
        own = shares[(shares["subset"] == subset) & (shares["learner"] == learner)]
        if len(own) and view.subsets[subset] <= LABELLED_CLASSES:
            names = view.class_names(subset, view.split_of(task))
            matrix = own.pivot(index="label", columns="predicted", values="share")
            matrix = matrix.reindex(index=list(names), columns=list(names)).fillna(0)
            title = f"{view.subset_title(subset)}: {view.marked(learner)}"
            matrices[title] = matrix.rename(index=names, columns=names)
    return fs.draw_matrices(matrices, "predicted class", "true class") if matrices else None


def confusion_tables(view: RunView, task: str) -> list[Table]:
    """Make the table of the pairs that the best learner of each subset confuses most.

    Its CSV file has the whole matrices of all learners.  There is none without a matrix.
    """
    shares = confusion_shares(view, task)
    if shares.empty:
        return []
    numbers, wrong, shown = [], [], []
    for subset in view.subsets_of(view.split_of(task)):
        own = shares[shares["subset"] == subset]
        names = view.class_names(subset, view.split_of(task))
        own = own.assign(true_name=own["label"].map(names), name=own["predicted"].map(names))
        numbers.append(own)
        shown.append(_best_learner(view, task, subset))
        of_best = own[(own["learner"] == shown[-1]) & (own["label"] != own["predicted"])]
        wrong.append(of_best.nlargest(PAIRS, "share"))
    pairs = pd.concat(wrong)
    return [
        Table(
            name=f"{task}_confusion",
            title=f"{task_title(task)}: the {PAIRS} pairs confused most by the best learner, over "
            + view.partitions_text,
            columns=[
                view.subset_column(pairs),
                view.learner_column(pairs),
                Column("True class", pairs["true_name"], align="l"),
                Column("Taken for", pairs["name"], align="l"),
                Column(view.info.items.capitalize(), pairs["n"], "{:,}".format),
                Column("Share of the true class", pairs["share"], "{:.3f}".format),
            ],
            numbers=pd.concat(numbers),
            notes=(_rule_text(view, task),),
            of=view.facets(task),
        )
    ]
