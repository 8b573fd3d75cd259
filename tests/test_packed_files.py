"""Small files that unpack to gigabytes: they are refused before they take the memory."""

import gzip
import re
import struct
import subprocess
import sys
import zipfile
import zlib
from contextlib import contextmanager
from io import BytesIO

import numpy as np
import pytest
from numpy.lib import format as npy
from scipy import sparse

from oasis_bench.datasets import MNIST, TableFile
from oasis_bench.datasets.files import cached
from oasis_bench.plugins import load_model
from oasis_bench.system import ArrayArchive, PeakMemory, UsageError

UNPACKED, MOST = 200 * 2**20, 48 * 2**20
"""Bytes that a file unpacks to, and that reading it may take."""


@contextmanager
def few_bytes():
    """Check that the block takes little memory."""
    memory = PeakMemory()
    yield
    assert (memory.above_start() or 0) < MOST


@pytest.fixture(scope="module")
def content():
    """A zip whose entry claims 200 bytes, and for which Python's bzip2 takes 200 MiB."""
    file = BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("header.json", b" " * UNPACKED)
    return file.getvalue().replace(*(struct.pack("<L", size) for size in (UNPACKED, 200)))


@pytest.fixture
def bomb(content, tmp_path):
    path = tmp_path / "t.npz"
    path.write_bytes(content)
    assert len(content) < 1000
    return path


def test_python_unpacks_all_of_a_bomb(bomb):
    memory = PeakMemory()
    with zipfile.ZipFile(bomb) as archive, pytest.raises(zipfile.BadZipFile):
        archive.read("header.json")
    if (taken := memory.above_start()) is not None:
        assert taken > UNPACKED / 2


@pytest.mark.parametrize("read", [load_model, lambda path: TableFile(path).load()])
def test_a_model_or_a_table_with_a_packed_entry_is_refused(bomb, read):
    said = r"t\.npz: its entry 'header\.json' is packed in a way"
    with pytest.raises(UsageError, match=said):
        read(bomb)  # it imports what it needs
    with few_bytes(), pytest.raises(UsageError, match=said):
        read(bomb)


def test_a_cache_with_a_packed_entry_is_made_anew(bomb):
    with few_bytes():
        made = cached(bomb, lambda: {"X": np.eye(2)})
    np.testing.assert_array_equal(made["X"], np.eye(2))
    with ArrayArchive(bomb) as archive:
        np.testing.assert_array_equal(archive.read_array("X.npy"), np.eye(2))


METHODS = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]


@pytest.mark.parametrize("method", METHODS)
def test_our_own_files_are_never_packed_and_those_of_the_user_as_numpy_does(tmp_path, method):
    path, X = tmp_path / "t.npz", np.random.default_rng(0).normal(size=(50, 2))
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, array in {"X": X, "y": np.arange(50, dtype=np.int8) % 2}.items():
            with archive.open(f"{name}.npy", "w") as stream:
                npy.write_array(stream, array)
    for read, known in (
        (lambda: TableFile(path).load().X, METHODS[:2]),
        (lambda: ArrayArchive(path).read_array("X.npy"), METHODS[:1]),
    ):
        if method in known:
            np.testing.assert_array_equal(read(), X)
        else:
            with pytest.raises(UsageError, match="is packed in a way that is not read"):
                read()


def test_a_stored_entry_of_two_sizes_is_refused(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X=np.eye(2))
    content = bytearray(path.read_bytes())
    start = content.index(b"PK\1\2")
    content[start + 20 : start + 24] = struct.pack("<L", 2**31)  # the packed one
    path.write_bytes(content)
    with pytest.raises(UsageError, match="is packed in a way that is not read"):
        ArrayArchive(path)


def test_one_array_under_two_names_is_refused(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, X=np.eye(2), y=np.arange(2))
    with zipfile.ZipFile(path, "a") as archive, archive.open("X", "w") as stream:
        npy.write_array(stream, np.ones((2, 2)))
    with pytest.raises(UsageError, match="holds an array twice"):
        TableFile(path).load()


def test_a_sparse_matrix_that_claims_more_than_it_holds_is_refused(tmp_path):
    path, kept = tmp_path / "t.npz", tmp_path / "kept.npz"
    sparse.save_npz(kept, sparse.coo_array(np.eye(3)), compressed=False)
    with np.load(kept) as file:
        np.savez(path, **{**file, "y": np.arange(3), "shape": np.array([2**42, 3])})
    with (
        few_bytes(),
        pytest.raises(UsageError, match=r"does not fit into memory: it needs 32,768\.0 GiB"),
    ):
        TableFile(path).load()
    with zipfile.ZipFile(kept) as old, zipfile.ZipFile(path, "w") as new:
        for name in [*old.namelist(), "y.npy"]:
            with new.open(name, "w") as stream:
                if name in ("data.npy", "y.npy"):
                    header = {"descr": "<f8", "fortran_order": False, "shape": (10**10,)}
                    npy.write_array_header_1_0(stream, header)
                    stream.write(bytes(24))
                else:
                    stream.write(old.read(name))
    with few_bytes(), pytest.raises(UsageError, match=r"claims 80000000000 bytes, and 24 follow"):
        TableFile(path).load()


LIMITED = """
import re, resource, sys
from pathlib import Path
import pandas, pyarrow.parquet, scipy.io, sklearn.datasets
from oasis_bench.datasets import TableFile, TwentyNewsgroups

used = int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024
resource.setrlimit(resource.RLIMIT_AS, (used + 150 * 2**20,) * 2)
for path in map(Path, sys.argv[1:]):
    try:
        (TwentyNewsgroups() if path.suffix == ".mat" else TableFile(path)).load()
    except (ValueError, MemoryError) as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
def test_what_unpacks_to_more_than_there_is_is_refused(tmp_path, monkeypatch):
    arrow, parquet = map(pytest.importorskip, ("pyarrow", "pyarrow.parquet"))
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path))
    names = ("t.csv.gz", "t.svm.gz", "t.parquet", "20newsgroups/20newsgroups.mat")
    csv, svm, table, mat = paths = [tmp_path / name for name in names]
    mat.parent.mkdir()
    csv.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * (UNPACKED // 4 - 1), 1))
    svm.write_bytes(gzip.compress(b"1 1:2 2:3.0\n" * (UNPACKED // 12 + 1), 1))
    part = arrow.table({"a": np.zeros(UNPACKED // 80, np.int64)})
    with parquet.ParquetWriter(table, part.schema) as writer:
        for _ in range(10):
            writer.write_table(part)
    packed = zlib.compress(bytes(UNPACKED), 1)
    mat.write_bytes(b" " * 126 + b"IM" + struct.pack("<II", 15, len(packed)) + packed)
    words = [sys.executable, "-c", LIMITED, *map(str, paths)]
    process = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    for path, line in zip(paths, process.stdout.splitlines(), strict=True):
        assert path.stat().st_size < UNPACKED / 50
        assert re.search(rf"{path}.* needs 200 MiB, but \d+ MiB are free", line)


def test_of_a_file_of_mnist_no_more_is_unpacked_than_it_may_hold(tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path))
    path = tmp_path / "mnist" / "train-images-idx3-ubyte.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(bytes([0, 0, 8, 1]) + bytes(UNPACKED), 1))
    memory = PeakMemory()
    with pytest.raises(UsageError, match=r"unpacks to 50,000,000 bytes or more"):
        MNIST().load()
    assert (memory.above_start() or 0) < UNPACKED / 1.5
