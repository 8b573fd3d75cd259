"""Effects that decide claims: numbers of stored runs, one a partition; not what they must be."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from oasis_bench.analysis import reach_of, task_measures, with_costs
from oasis_bench.runs import StoredRun
from oasis_bench.trial import TRAINING

Float64Array = npt.NDArray[np.float64]

COST = "fit_cpu_seconds"


@dataclass(frozen=True)
class Measured:
    """An effect that was measured in a run, and in a class subset where there are several.

    Its values are by the number of the partition, or of the run where each run has one.
    `rho`, the correlation of partitions, corrects the interval for their overlap; it is 0 where the
    value is no measure, as seconds of a fit or what it learned, and where values are of different
    data sets.  `reach` is the largest value that there can be, up or down.
    """

    where: str
    values: pd.Series[float]
    rho: float = 0
    reach: float = math.inf


class Effect(Protocol):
    """What is measured in the runs of an experiment."""

    @property
    def words(self) -> str:
        """Say what it is, with its unit."""

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield it for each run, by name, and class subset; nothing where a learner is missing."""


@dataclass(frozen=True)
class Gain:
    """A measure of one learner less that of another, on the same partitions.

    Where it is relative, the logarithm of one over the other.
    """

    first: str
    second: str
    measure: str = "mAP"
    task: str = "retrieval"
    relative: bool = False

    @property
    def words(self) -> str:
        """Say what it is."""
        first, second = _quoted(self.first), _quoted(self.second)
        if self.relative:
            return f"log of {self.measure} of {first} over that of {second}"
        return f"{self.measure} of {first} less that of {second}"

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield the differences of each run and class subset."""
        for name, run in runs.items():
            if self.task not in run.info.sources.tasks:
                continue
            values = task_measures(run, self.task)
            values = values[values["name"] == self.measure]
            trials = run.trials[run.trials["split"] == run.info.sources.tasks[self.task].split]
            for where, own, rho in _subsets(name, run, values, trials):
                pairs = own.pivot_table(index="partition", columns="learner", values="value")
                reach = math.inf if self.relative else reach_of(pairs)
                pairs = pairs.map(np.log) if self.relative else pairs
                if (found := _differences(pairs, self.first, self.second)) is not None:
                    yield Measured(where, found, rho, reach)


@dataclass(frozen=True)
class GainOfLastOverFirst:
    """A gain in the last run, or class subset, less that in the first, partition by partition.

    They draw their partitions apart from each other: their numbers alone pair them.  The overlap
    is taken for that of the one that overlaps more, which makes intervals rather too wide than too
    narrow.
    """

    gain: Gain

    @property
    def words(self) -> str:
        """Say what it is."""
        return f"{self.gain.words}, the last minus the first of these runs or class subsets"

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield the differences of the two."""
        found = list(self.gain.measured(runs))
        if len(found) > 1:
            first, last = found[0], found[-1]
            where = f"{last.where} and {first.where}"
            values = (last.values - first.values).dropna()
            if len(values):
                reach = first.reach + last.reach
                yield Measured(where, values, max(first.rho, last.rho), reach)


@dataclass(frozen=True)
class TimesAsLong:
    """Common logarithm of how many times as long one learner's fit takes as another's.

    They are CPU seconds of the final fit, as in JMLR table 5.
    """

    slow: str
    fast: str

    @property
    def words(self) -> str:
        """Say what it is."""
        slow, fast = _quoted(self.slow), _quoted(self.fast)
        return f"log10 of CPU seconds of a fit of {slow} over those of {fast}"

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield the logarithms of each run and class subset."""
        for name, run in runs.items():
            trials = with_costs(run.trials)
            trials = trials[trials["split"] == trials["split"].iloc[0]]
            for where, own, _ in _subsets(name, run, trials, trials):
                seconds = own.pivot_table(index="partition", columns="learner", values=COST)
                found = _differences(seconds.map(np.log10), self.slow, self.fast)
                if found is not None:
                    yield Measured(where, found)


@dataclass(frozen=True)
class OnCurve:
    """A number of the curve of the tuning measure along the steps, one a partition.

    It is made of steps (n,) and values (n,) in order of the steps, on 'test' or 'train' items.
    Where it is NaN, as of curves that end too early, the partition is left out.
    """

    learner: str
    part: str
    number: Callable[[Float64Array, Float64Array], float]
    words: str

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield the numbers of each run and class subset."""
        for name, run in runs.items():
            points = run.traces[
                (run.traces["learner"] == self.learner) & (run.traces["part"] == self.part)
            ]
            for where, own, rho in _subsets(name, run, points, run.trials):
                numbers = {
                    partition: self.number(
                        curve["n_steps"].to_numpy(np.float64), curve["value"].to_numpy(np.float64)
                    )
                    for partition, curve in own.sort_values("n_steps").groupby("partition")
                }
                values = pd.Series(numbers, dtype=np.float64).dropna()
                if len(values):
                    yield Measured(where, values, rho)


