"""Tables, figures and HTML pages, made from stored runs alone: the facade."""

from oasis_bench.reports.claims_page import write_claims
from oasis_bench.reports.export import export_run
from oasis_bench.reports.leaderboard import recommend, write_ranks, write_side_by_side
from oasis_bench.reports.ratings import collect_ratings, write_rating_page
from oasis_bench.reports.report import summary_html, write_report
from oasis_bench.reports.terminal import answer_text, comparison_text, summary_text
from oasis_bench.reports.view import find_baseline
from oasis_bench.reports.web_scale import write_web_scale_report

__all__ = [
    "answer_text",
    "collect_ratings",
    "comparison_text",
    "export_run",
    "find_baseline",
    "recommend",
    "summary_html",
    "summary_text",
    "write_claims",
    "write_ranks",
    "write_rating_page",
    "write_report",
    "write_side_by_side",
    "write_web_scale_report",
]
