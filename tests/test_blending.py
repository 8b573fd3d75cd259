"""Blending with the Euclidean baseline, against NumPy from raw rows, kept scores and models."""

import numpy as np
import pytest
from definitions import mean_average_precision as average_precision, pairs_of_blend
from fake_runs import fake_trial, make_run
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from small_runs import trials_of as planned

import oasis_bench
from oasis_bench.algorithms import (
    LDA,
    OASIS,
    Euclidean,
    LocalPatchDistances,
    NearestNeighbourMemory,
)
from oasis_bench.command_line import main
from oasis_bench.datasets import Digits
from oasis_bench.experiment import Experiment, LearnerSpec, Plan, model_experiment
from oasis_bench.plugins import (
    Blend,
    Registry,
    as_inner_product,
    baseline_scores,
    load_blend,
    load_model,
    save_model,
)
from oasis_bench.reports.export import result_rows
from oasis_bench.reports.trials import selection_table
from oasis_bench.reports.verdict import answers
from oasis_bench.reports.view import view_of
from oasis_bench.runs import How, evaluate_run, read_run, run_experiment
from oasis_bench.system import UsageError
from oasis_bench.trial import Assignment

N_STEPS, FOLDS = 700, 3
PARAMS = {"OASIS": {"n_steps": N_STEPS, "aggressiveness": 0.1}, "LDA": {"shrinkage": 0.1}}
MADE = {"OASIS": OASIS, "LDA": LDA}
SEEN, UNSEEN = ("retrieval", "classification"), ("unseen-classes",)


def small(tasks, **others):
    learners = {name: LearnerSpec(name, params) for name, params in PARAMS.items()}
    learners["Euclidean"] = LearnerSpec("Euclidean")
    sizes = {"classes": (8,), "partitions": 2, "train_per_class": 15, "test_per_class": 10}
    settings = {"inner_folds": FOLDS, "max_steps": 1000, "traces": False, "tasks": tasks}
    settings["use"] = "direct"  # test_uses.py has the other use
    return Experiment("Small", "digits", learners, **{**sizes, **settings, **others})


@pytest.fixture(scope="module", params=[SEEN, UNSEEN], ids=["seen", "unseen"])
def done(request, tmp_path_factory):
    """The folder of a run on seen or on unseen classes, the run, and its plan."""
    folder = tmp_path_factory.mktemp("blended") / "run"
    assert run_experiment(small(request.param), folder, How(keep=("models", "predictions"))) == 0
    specs = Plan.of(small(request.param), Digits(), Digits().load(), Registry.load()).trials
    return folder, read_run(folder), specs


def similarity_of(model):
    """s1 of a fitted model, from its matrix alone."""
    if hasattr(model, "bilinear_matrix_"):
        return lambda X, Y: X @ model.bilinear_matrix_ @ Y.T
    return lambda X, Y: -(cdist(X @ model.components_.T, Y @ model.components_.T) ** 2) / 2


def baseline(X, Y):
    return -(cdist(X, Y) ** 2) / 2


def deviations(similarity, X, seed):
    left, right = pairs_of_blend(X, seed)
    return baseline(left, right).std(), similarity(left, right).std()


def trials_of(done):
    """Yield each blended trial with its plan, its rows, its test and training rows, its files."""
    folder, run, specs = done
    X, y = normalize(load_digits().data), load_digits().target
    for spec in specs:
        if spec.learner == "Euclidean":
            continue
        trials = run.tuned[run.tuned["gallery"] == "test"].set_index(["learner", "partition"])
        end = "" if spec.where.split == "seen-classes" else "_unseen-classes"
        name = f"{spec.learner}_8_{spec.where.partition}{end}.npz"
        with np.load(folder / "predictions" / name) as kept:
            arrays = dict(kept)
        trial = trials.loc[(spec.learner, spec.where.partition)]
        yield spec, trial, X, y, arrays, folder / "models" / name


