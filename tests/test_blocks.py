"""Blocks of pictures: against scikit-image, NumPy's histogram and pictures made on the spot."""

import io

import numpy as np
import pytest
from PIL import Image
from skimage.feature import local_binary_pattern

from oasis_bench.data import thumbnail
from oasis_bench.datasets.picture_files import UnusableImageError, read_image
from oasis_bench.datasets.visterms import (
    VistermFeatures,
    block_descriptors,
    lbp_codes,
    nearest_colours,
)

ORIENTATION = 0x0112
TURNED_RIGHT_TO_SEE = 6


def noise(height, width, channels=3, seed=0):
    """Noise over a smooth ground with a flat patch: textured, and with ties."""
    rng = np.random.default_rng(seed)
    shape = (height, width, channels) if channels else (height, width)
    pixels = rng.integers(0, 256, shape) // 4 + np.linspace(0, 190, width).reshape(
        (1, width, 1) if channels else (1, width)
    )
    pixels[: height // 2, : width // 3] = 77
    return pixels.astype(np.uint8)


@pytest.fixture(scope="module")
def colours():
    return np.random.default_rng(1).integers(0, 256, (20, 3)).astype(np.uint8)


class TestPatterns:
    @pytest.mark.parametrize("shape", [(70, 90), (1, 1), (2, 5), (3, 300), (257, 3)])
    def test_they_are_those_of_scikit_image(self, shape):
        grey = noise(*shape, channels=0)
        np.testing.assert_array_equal(
            lbp_codes(grey), local_binary_pattern(grey, 8, 2, "nri_uniform")
        )

    def test_a_strip_of_rows_sees_its_neighbours(self):
        grey = noise(50, 40, channels=0)
        strips = [lbp_codes(grey, 0, 1), lbp_codes(grey, 1, 30), lbp_codes(grey, 30, 50)]
        np.testing.assert_array_equal(np.concatenate(strips), lbp_codes(grey))


class TestColours:
    def test_the_nearest_is_found_for_any_colour(self, colours):
        pixels = np.random.default_rng(2).integers(0, 256, (5000, 3))
        pixels = np.concatenate([pixels, colours, [[0, 0, 0], [255, 255, 255]]])
        distances = ((pixels[:, None] - colours.astype(int)) ** 2).sum(axis=2)
        found = nearest_colours(colours.tobytes())[pixels @ [1, 256, 65536]]
        np.testing.assert_array_equal(found, distances.argmin(axis=1))

    def test_of_equally_near_colours_it_is_the_first(self):
        colours = np.array([[9, 9, 9], [0, 0, 0], [0, 0, 2], [0, 0, 2]], np.uint8)
        twice = nearest_colours(colours.tobytes())
        assert twice[65536 * 1] == 1
        assert twice[65536 * 2] == 2


class TestLayout:
    def test_blocks_of_a_small_picture_by_hand(self):
        # Corners at 0, 32 and 64 of 128 pixels, and at 0 and 32 of 96.
        assert VistermFeatures().n_blocks(128, 96) == 6
        assert VistermFeatures().n_blocks(127, 96) == 4
        assert VistermFeatures().n_blocks(200, 63) == 0
        assert VistermFeatures().n_blocks(10, 10) == 0

    def test_scales_shrink_until_fewer_than_ten_blocks_are_left(self):
        # 300 x 200: 8 x 5 blocks; 240 x 160: 6 x 4; 192 x 128: 5 x 3; 154 x 102: 3 x 2.
        assert VistermFeatures().sizes(300, 200) == [(300, 200), (240, 160), (192, 128)]

    def test_a_picture_of_too_few_blocks_is_unusable(self):
        with pytest.raises(
            UnusableImageError, match="64 x 64 pixels, but 150 x 150 pixels have room for 9 only"
        ):
            VistermFeatures().sizes(150, 150)
        assert VistermFeatures(min_blocks=9).sizes(150, 150) == [(150, 150)]


def slow_descriptors(image, layout, colours):
    """The definition, block by block."""
    rows = []
    width, height = image.size
    for step in range(100):
        size = (round(width / layout.scale**step), round(height / layout.scale**step))
        shrunk = image if step == 0 else image.resize(size, Image.Resampling.BILINEAR)
        codes = local_binary_pattern(np.asarray(shrunk.convert("L")), 8, 2, "nri_uniform")
        pixels = np.asarray(shrunk).astype(int)
        nearest = ((pixels[:, :, None] - colours.astype(int)) ** 2).sum(axis=3).argmin(axis=2)
        found = []
        for top in range(0, size[1] - layout.block + 1, layout.stride):
            for left in range(0, size[0] - layout.block + 1, layout.stride):
                block = np.s_[top : top + layout.block, left : left + layout.block]
                texture = np.histogram(codes[block], np.arange(60))[0] / layout.block**2
                colour = np.histogram(nearest[block], np.arange(len(colours) + 1))[0]
                found.append([*texture, *colour / layout.block**2])
        if len(found) < layout.min_blocks:
            return np.array(rows)
        rows += found
    raise AssertionError


class TestDescriptors:
    @pytest.mark.parametrize(
        "layout",
        [
            VistermFeatures(),
            VistermFeatures(16, 8, 1.5, 3),
            VistermFeatures(30, 10),
            VistermFeatures(8, 8),
        ],
    )
    @pytest.mark.parametrize("size", [(203, 150), (131, 200)])
    def test_they_are_the_histograms_of_each_block(self, layout, size, colours):
        image = Image.fromarray(noise(*size))
        expected = slow_descriptors(image, layout, colours)
        found = block_descriptors(image, layout, colours)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-7)


