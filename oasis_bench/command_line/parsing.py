"""How words of the command line are read: the parser, types of options, and what verbs share.

A type reads a text or raises argparse.ArgumentTypeError.  Not which verbs there are, nor what
options one has of its own: `command_line.options`.
"""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from oasis_bench.system import (
    LONGEST_PATH,
    UsageError,
    cut,
    printable,
    shown,
    unknown_name,
    value_of_text,
)

MOST = 10**9
"""No number of the command line is larger, where nothing else is said."""

RETRIED = ("failed", "crashed", "timeout", "out-of-memory", "not-applicable")


DATA_OPTIONS = (
    ("label", "COLUMN", "the label column of your own file (default: label, class, target or y)"),
    ("labels", "FILE.npy", "the labels of your own FILE.npy of features (default: none)"),
    (
        "fold-column",
        "COLUMN",
        "the column of your own file that says in which fold each row tests: these are the "
        "partitions then (default: none, partitions are drawn)",
    ),
    (
        "drop",
        "A,B",
        "columns of your own file to leave out; one that holds a comma in double quotes "
        "(default: none)",
    ),
    ("decimal", "SIGN", "the decimal sign of your own CSV file, . or , (default: as columns show)"),
    (
        "thousands",
        "SIGN",
        "the sign of thousands of your own CSV file: , . ' or a space (default: as columns show)",
    ),
    (
        "prepare",
        "auto|none",
        "whether missing values, texts and dates of your own table become numbers, and constant "
        "columns and ids are left out; none refuses them (default: auto)",
    ),
    (
        "bins",
        "N",
        "make so many classes of a label that is a number, of about as many rows each (default: "
        "each value is a class)",
    ),
    (
        "pairs",
        "FILE",
        "a CSV file of the names of two rows of your own file, and same or different: then the "
        "task is verification, and labels need not be there (default: none)",
    ),
    (
        "triplets",
        "FILE",
        "a CSV file of the names of three rows: a query, a nearer and a farther one: then the task "
        "is judged-triplets, and labels need not be there (default: none)",
    ),
    (
        "name-column",
        "COLUMN",
        "the column that names the rows of your own file (default: rows count from 0)",
    ),
    ("visterms", "N", "visual words of a data set of pictures (default: its own, 1000)"),
    ("block", "PIXELS", "side of the blocks of pictures (default: the data set's, mostly 64)"),
    (
        "features",
        "NAME|FILE.npz",
        "what the rows of a data set of pictures are: visterms, efficientnet-lite0, timm:NAME (a "
        "network of timm), lab, hog, lbp, wavelet, sift-bow, fisher, texton, or several of these "
        "joined by +, or a file of your own (default: its own, mostly visterms)",
    ),
)
"""Options of data sets that have a short form of --data-option."""


class Parser(argparse.ArgumentParser):
    """A parser that takes options in full only and raises UsageError for a wrong one.

    The error names the nearest option, verb or choice, and the help of the verb that was given.
    A path of `inputs` must exist; that is looked at last, when all words are known to be right.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, allow_abbrev=False)
        self.inputs: list[argparse.Action] = []

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError that names the help."""
        raise UsageError(f"{message}: see '{self.prog} --help'")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, and refuse what is unknown here, where the options of the verb are known."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [text for text in unknown if text.startswith("-")]
            if not options:
                self.error(f"argument {unknown[0]!r} is one too many")
            name = options[0].partition("=")[0]
            near = difflib.get_close_matches(name, self._option_string_actions, n=1)
            hint = f": did you mean {near[0]}?" if near else ""
            raise UsageError(f"unknown option {name!r}{hint or ':'} see '{self.prog} --help'")
        for action in self.inputs:
            given = getattr(found, action.dest) or []
            for path in given if isinstance(given, list) else [given]:
                try:
                    refuse_missing(path)
                except UsageError as error:
                    self.error(str(argparse.ArgumentError(action, str(error))))
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = (action.option_strings or [str(action.metavar or "argument").lower()])[-1]
            self.error(unknown_name(name, str(value), action.choices))


