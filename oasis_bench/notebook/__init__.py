"""A run from Python: `oasis_bench.run`, and its result as a notebook shows it."""

from oasis_bench.notebook.result import RunResult
from oasis_bench.notebook.run import run

__all__ = ["RunResult", "run"]
