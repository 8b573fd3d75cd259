"""oasis-bench: a benchmark suite for metric learners.

This package is the harness; `oasis_bench.algorithms`, `oasis_bench.datasets` and
`oasis_bench.reports` plug into it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from oasis_bench.notebook import fit, run
    from oasis_bench.plugins import embed, neighbours

__all__ = ["embed", "fit", "neighbours", "run"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import a name when it is asked for: with all that it needs it takes a second."""
    if name in __all__:
        room = "notebook" if name in ("fit", "run") else "plugins"
        return getattr(import_module(f"oasis_bench.{room}"), name)
    raise AttributeError(f"module 'oasis_bench' has no attribute {name!r}")
