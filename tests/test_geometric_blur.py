"""Geometric blur: against its definition written out, and on pictures that were moved."""

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from oasis_bench.datasets.patches import RINGS, edge_signals, geometric_blur


def sample(name="china.jpg"):
    """A photograph of 320 x 214 pixels."""
    return load_sample_image(name)[::2, ::2].astype(np.float32) / 255


def written_out(channels, x, y, radius):
    """The numbers of one point, each a sum over all pixels, in float64."""
    down, across = np.indices(channels.shape[1:])
    values = []
    for ring, n_places in RINGS:
        distance = ring * radius / 50
        deviation = distance / 2 + 1
        for step in range(n_places):
            angle = 2 * np.pi * step / n_places
            u, v = x + round(distance * np.cos(angle)), y + round(distance * np.sin(angle))
            weights = np.exp(-((across - u) ** 2 + (down - v) ** 2) / (2 * deviation**2))
            weights /= 2 * np.pi * deviation**2
            values += [(weights * channel).sum() for channel in np.float64(channels)]
    return np.array(values) / np.sqrt(np.linalg.norm(values))


@pytest.mark.parametrize("radius", [42, 70])
def test_it_is_the_definition_written_out_inside_and_at_the_border(radius):
    channels, _ = edge_signals(sample())
    points = np.array([(150, 100), (0, 0), (319, 213), (10, 200)])
    found = geometric_blur(channels, points, radius)
    assert (found.shape, found.dtype) == ((4, 204), np.float32)
    for (x, y), row in zip(points, found, strict=True):
        np.testing.assert_allclose(row, written_out(channels, x, y, radius), atol=1e-6)


@pytest.mark.parametrize("number", range(4))
def test_a_channel_holds_the_edges_of_its_orientation(number):
    angle = number * np.pi / 4
    down, across = np.indices((80, 80)) - 40
    light = (across * np.cos(angle) + down * np.sin(angle) > 0.2).astype(np.float32)
    pixels = np.repeat(light[..., None], 3, axis=2)
    channels, crests = edge_signals(pixels)
    inner = channels[:, 20:60, 20:60].sum(axis=(1, 2))
    assert inner.argmax() == number
    assert inner[number] > 0.85 * inner.sum()
    np.testing.assert_allclose(edge_signals(1 - pixels)[0], channels, atol=1e-4)
    # A step of 1 under the derivative of a Gaussian of deviation 1.5: 1 / (1.5 sqrt(2 pi)).
    assert crests.max() == pytest.approx(0.266, rel=0.15)
    y, x = np.nonzero(crests[10:-10, 10:-10])
    assert (np.abs((x - 30) * np.cos(angle) + (y - 30) * np.sin(angle)) < 1.5).all()


def test_colours_of_equal_brightness_have_an_edge():
    pixels = np.zeros((40, 40, 3), np.float32)
    pixels[:, :20, 0], pixels[:, 20:, 1] = 0.299, 0.299 * 0.299 / 0.587
    assert edge_signals(pixels)[1].max() > 0.05


def test_a_constant_picture_has_no_edges():
    channels, crests = edge_signals(np.full((20, 30, 3), 0.7, np.float32))
    assert channels.max() < 0.02  # the root of rounding errors
    assert crests.max() < 1e-4
    assert not geometric_blur(np.zeros_like(channels), np.array([(3, 4)]), 42).any()
