"""oasis-bench: a benchmark suite for metric learners.

This package is the harness; `oasis_bench.algorithms`, `oasis_bench.datasets` and
`oasis_bench.reports` plug into it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oasis_bench.notebook import run

__all__ = ["run"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import `run` when it is asked for: with all that it needs it takes a second."""
    if name == "run":
        from oasis_bench.notebook import run

        return run
    raise AttributeError(f"module 'oasis_bench' has no attribute {name!r}")
