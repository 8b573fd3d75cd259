"""The option `features` of data sets of pictures: what a picture's row is."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

from oasis_bench.datasets.features.embeddings import TIMM, Network
from oasis_bench.datasets.features.feature_file import FeatureFile
from oasis_bench.system.errors import UsageError, unknown_name
from oasis_bench.system.values import check_value

AskedFeatures: TypeAlias = "Network | FeatureFile"

VISTERMS, HISTOGRAMS, LITE0 = "visterms", "histograms", "efficientnet-lite0"

SCALING = "l2"
"""How such rows are scaled, where an experiment does not say."""


def asked_features(option: str, own: str) -> AskedFeatures | None:
    """Read the option `features`; None for the features that the data set makes of its `own`.

    Raises
    ------
    UsageError
        Where there are no such features, or they need a package that is missing.
    """
    check_value("features", option, str)
    if option == own:
        return None
    if option == LITE0 or option.startswith(TIMM):
        return Network(option)
    if option.lower().endswith(".npz"):
        return FeatureFile(Path(option))
    known = (own, LITE0, f"{TIMM}NAME", "FILE.npz")
    raise UsageError(unknown_name("features", option, known))
