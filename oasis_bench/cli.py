"""The command line: verbs and options, parsed, called and printed; nothing else prints."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from tqdm import tqdm

from oasis_bench import __version__
from oasis_bench.description import describe
from oasis_bench.errors import UsageError
from oasis_bench.experiment import Experiment, LearnerSpec, built_in_experiments
from oasis_bench.preparation import NORMALISATIONS
from oasis_bench.registry import BrokenPluginError, Catalogue, load_registry
from oasis_bench.run import open_dataset, run_experiment
from oasis_bench.store import read_run

TRIAL_FAILED = 1
USAGE = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        0; 1 where a trial failed; 2 for a mistake of the user's; 130 after Ctrl-C.
    """
    for name in ("SIGTERM", "SIGHUP"):  # as `timeout` and batch systems end a run
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _end)
    try:
        options = _parser().parse_args(arguments)
        status: int = options.verb(options)
        sys.stdout.flush()
    except UsageError as error:
        print(f"oasis-bench: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        print("oasis-bench: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return status


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, told as all other mistakes are."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}: see '{self.prog} --help'")


def _parser() -> argparse.ArgumentParser:
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
    report = verbs.add_parser("report", help="remake the report of a run", allow_abbrev=False)
    report.add_argument("run", type=Path, metavar="RUN", help="the output folder of the run")
    report.set_defaults(verb=_report)
    return parser


def _add_run(verbs: Any) -> None:
    run = verbs.add_parser(
        "run",
        help="run an experiment and write its report",
        description="Run an experiment: every learner on every class subset and partition. "
        "Options override the experiment file.",
        allow_abbrev=False,
    )
    run.set_defaults(verb=_run)
    run.add_argument(
        "--experiment",
        default="default",
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
    ):
        run.add_argument(f"--{flag}", type=_count, metavar="N", help=what)
    run.add_argument(
        "--train", dest="train_per_class", type=_count, metavar="N", help="training images a class"
    )
    run.add_argument(
        "--test", dest="test_per_class", type=_count, metavar="N", help="test images a class"
    )
    run.add_argument(
        "--normalize",
        choices=NORMALISATIONS,
        help="divide each row by its length; or leave it; or weight counts by idf first "
        "(default: as the data set says)",
    )
    run.add_argument(
        "--traces",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="replay mAP along the steps after each fit",
    )
    run.add_argument(
        "--jobs",
        type=_count,
        default=1,
        metavar="N",
        help="trials at a time (default 1: timings are clean; above 1 they are marked)",
    )
    run.add_argument(
        "--output", type=Path, metavar="DIR", help="a new folder (default: runs/DATASET-TIME)"
    )
    _add_plugin(run)


def _add_list(verbs: Any) -> None:
    what = ("algorithms", "datasets", "experiments")
    list_ = verbs.add_parser(
        "list", help="list algorithms, data sets and experiments", allow_abbrev=False
    )
    list_.add_argument("what", nargs="?", choices=what, help="only these (default: all)")
    _add_plugin(list_)
    list_.set_defaults(verb=_list)


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
        parser.set_defaults(verb=_data_list if action == "list" else _data_load, action=action)


