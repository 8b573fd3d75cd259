"""Comparison of two runs, trial by trial: what got better or worse beyond noise.

Not for how that is shown, which `oasis_bench.reports` does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from oasis_bench.analysis.noise import noisy
from oasis_bench.analysis.statistics import LEVEL, holm, paired_interval
from oasis_bench.experiment.identity import WORDS, cell_name
from oasis_bench.store.run_file import RunRecord

Verdict = Literal["worse", "better", "same", "not judged"]

RESULTS = "results"
PRECISIONS = ("mAP", "precision at 1", "precision at 10")
COSTS = {"fit_seconds": 1e-3, "fit_cpu_seconds": 1e-3, "fit_peak_bytes": 2.0**20}
"""The smallest value, and the smallest difference, that counts.  1 ms is a tick of the scheduler;
1 MiB is more than the error of the kernel's count of resident pages, some hundred kilobytes."""

ROUNDING = 1e-12
"""Smaller differences of precision may come from the order in which numbers are added."""

MUST_AGREE = ("algorithm", "data", "seed", "classes", "sizes", "normalize")
"""What must be equal in both runs, so that an algorithm gets the same images in a partition."""

NAMES = {
    **WORDS,
    "sizes": "the numbers of training and test images",
    "normalize": "the normalization",
}
WITHOUT_VALUES = ("classes", "source", "code")
"""Lists too long to show, and hashes."""


@dataclass(frozen=True)
class Line:
    """One measure of one learner on one class subset, in both runs.

    Attributes
    ----------
    subset, learner : str
    measure : str
        'results' (trials with status 'ok'), or one of PRECISIONS or COSTS.
    n : int
        Partitions behind it.
    old, new : float
        Number of results; means of precisions; geometric means of costs.
    change : float
        NEW - OLD; of costs NEW / OLD.
    verdict : {'worse', 'better', 'same', 'not judged'}
        'same' is no proof that nothing changed: the interval says how large a change may be.
    reason : str
        The trials that were lost or gained, or why the line is not judged.
    low, high : float
        The 95 % interval of the change, as if it were the only line; NaN where there is none.
    p_value : float
        Of no change, corrected for the number of lines: the verdict depends on it.  NaN where the
        line was not tested.
    """

    subset: str
    learner: str
    measure: str
    n: int
    old: float
    new: float
    change: float
    verdict: Verdict
    reason: str = ""
    low: float = math.nan
    high: float = math.nan
    p_value: float = math.nan


@dataclass(frozen=True)
class RunComparison:
    """What changed between two runs, and what could not be compared.

    Attributes
    ----------
    lines : sequence of Line
    notes : sequence of str
        What could not be compared, and in what the compared trials differ.
    tolerance : float
        Share by which costs may grow.
    """

    lines: Sequence[Line]
    notes: Sequence[str]
    tolerance: float

    def count(self, verdict: Verdict) -> int:
        """Count the lines with a verdict."""
        return sum(line.verdict == verdict for line in self.lines)

    @property
    def n_judged(self) -> int:
        """The number of lines that say whether something got worse."""
        return len(self.lines) - self.count("not judged")


def compare_runs(old: RunRecord, new: RunRecord, tolerance: float = 0.1) -> RunComparison:
    """Compare the trials that two runs have in common: a learner's label, on the same images.

    Precisions: the corrected paired interval of Nadeau & Bengio (2003) of NEW - OLD, as the
    partitions draw from the same images.

    Costs (seconds, bytes): the ordinary paired t-interval of log(NEW / OLD), as the images that a
    partition draws hardly change the cost of a fit.  It covers what varies from fit to fit, not
    what differs between two sessions on one machine, such as its temperature: 'worse' and 'better'
    must also be beyond `tolerance`, and by more than COSTS says.  Seconds leave out noisy trials
    (see `analysis.noise`).  They are not judged where fewer than two other trials are left, a trial
    shared its cores, or threads or processor differ or are not known.

    A trial that has lost its result is worse.  Equal values are the same on any number of
    partitions; other values of a single partition have no interval and are not judged.

    The rest is tested at level 0.05.  `holm` corrects for all lines, those within `tolerance`
    among them, since the exit status of `compare` is one claim about all of them: where nothing
    changed, at most 1 comparison in 20 finds anything.

    Parameters
    ----------
    old, new : RunRecord
    tolerance : float, default 0.1
        Share by which costs may grow: 0.1 lets a ratio of 1.1 pass.
    """
    before, after = _with_measures(old), _with_measures(new)
    lines: list[Line] = []
    left_out, differing = defaultdict(list), defaultdict(list)
    cells = pd.concat([before, after])[["subset", "learner"]].drop_duplicates()
    for subset, learner in cells.itertuples(index=False, name=None):
        of_old, of_new = (
            trials[(trials["subset"] == subset) & (trials["learner"] == learner)]
            for trials in (before, after)
        )
        cell = f"{learner} on classes {subset}"
        if not of_old.empty and not of_new.empty:
            differences = _differences(old, new, subset, learner)
            if decisive := [text for key, text in differences.items() if key in MUST_AGREE]:
                reason = f"not compared, as OLD and NEW differ in {', '.join(decisive)}"
                left_out[reason].append(cell)
                continue
            for text in differences.values():
                differing[f"OLD and NEW differ in {text}"].append(learner)
        pairs = of_old.merge(of_new, on="partition", suffixes=("_old", "_new"))
        lines += _lines(subset, learner, pairs.sort_values("partition"), tolerance)
        for reason, partitions in _left_out(of_old, of_new, pairs):
            if partitions:
                left_out[reason].append(f"{cell}, partition {', '.join(map(str, partitions))}")
    notes = [f"{reason}: {'; '.join(cells)}" for reason, cells in left_out.items()]
    notes += [f"{it}: {', '.join(sorted(set(learners)))}" for it, learners in differing.items()]
    return RunComparison(_corrected(lines), notes, tolerance)


