"""Pictures as sets of local descriptors at edges: which kinds there are.

The features are colours, SIFT, and geometric blur: edge signals about a point, the more blurred
the farther from it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy
from scipy import ndimage
from scipy.linalg import toeplitz
from threadpoolctl import threadpool_limits

from oasis_bench.data import Descriptors, Patches, PatchKind
from oasis_bench.datasets import picture_files
from oasis_bench.datasets.picture_files import Fault, LeftOut, Parts, Picture
from oasis_bench.system import (
    Progress,
    UsageError,
    check_value,
    require_memory,
    require_packages,
    slices,
    unknown_name,
)

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
    picture there are no edges.  Its length is the square root of what it would be, so that strong
    edges count more than weak ones, and less than by their strength; it is 0 where no edge is near.
    """
    _, height, width = channels.shape
    rings = []
    for ring, n_places in RINGS:
        distance = ring * radius / RINGS[-1][0]
        margin, deviation = math.ceil(distance), ALPHA * distance + BETA
        rows, columns = (_gaussian(side, margin, deviation) for side in (height, width))
        at = points[:, None] + np.rint(distance * _circle(n_places)).astype(int) + margin
        # The picture is blurred along y, and along x only at the places.
        along_y = (rows @ channels)[:, at[..., 1].ravel()]
        blurred = np.einsum("cpx,px->pc", along_y, columns[at[..., 0].ravel()])
        rings.append(blurred.reshape(*at.shape[:2], -1))
    found = np.concatenate(rings, axis=1).reshape(len(points), -1)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    lengths[lengths == 0] = 1
    scaled: FloatArray = (found / np.sqrt(lengths)).astype(np.float32, copy=False)
    return scaled


def _circle(n_places: int) -> npt.NDArray[np.float64]:
    angles = 2 * np.pi * np.arange(n_places) / n_places
    return np.stack([np.cos(angles), np.sin(angles)], axis=1)


