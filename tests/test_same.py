"""Whether two items are of one class: the calibrated probabilities of models."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, KFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

import oasis_bench
from oasis_bench import scorers
from oasis_bench.algorithms import LDA, Euclidean
from oasis_bench.plugins import Blend, Model, load_model, save_model
from oasis_bench.system import UsageError
from oasis_bench.tasks import Calibration

DIGITS = train_test_split(*load_digits(return_X_y=True), train_size=600, random_state=0)


def pairs_of(y):
    i, j = np.triu_indices(len(y), 1)
    return (i, j), y[i] == y[j]


def test_pairs_of_a_fold_are_scored_without_it_and_calibrated_by_scikit_learn():
    X, _, y, _ = DIGITS
    model = Model(make_pipeline(StandardScaler(), Euclidean().fit(X[:9], y[:9])).steps)
    model.steps[0][1].fit(X)
    model.fit_same(X, y)
    scores, labels = [], []
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        rows = StandardScaler().fit(X[train]).transform(X[test])
        pairs, same = pairs_of(y[test])
        scores.append(-cdist(rows, rows)[pairs])
        labels.append(same)
    scores, same = map(np.concatenate, (scores, labels))
    prior = np.mean(pairs_of(y)[1])
    weights = np.where(same, prior / same.mean(), (1 - prior) / (1 - same.mean()))
    expected = IsotonicRegression(out_of_bounds="clip").fit(scores, same, weights)
    assert model.same_.prior == pytest.approx(prior)
    at = np.quantile(scores, np.linspace(0.5, 0.999, 50))
    np.testing.assert_allclose(model.same_(at), expected.predict(at), atol=0.02)
    a, b = X[:5], X[5:9]
    by_hand = -cdist(model[0].transform(a), model[0].transform(b))
    np.testing.assert_allclose(model.same_probability(a, b), model.same_(by_hand), rtol=1e-6)


def fitted(name, use):
    X, _, y, _ = DIGITS
    return oasis_bench.fit((X, y), name, use=use, search=3, inner_folds=2, max_steps=2000)


@pytest.mark.parametrize(("name", "use"), [("LDA", "posterior"), ("OASIS", "direct")])
def test_probabilities_are_reliable_on_rows_that_nothing_has_seen(name, use, tmp_path):
    X, new, y, labels = DIGITS
    model = fitted(name, use)
    with pytest.raises(UsageError, match=r"not calibrated yet: call fit_same\(X, y\)"):
        model.same_probability(new, new)
    assert model.fit_same(X, y) is model
    found = model.same_probability(new[:600], new[:600])
    np.testing.assert_allclose(found, found.T)  # although OASIS is not symmetric
    pairs, same = pairs_of(labels[:600])
    p = found[pairs]
    error = 0.0
    for tenth in range(10):
        own = (10 * p).astype(int) == tenth
        error += abs(p[own].sum() - same[own].sum()) / len(p)
    assert error < 0.02
    assert p[same].mean() > 7 * p[~same].mean()
    rare, kept = model.same_probability(new[:9], new[:9], prior=0.001), model.same_.prior
    assert (rare < found[:9, :9]).all()
    odds, of_rare = found[:9, :9] / (1 - found[:9, :9]), rare / (1 - rare)
    np.testing.assert_allclose(of_rare / odds, 0.001 / 0.999 / (kept / (1 - kept)))
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.same_probability(new[:9], new[:9], 0.001), rare)
    assert loaded.about_ == model.about_


def test_scores_of_rows_that_the_model_was_fitted_on_would_be_too_sure():
    X, new, y, labels = DIGITS
    model = fitted("LDA", "posterior").fit_same(X, y)
    in_sample, same = pairs_of(y)
    of_training = Calibration.of(scorers.similarity_of(model, X, X)[in_sample], same)
    pairs, same = pairs_of(labels[:600])
    scores = scorers.similarity_of(model, new[:600], new[:600])[pairs]
    own = log_loss(same, model.same_(scores))
    assert log_loss(same, of_training(scores, model.same_.prior)) > 1.3 * own


def test_the_baseline_of_a_blend_has_its_own_scaling_in_each_fold():
    X, _, y, _ = DIGITS
    model = Model(make_pipeline(Normalizer().fit(X), LDA().fit(X, y)).steps)
    model.blend_ = Blend(0.0, 1.0, 1.0, (StandardScaler().fit(X),))
    model.fit_same(X, y)
    alone = Model(make_pipeline(StandardScaler().fit(X), Euclidean().fit(X, y)).steps).fit_same(
        X, y
    )
    squares = -(np.array(alone.same_.scores) ** 2) / 2  # the order of distances stays
    np.testing.assert_allclose(model.same_.scores, squares, rtol=1e-6)
    np.testing.assert_allclose(model.same_.balanced, alone.same_.balanced)


def test_tables_are_read_as_for_the_fit():
    X, _, y, _ = DIGITS
    table = pd.DataFrame(X[:300, 20:44]).add_prefix("x").assign(odd=np.where(y[:300] % 2, "a", "b"))
    table.loc[::7, "x1"] = np.nan
    rows = table.assign(kind=y[:300])
    model = oasis_bench.fit(rows, "LDA", label="kind", search=2, inner_folds=2)
    model.fit_same(table, y[:300])
    p = model.same_probability(table[:40], table.iloc[:40, ::-1].assign(more=1))
    same = y[:40, None] == y[:40]
    np.testing.assert_allclose(p, p.T)
    assert p[same].mean() > p[~same].mean() + 0.3


def test_other_columns_are_not_learned_from():
    """Such as the label, by which all pairs of a fold would be known."""
    X, _, y, _ = DIGITS
    table = pd.DataFrame(X[:200]).add_prefix("x")
    how = {"kind": y[:200]}, {}
    found = []
    for more in how:
        steps = make_pipeline(StandardScaler(), LDA(shrinkage=0.1)).fit(table, y[:200]).steps
        found.append(Model(steps).fit_same(table.assign(**more), y[:200]).same_)
    assert found[0] == found[1]


def test_classes_of_few_rows_stay_together():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(40), 3)
    X = rng.normal(size=(40, 8))[y] + 0.4 * rng.normal(size=(120, 8))
    model = Model(make_pipeline(Euclidean().fit(X, y)).steps).fit_same(X, y, groups=y)
    n_same = sum(len(pairs_of(y[test])[1]) for _, test in GroupKFold(5).split(X, y, y))
    assert n_same == 5 * 24 * 23 // 2
    assert model.same_.prior == pytest.approx(np.mean(pairs_of(y)[1]))
    same = y[:, None] == y
    p = model.same_probability(X, X)
    assert p[same].mean() > 0.5 > 10 * p[~same].mean()
    with pytest.raises(UsageError, match=r"0 of \d+ pairs among .*; if classes .* give groups=y"):
        model.fit_same(X[::3], y[::3])


@pytest.mark.parametrize(
    "broken",
    [
        {"scores": [1.0, 0.0], "balanced": [0.1, 0.2]},
        {"scores": [0.0, 1.0], "balanced": [0.2, 0.1]},
        {"scores": [0.0], "balanced": [0.1, 0.2]},
        {"scores": [], "balanced": []},
        {"scores": [0.0], "balanced": [1.0]},
        {"prior": 0.0, "scores": [0.0], "balanced": [0.5]},
    ],
)
def test_a_file_with_a_broken_calibration_is_refused(broken, tmp_path):
    X, _, y, _ = DIGITS
    model = Model(make_pipeline(Euclidean().fit(X, y)).steps)
    model.same_ = {"prior": 0.5, **broken}
    save_model(model, tmp_path / "m.npz")
    with pytest.raises(UsageError, match=r"m\.npz: cannot be read as a model file"):
        load_model(tmp_path / "m.npz")
