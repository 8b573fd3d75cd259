"""Estimators of other libraries: as they are by themselves, and where they are helped."""

import inspect
import warnings

import metric_learn
import numpy as np
import pytest
import sklearn.utils
from scipy.spatial.distance import cdist
from sklearn.base import TransformerMixin, clone
from sklearn.datasets import load_iris

from oasis_bench.algorithms import (
    MetricLearnITML,
    MetricLearnLMNN,
    MetricLearnNCA,
)

QUICK = {
    metric_learn.LMNN: MetricLearnLMNN(regularization=0.25, max_iter=60),
    metric_learn.NCA: MetricLearnNCA(max_iter=20),
    metric_learn.ITML_Supervised: MetricLearnITML(gamma=0.1, max_iter=20, random_state=0),
}
LEFT_OUT = {
    metric_learn.MLKR,  # a regression
    metric_learn.SDML_Supervised,  # calls scikit-learn with an argument that is gone
    metric_learn.RCA,  # these three have the closed forms of our learners
    metric_learn.RCA_Supervised,
    metric_learn.LFDA,
    metric_learn.Covariance,
    metric_learn.MMC_Supervised,  # it returned its start
    metric_learn.LSML_Supervised,  # slow, and ranked low
    metric_learn.SCML_Supervised,
}


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
    known = estimator().get_params()  # LFDA and Covariance have no random_state
    params = {name: value for name, value in learner.get_params().items() if name in known}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return distances(estimator(**params).fit(X, y), X)


@pytest.mark.parametrize("estimator", QUICK)
def test_its_distances_are_those_of_metric_learn(iris, estimator):
    learner = clone(QUICK[estimator]).fit(*iris)
    expected = by_itself(estimator, learner, *iris)
    np.testing.assert_allclose(distances(learner, iris[0]), expected, rtol=1e-7, atol=1e-9)
    assert expected.max() > 0.1


def test_all_that_learns_from_class_labels_has_an_adapter():
    classes = {item for item in vars(metric_learn).values() if isinstance(item, type)}
    assert {c for c in classes if issubclass(c, TransformerMixin)} == {*QUICK, *LEFT_OUT}


def test_the_bridge_changes_metric_learn_and_not_scikit_learn(iris):
    # metric-learn's own class must fit on the installed scikit-learn once ours is imported
    metric_learn.LMNN(max_iter=3).fit(*iris)
    assert "force_all_finite" not in inspect.signature(sklearn.utils.check_array).parameters


def test_given_pairs_give_the_matrix_that_the_library_gives():
    learner, reference = MetricLearnITML(gamma=0.1), metric_learn.ITML(gamma=0.1)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4)) * [1, 1, 5, 5]
    X[40:, :2] = X[:40, :2] + 0.1 * rng.normal(size=(40, 2))  # pairs agree in two of the features
    first = np.arange(40)
    alike, unlike = (np.column_stack([first, 40 + np.roll(first, n)]) for n in (0, 7))
    pairs = X[np.concatenate([alike, unlike])]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = reference.fit(pairs, np.repeat([1, -1], 40)).get_mahalanobis_matrix()
        found = learner.partial_fit_pairs(X, alike, unlike).get_mahalanobis_matrix()
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert np.diag(found)[:2].min() > 10 * np.diag(found)[2:].max()
