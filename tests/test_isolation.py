"""Trials of learners that hang, crash and eat memory, held to a budget among sound ones."""

import importlib
import math
import os
import shutil
import subprocess
import sys
import time
from contextlib import closing
from multiprocessing import connection
from pathlib import Path

import psutil
import pytest
from report_helpers import measured
from small_runs import OnTrial, digit_rows, lives, small as small_run, trials_of, wait_for

from oasis_bench.execution import fork_server, machine
from oasis_bench.experiment import LearnerSpec
from oasis_bench.runs import How, read_run, run_experiment
from oasis_bench.system import Processes
from oasis_bench.trial import Trials
from oasis_bench.trial.learner_side.meter import waiting_seconds

ON_LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc")
pytestmark = ON_LINUX

HANGING = ("Sleeps", "HoldsTheGIL", "HangsInSimilarity", "StopsItsParent")
HOSTILE = (
    *HANGING,
    "Allocates",
    "AllocatesInChildren",
    "KillsItself",
    "KillsItsParent",
    "FillsPipes",
    "ExitsAfterChildren",
    "RaisesNonsense",
    "TakesNoNumber",
    "LeavesChildren",
    "PrintsMegabytes",
    "ChangesGlobals",
)


def small(learners, **changes):
    """Not blended: what a learner does is met in its fit, and not on inner folds before that."""
    return small_run(learners, **{"blend": "off", **changes})


SOUND = {"OASIS": LearnerSpec("OASIS"), "Euclidean": LearnerSpec("Euclidean")}


@pytest.fixture(scope="module")
def hostile(tmp_path_factory, plugins):
    """Run them in four jobs with 300 MiB, those that hang with 4 seconds; sound learners last."""
    folder = tmp_path_factory.mktemp("hostile")
    learners = {name: LearnerSpec(name) for name in HOSTILE}
    for name in HANGING:
        learners[name] = LearnerSpec(name, budget="4s")
    learners["HangsInSimilarity"] = LearnerSpec("HangsInSimilarity", budget="6s")  # after its fit
    for name in ("LeavesChildren", "ExitsAfterChildren"):
        learners[name] = LearnerSpec(name, {"folder": str(folder)})
    learners["TakesNoNumber"] = LearnerSpec("TakesNoNumber", {"n_steps": "auto"})
    failures = run_experiment(
        small({**learners, **SOUND}, budget="5m", memory="300MiB"),
        folder / "run",
        How(jobs=4, plugin_files=[plugins / "hostile.py"]),
    )
    return failures, folder, read_run(folder / "run")


def outcomes(run):
    columns = run.trials.set_index("learner")
    reasons = columns["reason"].astype(object).where(columns["reason"].notna(), None)
    return dict(zip(columns.index, zip(columns["status"], reasons, strict=True), strict=True))


def test_each_learner_ends_as_what_it_did(hostile):
    failures, _, run = hostile
    found = outcomes(run)
    # The warm-up is cut short where the learner can be interrupted; then its fit hangs.
    late = [f"the {phase} took longer than the budget of 4 s" for phase in ("warm-up", "final fit")]
    for name in ("Sleeps", "HoldsTheGIL", "StopsItsParent"):
        assert found[name] in [("timeout", reason) for reason in late]
    assert found["HangsInSimilarity"][0] == "timeout"
    assert found["HangsInSimilarity"][1].startswith("answering took longer")
    assert found["Allocates"][0] == "out of memory"
    assert found["Allocates"][1].startswith("MemoryError: Unable to allocate 76.3 MiB")
    assert found["AllocatesInChildren"] == ("out of memory", "the warm-up took more than 300 MiB")
    for name in ("KillsItself", "KillsItsParent"):
        assert found[name] == ("crashed", "killed by SIGKILL during the warm-up")
    assert found["ExitsAfterChildren"] == ("crashed", "exited with status 3 during the warm-up")
    assert found["FillsPipes"][0] == "crashed"
    assert found["FillsPipes"][1].startswith("what its process sent cannot be read")
    status, reason = found["RaisesNonsense"]
    assert status == "failed"
    assert reason.startswith("ValueError: \ufffd \ufffd[2J line two (hostile.py, line ")
    assert found["TakesNoNumber"][0] == "failed"
    assert found["TakesNoNumber"][1].startswith("RefusedRecordError: the store refuses it")
    for name in (*HOSTILE[12:], *SOUND):
        assert found[name] == ("ok", None)
    assert failures == 12


def test_what_a_trial_started_dies_with_it(hostile):
    _, folder, _ = hostile
    children = [int(path.name.split("-")[1]) for path in folder.glob("[TFE]*-*")]
    assert len(children) == 5  # two of a warm-up, two of a fit, and one whose parent had died
    assert [child for child in children if lives(child)] == []


