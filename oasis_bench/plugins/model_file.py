"""Fitted learners in files: `save_model` and `load_model`, which runs no code that a file brings.

Not for the bytes of such a file, which are `model_archive`'s, nor for the results of trials.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from oasis_bench.plugins.learner import FittedArray, MetricLearner
from oasis_bench.plugins.model_archive import (
    ARRAY_KINDS,
    Arrays,
    damaged,
    one_line,
    read_archive,
    write_archive,
)
from oasis_bench.plugins.registry import load_registry
from oasis_bench.system.errors import UsageError


def save_model(learner: MetricLearner, path: str | os.PathLike[str]) -> None:
    """Write a fitted learner to a file that `load_model` reads.

    The file is an uncompressed .npz: ``numpy.load(path)["bilinear_matrix_"]`` reads an array of
    it, ``unzip -p PATH header.json`` shows the rest.  Arrays are written piece by piece, never
    copied whole.  The file appears whole or not at all.

    Parameters
    ----------
    learner : MetricLearner
        Its parameters and its fitted attributes are saved, private ones too: what `partial_fit`
        goes on from, a `RandomState` with where it is.
    path : str or path-like
        The file, replaced where it is there.  Its folder must exist.

    Raises
    ------
    NotFittedError
        Where nothing has been learned yet.
    UsageError
        Where the learner holds what such a file cannot, is not finite or has the name of another,
        or the file cannot be written.
    """
    check_is_fitted(learner)
    try:
        _check_name(type(learner))
        _check_learner(learner)
        content, arrays = _described(learner)
    except ValueError as error:
        raise UsageError(f"this {learner.name} cannot be saved: {one_line(error)}") from error
    write_archive(Path(path), content, arrays)


def load_model(
    path: str | os.PathLike[str], plugin_files: Sequence[str | os.PathLike[str]] = ()
) -> MetricLearner:
    """Read a learner that `save_model` wrote.

    It scores as the saved one did, bit for bit, and `partial_fit` goes on as it would have.  All
    of the file is checked before a learner is made of it; the class comes from the registry.

    Parameters
    ----------
    path : str or path-like
        The file.
    plugin_files : sequence of str or path-like
        Files that define learners, as `--plugin` takes them.  They are run: give none that you
        do not trust.

    Returns
    -------
    MetricLearner
        The fitted learner.

    Raises
    ------
    UsageError
        Where the file cannot be read, is damaged, comes from another program or a newer version,
        or holds what its algorithm would not have written; where no learner has its name.
    """
    try:
        header, arrays = read_archive(Path(path))
        return _rebuilt(header, arrays, [Path(file) for file in plugin_files])
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}: give a model file to read") from error
    except ValueError as error:
        raise UsageError(f"{path}: {one_line(error)}") from error


def _check_name(learner_class: type[MetricLearner]) -> None:
    """Refuse a class that the registry would not find again by its name."""
    name, catalogue = learner_class.name, load_registry().algorithms
    if name in [entry.name for entry in catalogue] and catalogue[name] is not learner_class:
        raise UsageError(
            f"the name {name!r} of {learner_class.__qualname__} belongs to another class: give it "
            "a `name` of its own"
        )


def _check_learner(learner: MetricLearner) -> None:
    """Check the parameters, and the fitted attributes by what `_fitted_state` says of them."""
    if hasattr(learner, "_parameter_constraints"):
        learner._validate_params()
    for name in _fitted(learner):
        if not name.isidentifier() or hasattr(type(learner), name):
            raise UsageError(f"{name!r} cannot be a fitted attribute: its class uses the name")
    n_features = getattr(learner, "n_features_in_", None)
    if not isinstance(n_features, Integral):
        raise UsageError(f"n_features_in_ is {n_features!r}: a whole number is needed")
    lengths = {"n_features": int(n_features)}
    state = vars(learner)
    for name, kept in learner._fitted_state().items():
        if name in state:
            _check_kept(name, np.asarray(state[name]), kept, lengths)
        elif kept.required and not hasattr(type(learner), name):
            raise UsageError(f"{name} is missing")


def _check_kept(
    name: str, value: npt.NDArray[Any], kept: FittedArray, lengths: dict[str, int]
) -> None:
    """Check one attribute, and note from its shape the lengths that were not known yet."""
    if not np.issubdtype(value.dtype, kept.dtype):
        raise UsageError(f"{name} has type {value.dtype}: {kept.dtype.__name__} is needed")
    fits = value.ndim == len(kept.shape) and all(
        length == (lengths.setdefault(wanted, length) if isinstance(wanted, str) else wanted)
        for wanted, length in zip(kept.shape, value.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join(
            str(lengths.get(n, n)) if isinstance(n, str) else str(n) for n in kept.shape
        )
        raise UsageError(f"{name} has shape {value.shape}: ({wanted}) is needed")
    if value.dtype.kind == "f" and value.size and not np.isfinite([value.min(), value.max()]).all():
        raise UsageError(f"{name} holds values that are not finite")
    if kept.nonzero and not value.any(axis=-1).all():
        raise UsageError(f"{name} is all zeros, which no generator comes to")


def _fitted(learner: MetricLearner) -> dict[str, Any]:
    """Return all that a learner holds beside its parameters."""
    params = learner.get_params(deep=False)
    return {name: value for name, value in vars(learner).items() if name not in params}


def _described(learner: MetricLearner) -> tuple[dict[str, Any], Arrays]:
    """Return the header of a learner's file, and the arrays by their names in it."""
    arrays: Arrays = {}
    params, fitted = learner.get_params(deep=False), _fitted(learner)
    content = {
        "algorithm": learner.name,
        "params": {n: _encoded(value, f"params/{n}", arrays) for n, value in params.items()},
        "fitted": {n: _encoded(value, n, arrays) for n, value in fitted.items()},
    }
    return content, arrays


