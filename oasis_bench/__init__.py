"""oasis-bench: a benchmark suite for metric learners.

This package is the harness; `oasis_bench.algorithms`, `oasis_bench.datasets` and
`oasis_bench.reports` plug into it.
"""

__version__ = "0.1.0"
