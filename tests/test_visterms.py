"""Visterms of pictures: counts against a slow count, and the cache that keeps them."""

import os

import numpy as np
import pytest
from PIL import Image
from scipy.spatial.distance import cdist

from oasis_bench.datasets import files, picture_files
from oasis_bench.datasets.picture_files import hashed_pictures, read_image
from oasis_bench.datasets.visterms import (
    VistermFeatures,
    block_descriptors,
    visterm_counts,
)
from oasis_bench.system import no_progress

SMALL = VistermFeatures(block=16, stride=8, min_blocks=4, n_colours=5, n_visterms=12)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(folder))
    return folder / "visterms"


def draw(folder, n, seed):
    """Save pictures of coloured stripes and noise, of several sizes."""
    folder.mkdir()
    rng = np.random.default_rng(seed)
    paths = []
    for number in range(n):
        height, width = rng.integers(40, 80, 2)
        stripes = np.sin(np.arange(width) * rng.uniform(0.1, 2))[:, None] * rng.uniform(0, 90, 3)
        pixels = (
            rng.uniform(90, 160, 3) + stripes + rng.normal(0, rng.uniform(1, 30), (height, 1, 1))
        )
        paths.append(folder / f"{number}.png")
        Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(paths[-1])
    return paths


@pytest.fixture
def images(tmp_path):
    return draw(tmp_path / "images", 8, seed=1)


@pytest.fixture
def others(tmp_path):
    return draw(tmp_path / "others", 9, seed=2)


class Stages:
    """Records what was done, as progress."""

    def __init__(self):
        self.done = {}

    def __call__(self, what, done, total):
        assert total is None or done <= total
        self.done[what] = done


def count(images, others, features=SMALL, progress=no_progress):
    pictures = hashed_pictures([*images, *others], progress)
    n = len(images)
    return visterm_counts(pictures[:n], pictures[n:], features, progress)


def same(one, two):
    (rows, left_out), (others, others_left_out) = one, two
    return (
        rows.kept == others.kept
        and (rows.left_out, left_out) == (others.left_out, others_left_out)
        and rows.X.shape == others.X.shape
        and (rows.X != others.X).nnz == 0
    )


class TestCounts:
    def test_each_row_counts_the_nearest_visterm_of_each_block(self, images, others, cache):
        found, codebook_left_out = count(images, others)
        with np.load(next(cache.glob("codebook-*.npz"))) as codebook:
            colours, centres = codebook["colours"], codebook["visterms"]
        assert colours.shape == (5, 3)
        expected = []
        for path in images:
            rows = block_descriptors(read_image(path), SMALL, colours)
            nearest = cdist(rows.astype(float), centres.astype(float)).argmin(axis=1)
            expected.append(np.bincount(nearest, minlength=12))
        np.testing.assert_array_equal(found.X.toarray(), expected)
        assert found.X.dtype == np.float32
        assert found.X.has_canonical_format
        assert found.kept == list(range(8))
        assert found.left_out == codebook_left_out == []

    def test_visterms_tell_textures_and_colours_apart(self, tmp_path):
        """Three kinds of flat or striped pictures: the codebook finds the three kinds."""
        kinds = [np.full((48, 48, 3), 30), np.full((48, 48, 3), 220), np.zeros((48, 48, 3))]
        kinds[2][:, ::2] = (250, 0, 0)
        paths = []
        for number, pixels in enumerate(kinds * 4):
            paths.append(tmp_path / f"{number}.png")
            noise = np.random.default_rng(number).integers(0, 3, pixels.shape)
            Image.fromarray((pixels + noise).astype(np.uint8)).save(paths[-1])
        features = VistermFeatures(block=16, stride=16, min_blocks=9, n_colours=3, n_visterms=3)
        counts = count(paths, paths, features)[0].X.toarray()
        assert sorted(np.unique(counts, axis=0).tolist()) == [[0, 0, 9], [0, 9, 0], [9, 0, 0]]
        np.testing.assert_array_equal(counts[:3], counts[3:6])


