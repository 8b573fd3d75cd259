"""Kept models and scores: judged again, on other data and by other tasks, without a new fit."""

import html
import re
import shutil
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from judged_files import judged_at_random, judged_by_colour
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits, load_iris
from sklearn.preprocessing import normalize
from small_runs import small

from oasis_bench.algorithms import LDA
from oasis_bench.command_line import main
from oasis_bench.data import row_hashes
from oasis_bench.datasets import OwnTriplets
from oasis_bench.experiment import model_experiment
from oasis_bench.plugins import load_model, save_model
from oasis_bench.reports import write_report
from oasis_bench.runs import (
    How,
    evaluate_run,
    read_run,
    resume_experiment,
    run_experiment,
)
from oasis_bench.runs.schema import TRIAL_TABLES
from oasis_bench.runs.store import Store
from oasis_bench.system import UsageError

SIZES = {"classes": (4,), "partitions": 2, "train_per_class": 12, "test_per_class": 8}
WORDS = ["--classes", "4", "--partitions", "2", "--train", "12", "--test", "8"]
BOTH = ("models", "predictions")
TASKS = ("retrieval", "classification")


def run(folder, *learners, dataset="digits", tasks=("retrieval",), settings=None, **how):
    """Run an experiment without a report; return how many trials did not end well."""
    settings = {"traces": False, "use": "direct", **(settings or {})}
    return run_experiment(
        small(learners, dataset, tasks=tasks, **SIZES, **settings), folder, How(**how)
    )


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run that kept its models and its scores."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    words = ["--algorithms", "OASIS,LDA", "--tasks", ",".join(TASKS), "--output", str(folder)]
    words += ["--max-steps", "1000", "--inner-folds", "2", "--no-traces", "--use", "direct"]
    assert main(["run", *WORDS, *words, "--save-models", "--predictions"]) == 0
    return folder


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.npz"))


FOUR = [f"{learner}_4_{partition}.npz" for learner in ("LDA", "OASIS") for partition in (0, 1)]


def test_models_and_scores_are_named_by_learner_subset_and_partition(kept):
    assert files(kept) == [f"{kind}/{name}" for kind in ("models", "predictions") for name in FOUR]
    assert not list((kept / ".unfinished").glob("*"))


def test_kept_scores_are_those_of_the_kept_model(kept):
    trials = read_run(kept).trials.set_index(["learner", "partition"])
    with np.load(kept / "predictions" / "OASIS_4_1.npz") as scores:
        test, training = scores["test_rows"], scores["training_rows"]
        assert scores["scores_test"].shape == (32, 32)
        assert scores["scores_training"].shape == (32, 48)
        assert not set(test) & set(training)
        assert sorted(scores["ties_test"]) == list(range(32))
        X = load_digits().data
        model = load_model(kept / "models" / "OASIS_4_1.npz")  # with its scaling, l2
        own = model[-1].similarity(*[model[:-1].transform(X[test])] * 2)
        np.testing.assert_allclose(scores["scores_test"], own)
        X = normalize(X)
        np.testing.assert_allclose(scores["scores_test"], model[-1].similarity(X[test], X[test]))
    assert trials.loc[("OASIS", 1), "n_steps"] == model[-1].n_steps


UNSAVEABLE = """
import os
from oasis_bench.algorithms import Euclidean
from oasis_bench.trial.learner_side import stages

class Holds(Euclidean):
    name = "Holds"

    def fit(self, X, y=None):
        self.held_ = {1, 2}
        return super().fit(X, y)

class SendsAPipe(Euclidean):
    name = "SendsAPipe"

    def fit(self, X, y=None):
        self.pipe_ = os.pipe()
        saved = stages.wall.Saved()
        stages._send_model_file = lambda *given: given[-1].send(saved, self.pipe_[0])
        return super().fit(X, y)
"""


