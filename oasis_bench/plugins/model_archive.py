"""The file format of saved models: a zip of a JSON header and NPY arrays; no pickle.

Not for what a learner needs to find in a file: `model_file` checks that.
"""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.base import BaseEstimator

from oasis_bench import __version__
from oasis_bench.data import Patches, PatchKind
from oasis_bench.system import ARRAY_KINDS, UsageError, open_stored, read_array, write_array

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

FORMAT = "oasis-bench model"
FORMAT_VERSION = 1
HEADER = "header.json"
TRAINING_ROWS = "training-rows"
"""The array of hashes beside those of the learner; no attribute can have this name."""


def write_archive(file: BinaryIO, header: dict[str, Any], arrays: Arrays) -> None:
    """Write a header (for JSON) and arrays.

    Equal models make equal files.

    Raises
    ------
    OSError
        Where the file cannot be written.
    """
    versions = {"oasis-bench": __version__, "numpy": np.__version__}
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, "versions": versions, **header}
    text = json.dumps(header, indent=1, allow_nan=False).encode()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(HEADER), text)
        for name, array in arrays.items():
            write_array(archive, f"{name}.npy", array)


def add_training_rows(path: Path, hashes: npt.NDArray[np.uint64]) -> None:
    """Add the `row_hashes` of what a model was fitted on to its file."""
    with zipfile.ZipFile(path, "a") as archive:
        write_array(archive, f"{TRAINING_ROWS}.npy", hashes)


def read_archive(file: BinaryIO) -> tuple[dict[str, Any], Arrays]:
    """Read the header and the arrays; sizes are checked before memory is taken for them.

    The arrays are those of the header, and `TRAINING_ROWS` where the file has them.

    Raises
    ------
    UsageError
        Where the file is not of this format and version, or a size in it is wrong.
    Exception
        Of nearly any type, from the libraries that read damaged content.
    """
    with open_stored(file) as archive:
        names = archive.namelist()
        if HEADER not in names:
            raise UsageError(f"has no {HEADER}: it was not written by `save_model`")
        header = json.loads(archive.read(HEADER))
        if header["format"] != FORMAT:
            raise UsageError(f"is of the format {header['format']!r}, not {FORMAT!r}")
        if header["format_version"] != FORMAT_VERSION:
            raise UsageError(
                f"has format version {header['format_version']!r}, written by oasis-bench "
                f"{header['versions']['oasis-bench']}: this {__version__} reads version "
                f"{FORMAT_VERSION}: install one that reads it"
            )
        arrays = {
            name.removesuffix(".npy"): read_array(archive, name) for name in names if name != HEADER
        }
    return header, arrays


def encode(value: Any, place: str, arrays: Arrays) -> Any:
    """Describe a value for the header; put its arrays into `arrays`, each under its `place`.

    Values are numbers, strings, dense arrays of them, CSR, Patches, RandomState, and lists, tuples
    and dicts (identifiers as keys) of such values.

    Raises
    ------
    UsageError
        Where the value is of another type.
    """
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"float": str(value)}
    if type(value) in (list, tuple):
        items = [encode(item, f"{place}.{i}", arrays) for i, item in enumerate(value)]
        return {type(value).__name__: items}
    if type(value) is dict and all(isinstance(key, str) and key.isidentifier() for key in value):
        return {"dict": {key: encode(v, f"{place}.{key}", arrays) for key, v in value.items()}}
    if type(value) is Patches:
        parts = {
            name: [kind.descriptors, kind.offsets, kind.positions]
            for name, kind in value.kinds.items()
        }
        if value.pixels is not None:
            raise UsageError(f"{place} is Patches with pixels: keep its kinds or its pixels alone")
        return {"Patches": encode(parts, place, arrays)}
    if type(value) is sparse.csr_array:
        csr = [value.data, value.indices, value.indptr, list(value.shape)]
        return {"csr_array": encode(csr, place, arrays)}
    if type(value) is np.random.RandomState:
        return {"RandomState": _generator_state(value, place)}
    if type(value) is np.ndarray and value.dtype == object and _are_strings(value.tolist()):
        return {"strings": value.tolist()}
    if isinstance(value, np.generic) or type(value) is np.ndarray:
        array = np.asarray(value)
        if array.dtype.kind in ARRAY_KINDS and array.dtype.isnative:
            arrays[place] = array
            return {"array" if type(value) is np.ndarray else "scalar": _form(array)}
    if isinstance(value, BaseEstimator):
        raise UsageError(
            f"{place} is a {type(value).__name__} of scikit-learn, and a file holds no code: keep "
            "the whole with `skops.io.dump`, whose `load` asks which types you trust"
        )
    raise UsageError(
        f"{place} is of type {type(value).__name__}: a file holds numbers, strings, dense arrays "
        "of them, csr_array, Patches, lists, tuples, dicts with names and RandomState"
    )


def decode(item: Any, place: str, arrays: Arrays) -> Any:
    """Return the value that `encode` described as `item`, and take its arrays out of `arrays`."""
    if item is None or isinstance(item, bool | int | float | str):
        return item
    ((kind, content),) = item.items()
    match kind:
        case "float":
            return float(content)
        case "list":
            return [decode(part, f"{place}.{i}", arrays) for i, part in enumerate(content)]
        case "tuple":
            return tuple(decode({"list": content}, place, arrays))
        case "dict":
            return {key: decode(v, f"{place}.{key}", arrays) for key, v in content.items()}
        case "Patches":
            parts = decode(content, place, arrays)
            return Patches({name: PatchKind(*parts[name]) for name in parts})
        case "csr_array":
            *csr, shape = decode(content, place, arrays)
            matrix = sparse.csr_array(tuple(csr), shape=tuple(shape))
            matrix.check_format(full_check=True)  # what uses it trusts its indices
            return matrix
        case "RandomState":
            return _generator(content)
        case "strings" if _are_strings(content):
            return np.array(content, dtype=object)
        case "array" | "scalar" if place not in arrays:
            raise UsageError(f"the array {place} is missing")
        case "array" | "scalar" if content == _form(arrays[place]):
            array = arrays.pop(place)
            return array if kind == "array" else array[()]
    raise UsageError(f"{place} is not what the header says")


def _are_strings(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is str for value in values)


def _form(array: npt.NDArray[Any]) -> dict[str, Any]:
    return {"dtype": array.dtype.str, "shape": list(array.shape)}


def _generator_state(generator: np.random.RandomState, place: str) -> dict[str, Any]:
    state: dict[str, Any] = generator.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise UsageError(f"{place} draws from {state['bit_generator']}: a file holds MT19937 only")
    words, position = state["state"]["key"].tolist(), state["state"]["pos"]
    return {**state, "state": {"key": words, "pos": position}}


def _generator(state: dict[str, Any]) -> np.random.RandomState:
    words, position = np.array(state["state"]["key"], dtype=np.uint32), state["state"]["pos"]
    # numpy checks neither: from a wrong position it draws outside its memory.
    if words.shape != (624,) or position not in range(625):
        raise UsageError(f"a RandomState has {words.size} words and stands at {position}")
    generator = np.random.RandomState()
    generator.set_state({**state, "state": {"key": words, "pos": position}})
    return generator
