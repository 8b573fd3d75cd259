"""An experiment on several data sets: a run for each value of a list among the data set's options.

Each is a run as any other, in a folder of its own.  Not for carrying them out, nor for printing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from oasis_bench.experiment.settings import Experiment
from oasis_bench.experiment.sizes import settled_as
from oasis_bench.store.run_file import FILE_NAME, read_run
from oasis_bench.system.errors import UsageError


def one_for_each_value(experiment: Experiment) -> dict[str, Experiment]:
    """Return an experiment for each value of the option of the data set that is a list, by value.

    Raises
    ------
    UsageError
        Where several options are lists, or a value cannot name a folder.
    """
    options = experiment.dataset_options
    lists = {name: values for name, values in options.items() if isinstance(values, list)}
    if not lists:
        return {}
    if len(lists) > 1:
        raise UsageError(
            f"the options {' and '.join(lists)} of {experiment.dataset} are lists: one may be"
        )
    [(option, values)] = lists.items()
    names = [str(value) for value in values]
    if not names or len(set(names)) < len(names):
        raise UsageError(f"{option} = {values}: different values are needed")
    for name in names:
        if Path(name).name != name:
            raise UsageError(f"{option} = {values}: {name!r} cannot name a folder")
    return {
        name: replace(
            experiment,
            title=f"{experiment.title}: {name}",
            dataset_options={**options, option: value},
        )
        for name, value in zip(names, values, strict=True)
    }


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
    if before != settled_as(experiment, before):
        raise UsageError(
            f"{folder} holds a run of other settings: choose another --output, or give the "
            "settings of that run to go on with it"
        )
    return True


def finished(folder: Path) -> bool:
    """Tell whether the run in a folder has come to its end."""
    return read_run(folder).info.finished is not None
