"""What a run says in words: its answer, what to do next, and the summary of the terminal."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from oasis_bench.analysis import (
    LEAST_SETS,
    PairedInterval,
    seen_difference,
    used_by_compare,
)
from oasis_bench.reports.formatting import (
    SUMMARY_WIDTH,
    aligned,
    clip,
    number_text,
    plural,
    seconds_text,
    series,
    wrapped,
)
from oasis_bench.reports.measures import (
    ABSTAINED,
    CHANCE,
    ceilings,
    mean_texts,
)
from oasis_bench.reports.trials import TunedEnd, tuned_ends
from oasis_bench.reports.view import Comparison, RunView, task_title, view_of
from oasis_bench.runs import StoredRun
from oasis_bench.system import printable, without_options

MOST_NAMED = 3
"""Learners whose difference from the best is told."""

MOST_LINES = 9
"""Of the answer on the terminal, which the path of the report follows."""

BRIEF_VERDICTS = {
    "worse": "significantly above",
    "tied": "statistically tied with",
    "untested": "not testable against",
    "better": "on the partitions that both finished below",
}

MOST_AT_END = 0.1
"""Share of partitions from which on a tuned end of a range is told."""

MANY_PARTITIONS = 20

MANY_ENOUGH = 5
"""Partitions below which it is told what difference they can show."""

COLD = 10
"""Times as long as the shortest query time: then a first call may have been cold."""

PARTS = ("tuning", "fit", "queries")

CLASSIFIER = "ClassifierPosterior"

SUBSET_WIDTH = 10
BESIDE_SPREAD = " " * len("±0.000*")


class NextStep(NamedTuple):
    """What may be worth trying, the command, and the argument of `oasis_bench.run`."""

    why: str
    command: str
    argument: str


def answers(view: RunView) -> list[str]:
    """Say who leads on each task, by how much, what is not significant, and the costs."""
    lines = [line for task in view.tasks if (line := _of_task(view, task))]
    if lines and (costs := _costs(view)):
        lines.append(costs)
    return lines


def _of_task(view: RunView, task: str) -> str:
    """Say what the tests of a task tell on the largest class subset that has results."""
    found: dict[str, dict[str, Comparison]] = {}
    for it in view.comparisons[task]:
        if it.scores.notna().any(axis=None):
            found.setdefault(it.subset, {})[it.name] = it
    if not found:
        return ""
    subset = list(found)[-1]
    first, *others = [name for name in used_by_compare(view.stored, task) if name in found[subset]]
    it = found[subset][first]
    where, best = f"{task_title(task)}, {view.subset_title(subset)}", it.best.best
    if _all_at_most(it):
        return (
            f"{where}: all learners are at the most there is (1.000) in {first}: more test "
            f"{view.info.items}, or another measure, would tell them apart."
        )
    if best is None:
        parts = [f"{where}: {_without_comparison(view, it)}"]
    else:
        parts = [f"{where}: {_lead(view, it)}", *_what_could_be_seen(view, task, it)]
    parts += _abstaining(view, task, it)
    parts += _near_chance(view, task, it)
    parts += [
        f"{end.in_words} for {view.marked(name)}: a wider range may do better."
        for name, end in _ends_of_first(view, task, it)
    ]
    if best is None:
        return " ".join(parts)
    for name in others:
        parts += _disagreement(view, best, found[subset][name])
    elsewhere = {
        view.subset_title(other): _named(view, leader)
        for other in list(found)[:-1]
        if first in found[other]
        and (leader := found[other][first].best.best) not in (None, best)
        and not _all_at_most(found[other][first])
    }
    parts += [f"On {other} {leader} is first." for other, leader in elsewhere.items()]
    return " ".join(parts)


def _ends_of_first(view: RunView, task: str, it: Comparison) -> Iterator[tuple[str, TunedEnd]]:
    """Yield the ends of ranges that the best learner and the next best have tuned."""
    trials = view.finished_on(view.split_of(task))
    for name in pd.Series(it.best.means).dropna().nlargest(2).index:
        own = trials[(trials["subset"] == it.subset) & (trials["learner"] == name)]
        for end in tuned_ends(view, own):
            if MOST_AT_END * len(own) <= len(end.trial_ids):
                yield str(name), end


def _all_at_most(it: Comparison) -> bool:
    """Tell whether two learners or more have results, and all read 1.000, the most there is."""
    means = pd.Series(it.best.means).dropna()
    return len(means) > 1 and bool((means - 1).abs().max() < 0.0005)


def _named(view: RunView, learner: str) -> str:
    """Return a learner's label, and what it is where it is no metric."""
    return view.marked(learner) + " (a classifier)" * _is_classifier(view, learner)


