"""Compares two runs, trial by trial: changes for the better or worse beyond noise.

`oasis_bench.reports` shows the comparison.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from oasis_bench.analysis.measurements import RunAnalysis
from oasis_bench.analysis.statistics import (
    LEAST_CLUSTERS,
    LEAST_SETS,
    LEVEL,
    ROUNDING,
    PairedInterval,
    effective_groups,
    holm,
    reach_of,
)
from oasis_bench.experiment import TrialSpec, cell_name
from oasis_bench.runs import StoredRun
from oasis_bench.tasks import Split

MUST_AGREE = ("algorithm", "data", "seed", "classes", "replicates", "sizes", "scaling")
"""Keys that must be equal in both runs, so that a partition has the same items in both."""

NAMES = {
    **TrialSpec.IDENTITY_IN_WORDS,
    "sizes": "the numbers of training and test items",
    "scaling": "the scaling of rows",
}
WITHOUT_VALUES = ("classes", "source", "code")
"""Lists too long to show, and hashes."""

RESULTS = "results"
COMPARED_COSTS = {
    "tuning_seconds": 1e-3,
    "fit_seconds": 1e-3,
    "fit_cpu_seconds": 1e-3,
    "seconds_per_query": 1e-5,
    "fit_peak_bytes": 2.0**20,
    "model_bytes": 2.0**10,
}
"""Smallest values and differences that count.  1 ms is a tick of the scheduler, which the queries
of a trial share.  1 MiB is more than the error of the kernel's count of resident pages, some
hundred kilobytes."""


class Line(NamedTuple):
    """A row of the comparison, for a learner on a class subset; `compare_runs` describes it."""

    task: str
    measure: str
    kind: str
    n: int
    old: float
    new: float
    change: float
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan
    verdict: str = "same"
    reason: str = ""


def compare_runs(
    old: StoredRun, new: StoredRun, tolerance: float = 0.1
) -> tuple[pd.DataFrame, list[str]]:
    """Compare the trials that two runs have in common: a learner's label, on the same items.

    Return a row for each measure or cost of a learner on a class subset, as in `Line`, and notes
    on differences and on parts that could not be compared.  `kind` is 'results' (the number of
    trials with a result), 'measure' or 'cost'; for a cost, `task` is the split of its trials.  `n`
    counts partitions, or groups of judgements.  old and new are numbers of results, means of a
    measure, or geometric means of a cost; change is NEW - OLD, or NEW / OLD for a cost.  low and
    high are the 95 % interval of the change, as if it were the only row.  p_value is corrected for
    the number of rows; it is NaN without a test.  verdict is 'worse', 'better', 'same' or 'not
    judged'; 'same' is no proof: the interval shows how large a change may be.  reason names lost or
    gained trials, or says why the row is not judged.

    Measures use the paired interval of NEW - OLD, corrected for the items that partitions share
    (see `analysis.statistics`); with judgements, they use the jackknife over groups.

    Costs (seconds, bytes) use the ordinary paired t-interval of log(NEW / OLD), because the items
    of a partition hardly change the cost of a fit.  It covers variation between fits, but not
    between two sessions on one machine, such as its temperature.  So 'worse' and 'better' must also
    exceed `tolerance` and the difference in COMPARED_COSTS.  Seconds leave out noisy trials.  They
    are not judged if fewer than two other trials are left, if a trial shared its cores, or if
    threads or processor differ or are not known.

    A trial that has lost its result is worse.  Equal values are the same on any number of
    partitions.  Different values have no interval, and are not judged, on a single partition, or
    if they changed equally on all partitions.  The size of a model is an exception: if it changed
    equally on several partitions, `tolerance` alone decides.

    All other rows are tested at level 0.05.  `holm` corrects for all rows, also those within
    `tolerance`, because the exit status of `compare` is one claim about all of them.  If nothing
    changed, at most 1 comparison in 20 finds a change.

    A `tolerance` of 0.1 lets costs grow by a tenth.
    """
    asked, asked_of_new = old.info.sources.tasks, new.info.sources.tasks
    both = RunAnalysis(old), RunAnalysis(new)
    names = {}
    for task in (it for it in asked if it in asked_of_new):
        of_runs = [run.names(task, "is_compared") for run in both]
        names[task] = [name for name in of_runs[0] if name in of_runs[1]]
    before, after = (_with_measures(run, names) for run in both)
    lines: list[tuple[Any, ...]] = []
    left_out, differing = defaultdict(list), defaultdict(list)
    keys = ["subset", "learner", "split"]
    for key in pd.concat([before, after])[keys].drop_duplicates().itertuples(index=False):
        of_old, of_new = (
            trials[(trials[keys] == list(key)).all(axis="columns")] for trials in (before, after)
        )
        subset, learner, split = map(str, key)
        in_words = "" if split == Split.USUAL else f" ({split})"
        cell = f"{learner} on classes {subset}{in_words}"
        if not of_old.empty and not of_new.empty:
            differences = _differences(old, new, cell_name(learner, subset, split))
            if decisive := [text for key, text in differences.items() if key in MUST_AGREE]:
                reason = f"not compared, as OLD and NEW differ in {', '.join(decisive)}"
                left_out[reason].append(cell)
                continue
            for text in differences.values():
                differing[f"OLD and NEW differ in {text}"].append(learner)
        pairs = of_old.merge(of_new, on="partition", suffixes=("_old", "_new"))
        of_split = {task: held for task, held in names.items() if asked[task].split == split}
        n_sets = old.info.experiment.replicates
        doubt = (
            f"{n_sets} class sets: {LEAST_SETS} are tested"
            if n_sets and n_sets < LEAST_SETS
            else ""
        )
        pairs = pairs.sort_values("partition")
        groups_of = partial(_groups, both, subset, learner)
        found = cell_lines(pairs, split, of_split, tolerance, doubt, groups_of)
        lines += [(subset, learner, *line) for line in found]
        for reason, partitions in _left_out(of_old, of_new, pairs):
            if partitions:
                left_out[reason].append(f"{cell}, partition {', '.join(map(str, partitions))}")
    for run, only in (("OLD", asked.keys() - names), ("NEW", asked_of_new.keys() - names)):
        left_out[f"only in {run}"] += [f"the task {task}" for task in sorted(only)]
    notes = [f"{reason}: {'; '.join(cells)}" for reason, cells in left_out.items() if cells]
    notes += [f"{it}: {', '.join(sorted(set(learners)))}" for it, learners in differing.items()]
    table = pd.DataFrame(lines, columns=["subset", "learner", *Line._fields])
    table["p_value"] = holm(table["p_value"].astype(float))
    table.loc[table["p_value"] > LEVEL, "verdict"] = "same"  # chance may explain it
    return table, notes


def _groups(
    runs: Sequence[RunAnalysis], subset: str, learner: str, task: str, name: str
) -> pd.DataFrame | None:
    """Return the means of groups of judgements, old and new, and their sizes; None without any."""
    found = [run.groups(task, subset, name) for run in runs]
    if any(it is None or learner not in it[0] for it in found):
        return None
    (before, sizes), (after, _) = filter(None, found)
    pairs = {"old": before[learner], "new": after[learner], "size": sizes}
    return pd.DataFrame(pairs).dropna()


def _with_measures(run: RunAnalysis, measures: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return the trials with every cost, the measures of each task and its status as columns."""
    trials = run.trials.copy()
    failed = trials["status"] + ": " + trials["reason"].fillna("")
    for task, names in measures.items():
        answers = run.stored.answers
        answers = answers[answers["task"] == task].set_index("trial_id")
        status = answers["status"].where(
            answers["status"] == "ok", answers["status"] + ": " + answers["reason"].fillna("")
        )
        answered = trials["trial_id"].map(status.to_dict()).astype(object).fillna("not asked")
        trials[column_of(task, RESULTS)] = failed.where(trials["status"] != "ok", answered)
        values = run.values[task]
        for name in names:
            own = values[values["name"] == name].set_index("trial_id")["value"]
            trials[column_of(task, name)] = trials["trial_id"].map(own)
    return trials


