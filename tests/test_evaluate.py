"""Kept models and scores: judged again, on other data and by other tasks, without a new fit."""

import shutil

import numpy as np
import pandas as pd
import pytest
from distributed import LocalCluster
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import LDA
from oasis_bench.command_line.main import main
from oasis_bench.plugins.model_file import load_model, save_model
from oasis_bench.store.run_file import Store, read_run

SIZES = ["--classes", "4", "--partitions", "2", "--train", "12", "--test", "8"]
STEPS = ["--max-steps", "1000", "--inner-folds", "2"]
BOTH = ["--save-models", "--predictions"]


def run(folder, *words):
    return main(["run", *SIZES, *STEPS, "--output", str(folder), *map(str, words)])


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A run that kept its models and its scores."""
    folder = tmp_path_factory.mktemp("kept") / "run"
    tasks = "retrieval,classification"
    assert run(folder, "--algorithms", "OASIS,LDA", "--tasks", tasks, *BOTH) == 0
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
        X = normalize(load_digits().data)
        model = load_model(kept / "models" / "OASIS_4_1.npz")
        np.testing.assert_allclose(
            scores["scores_training"], model.similarity(X[test], X[training])
        )
    assert trials.loc[("OASIS", 1), "n_steps"] == model.n_steps


UNSAVEABLE = """
from oasis_bench.algorithms import Euclidean

class Holds(Euclidean):
    name = "Holds"

    def fit(self, X, y=None):
        self.held_ = {1, 2}
        return super().fit(X, y)
