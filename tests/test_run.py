"""Runs end to end on the scanned digits: trials in processes of their own, down to the store."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from definitions import mean_average_precision
from report_helpers import measured
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize
from small_runs import OnTrial, bench, digit_rows, processes_of_session, small, trials_of, wait_for

from oasis_bench.algorithms import OASIS, Euclidean
from oasis_bench.data import LabelledRows
from oasis_bench.experiment import LearnerSpec
from oasis_bench.runs import How, read_run, run_experiment
from oasis_bench.system import UsageError, processor_name
from oasis_bench.tasks import draw_partition

TINY = """\
title = "Tiny"
dataset = "digits"
classes = [2]
partitions = {partitions}
inner_folds = 2
train_per_class = 8
test_per_class = 6
max_steps = 1000
use = "direct"
"""
SOUND = ("OASIS", "Euclidean")
FAULTY = (
    *("Raises", "NaNSimilarity", "WrongShape", "Segfaults", "Exits", "Quits", "Complex", "Talks"),
    *("Prints", "Reseeds", "Holds200MB", "Holds200MBOnce"),
)
N_FAILED = 8
ON_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads Linux's /proc")
OASIS_OF_TWO = LearnerSpec("OASIS", {"aggressiveness": [0.1, 1.0]})


@pytest.fixture(scope="module")
def tiny():
    """Two learners with two partitions of two digits."""
    learners = {"OASIS": OASIS_OF_TWO, "Euclidean": LearnerSpec("Euclidean")}
    return small(learners, partitions=2, traces=True, use="direct")


@pytest.fixture(scope="module")
def alone(tiny, tmp_path_factory):
    """Run the tiny experiment one trial at a time."""
    folder = tmp_path_factory.mktemp("alone") / "run"
    told = []
    assert run_experiment(tiny, folder, watcher=OnTrial(lambda *args: told.append(args))) == 0
    return read_run(folder), told


@pytest.fixture(scope="module")
def faulty(tmp_path_factory, plugins):
    """Run learners that go wrong among sound ones, as the user does."""
    folder = tmp_path_factory.mktemp("faulty")
    learners = [*FAULTY[:N_FAILED], *SOUND, *FAULTY[N_FAILED:]]
    tables = "".join(f"[learners.{name}]\n" for name in learners)
    tables = tables.replace("[learners.OASIS]", "[learners.OASIS]\naggressiveness = [0.1, 1.0]")
    (folder / "faulty.toml").write_text(TINY.format(partitions=1) + tables)
    words = ["--experiment", folder / "faulty.toml", "--plugin", plugins / "misbehaving.py"]
    command = bench("run", *words, "--output", folder / "run")
    process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    return process, folder / "run", read_run(folder / "run")


def trials(run):
    return run.trials.set_index("learner")


def results(run):
    """Return the tables without what differs from run to run: times, memory and cores."""
    varying = ["finished", "fit_peak_bytes", "shared_cores"]
    varying += [name for name in run.trials if name.endswith("_seconds")]
    tables = [run.trials.drop(columns=varying), run.measures, run.validation, run.traces]
    tables += [run.answers, run.symmetry]
    return [
        table.sort_values(list(table.columns), ignore_index=True)[sorted(table.columns)]
        for table in tables
    ]


def test_every_trial_is_stored_and_told_of(alone):
    run, told = alone
    assert run.info.planned_trials == 4
    assert run.info.started <= run.info.finished
    assert [(done, planned) for _, done, planned in told] == [(i, 4) for i in range(5)]
    order = [(it.row.learner, it.row.partition) for it, done, _ in told if done]
    assert order == [("OASIS", 0), ("Euclidean", 0), ("OASIS", 1), ("Euclidean", 1)]
    assert run.trials["status"].tolist() == ["ok"] * 4
    assert set(run.trials["shared_cores"]) == {0}
    assert set(run.trials["processor"]) == {processor_name()}
    sizes = run.trials[["n_classes", "n_train", "n_test", "n_features"]]
    assert (sizes == [2, 16, 12, 64]).all(axis=None)
    assert set(run.trials["split"]) == {"seen-classes"}
    answers = run.answers[["task", "status", "n_queries", "n_left_out"]]
    assert answers.values.tolist() == [["retrieval", "ok", 12, 0]] * 4


def test_a_learner_that_was_not_searched_is_not_fitted_for_selection(alone):
    of_euclidean = trials(alone[0]).loc["Euclidean"]
    assert (of_euclidean["tuning_fit_seconds"] == 0).all()
    assert of_euclidean["n_steps"].isna().all()
    assert "Euclidean" not in set(alone[0].validation["learner"])


def average_precision(learner, X, y):
    return mean_average_precision(learner.similarity(normalize(X), normalize(X)), y)


def test_class_subsets_are_kept_in_the_order_of_the_experiment(tmp_path):
    """Claims compare the last with the first, and papers' lists stand beside them in this order."""
    assert run_experiment(small(["Euclidean"], classes=(2, 4, 3)), tmp_path / "run") == 0
    assert [*read_run(tmp_path / "run").info.classes] == ["2", "4", "3"]


