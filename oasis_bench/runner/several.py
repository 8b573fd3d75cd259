"""An experiment that is several runs: one for each value of an option or a setting.

Each is a run as any other, in a folder of its own.  Not for carrying them out, nor for printing.
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from oasis_bench.experiment import Experiment, settled_as
from oasis_bench.store import FILE_NAME, read_run
from oasis_bench.system import UsageError


def one_for_each_value(experiment: Experiment) -> dict[str, Experiment]:
    """Return an experiment for each value of what has a list of them, by value.

    That is an option of the data set, or a setting in the table `each` of the file.

    Raises
    ------
    UsageError
        Where several have lists, or a value cannot name a folder.
    """
    options, each = experiment.dataset_options, experiment.each
    lists = _lists(experiment)
    if not lists:
        return {}
    if len(lists) > 1:
        raise UsageError(f"{' and '.join(lists)} have lists of values, a run for each: one may")
    name, values = next(iter(lists.items()))
    words = [str(value) for value in values] if isinstance(values, list) else []
    if not words or len(set(words)) < len(words):
        raise UsageError(f"{name} = {values}: different values are needed")
    for word in words:
        if Path(word).name != word:
            raise UsageError(f"{name} = {values}: {word!r} cannot name a folder")
    found = {}
    for word, value in zip(words, values, strict=True):
        change = {name: value} if each else {"dataset_options": {**options, name: value}}
        title = f"{experiment.title}: {f'{name} = ' if each else ''}{word}"
        found[word] = replace(experiment, each={}, title=title, **change)
    return found


def what_varies(experiment: Experiment) -> str:
    """Return the name of the option or the setting that has a list of values."""
    return next(iter(_lists(experiment)))


def _lists(experiment: Experiment) -> dict[str, Any]:
    options = experiment.dataset_options
    lists = {name: values for name, values in options.items() if isinstance(values, list)}
    return {**lists, **experiment.each}


def begun(folder: Path, experiment: Experiment) -> bool:
    """Tell whether a folder holds a run of this experiment.

    Raises
    ------
    UsageError
        Where it holds a run of another one.
    """
    if not (folder / FILE_NAME).exists():
        return False
    before = read_run(folder).info.experiment
    now = settled_as(experiment, before)
    if before != now:
        names = [one.name for one in fields(now)]
        changed = [name for name in names if getattr(now, name) != getattr(before, name)]
        raise UsageError(
            f"{folder} holds a run of other settings ({', '.join(changed)}): choose another "
            "--output, or give the settings of that run to go on with it"
        )
    return True


def finished(folder: Path) -> bool:
    """Tell whether the run in a folder has come to its end."""
    return read_run(folder).info.finished is not None
