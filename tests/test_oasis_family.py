"""The OASIS family against twins, the papers' equations and cases worked by hand."""

import copy
import threading

import numpy as np
import oasis_twins
import pytest
from oasis_twins import random_triplets
from scipy import sparse
from scipy.linalg import sqrtm
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import (
    OASIS,
    AveragedOASIS,
    CosineOASIS,
    DissimOASIS,
    MiniBatchOASIS,
    OnlineProjOASIS,
    ProjOASIS,
    PsdOASIS,
    WhitenedOASIS,
)
from oasis_bench.algorithms.oasis_symmetric import psd_factor
from oasis_bench.data import symmetry_index
from oasis_bench.sampling import ClassTripletSampler

HAND_ROWS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
FAMILY = [
    OASIS,
    ProjOASIS,
    OnlineProjOASIS,
    DissimOASIS,
    PsdOASIS,
    CosineOASIS,
    AveragedOASIS,
]


def digits():
    X, y = load_digits(return_X_y=True)
    return normalize(X), y


def as_csr(X, index_type=np.int32):
    csr = sparse.csr_array(X)
    csr.indices, csr.indptr = csr.indices.astype(index_type), csr.indptr.astype(index_type)
    return csr


def with_stored_zeros(X):
    """CSR rows that hold each of their numbers, zeros as well."""
    full = sparse.csr_array(np.ones(X.shape))
    full.data[:] = X.ravel()
    return full


# ---- one step, by hand -------------------------------------------------------------------


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_proj_oasis_is_the_symmetric_part_of_the_step_of_oasis(form):
    # q = (1, 0), p = (0, 1), n = q: W becomes [[0.9, 0.1], [0, 1]] (test_oasis.py).
    learner = ProjOASIS().partial_fit_triplets(form(HAND_ROWS), [[0, 1, 2]])
    np.testing.assert_allclose(learner.bilinear_matrix_, [[0.9, 0.05], [0.05, 1]])
    np.testing.assert_allclose(learner.raw_matrix_, [[0.9, 0.1], [0, 1]])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_online_proj_oasis_goes_half_of_each_step_either_way(form):
    # V = [[-1, 1], [0, 0]], (V + V')/2 = [[-1, .5], [.5, 0]], loss 2, |V|^2 = 2: tau = 1.
    X = form(HAND_ROWS)
    bold = OnlineProjOASIS(aggressiveness=5).partial_fit_triplets(X, [[0, 1, 2]])
    np.testing.assert_allclose(bold.bilinear_matrix_, [[0, 0.5], [0.5, 1]])
    # then q'W(p - n) = 0.5 - 0 and the loss 0.5: tau = 0.25
    bold.partial_fit_triplets(X, [[0, 1, 2]])
    np.testing.assert_allclose(bold.bilinear_matrix_, [[-0.25, 0.625], [0.625, 1]])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_dissim_oasis_draws_the_positive_near(form):
    # q - p = (1, -1), q - n = 0: V = [[1, -1], [-1, 1]], |V|^2 = 4, the loss 1 + 2 - 0 = 3.
    X = form(HAND_ROWS)
    bold = DissimOASIS(aggressiveness=5).partial_fit_triplets(X, [[0, 1, 2]])
    np.testing.assert_allclose(bold.dissimilarity_matrix_, [[0.25, 0.75], [0.75, 0.25]])
    # S'(q, p) = -(0.25 - 2 * 0.75 + 0.25) = 1, above S'(q, n) = 0 by the margin
    np.testing.assert_allclose(bold.similarity(X, X)[0], [0, 1, 0], atol=1e-12)
    cautious = DissimOASIS(aggressiveness=0.1).partial_fit_triplets(X, [[0, 1, 2]])
    np.testing.assert_allclose(cautious.dissimilarity_matrix_, [[0.9, 0.1], [0.1, 0.9]])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_psd_oasis_drops_the_negative_eigenvalue(form):
    # W = [[0, 1], [0, 1]] (test_oasis.py); its symmetric part S = [[0, .5], [.5, 1]] has the
    # eigenvalues (1 +- sqrt(2)) / 2, and (S - low I) / sqrt(2) projects on the larger one.
    learner = PsdOASIS(aggressiveness=5).partial_fit_triplets(form(HAND_ROWS), [[0, 1, 2]])
    r = np.sqrt(2)
    high, low = (1 + r) / 2, (1 - r) / 2
    expected = high * (np.array([[0, 0.5], [0.5, 1]]) - low * np.eye(2)) / r
    np.testing.assert_allclose(learner.bilinear_matrix_, expected)
    assert learner.components_.shape == (1, 2)


