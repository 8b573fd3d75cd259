"""What the command line says of itself: all options and keys with defaults, and near misses."""

import argparse
import re
from dataclasses import fields

import pytest

from oasis_bench.command_line import main
from oasis_bench.command_line.options import make_parser
from oasis_bench.experiment import Experiment, LearnerSpec


def parsers(parser):
    """Return a parser and those of its verbs."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for verb in action.choices.values():
                yield from parsers(verb)


PARSERS = list(parsers(make_parser()))


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.prog)
def test_each_option_with_a_value_that_is_not_nothing_says_its_default(parser):
    for action in parser._actions:
        if action.option_strings and action.default not in (None, False, [], argparse.SUPPRESS):
            assert "default" in action.help, action


@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser.prog)
def test_a_help_is_short_and_begins_with_examples_that_parse(parser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = parser.format_help().splitlines()
    assert len(lines) < 60
    assert lines[0].startswith(f"usage: {parser.prog} ")
    assert ("--help-all" in lines[-1]) == bool(parser.rare)
    examples = [line.split("   ")[0].split()[3:] for line in lines if line.startswith("  python ")]
    assert (lines[2] == "examples:") == bool(examples)
    for words in examples:
        for word in words:
            if "/" in word or "." in word:
                path = tmp_path / word
                path.parent.mkdir(exist_ok=True)
                path.touch()
        if "--help" not in words:
            assert make_parser().parse_args(words).verb in " ".join(words)


def test_the_long_help_of_run_names_every_key_of_an_experiment_file(capsys):
    with pytest.raises(SystemExit):
        main(["run", "--help-all"])
    text = " ".join(capsys.readouterr().out.split())
    for key in {item.name for item in fields(Experiment)} - {"dataset_options", "built_in"}:
        option, flag = f"--{key.replace('_', '-')}", f"key {key};"
        assert re.search(rf"[ (]({option}[ ,]|{flag}|{key}(:| \(required\):) )", text), key
    assert all(key in text for key in ("algorithm", "features", *LearnerSpec.LIMITS))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "the following arguments are required: VERB: see '{}"),
        ("run --clases 3", "unknown option '--clases': did you mean --classes? see '{} run"),
        ("run --seed 1 --zzzz", "unknown option '--zzzz': see '{} run"),
        ("run extra", "argument 'extra' is one too many: see '{} run"),
        ("rnu", "unknown verb 'rnu': did you mean 'run'?"),
        ("data descibe x", "unknown action 'descibe': did you mean 'describe'?"),
        ("data list --plugn x", "unknown option '--plugn': did you mean --plugin? see '{} data"),
        ("list algorithm", "unknown kind 'algorithm': did you mean 'algorithms'?"),
        ("export x --format csvv", "unknown --format 'csvv': did you mean 'csv'?"),
    ],
)
def test_a_near_miss_names_what_was_meant_and_the_help_of_its_verb(words, message, capsys):
    assert main(words.split()) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("oasis-bench: " + message.format("python -m oasis_bench"))
    assert line.endswith(" --help'")
