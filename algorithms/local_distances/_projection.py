"""Descriptors of patches with fewer numbers: projected on their first principal directions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sklearn.decomposition import PCA

from oasis_bench.data import Descriptors, Patches, PatchKind
from oasis_bench.system import UsageError

SAMPLE = 20_000
"""Patches of a kind that tell the directions."""


def first_directions(
    patches: Patches, n_components: int, rng: np.random.RandomState
) -> dict[str, Descriptors]:
    """Return the first principal directions (n_components, p) of the patches of each kind.

    They are those of a sample of 20 000 patches.  A kind that has no more numbers a patch, or no
    more patches, is not there.
    """
    found = {}
    for name, kind in patches.kinds.items():
        rows = kind.descriptors
        if len(rows) > SAMPLE:
            rows = rows[rng.choice(len(rows), SAMPLE, replace=False)]
        if n_components < min(rows.shape):
            pca = PCA(n_components, svd_solver="covariance_eigh").fit(rows)
            found[name] = pca.components_.astype(np.float32)
    return found


def projected(patches: Patches, directions: Mapping[str, Descriptors]) -> Patches:
    """Project the descriptors of the kinds that have directions.

    The mean is not taken away first: distances are the same without it.

    Raises
    ------
    UsageError
        Where descriptors are not of the length that the directions are of, or a kind is missing.
    """
    kinds = dict(patches.kinds)
    for name, axes in directions.items():
        kind = kinds.get(name)
        width = 0 if kind is None else kind.descriptors.shape[1]
        if kind is None or width != axes.shape[1]:
            raise UsageError(
                f"patches of the kind {name!r} with {width} numbers: {axes.shape[1]} are needed, "
                "as the training pictures have"
            )
        kinds[name] = PatchKind(kind.descriptors @ axes.T, kind.offsets, kind.positions)
    return Patches(kinds)
