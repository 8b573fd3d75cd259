"""The lines of a comparison of two runs: one measure or cost of one learner, old against new.

`analysis.comparison` pairs the trials that a line is of.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from oasis_bench.analysis.statistics import (
    LEVEL,
    ROUNDING,
    holm,
    paired_interval,
    reach_of,
)

Verdict = Literal["worse", "better", "same", "not judged"]

RESULTS = "results"
COMPARED_COSTS = {
    "tuning_seconds": 1e-3,
    "fit_seconds": 1e-3,
    "fit_cpu_seconds": 1e-3,
    "seconds_per_query": 1e-5,
    "fit_peak_bytes": 2.0**20,
    "model_bytes": 2.0**10,
}
"""The smallest value, and the smallest difference, that counts.  1 ms is a tick of the scheduler,
which the queries of a trial share; 1 MiB is more than the error of the kernel's count of resident
pages, some hundred kilobytes."""


@dataclass(frozen=True)
class Line:
    """One measure or cost of one learner on one class subset, in both runs.

    Attributes
    ----------
    subset, learner : str
    task : str
        The task of a measure or of results; of a cost the split of its trials.
    measure : str
        'results' (trials that answered the task), one of COMPARED_COSTS, or a measure by its name.
    n : int
        Partitions behind it.
    old, new : float
        Number of results; means of measures; geometric means of costs.
    change : float
        NEW - OLD; of costs NEW / OLD.
    verdict : {'worse', 'better', 'same', 'not judged'}
        'same' is no proof that nothing changed: the interval says how large a change may be.
    reason : str
        The trials that were lost or gained, or why the line is not judged.
    low, high : float
        The 95 % interval of the change, as if it were the only line; NaN where there is none, as of
        changes that are equal.
    p_value : float
        Of no change, corrected for the number of lines: the verdict depends on it.  NaN where the
        line was not tested.
    """

    task: str
    measure: str
    n: int
    old: float
    new: float
    change: float
    verdict: Verdict
    subset: str = ""
    learner: str = ""
    reason: str = ""
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan


def cell_lines(
    pairs: pd.DataFrame, split: str, measures: Mapping[str, Sequence[str]], tolerance: float
) -> Iterator[Line]:
    """Compare a learner on one class subset: a row of `pairs` is a partition that both runs have.

    The p-values are those of each line alone, and the verdicts those without regard to chance:
    `corrected` corrects both.

    Parameters
    ----------
    pairs : DataFrame
        The columns of trials with the suffixes _old and _new; those of a measure and of a task's
        status have names from `column_of`.
    split : str
    measures : dict of str to sequence of str
        Names of measures by their task.
    tolerance : float
        Share by which costs may grow.
    """
    for task, names in measures.items():
        yield from _results_line(task, pairs)
        for name in names:
            yield from _line(task, name, column_of(task, name), pairs, tolerance)
    both = pairs[(pairs["status_old"] == "ok") & (pairs["status_new"] == "ok")]
    timed, doubt = _timed(both)
    for cost in COMPARED_COSTS:
        is_time = "seconds" in cost
        of_cost, reason = (timed, doubt) if is_time else (both, "")
        yield from _line(split, cost, cost, of_cost, tolerance, reason)


def column_of(task: str, name: str) -> str:
    """Name the column that holds a task's measure, or its status where `name` is 'results'."""
    return f"{task}: {name}"


