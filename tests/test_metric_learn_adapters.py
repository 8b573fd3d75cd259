"""metric-learn's estimators: as they are by themselves, and where they are helped or refused."""

import inspect
import tracemalloc
import warnings

import metric_learn
import numpy as np
import pytest
import sklearn.utils
from definitions import lmnn_objective
from scipy.spatial.distance import cdist
from sklearn.base import TransformerMixin, clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import (
    MetricLearnCovariance,
    MetricLearnITML,
    MetricLearnLFDA,
    MetricLearnLMNN,
    MetricLearnLSML,
    MetricLearnMMC,
    MetricLearnNCA,
    MetricLearnRCA,
    MetricLearnSCML,
)
from oasis_bench.plugins import LearnerContract

QUICK = {
    metric_learn.LMNN: MetricLearnLMNN(regularization=0.25, max_iter=60),
    metric_learn.NCA: MetricLearnNCA(max_iter=20),
    metric_learn.LFDA: MetricLearnLFDA(k=2),
    metric_learn.RCA_Supervised: MetricLearnRCA(n_chunks=20, random_state=0),
    metric_learn.Covariance: MetricLearnCovariance(),
    metric_learn.ITML_Supervised: MetricLearnITML(gamma=0.1, max_iter=20, random_state=0),
    metric_learn.MMC_Supervised: MetricLearnMMC(max_proj=10_000, max_iter=20, random_state=0),
    metric_learn.LSML_Supervised: MetricLearnLSML(n_constraints=50, random_state=0),
    metric_learn.SCML_Supervised: MetricLearnSCML(n_basis=20, max_iter=600, random_state=0),
}
LEFT_OUT = {
    metric_learn.MLKR,  # a regression
    metric_learn.SDML_Supervised,  # calls scikit-learn with an argument that is gone
    metric_learn.RCA,  # of chunklets, not of labels
}
OF_COVARIANCE = (metric_learn.LFDA, metric_learn.RCA_Supervised, metric_learn.Covariance)


@pytest.fixture(autouse=True)
def one_thread():
    """On rows this few, threads of k-means and of BLAS wait for each other most of the time."""
    with threadpool_limits(1):
        yield


class TestContract(LearnerContract):
    """The contract, with parameters that take little time."""

    @pytest.fixture(
        params=[
            MetricLearnLMNN(max_iter=15),
            MetricLearnNCA(max_iter=10),
            MetricLearnLFDA(),
            MetricLearnRCA(n_chunks=20),
            MetricLearnCovariance(),
            MetricLearnITML(max_iter=4),
            MetricLearnMMC(max_proj=5),
            MetricLearnLSML(max_iter=100),
            MetricLearnSCML(n_basis=10, max_iter=40),
        ],
        ids=lambda learner: learner.name,
    )
    def unfitted(self, request):
        seeded = {"random_state": 0} if "random_state" in request.param.get_params() else {}
        return clone(request.param).set_params(**seeded)


@pytest.fixture
def iris():
    """Every third iris, moved a little: its millimetres make many distances equal."""
    X, y = load_iris(return_X_y=True)
    return (X + 0.01 * np.random.default_rng(0).normal(size=X.shape))[::3], y[::3]


def distances(learner, X):
    Z = learner.transform(X)
    return cdist(Z, Z)


