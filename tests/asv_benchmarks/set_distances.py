"""Distances from patches to sets of patches, beside a plain product of the same arithmetic."""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms.local_patch_distances import set_distances
from oasis_bench.data import Patches, PatchKind

N_PICTURES, N_PATCHES, WIDTH = 30, 400, 204
OPERATIONS = 2 * (N_PICTURES * N_PATCHES) ** 2 * WIDTH


class SetDistances:
    """Pictures of 400 unit-length patches of 204 numbers, as geometric blur gives them."""

    params = (1, 2)
    param_names = ("threads",)
    timeout = 300

    def setup(self, threads):
        rng = np.random.default_rng(0)
        rows = rng.random((N_PICTURES * N_PATCHES, WIDTH), np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        offsets = np.arange(N_PICTURES + 1) * N_PATCHES
        kind = PatchKind(rows, offsets, np.zeros((len(rows), 2), np.float32))
        self.pictures, self.rows = Patches({"gb": kind}), rows

    def time_set_distances(self, threads):
        with threadpool_limits(threads):
            set_distances(self.pictures, self.pictures)

    def track_share_of_a_product(self, threads):
        """GFLOP/s as a share of what BLAS gives for products of 2000 x 2000, in turn; median."""
        square = np.resize(self.rows, (2000, 2000))
        shares = []
        with threadpool_limits(threads):
            for _ in range(5):
                start = time.perf_counter()
                square @ square
                middle = time.perf_counter()
                set_distances(self.pictures, self.pictures)
                seconds = time.perf_counter() - middle
                shares.append(OPERATIONS / seconds / (2 * 2000**3 / (middle - start)))
        return float(np.median(shares))
