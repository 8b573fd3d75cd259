"""Evaluates what was learned before: kept scores by other tasks, a saved model on other data.

Nothing is fitted here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from oasis_bench.data import LabelledRows
from oasis_bench.experiment import Experiment, LearnerSpec, TrialSpec, find_tasks
from oasis_bench.plugins import Registry, load_model_of, load_registry
from oasis_bench.runner.run import refuse_missing_plugins, task_sources
from oasis_bench.runner.scored_trials import find_kept_scores
from oasis_bench.store import Store
from oasis_bench.system import Progress, UsageError, error_line, no_progress
from oasis_bench.tasks import GALLERIES, Task, has_measure
from oasis_bench.trial import Evaluator, Predictions, answer, draw_items, reason_against

Rows = Mapping[str, list[dict[str, Any]]]


def model_experiment(
    model: Path, dataset: str, plugin_files: Sequence[Path] = (), **settings: Any
) -> Experiment:
    """Return the experiment that evaluates a saved model on a data set.

    Parameters
    ----------
    model : Path
        A file that `save_model` or `run --save-models` wrote.
    dataset : str
        A name or a path.
    plugin_files : sequence of Path
        Where the learner may be defined.
    settings
        Fields of `Experiment`; those that are not given have its defaults, but `classes` is all.
        Where all tasks are of judgements, and neither `partitions` nor `test_share` is given, each
        judgement tests, once.

    Raises
    ------
    UsageError
        Where the model cannot be read or a setting is wrong.
    """
    registry = load_registry(plugin_files)
    name = load_model_of(registry, str(model)).name
    learner = LearnerSpec(name, model=str(model.resolve()))
    title = f"{name} of {model.name} on {Path(dataset).name}"
    # There are no inner folds; for fewer of them fewer training items are enough.
    defaults: dict[str, Any] = {"classes": ("all",), "inner_folds": 2}
    splits = [registry.splits[registry.tasks[task].split] for task in settings.get("tasks", ())]
    if splits and all(split.all_may_test for split in splits):
        if "partitions" not in settings and settings.get("test_share", 1.0) == 1:
            defaults |= {"partitions": 1, "test_share": 1.0}
        elif settings.get("test_share") == 1 and settings["partitions"] > 1:
            raise UsageError(
                f"partitions = {settings['partitions']} of all judgements are the same: leave "
                "partitions out, or give a smaller test_share"
            )
    return Experiment(title, dataset, {name: learner}, **{**defaults, **settings})


def evaluate_run(
    folder: Path,
    tasks: Sequence[str],
    plugin_files: Sequence[Path] = (),
    on_download: Progress = no_progress,
    on_trial: Progress = no_progress,
) -> int:
    """Evaluate the kept scores of a run by tasks; their measures go into its store.

    Parameters
    ----------
    folder : Path
        The output of a run with --predictions.
    tasks : sequence of str
        What is stored of these already is replaced.
    plugin_files : sequence of Path
        Those of the run, and others.
    on_download, on_trial : callable
        Called with progress.

    Returns
    -------
    int
        How often a task failed.

    Raises
    ------
    UsageError
        Where the run kept no scores, or none that the tasks ask for; where a file of scores is
        damaged; where a plugin file of the run is not given; where the data has changed; nothing
        is written then.
    """
    with Store.open(folder) as store:
        info = store.info()
        refuse_missing_plugins(info, plugin_files, folder)
        registry = load_registry(list(dict.fromkeys(path.resolve() for path in plugin_files)))
        experiment = replace(info.experiment, tasks=tuple(tasks), choose_by=None)
        asked = find_tasks(experiment, registry)
        if any(has_measure(task, info.experiment.choose_by or "") for task in asked):
            experiment = replace(experiment, choose_by=info.experiment.choose_by)
        _refuse_other_splits(asked, {str(one["split"]) for one in info.identities.values()})
        rows, trials = find_kept_scores(
            folder, info, experiment, registry, plugin_files, on_download
        )
        for spec, _, scores in trials:
            _refuse_other_galleries([t for t in asked if t.split == spec.where.split], scores)
        failures = 0
        evaluated = []  # nothing is written before the last file has been read
        for done, (spec, trial_id, scores) in enumerate(trials, start=1):
            of_split = [task for task in asked if task.split == spec.where.split]
            for name, found in _evaluate(of_split, spec, rows, registry, scores):
                evaluated.append((trial_id, [name], found))
                failures += found["answers"][0]["status"] == "failed"
            on_trial("trials evaluated", done, len(trials))
        for row in evaluated:
            store.add_answers(*row)
        sources = replace(
            info.sources, tasks={**info.sources.tasks, **task_sources(experiment, registry)}
        )
        store.write_info(sources=asdict(sources))
        return failures


def _evaluate(
    tasks: Sequence[Task],
    spec: TrialSpec,
    rows: LabelledRows,
    registry: Registry,
    scores: Predictions,
) -> Iterator[tuple[str, Rows]]:
    """Yield, for each task, its name and its rows of the tables."""
    learner = registry.algorithms[spec.algorithm]
    items = draw_items(spec, rows, learner)
    for task in tasks:
        if (reason := reason_against(task, learner)) is not None:
            yield task.name, _without_measures(task, "not applicable", reason)
            continue
        try:
            evaluator = Evaluator([task], items, 0, 0, chooses_by=spec.chooses_by)
            for reader in evaluator.readers:
                for message, content in scores.blocks(reader.gallery):
                    reader.add(message, content)
            found = {"answers": evaluator.answers(), "measures": evaluator.measures()}
            yield task.name, {**found, "confusion": evaluator.confusion()}
        except UsageError:
            raise
        except Exception as error:  # of a task of the user's own
            yield (
                task.name,
                _without_measures(task, "failed", error_line(error)),
            )


def _without_measures(task: Task, status: str, reason: str) -> Rows:
    return {"answers": [answer(task.name, status, reason)], "measures": [], "confusion": []}


def _refuse_other_splits(tasks: Sequence[Task], splits: set[str]) -> None:
    for task in tasks:
        if task.split not in splits:
            raise UsageError(
                f"{task.name} needs the split {task.split}, and the run has "
                f"{' and '.join(sorted(splits))}: ask it in a new run"
            )


def _refuse_other_galleries(tasks: Sequence[Task], scores: Predictions) -> None:
    for task in tasks:
        if task.gallery not in scores.galleries:
            kept = " and ".join(GALLERIES[gallery] for gallery in scores.galleries)
            raise UsageError(
                f"{task.name} compares with {GALLERIES[task.gallery]}, and {scores.path} holds "
                f"scores against {kept}: ask it in a new run"
            )
