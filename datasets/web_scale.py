"""Generated images of web scale: a model, files that are mapped, and a small data set.

They take the place of the images of JMLR 2010, 5.2, which were never published: sparse bags of
visual words ('visterms'), and the text queries that find them, with the papers' sizes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import ndtri

from oasis_bench.data import LabelledRows
from oasis_bench.datasets.files import cannot_write, reason_of
from oasis_bench.plugins import Dataset, Fields
from oasis_bench.system import Folder, Progress, UsageError, cache_home, check_value, no_progress

Numbers = npt.NDArray[np.int64]

VERSION = 2
"""Version of the model and of the files: raised when the same parameters give other bits."""

HEADER = "header.json"
CSR = "data", "indices", "indptr"
LEAST_VISTERMS, MOST_VISTERMS = 400, 50_000

VISTERMS_PER_IMAGE = 82
"""Upper bound of the mean over images."""

BATCH = 4096
"""Images of a batch.  Batches of one part share no query."""

N_TOPICS = 200
TOPICS_PER_QUERY = 3

TICKETS = 2**20
"""Number of tickets that visterms are drawn by: a popular visterm has more of them, and those of a
topic's visterms follow each other."""

# Shares of images by visterm rank r fall as r^-FALL exp(-CUTOFF r / d) in the visterms of the
# Caltech images, for codebooks of d = 10000.
FALL, CUTOFF = 0.25, 3.0

QUERY_SKEW = 0.62
"""Zipf exponent of the queries' popularity: about 100 relevant images a training image."""

OTHER_QUERIES, OTHER_SHARE = 3, 0.2
"""An image has one query and up to 3 others, each with probability 0.2: 1.6 in the mean."""

LEAST_STRENGTH = 0.1
LARGEST_FOREGROUND = 0.8
"""Share of an image's visterms that come from its query's topics if the strength is 1."""

REFERENCE_BATCHES = 8

_MIDDLES = (np.arange(4096) + 0.5) / 4096
LENGTHS = np.clip(np.rint(59 * np.exp(0.8 * ndtri(_MIDDLES))), 8, 1000).astype(np.int64)
"""Quantiles of the visterms to draw for an image: log-normal, as the Caltech images have."""
COUNTS = np.minimum(_MIDDLES ** (-1 / 1.8), 64).astype(np.int64)
"""Quantiles of the counts of a drawn visterm: k or more with probability k^-1.8, at most 64."""


class Part(NamedTuple):
    """A part of the images, such as the training images."""

    key: int
    """Seeds its random numbers; each part has another one."""
    n_shared: int
    """Queries of a batch that other parts have too, under the same numbers."""
    n_own: int
    """Queries of a batch that no other part has."""


# JMLR 2010, table 1: 2292259 images for 139944 training queries, 402164 for 41877 test queries;
# 5.2.2: around 150000 different ones.
TRAINING = Part(key=1, n_shared=250, n_own=0)
TEST = Part(key=2, n_shared=325, n_own=100)
REFERENCE = Part(key=3, n_shared=250, n_own=0)

_WORLD, _SHARED, _OWN = (0,), (4,), (5,)
"""Keys of the random numbers that are not of one part."""


@dataclass(frozen=True)
class WebScaleParameters:
    """The parameters of web-scale data; the same give the same bits.

    Parameters
    ----------
    n_train, n_test : int
        Numbers of images, at least 1.  Default: those of JMLR 2010, table 1.
    n_visterms : int, default 10000
        d (section 3); 400 to 50000.
    seed : int, default 0
        0 or more.

    Raises
    ------
    UsageError
        If a number is out of these bounds.
    """

    n_train: int = 2_292_259
    n_test: int = 402_164
    n_visterms: int = 10_000
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("n_train", 1), ("n_test", 1), ("seed", 0)):
            check_value(name, getattr(self, name), int, least)
        if not LEAST_VISTERMS <= self.n_visterms <= MOST_VISTERMS:
            bounds = f"{LEAST_VISTERMS} to {MOST_VISTERMS}"
            raise UsageError(f"{self.n_visterms} visterms: {bounds} are needed")

    @property
    def parts(self) -> dict[str, tuple[Part, int]]:
        """Each part by the name of its folder, with its number of images."""
        return {"train": (TRAINING, self.n_train), "test": (TEST, self.n_test)}

    @property
    def first_own_query(self) -> int:
        """The first of the queries that only test images have."""
        return max(_n_batches(n) * part.n_shared for part, n in self.parts.values())

    @property
    def n_queries(self) -> int:
        """The number of queries, some of which may have no image."""
        return self.first_own_query + _n_batches(self.n_test) * TEST.n_own