def test_a_learner_that_cannot_be_saved_keeps_its_result_and_no_pipe_is_waited_for(tmp_path):
    plugin = tmp_path / "unsaveable.py"
    plugin.write_text(UNSAVEABLE)
    assert run(tmp_path / "run", "Holds", "SendsAPipe", plugin_files=[plugin], keep=BOTH) == 2
    trials = read_run(tmp_path / "run").trials.set_index("learner")[["status", "reason"]]
    assert set(trials.loc["Holds", "status"]) == {"ok"}
    assert trials.loc["Holds", "reason"].str.contains("not saved: .*held_ is of type set").all()
    assert set(trials.loc["SendsAPipe", "status"]) == {"crashed"}
    assert trials.loc["SendsAPipe", "reason"].str.contains("is not sealed").all()
    assert files(tmp_path / "run") == ["predictions/Holds_4_0.npz", "predictions/Holds_4_1.npz"]


def test_a_run_that_goes_on_keeps_files_where_it_is_asked_again(tmp_path, plugins):
    folder = tmp_path / "run"
    plugin = plugins / "misbehaving.py"
    assert run(folder, "Euclidean", "Raises", plugin_files=[plugin], keep=["models"]) == 2
    assert files(folder) == ["models/Euclidean_4_0.npz", "models/Euclidean_4_1.npz"]
    with Store.open(folder) as store:  # as if it had been killed during the later trial
        last = [trial for trial, status in store.statuses().items() if status == "ok"][1]
        forget(store, last)
    (folder / "models" / "Euclidean_4_1.npz").unlink()
    (folder / ".unfinished").mkdir()
    (folder / ".unfinished" / f"{last}.models").touch()
    assert resume_experiment(folder, How(plugin_files=[plugin], keep=BOTH)) == 0
    assert files(folder)[1:] == ["models/Euclidean_4_1.npz", "predictions/Euclidean_4_1.npz"]
    assert not (folder / ".unfinished").exists()


def forget(store, trial_id):
    for table in (*TRIAL_TABLES, "trials"):
        store.connection.execute(f"DELETE FROM {table} WHERE trial_id = ?", (trial_id,))


def evaluate(judged, *words):
    return main(["evaluate", *map(str, (judged, *words))])


def measured(folder, *tasks, partition=None):
    """Return the measures and the confusion of some tasks, but not whose they are."""
    rows = []
    record = read_run(folder)
    for table in (record.measures, record.confusion):
        own = table[table["task"].isin(tasks)].drop(columns="trial_id")
        if partition is not None:
            own = own[(own["partition"] == partition) & own["learner"].str.startswith("OASIS")]
        rows += own.drop(columns="learner").astype(str).to_numpy().tolist()
    assert len(rows) > 10
    return sorted(rows)


def test_a_saved_model_is_judged_as_it_was_when_it_was_fitted(kept, tmp_path, capsys):
    model, new = kept / "models" / "OASIS_4_1.npz", tmp_path / "new"
    words = ["--dataset", "digits", "--tasks", ",".join(TASKS), "--output", new]
    assert evaluate(model, *WORDS, *words) == 0
    assert "partition 1: mAP" in capsys.readouterr().err
    assert measured(new, *TASKS, partition=1) == measured(kept, *TASKS, partition=1)
    record = read_run(new)
    assert record.trials["algorithm"].tolist() == ["OASIS", "OASIS"]
    fit = [name for name in record.trials if name.startswith(("fit_", "tuning_"))]
    assert record.trials[fit].isna().all(axis=None)
    assert record.trials["n_steps"].eq(load_model(model)[-1].n_steps).all()
    assert (record.trials[["query_seconds", "n_timed_queries", "model_bytes"]] > 0).all(axis=None)
    assert record.validation.empty
    assert record.traces.empty
    page = (new / "report.html").read_text()
    assert "Nothing was fitted: OASIS was read from OASIS_4_1.npz." in page


