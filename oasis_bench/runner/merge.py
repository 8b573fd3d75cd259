"""Several runs of one data set merged into one run with one report."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from oasis_bench.experiment import WORDS, Experiment, MergedRun, RunFacts
from oasis_bench.store import Store, StoredRun, read_run, refuse_used_folder
from oasis_bench.system import UsageError, whole_folder

MAY_DIFFER = (
    *("title", "built_in", "learners", "classes", "partitions", "traces", "examples", "queries"),
)
"""The settings of an experiment in which merged runs may differ."""


def merge_runs(folders: Sequence[Path], target: Path) -> int:
    """Write the trials of several runs, with all that belongs to them, as one new run.

    A trial that several runs hold is copied once: from the first run where its status is 'ok', else
    from the first run.

    Parameters
    ----------
    folders : sequence of Path
        At least 2; they are not changed.
    target : Path
        A folder that does not exist yet, or is empty; written whole or not at all.

    Returns
    -------
    int
        The number of trials in the merged run.

    Raises
    ------
    UsageError
        Where a folder holds no run, the target is in use, or runs do not belong in one report:
        other data, seeds or settings, or another result of the same trial.
    """
    refuse_used_folder(target, "--into")
    runs = {str(folder): read_run(folder) for folder in folders}
    if len(runs) < 2:
        raise UsageError(f"{len(runs)} run to merge ({', '.join(runs)}): name at least 2")
    for name in runs:
        _refuse_other_settings(runs, next(iter(runs)), name)
    _refuse_other_identities(runs)
    chosen = _choose_trials(runs)
    target = target.resolve()
    info = _merged_info({name: run.info for name, run in runs.items()}, target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_folder(target) as folder, Store.create(folder, info) as store:
            for name, trial_ids in chosen.items():
                store.copy(Path(name), trial_ids)
    except (OSError, UsageError) as error:
        raise UsageError(f"cannot write {target}: {error.__cause__ or error}") from error
    return sum(map(len, chosen.values()))


def _text(value: Any) -> str:
    return " and ".join(value) if isinstance(value, tuple) else str(value)


def _refuse_other_settings(runs: Mapping[str, StoredRun], first: str, name: str) -> None:
    """Raise a UsageError where two runs differ in a setting that all merged runs must share."""
    one, other = runs[first].info, runs[name].info
    settings, others = _common_settings(one), _common_settings(other)
    for key, value in settings.items():
        if value != (another := others[key]):
            values = "" if key == "data" else f" ({_text(value)}, {_text(another)})"
            hint = " ('ranks' compares over data sets)" if key in ("dataset", "data") else ""
            difference = f"they differ in {WORDS.get(key, key)}{values}{hint}"
            raise _refusal(first, name, difference)
    if subset := _first_difference(one.classes, other.classes):
        raise _refusal(first, name, f"{subset!r} names other classes in each")
    if label := _first_difference(one.experiment.learners, other.experiment.learners):
        raise _refusal(first, name, f"{label!r} names other parameters in each")


def _common_settings(info: RunFacts) -> dict[str, Any]:
    """Return what all merged runs must share: how each trial is made, and of which rows."""
    experiment = info.experiment.to_dict()
    common = {key: value for key, value in experiment.items() if key not in MAY_DIFFER}
    data = sorted({identity["data"] for identity in info.identities.values()})
    return {**common, "scaling": ", ".join(info.scaling), "data": data}


def _first_difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str | None:
    """Return the first key that both have with different values."""
    return next((key for key in one if key in other and one[key] != other[key]), None)


def _refusal(first: str, name: str, difference: str) -> UsageError:
    return UsageError(
        f"cannot merge {first} and {name}: {difference}: one report cannot hold both: leave a run "
        "out, or run it again like the other"
    )


def _refuse_other_identities(runs: Mapping[str, StoredRun]) -> None:
    """Raise a UsageError where one label was run on one class subset in two ways."""
    seen: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name, run in runs.items():
        for cell, identity in run.info.identities.items():
            first, known = seen.setdefault(cell, (name, identity))
            for key, value in known.items():
                if key != "partition" and identity[key] != value:
                    difference = f"they differ in {WORDS.get(key, key)} of {cell}"
                    raise _refusal(first, name, difference)


def _choose_trials(runs: Mapping[str, StoredRun]) -> dict[str, list[str]]:
    """Choose the run that each trial is copied from; return the trial_ids of each run.

    Raises
    ------
    UsageError
        Where one trial has different results in two runs.
    """
    trials = pd.concat([_with_measures(run).assign(source=name) for name, run in runs.items()])
    ok = trials[trials["status"] == "ok"]
    results = ok.drop_duplicates(["trial_id", "measured"])
    if (again := results["trial_id"].duplicated()).any():
        trial = results[again].iloc[0]
        first = ok[ok["trial_id"] == trial["trial_id"]].iloc[0]
        raise UsageError(
            f"cannot merge {first['source']} and {trial['source']}: {trial['learner']} on classes "
            f"{trial['subset']}, partition {trial['partition']} has other measures in each, "
            "though nothing that decides them differs: leave a run out"
        )
    chosen = pd.concat([ok, trials]).drop_duplicates("trial_id")
    return {name: chosen.loc[chosen["source"] == name, "trial_id"].tolist() for name in runs}


def _with_measures(run: StoredRun) -> pd.DataFrame:
    """Return the trials with the values of all their measures as a tuple."""
    rows = run.measures.sort_values(["task", "measure", "k"])
    values = rows.groupby("trial_id")["value"].agg(tuple)
    return run.trials.assign(measured=run.trials["trial_id"].map(values))


def _merged_info(infos: Mapping[str, RunFacts], target: Path) -> RunFacts:
    """Make the info of the merged run from the infos of the runs, given by name."""
    every = [_as_merged(name, info) for name, info in infos.items()]
    merged: dict[str, MergedRun] = {}
    planned: dict[str, int] = {}
    for name, info in zip(infos, every, strict=True):
        if other := _first_difference(merged, info.merged):
            raise UsageError(
                f"cannot merge {name}: {other!r} is also the name of another run: merge the runs "
                "themselves, from folders of different names"
            )
        merged |= info.merged
        for cell, n_partitions in info.planned_partitions.items():
            planned[cell] = max(n_partitions, planned.get(cell, 0))
    command = shlex.join(["python", "-m", "oasis_bench", "merge", *infos, "--into", str(target)])
    ends = [info.finished for info in every if info.finished]
    return replace(
        every[0],
        experiment=_merged_experiment([info.experiment for info in every]),
        identities=_united(info.identities for info in every),
        classes=_united(info.classes for info in every),
        notes=_united(info.notes for info in every),
        plugin_files=_distinct(path for info in every for path in info.plugin_files),
        sources=replace(
            every[0].sources, learners=_united(info.sources.learners for info in every)
        ),
        provenance=_united(info.provenance for info in every),
        load_at_start=None,  # it is in provenance, of each run
        load_at_end=None,
        command="\n".join([*(info.command for info in every if info.command), command]),
        started=min(info.started for info in every),
        finished=max(ends) if len(ends) == len(every) else None,
        resumed=(),
        planned_trials=sum(planned.values()),
        planned_partitions=planned,
        merged=merged,
    )


def _as_merged(name: str, info: RunFacts) -> RunFacts:
    """Return the info of a run as that of a merged run that consists of this run alone."""
    if info.merged:
        return info
    commit = info.provenance.get("commit")
    sessions = [("started", info), *(("resumed", later) for later in info.resumed)]
    return replace(
        info,
        merged={name: MergedRun(started=info.started, commit=commit, resumed=info.resumed)},
        planned_partitions=dict.fromkeys(info.identities, info.experiment.n_partitions),
        provenance={
            f"{name}, {what} {session.started}": {
                **session.provenance,
                "load at start": session.load_at_start,
            }
            for what, session in sessions
        },
    )


def _merged_experiment(experiments: Sequence[Experiment]) -> Experiment:
    """Make the experiment that has the learners, class subsets and partitions of all."""
    return replace(
        experiments[0],
        title=" + ".join(_distinct(experiment.title for experiment in experiments)),
        built_in=None,
        learners=_united(experiment.learners for experiment in experiments),
        classes=tuple(_distinct(subset for it in experiments for subset in it.classes)),
        partitions=max(experiment.n_partitions for experiment in experiments),
        traces=any(experiment.traces for experiment in experiments),
        examples=max(experiment.examples for experiment in experiments),
    )


def _united(mappings: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Unite mappings that agree where they overlap, in order."""
    return {key: value for mapping in mappings for key, value in mapping.items()}


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Return values without repetitions, in order."""
    return list(dict.fromkeys(values))