def test_the_stored_numbers_are_those_of_a_fit_by_hand(alone, tiny):
    # The same learner, rows and triplets without the harness, scored by scikit-learn.
    run, _ = alone
    X, y = load_digits(return_X_y=True)
    for spec in trials_of(tiny):
        row = run.trials[run.trials["trial_id"] == spec.trial_id].iloc[0]
        names = run.info.classes["2"]
        train, test, *_ = draw_partition(y, [*map(int, names)], 8, 6, spec.seed_for("partition"))
        if spec.learner == "OASIS":
            seed = spec.seed_for("fit", of_learner=True)
            chosen = json.loads(row["params"])
            learner = OASIS(**chosen, n_steps=int(row["n_steps"]), random_state=seed)
        else:
            learner = Euclidean()
        learner.fit(normalize(X[train]), y[train])
        found = measured(run, column="as_learned")[spec.trial_id]
        assert found == pytest.approx(average_precision(learner, X[test], y[test]), rel=1e-12)
        numbers = run.fit_numbers[run.fit_numbers["trial_id"] == spec.trial_id]
        numbers = numbers.set_index("name")["value"].to_dict()
        training = average_precision(learner, X[train], y[train])
        assert numbers.pop("training") == pytest.approx(training, rel=1e-12)
        names = ("n_steps_", "n_updates_") if spec.learner == "OASIS" else ()
        assert numbers == {name: getattr(learner, name) for name in names}
        chance = measured(run, "precision", k=1, column="chance")
        assert chance[spec.trial_id] == pytest.approx(5 / 11)


def test_jobs_and_the_order_of_learners_change_nothing_but_times(alone, tiny, tmp_path):
    other = replace(tiny, learners=dict(reversed(tiny.learners.items())), title="Reversed")
    assert run_experiment(other, tmp_path / "run", How(jobs=2)) == 0
    run = read_run(tmp_path / "run")
    for found, expected in zip(results(run), results(alone[0]), strict=True):
        pd.testing.assert_frame_equal(found, expected)
    assert set(run.trials["shared_cores"]) == {1}


def test_traces_pass_through_the_measured_model(alone):
    run, _ = alone
    of_oasis = run.trials[run.trials["learner"] == "OASIS"]
    merged = of_oasis.merge(run.traces[run.traces["part"] == "test"], on=["trial_id", "n_steps"])
    assert len(merged) == len(of_oasis) == 2
    as_learned = measured(run, column="as_learned")[merged["trial_id"]]
    np.testing.assert_array_equal(as_learned, merged["value"])
    assert set(run.traces["learner"]) == {"OASIS"}
    assert set(run.traces["n_steps"]) <= {500, 707, 1000}
    assert set(run.traces["part"]) == {"train", "test"}


def test_the_symmetry_of_w_is_followed_along_the_steps_to_that_of_the_measured_model(alone, tiny):
    run, _ = alone
    of_oasis = run.trials[run.trials["learner"] == "OASIS"]
    merged = of_oasis.merge(run.symmetry, on=["trial_id", "n_steps"])
    assert len(merged) == 2
    np.testing.assert_array_equal(merged["symmetry_index_x"], merged["symmetry_index_y"])
    assert set(run.symmetry["learner"]) == {"OASIS"}
    assert sorted(run.symmetry["n_steps"]) == sorted(
        run.traces.loc[run.traces["part"] == "test", "n_steps"]
    )
    assert trials(run).loc["Euclidean", "symmetry_index"].isna().all()

    X, y = load_digits(return_X_y=True)
    spec = trials_of(tiny)[0]
    train, *_ = draw_partition(y, [*spec.where.classes], 8, 6, spec.seed_for("partition"))
    row = run.trials.set_index("trial_id").loc[spec.trial_id]
    seed = spec.seed_for("fit", of_learner=True)
    learner = OASIS(**json.loads(row["params"]), n_steps=int(row["n_steps"]), random_state=seed)
    W = learner.fit(normalize(X[train]), y[train]).bilinear_matrix_
    halves = W / 2 + W.T / 2, W / 2 - W.T / 2  # orthogonal: their squares add up to that of W
    parts = [(half**2).sum() for half in halves]
    assert row["symmetry_index"] == pytest.approx(np.sqrt(parts[0] / sum(parts)), rel=1e-12)
    assert 0.5 < row["symmetry_index"] < 0.9999


