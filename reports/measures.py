"""The tables of a task's measures: means and spreads, differences, seen and unseen classes."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import pandas as pd

from oasis_bench.claims import published_figures
from oasis_bench.plugins import BASELINE
from oasis_bench.reports.table import (
    Cell,
    Column,
    Table,
    interval_text,
    number_text,
    numbers_as,
    p_text,
    plural,
)
from oasis_bench.reports.view import RunView, task_title
from oasis_bench.reports.words import WORDS, note, notes_where

CHANCE = "chance"
"""The name of the chance level in the column of learners."""

ABSTAINED = f" =\u00a0{BASELINE}"
"""Marks a mean of trials in which the learner has weight 0: all values are the baseline's."""

FILE_NAME_WIDTH = 60

PAIRS = 8
"""The pairs of classes that the table of confusion shows of a subset."""


def with_chance(numbers: pd.DataFrame) -> pd.DataFrame:
    """Add a row for each subset and measure of `RunView.numbers` with a chance, as of a learner.

    Its mean is the chance, over all partitions; it has no spread and is not compared.
    """
    rows = numbers.drop_duplicates(["subset", "name"]).dropna(subset="chance")
    rows = rows.assign(learner=CHANCE, mean=rows["chance"], sd=math.nan, n=rows["n_measured"])
    unknown = dict.fromkeys(("direct", "posterior", "as_learned", "blend"), math.nan)
    rows = rows.assign(**unknown, verdict="", bold=False)
    return pd.concat([numbers, rows], ignore_index=True) if len(rows) else numbers


def mean_texts(numbers: pd.DataFrame, first: str) -> list[str]:
    """Write mean ± standard deviation of each row of `RunView.numbers`; '-' without a result.

    The values of the `first` measure are marked if they are the baseline's.
    """
    columns = (numbers[name] for name in ("mean", "sd", "n", "blend", "name"))
    return [
        f"{mean:.3f} ± {number_text(sd, '{:.3f}')}" + ABSTAINED * (blend == 0 and name == first)
        if n
        else "-"
        for mean, sd, n, blend, name in zip(*columns, strict=True)
    ]


def measure_tables(view: RunView, task: str, which: str = "is_shown") -> list[Table]:
    """Make a table of mean ± standard deviation, and chance, for each subset.

    Learners down; across, the measures that a column of `measures` marks: the headlines, and the
    measures of the data that they are compared with.  Further columns have the first measure for
    each use and as learned, if the run has them.  Its CSV file has every measure.
    """
    return [
        _measure_table(view, task, str(subset), own, view.names(task, which))
        for subset, own in view.numbers[task].groupby("subset", sort=False)
    ]


def _measure_table(
    view: RunView, task: str, subset: str, numbers: pd.DataFrame, names: Sequence[str]
) -> Table:
    split, shown = view.split_of(task), numbers[numbers["name"].isin(names)]
    keys = zip(shown["name"], shown["learner"], strict=True)
    cells = dict(zip(keys, map(Cell, mean_texts(shown, names[0]), shown["bold"]), strict=True))
    for name, chance in shown.drop_duplicates("name")[["name", "chance"]].to_numpy():
        cells[name, CHANCE] = Cell(number_text(chance, "{:.3f}", missing="-"))
    heads = {
        name: Cell(view.marked(name), notes=view.shortfall(subset, name, split, task))
        for name in view.learners
    }
    heads[CHANCE] = Cell(CHANCE)
    of_first = shown[shown["name"] == names[0]].set_index("learner").reindex(list(heads))
    has_posterior = of_first["posterior"].notna().any()
    shows = {"direct": has_posterior, "posterior": has_posterior, "as_learned": view.is_blended}
    values = (Column(name, [cells[name, it] for it in heads]) for name in names)
    return Table(
        name=f"{task}_{file_name(subset)}",
        title=f"{task_title(task)}, {view.subset_title(subset)}: mean ± {view.spread_text(task)}",
        columns=[
            Column("Learner", heads.values(), align="l"),
            next(values),
            *(
                Column(name.replace("_", " "), of_first[name], numbers_as("{:.3f}", "-"))
                for name in shows
                if shows[name]
            ),
            *values,
        ],
        numbers=with_chance(numbers),
        notes=[
            *notes_where(
                {
                    "bold": shown["bold"].any(),
                    "untested": shown["verdict"].eq("untested").any(),
                    "uses": has_posterior,
                    "blend": view.is_blended,
                    "abstained": shown["blend"].eq(0).any(),
                },
                test=_test_text(view, task),
                measure=names[0],
                items=view.info.items,
            ),
            *_left_out(view, task, subset),
            *view.dagger_notes,
        ],
        of=view.facets(task, subset),
    )


