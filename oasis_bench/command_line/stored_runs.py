"""The verbs `report`, `judge`, `ranks`, `compare` and `export`: what is made of stored runs."""

from __future__ import annotations

import argparse
import math
from contextlib import closing

from oasis_bench.analysis import compare_runs
from oasis_bench.command_line.progress import ProgressDisplay
from oasis_bench.command_line.run import report_on
from oasis_bench.plugins import load_reports
from oasis_bench.runs import export_trec, read_run
from oasis_bench.system import EXPORT, UsageError, path_below

GOT_WORSE = 1
NOT_COMPARED = 3


def report(options: argparse.Namespace) -> int:
    """Remake the report of a run."""
    return report_on(options.run, options.tables, options.baseline)


def judge(options: argparse.Namespace) -> int:
    """Write the rating page of a run, or collect ratings and remake the run's report."""
    reports = load_reports()
    given = {"n_queries": options.queries, "n_candidates": options.candidates}
    given |= {"output": options.output}
    of_page = {name: value for name, value in given.items() if value is not None}
    if options.collect:
        if of_page:
            name = next(iter(of_page)).removeprefix("n_")
            raise UsageError(f"--{name} is for the page: leave it out with --collect")
        summary = reports.collect_ratings(options.run, options.collect)
        report_on(options.run)
        print(summary)
        return 0
    page, summary = reports.write_rating_page(options.run, **of_page)
    print(summary)
    print(f"page: {page}")
    return 0


def ranks(options: argparse.Namespace) -> int:
    """Write the leaderboard of several runs."""
    reports = load_reports()
    how = options.task, options.measure, options.baseline
    page, summary = reports.write_ranks(options.runs, options.output, *how)
    print(summary)
    print(f"report: {page}")
    return 0


def compare(options: argparse.Namespace) -> int:
    """Print what got better or worse; the status says it, too."""
    if not 0 <= options.tolerance < math.inf:
        raise UsageError(f"--tolerance {options.tolerance}: a share of at least 0 is needed")
    old, new = read_run(options.old), read_run(options.new)
    comparison = compare_runs(old, new, options.tolerance)
    runs = {f"OLD {options.old}": old, f"NEW {options.new}": new}
    print(load_reports().comparison_text(comparison, runs))
    if comparison.count("worse"):
        return GOT_WORSE
    return 0 if comparison.n_judged else NOT_COMPARED


def export(options: argparse.Namespace) -> int:
    """Write the numbers of a run for other programs, and print the paths."""
    if options.format == "trec":
        output = options.output or path_below(options.run, EXPORT)
        with closing(ProgressDisplay()) as display:
            shown = display.download, display.bar
            paths = export_trec(options.run, output, *shown, options.plugin)
    else:
        paths = load_reports().export_run(options.run, options.format, options.output)
    for path in paths:
        print(path)
    return 0
