"""A run's table of how fit time grows with the images and the classes; not its figure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from oasis_bench.analysis.noise import noisy
from oasis_bench.analysis.statistics import PowerLaw, fit_power_law
from oasis_bench.reports.reading import finished, learners
from oasis_bench.reports.tables import Cell, Notes, Table
from oasis_bench.reports.text import plural
from oasis_bench.store.run_file import RunRecord

LEAST_SIZES = 3
WIDE = 1.0
"""Width of an interval from which on it may hold both linear and quadratic growth."""

LEFT_OUT_NOTE = "Left out: {}, as the fit waited for a core for more than 5 % of its time."
KEPT_NOTE = (
    "Noisy: {}, as the fit waited for a core for more than 5 % of its time. Without them fewer "
    f"than {LEAST_SIZES} sizes are left, so they are kept."
)
SHARED_NOTE = (
    "From fits on shared cores: other trials ran on them at the same time, which may bend the "
    "growth."
)

METHOD = (
    "Least squares of log(fit seconds) on log(training images), through the median over partitions "
    "of each size: partitions of one size share its classes, so they are no points of their own. "
    "The interval is Student's t with two degrees of freedom less than there are sizes. The time "
    "is that of the fit as it was chosen: how the number of steps grows is in it."
)


def scaling_tables(run: RunRecord) -> list[Table]:
    """Make the table of the exponents of fit time; none where no learner has three sizes."""
    notes, rows, numbers = Notes(), [], []
    for learner, medians, growth, of_timings in _growths(run):
        marks = notes.mark(*of_timings, *_caveats(growth))
        rows.append(
            [
                Cell(learner),
                Cell(f"{growth.exponent:.2f}"),
                Cell(f"{growth.low:.2f} to {growth.high:.2f}", marks=marks),
                Cell(", ".join(f"{size:,}" for size in medians.index)),
            ]
        )
        numbers.append(_row(learner, medians, growth))
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
            notes=notes.all(METHOD, *_one_exponent(run)),
            numbers=pd.DataFrame(numbers),
        )
    ]


def _growths(run: RunRecord) -> Iterator[tuple[str, pd.Series[float], PowerLaw, list[str]]]:
    """Go over learners with enough sizes.

    Yields the learner, its median seconds by training images, their fit, and what is to be told of
    the timings behind it.
    """
    trials = finished(run)
    for learner in learners(run):
        timed, told = _timed(trials[trials["learner"] == learner])
        seconds = timed["fit_seconds"].astype(float).clip(lower=1e-9)
        medians = seconds.groupby(timed["n_train"]).median()
        if len(medians) >= LEAST_SIZES:
            growth = fit_power_law(medians.index.to_numpy(), medians.to_numpy())
            yield learner, medians, growth, told


def _timed(trials: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Leave noisy trials out where enough sizes remain; return what to tell of it too."""
    told, is_noisy = [], noisy(trials)
    if is_noisy.any():
        count = f"{is_noisy.sum()} of {plural(len(trials), 'trial')}"
        if trials.loc[~is_noisy, "n_train"].nunique() >= LEAST_SIZES:
            trials = trials[~is_noisy]
            told.append(LEFT_OUT_NOTE.format(count))
        else:
            told.append(KEPT_NOTE.format(count))
    if trials["shared_cores"].any():
        told.append(SHARED_NOTE)
    return trials, told


def _caveats(growth: PowerLaw) -> Iterator[str]:
    if growth.high - growth.low >= WIDE:
        yield (
            "Wide: the interval does not tell linear growth from quadratic. More sizes, further "
            "apart, narrow it."
        )


def _one_exponent(run: RunRecord) -> Iterator[str]:
    """Say that images and classes grow together within a run."""
    a_class = (run.trials["n_train"] / run.trials["n_classes"]).unique()
    if len(a_class) == 1:
        yield (
            f"Each class has {a_class[0]:g} training images, so images and classes grow together "
            "and have one exponent: this run cannot tell them apart."
        )


def _row(learner: str, medians: pd.Series[float], growth: PowerLaw) -> dict[str, Any]:
    return {
        "learner": learner,
        "exponent": growth.exponent,
        "low": growth.low,
        "high": growth.high,
        "factor": growth.factor,
        "n_sizes": growth.n,
        "smallest": medians.index.min(),
        "largest": medians.index.max(),
    }