def test_a_model_that_a_program_saved_is_judged_on_a_file_of_the_users(tmp_path):
    X, y = load_digits(return_X_y=True)
    model = LDA().fit(X[:600], y[:600])
    save_model(model, tmp_path / "lda.npz")
    pd.DataFrame(X[600:]).assign(label=y[600:]).to_csv(tmp_path / "rest.csv", index=False)
    sizes = {"partitions": 1, "train_per_class": 4, "test_per_class": 50, "scaling": ("none",)}
    table = str(tmp_path / "rest.csv")
    experiment = model_experiment(tmp_path / "lda.npz", table, tasks=TASKS, **sizes)
    assert run_experiment(experiment, tmp_path / "run", How(keep=["predictions"])) == 0
    with np.load(tmp_path / "run" / "predictions" / "lda_all_0.npz") as scores:
        test, training = 600 + scores["test_rows"], 600 + scores["training_rows"]
        nearest = model.similarity(X[test], X[training]).argmax(axis=1)
    accuracy = (y[training][nearest] == y[test]).mean()
    stored = read_run(tmp_path / "run").measures.set_index(["measure", "k"])["value"]
    assert stored["accuracy", 1] == pytest.approx(accuracy, abs=1e-12)


ONE_SCALING = ("--scaling", "standard+l2", "--partitions", "1")


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """A table with names, a run on it that kept its model, and a model that a program saved."""
    folder = tmp_path_factory.mktemp("iris")
    X, y = load_iris(return_X_y=True, as_frame=True)
    X.assign(label=y).to_csv(folder / "iris.csv", index=False)
    words = ["--algorithms", "LDA", "--partitions", "1", "--train", "20", "--test", "20"]
    words += ["--save-models", "--output", str(folder / "run")]
    assert main(["run", "--dataset", str(folder / "iris.csv"), *words]) == 0
    save_model(LDA().fit(X[::3], y[::3]), folder / "program.npz", training_rows=X[::3])
    return folder, X, y


def test_columns_are_matched_by_name_whatever_their_order(iris, tmp_path):
    folder, X, y = iris
    model = folder / "run/models/LDA_all_0.npz"
    assert load_model(model).feature_names_in_.tolist() == X.columns.tolist()
    first, *others = X.columns
    reordered, renamed = X[[*others, first]], X.rename(columns={first: "width"})

    def map_on(table):
        table.assign(label=y).to_csv(tmp_path / "table.csv", index=False)
        experiment = model_experiment(model, str(tmp_path / "table.csv"), partitions=1)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        assert run_experiment(experiment, folder) == 0
        return read_run(folder).measures.query("measure == 'mAP'")["value"].tolist()

    same = map_on(X)
    assert len(same) == 1
    assert map_on(reordered) == map_on(X.assign(more=1.0)) == same  # it does not need the last
    message = r"lack the column 'sepal length \(cm\)'.*give each column the name that it had"
    for table in (renamed, X[others]):
        before = list(tmp_path.iterdir())
        with pytest.raises(UsageError, match=message):
            map_on(table)
        assert list(tmp_path.iterdir()) == before


def test_a_model_without_names_takes_columns_in_their_order_and_says_so(iris, tmp_path, capsys):
    folder, X, y = iris
    save_model(LDA().fit(X.to_numpy()[::3], y[::3]), tmp_path / "nameless.npz")
    words = ["--dataset", folder / "iris.csv", *ONE_SCALING, "--output", tmp_path / "run"]
    assert evaluate(tmp_path / "nameless.npz", *words) == 0
    told = capsys.readouterr().err
    assert "nameless: the model has no names of columns, which are taken in their order" in told
    assert "does not say which items it was fitted on" in told


