"""The words of the command line: its verbs and options, with their help; not what they do."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from oasis_bench import __version__
from oasis_bench.system.errors import UsageError, unknown_name

RETRIED = ("failed", "crashed", "timeout", "out-of-memory", "not-applicable")


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, told as all other mistakes are."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}: see '{self.prog} --help'")


def make_parser() -> argparse.ArgumentParser:
    """Make the parser; the parsed options name their `verb`, and 'data list' is one."""
    parser = _Parser(
        prog="python -m oasis_bench",
        description="Compare metric learners: how well they rank, and how long they take.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"oasis-bench {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _add_run(verbs)
    _add_list(verbs)
    _add_data(verbs)
    _add_web_scale(verbs)
    _add_compare(verbs)
    _add_merge(verbs)
    _add_export(verbs)
    report = verbs.add_parser("report", help="remake the report of a run", allow_abbrev=False)
    report.add_argument("run", type=Path, metavar="RUN", help="the output folder of the run")
    report.set_defaults(verb="report")
    _add_ranks(verbs)
    return parser


def _add_run(verbs: Any) -> None:
    run = verbs.add_parser(
        "run",
        help="run an experiment and write its report",
        description="Run an experiment: every learner on every class subset and partition. "
        "Options override the experiment file.",
        allow_abbrev=False,
    )
    run.set_defaults(verb="run")
    run.add_argument(
        "--experiment",
        metavar="NAME|FILE",
        help="a built-in experiment or a TOML file (default: default, scanned digits)",
    )
    run.add_argument(
        "--algorithms", type=_names, metavar="A,B", help="learners of the experiment or by name"
    )
    run.add_argument(
        "--dataset", metavar="NAME|PATH", help="a data set, your own file, or a folder of pictures"
    )
    run.add_argument("--label", metavar="COLUMN", help="the label column of your own file")
    _add_visterms(run)
    run.add_argument(
        "--classes",
        type=_subsets,
        metavar="N,NAME",
        help="class subsets: numbers of classes, names of subsets, names joined by +, or all",
    )
    for flag, what in (
        ("partitions", "random train/test draws of each subset"),
        ("inner-folds", "folds that choose the hyper-parameters"),
        ("max-steps", "end of the search for the number of steps"),
        ("seed", "decides all that is random"),
        ("threads", "threads of a fit"),
        ("examples", "test pictures whose neighbours the report shows (default 8)"),
    ):
        run.add_argument(f"--{flag}", type=_count, metavar="N", help=what)
    run.add_argument(
        "--train", dest="train_per_class", type=_count, metavar="N", help="training images a class"
    )
    run.add_argument(
        "--test", dest="test_per_class", type=_count, metavar="N", help="test images a class"
    )
    run.add_argument(
        "--test-share",
        type=_share,
        metavar="P",
        help="share of the images that test, where images have several labels (default 0.1)",
    )
    run.add_argument(
        "--normalize",
        metavar="KIND",
        help="l2: divide each row by its length; none: leave it; tfidf: weight counts by idf first "
        "(default: as the data set says)",
    )
    run.add_argument(
        "--traces",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="replay mAP and the symmetry of W along the steps after each fit",
    )
    run.add_argument(
        "--budget",
        metavar="TIME",
        help="the longest that a fit may take, such as 90s, 10m, 2h or off; a trial that takes "
        "longer is a row 'timeout' (default 1h)",
    )
    run.add_argument(
        "--memory",
        metavar="SIZE",
        help="the most memory that a trial may take, such as 500MiB, 4GiB or off (default off)",
    )
    run.add_argument(
        "--jobs",
        type=_count,
        default=1,
        metavar="N",
        help="trials at a time (default 1: timings are clean; above 1 they are marked)",
    )
    run.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="run the trials on the workers of a Dask cluster, by the address of its scheduler",
    )
    run.add_argument(
        "--output", type=Path, metavar="DIR", help="a new folder (default: runs/DATASET-TIME)"
    )
    run.add_argument(
        "--resume",
        type=Path,
        metavar="RUN",
        help="go on with a run that was cut short, by its output folder: with its settings, and "
        "without the trials that it has",
    )
    run.add_argument(
        "--retry",
        type=_statuses,
        default=[],
        metavar="STATUS,STATUS",
        help=f"with --resume: run trials of these statuses again ({', '.join(RETRIED)})",
    )
    _add_plugin(run)


def _add_list(verbs: Any) -> None:
    what = ("algorithms", "datasets", "experiments")
    list_ = verbs.add_parser(
        "list", help="list algorithms, data sets and experiments", allow_abbrev=False
    )
    list_.add_argument("what", nargs="?", choices=what, help="only these (default: all)")
    _add_plugin(list_)
    list_.set_defaults(verb="list")


def _add_data(verbs: Any) -> None:
    data = verbs.add_parser("data", help="describe and prepare data sets", allow_abbrev=False)
    actions = data.add_subparsers(required=True, metavar="ACTION")
    for action, what in (
        ("list", "list the data sets, and how to get each"),
        ("describe", "say what a data set holds, preparing it first where it is not yet"),
        ("prepare", "download and make the features of a data set now"),
    ):
        parser = actions.add_parser(action, help=what, description=what, allow_abbrev=False)
        if action != "list":
            parser.add_argument("dataset", metavar="NAME|PATH", help="a name, a file or a folder")
            parser.add_argument("--label", metavar="COLUMN", help="the label column of a file")
            _add_visterms(parser)
        _add_plugin(parser)
        parser.set_defaults(verb=f"data {action}")


def _add_web_scale(verbs: Any) -> None:
    parser = verbs.add_parser(
        "web-scale",
        help="train OASIS on millions of generated web images and write a report",
        description="The web-scale experiment of the papers (JMLR 2010, section 5.2) on generated "
        "images: train OASIS, rank all test images, write a report. The same command goes on "
        "where it was stopped. All of it takes 4 GB of disk, 4 GB of memory and, on two cores, "
        "under an hour: try --images 10000 first.",
        allow_abbrev=False,
    )
    parser.set_defaults(verb="web-scale")
    for flag, default, what in (
        ("test-images", 402_164, "test images, which are ranked"),
        ("visterms", 10_000, "visual words: the number of features"),
        ("steps-per-image", 70, "steps for each training image"),
        ("seeds", 1, "trainings of each kind, with triplets of their own"),
        ("queries", 1000, "test images that are queries"),
        ("threads", None, "threads that learn and rank; all cores if not given"),
    ):
        told = f"{what} (default {default})" if default else what
        parser.add_argument(f"--{flag}", type=_positive, default=default, metavar="N", help=told)
    parser.add_argument(
        "--images",
        type=_each(_positive),
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
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("runs") / "web-scale",
        metavar="DIR",
        help="results and the last model of each training (default: runs/web-scale)",
    )


def _add_ranks(verbs: Any) -> None:
    ranks = verbs.add_parser(
        "ranks",
        help="rank learners over the data sets of several runs",
        description="Average ranks over data sets, by mAP, with Friedman's test and Nemenyi's "
        "critical difference: of the learners that all the runs have by the same label.",
        allow_abbrev=False,
    )
    ranks.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="output folders, each of its data set"
    )
    ranks.add_argument(
        "--output",
        type=Path,
        default=Path("runs") / "ranks",
        metavar="DIR",
        help="where table, figure and page are written (default: runs/ranks)",
    )
    ranks.set_defaults(verb="ranks")


def _add_compare(verbs: Any) -> None:
    parser = verbs.add_parser(
        "compare",
        help="say what got better or worse from one run to another",
        description="Compare the trials that two runs have in common. The exit status is 1 where "
        "something got worse beyond noise, 0 where not, and 3 where nothing could be judged.",
        allow_abbrev=False,
    )
    parser.set_defaults(verb="compare")
    for name, what in (("old", "before"), ("new", "after")):
        parser.add_argument(
            name, type=Path, metavar=name.upper(), help=f"the output folder of the run {what}"
        )
    parser.add_argument(
        "--tolerance",
        type=_tolerance,
        default=0.1,
        metavar="P",
        help="share by which seconds and peak memory may grow (default 0.1)",
    )


def _add_merge(verbs: Any) -> None:
    parser = verbs.add_parser(
        "merge", help="make one run of several, and its report", allow_abbrev=False
    )
    parser.set_defaults(verb="merge")
    parser.add_argument(
        "runs", type=Path, nargs="+", metavar="RUN", help="output folders of runs on the same data"
    )
    parser.add_argument("--into", type=Path, required=True, metavar="DIR", help="a new folder")


def _add_export(verbs: Any) -> None:
    parser = verbs.add_parser(
        "export", help="write the numbers of a run for other programs", allow_abbrev=False
    )
    parser.set_defaults(verb="export")
    parser.add_argument("run", type=Path, metavar="RUN", help="the output folder of the run")
    parser.add_argument(
        "--format",
        required=True,
        choices=("csv", "parquet", "latex"),
        help="csv and parquet: every table of the store; latex: the tables of the report",
    )
    parser.add_argument(
        "--output", type=Path, metavar="DIR", help="where to write them (default: RUN/export)"
    )


def _each(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Make the type of an option that takes several values."""
    return lambda text: [kind(part) for part in _names(text)]


