"""The tables of a run's costs: tuning, fit, query, memory, and how fit time grows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import product

import pandas as pd

from oasis_bench.analysis import COSTS, LEAST_POINTS, fit_power_law, noisy, with_costs
from oasis_bench.reports.formatting import (
    interval_text,
    number_text,
    params_text,
    plural,
    seconds_text,
)
from oasis_bench.reports.run.facts import (
    by_subset_and_learner,
    class_noun,
    dagger_notes,
    finished,
    learners,
    marked,
    of_splits,
    shortfall,
    splits,
    subset_label,
    subsets,
    training_sizes,
)
from oasis_bench.reports.table import Cell, Table
from oasis_bench.runs import StoredRun

SECONDS = ["tuning_fit_seconds", "tuning_score_seconds", "query_seconds"]
"""What the CSV file has beside the costs that are made of these."""

SHARED_NOTE = "Other trials ran on the same cores: not comparable with times taken alone."
NOISY_NOTE = (
    "Noisy in {}: the fit waited for a core for more than 5 % of its time, as other programs ran."
)
PROCESSORS_NOTE = "Trials ran on different processors: their times do not compare with each other."

WIDE = 1.0
"""An interval of at least this width may hold both linear and quadratic growth."""

LEFT_OUT_NOTE = "Left out: {}, as the fit waited for a core for more than 5 % of its time."
KEPT_NOTE = (
    "Noisy: {}, as the fit waited for a core for more than 5 % of its time. Without them fewer "
    f"than {LEAST_POINTS} sizes are left, so they are kept."
)
SHARED_GROWTH_NOTE = (
    "From fits on shared cores: other trials ran on them at the same time, which may bend the "
    "growth."
)
WIDE_NOTE = (
    "Wide: the interval does not tell linear growth from quadratic. More sizes, further apart, "
    "narrow it."
)
NO_SPREAD_NOTE = "No interval: the medians lie on the line, as equal ones do."
METHOD_NOTE = (
    "Least squares of log(fit seconds) on log(training {items}), through the median over "
    "partitions of each size: partitions of one size share its classes, so they are no points of "
    "their own. "
    "The interval is Student's t with two degrees of freedom less than there are sizes. The time "
    "is that of the fit as it was chosen: how the number of steps grows is in it."
)


def cost_tables(run: StoredRun) -> list[Table]:
    """Make the table of the three costs and of memory for each split."""
    return [_cost_table(run, split) for split in splits(run)]


@lru_cache(maxsize=16)
def _cost_table(run: StoredRun, split: str) -> Table:
    rows: list[list[str | Cell]] = []
    numbers = []
    quantities = [*SECONDS, *COSTS, "n_steps"]
    trials = with_costs(finished(run, split))
    for subset, learner, own in by_subset_and_learner(run, trials):
        values = own[quantities]
        numbers.append(
            pd.DataFrame({"median": values.median(), "min": values.min(), "max": values.max()})
            .assign(n=values.count())
            .reset_index(names="quantity")
            .assign(subset=subset, n_classes=subsets(run)[subset], learner=learner)
        )
        notes = shortfall(run, subset, learner, split)
        if own["shared_cores"].any():
            notes += (SHARED_NOTE,)
        if count := int(noisy(own).sum()):
            notes += (NOISY_NOTE.format(f"{count} of {plural(len(own), 'partition')}"),)
        tuning, fit, *others = ["-"] * 8 if own.empty else _texts(own, values)
        first = (subset_label(run, subset), marked(run, learner), tuning)
        rows.append([*first, Cell(fit, notes=notes), *others])
    columns = ["subset", "n_classes", "learner", "quantity", "median", "min", "max", "n"]
    several_processors = run.trials["processor"].nunique() > 1
    of_split = "".join(of_splits(run, f", split {split}"))
    return Table(
        name="_".join(["costs", *of_splits(run, split)]),
        title="The three costs, tuning, fit and query, and memory: medians over partitions"
        + of_split,
        header=(
            *(class_noun(run).capitalize(), "Learner"),
            *("Tuning, s", "Fit, s [min – max]", "Fit, CPU s", "Query, ms"),
            *("Model, KiB", "Peak of fit, MiB", "Hyper-parameters", "Steps"),
        ),
        align="rlrrrrrrlr",
        rows=rows,
        numbers=pd.concat(numbers)[columns],
        notes=[PROCESSORS_NOTE] * several_processors + dagger_notes(run, learners(run)),
    )


def _texts(trials: pd.DataFrame, values: pd.DataFrame) -> list[str]:
    fit, median = values["fit_seconds"], values.median()
    (params, count), *others = Counter(trials["params"].map(params_text)).most_common()
    extent = f" [{seconds_text(fit.min())} – {seconds_text(fit.max())}]" if fit.any() else ""
    return [
        seconds_text(median["tuning_seconds"]),
        seconds_text(fit.median()) + extent,
        seconds_text(median["fit_cpu_seconds"]),
        seconds_text(1000 * median["seconds_per_query"]),
        number_text(median["model_bytes"] / 2**10, "{:,.1f}"),
        number_text(median["fit_peak_bytes"] / 2**20, "{:,.1f}"),
        f"{params} ({count} of {len(trials)})" if others else params,
        number_text(median["n_steps"], "{:,.0f}", missing="none"),
    ]


def scaling_tables(run: StoredRun) -> list[Table]:
    """Make the table of the exponents of fit time; none where no learner has three sizes."""
    rows: list[list[str | Cell]] = []
    numbers, every = [], finished(run)
    for split, learner in product(splits(run), learners(run)):
        own = every[(every["learner"] == learner) & (every["split"] == split)]
        trials, notes = _comparable_times(own)
        seconds = trials["fit_seconds"].astype(float).clip(lower=1e-9)
        medians = seconds.groupby(training_sizes(trials)).median()
        if len(medians) < LEAST_POINTS:
            continue
        growth = fit_power_law(medians.index.to_numpy(), medians.to_numpy())
        if growth.high - growth.low >= WIDE:
            notes.append(WIDE_NOTE)
        elif math.isnan(growth.low):
            notes.append(NO_SPREAD_NOTE)
        rows.append(
            [
                *of_splits(run, split),
                marked(run, learner),
                f"{growth.exponent:.2f}",
                Cell(interval_text(growth.low, growth.high, "{:.2f}"), notes=tuple(notes)),
                ", ".join(f"{size:,}" for size in medians.index),
            ]
        )
        numbers.append(
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
    items = run.info.items
    return [
        Table(
            name="scaling",
            title=f"Growth of fit time: exponent of the number of training {items}, and so of "
            "classes",
            header=(
                *of_splits(run, "Split"),
                *("Learner", "Exponent", "95 % interval", f"Training {items}"),
            ),
            align="l" * len(of_splits(run, "")) + "lrrl",
            rows=rows,
            numbers=pd.DataFrame(numbers),
            notes=[
                METHOD_NOTE.format(items=items),
                *_one_exponent(run),
                *dagger_notes(run, learners(run)),
            ],
        )
    ]


def _comparable_times(trials: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Leave noisy trials out where enough sizes remain; also return notes on the times."""
    notes, is_noisy = [], noisy(trials)
    if is_noisy.any():
        count = f"{is_noisy.sum()} of {plural(len(trials), 'trial')}"
        if training_sizes(trials[~is_noisy]).nunique() >= LEAST_POINTS:
            trials = trials[~is_noisy]
            notes.append(LEFT_OUT_NOTE.format(count))
        else:
            notes.append(KEPT_NOTE.format(count))
    if trials["shared_cores"].any():
        notes.append(SHARED_GROWTH_NOTE)
    return trials, notes


def _one_exponent(run: StoredRun) -> Iterator[str]:
    """Say that items and classes grow together within a run."""
    items = run.info.items
    a_class = (training_sizes(run.trials) / run.trials["n_classes"]).unique()
    if len(a_class) == 1:
        yield (
            f"Each class has {a_class[0]:g} training {items}, so {items} and classes grow "
            "together and have one exponent: this run cannot tell them apart."
        )
