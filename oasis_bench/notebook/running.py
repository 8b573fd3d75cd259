"""`oasis_bench.run` and `oasis_bench.fit`: the commands `run` and `fit` from Python.

Rows in memory are written to a file, so that their run can be resumed and evaluated like any other.
"""

from __future__ import annotations

import csv
import inspect
import os
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.pipeline import Pipeline

from oasis_bench.command_line import DATA_OPTIONS, ProgressDisplay
from oasis_bench.data import class_labels, frame_as_bytes, table_of
from oasis_bench.experiment import (
    FIT_SETTINGS,
    Experiment,
    LearnerSpec,
    changed,
    on_corpora,
    read_experiment,
)
from oasis_bench.notebook.result import RunResult
from oasis_bench.plugins import MetricLearner, Registry, load_model, load_reports
from oasis_bench.runs import (
    How,
    fit_on_all,
    go_on,
    has_run,
    new_run_folder,
    refuse_used_folder,
)
from oasis_bench.system import Folder, UsageError, in_python, open_regular, printable, unknown_name

LABEL = "label"

OF_DATA = [name.replace("-", "_") for name, *_ in DATA_OPTIONS]
"""Options of data sets that are also keyword arguments of `run` and `fit`."""

OTHER_OUTPUT = "rows are stored next to the run: give another output"


