"""The best k and all others in order; see `oasis_bench.tasks.ranking`."""

from oasis_bench.tasks.ranking import rank_others, top_k

__all__ = ["rank_others", "top_k"]
