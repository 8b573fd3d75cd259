"""The display of progress, and a quick run."""

import io
import sys
import time
from contextlib import closing

import pytest
from fake_runs import fake_trial, result_of

from oasis_bench.command_line import ProgressDisplay, run
from oasis_bench.command_line.entry import parse_words
from oasis_bench.command_line.options import make_parser
from oasis_bench.command_line.run import experiment_of


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show_two_trials(failing=False):
    """Show two trials of ten seconds each, the second of which may fail."""
    with closing(ProgressDisplay()) as display:
        display.trial(None, 0, 2)
        display.trial(result_of(fake_trial("A", 2, 0)), 1, 2)
        status = {"status": "failed", "reason": "too many rows"} if failing else {}
        display.trial(result_of(fake_trial("B", 2, 0, **status)), 2, 2)


def test_elsewhere_than_on_a_terminal_each_trial_is_a_line_with_the_time_left(monkeypatch, capsys):
    clock = iter([0.0, 0.0, 10.0, 20.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    show_two_trials()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("[1/2] A, classes 2, partition 0: mAP ")
    assert first.endswith(", about 10 s left")
    assert second.startswith("[2/2] B, classes 2, partition 0: mAP ")
    assert "left" not in second


def test_on_a_terminal_there_is_one_bar_and_a_line_for_what_failed(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    show_two_trials(failing=True)
    shown = terminal.getvalue()
    assert "B, classes 2, partition 0: failed, too many rows\n" in shown
    assert "trials: 100%" in shown
    assert "2/2" in shown
    assert "[1/2]" not in shown
    assert shown.endswith("\n")


@pytest.mark.parametrize(
    ("words", "classes", "partitions"),
    [
        ("", (10,), 2),
        ("--partitions 4 --classes 3", (3,), 4),
        ("--experiment keel", ("all",), 2),
        ("--dataset my.csv", ("all",), 2),
    ],
)
def test_a_quick_run_is_small_where_nothing_else_is_given(
    words, classes, partitions, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.csv").touch()
    experiment = experiment_of(parse_words(["run", "--quick", *words.split()]))
    assert (experiment.classes, experiment.partitions) == (classes, partitions)
    assert (experiment.inner_folds, experiment.search) == (2, "4")


def test_a_quick_run_names_the_command_of_the_whole_one(monkeypatch):
    words = ["run", "--quick", "--dataset", "my table.csv", "--output", "runs/a"]
    monkeypatch.setattr("sys.argv", ["oasis-bench", *words])
    (note,) = run.quick_note(make_parser().parse_args(words))
    assert note.endswith(": python -m oasis_bench run --dataset 'my table.csv'")
    assert run.quick_note(make_parser().parse_args(["run"])) == []
