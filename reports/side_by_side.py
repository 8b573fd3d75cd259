"""The learners of several runs side by side, a row for each run; published figures beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from oasis_bench.claims import published_figures
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
from oasis_bench.reports.formatting import number_text, plural
from oasis_bench.reports.table import Column, Table
from oasis_bench.reports.view import RunView

POINT = 0.01


@dataclass(frozen=True)
class SideBySide:
    """The table of several runs, its figure, and lines on what differs from published figures."""

    table: Table
    figures: Sequence[Drawing]
    lines: Sequence[str]

    @property
    def text(self) -> str:
        """The lines as plain text."""
        return "\n".join(self.lines)


def side_by_side(views: Mapping[str, RunView], what: str) -> SideBySide:
    """Set the measure that chooses in several runs side by side, by their values of `what`."""
    parts = [_numbers(name, view) for name, view in views.items()]
    numbers = pd.concat(parts, ignore_index=True)
    return SideBySide(
        _table("side_by_side", numbers, what.capitalize()),
        along_values(next(iter(views.values())), numbers, what),
        list(_differences(numbers)),
    )


def published_beside(view: RunView) -> list[Table]:
    """Make the table of a run's figures that were published for its data; none where none was."""
    name = view.experiment.dataset_options.get("table", view.dataset_name)
    numbers = _numbers(str(name), view)
    if numbers["published"].isna().all():
        return []
    return [_table("published", numbers, "Data set")]


def _numbers(name: str, view: RunView) -> pd.DataFrame:
    """Return the means of each learner by the measure that chose on the first task's split.

    Its columns: dataset (the name), measure, k, learner, ours and sd (NaN unless all partitions
    gave it), published (NaN where nothing is), difference, chance.
    """
    task, chosen = view.chooser[view.splits[0]]
    known, values = view.measures[task], view.values[task]
    measure = known.loc[known["name"] == chosen, "measure"].iloc[0]
    values = values[values["subset"] == list(view.subsets)[-1]]
    means = values.groupby(["name", "learner"]).agg(
        ours=("value", "mean"), sd=("value", "std"), n=("value", "count"), chance=("chance", "mean")
    )
    means = means[means["n"] == view.experiment.n_partitions].drop(columns="n")
    rows: pd.DataFrame = known[known["measure"] == measure].merge(
        pd.DataFrame({"learner": view.learners}), how="cross"
    )
    rows = rows.merge(means, on=["name", "learner"], how="left").assign(dataset=name)
    rows = rows.merge(published_figures(view.stored), on=["measure", "k", "learner"], how="left")
    rows["difference"] = rows["ours"] - rows["published"]
    columns = ["name", "k", "learner", "ours", "sd", "published", "difference", "chance"]
    return rows[["dataset", *columns]].rename(columns={"name": "measure"})


def _table(name: str, numbers: pd.DataFrame, what: str) -> Table:
    """Make a row for each run and measure, a column for each learner."""
    keys = ["dataset", "measure"]
    rows = numbers[keys].drop_duplicates()
    order = pd.MultiIndex.from_frame(rows)
    of_learners = {
        learner: own.set_index(keys)[["ours", "published"]].reindex(order)
        for learner, own in numbers.groupby("learner", sort=False)
    }
    return Table(
        name=name,
        title="Means over all partitions"
        + " (in brackets: what was published)" * bool(numbers["published"].notna().any()),
        columns=[
            Column(what, rows["dataset"], align="l"),
            Column("Measure", rows["measure"], align="l"),
            *(
                Column(str(learner), map(_beside, own["ours"], own["published"]))
                for learner, own in of_learners.items()
            ),
        ],
        numbers=numbers,
        notes=["'-': not measured on all partitions."] * bool(numbers["ours"].isna().any()),
    )


def _beside(ours: float, published: float) -> str:
    text = number_text(ours, "{:.4f}", missing="-")
    return text if pd.isna(published) else f"{text} ({published:.4f})"


def _differences(numbers: pd.DataFrame) -> Iterator[str]:
    """Say for each learner how far its figures are from the published ones."""
    beside = numbers.dropna(subset=["difference"])
    for learner, own in beside.groupby("learner", sort=False):
        far = int((own["difference"].abs() > POINT).sum())
        most = own.sort_values("difference", key=abs).iloc[-1]
        yield (
            f"{learner}: {far} of {plural(len(own), 'published figure')} differ by more than a "
            f"point; mean difference {100 * own['difference'].mean():+.1f} points, largest "
            f"{100 * most['difference']:+.1f} ({most['dataset']}, {most['measure']})"
        )


@mpl.rc_context(STYLE)
def along_values(view: RunView, numbers: pd.DataFrame, what: str) -> list[Drawing]:
    """Draw the measure that chose along the values of the runs, where these are numbers.

    `view` is one of the runs: they differ in the value of `what` alone.  There is no figure where a
    value is no number, or there is one value alone.
    """
    x = pd.to_numeric(numbers["dataset"], errors="coerce")
    if x.isna().any() or x.nunique() < 2:
        return []
    measure = view.chooser[view.splits[0]][1]
    shown = numbers.assign(x=x)[numbers["measure"] == measure].sort_values("x")
    daggers = view.dagger_notes(view.learners)
    return [
        finish(
            "side_by_side",
            f"{measure[0].upper()}{measure[1:]} against {what}",
            _draw_along(view, shown.dropna(subset=["ours"]), what, measure),
            spread=f"mean ± standard deviation over {view.partitions_text}",
            caption=" ".join(["Dashed grey: chance. The numbers are in the table.", *daggers]),
            without="no learner has a result on all partitions",
        )
    ]


def _draw_along(view: RunView, shown: pd.DataFrame, what: str, measure: str) -> Figure | None:
    """Draw a line for each learner along the column x."""
    if shown.empty:
        return None
    title = view.subset_title(list(view.subsets)[-1])
    figure, (axes,) = panels_of([title], what, measure)
    styles = learner_styles(view.learners)
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
    entries = {view.marked(name): style for name, style in styles.items() if name in present}
    draw_legend(figure, entries, others)
    return figure
