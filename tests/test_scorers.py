"""Scorers and metrics as scikit-learn takes them, against its own measures and metric-learn's."""

import pickle
from collections import Counter

import numpy as np
import pytest
from definitions import mean_average_precision
from metric_learn.base_metric import MahalanobisMixin
from scipy.spatial.distance import cdist
from sklearn.metrics import ndcg_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    LeaveOneOut,
    cross_val_score,
    cross_validate,
)
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from oasis_bench import scorers
from oasis_bench.algorithms import LEGO, LMNN, OASIS, RCA, Euclidean
from oasis_bench.plugins import digit_rows

X, Y = digit_rows()
NAMES = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[
    Y
]
OTHERS = ~np.eye(len(Y), dtype=bool)


def scaled_oasis():
    return make_pipeline(StandardScaler(), OASIS(n_steps=500, random_state=0))


def hits(scores, y):
    """Return the hits down the ranking of each item that has another of its class."""
    orders = (np.argsort(-row, kind="stable") for row in scores)
    ranked = [y[order[order != i]] == y[i] for i, order in enumerate(orders)]
    return [row for row in ranked if row.any()]


@pytest.fixture(scope="module")
def fitted():
    """A pipeline, and the scores of all items as its steps give them by hand."""
    pipeline = scaled_oasis().fit(X, Y)
    rows = pipeline[0].transform(X)
    return pipeline, rows @ pipeline[1].get_bilinear_matrix() @ rows.T


def test_each_scorer_is_the_measure_of_its_name(fitted):
    pipeline, scores = fitted
    ranked = hits(scores, Y)
    gains = [ndcg_score([Y[o] == Y[i]], [scores[i, o]]) for i, o in enumerate(OTHERS)]
    relevant = [int(row.sum()) for row in ranked]
    expected = {
        scorers.mean_average_precision: mean_average_precision(scores, Y),
        scorers.ndcg: np.mean(gains),
        scorers.precision_at_k(5): np.mean([row[:5].mean() for row in ranked]),
        scorers.recall_at_k(2): np.mean([row[:2].any() for row in ranked]),
        scorers.r_precision: np.mean(
            [row[:R].mean() for row, R in zip(ranked, relevant, strict=True)]
        ),
        scorers.map_at_r: np.mean(
            [
                sum(row[: i + 1].mean() for i in range(R) if row[i]) / R
                for row, R in zip(ranked, relevant, strict=True)
            ]
        ),
    }
    for scorer, value in expected.items():
        assert scorer(pipeline, X, Y) == pytest.approx(value, abs=1e-9), scorer
        assert scorer(pipeline, X, NAMES) == pytest.approx(value, abs=1e-9), scorer


def test_neighbours_vote_leaving_each_item_out():
    learner = RCA().fit(X, Y)
    rows = learner.transform(X)
    theirs = cross_val_score(KNeighborsClassifier(1), rows, Y, cv=LeaveOneOut()).mean()
    assert scorers.knn_accuracy()(learner, X, NAMES) == pytest.approx(theirs)
    nearest = (cdist(rows, rows) + np.diag(np.full(len(Y), np.inf))).argsort()[:, :3]
    votes = [
        Counter(Y[three].tolist()).most_common(1)[0][0] for three in nearest
    ]  # ties: the first
    assert scorers.knn_accuracy(3)(learner, X, NAMES) == pytest.approx(np.mean(votes == Y))


def test_scikit_learns_tools_take_learners_and_scorers_as_they_stand(fitted):
    folds = KFold(3)
    bare = OASIS(n_steps=500, random_state=0)
    mean_average_precision = cross_val_score(bare, X, Y, cv=folds)
    named = cross_val_score(bare, X, Y, cv=folds, scoring=scorers.mean_average_precision)
    assert np.array_equal(mean_average_precision, named)

    several = scorers.measures("mAP", "precision@5")
    found = cross_validate(scaled_oasis(), X, Y, cv=folds, scoring=several)
    one = {"P": scorers.precision_at_k(5), "kNN": scorers.knn_accuracy(3)}
    apart = cross_validate(scaled_oasis(), X, Y, cv=folds, scoring=one)
    assert np.array_equal(found["test_precision@5"], apart["test_P"])
    assert np.isfinite(apart["test_kNN"]).all()
    assert np.array_equal(found["test_mAP"], cross_val_score(scaled_oasis(), X, Y, cv=folds))

    grid = {"oasis__n_steps": [1, 500]}
    search = GridSearchCV(scaled_oasis(), grid, cv=folds, scoring=several, refit="precision@5")
    search.fit(X, Y)
    assert search.best_score_ == max(search.cv_results_["mean_test_precision@5"])
    assert search.best_estimator_.score(X, Y) == scorers.mean_average_precision(search, X, Y)


def test_similarity_goes_through_pipelines_and_searches(fitted):
    pipeline, scores = fitted
    assert scorers.similarity_of(pipeline, X[:3], X) == pytest.approx(scores[:3])
    nested = Pipeline([("none", "passthrough"), ("last", pipeline)])
    assert scorers.similarity_of(nested, X[:3], X) == pytest.approx(scores[:3])
    search = GridSearchCV(nested, {"last__oasis__n_steps": [500]}, cv=2).fit(X, Y)
    assert scorers.similarity_of(search, X[:3], X) == pytest.approx(scores[:3])
    learner = Euclidean().fit(X)
    assert scorers.similarity_of(learner, X[:3], X) == pytest.approx(-cdist(X[:3], X), abs=1e-6)


@pytest.mark.parametrize("kind", [LMNN, RCA, Euclidean, LEGO])
def test_get_metric_is_metric_learns(kind):
    learner = kind().fit(X, Y)
    theirs, ours = MahalanobisMixin.get_metric(learner), learner.get_metric()
    for squared in (False, True):
        expected = theirs(X[0], X[1], squared=squared)
        assert ours(X[0], X[1], squared=squared) == pytest.approx(expected)
    assert ours(list(X[0]), X[1]) == pytest.approx(learner.pair_distance(X[None, :2])[0])
    if kind is not Euclidean:  # L = I has no setter
        learner.components_ = 2 * learner.components_
    assert ours(X[0], X[1]) == pytest.approx(theirs(X[0], X[1]))
    with pytest.raises(ValueError, match=r"shape \(2, 64\): \(64,\) is needed"):
        ours(X[:2], X[0])


def test_get_metric_is_a_metric_of_scikit_learns_neighbours():
    learner = LMNN().fit(X, Y)
    metric = pickle.loads(pickle.dumps(learner.get_metric()))
    by_metric = KNeighborsClassifier(1, metric=metric).fit(X[::2], Y[::2])
    by_rows = KNeighborsClassifier(1).fit(learner.transform(X[::2]), Y[::2])
    rows = learner.transform(X[1::2])
    assert np.array_equal(by_metric.predict(X[1::2]), by_rows.predict(rows))