def test_both_values_are_those_of_the_kept_scores(done):
    _, run, _ = done
    values = run.measures.set_index(["learner", "partition", "measure", "k"])
    for spec, trial, X, y, arrays, path in trials_of(done):
        test, training = arrays["test_rows"], arrays["training_rows"]
        similarity = similarity_of(load_model(path)[-1])
        sds = deviations(similarity, X[training], spec.seed_for("blend"))
        np.testing.assert_allclose([trial.baseline_sd, trial.learned_sd], sds, rtol=1e-6)

        def blended(gallery, b, test=test, X=X, sds=sds, similarity=similarity):
            s0, s1 = (score(X[test], X[gallery]) for score in (baseline, similarity))
            return (1 - b) * s0 / sds[0] + b * s1 / sds[1]

        mAP = values.loc[(spec.learner, spec.where.partition, "mAP", np.nan)]
        own = average_precision(blended(test, trial.blend), y[test])
        assert mAP["value"].item() == pytest.approx(own)
        own = average_precision(arrays["scores_test"], y[test])
        assert mAP["as_learned"].item() == pytest.approx(own)
        if spec.where.split == "seen-classes":
            tuned = run.tuned[run.tuned["trial_id"] == trial.trial_id].set_index("gallery")
            b = tuned.loc["training", "blend"]
            nearest = training[blended(training, b).argmax(axis=1)]
            found = values.loc[(spec.learner, spec.where.partition, "accuracy", 1)]
            assert found["value"].item() == pytest.approx((y[nearest] == y[test]).mean())
            nearest = training[arrays["scores_training"].argmax(axis=1)]
            assert found["as_learned"].item() == pytest.approx((y[nearest] == y[test]).mean())


def test_the_weight_is_the_best_on_inner_folds_that_are_fitted_again(done):
    for spec, trial, X, y, arrays, _ in trials_of(done):
        X, y = X[arrays["training_rows"]], y[arrays["training_rows"]]
        folds = spec.split.inner_folds(y, None, FOLDS, spec.seed_for("folds"))
        values = np.empty((len(folds), len(Blend.WEIGHTS)))
        for number, fold in enumerate(folds):
            learner = MADE[spec.learner](**PARAMS[spec.learner])
            learner.set_params(random_state=spec.seed_for(f"fold {number}", of_learner=True))
            similarity = similarity_of(learner.fit(X[fold.train], y[fold.train]))
            sds = deviations(similarity, X[fold.train], spec.seed_for("blend"))
            s0, s1 = (score(X[fold.test], X[fold.test]) for score in (baseline, similarity))
            for place, b in enumerate(Blend.WEIGHTS):
                scores = (1 - b) * s0 / sds[0] + b * s1 / sds[1]
                values[number, place] = average_precision(scores, y[fold.test])
        means = values.mean(axis=0)
        assert means[Blend.WEIGHTS.index(trial.blend)] == pytest.approx(means.max(), abs=1e-9)
        seen = done[1].validation
        of_trial = (seen["trial_id"] == trial.trial_id) & (seen["task"] == spec.tasks[0])
        seen = seen[of_trial].sort_values("fold")["value"]
        np.testing.assert_allclose(seen, values[:, -1])  # validation is of the learner alone


def test_a_metric_that_inverts_a_covariance_is_as_good_in_the_final_fit_as_on_inner_folds(tmp_path):
    # 45 rows of 40 features in 5 classes have 40 degrees of freedom, the 30 of an inner fold 25: on
    # all axes the metric would be best on inner folds, and its final fit nearly singular.
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 40)
    X = rng.normal(size=(5, 40))[y] * 0.7 + rng.normal(size=(200, 40)) * np.repeat([2, 1], [6, 34])
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    learners = {name: LearnerSpec(name) for name in ("RCA", "LFDA", "Euclidean")}
    settings = {"classes": (5,), "partitions": 1, "inner_folds": FOLDS, "scaling": ("none",)}
    sizes = {"train_per_class": 9, "test_per_class": 30, "traces": False, "search": "6"}
    sizes["use"] = "direct"
    e = Experiment("Wide", str(tmp_path / "rows.npz"), learners, **settings, **sizes)
    assert run_experiment(e, tmp_path / "run") == 0
    run = read_run(tmp_path / "run")
    values = run.measures[run.measures["measure"] == "mAP"].set_index("learner")["value"]
    assert run.trials.set_index("learner").loc[["RCA", "LFDA"], "blend"].gt(0).all()
    assert (values[["RCA", "LFDA"]] > values["Euclidean"] + 0.1).all()