"""


def test_a_learner_that_cannot_be_saved_keeps_its_result(tmp_path):
    plugin = tmp_path / "holds.py"
    plugin.write_text(UNSAVEABLE)
    assert run(tmp_path / "run", "--algorithms", "Holds", "--plugin", plugin, *BOTH) == 0
    trials = read_run(tmp_path / "run").trials
    assert trials["status"].tolist() == ["ok", "ok"]
    assert trials["reason"].str.contains("not saved: .*held_ is of type set").all()
    assert files(tmp_path / "run") == ["predictions/Holds_4_0.npz", "predictions/Holds_4_1.npz"]


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster.scheduler_address


def test_a_cluster_brings_the_same_files(kept, cluster, tmp_path):
    words = ["--cluster", cluster, "--tasks", "retrieval,classification", *BOTH]
    assert run(tmp_path / "run", "--algorithms", "OASIS,LDA", *words) == 0
    for name in files(kept):
        assert (tmp_path / "run" / name).read_bytes() == (kept / name).read_bytes(), name


def test_a_run_that_goes_on_keeps_files_where_it_is_asked_again(tmp_path, plugins):
    marker = tmp_path / "run"
    words = ["--algorithms", "Euclidean,Raises", "--plugin", plugins / "misbehaving.py"]
    assert run(marker, *words, "--save-models") == 1
    assert files(marker) == ["models/Euclidean_4_0.npz", "models/Euclidean_4_1.npz"]
    with Store.open(marker) as store:  # as if it had been cut short before this trial
        trial = store.statuses()
        forget(store, [key for key, status in trial.items() if status == "ok"][1])
    (marker / "models" / "Euclidean_4_1.npz").unlink()
    (marker / ".unfinished").mkdir()
    (marker / ".unfinished" / "abc.models").touch()
    assert main(["run", "--resume", str(marker), *BOTH]) == 0
    assert files(marker)[1:] == ["models/Euclidean_4_1.npz", "predictions/Euclidean_4_1.npz"]
    assert not (marker / ".unfinished").exists()


def forget(store, trial_id):
    for table in ("answers", "measures", "confusion", "traces", "symmetry", "trials"):
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
            own = own[(own["partition"] == partition) & (own["learner"] == "OASIS")]
        rows += own.astype(str).to_numpy().tolist()
    assert len(rows) > 10
    return sorted(rows)


@pytest.mark.parametrize("where", ["here", "on a cluster"])
def test_a_saved_model_is_judged_as_it_was_when_it_was_fitted(
    kept, tmp_path, request, where, capsys
):
    model, tasks = kept / "models" / "OASIS_4_1.npz", ["retrieval", "classification"]
    words = [
        *SIZES,
        "--dataset",
        "digits",
        "--tasks",
        ",".join(tasks),
        "--output",
        tmp_path / "new",
    ]
    if where != "here":
        words += ["--cluster", request.getfixturevalue("cluster")]
    assert evaluate(model, *words) == 0
    assert "partition 1: mAP" in capsys.readouterr().err
    again, before = (measured(f, *tasks, partition=1) for f in (tmp_path / "new", kept))
    assert again == before
    record = read_run(tmp_path / "new")
    assert record.trials["algorithm"].tolist() == ["OASIS", "OASIS"]
    fit = [name for name in record.trials if name.startswith(("fit_", "selection_"))]
    assert record.trials[fit].isna().all(axis=None)
    assert record.trials["n_steps"].eq(load_model(model).n_steps).all()
    assert (record.trials[["answer_seconds", "n_answered", "model_bytes"]] > 0).all(axis=None)
    assert record.validation.empty
    assert record.traces.empty
    page = (tmp_path / "new" / "report.html").read_text()
    assert "Nothing was fitted: OASIS was read from OASIS_4_1.npz." in page


def test_a_model_that_a_program_saved_is_judged_on_a_file_of_the_users(tmp_path, capsys):
    X, y = load_digits(return_X_y=True)
    save_model(LDA().fit(X[:600], y[:600]), tmp_path / "lda.npz")
    pd.DataFrame(X[600:]).assign(label=y[600:]).to_csv(tmp_path / "rest.csv", index=False)
    words = ["--dataset", tmp_path / "rest.csv", "--normalize", "none", "--classes", "all"]
    sizes = ["--partitions", "1", "--train", "4", "--test", "50", "--output", tmp_path / "run"]
    assert evaluate(tmp_path / "lda.npz", *words, *sizes) == 0
    assert "LDA" in capsys.readouterr().out
    record = read_run(tmp_path / "run")
    value = record.measures.set_index("measure")["value"]["mAP"]
    # Its classes are apart by then: rows as they are, without a metric, reach 0.6.
    assert 0.7 < value < 1
    assert record.trials["n_test"].tolist() == [500]


def test_a_run_of_a_model_goes_on_with_the_same_model_only(kept, tmp_path, capsys):
    model = tmp_path / "model.npz"
    shutil.copy(kept / "models" / "LDA_4_0.npz", model)
    assert evaluate(model, *SIZES, "--dataset", "digits", "--output", tmp_path / "run") == 0
    before = read_run(tmp_path / "run").trials
    assert main(["run", "--resume", str(tmp_path / "run")]) == 0
    pd.testing.assert_frame_equal(read_run(tmp_path / "run").trials, before)
    shutil.copy(kept / "models" / "LDA_4_1.npz", model)
    assert main(["run", "--resume", str(tmp_path / "run")]) == 2
    assert "changed since it began: the model file of LDA" in capsys.readouterr().err


def test_kept_scores_answer_a_new_task_as_the_trial_itself_would_have(kept, tmp_path, plugins):
    tasks, plugin = ["reciprocal-rank", "retrieval"], plugins / "reciprocal_rank.py"
    later = tmp_path / "later"
    shutil.copytree(kept, later)
    before = measured(kept, "retrieval", "classification")
    assert evaluate(later, "--tasks", ",".join(tasks), "--plugin", plugin) == 0
    words = [
        "--algorithms",
        "OASIS,LDA",
        "--plugin",
        plugin,
        "--tasks",
        "retrieval,reciprocal-rank",
    ]
    assert run(tmp_path / "asked", *words) == 0
    asked = tmp_path / "asked"
    assert measured(later, *tasks) == measured(asked, *tasks)
    assert measured(later, "retrieval", "classification") == before
    for folder in (later, asked):
        assert "the mean of 1 / rank" not in (page := (folder / "report.html").read_text())
        assert "how early is the first item" in page
    assert main(["run", "--resume", str(later)]) == 0  # its own tasks are what they were


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
        (model, [*new, "--dataset", narrow], "was fitted on 64 features and the data set has 2"),
        (model, [*new], "which data is .* Name it with --dataset"),
        (model, [*new, *digits, "--tasks", "judged-triplets"], "cannot be asked for judged-trip"),
        (model, [*new, *digits, "--tasks", "reading"], "unknown task 'reading'"),
        (damaged, [*new, *digits], "damaged.npz: cannot be read as a model file"),
        (tmp_path / "none.npz", [*new, *digits], "there is no such file"),
        (kept, [], "Name them with --tasks"),
        (kept, ["--tasks", "retrieval", *digits], "dataset is for a model"),
        (kept, ["--tasks", "unseen-classes"], "the run into seen-classes: ask it in a new run"),
        (tmp_path, ["--tasks", "retrieval"], "holds no run"),
    ):
        assert evaluate(judged, *words) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1
        assert pd.Series([told]).str.contains(line)[0], told
        assert not (tmp_path / "new").exists()
    assert run_file.read_bytes() == before


def test_scores_that_are_not_there_or_are_of_other_rows_are_refused(tmp_path, capsys):
    X, y = load_digits(return_X_y=True)
    table, folder = tmp_path / "digits.csv", tmp_path / "run"
    pd.DataFrame(X).assign(label=y).to_csv(table, index=False)
    words = ["--algorithms", "Euclidean", "--dataset", table, "--tasks", "retrieval,unseen-classes"]
    assert run(folder, *words, "--predictions") == 0
    names = [f"predictions/Euclidean_4_{n}.npz" for n in ("0", "0_unseen-classes")]
    assert files(folder)[:2] == names
    before = measured(folder, "unseen-classes", "retrieval")
    assert evaluate(folder, "--tasks", "unseen-classes,retrieval") == 0
    assert measured(folder, "unseen-classes", "retrieval") == before
    capsys.readouterr()
    assert evaluate(folder, "--tasks", "classification") == 2
    assert "holds scores against the other test items" in capsys.readouterr().err
    kept = (folder / names[0]).read_bytes()
    (folder / names[0]).write_bytes(kept[:-900])
    assert evaluate(folder, "--tasks", "retrieval") == 2
    assert "cannot be read as kept scores" in capsys.readouterr().err
    (folder / names[0]).write_bytes(kept)
    pd.DataFrame(X + 1).assign(label=y).to_csv(table, index=False)
    assert evaluate(folder, "--tasks", "retrieval") == 2
    assert "have changed since the run" in capsys.readouterr().err
    shutil.rmtree(folder / "predictions")
    assert evaluate(folder, "--tasks", "retrieval") == 2
    assert "has no kept scores: run it anew with --predictions" in capsys.readouterr().err