def test_without_traces_no_symmetry_is_recorded(tiny, run_trial):
    record = run_trial(trials_of(replace(tiny, traces=False))[0], digit_rows())
    assert record.row.status == "ok"
    assert record.row.symmetry_index is None
    assert record.traces == record.symmetry == []


def test_a_w_of_zeros_has_no_symmetry_index_and_is_no_failure(tmp_path, run_trial):
    (tmp_path / "zero.py").write_text(
        """
import numpy as np
from oasis_bench.plugins.learner import BilinearLearner

class Zero(BilinearLearner):
    name, summary, citation = "Zero", "W = 0", "none"

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        self.bilinear_matrix_ = np.zeros((X.shape[1],) * 2)
        return self
"""
    )
    (spec,) = trials_of(small(["Zero"]), plugin_files=(tmp_path / "zero.py",))
    row = run_trial(spec, digit_rows()).row
    assert (row.status, row.symmetry_index) == ("ok", None)


def test_the_choice_is_the_best_of_what_validation_stored(alone):
    run, _ = alone
    for trial_id, seen in run.validation.groupby("trial_id"):
        means = seen.groupby(["params", "n_steps"])["value"].mean()
        row = run.trials[run.trials["trial_id"] == trial_id].iloc[0]
        assert means[row["params"], row["n_steps"]] == means.max()
        assert set(seen["fold"]) == {0, 1}


def test_a_failed_trial_is_a_row_with_its_reason_and_the_others_go_on(faulty):
    process, _, run = faulty
    rows = trials(run)
    assert len(rows) == len(FAULTY) + len(SOUND)
    found = {name: (rows["status"][name], rows["reason"][name]) for name in FAULTY[:N_FAILED]}
    assert found.pop("Complex")[0] == found.pop("Talks")[0] == "failed"
    assert "complex" in rows["reason"]["Complex"]
    assert found == {
        "Raises": (
            "failed",
            "ArithmeticError: no optimum was found (misbehaving.py, line 18)",
        ),
        "NaNSimilarity": (
            "failed",
            "ValueError: similarity returned NaN for 1 of 64 pairs: NaN has no rank",
        ),
        "WrongShape": (
            "failed",
            "ValueError: similarity returned an array of shape (4, 3): (4, 4) is needed, for 4 "
            "queries and 4 items of the gallery",
        ),
        "Segfaults": ("crashed", "killed by SIGSEGV during learning on inner folds"),
        "Exits": ("crashed", "exited with status 3 during learning on inner folds"),
        "Quits": ("crashed", "exited with status 1 during learning on inner folds"),
    }
    assert (rows["status"][[*FAULTY[N_FAILED:], *SOUND]] == "ok").all()
    assert rows["reason"][[*FAULTY[N_FAILED:], *SOUND]].isna().all()
    assert run.info.finished
    assert process.returncode == 1


def test_a_failed_trial_keeps_its_traceback_and_no_numbers(faulty):
    row = trials(faulty[2]).loc["Raises"]
    assert 'raise ArithmeticError("no optimum' in row["traceback"]
    assert row[["params", "fit_seconds", "model_bytes"]].isna().all()
    assert "Raises" not in set(faulty[2].measures["learner"])


def test_a_message_of_megabytes_fills_neither_terminal_nor_store(faulty):
    process, folder, _ = faulty
    assert len(process.stdout + process.stderr) < 20_000
    assert (folder / "results.sqlite").stat().st_size < 500_000


