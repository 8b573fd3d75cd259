"""A model of web images and the text queries that find them, drawn batch by batch.

It takes the place of the images of JMLR 2010, 5.2, which were never published.  The module
`dataset` writes them to files.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

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
"""Share of an image's visterms that come from its query's topics, where the strength is 1."""

REFERENCE_BATCHES = 8


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


class Batch(NamedTuple):
    """Images and their queries, one image after the other.

    Attributes
    ----------
    weights : ndarray of shape (n_entries,), float32
    visterms : ndarray of shape (n_entries,), int64
        Of each image in ascending order, each once.
    n_visterms : ndarray of shape (n_images,), int64
        Entries of each image.
    strengths : ndarray of shape (n_links,), float32
        How relevant an image is to a query, from 0.1 to 1.
    queries : ndarray of shape (n_links,), int64
        Of each image in ascending order, each once.
    n_queries : ndarray of shape (n_images,), int64
        Links of each image.
    """

    weights: npt.NDArray[np.float32]
    visterms: npt.NDArray[np.int64]
    n_visterms: npt.NDArray[np.int64]
    strengths: npt.NDArray[np.float32]
    queries: npt.NDArray[np.int64]
    n_queries: npt.NDArray[np.int64]

    def first(self, n_images: int) -> Batch:
        """Return the first images alone."""
        n_entries = self.n_visterms[:n_images].sum()
        n_links = self.n_queries[:n_images].sum()
        return Batch(
            self.weights[:n_entries],
            self.visterms[:n_entries],
            self.n_visterms[:n_images],
            self.strengths[:n_links],
            self.queries[:n_links],
            self.n_queries[:n_images],
        )


class _Links(NamedTuple):
    """The queries of a batch's images, as in `Batch`, numbered within the batch."""

    strengths: npt.NDArray[np.float64]
    queries: npt.NDArray[np.int64]
    n_queries: npt.NDArray[np.int64]


