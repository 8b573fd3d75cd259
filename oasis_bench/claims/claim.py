"""A claim of a paper, the effects that decide it, and its verdict from stored runs.

An effect is numbers of stored runs, one a partition, and bounds of their mean.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from oasis_bench.analysis import LEVEL, PairedInterval, RunAnalysis, holm, reach_of
from oasis_bench.claims.paper_figures import Runs, published_figures
from oasis_bench.experiment import read_experiment
from oasis_bench.plugins import Registry
from oasis_bench.runs import StoredRun, has_run, read_run
from oasis_bench.sampling import RelevanceTripletSampler, seed_state
from oasis_bench.system import UsageError
from oasis_bench.trial import TRAINING
from oasis_bench.web_scale import TrainingRecord

analysis_of = lru_cache(maxsize=16)(RunAnalysis)
"""The analysis of a run, which many effects use."""

Float64Array = npt.NDArray[np.float64]

COST, OPERATIONS = "fit_cpu_seconds", "operations of a step"
STEP_COST, STEPS = "CPU seconds of a step", "steps to saturation"
WORDS = {COST: "CPU seconds of a fit", "n_features": "features"}
WEB_SCALE = "web-scale"
"""The command whose records decide a claim; the verb `paper` does not run it."""

SATURATED = 35_000
"""Steps after which test precision is said to be saturated on ten classes (JMLR figure 5)."""


@dataclass(frozen=True)
class Measured:
    """An effect as it was measured in a run, and in a class subset where there are several.

    Its values are by the number of the partition, or of the run where each run has one; where
    people judged, by the group of judgements, of `sizes` judgements each.  `rho` is the correlation
    of partitions; it is 0 of what is no measure, as seconds, and of values of different data.
    `reach` is the largest value that there can be, up or down.
    """

    where: str
    values: pd.Series[float]
    rho: float = 0
    reach: float = math.inf
    sizes: pd.Series[float] | None = None


Measure: TypeAlias = Callable[[Mapping[str, Any]], Iterator[Measured]]
"""What measures an effect in the runs of an experiment, by name; nothing, or no values, where a
learner is missing."""


@dataclass(frozen=True)
class Effect:
    """What is measured, and what its mean must be: above a bound, below one, or both."""

    what: str
    measured: Measure
    above: float = -math.inf
    below: float = math.inf
    of_time: bool = False  # measured from times, which other trials at the same time would disturb

    @property
    def words(self) -> str:
        """Say what must be, if there is a bound."""
        bounds = {"above": self.above, "below": self.below}
        texts = [f"{side} {bound:g}" for side, bound in bounds.items() if math.isfinite(bound)]
        return f"{self.what}: {' and '.join(texts)}" if texts else self.what


def gain(
    first: str,
    second: str,
    above: float = 0.0,
    below: float = math.inf,
    measure: str = "mAP",
    task: str = "retrieval",
    relative: bool = False,
) -> Effect:
    """Make the effect of one learner's measure minus another's, on the same partitions.

    Where it is relative: of the logarithm of one over the other.
    """

    def measures(run: StoredRun) -> pd.DataFrame:
        rows = analysis_of(run).values.get(task, run.measures[:0])
        return rows[rows["name"] == measure] if len(rows) else rows

    def measured(runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        for run, where, own, rho in _subsets(runs, measures):
            groups = analysis_of(run).groups(task, own["subset"].iloc[0], measure)
            if groups is not None:
                means, sizes = groups
                values = _less(means, first, second)
                yield Measured(where, values, 0, reach_of(means), sizes[values.index])
            elif relative:
                yield Measured(where, _less(_by_learner(own).map(np.log), first, second), rho)
            else:
                pairs = _by_learner(own)
                yield Measured(where, _less(pairs, first, second), rho, reach_of(pairs))

    pair = _quoted(first), _quoted(second)
    what = (
        f"log of {measure} of {pair[0]} over that of {pair[1]}"
        if relative
        else f"{measure} of {pair[0]} minus that of {pair[1]}"
    )
    return Effect(what, measured, above, below)


def last_over_first(effect: Effect) -> Effect:
    """Make the effect that another is larger in the last run, or class subset, than in the first.

    Their partitions are sampled separately, and paired only by their numbers.  The overlap
    is that of the one that overlaps more, which makes intervals rather too wide than too narrow.
    """

    def measured(runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        found = [*effect.measured(runs)]
        if len(found) > 1:
            first, last = found[0], found[-1]
            values = (last.values - first.values).dropna()
            rho, reach = max(first.rho, last.rho), first.reach + last.reach
            yield Measured(f"from {first.where} to {last.where}", values, rho, reach)

    return Effect(f"increase of ({effect.what})", measured, above=0.0)


def times_as_long(slow: str, fast: str, above: float, below: float = math.inf) -> Effect:
    """Make the effect of how many times the CPU seconds of one final fit another's are, as log10.

    JMLR table 5 has such seconds.
    """

    def measured(runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        for _, where, own, _ in _subsets(runs, lambda run: run.trials):
            yield Measured(where, _less(_by_learner(own, COST).map(np.log10), slow, fast))

    what = f"log10 of CPU seconds of a fit of {_quoted(slow)} over those of {_quoted(fast)}"
    return Effect(what, measured, above, below, of_time=True)


def on_curve(
    part: str,
    number: Callable[[Float64Array, Float64Array], float],
    what: str,
    above: float,
    below: float = math.inf,
) -> Effect:
    """Make the effect of a number of OASIS's curve of the tuning measure, one a partition.

    It is made of steps (n,) and values (n,) in order of the steps, on 'test' or 'train' items.
    Where it is NaN, as of curves that end too early, the partition is left out.
    """

    def points(run: StoredRun) -> pd.DataFrame:
        return run.traces[(run.traces["learner"] == "OASIS") & (run.traces["part"] == part)]

    def measured(runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        for _, where, own, rho in _subsets(runs, points):
            numbers = {
                partition: number(
                    curve["n_steps"].to_numpy(np.float64), curve["value"].to_numpy(np.float64)
                )
                for partition, curve in own.sort_values("n_steps").groupby("partition")
            }
            yield Measured(where, pd.Series(numbers, dtype=np.float64).dropna(), rho)

    return Effect(what, measured, above, below)


def _at_saturation(steps: Float64Array, values: Float64Array) -> float:
    """Return the value where precision is said to be saturated; NaN of a curve that ends before."""
    return float(values[steps <= SATURATED][-1]) if steps[-1] > SATURATED else math.nan


def _saturated(steps: Float64Array, values: Float64Array) -> float:
    """Return the value at saturation minus the highest of all."""
    return _at_saturation(steps, values) - float(values.max())


def _later(steps: Float64Array, values: Float64Array) -> float:
    """Return the last value minus that at saturation."""
    return float(values[-1]) - _at_saturation(steps, values)


def of_trials(learner: str, column: str, what: str, above: float) -> Effect:
    """Make the effect of a column of a learner's trials, or of a fitted attribute.

    Columns are such as the symmetry index of W.
    """

    def numbers(run: StoredRun) -> pd.DataFrame:
        rows = run.trials
        if column not in rows:
            rows = run.fit_numbers[run.fit_numbers["name"] == column].rename(
                columns={"value": column}
            )
        return rows[rows["learner"] == learner]

    def measured(runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        for _, where, own, _ in _subsets(runs, numbers):
            values = own.set_index("partition")[column].dropna().astype(np.float64)
            yield Measured(where, values)

    return Effect(what, measured, above)


def training_gain(first: str, second: str, above: float) -> Effect:
    """Make the effect of one learner's tuning measure, mAP, minus another's, on training items."""

    def numbers(run: StoredRun) -> pd.DataFrame:
        return run.fit_numbers[run.fit_numbers["name"] == TRAINING]

    def measured(runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        for _, where, own, rho in _subsets(runs, numbers):
            yield Measured(where, _less(_by_learner(own), first, second), rho)

    what = f"training mAP of {_quoted(first)} minus that of {_quoted(second)}"
    return Effect(what, measured, above)


def gap(first: str, second: str, above: float = 0.0) -> Effect:
    """Make the effect of one learner's gap minus another's: mAP of training minus test items."""
    on_training, on_test = training_gain(first, second, 0.0), gain(first, second)

    def measured(runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        less = {one.where: one.values for one in on_test.measured(runs)}
        for one in on_training.measured(runs):
            yield replace(one, values=(one.values - less.get(one.where, math.nan)).dropna())

    what = (
        f"gap of mAP between training and test of {_quoted(first)} minus that of {_quoted(second)}"
    )
    return Effect(what, measured, above)


def growth(learner: str, size: str, of: str = COST, below: float = math.inf) -> Effect:
    """Make the effect of the exponent of a learner's cost over a size, as in `WORDS`.

    It is fitted on each partition over all runs, whose sizes differ.
    """

    def measured(runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        if len(runs) < 2:
            return
        trials = [run.trials[run.trials["learner"] == learner] for run in runs.values()]
        if of == OPERATIONS:
            trials = [
                own.assign(**{of: own["partition"].map(operations_of(run))})
                for own, run in zip(trials, runs.values(), strict=True)
            ]
        first, *_, last = runs
        exponents = _exponents(pd.concat(trials), "partition", size, of)
        yield Measured(f"{first} to {last}", exponents)

    what = f"exponent of the {WORDS.get(of, of)} of {learner} over {WORDS[size]}"
    return Effect(what, measured, below=below, of_time=of == COST)


def operations_of(run: StoredRun, n_triplets: int = 100_000) -> Callable[[int], float]:
    """Return the mean of nnz(q) (nnz(p) + nnz(n)) by the seed of the triplets (JMLR 2010, 2.2).

    The triplets are sampled as OASIS does, from the images of a run on sparse rows.
    """
    e = run.info.experiment
    rows: Any = Registry.load().open_dataset(e.dataset, e.dataset_options).load()
    lengths = np.diff(rows.X.indptr).astype(float)

    def count(seed: int) -> float:
        q, p, n = lengths[RelevanceTripletSampler(rows.y, seed_state(seed)).draw(n_triplets)].T
        return float((q * (p + n)).mean())

    return count


def web_growth(of: str, least: int, below: float = math.inf) -> Effect:
    """Make the effect of the exponent over images of OASIS in the trainings of `web-scale`.

    It is of the seconds of a step, or of the steps to saturation, on `least` images or more; a
    value for each seed.
    """

    def measured(runs: Mapping[str, TrainingRecord]) -> Iterator[Measured]:
        points = []
        for record in runs.values():
            if record.training.batch_size is not None:
                continue  # of mini-batches, not of OASIS
            curve = {it.n_steps: it.mean_average_precision for it in record.checkpoints}
            step = record.checkpoints[-1].cpu_seconds / record.n_steps_done
            points.append((record.training.seed, record.training.n_images, step, saturation(curve)))
        frame = pd.DataFrame(points, columns=["seed", "n_images", STEP_COST, STEPS])
        frame = frame[frame["n_images"] >= least]
        yield Measured(WEB_SCALE, _exponents(frame, "seed", "n_images", of))

    what = f"exponent of the {of} of OASIS over images, from {least:,} on"
    return Effect(what, measured, below=below)


def saturation(values: Mapping[int, float], little: float = 0.05) -> float:
    """Return the steps from which twice as many add `little` of the gain over W = I so far, or NaN.

    `values` are of mAP by steps, from 0 on.  The added shares are interpolated over the logarithm
    of steps.
    """
    steps = [n for n in values if n > 0 and 2 * n in values and values[n] > values[0]]
    added = [(values[2 * n] - values[n]) / (values[n] - values[0]) for n in steps]
    few = [i for i, share in enumerate(added) if share < little]
    if not few:
        return math.nan
    ends = slice(max(few[0] - 1, 0), few[0] + 1)
    return float(np.exp(np.interp(-little, -np.array(added[ends]), np.log(steps[ends]))))


def _exponents(points: pd.DataFrame, by: str, size: str, of: str) -> pd.Series[float]:
    """Fit the exponent of a column over a size, for each group that has more than one size."""
    exponents = {
        group: float(np.polyfit(np.log(own[size].astype(float)), np.log(own[of]), 1)[0])
        for group, own in points.dropna(subset=[of]).groupby(by)
        if own[size].nunique() > 1
    }
    return pd.Series(exponents, dtype=np.float64)


def from_published(learner: str, within: float) -> Effect:
    """Make the effect of a learner's accuracy minus the published one: a value for each run.

    It is the mean over k.
    """

    def less_published(run: StoredRun) -> float:
        values = analysis_of(run).values["knn-classification"]
        values = values[(values["measure"] == "accuracy") & (values["learner"] == learner)]
        if values["partition"].nunique() < run.info.experiment.n_partitions:
            return math.nan
        theirs = published_figures(run)
        theirs = theirs[theirs["learner"] == learner].set_index("k")
        return float((values.groupby("k")["value"].mean() - theirs["published"]).mean())

    def measured(runs: Mapping[str, StoredRun]) -> Iterator[Measured]:
        numbers = [less_published(run) for run in runs.values()]
        values = pd.Series(numbers, dtype=np.float64).dropna()
        yield Measured(f"{len(values)} data sets", values, reach=1.0)

    what = f"accuracy of {learner} minus the published one, a value for each data set"
    return Effect(what, measured, -within, within)


def _subsets(
    runs: Mapping[str, StoredRun], rows_of: Callable[[StoredRun], pd.DataFrame]
) -> Iterator[tuple[StoredRun, str, pd.DataFrame, float]]:
    """Go over runs and their class subsets: run, where, rows of it, correlation of partitions."""
    for name, run in runs.items():
        rows, trials = rows_of(run), run.trials
        subsets = [one for one in run.info.classes if (trials["subset"] == one).any()]
        for subset in subsets:
            own = rows[rows["subset"] == subset]
            is_own = (trials["subset"] == subset) & trials["split"].isin(own["split"])
            if len(own):
                where = name if len(subsets) == 1 else f"{name}, classes {subset}"
                yield run, where, own, float(trials.loc[is_own, "rho"].mean())


def _by_learner(rows: pd.DataFrame, column: str = "value") -> pd.DataFrame:
    """Return a column's values (n_partitions, n_learners)."""
    return rows.pivot_table(index="partition", columns="learner", values=column)


