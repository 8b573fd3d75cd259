"""What a run says in words: its answer, and what to do next."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from oasis_bench.analysis import BASELINES, LEAST_SETS, Comparison, PairedInterval
from oasis_bench.plugins import BASELINE
from oasis_bench.reports.table import plural, seconds_text, series
from oasis_bench.reports.trials import TunedEnd, tuned_ends
from oasis_bench.reports.view import RunView, task_title
from oasis_bench.reports.words import WORDS, sentence
from oasis_bench.system import without_options

MOST_NAMED = 3
"""Learners of a kind that the answer names."""

MOST_AT_END = 0.1
"""Share of partitions from which on a tuned end of a range is reported."""

MANY_PARTITIONS = 20

MANY_ENOUGH = 5
"""Partitions below which the answer says what difference they can show."""

PARTS = ["tuning_seconds", "fit_seconds", "query_seconds"]

CLASSIFIER = "ClassifierPosterior"

NO_OTHER = "there is no other learner to compare it with"


class NextStep(NamedTuple):
    """What may be worth trying, the command, and the argument of `oasis_bench.run`."""

    why: str
    command: str
    argument: str


def answers(view: RunView, brief: bool = False) -> list[str]:
    """Say whether learning helps, who leads on each task, by how much, the costs, and the blend.

    In brief: by the first measure, on the largest class subset.
    """
    lines = list(_of_uses(view))
    is_short = brief and bool(lines)
    needed = {
        "posterior": bool(lines),
        "brackets": is_short,
        "blended": view.is_blended and not is_short,
    }
    lines += [line for task in view.tasks if (line := _of_task(view, task, brief))]
    words = [sentence(name, items=view.info.items) for name, holds in needed.items() if holds]
    last = filter(None, [_costs(view), *words])
    return [*lines, *filter(None, [" ".join(last)])] if lines else []


def headlines(view: RunView) -> list[str]:
    """Say in three short sentences for each task whether learning helps, how much, and how used.

    Nothing where no learner votes.
    """
    lines = []
    for task, known, it in _compared_uses(view):
        helps, best, _ = _gains(view, it)
        words = {name: WORDS["uses"][name.split()[0]] for name in it.differences}
        uses = series([f"{it.means[name]:.3f} {use}" for name, use in words.items()])
        chance = _numbers(view, task, it)["chance"].iloc[0]
        last = f", and chance is {chance:.3f}." if chance == chance else "."
        lines.append(f"{known} classes: {helps} {best} {BASELINE} has {uses}{last}")
    return lines


def _of_uses(view: RunView) -> Iterator[str]:
    """Say for each task whether learning a metric helps, and in which use."""
    for task, known, it in _compared_uses(view):
        where = (
            task_title(task).lower(),
            view.subset_title(it.subset),
            _number(view, it, len(it.scores)),
        )
        yield f"{known} classes ({', '.join(where)}): {' '.join(_gains(view, it))}"


def _compared_uses(view: RunView) -> Iterator[tuple[str, str, Comparison]]:
    """Yield each task, 'Known' or 'New', and its comparison of uses, on the largest class subset.

    Nothing where no learner votes.
    """
    learners = view.experiment.learners.items()
    learned = [name for name, spec in learners if spec.algorithm not in BASELINES]
    for task in view.tasks if view.has_posterior else ():
        split = view.split_of(task)
        known = "New" if view.info.sources.splits[split].knows_classes is False else "Known"
        for subset in reversed(view.subsets_of(split)):
            it = view.compare_uses(task, subset, learned, BASELINE)
            if it is not None and it.best is not None:
                yield task, known, it
                break


def _gains(view: RunView, it: Comparison) -> Iterator[str]:
    """Say what the best use of a learner gains over each use of the baseline."""
    direct, *posterior = [it.verdicts[name] for name in it.differences]
    found = f"labels {posterior[0]}" if posterior and direct == "worse" else direct
    if found.startswith("labels") and posterior != ["worse"] and not _labels_help(it):
        found = "not by posterior"
    yield WORDS["gains"][found].format(margin=f"{it.margin:g}")
    use, _, best = str(it.best).partition(" ")
    named = {"learner": view.marked(best), "measure": it.name, "mean": it.means[str(it.best)]}
    yield sentence("best_use", use=WORDS["uses"][use], **named)
    gaps = []
    for name, own in it.differences.items():
        verdict = WORDS["verdicts"][it.verdicts[name]].removesuffix(" on shared partitions")
        verdict += _uncorrected(own) * (it.verdicts[name] == "unclear")
        gaps.append(f"{_gap(own)} {_side(own)} {WORDS['uses'][name.split()[0]]} ({verdict})")
    yield f"{BASELINE} is {series(gaps)}."


def _labels_help(it: Comparison) -> bool:
    """Tell whether the baseline is significantly better by posterior than directly.

    By the sign, if the difference is the same on each partition.
    """
    (direct, own), (posterior, _) = it.differences.items()
    gain = PairedInterval.of((it.scores[posterior] - it.scores[direct]).dropna(), own.rho)
    return gain.low > 0 or (gain.sd == 0 < gain.mean)


def _of_task(view: RunView, task: str, brief: bool) -> str:
    """Say what the tests of a task show on the largest class subset that has results."""
    found: dict[str, dict[str, Comparison]] = {}
    for it in view.comparisons[task]:
        if it.scores.notna().any(axis=None):
            found.setdefault(it.subset, {})[it.name] = it
    if not found:
        return ""
    subset = list(found)[-1]
    first, *others = [name for name in view.names(task, "is_compared") if name in found[subset]]
    it = found[subset][first]
    where, best = f"{task_title(task)}, {view.subset_title(subset)}: ", it.best
    if all_at_most(it):
        with_result = "with a result " * bool((it.scores.count() == 0).any())
        words = {"measure": first, "items": view.info.items, "with_result": with_result}
        return where + sentence("all_at_most", **words)
    parts = [_without_comparison(view, task, it)] if best is None else list(_leads(view, it))
    parts += [*_what_could_be_seen(it), *_caveats(view, task, it, of_best=brief)]
    if brief:
        return where + " ".join(parts)
    for other in [found[subset][name] for name in others] if best else []:
        if _another_leads(other, best):
            parts.append(_other_leader(view, str(best), other))
    for name in list(found)[:-1] if best else []:
        here = found[name].get(first)
        if here and _another_leads(here, best):
            leader = _named(view, str(here.best))
            parts.append(f"{leader} is best on {view.subset_title(name)}.")
    return where + " ".join(parts)


def _ends_of_first(view: RunView, task: str, it: Comparison) -> Iterator[tuple[str, TunedEnd]]:
    """Yield the ends of ranges that the best learner and the next best have tuned."""
    trials = view.finished_on(view.split_of(task))
    for name in pd.Series(it.means).dropna().nlargest(2).index:
        own = trials[(trials["subset"] == it.subset) & (trials["learner"] == name)]
        for end in tuned_ends(view, own):
            if MOST_AT_END * len(own) <= len(end.trial_ids):
                yield str(name), end


def all_at_most(it: Comparison) -> bool:
    """Return whether two learners or more have results, and all are shown as 1.000, the maximum."""
    means = pd.Series(it.means).dropna()
    return len(means) > 1 and bool((means - 1).abs().max() < 0.0005)


def _another_leads(it: Comparison, best: str | None) -> bool:
    """Return whether one learner is above another that leads elsewhere, and above its values."""
    gap = it.differences.get(str(best))
    is_equal = gap is not None and _is_equal(gap)
    return it.best not in (None, best) and not all_at_most(it) and not is_equal


def _named(view: RunView, learner: str) -> str:
    """Return a learner's label, and what it is if it is not a metric."""
    return view.marked(learner) + " (a classifier)" * _is_classifier(view, learner)