def _test_text(view: RunView, task: str) -> str:
    """Name the test that tells who is worse than the best."""
    if view.split_of(task) in view.judged:
        return "jackknife over queries"
    return "paired t-test" if view.experiment.replicates else "corrected resampled paired t-test"


def _left_out(view: RunView, task: str, subset: str) -> Iterator[str]:
    """Say how many test items are not used as queries, if there are any."""
    answers = view.stored.answers
    answers = answers[(answers["task"] == task) & (answers["subset"] == subset)]
    answers = answers[answers["status"] == "ok"].drop_duplicates("partition")
    count = answers["n_left_out"].mean()
    if count > 0:
        n_test = view.sizes.loc[(subset, view.split_of(task)), "n_test"]
        yield note("left_out", n_test=n_test, items=view.info.items, n=count)


def file_name(subset: str) -> str:
    """Return a short name of plain characters for a subset's files; no two subsets share one."""
    plain = re.sub(r"[^\w+-]", "_", subset, flags=re.ASCII)[:FILE_NAME_WIDTH]
    digest = hashlib.sha256(subset.encode()).hexdigest()[:8]
    return plain if plain == subset else f"{plain}-{digest}"


def difference_tables(view: RunView, task: str, baseline: str | None = None) -> list[Table]:
    """Make a table for each subset with a comparison: a row for each learner but one.

    That one is the baseline or, without a baseline, the best.  It shows the first headline only;
    its CSV file has all.
    """
    numbers = _differences(view, task, baseline)
    if numbers.empty:
        return []
    shown = view.names(task)[0]
    return [
        _difference_table(view, task, str(subset), shown, own, baseline)
        for subset, own in numbers.groupby("subset", sort=False)
        if (own["measure"] == shown).any()
    ]


def _differences(view: RunView, task: str, baseline: str | None) -> pd.DataFrame:
    """Compute the columns of the CSV files, a row for each subset, measure and comparison.

    Of the best minus the learner, or of the learner minus the baseline: difference, low and high,
    the 95 % interval, and sd over the n shared partitions, or queries of judgements; p_value, and
    p_corrected for all comparisons of the subset and measure; detectable, the true difference that
    one comparison alone finds with probability 0.8.  What differences without spread lack is NaN,
    and a detectable difference that is larger than the measure's range.
    """
    found = view.comparisons[task] if baseline is None else view.compare(task, baseline)
    sign, other = (1, "best") if baseline is None else (-1, "baseline")
    rows = [
        {
            "subset": it.subset,
            "measure": it.name,
            other: it.best,
            "learner": learner,
            "n": own.n,
            "of": "partitions" if it.sizes is None else "queries",
            "difference": sign * own.mean,
            "low": min(sign * own.low, sign * own.high),
            "high": max(sign * own.low, sign * own.high),
            "sd": own.sd,
            "p_value": own.p_value,
            "p_corrected": it.p_values[learner],
            "verdict": it.verdicts[learner],
            "detectable": own.detectable,
        }
        for it in found
        for learner, own in it.differences.items()
    ]
    return pd.DataFrame(rows)


def _difference_table(
    view: RunView, task: str, subset: str, name: str, numbers: pd.DataFrame, baseline: str | None
) -> Table:
    shown = numbers[numbers["measure"] == name]
    other = baseline or str(shown["best"].iloc[0])
    what = f"{view.marked(other)}, the best, minus each other learner"
    if baseline is not None:
        what = f"each other learner minus {view.marked(other)}"
    verdicts = WORDS["verdicts"] | ({} if baseline is None else {"better": "better"})
    n_tested = int(shown["p_value"].count())
    return Table(
        name=f"differences_{task}_{file_name(subset)}",
        title=f"{name}: {what}, {view.subset_title(subset)}",
        columns=[
            Column("Learner", shown["learner"], view.marked, "l"),
            Column("Difference", shown["difference"], "{:z.3f}".format),
            Column("95 % interval", map(interval_text, shown["low"], shown["high"])),
            Column("p", shown["p_value"], p_text),
            Column("p, Holm", shown["p_corrected"], p_text),
            Column("Verdict", shown["verdict"], verdicts.__getitem__, "l"),
            Column("Detectable, power 0.8", shown["detectable"], numbers_as("{:.3f}", "none")),
        ],
        numbers=numbers,
        notes=notes_where(
            {
                "no_spread": shown["p_value"].isna().any(),
                "single": n_tested,
                "detectable": n_tested,
            },
            comparisons=plural(n_tested, "comparison"),
        ),
        of={**view.facets(task, subset), "Measure": name},
    )


