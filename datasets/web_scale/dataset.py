"""The web-scale images as files that are mapped, never loaded, and as a small data set.

The module `images` says what the images are.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data import LabelledRows
from oasis_bench.datasets.files.arrays import csr_writer, map_csr
from oasis_bench.datasets.web_scale.images import BATCH, TEST, TRAINING, Batch, Part, WebImages
from oasis_bench.plugins import Dataset
from oasis_bench.system import Progress, UsageError, cache_home, no_progress, whole_folder

VERSION = 1
"""Version of the model and of the files: raised when the same parameters give other bits."""

HEADER = "header.json"
PARTS = {"train": TRAINING, "test": TEST}
LEAST_VISTERMS, MOST_VISTERMS = 400, 50_000

VISTERMS_PER_IMAGE, QUERIES_PER_IMAGE = 82, 1.7
"""Upper bounds of the means over images."""


@dataclass(frozen=True)
class WebScaleParameters:
    """The parameters of web-scale data; the same give the same bits.

    Parameters
    ----------
    n_train, n_test : int
        Images, at least 1 each.  By default those of JMLR 2010, table 1.
    n_visterms : int, default 10000
        d (section 3); 400 to 50000.
    seed : int, default 0
        0 or more.

    Raises
    ------
    UsageError
        Where a number is out of these bounds.
    """

    n_train: int = 2_292_259
    n_test: int = 402_164
    n_visterms: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("n_train", 1), ("n_test", 1), ("seed", 0)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} = {getattr(self, name)}: at least {least} is needed")
        if not LEAST_VISTERMS <= self.n_visterms <= MOST_VISTERMS:
            raise UsageError(
                f"{self.n_visterms} visterms: {LEAST_VISTERMS} to {MOST_VISTERMS} are needed, so "
                "that each of 200 topics has several"
            )

    def __str__(self) -> str:
        return ", ".join(f"{name} = {value}" for name, value in asdict(self).items())

    @property
    def first_own_query(self) -> int:
        """The first of the queries that only test images have."""
        return max(
            _n_batches(self.n_train) * TRAINING.n_shared, _n_batches(self.n_test) * TEST.n_shared
        )

    @property
    def n_queries(self) -> int:
        """The number of queries, some of which may have no image."""
        return self.first_own_query + _n_batches(self.n_test) * TEST.n_own


PAPER = WebScaleParameters()
"""The paper's experiment."""


@dataclass(frozen=True)
class MappedImages:
    """Images and their relevance to queries, mapped from files: csr_arrays of float32.

    `X` (n_images, n_visterms) has rows of length 1; `R` (n_images, n_queries) is R_QI transposed
    (JMLR 2010, 5.2.1).
    """

    X: sparse.csr_array
    R: sparse.csr_array

    def first(self, n_images: int) -> MappedImages:
        """Return the first images, mapped too."""

        def first_rows(matrix: sparse.csr_array) -> sparse.csr_array:
            indptr = matrix.indptr[: n_images + 1]
            entries = matrix.data[: indptr[-1]], matrix.indices[: indptr[-1]]
            return sparse.csr_array((*entries, indptr), (n_images, matrix.shape[1]), copy=False)

        return MappedImages(first_rows(self.X), first_rows(self.R))


@dataclass(frozen=True)
class WebScaleData:
    """Training and test images, which share the columns of queries."""

    parameters: WebScaleParameters
    train: MappedImages
    test: MappedImages