def _is_classifier(view: RunView, learner: str) -> bool:
    return view.experiment.learners[learner].algorithm == CLASSIFIER


def _without_comparison(view: RunView, it: Comparison) -> str:
    """Say who has the highest mean, and why no other is compared with it."""
    highest = str(pd.Series(it.best.means).idxmax())
    mean = f"{it.best.means[highest]:.3f}"
    if it.sizes is not None and not math.isnan((interval := view.interval(it, highest)).low):
        mean += (
            f" (95 % interval {interval.low:.3f} to {interval.high:.3f}, by a bootstrap over "
            f"{interval.n} queries)"
        )
    why = _why_not_compared(view, it)
    return f"{view.marked(highest)} has the highest {it.name}, {mean}; {why}."


def _lead(view: RunView, it: Comparison) -> str:
    """Say who has the highest mean, and by how much: first what is significant.

    It leads where its difference from each other learner is significant.
    """
    best, verdicts = str(it.best.best), it.best.verdicts
    leads = not {"tied", "better", "untested"} & set(verdicts.values())
    text = f"{view.marked(best)} {'leads in' if leads else 'has the highest'} {it.name}"
    text += f" ({it.best.means[best]:.3f})."
    effects = [
        f"{series(_effects(view, it, names))} ({words})"
        for words, wanted in (("significant", ("worse", "better")), ("not significant", ("tied",)))
        if (names := [name for name in it.best.differences if verdicts[name] in wanted])
    ]
    if effects:
        text += f" It is {', and '.join(effects)}; 95 % intervals in brackets."
    if found := [
        f"{view.marked(name)} ({abs(own.mean):.3f} {'below' if own.mean > 0 else 'above'} it on "
        f"each of {own.n} {'partitions' if it.sizes is None else 'queries'})"
        for name, own in it.best.differences.items()
        if verdicts[name] == "untested"
    ]:
        text += f" Not testable, as differences without spread are: {series(found)}."
    if _is_classifier(view, best):
        others = {k: v for k, v in it.best.means.items() if not _is_classifier(view, k) and v == v}
        text = f"a classifier’s posterior wins, which is no metric: {text}"
        if others:
            second = max(others, key=others.__getitem__)
            text += f" The best metric learner is {view.marked(second)} ({others[second]:.3f})."
    return text


def _effects(view: RunView, it: Comparison, names: Sequence[str]) -> list[str]:
    """Say how far the best is above some learners, the nearest first; of more their number."""
    own = it.best.differences
    nearest = sorted(names, key=lambda name: own[name].mean)
    more = nearest[MOST_NAMED:]
    texts = [
        _effect(own[name], view.marked(name), it.best.verdicts[name] == "better")
        for name in nearest[: len(nearest) - len(more)]
    ]
    return [*texts, f"further above {plural(len(more), 'other')}"] if more else texts


def _effect(it: PairedInterval, other: str, is_partial: bool = False) -> str:
    """Write a difference and its interval: how far above another learner, or below."""
    low, high = (it.low, it.high) if it.mean >= 0 else (-it.high, -it.low)
    interval = "" if math.isnan(low) else f" [{low:.3f}, {high:.3f}]"
    where = " on the partitions that both finished" * is_partial
    return f"{abs(it.mean):.3f}{interval} {'above' if it.mean >= 0 else 'below'} {other}{where}"