def test_failures_are_told_on_the_terminal_each_in_one_line(faulty):
    lines = faulty[0].stderr.splitlines()
    told = {line.split("] ")[1].split(",")[0]: line for line in lines if line.startswith("[")}
    assert set(told) == {*FAULTY, *SOUND}
    assert ": crashed, killed by SIGSEGV during learning on inner folds" in told["Segfaults"]
    assert ": failed, ArithmeticError: no optimum was found" in told["Raises"]
    assert re.search(r": mAP \d\.\d{3}, tuning 0 s, fit .* s, query .* ms", told["Euclidean"])
    assert "Traceback" not in faulty[0].stderr


def test_what_a_learner_prints_goes_to_the_log_and_not_to_the_terminal(faulty):
    process, folder, _ = faulty
    log = (folder / "output.log").read_text()
    for where in ("stdout", "stderr", "file descriptor 1"):
        assert f"learner on {where}" in log
        assert f"learner on {where}" not in process.stdout + process.stderr


NOISY = """
import os
from oasis_bench.algorithms import Euclidean

class Talker(Euclidean):
    name = "Talker"

    def fit(self, X, y=None):
        print("IMPORTANT: the gap was 0.01", flush=True)
        return super().fit(X, y)

class Noisy(Euclidean):
    name = "Noisy"

    def fit(self, X, y=None):
        os.write(1, b"begin\\n" + b"n" * (20 * 2**20) + b"\\nend\\n")
        return super().fit(X, y)
"""


def test_the_output_of_each_trial_has_a_limit_of_its_own(tmp_path):
    (tmp_path / "noisy.py").write_text(NOISY)
    # Without a blend, so that no inner folds print side by side and one process writes at a time.
    experiment = small(["Talker", "Noisy"], partitions=2, blend="off")
    assert (
        run_experiment(experiment, tmp_path / "run", How(plugin_files=[tmp_path / "noisy.py"])) == 0
    )
    log = (tmp_path / "run" / "output.log").read_bytes()
    talker = b"[Talker, classes 2, partition %d]\n" + b"IMPORTANT: the gap was 0.01\n" * 2
    printed = 2 * (20 * 2**20 + 11)  # in the warm-up and in the fit
    noisy = b"[Noisy, classes 2, partition %d]\nbegin\n" + b"n" * (2**16 - 6)
    noisy += b"\n[... %s bytes of Noisy, classes 2, partition %%d are cut here ...]\n" % (
        f"{printed - 2**17:,}".encode()
    )
    noisy += b"n" * (2**16 - 5) + b"\nend\n"
    assert log == b"".join(talker % it + noisy % (it, it) for it in range(2))


def test_learners_that_misbehave_do_not_change_the_results_of_others(alone, faulty):
    of_first = alone[0].trials["partition"] == 0
    expected = measured(alone[0])[alone[0].trials.loc[of_first, "trial_id"]]
    found = measured(faulty[2])
    assert len(expected) == 2
    pd.testing.assert_series_equal(found[expected.index], expected)


@ON_LINUX
def test_the_peak_memory_is_that_of_the_fit_alone(faulty):
    peak = trials(faulty[2])["fit_peak_bytes"]
    assert 200e6 <= peak["Holds200MB"] < 300e6
    assert peak["Holds200MBOnce"] < 50e6  # the warm-up took the memory, not the fit
    assert peak["Euclidean"] < 50e6


