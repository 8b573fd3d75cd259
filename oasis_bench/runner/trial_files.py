"""The files that trials keep beside the store, and their names: models and scores."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from oasis_bench.experiment import TrialSpec
from oasis_bench.system import OutputError, path_below
from oasis_bench.tasks import named_unless_usual
from oasis_bench.trial import MODELS, PREDICTIONS, UNFINISHED, TrialResult

LONGEST_NAME = 100
"""Characters; the names of many classes joined make a long one."""


def file_names(specs: Sequence[TrialSpec]) -> dict[str, str]:
    """Return the name of each trial's files, such as 'OASIS_10_0.npz', by its trial_id.

    It is made of the learner, the class subset and the partition, and the split where that is not
    of seen classes.  Characters that a file's name should not hold are '-'; of trials that would
    have one name the later ones have a number, too.

    Parameters
    ----------
    specs : sequence of TrialSpec
        All trials of the experiment, in the order of its plan.
    """
    names: dict[str, str] = {}
    times: Counter[str] = Counter()
    for spec in specs:
        split = named_unless_usual(spec.where.split)
        parts = (spec.learner, spec.where.subset, str(spec.where.partition), *split)
        name = "_".join(re.sub(r"[^a-zA-Z0-9.+=-]", "-", part)[:LONGEST_NAME] for part in parts)
        times[name.casefold()] += 1
        number = times[name.casefold()]
        names[spec.trial_id] = f"{name}~{number}.npz" if number > 1 else f"{name}.npz"
    return names


def keep_files(record: TrialResult, folder: Path, name: str) -> None:
    """Move the files of a trial that has ended to their names in the folder of the run.

    Raises
    ------
    OutputError
        Where that is not possible.
    """
    for kind, path in record.files.items():
        target = path_below(folder, f"{kind}/{name}")
        try:
            target.parent.mkdir(exist_ok=True)
            os.replace(path, target)
        except OSError as error:
            raise OutputError.of(folder / kind, error.strerror) from error


def remove_unfinished(folder: Path) -> None:
    """Remove the files of trials that were cut short, and their folder where it is empty then."""
    unfinished = path_below(folder, UNFINISHED)
    with suppress(OSError):
        for kind in (MODELS, PREDICTIONS):
            for path in unfinished.glob(f"*.{kind}"):
                path.unlink()
        unfinished.rmdir()
