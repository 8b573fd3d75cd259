"""Two runs, trial by trial: what got better or worse beyond noise.

Not for how that is shown, which `oasis_bench.reports` does.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from oasis_bench.analysis.noise import noisy
from oasis_bench.analysis.statistics import LEVEL, PairedInterval, holm, paired_interval
from oasis_bench.experiment.identity import WORDS, cell_name
from oasis_bench.store.parts import processors
from oasis_bench.store.run_file import RunRecord

Verdict = Literal[
    "worse", "better", "not told apart", "within tolerance", "identical", "not judged"
]
Values = npt.NDArray[np.float64]

RESULTS = "results"
PRECISIONS = ("mAP", "precision at 1", "precision at 10")
COSTS = {"fit_seconds": 1e-3, "fit_cpu_seconds": 1e-3, "fit_peak_bytes": 2.0**20}
"""The least value, and the least difference, that counts: a tick of the scheduler; more than the
some hundred kilobytes to within which the kernel counts resident pages."""

ROUNDING = 1e-12
"""Differences of precision up to this may be the same numbers added in another order."""

DRAW = {
    "algorithm": "the algorithm differs",
    "data": "the rows of the data set differ",
    "seed": "the seed differs",
    "classes": "the classes differ",
    "sizes": "the numbers of training and test images differ",
    "normalize": "the normalization differs",
}
"""What trials of one label, subset and partition must share to be the same learner's on the same
images."""

Cell = tuple[str, str]
"""A class subset and a learner's label."""


@dataclass(frozen=True)
class Line:
    """One measure of one learner on one class subset, in both runs.

    Attributes
    ----------
    subset, learner : str
    measure : str
        'results' (trials that ended well), or one of PRECISIONS or COSTS.
    n : int
        Partitions behind it.
    old, new : float
        Number of results; means of precisions; geometric means of costs.
    change : float
        NEW - OLD; of costs NEW / OLD.
    low, high : float
        The 95 % interval of the change, as if it were the only line; NaN where there is none.
    p_value : float
        Of no change, corrected for the number of lines: what the verdict goes by.  NaN where the
        line was not tested.
    verdict : str
    reason : str
        What the numbers do not say: the trials that were lost, or why it is not judged.
    """

    subset: str
    learner: str
    measure: str
    n: int
    old: float
    new: float
    change: float
    low: float
    high: float
    p_value: float
    verdict: Verdict
    reason: str = ""