def _is_classifier(view: RunView, learner: str) -> bool:
    return view.experiment.learners[learner].algorithm == CLASSIFIER


def _without_comparison(view: RunView, task: str, it: Comparison) -> str:
    """Say who has the highest mean of the most partitions, and why no other is compared with it."""
    highest = max(it.complete, key=it.means.__getitem__)
    mean = f"{it.means[highest]:.3f}"
    if it.sizes is not None and not math.isnan((interval := it.interval(highest)).low):
        mean += sentence("interval", it=interval)
    why = _why_not_compared(view, task, it)
    if why == NO_OTHER:
        return f"the {it.name} of {view.marked(highest)} is {mean}; {why}."
    return f"{view.marked(highest)} has the highest {it.name}, {mean}; {why}."


def _leads(view: RunView, it: Comparison) -> Iterator[str]:
    """Say who has the highest mean, and by how much; who leads is significantly above all."""
    best, own = str(it.best), it.differences
    nearest = sorted(own, key=lambda name: own[name].mean)
    of = {
        verdict: [name for name in nearest if it.verdicts[name] == verdict]
        for verdict in ("as good", "worse", "unclear", "better", "untested")
    }
    is_alone = len(of["worse"]) == len(nearest)
    yield (
        f"{view.marked(best)} {'leads in' if is_alone else 'has the highest'} {it.name} "
        f"({it.means[best]:.3f})."
    )
    if worse := [f"{view.marked(name)} by {_gap(own[name])}" for name in of["worse"]]:
        more = [f"{plural(len(worse) - MOST_NAMED, 'other')} by more"] * (len(worse) > MOST_NAMED)
        yield f"It is significantly better than {series([*worse[:MOST_NAMED], *more])}."
    equal = [name for name in of["as good"] if _is_equal(own[name])]
    if equal:
        verb = "have" if len(equal) > 1 else "has"
        yield f"{series([view.marked(name) for name in equal])} {verb} exactly the same values."
    for verdict in ("as good", "unclear"):
        texts = [
            f"{view.marked(name)} ({_gap(own[name])} {_side(own[name])}{_uncorrected(own[name])})"
            for name in of[verdict]
            if name not in equal
        ]
        if texts:
            more = [plural(len(texts) - MOST_NAMED, "other")] * (len(texts) > MOST_NAMED)
            learners = series([*texts[:MOST_NAMED], *more])
            verb = "are" if len(texts) > 1 else "is"
            n = _number(view, it, max(own[name].n for name in of[verdict]))
            yield sentence(verdict, learners=learners, verb=verb, n=n, margin=f"{it.margin:g}")
    for name in of["better"]:
        yield sentence("better", learner=view.marked(name), gap=_gap(own[name]))
    for name in of["untested"]:
        gap = own[name]
        size = f"{abs(gap.mean):.3f} {_side(gap)}"
        n = _number(view, it, gap.n)
        yield sentence("untested", learner=view.marked(name), gap=size, n=n)
    if any(not math.isnan(own[name].low) for name in nearest):
        yield sentence("brackets")
    if _is_classifier(view, best):
        yield f"{view.marked(best)} is a classifier and learns no metric."
        specs = view.experiment.learners
        others = {
            name: it.means[name] for name in it.complete if specs[name].algorithm not in BASELINES
        }
        if others:
            second = max(others, key=others.__getitem__)
            yield f"The best metric learner is {view.marked(second)} ({others[second]:.3f})."


