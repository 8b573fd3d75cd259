"""The figure of a task's partitions: how far each learner is from a baseline, as boxes."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from oasis_bench.analysis import headlines, task_measures
from oasis_bench.reports.figure_style import (
    LABEL_WIDTH,
    PANELS_PER_ROW,
    STYLE,
    TITLE_WIDTH,
    Drawing,
    finish,
    learner_styles,
)
from oasis_bench.reports.formatting import clip
from oasis_bench.reports.plot import Plot, record
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
from oasis_bench.runs import StoredRun
from oasis_bench.system import UsageError, unknown_name

BASELINE = "Euclidean"
"""The algorithm that others are compared with, where it runs; else the first learner."""


@mpl.rc_context(STYLE)
def partition_figures(run: StoredRun, task: str, asked: str | None = None) -> list[Drawing]:
    """Draw the boxes of a task: nothing where there is one partition, or one learner.

    `asked` is the baseline, where one is named; likewise below.
    """
    if run.info.experiment.n_partitions < 2 or len(learners(run)) < 2:
        return []
    first, name = headlines(run, task)[0], marked(run, find_baseline(run, asked))
    return [
        finish(
            f"{task}_partitions",
            f"{task_title(task)}: {first} less that of {clip(name, LABEL_WIDTH)}",
            draw_partitions(run, task, asked),
            spread=f"each of {partitions_text(run)}, paired",
            caption=" ".join(
                [
                    "Box: from the first to the third quartile, with the median; line: from the "
                    "smallest to the largest; dots: partitions. Right of 0 is better than "
                    f"{name}.",
                    *dagger_notes(run, finished(run, split_of(run, task))["learner"]),
                ]
            ),
            without="no learner shares a partition with it",
        )
    ]


def find_baseline(run: StoredRun, asked: str | None = None) -> str:
    """Return the label of the learner that the boxes are relative to.

    Raises
    ------
    UsageError
        Where no learner has the label that was asked for.
    """
    specs = run.info.experiment.learners
    if asked is not None:
        if asked not in specs:
            raise UsageError(unknown_name("baseline", asked, specs))
        return asked
    return next(
        (label for label, it in specs.items() if it.algorithm == BASELINE), next(iter(specs))
    )


def differences(run: StoredRun, task: str, asked: str | None = None) -> pd.DataFrame:
    """Return value less that of the baseline on the same partition, by the first headline.

    Returns
    -------
    DataFrame
        subset, learner (not the baseline), partition, difference.
    """
    values = task_measures(run, task)
    values = values[values["name"] == headlines(run, task)[0]]
    keys = ["subset", "partition"]
    name = find_baseline(run, asked)
    reference = values.loc[values["learner"] == name, [*keys, "value"]]
    paired = values.merge(reference, on=keys, suffixes=("", "_of_baseline"))
    paired = paired[paired["learner"] != name]
    paired = paired.assign(difference=paired["value"] - paired["value_of_baseline"])
    return paired[["subset", "learner", "partition", "difference"]]


def draw_partitions(run: StoredRun, task: str, asked: str | None = None) -> Figure | None:
    """Draw a box for each learner, the best at the top, a panel for each subset."""
    rows = differences(run, task, asked)
    if rows.empty:
        return None
    shown = [subset for subset in subsets(run) if (rows["subset"] == subset).any()]
    present = set(rows["learner"])
    names = [name for name in learners(run) if name in present]
    last = rows[rows["subset"] == shown[-1]].groupby("learner")["difference"].median()
    names.sort(key=lambda name: last.get(name, -np.inf))
    labels = [clip(marked(run, name), LABEL_WIDTH) for name in names]
    styles = learner_styles(learners(run))
    panel = (4.6 if len(shown) == 1 else 2.6, 0.5 + 0.26 * len(names))
    figure = Plot(
        *(len(shown), PANELS_PER_ROW, panel, headlines(run, task)[0] + ", difference"),
        left=0.3 + 0.085 * max(map(len, labels)),
        share=True,
    )
    for subset, axes in zip(shown, figure.panels, strict=True):
        figure.set_panel_title(axes, clip(subset_title(run, subset), TITLE_WIDTH))
        axes.set_xlabel("difference")
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
            record(axes, name, own["partition"].to_numpy(), values)
        axes.set_yticks(range(len(names)), labels, parse_math=False)
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.grid(visible=False, axis="y")
    return figure