def _differences(old: StoredRun, new: StoredRun, cell: str) -> dict[str, str]:
    """Return the differing settings that decide the results of a cell, by key."""
    before, after = (run.info.identities[cell] for run in (old, new))
    differences = {}
    for key in {**before, **after}:
        values = before.get(key), after.get(key)
        if key != "partition" and values[0] != values[1]:
            if key == "data":
                values = old.info.experiment.dataset, new.info.experiment.dataset
            shown = "" if key in WITHOUT_VALUES else f" ({values[0]}, {values[1]})"
            differences[key] = f"{NAMES.get(key, key)}{shown}"
    return differences


def _left_out(
    old: pd.DataFrame, new: pd.DataFrame, pairs: pd.DataFrame
) -> Iterator[tuple[str, list[int]]]:
    """Yield the partitions that are in one run only, or have a result in neither."""
    shared = set(pairs["partition"])
    without_result = pairs[(pairs["status_old"] != "ok") & (pairs["status_new"] != "ok")]
    yield "only in OLD", sorted(set(old["partition"]) - shared)
    yield "only in NEW", sorted(set(new["partition"]) - shared)
    yield "no result in either run", sorted(without_result["partition"])


def cell_lines(
    pairs: pd.DataFrame,
    split: str,
    measures: Mapping[str, Sequence[str]],
    tolerance: float,
    doubt: str,
    groups_of: Callable[[str, str], pd.DataFrame | None],
) -> Iterator[Line]:
    """Compare a learner on one class subset; each row of `pairs` is a partition of both runs.

    The columns are those of trials, with the suffixes _old and _new, and those of `column_of`.
    `doubt` is the reason why measures are not judged.  `groups_of` returns the groups of judgements
    of a task and measure.  The p-values are not corrected, and the verdicts ignore chance.
    """
    for task, names in measures.items():
        yield from _results_line(task, pairs)
        for name in names:
            yield from _line(task, name, pairs, tolerance, doubt, groups_of(task, name))
    both = pairs[(pairs["status_old"] == "ok") & (pairs["status_new"] == "ok")]
    timed, of_time = _timed(both)
    for cost in COMPARED_COSTS:
        is_time = "seconds" in cost
        of_cost, reason = (timed, of_time) if is_time else (both, "")
        yield from _line(split, cost, of_cost, tolerance, reason)


