"""Arrays handed from process to process: they arrive as they were, and nobody can change them."""

import mmap
import os
import sys
import threading

import numpy as np
import pytest
from scipy import sparse

from oasis_bench.trial.wall import sealed as wall
from oasis_bench.trial.wall.sealed import Items, is_sealed, map_items, seal_items

ARRAYS = {
    "X": np.random.default_rng(0).normal(size=(7, 3)),
    "y": np.arange(6.0).reshape(2, 3).T,
    "judgements": np.arange(2 * 3 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3, 3),
}


@pytest.fixture
def sealed():
    descriptor = seal_items(Items(*ARRAYS.values()))
    yield descriptor
    os.close(descriptor)


def test_arrays_arrive_as_they_were(sealed):
    others = np.empty((0, 4), np.float32), np.array([True, False]), None
    for given, descriptor in ((ARRAYS.values(), sealed), (others, seal_items(Items(*others)))):
        for array, mapped in zip(given, map_items(descriptor)[:3], strict=True):
            np.testing.assert_array_equal(mapped, array)
            if array is not None:
                assert mapped.dtype == array.dtype
                assert mapped.ctypes.data % 64 == 0 or not array.size
    os.close(descriptor)


@pytest.mark.parametrize("X", [sparse.csr_array(np.eye(4, 3)), sparse.csr_array((4, 3))])
def test_csr_rows_arrive_as_they_were_and_cannot_be_changed(X):
    descriptor = seal_items(Items(X))
    mapped = map_items(descriptor).X
    os.close(descriptor)
    assert mapped.dtype == X.dtype
    np.testing.assert_array_equal(mapped.toarray(), X.toarray())
    with pytest.raises(ValueError, match="read-only"):
        mapped.indptr[0] = 9


def test_nobody_can_change_them(sealed):
    changes = [
        lambda: os.write(sealed, b"x"),
        lambda: os.ftruncate(sealed, 0),
        lambda: map_items(sealed).X.__setitem__((0, 0), 1.0),
    ]
    if sys.platform.startswith("linux"):  # elsewhere its owner could open it anew by no name
        changes.append(lambda: os.truncate(f"/proc/self/fd/{sealed}", 0))
    for change in changes:
        with pytest.raises((OSError, ValueError)):
            change()
    np.testing.assert_array_equal(map_items(sealed).X, ARRAYS["X"])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="seals are Linux's")
def test_only_a_file_that_nobody_can_change_counts_as_sealed(sealed, tmp_path):
    assert is_sealed(sealed)
    hollow = wall.memory_file()
    os.ftruncate(hollow, 2**40)  # a length without memory: to copy it would fill the disk
    others = [hollow, os.open(tmp_path, os.O_RDONLY), *os.pipe(), wall.memory_file()]
    os.write(others[-1], b"not sealed")
    wall.seal_memory_file(hollow)
    assert not any(map(is_sealed, others))
    for descriptor in others:
        os.close(descriptor)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="seals are Linux's")
def test_a_file_of_which_something_holds_a_page_is_sealed_once_it_is_free(monkeypatch):
    descriptor = wall.memory_file()
    os.write(descriptor, bytes(4096))
    held = mmap.mmap(descriptor, 4096)  # as the kernel does now and then
    monkeypatch.setattr(wall, "SEAL_SECONDS", 0.05)
    with pytest.raises(OSError, match="busy"):
        wall.seal_memory_file(descriptor)
    monkeypatch.setattr(wall, "SEAL_SECONDS", 60)
    release = threading.Timer(0.2, held.close)
    release.start()
    wall.seal_memory_file(descriptor)
    release.join()
    assert is_sealed(descriptor)
    os.close(descriptor)


def test_no_name_is_left_in_the_folder_of_temporary_files(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("oasis_bench.trial.wall.sealed.memory_file", lambda: None)  # another system
    descriptor = seal_items(Items(*ARRAYS.values()))
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_array_equal(map_items(descriptor).X, ARRAYS["X"])
    with pytest.raises(OSError, match="descriptor"):
        os.write(descriptor, b"x")
    os.close(descriptor)