@dataclass(frozen=True)
class RunComparison:
    """What two runs have in common, and what of them could not be compared.

    Attributes
    ----------
    lines : sequence of Line
    notes : sequence of str
        What could not be compared, and in what the trials differ that were.
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
        """How many lines say whether something got worse."""
        return len(self.lines) - self.count("not judged")


def compare_runs(old: RunRecord, new: RunRecord, tolerance: float = 0.1) -> RunComparison:
    """Compare the trials that two runs have in common: a learner's label, on the same images.

    Precisions: the corrected paired interval of Nadeau & Bengio (2003) of NEW - OLD, as the
    partitions draw from the same images.

    Costs (seconds, bytes): the ordinary paired t-interval of log(NEW / OLD).  Each partition is a
    measurement of its own of one program on one machine, and which images it drew says little of
    what a fit costs, so there is no overlap to correct for.  The interval sees what varies from
    fit to fit, not what differs between two sessions on one machine, such as its temperature:
    worse or better must also be beyond `tolerance`, and by more than COSTS says.  Seconds leave out
    noisy trials (see `analysis.noise`), and are not judged where fewer than two others are left,
    a trial shared its cores, or threads or processor differ or are not known.

    A trial that was ok and is not so any more is worse.  Equal values are identical on any number
    of partitions; other values of a single one have no interval and are not judged.

    The rest is tested at level 0.05, corrected by `holm`.  All these lines, precisions and costs of
    every cell, are one family: whether anything got worse, as the exit status of `compare` tells,
    is one claim about all of them.  So where nothing changed, at most 1 comparison in 20 finds
    anything.  Lines within `tolerance` are in the family too: to leave out the small changes, once
    they are seen, would undo the correction.

    Parameters
    ----------
    old, new : RunRecord
    tolerance : float, default 0.1
        Share by which costs may grow: 0.1 lets a ratio of 1.1 pass.
    """
    cells, notes = _shared_cells(old, new)
    before, after = _measured(old), _measured(new)
    lines: list[Line] = []
    for subset, learner in cells:
        of_old, of_new = (
            trials[(trials["subset"] == subset) & (trials["learner"] == learner)]
            for trials in (before, after)
        )
        pairs = of_old.merge(of_new, on="partition", suffixes=("_old", "_new"))
        lines += _lines(subset, learner, pairs.sort_values("partition"), tolerance)
        notes += [
            f"{what}: {learner} on classes {subset}, partition {', '.join(map(str, numbers))}"
            for what, numbers in _left_out(of_old, of_new, pairs)
        ]
    notes += _what_is_compared(old, new, cells)
    return RunComparison(_corrected(lines), notes, tolerance)


def _measured(run: RunRecord) -> pd.DataFrame:
    """Return the trials with every measure as a column, and the processor that each ran on."""
    trials = run.trials.rename(columns={"mean_average_precision": "mAP"})
    for k in (1, 10):
        at_k = run.precision_at_k[run.precision_at_k["k"] == k].set_index("trial_id")["precision"]
        trials[f"precision at {k}"] = trials["trial_id"].map(at_k)
    for measure in (*PRECISIONS, *COSTS):
        trials[measure] = pd.to_numeric(trials[measure])
    trials["noisy"] = noisy(trials)
    trials["processor"] = trials["trial_id"].map(processors(run))
    return trials


def _shared_cells(old: RunRecord, new: RunRecord) -> tuple[list[Cell], list[str]]:
    """Find the cells that were run on the same draws; say why others were not."""
    seen = [
        dict.fromkeys(run.trials[["subset", "learner"]].itertuples(index=False, name=None))
        for run in (old, new)
    ]
    shared, why_not = [], defaultdict(list)
    for cell in seen[0] | seen[1]:
        only = [run for run, cells in zip(("OLD", "NEW"), seen, strict=True) if cell in cells]
        if len(only) == 1:
            why_not[f"only in {only[0]}"].append(cell)
        elif reason := _other_draw(old, new, cell):
            why_not[f"not compared, as {reason}"].append(cell)
        else:
            shared.append(cell)
    notes = [
        f"{reason}: {'; '.join(f'{learner} on classes {subset}' for subset, learner in cells)}"
        for reason, cells in why_not.items()
    ]
    return shared, notes


def _identity(run: RunRecord, cell: Cell) -> Mapping[str, Any]:
    """Return what decides the results of a cell; it names one of the partitions."""
    subset, learner = cell
    identity: Mapping[str, Any] = run.info["identities"][cell_name(learner, subset)]
    return identity


def _other_draw(old: RunRecord, new: RunRecord, cell: Cell) -> str | None:
    """Say why the same partition is not the same images to the same learner, where it is not."""
    before, after = _identity(old, cell), _identity(new, cell)
    for key, problem in DRAW.items():
        if before[key] != after[key]:
            if key == "classes":
                return problem
            ends = before[key], after[key]
            if key == "data":
                ends = old.info["experiment"]["dataset"], new.info["experiment"]["dataset"]
            return f"{problem} ({ends[0]} in OLD, {ends[1]} in NEW)"
    return None


def _lines(subset: str, learner: str, pairs: pd.DataFrame, tolerance: float) -> Iterator[Line]:
    """Compare one cell: `pairs` holds a row for each partition that both runs have.

    Its p-values are those of each line alone, and its verdicts as if chance had no part.
    """
    old_ok, new_ok = pairs["status_old"] == "ok", pairs["status_new"] == "ok"
    if (old_ok != new_ok).any():
        yield _results_line(subset, learner, pairs)
    both = pairs[old_ok & new_ok]
    if both.empty:
        return
    sizes = int(both["n_train_old"].iloc[0]), int(both["n_test_old"].iloc[0])
    for measure in PRECISIONS:
        if len(values := _values(both, measure)):
            yield _precision_line(subset, learner, measure, values, sizes)
    timed, doubt = _timed(both)
    for measure in COSTS:
        of_time = measure.endswith("_seconds")
        if len(values := _values(timed if of_time else both, measure)):
            reason = doubt if of_time else ""
            yield _cost_line(subset, learner, measure, values, tolerance, reason)


def _values(pairs: pd.DataFrame, measure: str) -> Values:
    """Return a measure of OLD and NEW, (n, 2), where both have it."""
    return pairs[[f"{measure}_old", f"{measure}_new"]].dropna().to_numpy(dtype=np.float64)


def _results_line(subset: str, learner: str, pairs: pd.DataFrame) -> Line:
    """Compare which trials gave a result: one that was lost is worse, whatever was gained."""
    old, new = pairs["status_old"] == "ok", pairs["status_new"] == "ok"
    lost, gained = pairs[old & ~new], pairs[~old & new]
    reasons = [f"partition {t.partition} {t.status_new}: {t.reason_new}" for t in lost.itertuples()]
    reasons += [f"partition {t.partition} was {t.status_old}" for t in gained.itertuples()]
    n_old, n_new = float(old.sum()), float(new.sum())
    return Line(
        *(subset, learner, RESULTS, len(pairs), n_old, n_new, n_new - n_old),
        *(math.nan, math.nan, math.nan),
        verdict="worse" if len(lost) else "better",
        reason="; ".join(reasons),
    )


def _precision_line(
    subset: str, learner: str, measure: str, values: Values, sizes: tuple[int, int]
) -> Line:
    """Compare a precision: `values` (n, 2) of OLD and NEW, `sizes` images that train and test."""
    differences = values[:, 1] - values[:, 0]
    differences[abs(differences) <= ROUNDING] = 0
    change = _change(differences, *sizes)
    old, new = values.mean(axis=0).tolist()
    line = Line(
        *(subset, learner, measure, len(values), old, new),
        *(change.mean, change.low, change.high, change.p_value),
        verdict="worse" if new < old else "better",
    )
    return _untested(line, differences, doubt="") or line


def _cost_line(
    subset: str, learner: str, measure: str, values: Values, tolerance: float, doubt: str
) -> Line:
    """Compare seconds or bytes: `values` (n, 2) of OLD and NEW, `doubt` why not to judge them."""
    logs = np.log(np.maximum(values, COSTS[measure]))
    differences = logs[:, 1] - logs[:, 0]
    # No overlap, as of n_test = 0, leaves the ordinary paired t-interval.
    change = _change(differences, n_train=1, n_test=0)
    old, new = np.exp(logs.mean(axis=0)).tolist()
    clear = abs(change.mean) > np.log1p(tolerance) and abs(new - old) > COSTS[measure]
    beyond: Verdict = "worse" if new > old else "better"
    ratio, low, high = (math.exp(end) for end in (change.mean, change.low, change.high))
    line = Line(
        *(subset, learner, measure, len(values), old, new),
        *(ratio, low, high, change.p_value),
        verdict=beyond if clear else "within tolerance",
    )
    return _untested(line, differences, doubt) or line


def _change(differences: Values, n_train: int, n_test: int) -> PairedInterval:
    """Return the mean change with interval and p-value, which a single partition has not."""
    if len(differences) > 1:
        return paired_interval(differences, n_train, n_test)
    return PairedInterval(float(differences[0]), math.nan, math.nan, 1, math.nan, math.nan)


def _untested(line: Line, differences: Values, doubt: str) -> Line | None:
    """Return a line that no test decides, where it is one; `doubt` says why not to judge it."""
    if not differences.any():
        return replace(line, p_value=math.nan, verdict="identical")
    if len(differences) == 1:
        doubt = doubt or "one partition has no interval"
    if doubt:
        return replace(line, p_value=math.nan, verdict="not judged", reason=doubt)
    return None


def _corrected(lines: Sequence[Line]) -> list[Line]:
    """Correct the p-values for their number, and take back the verdicts that chance explains."""
    tested = [number for number, line in enumerate(lines) if not math.isnan(line.p_value)]
    corrected = list(lines)
    p_values = holm([lines[number].p_value for number in tested]).tolist()
    for number, p_value in zip(tested, p_values, strict=True):
        verdict = lines[number].verdict if p_value <= LEVEL else "not told apart"
        corrected[number] = replace(lines[number], p_value=p_value, verdict=verdict)
    return corrected


def _timed(pairs: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Return the trials whose seconds are compared, and why they decide nothing, if so."""
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


def _left_out(
    old: pd.DataFrame, new: pd.DataFrame, pairs: pd.DataFrame
) -> Iterator[tuple[str, list[int]]]:
    """Say which partitions of a cell are not in both runs, or have a result in neither."""
    shared = set(pairs["partition"])
    nowhere = pairs[(pairs["status_old"] != "ok") & (pairs["status_new"] != "ok")]
    for what, partitions in (
        ("only in OLD", set(old["partition"]) - shared),
        ("only in NEW", set(new["partition"]) - shared),
        ("no result in either run", set(nowhere["partition"])),
    ):
        if partitions:
            yield what, sorted(partitions)


def _what_is_compared(old: RunRecord, new: RunRecord, cells: Sequence[Cell]) -> Iterator[str]:
    """Tell in what the trials differ that were compared."""
    labels = defaultdict(set)
    for cell in cells:
        after = _identity(new, cell)
        for key, value in _identity(old, cell).items():
            if key != "partition" and value != after[key]:
                values = "" if key == "source" else f" ({value}, {after[key]})"
                labels[f"{WORDS.get(key, key)}{values}"].add(cell[1])
    for what, learners in labels.items():
        yield f"OLD and NEW differ in {what}: {', '.join(sorted(learners))}"