def _what_could_be_seen(view: RunView, task: str, it: Comparison) -> Iterator[str]:
    """Say what difference few partitions can show, where some were not significant."""
    tied = [own for name, own in it.best.differences.items() if it.best.verdicts[name] == "tied"]
    n_partitions = max((own.n for own in tied), default=MANY_ENOUGH)
    if n_partitions >= MANY_ENOUGH:
        return
    rho = view.rho[it.subset, view.split_of(task)]
    seen = [seen_difference(own, rho) for own in tied if own.sd > 0]
    if any(map(math.isnan, seen)):
        yield f"{n_partitions} partitions that vary as much are not likely to show any difference."
    elif seen and max(seen) >= 0.0005:
        yield (
            f"{n_partitions} partitions are likely to show only a difference of {max(seen):.3f} or "
            "more."
        )


def _abstaining(view: RunView, task: str, it: Comparison) -> Iterator[str]:
    """Say of which learners the values are those of the Euclidean baseline."""
    own = _numbers(view, task, it)
    if names := [view.marked(name) for name in own.loc[own["blend"] == 0, "learner"]]:
        yield (
            f"What {series(names)} learned has weight 0 on all partitions: the values are those of "
            "the Euclidean baseline."
        )


def _near_chance(view: RunView, task: str, it: Comparison) -> Iterator[str]:
    """Say where no learner's mean is above chance by two standard deviations."""
    values = view.values[task]
    own = values[(values["subset"] == it.subset) & (values["name"] == it.name)]
    chance = own.drop_duplicates("partition")["chance"].astype(float).mean()
    shown = _numbers(view, task, it)
    least = (shown["mean"] - 2 * shown["sd"].fillna(0)).dropna()
    if (least <= chance).all():
        yield f"{'None is' if len(least) > 1 else 'It is not'} clearly above chance ({chance:.3f})."


def _numbers(view: RunView, task: str, it: Comparison) -> pd.DataFrame:
    """Return the means and spreads of the learners that are compared."""
    numbers = view.numbers[task]
    return numbers[(numbers["subset"] == it.subset) & (numbers["name"] == it.name)]


def _why_not_compared(view: RunView, it: Comparison) -> str:
    if it.scores.shape[1] < 2 or it.scores.count().gt(0).sum() < 2:
        return "there is no other learner to compare it with"
    if view.experiment.replicates:
        return f"{view.partitions_text} are described, not tested: that takes {LEAST_SETS}"
    if it.sizes is not None:
        return f"{len(it.sizes)} queries of judgements are too few for a test"
    return "one partition tells no learners apart"


def _disagreement(view: RunView, best: str, it: Comparison) -> Iterator[str]:
    """Say where another measure has another leader, and by how much."""
    leader = it.best.best
    if leader is None or leader == best or _all_at_most(it):
        return
    first = f"In {it.name} {_named(view, leader)} is first ({it.best.means[leader]:.3f})"
    verdict = it.best.verdicts.get(best)
    if best in it.best.differences:
        words = {"worse": "significant", "tied": "not significant", "untested": "not testable"}
        effect = _effect(it.best.differences[best], view.marked(best))
        first += f", {effect} ({words.get(verdict or '', 'significant')})"
    yield f"{first}."


def _costs(view: RunView) -> str:
    """Say what one trial of each learner took in all, on the largest subset of the first split."""
    trials = view.finished_on(view.splits[0])
    largest = [subset for subset in view.subsets if (trials["subset"] == subset).any()]
    if not largest or trials["tuning_seconds"].isna().all():
        return ""
    own = trials[trials["subset"] == largest[-1]]
    parts = own.assign(
        tuning=own["tuning_seconds"], fit=own["fit_seconds"], queries=own["query_seconds"]
    )
    medians: Any = parts.groupby("learner")[list(PARTS)].median()
    totals = medians.sum(axis=1)
    shown = [name for name in view.learners if name in totals.index]
    texts = []
    for name in sorted(shown, key=lambda name: float(totals[name])):
        each = ", ".join(f"{what} {seconds_text(medians.at[name, what])}" for what in PARTS)
        texts.append(f"{view.marked(name)} {seconds_text(float(totals[name]))} s ({each})")
    ends: Any = parts.groupby("learner")["queries"].agg(["min", "max"])
    cold = [
        view.marked(name) for name in shown if ends.at[name, "max"] > COLD * ends.at[name, "min"]
    ]
    slow = f" Query times of {series(cold)} differ tenfold and more: a first call may be cold."
    costs = f"Cost of one partition, {view.subset_title(largest[-1])}: {series(texts)}."
    return costs + slow * bool(cold)