def saved(path, image, **options):
    image.save(path, **options)
    return path


class TestReading:
    def test_a_palette_is_looked_up(self, tmp_path):
        palette = Image.fromarray(noise(20, 30)).quantize(16)
        image = read_image(saved(tmp_path / "a.gif", palette))
        np.testing.assert_array_equal(np.asarray(image), np.asarray(palette.convert("RGB")))

    def test_cmyk_is_converted(self, tmp_path):
        ink = Image.new("CMYK", (30, 20), (255, 0, 0, 0))  # full cyan
        image = read_image(saved(tmp_path / "a.jpg", ink, quality=100))
        np.testing.assert_allclose(np.asarray(image)[10, 10].astype(int), (0, 255, 255), atol=2)

    @pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
    def test_16_bits_are_scaled_not_clipped(self, tmp_path, name):
        deep = np.array([[0, 255, 256], [32768, 65280, 65535]], np.uint16)
        image = read_image(saved(tmp_path / name, Image.fromarray(deep)))
        np.testing.assert_array_equal(np.asarray(image)[..., 1], [[0, 0, 1], [128, 255, 255]])

    @pytest.mark.parametrize("name", ["a.png", "a.tif"])
    @pytest.mark.parametrize(
        ("largest", "divisor"), [(255, 1), (1023, 4), (1024, 16), (4095, 16), (16383, 64)]
    )
    def test_a_picture_of_12_bits_in_a_file_of_16_is_not_black(
        self, tmp_path, name, largest, divisor
    ):
        deep = np.array([[0, largest // 3], [largest // 2, largest]], np.uint16)
        path = saved(tmp_path / name, Image.fromarray(deep))
        np.testing.assert_array_equal(np.asarray(read_image(path))[..., 0], deep // divisor)
        small = np.asarray(Image.open(io.BytesIO(thumbnail(path))).convert("L")).astype(int)
        assert abs(small - deep // divisor).max() < 20  # JPEG

    def test_greys_of_32_bits_are_scaled(self, tmp_path):
        deep = np.array([[0, 2**19], [2**20, 2**24 - 1]], np.int32)
        image = read_image(saved(tmp_path / "a.tif", Image.fromarray(deep)))
        np.testing.assert_array_equal(np.asarray(image)[..., 2], [[0, 8], [16, 255]])

    @pytest.mark.parametrize("mode", ["RGBA", "LA"])
    def test_transparent_pixels_are_laid_on_white(self, tmp_path, mode):
        glass = Image.new(mode, (4, 4), (0,) * len(mode))
        glass.putpixel((0, 0), (*(0,) * (len(mode) - 1), 255))
        pixels = np.asarray(read_image(saved(tmp_path / "a.png", glass)))
        assert pixels[0, 0].tolist() == [0, 0, 0]
        assert pixels[1, 1].tolist() == [255, 255, 255]

    def test_a_transparent_palette_colour_is_white(self, tmp_path):
        palette = Image.new("P", (4, 4), 0)
        palette.putpalette([10, 20, 30, 40, 50, 60])
        path = saved(tmp_path / "a.gif", palette, transparency=0)
        assert np.asarray(read_image(path))[1, 1].tolist() == [255, 255, 255]

    def test_the_exif_orientation_is_applied(self, tmp_path):
        upright = Image.fromarray(noise(20, 30))
        exif = Image.Exif()
        exif[ORIENTATION] = TURNED_RIGHT_TO_SEE
        lying = upright.transpose(Image.Transpose.ROTATE_90)
        path = saved(tmp_path / "a.png", lying, exif=exif)
        np.testing.assert_array_equal(np.asarray(read_image(path)), np.asarray(upright))


def jpeg(pixels):
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "JPEG")
    return buffer.getvalue()


class TestUnusableFiles:
    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (b"a text that is called .jpg", "no picture in any of JPEG, PNG"),
            (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "no picture in any of"),
            (jpeg(noise(90, 90))[:900], "truncated"),
        ],
    )
    def test_the_reason_is_one_line_without_the_name(self, tmp_path, content, reason):
        path = tmp_path / "odd.jpg"
        path.write_bytes(content)
        with pytest.raises(UnusableImageError, match=reason) as caught:
            read_image(path)
        assert "\n" not in str(caught.value)
        assert "odd" not in str(caught.value)

    @pytest.mark.parametrize("limit", [399, 150])
    @pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
    def test_a_decompression_bomb_is_not_decoded(self, tmp_path, monkeypatch, limit):
        path = saved(tmp_path / "a.png", Image.new("RGB", (20, 20)))
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(UnusableImageError, match="400 pixels"):
            read_image(path)

    def test_floats_have_no_known_range(self, tmp_path):
        path = saved(tmp_path / "a.tif", Image.fromarray(np.ones((4, 4), np.float32)))
        with pytest.raises(UnusableImageError, match="floats of no known range"):
            read_image(path)
