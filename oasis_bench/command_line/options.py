"""The words of the command line: its verbs and options, with their help; not what they do."""

from __future__ import annotations

import argparse
import difflib
import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from oasis_bench import __version__
from oasis_bench.experiment.settings import settings
from oasis_bench.system.errors import UsageError, unknown_name
from oasis_bench.system.plain_text import shown
from oasis_bench.system.values import value_of_text

DATA_OPTIONS = (
    ("label", "COLUMN", "the label column of your own file (default: label, class, target or y)"),
    (
        "fold-column",
        "COLUMN",
        "the column of your own file that says in which fold each row tests: these are the "
        "partitions then (default: none, partitions are drawn)",
    ),
    ("drop", "A,B", "columns of your own file to leave out (default: none)"),
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

JUDGED_SETTINGS = (
    *("tasks", "classes", "partitions", "train_per_class", "test_per_class", "test_share", "seed"),
    *("scaling", "threads", "examples", "queries", "budget", "memory"),
)
"""The settings of an experiment that also decide how a saved model is judged."""

FILE_KEYS = (
    "title: of the report (needed). "
    "dataset: a name or a path, or a table [dataset] with its name and options (needed; a list as "
    "the value of one option makes a run for each). "
    "each: a table [each] with a setting and a list of its values, which makes a run for each "
    "(default: one run). "
    "learners: a table [learners.LABEL] for each (at least one). In it, algorithm: a name of 'list "
    "algorithms' (default LABEL); budget and memory: its own limits (default those of the run); "
    "and its hyper-parameters: a value is fixed, a list is searched on the inner folds (default "
    "its search space, and what the algorithm says of the others)."
)
"""What an experiment file says and no option does."""

MOST = 10**9
"""No number of the command line is larger, where nothing else is said."""

LEAST_IMAGES = 10
"""Of fewer web images none may be relevant to another."""

RETRIED = ("failed", "crashed", "timeout", "out-of-memory", "not-applicable")


class _Parser(argparse.ArgumentParser):
    """A parser that takes options in full only and raises UsageError for a wrong one.

    The error names the nearest option, verb or choice, and the help of the verb that was given.
    """

    def __init__(self, **how: Any) -> None:
        super().__init__(**how, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
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
        return found, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            name = (action.option_strings or [str(action.metavar or "argument").lower()])[-1]
            self.error(unknown_name(name, str(value), action.choices))


def make_parser() -> argparse.ArgumentParser:
    """Make the parser; parsed options have the attribute `verb`, such as 'run' or 'data list'."""
    parser = _Parser(
        prog="python -m oasis_bench",
        description="Compare metric learners: how well they rank, and how long they take.",
    )
    parser.add_argument("--version", action="version", version=f"oasis-bench {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _add_run(verbs)
    _add_evaluate(verbs)
    _add_list(verbs)
    _add_check(verbs)
    _add_data(verbs)
    _add_paper(verbs)
    _add_web_scale(verbs)
    _add_compare(verbs)
    _add_merge(verbs)
    _add_export(verbs)
    report = _add_verb(verbs, "report", "remake the report of a run")
    _add_path(report, "run", "RUN", "the output folder of the run")
    report.add_argument(
        "--baseline",
        metavar="LEARNER",
        help="the learner that tables and box plots of differences are relative to (default: the "
        "best in tables; in box plots Euclidean, where it is there, or the first)",
    )
    _add_judge(verbs)
    _add_ranks(verbs)
    return parser


def _add_verb(verbs: Any, name: str, what: str, more: str = "") -> _Parser:
    """Add a verb that does `what`; its own help says `more`."""
    parser: _Parser = verbs.add_parser(name, help=what, description=more or what)
    parser.set_defaults(verb=name)
    return parser


def _add_path(parser: _Parser, name: str, metavar: str, what: str, **more: Any) -> None:
    parser.add_argument(name, type=_path, metavar=metavar, help=what, **more)


def _add_run(verbs: Any) -> None:
    run = _add_verb(
        verbs,
        "run",
        "run an experiment and write its report",
        "Run an experiment: every learner on every class subset and partition. "
        "Options override the experiment file.",
    )
    run.add_argument(
        "--experiment",
        metavar="NAME|FILE",
        help="a built-in experiment of 'list experiments', or a TOML file (default: default, "
        "scanned digits)",
    )
    run.add_argument(
        "--algorithms",
        type=_names,
        metavar="A,B",
        help="learners of the experiment or by name; in a file, tables [learners.NAME] "
        "(default: all of the experiment)",
    )
    run.add_argument(
        "--dataset",
        metavar="NAME|PATH",
        help="a data set, your own file, or a folder of pictures (default: the experiment's)",
    )
    run.add_argument(
        "--quick",
        action="store_true",
        help="a first answer in some seconds: one class subset, 2 partitions, 2 inner folds, a "
        "search of 4 candidates, 64000 steps and no traces, where these are not given (default: "
        "no)",
    )
    _add_settings(
        run,
        "Each is a key of an experiment file too: its name with _ in place of -, or the key in "
        "brackets. A default holds where the file does not have the key.",
        tuple(settings()),
    )
    _add_data_options(run)
    _add_place(run)
    _add_path(run, "--output", "DIR", "a new folder (default: runs/DATASET-TIME)")
    run.add_argument(
        "--resume",
        type=_path,
        metavar="RUN",
        help="go on with a run that was cut short, by its output folder: with its settings, and "
        "without the trials that it has; its plugin files are to be named again with --plugin "
        "(default: a new run)",
    )
    run.add_argument(
        "--retry",
        type=_statuses,
        default=[],
        metavar="STATUS,STATUS",
        help=f"with --resume: run trials of these statuses again ({', '.join(RETRIED)}; "
        "default: none)",
    )
    for flag, what in (
        ("save-models", "each fitted learner as RUN/models/LEARNER_SUBSET_PARTITION.npz"),
        ("predictions", "all scores, in RUN/predictions, so that 'evaluate RUN' needs no new fit"),
    ):
        run.add_argument(f"--{flag}", action="store_true", help=f"keep {what} (default: no)")
    _add_plugin(run)
    run.add_argument_group("keys of an experiment file alone", FILE_KEYS)


def _add_evaluate(verbs: Any) -> None:
    parser = _add_verb(
        verbs,
        "evaluate",
        "judge a saved model on other data, or the kept scores of a run by other tasks",
        "Judge without a new fit. A model (of 'run --save-models' or save_model) is judged on "
        "--dataset: a run like any other, but that the model is read where others are fitted. Of a "
        "run with --predictions, --tasks judge the scores that it kept; their measures join the "
        "run's others.",
    )
    _add_path(parser, "judged", "MODEL|RUN", "a model file, or the output folder of a run")
    parser.add_argument("--dataset", metavar="NAME|PATH", help="the data to judge a model on")
    _add_settings(
        parser,
        "--tasks is for a run as well, the others for a model. Rows are scaled as --scaling or "
        "the data set says; what scaling learns, such as the weights of tfidf, it learns from the "
        "training part of the data that the model is judged on.",
        JUDGED_SETTINGS,
        of_a_file=False,
    )
    _add_data_options(parser)
    _add_place(parser)
    what = "a new folder, for a model (default: runs/DATASET-TIME)"
    _add_path(parser, "--output", "DIR", what)
    _add_plugin(parser)


def _add_place(parser: _Parser) -> None:
    """Add where trials run."""
    parser.add_argument(
        "--jobs",
        type=partial(_positive, most=1024),
        default=1,
        metavar="N",
        help="trials at a time (default 1: timings are clean; above 1 they are marked)",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="run the trials on the workers of a Dask cluster, by the address of its scheduler "
        "(default: on this machine)",
    )


def _add_settings(
    parser: _Parser, description: str, names: Sequence[str], *, of_a_file: bool = True
) -> None:
    """Add an option for each of the settings of an experiment, which checks their values.

    Without a file of it their keys are not told, and all classes are the default.
    """
    group = parser.add_argument_group("settings of the experiment", description)
    for name in names:
        setting = settings()[name]
        key = f"key {name}; " if setting.flag and of_a_file else ""
        default = setting.default_in_words if of_a_file or name != "classes" else "all"
        how: dict[str, Any] = {"type": setting.read, "metavar": setting.metavar}
        if not setting.metavar:
            how = {"action": argparse.BooleanOptionalAction}
        group.add_argument(
            setting.flag or f"--{name.replace('_', '-')}",
            dest=name,
            default=None,
            help=f"{setting.help} ({key}default {default})",
            **how,
        )


def _add_data_options(parser: argparse.ArgumentParser) -> None:
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
        type=_name_and_value,
        metavar="NAME=VALUE",
        help="any option of the data set; --data-option visterms=100 is --visterms 100 (may be "
        "repeated; default: none)",
        **append,
    )


def _add_plugin(
    parser: _Parser,
    what: str = "a Python file that defines learners, data sets or tasks (may be repeated; "
    "default: none)",
) -> None:
    _add_path(parser, "--plugin", "FILE", what, action="append", default=[])


def _add_list(verbs: Any) -> None:
    what = ("algorithms", "datasets", "tasks", "experiments")
    parser = _add_verb(verbs, "list", "list algorithms, data sets, tasks and experiments")
    parser.add_argument("what", nargs="?", choices=what, help="only these (default: all)")
    parser.add_argument(
        "--for",
        dest="dataset",
        metavar="NAME|PATH",
        help="try every algorithm on one small partition of this data set: which apply, what they "
        "cost there, and which to begin with (with 'list algorithms'; a minute or two)",
    )
    _add_data_options(parser)
    _add_plugin(parser)


def _add_check(verbs: Any) -> None:
    parser = _add_verb(
        verbs,
        "check",
        "test the learners of a plugin file",
        "Test that the learners of a plugin file do what every learner must: scikit-learn's own "
        "checks, the same score for a pair whatever else is asked, saving and loading, and more. "
        "The exit status is 1 where one fails.",
    )
    _add_path(parser, "file", "FILE", "a Python file that defines a learner")


def _add_data(verbs: Any) -> None:
    data = verbs.add_parser("data", help="describe and prepare data sets")
    actions = data.add_subparsers(required=True, metavar="ACTION")
    for action, what in (
        ("list", "list the data sets, and how to get each"),
        ("describe", "say what a data set holds, preparing it first where it is not yet"),
        ("prepare", "download and make the features of a data set now"),
    ):
        parser = _add_verb(actions, action, what)
        parser.set_defaults(verb=f"data {action}")
        if action != "list":
            parser.add_argument("dataset", metavar="NAME|PATH", help="a name, a file or a folder")
            _add_data_options(parser)
        _add_plugin(parser)


def _add_web_scale(verbs: Any) -> None:
    parser = _add_verb(
        verbs,
        "web-scale",
        "train OASIS on millions of generated web images and write a report",
        "The web-scale experiment of the papers (JMLR 2010, section 5.2) on generated images: "
        "train OASIS, rank all test images, write a report. The same command goes on where it was "
        "stopped. All of it takes 4 GB of disk, 4 GB of memory and, on two cores, under an hour: "
        "try --images 10000 first. What is written, where, and the chance level are said before "
        "the first training.",
    )
    for flag, default, least, most, what in (
        ("test-images", 402_164, LEAST_IMAGES, MOST, "test images, which are ranked"),
        ("visterms", 10_000, 1, MOST, "visual words: the number of features"),
        ("steps-per-image", 70, 1, 10**6, "steps for each training image"),
        ("seeds", 1, 1, 1000, "trainings of each kind, with triplets of their own"),
        ("queries", 1000, 1, MOST, "test images that are queries; all where there are fewer"),
        ("threads", None, 1, 1024, "threads that learn and rank"),
    ):
        parser.add_argument(
            f"--{flag}",
            type=partial(_positive, least=least, most=most),
            default=default,
            metavar="N",
            help=f"{what} (default {default or 'all cores'})",
        )
    parser.add_argument(
        "--images",
        type=_each(partial(_positive, least=LEAST_IMAGES)),
        default=[2_292_259],
        metavar="N,N",
        help="training images; several numbers show how time grows (default 2292259)",
    )
    parser.add_argument(
        "--batch",
        type=_each(_batch),
        default=[65_536],
        metavar="N,exact",
        help="triplets of a mini-batch, or exact for OASIS; several show what batches cost "
        "(default 65536)",
    )
    what = "results and the last model of each training (default: runs/web-scale)"
    _add_path(parser, "--output", "DIR", what, default=Path("runs") / "web-scale")


def _add_compare(verbs: Any) -> None:
    parser = _add_verb(
        verbs,
        "compare",
        "say what got better or worse from one run to another",
        "Compare the trials that two runs have in common. The exit status is 1 where something "
        "got worse beyond noise, 0 where not, and 3 where nothing could be judged.",
    )
    _add_path(parser, "old", "OLD", "the output folder of the run before")
    _add_path(parser, "new", "NEW", "the output folder of the run after")
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        default=0.1,
        metavar="P",
        help="share by which seconds and peak memory may grow (default 0.1)",
    )


def _add_merge(verbs: Any) -> None:
    parser = _add_verb(verbs, "merge", "make one run of several, and its report")
    _add_path(parser, "runs", "RUN", "output folders of runs on the same data", nargs="+")
    _add_path(parser, "--into", "DIR", "a new folder", required=True)


def _add_export(verbs: Any) -> None:
    parser = _add_verb(verbs, "export", "write the numbers of a run for other programs")
    _add_path(parser, "run", "RUN", "the output folder of the run")
    parser.add_argument(
        "--format",
        required=True,
        choices=("csv", "parquet", "latex", "summary", "trec"),
        help="csv and parquet: every table of the store; latex: the tables of the report; summary: "
        "one CSV of means, spreads, costs and their origin, named after RUN; trec: of a run with "
        "--predictions, a run file and a qrels file for each trial of retrieval or unseen-classes, "
        "so that trec_eval and its like can check the measures",
    )
    _add_path(parser, "--output", "DIR", "where to write them (default: RUN/export)")
    _add_plugin(parser, "for trec: a plugin file of the run (may be repeated; default: none)")


def _add_judge(verbs: Any) -> None:
    parser = _add_verb(
        verbs,
        "judge",
        "have people rate the pictures that a run retrieves",
        "Write a page on which people rate the pictures that the learners of a run retrieve for "
        "its example queries (JMLR 2010, 5.2.3).  It is one file to send around, names no learner, "
        "and saves each rater's marks as a file.  --collect takes those files; the report of the "
        "run then has precision by raters, beside that by labels and the raters' own.",
    )
    _add_path(parser, "run", "RUN", "the output folder of a run on pictures")
    for name, default, what in (
        ("queries", 25, "query pictures, of those that 'run --examples' keeps"),
        ("candidates", 20, "pictures to rate of each query, the first of all learners"),
    ):
        parser.add_argument(
            f"--{name}",
            type=_positive,
            metavar="N",
            help=f"at most so many {what} (default: {default})",
        )
    _add_path(parser, "--output", "FILE", "the page (default: RUN/judge.html)")
    _add_path(
        parser,
        "--collect",
        "FILE",
        "files that raters saved: add their marks to RUN/ratings.csv (default: write the page)",
        nargs="+",
    )


def _add_paper(verbs: Any) -> None:
    parser = _add_verb(
        verbs,
        "paper",
        "what the papers claimed, and what we found",
        "Run the experiments that decide the papers' claims, then write a page of the claims with "
        "their verdicts, and beside it claims.csv. The same command goes on where it stopped.",
    )
    parser.add_argument(
        "--experiments",
        type=_names,
        metavar="A,B",
        help="only these, each with its own report (default: all that decide a claim)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="2 partitions and short searches: whether it works, not what is true (default: no)",
    )
    parser.add_argument(
        "--second-look",
        action="store_true",
        help="afterwards run again, with other draws and as many partitions as are needed, 30 at "
        "most, what decides a claim that cannot be told (default: no)",
    )
    parser.add_argument(
        "--challenge",
        type=_names,
        default=[],
        metavar="A,B",
        help="afterwards try to break the verdicts: run the experiments again with other draws, "
        "scaling, features (of a network) or search (three times as wide) (default: none)",
    )
    what = "where runs and page are written (default: runs/paper, with --quick runs/paper-quick)"
    _add_path(parser, "--output", "DIR", what)
    parser.set_defaults(
        **dict.fromkeys(("cluster", "resume")),
        **dict.fromkeys(("save_models", "predictions"), False),
        plugin=[],
        jobs=1,
    )


def _add_ranks(verbs: Any) -> None:
    parser = _add_verb(
        verbs,
        "ranks",
        "compare learners over the data sets of several runs: a leaderboard",
        "Compare learners over data sets by a measure of a task: Elo with intervals, win rates, "
        "average ranks and error reductions, each with what it hides. Not every learner needs a "
        "result on every data set; of those that have them all, Friedman's test and Nemenyi's "
        "critical difference. A data set counts once, by its largest class subset; several runs of "
        "it share its weight.",
    )
    what = "output folders of runs, or the CSV files of 'export --format summary'"
    _add_path(parser, "runs", "RUN|FILE.csv", what, nargs="+")
    parser.add_argument("--task", help="a task of the runs (default: the first)")
    parser.add_argument(
        "--measure", help="of the task, such as mAP or accuracy@3 (default: its first)"
    )
    parser.add_argument(
        "--baseline",
        metavar="LEARNER",
        help="the learner whose error the others reduce (default: Euclidean, where it is there)",
    )
    parser.add_argument(
        "--kind",
        metavar="ITEMS",
        help="only data sets that call their items so: rows, images, documents (default: all)",
    )
    for end, which in (("min", "least"), ("max", "most")):
        parser.add_argument(
            f"--{end}-train",
            type=_positive,
            metavar="N",
            help=f"only results of at {which} so many training items (default: all)",
        )
    what = "where tables, figures and page are written (default: runs/ranks)"
    _add_path(parser, "--output", "DIR", what, default=Path("runs") / "ranks")


# Types of options: each reads a text or raises argparse.ArgumentTypeError.


def _path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("'': a path is needed, such as . for this folder")
    return Path(text)


def _positive(text: str, least: int = 1, most: int = MOST) -> int:
    value = value_of_text(text, int) if text.isdecimal() else 0
    if not (isinstance(value, int) and least <= value <= most):
        small = isinstance(value, int) and value < least
        needed = f"of at least {least}" if small else f"from {least} to {most}"
        raise argparse.ArgumentTypeError(f"{shown(text)}: a whole number {needed} is needed")
    return value


def _batch(text: str) -> int | None:
    return None if text == "exact" else _positive(text)


def _tolerance(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = math.nan
    if not 0 <= share < math.inf:
        raise argparse.ArgumentTypeError(
            f"{shown(text)}: a share of at least 0 is needed, such as 0.1"
        )
    return share


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{shown(text)}: each name once")
    if not names:
        raise argparse.ArgumentTypeError(f"{shown(text)}: names separated by commas are needed")
    return names


def _each(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Make the type of an option that takes several values."""
    return lambda text: [kind(part) for part in _names(text)]


def _statuses(text: str) -> list[str]:
    names = [name.replace(" ", "-") for name in _names(text)]  # as reports spell them, too
    for name in names:
        if name not in RETRIED:
            raise argparse.ArgumentTypeError(unknown_name("status", name, RETRIED))
    return [name.replace("-", " ") for name in names]


def _name_and_value(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise argparse.ArgumentTypeError(f"{shown(text)}: NAME=VALUE is needed")
    return name, value
