"""Geometric blur: edge signals about a point, the more blurred the farther from it.

Not for which points and kinds of patches a data set has: that is in `patches`.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy import ndimage

FloatArray = npt.NDArray[np.float32]

N_ORIENTATIONS = 4

RINGS = ((0, 1), (4, 8), (8, 8), (16, 10), (32, 12), (50, 12))
"""Radius and number of points of each ring at an outer radius of 50: 51 points."""

ALPHA, BETA = 0.5, 1.0
"""The deviation of the blur is ALPHA times the distance from the centre, plus BETA pixels."""

EDGE_SCALE = 1.5
"""Deviation in pixels of the Gaussian whose derivatives are the edge filters."""


def edge_signals(pixels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the edges of pixels (height, width, 3), 0 to 1, in 4 orientations, and their crests.

    The first are of shape (4, height, width), for gradients that point at 0, 45, 90 and 135 degrees
    from x towards y; crests (height, width) are the gradient where it is not below that of the two
    neighbours across the edge, else 0.  The gradient at a pixel is that of the colour in which it
    is largest, by derivatives of a Gaussian.  An edge of one orientation is shared between the two
    channels next to it; light to dark and dark to light are the same.  Channels hold the square
    root of the gradient, so that one strong edge does not outweigh all others in a patch.
    """
    colours = np.moveaxis(pixels, 2, 0)
    along_x, along_y = (
        ndimage.gaussian_filter(colours, EDGE_SCALE, order=order, axes=(1, 2), mode="nearest")
        for order in ((0, 1), (1, 0))
    )
    lengths = np.hypot(along_x, along_y)
    strongest = lengths.argmax(axis=0)[None]
    gx, gy, strength = (
        np.take_along_axis(part, strongest, 0)[0] for part in (along_x, along_y, lengths)
    )
    # The angle in steps of 45 degrees, from 0 to 4.
    steps = np.arctan2(gy, gx) / np.float32(math.pi / N_ORIENTATIONS) % N_ORIENTATIONS
    apart = np.abs(steps - np.arange(N_ORIENTATIONS, dtype=np.float32)[:, None, None])
    shares = np.maximum(1 - np.minimum(apart, N_ORIENTATIONS - apart), 0)
    return np.sqrt(strength) * shares, _crests(strength, steps)


def _crests(strength: FloatArray, steps: FloatArray) -> FloatArray:
    height, width = strength.shape
    padded = np.pad(strength, 1)
    nearest = np.rint(steps).astype(int) % N_ORIENTATIONS
    crests = np.zeros_like(strength)
    for number, (y, x) in enumerate(((0, 1), (1, 1), (1, 0), (1, -1))):
        before = padded[1 - y : 1 - y + height, 1 - x : 1 - x + width]
        after = padded[1 + y : 1 + y + height, 1 + x : 1 + x + width]
        highest = (nearest == number) & (strength >= np.maximum(before, after))
        crests[highest] = strength[highest]
    return crests


def geometric_blur(channels: FloatArray, points: npt.NDArray[np.intp], radius: float) -> FloatArray:
    """Describe the patches about points (n, 2), x and y: (n, 51 n_channels).

    Berg & Malik, CVPR 2001.

    A number is a channel (of `edge_signals`, none negative), blurred by a Gaussian of deviation
    ``0.5 |x| + 1`` pixels, at the place x from the point: at the pixel nearest to each of 51 places
    on the circles of `RINGS`, scaled to `radius`, place by place from the inside.  Outside the
    picture there are no edges.  A row has unit length, or is 0 where no edge is near.
    """
    _, height, width = channels.shape
    rings = []
    for ring, n_places in RINGS:
        distance = ring * radius / RINGS[-1][0]
        margin, deviation = math.ceil(distance), ALPHA * distance + BETA
        rows, columns = (_gaussian(side, margin, deviation) for side in (height, width))
        blurred = rows @ channels @ columns.T
        angles = 2 * np.pi * np.arange(n_places) / n_places
        places = np.rint(distance * np.stack([np.cos(angles), np.sin(angles)], 1)).astype(int)
        at = points[:, None] + places + margin
        rings.append(blurred[:, at[..., 1], at[..., 0]].transpose(1, 2, 0))
    return unit_length(np.concatenate(rings, axis=1).reshape(len(points), -1))


@lru_cache(maxsize=64)
def _gaussian(side: int, margin: int, deviation: float) -> FloatArray:
    """Return the matrix that blurs a line of pixels, from `margin` before it to as much after it.

    Products with it are faster than filters: the largest deviation is 36 pixels.
    """
    apart = np.arange(-margin, side + margin)[:, None] - np.arange(side)
    weights = np.exp(-0.5 * (apart / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
    return weights.astype(np.float32)


def unit_length(rows: npt.NDArray[np.floating]) -> FloatArray:
    """Scale each row to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