def test_the_others_are_as_if_they_had_been_alone(hostile, tmp_path):
    assert run_experiment(small(SOUND), tmp_path / "run") == 0
    alone = measured(read_run(tmp_path / "run"), by="learner")
    beside = measured(hostile[2], by="learner")
    assert beside[list(SOUND)].equals(alone[list(SOUND)])
    assert beside["ChangesGlobals"] == alone["Euclidean"]


# With one job, folds have processes.
@pytest.mark.parametrize(
    ("jobs", "whens"), [(1, ("fold", "fit", "similarity", "copy")), (2, ("fold", "fit"))]
)
def test_the_death_of_a_fork_server_ends_one_trial(tmp_path, plugins, jobs, whens):
    path = Path(shutil.copy(plugins / "server_killers.py", tmp_path))
    (tmp_path / "left").mkdir()
    learners = {"replay": LearnerSpec("KillsTheServerInReplay")}
    for when in whens:
        values = [when, "never"] if when == "fold" else when
        learners[when] = LearnerSpec("KillsTheServer", {"when": values})
        learners[f"after {when}"] = LearnerSpec("Euclidean")
    experiment = small(learners, train_per_class=9, max_steps=500, traces=True)
    failures = run_experiment(experiment, tmp_path / "run", How(jobs=jobs, plugin_files=[path]))
    phases = {"fold": "learning on inner folds", "fit": "the final fit"}
    killed = "killed by SIGKILL during"
    assert outcomes(read_run(tmp_path / "run")) == {
        "replay": ("ok", f"traces end early: crashed: {killed} the replay for the traces"),
        **{when: ("crashed", f"{killed} {phases.get(when, 'answering')}") for when in whens},
        **{f"after {when}": ("ok", None) for when in whens},
    }
    assert failures == len(whens)
    left = [int(path.name) for path in (tmp_path / "left").iterdir()]
    assert len(left) >= 2 * (1 + len(whens))
    wait_for(lambda: not any(map(lives, left)), 10)
    assert [pid for pid in left if lives(pid)] == []


PLUGIN = f"""
import os, signal, time
from oasis_bench.algorithms import Euclidean

def sleep():
    os.getpid() == {os.getpid()} or time.sleep(3600)

def stop():
    os.getpid() == {os.getpid()} or os.kill(os.getpid(), signal.SIGSTOP)
"""
HANGS = """
class Hangs{0}(Euclidean):
    name = "Hangs{0}"
    {1}
"""
TO_LOAD = ["the start", "the warm-up"]


@pytest.mark.parametrize(
    "hanging",
    [
        {"pass\n\nsleep()": TO_LOAD},
        {"def __init__(self): sleep()": TO_LOAD},
        {
            "def get_params(self, deep=True): sleep()": ["the warm-up"],
            "def fit(self, X, y=None): stop()": ["the warm-up", "the final fit"],
            "def __getstate__(self): sleep()": ["the final fit"],
            "def similarity(self, queries, gallery): stop()": ["answering", "the warm-up"],
            "def __setstate__(self, state): sleep()": ["answering"],
        },
    ],
    ids=["import", "new", "methods"],
)
def test_a_plugin_that_hangs_or_stops_is_a_timeout_wherever_it_does(tmp_path, hanging):
    plugin = tmp_path / "hangs.py"
    plugin.write_text(PLUGIN + "".join(map(HANGS.format, range(len(hanging)), hanging)))
    phases_of = {f"Hangs{number}": phases for number, phases in enumerate(hanging.values())}
    hangs = small({name: LearnerSpec(name) for name in phases_of}, budget="2s")
    failures = run_experiment(hangs, tmp_path / "run", How(jobs=2, plugin_files=[plugin]))
    assert failures == len(hanging)
    found = outcomes(read_run(tmp_path / "run"))
    for name, phases in phases_of.items():
        late = [f"{phase} took longer than the budget of 2 s" for phase in (*phases, "the start")]
        assert found[name] in [("timeout", reason) for reason in late]


