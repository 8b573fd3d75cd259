"""The baselines against scikit-learn, formulas written out and hand cases."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler, normalize

from oasis_bench.algorithms import (
    ClassifierPosterior,
    Euclidean,
    NearestNeighbourMemory,
    StandardizedEuclidean,
)
from oasis_bench.plugins import learner as learner_module, load_model, save_model
from oasis_bench.system import UsageError


@pytest.fixture
def digits():
    """Training and test rows of unit length of ten digits, 40 and 25 of each, with labels."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    chosen = [rng.permutation(np.flatnonzero(y == digit))[:65] for digit in range(10)]
    train = np.concatenate([of_digit[:40] for of_digit in chosen])
    test = np.concatenate([of_digit[40:] for of_digit in chosen])
    X = normalize(X)
    return X[train], y[train], X[test], y[test]


@pytest.fixture
def words():
    """Thirty sparse rows, each with one to three of five words; nobody has words 1 and 3 of 7."""
    rng = np.random.default_rng(1)
    X = sparse.random_array((30, 8), density=0.4, format="csr", rng=rng)
    R = np.zeros((30, 7))
    for row in R:
        row[rng.choice([0, 2, 4, 5, 6], size=rng.integers(1, 4), replace=False)] = 1
    return X, R


def softmax(scores):
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


# ---- ClassifierPosterior


def test_the_similarity_is_the_probability_that_both_have_one_class(digits):
    X, y, queries, _ = digits
    learned = ClassifierPosterior(C=10).fit(X, y)
    p = LogisticRegression(C=10, max_iter=1000).fit(X, y).predict_proba(queries)
    np.testing.assert_allclose(learned.embed(queries), p, atol=1e-12)
    np.testing.assert_allclose(learned.similarity(queries[:9], queries), p[:9] @ p.T, atol=1e-12)


def test_rounding_does_not_order_posteriors_that_are_nearly_equal():
    rng = np.random.default_rng(0)
    X = normalize(rng.random((80, 300), dtype=np.float32))
    learner = ClassifierPosterior(C=1e-4).fit(X, np.arange(80) % 10)
    P = softmax(X.astype(float) @ learner.coef_.T + learner.intercept_)
    exact = P @ P.T
    assert np.ptp(exact) < 1e-4
    found = learner.similarity(X, X)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-3 * np.ptp(exact))


def test_with_several_labels_it_minimises_the_cross_entropy_of_their_shares(words):
    X, R = words
    learned = ClassifierPosterior(C=2.0).fit(X, sparse.csr_array(R))
    q = R[:, [0, 2, 4, 5, 6]] / R.sum(axis=1, keepdims=True)

    def objective(flat):
        W, b = flat[:40].reshape(5, 8), flat[40:]
        p = softmax(X.toarray() @ W.T + b)
        return 0.5 * (W**2).sum() - 2.0 * (q * np.log(p)).sum()

    at = np.concatenate([learned.coef_.ravel(), learned.intercept_])
    assert np.abs(approx_fprime(at, objective)).max() < 0.01
    assert np.abs(approx_fprime(np.zeros(45), objective)).max() > 0.5


@pytest.mark.parametrize("cls", [ClassifierPosterior, NearestNeighbourMemory])
def test_labels_that_no_row_has_do_not_matter(words, cls):
    X, R = words
    whole = cls().fit(X, sparse.csr_array(R)).similarity(X, X)
    own = cls().fit(X, sparse.csr_array(R[:, [0, 2, 4, 5, 6]])).similarity(X, X)
    np.testing.assert_array_equal(whole, own)


# ---- NearestNeighbourMemory


def test_the_memory_tells_whether_the_nearest_rows_agree(digits):
    X, y, queries, _ = digits
    named = KNeighborsClassifier(1).fit(X, y).predict(queries)
    found = NearestNeighbourMemory().fit(X, y).similarity(queries, queries)
    np.testing.assert_array_equal(found, named[:, None] == named)


