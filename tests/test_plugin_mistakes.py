"""Mistakes in plugins: each is told by the method that has it, and what it should have been."""

import re
from pathlib import Path

import numpy as np
import pytest
from fake_runs import fake_trial, fake_trials, make_run

from oasis_bench.plugins import (
    BilinearLearner,
    BrokenPluginError,
    EmbeddingLearner,
    ExemplarLearner,
    IncrementalLearner,
    MahalanobisLearner,
    MetricLearner,
    Registry,
)
from oasis_bench.plugins.registry import BASES, plugins_in
from oasis_bench.reports import answer_text, summary_text
from oasis_bench.tasks import Evaluation

X = np.random.default_rng(0).normal(size=(6, 4))


class Mine:
    """The part that all of the learners below have."""

    name = summary = citation = "mine"

    def fit(self, X, y=None):
        self.n_features_in_ = X.shape[1]
        return self


class Unset(Mine, MahalanobisLearner):
    pass


class WideL(Mine, MahalanobisLearner):
    components_ = np.ones((2, 5))


class UndefinedL(Mine, MahalanobisLearner):
    components_ = np.diag([1, 1, np.nan, 1])


class SmallW(Mine, BilinearLearner):
    bilinear_matrix_ = np.eye(3)


class Sums(Mine, EmbeddingLearner):
    def embed(self, X):
        return X.sum(axis=1)


class LosesARow(Mine, EmbeddingLearner):
    def embed(self, X):
        return X[1:]


class Flat(Mine, MetricLearner):
    def score_embeddings(self, queries, gallery):
        return (queries @ gallery.T).ravel()


class Listed(Mine, MetricLearner):
    def score_embeddings(self, queries, gallery):
        return (queries @ gallery.T).tolist()


class Undefined(Mine, MetricLearner):
    def score_embeddings(self, queries, gallery):
        scores = queries @ gallery.T
        scores[0, :2] = np.nan
        return scores


class OverridesSimilarity(Mine, MetricLearner):
    def similarity(self, queries, gallery):
        return np.full((len(queries), len(gallery)), np.nan)


@pytest.mark.parametrize(
    ("learner", "message"),
    [
        (Unset, "Unset.fit did not set components_"),
        (WideL, "components_, which WideL.fit has set, has shape (2, 5): (2, 4) is needed"),
        (UndefinedL, "components_ has NaN: score_embeddings returned NaN for 36 of 36 pairs"),
        (SmallW, "bilinear_matrix_, which SmallW.fit has set, has shape (3, 3): (4, 4) is needed"),
        (Sums, "Sums.embed returned an array of shape (6,): (6, n_components) is needed"),
        (LosesARow, "LosesARow.embed returned an array of shape (5, 4): (6, n_components) is"),
        (Flat, "score_embeddings returned an array of shape (36,): (6, 6) is needed, for 6 q"),
        (Listed, "score_embeddings returned a list: (6, 6) is needed"),
        (Undefined, "score_embeddings returned NaN for 2 of 36 pairs"),
        (OverridesSimilarity, "similarity returned NaN for 36 of 36 pairs"),
    ],
)
def test_a_wrong_result_names_its_method_and_what_is_needed(learner, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        learner().fit(X).score(X, [0, 0, 0, 1, 1, 1])
    assert "scale" not in str(error.value)


INCOMPLETE = """
from oasis_bench.plugins import BilinearLearner, Dataset, MahalanobisLearner
from oasis_bench.tasks import Task

class Shared(MahalanobisLearner):
    summary = citation = "none"

class Mine(Shared):
    name = "Mine"

    def fit(self, X, y):
        return self
"""


def test_a_class_that_lacks_methods_is_told_which(tmp_path):
    (tmp_path / "mine.py").write_text(INCOMPLETE)
    assert [one.name for one in plugins_in(tmp_path / "mine.py")] == ["Mine"]
    for base, missing in (
        ("Task", "evaluation and refusal"),
        ("Dataset", "load"),
        ("BilinearLearner", "fit"),
    ):
        path = tmp_path / f"{base}.py"
        path.write_text(f"{INCOMPLETE}\nclass Lacks({base}):\n    name = 'lacks'\n")
        with pytest.raises(BrokenPluginError, match=rf"{base}\.py: Lacks must define {missing}$"):
            Registry.load([path])


def test_the_page_of_plugins_names_each_method_that_must_be_written():
    page = (Path(__file__).parents[1] / "docs/plugins.md").read_text("utf-8")
    forms = (EmbeddingLearner, ExemplarLearner, IncrementalLearner, Evaluation)
    needed = {name for base in (*BASES.values(), *forms) for name in base.__abstractmethods__}
    assert {name for name in needed if f"`{name}`" not in page} == set()


def test_failures_of_one_reason_are_one_line(tmp_path):
    trials = [trial for n in (2, 10) for trial in fake_trials("good", [0.5, 0.6], n_classes=n)]
    for number, n_classes in enumerate((2, 2, 10, 10)):
        reason = f"ValueError: {n_classes} of 9 pairs (mine.py, line 7)"
        lost = {"partition": number % 2, "n_classes": n_classes}
        trials.append(fake_trial("mine", **lost, status="failed", reason=reason))
    trials += [fake_trial("slow", n_classes=10, status="timeout", reason="longer than 1h")]
    trials += [fake_trial("slow", n_classes=2, partition=p) for p in (0, 1)]
    run = make_run(tmp_path / "run", trials, ["good", "mine", "slow"], 2, (2, 10))
    lines = [
        "mine failed in 4 of 4 trials: ValueError: 2 of 9 pairs (mine.py, line 7).",
        "slow ran out of time in 1 of 4 trials (10 classes): longer than 1h.",
        "slow: 1 trial not run.",
    ]
    assert summary_text(run).splitlines()[-5:-2] == lines
    assert lines[0] in answer_text(run)