@pytest.fixture
def asleep(plugins, tmp_path):
    """Start a run, as a terminal does, whose second trial sleeps, and wait until it does."""
    marker = tmp_path / "asleep"
    (tmp_path / "slow.toml").write_text(
        TINY.format(partitions=2)
        + f'[learners.Euclidean]\n[learners.Sleeper]\nmarker = "{marker}"\n'
    )
    words = ["--experiment", tmp_path / "slow.toml", "--plugin", plugins / "sleeper.py"]
    process = subprocess.Popen(
        bench("run", *words, "--output", tmp_path / "run"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_for(marker.exists, 60)
        assert len(processes_of_session(process.pid)) >= 2
        yield process, tmp_path / "run"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


@ON_LINUX
def test_ctrl_c_keeps_what_is_done_and_leaves_no_process(asleep):
    process, folder = asleep
    os.killpg(process.pid, signal.SIGINT)  # a terminal signals all processes of the group
    _, stderr = process.communicate(timeout=30)
    wait_for(lambda: not processes_of_session(process.pid), 10)
    assert process.returncode == 130
    assert processes_of_session(process.pid) == []
    run = read_run(folder)
    assert run.trials[["learner", "status"]].values.tolist() == [["Euclidean", "ok"]]
    assert run.info.planned_trials == 4
    assert run.info.finished is None
    assert "interrupted after 1 of 4 trials" in stderr
    assert f"report {folder}" in stderr
    assert "Traceback" not in stderr


@ON_LINUX
def test_a_run_that_is_ended_by_the_system_leaves_no_process(asleep):
    # As `timeout`, `kill` and batch systems do: the signal goes to the first process alone.
    process, folder = asleep
    process.terminate()
    assert process.wait(timeout=30) != 0
    wait_for(lambda: not processes_of_session(process.pid), 10)
    assert processes_of_session(process.pid) == []
    assert read_run(folder).trials["learner"].tolist() == ["Euclidean"]


def test_what_is_refused_before_the_first_trial_writes_nothing(plugins, tmp_path):
    for data, how, message in (
        ("digits", {"jobs": 0}, "jobs = 0: at least 1 is needed"),
        ("tiny", {}, "only 0 of the 3 classes have 14: lower --train and --test"),
    ):
        files = [plugins / "data_sets.py"]
        with pytest.raises(UsageError, match=message):
            run_experiment(small(SOUND, data), tmp_path / "run", How(plugin_files=files, **how))
        assert not (tmp_path / "run").exists()


@ON_LINUX
def test_the_search_before_a_fit_does_not_hide_its_memory(run_trial):
    # W of 1200 x 1200 float64 is 11.5 MB; the search frees several such before the fit.
    rng = np.random.default_rng(0)
    rows = LabelledRows(rng.random((100, 1200)), np.arange(100) % 2, ("even", "odd"))
    for aggressiveness in (0.1, [0.1, 0.2]):
        learner = LearnerSpec("OASIS", {"n_steps": 10, "aggressiveness": aggressiveness})
        row = run_trial(trials_of(small({"OASIS": learner}), rows)[0], rows).row
        assert row.n_steps == 10  # what is given is not searched
        assert 11_000_000 < row.fit_peak_bytes < 40_000_000


def test_two_settings_of_one_algorithm_share_their_seeds(run_trial):
    same = {"first": LearnerSpec("OASIS"), "second": LearnerSpec("OASIS")}
    first, second = (run_trial(spec, digit_rows()) for spec in trials_of(small(same)))
    assert first.row.learner != second.row.learner
    assert first.measures == second.measures


def test_a_learner_without_several_labels_is_not_applicable_and_that_is_no_failure(run_trial):
    rng = np.random.default_rng(0)
    y = sparse.csr_array((rng.random((60, 5)) < 0.4).astype(np.float32))
    rows = LabelledRows(rng.random((60, 8)), y, tuple("abcde"))
    sizes = {"train_per_class": 40, "test_per_class": 25}  # the defaults: they have no meaning here
    experiment = small(["LMNN", "Euclidean"], classes=("all",), **sizes)
    lmnn, of_euclidean = (run_trial(spec, rows) for spec in trials_of(experiment, rows))
    lmnn, euclidean = lmnn.row, of_euclidean.row
    assert (lmnn.status, lmnn.reason) == (
        "not applicable",
        "LMNN takes one label an item, not several",
    )
    assert euclidean.status == "ok"
    assert (euclidean.n_train, euclidean.n_test) == (54, 6)
    # with labels at random a random ranking is expected: the mean share of relevant others
    mAP, at_1 = of_euclidean.measures[:2]
    assert abs(mAP.value - at_1.chance) < 0.3


def test_what_a_learner_refuses_is_not_applicable_with_its_reason_and_no_failure(plugins, tmp_path):
    path = plugins / "refusing.py"
    enough = small(["Refuses", "Euclidean"])
    few = replace(enough, train_per_class=7)  # for the first value of its grid they are enough
    for name, experiment in (("enough", enough), ("few", few)):
        assert run_experiment(experiment, tmp_path / name, How(plugin_files=[path])) == 0
    assert (trials(read_run(tmp_path / "enough"))["status"] == "ok").all()
    run = read_run(tmp_path / "few")
    found = trials(run)[["status", "reason"]]
    assert tuple(found.loc["Refuses"]) == ("not applicable", "8 axes, but 7 rows")
    assert found["status"]["Euclidean"] == "ok"
    assert "Refuses" not in set(run.validation["learner"])
    alone = replace(few, learners={"Refuses": few.learners["Refuses"]})
    assert run_experiment(alone, tmp_path / "alone", How(plugin_files=[path])) == len(
        trials(read_run(tmp_path / "alone"))
    )