def _rebuilt(header: dict[str, Any], arrays: Arrays, plugin_files: Sequence[Path]) -> MetricLearner:
    """Make the learner that a header and arrays describe; undoes `_described`."""
    with damaged():
        name, params, fitted = header["algorithm"], header["params"], header["fitted"]
        params = {n: _decoded(item, f"params/{n}", arrays) for n, item in params.items()}
        fitted = {n: _decoded(item, n, arrays) for n, item in fitted.items()}
    if arrays:
        raise UsageError(f"holds arrays that its header does not name: {', '.join(arrays)}")
    learner = _made(name, params, plugin_files)
    if taken := fitted.keys() & vars(learner).keys():
        raise UsageError(f"has {', '.join(sorted(taken))} as parameters and as fitted attributes")
    learner.__dict__.update(fitted)
    _check_learner(learner)
    return learner


def _made(name: str, params: dict[str, Any], plugin_files: Sequence[Path]) -> MetricLearner:
    """Make an unfitted learner of the class that has the name in the registry."""
    catalogue = load_registry(plugin_files).algorithms
    if name not in [entry.name for entry in catalogue]:
        raise UsageError(
            f"its algorithm {name!r} is not installed: give the file that defines it "
            "(plugin_files, or --plugin)"
        )
    learner_class = catalogue[name]
    if unknown := params.keys() - learner_class().get_params(deep=False).keys():
        raise UsageError(f"{name} has no parameter {', '.join(sorted(unknown))}")
    try:
        return learner_class(**params)
    except Exception as error:
        raise UsageError(f"{name} refuses its parameters: {error}") from error


def _encoded(value: Any, place: str, arrays: Arrays) -> Any:
    """Describe a value in JSON; its arrays go to `arrays`, named by the place of the value."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if type(value) in (list, tuple):
        items = [_encoded(item, f"{place}.{i}", arrays) for i, item in enumerate(value)]
        return {type(value).__name__: items}
    if type(value) is dict and all(isinstance(key, str) and key.isidentifier() for key in value):
        return {"dict": {key: _encoded(v, f"{place}.{key}", arrays) for key, v in value.items()}}
    if type(value) is np.random.RandomState:
        return {"RandomState": _generator_state(value, place)}
    if type(value) is np.ndarray and value.dtype == object and _is_names(value.tolist()):
        return {"strings": value.tolist()}
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        array = np.asarray(value)
        if array.dtype.kind in ARRAY_KINDS and array.dtype.isnative:
            arrays[place] = array
            return {"array" if type(value) is np.ndarray else "scalar": _form(array)}
    raise UsageError(
        f"{place} is of type {type(value).__name__}: a file holds numbers, strings, dense arrays "
        "of them, lists, tuples, dicts with names and RandomState"
    )


def _decoded(item: Any, place: str, arrays: Arrays) -> Any:
    """Undo `_encoded`, taking its arrays from `arrays`."""
    if item is None or isinstance(item, bool | int | float | str):
        return item
    ((kind, content),) = item.items()
    match kind:
        case "float":
            return float(content)
        case "list" | "tuple":
            items = (_decoded(part, f"{place}.{i}", arrays) for i, part in enumerate(content))
            return list(items) if kind == "list" else tuple(items)
        case "dict":
            return {key: _decoded(v, f"{place}.{key}", arrays) for key, v in content.items()}
        case "RandomState":
            return _generator(content)
        case "strings" if _is_names(content):
            return np.array(content, dtype=object)
        case "array" | "scalar" if place not in arrays:
            raise UsageError(f"the array {place} is missing")
        case "array" | "scalar" if content == _form(arrays[place]):
            array = arrays.pop(place)
            return array if kind == "array" else array[()]
    raise UsageError(f"{place} is not what the header says")


def _is_names(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is str for value in values)


def _form(array: npt.NDArray[Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape)}


def _generator_state(generator: np.random.RandomState, place: str) -> dict[str, Any]:
    state: dict[str, Any] = generator.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise UsageError(f"{place} draws from {state['bit_generator']}: a file holds MT19937 only")
    words = state["state"]["key"].tolist()
    return {**state, "state": {"key": words, "pos": state["state"]["pos"]}}


def _generator(state: dict[str, Any]) -> np.random.RandomState:
    words, place = np.array(state["state"]["key"], dtype=np.uint32), state["state"]["pos"]
    # numpy checks neither, and draws from outside the words where the place is beyond them.
    if words.shape != (624,) or place not in range(625):
        raise UsageError(f"a RandomState has {words.size} words and stands at {place}")
    generator = np.random.RandomState()
    generator.set_state({**state, "state": {"key": words, "pos": place}})
    return generator
