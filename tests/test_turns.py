"""Trials in turn: one prepares while the last is evaluated, and nothing overlaps with a fit."""

import sys

import pandas as pd
import pytest

from oasis_bench.experiment.settings import Experiment, LearnerSpec
from oasis_bench.runner.run import run_experiment
from oasis_bench.store.run_file import read_run

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc")

N_TRAIN = 20


def run(folder, plugins, params, jobs=1, **settings):
    """Run three partitions; return what was done when, in order of its begin, and the run."""
    log = folder / "log"
    experiment = Experiment(
        "Clocked",
        "digits",
        {
            name: LearnerSpec("Clocked", {"log": str(log), **of_learner}, **settings.get(name, {}))
            for name, of_learner in params.items()
        }
        | settings.get("others", {}),
        classes=(2,),
        partitions=3,
        train_per_class=N_TRAIN // 2,
        test_per_class=10,
        inner_folds=2,
    )
    path = plugins / "clocked.py"
    assert run_experiment(experiment, folder / "run", jobs=jobs, plugin_files=[path]) == 0
    columns = ["what", "process", "begin", "end"]
    done = pd.read_csv(log, sep=" ", names=columns).sort_values("begin", ignore_index=True)
    return done, read_run(folder / "run")


def overlaps(done, one, other):
    """Count pairs of which the second, of another process, begins while the first is going on."""
    return sum(
        ((one.begin <= second) & (second <= one.end) & (one.process != process)).any()
        for second, process in zip(other.begin, other.process, strict=True)
    )


@pytest.mark.parametrize("seconds", [0.5, [0.1, 0.2]], ids=["one candidate", "two candidates"])
def test_one_prepares_while_the_last_is_evaluated_and_nothing_overlaps_with_a_fit(
    tmp_path, plugins, seconds
):
    done, run_record = run(tmp_path, plugins, {"Clocked": {"seconds": seconds}})
    assert (run_record.trials["status"] == "ok").all()
    timed = done[done.what.isin([f"fit-{N_TRAIN}", f"fit-{N_TRAIN // 2}"])]
    warm_ups = done[done.what == "fit-16"]
    evaluations = done[done.what == "similarity"]
    assert len(timed) == (3 if seconds == 0.5 else 3 * (2 * 2 + 1))
    assert overlaps(done, timed, done) == 0
    assert overlaps(done, warm_ups, timed) == 0
    assert overlaps(done, evaluations, timed) == 0
    if seconds == 0.5:
        assert overlaps(done, evaluations, warm_ups) == 2


def test_two_at_a_time_are_two_fits_at_most(tmp_path, plugins):
    done, _ = run(tmp_path, plugins, {"Clocked": {}}, jobs=2)
    timed = done[done.what == f"fit-{N_TRAIN}"]
    at_once = [((timed.begin <= begin) & (begin < timed.end)).sum() for begin in timed.begin]
    assert max(at_once) == 2


def test_what_waits_for_its_turn_spends_nothing_of_its_budget(tmp_path, plugins):
    params = {"Slow": {"seconds": 1.5}, "Quick": {}}
    _, run_record = run(tmp_path, plugins, params, Quick={"budget": "1s"})
    assert (run_record.trials["status"] == "ok").all()


def test_what_ends_before_its_turn_is_stored_at_its_turn(tmp_path, plugins):
    refusing = {"Refuses": LearnerSpec("Refuses")}
    _, run_record = run(tmp_path, plugins, {"Clocked": {"seconds": 0.3}}, others=refusing)
    assert run_record.trials["learner"].tolist() == ["Clocked", "Refuses"] * 3