def test_averaged_oasis_deals_triplets_in_turn_and_takes_the_mean():
    # One learner does the step of test_oasis.py, the other stays at I.
    learner = AveragedOASIS(n_learners=2).partial_fit_triplets(HAND_ROWS, [[0, 1, 2]])
    np.testing.assert_allclose(learner.bilinear_matrix_, [[0.95, 0.05], [0, 1]])
    learner.partial_fit_triplets(HAND_ROWS, [[0, 1, 2]])
    np.testing.assert_allclose(learner.bilinear_matrix_, [[0.9, 0.1], [0, 1]])
    assert (learner.n_steps_, learner.n_updates_) == (2, 2)


# ---- kernels and twins -------------------------------------------------------------------


FORMS = [np.asarray, as_csr, lambda X: as_csr(X, np.int64), with_stored_zeros]


def twin_of(learner, X, triplets):
    """Return the matrix and the updates of the NumPy twin."""
    W = np.eye(X.shape[1])
    step = {
        OnlineProjOASIS: oasis_twins.step_online_proj,
        DissimOASIS: oasis_twins.step_dissim,
    }[type(learner)]
    return W, step(X, triplets, learner.aggressiveness, W)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("learner", [OnlineProjOASIS(), DissimOASIS()])
def test_the_kernel_computes_what_the_twin_does(rows, form, learner):
    X, _ = rows
    triplets = random_triplets(len(X))
    W, n_updates = twin_of(learner, X, triplets)
    found = copy.deepcopy(learner).partial_fit_triplets(form(X), triplets)
    np.testing.assert_allclose(getattr(found, found._learned), W, rtol=1e-12, atol=1e-12)
    assert (found.n_updates_, found.n_steps_) == (n_updates, 500)
    assert 0 < n_updates < 500


@pytest.mark.parametrize("kind", FAMILY)
@pytest.mark.parametrize("form", [np.asarray, as_csr])
def test_single_precision_stays_near_double(rows, kind, form):
    X, _ = rows
    triplets = random_triplets(len(X), 200)
    single = kind().partial_fit_triplets(form(X.astype(np.float32)), triplets)
    double = kind().partial_fit_triplets(X, triplets)
    found = single.similarity(X.astype(np.float32), X.astype(np.float32))
    assert found.dtype == np.float32
    # distances near 0 are roots of a cancelled difference: they keep half of the digits
    np.testing.assert_allclose(found, double.similarity(X, X), atol=2e-3)


@pytest.mark.parametrize("kind", [OnlineProjOASIS, DissimOASIS])
def test_a_triplet_that_says_nothing_changes_nothing(rows, kind):
    X, _ = rows
    learner = kind().partial_fit_triplets(X, [[0, 3, 3], [3, 5, 5]])
    np.testing.assert_array_equal(getattr(learner, learner._learned), np.eye(X.shape[1]))
    assert (learner.n_steps_, learner.n_updates_) == (2, 0)


@pytest.mark.parametrize("kind", FAMILY)
def test_given_triplets_in_two_calls_equal_one(rows, kind):
    X, _ = rows
    options = {"projection_interval": 70} if kind is PsdOASIS else {}
    triplets = random_triplets(len(X), 301)
    whole = kind(**options).partial_fit_triplets(X, triplets)
    halves = kind(**options).partial_fit_triplets(X, triplets[:103])
    halves.partial_fit_triplets(X, triplets[103:])
    scores = halves.similarity(X, X), whole.similarity(X, X)
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-12)
    assert halves.n_steps_ == whole.n_steps_ == 301


# ---- symmetric ---------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [CosineOASIS, PsdOASIS])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_few_rows_have_the_psd_part_of_their_span(cls, kind):
    rng = np.random.default_rng(0)
    X = normalize(rng.normal(size=(20, 50)))
    X[3] = X[2]
    learned = cls(n_steps=3000, random_state=0).fit(kind(X), np.arange(20) % 3)
    values, vectors = np.linalg.eigh((learned.raw_matrix_ + learned.raw_matrix_.T) / 2)
    assert (values < -0.01).any()
    L = learned.components_
    expected = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(L.T @ L, expected, atol=1e-12)
    np.testing.assert_allclose((L**2).sum(axis=1), values[values > 0][::-1], atol=1e-12)
    # Rows of another span then: the identity is not outside of theirs.
    others = normalize(rng.normal(size=(20, 50)))
    learned.partial_fit(kind(others), np.arange(20) % 3, n_steps=100)
    values, vectors = np.linalg.eigh((learned.raw_matrix_ + learned.raw_matrix_.T) / 2)
    expected = (vectors * np.maximum(values, 0)) @ vectors.T
    np.testing.assert_allclose(learned.components_.T @ learned.components_, expected, atol=1e-12)