def _is_equal(it: PairedInterval) -> bool:
    """Return whether two learners have the same value on each partition."""
    return it.mean == it.sd == 0


def _gap(it: PairedInterval) -> str:
    """Write the size of a difference, and its interval."""
    low, high = (it.low, it.high) if it.mean >= 0 else (-it.high, -it.low)
    return f"{abs(it.mean):.3f}" + ("" if math.isnan(low) else f" [{low:z.3f}, {high:z.3f}]")


def _number(view: RunView, it: Comparison, n: int) -> str:
    """Write how many partitions, or queries of judgements, a difference is over."""
    return plural(n, view.partition_noun) if it.sizes is None else f"{n} queries"


def _uncorrected(it: PairedInterval) -> str:
    """Write the p-value of an interval that excludes 0: it is not corrected, as the verdict is."""
    return f", p = {it.p_value:.2g} alone" if it.low > 0 or it.high < 0 else ""


def _side(it: PairedInterval) -> str:
    """Say whether the learner that was subtracted from the best is lower or higher."""
    return "lower" if it.mean >= 0 else "higher"


def _what_could_be_seen(it: Comparison) -> Iterator[str]:
    """Say what difference few partitions can show, if some were not significant."""
    unclear = [own for name, own in it.differences.items() if it.verdicts[name] == "unclear"]
    n_partitions = max((own.n for own in unclear), default=MANY_ENOUGH)
    seen = [own.detectable for own in unclear if own.sd > 0]
    if n_partitions < MANY_ENOUGH and seen:
        if any(map(math.isnan, seen)):
            yield sentence("none_likely", n=n_partitions)
        elif max(seen) >= 0.0005:
            yield sentence("missed", n=n_partitions, least=max(seen))


def _caveats(view: RunView, task: str, it: Comparison, of_best: bool) -> Iterator[str]:
    """Say whose values are the Euclidean baseline's, and if no mean is clearly above chance.

    The former of the best learner and those with equal values only, or of all.
    """
    own = _numbers(view, task, it)
    best = {it.best, *(name for name, gap in it.differences.items() if _is_equal(gap))}
    abstained = own.loc[own["blend"] == 0, "learner"]
    names = [name for name in abstained if name in best or not of_best]
    if names:
        marked, owner = series([*map(view.marked, names)]), "its" if len(names) == 1 else "their"
        yield sentence("abstained", learners=marked, owner=owner)
    least, chance = (own["mean"] - 2 * own["sd"].fillna(0)).dropna(), own["chance"].iloc[0]
    if (least <= chance).all():
        yield f"No learner is clearly above chance ({chance:.3f})."


def _numbers(view: RunView, task: str, it: Comparison) -> pd.DataFrame:
    """Return the means and spreads of the learners that are compared."""
    numbers = view.numbers[task]
    return numbers[(numbers["subset"] == it.subset) & (numbers["name"] == it.name)]


