"""The verb `judge`: the page on which people rate what a run retrieves, and what they send back."""

from __future__ import annotations

import argparse

from oasis_bench.command_line.carrying_out import print_note, report_on
from oasis_bench.plugins.registry import load_reports


def judge(options: argparse.Namespace) -> int:
    """Write the rating page of a run, or collect ratings and remake the run's report."""
    reports = load_reports()
    if options.collect:
        summary = reports.collect_ratings(options.run, options.collect)
        report_on(options.run)
        print(summary)
        return 0
    page = reports.write_rating_page(
        options.run, options.queries, options.candidates, options.output
    )
    for note in page.notes:
        print_note(f"oasis-bench: {note}")
    print(page.summary)
    print(f"page: {page.path}")
    return 0
