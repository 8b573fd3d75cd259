"""The time left, worked by hand, and a quick run."""

from types import SimpleNamespace

import pytest

from oasis_bench.command_line import running
from oasis_bench.command_line.options import make_parser, parse_words
from oasis_bench.command_line.progress import TimeLeft, in_words
from oasis_bench.command_line.run import experiment_of


def trials():
    """Two learners on 2 and 4 classes, two partitions each, in the order of a run."""
    return [
        SimpleNamespace(
            trial_id=f"{learner} {n} {partition}",
            learner=learner,
            where=SimpleNamespace(subset=str(n), split="classes", n_train=10 * n),
        )
        for n in (2, 4)
        for partition in range(2)
        for learner in ("A", "B")
    ]


def test_the_time_left_is_that_of_trials_alike_else_in_proportion_to_their_items():
    left = TimeLeft(trials())
    assert left.seconds() == 0  # nothing is known
    left.end("A 2 0", 3.0)
    assert left.seconds() == 3 + 2 * 6 + 4 * 3  # of B nothing is known: the mean of all
    left.end("B 2 0", 1.0)
    assert left.seconds() == 3 + 1 + 2 * 6 + 2 * 2
    left.end("A 2 1", 5.0)  # four on the mean
    left.end("B 2 1", 1.0)
    assert left.seconds() == 2 * 8 + 2 * 2
    left.end("A 4 0", 20.0)
    assert left.seconds() == 20 + 2 * 2
    for trial in ("B 4 0", "A 4 1", "B 4 1"):
        left.end(trial, 1.0)
    assert left.seconds() == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(3.2, "3 s"), (44, "40 s"), (89, "90 s"), (200, "3 min"), (9000, "2.5 h")],
)
def test_it_is_told_no_more_exactly_than_it_is_known(seconds, words):
    assert in_words(seconds) == words


@pytest.mark.parametrize(
    ("words", "classes", "partitions"),
    [
        ("", (5,), 2),
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
    (note,) = running.quick_note(make_parser().parse_args(words))
    assert note.endswith(": python -m oasis_bench run --dataset 'my table.csv'")
    assert running.quick_note(make_parser().parse_args(["run"])) == []
