"""Pictures as pixels: what the option `pixels` of a data set makes."""

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from test_patch_features import noise

from oasis_bench.datasets import Digits
from oasis_bench.datasets.picture_files import hashed_pictures, pixels_of
from oasis_bench.system import no_progress


@pytest.mark.usefixtures("cache")
def test_a_picture_of_uniform_parts_is_averaged_to_them(tmp_path):
    # 4 x 2 blocks of 30 x 40 pixels, each of one colour: a pixel of 4 x 2 ... of 4 x 4 is inside.
    colours = np.random.default_rng(0).integers(0, 256, (2, 4, 3), dtype=np.uint8)
    Image.fromarray(colours.repeat(40, 0).repeat(30, 1)).save(tmp_path / "parts.png")
    pictures = hashed_pictures([tmp_path / "parts.png"], no_progress)
    (found,), _, _ = pixels_of(pictures, 120, no_progress)
    assert found.shape == (120, 120, 3)
    assert found.dtype == np.uint8
    centres = found[30::60, 15::30]
    np.testing.assert_array_equal(centres, colours)


@pytest.mark.usefixtures("cache")
def test_pixels_are_those_of_pillow_and_come_in_the_order_asked_for(tmp_path):
    paths = [noise(tmp_path / f"{seed}.png", seed) for seed in (3, 1, 3, 2)]
    (tmp_path / "broken.png").write_bytes(b"no picture")
    pictures = hashed_pictures([tmp_path / "broken.png", *paths], no_progress)
    found, kept, ((left_out, _),) = pixels_of(pictures, 24, no_progress)
    assert (kept, left_out) == ([1, 2, 3, 4], tmp_path / "broken.png")
    for path, picture in zip(paths, found, strict=True):
        expected = Image.open(path).resize((24, 24), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(picture, np.asarray(expected))


def test_they_are_decoded_once(cache, tmp_path):
    path = noise(tmp_path / "a.png", 0)
    pictures = hashed_pictures([path], no_progress)
    first, *_ = pixels_of(pictures, 8, no_progress)
    path.unlink()
    np.testing.assert_array_equal(pixels_of(pictures, 8, no_progress)[0], first)
    assert len(list((cache / "pixels").iterdir())) == 1
    pixels, kept, ((left_out, fault),) = pixels_of(pictures, 9, no_progress)
    assert (pixels.shape, kept, left_out) == ((0, 9, 9, 3), [], path)
    assert fault.reason == "No such file or directory"


def test_files_that_cannot_be_read_are_no_copies_of_one_another(tmp_path):
    pictures = hashed_pictures([tmp_path / "a.png", tmp_path / "b.png"], no_progress)
    assert pictures[0].content != pictures[1].content
    assert all("No such file" in one.content for one in pictures)


def test_digits_are_grey_pictures():
    assert Digits().load().pixels is None
    X, _ = load_digits(return_X_y=True)
    pixels = Digits(pixels=8).load().pixels
    assert pixels is not None
    assert pixels.shape == (1797, 8, 8, 3)
    assert (pixels == pixels[..., :1]).all()
    np.testing.assert_allclose(pixels[..., 0].reshape(1797, 64) / 255 * 16, X, atol=0.04)
    larger = Digits(pixels=16).load().pixels
    assert larger is not None
    assert larger.shape == (1797, 16, 16, 3)
    np.testing.assert_allclose(
        larger.mean(axis=(1, 2)), pixels.mean(axis=(1, 2)), atol=3
    )  # interpolation keeps the grey
