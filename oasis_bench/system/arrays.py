"""Arrays in npz files, zips of NPY arrays: nothing is unpickled.

Sizes are checked before memory is taken.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, BinaryIO, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from oasis_bench.system.errors import UsageError, quoted

ArrayHeader: TypeAlias = tuple[tuple[int, ...], bool, np.dtype[Any]]
"""What the NPY header of an array claims: shape, whether the order is Fortran's, type."""


class ArrayArchive(zipfile.ZipFile):
    """A zip of our own to read or write, whose entries are not compressed.

    Damage raises an exception of nearly any type, here and in the methods.
    """

    KINDS = "biufU"
    """numpy's kinds that it may hold: truth values, integers, floating values, strings."""

    class HoldsObjectsError(UsageError):
        """An array of Python objects: reading it would run code."""

    def __init__(self, file: BinaryIO | Path, mode: Literal["r", "w", "a"] = "r") -> None:
        super().__init__(file, mode)
        if mode != "r":
            return
        entries = self.infolist()
        if len(set(self.namelist())) < len(entries):
            raise UsageError("it holds an entry twice")
        assert self.fp is not None
        claimed, size = sum(entry.file_size for entry in entries), self.fp.seek(0, 2)
        if claimed > size:
            raise UsageError(f"its entries claim {claimed} bytes, and the file has {size}")
        self.refuse_packed(zipfile.ZIP_STORED)

    def refuse_packed(self: zipfile.ZipFile, *methods: int) -> None:
        """Raise UsageError for an entry that is packed by none of these methods of zip.

        Python unpacks bzip2 and LZMA without a bound: a few bytes can take gigabytes.
        """
        for entry in self.infolist():
            is_stored = entry.compress_type == zipfile.ZIP_STORED
            is_odd = is_stored and entry.compress_size != entry.file_size
            if is_odd or entry.compress_type not in methods:
                raise UsageError(
                    f"its entry {quoted(entry.filename)} is packed in a way that is not read: "
                    "unpack the file, and zip it again without compression"
                )

    def write_array(self, name: str, array: npt.NDArray[Any]) -> None:
        """Write an array in pieces, never copied whole, without a date: equal ones, equal files."""
        with self.open(zipfile.ZipInfo(name), "w", force_zip64=True) as stream:
            npy.write_array(stream, array, version=(1, 0), allow_pickle=False)

    @contextmanager
    def open_array(self: zipfile.ZipFile, name: str) -> Iterator[tuple[IO[bytes], ArrayHeader]]:
        """Open the entry of an array, to be read from its first value on."""
        entry = self.getinfo(name)
        with self.open(entry) as stream:
            first = npy.read_magic(stream) == (1, 0)
            read_header = npy.read_array_header_1_0 if first else npy.read_array_header_2_0
            shape, _, dtype = header = read_header(stream)
            if dtype.hasobject:
                raise ArrayArchive.HoldsObjectsError(
                    f"array {name.removesuffix('.npy')!r} holds Python objects, which are refused: "
                    "save it as numbers or as text, such as by astype(str)"
                )
            width = max(1, dtype.itemsize)  # strings may have none
            claimed = math.prod(shape) * width
            if claimed != (held := entry.file_size - stream.tell()):
                raise UsageError(f"its array {name!r} claims {claimed} bytes, and {held} follow")
            yield stream, header

    def read_array(self, name: str) -> npt.NDArray[Any]:
        """Read an array of one of the `KINDS`."""
        with self.open_array(name) as (stream, header):
            _, _, dtype = header
            if dtype.kind not in self.KINDS or not dtype.isnative:
                raise UsageError(f"its array {name!r} has type {dtype}, which is not read")
            stream.seek(0)
            return npy.read_array(stream, allow_pickle=False)
