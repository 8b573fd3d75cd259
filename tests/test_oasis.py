"""OASIS against its NumPy twin, the paper's equations and cases worked by hand."""

import numpy as np
import oasis_twins
import pytest
from oasis_twins import random_triplets
from scipy import sparse
from sklearn.preprocessing import normalize
from test_oasis_family import as_csr

from oasis_bench.algorithms import OASIS, oasis
from oasis_bench.sampling import RelevanceTripletSampler, seed_state


@pytest.fixture(autouse=True, params=["on W", "dual"])
def steps(request, monkeypatch):
    """Take the steps in both ways, whichever would be the quicker."""
    monkeypatch.setattr(oasis, "dual_pays", lambda X, n_triplets: request.param == "dual")


def test_one_step_worked_by_hand():
    # q = (1, 0), p = (0, 1), n = (1, 0), W = I: the score q'W(p - n) is -1, the loss 2,
    # V = q(p - n)' = [[-1, 1], [0, 0]], |V|^2 = 2, tau = min(C, 2/2).
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    cautious = OASIS(aggressiveness=0.1).partial_fit_triplets(X, [[0, 1, 2]])
    np.testing.assert_allclose(cautious.bilinear_matrix_, [[0.9, 0.1], [0, 1]])
    bold = OASIS(aggressiveness=5).partial_fit_triplets(X, [[0, 1, 2]])
    np.testing.assert_allclose(bold.bilinear_matrix_, [[0, 1], [0, 1]])
    assert bold.pair_score([[X[0], X[1]]]) - bold.pair_score([[X[0], X[2]]]) == pytest.approx(1)


@pytest.mark.parametrize("form", [np.asarray, as_csr, lambda X: as_csr(X, np.int64)])
def test_the_kernel_computes_what_the_twin_does(rows, form):
    X, _ = rows
    triplets = random_triplets(len(X))
    W = np.eye(X.shape[1])
    n_updates = oasis_twins.step(X, triplets, 0.1, W)
    learner = OASIS(aggressiveness=0.1).partial_fit_triplets(form(X), triplets)
    np.testing.assert_allclose(learner.bilinear_matrix_, W, rtol=0, atol=1e-12)
    assert (learner.n_updates_, learner.n_steps_) == (n_updates, 500)
    assert 0 < n_updates < 500


def test_an_update_of_full_length_leaves_no_loss(rows):
    # tau = loss / |V|^2 solves the constraint of equation 5 with equality
    X, _ = rows
    triplet = np.array([[0, 1, 2]])
    learner = OASIS(aggressiveness=1e6).partial_fit_triplets(X, triplet)
    assert learner.n_updates_ == 1
    assert X[0] @ learner.bilinear_matrix_ @ (X[1] - X[2]) == pytest.approx(1)


def test_equal_positive_and_negative_or_an_empty_query_change_nothing(rows):
    X, _ = rows
    learner = OASIS().partial_fit_triplets(X, [[0, 3, 3], [7, 1, 2]])
    np.testing.assert_array_equal(learner.bilinear_matrix_, np.eye(X.shape[1]))
    assert learner.n_updates_ == 0


def test_fit_begins_anew_and_partial_fit_goes_on(rows):
    X, y = rows
    learner = OASIS(n_steps=100, random_state=0).fit(X, y)
    W = learner.get_bilinear_matrix()
    learner.partial_fit(X, y)
    assert learner.n_steps_ == 200
    assert (learner.bilinear_matrix_ != W).any()
    np.testing.assert_array_equal(learner.fit(X, y).bilinear_matrix_, W)
    assert learner.n_steps_ == 100