def side_by_side(views: Mapping[str, RunView], what: str) -> Table:
    """Set the measure of tuning in several runs side by side, by their values of `what`."""
    numbers = pd.concat([_beside(name, view) for name, view in views.items()], ignore_index=True)
    return _beside_runs("side_by_side", numbers, what.capitalize())


def published_beside(view: RunView) -> list[Table]:
    """Make the table of published figures for the data of a run; nothing if there are none."""
    name = view.experiment.dataset_options.get("table", view.dataset_name)
    numbers = _beside(str(name), view)
    if numbers["published"].isna().all():
        return []
    return [_beside_runs("published", numbers, "Data set")]


def _beside(name: str, view: RunView) -> pd.DataFrame:
    """Return the means of each learner by the measure of tuning on the first task's split.

    Its columns: dataset (the name), measure, k, learner, ours and sd (NaN unless all partitions
    gave it), published (NaN where nothing is), difference, chance.
    """
    task, chosen = view.tuned_by[view.splits[0]]
    known: pd.DataFrame = view.measures[task]
    rows: pd.DataFrame = view.numbers[task]
    measure = known.loc[known["name"] == chosen, "measure"].iloc[0]
    rows = rows[(rows["measure"] == measure) & (rows["subset"] == list(view.subsets)[-1])]
    whole = rows["n"] == view.experiment.n_partitions
    rows = rows.assign(dataset=name, ours=rows["mean"].where(whole), sd=rows["sd"].where(whole))
    rows = rows.merge(published_figures(view.stored), on=["measure", "k", "learner"], how="left")
    rows["difference"] = rows["ours"] - rows["published"]
    columns = ["name", "k", "learner", "ours", "sd", "published", "difference", "chance"]
    return rows[["dataset", *columns]].rename(columns={"name": "measure"})


def _beside_runs(name: str, numbers: pd.DataFrame, what: str) -> Table:
    """Make a row for each run and measure, a column for each learner."""
    return table_beside(
        name,
        "Means over all partitions",
        {"dataset": what, "measure": "Measure"},
        numbers,
        "{:.4f}".format,
        notes_where({"not_measured": numbers["ours"].isna().any()}),
    )


def table_beside(
    name: str,
    title: str,
    keys: Mapping[str, str],
    numbers: pd.DataFrame,
    text: Callable[[float], str],
    notes: Sequence[str],
) -> Table:
    """Make a table of ours and (in brackets) the published: a column for each learner.

    `numbers` has the columns learner, ours and published, and `keys`, which name the rows, with
    their headers.
    """
    rows = numbers[list(keys)].drop_duplicates()
    order = pd.MultiIndex.from_frame(rows)

    def cells(own: pd.DataFrame) -> list[str]:
        pairs = own.set_index(list(keys))[["ours", "published"]].reindex(order)
        return [
            ("-" if pd.isna(ours) else text(ours))
            + ("" if pd.isna(published) else f" ({text(published)})")
            for ours, published in pairs.itertuples(index=False)
        ]

    return Table(
        name=name,
        title=title
        + " (in brackets: the published value)" * bool(numbers["published"].notna().any()),
        columns=[
            *(Column(header, rows[key], align="l") for key, header in keys.items()),
            *(Column(str(it), cells(own)) for it, own in numbers.groupby("learner", sort=False)),
        ],
        numbers=numbers,
        notes=notes,
    )


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


def confusion_tables(view: RunView, task: str) -> list[Table]:
    """Make the table of the pairs that the best learner of each subset confuses most.

    Its CSV file has the whole matrices of all learners.  There is none without a matrix.
    """
    shares = confusion_shares(view, task)
    if shares.empty:
        return []
    # Classes are predicted by the rule of the measure of tuning, where that is of the task.
    of_task, measure = view.tuned_by[view.split_of(task)]
    measure = measure if of_task == task else view.names(task)[0]
    values = view.values[task]
    means = values[values["name"] == measure].groupby(["subset", "learner"])["value"].mean()
    numbers, wrong = [], []
    for subset in view.subsets_of(view.split_of(task)):
        own = shares[shares["subset"] == subset]
        names = view.class_names(subset, view.split_of(task))
        own = own.assign(true_name=own["label"].map(names), name=own["predicted"].map(names))
        numbers.append(own)
        if subset in means:
            is_shown = (own["learner"] == means[subset].idxmax()) & (
                own["label"] != own["predicted"]
            )
            wrong.append(own[is_shown].nlargest(PAIRS, "share"))
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
            notes=[note("confusion", measure=measure)],
            of=view.facets(task),
        )
    ]
