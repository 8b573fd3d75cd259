"""The tables of a run's costs: tuning, fit, query, memory, and how fit time grows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pandas as pd

from oasis_bench.analysis import LEAST_POINTS, PowerLaw, fit_power_law
from oasis_bench.reports.formatting import (
    interval_text,
    numbers_as,
    params_text,
    plural,
    seconds_text,
)
from oasis_bench.reports.table import Cell, Column, Table
from oasis_bench.reports.view import RunView

SHARED_NOTE = "Other trials ran on the same cores: not comparable with times taken alone."
NOISY_NOTE = (
    "Noisy in {}: the fit waited for a core for more than 5 % of its time, as other programs ran."
)
PROCESSORS_NOTE = "Trials ran on different processors: their times do not compare with each other."

WITHHELD = 2.0
"""An exponent with a wider interval says nothing of growth."""

LEFT_OUT_NOTE = "Left out: {}, as the fit waited for a core for more than 5 % of its time."
SHARED_GROWTH_NOTE = (
    "From fits on shared cores: other trials ran on them at the same time, which may bend the "
    "growth."
)
WITHHELD_NOTE = (
    f"Withheld: the interval of the exponent is wider than {WITHHELD:g}. More sizes, further "
    "apart, narrow it."
)
METHOD_NOTE = (
    "Least squares of log(fit seconds) on log(training {items}), through the median over "
    "partitions of each size: partitions of one size share its classes, so they are no points of "
    "their own. "
    "The interval is Student's t with two degrees of freedom less than there are sizes. The time "
    "is that of the fit as it was chosen: how the number of steps grows is in it."
)


def cost_tables(view: RunView) -> list[Table]:
    """Make the table of the three costs and of memory for each split."""
    return [_cost_table(view, split) for split in view.splits]


def _cost_table(view: RunView, split: str) -> Table:
    cells = list(view.by_subset_and_learner(view.finished_on(split), split))
    keys, trials = ["subset", "learner"], [own for *_, own in cells]
    rows = pd.DataFrame([where for *where, _ in cells], columns=keys)
    numbers = view.costs[split]
    medians = numbers.set_index([*keys, "quantity"])["median"].unstack()
    medians = medians.loc[list(rows.itertuples(index=False, name=None))]

    def column(header: str, values: Any, text: Any = str, align: str = "r") -> Column:
        shown = [it if len(own) else Cell("-") for it, own in zip(values, trials, strict=True)]
        return Column(header, shown, text, align)

    several_processors = view.trials["processor"].nunique() > 1
    return Table(
        name="_".join(["costs", *view.of_splits(split)]),
        title="The three costs, tuning, fit and query, and memory: medians over partitions"
        + "".join(view.of_splits(f", split {split}")),
        columns=[
            view.subset_column(rows),
            view.learner_column(rows),
            column("Tuning, s", medians["tuning_seconds"], seconds_text),
            Column("Fit, s [min – max]", (_fit_cell(view, split, *cell) for cell in cells)),
            column("Fit, CPU s", medians["fit_cpu_seconds"], seconds_text),
            column("Query, ms", 1000 * medians["seconds_per_query"], seconds_text),
            column("Model, KiB", medians["model_bytes"] / 2**10, numbers_as("{:,.1f}")),
            column("Peak of fit, MiB", medians["fit_peak_bytes"] / 2**20, numbers_as("{:,.1f}")),
            column("Hyper-parameters", map(_most_chosen, trials), align="l"),
            column("Steps", medians["n_steps"], numbers_as("{:,.0f}", "none")),
        ],
        numbers=numbers,
        notes=[PROCESSORS_NOTE] * several_processors,
    )


def _fit_cell(view: RunView, split: str, subset: str, learner: str, trials: pd.DataFrame) -> Cell:
    """Write the median of fit times with their range, and why some lack or do not compare."""
    notes = view.shortfall(subset, learner, split)
    if trials["shared_cores"].any():
        notes += (SHARED_NOTE,)
    if count := int(trials["noisy"].sum()):
        notes += (NOISY_NOTE.format(f"{count} of {plural(len(trials), 'partition')}"),)
    if trials.empty:
        return Cell("-", notes=notes)
    fit = trials["fit_seconds"]
    extent = f" [{seconds_text(fit.min())} – {seconds_text(fit.max())}]" if fit.any() else ""
    return Cell(seconds_text(fit.median()) + extent, notes=notes)


def _most_chosen(trials: pd.DataFrame) -> str:
    """Write the hyper-parameters that most partitions chose, and how many where not all did."""
    (params, count), *others = Counter(trials["params"].map(params_text)).most_common() or [("", 0)]
    return f"{params} ({count} of {len(trials)})" if others else params


def scaling_tables(view: RunView) -> list[Table]:
    """Make the table of the exponents of fit time; none where no learner has three sizes.

    An exponent whose medians lie on the line has no interval.
    """
    rows: list[dict[str, Any]] = []
    intervals: list[Cell] = []
    sizes: list[str] = []
    for split, learner in product(view.splits, view.learners):
        own = view.finished_on(split)
        trials, notes = _comparable_times(own[own["learner"] == learner])
        seconds = trials["fit_seconds"].astype(float).clip(lower=1e-9)
        medians = seconds.groupby(training_sizes(trials)).median()
        if len(medians) < LEAST_POINTS:
            continue
        growth = fit_power_law(medians.index.to_numpy(), medians.to_numpy())
        if growth.high - growth.low > WITHHELD:
            notes.append(WITHHELD_NOTE)
            growth = PowerLaw(math.nan, math.nan, math.nan, math.nan, growth.n)
        intervals.append(Cell(interval_text(growth.low, growth.high, "{:.2f}"), notes=tuple(notes)))
        sizes.append(", ".join(f"{size:,}" for size in medians.index))
        rows.append(
            {
                "split": split,
                "learner": learner,
                "exponent": growth.exponent,
                "low": growth.low,
                "high": growth.high,
                "factor": growth.factor,
                "n_sizes": growth.n,
                "smallest": medians.index.min(),
                "largest": medians.index.max(),
            }
        )
    if not rows:
        return []
    numbers, items = pd.DataFrame(rows), view.info.items
    return [
        Table(
            name="scaling",
            title=f"Growth of fit time: exponent of the number of training {items}, and so of "
            "classes",
            columns=[
                *view.split_columns(numbers),
                view.learner_column(numbers),
                Column("Exponent", numbers["exponent"], numbers_as("{:.2f}", "withheld")),
                Column("95 % interval", intervals),
                Column(f"Training {items}", sizes, align="l"),
            ],
            numbers=numbers,
            notes=[
                METHOD_NOTE.format(items=items),
                *_one_exponent(view),
            ],
        )
    ]


def training_sizes(trials: pd.DataFrame) -> pd.Series[int]:
    """Return for each trial the training items of its subset's partitions: the mean, rounded."""
    means = trials.groupby(["split", "subset"])["n_train"].transform("mean")
    return means.round().astype(int)


def _comparable_times(trials: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Leave noisy trials out; also return notes on the times."""
    notes, is_noisy = [], trials["noisy"]
    if is_noisy.any():
        count = f"{is_noisy.sum()} of {plural(len(trials), 'trial')}"
        trials = trials[~is_noisy]
        notes.append(LEFT_OUT_NOTE.format(count))
    if trials["shared_cores"].any():
        notes.append(SHARED_GROWTH_NOTE)
    return trials, notes


def _one_exponent(view: RunView) -> Iterator[str]:
    """Say that items and classes grow together within a run."""
    items = view.info.items
    per_class = (training_sizes(view.trials) / view.trials["n_classes"]).unique()
    if len(per_class) == 1:
        yield (
            f"Each class has {per_class[0]:g} training {items}, so {items} and classes grow "
            "together and have one exponent: this run cannot tell them apart."
        )