@in_python()
def run(
    dataset: Any = None,
    learners: Any = None,
    *,
    experiment: str | Path = "default",
    corpora: str | Sequence[str] = (),
    quick: bool = False,
    dataset_options: Mapping[str, Any] | None = None,
    output: str | Path | None = None,
    title: str | None = None,
    params: str | Sequence[str] = (),
    plugin_files: Sequence[str | Path] = (),
    jobs: int = 1,
    cluster: str | None = None,
    save_models: bool = False,
    predictions: bool = False,
    **others: Any,
) -> RunResult | Any:
    """Run an experiment and return its result.

    The command ``python -m oasis_bench run`` does the same.

    Parameters
    ----------
    dataset : str, Path, DataFrame or tuple of (X, y), optional
        One of: a name that ``python -m oasis_bench list`` prints; the path of a file or of a folder
        of pictures; a table of pandas, polars or Arrow with a column of labels; or rows X of shape
        (n_rows, n_features) and labels y of shape (n_rows,).  Rows in memory are written to a file
        next to the run's folder, with the same name.  Default: the data set of the experiment.
    learners : str, class, MetricLearner, list of these or dict, optional
        A dict maps names, as the report shows them, to learners.  A learner given by name or by
        class is tuned on the inner folds.  An instance keeps all its parameters, also its number of
        steps.  Default: the learners of the experiment.
    experiment : str or Path, default 'default'
        A built-in experiment or a TOML file.  The other arguments override it.
    corpora : str or sequence of str, default ()
        The corpora of a suite to run.  Default: all of them.
    quick : bool, default False
        Give a first answer in some seconds, with these defaults: one class subset, 2 partitions,
        2 inner folds, 4 candidates, at most 64000 steps and no learning curves.
    dataset_options : mapping, optional
        Options of the data set, such as ``{"pixels": 64}`` of pictures.  Some are keyword arguments
        too (`others`).
    output : str or Path, optional
        A new folder for the run.  Default: ``runs/DATASET-TIME``.  A run for each of several
        corpora or values continues where it stopped, in the same folder.
    title : str, optional
        Title of the report.  Default: the title of the experiment or, if `dataset` is given, the
        name of the data set.
    params : str or sequence of str, default ()
        Hyper-parameters of learners, such as ``"LMNN.pull_weight=0.5,0.9"``.  A single value is
        fixed, several are tuned.
    plugin_files : sequence of str or Path, default ()
        Python files that define learners, data sets or tasks.  They are executed.
    jobs : int, default 1
        Number of trials that run at the same time.  If it is above 1, the report marks the timings.
    cluster : str, optional
        Address of the scheduler of a Dask cluster that runs the trials.
    save_models : bool, default False
        Whether to keep each fitted learner in the run's folder.
    predictions : bool, default False
        Whether to keep all scores in the run's folder.
    **others
        Settings of the experiment and options of the data set, as ``run --help-all`` lists them:
        ``classes=[2, 5]``, ``partitions=10``, ``search=60``, ``label="kind"``,
        ``drop=["id", "name"]``, ``column={"when": "date"}``, ``group="person"``,
        ``fold_column="fold"`` ...

    Returns
    -------
    RunResult or dict of str to RunResult
        The stored run.  An experiment of several corpora, or with a list of values for an option of
        its data set, has a run for each, by the name of the corpus or value; corpora without a run,
        as `output` has their result or they cannot run, are left out.

    Raises
    ------
    UsageError
        If an argument or the data have an error that is found before the first trial.  Nothing is
        run then.  A trial that fails later is part of the result.
    KeyboardInterrupt
        If the run is interrupted.  Finished trials are kept, and the message says how to resume.

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
    plan = read_experiment(str(experiment))
    if corpora:
        plan = on_corpora(plan, [corpora] if isinstance(corpora, str) else list(corpora))
    settings, of_data = _settings_and_options(others, dataset_options)
    files = [Path(path) for path in plugin_files]
    specs = None
    if learners is not None:
        specs, files = learners_of(learners, plan.learners, files)
    folder = None if output is None else Path(output)
    rows = None
    if dataset is not None and not isinstance(dataset, str | Path):
        ending, rows = rows_as_file(dataset, of_data.get("label"))
        folder = new_run_folder("rows") if folder is None else folder
        dataset = folder.absolute().with_name(folder.name + ending)
    plan = changed(
        plan,
        settings,
        dataset=None if dataset is None else str(dataset),
        dataset_options=of_data,
        learners=specs,
        title=title,
        quick=quick,
        params=[params] if isinstance(params, str) else params,
    )
    folder = new_run_folder(plan.dataset) if folder is None else folder
    runs = {name: folder / name for name in plan.one_for_each_value()}
    folders = [*runs.values()] or [folder]
    if not runs:
        refuse_used_folder(folder)
    place = Path(plan.dataset).parent
    new_place = not place.exists()
    new_rows = rows is not None and keep_rows(rows, Path(plan.dataset))
    how = How(
        jobs,
        cluster,
        files,
        keep=[Folder.MODELS] * save_models + [Folder.PREDICTIONS] * predictions,
        remarks=[f"{Experiment.QUICK_REMARK}, leave out quick=True"] if quick else [],
    )
    try:
        with closing(ProgressDisplay(live=True)) as display:
            report = load_reports().write_report
            ended = go_on(plan, folder, how, display, report)
            if ended.result:
                display.note(ended.result)
            display.note(f"kept in {folder}")
    except UsageError as error:
        if rows is None or any(map(has_run, folders)):
            raise
        raise UsageError(str(error).replace(plan.dataset, "the rows given")) from error
    finally:
        if new_rows and not any(map(has_run, folders)):
            Path(plan.dataset).unlink(missing_ok=True)
            if new_place:
                with suppress(OSError):  # what another program put there stays
                    place.rmdir()
    if not runs:
        return RunResult(folder, files)
    return {name: RunResult(run, files) for name, run in runs.items() if has_run(run)}


@in_python()
def fit(
    dataset: Any,
    learner: Any = "OASIS",
    *,
    task: str | None = None,
    output: str | Path | None = None,
    dataset_options: Mapping[str, Any] | None = None,
    plugin_files: Sequence[str | Path] = (),
    **others: Any,
) -> Pipeline:
    """Tune a learner, fit it on all rows, and print an estimate of its quality.

    The command ``python -m oasis_bench fit`` does the same.  At most 100,000 labelled rows are
    used, a stratified sample of the data; the function prints a note if it leaves out rows.

    Parameters
    ----------
    dataset : str, Path, DataFrame or tuple of (X, y)
        See `run`.
    learner : str, class or MetricLearner, default 'OASIS'
        A name or a class is tuned on the inner folds.  An instance keeps all its parameters.
    task : str, optional
        Task whose measure is used for tuning.  Default: 'retrieval', or the task of given pairs or
        triplets.
    output : str or Path, optional
        Model file to write, which `oasis_bench.plugins.load_model` reads.  Default: none.
    dataset_options : mapping, optional
        Options of the data set, such as ``{"pixels": 64}`` of pictures.  Some are keyword arguments
        too (`others`).
    plugin_files : sequence of str or Path, default ()
        Python files that define learners, data sets or tasks.  They are executed.
    **others
        Settings of an experiment and options of the data set: ``scaling``, ``search``,
        ``inner_folds``, ``choose_by``, ``seed``, ``budget``, ``label`` ...

    Returns
    -------
    Pipeline
        The fitted scaling, if there is one, and the fitted learner.  Use it with
        `oasis_bench.neighbours`, `oasis_bench.embed` and `oasis_bench.scorers.similarity_of`.

    Raises
    ------
    UsageError
        If an argument or the data have an error, or if the learner cannot be fitted.  No file is
        written then.

    Examples
    --------
    >>> import oasis_bench
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> model = oasis_bench.fit((X, y), "LDA")
    >>> rows, similarities = oasis_bench.neighbours(model, X, X[:2], k=3)
    >>> rows.shape, oasis_bench.embed(model, X).shape  # votes for three classes
    ((2, 3), (150, 3))
    >>> model = oasis_bench.fit((X, y), "LDA", use="direct")
    >>> oasis_bench.embed(model, X).shape  # points of the learned space
    (150, 2)
    """
    specs, files = learners_of([learner], {}, [Path(path) for path in plugin_files])
    settings, options = _settings_and_options(others, dataset_options)
    for name in sorted(settings.keys() - {*FIT_SETTINGS, "tasks", "split"}):
        raise UsageError(f"{name} has no effect on a fit on all rows: leave it out")
    with TemporaryDirectory() as folder, closing(ProgressDisplay(live=True)) as display:
        if not isinstance(dataset, str | Path):
            ending, content = rows_as_file(dataset, options.get("label"))
            dataset = Path(folder) / f"rows{ending}"
            dataset.write_bytes(content)
        plan = Experiment("fit", str(dataset), specs, classes=("all",), tasks=("retrieval",))
        asked = {"tasks": (task,)} if task else {}
        plan = changed(plan, {**asked, **settings}, dataset_options=options)
        model = Path(folder) / "metric.npz" if output is None else Path(output)
        try:
            fitted = fit_on_all(plan, model, files, display)
        except UsageError as error:
            in_memory = str(Path(folder) / "rows")
            raise UsageError(
                re.sub(rf"{re.escape(in_memory)}[.\w]*", "the rows given", str(error))
            ) from error
        display.note(str(fitted))
        return load_model(model, files)


def _settings_and_options(
    given: Mapping[str, Any], dataset_options: Mapping[str, Any] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide keyword arguments into settings of an experiment and options of a data set.

    The second are put over `dataset_options`.  An unknown name raises UsageError.
    """
    known = Experiment.settings()
    for name in given:
        if name not in {*known, *OF_DATA}:
            named = [*inspect.signature(run).parameters][:-1]  # but for **others
            raise UsageError(unknown_name("setting", name, [*named, *known, *OF_DATA]))
    given = {name: _plain(value) for name, value in given.items()}
    of_data = {name: _plain(value) for name, value in (dataset_options or {}).items()}
    of_data |= {name: given[name] for name in OF_DATA if given.get(name) is not None}
    kinds = of_data.get("column")
    if isinstance(kinds, Mapping):
        of_data["column"] = [f"{column}={kind}" for column, kind in kinds.items()]
    for name in ("column", "drop"):
        if not isinstance(of_data.get(name, ""), str):  # names with a comma are quoted
            line = StringIO()
            csv.writer(line, lineterminator="").writerow(of_data[name])
            of_data[name] = line.getvalue()
    return {name: value for name, value in given.items() if name in known}, of_data