def _with_measures(run: RunRecord) -> pd.DataFrame:
    """Return the trials with every measure as a column, and whether their timing is noisy."""
    trials = run.trials.rename(columns={"mean_average_precision": "mAP"})
    for k in (1, 10):
        at_k = run.precision_at_k[run.precision_at_k["k"] == k].set_index("trial_id")["precision"]
        trials[f"precision at {k}"] = trials["trial_id"].map(at_k)
    for measure in (*PRECISIONS, *COSTS):
        trials[measure] = pd.to_numeric(trials[measure])
    trials["noisy"] = noisy(trials)
    return trials


def _differences(old: RunRecord, new: RunRecord, subset: str, learner: str) -> dict[str, str]:
    """Say which of the settings that decide a learner's results on a subset differ, by key."""
    before, after = (run.info.identities[cell_name(learner, subset)] for run in (old, new))
    differences = {}
    for key in before:
        if key != "partition" and before[key] != after[key]:
            values = before[key], after[key]
            if key == "data":
                values = old.info.experiment.dataset, new.info.experiment.dataset
            shown = "" if key in WITHOUT_VALUES else f" ({values[0]}, {values[1]})"
            differences[key] = f"{NAMES.get(key, key)}{shown}"
    return differences


def _left_out(
    old: pd.DataFrame, new: pd.DataFrame, pairs: pd.DataFrame
) -> Iterator[tuple[str, list[int]]]:
    """Say which partitions are not in both runs, or have a result in neither."""
    shared = set(pairs["partition"])
    without_result = pairs[(pairs["status_old"] != "ok") & (pairs["status_new"] != "ok")]
    yield "only in OLD", sorted(set(old["partition"]) - shared)
    yield "only in NEW", sorted(set(new["partition"]) - shared)
    yield "no result in either run", sorted(without_result["partition"])


def _lines(subset: str, learner: str, pairs: pd.DataFrame, tolerance: float) -> Iterator[Line]:
    """Compare a learner on one class subset: a row of `pairs` is a partition that both runs have.

    The p-values are those of each line alone, and the verdicts those without regard to chance:
    `_corrected` corrects both.
    """
    old_ok, new_ok = pairs["status_old"] == "ok", pairs["status_new"] == "ok"
    if (old_ok != new_ok).any():
        yield _results_line(subset, learner, pairs)
    both = pairs[old_ok & new_ok]
    timed, doubt = _timed(both)
    for measure in (*PRECISIONS, *COSTS):
        is_time = measure.endswith("_seconds")
        compared, reason = (timed, doubt) if is_time else (both, "")
        line = _line(subset, learner, measure, compared, tolerance, reason)
        if line is not None:
            yield line


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


def _results_line(subset: str, learner: str, pairs: pd.DataFrame) -> Line:
    """Compare which trials gave a result: a lost one is worse, even where others were gained."""
    old, new = pairs["status_old"] == "ok", pairs["status_new"] == "ok"
    lost, gained = pairs[old & ~new], pairs[~old & new]
    reasons = [f"partition {t.partition} {t.status_new}: {t.reason_new}" for t in lost.itertuples()]
    reasons += [f"partition {t.partition} was {t.status_old}" for t in gained.itertuples()]
    return Line(
        subset=subset,
        learner=learner,
        measure=RESULTS,
        n=len(pairs),
        old=float(old.sum()),
        new=float(new.sum()),
        change=float(new.sum() - old.sum()),
        verdict="worse" if len(lost) else "better",
        reason="; ".join(reasons),
    )


def _line(
    subset: str,
    learner: str,
    measure: str,
    pairs: pd.DataFrame,
    tolerance: float,
    doubt: str,
) -> Line | None:
    """Compare a measure over the partitions where both runs have it; None where there are none.

    `doubt` says why a difference is not judged.
    """
    values = pairs[[f"{measure}_old", f"{measure}_new"]].dropna().to_numpy(dtype=np.float64)
    if not len(values):
        return None
    is_cost = measure in COSTS
    if is_cost:
        values = np.log(np.maximum(values, COSTS[measure]))
        n_train, n_test = 1, 0  # no overlap: the ordinary paired t-interval
    else:
        n_train, n_test = pairs[["n_train_old", "n_test_old"]].iloc[0].astype(int)
    differences = values[:, 1] - values[:, 0]
    differences[abs(differences) <= ROUNDING] = 0
    interval = paired_interval(differences, n_train, n_test)
    numbers = [*values.mean(axis=0), interval.mean, interval.low, interval.high]
    old, new, change, low, high = (np.exp(numbers) if is_cost else np.array(numbers)).tolist()
    line = Line(
        subset=subset,
        learner=learner,
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
    if not differences.any():
        return replace(line, verdict="same", p_value=math.nan)
    if doubt or len(differences) == 1:
        reason = doubt or "one partition has no interval"
        return replace(line, verdict="not judged", reason=reason, p_value=math.nan)
    if is_cost:
        is_large = abs(interval.mean) > np.log1p(tolerance) and abs(new - old) > COSTS[measure]
        return line if is_large else replace(line, verdict="same")
    return line


def _corrected(lines: Sequence[Line]) -> list[Line]:
    """Correct the p-values for their number; a verdict that chance may explain becomes 'same'."""
    tested = [line.p_value for line in lines if not math.isnan(line.p_value)]
    corrected = iter(holm(tested).tolist())
    result = []
    for line in lines:
        if not math.isnan(line.p_value):
            line = replace(line, p_value=next(corrected))
            if line.p_value > LEVEL:
                line = replace(line, verdict="same")
        result.append(line)
    return result
