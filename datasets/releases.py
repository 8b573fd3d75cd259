"""Data sets without pictures' files that were released: MNIST and 20 Newsgroups."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.io import loadmat

from oasis_bench.data import LabelledRows
from oasis_bench.datasets.files import broken, data_folder, dataset_folder, fetch
from oasis_bench.plugins import Dataset
from oasis_bench.system import Progress, UsageError, no_progress, require_memory

BASE_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
"""The mirror that torchvision uses: the original host no longer serves the files."""

MOST_BYTES = 50_000_000
"""The largest of the four files has fewer when it is unpacked."""

CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}


class MNIST(Dataset):
    """70000 handwritten digits, 28 x 28 pixels, 10 classes: training and test files joined.

    The four files are read from ``$OASIS_BENCH_DATA/mnist`` if that folder exists, and otherwise
    from ``mnist`` in the cache folder, where missing files are downloaded (11 MB).  Pixel values
    are 0 to 255, float32.  The rows of the training files come first.
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
        """Return the folder of the four files, or None if one must be downloaded first."""
        folder = dataset_folder("mnist")
        return str(folder) if all((folder / name).is_file() for name in CHECKSUMS) else None

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the images and labels; download them first if they are not on disk.

        Raises
        ------
        UsageError
            If a file cannot be downloaded, is broken or does not fit the others.
        """
        # All four come from one folder: labels of another source may be in another order.
        folder = dataset_folder("mnist")
        if data_folder("mnist") is None:
            for name, checksum in CHECKSUMS.items():
                fetch(BASE_URL + name, folder / name, checksum, progress)
        train_X, train_y, test_X, test_y = (_read_idx(folder / name) for name in CHECKSUMS)
        with broken(f"{folder}", "replace its four files"):
            X = np.concatenate([train_X, test_X], dtype=np.float32).reshape(-1, 28 * 28)
        y = np.concatenate([train_y, test_y], dtype=np.int64)
        return LabelledRows(X, y, tuple("0123456789"))


def _read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Read a gzipped IDX file of bytes: 4 bytes, 4 for each dimension, then the values."""
    with broken(f"{path}", f"replace it with {BASE_URL}{path.name}"):
        with gzip.open(path) as file:
            content = file.read(MOST_BYTES)
        if len(content) == MOST_BYTES:
            raise ValueError(f"it unpacks to {MOST_BYTES:,} bytes or more")
        return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3])


GROUPS = (
    *("comp.graphics", "comp.os.ms-windows.misc", "comp.sys.ibm.pc.hardware"),
    *("comp.sys.mac.hardware", "comp.windows.x", "misc.forsale", "talk.politics.guns"),
    *("talk.politics.mideast", "talk.politics.misc", "rec.autos", "rec.motorcycles"),
    *("rec.sport.baseball", "rec.sport.hockey", "alt.atheism", "soc.religion.christian"),
    *("talk.religion.misc", "sci.crypt", "sci.electronics", "sci.med", "sci.space"),
)
"""In the order of the file's labels 1 to 20, as the words of each label's postings show."""


# Of the MATLAB 5 format: elements follow a header, each after its kind and its size.
HEADER_BYTES = 128
COMPRESSED = 15

PART_BYTES = 2**20
"""Bytes that are unpacked at once."""


class TwentyNewsgroups(Dataset):
    """18221 postings to 20 newsgroups: counts of 36568 words, 49 different ones a posting.

    The file ``20newsgroups/20newsgroups.mat`` has a sparse matrix `A` of counts (postings x words)
    and the labels `gnd3`, 1 to 20.
    """

    name = "20newsgroups"
    summary = "word counts of postings: 18221 sparse rows, 36568 features, 20 classes"
    citation = "K. Lang. NewsWeeder: learning to filter netnews. ICML, 1995"
    licence = "none stated: the postings are their writers'"
    home = (
        "put 20newsgroups.mat into $OASIS_BENCH_DATA/20newsgroups; it is not downloaded for you, "
        "because no source publishes a checksum"
    )
    scaling = "tfidf"
    items = "documents"

    def location(self) -> str | None:
        """Return the path of the file, or None if the user must get it first."""
        path = dataset_folder("20newsgroups") / "20newsgroups.mat"
        return str(path) if path.is_file() else None

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the counts, float32 in CSR, in the order of the file; `progress` is not called.

        Raises
        ------
        UsageError
            If the file is missing, broken or of another form.
        """
        path = dataset_folder("20newsgroups") / "20newsgroups.mat"
        if not path.is_file():
            raise UsageError(f"there is no {path}: get it and put it at {self.home}")
        with broken(f"{path}", "replace it"):
            _verify(path)
            content = loadmat(path, variable_names=["A", "gnd3"], appendmat=False)
            content["A"].check_format(full_check=True)  # wrong indices would crash what follows
            X = sparse.csr_array(content["A"], dtype=np.float32)
            X.eliminate_zeros()
            return LabelledRows(X, content["gnd3"].ravel().astype(np.int64) - 1, GROUPS)


def _verify(path: Path) -> None:
    """Let zlib compare its checksums first: `loadmat` crashes the process on damaged content."""
    n_bytes = 0
    with path.open("rb") as file:
        order = "<" if file.read(HEADER_BYTES).endswith(b"IM") else ">"
        while len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            content = file.read(size)
            if kind == COMPRESSED:
                unpacking = zlib.decompressobj()
                while part := unpacking.decompress(content, PART_BYTES):
                    n_bytes, content = n_bytes + len(part), unpacking.unconsumed_tail
                if not unpacking.eof:
                    raise EOFError("it ends early")
    require_memory(n_bytes, str(path), "free some")