def test_rows_that_the_model_was_fitted_on_are_counted(iris, tmp_path, capsys):
    folder, X, y = iris
    seen = len(X.merge(X[::3].drop_duplicates()))  # two rows of iris are equal
    words = ["--dataset", folder / "iris.csv", *ONE_SCALING]
    assert evaluate(folder / "program.npz", *words, "--output", tmp_path / "seen") == 0
    line = f"{seen} of the 150 rows are training rows of the model program: its values are too high"
    assert line in capsys.readouterr().err
    assert line in html.unescape((tmp_path / "seen" / "report.html").read_text())
    unseen = X.assign(label=y)[~X.apply(tuple, axis=1).isin(X[::3].apply(tuple, axis=1))]
    unseen.to_csv(tmp_path / "unseen.csv", index=False)
    words = ["--dataset", tmp_path / "unseen.csv", *ONE_SCALING]
    assert evaluate(folder / "program.npz", *words, "--output", tmp_path / "unseen") == 0
    told = capsys.readouterr().err
    assert "training rows of" not in told
    assert "does not say" not in told
    words = ["--dataset", folder / "iris.csv", "--partitions", "1", "--output", tmp_path / "own"]
    assert evaluate(folder / "run" / "models" / "LDA_all_0.npz", *words) == 0
    counted = int(re.search(r"warning: (\d+) of the 150 rows", capsys.readouterr().err)[1])
    assert 60 <= counted <= 64  # 20 of each class, and their equals


def test_a_row_has_one_hash_however_it_is_stored():
    X = np.random.default_rng(0).integers(-2, 3, size=(2500, 4)).astype(np.float32)
    hashes = row_hashes(X)
    with_zeros = sparse.csr_array(X + 5)
    with_zeros.data -= 5
    for same in (X.astype(float), sparse.csr_array(X), with_zeros, sparse.csc_array(X)):
        np.testing.assert_array_equal(row_hashes(same), hashes)
    assert len(np.unique(hashes)) == len(np.unique(X, axis=0))


def similarity_precision(scores, triplets):
    """The share of triplets (query, positive, negative) with the positive above the negative."""
    margins = [scores[q, p] - scores[q, n] for q, p, n in triplets]
    return np.mean([1.0 if margin > 0 else 0.5 if margin == 0 else 0.0 for margin in margins])


def test_a_model_of_judged_triplets_is_judged_on_all_triplets_of_a_file_it_has_not_seen(
    tmp_path, monkeypatch, capsys
):
    pytest.importorskip("cv2", reason='pip install -e ".[handmade]" is needed')
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    judged_by_colour(tmp_path)
    names, triplets = judged_at_random(tmp_path / "other")
    features = ["--data-option", "features=lab+lbp"]
    once = ["--partitions", "1", "--inner-folds", "2", "--test-share", "0.5"]
    asked = ["--tasks", "judged-triplets", *features]
    learned = ["run", "--dataset", str(tmp_path / "my.csv"), "--algorithms", "GoldenFeature"]
    assert main([*learned, *asked, *once, "--save-models", "--output", str(tmp_path / "run")]) == 0
    (path,) = (tmp_path / "run" / "models").iterdir()
    new = tmp_path / "new"
    other = ["--dataset", tmp_path / "other" / "my.csv", *asked]
    assert evaluate(path, *other, "--test-share", "1", "--partitions", "5") == 2
    assert "partitions = 5 of all judgements are the same" in capsys.readouterr().err
    assert evaluate(path, *other, "--test-share", "1", "--output", new) == 0
    record = read_run(new)
    assert record.trials["partition"].tolist() == [0]
    found = record.measures.set_index("measure").loc["similarity precision", "value"]

    rows = OwnTriplets(tmp_path / "other" / "my.csv", features="lab+lbp").load()
    assert [image.name for image in rows.images] == names
    model = load_model(path)
    scores = model.similarity(rows.patches, rows.patches)
    assert found == pytest.approx(similarity_precision(scores, triplets), abs=1e-12)
    assert 0.2 < found < 0.8
    assert record.trials["learner"].tolist() == [path.stem]  # the row is named by the file
    groups = record.groups[record.groups["measure"] == "similarity precision"]
    assert groups["value"].sum() / groups["n"].sum() == pytest.approx(found, abs=1e-12)
    page = " ".join((new / "report.html").read_text().split())
    assert "The split is judged (all judgements test)." in page
    assert "--partitions 20" not in page  # more of the same would tell nothing new

    some = ["--partitions", "2", "--output", tmp_path / "some"]
    assert evaluate(path, "--dataset", tmp_path / "other" / "my.csv", *asked, *some) == 0
    trials = read_run(tmp_path / "some").trials
    assert len(trials) == 2
    assert (trials["n_test"] < len(names)).all()  # draws of some groups