def column_of(task: str, name: str) -> str:
    """Name the column of a task's measure, or of its status if `name` is 'results'."""
    return f"{task}: {name}"


def _timed(pairs: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the trials whose seconds are compared, and the reason if they are not judged."""
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
    """Compare which trials have a result for a task; one lost result means worse."""
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
        *(task, RESULTS, RESULTS, len(pairs)),
        old=float(old.sum()),
        new=float(new.sum()),
        change=float(new.sum() - old.sum()),
        verdict="worse" if len(lost) else "better",
        reason="; ".join(reasons),
    )


def _line(
    task: str,
    measure: str,
    pairs: pd.DataFrame,
    tolerance: float,
    doubt: str,
    groups: pd.DataFrame | None = None,
) -> Iterator[Line]:
    """Compare a measure or cost over the partitions where both runs have it; no line if none has.

    `doubt` is the reason why a difference is not judged; `groups` replace the partitions.
    """
    is_cost = measure in COMPARED_COSTS
    column = measure if is_cost else column_of(task, measure)
    values = pairs[[f"{column}_old", f"{column}_new"]].dropna().to_numpy(dtype=np.float64)
    if not len(values):
        return
    reach, weights = math.inf if is_cost else reach_of(values), None
    if groups is not None:
        values, weights = groups[["old", "new"]].to_numpy(), groups["size"].to_numpy()
    if is_cost:
        values = np.log(np.maximum(values, COMPARED_COSTS[measure]))
        rho = 0.0  # no overlap: the ordinary paired t-interval
    else:
        rho = float(pairs["rho_old"].mean())
    differences = values[:, 1] - values[:, 0]
    differences[abs(differences) <= ROUNDING] = 0  # from the order in which numbers are added
    interval = PairedInterval.of(differences, rho, weights, reach)
    ends = interval.mean, interval.low, interval.high
    numbers = [*np.average(values, axis=0, weights=weights), *ends]
    old, new, change, low, high = (np.exp(numbers) if is_cost else np.array(numbers)).tolist()
    verdict, reason, p_value = "worse" if (new > old) == is_cost else "better", "", interval.p_value
    is_large = abs(interval.mean) > np.log1p(tolerance) and abs(new - old) > COMPARED_COSTS.get(
        measure, 0
    )
    if not differences.any():
        verdict, p_value = "same", math.nan
    elif doubt or len(differences) == 1:
        verdict, p_value = "not judged", math.nan
        reason = doubt or "one partition has no interval"
    elif is_cost and not is_large:
        verdict = "same"
    elif math.isnan(interval.p_value) and measure != "model_bytes":  # a size is not of chance
        verdict, reason = "not judged", "all partitions changed by the same, which leaves no test"
        if weights is not None and (n_groups := effective_groups(weights)) < LEAST_CLUSTERS:
            reason = f"{n_groups:.3g} groups of judgements, as if of equal sizes: "
            reason += f"{LEAST_CLUSTERS} are tested"
    yield Line(
        *(task, measure, "cost" if is_cost else "measure", len(values), old, new, change),
        low=low,
        high=high,
        p_value=p_value,
        verdict=verdict,
        reason=reason,
    )