def _n_batches(n_images: int) -> int:
    return -(-n_images // BATCH)


def index_type(n_images: int) -> np.dtype[Any]:
    """Return the type of column indices and row starts: SciPy copies them if types differ."""
    most = n_images * VISTERMS_PER_IMAGE
    return np.dtype(np.int32 if most <= np.iinfo(np.int32).max else np.int64)


class Images(NamedTuple):
    """Images and their relevance to queries: canonical csr_arrays of float32.

    `X` (n_images, n_visterms) has rows of length 1; `R` (n_images, n_queries), from 0.1 to 1, is
    R_QI transposed (JMLR 2010, 5.2.1).
    """

    X: sparse.csr_array
    R: sparse.csr_array

    def first(self, n_images: int) -> Images:
        """Return the first images without a copy, so mapped arrays stay mapped."""

        def first_rows(matrix: sparse.csr_array) -> sparse.csr_array:
            indptr = matrix.indptr[: n_images + 1]
            entries = matrix.data[: indptr[-1]], matrix.indices[: indptr[-1]]
            shape = (len(indptr) - 1, matrix.shape[1])
            return sparse.csr_array((*entries, indptr), shape, copy=False)

        return Images(first_rows(self.X), first_rows(self.R))


class WebImages:
    """Web images as bags of visual words, with the text queries that they are relevant to.

    The codebook of *visterms* is so fine that similar blocks get different visterms: there are 200
    topics, and the d / 200 visterms of a topic mean the same.  A *query* has three topics.  An
    *image* has 1 to 4 queries (1.6 on average), each with a strength r from 0.1 to 1.  A share
    0.8 r / n_queries of its visterms comes from the topics of a query, and the others from any
    topic.  So two images of a query share topics, but often no visterm.  A bilinear similarity can
    learn which visterms mean the same or occur together, and the cosine cannot.

    Visterms are sampled by their popularity.  Popularity, counts and the number of visterms per
    image follow the Caltech images; for d = 10000 an image has about 70 visterms on average (JMLR
    2010, section 3).

    Images are generated in batches of 4096, and each batch has different queries.  So the numbers
    of images of a query, and of images relevant to an image, are the same in 10 batches and in 500.
    A batch depends only on the seed and its number.

    Weights are f_i d_i / |f d|_2 (section 3) with d_i = -log(r_i), r_i the share of images with
    visterm i among 32768 images of a set apart, so that they depend on no other image either.
    """

    def __init__(self, parameters: WebScaleParameters) -> None:
        self.parameters = parameters
        self._deal_tickets()
        self.idf = self._learn_idf()

    def batches(self, part: Part, n_images: int) -> Iterator[Images]:
        """Draw the first images of a part, batch by batch."""
        for number in range(_n_batches(n_images)):
            yield self.batch(part, number).first(n_images - number * BATCH)

    def batch(self, part: Part, number: int) -> Images:
        """Draw the images of a batch: 0, 1, ..."""
        bags, links = self._draw(part, number)
        weights = bags.data * self.idf[bags.indices]
        norms = np.sqrt(np.add.reduceat(weights * weights, bags.indptr[:-1]))
        weights /= np.repeat(norms, np.diff(bags.indptr))
        first_own = self.parameters.first_own_query + number * part.n_own - part.n_shared
        is_shared = links.indices < part.n_shared
        queries = links.indices + np.where(is_shared, number * part.n_shared, first_own)
        shape = (BATCH, max(self.parameters.n_queries, number * part.n_shared + part.n_shared))
        return Images(
            sparse.csr_array((weights.astype(np.float32), bags.indices, bags.indptr), bags.shape),
            sparse.csr_array((links.data.astype(np.float32), queries, links.indptr), shape),
        )

    def _random(self, key: tuple[int, ...]) -> np.random.PCG64:
        return np.random.PCG64(np.random.SeedSequence(self.parameters.seed, spawn_key=key))

    def _deal_tickets(self) -> None:
        """Give each visterm tickets by its popularity, and each topic visterms at random."""
        d = self.parameters.n_visterms
        rank = np.arange(1, d + 1)
        popularity = rank**-FALL * np.exp(-CUTOFF * rank / d)
        dealt = np.random.Generator(self._random(_WORLD)).permutation(d)
        edges = np.rint(np.cumsum(popularity[dealt]) * (TICKETS / popularity.sum())).astype(int)
        self._visterm_of_ticket = np.repeat(dealt, np.diff(edges, prepend=0))
        ends = edges[np.arange(1, N_TOPICS + 1) * d // N_TOPICS - 1]
        self._topic_sizes = np.diff(ends, prepend=0)
        self._topic_starts = ends - self._topic_sizes
        self._topic_of_ticket = np.repeat(np.arange(N_TOPICS), self._topic_sizes)

    def _learn_idf(self) -> npt.NDArray[np.float64]:
        n_images = np.zeros(self.parameters.n_visterms, dtype=np.int64)
        for number in range(REFERENCE_BATCHES):
            bags, _ = self._draw(REFERENCE, number)
            n_images += np.bincount(bags.indices, minlength=len(n_images))
        return -np.log(np.maximum(n_images, 1) / (REFERENCE_BATCHES * BATCH))

    def _topics(self, key: tuple[int, ...], first: int, n_queries: int) -> Numbers:
        """Return the topics (n_queries, 3) of queries that follow each other, from any on."""
        stream = self._random(key)
        stream.advance(first * TOPICS_PER_QUERY)  # one draw a topic
        drawn = np.random.Generator(stream).random((n_queries, TOPICS_PER_QUERY))
        topics: Numbers = self._topic_of_ticket[(drawn * TICKETS).astype(int)]
        return topics

    def _draw(self, part: Part, number: int) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Draw a batch: the counts of its visterms, and its links to queries of its own numbers."""
        rng = np.random.Generator(self._random((part.key, number)))
        shared = self._topics(_SHARED, number * part.n_shared, part.n_shared)
        own = self._topics(_OWN, number * part.n_own, part.n_own)
        topics = np.concatenate([shared, own])
        links = _draw_links(rng, len(topics))
        image = np.repeat(np.arange(BATCH), rng.choice(LENGTHS, BATCH))
        low, width = self._draw_sources(rng, image, links, topics)
        visterms = self._visterm_of_ticket[low + (rng.random(len(image)) * width).astype(int)]
        counts = rng.choice(COUNTS, len(image))
        return _counted(image, visterms, counts, self.parameters.n_visterms), links

    def _draw_sources(
        self,
        rng: np.random.Generator,
        image: Numbers,
        links: sparse.csr_array,
        topics: Numbers,
    ) -> tuple[Numbers, Numbers]:
        """Choose where each visterm of an image comes from: the tickets from `low` on."""
        place = rng.random(len(image)) * np.diff(links.indptr)[image]
        whole = place.astype(int)
        link = links.indptr[image] + whole
        share = LARGEST_FOREGROUND * links.data[link]
        place = (place - whole) / share
        of_query = np.flatnonzero(place < 1)  # the others come from anywhere
        one_of = (place[of_query] * TOPICS_PER_QUERY).astype(int)
        topic = topics[links.indices[link[of_query]], one_of]
        low, width = np.zeros(len(image), dtype=int), np.full(len(image), TICKETS)
        low[of_query], width[of_query] = self._topic_starts[topic], self._topic_sizes[topic]
        return low, width


def _draw_links(rng: np.random.Generator, n_queries: int) -> sparse.csr_array:
    """Draw the queries of a batch's images, popular ones more often, and their strengths."""
    popularity = rng.permutation(np.arange(1, n_queries + 1) ** -QUERY_SKEW)
    limits = np.cumsum(popularity) / popularity.sum()
    n_drawn = 1 + (rng.random((BATCH, OTHER_QUERIES)) < OTHER_SHARE).sum(axis=1)
    drawn = np.searchsorted(limits[:-1], rng.random(n_drawn.sum()), side="right")
    pairs = np.unique(np.repeat(np.arange(BATCH), n_drawn) * n_queries + drawn)
    strengths = LEAST_STRENGTH + (1 - LEAST_STRENGTH) * rng.random(len(pairs))
    return _csr(strengths, pairs, n_queries)


def _counted(
    image: Numbers,
    visterms: Numbers,
    counts: Numbers,
    d: int,
) -> sparse.csr_array:
    """Sort the visterms of each image and add up the counts of equal ones.

    Place and count are sorted as one number: counts are below 2^7.
    """
    keys = np.sort((image * d + visterms) << 7 | counts)
    places = keys >> 7
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    return _csr(np.add.reduceat(keys & 127, starts), places[starts], d)


def _csr(data: npt.NDArray[Any], places: Numbers, n_columns: int) -> sparse.csr_array:
    """Make a batch's matrix of entries in order; a place is row * n_columns + column."""
    rows, columns = np.divmod(places, n_columns)
    indptr = np.r_[0, np.bincount(rows, minlength=BATCH).cumsum()]
    return sparse.csr_array((data, columns, indptr), (BATCH, n_columns))


class WebScaleData(NamedTuple):
    """Training and test images, which share the columns of queries."""

    parameters: WebScaleParameters
    train: Images
    test: Images


def prepare_web_scale(
    folder: Path, parameters: WebScaleParameters, progress: Progress = no_progress
) -> WebScaleData:
    """Map web-scale data into memory; generate them first if the folder does not exist.

    The first images are the same for any number of images, so scaling studies can use the first
    rows of one folder.  Only the column numbers of queries without a training image differ.  With
    4096 images or more, about 100 other training images are relevant to a training image (5.2.1),
    and 65 other test images to a test image.

    The folder gets its name when it is complete.  It has ``header.json`` (version and parameters)
    and, in ``train`` and ``test``, the arrays of `X` and `R`.  Generating the data takes less than
    100 MB of memory for any number of images.  The paper's 2.7 million images take 1.5 GB of disk
    and less than a minute.

    Parameters
    ----------
    folder : Path
        A folder that does not exist yet, or that an earlier call made.
    parameters : WebScaleParameters
    progress : callable, default no_progress
        Called with the number of generated images.

    Raises
    ------
    UsageError
        If the folder has other content, was made with other parameters, or cannot be written, for
        example for lack of space.
    """
    header = {"version": VERSION, "parameters": asdict(parameters)}
    if not folder.exists():
        try:
            _make(folder, parameters, header, progress)
        except OSError as error:
            raise cannot_write(folder, error) from error
    columns = {"X": parameters.n_visterms, "R": parameters.n_queries}
    try:
        found = json.loads((folder / HEADER).read_text("utf-8"))
        if found != header:
            raise ValueError(f"they are {found}, not {header}")
        train, test = (
            Images(*(map_csr(folder / part, X, d, index_type(n)) for X, d in columns.items()))
            for part, (_, n) in parameters.parts.items()
        )
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{folder} does not hold these web-scale data whole: {reason_of(error)}: remove it"
        ) from error
    return WebScaleData(parameters, train, test)


def _make(
    folder: Path, parameters: WebScaleParameters, header: dict[str, Any], progress: Progress
) -> None:
    """Draw the data into a new folder; a folder that is not complete is removed."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    done, total = 0, parameters.n_train + parameters.n_test
    model = WebImages(parameters)
    with Folder(folder).whole() as made:
        for name, (part, n_images) in parameters.parts.items():
            place, index = made / name, index_type(n_images)
            place.mkdir()
            for images in model.batches(part, n_images):
                append_csr(place, "X", images.X, index)
                append_csr(place, "R", images.R, index)
                done += images.X.shape[0]
                progress("generating web images", done, total)
        (made / HEADER).write_text(json.dumps(header, indent=1) + "\n", "utf-8")


def append_csr(folder: Path, name: str, rows: sparse.csr_array, index: npt.DTypeLike) -> None:
    """Append rows to a CSR matrix in the files ``NAME_data``, ``NAME_indices`` and ``NAME_indptr``.

    The rows have canonical format, and always as many columns.  The files hold nothing but the
    numbers.  `indices` and `indptr` have the type `index`: SciPy would copy arrays of different
    types.
    """
    paths = [folder / f"{name}_{part}" for part in CSR]
    data = rows.data.astype(np.float32)
    starts = rows.indptr.astype(index)
    if paths[0].exists():
        starts = paths[0].stat().st_size // data.itemsize + starts[1:]
    arrays = data, rows.indices.astype(index), starts
    for path, array in zip(paths, arrays, strict=True):
        with path.open("ab") as file:
            array.tofile(file)


def map_csr(folder: Path, name: str, n_columns: int, index: npt.DTypeLike) -> sparse.csr_array:
    """Map the files of `append_csr`, read-only: an entry is read when it is used."""
    types = np.float32, index, index
    data, indices, indptr = (
        np.asarray(np.memmap(folder / f"{name}_{part}", dtype, mode="r"))
        for part, dtype in zip(CSR, types, strict=True)
    )
    shape = (len(indptr) - 1, n_columns)
    return sparse.csr_array((data, indices, indptr), shape=shape, copy=False)


class WebScale(Fields, Dataset):
    """The first training images of the web-scale data, which fit into memory.

    Parameters
    ----------
    visterms : int, default 1000
        Visual words in the codebook: the number of features, 400 to 50000.  The web-scale
        experiment is harder, with 10000.
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
    home = "it is generated when a run needs it"
    scaling = "none"
    items = "images"
    notes: ClassVar[Mapping[str, str]] = {
        "all": "the images are generated by a model of web images: they are not photographs"
    }

    visterms: int = 1000
    n_images: int = 5000
    seed: int = 0

    @staticmethod
    def kept(
        n_images: int, n_test_images: int, n_visterms: int, progress: Progress = no_progress
    ) -> WebScaleData:
        """Map images in the cache folder; generate them first if they do not exist yet."""
        parameters = WebScaleParameters(n_images, n_test_images, n_visterms)
        name = "-".join(map(str, asdict(parameters).values()))
        return prepare_web_scale(cache_home() / "web-scale" / name, parameters, progress)

    def location(self) -> str | None:
        """Return where the data is on this machine."""
        return "in this program"

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Draw the images; queries without an image are left out."""
        p = WebScaleParameters(self.n_images, 1, self.visterms, self.seed)
        batches = []
        for images in WebImages(p).batches(TRAINING, p.n_train):
            batches.append(images)
            progress("generating web images", min(len(batches) * BATCH, p.n_train), p.n_train)
        X, R = (sparse.vstack(matrices, format="csr") for matrices in zip(*batches, strict=True))
        used, columns = np.unique(R.indices, return_inverse=True)
        R = sparse.csr_array((R.data, columns, R.indptr), (p.n_train, len(used)))
        return LabelledRows(X, R, tuple(f"query {number}" for number in used))