def _less(pairs: pd.DataFrame, first: str, second: str) -> pd.Series[float]:
    """Return first minus second; nothing where one lacks a partition that another learner has."""
    if first not in pairs or second not in pairs or pairs[[first, second]].isna().any(axis=None):
        return pd.Series(dtype=np.float64)
    return (pairs[first] - pairs[second]).astype(np.float64)


def _quoted(label: str) -> str:
    """Return a learner's label, in quotes if it has several words."""
    return f"'{label}'" if " " in label else label


OUTCOMES = "supported", "partly supported", "contradicted", "inconclusive", "not tested"

MEASURED = ["id", "experiment", "effect", "where", "above", "below"]
MEASURED += ["mean", "low", "high", "values", "p_value"]
"""The columns of `measured_effects`."""


@dataclass(frozen=True)
class Claim:
    """A claim in our words, its place in the paper, and all effects that make it so.

    The note says in what the test differs from the paper's, or why there is no test.  Effects that
    are `described` are measured, but do not decide the claim; they have no bounds.
    """

    id: str
    sentence: str
    place: str
    experiments: Sequence[str] = ()  # built-in ones, each of which must show all effects
    effects: Sequence[Effect] = ()
    note: str = ""
    described: Sequence[Effect] = ()

    @property
    def measured(self) -> Sequence[Effect]:
        """The effects that are measured: those that decide, then those that are described."""
        return (*self.effects, *self.described)


