"""The answer of a run in sentences made from its tests, and what to do next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from oasis_bench.analysis import (
    BestLearners,
    PairedInterval,
    seen_difference,
    task_measures,
    used_by_compare,
    with_costs,
)
from oasis_bench.reports.formatting import plural, seconds_text, series
from oasis_bench.reports.run.facts import (
    finished,
    learners,
    marked,
    sizes,
    split_of,
    splits,
    subset_title,
    subsets,
    task_title,
    tasks,
)
from oasis_bench.reports.run.measure_tables import comparisons
from oasis_bench.runs import StoredRun
from oasis_bench.system import without_options

MOST_NAMED = 3
"""Learners whose difference from the best is told."""

MANY_PARTITIONS = 20

MANY_ENOUGH = 5
"""Partitions below which it is told what difference they can show."""

COLD = 10
"""Times as long as the shortest query time: then a first call may have been cold."""

PARTS = ("tuning", "fit", "queries")


class NextStep(NamedTuple):
    """What may be worth trying, the command, and the argument of `oasis_bench.run`."""

    why: str
    command: str
    argument: str


def answers(run: StoredRun) -> list[str]:
    """Say who leads on each task and by how much, what could not be told apart, and the costs."""
    lines = [line for task in tasks(run) if (line := _of_task(run, task))]
    if lines and (costs := _costs(run)):
        lines.append(costs)
    return lines


def _of_task(run: StoredRun, task: str) -> str:
    """Say what the tests of a task tell on the largest class subset that has results."""
    found: dict[str, dict[str, tuple[pd.DataFrame, BestLearners]]] = {}
    for subset, name, scores, comparison in comparisons(run, task):
        if scores.notna().any(axis=None):
            found.setdefault(subset, {})[name] = scores, comparison
    if not found:
        return ""
    subset = list(found)[-1]
    first, *others = [name for name in used_by_compare(run, task) if name in found[subset]]
    scores, comparison = found[subset][first]
    where, best = f"{task_title(task)}, {subset_title(run, subset)}", comparison.best
    if _all_at_most(scores):
        return (
            f"{where}: all learners are at the most there is (1.000) in {first}: more test "
            f"{run.info.items}, or another measure, would tell them apart."
        )
    if best is None:
        highest = str(scores.mean().idxmax())
        parts = [
            f"{where}: {marked(run, highest)} has the highest {first}, "
            f"{scores[highest].mean():.3f}; {_why_not_compared(scores)}."
        ]
    else:
        parts = [f"{where}: {_lead(run, first, scores, comparison)}"]
        parts += _what_could_be_seen(run, task, subset, comparison)
    parts += _near_chance(run, task, subset, first, scores)
    if best is None:
        return " ".join(parts)
    for name in others:
        parts += _disagreement(run, name, best, *found[subset][name])
    elsewhere = {
        subset_title(run, other): marked(run, leader)
        for other in list(found)[:-1]
        if first in found[other]
        and (leader := found[other][first][1].best) not in (None, best)
        and not _all_at_most(found[other][first][0])
    }
    parts += [f"On {other} {leader} is first." for other, leader in elsewhere.items()]
    return " ".join(parts)


def _all_at_most(scores: pd.DataFrame) -> bool:
    """Tell whether two learners or more have results, and all read 1.000, the most there is."""
    means = scores.mean().dropna()
    return len(means) > 1 and bool((means - 1).abs().max() < 0.0005)


def _lead(run: StoredRun, name: str, scores: pd.DataFrame, comparison: BestLearners) -> str:
    """Say who has the highest mean of a measure; it leads where it was told apart from all."""
    best = str(comparison.best)
    tied = [marked(run, other) for other, v in comparison.verdicts.items() if v == "tied"]
    leads = not {"tied", "better", "untested"} & set(comparison.verdicts.values())
    first = f"{marked(run, best)} {'leads in' if leads else 'has the highest'} {name}"
    first += f" ({scores[best].mean():.3f})"
    untested = _untested(run, comparison)
    if above := _above(run, comparison):
        first = f"{first}, above {above}."
        return first + f" Not told apart from it: {series(tied)}." * bool(tied) + untested
    better = [marked(run, other) for other, v in comparison.verdicts.items() if v == "better"]
    if better:
        return (
            f"{first}, but on the partitions that both finished below {series(better)}." + untested
        )
    return f"{first}; no learner was told apart from it." + untested


def _untested(run: StoredRun, comparison: BestLearners) -> str:
    """Name the learners that differ from the best by the same on each partition."""
    found = [
        f"{marked(run, name)} ({abs(it.mean):.3f} {'below' if it.mean > 0 else 'above'} it on each "
        f"of {it.n} partitions)"
        for name, it in comparison.differences.items()
        if comparison.verdicts[name] == "untested"
    ]
    return f" Not tested, as differences without spread cannot be: {series(found)}." * bool(found)


def _what_could_be_seen(
    run: StoredRun, task: str, subset: str, comparison: BestLearners
) -> Iterator[str]:
    """Say what difference few partitions can show, where they did not tell learners apart."""
    images = sizes(run, subset, split_of(run, task))
    tied = [
        it for name, it in comparison.differences.items() if comparison.verdicts[name] == "tied"
    ]
    n_partitions = max((it.n for it in tied), default=MANY_ENOUGH)
    if images is None or n_partitions >= MANY_ENOUGH:
        return
    seen = [seen_difference(it, *images) for it in tied if it.sd > 0]
    if any(map(math.isnan, seen)):
        yield f"{n_partitions} partitions that vary as much are not likely to show any difference."
    elif seen and max(seen) >= 0.0005:
        yield (
            f"{n_partitions} partitions are likely to show only a difference of {max(seen):.3f} or "
            "more."
        )


def _near_chance(
    run: StoredRun, task: str, subset: str, name: str, scores: pd.DataFrame
) -> Iterator[str]:
    """Say where no learner's mean is above chance by two standard deviations."""
    values = task_measures(run, task)
    own = values[(values["subset"] == subset) & (values["name"] == name)]
    chance = own.drop_duplicates("partition")["chance"].astype(float).mean()
    least = (scores.mean() - 2 * scores.std().fillna(0)).dropna()
    if (least <= chance).all():
        yield f"{'None is' if len(least) > 1 else 'It is not'} clearly above chance ({chance:.3f})."


