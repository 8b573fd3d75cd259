"""Computed arrays that are kept in the cache folder: whole and readable, or not at all.

Not for what is downloaded: that is in `download`.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from oasis_bench.system.errors import UsageError

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

T = TypeVar("T")


LIBRARIES = ("numpy", "pillow", "scikit-learn")


def cache_key(code: Iterable[str], *parts: str) -> str:
    """Hash what decides a result: its parts, the code and the libraries beneath it.

    Parameters
    ----------
    code : iterable of str
        The names of the modules' files, in this folder.
    *parts : str
        Parameters, and hashes of contents.

    Returns
    -------
    str
        SHA-256 in hexadecimal.
    """
    modules = [Path(__file__).with_name(name).read_text("utf-8") for name in code]
    libraries = [f"{name} {version(name)}" for name in LIBRARIES]
    digest = hashlib.sha256()
    for part in (*modules, *libraries, *parts):
        digest.update(hashlib.sha256(part.encode()).digest())
    return digest.hexdigest()


def cached(path: Path, compute: Callable[[], Arrays], parse: Callable[[Arrays], T]) -> T:
    """Read a result from its file, or compute it and write the file whole.

    Parameters
    ----------
    path : Path
        The file, whose name holds a hash of all that decides the result.
    compute : callable
        Makes the arrays.
    parse : callable
        Makes the result of the arrays; raises an exception of any kind where they do not fit.

    Returns
    -------
    object
        What `parse` made of the file or, where that is missing or not fit to be read, of what
        `compute` made.

    Raises
    ------
    UsageError
        Where the file cannot be written.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            return parse(dict(file))
    except Exception:  # missing, cut off, overwritten: it is made anew
        pass
    arrays = compute()
    _write(path, arrays)
    return parse(arrays)


def _write(path: Path, arrays: Arrays) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".part", delete=False) as file:
            try:
                np.savez(file, allow_pickle=False, **arrays)
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror or error}: "
            "free or correct it, or set OASIS_BENCH_CACHE to another folder"
        ) from error