def test_all_judgements_test_only_what_has_learned_already(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    judged_by_colour(tmp_path)
    words = ["run", "--dataset", str(tmp_path / "my.csv"), "--algorithms", "Euclidean"]
    words += ["--tasks", "judged-triplets", "--test-share", "1", "--output", str(tmp_path / "run")]
    assert main(words) == 2
    assert "test_share = 1: Euclidean has nothing to learn from" in capsys.readouterr().err


def test_a_learner_that_learns_nothing_needs_no_judgement_to_train_by(tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    judged_at_random(tmp_path / "other", n_pictures=4, n_triplets=16)
    words = ["run", "--dataset", str(tmp_path / "other" / "my.csv"), "--algorithms", "Euclidean"]
    # Two of four queries are left to train, and each of their triplets holds one that tests.
    words += ["--tasks", "judged-triplets", "--test-share", "0.5", "--partitions", "1"]
    assert main([*words, "--output", str(tmp_path / "run")]) == 0
    assert read_run(tmp_path / "run").trials["status"].tolist() == ["ok"]


def test_a_run_of_a_model_goes_on_with_the_same_model_only(kept, tmp_path):
    model, folder = tmp_path / "model.npz", tmp_path / "run"
    shutil.copy(kept / "models" / "LDA_4_0.npz", model)
    assert run_experiment(model_experiment(model, "digits", **SIZES), folder) == 0
    before = read_run(folder).trials
    assert resume_experiment(folder) == 0
    pd.testing.assert_frame_equal(read_run(folder).trials, before)
    shutil.copy(kept / "models" / "LDA_4_1.npz", model)
    with pytest.raises(UsageError, match="changed since it began: the model file of model"):
        resume_experiment(folder)


def test_kept_scores_answer_a_new_task_as_the_trial_itself_would_have(kept, tmp_path, plugins):
    tasks, plugin = ("retrieval", "reciprocal-rank"), plugins / "reciprocal_rank.py"
    later, asked = tmp_path / "later", tmp_path / "asked"
    shutil.copytree(kept, later)
    assert evaluate(later, "--tasks", ",".join(tasks), "--plugin", plugin) == 0
    assert run(asked, "OASIS", "LDA", tasks=tasks, plugin_files=[plugin]) == 0
    assert measured(later, *tasks) == measured(asked, *tasks)
    assert measured(later, *TASKS) == measured(kept, *TASKS)
    assert "how early is the first item" in (later / "report.html").read_text()
    assert resume_experiment(later) == 0  # its own tasks are what they were


def test_kept_scores_of_a_split_with_its_own_sizes_are_found_again(tmp_path):
    folder, tasks = tmp_path / "run", ("retrieval", "unseen-classes")
    settings = {"split": "stratified", "test_share": 0.3, "classes": (8,), "tasks": tasks}
    assert run_experiment(small(["LDA"], **settings), folder, How(keep=["predictions"])) == 0
    before = measured(folder, "retrieval")
    assert evaluate(folder, "--tasks", "retrieval") == 0
    assert measured(folder, "retrieval") == before
    assert main(["export", str(folder), "--format", "trec"]) == 0


def test_what_cannot_be_judged_is_told_in_one_line(kept, tmp_path, capsys):
    model, run_file = kept / "models" / "OASIS_4_0.npz", kept / "results.sqlite"
    before = run_file.read_bytes()
    narrow = tmp_path / "narrow.csv"
    narrow.write_text("a,b,label\n" + "\n".join(f"{i},{-i},{i % 2}" for i in range(200)))
    damaged = tmp_path / "damaged.npz"
    damaged.write_bytes(model.read_bytes()[:-500])
    new = ["--output", tmp_path / "new"]
    digits = ["--dataset", "digits"]
    for judged, words, line in (
        (model, [*new, "--dataset", narrow], "on 64 features and the data set has 2"),
        (model, [*new, *digits, "--scaling", "none"], "has its own scaling, l2: leave"),
        (model, [*new], "needs data to be evaluated on: give --dataset"),
        (model, [*new, *digits, "--tasks", "judged-triplets"], "cannot be asked for judged-trip"),
        (model, [*new, *digits, "--tasks", "reading"], "unknown task 'reading'"),
        (damaged, [*new, *digits], "damaged.npz: cannot be read as a model file"),
        (tmp_path / "none.npz", [*new, *digits], "none.npz: No such file"),
        (kept, [], "name them with --tasks"),
        (kept, ["--tasks", "retrieval", *digits], "dataset is for a model"),
        (kept, ["--tasks", "unseen-classes"], "and the run has seen-classes: evaluate it in"),
        (tmp_path, ["--tasks", "retrieval"], "has no run"),
    ):
        assert evaluate(judged, *words) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert pd.Series([told]).str.contains(line)[0], told
        assert not (tmp_path / "new").exists()
    assert run_file.read_bytes() == before


def test_scores_that_are_not_there_or_are_of_other_rows_are_refused(tmp_path):
    X, y = load_digits(return_X_y=True)
    table, folder = tmp_path / "digits.csv", tmp_path / "run"
    pd.DataFrame(X).assign(label=y).to_csv(table, index=False)
    tasks = ("retrieval", "unseen-classes")
    how = {"keep": ["predictions"], "settings": {"scaling": "l2"}}
    assert run(folder, "Euclidean", dataset=table, tasks=tasks, **how) == 0
    names = [f"predictions/Euclidean_4_{n}.npz" for n in ("0", "0_unseen-classes")]
    assert files(folder)[:2] == names
    before = measured(folder, *tasks)
    assert evaluate_run(folder, tasks) == 0
    assert measured(folder, *tasks) == before
    with pytest.raises(UsageError, match="has scores against the other test items"):
        evaluate_run(folder, ["classification"])
    kept = (folder / names[0]).read_bytes()
    (folder / names[0]).write_bytes(kept[:-900])
    with pytest.raises(UsageError, match="cannot be read as kept scores"):
        evaluate_run(folder, ["retrieval"])
    (folder / names[0]).write_bytes(kept)
    pd.DataFrame(X + 1).assign(label=y).to_csv(table, index=False)
    with pytest.raises(UsageError, match="have changed since the run"):
        evaluate_run(folder, ["retrieval"])
    shutil.rmtree(folder / "predictions")
    with pytest.raises(UsageError, match="has no kept scores: run it again with --predictions"):
        evaluate_run(folder, ["retrieval"])


def rewritten(path, **others):
    """Write a file of scores again, with other arrays in place of some; None: without it."""
    with np.load(path) as file:
        arrays = {**file, **others}
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})


