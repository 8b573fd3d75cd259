"""Finds the trials of a run whose scores were kept, and loads the data that the scores are of."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from oasis_bench.data import LabelledRows
from oasis_bench.experiment import Experiment, RunFacts, TrialSpec
from oasis_bench.plugins import Registry
from oasis_bench.runner.run import prepare
from oasis_bench.runner.trial_files import file_names
from oasis_bench.store import read_run
from oasis_bench.system import Progress, UsageError, path_below, without_options
from oasis_bench.trial import PREDICTIONS, Predictions, draw_items


def find_kept_scores(
    folder: Path,
    info: RunFacts,
    experiment: Experiment,
    registry: Registry,
    plugin_files: Sequence[Path],
    on_download: Progress,
) -> tuple[LabelledRows, list[tuple[TrialSpec, str, Predictions]]]:
    """Load the rows of a run and find the trials whose scores were kept.

    Parameters
    ----------
    folder : Path
        The output of a run.
    info : RunFacts
        Its metadata.
    experiment : Experiment
        That of the run, with the tasks whose splits are looked for.
    registry : Registry
    plugin_files : sequence of Path
    on_download : callable
        Called with progress.

    Returns
    -------
    rows : LabelledRows
    trials : list of tuple
        The trial as it is planned now, the trial_id that the store has, and the kept scores.

    Raises
    ------
    UsageError
        Where the run kept no scores, a file of them is damaged or of other items, or the data has
        changed.
    """
    if not path_below(folder, PREDICTIONS).is_dir():
        words = without_options(shlex.split(info.command or ""), ["--output"])
        words = [*words, "--predictions", "--output", f"{folder}-scores"]
        again = f": {shlex.join(words)}" if info.command else ""
        raise UsageError(
            f"{folder} has no kept scores: run it anew with --predictions, into another "
            f"folder{again}"
        )
    _, rows, specs = prepare(experiment, registry, plugin_files, on_download)
    hashes = {str(one["data"]) for one in info.identities.values()}
    if hashes != {specs[0].identity["data"]}:
        raise UsageError(
            f"the rows of {experiment.dataset} have changed since the run {folder}: its scores "
            "are of other rows: put them back, or start a new run"
        )
    return rows, _kept_trials(folder, specs, rows, registry)


def _kept_trials(
    folder: Path, specs: Sequence[TrialSpec], rows: LabelledRows, registry: Registry
) -> list[tuple[TrialSpec, str, Predictions]]:
    """Return the trials whose scores were kept, with the trial_id that the store has."""
    names = file_names(specs)
    spec_of = {
        (spec.learner, spec.where.subset, spec.where.partition, spec.where.split): spec
        for spec in specs
    }
    kept = []
    trials = read_run(folder).trials
    columns = ("learner", "subset", "partition", "split", "trial_id")
    for *key, trial_id in zip(*(trials[name] for name in columns), strict=True):
        spec = spec_of.get(tuple(key))
        if spec is None:
            continue
        path = path_below(folder, f"{PREDICTIONS}/{names[spec.trial_id]}")
        if path.is_file():
            items = draw_items(spec, rows, registry.algorithms[spec.algorithm])
            kept.append((spec, str(trial_id), Predictions.open(path, items)))
    if not kept:
        raise UsageError(f"{folder / PREDICTIONS} holds no scores of the trials of this run")
    return kept