class TestFilesLeftOut:
    def test_they_are_named_with_the_reason_and_the_others_kept(self, tmp_path, images, others):
        text = tmp_path / "text.jpg"
        text.write_text("no picture")
        cut = tmp_path / "cut.png"
        cut.write_bytes(images[0].read_bytes()[:-2000])
        tiny = tmp_path / "tiny.png"
        Image.new("RGB", (1, 1)).save(tiny)
        gone = tmp_path / "gone.png"
        paths = [text, *images[:2], cut, tiny, gone, images[2]]
        for _ in range(2):  # computed, then read from the cache
            found, codebook_left_out = count(paths, [*others, text, tiny])
            assert found.kept == [1, 2, 6]
            reasons = {path: fault.reason for path, fault in found.left_out}
            assert list(reasons) == [text, cut, tiny, gone]
            assert "no picture in any of" in reasons[text]
            assert "truncated" in reasons[cut]
            assert "1 x 1 pixels have room for 0 only" in reasons[tiny]
            assert reasons[gone] == "No such file or directory"
            assert [path for path, fault in found.left_out if fault.too_small] == [tiny]
            assert [path for path, _ in codebook_left_out] == [text, tiny]
        alone, _ = count(images[:3], others)
        np.testing.assert_array_equal(found.X.sum(axis=1), alone.X.sum(axis=1))


class TestSameResult:
    def test_whatever_the_workers_and_the_order_of_codebook_images(
        self, images, others, monkeypatch, tmp_path
    ):
        monkeypatch.setattr(picture_files, "n_cores", lambda: 1)
        one = count(images, others)
        monkeypatch.setattr(picture_files, "n_cores", lambda: 3)
        monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "elsewhere"))
        assert same(one, count(images, others[::-1]))


def stages(images, others, features=SMALL):
    """Run, and return the stages that were run beside the hashing of files."""
    progress = Stages()
    count(images, others, features, progress)
    assert progress.done.pop("reading picture files") == len({*images, *others})
    return progress.done


LEARNING = {"sampling colours": 9, "sampling blocks": 9, "learning 12 visual words": 1}
COUNTING = {"counting visual words": 8}


class TestCache:
    def test_a_second_run_decodes_nothing(self, images, others):
        assert stages(images, others) == LEARNING | COUNTING
        assert stages(images, others) == {}

    def test_files_are_known_by_content_not_by_name_or_date(self, tmp_path, images, others):
        stages(images, others)
        for path in (*images, *others):
            os.utime(path, (1, 1))
        renamed = [path.rename(tmp_path / f"renamed-{path.name}") for path in images]
        assert stages(renamed, others) == {}

    @pytest.mark.parametrize(
        "change",
        [{"stride": 16}, {"scale": 1.5}, {"min_blocks": 5}, {"n_colours": 6}],
    )
    def test_a_changed_parameter_is_another_result(self, images, others, change):
        stages(images, others)
        parameters = {"block": 16, "stride": 8, "min_blocks": 4, "n_colours": 5, "n_visterms": 12}
        changed = VistermFeatures(**parameters | change)
        assert stages(images, others, changed) == LEARNING | COUNTING

    def test_changed_code_is_another_result(self, images, others, monkeypatch):
        stages(images, others)
        monkeypatch.setattr(files, "version", lambda name: "another")
        assert stages(images, others) == LEARNING | COUNTING

    @pytest.mark.parametrize("kind", ["codebook", "counts"])
    def test_a_file_cut_or_spoilt_anywhere_is_never_used(self, images, others, cache, kind):
        good = count(images, others)
        codebook = next(cache.glob("codebook-*.npz"))
        (counts,) = set(cache.iterdir()) - {codebook}
        path = {"codebook": codebook, "counts": counts}[kind]
        whole = path.read_bytes()
        rng = np.random.default_rng(0)
        for content in (b"", b"text", whole[:-1], whole[: len(whole) // 2]):
            path.write_bytes(content)
            assert same(good, count(images, others))
            assert path.stat().st_size == len(whole)
        for place in rng.integers(0, len(whole), 6):
            spoilt = bytearray(whole)
            spoilt[place] ^= 1 << rng.integers(8)
            path.write_bytes(spoilt)
            if kind == "codebook":
                counts.unlink(missing_ok=True)
            assert same(good, count(images, others))