def test_with_weight_0_the_values_are_those_of_the_baseline(done):
    _, run, _ = done
    keys = ["task", "partition", "measure", "k"]
    blends = run.trials.set_index("trial_id")["blend"].dropna()
    values = run.measures[run.measures["trial_id"].isin(blends[blends == 0].index)]
    reference = run.measures[run.measures["learner"] == "Euclidean"]
    both = values.merge(reference, on=keys, suffixes=("", "_of_baseline"))
    assert (both["value"] == both["value_of_baseline"]).all()
    assert set(run.trials["split"]) == {"seen-classes"} or len(both)  # on unseen classes there are
    assert run.trials.loc[run.trials["learner"] == "Euclidean", "blend"].isna().all()


def test_a_saved_model_is_evaluated_by_its_blend(done, tmp_path):
    for spec, trial, X, y, _, path in trials_of(done):
        model, blend = load_model(path)[-1], load_blend(path)
        assert blend == load_model(path).blend_
        assert blend == Blend(trial.blend, trial.baseline_sd, trial.learned_sd)
        if spec.where.partition or spec.where.split == "unseen-classes":
            continue
        output = tmp_path / spec.learner
        again = model_experiment(path, "digits", partitions=1, test_per_class=10)
        assert run_experiment(again, output, How(keep=("predictions",))) == 0
        with np.load(next((output / "predictions").iterdir())) as kept:
            test = kept["test_rows"]
        learned = as_inner_product(type(model), model.similarity(X[test], X[test]))
        scores = blend.mix(baseline_scores(X[test], X[test]), learned)
        values = read_run(output).measures.set_index("measure").loc["mAP"]
        assert values["value"] == pytest.approx(average_precision(scores, y[test]))
        own = average_precision(similarity_of(model)(X[test], X[test]), y[test])
        assert values["as_learned"] == pytest.approx(own)


def test_kept_scores_of_a_saved_model_are_blended_on_rows_by_its_own_scaling(tmp_path):
    X, y = load_digits(return_X_y=True)
    scaler = StandardScaler().fit(X[:100])  # other rows than those of the run
    learner = OASIS(n_steps=N_STEPS, random_state=0).fit(scaler.transform(X[:100]), y[:100])
    path, output = tmp_path / "m.npz", tmp_path / "run"
    save_model(make_pipeline(scaler, learner), path, blend=Blend(0.5, 30.0, 30.0))
    experiment = model_experiment(path, "digits", partitions=1, test_per_class=10)
    assert run_experiment(experiment, output, How(keep=("predictions",))) == 0
    with np.load(next((output / "predictions").iterdir())) as kept:
        test = kept["test_rows"]
    expected = average_precision(similarity_of_blend(scaler.transform(X[test]), learner), y[test])
    first = read_run(output).measures.set_index("measure").loc["mAP", "value"]
    assert evaluate_run(output, ["retrieval"]) == 0
    again = read_run(output).measures.set_index("measure").loc["mAP", "value"]
    assert [first, again] == pytest.approx([expected, expected])


def similarity_of_blend(rows, learner):
    """The scores of `rows` by a weight of a half, with deviations of 30."""
    return (baseline(rows, rows) + similarity_of(learner)(rows, rows)) / 60


CONSTANT = """
import numpy as np
from oasis_bench.algorithms import Euclidean

class Constant(Euclidean):
    name = "Constant"

    def similarity(self, queries, gallery):
        return np.full((queries.shape[0], gallery.shape[0]), 7, dtype=self.kind)

    kind = float

class Infinite(Constant):
    name = "Infinite"

    def similarity(self, queries, gallery):
        return np.full((queries.shape[0], gallery.shape[0]), -np.inf)
"""


@pytest.mark.parametrize("name", ["Constant", "Infinite"])
def test_a_constant_similarity_or_one_that_is_not_finite_has_weight_0(name, tmp_path):
    plugin = tmp_path / "constant.py"
    plugin.write_text(CONSTANT)
    experiment = Experiment(
        *("Constant", "digits", {it: LearnerSpec(it) for it in (name, "Euclidean")}),
        **{"classes": (3,), "partitions": 1, "train_per_class": 8, "test_per_class": 6},
        **{"inner_folds": 2, "traces": False, "use": "direct"},
    )
    run_experiment(experiment, tmp_path / "run", How(plugin_files=[plugin]))
    run = read_run(tmp_path / "run")
    assert run.tuned.set_index("learner").loc[name, ["blend", "learned_sd"]].tolist() == [0, 0]
    values = run.measures.pivot(index=["measure", "k"], columns="learner", values="value")
    assert (values[name] == values["Euclidean"]).all()
    own = run.measures.pivot(index=["measure", "k"], columns="learner", values="as_learned")
    assert (own[name] != own["Euclidean"]).any()


