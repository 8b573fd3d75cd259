"""Messages of a trial: read as they were sent, and refused where they are something else."""

from dataclasses import replace

import numpy as np
import pytest

from oasis_bench.experiment.settings import LearnerSpec
from oasis_bench.runner.run import run_experiment
from oasis_bench.store.run_file import read_run
from oasis_bench.trial.messages import (
    Chosen,
    Ended,
    Measured,
    MessageError,
    PhaseBegan,
    Started,
    TableRow,
    from_line,
    to_line,
)

MALFORMED = {
    "nothing": b"",
    "no JSON": b"learner says hello",
    "no text": b"\xff\xfe",
    "a number": b"1",
    "a list": b"[1]",
    "deep": b"[" * 150_000,
    "deep and closed": b"[" * 150_000 + b"]" * 150_000,
    "no kind": b'{"memory": Infinity}',
    "unknown kind": b'{"kind": "Stopped"}',
    "a kind that is no text": b'{"kind": []}',
    "infinite": b'{"kind": "Started", "n_bytes": Infinity}',
    "another type": b'{"kind": "PhaseBegan", "phase": 7}',
    "a field too few": b'{"kind": "PhaseBegan"}',
    "a field too many": b'{"kind": "Ended", "status": "ok", "really": true}',
    "rows of numbers": (
        b'{"kind": "Measured", "columns": {}, "precision_at_k": [1], "retrievals": []}'
    ),
    "a long number": b'{"kind": "Started", "n_bytes": ' + b"9" * 5000 + b"}",
}


@pytest.mark.parametrize(
    "message",
    [
        Started(10),
        PhaseBegan("the final fit"),
        TableRow("validation", {"n_steps": None, "mean_average_precision": 0.25}),
        Chosen(
            {"a": [1, "x"]}, n_steps=None, last_checkpoint=7, fit_seconds=0.5, score_seconds=0.0
        ),
        Measured({"threads": 1}, [{"k": 1, "precision": 0.5}], []),
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
    row = {"n_steps": np.int64(3), "value": np.float32(0.5)}
    assert from_line(to_line(TableRow("traces", row))).row == {"n_steps": 3, "value": 0.5}


@pytest.mark.parametrize("line", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_line_is_refused(line):
    with pytest.raises(MessageError):
        from_line(line)


def test_malformed_lines_crash_their_trials_and_no_other(experiment, plugins, tmp_path):
    lines = {
        "number": "1",
        "list": "[1]",
        "infinity": '{"memory": Infinity}',
        "deep": "[" * 150_000,
        "kind": '{"kind": "Stopped"}',
        "table": '{"kind": "TableRow", "table": "trials", "row": {}}',
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
    assert set(crashed["reason"]) == {"what its process sent cannot be read"}
    assert set(trials.loc[trials["learner"] == "Euclidean", "status"]) == {"ok"}
