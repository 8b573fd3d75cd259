"""Begins or continues a run: the trials of an experiment, from the data set to the store.

`oasis_bench.command_line` prints its results.
"""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from oasis_bench.data import LabelledRows
from oasis_bench.execution import Executor, executor
from oasis_bench.experiment import Experiment, Plan, TrialSpec
from oasis_bench.plugins import Registry
from oasis_bench.runs.schema import (
    DatasetSource,
    Resumption,
    RunFacts,
    Source,
    Sources,
    SplitSource,
    TaskSource,
)
from oasis_bench.runs.store import (
    LONGEST_NAME,
    RefusedRecordError,
    Store,
    refuse_used_folder,
)
from oasis_bench.system import (
    Folder,
    OutputError,
    UsageError,
    describe_machine,
    n_cores,
    printable,
    spelled,
)
from oasis_bench.tasks import Split
from oasis_bench.trial import TrialResult

S = TypeVar("S", bound=Source)


@dataclass(frozen=True)
class How:
    """How the trials of a run are run, and which files are kept.

    Attributes
    ----------
    jobs
        Trials at a time; if above one, they share cores, and their timings are marked.
    cluster
        The address of a Dask scheduler whose workers run the trials.
    plugin_files
        Files with learners, data sets, tasks and splits, besides installed packages.
    keep
        The files to keep of each trial: 'models', 'predictions'.
    command, remarks
        The report's text on how the run was made.
    """

    jobs: int = 1
    cluster: str | None = None
    plugin_files: Sequence[Path] = ()
    keep: Collection[str] = ()
    command: str | None = None
    remarks: Sequence[str] = ()


USUAL = How()


class Watcher:
    """Shows the progress of a run; this one shows nothing."""

    def trial(self, result: TrialResult | None, done: int, planned: int) -> None:
        """Show that a trial has ended; None: the first trial begins."""

    def download(self, what: str, done: int, total: int | None) -> None:
        """Show the progress of a download or a preparation."""

    def note(self, line: str) -> None:
        """Show a remark for the user before the first trial, such as how rows are scaled."""


SILENT = Watcher()


def run_experiment(
    experiment: Experiment, output: Path, how: How = USUAL, watcher: Watcher = SILENT
) -> int:
    """Run all trials of an experiment into a new or empty folder; return how many failed.

    Nothing is written after an error that is found before the first trial.
    """
    with executor(how.jobs, how.cluster) as place:
        refuse_used_folder(output)
        plan = Plan.load(experiment, how.plugin_files, watcher.download)
        info = _facts(plan, how, place)
        with Store.create(output, info) as store:
            if experiment.scaling is None and info.scaling:
                tuned = f"the scaling of rows is tuned among {', '.join(info.scaling)}"
                what = tuned if len(info.scaling) > 1 else f"rows are scaled by {info.scaling[0]}"
                other = f"the data set's default; {spelled('scaling')} selects another"
                watcher.note(f"{what} ({other})")
            for remark in info.remarks:
                watcher.note(remark)
            try:
                return _run_trials(store, plan, plan.trials, place, how, watcher)
            except OutputError:  # its message says that the run can be continued
                raise
            except BaseException:
                if not store.statuses():
                    remove_unfinished(output)
                    for kind in how.keep:
                        with suppress(OSError):
                            (output / kind).rmdir()
                    (output / Folder.OUTPUT_LOG).unlink(missing_ok=True)
                    store.discard()
                raise


