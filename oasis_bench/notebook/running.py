"""`oasis_bench.run`: an experiment from Python, with the settings of the command `run`."""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from io import StringIO
from pathlib import Path
from typing import Any, ParamSpec

from tqdm.auto import tqdm

from oasis_bench.experiment import QUICK_REMARK, Experiment, cell_name, changed, known_settings
from oasis_bench.notebook.given import keep_rows, learners_of, rows_as_file
from oasis_bench.notebook.result import RunResult
from oasis_bench.plugins import load_reports
from oasis_bench.runs import (
    holds_run,
    new_folder,
    one_for_each_value,
    refuse_used_folder,
    run_experiment,
)
from oasis_bench.system import UsageError, for_terminal, unknown_name
from oasis_bench.trial import MODELS, PREDICTIONS, TrialResult

P = ParamSpec("P")


def _with_names_of_python(function: Callable[P, RunResult]) -> Callable[P, RunResult]:
    """Let errors speak of parameters where they speak of the command's options."""
    flags = {one.flag: name for name, one in known_settings().items() if one.flag}

    def parameter(match: re.Match[str]) -> str:
        option = match[0]
        name = flags.get(option, option.removeprefix("--").replace("-", "_"))
        return (
            name if name in known_settings() or name in signature(function).parameters else option
        )

    @wraps(function)
    def with_names(*args: P.args, **kwargs: P.kwargs) -> RunResult:
        try:
            return function(*args, **kwargs)
        except UsageError as error:
            if "oasis_bench run " not in (text := str(error)):  # a whole command stays one
                error.args = (re.sub(r"--[a-z]+(-[a-z]+)*", parameter, text),)
            raise

    return with_names


@_with_names_of_python
def run(
    dataset: Any = None,
    learners: Any = None,
    *,
    experiment: str | Path = "default",
    quick: bool = False,
    label: str | None = None,
    drop: str | Sequence[str] | None = None,
    fold_column: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    dataset_options: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    title: str | None = None,
    plugin_files: Sequence[str | Path] = (),
    jobs: int = 1,
    cluster: str | None = None,
    save_models: bool = False,
    predictions: bool = False,
    **others: Any,
) -> RunResult:
    """Run an experiment and return its result; the command `run` does the same.

    Parameters
    ----------
    dataset : str, Path, DataFrame or tuple of (X, y), optional
        A name of `data list`, a path (a file, a folder of pictures), a table with a column of
        labels, or rows and labels.  Default: the experiment's.  Rows in memory are kept in a file
        beside the run's folder, with its name.
    learners : optional
        Names, classes or instances: one, a list, or a dict of label to one.  A name or a class has
        its search space tried on the inner folds.  An instance is taken as it is, with all its
        parameters, the number of steps too.  Default: those of the experiment.
    experiment : str or Path, default 'default'
        A built-in experiment or a TOML file, over which all else is put.
    quick : bool, default False
        A first answer in some seconds: one class subset, 2 partitions, 2 inner folds, a search of 4
        candidates, 64000 steps and no traces, where these are not given.
    label : str, optional
        The column of the labels.  Default: label, class, target or y.
    drop : str or sequence of str, optional
        Columns to leave out: a list of names, or text with commas between them.
    fold_column : str, optional
        The column that says in which fold each row tests: these are the partitions then.
    decimal, thousands : str, optional
        The decimal sign and the sign of thousands of a CSV file.  Default: as its columns show.
    dataset_options : mapping, optional
        Other options of the data set, such as ``{"visterms": 100}``.
    output : str or Path, optional
        A new folder.  Default: ``runs/DATASET-TIME``.
    title : str, optional
        Of the report.
    plugin_files : sequence of str or Path, default ()
        Python files that define learners, data sets or tasks.
    jobs : int, default 1
        Trials at a time; above 1 their timings are marked.
    cluster : str, optional
        The address of the scheduler of a Dask cluster that runs the trials.
    save_models, predictions : bool, default False
        Whether each fitted learner, and all scores, are kept in the run's folder.
    **others
        The settings of an experiment by their keys, as ``run --help`` lists them:
        ``classes=[2, 5]``, ``partitions=10``, ``tasks="classification"``, ``search="60s"`` ...

    Returns
    -------
    RunResult

    Raises
    ------
    UsageError
        For a mistake that can be seen before the first trial; nothing is run then.
    KeyboardInterrupt
        After an interrupt: what is finished is kept, and the message says how to go on.

    Examples
    --------
    >>> import oasis_bench
    >>> few = {"classes": 2, "partitions": 2, "inner_folds": 2, "max_steps": 1000}
    >>> result = oasis_bench.run("digits", ["Euclidean", "OASIS"], **few)
    >>> sorted(result.trials["learner"].unique())
    ['Euclidean', 'OASIS']
    >>> best = result.best()
    >>> result.report().name
    'report.html'
    """
    plan = Experiment.from_toml(str(experiment))
    files = [Path(path) for path in plugin_files]
    specs = None
    if learners is not None:
        specs, files = learners_of(learners, plan.learners, files)
    folder = None if output is None else Path(output)
    rows = None
    if dataset is not None and not isinstance(dataset, str | Path):
        if label is not None and not hasattr(dataset, "columns"):
            raise UsageError(f"label = {label!r} of (X, y): y has the labels: leave label out")
        ending, rows = rows_as_file(dataset)
        folder = new_folder("rows") if folder is None else folder
        refuse_used_folder(folder)
        dataset = folder.absolute().with_name(folder.name + ending)
    columns = {
        "label": label,
        "drop": drop if isinstance(drop, str | None) else _as_csv(drop),
        "fold_column": fold_column,
        "decimal": decimal,
        "thousands": thousands,
    }
    plan = changed(
        plan,
        _settings(others),
        dataset=None if dataset is None else str(dataset),
        dataset_options={
            **(dataset_options or {}),
            **{name: column for name, column in columns.items() if column is not None},
        },
        learners=specs,
        title=title,
        quick=quick,
    )
    if several := one_for_each_value(plan):
        raise UsageError(
            f"this experiment is on {len(several)} data sets: name one with dataset_options, or "
            "call `python -m oasis_bench run`"
        )
    folder = new_folder(plan.dataset) if folder is None else folder
    new_rows = rows is not None and keep_rows(rows, Path(plan.dataset))
    kept = [kind for kind, on in ((MODELS, save_models), (PREDICTIONS, predictions)) if on]
    bars = _Bars()
    try:
        run_experiment(
            *(plan, folder, jobs, cluster, files, kept),
            on_trial=bars.trial,
            on_download=bars.download,
            on_note=bars.line,
            remarks=[f"{QUICK_REMARK} that without quick=True"] if quick else [],
        )
    except UsageError as error:
        if rows is None or holds_run(folder):
            raise
        raise UsageError(str(error).replace(plan.dataset, "the rows given")) from error
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted after {bars.done} trials; they are kept: 'python -m oasis_bench run "
            f"--resume {folder}' goes on, RunResult({str(folder)!r}) of oasis_bench.notebook shows "
            "them"
            if bars.done
            else "interrupted before a trial had ended: nothing is kept"
        ) from None
    finally:
        bars.close()
        if new_rows and not holds_run(folder):
            Path(plan.dataset).unlink(missing_ok=True)
    load_reports().write_report(folder)
    bars.line(f"kept in {folder}")
    return RunResult(folder)


