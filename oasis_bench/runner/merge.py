"""Several runs made one, where they belong in one report; and which run a merged trial is of.

Not for runs on different data sets, which are compared as runs of their own.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from typing import Any

from oasis_bench.experiment.identity import WORDS
from oasis_bench.store.parts import Part, parts_of
from oasis_bench.store.run_file import RunRecord, Store, read_run, refuse_used_folder
from oasis_bench.system.errors import UsageError

FREE = ("title", "learners", "classes", "partitions", "traces", "examples")
"""What the experiments of merged runs may differ in; the rest is said once in a report."""


def merge_runs(folders: Sequence[Path], target: Path) -> int:
    """Write the trials of several runs, with all that belongs to them, as one new run.

    A trial that several runs hold is taken once: an ok one before others, else the first.

    Parameters
    ----------
    folders : sequence of Path
        At least 2; they are not changed.
    target : Path
        A folder that does not exist yet, or is empty; written whole or not at all.

    Returns
    -------
    int
        How many trials it has.

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
    first = next(iter(runs))
    for name, run in runs.items():
        _refuse_other_settings(first, runs[first], name, run)
    _refuse_other_trials(runs)
    taken = _taken(runs)
    target = target.resolve()
    unfinished = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with Store.create(unfinished) as store:
            store.write_info(**_merged_info(runs, taken, target))
            for name, trial_ids in taken.items():
                store.copy(Path(name), trial_ids)
        os.replace(unfinished, target)
    except (OSError, UsageError) as error:
        raise UsageError(f"cannot write {target}: {error.__cause__ or error}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return sum(map(len, taken.values()))


def _refuse_other_settings(first: str, one: RunRecord, name: str, other: RunRecord) -> None:
    """Raise a UsageError where what a report says once is not the same of two runs."""
    settings = [_settings(run) for run in (one, other)]
    for key in settings[0] | settings[1]:
        values = [each.get(key) for each in settings]
        if values[0] != values[1]:
            told = "" if key == "data" else f" ({values[0]}, {values[1]})"
            hint = " ('ranks' compares over data sets)" if key in ("dataset", "data") else ""
            why = f"they differ in {WORDS.get(key, key)}{told}{hint}"
            raise UsageError(_refusal(first, name, why))
    for subset, classes in one.info["classes"].items():
        if other.info["classes"].get(subset, classes) != classes:
            raise UsageError(_refusal(first, name, f"{subset!r} names other classes in each"))
    specs = [run.info["experiment"]["learners"] for run in (one, other)]
    for label in specs[0].keys() & specs[1].keys():
        if specs[0][label] != specs[1][label]:
            raise UsageError(_refusal(first, name, f"{label!r} names other parameters in each"))


def _settings(run: RunRecord) -> dict[str, Any]:
    """Return what must be the same of all runs: how each trial is made, and of which rows."""
    experiment = {key: v for key, v in run.info["experiment"].items() if key not in FREE}
    data = sorted({identity["data"] for identity in run.info["identities"].values()})
    return {**experiment, "normalize": run.info["normalize"], "data": data}


def _refusal(first: str, name: str, why: str) -> str:
    return (
        f"cannot merge {first} and {name}: {why}: one report cannot hold both: leave a run out, or "
        "run it again like the other"
    )


def _refuse_other_trials(runs: Mapping[str, RunRecord]) -> None:
    """Raise a UsageError where one label was run on one class subset in two ways."""
    seen: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for name, run in runs.items():
        for cell, identity in run.info["identities"].items():
            first, known = seen.setdefault(cell, (name, identity))
            for key, value in known.items():
                if key != "partition" and identity[key] != value:
                    why = f"they differ in {WORDS.get(key, key)} of {cell}"
                    raise UsageError(_refusal(first, name, why))


def _taken(runs: Mapping[str, RunRecord]) -> dict[str, list[str]]:
    """Decide which trials are taken from which run.

    Raises
    ------
    UsageError
        Where one trial has different results in two runs.
    """
    results = {name: _results(run) for name, run in runs.items()}
    holders: dict[str, str] = {}
    for name, of_run in results.items():
        for trial_id, result in of_run.items():
            first = holders.setdefault(trial_id, name)
            known = results[first][trial_id]
            if known is None and result is not None:
                holders[trial_id] = name
            elif result not in (None, known):
                trial = runs[name].trials.set_index("trial_id").loc[trial_id]
                raise UsageError(
                    f"cannot merge {first} and {name}: {trial['learner']} on classes "
                    f"{trial['subset']}, partition {trial['partition']} has other precisions in "
                    "each, though nothing that decides them differs: leave a run out"
                )
    return {name: [it for it in of_run if holders[it] == name] for name, of_run in results.items()}


def _results(run: RunRecord) -> dict[str, tuple[float, ...] | None]:
    """Return mAP and precision at each k of every trial, by trial_id; None without a result."""
    at_k = run.precision_at_k.sort_values("k").groupby("trial_id")["precision"].agg(tuple)
    return {
        trial["trial_id"]: (trial["mean_average_precision"], *at_k.get(trial["trial_id"], ()))
        if trial["status"] == "ok"
        else None
        for trial in run.trials.to_dict("records")
    }


def _merged_info(
    runs: Mapping[str, RunRecord], taken: Mapping[str, Sequence[str]], target: Path
) -> dict[str, Any]:
    """Say of a merged run what a run says of itself, and keep whole what each of its parts said."""
    infos = [run.info for run in runs.values()]
    parts = [
        replace(part, trial_ids=[it for it in part.trial_ids if it in taken[name]])
        for name, run in runs.items()
        for part in parts_of(run, name)
    ]
    merge = ["python", "-m", "oasis_bench", "merge", *runs, "--into", str(target)]
    commands = [*(part.info.get("command") for part in parts), shlex.join(merge)]
    info = {
        **{key: infos[0][key] for key in ("multi_label", "normalize", "left_out")},
        **{key: _united(infos, key) for key in ("identities", "classes", "notes")},
        "experiment": _merged_experiment([info["experiment"] for info in infos]),
        "plugin_files": list(dict.fromkeys(path for it in infos for path in it["plugin_files"])),
        "sources": {
            "dataset": infos[0]["sources"]["dataset"],
            "learners": _united([info["sources"] for info in infos], "learners"),
        },
        "planned_trials": len({cell for part in parts for cell in _planned(part)}),
        "provenance": _provenance(parts),
        "command": "\n".join(text for text in commands if text),
        "started": min(info["started"] for info in infos),
        "merged": [asdict(part) for part in parts],
    }
    if all("finished" in part.info for part in parts):
        info["finished"] = max(part.info["finished"] for part in parts)
    return info


def _united(infos: Sequence[Mapping[str, Any]], key: str) -> dict[str, Any]:
    """Unite mappings that agree where they overlap, in order."""
    return {name: value for info in infos for name, value in info[key].items()}


def _merged_experiment(experiments: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Make the experiment that has the learners, class subsets and partitions of all."""
    classes: list[Any] = []
    for experiment in experiments:
        classes += [subset for subset in experiment["classes"] if subset not in classes]
    return {
        **experiments[0],
        "title": " + ".join(dict.fromkeys(experiment["title"] for experiment in experiments)),
        "learners": _united(experiments, "learners"),
        "classes": classes,
        **{key: max(it[key] for it in experiments) for key in ("partitions", "traces", "examples")},
    }


def _planned(part: Part) -> Iterator[tuple[str, str, int]]:
    """List the trials that a run set out to make."""
    experiment = part.info["experiment"]
    return product(experiment["learners"], part.info["classes"], range(experiment["partitions"]))


def _provenance(parts: Sequence[Part]) -> dict[str, Any]:
    """Tell of each part, and of each time it went on, where and when it was run."""
    told = {}
    for number, part in enumerate(parts, start=1):
        for session in (part.info, *part.info.get("resumed", [])):
            again = "" if session is part.info else ", resumed"
            name = f"{number}. {part.name}, started {session['started']}{again}"
            told[name] = {**session["provenance"], "load at start": session["load_at_start"]}
    return told