def _batch(text: str) -> int | None:
    return None if text == "exact" else _positive(text)


def _positive(text: str) -> int:
    if (count := _count(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: at least 1 is needed")
    return count


def _add_visterms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--visterms",
        
        type=_count,
        metavar="N",
        help="visual words of a data set of pictures (default: its own, 1000)",
    )
    parser.add_argument(
        "--block",
        type=_count,
        metavar="PIXELS",
        help="side of the blocks of a data set of pictures (default: its own, mostly 64)",
    )


def _add_plugin(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plugin",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a Python file that defines learners or data sets (may be repeated)",
    )


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: each name once")
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r}: names separated by commas are needed")
    return names


def _statuses(text: str) -> list[str]:
    for name in (names := _names(text)):
        if name not in RETRIED:
            raise argparse.ArgumentTypeError(unknown_name("status", name, RETRIED))
    return [name.replace("-", " ") for name in names]


def _subsets(text: str) -> tuple[int | str | tuple[str, ...], ...]:
    return tuple(
        int(part) if part.isdecimal() else tuple(part.split("+")) if "+" in part else part
        for part in _names(text)
    )


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: a number is needed") from None


def _tolerance(text: str) -> float:
    if not 0 <= (share := _share(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: a share of at least 0 is needed, such as 0.1")
    return share


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number is needed") from None