KINDS: dict[str, Callable[..., Effect]] = {
    **{make.__name__: make for make in (gain, training_gain, last_over_first, gap, growth)},
    **{make.__name__: make for make in (times_as_long, web_growth, of_trials, from_published)},
    "judged": partial(gain, measure="similarity precision", task="judged-triplets"),
    "recognised": partial(gain, measure="mean recognition by Frome's rule", task="classification"),
    "saturated": partial(on_curve, number=_saturated),
    "later": partial(on_curve, number=_later),
}
"""What makes an effect of `papers.toml`, by its kind."""


def _effects(entry: Mapping[str, Any]) -> Iterator[Effect]:
    """Make the effects of an entry: one for each value of a list, as `itertools.product` does."""
    arguments = {
        name: [*_effects(value)] if isinstance(value, dict) else value
        for name, value in entry.items()
        if name != "kind"
    }
    lists = [value if isinstance(value, list) else [value] for value in arguments.values()]
    for values in product(*lists):
        yield KINDS[entry["kind"]](**dict(zip(arguments, values, strict=True)))


def _claims_of_papers() -> Iterator[Claim]:
    """Make the claims of `papers.toml`."""
    for claim in _READ["claims"]:
        effects = {
            name: [it for entry in claim.get(name, ()) for it in _effects(entry)]
            for name in ("effects", "described")
        }
        note = claim.get("note", "").format(**_READ["shared"])
        yield Claim(**{**claim, **effects, "note": note})