def _plain(value: Any) -> Any:
    """Return numbers and arrays of numpy, also in a list, as those of Python, which JSON takes."""
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value))
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def rows_as_file(data: Any, label: str | None = None) -> tuple[str, bytes]:
    """Return the ending and the content of a file of rows, for the data set 'file'.

    The rows are a table with a column of labels, or (X, y): rows (n_rows, n_features), dense,
    sparse or a table, and a label for each.  Tables are from pandas, polars or Arrow, or have
    Arrow's stream.  Tensors become arrays.  `label` is for a table.
    """
    data = table_of(data)
    if isinstance(data, pd.DataFrame):
        return ".table.npz", frame_as_bytes(data)
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise UsageError(
            f"the data set is of type {type(data).__name__}: give a name, a path, a DataFrame with "
            "a column of labels, or (X, y)"
        )
    if label is not None:
        raise UsageError(f"label = {label!r} of (X, y): y has the labels: leave label out")
    X, given = map(table_of, data)
    is_sparse = sparse.issparse(X)
    y = class_labels(given, X.shape[0] if hasattr(X, "shape") else len(X))
    if y.dtype == object and len({*y}) > len({str(label) for label in y}):
        raise UsageError("labels of several types print alike: give all as texts, or as numbers")
    if not is_sparse and not isinstance(X, pd.DataFrame):
        given, X = X, np.asarray(X)
        if X.ndim == 2 and X.dtype.kind not in "biuf":  # texts, dates, None
            is_array = isinstance(given, np.ndarray)
            X = pd.DataFrame(X).infer_objects() if is_array else pd.DataFrame(given)
    if isinstance(X, pd.DataFrame):
        if LABEL in X:
            raise UsageError(f"X has a column {LABEL!r}, which is the name of y: rename it")
        labels = y.astype(str) if y.dtype == object else y
        return rows_as_file(X.reset_index(drop=True).assign(**{LABEL: labels}))
    arrays: dict[str, Any] = {"y": y.astype(str) if y.dtype == object else y}
    content = BytesIO()
    if is_sparse:
        sparse.save_npz(content, sparse.csr_array(X), compressed=False)
        content.seek(0)
        arrays.update(np.load(content))
        content = BytesIO()
    else:
        arrays["X"] = X
    np.savez(content, **arrays)
    return ".npz", content.getvalue()


