"""Uses the kept scores of a run without a fit: for measures of other tasks, and for TREC files.

TREC's run and qrels files are for other programs that evaluate rankings, such as trec_eval,
pytrec_eval, ir_measures and ranx.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from operator import add
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from oasis_bench.data import LabelledRows, Labels
from oasis_bench.experiment import Experiment, Plan
from oasis_bench.plugins import Registry
from oasis_bench.runs.run import (
    SILENT,
    Watcher,
    file_names,
    labels_of,
    refuse_missing_plugins,
    task_sources,
)
from oasis_bench.runs.schema import RunFacts
from oasis_bench.runs.store import RefusedRecordError, Store, StoredRun, read_run
from oasis_bench.system import Folder, UsageError, slices, spelled, whole_file
from oasis_bench.tasks import Numbers, Retrieval, SharedLabels, Task, block_size, rank_others
from oasis_bench.trial import Predictions, TunedRow

PART_BYTES = 2**25
"""Bytes of the scores of queries that are ranked at once; the rankings take twice as much."""

WHERE = ("learner", "subset", "partition", "split")
"""Columns that name a trial of a run."""


def evaluate_run(
    folder: Path,
    tasks: Sequence[str],
    plugin_files: Sequence[Path] = (),
    watcher: Watcher = SILENT,
) -> int:
    """Evaluate the kept scores of a run by tasks; return how often a task failed.

    The measures replace those of the same tasks in the run's store.  Nothing is written if any of
    the scores cannot be evaluated.  `plugin_files` are those of the run, and others.
    """
    with Store.open(folder) as store:
        info = store.info()
        refuse_missing_plugins(info, plugin_files, folder)
        registry = Registry.load(plugin_files)
        experiment = replace(info.experiment, tasks=tuple(tasks), choose_by=None)
        wanted = experiment.find_tasks(registry)
        if any(task.has_measure(info.experiment.choose_by or "") for task in wanted):
            experiment = replace(experiment, choose_by=info.experiment.choose_by)
        for task in wanted:
            if task.split not in info.sources.splits:
                raise UsageError(
                    f"{task.name} needs the split {task.split}, and the run has "
                    f"{' and '.join(sorted(info.sources.splits))}: evaluate it in a new run"
                )
        rows, trials = _find_kept_scores(folder, info, experiment, plugin_files, watcher)
        for one in trials.values():
            _refuse_other_galleries(_of_split(wanted, one), one)
        failures = 0
        evaluated = []  # nothing is written before the last file has been read
        for done, (trial_id, one) in enumerate(trials.items(), start=1):
            for name, found in one.evaluate(_of_split(wanted, one)):
                evaluated.append((trial_id, name, found))
                failures += found.answers[0].status == "failed"
            watcher.download("evaluating trials", done, len(trials))
        sources = replace(
            info.sources, tasks={**info.sources.tasks, **task_sources(experiment, registry)}
        )
        try:
            store.add_answers(evaluated, sources=asdict(sources))
        except RefusedRecordError as error:
            raise UsageError(f"{error}: correct the measures of {', '.join(tasks)}") from error
        if info.finished is not None:
            store.add_labels(partial(labels_of, rows))
        return failures


def _of_split(tasks: Sequence[Task], one: Predictions) -> list[Task]:
    return [task for task in tasks if task.split == one.spec.where.split]


def _refuse_other_galleries(tasks: Sequence[Task], scores: Predictions) -> None:
    for task in tasks:
        if task.gallery not in scores.galleries:
            kept = " and ".join(Task.GALLERIES[gallery] for gallery in scores.galleries)
            raise UsageError(
                f"{task.name} compares with {Task.GALLERIES[task.gallery]}, and {scores.path} "
                f"has scores against {kept}: evaluate it in a new run"
            )


def export_trec(
    folder: Path,
    output: Path,
    plugin_files: Sequence[Path] = (),
    watcher: Watcher = SILENT,
) -> list[Path]:
    """Write a run file and a qrels file for each trial that kept its scores among test items.

    They contain the scores that the task `retrieval`, or `unseen-classes`, is evaluated on: those
    of the selected use, blended if the learner was.  Items are named by their row numbers in the
    data set, such as 'row-17'.  The files of a trial have the name of its scores, such as
    'OASIS_10_0.run' and 'OASIS_10_0.qrels'; 'OASIS_10_0' is also the tag of the run.  Each file is
    written whole or not at all, and replaces the file of an earlier export.

    ======  ===================================  ===============================================
    file    a line                               content
    ======  ===================================  ===============================================
    .run    ``query Q0 item rank score tag``     all other test items, best first, rank from 1;
                                                 none of the query's own group
    .qrels  ``query 0 item 1``                   those that share a label with the query
    ======  ===================================  ===============================================

    The column `score` is not the learner's score: it is the number of items that rank at this
    place or below, so that the last item has 1.  TREC programs sort by this column, in single
    precision, and break ties by the item's name; oasis-bench breaks them by a random order
    (see `tasks.ranking`).  These scores fall strictly and are exact in single precision for up to
    2**24 items, so that every program uses the order that was evaluated here.  The learner's scores
    are in the folder `predictions` of the run.  If a query's group is left out, the last item has
    more than 1.

    A query without a relevant test item counts in no measure here and is in neither file.
    Of the measures, mAP is trec_eval's `map`, precision at k `P_k`, R-precision `Rprec`, nDCG
    `ndcg`, and recall at k, the share of queries with a relevant item among the first k,
    `success_k`; trec_eval's `recall_k` is another measure.
    """
    run = read_run(folder)
    refuse_missing_plugins(run.info, plugin_files, folder)
    registry = Registry.load(plugin_files)
    experiment = replace(run.info.experiment, tasks=_retrieval_tasks(run, registry), choose_by=None)
    rows, trials = _find_kept_scores(folder, run.info, experiment, plugin_files, watcher)
    kept = [one for one in trials.values() if "test" in one.galleries]
    splits = {task.split for task in experiment.find_tasks(registry)}
    finished = run.trials["split"].isin(splits) & (run.trials["status"] == "ok")
    if missing := int(finished.sum()) - len(kept):
        warnings.warn(
            f"{missing} of {finished.sum()} finished trials kept no scores among test items: they "
            "have no files",
            stacklevel=2,
        )
    n_queries = sum(len(one.items.test_rows) for one in kept)
    done = 0
    paths: list[Path] = []
    with Folder(output).exporting():
        for one in kept:
            stem = one.path.stem
            pair = output / f"{stem}.run", output / f"{stem}.qrels"
            for n_written in _write(one, rows.y, *pair):
                done += n_written
                watcher.download("queries written", done, n_queries)
            paths += pair
    return paths


def _retrieval_tasks(run: StoredRun, registry: Registry) -> tuple[str, ...]:
    """Return the tasks of a run that rank test items by shared labels; there must be one."""
    wanted, known = list(run.info.sources.tasks), registry.tasks
    of_retrieval = [name for name in wanted if name in known and issubclass(known[name], Retrieval)]
    if not of_retrieval:
        raise UsageError(
            f"TREC files are of retrieval and unseen-classes, and this run has "
            f"{' and '.join(wanted)}: run it again with {spelled('tasks', 'retrieval')} "
            f"{spelled('predictions')}"
        )
    return tuple(of_retrieval)


def _write(scores: Predictions, y: Labels, run_path: Path, qrels_path: Path) -> Iterator[int]:
    """Write the two files of a trial; yield the number of queries of each written part.

    `y` are the labels of all rows of the data set.
    """
    test_rows, ties = scores.items.test_rows, scores.items.ties["test"]
    groups = scores.items.truth.groups
    labels = SharedLabels(y[test_rows], groups=groups)
    names = [f"row-{row}" for row in test_rows]
    others, tag = len(names) - 1, run_path.stem
    # The ends of the lines are the same for every query.
    ends = [f" {rank} {others + 1 - rank} {tag}\n" for rank in range(1, others + 1)]
    with whole_file(run_path) as run_file, whole_file(qrels_path) as qrels_file:
        for queries, block in _parts(scores):
            relevant = labels.relevant_rows(queries)
            hits = np.split(relevant.indices, relevant.indptr[1:-1])
            for query, own, ranking in zip(
                queries, hits, rank_others(block, queries, ties, groups), strict=True
            ):
                if not len(own):
                    continue
                begin = f"{names[query]} Q0 "
                ranked = map(add, (names[item] for item in ranking if item >= 0), ends)
                run_file.write((begin + begin.join(ranked)).encode())
                judged = (f"{names[query]} 0 {names[item]} 1\n" for item in np.sort(own))
                qrels_file.write("".join(judged).encode())
            yield len(queries)


def _parts(scores: Predictions) -> Iterator[tuple[Numbers, npt.NDArray[np.floating]]]:
    """Yield positions of queries among the test items, and their scores, in large blocks."""
    for start, block in scores.selected():
        for part in slices(len(block), block_size(block.shape[1], block.dtype, PART_BYTES)):
            yield np.arange(start + part.start, start + part.stop), block[part]


def _find_kept_scores(
    folder: Path,
    info: RunFacts,
    experiment: Experiment,
    plugin_files: Sequence[Path],
    watcher: Watcher,
) -> tuple[LabelledRows, dict[str, Predictions]]:
    """Load the rows of a run and find the kept scores, by trial_id.

    `experiment` is the run's experiment with the tasks to evaluate.  Scores are refused if their
    file is damaged or has other items, or if the rows have changed.
    """
    if not Folder(folder).path(Folder.PREDICTIONS).is_dir():
        raise UsageError(
            f"{folder} has no kept scores: run it again with {spelled('predictions')}, into "
            "another folder"
        )
    plan = Plan.load(experiment, plugin_files, watcher.download, info.table, is_settled=True)
    hashes = {str(one["data"]) for one in info.identities.values()}
    if hashes != {plan.rows.content_hash()}:
        raise UsageError(
            f"the rows of {experiment.dataset} have changed since the run {folder}: its scores "
            "are of other rows: put them back, or start a new run"
        )
    names = file_names(plan.trials)
    spec_of = {
        (spec.learner, spec.where.subset, spec.where.partition, spec.where.split): spec
        for spec in plan.trials
    }
    kept = {}
    tuned: Any = read_run(folder).tuned
    for (*key, trial_id), of_trial in tuned.groupby([*WHERE, "trial_id"], sort=False):
        spec = spec_of.get(tuple(key))
        if spec is None:
            continue
        path = Folder(folder).path(f"{Folder.PREDICTIONS}/{names[spec.trial_id]}")
        if path.exists():
            rows_of = of_trial[[*TunedRow.__struct_fields__]].astype(object)
            rows = (TunedRow(*row) for row in rows_of.where(rows_of.notna(), None).to_numpy())
            kept[trial_id] = Predictions(path, spec, plan.rows, {row.gallery: row for row in rows})
    if not kept:
        raise UsageError(f"{folder / Folder.PREDICTIONS} has no scores of the trials of this run")
    return plan.rows, kept
