"""What a run measured: its tasks' measures by name, the costs of its trials, noisy timings."""

from __future__ import annotations

import math
from functools import lru_cache

import pandas as pd

from oasis_bench.runs import StoredRun

COSTS = (
    "tuning_seconds",
    "fit_seconds",
    "fit_cpu_seconds",
    "fit_waiting_seconds",
    "seconds_per_query",
    "fit_peak_bytes",
    "model_bytes",
)

NOISY_SHARE, NOISY_SECONDS = 0.05, 0.010
"""A fit's time is noisy where its threads waited for a core for longer than both: this share of its
wall time, and these seconds.  A single time slice of another process is shorter."""

SHOWN_AT = {"precision": (1, 10, 50), "recall": (8,), "mean recognition": (1,)}
"""The k of a measure that a table of headlines shows; all of them for other measures.

Recall at 1 is precision at 1."""

COMPARED_AT = {
    "mAP": (0,),
    "precision": (1, 10),
    "accuracy": (1,),
    "mean recognition": (1,),
    "similarity precision": (0,),
    "agreement": (0,),
    "ROC AUC": (0,),
    "1 - equal error rate": (0,),
}
"""What a comparison or a line on the terminal holds: measures and their k, 0 without one."""


def measure_name(measure: str, k: float | None) -> str:
    """Name a measure in words, such as 'precision at 10' or 'accuracy, k = 3'."""
    if pd.isna(k):
        return measure
    if measure.endswith(" K"):
        return f"{measure[:-1]}{k:.0f}"
    return (
        f"{measure} at {k:.0f}" if measure in ("precision", "recall") else f"{measure}, k = {k:.0f}"
    )


def option_name(measure: str, k: float | None) -> str:
    """Name a measure as the options of the command line do: 'mAP', 'accuracy@3'."""
    return measure if pd.isna(k) else f"{measure}@{k:.0f}"


def task_measures(run: StoredRun, task: str) -> pd.DataFrame:
    """Return the rows of `run.measures` of a task, with a column `name` from `measure_name`."""
    rows = run.measures[run.measures["task"] == task]
    return rows.merge(measures_of(run, task), on=["measure", "k"], how="left")


@lru_cache(maxsize=16)
def measures_of(run: StoredRun, task: str) -> pd.DataFrame:
    """Return the measures that a run has of a task, in order: measure, k, name and option.

    They are those that the task has, without k, where the run has no value of any.
    """
    measures = list(run.info.sources.tasks[task].measures)
    rows = run.measures.loc[run.measures["task"] == task, ["measure", "k"]].drop_duplicates()
    if rows.empty:
        rows = pd.DataFrame({"measure": measures, "k": math.nan})
    order = {name: place for place, name in enumerate(measures)}
    rows = rows.assign(place=rows["measure"].map(order)).sort_values(["place", "measure", "k"])
    pairs = list(zip(rows["measure"], rows["k"], strict=True))
    return rows[["measure", "k"]].assign(
        name=[measure_name(*pair) for pair in pairs], option=[option_name(*pair) for pair in pairs]
    )


def group_means(
    run: StoredRun, task: str, subset: str, name: str
) -> tuple[pd.DataFrame, pd.Series[float]] | None:
    """Return the means of groups of judgements (n_groups, n_learners), and their judgements.

    The rows are by partition and group; None where the measure has no groups.
    """
    rows = run.groups[(run.groups["task"] == task) & (run.groups["subset"] == subset)]
    rows = rows.merge(measures_of(run, task), on=["measure", "k"], how="left")
    rows = rows[rows["name"] == name]
    if rows.empty:
        return None
    rows = rows.assign(mean=rows["value"] / rows["n"])
    where = ["partition", "cluster"]
    sizes = rows.drop_duplicates(where).set_index(where)["n"].astype(float)
    means = rows.pivot(index=where, columns="learner", values="mean")
    return means, sizes[means.index]


def headlines(run: StoredRun, task: str) -> list[str]:
    """Name the measures of learners that tables of a task show."""
    known, of_data = measures_of(run, task), run.info.sources.tasks[task].of_data
    return [
        name
        for measure, k, name in zip(known["measure"], known["k"], known["name"], strict=True)
        if measure not in of_data and (measure not in SHOWN_AT or k in SHOWN_AT[measure])
    ]


def shown_in_text(run: StoredRun, task: str) -> list[str]:
    """Name the headlines of a task, and the measures of the data that they are compared with."""
    known, first = measures_of(run, task), headlines(run, task)
    of_data = run.info.sources.tasks[task].of_data
    return [
        name
        for measure, name in zip(known["measure"], known["name"], strict=True)
        if name in first or measure in of_data
    ]


def used_by_compare(run: StoredRun, task: str) -> list[str]:
    """Name the measures by which runs are compared on a task; the first where no other is."""
    known = measures_of(run, task)
    k = known["k"].fillna(0)
    chosen = [k in COMPARED_AT.get(name, ()) for name, k in zip(known["measure"], k, strict=True)]
    return known.loc[chosen, "name"].tolist() or headlines(run, task)[:1]


def with_costs(trials: pd.DataFrame) -> pd.DataFrame:
    """Return trials with each of `COSTS`, NaN where it is not known, and `noisy`.

    tuning_seconds is what the inner folds took, learning and validation, as if one had followed the
    other; seconds_per_query what embedding and scoring took, over the number of queries; noisy says
    whether other programs used the cores during the fit.
    """
    waiting = trials["fit_waiting_seconds"]  # NaN where not measurable
    return trials.assign(
        tuning_seconds=trials["tuning_fit_seconds"] + trials["tuning_score_seconds"],
        seconds_per_query=trials["query_seconds"] / trials["n_timed_queries"],
        noisy=(waiting > NOISY_SHARE * trials["fit_seconds"]) & (waiting > NOISY_SECONDS),
    )
