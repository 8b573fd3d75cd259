"""Messages of a trial: read as they were sent, and refused where they are something else."""

import json

import numpy as np
import pytest
from small_runs import small

from oasis_bench.experiment import LearnerSpec
from oasis_bench.runs import How, read_run, run_experiment
from oasis_bench.trial.wall.messages import (
    LONGEST_TEXT,
    Compared,
    Ended,
    Fitted,
    Loaded,
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

LOADED = to_line(Loaded(threads=1, symmetry_index=None, numbers={"gap": 0.5}))
MALFORMED = {
    "no JSON": b"learner says hello",
    "deep": b"[" * 150_000,
    "unknown kind": b'{"kind": "Stopped"}',
    "another type": b'{"kind": "PhaseBegan", "phase": 7}',
    "a field too many": b'{"kind": "Ended", "status": "ok", "really": true}',
    "infinite within a field": (
        b'{"kind": "Validated", "scaling": "l2", "params": {}, "n_steps": null, "fold": 0, '
        b'"value": 1e999}'
    ),
    "a status that a trial cannot have": b'{"kind": "Ended", "status": "splendid"}',
    "a fitted number with a hostile name": LOADED.replace(b"gap", b"<b>"),
    "a long number": b'{"kind": "Started", "n_bytes": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize(
    "message",
    [
        Started(10),
        PhaseBegan("the final fit"),
        Validated("l2", {"eta": 0.1}, n_steps=None, fold=2, values=[0.25]),
        Fitted(
            threads=1,
            seconds=0.5,
            cpu_seconds=0.4,
            waiting_seconds=None,
            peak_bytes=2**20,
            symmetry_index=None,
            numbers={"gap_": 1e-3},
        ),
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
    assert len(message.reason) < LONGEST_TEXT + 50
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
    assert from_line(LOADED).numbers == {"gap": 0.5}
    with pytest.raises(MessageError):
        from_line(line)


LINES = {
    "list": "[1]",
    "deep": "[" * 150_000,
    "too early": '{"kind": "Queried", "seconds": 0.0, "cpu_seconds": 0.0}',
    "scores": '{"kind": "Scores", "gallery": "test", "n_queries": 3, "dtype": "float64"}',
    "the end": '{"kind": "Ended", "status": "ok"}',
}
POINT = {"kind": "Validated", "scaling": "l2", "params": {"line": "1"}, "n_steps": None}
POINT |= {"fold": 0, "values": [1.0]}
STRANGE = {"params": {"line": "2"}, "n_steps": 7, "fold": 5, "values": [1.0, 1.0]}
"""Settings that no inner fold tries."""


@pytest.fixture(scope="module")
def run(tmp_path_factory, plugins):
    """Run learners that send such lines, one that replays a checkpoint twice, and a sound one."""
    learners = {name: LearnerSpec("SendsLine", {"line": line}) for name, line in LINES.items()}
    for name, value in STRANGE.items():
        line = json.dumps(POINT | {name: value})
        learners[name] = LearnerSpec("SendsLine", {"line": [line, "1"]})  # two: so that it chooses
    learners |= {name: LearnerSpec(name) for name in ("ReplaysTwice", "Euclidean")}
    folder = tmp_path_factory.mktemp("messages") / "run"
    traced = small(learners, traces=True)
    failures = run_experiment(traced, folder, How(plugin_files=[plugins / "hostile.py"]))
    assert failures == len(LINES) + len(STRANGE)
    return read_run(folder)


def test_only_settings_that_the_inner_folds_try_are_taken(run):
    trials = run.trials.set_index("learner").loc[[*STRANGE]]
    assert set(trials["status"]) == {"crashed"}
    assert trials["reason"].str.contains("Validated may not come").all()


def test_a_checkpoint_is_replayed_once(run):
    trial = run.trials.set_index("learner").loc["ReplaysTwice"]
    assert trial["status"] == "ok"
    assert "Replayed may not come" in trial["reason"]
    assert sorted(run.traces["part"]) == ["test", "train"]


def test_malformed_lines_crash_their_trials_and_no_other(run):
    trials = run.trials.set_index("learner")
    assert set(trials.loc[[*LINES], "status"]) == {"crashed"}
    reasons = trials.loc[[*LINES], "reason"]
    assert reasons.str.startswith("what its process sent cannot be read: ").all()
    assert trials.loc["Euclidean", "status"] == "ok"