def _why_not_compared(scores: pd.DataFrame) -> str:
    if scores.shape[1] < 2 or scores.count().gt(0).sum() < 2:
        return "there is no other learner to compare it with"
    return "one partition tells no learners apart"


def _above(run: StoredRun, comparison: BestLearners) -> str:
    """Name the learners that the best is above and by how much, the nearest first."""
    worse = {
        name: difference
        for name, difference in comparison.differences.items()
        if comparison.verdicts[name] == "worse"
    }
    nearest = sorted(worse, key=lambda name: worse[name].mean)
    named = [f"{marked(run, name)} by {_interval(worse[name])}" for name in nearest[:MOST_NAMED]]
    if more := len(nearest) - MOST_NAMED:
        named += [plural(more, "other") + " by more"] if more > 0 else []
    return series(named)


def _interval(difference: PairedInterval) -> str:
    return f"{difference.mean:.3f} (95 % interval {difference.low:.3f} to {difference.high:.3f})"


def _disagreement(
    run: StoredRun, name: str, best: str, scores: pd.DataFrame, comparison: BestLearners
) -> Iterator[str]:
    """Say where another measure has another leader."""
    leader = comparison.best
    if leader is None or leader == best or _all_at_most(scores):
        return
    first = f"In {name} {marked(run, leader)} is first ({scores[leader].mean():.3f})"
    verdict = comparison.verdicts.get(best)
    if verdict == "worse":
        yield f"{first}, above {marked(run, best)} by {_interval(comparison.differences[best])}."
    elif verdict == "untested":
        yield f"{first}.{_untested(run, comparison)}"
    else:
        yield f"{first}, and {marked(run, best)} is not told apart from it."