def test_a_process_that_sends_no_message_is_held_to_the_budget(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    fork_server._close_idle()  # the next one has that path
    (tmp_path / "silent_process.py").write_text(
        "import time\ndef hang(*arguments):\n    time.sleep(3600)\n"
    )
    monkeypatch.setattr(machine, "learner_process", importlib.import_module("silent_process").hang)
    assert run_experiment(small(["Euclidean"], budget="2s"), tmp_path / "run") == 1
    late = ("timeout", "the start took longer than the budget of 2 s")
    assert outcomes(read_run(tmp_path / "run")) == {"Euclidean": late}


ENDS = """
import os, signal, time
from oasis_bench.algorithms import Euclidean

class Ends(Euclidean):
    name = "Ends"

    def __init__(self, how="pass"):
        self.how = how

    def fit(self, X, y=None):
        exec(self.how)
        return super().fit(X, y)
"""


def test_a_process_that_cannot_say_more_is_a_crash(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "END_SECONDS", 1.0)
    plugin = tmp_path / "ends.py"
    plugin.write_text(ENDS)
    closed = "closed its connection with the harness during the warm-up"
    reasons = {
        "os.kill(os.getpid(), signal.SIGRTMIN + 6)": "killed by signal 40 during the warm-up",
        "os.closerange(3, 1024); time.sleep(3600)": closed,
        "os.kill(os.getppid(), signal.SIGSTOP); os._exit(4)": (
            "exited with status 4 during the warm-up"
        ),
        "os.kill(os.getppid(), signal.SIGKILL); time.sleep(3600)": (
            "killed by SIGKILL during the warm-up"
        ),
    }
    learners, expected = {}, {}
    for number, (how, reason) in enumerate(reasons.items()):
        learners |= {
            f"ends {number}": LearnerSpec("Ends", {"how": how}),
            f"after {number}": LearnerSpec("Euclidean"),
        }
        expected |= {f"ends {number}": ("crashed", reason), f"after {number}": ("ok", None)}
    experiment = small(learners, budget="off")
    assert run_experiment(experiment, tmp_path / "run", How(plugin_files=[plugin])) == len(reasons)
    assert outcomes(read_run(tmp_path / "run")) == expected


def test_a_message_that_arrives_in_parts_is_waited_for(tmp_path):
    """The harness may read it late, after the budget, because it was busy with another trial."""
    sizes = {"train_per_class": 40, "test_per_class": 60, "classes": (10,)}
    (spec,) = trials_of(small(["Euclidean"], budget="1h", **sizes))  # 2.9 MB of scores
    n_late = 0
    with closing(Trials(digit_rows(), tmp_path / "output.log")) as trials:
        trial = machine.TrialProcess(trials.begin(spec))
        while trial.result is None:
            if trial._line in connection.wait(trial.waits_for, 60) and trial.deadline < math.inf:
                trial.deadline, n_late = 0.0, n_late + 1
            trial.poll()
    assert n_late > 4
    assert trial.result.row.status == "ok"


def test_a_budget_has_no_part_of_what_the_harness_spends_on_another_trial(tmp_path, plugins):
    def busy(result, done, planned):
        if done == 1:  # while it is, the other trial waits for its answer
            time.sleep(6)

    learners = {
        "Euclidean": LearnerSpec("Euclidean"),
        "SlowsDown": LearnerSpec("SlowsDown", {"seconds": 1.5}),
    }
    how = How(jobs=2, plugin_files=[plugins / "slow.py"])
    folder = tmp_path / "run"
    assert run_experiment(small(learners, budget="5s"), folder, how, OnTrial(busy)) == 0
    assert outcomes(read_run(folder))["SlowsDown"] == ("ok", None)


def test_what_was_validated_before_the_time_was_up_is_kept(tmp_path, plugins):
    learners = {"SlowsDown": LearnerSpec("SlowsDown", {"seconds": [0.0, 3600.0]})}
    files = [plugins / "slow.py"]
    assert (
        run_experiment(small(learners, budget="3s"), tmp_path / "run", How(plugin_files=files)) == 1
    )
    run = read_run(tmp_path / "run")
    reason = "learning on inner folds took longer than the budget of 3 s"
    assert outcomes(run) == {"SlowsDown": ("timeout", reason)}
    kept = run.validation.sort_values("fold")  # folds side by side give their values in any order
    assert kept[["params", "fold"]].values.tolist() == [
        ['{"seconds": 0.0}', 0],
        ['{"seconds": 0.0}', 1],
    ]


@pytest.fixture(scope="module")
def slow(tmp_path_factory, plugins):
    """Run learners that take their time, in two jobs, with a second but for their own budgets."""
    learners = {
        "NeverWarm": LearnerSpec("NeverWarm", budget="4s"),  # half of it for the warm-up
        "ImportsMuch": LearnerSpec("ImportsMuch", budget="60s"),
        "RaisesInReplay": LearnerSpec("RaisesInReplay"),
        "HangsInReplay": LearnerSpec("HangsInReplay", budget="4s"),
        "SlowsDown": LearnerSpec("SlowsDown", {"seconds": 1.5}, budget="off"),
    }
    folder = tmp_path_factory.mktemp("slow") / "run"
    experiment = small(learners, train_per_class=9, budget="1s", max_steps=500, traces=True)
    path = plugins / "slow.py"
    assert run_experiment(experiment, folder, How(jobs=2, plugin_files=[path])) == 0
    return read_run(folder)


def test_a_warm_up_that_does_not_end_is_cut_short_and_the_fit_stands(slow):
    assert outcomes(slow)["NeverWarm"] == ("ok", None)


def test_what_a_learner_imports_is_there_before_its_fit(slow):
    assert outcomes(slow)["ImportsMuch"] == ("ok", None)


def test_a_learner_has_its_own_budget_and_its_measured_fit_stands_without_its_replay(slow):
    found = outcomes(slow)
    assert found["HangsInReplay"] == (
        "ok",
        "traces end early: timeout: the replay for the traces took longer than the budget of 4 s",
    )
    early = "traces end early: failed: ValueError: \ufffd"
    status, reason = found["RaisesInReplay"]
    assert status == "ok"
    assert reason.startswith(f"{early} (slow.py, line ")
    assert found["SlowsDown"] == ("ok", None)
    assert (measured(slow) > 0).sum() == len(slow.trials)


@pytest.mark.parametrize(
    ("before", "after", "cpu", "expected"),
    [
        ((1.0, 0.5), (3.0, 0.9), 2.0, 0.4),
        ((1.0, 0.5), (1.2, 0.9), 2.0, None),  # threads with 1.8 of 2 seconds have come and gone
        (None, (1.0, 0.5), 1.0, None),
        ((1.0, 0.5), (1.002, 0.5), 0.01, 0.0),  # within what such clocks tell
    ],
)
def test_waiting_is_not_known_where_threads_have_gone(before, after, cpu, expected):
    assert waiting_seconds(before, after, cpu) == (expected and pytest.approx(expected))


def test_of_a_fit_with_children_the_processor_time_is_known_and_the_memory_is_not(
    tmp_path, plugins
):
    learners = {"Spins": LearnerSpec("Spins"), "SpinsInChild": LearnerSpec("SpinsInChild")}
    path = plugins / "slow.py"
    assert run_experiment(small(learners), tmp_path / "run", How(plugin_files=[path])) == 0
    trials = read_run(tmp_path / "run").trials.set_index("learner")
    assert trials["fit_cpu_seconds"].between(0.3, 0.5).all()
    assert trials["fit_peak_bytes"].notna().to_dict() == {"Spins": True, "SpinsInChild": False}


def test_limits_that_are_given_for_all_replace_a_learners_own():
    experiment = small({"A": LearnerSpec("OASIS", budget="1h", memory="1GiB")})
    limited = trials_of(experiment.limited({"budget": "2s"}))[0]
    assert (limited.budget.seconds, limited.memory.n_bytes) == (2, 2**30)


def test_a_harness_that_is_killed_takes_its_trials_with_it(tmp_path, plugins):
    experiment = tmp_path / "hang.toml"
    experiment.write_text(
        'title = "T"\ndataset = "digits"\nclasses = [2]\npartitions = 1\n'
        f'[learners.LeavesChildren]\nfolder = "{tmp_path}"\n'
        f'[learners.HoldsTheGILWithChild]\nfolder = "{tmp_path}"\n'
    )
    command = [sys.executable, "-m", "oasis_bench", "run", "--experiment", experiment]
    more = ["--plugin", plugins / "hostile.py", "--output", tmp_path / "run", "--jobs", "2"]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    harness = subprocess.Popen(
        [*map(str, command), *map(str, more)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        wait_for(lambda: len(list(tmp_path.glob("[TFG]*-*"))) >= 5, 60)
        wait_for(lambda: len(_below(harness.pid)) >= 3, 20)
        wait_for((tmp_path / "holds").exists, 20)
        below = _below(harness.pid)
    finally:
        harness.kill()
        harness.wait()
    wait_for(lambda: not any(lives(pid) for pid in below), 20)
    assert [pid for pid in below if lives(pid)] == []
    assert list(temporary.iterdir()) == []


def test_what_descends_from_a_process_is_counted_and_killed_without_it():
    code = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    x = bytearray(50_000_000)\n"
        "    if os.fork() == 0: y = bytearray(30_000_000); os.setsid()\n"
        "print(flush=True); time.sleep(3600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        for _ in range(3):
            process.stdout.readline()
        below = _below(process.pid)
        assert len(below) == 2
        assert 80_000_000 < Processes(process.pid).n_bytes() < 130_000_000
        Processes(process.pid).kill()
        wait_for(lambda: not any(lives(pid) for pid in below), 10)
        assert not any(lives(pid) for pid in below)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def _below(pid):
    return {child.pid for child in psutil.Process(pid).children(recursive=True)}
