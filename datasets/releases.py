"""Data sets without pictures' files that were released: MNIST, 20 Newsgroups and KEEL's tables."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.io import loadmat

from oasis_bench.data import LabelledRows, Scaling
from oasis_bench.datasets.files import broken, data_folder, dataset_folder, fetch
from oasis_bench.datasets.table_file import TableFile
from oasis_bench.plugins import Dataset
from oasis_bench.system import Progress, Text, UsageError, cache_home, no_progress

BASE_URL = "https://ossci-datasets.s3.amazonaws.com/mnist/"
"""The mirror that torchvision uses: the original host no longer serves the files."""

CHECKSUMS = {
    "train-images-idx3-ubyte.gz": "md5:f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "train-labels-idx1-ubyte.gz": "md5:d53e105ee54ea40749a09fcbcd1e9432",
    "t10k-images-idx3-ubyte.gz": "md5:9fb629c4189551a2d022fa330f9573f3",
    "t10k-labels-idx1-ubyte.gz": "md5:ec29112dd5afa0611ce80d1b7f02629c",
}


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
            Where a file cannot be downloaded, or is broken or does not fit the others.
        """
        # All four come from one folder: labels of another source may be in another order.
        folder = data_folder("mnist")
        if folder is None:
            folder = cache_home() / "mnist"
            for name, checksum in CHECKSUMS.items():
                fetch(BASE_URL + name, folder / name, checksum, progress)
        train_X, train_y, test_X, test_y = (_read_idx(folder / name) for name in CHECKSUMS)
        X = np.concatenate([train_X, test_X], dtype=np.float32).reshape(-1, 28 * 28)
        y = np.concatenate([train_y, test_y], dtype=np.int64)
        return LabelledRows(X, y, tuple("0123456789"))


def _read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """Read a gzipped IDX file of bytes: 4 bytes, 4 for each dimension, then the values."""
    with broken(f"{path}", f"replace it with {BASE_URL}{path.name}"):
        content = gzip.decompress(path.read_bytes())
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


class TwentyNewsgroups(Dataset):
    """18221 postings to 20 newsgroups: counts of 36568 words, 49 different ones a posting.

    Read from ``20newsgroups/20newsgroups.mat``: a sparse matrix `A` of counts (postings x words)
    and labels `gnd3`, 1 to 20.
    """

    name = "20newsgroups"
    summary = "word counts of postings: 18221 sparse rows, 36568 features, 20 classes"
    citation = "K. Lang. NewsWeeder: learning to filter netnews. ICML, 1995"
    licence = "none stated: the postings are their writers'"
    home = (
        "$OASIS_BENCH_DATA/20newsgroups/20newsgroups.mat: it has no download with a published "
        "checksum"
    )
    scaling = "tfidf"
    items = "documents"

    def location(self) -> str | None:
        """Return the path of the file, or None where the user must get it first."""
        path = dataset_folder("20newsgroups") / "20newsgroups.mat"
        return str(path) if path.is_file() else None

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the counts, float32 in CSR, in the order of the file; `progress` is not called.

        Raises
        ------
        UsageError
            Where the file is missing, broken or not of that form.
        """
        path = dataset_folder("20newsgroups") / "20newsgroups.mat"
        if not path.is_file():
            raise UsageError(f"there is no {path}: get it and put it at {self.home}")
        with broken(f"{path}", "replace it"):
            _verify(path)
            content = loadmat(path, variable_names=["A", "gnd3"], appendmat=False)
            content["A"].check_format(full_check=True)  # wrong indices would crash what follows
            X = sparse.csr_array(content["A"], dtype=np.float32)
            X.sum_duplicates()
            X.eliminate_zeros()
            return LabelledRows(X, content["gnd3"].ravel().astype(np.int64) - 1, GROUPS)


def _verify(path: Path) -> None:
    """Let zlib compare its checksums first: `loadmat` crashes the process on damaged content."""
    with path.open("rb") as file:
        order = "<" if file.read(HEADER_BYTES).endswith(b"IM") else ">"
        while len(tag := file.read(8)) == 8:
            kind, size = struct.unpack(f"{order}II", tag)
            content = file.read(size)
            if kind == COMPRESSED:
                zlib.decompress(content)


TABLES = (
    *("iris", "wine", "glass", "sonar", "bupa", "ionosphere", "wdbc", "pima", "vowel"),
    *("winequality-red", "led7digit", "segment", "banana", "phoneme", "page-blocks", "texture"),
    *("optdigits", "spambase", "thyroid", "ring", "twonorm", "magic", "letter"),
)
"""The ten of which accuracies on the same folds are published (Suárez et al. 2021) first."""


class Keel(Dataset):
    """A table of the KEEL repository: 150 to 20 000 rows of 2 to 64 numbers, of 2 to 26 classes.

    Read from ``keel/TABLE.csv``: numbers, the label `class`, and `fold`, 1 to 10, the fold of
    KEEL's ten-fold cross-validation in which the row tests.  KEEL has an archive for each table,
    ``TABLE-10-fold.zip``: its ``TABLE-10-Ntst.dat`` holds the rows of fold N, which the file here
    joins.

    Parameters
    ----------
    table : str
        The table: one of `TABLES`.
    folds : bool, default True
        Whether items are divided by KEEL's folds; False: as of any other data set.
    """

    name = "keel"
    summary = "23 tables of KEEL with its ten folds: --data-option table=iris, wine, ..."
    citation = (
        "J. Alcalá-Fdez, A. Fernández, J. Luengo, J. Derrac, S. García, L. Sánchez and F. Herrera. "
        "KEEL data-mining software tool: data set repository, integration of algorithms and "
        "experimental analysis framework. Journal of Multiple-Valued Logic and Soft Computing 17, "
        "2011"
    )
    licence = "not stated: the tables are their donors', most of them of the UCI repository"
    home = (
        "from TABLE-10-fold.zip of https://sci2s.ugr.es/keel, join the rows of TABLE-10-1tst.dat "
        "to TABLE-10-10tst.dat as $OASIS_BENCH_DATA/keel/TABLE.csv, label in the column class and "
        "1 to 10 in the column fold"
    )
    scaling = Scaling.OF_COLUMNS

    def __init__(self, table: str, folds: bool = True) -> None:
        if table not in TABLES:
            raise UsageError(f"data set keel: {Text.unknown_name('table', table, TABLES)}")
        self.table, self.folds = table, folds
        self._path = dataset_folder("keel") / f"{table}.csv"

    @property
    def title(self) -> str:
        """The data set and the table."""
        return f"{self.name} {self.table}"

    def location(self) -> str | None:
        """Return the path of the table, or None where the user must get it first."""
        return str(self._path) if self._path.is_file() else None

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the table, float64; `progress` is not called.

        Raises
        ------
        UsageError
            Where the file is missing or damaged.
        """
        if not self._path.is_file():
            raise UsageError(f"there is no {self._path}: {self.home}")
        if self.folds:
            return TableFile(self._path, "class", "fold").load()
        return TableFile(self._path, "class", drop="fold").load()
