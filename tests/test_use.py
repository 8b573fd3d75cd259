"""A learner for use: `fit`, `neighbours` and `embed`, on the command line and from Python."""

import csv
import os
import pickle
import re
import signal
import subprocess
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from definitions import mean_average_precision, pairs_of_blend
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from small_runs import bench, wait_for

import oasis_bench
from oasis_bench import scorers
from oasis_bench.algorithms import LDA, LMNN, OASIS, Euclidean
from oasis_bench.command_line import main
from oasis_bench.command_line.use import ENDINGS
from oasis_bench.data import row_hashes
from oasis_bench.experiment import Experiment, LearnerSpec
from oasis_bench.plugins import (
    Blend,
    digit_rows,
    load_blend,
    load_model,
    save_model,
    training_rows_of,
)
from oasis_bench.runs import fit_on_all, read_run
from oasis_bench.system import UsageError, derive_seed
from oasis_bench.tasks import evaluate_ranking

X, Y = load_iris(return_X_y=True, as_frame=True)
NAMES = [*X.columns]
ROWS = X.to_numpy()
PARAMS = {"shrinkage": 1.0, "n_components": 1}  # so weak that it is blended
KINDS = Y.map(dict(enumerate(["setosa", "versicolor", "virginica"])))
FEW = ["--label", "kind", "--inner-folds", "2", "--max-steps", "1000"]
FEW += ["--scaling", "standard+l2", "--use", "direct"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, one of its columns in another order with names of rows, and one of a row."""
    folder = tmp_path_factory.mktemp("use")
    named = X.assign(id=[f"r{i}" for i in range(150)], kind=KINDS)
    named.drop(columns="id").to_csv(folder / "table.csv", index=False)
    named[["kind", *NAMES[::-1], "id"]].to_csv(folder / "gallery.csv", index=False)
    X[7:8].to_csv(folder / "queries.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def metric(folder):
    """The model file of LMNN, by the command line."""
    words = ["fit", folder / "table.csv", *FEW, "--learner", "LMNN", "--output", folder / "m.npz"]
    with (folder / "said.txt").open("w") as said, redirect_stdout(said):
        assert main([*map(str, words)]) == 0
    return folder / "m.npz"


def by_hand(model, queries=ROWS):
    """Return the distances of queries to all rows, by NumPy and SciPy alone."""
    scaled = make_pipeline(StandardScaler(), Normalizer()).fit(ROWS)
    L = model[-1].components_
    return cdist(scaled.transform(queries) @ L.T, scaled.transform(ROWS) @ L.T)


def test_the_model_is_fitted_on_all_rows_and_holds_their_scaling(metric):
    model = load_model(metric)
    assert list(model.named_steps) == ["readtable", "standardscaler", "normalizer", "lmnn"]
    np.testing.assert_allclose(model[1].mean_, ROWS.mean(axis=0))
    np.testing.assert_allclose(model[1].scale_, ROWS.std(axis=0))
    params = model[-1].get_params()
    scaled = make_pipeline(StandardScaler(), Normalizer()).fit_transform(ROWS)
    again = LMNN(**params).fit(scaled, Y)
    np.testing.assert_allclose(model[-1].components_, again.components_)
    assert model.feature_names_in_.tolist() == NAMES
    np.testing.assert_array_equal(np.unique(training_rows_of(metric)), np.unique(row_hashes(ROWS)))


def test_what_to_expect_is_said_with_its_bias(metric, folder):
    said = (folder / "said.txt").read_text()
    assert re.search(r"^LMNN is fitted on all rows: scaling standard\+l2, .*pull_weight ", said)
    found = re.findall(r"^  (.+): retrieval mAP 0\.\d{3} ± 0\.\d{3}$", said, re.MULTILINE)
    b = load_blend(metric).weight
    blended = ["LMNN, as learned (blend weight 1)"]
    if b < 1:
        blended = [f"LMNN, blended with Euclidean (weight {b:g})", "LMNN, as learned"]
    assert found == ["Euclidean", *blended]
    assert "so its value is slightly optimistic. 'run --split stratified' measures on rows" in said
    assert "folds, in which classes are as frequent as in the data (each row of a fold is" in said
    assert "is compared with the other rows of the fold):" in said
    assert f"kept in {metric}" in said


def experiment(folder, learner, *scaling):
    how = {"classes": ("all",), "inner_folds": 3, "scaling": scaling, "use": "direct"}
    learners = {learner.algorithm: learner}
    return Experiment("fit", str(folder / "table.csv"), learners, {"label": "kind"}, **how)


def test_the_values_are_those_of_the_folds_of_a_run(folder, tmp_path):
    e = experiment(folder, LearnerSpec("LDA", PARAMS), "minmax", "l2")
    fitted = fit_on_all(e, tmp_path / "lda.npz")
    scales = {"minmax": make_pipeline(MinMaxScaler()), "l2": make_pipeline(Normalizer())}
    of_baseline = {name: np.mean(fold_values(e, one)["Euclidean"]) for name, one in scales.items()}
    of_baseline = scales[max(of_baseline, key=of_baseline.get)]  # tuned apart from the learner's
    values = {name: fold_values(e, one, clone(of_baseline)) for name, one in scales.items()}
    best = max(values, key=lambda scaling: np.mean(values[scaling]["LDA"]))
    assert fitted.tuned == {"scaling": best, **PARAMS}
    assert fitted.values["LDA"] == pytest.approx(values[best]["LDA"], abs=1e-9)
    means = {b: np.mean(values[best][b]) for b in Blend.WEIGHTS}
    b = max(Blend.WEIGHTS, key=lambda b: (round(means[b], 12), b))
    assert fitted.result.tuned[0].blend == load_blend(tmp_path / "lda.npz").weight == b
    assert fitted.result.blend_values == pytest.approx(values[best][b], abs=1e-9)
    best = max(values, key=lambda scaling: np.mean(values[scaling]["Euclidean"]))
    assert fitted.values["Euclidean"] == pytest.approx(values[best]["Euclidean"], abs=1e-9)
    assert fitted.measure == "retrieval mAP"
    mean, spread = np.mean(fitted.values["LDA"]), np.std(fitted.values["LDA"], ddof=1)
    assert f"LDA, as learned: retrieval mAP {mean:.3f} ± {spread:.3f}" in str(fitted)
    blended = fitted.result.blend_values
    mean, spread = np.mean(blended), np.std(blended, ddof=1)
    assert (
        f"LDA, blended with Euclidean (weight {b:g}): retrieval mAP {mean:.3f} ± {spread:.3f}"
        in str(fitted)
    )
    assert 0 < b < 1
    assert "nothing that LDA learned" not in str(fitted)


def test_where_the_baseline_is_best_this_is_said(folder, tmp_path):
    e = experiment(folder, LearnerSpec("StandardizedEuclidean"), "none")
    fitted = fit_on_all(e, tmp_path / "model.npz")
    # Ties are decided by the rounding of BLAS.
    blended = fitted.result.blend_values
    assert blended == pytest.approx(fitted.values["Euclidean"], abs=1e-3)
    assert np.mean(blended) > np.mean(fitted.values["StandardizedEuclidean"])
    said = "The blend weight is 0: on these data nothing that StandardizedEuclidean learned beat"
    assert said in str(fitted)
    _, similarities = oasis_bench.neighbours(load_model(tmp_path / "model.npz"), X, X, k=4)
    best = np.sort(cdist(ROWS, ROWS), axis=1)[:, :4]
    np.testing.assert_allclose(similarities, -(best**2) / 2, atol=1e-9)


def test_a_learner_without_a_choice_is_validated_too(folder, tmp_path):
    e = experiment(folder, LearnerSpec("Euclidean"), "standard")
    fitted = fit_on_all(e, tmp_path / "model.npz")
    expected = fold_values(e, StandardScaler())["Euclidean"]
    assert fitted.values == {"Euclidean": pytest.approx(expected, abs=1e-9)}
    assert "optimistic" not in str(fitted)


def test_rows_of_classes_apart_and_of_given_folds_all_train(folder, tmp_path):
    table = pd.read_csv(folder / "table.csv")
    table["kind"] = np.arange(150) % 10
    table.assign(fold=np.arange(150) % 3).to_csv(tmp_path / "ten.csv", index=False)
    how = {
        "label": "kind",
        "dataset_options": {"fold_column": "fold"},
        "inner_folds": 2,
        "scaling": "standard",
    }
    for task in ("retrieval", "unseen-classes"):
        model = oasis_bench.fit(tmp_path / "ten.csv", "RCA", task=task, **how)
        np.testing.assert_allclose(model[1].mean_, ROWS.mean(axis=0))
        assert model[1].n_samples_seen_ == 150


def fold_values(e, scale, of_baseline=None):
    """Return mAP of two learners on scikit-learn's stratified folds, with the seed of a trial.

    Also of blends, whose baseline has the same scaling where no other is given.
    """
    of_baseline = of_baseline or scale
    seed = derive_seed(e.seed, "folds", "all", 0)
    ties = derive_seed(e.seed, "ties", "all", 0)
    values = {"LDA": [], "Euclidean": [], **{b: [] for b in Blend.WEIGHTS[:-1]}}
    values[1.0] = values["LDA"]  # on one axis many scores are equal but for rounding
    folds = StratifiedKFold(e.inner_folds, shuffle=True, random_state=seed)
    for train, test in folds.split(ROWS, Y):
        scale.fit(ROWS[train])
        of_baseline.fit(ROWS[train])
        for learner in (LDA(**PARAMS), Euclidean()):
            learner.fit(scale.transform(ROWS[train]), Y[train])
            found = evaluate_ranking(
                learner.similarity, scale.transform(ROWS[test]), Y[test].to_numpy(), seed=ties
            )
            values[learner.name].append(found.mean_average_precision)
            if learner.name == "LDA":
                s0, s1 = (
                    scores_of(learner, *[it.transform(ROWS[test])] * 2)[place]
                    for place, it in enumerate((of_baseline, scale))
                )
                pairs = derive_seed(e.seed, "blend", "all", 0)
                sds = [
                    deviations(learner, it.transform(ROWS[train]), pairs)[place]
                    for place, it in enumerate((of_baseline, scale))
                ]
                numbers = np.arange(len(test))
                for b in Blend.WEIGHTS[:-1]:
                    scores = (1 - b) * s0 / sds[0] + b * s1 / sds[1]
                    found = evaluate_ranking(
                        lambda X, Y, scores=scores: scores[np.ix_(X, Y)],
                        numbers,
                        Y[test].to_numpy(),
                        seed=ties,
                    )
                    values[b].append(found.mean_average_precision)
    return values


def scores_of(learner, queries, gallery):
    """Return s0 and s1 of a fitted learner by NumPy and SciPy."""
    s0 = -(cdist(queries, gallery) ** 2) / 2
    if hasattr(learner, "bilinear_matrix_"):
        return s0, queries @ learner.bilinear_matrix_ @ gallery.T
    return s0, -(cdist(learner.transform(queries), learner.transform(gallery)) ** 2) / 2


def deviations(learner, rows, seed):
    """Return the standard deviations of s0 and s1 over the pairs that a blend draws."""
    return [s.std() for s in scores_of(learner, *pairs_of_blend(rows, seed))]


def test_neighbours_are_those_of_brute_force(metric, folder, command, tmp_path):
    path = tmp_path / "new" / "neighbours.csv"
    words = [metric, folder / "gallery.csv", folder / "gallery.csv", "-k", 5, "--output", path]
    assert command("neighbours", *words) == (0, "", [])
    found = pd.read_csv(path)
    assert found.columns.tolist() == ["query", "rank", "neighbour", "similarity"]
    distances = by_hand(load_model(metric))
    assert found["query"].tolist() == np.repeat(np.arange(150), 5).tolist()
    assert found["rank"].tolist() == [1, 2, 3, 4, 5] * 150
    best = np.sort(distances, axis=1)[:, :5]  # equal rows may change places
    np.testing.assert_allclose(-found["similarity"], best.ravel(), atol=1e-7)
    own = distances[found["query"], found["neighbour"]]
    np.testing.assert_allclose(-found["similarity"], own, atol=1e-7)


@pytest.mark.parametrize("learner", [LDA(), OASIS(n_steps=200, random_state=0)])
@pytest.mark.parametrize("b", [0.0, 0.25, 0.75])
@pytest.mark.parametrize("own", [None, make_pipeline(StandardScaler(), Normalizer())])
def test_neighbours_of_a_blend_are_those_of_brute_force(folder, command, tmp_path, learner, b, own):
    model = make_pipeline(StandardScaler(), learner).fit(X, Y)
    rows = model[0].transform(X)
    if own is None:
        of_baseline, model.blend_ = rows, Blend.of(model[-1], rows, b)
    else:  # the baseline takes rows in a scaling of its own
        of_baseline, steps = own.fit_transform(X), tuple(step for _, step in own.steps)
        model.blend_ = Blend.of(model[-1], rows, b, steps=steps, baseline_X=of_baseline)
    save_model(model, tmp_path / "m.npz")
    assert load_blend(tmp_path / "m.npz") == model.blend_
    s0, s1 = scores_of(model[-1], of_baseline, of_baseline)[0], scores_of(model[-1], rows, rows)[1]
    sds = deviations(model[-1], of_baseline, 0)[0], deviations(model[-1], rows, 0)[1]
    scores = (1 - b) * s0 / sds[0] + b * s1 / sds[1] if b else s0
    best = -np.sort(-scores, axis=1)[:, :4]  # equal rows may change places
    for given in (model, load_model(tmp_path / "m.npz"), pickle.loads(pickle.dumps(model))):
        found, similarities = oasis_bench.neighbours(given, X, X, k=4)
        np.testing.assert_allclose(similarities, best, atol=1e-9)
        np.testing.assert_allclose(np.take_along_axis(scores, found, 1), best, atol=1e-9)
        np.testing.assert_allclose(scorers.similarity_of(given, X, X), scores, atol=1e-9)
        mean = mean_average_precision(scores, Y.to_numpy())
        assert scorers.mean_average_precision(given, X, Y) == pytest.approx(mean, abs=1e-3)
        others = np.where(np.eye(len(X), dtype=bool), -np.inf, scores)
        right = Y.to_numpy()[others.argmax(axis=1)] == Y  # few ties
        assert scorers.knn_accuracy()(given, X, Y) == pytest.approx(right.mean(), abs=0.02)
    words = [tmp_path / "m.npz", folder / "table.csv", folder / "gallery.csv", "-k", 4]
    status, printed, said = command("neighbours", *words)
    assert (status, said) == (0, [])
    table = pd.read_csv(pd.io.common.StringIO(printed))
    np.testing.assert_allclose(table["similarity"], best.ravel(), atol=1e-9)
    if isinstance(learner, LDA):
        words = [*words[:2], "--output", tmp_path / "points.npy"]
        status, _, (line,) = command("embed", *words)
        assert status == 0
        assert line.startswith("points are as learned, without the blend")
        assert line.endswith(f"of weight {b:g}")
        np.testing.assert_allclose(np.load(tmp_path / "points.npy"), model.transform(X))


def test_rows_are_called_by_a_column_and_printed_without_an_output(metric, folder, command):
    words = ["neighbours", metric, folder / "gallery.csv", folder / "gallery.csv", "-k", 1]
    status, printed, said = command(*words, "--name", "id")
    assert (status, said) == (0, [])
    rows = [*csv.DictReader(printed.splitlines())]
    equal = {"r101": "r142", "r142": "r101"}  # two rows of iris are the same
    assert all(row["neighbour"] in (row["query"], equal.get(row["query"])) for row in rows)
    assert [row["query"] for row in rows] == [f"r{i}" for i in range(150)]
    status, printed, _ = command("neighbours", metric, folder / "table.csv", folder / "queries.csv")
    assert status == 0
    assert printed.splitlines()[1].startswith("0,1,7,")
    assert len(printed.splitlines()) == 11


@pytest.mark.parametrize("ending", [".csv", ".npy", ".parquet"])
def test_distances_of_points_are_those_of_the_model(metric, folder, command, tmp_path, ending):
    if ending == ".parquet":
        pytest.importorskip("pyarrow", reason='pip install -e ".[parquet]" is needed')
    path = tmp_path / f"points{ending}"
    words = ["embed", metric, folder / "gallery.csv", "--output", path]
    names = [] if ending == ".npy" else ["--name", "id"]
    assert command(*words, *names) == (0, "", [])
    if ending == ".npy":
        points = np.load(path)
    else:
        table = pd.read_csv(path) if ending == ".csv" else pd.read_parquet(path)
        assert table.pop("id").tolist() == [f"r{i}" for i in range(150)]
        points = table.to_numpy()
        other = pd.read_csv(folder / "gallery.csv").rename(columns={"id": "x0"})
        other.to_csv(tmp_path / "gallery.csv", index=False)  # a name that a coordinate has, too
        words[2] = tmp_path / "gallery.csv"
        assert command(*words, "--name", "x0") == (0, "", [])
        table = pd.read_csv(path) if ending == ".csv" else pd.read_parquet(path)
        assert table.pop("name").tolist() == [f"r{i}" for i in range(150)]
    np.testing.assert_allclose(cdist(points, points), by_hand(load_model(metric)), atol=1e-7)


def test_a_model_of_named_columns_takes_sparse_rows(folder, tmp_path, command):
    save_model(LDA().fit(X, Y), tmp_path / "lda.npz")
    sparse.save_npz(tmp_path / "rows.npz", sparse.csr_matrix(ROWS))
    words = ["neighbours", tmp_path / "lda.npz", tmp_path / "rows.npz", tmp_path / "rows.npz"]
    status, printed, _ = command(*words, "-k", 1)
    assert (status, len(printed.splitlines())) == (0, 151)


def test_names_are_refused_where_the_data_has_none(tmp_path, command):
    save_model(LDA().fit(*digit_rows()), tmp_path / "lda.npz")
    words = ["embed", tmp_path / "lda.npz", "digits", "--output", tmp_path / "points.csv"]
    status, _, (line,) = command(*words, "--name", "id")
    assert (status, line) == (2, "oasis-bench: --name id: digits: no columns have names")


def test_a_learner_without_an_embedding_says_what_works(folder, tmp_path, command):
    save_model(OASIS(n_steps=50, random_state=0).fit(X, Y), tmp_path / "oasis.npz")
    words = [tmp_path / "oasis.npz", folder / "table.csv", "--output", tmp_path / "points.csv"]
    status, _, (line,) = command("embed", *words)
    assert status == 2
    assert "OASIS has no embedding" in line
    assert "call neighbours, or take PsdOASIS" in line
    assert not (tmp_path / "points.csv").exists()
    assert command("neighbours", *words[:2], folder / "queries.csv")[0] == 0


def test_python_does_the_same_in_three_lines(metric, folder, tmp_path):
    how = {"label": "kind", "inner_folds": 2, "max_steps": 1000, "scaling": "standard+l2"}
    how["use"] = "direct"
    model = oasis_bench.fit(folder / "table.csv", "LMNN", output=tmp_path / "m.npz", **how)
    rows, similarities = oasis_bench.neighbours(model, X, X[NAMES[::-1]], k=4)
    assert (tmp_path / "m.npz").read_bytes() == metric.read_bytes()
    best = np.sort(by_hand(model), axis=1)[:, :4]
    np.testing.assert_allclose(-similarities, best, atol=1e-7)
    np.testing.assert_allclose(by_hand(model)[np.arange(150)[:, None], rows], best, atol=1e-7)
    in_memory = oasis_bench.fit(X.assign(kind=KINDS), LMNN, **how)
    np.testing.assert_array_equal(in_memory[-1].components_, model[-1].components_)
    other = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(oasis_bench.embed(other, X), oasis_bench.embed(model, X))
    with pytest.raises(UsageError, match="unknown setting 'scalling': did you mean 'scaling'"):
        oasis_bench.fit((X, Y), "LMNN", scalling="none")
    with pytest.raises(UsageError, match="label_budget has no effect on a fit on all rows"):
        oasis_bench.fit((X, Y), "LMNN", label_budget=5)
    with pytest.raises(UsageError, match="split='unseen-classes': it takes the place of pairs"):
        oasis_bench.fit((X, Y), "LMNN", split="unseen-classes")
    with pytest.raises(UsageError, match=r"label = 'kind' of .X, y.: y has the labels"):
        oasis_bench.fit((X.assign(kind=KINDS), Y), "LMNN", label="kind")


def test_a_model_of_weighted_counts_takes_a_frame(tmp_path):
    counts = pd.DataFrame(np.random.default_rng(0).integers(0, 9, (60, 5)), columns=list("abcde"))
    counts["kind"] = np.where(counts["a"] > 4, "u", "v")
    how = {"scaling": "tfidf", "inner_folds": 2, "use": "direct", "search": 2}
    model = oasis_bench.fit(counts, "LDA", label="kind", **how)
    rows, _ = oasis_bench.neighbours(model, counts, counts[:3], k=2)
    assert rows.shape == (3, 2)
    with pytest.raises(UsageError, match="tfidf weights counts, but some values are negative"):
        oasis_bench.neighbours(model, -counts.drop(columns="kind"), counts[:3], k=2)


def test_training_rows_of_a_table_are_hashed_as_the_model_reads_them(tmp_path):
    table = pd.DataFrame({"a": np.arange(60.0), "b": np.array(["x", "y", "z"])[np.arange(60) % 3]})
    table["kind"] = np.where(table["a"] % 2 == 0, "u", "v")
    how = {"inner_folds": 2, "use": "direct", "search": 2, "output": tmp_path / "m.npz"}
    model = oasis_bench.fit(table, "LDA", label="kind", **how)
    save_model(model, tmp_path / "again.npz", training_rows=table)
    found, expected = (training_rows_of(tmp_path / name) for name in ("again.npz", "m.npz"))
    np.testing.assert_array_equal(np.sort(found), np.sort(expected))


def test_an_array_in_a_file_is_read_as_one_in_memory(tmp_path, command):
    """The column of categories holds their numbers as texts, and the array the numbers."""
    sizes = np.array([10, 20, 30])[np.arange(60) % 3]
    a = np.random.default_rng(0).normal(size=60)
    table = pd.DataFrame({"a": a, "size": sizes, "kind": np.where(sizes > 15, "u", "v")})
    how = {"inner_folds": 2, "use": "direct", "search": 2, "output": tmp_path / "m.npz"}
    model = oasis_bench.fit(table, "LDA", label="kind", column="size=category", **how)
    rows = table[["a", "size"]].to_numpy(float)
    np.savez(tmp_path / "X.npz", X=rows)
    words = ["embed", tmp_path / "m.npz", tmp_path / "X.npz", "--output", tmp_path / "e.npy"]
    assert command(*words)[0] == 0
    np.testing.assert_allclose(np.load(tmp_path / "e.npy"), oasis_bench.embed(model, rows))


def test_other_columns_that_may_be_labels_are_ignored(tmp_path, command):
    a = np.random.default_rng(0).normal(size=60)
    table = pd.DataFrame(
        {"a": a, "b": -a, "kind": np.where(a > 0, "u", "v"), "class": 1, "target": 2}
    )
    table.to_csv(tmp_path / "t.csv", index=False)
    how = {"label": "kind", "drop": "class,target", "inner_folds": 2, "use": "direct", "search": 2}
    oasis_bench.fit(tmp_path / "t.csv", "LDA", output=tmp_path / "m.npz", **how)
    words = ["neighbours", tmp_path / "m.npz", tmp_path / "t.csv", tmp_path / "t.csv"]
    assert command(*words, "--output", tmp_path / "n.csv")[0] == 0
    status, _, (line,) = command(*words, "--output", tmp_path / "n.npy")
    assert status == 2
    assert "n.npy: the table is CSV: give a name that ends so" in line


def test_evaluate_scales_by_the_model_and_not_by_the_data(metric, folder, command, tmp_path):
    rest = X[::2] * [1, 1, 1, 100]  # a scaling learned here would undo it
    rest.assign(kind=KINDS[::2]).to_csv(tmp_path / "rest.csv", index=False)
    words = ["evaluate", metric, "--dataset", tmp_path / "rest.csv", "--label", "kind"]
    words += ["--partitions", 1, "--train", 5, "--test", 20]
    assert command(*words, "--output", tmp_path / "run")[0] == 0
    run = read_run(tmp_path / "run")
    assert run.trials["scaling"].tolist() == ["standard+l2"]
    found = run.measures.query("measure == 'mAP'")["value"].item()
    model = load_model(metric)
    alike = scorers.mean_average_precision(model, rest, Y[::2])
    other = make_pipeline(*[type(step)() for _, step in model.steps[1:-1]]).fit(rest)
    L = model[-1].components_
    wrong = evaluate_ranking(
        lambda a, b: -cdist(a, b), other.transform(rest) @ L.T, Y[::2].to_numpy(), seed=0
    ).mean_average_precision
    assert abs(found - alike) < 0.05 < abs(found - wrong)
    status, _, (line,) = command(*words, "--scaling", "none")
    assert status == 2
    assert "has its own scaling, standard+l2: leave --scaling out" in line


def test_kept_models_of_a_run_take_rows_by_name_whatever_their_scaling(folder, tmp_path):
    how = {"label": "kind", "partitions": 1, "inner_folds": 2, "traces": False}
    how |= {"scaling": "l2+pca256", "save_models": True, "predictions": True, "blend": "off"}
    oasis_bench.run(folder / "table.csv", "LDA", output=tmp_path / "run", **how)
    model = load_model(tmp_path / "run" / "models" / "LDA_all_0.npz")
    assert model.feature_names_in_.tolist() == NAMES
    with np.load(tmp_path / "run" / "predictions" / "LDA_all_0.npz") as kept:
        mixed = X[NAMES[::-1]].iloc[kept["test_rows"]]
        found = scorers.similarity_of(model, mixed, mixed)
        np.testing.assert_allclose(found, kept["scores_test"], atol=1e-9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("neighbours {m} {t} {q} -k 151", "k = 151: the gallery has 150 items: give a number from"),
        ("neighbours {m} {bad} {q}", "the rows lack the column 'sepal width (cm)'"),
        ("neighbours {m} {t} {q} --name nmae", "there is no column for the name ('nmae')"),
        (
            "neighbours {m} digits {q}",
            "digits: rows of shape (1797, 64), and the",
        ),
        ("embed {m} {t} --output points.txt", "its ending is none of .csv, .npy, .parquet"),
        ("fit {t} --label kind --learner all --output x.npz", "--learner all: one learner is"),
        ("embed {m} {t} --name id --output p.npy", "--name id: a .npy file has no names"),
        ("fit {t} --label kind", "the following arguments are required: --output"),
        ("fit {t} --label kind --output .", ". is a folder: give a file"),
        ("fit {t} --label kind --classes 2,3 --output x.npz", "give one --classes"),
        ("fit {t} --label kind --learner LocalPatchDistances --output x.npz", "takes patches"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    metric, folder, command, tmp_path, monkeypatch, words, said
):
    monkeypatch.chdir(tmp_path)
    X.drop(columns=NAMES[1]).to_csv(tmp_path / "bad.csv", index=False)
    paths = {"m": metric, "t": folder / "table.csv", "q": folder / "queries.csv"}
    names = {name: str(path) for name, path in {**paths, "bad": tmp_path / "bad.csv"}.items()}
    status, printed, lines = command(*words.format(**names).split())
    assert (status, printed, len(lines)) == (2, "", 1)
    assert said in lines[0]
    assert [path.name for path in tmp_path.iterdir()] == ["bad.csv"]


PLUGIN = """from oasis_bench.algorithms import LDA

class Mine(LDA):
    name = "Mine"
"""


@pytest.mark.parametrize(
    "words",
    [
        "fit t.csv --label kind --output {}",
        "fit t.csv --label kind --plugin mine.py --output {}",
        "fit t.csv --pairs pairs.csv --drop kind --output {}",
        "fit t.csv --triplets triplets.csv --drop kind --output {}",
        "fit t.npy --labels y.npy --output {}",
        "fit t.csv --data-option label=kind --data-option pairs=pairs.csv --output {}",
        "neighbours m.npz t.csv q.csv --output {}",
        "neighbours m.npz q.csv t.csv --plugin mine.py --output {}",
        "embed m.npz t.csv --label kind --output {}",
        "embed m.npz t.npy --labels y.npy --output {}",
        "evaluate m.npz --dataset t.csv --plugin mine.py --output {}",
        "run --experiment e.toml --plugin mine.py --output {}",
        "data describe t.csv --label kind --output {}",
        "export a-run --format csv --plugin mine.py --output {}",
        "judge a-run --output {}",
        "ranks a-run q.csv --output {}",
    ],
)
def test_an_input_is_never_replaced_by_the_output(
    metric, folder, command, tmp_path, monkeypatch, words
):
    monkeypatch.chdir(tmp_path)
    texts = {"mine.py": PLUGIN, "pairs.csv": "a,b,same\n", "triplets.csv": "query,nearer,farther\n"}
    texts["e.toml"] = 'title = "T"\ndataset = "t.csv"\n[learners.LDA]\n'
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "m.npz").write_bytes(metric.read_bytes())
    np.save(tmp_path / "t.npy", ROWS)
    np.save(tmp_path / "y.npy", Y)
    for name, of in (("t.csv", "table.csv"), ("q.csv", "queries.csv")):
        (tmp_path / name).write_bytes((folder / of).read_bytes())
    (tmp_path / "a-run").mkdir()
    inputs = {*re.findall(r"[\w-]+\.(?:csv|npy|npz|py|toml)|a-run", words)}
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()}
    for name in inputs:
        ending = Path(name).suffix
        link, hard = tmp_path / f"link{ending}", tmp_path / f"hard{ending}"
        link.symlink_to(name)
        paths = [name, tmp_path / name, f"a-run/../{name}", link.name]
        if ending:
            os.link(name, hard)
            paths.append(hard)
        for output in paths if not words.startswith("embed") or ending in ENDINGS else []:
            status, printed, lines = command(*words.format(output).split())
            assert (status, printed, len(lines)) == (2, "", 1)
            assert re.search(f"{output} (is an input too|for output: Not a directory)", lines[0])
        link.unlink()
        hard.unlink(missing_ok=True)
    after = {path: path.is_file() and path.read_bytes() for path in tmp_path.iterdir()}
    assert after == before


def test_python_replaces_no_input_either(folder, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes((folder / "table.csv").read_bytes())
    with pytest.raises(UsageError, match=r"^output .*t\.csv is an input too") as error:
        oasis_bench.fit(path, "LDA", output=path, label="kind")
    assert "--" not in str(error.value)
    with pytest.raises(UsageError, match=r"cannot use .*t\.csv for output"):
        oasis_bench.run(path, "LDA", output=path, label="kind")
    assert path.read_bytes() == (folder / "table.csv").read_bytes()


def test_ctrl_c_leaves_no_file(folder, plugins, tmp_path):
    began = tmp_path / "began"
    output = tmp_path / "out" / "slow.npz"
    output.parent.mkdir()
    words = ["fit", folder / "table.csv", *FEW, "--learner", "Sleeper"]
    words += ["--plugin", plugins / "sleeper.py", "--param", f"Sleeper.marker={began}"]
    command = bench(*words, "--output", output)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        wait_for(began.exists, 120)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    assert began.exists()
    assert process.returncode == 130
    assert "Traceback" not in said
    assert said.splitlines()[-1] == "oasis-bench: interrupted"
    assert not [*output.parent.iterdir()]


def test_of_many_rows_the_same_share_of_each_class_is_fitted(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("oasis_bench.runs.fitting.MOST_ROWS", 40)
    y = np.repeat([0, 1, 2], [60, 90, 10])
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(160, 3)) + y[:, None]).assign(
        label=y
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    words = ["--learner", "LDA", "--inner-folds", "2", "--output", str(tmp_path / "m.npz")]
    assert main(["fit", str(tmp_path / "t.csv"), *words]) == 0
    said = capsys.readouterr().out
    assert "LDA is fitted on 41 of 160 rows, the same share of each class" in said
    fitted = set(training_rows_of(tmp_path / "m.npz").tolist())
    of_class = [
        fitted & set(row_hashes(frame.loc[y == k, [0, 1, 2]].to_numpy()).tolist()) for k in range(3)
    ]
    assert [*map(len, of_class)] == [15, 23, 3]
    assert len(fitted) == 41
