"""The claims of the papers, and the experiments that decide them.

A rule is written before its experiment runs; a note says where one was changed afterwards, and what
was known by then.  Bounds are differences of a measure of 0 to 1 unless a condition says otherwise.
"""

from __future__ import annotations

from oasis_bench.claims.oasis_papers import OASIS_CLAIMS
from oasis_bench.claims.other_papers import DEEP_CLAIMS, FROME_CLAIMS, KEEL_CLAIMS

CLAIMS = (*OASIS_CLAIMS, *FROME_CLAIMS, *DEEP_CLAIMS, *KEEL_CLAIMS)


def experiments() -> list[str]:
    """Name the experiments that decide claims, in the order of the claims."""
    return list(dict.fromkeys(c.experiment for claim in CLAIMS for c in claim.conditions))
