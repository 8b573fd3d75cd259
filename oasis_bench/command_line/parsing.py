"""Reads words of the command line: the parser, types of options, and options that verbs share.

A type reads a text or raises argparse.ArgumentTypeError.  `command_line.options` has the verbs and
their own options.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from oasis_bench.system import (
    UsageError,
    quoted,
    refuse_input,
    short_path,
    unknown_name,
)

MOST = 10**9
"""The default limit of numbers on the command line."""

RETRIED = ("failed", "crashed", "timeout", "out-of-memory", "not-applicable")

DATA_OPTIONS = (
    ("label", "COLUMN", "the label column of your own file (default: label, class, target or y)"),
    ("drop", "A,B", "columns of your own file to leave out"),
    (
        "column",
        "NAME=KIND",
        "what a column of your own file is: date, category, number, text, drop, or the format of a "
        "date such as %%d/%%m/%%Y (default: found from its cells); repeatable",
    ),
    (
        "features",
        "NAME|FILE.npz",
        "the features of pictures: visterms, efficientnet-lite0, efficientnet-lite0-layers, "
        "timm:NAME (a network of timm), histograms, lab, hog, lbp, wavelet, sift-bow, fisher, "
        "texton, several joined by +, none, or your own file; of texts: words, "
        "all-minilm-l6-v2, or "
        "sentence-transformers:FOLDER (a model in a folder)",
    ),
    ("labels", "FILE.npy", "the labels of your own FILE.npy of features"),
    ("group", "COLUMN", "the column of groups, such as persons, that train or test as a whole"),
    ("fold-column", "COLUMN", "the column with the number of the fold that tests each row"),
    ("name-column", "COLUMN", "the column that names the rows (default: rows count from 0)"),
    (
        "header",
        "N|none",
        "the line of your CSV file with the names of columns (default: the first)",
    ),
    ("decimal", "SIGN", "the decimal sign of your CSV file, . or , (default: found from columns)"),
    ("thousands", "SIGN", "its thousands sign: , . ' or a space (default: found from columns)"),
    (
        "prepare",
        "auto|none",
        "auto encodes texts and dates and imputes; none refuses them (default: auto)",
    ),
    ("bins", "N", "number of classes made of a numeric label (default: a class for each value)"),
    ("pairs", "FILE", "a CSV file of two row names and same or different: for verification"),
    ("triplets", "FILE", "a CSV file of row names (query, nearer, farther): for judged-triplets"),
    ("visterms", "N", "number of visual words of pictures (default: the data set's, mostly 1000)"),
    ("block", "PIXELS", "side of the blocks for visual words (default: the data set's, mostly 64)"),
)
"""Options of data sets that have a short form of --data-option."""


class Parser(argparse.ArgumentParser):
    """A parser that takes options in full only and raises UsageError for a wrong one.

    The error names the nearest option, verb or choice, and the help of the verb.
    Paths of `inputs` must exist, and that of --output must be another; this is checked last, when
    all words are correct.
    Its help begins with `examples`, and leaves the groups in `rare` to --help-all.
    """

    def __init__(self, *, examples: Sequence[str] = (), **how: Any) -> None:
        super().__init__(**how, allow_abbrev=False, add_help=False, formatter_class=_Formatter)
        self.examples = examples
        self.inputs: list[argparse.Action] = []
        self.rare: list[Any] = []
        self.add_argument("-h", "--help", "--help-all", action=_Help)
        self._positionals.title = "arguments"

    def group(self, title: str, description: str = "", *, rare: bool = False) -> Any:
        """Add a group of options; options added next belong to it."""
        group = self.add_argument_group(title, description)
        self.rare += [group] * rare
        self._optionals = group
        return group

    def add(self, name: str, metavar: str, what: str, **how: Any) -> argparse.Action:
        """Add an option, or an argument."""
        return self.add_argument(name, metavar=metavar, help=what, **how)

    def switch(self, name: str, what: str) -> None:
        """Add an option without a value, which is off by default."""
        self.add_argument(name, action="store_true", help=what)

    def writes(self, metavar: str, what: str, **how: Any) -> None:
        """Add the option --output, a path to write to."""
        self.add("--output", metavar, what, type=path_of_text, **how)

    def reads(self, name: str, metavar: str, what: str, **how: Any) -> None:
        """Add an option, or an argument, that is a path to read, which must exist."""
        self.inputs.append(self.add(name, metavar, what, type=path_of_text, **how))

    def format_help(self, every: bool = False) -> str:
        """Write the help: examples first, then the groups of options; with `every`, all groups."""
        out = self._get_formatter()
        words = [
            ("[{}]" if one.nargs == "?" else "{}").format(one.metavar or one.dest)
            for one in self._get_positional_actions()
        ]
        out.add_text(" ".join(["usage:", self.prog, *words, "[OPTIONS]"]))
        if self.examples:
            out.add_text("\n  ".join(["examples:", *self.examples]))
        out.add_text(self.description)
        for group in self._action_groups:
            if every or group not in self.rare:
                out.start_section(group.title)
                out.add_text(group.description or None if every else None)
                for action in group._group_actions:
                    brief = copy(action)
                    brief.help = action.help if every else getattr(action, "brief", action.help)
                    out.add_argument(brief)
                out.end_section()
        if self.rare and not every:
            n_more = sum(len(group._group_actions) for group in self.rare)
            out.add_text(f"{n_more} more options: {self.prog} --help-all")
        return out.format_help()

    def error(self, message: str) -> NoReturn:
        """Raise a UsageError that names the help."""
        raise UsageError(f"{message}: see '{self.prog} --help'")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, and refuse unknown words here, where the options of the verb are known."""
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
            given = given if isinstance(given, list) else [given]
            for path in given:
                try:
                    path.stat()
                except (OSError, ValueError) as error:
                    reason = getattr(error, "strerror", None) or str(error)
                    why = f"{short_path(path)}: {reason}: give a path that exists"
                    self.error(str(argparse.ArgumentError(action, why)))
            refuse_input(getattr(found, "output", None), given)
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = (action.option_strings or [str(action.metavar or "argument").lower()])[-1]
            self.error(unknown_name(name, str(value), action.choices))