def test_of_rows_equally_near_the_first_counts_whatever_the_blocks(monkeypatch):
    # The query lies between the first two rows; the last is a copy of the first, of another class.
    X = np.array([[0.0, 3], [2, 3], [9, 9], [0, 3]]) + 1000
    query = np.array([[1.0, 3]]) + 1000
    for order in ([0, 1, 2, 3], [1, 3, 2, 0], [3, 2, 1, 0]):
        learned = NearestNeighbourMemory().fit(X[order], [0, 1, 2, 3])
        assert learned.nearest(query) == [0]
    rng = np.random.default_rng(0)
    rows, asked = (rng.integers(0, 3, (n, 4)) / 3 for n in (40, 50))  # full of ties
    learned = NearestNeighbourMemory().fit(rows, np.arange(40))
    distances = cdist(asked, rows)
    expected = np.isclose(distances, distances.min(axis=1, keepdims=True)).argmax(axis=1)
    np.testing.assert_array_equal(learned.nearest(asked), expected)
    monkeypatch.setattr(learner_module, "BLOCK_BYTES", 1)
    np.testing.assert_array_equal(learned.nearest(asked), expected)


def test_with_several_labels_the_memory_asks_for_a_shared_one(words):
    X, R = words
    learned = NearestNeighbourMemory().fit(X, sparse.csr_array(R))
    queries = sparse.random_array((20, 8), density=0.4, format="csr", rng=np.random.default_rng(2))
    nearest = cdist(queries.toarray(), X.toarray()).argmin(axis=1)
    expected = (R[nearest] @ R[nearest].T > 0).astype(float)
    np.testing.assert_array_equal(learned.similarity(queries, queries), expected)
    assert 0 < expected.mean() < 1


def test_a_memory_of_sparse_rows_can_be_saved_and_a_damaged_one_is_refused(words, tmp_path):
    X, R = words
    learned = NearestNeighbourMemory().fit(X, sparse.csr_array(R))
    save_model(learned, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert type(loaded.rows_) is sparse.csr_array
    np.testing.assert_array_equal(loaded.similarity(X, X), learned.similarity(X, X))
    learned.rows_ = X.copy()
    learned.rows_.indices[0] = 8  # beyond the last of 8 columns
    save_model(learned, tmp_path / "damaged.npz")
    with pytest.raises(UsageError, match="indices must be < 8"):
        load_model(tmp_path / "damaged.npz")
    sparse_weights = ClassifierPosterior().fit(X, sparse.csr_array(R))
    sparse_weights.coef_ = sparse.csr_array(sparse_weights.coef_)
    with pytest.raises(UsageError, match="coef_ has type object"):
        save_model(sparse_weights, tmp_path / "sparse.npz")


def test_names_of_features_need_no_matrix():
    X = sparse.csr_array((4, 300_000))
    assert len(Euclidean().fit(X).get_feature_names_out()) == 300_000


# ---- StandardizedEuclidean


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_standardised_distances_are_those_of_scikit_learns_scaler(digits, kind):
    X, _, queries, labels = digits
    assert (np.ptp(X, axis=0) == 0).any()  # some pixels are blank in all training pictures
    learned = StandardizedEuclidean().fit(kind(X))
    scaled = StandardScaler().fit(X).transform(queries)
    found = learned.similarity(kind(queries[:20]), kind(queries))
    np.testing.assert_allclose(-found, cdist(scaled[:20], scaled), rtol=1e-9, atol=1e-6)
    expected = Euclidean().fit(X).score(scaled, labels)
    assert learned.score(kind(queries), labels) == pytest.approx(expected, abs=1e-9)


def test_a_feature_that_does_not_vary_is_left_as_it_is():
    X = np.array([[1.0, 5, 0], [3, 5, 0], [1, 5, 0], [3, 5, 8]])
    learned = StandardizedEuclidean().fit(X)
    np.testing.assert_allclose(learned.scale_, [1, 1, np.sqrt(12)])  # of 0, 0, 0, 8: 4 sqrt(3/4)
    np.testing.assert_allclose(learned.components_, np.diag([1, 1, 1 / np.sqrt(12)]))
    pair = [[[0.0, 0, 0], [3, 4, 0]]]
    np.testing.assert_allclose(learned.pair_distance(pair), [5])
