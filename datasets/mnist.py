"""MNIST: 70000 handwritten digits, read from the IDX files of the official release.

Not for other data sets; `files` finds and downloads files.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from oasis_bench.data import LabelledRows
from oasis_bench.datasets.files import data_folder, dataset_folder, fetch, reason_of
from oasis_bench.plugins import Dataset
from oasis_bench.system import Progress, UsageError, cache_home, no_progress

BASE_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
"""The mirror that torchvision uses: the original host no longer serves the files."""

CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}

IMAGE_SHAPE = (28, 28)
DIGITS = tuple("0123456789")

IDX_UNSIGNED_BYTES = bytes((0, 0, 8))
"""How such a file starts; the next byte is the number of dimensions."""


class MNIST(Dataset):
    """70000 handwritten digits, 28 x 28 pixels, 10 classes: training and test files joined.

    The four files are read from ``$OASIS_BENCH_DATA/mnist`` where that folder exists, else from
    ``mnist`` in the cache folder; files that this one lacks are downloaded (11 MB).  Pixel values
    are 0 to 255, float32; the rows of the training files come first.
    """

    name = "mnist"
    summary = "handwritten digits of 28 x 28 pixels: 70000 rows, 784 features, 10 classes"
    citation = (
        "Y. LeCun, L. Bottou, Y. Bengio and P. Haffner. Gradient-based learning applied to "
        "document recognition. Proceedings of the IEEE 86(11), 1998"
    )
    home = "$OASIS_BENCH_DATA/mnist, else downloaded (11 MB)"
    licence = "CC BY-SA 3.0 (Y. LeCun and C. Cortes; as the documentation of Keras states it)"
    items = "images"

    def location(self) -> str | None:
        """Return the folder of the four files, or None where one must be downloaded first."""
        folder = dataset_folder("mnist")
        return str(folder) if all((folder / name).is_file() for name in CHECKSUMS) else None

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the images and labels, downloading them first where they are not on disk.

        Raises
        ------
        UsageError
            Where a file cannot be downloaded, is broken, or does not fit the others.
        """
        # All four come from one folder: labels of another source may be in another order.
        folder = data_folder("mnist") or _download(progress)
        parts = [_read_part(folder, part) for part in ("train", "t10k")]
        X = np.concatenate([images for images, _ in parts], dtype=np.float32)
        y = np.concatenate([labels for _, labels in parts], dtype=np.int64)
        return LabelledRows(X, y, DIGITS)


def _download(progress: Progress) -> Path:
    folder = cache_home() / "mnist"
    for name, checksum in CHECKSUMS.items():
        fetch(BASE_URL + name, folder / name, checksum, progress)
    return folder


def _read_part(folder: Path, part: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Read images (n, 784) and labels (n,) of the training or the test files."""
    images_path = folder / f"{part}-images-idx3-ubyte.gz"
    labels_path = folder / f"{part}-labels-idx1-ubyte.gz"
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.shape[1:] != IMAGE_SHAPE:
        raise _broken(images_path, f"its shape is {images.shape}, not (n, 28, 28)")
    if labels.shape != images.shape[:1]:
        raise _broken(
            labels_path, f"its shape is {labels.shape}, for {images.shape[0]} images of {part}"
        )
    counts = np.bincount(labels, minlength=len(DIGITS))
    if counts.size > len(DIGITS) or not counts.all():
        raise _broken(labels_path, "its labels are not the digits 0 to 9, each at least once")
    return images.reshape(len(images), -1), labels


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Read a gzipped IDX file of unsigned bytes, as a read-only array of the shape that it states.

    The format: two zero bytes, a type code, the number of dimensions, each dimension as a
    big-endian 32-bit integer, then the values, last dimension fastest.
    """
    try:
        with gzip.open(path) as file:
            content = file.read()
    except (OSError, EOFError, zlib.error) as error:
        raise _broken(path, reason_of(error)) from error
    start = 4 + 4 * content[3] if len(content) > 3 else 4
    if content[:3] != IDX_UNSIGNED_BYTES or len(content) < start:
        raise _broken(path, "it does not start as an IDX file of unsigned bytes does")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    if len(content) - start != math.prod(shape):
        raise _broken(path, f"it holds {len(content)} bytes, and its header states {shape}")
    return np.frombuffer(content, dtype=np.uint8)[start:].reshape(shape)


def _broken(path: Path, reason: str) -> UsageError:
    return UsageError(f"cannot use {path}: {reason}: replace it with {BASE_URL}{path.name}")
