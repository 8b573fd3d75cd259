"""The uses of a fitted learner: direct, and by the votes of the training rows (posterior)."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from definitions import mean_average_precision, pairs_of_blend
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import normalize

import oasis_bench
from oasis_bench import scorers
from oasis_bench.algorithms import (
    LDA,
    OASIS,
    ClassifierPosterior,
    Euclidean,
    NearestNeighbourMemory,
)
from oasis_bench.command_line import main
from oasis_bench.datasets import Digits
from oasis_bench.experiment import Experiment, LearnerSpec, Plan
from oasis_bench.plugins import (
    TAUS,
    Blend,
    MetricLearner,
    Posterior,
    Registry,
    load_model,
    refusal_of_votes,
    save_model,
)
from oasis_bench.runs import How, evaluate_run, read_run, run_experiment
from oasis_bench.system import UsageError
from oasis_bench.trial import Assignment

DIGITS, CLASSES = load_digits(return_X_y=True)
DIGITS = normalize(DIGITS)
X, Y, NEW = DIGITS[:120], CLASSES[:120], DIGITS[120:160]


def width_by_hand(scores):
    """h, from the scores (n, n) among the training rows."""
    gaps = []
    for i, row in enumerate(scores):
        others = np.sort(np.delete(row, i))[::-1]
        gaps.append(others[0] - others[min(9, len(others) - 1)])
    return np.median(gaps)


def votes_by_hand(scores, y, width, tau, own=False):
    """P(c|x) from the scores (n, n_training): a softmax written out, class by class."""
    found = np.zeros((len(scores), len(np.unique(y))))
    for i, row in enumerate(scores):
        others = [j for j in range(len(y)) if not (own and j == i)]
        shares = softmax(row[others] / (tau * width))
        for j, share in zip(others, shares, strict=True):
            found[i, np.searchsorted(np.unique(y), y[j])] += share
    return found


def own_scores(learner, queries, gallery):
    """s1 by SciPy: -d^2 / 2 for a distance."""
    if hasattr(learner, "bilinear_matrix_"):
        return queries @ learner.bilinear_matrix_ @ gallery.T
    points = (getattr(learner, "transform", np.asarray)(rows) for rows in (queries, gallery))
    return -(cdist(*points) ** 2) / 2


LEARNERS = [Euclidean(), LDA(), OASIS(n_steps=300, random_state=0)]


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda one: one.name)
@pytest.mark.parametrize("tau", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("known", [True, False])
def test_the_posterior_is_a_softmax_that_is_written_out(learner, tau, known):
    learner = clone(learner).fit(X, Y)
    posterior = Posterior(learner, tau, known).fit(X, Y)
    width = width_by_hand(own_scores(learner, X, X))
    assert posterior.width_ == pytest.approx(width)
    P = votes_by_hand(own_scores(learner, NEW, X), Y, width, tau)
    np.testing.assert_allclose(posterior.shares(NEW)[0], P, atol=1e-9)
    points = P if known else np.sqrt(P)
    np.testing.assert_allclose(posterior.similarity(NEW, NEW), points @ points.T, atol=1e-7)
    # A training row does not vote for itself.
    P = votes_by_hand(own_scores(learner, X, X), Y, width, tau, own=True)
    points = P if known else np.sqrt(P)
    places = np.array([5, 100, 7])
    np.testing.assert_allclose(posterior.embed_training(places), points[places], atol=1e-6)


def test_an_equal_row_votes_for_a_training_row_but_the_row_itself_does_not():
    rows = np.array([[0.0], [0.0], [1.0], [3.0]])
    posterior = Posterior(Euclidean().fit(rows, [0, 1, 1, 0]), 0.01).fit(rows, [0, 1, 1, 0])
    np.testing.assert_allclose(posterior.embed_training(np.arange(2)), [[0, 1], [1, 0]], atol=1e-5)
    np.testing.assert_allclose(posterior.embed(rows[:1]), [[0.5, 0.5]], atol=1e-5)


def test_with_a_small_tau_euclidean_is_a_memory_of_the_nearest_neighbours():
    memory = NearestNeighbourMemory().fit(X, Y)
    votes = Posterior(Euclidean().fit(X, Y), TAUS[0] / 10).fit(X, Y)
    sure = votes.embed(NEW).max(axis=1) > 0.999  # else two classes are about equally near
    assert sure.mean() > 0.8
    ours, theirs = (one.similarity(NEW[sure], NEW[sure]) for one in (votes, memory))
    np.testing.assert_allclose(ours, theirs, atol=0.003)


def test_other_queries_change_nothing():
    posterior = Posterior(LDA().fit(X, Y), 0.1).fit(X, Y)
    alone = np.vstack([posterior.embed(NEW[i : i + 1]) for i in range(5)])
    several = np.vstack([NEW[4::-1], NEW, NEW[:5]])
    np.testing.assert_allclose(posterior.embed(several)[4::-1], alone, atol=1e-9)
    np.testing.assert_allclose(posterior.embed(several)[-5:], alone, atol=1e-9)


def test_the_votes_of_ten_thousand_training_rows_need_no_matrix_of_all_pairs():
    rng = np.random.default_rng(0)
    rows, y = rng.random((10_000, 8)), rng.integers(10, size=10_000)
    tracemalloc.start()
    posterior = Posterior(Euclidean().fit(rows, y), 0.1).fit(rows, y)
    posterior.shares(rows[:2000], TAUS, np.arange(2000))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * 2**20  # all pairs are 800 MB


class Zero(MetricLearner):
    name = "Zero"
    summary = "knows nothing"
    citation = "none"

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def score_embeddings(self, queries, gallery):
        return np.zeros((len(queries), len(gallery)))


def test_without_a_scale_there_are_no_votes():
    with pytest.raises(ValueError, match="posterior use of Zero is not offered"):
        Posterior(Zero().fit(X, Y)).fit(X, Y)
    with pytest.raises(ValueError, match="not offered"):  # no other row
        Posterior(Euclidean().fit(X[:1], Y[:1])).fit(X[:1], Y[:1])


def test_who_can_vote():
    class OfPixels(Euclidean):
        takes = "pixels"

    assert refusal_of_votes(Euclidean, Y, judged=False) is None
    assert "takes pixels" in refusal_of_votes(OfPixels, Y, judged=False)
    assert "judged pairs" in refusal_of_votes(Euclidean, Y, judged=True)
    several = csr_array(np.eye(10)[Y])
    assert "several labels" in refusal_of_votes(Euclidean, several, judged=False)


def test_a_classifier_gives_its_own_posteriors():
    learner = ClassifierPosterior().fit(X, Y)
    posterior = Posterior(learner, 0.3).fit(X, Y)
    np.testing.assert_allclose(posterior.similarity(NEW, X), learner.similarity(NEW, X))
    roots = Posterior(learner, 0.3, known_classes=False).fit(X, Y).similarity(NEW, X)
    np.testing.assert_allclose(roots, np.sqrt(learner.embed(NEW)) @ np.sqrt(learner.embed(X)).T)


# --- in a run


def small(tasks, **others):
    params = {"LDA": {"shrinkage": 0.1}, "Euclidean": {}, "ClassifierPosterior": {"C": 100.0}}
    learners = {name: LearnerSpec(name, own) for name, own in params.items()}
    sizes = {"classes": (8,), "partitions": 1, "train_per_class": 12, "test_per_class": 10}
    settings = {"inner_folds": 3, "traces": False, "tasks": tasks, "scaling": ("l2",)}
    return Experiment("Small", "digits", learners, **{**sizes, **settings, **others})


SEEN = ("retrieval", "classification", "retrieval-from-training")


@pytest.fixture(scope="module", params=[SEEN, ("unseen-classes",)], ids=["seen", "unseen"])
def done(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uses") / "run"
    how = How(keep=("models", "predictions"))
    assert run_experiment(small(request.param), folder, how) == 0
    specs = Plan.of(small(request.param), Digits(), Digits().load(), Registry.load()).trials
    return folder, read_run(folder), specs


def posterior_values(learner, train, test, y, known, seed, tau, b):
    """Values of the posterior use by hand: mAP, accuracy, and mAP with the training rows."""
    if isinstance(learner, ClassifierPosterior):
        P, own = learner.embed(DIGITS[test]), learner.embed(DIGITS[train])
    else:
        among = own_scores(learner, DIGITS[train], DIGITS[train])
        width = width_by_hand(among)
        scores = own_scores(learner, DIGITS[test], DIGITS[train])
        P = votes_by_hand(scores, y[train], width, tau)
        own = votes_by_hand(among, y[train], width, tau, own=True)
    predicted = np.unique(y[train])[P.argmax(axis=1)]
    if not known:
        P, own = np.sqrt(P), np.sqrt(own)
    left, right = pairs_of_blend(np.arange(len(train)), seed)
    s0 = [-(cdist(DIGITS[a], DIGITS[b]) ** 2) / 2 for a, b in ((test, test), (test, train))]
    sd0 = (-(cdist(DIGITS[train[left]], DIGITS[train[right]]) ** 2) / 2).std()
    sd = (own[left] @ own[right].T).std()
    blends = [(1 - b) * s / sd0 + b * a / sd for s, a in zip(s0, (P @ P.T, P @ own.T), strict=True)]

    of_training = [
        average_precision_score(y[train] == y[item], row)
        for item, row in zip(test, blends[1], strict=True)
        if known
    ]
    return {
        "test": mean_average_precision(blends[0], y[test]),
        "classification": (predicted == y[test]).mean(),
        "retrieval-from-training": np.mean(of_training or [0]),
        "sds": (sd0, sd),
    }


def test_values_of_both_uses_are_those_by_hand(done):
    folder, run, specs = done
    tasks = specs[0].tasks
    values = run.measures[run.measures["measure"].isin(["mAP", "accuracy"])]
    values = values[values["k"].isna() | values["k"].eq(1)].set_index(["learner", "task"])
    tuned = run.tuned.set_index(["learner", "gallery"])
    for spec in specs:
        end = "" if spec.where.split == "seen-classes" else "_unseen-classes"
        name = f"{spec.learner}_8_0{end}.npz"
        with np.load(folder / "predictions" / name) as kept:
            test, train = kept["test_rows"], kept["training_rows"]
        learner = load_model(folder / "models" / name)[-1]
        learner = getattr(learner, "learner", learner)
        for task in tasks:
            gallery = "test" if task in ("retrieval", "unseen-classes") else "training"
            of = tuned.loc[(spec.learner, gallery)]
            known, seed = task != "unseen-classes", spec.seed_for("blend")
            how = (learner, train, test, CLASSES, known, seed, of["tau"], of["posterior_blend"])
            found = posterior_values(*how)
            expected = found["test" if gallery == "test" else task]
            own = values.loc[(spec.learner, task)]
            # Votes of 1 tie: scikit-learn takes ties together, and rounding breaks some of them.
            assert own["posterior"] == pytest.approx(expected, abs=2e-3)
            assert own["value"] == own[of["use"]]
            sds = of["baseline_sd"], of["affinity_sd"]
            assert sds == pytest.approx(found["sds"], rel=1e-5)
    if "unseen-classes" not in tasks:  # it is as in protocol.md: known classes are voted for
        of_euclidean = values.loc[("Euclidean", "retrieval")]
        assert of_euclidean["posterior"] > of_euclidean["direct"] + 0.1
        assert tuned.loc[("Euclidean", "test"), "use"] == "posterior"


def test_the_inner_folds_choose_tau_and_the_weight(done):
    _, run, specs = done
    known = "unseen-classes" not in specs[0].tasks
    [spec] = [one for one in specs if one.learner == "LDA"]
    of = run.tuned.set_index(["learner", "gallery"]).loc[("LDA", "test")]
    partition = spec.drawn(Digits().load())
    train = partition.train
    folds = spec.split.inner_folds(CLASSES[train], None, 3, spec.seed_for("folds"))
    means = {}
    for tau in TAUS:
        for b in Blend.WEIGHTS[1:]:
            found = []
            for fold in folds:
                learn, validate = train[fold.train], train[fold.test]
                learner = LDA(shrinkage=0.1).fit(DIGITS[learn], CLASSES[learn])
                how = (learn, validate, CLASSES, known, spec.seed_for("blend"), tau, b)
                found.append(posterior_values(learner, *how)["test"])
            means[b, tau] = np.mean(found)
    best = max(means.values())
    assert means[of["posterior_blend"], of["tau"]] == pytest.approx(best, abs=2e-3)  # as above
    assert best - np.median([*means.values()]) > 0.01


def test_kept_scores_give_the_same_values_again(done):
    folder, run, specs = done
    columns = ["value", "direct", "posterior", "as_learned"]
    assert evaluate_run(folder, list(specs[0].tasks)) == 0
    again = read_run(folder).measures
    keys = ["learner", "task", "measure", "k"]
    before, after = (one.sort_values(keys)[columns].to_numpy() for one in (run.measures, again))
    np.testing.assert_allclose(before, after, atol=1e-12)


def test_a_learner_that_knows_nothing_is_used_directly(tmp_path):
    (tmp_path / "zero.py").write_text(
        "import numpy as np\nfrom oasis_bench.plugins import MetricLearner\n\n"
        + "class Zero(MetricLearner):\n"
        + '    name, summary, citation = "Zero", "knows nothing", "none"\n\n'
        + "    def fit(self, X, y):\n        self.n_features_in_ = X.shape[1]\n"
        + "        return self\n\n"
        + "    def score_embeddings(self, queries, gallery):\n"
        + "        return np.zeros((len(queries), len(gallery)))\n"
    )
    names = ("Zero", "Euclidean")
    e = small(("retrieval",), use="posterior", train_per_class=8)
    e = Experiment("Zero", "digits", {n: LearnerSpec(n) for n in names}, **settings_of(e))
    assert run_experiment(e, tmp_path / "run", How(plugin_files=[tmp_path / "zero.py"])) == 0
    run = read_run(tmp_path / "run")
    values = run.measures.query("measure == 'mAP'").set_index("learner")
    assert values.loc["Zero", "value"] == values.loc["Euclidean", "direct"]
    assert np.isnan(values.loc["Zero", "posterior"])
    assert values.loc["Euclidean", "value"] == values.loc["Euclidean", "posterior"]
    reasons = run.trials.set_index("learner")["reason"]
    assert "posterior use is not offered: on an inner fold" in reasons["Zero"]
    assert not isinstance(reasons["Euclidean"], str)  # there is none


def settings_of(e):
    names = ("classes", "partitions", "train_per_class", "test_per_class", "inner_folds")
    return {name: getattr(e, name) for name in (*names, "traces", "tasks", "scaling", "use")}


CHEAT = '''
"""Learners that cheat when training rows vote."""
import numpy as np
from oasis_bench.algorithms import Euclidean


class Together(Euclidean):
    """Moves queries to the middle of those next to them when it is asked for training rows."""

    name = "Together"
    is_baseline = False

    @property
    def has_embedding(self):
        return False

    def similarity(self, queries, gallery):
        scores = super().similarity(queries, gallery)
        if np.array_equal(gallery[:1], self.first_) and len(queries) < 85:
            near = np.argsort(-super().similarity(queries, queries), axis=1)[:, :8]
            scores = scores[near].mean(axis=1)
        return scores

    def fit(self, X, y):
        super().fit(X, y)
        self.first_ = X[:1].copy()
        return self
'''


def test_votes_that_depend_on_other_test_items_are_refused(tmp_path):
    (tmp_path / "cheat.py").write_text(CHEAT)
    e = Experiment(
        "C",
        "digits",
        {"Together": LearnerSpec("Together")},
        **settings_of(small(("retrieval",), use="tuned")),
    )
    run_experiment(e, tmp_path / "run", How(plugin_files=[tmp_path / "cheat.py"]))
    [trial] = read_run(tmp_path / "run").trials.itertuples()
    assert trial.status == "failed"
    assert "vote otherwise when other test items are asked" in trial.reason


def test_use_is_set_on_every_face(tmp_path):
    words = "run --dataset digits --algorithms Euclidean --classes 4 --partitions 1 --no-traces"
    found = {}
    for use in ("direct", "posterior", "tuned"):
        assert main([*words.split(), "--output", str(tmp_path / use), "--use", use]) == 0
        found[use] = read_run(tmp_path / use)
    assert found["direct"].measures["posterior"].isna().all()
    assert found["direct"].tuned["tau"].isna().all()
    assert (found["posterior"].tuned["use"] == "posterior").all()
    values = found["posterior"].measures
    assert (values["value"] == values["posterior"]).all()
    assert values["direct"].tolist() == found["direct"].measures["value"].tolist()
    with pytest.raises(UsageError, match="use = 'both': direct, posterior or tuned is needed"):
        small(SEEN, use="both")
    for blend, use in (("off", "direct"), ("on", "tuned")):
        spec = Plan.of(small(SEEN, blend=blend), Digits(), Digits().load(), Registry.load()).trials[
            0
        ]
        assert Assignment.of(spec).use == use


# --- in use


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rows = load_iris(as_frame=True).frame.rename(columns={"target": "kind"})
    path = tmp_path_factory.mktemp("table") / "iris.csv"
    rows.to_csv(path, index=False)
    return path, rows


def test_a_fitted_model_keeps_its_use(table, tmp_path):
    path, rows = table
    how = {"label": "kind", "inner_folds": 2, "scaling": "standard", "use": "posterior"}
    model = oasis_bench.fit(path, "LDA", output=tmp_path / "m.npz", **how)
    for one in (model, load_model(tmp_path / "m.npz")):
        posterior, blend = one[-1], one.blend_
        prepared = one[:-1].transform(rows.drop(columns="kind"))
        assert isinstance(posterior, Posterior)
        width = width_by_hand(own_scores(posterior.learner, prepared, prepared))
        scores = own_scores(posterior.learner, prepared, prepared)
        P = votes_by_hand(scores, rows["kind"].to_numpy(), width, posterior.tau)
        given = rows.drop(columns="kind")
        np.testing.assert_allclose(oasis_bench.embed(one, given), P, atol=1e-7)
        expected = blend.mix(-(cdist(prepared, prepared) ** 2) / 2, P @ P.T)
        if blend.steps is None:
            found = scorers.similarity_of(one, given, given)
            np.testing.assert_allclose(found, expected, atol=1e-6)
            best = -np.sort(-expected, axis=1)[:, :3]
            _, similarities = oasis_bench.neighbours(one, given, given, k=3)
            np.testing.assert_allclose(similarities, best, atol=1e-6)


def test_a_model_of_votes_is_evaluated_as_it_is_used(table, tmp_path):
    path, _ = table
    how = {"label": "kind", "inner_folds": 2, "scaling": "standard", "use": "posterior"}
    oasis_bench.fit(path, "LDA", output=tmp_path / "m.npz", **how)
    words = ["evaluate", tmp_path / "m.npz", "--dataset", path, "--label", "kind"]
    assert main([*map(str, words), "--output", str(tmp_path / "e"), "--partitions", "1"]) == 0
    run = read_run(tmp_path / "e")
    [tuned] = run.tuned.itertuples()
    assert tuned.use == "posterior"
    [value] = run.measures.query("measure == 'mAP'").itertuples()
    assert value.value == value.posterior > value.as_learned


def test_a_model_of_votes_that_is_damaged_is_refused(tmp_path):
    posterior = Posterior(LDA().fit(X, Y), 0.1).fit(X, Y)
    save_model(posterior, tmp_path / "m.npz")
    again = load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(again.embed(NEW), posterior.embed(NEW))
    for change in (
        {"labels_": posterior.labels_[:-1]},
        {"rows_": posterior.rows_[:, 1:]},
        {"rows_": np.full_like(posterior.rows_, np.nan)},
        {"width_": 0.0},
    ):
        other = Posterior(posterior.learner, 0.1).fit(X, Y)
        vars(other).update(change)
        with pytest.raises(UsageError, match=next(iter(change))):
            save_model(other, tmp_path / "m.npz")
    with pytest.raises(ValueError, match="tau"):
        Posterior(posterior.learner, 0.0).fit(X, Y)


def test_a_clone_votes_by_the_learner_that_is_fitted():
    posterior = Posterior(LDA().fit(X, Y), 0.1).fit(X, Y)
    again = clone(posterior)
    with pytest.raises(NotFittedError):
        again.embed(NEW)
    np.testing.assert_array_equal(again.fit(X, Y).embed(NEW), posterior.embed(NEW))
    rows = Posterior(LDA().fit(X, Y), 0.1).fit(X.tolist(), Y.tolist())
    np.testing.assert_allclose(rows.embed(NEW), posterior.embed(NEW))


def test_probabilities_of_other_classes_are_refused():
    class Narrow(ClassifierPosterior):
        name = "Narrow"

        def embed(self, X):
            return super().embed(X)[:, 1:]

    posterior = Posterior(Narrow().fit(X, Y)).fit(X, Y)
    with pytest.raises(ValueError, match="embed returned an array of shape"):
        posterior.shares(NEW)


def test_the_best_learner_of_a_run_keeps_its_use(tmp_path):
    settings = {"classes": [4], "partitions": 1, "traces": False, "tasks": ["retrieval"]}
    result = oasis_bench.run("digits", "Euclidean", output=tmp_path / "run", **settings)
    best = result.best()
    assert isinstance(best[-1], Posterior)
    tuned = read_run(tmp_path / "run").tuned.iloc[0]
    assert (best[-1].tau, best.blend_.weight) == (tuned["tau"], tuned["posterior_blend"])
    assert Path(result.folder).exists()