def keep_rows(content: bytes, path: Path) -> bool:
    """Write the file of rows, and tell whether it was new; the same rows may be there already."""
    try:
        if os.path.lexists(path):
            with open_regular(path) as file:
                if file.read() != content:
                    raise UsageError(f"{path} is another file, not these rows: {OTHER_OUTPUT}")
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        Folder(path.parent).write(path.name, content)
        return True
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}: {OTHER_OUTPUT}") from error


def learners_of(
    given: Any, known: Mapping[str, LearnerSpec], plugin_files: Iterable[Path]
) -> tuple[dict[str, LearnerSpec], list[Path]]:
    """Return learners by their labels, and the plugin files that they need.

    `given` is a name, class or instance, an iterable of these, or a mapping of label to any of
    them.  A class, or its name, is searched as its search space says; an instance is taken as it
    is.  Learners that are `known`, of the experiment, go before registered ones of their names.
    """
    files = [Path(path) for path in plugin_files]
    registry = Registry.load(files)
    if isinstance(given, str | type | MetricLearner):
        given = [given]
    if isinstance(given, Mapping):
        labelled = [(str(label), one) for label, one in given.items()]
    else:
        each = list(given)
        times = Counter(_name(one) for one in each)
        labelled = [(_name(one) if times[_name(one)] == 1 else _in_full(one), one) for one in each]
    specs: dict[str, LearnerSpec] = {}
    for label, one in labelled:
        if label in specs:
            raise UsageError(f"two learners are called {label!r}: give a dict of label to learner")
        if isinstance(one, str):
            specs[label] = known.get(one, LearnerSpec(one))
            continue
        kind: Any = one if isinstance(one, type) else type(one)
        files += [path for path in _files_of(kind, registry) if path not in files]
        params = {} if isinstance(one, type) else _fixed(label, one)
        specs[label] = LearnerSpec(kind.name, params)
    return specs, files


def _name(one: Any) -> str:
    if isinstance(one, str):
        return one
    kind: Any = one if isinstance(one, type) else type(one)
    if MetricLearner not in type.mro(kind):
        raise UsageError(
            f"{kind.__name__} is no learner: give a name of `list algorithms`, or a class derived "
            "from a form of `oasis_bench.plugins`"
        )
    return str(kind.name)


def _in_full(one: Any) -> str:
    """Return a learner with the parameters that are not at their defaults, without commas."""
    return (
        " ".join(repr(one).replace(",", " ").split())
        if isinstance(one, MetricLearner)
        else _name(one)
    )


def _files_of(kind: type[MetricLearner], registry: Registry) -> list[Path]:
    """Return the file that trials import a class from; nothing if it is registered."""
    source = None if kind.__module__ == "__main__" else inspect.getsourcefile(kind)
    if kind.name in registry.algorithms:
        found = registry.algorithms[kind.name]
        place = Path(inspect.getfile(found)).resolve()
        if found is kind or (source and Path(source).resolve() == place):
            return []
        raise UsageError(
            f"the name {kind.name!r} of {kind.__qualname__} belongs to another learner: give it "
            "another `name`"
        )
    if source is None or not Path(source).is_file() or "<locals>" in kind.__qualname__:
        raise UsageError(
            f"{kind.__name__} is defined in this notebook or script, and each fit runs in "
            "a separate process, which imports it: write the class with its imports into a file "
            "(in Jupyter: '%%writefile mine.py' above it) and name it: "
            f"run(..., learners=[{kind.name!r}], plugin_files=['mine.py'])"
        )
    return [Path(source)]


def _fixed(label: str, learner: MetricLearner) -> dict[str, Any]:
    """Return the parameters of an instance; if it has no seed, it gets those of the run."""
    params: dict[str, Any] = learner.get_params()
    if params.get("random_state", 0) is None:
        del params["random_state"]
    for name, value in params.items():
        value = value.item() if isinstance(value, np.generic) else value
        params[name] = value = value.name if isinstance(value, MetricLearner) else value
        if not isinstance(value, str | int | float | None):
            shown = printable(repr(value))[:80]
            raise UsageError(
                f"learner {label!r}: {name} = {shown}: a run stores parameters as text: numbers, "
                "strings, True, False and None only"
            )
    return params
