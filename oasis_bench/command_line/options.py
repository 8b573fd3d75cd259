"""The parser of the command line: the words of all verbs are in `options.toml`; how they are read.

A type reads a text or raises argparse.ArgumentTypeError.  Not what the verbs do.
"""

from __future__ import annotations

import argparse
import difflib
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from oasis_bench import __version__
from oasis_bench.experiment import Experiment, known_settings
from oasis_bench.system import Text, UsageError, Value

TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))

DATA_OPTIONS = [str(option["name"]) for option in TABLE["data_options"]]
"""Options of data sets that have a short form of --data-option."""

MODEL_SETTINGS: Sequence[str] = TABLE["settings"]["model"]

MOST = 10**9
"""No number of the command line is larger, where nothing else is said."""

RETRIED = ("failed", "crashed", "timeout", "out-of-memory", "not-applicable")

EVERY_LEARNER = "all"
"""The value of --algorithms that names each learner that takes the data."""


def make_parser() -> argparse.ArgumentParser:
    """Make the parser; parsed options have the attribute `verb`, such as 'run' or 'data list'."""
    prog = "python -m oasis_bench"
    parser = Parser(
        prog=prog,
        description="Compare metric learners: how well they rank, and how long they take.",
        examples=(
            f"{prog} run --quick          a first answer in some seconds",
            f"{prog} run --dataset table.csv --label kind",
            f"{prog} list algorithms      the learners, by what they are for",
            f"{prog} run --help           the options of a verb",
        ),
    )
    parser.add_argument("--version", action="version", version=f"oasis-bench {__version__}")
    verbs: Any = parser.add_subparsers(required=True, metavar="VERB", help=argparse.SUPPRESS)
    for title, names in TABLE["groups"].items():
        n_before = len(verbs._choices_actions)
        for name in names:
            _add_verb(verbs, name, TABLE["verbs"][name])
        shown = parser.add_argument_group(title)
        shown._group_actions.extend(verbs._choices_actions[n_before:])
    return parser


def _add_verb(verbs: Any, name: str, about: Mapping[str, Any]) -> None:
    """Add a verb with its options, or with its actions."""
    examples = tuple(f"{verbs._prog_prefix} {name} {one}" for one in about.get("examples", ()))
    more = about.get("more", None if "actions" in about else about["help"])
    parser: Any = verbs.add_parser(name, help=about["help"], description=more, examples=examples)
    if "actions" in about:
        actions = parser.add_subparsers(required=True, metavar="ACTION", title="arguments")
        for action in about["actions"]:
            _add_verb(actions, action, TABLE["verbs"][f"{name} {action}"])
        return
    parser.set_defaults(
        verb=parser.prog.partition("oasis_bench ")[2],
        function=f"oasis_bench.command_line.{about['function']}",
        **dict.fromkeys(about.get("none", ())),
        **about.get("defaults", {}),
    )
    for option in about["options"]:
        _add_option(parser, option)


def _add_option(parser: Parser, option: Mapping[str, Any]) -> None:
    """Add what an entry of the table says: a group, options that are shared, or one."""
    match option:
        case {"group": title}:
            parser.group(title, option.get("text", ""), rare=option.get("rare", False))
        case {"settings": names}:
            listed = known_settings() if names == "all" else TABLE["settings"][names]
            parser.set_defaults(**dict.fromkeys(known_settings()))
            _add_settings(parser, option["text"], list(listed), option.get("of_a_file", True))
        case {"use": "data"}:
            _add_data_options(parser, option.get("main", 2))
        case {"use": name}:
            for one in TABLE["shared"][name]:
                _add_option(parser, one)
        case {"name": name, "type": "switch"}:
            parser.add_argument(name, action="store_true", help=option["help"])
        case {"name": name}:
            said = ("dest", "nargs", "choices", "required", "action", "default")
            how: dict[str, Any] = {key: option[key] for key in said if key in option}
            if (kind := option.get("type")) is not None:
                bounds = {key: option[key] for key in ("least", "most") if key in option}
                how["type"] = partial(TYPES[kind], **bounds)
            if isinstance(how.get("default"), list):
                how["default"] = [*how["default"]]  # argparse appends to it
            action = parser.add(name, option["value"], option["help"], **how)
            parser.inputs += [action] * (kind == "reads")


def _add_data_options(parser: Parser, n_main: int) -> None:
    """Add the options of data sets; the help shows the first ones in the group before."""
    how: dict[str, Any] = {"dest": "data_options", "action": "append"}
    parser.set_defaults(data_options=[])
    for number, option in enumerate(TABLE["data_options"]):
        if number == n_main:
            parser.group(
                "more options of the data set",
                "In an experiment file they are in a table [dataset], beside its name.",
                rare=True,
            )
        name = option["name"]
        pair = partial(lambda key, text: (key, text), name.replace("-", "_"))
        parser.add(f"--{name}", option["value"], option["help"], type=pair, **how)
    what = "any option of the data set, again for each: visterms=100 is --visterms 100"
    parser.add("--data-option", "NAME=VALUE", what, type=name_and_value, **how)