def by_itself(estimator, learner, X, y):
    """Return the distances of metric-learn's `estimator`, made with the learner's parameters."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return distances(estimator(**learner.get_params()).fit(X, y), X)


@pytest.mark.parametrize("estimator", QUICK)
def test_its_distances_are_those_of_metric_learn(iris, estimator):
    learner = clone(QUICK[estimator]).fit(*iris)
    expected = by_itself(estimator, learner, *iris)
    np.testing.assert_allclose(distances(learner, iris[0]), expected, rtol=1e-7, atol=1e-9)
    assert expected.max() > 0.1


def test_all_that_learns_from_class_labels_has_an_adapter():
    classes = {item for item in vars(metric_learn).values() if isinstance(item, type)}
    assert {c for c in classes if issubclass(c, TransformerMixin)} == {*QUICK, *LEFT_OUT}


@pytest.mark.parametrize("estimator", OF_COVARIANCE)
def test_a_feature_that_never_varies_changes_no_distance(iris, estimator):
    X, y = iris
    learner = clone(QUICK[estimator])
    blank = np.c_[X, np.full(len(X), 7.0), X[:, 0]]  # and a copy of a feature
    found = distances(learner.fit(blank, y), blank)
    wider = by_itself(estimator, learner, X * [np.sqrt(2), 1, 1, 1], y)
    np.testing.assert_allclose(found, wider, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(
    ("learner", "n_axes"),
    [
        (MetricLearnLFDA(), 3),  # 8 rows less 2 means
        (MetricLearnRCA(n_chunks=3), 1),  # differences of 3 pairs
        (MetricLearnCovariance(), 3),  # 8 rows less a mean
    ],
)
def test_axes_are_half_as_many_as_the_degrees_of_freedom(iris, learner, n_axes):
    X, y = (part[np.r_[0:4, 20:24]] for part in iris)
    assert learner.fit(X, y).components_.shape == (n_axes, 4)
    pairs = [0, 1, 4, 5]
    assert learner.refusal(X[pairs], y[pairs]) == {
        MetricLearnLFDA: "metric-learn-LFDA needs a covariance of at least 4 degrees of freedom, "
        "but 4 rows in 2 classes give 2: take more rows a class"
    }.get(type(learner))


@pytest.mark.parametrize("estimator", [metric_learn.ITML_Supervised, metric_learn.RCA_Supervised])
def test_classes_below_zero_are_classes(iris, estimator):
    X, y = iris
    found, expected = (
        clone(QUICK[estimator]).fit(X, labels).similarity(X, X) for labels in (y - 2, y)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("pull_weight", [0.125, 0.5])
def test_lmnn_comes_to_a_minimum_of_the_objective(iris, pull_weight):
    X, y = iris
    learner = MetricLearnLMNN(regularization=pull_weight, convergence_tol=1e-6, max_iter=600)
    L = learner.fit(X, y).components_
    reached = lmnn_objective(L, X, y, 3, pull_weight)
    assert reached < 0.7 * lmnn_objective(np.eye(4), X, y, 3, pull_weight)
    rng = np.random.default_rng(0)
    nearby = [
        lmnn_objective(L + 0.05 * rng.normal(size=L.shape), X, y, 3, pull_weight) for _ in "12345"
    ]
    assert reached < min(nearby)


def test_lmnn_of_rotated_rows_gives_the_same_distances(iris):
    X, y = iris
    rotation, _ = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))
    plain = MetricLearnLMNN(max_iter=50).fit(X, y).similarity(X, X)
    rotated = MetricLearnLMNN(max_iter=50).fit(X @ rotation, y).similarity(*[X @ rotation] * 2)
    np.testing.assert_allclose(rotated, plain, rtol=1e-6, atol=1e-6)


def test_what_a_small_class_cannot_give_is_lowered_and_said(iris):
    X, y = iris
    few = np.r_[0:3, 20:40]
    with pytest.warns(UserWarning, match="n_neighbors=3 is lowered to 2: the smallest class has 3"):
        found = MetricLearnLMNN(max_iter=5).fit(X[few], y[few])
    assert str(found) == str(MetricLearnLMNN(max_iter=5))
    with pytest.warns(UserWarning, match="n_chunks=100 is lowered to 11: 23 rows give no more"):
        MetricLearnRCA().fit(X[few], y[few])


@pytest.mark.parametrize("learner", [MetricLearnLMNN(), MetricLearnLFDA(), MetricLearnSCML()])
def test_a_class_of_one_row_is_refused_before_and_by_a_fit(iris, learner):
    X, y = (part[np.r_[0, 20:40]] for part in iris)
    reason = learner.refusal(X, y)
    assert reason == f"class 0 has 1 row, but {learner.name} needs at least 2 rows of each class"
    with pytest.raises(ValueError, match=reason):
        learner.fit(X, y)
    assert learner.refusal(*iris) is None


@pytest.mark.parametrize("learner", QUICK.values())
def test_rows_that_are_all_equal_are_refused(learner):
    X, y = np.full((60, 3), 0.1), np.arange(60) % 3
    assert learner.refusal(X, y) == f"all 60 rows are equal: {learner.name} needs rows that differ"
    with pytest.raises(ValueError, match="all 60 rows are equal"):
        learner.fit(X, y)


@pytest.mark.parametrize("learner", QUICK.values())
def test_what_does_not_fit_the_memory_is_refused(learner):
    X = np.broadcast_to(np.float64(0), (10**6, 10**6))  # takes no memory itself
    reason = learner.refusal(X, np.arange(10**6) % 10)
    assert reason.startswith(f"{learner.name} on 1000000 rows of 1000000 features needs")
    assert reason.endswith("are free: use fewer rows or features")


@pytest.mark.parametrize(
    "learner",
    [
        MetricLearnLMNN(max_iter=1),
        MetricLearnNCA(max_iter=1),
        MetricLearnITML(max_iter=1),
        MetricLearnMMC(max_iter=1, max_proj=1),
        MetricLearnLSML(max_iter=1),
        MetricLearnSCML(max_iter=1, n_basis=20),
        MetricLearnLFDA(),
        MetricLearnRCA(),
        MetricLearnCovariance(),
    ],
)
def test_the_memory_of_which_it_warns_is_about_what_a_fit_takes(learner):
    X, y = load_digits(return_X_y=True)
    X, y = normalize(X)[:300], y[:300]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tracemalloc.start()
        try:
            learner.fit(X, y)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert 0.7 < 8 * learner._n_numbers(*X.shape, 10) / peak < 1.5


def test_mmc_says_where_it_returns_its_start(iris):
    X, y = iris
    with pytest.warns(ConvergenceWarning, match="max_proj=1 "):
        learner = MetricLearnMMC(max_proj=1, random_state=0).fit(X, y)
    np.testing.assert_allclose(-learner.similarity(X, X), cdist(X, X), atol=1e-6)


def test_scml_without_a_direction_that_helps_has_all_distances_zero():
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.arange(30) % 3
    with pytest.warns(UserWarning, match="reduces the dimension to 0"):
        learner = MetricLearnSCML(n_basis=10, max_iter=500, random_state=0).fit(X, y)
    assert not learner.similarity(X, X).any()


def test_the_bridge_changes_metric_learn_and_not_scikit_learn(iris):
    # metric-learn's own class must fit on the installed scikit-learn once ours is imported
    metric_learn.LMNN(max_iter=3).fit(*iris)
    assert "force_all_finite" not in inspect.signature(sklearn.utils.check_array).parameters
