"""The file under a saved model: a zip of NPY arrays and a JSON header, written whole.

Read without pickle and without trust: no size is believed before it is checked.  What the header
and the arrays mean is not known here, but in `model_file`.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from oasis_bench import __version__
from oasis_bench.system.errors import UsageError
from oasis_bench.system.plain_text import printable

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

FORMAT = "oasis-bench model"
FORMAT_VERSION = 1

HEADER = "header.json"
HEADER_BYTES = 2**24
"""A header's largest size: parsed JSON takes many times the memory of its text."""

ARRAY_KINDS = "biufU"
"""numpy's kinds that a file may hold: truth values, whole numbers, floating ones and strings."""


def write_archive(path: Path, content: dict[str, Any], arrays: Arrays) -> None:
    """Write a header and arrays beside `path`, and put the file in its place when it is whole.

    Parameters
    ----------
    path : Path
        The file, replaced where it is there.
    content : dict
        What the header says, for JSON.
    arrays : dict of str to ndarray
        Of `ARRAY_KINDS`; written piece by piece.

    Raises
    ------
    UsageError
        Where the file cannot be written, or the header exceeds `HEADER_BYTES`.
    """
    versions = {"oasis-bench": __version__, "numpy": np.__version__}
    header = {"format": FORMAT, "format_version": FORMAT_VERSION, "versions": versions, **content}
    text = json.dumps(header, indent=1, allow_nan=False).encode()
    if len(text) > HEADER_BYTES:
        raise UsageError(
            f"cannot write {path}: names and other text of {len(text)} bytes are more than the "
            f"{HEADER_BYTES} that a header may have: leave feature names out"
        )
    part = path.parent / f".{path.name}.{secrets.token_hex(4)}.part"
    try:
        with part.open("xb") as file:
            try:
                _write_entries(file, text, arrays)
                file.flush()
                os.fsync(file.fileno())
                os.replace(part, path)
            except BaseException:
                part.unlink()
                raise
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}: give a file in a folder that is "
            "there, with room on the disk"
        ) from error


def read_archive(path: Path) -> tuple[dict[str, Any], Arrays]:
    """Read the header and the arrays, each checked against the size that it claims.

    Raises
    ------
    UsageError
        Where the content is not what `write_archive` writes.
    OSError
        Where the file cannot be read.
    """
    with path.open("rb") as file, damaged(), zipfile.ZipFile(file) as archive:
        entries = _entries(archive, os.fstat(file.fileno()).st_size)
        if HEADER not in entries:
            raise UsageError(f"has no {HEADER}: it was not written by `save_model`")
        header = _read_header(archive, entries.pop(HEADER))
        arrays = {
            name.removesuffix(".npy"): _read_array(archive, info) for name, info in entries.items()
        }
    return header, arrays


@contextmanager
def damaged() -> Iterator[None]:
    """Tell what libraries say of bad content, in whatever exception, as an error of the file."""
    faults = (ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RuntimeError)
    try:
        yield
    except UsageError:
        raise
    except (*faults, OSError, EOFError, MemoryError, zipfile.BadZipFile) as error:
        reason = one_line(error)
        raise UsageError(
            f"cannot be read as a model file ({reason}): it is of another kind, damaged or larger "
            "than the memory"
        ) from error


def one_line(error: Exception) -> str:
    """Return what an error says, on one line without control characters."""
    text = " ".join(str(error).split()) or type(error).__name__
    return printable(text)


def _write_entries(file: IO[bytes], header: bytes, arrays: Arrays) -> None:
    """Write the entries without a date: equal models make equal files."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(HEADER), header)
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as stream:
                npy.write_array(stream, array, version=(1, 0), allow_pickle=False)


def _entries(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the entries by name, refusing what `save_model` never writes."""
    infos = archive.infolist()
    entries = {info.filename: info for info in infos}
    for info in infos:
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise UsageError(f"its entry {info.filename!r} is compressed")
    if len(entries) < len(infos):
        raise UsageError("it holds an entry twice")
    if (claimed := sum(info.file_size for info in infos)) > size:
        raise UsageError(f"its entries claim {claimed} bytes, and the file has {size}")
    return entries


def _read_header(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Any:
    if info.file_size > HEADER_BYTES:
        raise UsageError(f"its header has {info.file_size} bytes: {HEADER_BYTES} at most are read")
    header = json.loads(archive.read(info))
    if header["format"] != FORMAT:
        raise UsageError(f"is of the format {header['format']!r}, not {FORMAT!r}")
    if header["format_version"] != FORMAT_VERSION:
        raise UsageError(
            f"has format version {header['format_version']!r}, written by oasis-bench "
            f"{header['versions']['oasis-bench']}: this {__version__} reads version "
            f"{FORMAT_VERSION}: install one that reads it"
        )
    return header


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> npt.NDArray[Any]:
    with archive.open(info) as stream:
        if npy.read_magic(stream) != (1, 0):
            raise UsageError(f"its entry {info.filename!r} is no array of NPY version 1.0")
        shape, _, dtype = npy.read_array_header_1_0(stream)
        if dtype.kind not in ARRAY_KINDS or not dtype.isnative:
            raise UsageError(f"its array {info.filename!r} has type {dtype}, which is not read")
        claimed = math.prod(shape) * max(1, dtype.itemsize)  # a string may have no bytes
        if claimed != (held := info.file_size - stream.tell()):
            raise UsageError(f"its array {info.filename!r} claims {claimed} bytes and has {held}")
    with archive.open(info) as stream:
        return npy.read_array(stream, allow_pickle=False)