def next_steps(view: RunView) -> list[NextStep]:
    """Return what may be worth trying next, the most useful first."""
    return list(_next_steps(view))


def _next_steps(view: RunView) -> Iterator[NextStep]:
    n_partitions = view.experiment.n_partitions
    verdicts = [
        verdict
        for task in view.tasks
        for it in view.comparisons[task]
        if it.name in used_by_compare(view.stored, task)[:1] and not _all_at_most(it)
        if view.split_of(task) not in view.judged  # each judgement tests once
        for verdict in it.best.verdicts.values()
    ]
    for task in view.tasks:
        scored = [it for it in view.comparisons[task] if it.scores.notna().any(axis=None)]
        for it in scored[-1:]:
            for label, end in _ends_of_first(view, task, it):
                values = f"{label}.{end.name}={end.wider}"
                yield NextStep(
                    f"{end.in_words} for {label}: a wider range may do better",
                    again(view, {"--param": values}),
                    f'params="{values}"',
                )
    open_question = bool({"tied", "untested"} & set(verdicts)) or (n_partitions < 2 and verdicts)
    e = view.experiment
    same = view.info.n_folds or e.replicates or e.test_share == 1  # however many there are
    if n_partitions < MANY_PARTITIONS and not same and open_question:
        yield NextStep(
            "More partitions give the tests more power",
            again(view, {"--partitions": str(MANY_PARTITIONS)}),
            f"partitions={MANY_PARTITIONS}",
        )
    steps = view.finished["n_steps"].dropna()
    searched = view.validation["n_steps"].notna().any()
    cap = view.experiment.max_steps
    if searched and len(steps) and (steps == cap).mean() >= 0.5:
        yield NextStep(
            f"Most searches of the number of steps ended at their last one, {cap:,}: more may do "
            "better",
            again(view, {"--max-steps": str(4 * cap)}),
            f"max_steps={4 * cap}",
        )
    if any(remark.startswith("warning: columns") for remark in view.info.remarks):
        yield NextStep(
            "Columns of unlike scales: let the inner folds choose how rows are scaled",
            again(view, {"--scaling": "standard,standard+l2,minmax"}),
            'scaling="standard,standard+l2,minmax"',
        )


def again(view: RunView, options: dict[str, str]) -> str:
    """Write the command of a run with other options, and without its folder.

    Only the options where the command is not known.
    """
    words = shlex.split(view.info.command or "")
    is_whole = words[3:4] == ["run"]
    replaced = [name for name in options if name != "--param"]  # which may be given many times
    kept = without_options(words, [*replaced, "--output"]) if is_whole else []
    return shlex.join([*kept, *(text for option in options.items() for text in option)])


def answer_text(run: StoredRun) -> str:
    """Say in nine lines at most who is best on each task, what it costs and what to try next.

    The report, and `summary_text`, also have differences with their intervals, and tables.
    """
    view = view_of(run)
    gaps = [line for gap in dict.fromkeys(_gaps(view)) for line in wrapped(gap)]
    more = [f"  (of {len(gaps)} lines on what failed; all are in the report)"]
    last = [*wrapped(_brief_costs(view)), *(gaps if len(gaps) < 3 else [gaps[0], *more])]
    first = [line for task in view.tasks for line in wrapped(_brief(view, task))]
    steps = [(f"{it.why}:", f"  {printable(it.command)}") for it in next_steps(view)[:1]]
    if len(first) + len(last) + 2 <= MOST_LINES:
        last += [line for step in steps for line in step]
    if len(first) > (room := MOST_LINES - len(last)):
        first = [*first[: room - 1], "  (the other tasks are in the report)"]
    return "\n".join([*first, *last])