def _costs(run: StoredRun) -> str:
    """Say what one trial of each learner took in all, on the largest subset of the first split."""
    trials = with_costs(finished(run, splits(run)[0]))
    largest = [subset for subset in subsets(run) if (trials["subset"] == subset).any()]
    if not largest or trials["tuning_seconds"].isna().all():
        return ""
    own = trials[trials["subset"] == largest[-1]]
    parts = own.assign(
        tuning=own["tuning_seconds"], fit=own["fit_seconds"], queries=own["query_seconds"]
    )
    medians: Any = parts.groupby("learner")[list(PARTS)].median()
    totals = medians.sum(axis=1)
    shown = [name for name in learners(run) if name in totals.index]
    texts = []
    for name in sorted(shown, key=lambda name: float(totals[name])):
        each = ", ".join(f"{what} {seconds_text(medians.at[name, what])}" for what in PARTS)
        texts.append(f"{marked(run, name)} {seconds_text(float(totals[name]))} s ({each})")
    ends: Any = parts.groupby("learner")["queries"].agg(["min", "max"])
    cold = [
        marked(run, name) for name in shown if ends.at[name, "max"] > COLD * ends.at[name, "min"]
    ]
    slow = f" Query times of {series(cold)} differ tenfold and more: a first call may be cold."
    costs = f"Cost of one partition, {subset_title(run, largest[-1])}: {series(texts)}."
    return costs + slow * bool(cold)


def next_steps(run: StoredRun) -> list[NextStep]:
    """Return what may be worth trying next, the most useful first."""
    return list(_next_steps(run))


def _next_steps(run: StoredRun) -> Iterator[NextStep]:
    n_partitions = run.info.experiment.n_partitions
    verdicts = [
        verdict
        for task in tasks(run)
        for _, name, scores, comparison in comparisons(run, task)
        if name in used_by_compare(run, task)[:1] and not _all_at_most(scores)
        for verdict in comparison.verdicts.values()
    ]
    open_question = bool({"tied", "untested"} & set(verdicts)) or (n_partitions < 2 and verdicts)
    same = run.info.n_folds or run.info.experiment.test_share == 1  # however many there are
    if n_partitions < MANY_PARTITIONS and not same and open_question:
        yield NextStep(
            "More partitions may tell apart what could not be told apart",
            again(run, {"--partitions": str(MANY_PARTITIONS)}),
            f"partitions={MANY_PARTITIONS}",
        )
    trials = finished(run)
    steps = trials["n_steps"].dropna()
    searched = run.validation["n_steps"].notna().any()
    cap = run.info.experiment.max_steps
    if searched and len(steps) and (steps == cap).mean() >= 0.5:
        yield NextStep(
            f"Most searches of the number of steps ended at their last one, {cap:,}: more may do "
            "better",
            again(run, {"--max-steps": str(4 * cap)}),
            f"max_steps={4 * cap}",
        )
    if any(remark.startswith("warning: columns") for remark in run.info.remarks):
        yield NextStep(
            "Columns of unlike scales: let the inner folds choose how rows are scaled",
            again(run, {"--scaling": "l2,standard+l2,minmax"}),
            'scaling="l2,standard+l2,minmax"',
        )


def again(run: StoredRun, options: dict[str, str]) -> str:
    """Write the command of a run with other options, and without its folder.

    Only the options where the command is not known.
    """
    words = shlex.split(run.info.command or "")
    is_whole = words[3:4] == ["run"]
    kept = without_options(words, [*options, "--output"]) if is_whole else []
    return shlex.join([*kept, *(text for option in options.items() for text in option)])