_READ = tomllib.loads(Path(__file__).with_name("papers.toml").read_text(encoding="utf-8"))

CLAIMS = tuple(_claims_of_papers())

CHANGES: Sequence[Mapping[str, str]] = tuple(_READ["changes"])
"""Rules that were changed after their data were seen: when, claims, change and seen."""


def experiments() -> list[str]:
    """Name the experiments that decide claims, in the order of the claims."""
    named = dict.fromkeys(name for claim in CLAIMS for name in claim.experiments)
    return [name for name in named if name != WEB_SCALE]


def needs_quiet_cores(experiment: str) -> bool:
    """Tell whether an experiment measures times for a claim."""
    claims = [claim for claim in CLAIMS if experiment in claim.experiments]
    return any(effect.of_time for claim in claims for effect in claim.measured)


def decided_by(folder: Path) -> tuple[pd.DataFrame, pd.DataFrame, Runs, dict[str, str]]:
    """Decide the claims of the papers by the finished runs in a folder of the verb `paper`.

    Returns verdicts and effects as `decide` does, and what `stored_runs` does.
    """
    runs, left_out = stored_runs(folder)
    return *decide(CLAIMS, measured_effects(CLAIMS, runs)), runs, left_out


def stored_runs(folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Read the finished experiments of a folder; say why others that have begun do not count.

    A verdict from half of the partitions would be a look that the test does not allow for.

    Returns
    -------
    dict
        By experiment its runs, by the paths of their folders in `folder`; those of an experiment
        that is several runs in the order of its values.  By `WEB_SCALE` its records of trainings.
    dict
        By experiment why its runs do not count.
    """
    found, reasons = {}, {}
    for name in experiments():
        values = read_experiment(name).one_for_each_value()
        paths = [f"{name}/{value}" for value in values] or [name]
        here = [path for path in paths if has_run(folder / path)]
        try:
            runs: dict[str, Any] = {path: read_run(folder / path) for path in here}
        except UsageError as error:
            reasons[name] = str(error)
            continue
        if len(runs) < len(paths) or any(run.info.finished is None for run in runs.values()):
            if runs:
                reasons[name] = "not finished"
        else:
            found[name] = runs
    records = TrainingRecord.read_all(folder / WEB_SCALE)
    if any(record.n_steps_done < record.training.n_steps for record in records):
        reasons[WEB_SCALE] = "not finished"
    elif records:
        found[WEB_SCALE] = {record.training.name: record for record in records}
    return found, reasons


def measured_effects(claims: Sequence[Claim], runs: Runs) -> pd.DataFrame:
    """Measure the effects of claims in the runs of each experiment: a row for each run and subset.

    Returns
    -------
    DataFrame
        The columns of `MEASURED`: bounds, mean, 90 % interval, number of values and one-sided
        p-value of a mean out of its bounds, uncorrected (see `PairedInterval.within`); NaN
        without bounds.  Where a run has no value of an effect, the number is 0.
    """
    rows = [
        {
            **{"id": claim.id, "experiment": name, "effect": effect.words, "where": one.where},
            **{"above": effect.above, "below": effect.below, "mean": found.mean},
            **{"values": len(one.values), **found.within(effect.above, effect.below)},
        }
        for claim in claims
        for name in claim.experiments
        for effect in claim.measured
        for one in effect.measured(runs.get(name, {}))
        for found in [PairedInterval.of(one.values, one.rho, one.sizes, one.reach)]
    ]
    found = pd.DataFrame(rows, columns=MEASURED)
    has_bound = (found[["above", "below"]].abs() < math.inf).any(axis=1)
    return found.assign(p_value=found["p_value"].where(has_bound))


def decide(claims: Sequence[Claim], effects: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Decide claims by the effects that were measured.

    A claim is *supported* where every effect is significant at level .05: a conjunction needs no
    correction.  It is *contradicted* where an effect lies beyond its bounds, at .05 over the number
    of its effects; else *not tested* where an effect has no value in a run or class subset; *partly
    supported* where at least one is significant after Holm's correction within the claim; else
    *inconclusive*.  Where a claim says that there is a difference, an effect whose bounds allow
    none does not support it partly.

    Returns
    -------
    DataFrame
        A row for each claim, by id: its sentence, place, experiments and note; verdict, one of
        `OUTCOMES`, and words, with the count where it is partly supported; n_supported of
        n_effects; weakest, the row of the effect that speaks least for it; p_value, the largest of
        its effects'; q_value, over all claims that are tested (Benjamini and Hochberg).
    DataFrame
        `effects` of these claims with their outcomes.
    """
    effects = effects[effects["id"].isin([claim.id for claim in claims])]
    lost, effects = (effects[effects["values"].eq(0) == is_lost] for is_lost in (True, False))
    outcomes, verdicts = pd.Series("described", effects.index), {}
    for claim in claims:
        own = effects[effects["id"] == claim.id]
        own = own[own["effect"].isin([it.words for it in claim.effects])]
        measured, unmeasured = (
            {*zip(some["experiment"], some["effect"], strict=True)}
            for some in (own, lost[lost["id"] == claim.id])
        )
        p = own["p_value"].astype(float)
        needed = {(name, effect.words) for name in claim.experiments for effect in claim.effects}
        against = 1 - p <= LEVEL / max(1, len(own), len(needed))
        every = bool((p <= LEVEL).all())
        shown = p <= LEVEL if every else pd.Series(holm(p) <= LEVEL, own.index)
        different = [it.words for it in claim.effects if not it.above < 0 < it.below]
        telling = shown & (own["effect"].isin(different) | (not different))
        if against.any():
            verdict = "contradicted"
        elif not claim.effects or needed - (measured - unmeasured):
            verdict = "not tested"
        else:
            verdict = (
                "supported" if every else "partly supported" if telling.any() else "inconclusive"
            )
        outcomes[own.index] = "inconclusive"
        outcomes[own.index[shown]], outcomes[own.index[against]] = "supported", "contradicted"
        count = f" ({shown.sum()} of {len(own)} effects)" * (verdict == "partly supported")
        verdicts[claim.id] = {
            **{name: getattr(claim, name) for name in ("sentence", "place", "experiments", "note")},
            "verdict": verdict,
            "words": verdict + count,
            "n_supported": int(shown.sum()),
            "n_effects": len(own),
            "weakest": p.fillna(1).idxmax() if len(own) else None,
            "p_value": p.fillna(1).max(),
        }
    found = pd.DataFrame.from_dict(verdicts, orient="index").assign(q_value=math.nan)
    tested = found["verdict"] != "not tested"
    if tested.any():
        p_values = found.loc[tested, "p_value"].astype(float)
        found.loc[tested, "q_value"] = stats.false_discovery_control(p_values)
    found["verdict"] = pd.Categorical(found["verdict"], OUTCOMES)
    return found, effects.assign(outcome=outcomes)