def _brief(view: RunView, task: str) -> str:
    """Say who has the highest mean on the largest class subset, and which others are tied."""
    scored = [it for it in view.comparisons[task] if it.scores.notna().any(axis=None)]
    if not scored:
        return ""
    of_subset = {it.name: it for it in scored if it.subset == scored[-1].subset}
    names = [name for name in used_by_compare(view.stored, task) if name in of_subset]
    it = of_subset[names[0]]
    where, best = f"{task_title(task)}, {view.subset_title(it.subset)}: ", it.best.best
    near = " ".join(_near_chance(view, task, it))
    if _all_at_most(it):
        return f"{where}all learners are at the most there is (1.000) in {it.name}."
    if best is None:
        return f"{where}{_without_comparison(view, it)} {near}"
    text = f"{where}{_named(view, best)} has the highest {it.name}, {it.best.means[best]:.3f}"
    for verdict, words in BRIEF_VERDICTS.items():
        own = [name for name in it.best.differences if it.best.verdicts[name] == verdict]
        own.sort(key=lambda name: -it.best.means[name])
        texts = [f"{view.marked(name)} {it.best.means[name]:.3f}" for name in own[:MOST_NAMED]]
        texts += [plural(len(own) - MOST_NAMED, "other")] * (len(own) > MOST_NAMED)
        text += f"; {words} {series(texts)}" * bool(own)
    return f"{text}. {near}"


def _brief_costs(view: RunView) -> str:
    """Say what one partition took of each learner, the cheapest first; of many the ends."""
    trials = view.finished_on(view.splits[0])
    subsets = [subset for subset in view.subsets if (trials["subset"] == subset).any()]
    own = trials[trials["subset"].isin(subsets[-1:])]
    parts = own["tuning_seconds"].fillna(0) + own["fit_seconds"].fillna(0) + own["query_seconds"]
    medians = parts.groupby(own["learner"]).median().dropna().sort_values()
    texts = [f"{view.marked(str(it))} {seconds_text(own)} s" for it, own in medians.items()]
    if len(texts) > 2 * MOST_NAMED:
        texts = [*texts[:MOST_NAMED], "...", *texts[-MOST_NAMED:]]
    return f"Tuning, fit and queries of one partition: {', '.join(texts)}." if texts else ""


def summary_text(run: StoredRun, in_python: bool = False) -> str:
    """Summarise a run as plain text of at most 110 columns: the answer, each task, the costs.

    What to do next is a command, or in Python an argument of `oasis_bench.run`.
    """
    view = view_of(run)
    text = [part for line in answers(view) for part in (*wrapped(line), "")]
    of_partitions = [task for task in view.tasks if view.split_of(task) not in view.judged]
    notes = [
        *([f"mean ± sd over {view.partitions_text}"] if of_partitions else []),
        *(
            f"{task}: mean ± {view.spread_text(task)}"
            for task in view.tasks
            if task not in of_partitions
        ),
    ]
    notes = ["; ".join([*notes, "costs: medians [min - max]"])]
    for task in view.tasks:
        lines, best, limits = _task_lines(view, task)
        text += [f"{task}:", *_aligned_to_width(lines, (1,)), *limits]
        if best and not notes[1:]:
            notes.append(
                "* best, or statistically tied with the best (corrected paired t-test, Holm, 0.05)"
            )
    if view.is_blended:
        notes.append(
            "(in brackets) as learned, without the blend with the Euclidean baseline; = what was "
            "learned has weight 0"
        )
    for split in view.splits:
        title = ", ".join(["costs", *view.of_splits(split)])
        text += [f"{title}:", *_aligned_to_width(_cost_lines(view, split), (1, 4))]
    if count := int(view.finished["noisy"].sum()):
        notes.append(
            (
                "the fit time of 1 trial is noisy: it"
                if count == 1
                else f"fit times of {count} trials are noisy: they"
            )
            + " waited for a core (marked in the report)"
        )
    notes += view.dagger_notes
    for whole in dict.fromkeys(_gaps(view)):
        notes += wrapped(whole)
    for step in next_steps(view)[:1]:
        notes += [f"{step.why}:", f"  {printable(step.argument if in_python else step.command)}"]
    return "\n".join([*text, *notes])