class WebImages:
    """Web images as bags of visual words, with the text queries that they are relevant to.

    *Visterms* are of a codebook so fine that it splits what looks alike: they are dealt into 200
    topics, and the d / 200 visterms of a topic mean the same.  A *query* has three topics.
    An *image* has 1 to 4 queries (1.6 in the mean), each with a strength r from 0.1 to 1.  Of its
    visterms, a share 0.8 r / n_queries comes from the topics of a query, the rest from anywhere.
    So two images of a query share topics but often no visterm: a bilinear similarity can learn
    what means the same, and what goes together, which the cosine does not see.

    Within topics and anywhere, visterms are drawn by their popularity.  That, the counts and the
    spread of the visterms an image has follow the Caltech images; for d = 10000 their mean is
    about 70 (JMLR 2010, section 3).

    Images come in batches of 4096, each with queries of its own.  So the images of a query, and
    those relevant to an image, are as many in 10 batches as in 500.  A batch depends on the seed
    and its number alone.

    Weights are f_i d_i / |f d|_2 (section 3) with d_i = -log(r_i), r_i the share of images with
    visterm i among 32768 images of a set apart, so that they depend on no other image either.

    Parameters
    ----------
    n_visterms : int
        d, the number of features: 400 to 50000.
    seed : int
        The same gives the same bits with one version of NumPy on one kind of processor.
    """

    def __init__(self, n_visterms: int, seed: int) -> None:
        self.n_visterms = n_visterms
        self.seed = seed
        self._deal_tickets()
        self._lengths = _quantiles_of_lengths()
        self._counts = _quantiles_of_counts()
        self.idf = self._learn_idf()

    def batch(self, part: Part, number: int, first_own: int = 0) -> Batch:
        """Draw the images of a batch.

        Parameters
        ----------
        part : Part
        number : int
            0, 1, ...
        first_own : int, default 0
            The number of the first query that the part does not share with others.
        """
        links, visterms, counts, n_visterms = self._draw(part, number)
        weights = counts * self.idf[visterms]
        starts = np.cumsum(n_visterms) - n_visterms
        norms = np.sqrt(np.add.reduceat(weights * weights, starts))
        weights /= np.repeat(norms, n_visterms)
        queries = np.where(
            links.queries < part.n_shared,
            links.queries + number * part.n_shared,
            links.queries + (first_own + number * part.n_own - part.n_shared),
        )
        return Batch(
            weights.astype(np.float32),
            visterms,
            n_visterms,
            links.strengths.astype(np.float32),
            queries,
            links.n_queries,
        )

    def _random(self, key: tuple[int, ...]) -> np.random.PCG64:
        return np.random.PCG64(np.random.SeedSequence(self.seed, spawn_key=key))

    def _deal_tickets(self) -> None:
        """Give each visterm tickets by its popularity, and each topic visterms at random."""
        d = self.n_visterms
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
        n_images = np.zeros(self.n_visterms, dtype=np.int64)
        for number in range(REFERENCE_BATCHES):
            _, visterms, _, _ = self._draw(REFERENCE, number)
            n_images += np.bincount(visterms, minlength=self.n_visterms)
        return -np.log(np.maximum(n_images, 1) / (REFERENCE_BATCHES * BATCH))

    def _topics(self, key: tuple[int, ...], first: int, n_queries: int) -> npt.NDArray[np.int64]:
        """Return the topics (n_queries, 3) of queries that follow each other, from any on."""
        stream = self._random(key)
        stream.advance(first * TOPICS_PER_QUERY)  # one draw a topic
        drawn = np.random.Generator(stream).random((n_queries, TOPICS_PER_QUERY))
        topics: npt.NDArray[np.int64] = self._topic_of_ticket[(drawn * TICKETS).astype(int)]
        return topics

    def _draw(
        self, part: Part, number: int
    ) -> tuple[_Links, npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Draw queries, visterms and their counts, and the numbers of visterms, of a batch."""
        rng = np.random.Generator(self._random((part.key, number)))
        shared = self._topics(_SHARED, number * part.n_shared, part.n_shared)
        own = self._topics(_OWN, number * part.n_own, part.n_own)
        topics = np.concatenate([shared, own])
        links = _draw_links(rng, len(topics))
        image = np.repeat(np.arange(BATCH), _drawn_from(self._lengths, rng, BATCH))
        low, width = self._draw_sources(rng, image, links, topics)
        visterms = self._visterm_of_ticket[low + (rng.random(len(image)) * width).astype(int)]
        counts = _drawn_from(self._counts, rng, len(image))
        return links, *_counted(image, visterms, counts, self.n_visterms)

    def _draw_sources(
        self,
        rng: np.random.Generator,
        image: npt.NDArray[np.int64],
        links: _Links,
        topics: npt.NDArray[np.int64],
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Choose where each visterm of an image comes from: the tickets from `low` on."""
        first_link = np.cumsum(links.n_queries) - links.n_queries
        place = rng.random(len(image)) * links.n_queries[image]
        whole = place.astype(int)
        link = first_link[image] + whole
        share = LARGEST_FOREGROUND * links.strengths[link]
        place = (place - whole) / share
        of_query = np.flatnonzero(place < 1)  # the others come from anywhere
        one_of = (place[of_query] * TOPICS_PER_QUERY).astype(int)
        topic = topics[links.queries[link[of_query]], one_of]
        low, width = np.zeros(len(image), dtype=int), np.full(len(image), TICKETS)
        low[of_query], width[of_query] = self._topic_starts[topic], self._topic_sizes[topic]
        return low, width


def _draw_links(rng: np.random.Generator, n_queries: int) -> _Links:
    """Draw the queries of a batch's images, popular ones more often, and their strengths."""
    popularity = rng.permutation(np.arange(1, n_queries + 1) ** -QUERY_SKEW)
    limits = np.cumsum(popularity) / popularity.sum()
    n_drawn = 1 + (rng.random((BATCH, OTHER_QUERIES)) < OTHER_SHARE).sum(axis=1)
    drawn = np.searchsorted(limits[:-1], rng.random(n_drawn.sum()), side="right")
    pairs = np.unique(np.repeat(np.arange(BATCH), n_drawn) * n_queries + drawn)
    image, queries = np.divmod(pairs, n_queries)
    strengths = LEAST_STRENGTH + (1 - LEAST_STRENGTH) * rng.random(len(pairs))
    return _Links(strengths, queries, np.bincount(image, minlength=BATCH))


def _counted(
    image: npt.NDArray[np.int64],
    visterms: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    d: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sort the visterms of each image and add up the counts of equal ones.

    Place and count are sorted as one number: counts are below 2^7.
    """
    keys = np.sort((image * d + visterms) << 7 | counts)
    places = keys >> 7
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    image, visterms = np.divmod(places[starts], d)
    return visterms, np.add.reduceat(keys & 127, starts), np.bincount(image, minlength=BATCH)


N_QUANTILES = 4096


def _quantiles() -> npt.NDArray[np.float64]:
    return (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES


def _drawn_from(
    values: npt.NDArray[np.int64], rng: np.random.Generator, n: int
) -> npt.NDArray[np.int64]:
    return values[rng.integers(N_QUANTILES, size=n)]


def _quantiles_of_lengths() -> npt.NDArray[np.int64]:
    """Return numbers of visterms to draw for an image, log-normal as the Caltech images have."""
    lengths = np.rint(59 * np.exp(0.8 * ndtri(_quantiles())))
    return np.asarray(np.clip(lengths, 8, 1000), dtype=np.int64)


def _quantiles_of_counts() -> npt.NDArray[np.int64]:
    """Return counts of a drawn visterm: k or more with probability k^-1.8, at most 64."""
    return np.minimum(_quantiles() ** (-1 / 1.8), 64).astype(np.int64)