def _add_visterms(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--visterms",
        dest="n_visterms",
        type=_count,
        metavar="N",
        help="visual words of a data set of pictures (default: its own, 1000)",
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


def _run(options: argparse.Namespace) -> int:
    experiment = _experiment(options)
    stem = Path(experiment.dataset).stem
    output = options.output or Path("runs") / f"{stem}-{datetime.now():%Y%m%d-%H%M%S}"
    with _Display() as display:
        try:
            failures = run_experiment(
                experiment,
                output,
                jobs=options.jobs,
                plugin_files=options.plugin,
                on_trial=display.trial,
                on_download=display.download,
                command=shlex.join(["python", "-m", "oasis_bench", *sys.argv[1:]]),
            )
        except KeyboardInterrupt:
            display.close()
            if display.done:
                print(
                    f"oasis-bench: interrupted after {display.done} of {display.planned} trials; "
                    f"they are kept: 'python -m oasis_bench report {output}' makes their report",
                    file=sys.stderr,
                )
                return INTERRUPTED
            raise  # nothing was kept
    _report_on(output)
    return TRIAL_FAILED if failures else 0


def _experiment(options: argparse.Namespace) -> Experiment:
    """Read the experiment and put the options of the command line over it."""
    experiment = Experiment.from_toml(options.experiment)
    changes = {
        name: value
        for name in Experiment.__dataclass_fields__
        if (value := getattr(options, name, None)) is not None
    }
    if options.algorithms is not None:
        known = experiment.learners
        changes["learners"] = {
            name: known.get(name, LearnerSpec(name)) for name in options.algorithms
        }
    if changes.get("dataset", experiment.dataset) != experiment.dataset:
        changes["title"] = Path(changes["dataset"]).name
        changes.setdefault("classes", ("all",))  # those of the file are for its own data set
    return replace(experiment, **changes)


def _report(options: argparse.Namespace) -> int:
    _report_on(options.run)
    return 0


def _report_on(folder: Path) -> None:
    from oasis_bench.reports import summary_text, write_report  # plotting takes a second to import

    page = write_report(folder)
    print(summary_text(read_run(folder)))
    print(f"report: {page}")


def _list(options: argparse.Namespace) -> int:
    registry = load_registry(options.plugin)
    tables: dict[str, Callable[[], list[tuple[str, str]]]] = {
        "algorithms": lambda: _plugin_lines(registry.algorithms),
        "datasets": lambda: _plugin_lines(registry.datasets),
        "experiments": lambda: [
            (name, Experiment.from_toml(name).title) for name in built_in_experiments()
        ],
    }
    for what, lines in tables.items():
        if options.what in (None, what):
            print(f"{what}:")
            rows = lines()
            width = max((len(name) for name, _ in rows), default=0)
            for name, text in rows:
                print(f"  {name:<{width}}  {text}")
    return 0


def _data_list(options: argparse.Namespace) -> int:
    for entry in load_registry(options.plugin).datasets:
        try:
            dataset = entry.load()
        except BrokenPluginError as error:
            print(f"{entry.name}: BROKEN: {error}")
            continue
        print(f"{entry.name}: {dataset.summary}\n    {dataset.home}")
    return 0


def _data_load(options: argparse.Namespace) -> int:
    registry = load_registry(options.plugin)
    dataset = open_dataset(options.dataset, registry, options.label, options.n_visterms)
    with _Display() as display:
        rows = dataset.load(display.download)
    facts = describe(dataset, rows) if options.action == "describe" else {"prepared": dataset.name}
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {value}")
    return 0


def _plugin_lines(catalogue: Catalogue[Any]) -> list[tuple[str, str]]:
    lines = []
    for entry in catalogue:
        try:
            lines.append((entry.name, entry.load().summary))
        except BrokenPluginError as error:
            lines.append((entry.name, f"BROKEN: {error}"))
    return lines


class _Display:
    """Progress: a live bar on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.done = self.planned = 0
        self._live = sys.stderr.isatty()
        self._bar: Any = None
        self._downloading: str | None = None

    def __enter__(self) -> _Display:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def trial(self, columns: dict[str, Any], done: int, planned: int) -> None:
        """Show that a trial has ended, or that the first begins."""
        self.done, self.planned = done, planned
        if done == 0:
            self._open(desc="trials", total=planned, unit="trial")
            return
        name = (
            f"{columns['learner']}, classes {columns['subset']}, partition {columns['partition']}"
        )
        problem = "" if columns["status"] == "ok" else f": {columns['status']}, {columns['reason']}"
        if self._live:
            if problem:
                tqdm.write(name + problem, file=sys.stderr)
            self._bar.set_postfix_str(name, refresh=False)
            self._bar.update()
        else:
            figures = problem or (
                f": mAP {columns['mean_average_precision']:.3f}, fit {columns['fit_seconds']:.3g} s"
            )
            print(f"[{done}/{planned}] {name}{figures}", file=sys.stderr)

    def download(self, what: str, done: int, total: int | None) -> None:
        """Show how far a download is."""
        if what != self._downloading:
            self._downloading = what
            self._open(desc=what, total=total, unit="", unit_scale=True)
            if not self._live:
                print(what, file=sys.stderr)
        if self._live:
            self._bar.update(done - self._bar.n)

    def _open(self, **bar: Any) -> None:
        self.close()
        if self._live:
            self._bar = tqdm(**bar, file=sys.stderr, dynamic_ncols=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()
            self._bar = None


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r}: each name once")
    if not names:
        raise argparse.ArgumentTypeError(f"{text!r}: names separated by commas are needed")
    return names


def _subsets(text: str) -> tuple[int | str | tuple[str, ...], ...]:
    return tuple(
        int(part) if part.isdecimal() else tuple(part.split("+")) if "+" in part else part
        for part in _names(text)
    )


def _count(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: a whole number is needed") from None
