"""Comparison of two runs, trial by trial: what got better or worse beyond noise.

Not for how that is shown, which `oasis_bench.reports` does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from oasis_bench.analysis.comparison_lines import (
    RESULTS,
    Line,
    Verdict,
    cell_lines,
    column_of,
    corrected,
)
from oasis_bench.analysis.costs import with_costs
from oasis_bench.analysis.measure_names import task_measures, used_by_compare
from oasis_bench.analysis.noise import noisy
from oasis_bench.experiment import WORDS, cell_name
from oasis_bench.runs import StoredRun
from oasis_bench.tasks import named_unless_usual

MUST_AGREE = ("algorithm", "data", "seed", "classes", "sizes", "scaling")
"""What must be equal in both runs, so that an algorithm gets the same items in a partition."""

NAMES = {
    **WORDS,
    "sizes": "the numbers of training and test items",
    "scaling": "the scaling of rows",
}
WITHOUT_VALUES = ("classes", "source", "code")
"""Lists too long to show, and hashes."""


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


def compare_runs(old: StoredRun, new: StoredRun, tolerance: float = 0.1) -> RunComparison:
    """Compare the trials that two runs have in common: a learner's label, on the same items.

    Measures of tasks: the corrected paired interval of Nadeau & Bengio (2003) of NEW - OLD, as the
    partitions draw from the same items.

    Costs (seconds, bytes): the ordinary paired t-interval of log(NEW / OLD), as the items that a
    partition draws hardly change the cost of a fit.  It covers what varies from fit to fit, not
    what differs between two sessions on one machine, such as its temperature: 'worse' and 'better'
    must also be beyond `tolerance`, and by more than COSTS says.  Seconds leave out noisy trials
    (see `analysis.noise`).  They are not judged where fewer than two other trials are left, a trial
    shared its cores, or threads or processor differ or are not known.

    A trial that has lost its result is worse.  Equal values are the same on any number of
    partitions; other values of a single partition, or that changed by the same on all partitions,
    have no interval and are not judged.  Only the size of a model is, by `tolerance` alone: it is
    a count.

    The rest is tested at level 0.05.  `holm` corrects for all lines, those within `tolerance`
    among them, since the exit status of `compare` is one claim about all of them: where nothing
    changed, at most 1 comparison in 20 finds anything.

    Parameters
    ----------
    old, new : StoredRun
    tolerance : float, default 0.1
        Share by which costs may grow: 0.1 lets a ratio of 1.1 pass.
    """
    asked, asked_of_new = old.info.sources.tasks, new.info.sources.tasks
    names = {
        task: [name for name in used_by_compare(old, task) if name in used_by_compare(new, task)]
        for task in asked
        if task in asked_of_new
    }
    before, after = _with_measures(old, names), _with_measures(new, names)
    lines: list[Line] = []
    left_out, differing = defaultdict(list), defaultdict(list)
    keys = ["subset", "learner", "split"]
    for key in pd.concat([before, after])[keys].drop_duplicates().itertuples(index=False):
        of_old, of_new = (
            trials[(trials[keys] == list(key)).all(axis="columns")] for trials in (before, after)
        )
        subset, learner, split = map(str, key)
        in_words = "".join(f" ({name})" for name in named_unless_usual(split))
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
        found = cell_lines(pairs.sort_values("partition"), split, of_split, tolerance)
        lines += [replace(line, subset=subset, learner=learner) for line in found]
        for reason, partitions in _left_out(of_old, of_new, pairs):
            if partitions:
                left_out[reason].append(f"{cell}, partition {', '.join(map(str, partitions))}")
    for run, only in (("OLD", asked.keys() - names), ("NEW", asked_of_new.keys() - names)):
        left_out[f"only in {run}"] += [f"the task {task}" for task in sorted(only)]
    notes = [f"{reason}: {'; '.join(cells)}" for reason, cells in left_out.items() if cells]
    notes += [f"{it}: {', '.join(sorted(set(learners)))}" for it, learners in differing.items()]
    return RunComparison(corrected(lines), notes, tolerance)


def _with_measures(run: StoredRun, measures: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return the trials with every cost, the measures of each task and its status as columns."""
    trials = with_costs(run.trials).assign(noisy=noisy(run.trials))
    failed = trials["status"] + ": " + trials["reason"].fillna("")
    for task, names in measures.items():
        answers = run.answers[run.answers["task"] == task].set_index("trial_id")
        status = answers["status"].where(
            answers["status"] == "ok", answers["status"] + ": " + answers["reason"].fillna("")
        )
        answered = trials["trial_id"].map(status.to_dict()).astype(object).fillna("not asked")
        trials[column_of(task, RESULTS)] = failed.where(trials["status"] != "ok", answered)
        values = task_measures(run, task)
        for name in names:
            own = values[values["name"] == name].set_index("trial_id")["value"]
            trials[column_of(task, name)] = trials["trial_id"].map(own)
    return trials


def _differences(old: StoredRun, new: StoredRun, cell: str) -> dict[str, str]:
    """Say which of the settings that decide the results of a cell differ, by key."""
    before, after = (run.info.identities[cell] for run in (old, new))
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