def test_symmetry_index_of_known_matrices():
    symmetric, skew = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([[0.0, 1.0], [-1.0, 0.0]])
    assert symmetry_index(symmetric) == pytest.approx(1)
    assert symmetry_index(skew) == 0
    # the two parts are orthogonal: |W|^2 = 15 + 2
    assert symmetry_index(symmetric + skew) == pytest.approx(np.sqrt(15 / 17))
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        symmetry_index(np.ones((2, 3)))
    for W in (np.zeros((2, 2)), np.full((2, 2), np.nan)):
        with pytest.raises(ValueError, match="norm"):
            symmetry_index(W)


def test_dissim_scores_are_its_quadratic_form(rows):
    X, y = rows
    learner = DissimOASIS(n_steps=2000, random_state=0).fit(X, y)
    W = learner.dissimilarity_matrix_
    differences = X[:, None] - X[None]
    expected = -np.einsum("ijk,kl,ijl->ij", differences, W, differences)
    for form in (np.asarray, as_csr, sparse.csr_matrix):
        np.testing.assert_allclose(learner.similarity(form(X), form(X)), expected, atol=1e-10)
    pairs = np.stack([X[:10], X[10:20]], axis=1)
    np.testing.assert_allclose(learner.pair_score(pairs), np.diag(expected[:10, 10:20]))


# ---- positive ----------------------------------------------------------------------------


def test_the_projection_is_the_nearest_psd_matrix():
    # Higham (1988): (S + H) / 2 with H the polar factor of the symmetric part S.
    rng = np.random.default_rng(4)
    W = rng.normal(size=(12, 12))
    L = psd_factor(W)
    P, S = L.T @ L, (W + W.T) / 2
    np.testing.assert_allclose(P, (S + np.real(sqrtm(S @ S))) / 2, atol=1e-8)
    # and by what makes a projection on a cone: <W - P, P> = 0 and <W - P, Q> <= 0 for PSD Q
    assert np.sum((W - P) * P) == pytest.approx(0, abs=1e-10)
    for _ in range(50):
        B = rng.normal(size=(12, rng.integers(1, 13)))
        assert np.sum((W - P) * (B @ B.T)) <= 1e-10
    assert np.linalg.eigvalsh(P).min() > -1e-12


def test_psd_oasis_projects_each_so_many_steps(rows):
    X, _ = rows
    triplets = random_triplets(len(X), 150)
    W = np.eye(X.shape[1])
    for start in (0, 60, 120):
        oasis_twins.step(X, triplets[start : start + 60], 0.5, W)
        if start < 120:  # the last 30 steps are not 60
            values, vectors = np.linalg.eigh((W + W.T) / 2)
            assert values.min() < 0
            W = (vectors * np.maximum(values, 0)) @ vectors.T
    learner = PsdOASIS(projection_interval=60, aggressiveness=0.5).partial_fit_triplets(X, triplets)
    np.testing.assert_allclose(learner.raw_matrix_, W, atol=1e-10)
    assert learner.n_steps_ == 150


@pytest.mark.parametrize("projection_interval", [None, 500])
@pytest.mark.parametrize("form", [np.asarray, as_csr])
def test_psd_oasis_embeds_rows_so_that_inner_products_are_its_similarity(form, projection_interval):
    X, y = digits()
    X, y = form(X[:300]), y[:300]
    learner = PsdOASIS(projection_interval=projection_interval, n_steps=5000, random_state=0).fit(
        X, y
    )
    embedded = learner.transform(X)
    np.testing.assert_allclose(embedded @ embedded.T, learner.similarity(X, X), atol=1e-10)
    L = learner.components_
    np.testing.assert_allclose(L.T @ L, learner.bilinear_matrix_, atol=1e-12)
    assert embedded.shape == (300, len(L))


@pytest.mark.parametrize("form", [np.asarray, as_csr])
def test_cosine_oasis_is_the_cosine_of_the_rows_that_psd_oasis_embeds(form):
    X, y = digits()
    X, y = form(X[:300]), y[:300]
    embedded = PsdOASIS(n_steps=5000, random_state=0).fit(X, y).transform(X)
    learner = CosineOASIS(n_steps=5000, random_state=0).fit(X, y)
    expected = 1 - cdist(embedded, embedded, "cosine")
    np.testing.assert_allclose(learner.similarity(X, X), expected, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(learner.transform(X), axis=1), 1)


# ---- Whitened ----------------------------------------------------------------------------


