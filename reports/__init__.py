"""Tables, figures and one HTML page, made from a run's store alone: the facade."""

from oasis_bench.reports.html import write_report
from oasis_bench.reports.summary import summary_text

__all__ = ["summary_text", "write_report"]
