"""Seeds derived from names, so that no result depends on the order of anything."""

from __future__ import annotations

import hashlib


def derive_seed(*names: int | str) -> int:
    """Hash names into a seed below 2^32, the range of scikit-learn's `random_state`.

    They say what the seed is for, the run's own seed first: ``derive_seed(0, "partition", 3)``.
    """
    text = "\0".join(str(name) for name in names)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