def relabelled(path, old, new):
    """Replace bytes of a file by as many others, wherever they are."""
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))


SCORES = np.random.default_rng(0).normal(size=(32, 32))
DAMAGE = {
    "NaN": (
        lambda path: rewritten(path, scores_test=np.where(SCORES > 2, np.nan, SCORES)),
        "are NaN",
    ),
    "shape": (lambda path: rewritten(path, scores_test=SCORES[:, 1:]), r"shape \(32, 31\)"),
    "rows": (lambda path: rewritten(path, test_rows=np.arange(32)), "are of other items"),
    "missing": (lambda path: rewritten(path, training_rows=None), "training_rows.npy"),
    "byte": (lambda path: relabelled(path, SCORES[3, 4].tobytes(), bytes(8)), "Bad CRC-32"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_scores_are_refused_in_one_line_and_nothing_is_written(
    kept, tmp_path, capsys, name
):
    damage, line = DAMAGE[name]
    later = tmp_path / "later"
    shutil.copytree(kept, later)
    path = later / "predictions" / "OASIS_4_1.npz"  # the last that is read
    rewritten(path, scores_test=SCORES)
    damage(path)
    before = (later / "results.sqlite").read_bytes()
    assert evaluate(later, "--tasks", "retrieval") == 2
    *progress, told = capsys.readouterr().err.splitlines()
    assert progress in ([], ["evaluating trials"])
    assert str(path) in told
    assert re.search(line, told), told
    assert (later / "results.sqlite").read_bytes() == before
    if name == "rows":  # the other program that reads kept scores
        assert main(["export", str(later), "--format", "trec"]) == 2
        assert line in capsys.readouterr().err


def first_seen_twice(ranked):
    """Frome's rule (2007, section 6), written out."""
    for place, name in enumerate(ranked[:10]):
        if name in ranked[:place]:
            return name
    return ranked[0]


def test_confusion_is_by_the_rule_that_the_run_chooses_by_also_when_judged_again(tmp_path):
    X, y = load_digits(return_X_y=True)
    X += np.random.default_rng(0).normal(scale=8, size=X.shape)  # so that the two rules differ
    pd.DataFrame(X).assign(label=y).to_csv(tmp_path / "digits.csv", index=False)
    folder, by_frome = tmp_path / "run", "mean recognition by Frome's rule"
    settings = {"choose_by": by_frome, "scaling": ("none",)}
    how = {"tasks": ("classification",), "keep": ["predictions"]}
    how["dataset"] = tmp_path / "digits.csv"
    assert run(folder, "Euclidean", settings=settings, **how) == 0
    stored = read_run(folder).confusion
    stored = stored[stored["partition"] == 0]
    with np.load(folder / "predictions" / "Euclidean_4_0.npz") as kept:
        test, training = kept["test_rows"], kept["training_rows"]
    order = cdist(X[test], X[training]).argsort(axis=1)
    predicted = [first_seen_twice(y[training][row].tolist()) for row in order]
    counts = Counter(zip(y[test].tolist(), predicted, strict=True))
    assert counts != Counter(zip(y[test].tolist(), y[training][order[:, 0]].tolist(), strict=True))
    found = stored[["label", "predicted", "n"]].itertuples(index=False)
    assert {(row.label, row.predicted): row.n for row in found} == counts
    before = measured(folder, "classification")
    assert evaluate_run(folder, ["classification"]) == 0
    assert measured(folder, "classification") == before
    assert f"Classes are predicted as for {by_frome}, and" in html.unescape(page(folder))


def page(folder):
    return " ".join(write_report(folder).read_text().split())


def test_a_measure_that_the_store_refuses_leaves_the_run_as_it_was(kept, tmp_path, plugins):
    """It is refused in the second trial: the values of the first one are not written either."""
    plugin, later = tmp_path / "endless.py", tmp_path / "later"
    text = (plugins / "reciprocal_rank.py").read_text().replace("reciprocal-rank", "endless")
    value = "{None: self.reciprocals.mean()}"
    endless = "CALLS.append(1) or {None: 0.5 if len(CALLS) < 2 else np.inf}"
    plugin.write_text(f"CALLS = []\n{text.replace(value, endless)}")
    shutil.copytree(kept, later)
    before = (later / "results.sqlite").read_bytes()
    with pytest.raises(UsageError, match="the store refuses it"):
        evaluate_run(later, ["endless"], [plugin])
    assert (later / "results.sqlite").read_bytes() == before


def test_a_new_task_that_fails_is_a_row_with_the_reason(kept, tmp_path):
    plugin, later = tmp_path / "stumbles.py", tmp_path / "later"
    plugin.write_text("""
from oasis_bench.tasks.retrieval import Retrieval

class Stumbles(Retrieval):
    name = "stumbles"

    def evaluation(self, truth, ties, measures=None):
        raise RuntimeError("stumbled")
""")
    shutil.copytree(kept, later)
    assert evaluate_run(later, ["stumbles"], [plugin]) == 4
    answers = read_run(later).answers.set_index("task").loc["stumbles"]
    assert set(answers["status"]) == {"failed"}
    assert set(answers["reason"]) == {"RuntimeError: stumbled"}
    assert measured(later, *TASKS) == measured(kept, *TASKS)
