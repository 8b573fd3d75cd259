"""Sets of local descriptors: what is refused, and the patches of some of the pictures."""

import joblib
import numpy as np
import pytest

from oasis_bench.data import LabelledRows, Patches, PatchKind, check_items
from oasis_bench.system import UsageError

SIZES = (3, 1, 4, 2)
BLUR = [np.full((size, 5), 10 * i) + np.arange(size)[:, None] for i, size in enumerate(SIZES)]
COLOUR = [np.full((2, 3), i) for i in range(4)]
PLACES = [np.stack([np.arange(size), np.full(size, i)], 1) for i, size in enumerate(SIZES)]
LINES = [np.zeros((2, 2))] * 4


@pytest.fixture
def patches():
    return Patches({"blur": PatchKind.joined(BLUR, PLACES), "hsv": PatchKind.joined(COLOUR, LINES)})


def test_pictures_come_back_as_they_were_joined(patches):
    assert (patches.shape, len(patches), patches.dtype) == ((4,), 4, np.float32)
    assert patches.kinds["blur"].offsets.tolist() == [0, 3, 4, 8, 10]
    for number, item in enumerate(patches):
        np.testing.assert_array_equal(item["blur"], BLUR[number])
        np.testing.assert_array_equal(item["hsv"], COLOUR[number])


@pytest.mark.parametrize(
    ("key", "numbers"),
    [
        (np.array([2, 0, 2]), [2, 0, 2]),
        (slice(1, 3), [1, 2]),
        (np.array([True, False, False, True]), [0, 3]),
        ([-1], [3]),
        ((np.array([3, 1]), ...), [3, 1]),
        (np.array([], dtype=int), []),
    ],
)
def test_an_index_gives_the_patches_of_those_pictures(patches, key, numbers):
    part = patches[key]
    assert part.shape == (len(numbers),)
    for number, item in zip(numbers, part, strict=True):
        np.testing.assert_array_equal(item["blur"], BLUR[number])
        np.testing.assert_array_equal(item["hsv"], COLOUR[number])
    places = part.kinds["blur"].positions
    np.testing.assert_array_equal(places, np.concatenate([PLACES[i] for i in numbers] or [places]))


DESCRIPTORS, OFFSETS, POSITIONS = np.ones((3, 2), "f4"), np.array([0, 1, 3]), np.ones((3, 2), "f4")


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        (
            (DESCRIPTORS.astype(float), OFFSETS, POSITIONS),
            "descriptors .* float64: float32 of shape",
        ),
        ((DESCRIPTORS * np.nan, OFFSETS, POSITIONS), "descriptors .* NaN or infinite"),
        ((DESCRIPTORS, OFFSETS, POSITIONS[:2]), r"shape \(2, 2\) .* of shape \(3, 2\) is needed"),
        ((DESCRIPTORS, OFFSETS.astype(np.int32), POSITIONS), "type int32: int64"),
        ((DESCRIPTORS, OFFSETS[:2], POSITIONS), "from 0 to 3"),
        ((DESCRIPTORS, np.array([0, 3, 3]), POSITIONS), "picture 1 has 0 patches"),
        ((DESCRIPTORS, np.array([0, 4, 3]), POSITIONS), "picture 1 has -1 patches"),
    ],
)
def test_patches_that_break_a_rule_are_refused(arrays, line):
    with pytest.raises(UsageError, match=line):
        PatchKind(*arrays)


def labelled(**items):
    return LabelledRows(np.eye(4), np.array([0, 0, 1, 1]), ("a", "b"), **items)


def test_a_data_set_gives_its_items_by_kind(patches):
    pixels = np.arange(48, dtype=np.uint8).reshape(4, 2, 2, 3)
    rows = labelled(patches=patches, pixels=pixels)
    assert rows.items("patches") is patches
    assert rows.items("pixels") is pixels
    assert rows.items("rows") is rows.X
    both = rows.items("patches+pixels", "hsv")[np.array([2, 0])]
    assert list(both.kinds) == ["hsv"]
    np.testing.assert_array_equal(both.pixels, pixels[[2, 0]])
    check_items("patches+pixels", both)
    with pytest.raises(UsageError, match="without pixels: give Patches"):
        check_items("patches+pixels", patches)
    with pytest.raises(UsageError, match="gives rows and patches, not pixels"):
        labelled(patches=patches).items("pixels")
    with pytest.raises(UsageError, match="'hsv': 4, 'pixels': 3"):
        Patches(patches.kinds, pixels[:3])


def test_the_hash_of_the_content_holds_pixels_and_patches(patches):
    pixels = np.zeros((4, 2, 2, 3), dtype=np.uint8)
    other = Patches({**patches.kinds, "hsv": PatchKind.joined(COLOUR[::-1], LINES)})
    renamed = Patches(dict(zip(("one", "two"), patches.kinds.values(), strict=True)))
    given = [{}, {"pixels": pixels}, {"pixels": pixels + np.uint8(1)}]
    given += [{"patches": some} for some in (patches, other, renamed)]
    assert len({labelled(**items).content_hash() for items in given}) == len(given)


def test_patches_on_disk_are_mapped_and_not_read(patches, tmp_path):
    joblib.dump(labelled(patches=patches), tmp_path / "rows")
    mapped = joblib.load(tmp_path / "rows", mmap_mode="r").patches
    assert isinstance(mapped.kinds["blur"].descriptors, np.memmap)
    np.testing.assert_array_equal(next(iter(mapped[[2]]))["blur"], BLUR[2])
