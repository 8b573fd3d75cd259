"""Kept models and scores: judged again, on other data and by other tasks, without a new fit."""

import numpy as np
import pytest
from distributed import LocalCluster

from oasis_bench.command_line.main import main
from oasis_bench.plugins.model_file import load_model
from oasis_bench.store.run_file import read_run

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
        X = digits()[0]
        model = load_model(kept / "models" / "OASIS_4_1.npz")
        np.testing.assert_allclose(
            scores["scores_training"], model.similarity(X[test], X[training])
        )
    assert trials.loc[("OASIS", 1), "n_steps"] == model.n_steps


def digits():
    from sklearn.datasets import load_digits
    from sklearn.preprocessing import normalize

    X, y = load_digits(return_X_y=True)
    return normalize(X), y


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


def test_a_cluster_brings_the_same_files(kept, tmp_path):
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        words = ["--cluster", cluster.scheduler_address, "--tasks", "retrieval,classification"]
        assert run(tmp_path / "run", "--algorithms", "OASIS,LDA", *words, *BOTH) == 0
    for name in files(kept):
        assert (tmp_path / "run" / name).read_bytes() == (kept / name).read_bytes(), name
