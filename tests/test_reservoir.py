"""The samplers of Deep Ranking against exact distributions, enumerated for small cases."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import binomtest, chisquare

from oasis_bench.algorithms.deep_ranking import DeepRanking, RelevanceSampler, reservoir
from oasis_bench.system import UsageError

LEAST_P = 1e-3


def sampler_of(kept, R, *settings):
    return RelevanceSampler(*kept, lambda a, b: R[a, b], "reservoir", *settings)


def matrix(categories, seed=0):
    """A symmetric relevance within categories, from 0 to 1, in steps of a tenth."""
    upper = np.triu(np.random.default_rng(seed).integers(0, 11, (len(categories),) * 2), 1) / 10
    return (upper + upper.T) * (categories[:, None] == categories)


def filled(categories, R, capacity=100):
    return reservoir(np.arange(len(R)), categories, R.sum(axis=1), capacity, 0)


def assert_drawn_as(counts, expected):
    n = sum(counts.values())
    assert set(counts) <= {key for key, p in expected.items() if p > 0}
    keys = [key for key, p in expected.items() if p > 0]
    assert sum(expected.values()) == pytest.approx(1)
    found = chisquare([counts[key] for key in keys], [n * expected[key] for key in keys])
    assert found.pvalue > LEAST_P


class TestReservoir:
    @pytest.mark.parametrize("scale", [1.0, 1e-9, 1e9])
    def test_one_place_is_kept_in_proportion_to_relevance(self, scale):
        # Picture 2 comes twice, and picture 3 is relevant to nothing.
        # Each of 4000 categories sees the same stream.
        stream, totals = np.array([0, 1, 2, 3, 2]), np.array([1.0, 2, 3, 0, 3]) * scale
        seen = np.tile(stream, 4000), np.arange(4000).repeat(5), np.tile(totals, 4000)
        counts = Counter()
        items, categories, kept = reservoir(*seen, 1, 0)
        np.testing.assert_array_equal(categories, np.arange(4000))
        np.testing.assert_array_equal(kept, totals[items])
        counts.update((item,) for item in items.tolist())
        assert_drawn_as(counts, {(0,): 1 / 9, (1,): 2 / 9, (2,): 6 / 9})

    def test_more_places_are_drawn_without_replacement(self):
        totals = np.array([1.0, 2, 4, 5])
        expected = {
            (first, second): totals[first] / 12 * totals[second] / (12 - totals[first])
            for first, second in permutations(range(4), 2)
        }
        seen = np.tile(np.arange(4), 6000), np.arange(6000).repeat(4), np.tile(totals, 6000)
        kept = reservoir(*seen, 2, 0)[0].reshape(6000, 2).tolist()
        assert_drawn_as(Counter(map(tuple, kept)), expected)

    def test_each_buffer_is_filled(self) -> None:
        rng = np.random.default_rng(0)
        categories, totals = rng.integers(0, 7, 1000), rng.random(1000)
        items, of, kept = reservoir(np.arange(1000), categories, totals, 20, 3)
        np.testing.assert_array_equal(of, categories[items])
        np.testing.assert_array_equal(kept, totals[items])
        assert np.bincount(of).tolist() == 7 * [20]


def exact(categories, R, out_of_class, margin, cap):
    """The distribution of triplets, from the definition: a sum over all of them.

    Candidates are drawn until one is accepted, so that each has its share of the acceptances.
    """
    n, totals = len(R), R.sum(axis=1)
    kept = totals > 0
    found = {}
    for kind, share in ((True, out_of_class), (False, 1 - out_of_class)):
        of_kind = {}
        for q in np.flatnonzero(kept):
            own = kept & (categories == categories[q])
            takes = np.zeros(n)
            takes[own] = np.minimum(1, np.minimum(cap, R[q, own]) / totals[own]) / own.sum()
            for p in np.flatnonzero(takes):
                if kind:
                    weights = (kept & (categories != categories[q])).astype(float)
                else:
                    weights = takes * (R[q, p] - R[q] >= margin) * (np.arange(n) != p)
                for m in np.flatnonzero(weights):
                    chance = takes[p] / takes.sum() * weights[m] / weights.sum()
                    of_kind[int(q), int(p), int(m)] = chance
        whole = sum(of_kind.values())
        found |= {key: share * value / whole for key, value in of_kind.items() if share}
    return found


class TestTriplets:
    # Category 0 has two copies of one picture, 3 and 4; category 2 has one picture that is left
    # out; category 3 has a picture (9) without relevance.
    CATEGORIES = np.array([0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 3])

    def relevance(self):
        R = matrix(self.CATEGORIES)
        R[[4]], R[:, [4]] = R[[3]], R[:, [3]]
        R[3, 4] = R[4, 3] = 1.0
        R[3, 3] = R[4, 4] = 0.0
        R[9] = R[:, 9] = 0.0
        R[8, 10] = R[10, 8] = R[5, 6] = R[6, 5] = 0.5
        return R

    @pytest.mark.parametrize(
        ("out_of_class", "margin", "cap"),
        [(1.0, 0.0, 0.35), (0.0, 0.25, 9.0), (0.3, 0.15, 9.0), (0.2, 0.15, 0.35), (0.0, 0.0, 9.0)],
    )
    def test_they_are_distributed_as_defined(self, out_of_class, margin, cap):
        R = self.relevance()
        kept = filled(self.CATEGORIES, R)
        sampler = sampler_of(kept, R, out_of_class, margin, cap)
        drawn = sampler.draw(15_000, np.random.default_rng(1))
        expected = exact(self.CATEGORIES, R, out_of_class, margin, cap)
        assert_drawn_as(Counter(map(tuple, drawn.tolist())), expected)

    def test_a_category_of_one_picture_gives_negatives_alone(self):
        categories = np.array([0, 0, 1])
        R = np.zeros((3, 3))
        R[0, 1] = R[1, 0] = 1.0
        totals = np.array([1.0, 1.0, 0.5])  # 2 is relevant to a picture that was dropped
        sampler = sampler_of((np.arange(3), categories, totals), R, 1.0)
        drawn = sampler.draw(500, np.random.default_rng(0))
        assert set(map(tuple, drawn.tolist())) == {(0, 1, 2), (1, 0, 2)}
        assert sampler.n_dropped > 0

    def test_a_small_buffer_weighs_queries_by_their_relevance(self):
        # Buffers of one picture have no pairs, of two have one: it is that of the reservoir.
        R = matrix(np.zeros(30, np.int64))
        kept = filled(np.zeros(30, np.int64), R, capacity=3)
        drawn = sampler_of(kept, R, 0.0).draw(50, np.random.default_rng(0))
        assert set(drawn.ravel()) == set(kept[0])

    def test_where_there_is_no_triplet_it_says_so(self) -> None:
        categories = np.array([0, 0, 0, 1, 1])
        R = (categories[:, None] == categories) * 0.5
        np.fill_diagonal(R, 0)
        sampler = sampler_of(filled(categories, R), R, 0.2, 0.1)
        with pytest.raises(UsageError, match=r"of the same category: lower the margin \(0\.1\)"):
            sampler.draw(100, np.random.default_rng(0))
        one = filled(np.zeros(3, np.int64), np.ones((3, 3)))
        with pytest.raises(UsageError, match="all pictures are of 1 category: give 0"):
            sampler_of(one, np.ones((3, 3)))
        with pytest.raises(UsageError, match="2 relevant pictures or more"):
            sampler_of((*np.zeros((2, 0), np.int64), np.zeros(0)), R)


def by_definition(categories, R, weighted, out_of_class, margin, cap):
    """The distribution of triplets by eq. 6 to 8 of the paper: a sum over all of them."""
    n, totals, capped = len(R), R.sum(axis=1), np.minimum(R, cap)
    found = {}
    for outside, share in ((True, out_of_class), (False, 1 - out_of_class)):
        of_kind = {}
        for q, p in zip(*np.nonzero(R), strict=True):
            of_query = totals[q] / totals.sum() if weighted else 1 / np.count_nonzero(totals)
            of_positive = capped[q, p] / capped[q].sum() if weighted else 1 / np.count_nonzero(R[q])
            if outside:
                weights = (categories != categories[q]).astype(float)
            else:
                own = (categories == categories[q]) & ~np.isin(np.arange(n), [q, p])
                weights = own * (R[q, p] - R[q] >= margin) * (capped[q] if weighted else 1.0)
            for m in np.flatnonzero(weights):
                chance = of_query * of_positive * weights[m] / weights.sum()
                of_kind[int(q), int(p), int(m)] = chance
        whole = sum(of_kind.values())
        found |= {key: share * value / whole for key, value in of_kind.items() if share}
    return found


def source(y, R, weighted=True, out_of_class=0.2, margin=0.0, cap=None):
    sampling = "weighted" if weighted else "uniform"
    settings = {"sampling": sampling, "out_of_class": out_of_class, "margin": margin}
    learner = DeepRanking(**settings, relevance_cap=cap)
    draw = learner._source(y, y, R)  # of as many pictures
    return draw.__self__


class TestRelevanceSampler:
    CATEGORIES = TestTriplets.CATEGORIES

    @pytest.mark.parametrize("weighted", [True, False])
    @pytest.mark.parametrize(
        ("out_of_class", "margin", "cap"),
        [(1.0, 0.0, None), (0.0, 0.25, None), (0.3, 0.15, 0.25), (0.0, 0.0, 0.45)],
    )
    def test_triplets_are_distributed_as_defined(self, weighted, out_of_class, margin, cap):
        R = TestTriplets().relevance()
        mixed = np.random.default_rng(3).permutation(len(R))  # categories lie side by side nowhere
        categories, R = self.CATEGORIES[mixed], R[np.ix_(mixed, mixed)]
        apart = R + 7.0 * (categories[:, None] != categories)  # which says nothing
        sampler = source(categories, apart, weighted, out_of_class, margin, cap)
        drawn = sampler.draw(15_000, np.random.default_rng(1))
        expected = by_definition(categories, R, weighted, out_of_class, margin, cap or np.inf)
        assert_drawn_as(Counter(map(tuple, drawn.tolist())), expected)

    @pytest.mark.parametrize(
        ("weighted", "share_dropped"),
        # Of pictures 0, 1 and 2, r is 1 between 0 and 1, and .5 with 2.  A triplet with the margin
        # .25 has 0 and 1 as query and positive, and 2 as the negative.  Weighted, r_q is 1.5, 1.5
        # and 1, and p is the other one of 0 and 1 with probability 1 / 1.5: 3 / 4 times 2 / 3 are
        # taken.  Uniform, 2 / 3 times 1 / 2.
        [(True, 1 - 3 / 4 * 2 / 3), (False, 1 - 2 / 3 * 1 / 2)],
    )
    def test_as_many_queries_are_dropped_as_the_probabilities_say(self, weighted, share_dropped):
        R = sparse.csr_array([[0, 1, 0.5], [1, 0, 0.5], [0.5, 0.5, 0]])
        sampler = source(np.arange(3) // 3, R, weighted, 0.0, 0.25)
        drawn = [sampler.draw(n, np.random.default_rng(n)) for n in (9000, 1000)]
        assert {tuple(triplet) for triplet in np.concatenate(drawn)} == {(0, 1, 2), (1, 0, 2)}
        n_queries = 10_000 + sampler.n_dropped
        assert binomtest(sampler.n_dropped, n_queries, share_dropped).pvalue > LEAST_P
        # All are dropped: none of 10000 in a row gives a triplet.
        sampler = source(np.arange(3) // 3, R, weighted, 0.0, 0.75)
        with pytest.raises(UsageError, match="10000 queries in a row"):
            sampler.draw(3, np.random.default_rng(0))
        assert sampler.n_dropped == 10_000

    def test_where_there_is_no_triplet_it_says_so(self):
        y = np.array([0, 0, 0, 1, 1])
        R = sparse.csr_array((y[:, None] == y) * 0.5)
        with pytest.raises(UsageError, match=r"of the same category: lower the margin \(0\.1\)"):
            source(y, R, margin=0.1).draw(100, np.random.default_rng(0))
        with pytest.raises(UsageError, match="all pictures are of 1 category: give 0"):
            source(np.zeros(5), R)
        for weighted in (True, False):
            with pytest.raises(UsageError, match="2 relevant pictures or more"):
                source(np.arange(5), R, weighted)
