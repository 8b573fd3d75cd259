"""Tables, figures and HTML pages, made from stored runs alone: the facade."""

from oasis_bench.reports.average_ranks import write_ranks
from oasis_bench.reports.comparison import comparison_text
from oasis_bench.reports.export import export_run
from oasis_bench.reports.html import write_report
from oasis_bench.reports.summary import summary_text
from oasis_bench.reports.web_scale import write_web_scale_report

__all__ = [
    "comparison_text",
    "export_run",
    "summary_text",
    "write_ranks",
    "write_report",
    "write_web_scale_report",
]
