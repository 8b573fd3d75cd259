"""Descriptors of a whole picture, for which nothing is learned: colour, texture, shape, layout.

Not for those that need a codebook (`picture_words`).  All take a picture of 128 x 128 pixels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from oasis_bench.datasets.features.local_binary_patterns import N_PATTERNS, lbp_codes

if TYPE_CHECKING:
    from PIL.Image import Image

Vector = npt.NDArray[np.floating]

SIDE = 128
"""Width and height of the pictures that are described."""

N_LEVELS = np.array([8, 9, 9])
"""Levels of L, a and b: an odd number of a and of b, so that grey is inside a cell."""

LARGEST = 72
"""Of a and b; what is beyond it counts as this."""

N_KEPT = 60
"""Wavelet coefficients of a channel that are kept (the paper: 40 to 60)."""

COARSE = 32
"""Rows and columns of the coarsest coefficients; with the finest, a row would be 49152 numbers."""

YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.275, -0.321], [0.212, -0.523, 0.311]])


def lab_histogram(image: Image) -> Vector:
    """Return the roots of a histogram of 8 x 9 x 9 colours in CIE LAB: (648,).

    L goes from 0 to 100, a and b from -72 to 72.  The Euclidean distance of roots is Hellinger's
    of the histograms.
    """
    from skimage.color import rgb2lab

    lab = rgb2lab(np.asarray(image)).reshape(-1, 3)
    shares = (lab + np.array([0, LARGEST, LARGEST])) / np.array([100, 2 * LARGEST, 2 * LARGEST])
    levels = np.clip(shares * N_LEVELS, 0, N_LEVELS - 1).astype(np.intp)
    codes = np.ravel_multi_index(tuple(levels.T), tuple(N_LEVELS))
    return np.sqrt(np.bincount(codes, minlength=int(N_LEVELS.prod())))


def oriented_gradients(image: Image) -> Vector:
    """Return histograms of oriented gradients: 7 x 7 blocks of 2 x 2 cells of 16 pixels, (1764,).

    Nine orientations; at each pixel the colour of the largest gradient counts; blocks are of unit
    length, clipped at .2 and of unit length again (Dalal & Triggs, CVPR 2005).
    """
    from skimage.feature import hog

    cells = {"pixels_per_cell": (16, 16), "cells_per_block": (2, 2)}
    return np.asarray(hog(np.asarray(image), block_norm="L2-Hys", channel_axis=-1, **cells))


def pattern_histograms(image: Image) -> Vector:
    """Return the roots of histograms of the 59 local binary patterns in 4 x 4 cells: (944,).

    Ahonen, Hadid & Pietikainen, ECCV 2004.
    """
    return np.sqrt(cell_counts(lbp_codes(np.asarray(image.convert("L"))), N_PATTERNS, 4))


def wavelet_signature(image: Image) -> Vector:
    """Return the signs of the 60 largest Haar coefficients of Y, I and Q, and their means: (3072,).

    The standard decomposition of each channel; its 32 x 32 coarsest coefficients compete, the
    first is the mean (Jacobs, Finkelstein & Salesin, SIGGRAPH 1995, without their weights).
    """
    H = _haar(SIDE)[:COARSE]
    signature = []
    for channel in np.moveaxis(np.asarray(image) / 255 @ YIQ.T, 2, 0):
        coefficients = (H @ channel @ H.T).ravel()
        mean, coefficients[0] = coefficients[0] / SIDE, 0
        signs = np.zeros(len(coefficients))
        # Rounded, so that equal ones are kept by their order on every processor.
        kept = np.argsort(-np.abs(coefficients).round(9), kind="stable")[:N_KEPT]
        signs[kept] = np.sign(coefficients[kept].round(9))
        signs[0] = mean
        signature.append(signs)
    return np.concatenate(signature)


def cell_counts(codes: npt.NDArray[np.integer], n_codes: int, n_cells: int) -> Vector:
    """Count the codes in each of `n_cells` x `n_cells` cells of a picture, row by row of cells.

    Parameters
    ----------
    codes : ndarray of shape (side, side)
        From 0 to `n_codes` - 1; `n_cells` divides the side.

    Returns
    -------
    ndarray of shape (n_cells * n_cells * n_codes,)
    """
    place = np.arange(len(codes)) * n_cells // len(codes)
    cells = place[:, None] * n_cells + place
    counts = np.bincount((cells * n_codes + codes).ravel(), minlength=n_cells**2 * n_codes)
    return counts.astype(np.float64)


def _haar(n: int) -> npt.NDArray[np.float64]:
    """Return the orthonormal Haar matrix (n, n), coarse rows first; n is a power of 2."""
    if n == 1:
        return np.ones((1, 1))
    coarse, fine = np.kron(_haar(n // 2), [1, 1]), np.kron(np.eye(n // 2), [1, -1])
    return np.asarray(np.vstack([coarse, fine]) / np.sqrt(2))
