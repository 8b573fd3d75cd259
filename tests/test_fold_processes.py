"""Inner folds side by side: the same choice as in turn, and how a fold's process may end."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_runs import digit_rows, small, trials_of

from oasis_bench.experiment import LearnerSpec
from oasis_bench.plugins import Registry
from oasis_bench.runs import How, read_run, run_experiment
from oasis_bench.trial import draw_items
from oasis_bench.trial.harness_side.items import SealedItems
from oasis_bench.trial.learner_side import inner_folds, stages
from oasis_bench.trial.learner_side.fold_processes import FoldProcesses
from oasis_bench.trial.learner_side.inner_folds import InnerFolds
from oasis_bench.trial.learner_side.meter import Stopwatch
from oasis_bench.trial.learner_side.tuning import Tuning
from oasis_bench.trial.wall.assignment import Assignment
from oasis_bench.trial.wall.messages import LEARNING, VALIDATION
from oasis_bench.trial.wall.sealed import map_items

PLUGIN = """
import os, signal, sys, time
from pathlib import Path

import numpy as np

from oasis_bench.plugins import MahalanobisLearner


class EndsInFold(MahalanobisLearner):
    name, summary, citation = "EndsInFold", "ends in a fit", "none"
    search_space = {"scale": (1.0, 2.0)}

    def __init__(self, scale=1.0, log=""):
        self.scale = scale
        self.log = log

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        self.end(len(X))
        self.components_ = self.scale * np.eye(X.shape[1])
        return self


class Raises(EndsInFold):
    name = "Raises"

    def end(self, n_rows):
        raise ValueError("a fold too many")


class Exits(EndsInFold):
    name = "Exits"

    def end(self, n_rows):
        sys.exit(7)


class Dies(EndsInFold):
    name = "Dies"

    def end(self, n_rows):
        os.kill(os.getpid(), signal.SIGSEGV)


class RunsOut(EndsInFold):
    name = "RunsOut"

    def end(self, n_rows):
        raise MemoryError("too large")


class Hangs(EndsInFold):
    name = "Hangs"

    def end(self, n_rows):
        if self.scale == 2:
            time.sleep(3600)


class Imports(EndsInFold):
    name = "Imports"
    imports = ("wave",)

    def end(self, n_rows):
        if "wave" not in sys.modules:
            raise ImportError("each process of a fold would import it, on the clock of tuning")


class Notes(EndsInFold):
    name = "Notes"
    inner_params = {"tol": 0.5}

    def __init__(self, scale=1.0, log="", tol=0.1):
        super().__init__(scale, log)
        self.tol = tol

    def end(self, n_rows):
        with Path(self.log).open("a") as log:
            log.write(f"{n_rows} {self.tol}\\n")
