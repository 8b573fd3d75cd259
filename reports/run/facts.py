"""Facts of a run that several parts of its report state: learners, tasks, subsets, sizes, gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from oasis_bench.analysis import measure_name, measures_of, task_measures
from oasis_bench.plugins import PATH_DATASETS
from oasis_bench.reports.formatting import clip, plural
from oasis_bench.runs import StoredRun
from oasis_bench.system import encodable

DAGGER = " †"
TITLE_WIDTH, LABEL_WIDTH, REASON_WIDTH = 60, 24, 240


def learners(run: StoredRun) -> list[str]:
    """Return the learners' labels in the order of the experiment."""
    return list(run.info.experiment.learners)


def dataset_name(run: StoredRun) -> str:
    """Return what the data set is called; a file or a folder of the user's by its own name."""
    source = run.info.sources.dataset.name
    own = source in PATH_DATASETS
    return encodable(Path(run.info.experiment.dataset).name) if own else source


@lru_cache(maxsize=16)
def transductive_learners(run: StoredRun) -> frozenset[str]:
    """Return the learners that may use the unlabelled test items."""
    return frozenset(run.trials.loc[run.trials["transductive"] == 1, "learner"])


def transductive_note(items: str = "items") -> str:
    """Say what the dagger means, of a data set that calls its items so."""
    return (
        f"† transductive: the learner may use the unlabelled test {items}, which the others "
        "never see."
    )


def marked(run: StoredRun, learner: str) -> str:
    """Return a learner's label, with a dagger where it is transductive."""
    return learner + DAGGER * (learner in transductive_learners(run))


def dagger_notes(run: StoredRun, shown: Iterable[str]) -> list[str]:
    """Return what the dagger means, where a learner that is shown has one."""
    return [transductive_note(run.info.items)] * bool(transductive_learners(run) & set(shown))


def tasks(run: StoredRun) -> list[str]:
    """Return the tasks in the order in which they were asked, also of kept scores."""
    return list(run.info.sources.tasks)


def task_title(task: str) -> str:
    """Return a task's name as a heading has it."""
    return task.replace("-", " ").capitalize()


def split_of(run: StoredRun, task: str) -> str:
    """Return how items are divided for a task."""
    return run.info.sources.tasks[task].split


def splits(run: StoredRun) -> list[str]:
    """Return the splits of the tasks, each once."""
    return list(dict.fromkeys(split_of(run, task) for task in tasks(run)))


def of_splits(run: StoredRun, *texts: str) -> tuple[str, ...]:
    """Return texts that tell splits apart: none where the run has only one split."""
    return texts if len(splits(run)) > 1 else ()


def chooser(run: StoredRun, split: str) -> tuple[str, str]:
    """Return the task and the name of the measure by which inner folds chose on a split.

    It is the measure that the experiment names, of the split's first task that has it; else the
    first measure of the split's first task.
    """
    sources = run.info.sources.tasks
    of_split = [task for task in tasks(run) if split_of(run, task) == split]
    text = run.info.experiment.choose_by or ""
    for task in of_split:
        if text in sources[task].measures:  # MAP@R is a name
            return task, _first_name(run, task, text)
        measure, _, k = text.rpartition("@")
        if measure in sources[task].measures:
            return task, measure_name(measure, float(k))
    return of_split[0], _first_name(run, of_split[0], sources[of_split[0]].measures[0])


def _first_name(run: StoredRun, task: str, measure: str) -> str:
    """Name a measure with the smallest k that it has in the run."""
    known = measures_of(run, task)
    return next(iter(known.loc[known["measure"] == measure, "name"]), measure)


def test_values(run: StoredRun, split: str) -> pd.Series[float]:
    """Return by trial_id what test items gave by the measure that chose on a split."""
    task, name = chooser(run, split)
    values = task_measures(run, task)
    return values[values["name"] == name].set_index("trial_id")["value"]


def partitions_text(run: StoredRun) -> str:
    """Return the number of outer partitions, with its noun."""
    return plural(run.info.experiment.n_partitions, "partition")


def subsets(run: StoredRun) -> dict[str, int]:
    """Return the number of classes of each subset, the smallest subset first."""
    sizes = {name: len(classes) for name, classes in run.info.classes.items()}
    return dict(sorted(sizes.items(), key=lambda item: item[1]))


def class_noun(run: StoredRun) -> str:
    """Return what the labels of this run are called, in the plural."""
    return "words" if run.info.multi_label else "classes"


def subset_title(run: StoredRun, subset: str) -> str:
    """Name a subset for a heading."""
    size = f"{subsets(run)[subset]} {class_noun(run)}"
    return size if _is_number(run, subset) else f"{clip(subset, TITLE_WIDTH)} ({size})"