@dataclass(frozen=True)
class Column:
    """A column of a learner's trials, such as the symmetry index of W."""

    learner: str
    column: str
    words: str

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield the values of each run and class subset."""
        for name, run in runs.items():
            trials = run.trials[run.trials["learner"] == self.learner]
            for where, own, _ in _subsets(name, run, trials, trials):
                numbers = own.set_index("partition")[self.column]
                values = numbers.dropna().astype(np.float64)
                if len(values):
                    yield Measured(where, values)


@dataclass(frozen=True)
class FitNumber:
    """A number of a learner's fits: a fitted attribute, or the measure on training items."""

    learner: str
    name: str
    words: str

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield the values of each run and class subset."""
        for name, run in runs.items():
            rows = run.fit_numbers
            rows = rows[(rows["learner"] == self.learner) & (rows["name"] == self.name)]
            for where, own, rho in _subsets(name, run, rows, run.trials):
                overlap = rho if self.name == TRAINING else 0
                yield Measured(where, own.set_index("partition")["value"], overlap)


@dataclass(frozen=True)
class TrainingGain:
    """The measure that chooses, of one learner less that of another, on the training items."""

    first: str
    second: str

    @property
    def words(self) -> str:
        """Say what it is."""
        first, second = _quoted(self.first), _quoted(self.second)
        return f"measure of {first} less that of {second} on training items"

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield the differences of each run and class subset where both were measured."""
        first, second = (FitNumber(name, TRAINING, "") for name in (self.first, self.second))
        yield from Difference(first, second).measured(runs)


@dataclass(frozen=True)
class Difference:
    """One effect less another, partition by partition."""

    effect: Effect
    minus: Effect

    @property
    def words(self) -> str:
        """Say what it is."""
        return f"{self.effect.words}, minus the {self.minus.words}"

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield the differences of each run and class subset, of the partitions that have both."""
        minus = {one.where: one.values for one in self.minus.measured(runs)}
        for one in self.effect.measured(runs):
            values = (one.values - minus.get(one.where, math.nan)).dropna()
            if len(values):
                yield replace(one, values=values)


@dataclass(frozen=True)
class Growth:
    """The exponent of a learner's cost over the number of training items or of features.

    It is fitted on each partition over all runs, whose sizes differ.
    """

    learner: str
    size: str

    @property
    def words(self) -> str:
        """Say what it is."""
        size = self.size.replace("n_train", "training items").replace("n_features", "features")
        return f"exponent of the CPU seconds of a fit of {self.learner} over {size}"

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield one exponent a partition."""
        trials = [run.trials[run.trials["learner"] == self.learner] for run in runs.values()]
        if len(trials) < 2:
            return
        points = with_costs(pd.concat(trials)).dropna(subset=[COST])
        exponents = {
            partition: float(np.polyfit(np.log(own[self.size]), np.log(own[COST]), 1)[0])
            for partition, own in points.astype({self.size: float}).groupby("partition")
            if own[self.size].nunique() > 1
        }
        if exponents:
            first, *_, last = runs
            yield Measured(f"{first} to {last}", pd.Series(exponents))


@dataclass(frozen=True)
class FromPublished:
    """A learner's accuracy less the published one, a value for each run and k.

    `published` gives of a run a table with the columns learner, k and published.
    """

    learner: str
    published: Callable[[StoredRun], pd.DataFrame]

    @property
    def words(self) -> str:
        """Say what it is."""
        return f"accuracy of {self.learner} less the published one, a value for each data set"

    def measured(self, runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        """Yield the differences of all runs, the mean over k of each."""
        values = pd.Series([self._difference(run) for run in runs.values()]).dropna()
        if len(values):
            yield Measured(f"{len(values)} data sets", values, reach=1.0)

    def _difference(self, run: StoredRun) -> float:
        """Return the mean difference over k; NaN where there is none."""
        values = task_measures(run, "classification")
        values = values[(values["measure"] == "accuracy") & (values["learner"] == self.learner)]
        ours = values.groupby("k")["value"].mean()
        theirs = self.published(run)
        theirs = theirs[theirs["learner"] == self.learner].set_index("k")
        return float((ours - theirs["published"]).mean())


def _subsets(
    name: str, run: StoredRun, rows: pd.DataFrame, trials: pd.DataFrame
) -> Iterator[tuple[str, pd.DataFrame, float]]:
    """Go over the class subsets in the run's order: where, its rows, correlation of partitions."""
    subsets = [name for name in run.info.classes if (trials["subset"] == name).any()]
    for subset in subsets:
        own = rows[rows["subset"] == subset]
        rho = trials.loc[(trials["subset"] == subset) & trials["split"].isin(own["split"]), "rho"]
        if not own.empty:
            where = name if len(subsets) == 1 else f"{name}, classes {subset}"
            yield where, own, float(rho.mean())


def _differences(pairs: pd.DataFrame, first: str, second: str) -> pd.Series[float] | None:
    """Return first less second where both are; None where they never are."""
    if first not in pairs or second not in pairs:
        return None
    found = (pairs[first] - pairs[second]).dropna().astype(np.float64)
    return found if len(found) else None


def _quoted(label: str) -> str:
    """Return a learner's label, in quotes where it is several words."""
    return f"'{label}'" if " " in label else label
