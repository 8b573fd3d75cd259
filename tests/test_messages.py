"""Messages of a trial: read as they were sent, and refused where they are something else."""

import json
from dataclasses import replace

import numpy as np
import pytest

from oasis_bench.experiment import LearnerSpec
from oasis_bench.runs import read_run, run_experiment
from oasis_bench.system.errors import Text
from oasis_bench.trial.wall import (
    Compared,
    Ended,
    Fitted,
    MessageError,
    PhaseBegan,
    Queried,
    Replayed,
    Scores,
    Started,
    Tuned,
    Validated,
    from_line,
    to_line,
)

FITTED = b'{"kind": "Loaded", "threads": 1, "symmetry_index": null, "numbers": '
MALFORMED = {
    "no JSON": b"learner says hello",
    "a list": b"[1]",
    "deep": b"[" * 150_000,
    "unknown kind": b'{"kind": "Stopped"}',
    "infinite": b'{"kind": "Started", "n_bytes": Infinity}',
    "another type": b'{"kind": "PhaseBegan", "phase": 7}',
    "a field too many": b'{"kind": "Ended", "status": "ok", "really": true}',
    "a negative count": b'{"kind": "Started", "n_bytes": -1}',
    "infinite within a field": (
        b'{"kind": "Validated", "scaling": "l2", "params": {}, "n_steps": null, "fold": 0, '
        b'"value": 1e999}'
    ),
    "a status that a trial cannot have": b'{"kind": "Ended", "status": "splendid"}',
    "a fitted number with a hostile name": FITTED + b'{"<b>": 0.5}}',
    "a long number": b'{"kind": "Started", "n_bytes": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize(
    "message",
    [
        Started(10),
        PhaseBegan("the final fit"),
        Validated("l2", {"eta": 0.1}, n_steps=None, fold=2, values=[0.25]),
        Fitted(1, 0.5, 0.4, None, 2**20, None, {"gap_": 1e-3}),
        Compared(0.25),
        Scores("test", 5, "float32"),
        Queried(0.5, 0.25),
        Replayed(500, 0.9),
        Tuned(
            *("l2", {"a": [1, "x"]}),
            n_steps=None,
            last_checkpoint=7,
            blend=0.75,
            fit_seconds=0.5,
            score_seconds=0.0,
        ),
        Ended("failed", "an 'error'\nwith \u65e5\u672c", "trace"),
        Ended("not applicable", "too many rows"),
        Ended("ok"),
    ],
)
def test_a_message_is_read_as_it_was_sent(message):
    line = to_line(message)
    assert line.count(b"\n") == 1
    assert from_line(line) == message


def test_scalars_of_numpy_are_sent_as_numbers():
    message = Validated("l2", {"k": np.int64(3)}, None, 0, [np.float32(0.5)])
    assert from_line(to_line(message)) == Validated("l2", {"k": 3}, None, 0, [0.5])


def test_a_long_text_is_cut_in_its_middle():
    message = from_line(to_line(Ended("failed", "a" * 50_000 + "b" * 50_000)))
    assert len(message.reason) < Text.LONGEST + 50
    assert message.reason.startswith("aaa")
    assert message.reason.endswith("bbb")


def test_scores_of_another_type_or_of_too_many_bytes_are_refused():
    assert Scores("test", 5, "float32").n_bytes(n_gallery=3) == 5 * 3 * 4
    with pytest.raises(MessageError):
        from_line(to_line(Scores("test", 5, "object"))).n_bytes(n_gallery=1000)
    with pytest.raises(MessageError):
        from_line(to_line(Scores("test", 10**6, "float64"))).n_bytes(n_gallery=1000)


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_line_is_refused(line):
    with pytest.raises(MessageError):
        from_line(line)


def test_only_settings_that_the_inner_folds_try_are_taken(experiment, plugins, tmp_path):
    point = {"kind": "Validated", "scaling": "l2", "params": {"line": "1"}, "n_steps": None}
    point |= {"fold": 0, "values": [1.0]}
    strange = {"params": {"line": "2"}, "n_steps": 7, "fold": 5, "values": [1.0, 1.0]}
    learners = {}
    for name, value in strange.items():
        line = json.dumps(point | {name: value})
        learners[name] = LearnerSpec("SendsLine", {"line": [line, "1"]})  # two: so that it chooses
    experiment = replace(experiment, learners=learners, classes=(2,), partitions=1)
    run_experiment(experiment, tmp_path / "run", plugin_files=[plugins / "hostile.py"])
    trials = read_run(tmp_path / "run").trials
    assert set(trials["status"]) == {"crashed"}
    assert trials["reason"].str.contains("Validated may not come").all()


def test_a_checkpoint_is_replayed_once(experiment, plugins, tmp_path):
    learners = {"ReplaysTwice": LearnerSpec("ReplaysTwice")}
    experiment = replace(experiment, learners=learners, classes=(2,), partitions=1, traces=True)
    run_experiment(experiment, tmp_path / "run", plugin_files=[plugins / "hostile.py"])
    run = read_run(tmp_path / "run")
    assert run.trials["status"].tolist() == ["ok"]
    assert "Replayed may not come" in run.trials["reason"].item()
    assert sorted(run.traces["part"]) == ["test", "train"]


def test_malformed_lines_crash_their_trials_and_no_other(experiment, plugins, tmp_path):
    lines = {
        "list": "[1]",
        "deep": "[" * 150_000,
        "too early": '{"kind": "Queried", "seconds": 0.0, "cpu_seconds": 0.0}',
        "scores": '{"kind": "Scores", "gallery": "test", "n_queries": 3, "dtype": "float64"}',
        "the end": '{"kind": "Ended", "status": "ok"}',
    }
    learners = {name: LearnerSpec("SendsLine", {"line": line}) for name, line in lines.items()}
    learners["Euclidean"] = LearnerSpec("Euclidean")
    experiment = replace(experiment, learners=learners, classes=(2,), partitions=1)
    path = plugins / "hostile.py"
    failures = run_experiment(experiment, tmp_path / "run", plugin_files=[path])
    trials = read_run(tmp_path / "run").trials
    crashed = trials[trials["learner"] != "Euclidean"]
    assert failures == len(crashed) == len(lines)
    assert set(crashed["status"]) == {"crashed"}
    assert crashed["reason"].str.startswith("what its process sent cannot be read: ").all()
    assert set(trials.loc[trials["learner"] == "Euclidean", "status"]) == {"ok"}