def prepare_web_scale(
    folder: Path,
    parameters: WebScaleParameters = PAPER,
    progress: Progress = no_progress,
) -> WebScaleData:
    """Map web-scale data; draw them first where the folder does not exist.

    The first images are the same for any number of images, so that scaling studies can take the
    first rows of one folder; only the column numbers of queries without a training image differ.
    About 100 other training images are relevant to one (5.2.1), and 65 other test images to a
    test image, from 4096 images on.

    The folder gets its name when it is complete.  It holds ``header.json`` (version, parameters,
    and the size and SHA-256 of each file) and, in ``train`` and ``test``, the arrays of `X` and
    `R` as NPY files.  Drawing takes less than 100 MB of memory for any number of images.  The
    paper's 2.7 million images take 1.5 GB of disk and less than a minute.

    Parameters
    ----------
    folder : Path
        It is made, or was made by an earlier call.
    parameters : WebScaleParameters
        By default those of the paper's experiment.
    progress : callable, default no_progress
        Called with the number of images drawn.

    Raises
    ------
    UsageError
        Where the folder holds something else, was made with other parameters, or cannot be
        written, also for lack of space.
    """
    if not folder.exists():
        _make(folder, parameters, progress)
    data = open_web_scale(folder)
    if data.parameters != parameters:
        raise UsageError(
            f"{folder} holds web-scale data of {data.parameters}, not of {parameters}: name "
            "another folder or remove that one"
        )
    return data


def open_web_scale(folder: Path) -> WebScaleData:
    """Map the data that `prepare_web_scale` wrote into a folder, read-only.

    Raises
    ------
    UsageError
        Where the folder does not hold complete data.
    """
    try:
        header = json.loads((folder / HEADER).read_text("utf-8"))
        if header["version"] != VERSION:
            raise ValueError(f"it is of version {header['version']}, not {VERSION}")
        for name, facts in header["files"].items():
            if (size := (folder / name).stat().st_size) != facts["bytes"]:
                raise ValueError(f"{name} has {size} bytes, not {facts['bytes']}")
        parameters = WebScaleParameters(**header["parameters"])
        train, test = (
            MappedImages(
                map_csr(folder / part, "X", parameters.n_visterms),
                map_csr(folder / part, "R", parameters.n_queries),
            )
            for part in PARTS
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{folder} holds no complete web-scale data: {reason}: remove it or name another folder"
        ) from error
    return WebScaleData(parameters, train, test)


def index_type(n_images: int) -> npt.DTypeLike:
    """Return the type of column indices and row starts: SciPy copies them where types differ."""
    most = n_images * VISTERMS_PER_IMAGE
    return np.int32 if most <= np.iinfo(np.int32).max else np.int64


class WebScale(Dataset):
    """The first training images of the web-scale data, small enough for memory.

    Parameters
    ----------
    visterms : int, default 1000
        Visual words in the codebook: the number of features, 400 to 50000.  The harder data of
        the web-scale experiment have 10000.
    n_images : int, default 5000
    seed : int, default 0
    """

    name = "web-scale"
    summary = "generated web images, each relevant to 1 to 4 text queries: 5000 sparse rows"
    citation = (
        "modelled on G. Chechik, V. Sharma, U. Shalit and S. Bengio. Large scale online learning "
        "of image similarity through ranking. JMLR 11, 2010, section 5.2"
    )
    licence = "none is needed: no picture is behind the numbers"
    home = "it is generated when it is asked for"
    scaling = "none"
    items = "images"
    notes: ClassVar[Mapping[str, str]] = {
        "all": "the images are drawn from a model of web images: they are no photographs"
    }

    def __init__(self, visterms: int = 1000, n_images: int = 5000, seed: int = 0) -> None:
        self.visterms = visterms
        self.n_images = n_images
        self.seed = seed

    @staticmethod
    def kept(
        n_images: int, n_test_images: int, n_visterms: int, progress: Progress = no_progress
    ) -> WebScaleData:
        """Map images in the cache folder; draw them first where they are not there yet."""
        p = WebScaleParameters(n_images, n_test_images, n_visterms)
        return prepare_web_scale(_cache_folder(p), p, progress)

    @staticmethod
    def to_write(n_images: int, n_test_images: int, n_visterms: int) -> tuple[Path, float]:
        """Return where `kept` keeps the images, and the bytes that are not there yet, at most."""
        p = WebScaleParameters(n_images, n_test_images, n_visterms)
        folder = _cache_folder(p)
        return folder, 0.0 if folder.exists() else most_bytes(p)

    def location(self) -> str | None:
        """Say where the data lies on this machine."""
        return "in this program"

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Draw the images; queries without an image are left out.

        Raises
        ------
        UsageError
            Where the number of visterms or images is out of bounds.
        """
        p = WebScaleParameters(self.n_images, 1, self.visterms, self.seed)
        batches = []
        for batch in _batches(WebImages(p.n_visterms, p.seed), TRAINING, p.n_train):
            batches.append(batch)
            progress("drawing web images", min(len(batches) * BATCH, p.n_train), p.n_train)
        parts = {
            name: np.concatenate(blocks)
            for name, blocks in zip(Batch._fields, zip(*batches, strict=True), strict=True)
        }
        X = sparse.csr_array(
            (parts["weights"], parts["visterms"], np.r_[0, parts["n_visterms"].cumsum()]),
            shape=(p.n_train, p.n_visterms),
        )
        used, columns = np.unique(parts["queries"], return_inverse=True)
        R = sparse.csr_array(
            (parts["strengths"], columns, np.r_[0, parts["n_queries"].cumsum()]),
            shape=(p.n_train, len(used)),
        )
        return LabelledRows(X, R, tuple(f"query {number}" for number in used))


def _n_batches(n_images: int) -> int:
    return -(-n_images // BATCH)


def _batches(
    images: WebImages, part: Part, n_images: int, first_own_query: int = 0
) -> Iterator[Batch]:
    """Draw the first images of a part, batch by batch."""
    for number in range(_n_batches(n_images)):
        size = min(BATCH, n_images - number * BATCH)
        yield images.batch(part, number, first_own_query).first(size)


def _make(folder: Path, parameters: WebScaleParameters, progress: Progress) -> None:
    """Draw the data into a new folder; a folder that is not complete is removed."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _require_space(folder.parent, parameters)
        with whole_folder(folder) as part:
            _write(part, parameters, progress)
    except OSError as error:
        raise UsageError(
            f"cannot write {folder}: {error.strerror or error}: free or correct it, or name "
            "another folder"
        ) from error


