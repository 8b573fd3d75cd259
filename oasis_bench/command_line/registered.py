"""The verbs `list` and `data`: what is registered, and what a data set holds."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing

from oasis_bench.command_line.listing import (
    BROKEN,
    aligned,
    facts_of,
    facts_of_rows,
    learner_lines,
    plugin_rows,
    split_lines,
    task_lines,
)
from oasis_bench.command_line.progress import Display
from oasis_bench.command_line.trying import tried_lines
from oasis_bench.experiment import Experiment, built_in_experiments
from oasis_bench.plugins import (
    PATH_DATASETS,
    BrokenPluginError,
    load_registry,
    load_rows,
    needed_options,
    open_dataset,
    read_options,
)
from oasis_bench.system import UsageError


def list_all(options: argparse.Namespace) -> int:
    """Print what can be named in a run, or try every learner on a data set."""
    registry = load_registry(options.plugin)
    if options.dataset is not None:
        if options.what != "algorithms":
            raise UsageError("--for is for algorithms: 'list algorithms --for PATH'")
        data_options = read_options(options.dataset, registry, dict(options.data_options))
        with closing(Display()) as display:
            tried = tried_lines(options.dataset, data_options, registry, options.plugin, display)
        print("\n".join(tried))
        return 0
    tables: dict[str, Callable[[], list[str]]] = {
        "algorithms": lambda: learner_lines(registry.algorithms),
        "datasets": lambda: aligned(plugin_rows(registry.datasets)),
        "tasks": lambda: task_lines(registry.tasks, registry.splits),
        "splits": lambda: split_lines(registry.splits),
        "experiments": lambda: aligned(
            [(name, Experiment.from_toml(name).title) for name in built_in_experiments()]
        ),
    }
    shown = []
    for what, lines in tables.items():
        if options.what in (None, what):
            shown += [f"{what}:", *(f"  {line}" for line in lines())]
    print("\n".join(shown))
    return 0


def data_list(options: argparse.Namespace) -> int:
    """Print each data set, where it is and how to get it."""
    datasets = load_registry(options.plugin).datasets
    for name in datasets:
        try:
            dataset = datasets[name]
        except BrokenPluginError as error:
            print(f"{name}: {BROKEN}{error}")
            continue
        if name in PATH_DATASETS:
            here: str | None = "of yours"
        elif needed := needed_options(dataset):
            here = f"known with its options ({', '.join(needed)})"
        else:
            here = dataset().location()
        print(f"{name}: {dataset.summary}\n    here: {here or 'not yet'}\n    {dataset.home}")
    return 0


def data_load(options: argparse.Namespace) -> int:
    """Load a data set, downloading it where it is not here, and print what it holds."""
    registry = load_registry(options.plugin)
    data_options = read_options(options.dataset, registry, dict(options.data_options))
    dataset = open_dataset(options.dataset, registry, data_options)
    if options.verb == "data describe":
        lines = dataset.description() if dataset.location() is not None else []  # may raise
        _print_facts(facts_of(dataset))
        if dataset.location() is None:
            print(f"its rows: not here yet: 'data prepare {options.dataset}' gets them")
            return 0
        for line in lines:
            print(line)
    with closing(Display()) as display:
        rows = load_rows(dataset, display.download)
    _print_facts(facts_of_rows(dataset, rows))
    return 0


def _print_facts(facts: dict[str, str]) -> None:
    for name, value in facts.items():
        print(f"{name:<15}  {value}", flush=True)