def test_sparse_rows_are_blended(plugins, tmp_path):
    experiment = Experiment(
        *("Sparse", "sparse-blocks", {"OASIS": LearnerSpec("OASIS", {"n_steps": 300})}),
        **{"classes": ("all",), "partitions": 1, "train_per_class": 10, "test_per_class": 8},
        **{"inner_folds": 2, "traces": False, "scaling": ("l2",), "use": "direct"},
    )
    plugin = plugins / "data_sets.py"
    how = {"plugin_files": [plugin], "keep": ("models", "predictions")}
    assert run_experiment(experiment, tmp_path / "run", How(**how)) == 0
    run = read_run(tmp_path / "run")
    rows = Registry.load([plugin]).datasets["sparse-blocks"]().load()
    X, (trial,) = normalize(rows.X.toarray()), run.tuned.itertuples()
    with np.load(next((tmp_path / "run" / "predictions").iterdir())) as kept:
        test, s1 = kept["test_rows"], kept["scores_test"]
    b, s0 = trial.blend, baseline(X[test], X[test])
    scores = (1 - b) * s0 / trial.baseline_sd + b * s1 / trial.learned_sd
    value = run.measures.set_index("measure").loc["mAP", "value"]
    assert value == pytest.approx(average_precision(scores, rows.y[test]))


FILE = """
title = "Off"
dataset = "digits"
classes = [3]
partitions = 1
train_per_class = 8
test_per_class = 6
inner_folds = 2
traces = false
blend = "off"
[learners.LDA]
shrinkage = 0.1
"""


def test_blending_is_switched_off_in_a_file_on_the_command_line_and_in_python(tmp_path):
    (tmp_path / "off.toml").write_text(FILE)
    (tmp_path / "on.toml").write_text(FILE.replace('blend = "off"', ""))
    words = ["run", "--no-traces", "--output"]
    assert main([*words, str(tmp_path / "a"), "--experiment", str(tmp_path / "off.toml")]) == 0
    on = ["--experiment", str(tmp_path / "on.toml")]
    assert main([*words, str(tmp_path / "b"), *on, "--blend", "off"]) == 0
    oasis_bench.run(experiment=tmp_path / "on.toml", output=tmp_path / "c", traces=False)
    runs = [read_run(tmp_path / name) for name in "abc"]
    for run in runs[:2]:
        assert run.trials["blend"].isna().all()
        assert (run.measures["value"] == run.measures["as_learned"]).all()
        assert run.validation.empty  # there is nothing to tune
    assert runs[2].trials["blend"].notna().all()
    assert len(runs[2].validation) == 2  # a fold each
    assert (runs[2].measures["as_learned"] == runs[0].measures["value"]).all()
    with pytest.raises(UsageError, match="blend = 'no': on or off is needed"):
        Experiment("Wrong", "digits", {"LDA": LearnerSpec("LDA")}, blend="no")


def test_what_is_blended():
    assignment = Assignment.of(planned(small(SEEN))[0])
    assert assignment.is_blended(LDA)
    assert assignment.is_blended(NearestNeighbourMemory)
    assert not assignment.is_blended(Euclidean)
    assert not assignment.is_blended(LocalPatchDistances)  # takes patches

    class Derived(Euclidean):
        name = "Derived"

    assert assignment.is_blended(Derived)


def test_distances_are_blended_as_squares_and_other_scores_as_they_are():
    scores = np.array([[-3.0, -0.5, 0.0]])
    assert as_inner_product(LDA, scores).tolist() == [[-4.5, -0.125, 0.0]]
    assert as_inner_product(OASIS, scores).tolist() == scores.tolist()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_the_score_of_the_baseline_is_minus_half_the_squared_distance(make):
    X = np.random.default_rng(0).normal(size=(7, 3))
    np.testing.assert_allclose(baseline_scores(make(X[:3]), make(X)), baseline(X[:3], X))