def resume_experiment(
    folder: Path,
    how: How = USUAL,
    watcher: Watcher = SILENT,
    retry: Collection[str] = (),
    limits: Mapping[str, str] = MappingProxyType({}),
) -> int:
    """Continue an interrupted run; return how many of the continued trials failed.

    Finished trials are not run again, except those with a status in `retry`, whose new
    results replace the old ones.  The plugin files are those of the run, or copies with the same
    names.  `limits` may replace 'budget' and 'memory' of the run.  The new trials keep the same
    kinds of files as the earlier trials.  Nothing is written if the code, the data or the settings
    have changed since the run began.
    """
    with executor(how.jobs, how.cluster) as place, Store.open(folder) as store:
        info = store.info()
        experiment = info.experiment.limited(limits)
        refuse_missing_plugins(info, how.plugin_files, folder)
        plan = Plan.load(experiment, how.plugin_files, watcher.download, info.table)
        refuse_what_changed(info.identities, _identities(plan.trials), folder)
        statuses = store.statuses()
        done = {trial for trial, status in statuses.items() if status not in retry}
        left = [spec for spec in plan.trials if spec.trial_id not in done]
        for remark in _core_warning(how.jobs, experiment.threads):
            watcher.note(remark)
        now = Resumption(trials=len(left), limits=dict(limits), **_session(place, how.command))
        store.reopen(resumed=[asdict(session) for session in (*info.resumed, now)])
        return _run_trials(store, plan, left, place, how, watcher)


def _facts(plan: Plan, how: How, place: Executor) -> RunFacts:
    """Return the facts about a run to store before its first trial."""
    specs, dataset, rows = plan.trials, plan.dataset, plan.rows
    algorithms = plan.registry.algorithms
    subsets: dict[str, Sequence[int]] = {}
    for spec in specs:  # in order; of class sets, the first
        subsets.setdefault(spec.where.subset, spec.where.classes)
    of_rows = [one.scalings for one in specs if algorithms[one.algorithm].takes == "rows"]
    warnings = _core_warning(how.jobs, plan.experiment.threads)
    return RunFacts(
        experiment=plan.experiment,
        identities=_identities(specs),
        plugin_files=[str(path) for path in plan.plugin_files],
        sources=_sources(plan),
        planned_trials=len(specs),
        **_session(place, how.command),
        classes={
            subset: [rows.class_names[number] for number in numbers]
            for subset, numbers in subsets.items()
        },
        multi_label=rows.multi_label,
        items=dataset.items,
        table=rows.schema,
        n_folds=rows.n_folds,
        scaling=of_rows[0] if of_rows else (),
        remarks=[*how.remarks, *plan.remarks(), *warnings],
        left_out=rows.left_out,
        notes={name: dataset.notes[name] for name in subsets if name in dataset.notes},
    )


def _identities(specs: Sequence[TrialSpec]) -> dict[str, Mapping[str, Any]]:
    """Return the identity of the trials for each learner, class subset and split."""
    return {spec.cell: spec.identity for spec in reversed(specs)}


def refuse_what_changed(
    before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]], folder: Path
) -> None:
    """Raise UsageError with the changes since a run began, if there are any."""
    changes = [
        f"{TrialSpec.IDENTITY_IN_WORDS.get(key, key)} of {name}"
        for name, identity in before.items()
        for key, value in identity.items()
        if key != "partition" and now.get(name, {}).get(key) != value
    ]
    if changes or before.keys() != now.keys():
        what = changes[0] if changes else "the list of learners or class subsets"
        more = f" and {len(changes) - 1} more" if len(changes) > 1 else ""
        raise UsageError(
            f"{folder} cannot go on: changed since it began: {what}{more}: results of both must "
            f"not be mixed: change it back, or start a new run with another {spelled('output')}"
        )


def refuse_missing_plugins(info: RunFacts, plugin_files: Sequence[Path], folder: Path) -> None:
    """Check that the user gave the plugin files of a run, each by its name.

    A store names files whose code would run; it may come from a stranger.
    """
    given = {path.name for path in plugin_files}
    missing = [path for path in info.plugin_files if Path(path).name not in given]
    if missing:
        options = " ".join(spelled("plugin_files", path) for path in missing)
        raise UsageError(
            f"{folder} was run with plugin files, whose code runs again: if you trust them, add "
            f"{printable(options)} (plugin_files in Python)"
        )