class _Formatter(argparse.HelpFormatter):
    """Leaves examples unchanged."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


class _Help(argparse.Action):
    """Print the help, in full or in short, and end."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        hidden = argparse.SUPPRESS
        super().__init__(option_strings, hidden, nargs=0, default=hidden, help=hidden)

    def __call__(self, parser: Any, *parsed: Any) -> None:
        print(parser.format_help(every=parsed[-1] == "--help-all"), end="")
        parser.exit()


def path_of_text(text: str) -> Path:
    """Read a path, which may not be empty."""
    if not text:
        raise argparse.ArgumentTypeError("'': a path is needed, such as . for this folder")
    return Path(text)


def positive_of_text(text: str, least: int = 1, most: int = MOST) -> int:
    """Read a whole number within bounds."""
    value = int(text[:99]) if text.isdecimal() else 0  # Python reads no number of 5000 digits
    if not least <= value <= most:
        needed = f"of at least {least}" if value < least else f"from {least} to {most}"
        raise argparse.ArgumentTypeError(f"{quoted(text)}: a whole number {needed} is needed")
    return value


def batch_of_text(text: str) -> int | None:
    """Read the size of a batch; 'exact' is None."""
    return None if text == "exact" else positive_of_text(text)


def names_of_text(text: str) -> list[str]:
    """Read different names separated by commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{quoted(text)}: give names with commas, each once")
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
        raise argparse.ArgumentTypeError(f"{quoted(text)}: NAME=VALUE is needed")
    return name, value


def add_data_options(parser: Parser, n_main: int = 2) -> None:
    """Add the options of data sets; the help shows the first ones in the group before."""
    how: dict[str, Any] = {"dest": "data_options", "action": "append"}
    parser.set_defaults(data_options=[])
    for number, (name, metavar, what) in enumerate(DATA_OPTIONS):
        if number == n_main:
            parser.group(
                "more options of the data set",
                "In an experiment file they are in a table [dataset], beside its name.",
                rare=True,
            )
        pair = partial(lambda name, text: (name, text), name.replace("-", "_"))
        parser.add(f"--{name}", metavar, what, type=pair, **how)
    what = "any option of the data set, such as visterms=100; repeatable"
    parser.add("--data-option", "NAME=VALUE", what, type=name_and_value, **how)


def joined_options(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return options of data sets by name; options that list columns keep all values."""
    found: dict[str, str] = {}
    for name, text in pairs:
        is_list = name in ("column", "drop") and name in found
        found[name] = f"{found[name]},{text}" if is_list else text
    return found


def add_plugin(parser: Parser) -> None:
    """Add the option for plugin files."""
    what = "a Python file with learners, data sets, tasks or splits; repeatable"
    parser.reads("--plugin", "FILE", what, action="append", default=[])