def _why_not_compared(view: RunView, task: str, it: Comparison) -> str:
    if it.scores.shape[1] < 2 or it.scores.count().gt(0).sum() < 2:
        return NO_OTHER
    if view.experiment.replicates and it.scores.count().max() < LEAST_SETS:
        n_sets = it.scores.count().max()
        return f"a test needs {LEAST_SETS} class sets, and there are {n_sets}"
    if it.sizes is not None:
        return f"{len(it.sizes)} queries of judgements are too few for a test"
    if it.scores.count().max() < 2:
        return "a test needs more than one partition"
    if view.split_of(task) in view.judged:
        return "it has no value for each query of judgements, and only these are tested"
    return "no other learner has two partitions in common with it"


def _other_leader(view: RunView, best: str, it: Comparison) -> str:
    """Say who leads by another measure, and by how much."""
    leader = str(it.best)
    text = f"{_named(view, leader)} is best in {it.name} ({it.means[leader]:.3f})"
    if best in it.differences:
        words = WORDS["verdicts"] | {"worse": "significant", "better": "significant"}
        verdict, own = words[it.verdicts[best]], it.differences[best]
        side = "below" if own.mean < 0 else "above"
        text += f", {_gap(own)} {side} {view.marked(best)} ({verdict})"
    return f"{text}."


def _costs(view: RunView) -> str:
    """Say what one trial of each learner took in all, on the largest subset of the first split.

    Of many learners only the cheapest and the dearest.
    """
    trials = view.finished_on(view.splits[0])
    largest = [subset for subset in view.subsets if (trials["subset"] == subset).any()]
    if not largest or trials["tuning_seconds"].isna().all():
        return ""
    parts = trials[trials["subset"] == largest[-1]].groupby("learner")[PARTS].median()
    totals = parts.sum(axis=1).sort_values(kind="stable")
    texts = [f"{view.marked(str(it))} {seconds_text(own)} s" for it, own in totals.items()]
    if len(texts) > 2 * MOST_NAMED:
        texts = [*texts[:MOST_NAMED], "...", *texts[-MOST_NAMED:]]
    return f"Cost of one partition (tuning, fit, queries): {series(texts)}."


def next_steps(view: RunView) -> list[NextStep]:
    """Return what may be worth trying next with `run`, the most useful first."""
    words = shlex.split(view.info.command or "")
    return list(_next_steps(view)) if words[3:4] in ([], ["run"]) else []


def _next_steps(view: RunView) -> Iterator[NextStep]:
    n_partitions = view.experiment.n_partitions
    verdicts = [
        verdict
        for task in view.tasks
        for it in view.comparisons[task]
        if it.name in view.names(task, "is_compared")[:1] and not all_at_most(it)
        if view.split_of(task) not in view.judged  # each judgement tests once
        for verdict in it.verdicts.values()
    ]
    quick = view.experiment.QUICK_REMARK
    is_quick = any(remark.startswith(quick) for remark in view.info.remarks)
    for task in () if is_quick else view.tasks:  # a few candidates rarely reach a range's ends
        scored = [it for it in view.comparisons[task] if it.scores.notna().any(axis=None)]
        for it in scored[-1:]:
            for label, end in _ends_of_first(view, task, it):
                values = f"{label}.{end.name}={end.wider}"
                where = view.of_split(f", split {view.split_of(task)}")
                yield NextStep(
                    sentence("wider", learner=label, where=where, end=end),
                    again(view, {"--param": values}),
                    f'params="{values}"',
                )
    open_question = bool({"unclear", "untested"} & set(verdicts)) or (n_partitions < 2 and verdicts)
    e = view.experiment
    same = e.replicates or e.test_share == 1  # however many there are
    folds = [it.most or view.info.n_folds for it in view.info.sources.splits.values()]
    most = min([MANY_PARTITIONS, *filter(None, folds)])
    if n_partitions < most and not same and open_question:
        yield NextStep(
            "More partitions give the tests more power",
            again(view, {"--partitions": str(most)}),
            f"partitions={most}",
        )
    steps = view.finished["n_steps"].dropna()
    searched = view.validation["n_steps"].notna().any()
    cap = view.experiment.max_steps
    if searched and len(steps) and (steps == cap).mean() >= 0.5:
        yield NextStep(
            sentence("more_steps", cap=cap),
            again(view, {"--max-steps": str(4 * cap)}),
            f"max_steps={4 * cap}",
        )
    if any(remark.startswith("warning: columns") for remark in view.info.remarks):
        yield NextStep(
            sentence("scalings"),
            again(view, {"--scaling": "standard,standard+l2,minmax"}),
            'scaling="standard,standard+l2,minmax"',
        )


def again(view: RunView, options: dict[str, str]) -> str:
    """Write the command of a run with other options, and without its folder.

    If the command is not known, write only the options.
    """
    replaced = [name for name in options if name != "--param"]  # which may be given many times
    kept = without_options(shlex.split(view.info.command or ""), [*replaced, "--output"])
    return shlex.join([*kept, *(text for option in options.items() for text in option)])