def _as_csv(names: Sequence[str]) -> str:
    """Join names by commas; names that hold one are quoted."""
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings, or refuse one that an experiment does not have."""
    known = known_settings()
    options = {one.flag.removeprefix("--"): name for name, one in known.items() if one.flag}
    for name in given:
        if name in options:
            raise UsageError(f"unknown setting {name!r}: here it is {options[name]!r}")
        if name not in known:
            named = [*signature(run).parameters][:-1]  # but for **others
            raise UsageError(unknown_name("setting", name, [*named, *known]))
    return dict(given)


class _Bars:
    """Progress as tqdm shows it, in a notebook or on a terminal."""

    def __init__(self) -> None:
        self.done = 0
        self._bar: Any = None
        self._what: str | None = None

    def trial(self, record: TrialResult | None, done: int, planned: int) -> None:
        """Show that a trial has ended, or that the first begins."""
        if record is None:
            self._open("trials", planned)
            return
        self.done = done
        columns = record.columns
        name = cell_name(columns["learner"], columns["subset"], columns["split"])
        if columns["status"] != "ok":
            self.line(
                f"{name}, partition {columns['partition']}: {columns['status']}, "
                f"{columns['reason']}"
            )
        self._bar.set_postfix_str(for_terminal(name), refresh=False)
        self._bar.update()

    def download(self, what: str, done: int, total: int | None) -> None:
        """Show how far a download or a preparation is."""
        if what != self._what:
            self._open(what, total)
        self._bar.update(done - self._bar.n)

    def line(self, text: str) -> None:
        """Show a line."""
        tqdm.write(for_terminal(text), file=sys.stderr)

    def _open(self, what: str, total: int | None) -> None:
        self.close()
        self._what, self._bar = what, tqdm(desc=for_terminal(what), total=total)

    def close(self) -> None:
        """Leave the last bar as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