def _run_trials(
    store: Store,
    plan: Plan,
    specs: Sequence[TrialSpec],
    place: Executor,
    how: How,
    watcher: Watcher,
) -> int:
    """Run trials of a plan into the store; return how many failed.

    Trials that are not applicable count only if no trial of the run has a result.
    """
    folder, names, done = Folder(store.folder), file_names(plan.trials), 0
    for name in (Folder.OUTPUT_LOG, Folder.MODELS, Folder.PREDICTIONS):
        folder.path(name)  # before hours of work: it may raise
    if (store.folder / Folder.OUTPUT_LOG).exists():
        folder.append(Folder.OUTPUT_LOG, b"")  # likewise
    remove_unfinished(store.folder)  # of a session that was killed
    for kind in how.keep:
        folder.path(kind).mkdir(exist_ok=True)  # says later what the run keeps
    models, scores = (
        (store.folder / kind).is_dir() for kind in (Folder.MODELS, Folder.PREDICTIONS)
    )
    shares = place.shares_cores  # asked once: of a cluster
    spec_of = {
        spec.trial_id: replace(spec, keeps_model=models, keeps_scores=scores, shares_cores=shares)
        for spec in specs
    }
    tried, ended = store.statuses().keys(), Counter[str]()
    watcher.trial(None, 0, len(specs))
    try:
        with place.run([*spec_of.values()], plan.rows, store.folder / Folder.OUTPUT_LOG) as results:
            for done, result in enumerate(results, start=1):
                spec = spec_of[result.row.trial_id]
                keep_files(result, store.folder, names[spec.trial_id])  # first: no row without them
                try:
                    store.add(result, replace=spec.trial_id in tried)
                except RefusedRecordError as error:
                    reason = f"{type(error).__name__}: {error}"
                    result = TrialResult.lost(spec, plan.rows.X.shape[1], "failed", reason)
                    store.add(result, replace=spec.trial_id in tried)
                ended[result.row.status] += 1
                watcher.trial(result, done, len(specs))
        remove_unfinished(store.folder)
        of_end = {"finished": _now(), "load_at_end": os.getloadavg()[0]}
        labels, pictures = partial(labels_of, plan.rows), partial(_pictures_of, plan.rows)
        store.add_labels(labels, pictures, **of_end)
    except KeyboardInterrupt:
        if not store.statuses():
            raise  # nothing was kept
        files = [word for path in how.plugin_files for word in ("--plugin", str(path))]
        words = ["python", "-m", "oasis_bench", "run", "--resume", str(store.folder), *files]
        raise KeyboardInterrupt(
            f"interrupted after {done} of {len(specs)} trials; they are kept: "
            f"continue with '{shlex.join(words)}', or "
            f"write their report with '{shlex.join([*words[:3], 'report', str(store.folder)])}'"
        ) from None
    has_result = "ok" in store.statuses().values()
    return ended.total() - ended["ok"] - has_result * ended["not applicable"]


def _session(place: Executor, command: str | None) -> dict[str, Any]:
    """Return the facts about this session for the store."""
    about = {**describe_machine(), **place.provenance()}
    now = {"started": _now(), "load_at_start": os.getloadavg()[0]}
    return {**now, "command": command, "provenance": about}


def _said(kind: type[S], plugin: Any, **more: Any) -> S:
    """Return the facts about a plugin."""
    return kind(summary=plugin.summary, citation=plugin.citation, **more)


def _sources(plan: Plan) -> Sources:
    """Return the facts about the data set, learners, tasks and splits, for the report."""
    experiment, dataset, registry = plan.asked, plan.dataset, plan.registry
    learners = {
        label: _said(Source, registry.algorithms[spec.algorithm])
        for label, spec in experiment.learners.items()
    }
    splits = {}
    for name, (split, *_) in plan.splits.items():
        splits[name] = SplitSource(
            summary=split.in_words(),
            citation=split.citation,
            per_class=not split.no_sizes and split.needed_per_class() is not None,
            most=split.n_partitions(plan.rows),
            knows_classes=split.knows_classes,
        )
    of_data = _said(DatasetSource, dataset, name=dataset.title, licence=dataset.licence)
    return Sources(of_data, learners, task_sources(experiment, registry), splits)


