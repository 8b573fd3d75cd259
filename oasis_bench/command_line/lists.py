"""The verb `list`, quick: what it prints is remembered until an installation or a file changes."""

from __future__ import annotations

import argparse

from oasis_bench.command_line.options import LISTED
from oasis_bench.plugins import installed, remembered
from oasis_bench.system import UsageError

INPUTS = " (second column: what it takes; sparse: also dense rows; pixels+: with patches)"
COST_SYMBOLS = "\n  (costs: n rows, d features, k of them not 0 in a row, c classes)"
"""The symbols of costs, shown only in a list of the algorithms."""


def list_all(options: argparse.Namespace) -> int:
    """Print what a run can use, or details of one kind; with --for, recommend a learner."""
    if options.dataset is not None:
        from oasis_bench.command_line.run import recommend  # its imports take a second

        return recommend(options)
    if options.results is not None or options.data_options:
        raise UsageError("--results and options of data are for advice: name the data with --for")
    for kind in [options.what] if options.what else LISTED:
        more = (INPUTS + COST_SYMBOLS * bool(options.what)) * (kind == "algorithms")
        print("\n  ".join([f"{kind}{more}:", *_lines(kind, options)]))
    return 0


def _lines(kind: str, options: argparse.Namespace) -> list[str]:
    """Return the lines of a kind; those of other people's plugins, and of files, are made anew."""

    def make() -> list[str]:
        from oasis_bench.command_line.listing import lines_about  # its imports take a second

        return lines_about(kind, options.plugin, bool(options.what))

    is_place = kind == "datasets" and options.what  # it says which files are here
    if options.plugin or is_place or options.json or not _are_ours(kind):
        return make()
    return list(map(str, remembered(f"list-{kind}{'-details' * bool(options.what)}", make)))


def _are_ours(kind: str) -> bool:
    points = installed(kind.replace("datasets", "data sets")[:-1]) if kind != "experiments" else []
    return all(point.module.startswith("oasis_bench.") for point in points)
