"""20 Newsgroups as word counts, read from a MATLAB file.

Not for raw text: the file holds counts, which the harness weights by idf.
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse
from scipy.io import loadmat
from scipy.io.matlab import MatReadError

from oasis_bench.data import LabelledRows
from oasis_bench.datasets.files import dataset_folder, reason_of
from oasis_bench.plugins import Dataset
from oasis_bench.system import Progress, UsageError, no_progress

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

# What `loadmat` raises for damaged files.
UNREADABLE = (
    *(OSError, ValueError, TypeError, LookupError, ArithmeticError, MemoryError),
    *(NotImplementedError, MatReadError, zlib.error),
)


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
        path = _path()
        return str(path) if path.is_file() else None

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the counts, float32 in CSR, in the order of the file; `progress` is not called.

        Raises
        ------
        UsageError
            Where the file is missing, broken or not of that form.
        """
        path = _path()
        try:
            content = _read(path)
            return LabelledRows(_counts(content["A"]), _labels(content["gnd3"]), GROUPS)
        except FileNotFoundError as error:
            raise UsageError(
                f"no {path}: there is no download with a published checksum, so get the file and "
                "put it there, or into 20newsgroups/ of the folder that OASIS_BENCH_DATA names"
            ) from error
        except (*UNREADABLE, UsageError) as error:
            raise UsageError(f"cannot use {path}: {reason_of(error)}: replace it") from error


def _path() -> Path:
    return dataset_folder("20newsgroups") / "20newsgroups.mat"


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        _verify(file)
    content: dict[str, Any] = loadmat(path, variable_names=["A", "gnd3"], appendmat=False)
    if missing := {"A", "gnd3"} - content.keys():
        raise UsageError(f"it holds no {' and no '.join(sorted(missing))}")
    return content


def _verify(file: BinaryIO) -> None:
    """Let zlib compare its checksums first: `loadmat` crashes the process on damaged content."""
    header = file.read(HEADER_BYTES)
    order = "<" if header.endswith(b"IM") else ">"
    while len(tag := file.read(8)) == 8:
        kind, size = struct.unpack(f"{order}II", tag)
        content = file.read(size)
        if kind == COMPRESSED:
            zlib.decompress(content)


def _counts(matrix: Any) -> sparse.csr_array:
    is_sparse = sparse.issparse(matrix)
    if not is_sparse or matrix.dtype.kind not in "fiu":
        raise UsageError("its A is not a sparse matrix of numbers")
    matrix.check_format(full_check=True)  # indices out of bounds would crash what follows
    counts: sparse.csr_array = sparse.csr_array(matrix, dtype=np.float32)
    counts.sum_duplicates()
    counts.eliminate_zeros()
    if counts.nnz and not counts.data.min() >= 0:
        raise UsageError(f"its A holds {counts.data.min()}, which is no count")
    return counts


def _labels(labels: Any) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    numbers = np.ravel(labels)
    if numbers.dtype.kind not in "fiu" or set(numbers.tolist()) != set(range(1, len(GROUPS) + 1)):
        raise UsageError(f"its gnd3 does not hold the numbers 1 to {len(GROUPS)}")
    return numbers.astype(np.int64) - 1
