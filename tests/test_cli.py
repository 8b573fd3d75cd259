"""The command line: what it says of the user's mistakes, its lists, helps and reports."""

import pkgutil
import subprocess
import sys

import pytest
from fake_runs import fake_trial, fake_trials, make_run

from oasis_bench.command_line.options import make_parser
from oasis_bench.experiment import built_in_names

SMALL = (
    "--algorithms Euclidean --dataset digits --classes 2 --partitions 1 --inner-folds 2 "
    "--train 6 --test 4"
)


def verbs_of(parser):
    """Yield the parsers of the verbs, such as 'run' and 'data list'."""
    for action in parser._actions:
        for verb in action.choices.values() if isinstance(action.choices, dict) else ():
            has_actions = verb.prog.endswith((" data", " model"))
            yield from verbs_of(verb) if has_actions else [verb]


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Keep listings in a folder of the test's own: another test's must not be shown."""
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("--algorithms OASSIS", ["unknown algorithm 'OASSIS'", "did you mean 'OASIS'"]),
        ("--dataset no/such.csv", ["no/such.csv", "No such file"]),
        ("--data-option label", ["--data-option", "'label'", "NAME=VALUE is needed"]),
        ("--dataset images", ["data set images is your own data", "give its path"]),
        ("--classes 11", ["11 classes", "has 10", "2 to 10"]),
        ("--train 100 --test 80", ["of 180 items", "have 180", "--train and --test until 174"]),
        ("--jobs 0", ["--jobs: '0'", "at least 1"]),
        ("--inner-folds 50", ["inner_folds = 50", "train_per_class = 40"]),
        ("--plugin no_such.py", ["--plugin: no_such.py: No such file"]),
    ],
)
def test_a_mistake_is_told_in_one_line_and_nothing_is_written(command, tmp_path, options, parts):
    output = tmp_path / "run"
    status, out, errors = command("run", *options.split(), "--output", output)
    assert status == 2
    assert len(errors) == 1, errors
    assert all(part in errors[0] for part in parts), errors
    assert errors[0].startswith("oasis-bench: ")
    assert out == ""
    assert not output.exists()


def test_an_output_folder_with_a_run_is_left_alone(command, write_run):
    finished = write_run("run", [fake_trial("A")])
    before = (finished / "results.sqlite").read_bytes()
    status, _, errors = command("run", *SMALL.split(), "--output", finished)
    assert status == 2
    assert len(errors) == 1, errors
    assert "already has a run: choose another --output" in errors[0]
    assert f"report {finished}" in errors[0]
    assert (finished / "results.sqlite").read_bytes() == before


def test_list_shows_all_that_can_be_named(command, plugins):
    status, out, errors = command("list", "--plugin", plugins / "sleeper.py")
    assert (status, errors) == (0, [])
    names = [line.split()[0] for line in out.splitlines() if not line.startswith("    ")]
    expected = ["algorithms", "OASIS", "Sleeper", "datasets:", "digits", "file"]
    expected += ["tasks:", "retrieval", "experiments:"]
    assert [name for name in names if name in expected] == expected
    assert set(built_in_names()) <= set(names)
    assert "BROKEN" not in out


def test_the_answer_is_ten_lines_at_most(command, tmp_path):
    learners = {"a": [0.9, 0.8], "b": [0.5, 0.4]}
    learners |= {f"learner {number}": [0.3, 0.31 + number / 100] for number in range(9)}
    trials = [trial for name, scores in learners.items() for trial in fake_trials(name, scores)]
    lost = fake_trial("lost", status="failed", reason="no luck")
    make_run(tmp_path, [*trials, lost], [*learners, "lost"], 2)
    status, out, errors = command("report", tmp_path)
    assert (status, errors) == (0, [])
    lines = out.splitlines()
    assert len(lines) <= 10
    assert "a has the highest mAP" in lines[0]
    assert "lost failed in 1 of 2 trials: no luck." in out
    assert lines[-1] == f"report: {tmp_path / 'report.html'}"


@pytest.mark.parametrize("parser", list(verbs_of(make_parser())), ids=lambda it: it.prog)
def test_every_verb_is_carried_out_by_a_function(command, parser):
    words = parser.prog.split()[3:]
    assert command(*words, "--help")[0] == 0
    assert callable(pkgutil.resolve_name(parser.get_default("function")))


def test_lists_fit_100_columns_and_tell_more_of_one_kind(command):
    for what in ("", "algorithms", "tasks", "splits", "datasets", "experiments"):
        lines = command("list", *what.split())[1].splitlines()
        assert max(map(len, lines)) <= 100
    brief, full = (command("list", *what)[1] for what in ((), ("algorithms",)))
    assert "none: nothing is learned" not in brief
    assert "cost of a fit: none: nothing is learned" in full
    symbols, first = full.splitlines()[1:3]
    assert symbols.strip().startswith("(costs: n rows, d features, k of them not 0")
    assert first.strip() == "bilinear, for any number of rows:"


def test_a_data_set_is_described_by_its_numbers(command):
    status, out, _ = command("data", "describe", "digits")
    assert status == 0
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert facts["images"].strip() == "1,797"
    assert facts["classes"].strip().startswith("10, of 174 (8) to 183 images (3)")  # as sklearn's
    status, out, _ = command("data", "list")
    assert status == 0
    assert "  caltech256  " in out
    prepared = command("data", "prepare", "digits")[1]
    assert prepared.splitlines()[0].split() == ["images", "1,797"]
    assert "licence" not in prepared  # facts are told by 'describe' alone


@pytest.mark.parametrize("words", ["--visterms 500", "--data-option visterms=500"])
def test_options_of_a_data_set_have_two_spellings(command, words):
    few = "--data-option n_images=40"
    status, out, _ = command("data", "prepare", "web-scale", *words.split(), *few.split())
    assert status == 0
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert facts["images"].strip() == "40"
    assert facts["features"].strip().startswith("500 ")


def test_options_are_put_over_those_of_the_file_for_the_same_data_set_alone(command, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'title = "T"\nclasses = [2]\n[dataset]\nname = "web-scale"\nvisterms = 1\nn_images = 9\n'
        "[learners.Euclidean]\n"
    )
    words = ["run", "--experiment", tmp_path / "mine.toml", "--output", tmp_path / "run"]
    assert "1 visterms: 400 to 50000" in command(*words)[2][0]
    assert "2 visterms: 400 to 50000" in command(*words, "--visterms", "2")[2][0]
    status, _, errors = command(*words, "--dataset", "digits", *SMALL.split())
    assert status == 0, errors


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("partitions = 0", "--partitions 0"),
        ('seed = "2.5"', "--seed 2.5"),
        ("test_share = 1.5", "--test-share 1.5"),
        ('scaling = "L2"', "--scaling L2"),
        ("classes = [2, 5, 2]", "--classes 2,5,2"),
        ('tasks = ["retrieval", "retrieval"]', "--tasks retrieval,retrieval"),
        ('budget = "10x"', "--budget 10x"),
        ('[dataset]\nname = "web-scale"\nvisterms = "x"', "--dataset web-scale --visterms x"),
        ('[dataset]\nname = "digits"\nblock = 3', "--dataset digits --block 3"),
    ],
)
def test_a_mistake_in_a_file_is_told_as_the_same_mistake_in_an_option(
    command, tmp_path, line, words
):
    usual = "" if "dataset" in line else 'dataset = "digits"\n'
    (tmp_path / "mine.toml").write_text(
        f'title = "T"\n{usual}{line}\n[learners.Euclidean]\n', "utf-8"
    )
    in_file = command("run", "--experiment", tmp_path / "mine.toml", "--output", tmp_path / "a")
    in_option = command("run", *words.split(), "--output", tmp_path / "b")
    assert in_file == in_option
    assert (in_file[0], len(in_file[2])) == (2, 1)
    assert not (tmp_path / "a").exists()


def test_what_is_not_there_is_told_before_the_slow_imports(tmp_path):
    code = """
import sys
from oasis_bench.command_line import main
for words in ("run --experiment none", "report absent", "run --retry lost"):
    assert main(words.split()) == 2
    assert "numpy" not in sys.modules, words
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


INTERRUPTED_AT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
from oasis_bench.__main__ import main
sys.argv = ["oasis-bench", "list"]
sys.exit(main())
"""


@pytest.mark.parametrize("name", ["oasis_bench.command_line.entry", "pandas"])
def test_an_interrupt_while_modules_are_imported_is_one_line(name):
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT.format(name=name)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "oasis-bench: interrupted\n"
