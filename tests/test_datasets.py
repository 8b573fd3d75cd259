"""The data sets that come with the benchmark: known facts, and broken files."""

import gzip
import hashlib
import os
import struct
from pathlib import Path

import numpy as np
import pytest
from local_server import serve

from oasis_bench.datasets import MNIST, Digits, releases
from oasis_bench.system import UsageError

DATA = Path(os.environ.get("OASIS_BENCH_DATA", os.devnull), "mnist")
N_TRAIN, N_TEST = 20, 10


def idx(shape, values, kind=8):
    return bytes((0, 0, kind, len(shape))) + struct.pack(f">{len(shape)}I", *shape) + values


def pixels(n):
    return bytes((7 * i + i // 784) % 256 for i in range(n * 784))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A small MNIST in OASIS_BENCH_DATA."""
    folder = tmp_path / "mnist"
    folder.mkdir()
    for part, n in (("train", N_TRAIN), ("t10k", N_TEST)):
        images = idx((n, 28, 28), pixels(n))
        labels = idx((n,), bytes(i % 10 for i in range(n)))
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path))
    return folder


def test_digits_are_the_pixels_of_the_uci_set():
    rows = Digits().load()
    assert rows.X.shape == (1797, 64)
    assert rows.X.dtype == np.float64
    assert (rows.X.min(), rows.X.max()) == (0, 16)
    # UCI's counts of optdigits.tes, classes 0 to 9.
    assert rows.class_counts().tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert rows.class_names == tuple("0123456789")


@pytest.mark.skipif(not DATA.is_dir(), reason="OASIS_BENCH_DATA does not hold mnist")
def test_mnist_is_the_official_one():
    rows = MNIST().load()
    assert rows.X.shape == (70000, 784)
    assert rows.X.dtype == np.float32
    counts = [6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958]
    assert rows.class_counts().tolist() == counts
    # The mean and deviation of the training pixels that torchvision's users normalise by.
    train = np.asarray(rows.X)[:60000] / np.float32(255)
    assert float(train.mean(dtype=np.float64)) == pytest.approx(0.1307, abs=5e-5)
    assert float(train.std(dtype=np.float64)) == pytest.approx(0.3081, abs=5e-5)


def test_mnist_joins_the_files_and_keeps_pixels_and_order(folder):
    rows = MNIST().load()
    expected = np.frombuffer(pixels(N_TRAIN) + pixels(N_TEST), np.uint8).reshape(30, 784)
    np.testing.assert_array_equal(rows.X, expected)
    assert rows.X.dtype == np.float32
    assert rows.y.tolist() == [*range(10)] * 3
    assert rows.y.dtype == np.int64


def test_mnist_is_downloaded_once_into_the_cache(folder, tmp_path, monkeypatch):
    expected = MNIST().load().content_hash()
    checksums = {
        name: f"md5:{hashlib.md5((folder / name).read_bytes()).hexdigest()}"
        for name in releases.CHECKSUMS
    }
    monkeypatch.setattr(releases, "CHECKSUMS", checksums)
    monkeypatch.delenv("OASIS_BENCH_DATA")
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    told = {}
    with serve(folder) as server:
        monkeypatch.setattr(releases, "BASE_URL", server.url())
        rows = MNIST().load(lambda what, done, total: told.update({what: done}))
    assert rows.content_hash() == expected
    assert told == {file.name: file.stat().st_size for file in folder.iterdir()}
    assert MNIST().load().content_hash() == expected  # the server is gone


def test_mnist_takes_no_file_from_elsewhere_into_a_folder_that_lacks_it(folder):
    (folder / "train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(UsageError, match=r"train-labels-idx1-ubyte\.gz .*No such file"):
        MNIST().load()


BREAK = {
    "cut short": ("train-images-idx3", lambda raw: raw[:-30], "cannot be read .*ended before"),
    "labels of other images": (
        "t10k-labels-idx1",
        lambda raw: gzip.compress(idx((11,), bytes((*range(10), 0)))),
        "30 rows but 31 labels",
    ),
    "labels in place of images": (
        "train-images-idx3",
        lambda raw: gzip.compress(idx((20,), bytes(range(10)) * 2)),
        "cannot be read .*replace its four files",
    ),
}


@pytest.mark.parametrize(("name", "spoil", "reason"), BREAK.values(), ids=BREAK.keys())
def test_a_broken_mnist_file_is_refused(folder, name, spoil, reason):
    path = folder / f"{name}-ubyte.gz"
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(UsageError, match=reason):
        MNIST().load()