def test_far_from_zero_the_baseline_keeps_its_digits():
    X = np.random.default_rng(0).normal(size=(9, 3))
    far = baseline_scores(X[:4] + 1e8, X + 1e8)
    exact = baseline(X[:4] + 1e8, X + 1e8)  # cdist takes differences
    np.testing.assert_allclose(far, exact, rtol=1e-12)
    whole = np.array([[0, 2], [1, 5], [3, 3]])
    far = baseline_scores(whole + 10**8, whole + 10**8)
    np.testing.assert_allclose(far, baseline(whole, whole))


def test_a_blend_that_is_no_blend_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"weight = 1\.5: a number from 0 to 1"):
        Blend(1.5, 1.0, 1.0)
    for sds in ((-1.0, 1.0), (1.0, -1.0)):
        with pytest.raises(UsageError, match="deviations are not negative"):
            Blend(0.5, *sds)
    assert Blend(0.5, 0.0, 1.0).weight == 1  # a constant baseline says nothing
    X, y = load_digits(return_X_y=True)
    model = LDA().fit(X[:90], y[:90])
    save_model(model, tmp_path / "plain.npz")
    assert load_blend(tmp_path / "plain.npz") is None
    blend = Blend.of(model, X[:90], 0.25)
    with pytest.raises(UsageError, match="a blend is of scaled rows: save it with a Pipeline"):
        save_model(model, tmp_path / "blended.npz", blend=blend)
    save_model(make_pipeline(model), tmp_path / "blended.npz", blend=blend)
    assert load_blend(tmp_path / "blended.npz") == blend
    sds = deviations(similarity_of(model), X[:90], 0)
    assert (blend.baseline_sd, blend.learned_sd) == pytest.approx(sds)
    with pytest.raises(UsageError, match="there is no such file"):
        load_blend(tmp_path / "none.npz")


@pytest.fixture
def shown(tmp_path):
    """A run of which A is the baseline in all partitions, and B in one; P is used by posterior."""
    trials = [
        fake_trial(name, 5, partition, mAP=mAP + 0.01 * partition, lift=lift, **blend)
        for partition in range(3)
        for name, mAP, lift, blend in (
            ("Euclidean", 0.5, 0.0, {}),
            ("A", 0.5, 0.2, {"blend": 0.0}),
            ("B", 0.6, 0.1, {"blend": (0.0, 0.5, 1.0)[partition]}),
            ("C", 0.55, 0.0, {"blend": 1.0}),
            ("P", 0.5, 0.0, {"blend": 0.0, "gain": 0.05, "use": "posterior"}),
        )
    ]
    return make_run(tmp_path / "shown", trials, ["Euclidean", *"ABCP"], 3, classes=(5,))


def test_the_answer_says_who_is_blended_and_who_is_the_baseline(shown, tmp_path):
    *answer, last = answers(view_of(shown))
    assert "A got weight 0 in the blend on all partitions, so its values are" in " ".join(answer)
    assert "mixed with those of the Euclidean baseline" in last
    alone = make_run(tmp_path / "alone", [fake_trial("A"), fake_trial("B", mAP=0.6)], ["A", "B"], 1)
    assert not any("baseline" in line for line in answers(view_of(alone)))


def test_trials_and_exports_have_both_values_and_the_weight(shown):
    numbers = selection_table(view_of(shown)).numbers.set_index(["learner", "partition"])
    assert numbers.loc[("B", 1), ["blend", "test"]].tolist() == [0.5, 0.61]
    assert numbers.loc[("B", 1), "as_learned"] == pytest.approx(0.51)
    rows = result_rows(shown).set_index(["learner", "measure", "k"])
    assert rows.loc[("A", "mAP", np.nan), "as_learned"].item() == pytest.approx(0.31)
    blends = rows["blend"].groupby("learner").first()
    of_all = {"Euclidean": "", "A": "0", "B": "0 (1); 0.5 (1); 1 (1)", "C": "1", "P": "0.75"}
    assert blends.to_dict() == of_all
    of_mAP = rows.xs("mAP", level="measure").droplevel("k")
    values = of_mAP.loc["P", ["mean", "direct", "posterior"]].tolist()
    assert values == pytest.approx([0.56, 0.51, 0.56])
    assert of_mAP.loc["P", ["use", "tau"]].tolist() == ["posterior", "0.3"]
    assert of_mAP.loc["A", ["use", "tau"]].tolist() == ["direct", ""]
    assert np.isnan(of_mAP.loc["A", "posterior"])
