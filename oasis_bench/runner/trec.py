"""Kept scores as run and qrels files in TREC's format, for other programs that evaluate rankings.

trec_eval, pytrec_eval, ir_measures and ranx read them.  Nothing is evaluated here.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import add
from pathlib import Path

import numpy as np
import numpy.typing as npt

from oasis_bench.data import Labels
from oasis_bench.experiment import find_tasks
from oasis_bench.plugins import Registry, load_registry
from oasis_bench.runner.run import refuse_missing_plugins
from oasis_bench.runner.scored_trials import find_kept_scores
from oasis_bench.store import StoredRun, read_run
from oasis_bench.system import Progress, UsageError, exporting_to, no_progress, slices, whole_file
from oasis_bench.tasks import PART_SCORES, Numbers, Retrieval, SharedLabels, rank_others
from oasis_bench.trial import Predictions


def export_trec(
    folder: Path,
    output: Path,
    on_download: Progress = no_progress,
    on_query: Progress = no_progress,
    plugin_files: Sequence[Path] = (),
) -> list[Path]:
    """Write a run file and a qrels file for each trial that kept its scores among test items.

    They hold what the task `retrieval`, or `unseen-classes`, is evaluated by.  An item is called by
    its row number in the data set, such as 'row-17'.  The files of a trial have the name of its
    scores, such as 'OASIS_10_0.run' and 'OASIS_10_0.qrels'; the first is also the tag of the run.

    ======  ===================================  ===============================================
    file    a line                               what it holds
    ======  ===================================  ===============================================
    .run    ``query Q0 item rank score tag``     all other test items, best first, rank from 1
    .qrels  ``query 0 item 1``                   those that share a label with the query
    ======  ===================================  ===============================================

    The column `score` is not the learner's score: it is the number of items that rank at this
    place or below, so that the last item has 1.  Programs of TREC sort by this column, in single
    precision, and break ties by the name of the item; ours breaks them by an order drawn at random
    (see `tasks.ranking`).  These scores fall strictly and are exact in single precision for up to
    2**24 items, so that every program has the order that was judged here.  The learner's scores
    are in the folder `predictions` of the run.

    A query that no other test item is relevant to counts in no measure here and is in neither file.
    Of the measures, mAP is trec_eval's `map`, precision at k `P_k`, R-precision `Rprec`, nDCG
    `ndcg`, and recall at k, the share of queries with a relevant item among the first k,
    `success_k`; trec_eval's `recall_k` is another measure.

    Parameters
    ----------
    folder : Path
        The output of a run with --predictions.
    output : Path
        The folder of the files; it is made where it is missing.  Each file is written whole or not
        at all, and replaces that of an earlier export.
    on_download, on_query : callable
        Called with progress.
    plugin_files : sequence of Path
        Those of the run.

    Returns
    -------
    list of Path
        The files.

    Raises
    ------
    UsageError
        Where a plugin file of the run is not given; where it kept no scores among test items, or
        asked no task of retrieval; where the data has changed; where the files cannot be written.
    """
    run = read_run(folder)
    refuse_missing_plugins(run.info, plugin_files, folder)
    registry = load_registry(plugin_files)
    experiment = replace(run.info.experiment, tasks=_retrieval_tasks(run, registry), choose_by=None)
    rows, trials = find_kept_scores(
        folder, run.info, experiment, registry, plugin_files, on_download
    )
    kept = [scores for _, _, scores in trials if "test" in scores.galleries]
    splits = {task.split for task in find_tasks(experiment, registry)}
    finished = run.trials["split"].isin(splits) & (run.trials["status"] == "ok")
    if missing := int(finished.sum()) - len(kept):
        warnings.warn(
            f"{missing} of {finished.sum()} finished trials kept no scores among test items: they "
            "have no files",
            stacklevel=2,
        )
    n_queries = sum(len(scores.arrays["test_rows"]) for scores in kept)
    done = 0
    paths: list[Path] = []
    with exporting_to(output):
        for scores in kept:
            stem = scores.path.stem
            pair = output / f"{stem}.run", output / f"{stem}.qrels"
            for n_written in _write(scores, rows.y, *pair):
                done += n_written
                on_query("queries written", done, n_queries)
            paths += pair
    return paths


def _retrieval_tasks(run: StoredRun, registry: Registry) -> tuple[str, ...]:
    """Return the tasks of a run that rank test items by shared labels.

    Raises
    ------
    UsageError
        Where there are none.
    """
    asked = list(run.info.sources.tasks)
    known = set(registry.tasks)
    of_retrieval = [
        name for name in asked if name in known and issubclass(registry.tasks[name], Retrieval)
    ]
    if not of_retrieval:
        raise UsageError(
            f"TREC files are of retrieval and unseen-classes, and this run asked "
            f"{' and '.join(asked)}: run it anew with --tasks retrieval --predictions"
        )
    return tuple(of_retrieval)


def _write(scores: Predictions, y: Labels, run_path: Path, qrels_path: Path) -> Iterator[int]:
    """Write the two files of a trial; yield the number of queries of each part that is written.

    `y` are the labels of all rows of the data set.
    """
    test_rows, ties = scores.arrays["test_rows"], scores.arrays["ties_test"]
    labels = SharedLabels(y[test_rows])
    names = [f"row-{row}" for row in test_rows]
    others, tag = len(names) - 1, run_path.stem
    # What follows the item is the same for every query.
    ends = [f" {rank} {others + 1 - rank} {tag}\n" for rank in range(1, others + 1)]
    with whole_file(run_path) as run_file, whole_file(qrels_path) as qrels_file:
        for queries, block in _parts(scores, len(names)):
            relevant = labels.relevant_rows(queries)
            hits = np.split(relevant.indices, relevant.indptr[1:-1])
            for query, own, ranking in zip(
                queries, hits, rank_others(block, queries, ties), strict=True
            ):
                if not len(own):
                    continue
                begin = f"{names[query]} Q0 "
                ranked = map(add, (names[item] for item in ranking), ends)
                run_file.write((begin + begin.join(ranked)).encode())
                judged = (f"{names[query]} 0 {names[item]} 1\n" for item in np.sort(own))
                qrels_file.write("".join(judged).encode())
            yield len(queries)


def _parts(scores: Predictions, n_items: int) -> Iterator[tuple[Numbers, npt.NDArray[np.floating]]]:
    """Yield places of queries among the test items with their scores, some millions at a time."""
    start = 0
    for message, content in scores.blocks("test"):
        block = np.frombuffer(content, message.dtype).reshape(message.n_queries, n_items)
        for part in slices(len(block), max(1, PART_SCORES // n_items)):
            yield np.arange(start + part.start, start + part.stop), block[part]
        start += len(block)
