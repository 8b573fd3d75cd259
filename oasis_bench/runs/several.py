"""Several runs, each in a folder of its own: the corpora of a suite, or the values of a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import oasis_bench
from oasis_bench.experiment import Experiment, package_hash, read_experiment, source_hash
from oasis_bench.plugins import Registry, load_reports
from oasis_bench.runs.run import How, Watcher, resume_experiment, run_experiment
from oasis_bench.runs.schema import RunFacts
from oasis_bench.runs.store import has_run, read_run
from oasis_bench.system import OutputError, UsageError, quoted, spelled

PUBLISHED = Path(oasis_bench.__file__).resolve().parents[1] / "docs" / "results" / "suite"
"""The committed results of a checkout."""

Report = Callable[[Path], object]
"""Called with the folder of each run that has ended."""


class Ended(NamedTuple):
    """How runs have ended: the number of failed trials, and the place of the common result.

    `left_out` is the reason why a run could not begin.
    """

    failures: int
    result: str = ""
    left_out: str = ""


def go_on(
    experiment: Experiment, folder: Path, how: How, watcher: Watcher, report: Report
) -> Ended:
    """Begin or continue the run of an experiment in a folder, unless it is finished.

    Each corpus of a suite, or value of a list, is run in a separate folder.
    """
    if several := experiment.one_for_each_value():
        run = _run_suite if experiment.corpora else _run_values
        try:
            return run(experiment, several, folder, how, watcher, report)
        except KeyboardInterrupt:
            again = f"interrupted: repeat the command with {spelled('output')} {folder} to continue"
            raise KeyboardInterrupt(again) from None
    if info := finished_run(folder, experiment):
        refuse_changed_code(info, folder, how)
        watcher.note(f"{folder} is finished")
        return Ended(0)
    if has_run(folder):
        failures = resume_experiment(folder, how, watcher)
    else:
        failures = run_experiment(experiment, folder, how, watcher)
    report(folder)
    return Ended(failures)


def go_on_or_leave_out(
    name: str, experiment: Experiment, folder: Path, how: How, watcher: Watcher, report: Report
) -> Ended:
    """Do as `go_on` in `folder` / `name`, but only report an experiment that cannot run."""
    try:
        return go_on(experiment, folder / name, how, watcher, report)
    except OutputError:
        raise
    except UsageError as error:
        why = f"{name} is left out: {error}"
        watcher.note(why)
        return Ended(1, left_out=why)


def finished_run(folder: Path, experiment: Experiment) -> RunFacts | None:
    """Return the facts of a finished run of an experiment; refuse a run of another experiment."""
    if not has_run(folder):
        return None
    info = read_run(folder).info
    before, now = vars(info.experiment), vars(experiment.settled_as(info.experiment))
    if changed := [name for name in now if now[name] != before[name]]:
        raise UsageError(
            f"{folder} has a run with other settings ({', '.join(changed)}): choose another "
            f"{spelled('output')}, or give the settings of that run to continue it"
        )
    return None if info.finished is None else info


def refuse_changed_code(info: RunFacts, folder: Path, how: How, ours: bool = True) -> None:
    """Refuse a run whose plug-in files, or `ours` our own code, have changed since."""
    algorithms = Registry.load(how.plugin_files).algorithms
    for identity in info.identities.values():
        learner = algorithms[identity["algorithm"]]
        is_plugin = learner.__module__.partition(".")[0] != oasis_bench.__name__
        if (ours and identity["code"] != package_hash()) or (
            is_plugin and identity["source"] != source_hash(learner)
        ):
            raise UsageError(
                f"{folder} is finished, but the code of {quoted(identity['learner'])} has changed "
                f"since: choose another {spelled('output')}"
            )


def _run_values(
    experiment: Experiment,
    several: Mapping[str, Experiment],
    folder: Path,
    how: How,
    watcher: Watcher,
    report: Report,
) -> Ended:
    """Run an experiment for each value of its list, and show the runs on one page."""
    failures = 0
    for name, one in _in_turn(several, folder, how, watcher):
        failures += go_on(one, folder / name, how, watcher, report).failures
    (what,) = experiment.lists_of_values
    folders = {name: folder / name for name in several}
    page = load_reports().write_side_by_side(folders, folder, what)
    return Ended(failures, f"report: {page}")


def _run_suite(
    suite: Experiment,
    corpora: Mapping[str, Experiment],
    folder: Path,
    how: How,
    watcher: Watcher,
    report: Report,
) -> Ended:
    """Run a suite corpus by corpus, and export each result; skip corpora that have a result.

    Exported runs get no report.
    """
    reports, results, failures = load_reports(), results_folder(suite, folder), 0
    left = {}
    for name, one in corpora.items():
        if has_result(results / f"{name}.csv", one):
            if info := finished_run(folder / name, one):  # refuses settings that no result shows
                refuse_changed_code(info, folder / name, how, ours=False)
        else:
            left[name] = one
    watcher.note(f"{len(left)} of {len(corpora)} corpora have no result in {results} yet")
    for name, one in _in_turn(left, folder, how, watcher):
        ended = go_on_or_leave_out(name, one, folder, how, watcher, lambda run: None)
        failures += ended.failures
        if not ended.left_out:
            reports.export_run(folder / name, kind="summary", output=results)
    ranks = f"'python -m oasis_bench ranks {results}' makes their page"
    return Ended(failures, f"results: {results}: {ranks}" if results.is_dir() else "")


def _in_turn(
    experiments: Mapping[str, Experiment], folder: Path, how: How, watcher: Watcher
) -> Iterator[tuple[str, Experiment]]:
    """Yield experiments, and show which is next; refuse visible errors before the first."""
    registry = Registry.load(how.plugin_files)
    for name, one in experiments.items():
        finished_run(folder / name, one)
        registry.open_dataset(one.dataset, one.dataset_options)
        for spec in one.learners.values():
            registry.algorithms[spec.algorithm]
    for number, (name, one) in enumerate(experiments.items(), start=1):
        watcher.note(f"{name} ({number} of {len(experiments)}):")
        yield name, one


def results_folder(suite: Experiment, output: Path) -> Path:
    """Return the folder for the results of a suite: the committed one, or one in `output`.

    Only a whole built-in suite, in a checkout, replaces committed results: those of its name.
    """
    name = suite.built_in
    is_whole = name is not None and suite == read_experiment(name)
    return PUBLISHED.parent / str(name) if is_whole and PUBLISHED.is_dir() else output / "results"


def has_result(file: Path, experiment: Experiment) -> bool:
    """Return whether there is a result of this protocol, these learners and the present code.

    The file `equal-code.txt` beside it may list code versions that gave the same results, with a
    hash and a reason in each line.  If the present code is listed, results of all versions count.
    """
    if not file.is_file():
        return False
    rows, listed = load_reports().read_summary(file), file.parent / "equal-code.txt"
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    now, equal = package_hash(), {line.split()[0] for line in lines if line.strip()}
    codes = equal if now in equal else {now}
    wanted = {"protocol": {experiment.protocol}, "learner": set(experiment.learners)}
    are_equal = all(name in rows and set(rows[name]) == it for name, it in wanted.items())
    return are_equal and "code" in rows and set(rows["code"]) <= codes
