"""The best k and all others in order; see `tasks.ranking`, and `plugins.approximate`."""

from oasis_bench.plugins import ApproximateGallery
from oasis_bench.tasks import rank_others, top_k

__all__ = ["ApproximateGallery", "rank_others", "top_k"]