@pytest.mark.filterwarnings("ignore:.*give no query")
def test_relevance_to_labels_gives_the_triplets_of_its_sampler(rows):
    X, _ = rows
    R = sparse.csr_array(np.random.default_rng(2).random((40, 9)) < 0.1)
    learner = OASIS(n_steps=10_000, random_state=3).fit(X, R)
    seed = np.random.RandomState(3).randint(2**31)
    triplets = RelevanceTripletSampler(R, seed_state(seed)).draw(10_000)
    expected = OASIS().partial_fit_triplets(X, triplets)
    np.testing.assert_array_equal(learner.bilinear_matrix_, expected.bilinear_matrix_)
    halves = OASIS(random_state=3).partial_fit(X, R, 4000).partial_fit(as_csr(X), R, 6000)
    np.testing.assert_allclose(halves.bilinear_matrix_, learner.bilinear_matrix_, atol=1e-12)


def test_given_and_drawn_triplets_can_follow_each_other(rows):
    X, y = rows
    given = random_triplets(len(X), 50)
    first = OASIS(random_state=0).partial_fit_triplets(X, given).partial_fit(X, y, n_steps=50)
    second = OASIS(random_state=0).partial_fit(X, y, n_steps=50).partial_fit_triplets(X, given)
    assert first.n_steps_ == second.n_steps_ == 100
    drawn = OASIS(n_steps=50, random_state=0).fit(X, y)
    np.testing.assert_array_equal(
        second.bilinear_matrix_, drawn.partial_fit_triplets(X, given).bilinear_matrix_
    )


@pytest.mark.parametrize("n_features", [30, 400])
def test_csr_steps_are_the_twins_whether_differences_are_spread_out_or_not(n_features):
    # Rows of 9 entries: p - n has up to 18, spread out below 180 features.
    rng = np.random.default_rng(3)
    X = np.zeros((40, n_features))
    for row in X:
        row[rng.choice(n_features, 9, replace=False)] = rng.normal(size=9)
    X = normalize(X)
    W = np.eye(n_features)
    oasis_twins.step(X, random_triplets(40), 0.1, W)
    learner = OASIS().partial_fit_triplets(as_csr(X), random_triplets(40))
    np.testing.assert_allclose(learner.bilinear_matrix_, W, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_features", [400, 4000])
def test_a_step_touches_only_the_entries_of_w_that_the_paper_counts(n_features, monkeypatch):
    """At most nnz(q) (nnz(p) + nnz(n)).  The others are NaN: one that is read would spread."""
    monkeypatch.setattr(oasis, "dual_pays", lambda X, n_triplets: False)
    rng = np.random.default_rng(5)
    X = np.zeros((3, n_features))
    for row in X:
        row[rng.choice(n_features, 9, replace=False)] = rng.normal(size=9)
    X = normalize(X)
    counted = np.outer(X[0] != 0, (X[1] != 0) | (X[2] != 0))
    assert 9 * 10 < counted.sum() <= 9 * (9 + 9)
    W = np.where(counted, np.eye(n_features), np.nan)
    assert OASIS()._step(as_csr(X), np.array([[0, 1, 2]]), W) == 1
    expected = np.eye(n_features)
    oasis_twins.step(X, np.array([[0, 1, 2]]), 0.1, expected)
    np.testing.assert_allclose(W, np.where(counted, expected, np.nan), rtol=0, atol=1e-12)


def test_several_labels_are_sampled_as_the_parameters_say(rows):
    X, _ = rows
    R = sparse.csr_array((np.random.default_rng(2).random((len(X), 6)) < 0.3) * 1.0)
    options = {"weighted_positives": True, "negatives": "any", "threshold": 1e-4}
    learner = OASIS(n_steps=200, random_state=0, **options).fit(X, R)
    sampler = RelevanceTripletSampler(
        R, OASIS(random_state=0)._seeded(), weighted=True, negatives="any", threshold=1e-4
    )
    W = np.eye(X.shape[1])
    oasis_twins.step(X, sampler.draw(200), 0.1, W)
    np.testing.assert_allclose(learner.bilinear_matrix_, W, rtol=0, atol=1e-12)