def add_verb(verbs: Any, name: str, what: str, more: str = "") -> Parser:
    """Add a verb that does `what`; its own help says `more`."""
    parser: Parser = verbs.add_parser(name, help=what, description=more or what)
    parser.set_defaults(verb=name)
    return parser


def add_path(parser: Parser, name: str, metavar: str, what: str, **more: Any) -> None:
    """Add an option, or an argument, that is a path to write to."""
    parser.add_argument(name, type=path_of_text, metavar=metavar, help=what, **more)


def add_input(parser: Parser, name: str, metavar: str, what: str, **more: Any) -> None:
    """Add an option, or an argument, that is the path of what is read: there must be something."""
    action = parser.add_argument(name, type=path_of_text, metavar=metavar, help=what, **more)
    parser.inputs.append(action)


def path_of_text(text: str) -> Path:
    """Read a path, which may not be empty."""
    if not text:
        raise argparse.ArgumentTypeError("'': a path is needed, such as . for this folder")
    return Path(text)


def refuse_missing(path: Path) -> None:
    """Raise UsageError where there is nothing at this path."""
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        called = printable(cut(str(path), LONGEST_PATH))
        raise UsageError(f"{called}: {reason}: give a path that exists") from error


def positive_of_text(text: str, least: int = 1, most: int = MOST) -> int:
    """Read a whole number within bounds."""
    value = value_of_text(text, int) if text.isdecimal() else 0
    if not (isinstance(value, int) and least <= value <= most):
        small = isinstance(value, int) and value < least
        needed = f"of at least {least}" if small else f"from {least} to {most}"
        raise argparse.ArgumentTypeError(f"{shown(text)}: a whole number {needed} is needed")
    return value


def batch_of_text(text: str) -> int | None:
    """Read the size of a batch; 'exact' is None."""
    return None if text == "exact" else positive_of_text(text)


def tolerance_of_text(text: str) -> float:
    """Read a share of at least 0."""
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share < math.inf:
        raise argparse.ArgumentTypeError(
            f"{shown(text)}: a share of at least 0 is needed, such as 0.1"
        )
    return share


def names_of_text(text: str) -> list[str]:
    """Read different names between commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{shown(text)}: each name once")
    if not names:
        raise argparse.ArgumentTypeError(f"{shown(text)}: names separated by commas are needed")
    return names


def each_of_text(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Make the type of an option that takes several values."""
    return lambda text: [kind(part) for part in names_of_text(text)]


def statuses_of_text(text: str) -> list[str]:
    """Read statuses of trials, with - or blanks in their names."""
    names = [name.replace(" ", "-") for name in names_of_text(text)]  # as reports spell them, too
    for name in names:
        if name not in RETRIED:
            raise argparse.ArgumentTypeError(unknown_name("status", name, RETRIED))
    return [name.replace("-", " ") for name in names]


def name_and_value(text: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{shown(text)}: NAME=VALUE is needed")
    return name, value


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of data sets."""
    group = parser.add_argument_group(
        "options of the data set",
        "In an experiment file they stand in a table [dataset], beside its name.",
    )
    parser.set_defaults(data_options=[])
    append: dict[str, Any] = {"dest": "data_options", "action": "append"}
    for name, metavar, what in DATA_OPTIONS:
        pair = partial(lambda name, text: (name, text), name.replace("-", "_"))
        group.add_argument(f"--{name}", type=pair, metavar=metavar, help=what, **append)
    group.add_argument(
        "--data-option",
        type=name_and_value,
        metavar="NAME=VALUE",
        help="any option of the data set; --data-option visterms=100 is --visterms 100 (may be "
        "repeated; default: none)",
        **append,
    )


def add_plugin(
    parser: Parser,
    what: str = "a Python file that defines learners, data sets, tasks or splits (may be repeated; "
    "default: none)",
) -> None:
    """Add the option for plugin files."""
    add_input(parser, "--plugin", "FILE", what, action="append", default=[])