def _cache_folder(p: WebScaleParameters) -> Path:
    return cache_home() / "web-scale" / f"{p.n_train}-{p.n_test}-{p.n_visterms}-{p.seed}"


def most_bytes(parameters: WebScaleParameters) -> float:
    """Return the disk that the images take at most."""
    needed = 0.0
    for n_images in (parameters.n_train, parameters.n_test):
        index_bytes = np.dtype(index_type(n_images)).itemsize
        entries = VISTERMS_PER_IMAGE + QUERIES_PER_IMAGE
        needed += n_images * (entries * (4 + index_bytes) + 2 * index_bytes)
    return needed


def _require_space(place: Path, parameters: WebScaleParameters) -> None:
    """Raise a UsageError where the disk has less space than the data take at most."""
    needed = most_bytes(parameters)
    if (free := shutil.disk_usage(place).free) < needed:
        raise UsageError(
            f"web-scale data of {parameters.n_train + parameters.n_test} images take up to "
            f"{needed / 1e9:.1f} GB, but {place} has {free / 1e9:.1f} GB free: free some, name "
            "another folder or ask for fewer images"
        )


def _write(folder: Path, parameters: WebScaleParameters, progress: Progress) -> None:
    images = WebImages(parameters.n_visterms, parameters.seed)
    sizes = {"train": parameters.n_train, "test": parameters.n_test}
    done = 0
    for name, part in PARTS.items():
        (folder / name).mkdir()
        index = index_type(sizes[name])
        with (
            csr_writer(folder / name, "X", index) as X,
            csr_writer(folder / name, "R", index) as R,
        ):
            for b in _batches(images, part, sizes[name], parameters.first_own_query):
                X.append(b.weights, b.visterms, b.n_visterms)
                R.append(b.strengths, b.queries, b.n_queries)
                done += len(b.n_visterms)
                progress("drawing web images", done, sum(sizes.values()))
    header = {
        "version": VERSION,
        "parameters": asdict(parameters),
        "numpy": np.__version__,
        "files": {
            path.relative_to(folder).as_posix(): _size_and_hash(path)
            for path in sorted(folder.glob("*/*.npy"))
        },
    }
    (folder / HEADER).write_text(json.dumps(header, indent=1) + "\n", "utf-8")


def _size_and_hash(path: Path) -> dict[str, int | str]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}
