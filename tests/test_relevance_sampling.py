"""The sampler for several labels against a twin by lists, and against dense R_II."""

import tracemalloc
from itertools import accumulate

import numpy as np
import pytest
from definitions import PythonGenerator, image_relevance, random_relevance
from scipy import sparse
from scipy.stats import chisquare

from oasis_bench.sampling import RelevanceTripletSampler, seed_state

OPTIONS = [
    {"weighted": weighted, "negatives": negatives, "threshold": threshold}
    for weighted in (False, True)
    for negatives in ("exact", "any")
    for threshold in (0.0, 0.004)
]

pytestmark = pytest.mark.filterwarnings("ignore:.*give no query")


def sampler(R, seed=0, **options):
    return RelevanceTripletSampler(sparse.csr_array(np.asarray(R)), seed_state(seed), **options)


def usable_queries(related, negatives):
    """Say which images have a positive and a negative, from dense R_II."""
    n_related = (related > 0).sum(axis=1)
    return np.flatnonzero((n_related > 0) & ((negatives == "any") | (n_related < len(related) - 1)))


class Twin:
    """The sampler by lists and loops over dense relevance, with the same generator."""

    def __init__(self, R, seed, weighted, negatives, threshold):
        generator = PythonGenerator(seed_state(seed))
        self.below = generator.below
        self.unit = lambda: (generator.next_word() >> 11) / 2**53
        B = R / R.sum() / np.sqrt(np.maximum(R.sum(axis=0) / R.sum(), 1e-300))
        self.weights = B if weighted else (R > 0).astype(float)
        self.related = np.where(image_relevance(R) > threshold, 1, 0)
        self.shared = (R > 0).astype(int) @ (R > 0).astype(int).T
        self.queries = usable_queries(self.related, negatives)
        self.weighted, self.negatives = weighted, negatives
        self.n = len(R)

    def among(self, weights):
        """Draw a place with probability proportional to its weight."""
        sums = list(accumulate(weights))
        target = self.unit() * sums[-1]
        return next(place for place, total in enumerate(sums) if total > target)

    def others(self, label, query):
        images = [p for p in range(self.n) if self.weights[p, label] > 0 and p != query]
        return sorted(images, key=lambda p: (self.weights[p, label], p))

    def positive(self, query):
        labels = [q for q in np.flatnonzero(self.weights[query]) if self.others(q, query)]
        masses = [
            self.weights[query, q] * sum(self.weights[p, q] for p in self.others(q, query))
            for q in labels
        ]
        while True:
            label = labels[self.among(masses)]
            others = self.others(label, query)
            image = others[self.among([self.weights[p, label] for p in others])]
            n_shared = self.shared[query, image]
            if self.related[query, image] and (
                self.weighted or n_shared == 1 or self.below(n_shared) == 0
            ):
                return image

    def negative(self, query):
        while True:
            image = self.below(self.n - 1)
            image += image >= query
            if self.negatives == "any" or not self.related[query, image]:
                return image

    def draw(self, n_triplets):
        return [
            (query := self.queries[self.below(len(self.queries))], self.positive(query),
             self.negative(query))
            for _ in range(n_triplets)
        ]  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_triplets_are_those_of_the_python_twin(seed, options):
    R = random_relevance(seed=seed)
    expected = Twin(R, seed, **options).draw(100)
    np.testing.assert_array_equal(sampler(R, seed, **options).draw(100), expected)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_each_draw_has_its_exact_distribution(options):
    R = random_relevance(10, 7, seed=1)
    related = image_relevance(R, options["threshold"])
    triplets = sampler(R, 5, **options).draw(200_000)
    queries = usable_queries(related, options["negatives"])
    assert len(queries) > 3
    assert set(triplets[:, 0]) == set(queries)
    assert chisquare(np.bincount(triplets[:, 0])[queries]).pvalue > 1e-3
    for query in queries:
        _, positives, negatives = triplets[triplets[:, 0] == query].T
        weights = related[query] if options["weighted"] else related[query] > 0
        assert_distributed(positives, weights)
        irrelevant = related[query] == 0 if options["negatives"] == "exact" else np.ones(10)
        assert_distributed(negatives, np.where(np.arange(10) == query, 0, irrelevant))


def assert_distributed(drawn, weights):
    counts = np.bincount(drawn, minlength=len(weights))
    possible = weights > 0
    assert not counts[~possible].any()
    expected = weights[possible] / weights[possible].sum() * len(drawn)
    if possible.sum() > 1:
        assert chisquare(counts[possible], expected).pvalue > 1e-4


def test_an_image_that_shares_two_labels_is_drawn_as_often_as_one_that_shares_one():
    # 0 shares both labels with 1, one with 2; R_II(0, 1) = (1/3 1/3) 3/5 + (1/2 1/2) 2/5 = 1/6 and
    # R_II(0, 2) = 1/15: weighted, 1 is drawn 5 times of 7.
    R = [[1, 1], [1, 1], [1, 0], [0, 0]]
    for weighted, share in ((False, 1 / 2), (True, 5 / 7)):
        triplets = sampler(R, weighted=weighted).draw(100_000)
        positives = triplets[triplets[:, 0] == 0, 1]
        assert np.mean(positives == 1) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("options", OPTIONS[::3], ids=str)
def test_the_stream_goes_on_whatever_the_size_of_the_draws(options):
    R = sparse.csr_array(random_relevance())
    whole = RelevanceTripletSampler(R, seed_state(3), **options).draw(1000)
    state = seed_state(3)
    parts = [RelevanceTripletSampler(R, state, **options).draw(n) for n in (1, 0, 599, 400)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


@pytest.mark.parametrize("order", [[0, 1, 2, 3], [2, 3, 0, 1], [1, 0, 3, 2]])
def test_weights_of_very_different_size_neither_vanish_nor_hang(order):
    # Image 0 outweighs its only companion a hundred orders of magnitude, in any order of rows.
    R = np.array([[1e80, 0], [1e-20, 0], [0, 1], [0, 1e-20]])[order]
    triplets = sampler(R, weighted=True).draw(2000)
    heavy, light = order.index(0), order.index(1)
    assert set(triplets[triplets[:, 0] == heavy, 1]) == {light}
    assert set(triplets[triplets[:, 0] == light, 1]) == {heavy}


def test_common_images_of_a_label_cost_memory_as_the_entries_do():
    n_images, n_labels = 20_000, 10  # 8 million related pairs a label
    rng = np.random.default_rng(0)
    labels = rng.integers(n_labels, size=n_images)
    R = sparse.csr_array((rng.random(n_images), labels, np.arange(n_images + 1)))
    tracemalloc.start()
    made = RelevanceTripletSampler(R, seed_state(0), weighted=True)
    triplets = made.draw(1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200 * R.nnz
    assert (labels[triplets[:, 0]] == labels[triplets[:, 1]]).all()
    assert (labels[triplets[:, 0]] != labels[triplets[:, 2]]).all()
