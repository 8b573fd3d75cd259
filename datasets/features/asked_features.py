"""The option `features` of data sets of pictures: what a picture's row is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.preprocessing import normalize

from oasis_bench.data import Patches
from oasis_bench.datasets.features.embeddings import TIMM, Network
from oasis_bench.datasets.features.feature_file import FeatureFile
from oasis_bench.datasets.features.hand_made import HAND_MADE, HandMade, Teachers
from oasis_bench.datasets.features.picture_files import Picture, PictureRows, Workers
from oasis_bench.system import UsageError, check_value, unknown_name

VISTERMS, HISTOGRAMS, LITE0 = "visterms", "histograms", "efficientnet-lite0"

SCALING = "l2"
"""How such rows are scaled, where an experiment does not say."""


@dataclass(frozen=True)
class AskedFeatures:
    """Features of one kind, or of several kinds side by side.

    Parameters
    ----------
    parts : tuple of Network, FeatureFile or HandMade
        At least one.
    """

    parts: tuple[Network | FeatureFile | HandMade, ...]

    @property
    def option(self) -> str:
        """The names of the kinds, joined by +."""
        return "+".join(part.option for part in self.parts)

    def rows_of(
        self, pictures: Sequence[Picture], workers: Workers, teachers: Teachers
    ) -> PictureRows:
        """Describe each picture; of several kinds, each is of unit length and they are joined.

        Parameters
        ----------
        teachers : callable
            Finds the pictures that codebooks are learned from, where one is needed.

        Returns
        -------
        PictureRows
            Of several kinds with `patches`: those of one kind are the row of that kind.

        Raises
        ------
        UsageError
            As the kinds do.
        """
        several = [
            part.rows_of(pictures, workers, teachers)
            if isinstance(part, HandMade)
            else part.rows_of(pictures, workers)
            for part in self.parts
        ]
        if len(several) == 1:
            return several[0]
        kept = sorted(set.intersection(*(set(rows.kept) for rows in several)))
        left_out = {path: fault for rows in several for path, fault in rows.left_out}
        groups = {
            re.sub(r"\W", "_", part.option): normalize(rows.X[np.isin(rows.kept, kept)])
            for part, rows in zip(self.parts, several, strict=True)
        }
        return PictureRows(
            np.concatenate(list(groups.values()), axis=1),
            kept,
            list(left_out.items()),
            tuple(remark for rows in several for remark in rows.remarks),
            Patches.one_each(groups) if kept else None,
        )


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
    if option.lower().endswith(".npz"):
        return AskedFeatures((FeatureFile(Path(option)),))
    names = option.split("+")
    if len(set(names)) < len(names):
        raise UsageError(f"features = {option}: name each kind once")
    return AskedFeatures(tuple(_of_kind(name, own) for name in names))


def _of_kind(name: str, own: str) -> Network | HandMade:
    if name == LITE0 or name.startswith(TIMM):
        return Network(name)
    if name in HAND_MADE:
        return HandMade(name)
    known = (own, *HAND_MADE, LITE0, f"{TIMM}NAME", "FILE.npz")
    raise UsageError(f"{unknown_name('features', name, known)}; + joins several")
