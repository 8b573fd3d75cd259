"""Hand-made features of pictures: each against its definition, their codebooks and their cache."""

from itertools import product

import numpy as np
import pytest
from PIL import Image
from skimage.feature import local_binary_pattern

from oasis_bench.datasets import hand_made
from oasis_bench.datasets.hand_made import hand_made_rows
from oasis_bench.datasets.picture_files import hashed_pictures
from oasis_bench.system import UsageError, no_progress

pytest.importorskip("cv2", reason='pip install -e ".[handmade]" is needed')


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "features"


def noise(seed):
    """A picture of 128 x 128 pixels of smooth noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    return Image.fromarray(pixels).resize((128, 128), Image.Resampling.BILINEAR)


@pytest.fixture
def pictures(tmp_path):
    for seed in range(5):
        noise(seed).save(tmp_path / f"{seed}.png")
    return hashed_pictures(sorted(tmp_path.glob("*.png")), no_progress)


def test_a_colour_counts_in_its_cell_of_lab():
    for colour, (level, a, b) in {
        "red": (4, 8, 8),  # L 53.2, a 80.1, which counts as 72, b 67.2
        "white": (7, 4, 4),
        "black": (0, 4, 4),
        "blue": (2, 8, 0),  # L 32.3, a 79.2, b -107.9
    }.items():
        histogram = hand_made.lab_histogram(Image.new("RGB", (128, 128), colour))
        expected = np.zeros((8, 9, 9))
        expected[level, a, b] = 128  # the root of the number of pixels
        np.testing.assert_array_equal(histogram, expected.ravel())


def test_gradients_of_a_ramp_have_one_orientation():
    ramp = np.repeat(np.arange(128, dtype=np.uint8)[None, :, None], 128, axis=0).repeat(3, axis=2)
    described = hand_made.oriented_gradients(Image.fromarray(ramp)).reshape(-1, 4, 9)
    assert described.shape == (49, 4, 9)
    assert (described[..., 1:] == 0).all()
    np.testing.assert_allclose((described**2).sum(axis=(1, 2)), 1, rtol=1e-6)
    turned = hand_made.oriented_gradients(Image.fromarray(ramp.transpose(1, 0, 2)))
    assert set(np.flatnonzero(turned.reshape(-1, 9).any(axis=0))) == {4}


def test_patterns_are_those_of_scikit_image_cell_by_cell():
    image = noise(0)
    codes = local_binary_pattern(np.asarray(image.convert("L")), 8, 2, "nri_uniform").astype(int)
    counts = hand_made.pattern_histograms(image).reshape(4, 4, 59) ** 2
    for row, column in product(range(4), range(4)):
        cell = codes[32 * row : 32 * row + 32, 32 * column : 32 * column + 32]
        np.testing.assert_allclose(counts[row, column], np.bincount(cell.ravel(), minlength=59))


def haar_by_averages(values):
    """The decomposition of each row as Jacobs et al. write it, by averages and differences."""
    values = values / np.sqrt(values.shape[1])
    n = values.shape[1]
    while n > 1:
        n //= 2
        pairs = values[:, : 2 * n].reshape(len(values), n, 2)
        values[:, : 2 * n] = np.hstack([pairs.sum(axis=2), pairs[..., 0] - pairs[..., 1]]) / 2**0.5
    return values


def test_a_wavelet_signature_has_the_signs_of_the_largest_coefficients():
    image = noise(1)
    signature = hand_made.wavelet_signature(image).reshape(3, 32, 32)
    for channel, found in zip(
        np.moveaxis(np.asarray(image) / 255 @ hand_made.YIQ.T, 2, 0),
        signature,
        strict=True,
    ):
        coefficients = haar_by_averages(haar_by_averages(channel).T).T[:32, :32]
        assert found[0, 0] == pytest.approx(channel.mean())
        assert np.abs(coefficients[0, 0]) == pytest.approx(np.abs(channel.mean()))
        sizes = np.abs(coefficients)
        sizes[0, 0] = 0
        kept = sizes >= np.sort(sizes.ravel())[-60]
        np.testing.assert_array_equal(found[kept], np.sign(coefficients[kept]))
        assert not found[~kept][1:].any()


def test_sift_of_a_ramp_has_one_orientation():
    ramp = np.repeat(np.arange(128, dtype=np.uint8)[None, :, None], 128, axis=0).repeat(3, axis=2)
    described = hand_made.dense_sift(Image.fromarray(ramp))
    assert described.shape == (2 * 15 * 15, 128)
    np.testing.assert_allclose(np.linalg.norm(described, axis=1), 1, rtol=1e-6)
    energy = (described**2).reshape(-1, 16, 8).sum(axis=(0, 1))
    assert energy[0] > 0.99 * energy.sum()  # to the right


def test_a_bag_of_words_counts_the_nearest_words():
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(1000, 128)).astype(np.float32)
    rows = rng.normal(size=(50, 128)).astype(np.float32)
    nearest = ((rows[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    bag = hand_made.bag_of_words(rows, {"centres": centres})
    np.testing.assert_allclose(bag**2, np.bincount(nearest, minlength=1000))


def test_a_fisher_vector_is_the_formula():
    """Perronnin et al. 2010, eq. 7 to 9 with signed roots: gradients in weights, means, widths."""
    rows = hand_made.dense_sift(noise(2))
    codebook = hand_made.learn_gaussians(np.concatenate([rows, hand_made.dense_sift(noise(3))]))
    x = (rows - codebook["mean"]) @ codebook["axes"].T
    w, means, variances = codebook["weights"], codebook["means"], codebook["covariances"]
    z = (x[:, None] - means) / np.sqrt(variances)
    log_density = -0.5 * (z**2 + np.log(2 * np.pi * variances)).sum(axis=2) + np.log(w)
    shares = np.exp(log_density - np.logaddexp.reduce(log_density, axis=1)[:, None])
    n = len(x)
    of_means = np.einsum("nk,nkd->kd", shares, z) / (n * np.sqrt(w)[:, None])
    of_widths = np.einsum("nk,nkd->kd", shares, z**2 - 1) / (n * np.sqrt(2 * w)[:, None])
    of_weights = (shares.mean(axis=0) - w) / np.sqrt(w)
    expected = np.concatenate([of_weights, of_means.ravel(), of_widths.ravel()])
    expected = np.sign(expected) * np.sqrt(np.abs(expected))
    expected /= np.linalg.norm(expected)
    found = hand_made.fisher_vector(rows, codebook)
    assert found.shape == (32 + 2 * 32 * 32,)
    np.testing.assert_allclose(np.sort(np.abs(found)), np.sort(np.abs(expected)), atol=2e-3)


def test_a_texton_pyramid_says_which_occur_where():
    responses = hand_made.texton_responses(noise(4))
    assert responses.shape == (64 * 64, 17)
    codebook = hand_made.learn_textons(responses)
    pyramid = hand_made.texton_pyramid(responses, codebook)
    scaled = responses / codebook["scale"]
    nearest = ((scaled[:, None] - codebook["centres"]) ** 2).sum(axis=2).argmin(axis=1)
    grid = nearest.reshape(64, 64)
    levels = np.split(pyramid, [256, 5 * 256])
    for n, level in zip((1, 2, 4), levels, strict=True):
        side = 64 // n
        for number, cell in enumerate(level.reshape(n * n, 256)):
            row, column = divmod(number, n)
            part = grid[side * row : side * (row + 1), side * column : side * (column + 1)]
            assert set(np.flatnonzero(cell)) == set(part.ravel())


@pytest.mark.parametrize(
    ("option", "width"),
    [
        *(("lab", 648), ("hog", 1764), ("lbp", 944), ("wavelet", 3072)),
        *(("sift-bow", 1000), ("fisher", 2080), ("texton", 5376)),
    ],
)
def test_rows_are_read_from_the_cache_the_second_time(option, width, pictures, monkeypatch):
    def teachers():
        assert option in hand_made.WORDS, "nothing is learned for this one"
        return pictures[:3]

    rows = hand_made_rows(option, [*pictures, pictures[0]], no_progress, teachers)
    assert rows.X.shape == (6, width)
    assert rows.X.dtype == np.float32
    np.testing.assert_array_equal(rows.X[5], rows.X[0])
    assert not np.array_equal(rows.X[1], rows.X[0])

    def never(*_):
        raise AssertionError("nothing is left to be computed")

    monkeypatch.setattr(hand_made.picture_files, "resized", never)
    again = hand_made_rows(option, [*pictures, pictures[0]], no_progress, teachers)
    np.testing.assert_array_equal(again.X, rows.X)


def test_a_codebook_is_of_the_teachers_alone(pictures):
    all_rows = hand_made_rows("sift-bow", pictures, no_progress, lambda: pictures[:3])
    one_row = hand_made_rows("sift-bow", pictures[4:], no_progress, lambda: pictures[2::-1])
    np.testing.assert_array_equal(one_row.X[0], all_rows.X[4])
    with pytest.raises(UsageError, match="2 codebook images hold 900 descriptors, and 1000"):
        hand_made_rows("fisher", pictures, no_progress, lambda: pictures[:2])
