"""Drawings of patches: weights on real pictures, and geometric blur of an edge."""

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from PIL import Image
from sklearn.datasets import load_sample_image

from oasis_bench.algorithms import LocalPatchDistances
from oasis_bench.datasets.patches import (
    draw_geometric_blur,
    draw_patch_weights,
    edge_signals,
    geometric_blur,
    patch_options,
    patches_of,
)
from oasis_bench.datasets.picture_files import hashed_pictures
from oasis_bench.system import no_progress


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A learner of parts of two photographs, and the pixels of the parts, 160 x 120."""
    folder = tmp_path_factory.mktemp("parts")
    parts = [
        load_sample_image(name)[top : top + 120, left : left + 160]
        for name in ("china.jpg", "flower.jpg")
        for top, left in ((60, 100), (180, 240), (300, 400))
    ]
    for number, part in enumerate(parts):
        Image.fromarray(part).save(folder / f"{number}.png")
    pictures = hashed_pictures(sorted(folder.iterdir()), no_progress)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OASIS_BENCH_CACHE", str(folder / "cache"))
        patches, kept, _ = patches_of(pictures, patch_options("gb42+hsv", 30), 30, no_progress)
    assert kept == list(range(6))
    return LocalPatchDistances(random_state=0).fit(patches, [0, 0, 0, 1, 1, 1]), parts


@pytest.mark.parametrize("kind", ["gb42", "hsv"])
def test_a_circle_stands_at_each_patch_that_has_a_weight(learned, kind):
    fitted, parts = learned
    for j, (weights, pixels) in enumerate(zip(fitted.weights_, parts, strict=True)):
        axes = Figure().subplots()
        draw_patch_weights(axes, pixels, fitted.exemplars_[j], weights, kind)
        own = weights[:30] if kind == "gb42" else weights[30:]
        assert len(own) == 30
        assert len(axes.patches) == (own > 0).sum()
        assert axes.get_title() == f"{(own > 0).sum()} of 30 weights above 0"
        centres = np.array([circle.center for circle in axes.patches]).reshape(-1, 2)
        dots = axes.lines[0].get_xydata()
        assert len(dots) == (own == 0).sum()
        for x, y in [*centres, *dots]:
            assert -0.5 <= x <= 159.5
            assert -0.5 <= y <= 119.5
        for circle, weight in zip(axes.patches, own[own > 0], strict=True):
            assert circle.radius == pytest.approx(42 * 160 / 300)
            assert circle.get_edgecolor() == pytest.approx(to_rgba("red", weight / own.max()))
    assert any((w == 0).any() and (w > 0).any() for w in fitted.weights_)


def test_the_drawing_of_an_edge_is_bright_along_it():
    pixels = np.zeros((120, 120, 3), np.float32)
    pixels[:, 60:] = 1  # a vertical edge, whose gradient points along x
    channels, _ = edge_signals(pixels)
    descriptor = geometric_blur(channels, np.array([[60, 60]]), 42)[0]
    panels = list(Figure().subplots(1, 4))
    draw_geometric_blur(panels, descriptor, 42)
    shown = [panel.collections[0] for panel in panels]
    sums = [float(discs.get_array().sum()) for discs in shown]
    assert sums[0] > 10 * max(sums[1:])
    assert sum(sums) == pytest.approx(descriptor.sum(), rel=1e-5)
    places, values = np.array(shown[0].get_offsets()), shown[0].get_array()
    assert np.hypot(*places.T).max() == pytest.approx(42)
    along = np.abs(places[:, 0]) < 3
    assert values[along].min() > values[np.abs(places[:, 0]) > 25].max()
