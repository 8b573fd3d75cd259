"""The tables of a run's times: run time and memory, and how fit time grows with the images."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from oasis_bench.analysis.noise import noisy
from oasis_bench.analysis.statistics import LEAST_POINTS, fit_power_law
from oasis_bench.reports.formatting import number_text, params_text, plural, seconds_text
from oasis_bench.reports.run.facts import (
    by_subset_and_learner,
    class_noun,
    finished,
    learners,
    shortfall,
    subset_label,
    subsets,
)
from oasis_bench.reports.table import Cell, Table
from oasis_bench.store.run_file import RunRecord

TIMINGS = [
    "fit_seconds",
    "fit_cpu_seconds",
    "fit_waiting_seconds",
    "fit_peak_bytes",
    "n_steps",
    "selection_fit_seconds",
    "selection_score_seconds",
]
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
METHOD_NOTE = (
    "Least squares of log(fit seconds) on log(training images), through the median over partitions "
    "of each size: partitions of one size share its classes, so they are no points of their own. "
    "The interval is Student's t with two degrees of freedom less than there are sizes. The time "
    "is that of the fit as it was chosen: how the number of steps grows is in it."
)


def runtime_table(run: RunRecord) -> Table:
    """Make the table of seconds, memory and choices: a row for each subset and learner."""
    rows: list[list[str | Cell]] = []
    numbers = []
    for subset, learner, own in by_subset_and_learner(run, finished(run)):
        values = own[TIMINGS].apply(pd.to_numeric)
        numbers.append(
            pd.DataFrame({"median": values.median(), "min": values.min(), "max": values.max()})
            .assign(n=values.count())
            .reset_index(names="quantity")
            .assign(subset=subset, n_classes=subsets(run)[subset], learner=learner)
        )
        notes = shortfall(run, subset, learner)
        if own["shared_cores"].any():
            notes += (SHARED_NOTE,)
        if count := int(noisy(own).sum()):
            notes += (NOISY_NOTE.format(f"{count} of {plural(len(own), 'partition')}"),)
        seconds, *others = ["-"] * 7 if own.empty else _runtime_texts(own, values)
        rows.append([subset_label(run, subset), learner, Cell(seconds, notes=notes), *others])
    columns = ["subset", "n_classes", "learner", "quantity", "median", "min", "max", "n"]
    return Table(
        name="runtime",
        title="Run time of the final fit and of the choice before it: medians over partitions",
        header=(
            *(class_noun(run).capitalize(), "Learner", "Fit, s [min – max]", "CPU, s"),
            *("Peak, MiB", "Hyper-parameters", "Steps"),
            *("Choice: learning, s", "Choice: validation, s"),
        ),
        align="rlrrrlrrr",
        rows=rows,
        numbers=pd.concat(numbers)[columns],
        notes=[PROCESSORS_NOTE] if run.trials["processor"].nunique() > 1 else [],
    )


def _runtime_texts(trials: pd.DataFrame, values: pd.DataFrame) -> list[str]:
    fit, median = values["fit_seconds"], values.median()
    (params, count), *others = Counter(trials["params"].map(params_text)).most_common()
    return [
        f"{seconds_text(fit.median())} [{seconds_text(fit.min())} – {seconds_text(fit.max())}]",
        seconds_text(median["fit_cpu_seconds"]),
        number_text(median["fit_peak_bytes"] / 2**20, "{:,.1f}"),
        f"{params} ({count} of {len(trials)})" if others else params,
        number_text(median["n_steps"], "{:,.0f}", missing="none"),
        seconds_text(median["selection_fit_seconds"]),
        seconds_text(median["selection_score_seconds"]),
    ]


def scaling_tables(run: RunRecord) -> list[Table]:
    """Make the table of the exponents of fit time; none where no learner has three sizes."""
    rows: list[list[str | Cell]] = []
    numbers, every = [], finished(run)
    for learner in learners(run):
        trials, notes = _comparable_times(every[every["learner"] == learner])
        seconds = trials["fit_seconds"].astype(float).clip(lower=1e-9)
        medians = seconds.groupby(trials["n_train"]).median()
        if len(medians) < LEAST_POINTS:
            continue
        growth = fit_power_law(medians.index.to_numpy(), medians.to_numpy())
        if growth.high - growth.low >= WIDE:
            notes.append(WIDE_NOTE)
        rows.append(
            [
                learner,
                f"{growth.exponent:.2f}",
                Cell(f"{growth.low:.2f} to {growth.high:.2f}", notes=tuple(notes)),
                ", ".join(f"{size:,}" for size in medians.index),
            ]
        )
        numbers.append(
            {
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
    return [
        Table(
            name="scaling",
            title="Growth of fit time: exponent of the number of training images, and so of "
            "classes",
            header=("Learner", "Exponent", "95 % interval", "Training images"),
            align="lrrl",
            rows=rows,
            numbers=pd.DataFrame(numbers),
            notes=[METHOD_NOTE, *_one_exponent(run)],
        )
    ]


def _comparable_times(trials: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Leave noisy trials out where enough sizes remain; also return notes on the times."""
    notes, is_noisy = [], noisy(trials)
    if is_noisy.any():
        count = f"{is_noisy.sum()} of {plural(len(trials), 'trial')}"
        if trials.loc[~is_noisy, "n_train"].nunique() >= LEAST_POINTS:
            trials = trials[~is_noisy]
            notes.append(LEFT_OUT_NOTE.format(count))
        else:
            notes.append(KEPT_NOTE.format(count))
    if trials["shared_cores"].any():
        notes.append(SHARED_GROWTH_NOTE)
    return trials, notes


def _one_exponent(run: RunRecord) -> Iterator[str]:
    """Say that images and classes grow together within a run."""
    a_class = (run.trials["n_train"] / run.trials["n_classes"]).unique()
    if len(a_class) == 1:
        yield (
            f"Each class has {a_class[0]:g} training images, so images and classes grow together "
            "and have one exponent: this run cannot tell them apart."
        )
