"""The verb `judge`: the page on which people rate what a run retrieves, and what they send back."""

from __future__ import annotations

import argparse

from oasis_bench.command_line.running import print_note, report_on
from oasis_bench.plugins import load_reports
from oasis_bench.system import UsageError


def judge(options: argparse.Namespace) -> int:
    """Write the rating page of a run, or collect ratings and remake the run's report."""
    reports = load_reports()
    of_page = {
        "n_queries": options.queries,
        "n_candidates": options.candidates,
        "output": options.output,
    }
    of_page = {name: value for name, value in of_page.items() if value is not None}
    if options.collect:
        if of_page:
            name = next(iter(of_page)).removeprefix("n_")
            raise UsageError(f"--{name} is for the page: leave it out with --collect")
        summary = reports.collect_ratings(options.run, options.collect)
        report_on(options.run)
        print(summary)
        return 0
    page = reports.write_rating_page(options.run, **of_page)
    for note in page.notes:
        print_note(f"oasis-bench: {note}")
    print(page.summary)
    print(f"page: {page.path}")
    return 0
