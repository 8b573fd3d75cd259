"""Local distance functions: a distance for each exemplar (Frome, Sha, Singer & Malik 2007)."""

from oasis_bench.algorithms.local_distances._dual_ascent import solve
from oasis_bench.algorithms.local_distances.local_distances import LocalDistances
from oasis_bench.algorithms.local_distances.local_patch_distances import LocalPatchDistances

__all__ = ["LocalDistances", "LocalPatchDistances", "solve"]
