"""Small items of each kind, made from scikit-learn's digits, for the contract and for tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from oasis_bench.data import PATCHES_AND_PIXELS, Patches, PatchKind


def digit_rows(dtype: type = np.float64) -> tuple[Any, Any]:
    """Return 15 training rows of each of 4 digits, of unit length, and their labels."""
    pictures, y = _digits()
    return normalize(pictures.reshape(len(y), -1)).astype(dtype), y


def digit_items(kind: str) -> tuple[Any, Any]:
    """Return the same digits as items of a kind, one of `KINDS`; and their labels.

    Patches are the blocks of 4 x 4 and of 2 x 2 pixels on a grid that are not blank.
    """
    if kind == "rows":
        return digit_rows()
    pictures, y = _digits()
    grey = np.rint(pictures * 255 / 16).astype(np.uint8)
    pixels = np.repeat(grey[..., None], 3, axis=3)
    if kind == "pixels":
        return pixels, y
    kinds = {"block": _blocks(pictures, 4), "corner": _blocks(pictures, 2)}
    return Patches(kinds, pixels if kind == PATCHES_AND_PIXELS else None), y


def _digits() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    X, y = load_digits(return_X_y=True)
    numbers = np.concatenate([np.flatnonzero(y == digit)[:15] for digit in range(4)])
    return X[numbers].reshape(-1, 8, 8), y[numbers]


def _blocks(pictures: npt.NDArray[np.float64], side: int) -> PatchKind:
    """Return the blocks of `side` x `side` pixels every 2 pixels that are not blank."""
    corners = [(row, column) for row in range(0, 9 - side, 2) for column in range(0, 9 - side, 2)]
    descriptors, positions = [], []
    for picture in pictures:
        blocks = np.stack([picture[i : i + side, j : j + side].ravel() for i, j in corners])
        inked = blocks.any(axis=1)
        descriptors.append(blocks[inked])
        positions.append(np.array(corners)[inked, ::-1] + (side - 1) / 2)
    return PatchKind.joined(descriptors, positions)
