"""Converts what is given to `oasis_bench.run` into settings and files.

Rows in memory become a file, so that a run of them can go on and be evaluated again as any other.
"""

from __future__ import annotations

import inspect
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from oasis_bench.data import class_labels
from oasis_bench.experiment import LearnerSpec
from oasis_bench.plugins import MetricLearner, Registry, load_registry, plugin_files_of
from oasis_bench.system import UsageError, open_regular, printable, write_whole

OTHER_OUTPUT = "rows are kept beside the run: give another output"


def rows_as_file(data: Any) -> tuple[str, bytes]:
    """Return rows in memory as a file that the data set 'file' reads: its ending and its content.

    Parameters
    ----------
    data : DataFrame, or tuple of (X, y)
        A table with a column of labels; or rows (n_rows, n_features), dense, sparse or a
        DataFrame, and a label for each.

    Raises
    ------
    UsageError
        Where it is neither, or rows and labels differ in number.
    """
    if isinstance(data, pd.DataFrame):
        return ".csv", data.rename(columns=str).to_csv(index=False).encode()
    if not (isinstance(data, tuple | list) and len(data) == 2):
        raise UsageError(
            f"the data set is of type {type(data).__name__}: give a name, a path, a DataFrame with "
            "a column of labels, or (X, y)"
        )
    X: Any = data[0]
    is_sparse = sparse.issparse(X)
    y = class_labels(data[1])
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if y.shape != (n_rows,):
        raise UsageError(
            f"y of shape {y.shape} for {n_rows} rows of X: one label for each row, ({n_rows},), is "
            "needed"
        )
    if y.dtype.kind == "U" and not hasattr(data[1], "dtype"):
        y = np.asarray(data[1], dtype=object)  # a list's '1' and 1 are not the same text
    if y.dtype == object:
        spelt = {(isinstance(label, str), str(label)) for label in y}
        y = y.astype(str)
        if len(set(y)) < len(spelt):
            raise UsageError(
                "labels are texts and numbers that are written alike, such as '1' and 1: make them "
                "all texts or all numbers"
            )
    arrays: dict[str, Any] = {"y": y}
    content = BytesIO()
    if is_sparse:
        sparse.save_npz(content, sparse.csr_array(X), compressed=False)
        content.seek(0)
        arrays.update(np.load(content))
        content = BytesIO()
    else:
        if isinstance(X, pd.DataFrame):
            arrays["columns"] = np.array([str(name) for name in X.columns])
        arrays["X"] = np.asarray(X)
        if arrays["X"].dtype == object:
            raise UsageError("X holds Python objects: rows of numbers are needed")
    np.savez(content, **arrays)
    return ".npz", content.getvalue()


def keep_rows(content: bytes, path: Path) -> bool:
    """Write the file of rows, and tell whether it was new; the same rows may be there already.

    Raises
    ------
    UsageError
        Where it cannot be written, or `path` is another file.
    """
    try:
        if os.path.lexists(path):
            with open_regular(path) as file:
                if file.read() != content:
                    raise UsageError(f"{path} is another file, not these rows: {OTHER_OUTPUT}")
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path.parent, path.name, content)
        return True
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}: {OTHER_OUTPUT}") from error


def learners_of(
    given: Any, known: Mapping[str, LearnerSpec], plugin_files: Iterable[Path]
) -> tuple[dict[str, LearnerSpec], list[Path]]:
    """Return learners by their labels, and the plugin files that they need.

    Parameters
    ----------
    given : str, class, instance, an iterable of these, or a mapping of str to any of these
        A class, or its name, is searched as its search space says; an instance is taken as it is.
    known : mapping of str to LearnerSpec
        The learners of the experiment, which go before registered ones of their names.
    plugin_files : iterable of Path

    Raises
    ------
    UsageError
        Where one is no learner, is defined in a notebook, or two have the same label.
    """
    files = [Path(path) for path in plugin_files]
    registry = load_registry(files)
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
    """Return the file that trials import a class from; nothing where it is registered."""
    source = None if kind.__module__ == "__main__" else inspect.getsourcefile(kind)
    if kind.name in registry.algorithms:
        found = registry.algorithms[kind.name]
        if found is kind or (source and [Path(source).resolve()] == plugin_files_of(found)):
            return []
        raise UsageError(
            f"the name {kind.name!r} of {kind.__qualname__} belongs to another learner: give it a "
            "`name` of its own"
        )
    if source is None or not Path(source).is_file() or "<locals>" in kind.__qualname__:
        raise UsageError(
            f"{kind.__name__} is defined in this notebook or script, and each fit runs in a "
            "process of its own, which imports it: write the class with its imports into a file "
            "(in Jupyter: '%%writefile mine.py' above it) and name it: "
            f"run(..., learners=[{kind.name!r}], plugin_files=['mine.py'])"
        )
    return [Path(source)]


def _fixed(label: str, learner: MetricLearner) -> dict[str, Any]:
    """Return the parameters of an instance; without a seed of its own it gets those of the run."""
    params: dict[str, Any] = learner.get_params(deep=False)
    if params.get("random_state", 0) is None:
        del params["random_state"]
    for name, value in params.items():
        params[name] = value = value.item() if isinstance(value, np.generic) else value
        if not isinstance(value, str | int | float | None):
            shown = printable(repr(value))[:80]
            raise UsageError(
                f"learner {label!r}: {name} = {shown}: a run stores parameters as text: numbers, "
                "strings, True, False and None only"
            )
    return params
