"""Drawings of patches: the weights that a learner gives them, and what geometric blur sees.

Not for the patches themselves (`patches`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oasis_bench.data import Patches
from oasis_bench.datasets.features.patches import N_ORIENTATIONS, RADIUS, RINGS, SIDE
from oasis_bench.system import UsageError, unknown_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

RADII = {"gb70": 70, "gb42": 42, "hsv": RADIUS, "sift": RADIUS}
"""Of the kinds of patches, in pixels of a picture whose longer side has 300."""


def draw_patch_weights(
    axes: Axes,
    pixels: npt.NDArray[np.uint8],
    patches: Patches,
    weights: npt.NDArray[np.floating],
    kind: str,
) -> None:
    """Draw the weights of a picture's patches on the picture (Frome et al., ICCV 2007, figure 2).

    A weight above 0 is a circle as large as the patch, the more opaque the larger the weight is; a
    weight of 0 is a dot.  The title counts the weights above 0.

    Parameters
    ----------
    axes : matplotlib Axes
        Drawn on.
    pixels : ndarray of shape (height, width, 3), uint8
        The picture in its own size.
    patches : Patches
        Those of this picture alone: of a fitted learner ``exemplars_[j]``.
    weights : ndarray of shape (M_j,)
        Of the patches of all kinds, in their order: ``weights_[j]``.
    kind : str
        The kind of patches to draw.

    Raises
    ------
    UsageError
        Where there is no such kind, or weights and patches are not of one picture.

    Examples
    --------
    >>> draw_patch_weights(axes, pixels, fitted.exemplars_[3], fitted.weights_[3], "gb42")
    """
    from matplotlib.patches import Circle  # where it is used: a trial does without

    if kind not in patches.kinds or kind not in RADII:
        raise UsageError(unknown_name("kind of patches", kind, patches.kinds))
    sizes = {name: len(one.positions) for name, one in patches.kinds.items()}
    if len(patches) != 1 or len(weights) != sum(sizes.values()):
        raise UsageError(
            f"{len(weights)} weights for {sum(sizes.values())} patches of {len(patches)} pictures: "
            "a weight for each patch of one picture is needed"
        )
    parts = np.split(weights, np.cumsum(list(sizes.values()))[:-1])
    own = dict(zip(sizes, parts, strict=True))[kind]
    places, used = patches.kinds[kind].positions, own > 0
    radius = RADII[kind] * max(pixels.shape[:2]) / SIDE
    axes.imshow(pixels)
    axes.set_axis_off()
    axes.autoscale(False)  # circles end at the picture's edge
    axes.plot(*places[~used].T, linestyle="", marker=".", markersize=3, color="white")
    for (x, y), weight in zip(places[used], own[used], strict=True):
        opacity = float(weight / own.max())
        axes.add_patch(Circle((x, y), radius, fill=False, color="red", alpha=opacity))
    axes.set_title(f"{used.sum()} of {len(own)} weights above 0")


def draw_geometric_blur(
    panels: Sequence[Axes], descriptor: npt.NDArray[np.floating], radius: float
) -> None:
    """Draw a descriptor of `geometric_blur`: the edges that it sees about its point.

    Each panel is a channel.  A disc stands where the blurred channel was sampled, its grey is the
    number in the descriptor: black for 0, white for the largest.

    Parameters
    ----------
    panels : sequence of four matplotlib Axes
        For edges whose gradients point at 0, 45, 90 and 135 degrees, from x towards y (down).
    descriptor : ndarray of shape (204,)
    radius : float
        Of the outer ring, in pixels.

    Raises
    ------
    UsageError
        Where the descriptor or the panels are not so many.
    """
    places = np.array([ring_point for ring in RINGS for ring_point in _ring(*ring)])
    if len(descriptor) != N_ORIENTATIONS * len(places) or len(panels) != N_ORIENTATIONS:
        raise UsageError(
            f"a descriptor of {len(descriptor)} numbers in {len(panels)} panels: "
            f"{N_ORIENTATIONS * len(places)} in {N_ORIENTATIONS} are needed"
        )
    x, y = places.T * radius / RINGS[-1][0]
    grey: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": max(float(descriptor.max()), 1e-12)}
    for number, axes in enumerate(panels):
        values = descriptor.reshape(-1, N_ORIENTATIONS)[:, number]
        axes.scatter(x, y, s=60, c=values, edgecolors="0.5", linewidths=0.5, **grey)
        axes.set_aspect("equal")
        axes.set_ylim(1.2 * radius, -1.2 * radius)
        axes.set_title(f"gradient at {180 // N_ORIENTATIONS * number}°")


def _ring(radius: int, n_places: int) -> npt.NDArray[np.float64]:
    angles = 2 * np.pi * np.arange(n_places) / n_places
    return radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