def _timed(pairs: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the trials whose seconds are compared, and the reason where they are not judged."""
    doubt = ""
    if pairs[["shared_cores_old", "shared_cores_new"]].any(axis=None):
        doubt = "trials shared cores"
    elif not pairs["processor_old"].eq(pairs["processor_new"]).all():
        doubt = "not on one and the same processor, as far as is known"
    elif not pairs["threads_old"].eq(pairs["threads_new"]).all():
        doubt = "on different numbers of threads"
    is_noisy = pairs["noisy_old"] | pairs["noisy_new"]
    if (~is_noisy).sum() >= 2:
        return pairs[~is_noisy], doubt
    return pairs, doubt or ("fits waited for a core" if is_noisy.any() else "")


def _results_line(task: str, pairs: pd.DataFrame) -> Iterator[Line]:
    """Compare which trials answered a task: a lost one is worse, even where others were gained."""
    status = column_of(task, RESULTS)
    old, new = pairs[f"{status}_old"] == "ok", pairs[f"{status}_new"] == "ok"
    if (old == new).all():
        return
    lost, gained = pairs[old & ~new], pairs[~old & new]
    reasons = [
        f"partition {partition} {text}"
        for partition, text in zip(lost["partition"], lost[f"{status}_new"], strict=True)
    ]
    reasons += [
        f"partition {partition} was {text.partition(':')[0]}"
        for partition, text in zip(gained["partition"], gained[f"{status}_old"], strict=True)
    ]
    yield Line(
        task=task,
        measure=RESULTS,
        n=len(pairs),
        old=float(old.sum()),
        new=float(new.sum()),
        change=float(new.sum() - old.sum()),
        verdict="worse" if len(lost) else "better",
        reason="; ".join(reasons),
    )


def _line(
    task: str,
    measure: str,
    column: str,
    pairs: pd.DataFrame,
    tolerance: float,
    doubt: str = "",
) -> Iterator[Line]:
    """Compare a column over the partitions where both runs have it; no line where none has.

    `doubt` says why a difference is not judged.
    """
    values = pairs[[f"{column}_old", f"{column}_new"]].dropna().to_numpy(dtype=np.float64)
    if not len(values):
        return
    is_cost, reach = measure in COMPARED_COSTS, reach_of(values)
    if is_cost:
        reach = math.inf
        values = np.log(np.maximum(values, COMPARED_COSTS[measure]))
        n_train, n_test = 1, 0  # no overlap: the ordinary paired t-interval
    else:
        n_train, n_test = pairs[["n_train_old", "n_test_old"]].mean().round().astype(int)
    differences = values[:, 1] - values[:, 0]
    differences[abs(differences) <= ROUNDING] = 0  # from the order in which numbers are added
    interval = paired_interval(differences, n_train, n_test, reach=reach)
    numbers = [*values.mean(axis=0), interval.mean, interval.low, interval.high]
    old, new, change, low, high = (np.exp(numbers) if is_cost else np.array(numbers)).tolist()
    line = Line(
        task=task,
        measure=measure,
        n=len(values),
        old=old,
        new=new,
        change=change,
        low=low,
        high=high,
        p_value=interval.p_value,
        verdict="worse" if (new > old) == is_cost else "better",
    )
    is_large = abs(interval.mean) > np.log1p(tolerance) and abs(new - old) > COMPARED_COSTS.get(
        measure, 0
    )
    if not differences.any():
        line = replace(line, verdict="same", p_value=math.nan)
    elif doubt or len(differences) == 1:
        reason = doubt or "one partition has no interval"
        line = replace(line, verdict="not judged", reason=reason, p_value=math.nan)
    elif is_cost and not is_large:
        line = replace(line, verdict="same")
    elif math.isnan(interval.p_value) and measure != "model_bytes":  # a size is not of chance
        reason = "all partitions changed by the same, which leaves no test"
        line = replace(line, verdict="not judged", reason=reason)
    yield line


def corrected(lines: Sequence[Line]) -> list[Line]:
    """Correct the p-values for their number; a verdict that chance may explain becomes 'same'."""
    tested = [line.p_value for line in lines if not math.isnan(line.p_value)]
    p_values = iter(holm(tested).tolist())
    result = []
    for line in lines:
        if not math.isnan(line.p_value):
            line = replace(line, p_value=next(p_values))
            if line.p_value > LEVEL:
                line = replace(line, verdict="same")
        result.append(line)
    return result