@lru_cache(maxsize=64)
def _gaussian(side: int, margin: int, deviation: float) -> FloatArray:
    """Return the matrix that blurs a line of pixels, from `margin` before it to as much after it.

    Products with it are faster than filters: the largest deviation is 36 pixels.
    """
    apart = np.arange(1 - side - margin, side + margin)
    weights = np.exp(-0.5 * (apart / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
    return toeplitz(weights[side - 1 :], weights[side - 1 :: -1]).astype(np.float32)


def unit_length(rows: npt.NDArray[np.floating]) -> FloatArray:
    """Scale each row to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


SIDE = 300
"""A picture is scaled so that its longer side has so many pixels, as most of Caltech101's have."""

LEAST_EDGE = 0.005
"""The least gradient of a point, as a share of white a pixel."""

RADIUS = 42
"""Of the patches of colours and of SIFT, in pixels."""

SPACING = 10
"""Points of a picture are so many pixels apart, as long as there are such points."""

N_HUES, N_VALUES = 11, 3
"""Cells of the disc of hue and saturation in each direction, and of value: the paper names HSV
histograms and gives no numbers."""

CODE = (picture_files.__file__, __file__)


class Edges(NamedTuple):
    """A picture in its scaled size, and its edges.

    `pixels` is (height, width, 3), float32 from 0 to 1; `channels` and `crests` are those of
    `edge_signals`; `scale` is pixels of the scaled picture in one of the picture.
    """

    pixels: npt.NDArray[np.float32]
    channels: npt.NDArray[np.float32]
    crests: npt.NDArray[np.float32]
    scale: float


Places = npt.NDArray[np.intp]
"""The points of a picture that patches are centred at, (n, 2): x and y."""


def edges_of(picture: Picture) -> Edges:
    """Read a picture, scale its longer side to 300 pixels, and find its edges."""
    from PIL import Image  # where it is used: a trial does without

    image = picture_files.read_image(picture.path)
    scale = SIDE / max(image.size)
    size = (max(1, round(image.width * scale)), max(1, round(image.height * scale)))
    resized = image if size == image.size else image.resize(size, Image.Resampling.BILINEAR)
    pixels = np.asarray(resized, np.float32) / np.float32(255)
    return Edges(pixels, *edge_signals(pixels), scale)


def points_of(crests: FloatArray, n_points: int, seed: str) -> Places:
    """Draw points of a picture without replacement, by the strength of edges at their crests.

    A point is drawn only where it is at least 10 pixels from those before it.  Where no such point
    is left, the others follow in the order in which they were drawn.  A picture with fewer than
    `n_points` crests gives them all.
    """
    y, x = np.nonzero(crests > LEAST_EDGE)
    if not len(x):
        raise picture_files.UnusableImageError("it has no edges, where patches are centred")
    rng = np.random.default_rng(picture_files.number_of(seed))
    # The smallest of exponential keys are a draw by weight (Efraimidis & Spirakis, 2006).
    keys = rng.exponential(size=len(x)) / crests[y, x]
    drawn = np.argsort(keys, kind="stable")
    return _spaced(np.stack([x[drawn], y[drawn]], axis=1), n_points)


def _spaced(places: Places, n_points: int) -> Places:
    """Take n points: first those at least 10 pixels from all such points before them."""
    within = np.arange(1 - SPACING, SPACING)
    is_far = within[:, None] ** 2 + within**2 >= SPACING**2
    is_free = np.ones(places.max(axis=0) + 2 * SPACING, bool)  # with a border of SPACING pixels
    apart = []
    for number, (x, y) in enumerate(places.tolist()):
        if is_free[x + SPACING, y + SPACING]:
            apart.append(number)
            if len(apart) == n_points:
                break
            is_free[x + 1 : x + 2 * SPACING, y + 1 : y + 2 * SPACING] &= is_far
    return np.concatenate([places[apart], np.delete(places, apart, axis=0)])[:n_points]


def hsv_histograms(pixels: FloatArray, places: Places) -> Descriptors:
    """Count the colours within 42 pixels of each point: (n, 364), each of unit length.

    Hue and saturation are a point of the unit disc, in a grid of 11 x 11 cells, and value is one
    of three levels; the last number counts pixels outside the picture.
    """
    from matplotlib.colors import rgb_to_hsv

    hue, saturation, value = np.moveaxis(rgb_to_hsv(pixels), 2, 0)
    angle = 2 * np.pi * hue
    disc = (saturation * np.cos(angle), saturation * np.sin(angle))
    across, down = (_cells((part + 1) / 2, N_HUES) for part in disc)
    codes = (_cells(value, N_VALUES) * N_HUES + down) * N_HUES + across
    outside = N_VALUES * N_HUES**2
    padded = np.pad(codes, RADIUS, constant_values=outside)
    offsets = np.arange(-RADIUS, RADIUS + 1)
    within = offsets[:, None] ** 2 + offsets**2 <= RADIUS**2
    side = len(offsets)
    counts = [
        np.bincount(padded[y : y + side, x : x + side][within], minlength=outside + 1)
        for x, y in places
    ]
    return unit_length(np.array(counts))


def _cells(values: npt.NDArray[np.floating], n: int) -> npt.NDArray[np.intp]:
    return np.minimum((values * n).astype(np.intp), n - 1)


def sift(pixels: FloatArray, places: Places) -> Descriptors:
    """Describe the upright patches of 84 x 84 pixels by SIFT: (n, 128), each of unit length."""
    cv2: Any = import_module("cv2")  # its stubs lack SIFT
    grey = cv2.cvtColor(np.rint(pixels * 255).astype(np.uint8), cv2.COLOR_RGB2GRAY)
    # SIFT's 4 x 4 cells are 6 times as wide as the size of a keypoint.
    keypoints = [cv2.KeyPoint(float(x), float(y), RADIUS / 3, 0.0) for x, y in places]
    _, descriptors = cv2.SIFT_create().compute(grey, keypoints)
    return unit_length(descriptors)


KINDS: dict[str, tuple[Callable[[Edges, Places], Descriptors], int, int]] = {
    "gb70": (lambda edges, places: geometric_blur(edges.channels, places, 70), 204, 70),
    "gb42": (lambda edges, places: geometric_blur(edges.channels, places, RADIUS), 204, RADIUS),
    "hsv": (
        lambda edges, places: hsv_histograms(edges.pixels, places),
        N_VALUES * N_HUES**2 + 1,
        RADIUS,
    ),
    "sift": (lambda edges, places: sift(edges.pixels, places), 128, RADIUS),
}
"""The kinds of patches by name: what describes points of a picture, how many numbers it makes of a
point, and its radius in pixels of a picture whose longer side has 300."""


def patch_options(patches: str | None, n_points: int) -> tuple[str, ...]:
    """Read the option `patches` of a data set, keys of `KINDS`; none where none are asked for."""
    check_value("n_points", n_points, int, least=1)
    if patches is None:
        return ()
    check_value("patches", patches, str)
    kinds = tuple(patches.split("+"))
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"patches: {unknown_name('kind', kind, KINDS)}; join them by +")
    if len(set(kinds)) < len(kinds):
        raise UsageError(f"patches = {patches}: name each kind once")
    if "sift" in kinds:
        require_packages("patches = sift", ["cv2"], "sift")
    return kinds


def patches_of(
    pictures: Sequence[Picture],
    kinds: Sequence[str],
    n_points: int,
    progress: Progress,
) -> tuple[Patches | None, list[int], LeftOut]:
    """Describe the patches of each picture; return them, their pictures' numbers, and the rest.

    There are None where no picture can be used; the rest are left out, each with the reason.  A
    picture is scaled so that its longer side has 300 pixels, and each kind has at most `n_points`
    points of its own (`points_of`, by the picture's content and the kind).  What was computed is
    kept in ``patches`` of the cache folder, a file for each kind and 256 pictures.
    """
    unique = list({picture.content: picture for picture in pictures}.values())
    n_numbers = len(pictures) * n_points * sum(KINDS[name][1] for name in kinds)
    require_memory(
        2 * 4 * n_numbers,
        f"{len(pictures)} pictures with {n_points} patches of {len(kinds)} kinds",
        "ask for fewer n_points or fewer kinds",
    )
    found: dict[str, dict[str, Parts]] = {name: {} for name in kinds}
    faults: dict[str, Fault] = {}
    # The kinds of a picture share its edges: those of a file of the cache are kept.
    edges = lru_cache(picture_files.AT_ONCE)(edges_of)
    what, n_done = f"describing patches ({'+'.join(kinds)})", 0
    with threadpool_limits(1):  # the pictures run in parallel, not the products within one
        for part in slices(len(unique), picture_files.AT_ONCE):
            for name, own in found.items():

                def here(what: str, done: int, _: int | None, before: int = n_done) -> None:
                    progress(what, before + done, len(unique) * len(kinds))

                compute = partial(
                    picture_files.in_threads, partial(_patches, name, edges, n_points), what
                )
                libraries = [f"scipy {scipy.__version__}"]
                if name == "sift":
                    libraries.append(f"opencv {import_module('cv2').__version__}")
                decided_by = (*libraries, name, str(n_points))
                more, wrong = picture_files.described(
                    unique[part], compute, "patches", CODE, decided_by, here
                )
                own |= more
                faults |= wrong
                n_done += len(unique[part])
    kept = [number for number, one in enumerate(pictures) if one.content not in faults]
    if not kept:
        return None, kept, picture_files.named(pictures, faults)
    joined = {
        name: PatchKind.joined(*zip(*(own[pictures[n].content] for n in kept), strict=True))
        for name, own in found.items()
    }
    return Patches(joined), kept, picture_files.named(pictures, faults)


def _patches(
    name: str,
    edges: Callable[[Picture], Edges],
    n_points: int,
    picture: Picture,
) -> Parts:
    """Describe the patches of one kind of a picture; return their positions too."""
    its = edges(picture)
    places = points_of(its.crests, n_points, f"{picture.content} {name}")
    describe, *_ = KINDS[name]
    # The centre of a pixel of the scaled picture, in pixels of the picture itself.
    positions = (places + 0.5) / its.scale - 0.5
    return describe(its, places), positions.astype(np.float32)