def _add_settings(parser: Parser, description: str, names: Sequence[str], of_a_file: bool) -> None:
    """Add an option for each of the settings of an experiment, which checks their values.

    Without a file of it their keys are not named, and all classes are the default.
    """
    own = vars(Experiment.from_toml("default")) if of_a_file else {}
    for title, is_rare in (("settings", False), ("more settings", True)):
        parser.group(title, "" if is_rare else description, rare=is_rare)
        for name in names:
            if (name not in TABLE["settings"]["main"]) != is_rare:
                continue
            setting = known_settings()[name]
            key = f"key {name}; " if setting.flag and of_a_file else ""
            default = setting.default_in_words if of_a_file or name != "classes" else "all"
            if (used := own.get(name, setting.default)) != setting.default:
                default = ",".join(used) if isinstance(used, tuple) else used
            how: dict[str, Any] = {"type": setting.read, "metavar": setting.metavar}
            if not setting.metavar:
                how = {"action": argparse.BooleanOptionalAction}
            flag = setting.flag or f"--{name.replace('_', '-')}"
            what = f"{setting.help} ({key}default {default})"
            action: Any = parser.add_argument(flag, dest=name, default=None, help=what, **how)
            first = re.split(r"[;:,] | \(see", setting.help)[0]
            action.brief = f"{first} (default {default})"


class Parser(argparse.ArgumentParser):
    """A parser that takes options in full only and raises UsageError for a wrong one.

    The error names the nearest option, verb or choice, and the help of the verb that was given.
    A path of `inputs` must exist; that is looked at last, when all words are known to be right.
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
        """Add a group of options; those added next belong to it."""
        group = self.add_argument_group(title, description)
        self.rare += [group] * rare
        self._optionals = group
        return group

    def add(self, name: str, metavar: str, what: str, **how: Any) -> argparse.Action:
        """Add an option, or an argument."""
        return self.add_argument(name, metavar=metavar, help=what, **how)

    def format_help(self, every: bool = False) -> str:
        """Write the help: examples first, then the groups of options, `every` one or not."""
        out = self._get_formatter()
        words = [str(one.metavar or one.dest) for one in self._get_positional_actions()]
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
            self.error(Text.unknown_name(name, str(value), action.choices))


class _Formatter(argparse.HelpFormatter):
    """It leaves examples as they are."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if text.startswith("examples:"):
            return text
        return super()._fill_text(text, width, indent)


class _Help(argparse.Action):
    """Print the help, or all of it, and end."""

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


def refuse_missing(path: Path) -> None:
    """Raise UsageError where there is nothing at this path."""
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        called = Text.printable(Text.cut(str(path), Text.LONGEST_PATH))
        raise UsageError(f"{called}: {reason}: give a path that exists") from error


def positive_of_text(text: str, least: int = 1, most: int = MOST) -> int:
    """Read a whole number within bounds."""
    value = Value.of_text(text, int) if text.isdecimal() else 0
    if not (isinstance(value, int) and least <= value <= most):
        small = isinstance(value, int) and value < least
        needed = f"of at least {least}" if small else f"from {least} to {most}"
        raise argparse.ArgumentTypeError(f"{Text.shown(text)}: a whole number {needed} is needed")
    return value


def batch_of_text(text: str) -> int | None:
    """Read the size of a batch; 'exact' is None."""
    return None if text == "exact" else positive_of_text(text)


def names_of_text(text: str) -> list[str]:
    """Read different names between commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{Text.shown(text)}: each name once")
    if not names:
        raise argparse.ArgumentTypeError(
            f"{Text.shown(text)}: names separated by commas are needed"
        )
    return names


def each_of_text(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Make the type of an option that takes several values."""
    return lambda text: [kind(part) for part in names_of_text(text)]


def statuses_of_text(text: str) -> list[str]:
    """Read statuses of trials, with - or blanks in their names."""
    names = [name.replace(" ", "-") for name in names_of_text(text)]  # as reports spell them, too
    for name in names:
        if name not in RETRIED:
            raise argparse.ArgumentTypeError(Text.unknown_name("status", name, RETRIED))
    return [name.replace("-", " ") for name in names]


def name_and_value(text: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{Text.shown(text)}: NAME=VALUE is needed")
    return name, value


TYPES: dict[str, Callable[..., Any]] = {
    "reads": path_of_text,  # of what must exist
    "writes": path_of_text,
    "count": positive_of_text,
    "counts": lambda text, **bounds: each_of_text(partial(positive_of_text, **bounds))(text),
    "batches": each_of_text(batch_of_text),
    "float": float,
    "names": names_of_text,
    "one": lambda text: [text],
    "statuses": statuses_of_text,
}
"""How the value of an option is read, by its `type` in the table."""
