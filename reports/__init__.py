"""Tables, figures and one HTML page, made from a run's store alone: the facade."""

from oasis_bench.reports.compared import comparison_text
from oasis_bench.reports.export import export_run
from oasis_bench.reports.html import write_report
from oasis_bench.reports.summary import summary_text

__all__ = ["comparison_text", "export_run", "summary_text", "write_report"]
