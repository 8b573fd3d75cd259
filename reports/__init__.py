"""Tables, figures and HTML pages, made from stored runs alone: the facade."""

from oasis_bench.reports.claims_page import CHALLENGED, SECOND_LOOK, second_look, write_claims
from oasis_bench.reports.comparison import comparison_text
from oasis_bench.reports.ranks_page import Filters, write_ranks
from oasis_bench.reports.ratings import collect_ratings, write_rating_page
from oasis_bench.reports.run.export import export_run
from oasis_bench.reports.run.notebook_page import summary_html
from oasis_bench.reports.run.partition_figures import find_baseline
from oasis_bench.reports.run.report import write_report
from oasis_bench.reports.run.summary import summary_text
from oasis_bench.reports.side_by_side import write_side_by_side
from oasis_bench.reports.web_scale import write_web_scale_report

__all__ = [
    "CHALLENGED",
    "SECOND_LOOK",
    "Filters",
    "collect_ratings",
    "comparison_text",
    "export_run",
    "find_baseline",
    "second_look",
    "summary_html",
    "summary_text",
    "write_claims",
    "write_ranks",
    "write_rating_page",
    "write_report",
    "write_side_by_side",
    "write_web_scale_report",
]