def _core_warning(jobs: int, threads: int) -> Iterator[str]:
    """Yield a warning if parallel trials with several threads each share too few cores."""
    cores = n_cores()
    if min(jobs, threads) > 1 and jobs * threads > cores:
        yield (
            f"warning: {jobs} trials at a time, of {threads} threads each, need {jobs * threads} "
            f"cores, and there are {cores}: they wait for one another, often for longer than they "
            f"work. Choose {spelled('jobs')} and {spelled('threads')} whose product is at most "
            f"{cores}"
        )


def task_sources(experiment: Experiment, registry: Registry) -> dict[str, TaskSource]:
    """Return the facts about the tasks of an experiment, by name."""
    fields = ("split", "gallery", "measures", "of_data")
    return {
        task.name: _said(TaskSource, task, **{name: getattr(task, name) for name in fields})
        for task in experiment.find_tasks(registry)
    }


def labels_of(rows: LabelledRows, numbers: list[int]) -> Iterator[tuple[int, int]]:
    """Yield the row number and the class number of each label of some rows."""
    if max(numbers, default=0) >= rows.y.shape[0]:
        raise UsageError(f"the run names row {max(numbers)}, and there are {rows.y.shape[0]} rows")
    y: Any = rows.y[numbers]
    places, labels = y.nonzero() if rows.multi_label else (range(len(y)), y)
    for place, label in zip(places, labels, strict=True):
        yield numbers[place], int(label)


def _pictures_of(rows: LabelledRows, numbers: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the caption and the thumbnail of some rows, if they have images."""
    if rows.images is not None:
        for row in numbers:
            yield {"row": row, "caption": rows.caption(row), "thumbnail": rows.thumbnail(row)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def in_file_name(part: str) -> str:
    """Return how a learner or a class subset is called in the names of a trial's files."""
    return re.sub(r"[^a-zA-Z0-9.+=-]", "-", part)[:LONGEST_NAME]


def file_names(specs: Sequence[TrialSpec]) -> dict[str, str]:
    """Return the name of each trial's files, such as 'OASIS_10_0.npz', by its trial_id.

    A name consists of the learner, the class subset and the partition, and the split unless it is
    of seen classes.  '-' replaces characters that do not belong in a file name.  If several trials
    would have the same name, the later ones, in the order of the plan, get a number.
    """
    names: dict[str, str] = {}
    times: Counter[str] = Counter()
    for spec in specs:
        split = () if spec.where.split == Split.USUAL else (spec.where.split,)
        parts = (spec.learner, spec.where.subset, str(spec.where.partition), *split)
        name = "_".join(map(in_file_name, parts))
        times[name.casefold()] += 1
        number = times[name.casefold()]
        names[spec.trial_id] = f"{name}~{number}.npz" if number > 1 else f"{name}.npz"
    return names


def keep_files(result: TrialResult, folder: Path, name: str) -> None:
    """Move the files of a trial that has ended to their names in the folder of the run."""
    for kind, path in result.files.items():
        target = Folder(folder).path(f"{kind}/{name}")
        with OutputError.at(folder / kind):
            target.parent.mkdir(exist_ok=True)
            os.replace(path, target)


def remove_unfinished(folder: Path) -> None:
    """Remove the files of trials that were cut short, and their folder if it is then empty."""
    unfinished = Folder(folder).path(Folder.UNFINISHED)
    with suppress(OSError):
        for kind in (Folder.MODELS, Folder.PREDICTIONS):
            for path in unfinished.glob(f"*.{kind}"):
                path.unlink()
        unfinished.rmdir()
