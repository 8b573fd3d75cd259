"""The figure of several runs: the measure that chooses against a number, such as items a class."""

from __future__ import annotations

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from oasis_bench.reports.figure_style import (
    CHANCE,
    PUBLISHED,
    STYLE,
    Drawing,
    draw_bars,
    draw_legend,
    finish,
    learner_styles,
    panels_of,
)
from oasis_bench.reports.run.facts import (
    chooser,
    dagger_notes,
    learners,
    marked,
    partitions_text,
    split_of,
    subset_title,
    subsets,
    tasks,
)
from oasis_bench.runs import StoredRun


@mpl.rc_context(STYLE)
def along_values(run: StoredRun, numbers: pd.DataFrame, what: str) -> list[Drawing]:
    """Draw a line for each learner along the values of the runs, where these are numbers.

    Parameters
    ----------
    run : StoredRun
        One of the runs: they differ in the value alone.
    numbers : DataFrame
        Rows of `side_by_side`: dataset (the value), measure, learner, ours, sd, published, chance.
    what : str
        What the values are of.

    Returns
    -------
    list of Drawing
        One, or none where a value is no number, or there is one value alone.
    """
    x = pd.to_numeric(numbers["dataset"], errors="coerce")
    if x.isna().any() or x.nunique() < 2:
        return []
    measure = chooser(run, split_of(run, tasks(run)[0]))[1]
    shown = numbers.assign(x=x)[numbers["measure"] == measure].sort_values("x")
    shown = shown.dropna(subset=["ours"])
    figure = None
    if len(shown):
        title = subset_title(run, list(subsets(run))[-1])
        figure, (axes,) = panels_of([title], what, measure)
        styles = learner_styles(learners(run))
        for learner, own in shown.groupby("learner"):
            sd = own["sd"].fillna(0)
            points = own.assign(middle=own["ours"], low=own["ours"] - sd, high=own["ours"] + sd)
            draw_bars(axes, own["x"], points, styles[str(learner)])
        chance = shown.groupby("x")["chance"].mean()
        axes.plot(chance.index, chance, **CHANCE)
        others: dict[str, Artist] = {"chance": Line2D([], [], **CHANCE)}
        published = shown.dropna(subset=["published"])
        if len(published):
            axes.plot(published["x"], published["published"], zorder=5, **PUBLISHED)
            others["published"] = Line2D([], [], **PUBLISHED)
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=bool((shown["x"] % 1 == 0).all())))
        present = set(shown["learner"])
        entries = {marked(run, name): style for name, style in styles.items() if name in present}
        draw_legend(figure, entries, others)
    daggers = dagger_notes(run, learners(run))
    return [
        finish(
            "side_by_side",
            f"{measure[0].upper()}{measure[1:]} against {what}",
            figure,
            spread=f"mean ± standard deviation over {partitions_text(run)}",
            caption=" ".join(["Dashed grey: chance. The numbers are in the table.", *daggers]),
            without="no learner has a result on all partitions",
        )
    ]