def subset_label(run: StoredRun, subset: str) -> str:
    """Name a subset for a table's cell or an axis."""
    size = str(subsets(run)[subset])
    return size if _is_number(run, subset) else f"{clip(subset, LABEL_WIDTH)} ({size})"


def facets(run: StoredRun, task: str, subset: str | None = None) -> dict[str, str]:
    """Return what a page is filtered by, of what belongs to one task, and to one subset."""
    of = {"Task": task_title(task)}
    if subset is not None:
        of[class_noun(run).capitalize()] = subset_label(run, subset)
    return of


def _is_number(run: StoredRun, subset: str) -> bool:
    """Tell whether the name of a subset is its number of classes."""
    return subset == str(subsets(run)[subset])


def finished(run: StoredRun, split: str | None = None) -> pd.DataFrame:
    """Return the trials that gave a result, of one split or of all."""
    trials = run.trials[run.trials["status"] == "ok"]
    return trials if split is None else trials[trials["split"] == split]


def by_subset_and_learner(
    run: StoredRun, rows: pd.DataFrame
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Yield each subset and learner with its rows, which may be none."""
    held = rows.groupby(["subset", "learner"], sort=False).indices  # sooner than a filter each
    for subset in subsets(run):
        for learner in learners(run):
            yield subset, learner, rows.iloc[held.get((subset, learner), [])]


def by_cell(run: StoredRun, rows: pd.DataFrame) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
    """Yield each split, subset and learner with its rows, which may be none."""
    for split in splits(run):
        for subset, learner, own in by_subset_and_learner(run, rows[rows["split"] == split]):
            yield split, subset, learner, own


@lru_cache(maxsize=256)
def sizes(run: StoredRun, subset: str, split: str) -> tuple[int, int] | None:
    """Return the training and test items of a partition; None before the first trial.

    Folds of a data set need not be of one size: then the means, rounded.
    """
    trials = run.trials[(run.trials["subset"] == subset) & (run.trials["split"] == split)]
    if trials.empty:
        return None
    of_partitions = trials.drop_duplicates("partition")[["n_train", "n_test"]]
    n_train, n_test = of_partitions.mean().round().astype(int)
    return int(n_train), int(n_test)


def training_sizes(trials: pd.DataFrame) -> pd.Series[int]:
    """Return for each trial the training items of its subset's partitions: the mean, rounded."""
    means = trials.groupby(["split", "subset"])["n_train"].transform("mean")
    return means.round().astype(int)


@lru_cache(maxsize=16)
def _cells(run: StoredRun) -> Mapping[Any, npt.NDArray[np.intp]]:
    """Return the places of the trials of each subset, learner and split."""
    cells: Any = run.trials.groupby(["subset", "learner", "split"]).indices
    places: Mapping[Any, npt.NDArray[np.intp]] = cells
    return places


@lru_cache(maxsize=16)
def _unanswered(run: StoredRun) -> pd.DataFrame:
    return run.answers[run.answers["status"] != "ok"]


@lru_cache(maxsize=1024)
def shortfall(
    run: StoredRun, subset: str, learner: str, split: str, task: str | None = None
) -> tuple[str, ...]:
    """Say why a learner has results on fewer partitions than planned; nothing where it has all.

    With a task, also where a trial gave a result but did not answer the task.
    """
    planned = run.info.experiment.n_partitions
    trials = run.trials.iloc[_cells(run).get((subset, learner, split), [])]
    lost = trials.loc[trials["status"] != "ok", ["status", "reason"]]
    answers = _unanswered(run)
    answers = answers[answers["task"] == task] if len(answers) else answers
    kept = trials.loc[trials["status"] == "ok", "trial_id"]
    unanswered = answers.loc[answers["trial_id"].isin(kept), ["status", "reason"]]
    lost = pd.concat([lost, unanswered])
    reasons = Counter(f"{row.status}: {row.reason}" for row in lost.itertuples())
    if len(trials) == planned and not reasons:
        return ()
    name = marked(run, learner)
    if len(lost) == planned and len(reasons) == 1 and (lost["status"] == "not applicable").all():
        return (f"{name}: {clip(next(iter(reasons)), REASON_WIDTH)}.",)
    parts = [f"{count} {clip(reason, REASON_WIDTH)}" for reason, count in reasons.items()]
    if not_run := planned - len(trials):
        parts.append(f"{not_run} not run")
    n_finished = len(trials) - len(lost)
    return (
        f"{name}: {n_finished} of {plural(planned, 'partition')} finished; {'; '.join(parts)}.",
    )
