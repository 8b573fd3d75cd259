"""Patches of pictures: points at edges, colours, SIFT, and the data sets' option `patches`."""

import colorsys

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.distance import cdist
from sklearn.datasets import load_sample_image

from oasis_bench.datasets import ImageFolder, picture_files
from oasis_bench.datasets.patches import (
    KINDS,
    edge_signals,
    edges_of,
    geometric_blur,
    hsv_histograms,
    patches_of,
    points_of,
    sift,
)
from oasis_bench.datasets.picture_files import Picture, hashed_pictures
from oasis_bench.plugins import Registry
from oasis_bench.system import no_progress


def noise(path, seed, size=(150, 100)):
    """A picture of coarse coloured noise, in a format without loss."""
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (10, 15, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize(size).save(path)
    return path


def squares(path):
    """A black picture with a white square at the left and a dark grey one at the right."""
    pixels = np.zeros((200, 300), np.uint8)
    pixels[60:140, 40:120] = 255
    pixels[60:140, 180:260] = 64
    Image.fromarray(pixels).save(path)
    return Picture(path, "content")


def test_points_lie_at_edges_and_strong_edges_have_more_of_them(tmp_path):
    points = points_of(edges_of(squares(tmp_path / "a.png")).crests, 250, "seed")
    assert len(np.unique(points, axis=0)) == len(points) == 250
    x, y = points.T
    left, right = (
        (np.abs(np.maximum(np.abs(x - middle), np.abs(y - 99.5)) - 39.5) < 2)
        for middle in (79.5, 219.5)
    )
    assert (left | right).all()
    # Drawn by strength, 255 to 64, with too few crests at the left to draw from with replacement.
    assert 1.5 < left.sum() / right.sum() < 4


def test_points_are_apart_as_long_as_such_points_are_left():
    crests = edge_signals(load_sample_image("china.jpg")[::4, ::4].astype(np.float32) / 255)[1]
    points = points_of(crests, 10**6, "seed")
    assert sorted(map(tuple, points)) == sorted(zip(*np.nonzero(crests.T > 0.005), strict=True))
    apart = cdist(points, points) + 10 * np.eye(len(points))
    n_apart = next(n for n in range(2, len(points)) if apart[n, :n].min() < 10)
    assert 30 < n_apart < 200  # of 160 x 107 pixels
    assert (apart[n_apart:, :n_apart].min(axis=1) < 10).all()  # no other point would have fitted
    assert [(points_of(crests, 20, seed) == points[:20]).all() for seed in ("seed", "b")] == [1, 0]


def test_histograms_count_the_colours_within_42_pixels():
    pixels = load_sample_image("flower.jpg")[::4, ::4].astype(np.float32) / 255
    height, width, _ = pixels.shape
    points = np.array([(80, 60), (5, height - 1)])
    found = hsv_histograms(pixels, points)
    assert found.shape == (2, KINDS["hsv"][1]) == (2, 364)
    for (x, y), row in zip(points, found, strict=True):
        counts = np.zeros(364)
        for v in range(y - 42, y + 43):
            for u in range(x - 42, x + 43):
                if (u - x) ** 2 + (v - y) ** 2 > 42**2:
                    continue
                if not (0 <= u < width and 0 <= v < height):
                    counts[363] += 1
                    continue
                hue, saturation, value = colorsys.rgb_to_hsv(*pixels[v, u].tolist())
                a = saturation * np.cos(2 * np.pi * hue)
                b = saturation * np.sin(2 * np.pi * hue)
                cells = [min(int((part + 1) / 2 * 11), 10) for part in (a, b)]
                counts[(min(int(value * 3), 2) * 11 + cells[1]) * 11 + cells[0]] += 1
        # A pixel at the border of two cells may be rounded into the other.
        np.testing.assert_allclose(row, counts / np.linalg.norm(counts), atol=2e-3)


def test_sift_is_that_of_opencv_and_ignores_brightness():
    cv2 = pytest.importorskip("cv2")
    grey = load_sample_image("china.jpg")[::2, ::2].mean(axis=2).round().astype(np.uint8)
    points = np.array([(150, 100), (200, 60), (3, 3)])
    pixels = np.repeat(grey[..., None], 3, axis=2).astype(np.float32) / 255
    found = sift(pixels, points)
    places = [cv2.KeyPoint(float(x), float(y), 14, 0) for x, y in points]
    _, rows = cv2.SIFT_create().compute(grey, places)
    np.testing.assert_allclose(found, rows / np.linalg.norm(rows, axis=1)[:, None], atol=1e-6)
    darker = sift(0.5 * pixels + 0.2, points)
    assert ((found * darker).sum(axis=1) > 0.98).all()
    assert (found @ found.T < 0.9)[~np.eye(3, dtype=bool)].all()


@pytest.mark.usefixtures("cache")
def test_positions_are_in_pixels_of_the_picture(tmp_path):
    small = squares(tmp_path / "a.png")
    found, _, _ = patches_of([small], ["hsv"], 40, no_progress)
    assert found is not None
    points = points_of(edges_of(small).crests, 40, "content hsv")
    np.testing.assert_array_equal(found.kinds["hsv"].positions, points)
    with Image.open(small.path) as image:
        image.resize((900, 600), Image.Resampling.NEAREST).save(tmp_path / "large.png")
    found, _, _ = patches_of(
        hashed_pictures([tmp_path / "large.png"], no_progress), ["hsv"], 40, no_progress
    )
    assert found is not None
    x, y = found.kinds["hsv"].positions.T
    # The edges of the squares, three times as large.
    left, right = (
        np.abs(np.maximum(np.abs(x - middle), np.abs(y - 299.5)) - 120) < 6
        for middle in (239.5, 659.5)
    )
    assert (left | right).all()


def test_descriptions_are_kept_and_go_on_after_ctrl_c(tmp_path, cache, monkeypatch):
    monkeypatch.setattr(picture_files, "AT_ONCE", 2)
    pictures = hashed_pictures([noise(tmp_path / f"{i}.png", i) for i in range(5)], no_progress)

    def stop(what, done, total):
        assert (what, total) == ("describing patches (hsv)", 5)
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        patches_of(pictures, ["hsv"], 20, stop)
    (first,) = (cache / "patches").iterdir()
    before = first.stat().st_mtime_ns
    done = []
    found, _, _ = patches_of(pictures, ["hsv"], 20, lambda what, n, total: done.append(n))
    assert found is not None
    assert done == [3, 4, 5]
    assert first.stat().st_mtime_ns == before
    assert len(list((cache / "patches").iterdir())) == 3
    again, _, _ = patches_of(pictures, ["hsv"], 20, stop)  # reads, and shows no progress
    assert again is not None
    for one, other in zip(found.arrays(), again.arrays(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("cache")
def test_a_folder_of_pictures_gives_patches_when_asked(tmp_path):
    for channel, name in enumerate(("ant", "bee")):
        for i in range(10):
            noise(tmp_path / "mine" / name / f"{i}.png", 50 * ord(name[0]) + i, (320, 240))
        for i in range(6):  # some of them are set apart, to teach the codebooks
            colour = np.roll((100 + i, 0, 0), channel)
            plain = np.full((240, 320, 3), colour, np.uint8)
            Image.fromarray(plain).save(tmp_path / "mine" / name / f"plain{i}.png")
    registry = Registry.load()
    path = str(tmp_path / "mine")
    given = {"patches": "gb42+hsv", "n_points": "15", "visterms": "8", "pixels": "6"}
    dataset = registry.open_dataset(path, registry.read_options(path, given))
    with pytest.warns(UserWarning, match=r"plain.\.png': it has no edges"):
        rows = dataset.load()
    assert sum("no edges" in line for line in rows.left_out) >= 6
    assert rows.images is not None
    assert rows.patches is not None
    assert rows.pixels is not None
    assert list(rows.patches.kinds) == ["gb42", "hsv"]
    assert len(rows.images) == len(rows.y) == len(rows.patches) == len(rows.pixels)
    assert not any(image.name.startswith("plain") for image in rows.images)
    for number, image in enumerate(rows.images):
        (picture,) = hashed_pictures([image], no_progress)
        edges = edges_of(picture)
        points = points_of(edges.crests, 15, f"{picture.content} gb42")
        item = rows.patches[[number]].kinds["gb42"]
        np.testing.assert_array_equal(item.descriptors, geometric_blur(edges.channels, points, 42))
        assert (item.positions >= 0).all()
        assert (item.positions < (320, 240)).all()
    with pytest.warns(UserWarning, match="set apart"):
        assert ImageFolder(tmp_path / "mine", visterms=8).load().patches is None