def _task_lines(view: RunView, task: str) -> tuple[list[list[str]], bool, list[str]]:
    """Return the cells of a task's table, whether one has a star, and what cannot reach 1."""
    numbers, measures = view.numbers[task], view.measures[task]
    measures = measures[measures["name"].isin(used_by_compare(view.stored, task))]
    numbers = numbers[numbers["name"].isin(measures["name"])]
    lines = [[view.class_noun, "learner", *(f"{option} " for option in measures["option"])]]
    limits: list[str] = []
    for subset, learner, own in view.by_subset_and_learner(numbers, view.split_of(task)):
        texts = [
            text.replace(ABSTAINED, "=").replace(" ", "") + ("*" if bold else " ")
            for text, bold in zip(mean_texts(own), own["bold"], strict=True)
        ]
        lines.append([*_labels(view, subset, learner), *texts])
        if learner == view.learners[-1]:
            chances = [number_text(value, "{:.3f}", missing="-") for value in own["chance"]]
            lines.append([lines[-1][0], CHANCE, *(text + BESIDE_SPREAD for text in chances)])
            limits += [f"{name}: {text}" for name, text in ceilings(view, task, own).items()]
    return lines, bool(numbers["bold"].any()), list(dict.fromkeys(limits))


def _cost_lines(view: RunView, split: str) -> list[list[str]]:
    """Return the cells of the table of a split's costs, fewer than the report has."""
    lines = [
        [
            *(view.class_noun, "learner", "tuning, s", "fit, s", "", "query, ms", ""),
            "model, KiB",
        ]
    ]
    costs = view.costs[split].set_index("quantity")
    for subset, learner, own in view.by_subset_and_learner(costs, split):
        median, fit = own["median"], own.loc[["fit_seconds"]].iloc[0]
        query = own.loc[["seconds_per_query"]].iloc[0]
        cells = [
            *(seconds_text(median["tuning_seconds"]), seconds_text(fit["median"])),
            f"[{seconds_text(fit['min'])} - {seconds_text(fit['max'])}]" if fit["n"] else "",
            seconds_text(1000 * median["seconds_per_query"]),
            f"[{seconds_text(1000 * query['min'])} - {seconds_text(1000 * query['max'])}]",
            number_text(median["model_bytes"] / 2**10, "{:,.1f}"),
        ]
        cells = cells if own["n"].any() else ["-", "-", "", "-", "", "-"]
        lines.append([*_labels(view, subset, learner), *cells])
    return lines


def _labels(view: RunView, subset: str, learner: str) -> tuple[str, str]:
    return printable(clip(subset, SUBSET_WIDTH)), printable(view.marked(learner))


def _gaps(view: RunView) -> Iterator[str]:
    """Say where learners have fewer results than planned, once for all with the same reason."""
    same: dict[tuple[str, str], list[str]] = {}
    for task in view.tasks:
        for subset, learner, _ in view.by_subset_and_learner(view.trials):
            for told in view.shortfall(subset, learner, view.split_of(task), task):
                where = f"{task}, " if len(view.tasks) > 1 else ""
                name, reason = view.marked(learner), told.removeprefix(f"{view.marked(learner)}: ")
                same.setdefault((f"{where}{view.subset_title(subset)}", reason), []).append(name)
    for (where, reason), names in same.items():
        who = "all learners" if len(names) == len(view.learners) > 2 else series(names)
        yield f"{where}, {who}: {reason}"


def _aligned_to_width(lines: list[list[str]], left: tuple[int, ...]) -> list[str]:
    """Align cells in columns; shorten the learners' labels where a line would be too long."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    room = SUMMARY_WIDTH - (sum(widths) - widths[1] + 2 * (len(widths) - 1))
    cut = [[line[0], clip(line[1], max(room, 8)), *line[2:]] for line in lines]
    return aligned(cut, left=left)
