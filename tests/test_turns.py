"""Trials in turn: as many at a time as jobs, and nothing overlaps with a fit."""

import sys

import pandas as pd
import pytest
from small_runs import small

from oasis_bench.experiment import LearnerSpec
from oasis_bench.runs import How, read_run, run_experiment

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc")

N_TRAIN = 20


def run(folder, plugins, params, jobs=1, **settings):
    """Run partitions; return what was done when, in order of its begin, and the run."""
    folder.mkdir(exist_ok=True)
    log = folder / "log"
    learners = {
        name: LearnerSpec(name, {} if own is None else {"log": str(log), **own})
        for name, own in params.items()
    }
    sizes = {"partitions": 2, "train_per_class": N_TRAIN // 2, "test_per_class": 10}
    experiment = small(learners, **sizes, **settings)
    path = plugins / "clocked.py"
    assert run_experiment(experiment, folder / "run", How(jobs=jobs, plugin_files=[path])) == 0
    columns = ["what", "process", "begin", "end"]
    done = pd.read_csv(log, sep=" ", names=columns).sort_values("begin", ignore_index=True)
    return done, read_run(folder / "run")


def overlaps(done, one, other):
    """Count pairs of which the second, of another process, begins while the first is going on."""
    return sum(
        ((one.begin <= second) & (second <= one.end) & (one.process != process)).any()
        for second, process in zip(other.begin, other.process, strict=True)
    )


def test_one_at_a_time_nothing_overlaps_with_a_fit(tmp_path, plugins):
    done, run_record = run(tmp_path, plugins, {"Clocked": {"seconds": [0.0, 0.1]}})
    assert (run_record.trials["status"] == "ok").all()
    timed, inner = (done[done.what == f"fit-{n}"] for n in (N_TRAIN, N_TRAIN // 2))
    # On inner folds, off the clock, two candidates and for its blend the winner; they may overlap.
    assert (len(timed), len(inner)) == (2, 2 * (2 + 1) * 2)
    assert overlaps(done, timed, done) == overlaps(done, done, timed) == 0


def test_two_at_a_time_two_fits_go_on_at_once_and_never_three(tmp_path, plugins):
    done, run_record = run(tmp_path, plugins, {"Meets": {}}, jobs=2)
    assert (run_record.trials["status"] == "ok").all()
    timed = done[done.what == f"met-{N_TRAIN}"]
    at_once = [((timed.begin <= begin) & (begin < timed.end)).sum() for begin in timed.begin]
    assert max(at_once) == 2


def test_a_slow_trial_keeps_its_items_while_the_next_partition_begins(tmp_path, plugins):
    params = {"Clocked": {"seconds": 0.5}, "Euclidean": None}
    _, alone = run(tmp_path / "alone", plugins, params, blend="off")
    _, together = run(tmp_path / "together", plugins, params, jobs=2, blend="off")
    keys = ["learner", "partition", "measure", "k"]
    columns = [*keys, "value", "chance"]
    one, two = (record.measures[columns].sort_values(keys) for record in (alone, together))
    pd.testing.assert_frame_equal(one.reset_index(drop=True), two.reset_index(drop=True))