def test_whitened_oasis_is_cosine_oasis_on_rows_whitened_within_classes():
    X, y = digits()
    X, y = X[:300] - X[:300].mean(axis=0), y[:300]
    s, o = 0.3, 0.4
    within = sum(np.cov(X[y == c].T, bias=True) * np.mean(y == c) for c in range(10))
    ridge = s * np.linalg.eigvalsh(within).clip(0).sum() / np.linalg.matrix_rank(within)
    values, axes = np.linalg.eigh(((1 - s) * within + ridge * np.eye(64)) / ridge)
    whitener = axes / np.sqrt(values) @ axes.T
    rows = normalize(X @ whitener)
    means = np.stack([rows[y == c].mean(axis=0) for c in range(10)])
    span = np.linalg.svd(means - means.mean(axis=0))[2][:9]
    A = (o * np.eye(64) + (1 - o) * span.T @ span) @ whitener
    how = {"aggressiveness": 0.5, "random_state": 0}
    expected = CosineOASIS(n_steps=3000, **how).fit(normalize(X @ A.T), y)
    learner = WhitenedOASIS(shrinkage=s, outside=o, n_steps=1000, **how).fit(X, y)
    learner.partial_fit(X, y, n_steps=2000)  # goes on from W and from the same A
    np.testing.assert_allclose(learner.start_, A, atol=1e-9)
    np.testing.assert_allclose(
        learner.similarity(X, X), expected.similarity(X @ A.T, X @ A.T), atol=1e-6
    )
    relevance = sparse.csr_array(np.eye(10)[y])
    learner.partial_fit(X, relevance, n_steps=500)
    expected.partial_fit(normalize(X @ A.T), relevance, n_steps=500)
    np.testing.assert_allclose(
        learner.similarity(X, X), expected.similarity(X @ A.T, X @ A.T), atol=1e-6
    )


def test_whitened_oasis_is_cosine_oasis_where_no_class_varies():
    X, y = digits()
    one_each = [np.flatnonzero(y == c)[0] for c in range(10)] * 2
    rows, labels = X[one_each], y[one_each]
    how = {"n_steps": 500, "random_state": 0}
    similarity = WhitenedOASIS(**how).fit(rows, labels).similarity(X[:50], X[:50])
    expected = CosineOASIS(**how).fit(rows, labels).similarity(X[:50], X[:50])
    np.testing.assert_allclose(similarity, expected, atol=1e-9)


# ---- averaged ----------------------------------------------------------------------------


def test_averaged_oasis_is_the_mean_of_learners_on_streams_of_their_own(rows):
    X, y = rows
    learner = AveragedOASIS(n_learners=3, n_steps=9000, random_state=0)
    states = learner._seeded()
    learner.fit(X, y)
    each = [
        OASIS().partial_fit_triplets(X, ClassTripletSampler(y, state).draw(9000)).bilinear_matrix_
        for state in states
    ]
    np.testing.assert_array_equal(learner.matrices_, each)
    np.testing.assert_allclose(learner.bilinear_matrix_, sum(each) / 3, atol=1e-14)
    assert learner.n_steps_ == 27_000
    assert not np.array_equal(each[0], each[1])


@pytest.mark.filterwarnings("ignore:.*give no query")
def test_the_number_of_threads_does_not_change_a_bit(rows):
    X, y = rows
    R = sparse.csr_array(np.random.default_rng(2).random((40, 9)) < 0.2)
    for labels in (y, R):
        one, four, all_of_them = (
            AveragedOASIS(n_threads=n, n_steps=20_000, random_state=0).fit(X, labels)
            for n in (1, 4, None)
        )
        np.testing.assert_array_equal(one.matrices_, four.matrices_)
        np.testing.assert_array_equal(one.matrices_, all_of_them.matrices_)
        assert one.n_updates_ == four.n_updates_ == all_of_them.n_updates_


def test_averaged_oasis_takes_no_more_threads_than_it_is_given(rows):
    class Watched(AveragedOASIS):
        def _step(self, X, triplets, W):
            names.add(threading.current_thread().name)
            return super()._step(X, triplets, W)

    for limit, n_threads, expected in [(1, None, 1), (8, 1, 1), (1, 3, 3)]:
        names = set()
        with threadpool_limits(limit):
            Watched(n_learners=3, n_threads=n_threads, n_steps=500_000, random_state=0).partial_fit(
                *rows
            )
        assert len(names) == expected


# ---- parameters --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner", [OASIS(), MiniBatchOASIS(batch_size=30_000), AveragedOASIS(n_learners=2)]
)
def test_progress_rises_to_the_number_of_steps_and_changes_nothing(rows, learner):
    told = []
    learner = clone(learner).set_params(random_state=0)
    quiet = clone(learner).partial_fit(*rows, n_steps=100_000)
    learner.partial_fit(*rows, 100_000, lambda what, done, total: told.append((done, total)))
    done = [count for count, _ in told]
    assert len(done) > 1
    assert done == sorted(done)
    assert told[-1] == (100_000, 100_000)
    np.testing.assert_array_equal(learner.bilinear_matrix_, quiet.bilinear_matrix_)