"""


def outcomes(run):
    """Return the status and the reason of each learner."""
    table = run.trials.set_index("learner")
    return {name: (table["status"][name], table["reason"][name]) for name in table.index}


@pytest.mark.parametrize(
    ("algorithm", "values", "at_once"),
    [
        ("OASIS", {"aggressiveness": [0.1, 1.0, 0.01, 0.3, 0.03, 3.0]}, 1),
        ("LMNN", {"pull_weight": [0.75, 0.5, 0.9, 0.97]}, 5),
    ],
)
@pytest.mark.parametrize("scalings", [("l2",), ("standard", "l2", "minmax")])
def test_the_choice_is_that_of_folds_in_turn(algorithm, values, at_once, scalings, monkeypatch):
    """Also where only one scaling at a time is kept; else the folds have one process each."""
    sizes = {"classes": (3,), "max_steps": 4000, "inner_folds": 5, "train_per_class": 40}
    sizes["scaling"] = scalings
    (spec,) = trials_of(small({algorithm: LearnerSpec(algorithm, values)}, **sizes))
    learner = Registry.load().algorithms[algorithm]
    sealed = SealedItems(draw_items(spec, digit_rows(), learner), learner, None)
    items = map_items(sealed.training)

    def chosen(workers, stopwatch):
        points = []
        folds = InnerFolds(Assignment.of(spec), items)
        how = spec.candidates, 4000, stopwatch, points.append
        return Tuning(folds, *how, workers=workers).winners(), sorted(points, key=str)

    monkeypatch.setattr(inner_folds, "KEPT_BYTES", 0 if len(scalings) > 1 else 2**29)
    in_turn = chosen(None, Stopwatch(lambda phase: None))
    monkeypatch.undo()
    phases, processes = [], []
    stopwatch = Stopwatch(phases.append)

    def workers(work):
        processes.append(FoldProcesses(work, at_once, stopwatch, stages._ended, None))
        return processes[-1]

    found = chosen(workers, stopwatch)
    assert found == in_turn  # values too, bit for bit
    assert len(processes) == 1
    n_folds = spec.experiment.inner_folds  # on each the winner is fitted once more, to be blended
    assert phases.count(LEARNING) == len(in_turn[1]) + n_folds
    assert phases.count(VALIDATION) == len(in_turn[1]) + n_folds + 1  # of the baseline
    assert min(stopwatch.seconds[LEARNING], stopwatch.seconds[VALIDATION]) > 0


@pytest.mark.parametrize("split", ["seen-classes", "stratified", "unseen-classes"])
def test_the_learners_process_keeps_the_groups_of_training_items_apart(split):
    digits = digit_rows()
    groups = np.arange(len(digits.y)) // 12  # across classes
    rows = replace(digits, X=np.arange(2.0 * len(groups)).reshape(-1, 2), groups=groups)
    how = {"classes": ("all",), "inner_folds": 3, "train_per_class": 40, "test_per_class": 20}
    how["tasks"] = ("unseen-classes",) if split == "unseen-classes" else ("retrieval",)
    if split == "stratified":
        how |= {"split": split, "train_per_class": None, "test_per_class": None}
    (spec,) = trials_of(small(["Euclidean"], **how), rows)
    learner = Registry.load().algorithms["Euclidean"]
    drawn = draw_items(spec, rows, learner)
    np.testing.assert_array_equal(drawn.truth.groups, groups[drawn.test_rows])
    assert not set(groups[drawn.test_rows]) & set(groups[drawn.train_rows])
    sealed = SealedItems(drawn, learner, None)
    items = map_items(sealed.training)
    folds = InnerFolds(Assignment.of(spec), items).data("none")
    assert len(folds) >= 2
    for fold in folds:
        learn, validate = (groups[(X[:, 0] / 2).astype(int)] for X in (fold.X, fold.queries))
        assert not set(learn) & set(validate)
        np.testing.assert_array_equal(fold.truth.groups, validate)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Run all of them; return the run and the log of what notes its fits."""
    folder = tmp_path_factory.mktemp("ends")
    (folder / "ends.py").write_text(PLUGIN)
    names = ("Raises", "Exits", "Dies", "RunsOut")
    learners = {name: LearnerSpec(name) for name in names}
    learners |= {"Hangs": LearnerSpec("Hangs", budget="2s"), "Imports": LearnerSpec("Imports")}
    for tol in ({}, {"tol": 0.3}):
        params = {"log": str(folder / f"log {tol.get('tol')}"), **tol}
        learners[f"Notes {tol.get('tol')}"] = LearnerSpec("Notes", params)
    files = [folder / "ends.py"]
    experiment = small(learners, blend="off")
    assert run_experiment(experiment, folder / "run", How(plugin_files=files)) == len(names) + 1
    return read_run(folder / "run")


def place(text):
    """Say where in the plugin file a text is."""
    return f"(ends.py, line {PLUGIN[: PLUGIN.index(text)].count(chr(10)) + 1})"


def test_a_fold_that_does_not_end_well_ends_the_trial_as_it_would_alone(run):
    found = outcomes(run)
    assert found["Raises"] == ("failed", f"ValueError: a fold too many {place('a fold too')}")
    assert found["Exits"] == ("crashed", f"exited with status 1 during {LEARNING}")
    assert found["Dies"] == ("crashed", f"killed by SIGSEGV during {LEARNING}")
    assert found["RunsOut"] == ("out of memory", f"MemoryError: too large {place('too large')}")


def test_what_a_learner_imports_is_there_before_the_folds(run):
    assert outcomes(run)["Imports"][0] == "ok"


@pytest.mark.parametrize("memory", ["off", "8GiB"])  # in turn with a limit
def test_a_fold_has_the_budget_for_each_of_its_fits(run, tmp_path, memory):
    if memory != "off":
        (tmp_path / "ends.py").write_text(PLUGIN)
        experiment = small(["Hangs"], budget="2s", memory=memory, blend="off")
        files = [tmp_path / "ends.py"]
        assert run_experiment(experiment, tmp_path / "run", How(plugin_files=files)) == 1
        run = read_run(tmp_path / "run")
    expected = ("timeout", f"{LEARNING} took longer than the budget of 2 s")
    assert outcomes(run)["Hangs"] == expected
    assert sorted(run.validation.query("learner == 'Hangs'")["fold"]) == [0, 1]


@pytest.mark.parametrize(
    ("named", "of_folds", "of_fit"), [(None, "0.5", "0.1"), (0.3, "0.3", "0.3")]
)
def test_inner_folds_have_the_parameters_of_the_learner_for_them(run, named, of_folds, of_fit):
    params = json.loads(run.trials.set_index("learner")["params"][f"Notes {named}"])
    lines = [line.split() for line in Path(params["log"]).read_text().splitlines()]
    assert {tol for n_rows, tol in lines if n_rows == "16"} == {of_fit}
    assert [tol for n_rows, tol in lines if n_rows == "8"] == [of_folds] * 4
    assert ("tol" in params) == (named is not None)
