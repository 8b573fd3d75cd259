"""The command line: what each verb does and prints; nothing else prints.  Not its options."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, NoReturn, TextIO

from tqdm import tqdm

from oasis_bench.description import facts_of, facts_of_rows
from oasis_bench.errors import UsageError
from oasis_bench.experiment import Experiment, LearnerSpec, built_in_experiments
from oasis_bench.learner import BilinearLearner, MahalanobisLearner, MetricLearner
from oasis_bench.options import make_parser
from oasis_bench.provenance import available_cores
from oasis_bench.registry import BrokenPluginError, Catalogue, load_registry
from oasis_bench.run import OF_PATHS, open_dataset, run_experiment
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
        options = make_parser().parse_args(arguments)
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status: int = VERBS[options.verb](options)
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


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"oasis-bench: {message}", file=sys.stderr)


def _end(number: int, frame: object) -> NoReturn:
    raise SystemExit(128 + number)


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
    tables: dict[str, Callable[[], list[str]]] = {
        "algorithms": lambda: _learner_lines(registry.algorithms),
        "datasets": lambda: _aligned(_plugin_rows(registry.datasets)),
        "experiments": lambda: _aligned(
            [(name, Experiment.from_toml(name).title) for name in built_in_experiments()]
        ),
    }
    for what, lines in tables.items():
        if options.what in (None, what):
            print(f"{what}:")
            for line in lines():
                print(f"  {line}")
    return 0


def _data_list(options: argparse.Namespace) -> int:
    for entry in load_registry(options.plugin).datasets:
        try:
            dataset = entry.load()
        except BrokenPluginError as error:
            print(f"{entry.name}: BROKEN: {error}")
            continue
        where = "of yours" if entry.name in OF_PATHS else dataset().location() or "not here yet"
        print(f"{entry.name}: {dataset.summary}\n    here: {where}\n    {dataset.home}")
    return 0


def _data_load(options: argparse.Namespace) -> int:
    registry = load_registry(options.plugin)
    dataset = open_dataset(
        options.dataset, registry, options.label, options.n_visterms, options.block
    )
    if options.verb == "data describe":
        _print_facts(facts_of(dataset))
        if dataset.location() is None:
            print(f"its rows: not here yet: 'data prepare {options.dataset}' gets them")
            return 0
    with _Display() as display:
        rows = dataset.load(display.download)
    _print_facts(facts_of_rows(dataset, rows))
    return 0


def _web_scale(options: argparse.Namespace) -> int:
    from oasis_bench.reports.web_scale import write_web_scale_report
    from oasis_bench.web_scale import Checkpoint, Training, open_data, train, trainings

    n_threads = options.threads or available_cores()
    planned = trainings(options.images, options.batch, options.seeds, options.steps_per_image)

    def tell(training: Training, point: Checkpoint) -> None:
        display.line(
            f"{training.name}: {point.n_steps:,} steps, {point.learn_seconds:,.0f} s, "
            f"mAP {point.mean_average_precision:.4f} ± {point.standard_error:.4f}"
        )

    with _Display() as display:
        data = open_data(
            max(options.images), options.test_images, options.visterms, display.download
        )
        try:
            for training in planned:
                train(
                    *(data, training, options.output, n_threads, options.queries),
                    progress=display.bar,
                    on_checkpoint=tell,
                )
        except KeyboardInterrupt:
            display.close()
            print(
                "oasis-bench: interrupted: the same command goes on from the last checkpoint",
                file=sys.stderr,
            )
            return INTERRUPTED
    print(f"report: {write_web_scale_report(options.output)}")
    return 0


def _print_facts(facts: dict[str, str]) -> None:
    for name, value in facts.items():
        print(f"{name:<15}  {value}", flush=True)


def _plugin_rows(catalogue: Catalogue[Any]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for entry in catalogue:
        try:
            rows.append((entry.name, entry.load().summary))
        except BrokenPluginError as error:
            rows.append((entry.name, f"BROKEN: {error}"))
    return rows


def _learner_lines(catalogue: Catalogue[MetricLearner]) -> list[str]:
    """Three lines a learner: its columns, what it is, and the paper."""
    rows: list[tuple[str, ...]] = [
        ("name", "form", "rows", "cost of a fit (n rows, d features, c classes)")
    ]
    notes: list[list[str]] = [[]]
    for entry in catalogue:
        try:
            it = entry.load()
        except BrokenPluginError as error:
            rows.append((entry.name, f"BROKEN: {error}"))
            notes.append([])
        else:
            rows.append((entry.name, _form(it), "sparse" if it.takes_sparse else "dense", it.cost))
            notes.append([f"    {it.summary}", f"    paper: {it.citation}"])
    return [line for row, more in zip(_aligned(rows), notes, strict=True) for line in (row, *more)]


def _form(learner: type[MetricLearner]) -> str:
    if issubclass(learner, BilinearLearner):
        return "bilinear"
    return "Mahalanobis" if issubclass(learner, MahalanobisLearner) else "other"


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Pad each cell to the width of its column, but for the last of a row."""
    columns = zip_longest(*(row[:-1] for row in rows), fillvalue="")
    widths = [max(len(cell) for cell in column) for column in columns]
    return [
        "  ".join([*(f"{cell:<{widths[i]}}" for i, cell in enumerate(row[:-1])), row[-1]])
        for row in rows
    ]


VERBS: dict[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "report": _report,
    "list": _list,
    "data list": _data_list,
    "data describe": _data_load,
    "data prepare": _data_load,
    "web-scale": _web_scale,
}


class _Display:
    """Progress: a live bar on a terminal, plain lines elsewhere."""

    def __init__(self) -> None:
        self.done = self.planned = 0
        self._live = sys.stderr.isatty()
        self._bar: Any = None
        self._under_way: str | None = None

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
                self.line(name + problem)
            self._bar.set_postfix_str(name, refresh=False)
            self._bar.update()
        else:
            figures = problem or (
                f": mAP {columns['mean_average_precision']:.3f}, fit {columns['fit_seconds']:.3g} s"
            )
            print(f"[{done}/{planned}] {name}{figures}", file=sys.stderr)

    def download(self, what: str, done: int, total: int | None) -> None:
        """Show how far a download is."""
        if what != self._under_way and not self._live:
            print(what, file=sys.stderr)
        self.bar(what, done, total)

    def bar(self, what: str, done: int, total: int | None) -> None:
        """Show how far something is, on a terminal alone."""
        if what != self._under_way:
            self._under_way = what
            self._open(desc=what, total=total, unit="", unit_scale=True)
        if self._live:
            self._bar.update(done - self._bar.n)

    def line(self, text: str) -> None:
        """Show a line above the bar."""
        if self._live:
            tqdm.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr)

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
