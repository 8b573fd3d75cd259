"""The data sets of pictures: official layouts small and real, subsets, and the user's folder."""

import os
import shutil
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy import sparse
from scipy.spatial.distance import cdist

from oasis_bench.datasets import (
    Caltech101,
    Caltech256,
    Corel5k,
    Corel5kCDs,
    ImageFolder,
    TinyImageNet,
)
from oasis_bench.datasets.picture_files import hashed_pictures, near_duplicates, read_image
from oasis_bench.datasets.picture_sets import CALTECH256_FOLDERS
from oasis_bench.system import UsageError, no_progress

REAL = Path(os.environ.get("OASIS_BENCH_DATA", os.devnull))


def needs(folder):
    return pytest.mark.skipif(
        not (REAL / folder).is_dir(), reason=f"OASIS_BENCH_DATA does not hold {folder}"
    )


def picture(path, seed=0, size=(200, 160)):
    """A picture of coloured noise, coarser or finer by its seed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    grain = 2 + seed % 5
    pixels = rng.integers(0, 256, (size[1] // grain, size[0] // grain, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize(size).save(path)
    return path


@pytest.fixture
def data(tmp_path, monkeypatch):
    """An empty OASIS_BENCH_DATA and an empty cache."""
    data = tmp_path / "data"
    data.mkdir()
    monkeypatch.setenv("OASIS_BENCH_DATA", str(data))
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    return data


@pytest.fixture
def caltech101(data):
    folder = data / "caltech101" / "101_ObjectCategories"
    for i in range(3):
        picture(folder / "ant" / f"image_{i:04}.jpg", i)
        picture(folder / "water_lilly" / f"image_{i:04}.jpg", 10 + i)
    picture(folder / "BACKGROUND_Google" / "image_0001.jpg")
    (folder / "BACKGROUND_Google" / "tmp").write_bytes(b"")
    return folder


@pytest.fixture
def caltech256(data):
    folder = data / "caltech256" / "256_ObjectCategories"
    for i in range(1, 4):
        picture(folder / "056.dog" / f"056_{i:04}.jpg", 20 + i)
        picture(folder / "250.zebra" / f"250_{i:04}.jpg", 30 + i)
    picture(folder / "257.clutter" / "257_0001.jpg")
    picture(folder / "056.dog" / "greg" / "056_0001.jpg")  # the official release has such files
    (folder / "056.dog" / "RENAME2").write_bytes(b"")
    return folder


def found(dataset, below):
    images = dataset.find_images()
    return [(path.relative_to(below).as_posix(), label) for path, label in images]


class TestCaltechSubsets:
    def test_each_has_its_number_of_official_classes(self):
        for name, subset in Caltech256.class_subsets.items():
            assert len(subset) == len(set(subset)) == int(name.lstrip("BEasyVr"))
            assert set(subset) <= set(CALTECH256_FOLDERS)
        assert len(CALTECH256_FOLDERS) == 257

    def test_the_classes_of_249_are_1_to_250_without_129(self):
        numbers = [int(name[:3]) for name in Caltech256.class_subsets["B249"]]
        assert numbers == [*range(1, 129), *range(130, 251)]


class TestLayouts:
    def test_caltech256_is_the_official_folders_without_clutter(self, caltech256, data):
        assert found(Caltech256(), caltech256) == [
            (f"{folder}/{folder[:3]}_{i:04}.jpg", folder)
            for folder in ("056.dog", "250.zebra")
            for i in range(1, 4)
        ]

    def test_caltech101_is_every_folder_but_the_background(self, caltech101):
        assert found(Caltech101(), caltech101) == [
            (f"{name}/image_{i:04}.jpg", name) for name in ("ant", "water_lilly") for i in range(3)
        ]

    def test_tiny_imagenet_is_the_training_part(self, data):
        home = data / "tiny-imagenet-200"
        for wnid in ("n02124075", "n01443537"):
            picture(home / "train" / wnid / "images" / f"{wnid}_0.JPEG", size=(64, 64))
            (home / "train" / wnid / f"{wnid}_boxes.txt").write_text("")
        picture(home / "val" / "images" / "val_0.JPEG", size=(64, 64))
        assert found(TinyImageNet(), home) == [
            (f"train/{wnid}/images/{wnid}_0.JPEG", wnid) for wnid in ("n01443537", "n02124075")
        ]

    @needs("caltech256")
    def test_the_real_caltech256(self):
        counts = Counter(label for _, label in Caltech256().find_images())
        assert (counts.total(), len(counts)) == (1123, 10)
        assert min(counts.values()) >= 80
        assert set(counts) <= set(CALTECH256_FOLDERS)

    @needs("caltech101")
    def test_the_real_caltech101(self):
        counts = Counter(label for _, label in Caltech101().find_images())
        assert (counts.total(), len(counts)) == (5514, 101)
        assert (min(counts.values()), max(counts.values())) == (31, 65)

    @needs("tiny-imagenet-200")
    def test_the_real_tiny_imagenet(self):
        counts = Counter(label for _, label in TinyImageNet().find_images())
        assert (counts.total(), set(counts.values())) == (13000, {65})

    @needs("corel5k")
    def test_the_real_corel5k(self):
        images = Corel5k().find_images()
        parts = Counter(path.parent.name for path, _ in images)
        assert parts == {"train_jpeg": 4500, "test_jpeg": 499}
        assert len({word for _, words in images for word in words}) == 374
        assert images[0][0].name == "1000.jpeg"
        assert images[0][1] == ("city", "mountain", "sky", "sun")
        assert {len(set(words)) for _, words in images} == {1, 2, 3, 4, 5}
        of_cds = Corel5kCDs().find_images()
        assert [path for path, _ in of_cds] == [path for path, _ in images]
        counts = Counter(label for _, label in of_cds)
        assert len(counts) == 50
        assert set(counts.values()) <= {99, 100}


class TestCopies:
    def shades(self, folder, n, seed):
        """Pictures of 16 x 16 greys, many of them near to one another."""
        rng = np.random.default_rng(seed)
        base = rng.integers(60, 190, (16, 16))
        paths = []
        for i in range(n):
            pixels = base + rng.integers(-8, 9) + rng.integers(-7, 8, (16, 16))
            paths.append(folder / f"{seed}-{i}.png")
            Image.fromarray(pixels.astype(np.uint8)).save(paths[-1])
        return paths

    def test_they_are_those_of_all_distances(self, data):
        pictures = hashed_pictures(self.shades(data, 700, 1), no_progress)
        of = pictures[:100:2]
        rest = [picture for picture in pictures if picture not in of]
        rows, others = (
            np.array([np.asarray(Image.open(one.path), float).ravel() for one in some])
            for some in (rest, of)
        )
        near = (cdist(rows, others) / 16).min(axis=1) <= 6
        assert 50 < near.sum() < 600
        expected = {one.content for one, is_near in zip(rest, near, strict=True) if is_near}
        for _ in range(2):  # computed, then with thumbnails from the cache
            assert near_duplicates(rest, of, no_progress) == expected

    @needs("caltech256")
    @needs("caltech101")
    def test_the_real_ones_are_29(self, data, monkeypatch):
        monkeypatch.setenv("OASIS_BENCH_DATA", str(REAL))
        some, others = (
            hashed_pictures([path for path, _ in dataset.find_images()], no_progress)
            for dataset in (Caltech101(), Caltech256())
        )
        copies = near_duplicates(some, others, no_progress)
        assert len(copies) == 29
        equal = {one.content for one in others}
        assert [one.path.name for one in some if one.content in copies - equal] == [
            "image_0033.jpg"
        ]


class TestRows:
    def test_rows_are_counts_of_all_blocks_with_their_labels_and_pictures(
        self, caltech256, caltech101
    ):
        rows = Caltech256(visterms=8).load()
        assert isinstance(rows.X, sparse.csr_array)
        assert rows.X.shape == (6, 8)
        assert rows.X.dtype == np.float32
        # 200 x 160 holds 5 x 4 blocks of 64 every 32, 160 x 128 4 x 3, and 128 x 102 less than 10.
        np.testing.assert_array_equal(rows.X.sum(axis=1), 32)
        assert rows.class_names == ("056.dog", "250.zebra")
        np.testing.assert_array_equal(rows.y, [0, 0, 0, 1, 1, 1])
        assert rows.y.dtype == np.int64
        assert rows.images is not None
        assert [path.parent.name for path in rows.images] == ["056.dog"] * 3 + ["250.zebra"] * 3
        assert Caltech256.scaling == "tfidf"

    def test_the_codebooks_are_learned_from_the_other_set_alone(self, caltech256, caltech101):
        before = dense(Caltech256(visterms=8).load())
        shutil.rmtree(caltech256 / "250.zebra")
        picture(caltech256 / "001.ak47" / "001_0001.jpg", 77)
        after = dense(Caltech256(visterms=8).load())
        np.testing.assert_array_equal(after[1:], before[:3])
        for i in range(3):
            picture(caltech101 / "ant" / f"image_{i:04}.jpg", 200 + i)
        assert (dense(Caltech256(visterms=8).load())[1:] != before[:3]).any()

    def test_each_broken_picture_is_named_and_small_ones_are_counted(self, caltech256, caltech101):
        for i in range(10, 22):
            (caltech256 / "056.dog" / f"056_{i:04}.jpg").write_bytes(b"no picture %d" % i)
            picture(caltech256 / "250.zebra" / f"250_{i:04}.jpg", i, (64 + i, 64))
        with pytest.warns(UserWarning, match="left out") as caught:
            rows = Caltech256(visterms=8).load()
        texts = [str(warning.message) for warning in caught]
        assert len(texts) == 13
        for i, text in zip(range(10, 22), texts, strict=False):
            assert text.startswith(f"left out: '{caltech256}/056.dog/056_{i:04}.jpg': no picture")
        assert texts[12] == (
            f"left out: 12 too small: such as '{caltech256}/250.zebra/250_0010.jpg': "
            "visual words need 10 blocks of 64 x 64 pixels, but 74 x 64 pixels have room for 1 "
            "only: use larger pictures, a smaller --block, or other --features"
        )
        assert rows.left_out == tuple(texts)
        assert len(rows.y.data) == 6

    def test_pictures_that_are_all_too_small_are_refused_before_codebooks_are_learned(
        self, caltech256, caltech101, tmp_path
    ):
        for path in caltech256.glob("*/*.jpg"):
            with Image.open(path) as image:
                image.resize((100, 80)).save(path)
        done = []
        small = r"none of the 6 images of caltech256 can be used.*10 blocks.*100 x 80 pixels"
        with pytest.raises(UsageError, match=small):
            Caltech256(visterms=8).load(lambda what, *_: done.append(what))
        assert set(done) == {"reading picture files"}
        assert not (tmp_path / "cache" / "visterms").exists()

    def test_of_equal_pictures_one_is_kept_and_none_where_classes_differ(
        self, caltech256, caltech101
    ):
        dog, zebra = caltech256 / "056.dog", caltech256 / "250.zebra"
        shutil.copy(dog / "056_0001.jpg", dog / "056_0004.jpg")
        shutil.copy(dog / "056_0002.jpg", zebra / "250_0004.jpg")
        with pytest.warns(UserWarning, match="left out") as caught:
            rows = Caltech256(visterms=8).load()
        assert [str(warning.message) for warning in caught] == list(rows.left_out)
        assert rows.left_out == (
            f"left out: 3 copies, such as '{dog}/056_0002.jpg': of equal files one is kept, "
            "or none if their labels differ",
        )
        assert rows.images is not None
        assert [path.stem for path in rows.images] == [
            *("056_0001", "056_0003", "250_0001", "250_0002", "250_0003")
        ]
        np.testing.assert_array_equal(rows.y, [0, 0, 1, 1, 1])
        alone = Caltech256(visterms=8)
        (dog / "056_0004.jpg").unlink()
        (dog / "056_0002.jpg").unlink()
        (zebra / "250_0004.jpg").unlink()
        np.testing.assert_array_equal(dense(rows), dense(alone.load()))

    def test_rescaled_and_marked_copies_teach_no_codebook_either(self, caltech256, caltech101):
        expected = dense(Caltech256(visterms=8).load())
        with Image.open(next(caltech256.glob("*/*.jpg"))) as image:
            copy = image.resize((300, 240))
        copy.paste((128, 128, 128), (4, 220, 30, 230))
        copy.save(caltech101 / "ant" / "image_0999.jpg", quality=60)
        np.testing.assert_array_equal(dense(Caltech256(visterms=8).load()), expected)


def dense(rows):
    assert isinstance(rows.X, sparse.csr_array)
    return rows.X.toarray()


class TestCorel5k:
    @pytest.fixture
    def corel5k(self, data):
        home = data / "corel5k"
        for number, part in ((1000, "train"), (1003, "train"), (2000, "test")):
            picture(home / f"{part}_jpeg" / f"{number}.jpeg", number, (192, 128))
        labels = home / "labels"
        labels.mkdir()
        (labels / "words").write_text("sun\ncity\nnever\nbear\n")
        (labels / "training_label").write_text("1000 1 2  \n1003 2 2 \n1004 4\n")
        (labels / "test_label").write_text("2000 4 1 2\n")
        return home

    def test_words_are_queries_that_images_are_relevant_to(self, corel5k, caltech101):
        with pytest.warns(UserWarning, match=r"left out: '.*/1004\.jpeg': no such file$"):
            rows = Corel5k(visterms=8).load()
        assert rows.multi_label
        assert rows.class_names == ("bear", "city", "sun")
        assert isinstance(rows.y, sparse.csr_array)
        assert rows.y.dtype == np.float32
        assert rows.y.has_canonical_format
        np.testing.assert_array_equal(rows.y.toarray(), [[0, 1, 1], [0, 1, 0], [1, 1, 1]])
        assert rows.images is not None
        assert [path.name for path in rows.images] == ["1000.jpeg", "1003.jpeg", "2000.jpeg"]
        # Blocks of 32 every 16: 11 x 7 in 192 x 128, 8 x 5, 6 x 4, 5 x 3, and 6 in 79 x 52.
        np.testing.assert_array_equal(dense(rows).sum(axis=1), 77 + 40 + 24 + 15)

    @pytest.mark.parametrize("line", ["1000", "1000 5", "1000 0", "1000 x", "../1000 1", "1000 -1"])
    def test_a_line_that_makes_no_sense_is_told(self, corel5k, line):
        path = corel5k / "labels" / "training_label"
        path.write_text(f"1000 1\n{line}\n")
        with pytest.raises(UsageError, match=rf"training_label: line 2: .*{line}.* from 1 to 4"):
            Corel5k().find_images()


class TestImageFolder:
    @pytest.fixture
    def home(self, tmp_path):
        home = tmp_path / "mine"
        picture(home / "cats" / "b.PNG", 1)
        picture(home / "cats" / "deep" / "er" / "a.jpeg", 2)
        picture(home / "dogs" / "c.gif", 3)
        (home / "dogs" / "notes.txt").write_text("no picture")
        return home

    def test_pictures_of_nested_folders_are_of_the_first_one_s_class(self, home):
        picture(home / "cats" / ".hidden.png")
        picture(home / "cats" / ".thumbnails" / "b.png")
        picture(home / ".git" / "x.png")
        (home / "dogs" / "notes.txt").unlink()
        with warnings.catch_warnings(action="error"):
            assert found(ImageFolder(home), home) == [
                ("cats/b.PNG", "cats"),
                ("cats/deep/er/a.jpeg", "cats"),
                ("dogs/c.gif", "dogs"),
            ]

    @pytest.mark.filterwarnings("ignore:.*notes.txt")
    def test_a_broken_picture_is_left_out_of_pixels_without_other_features(self, home):
        (home / "cats" / "a.png").write_bytes(b"no picture")
        with pytest.warns(UserWarning, match=r"left out: .*a\.png': no picture"):
            rows = ImageFolder(home, features="none", pixels=8).load()
        assert [image.name for image in rows.images] == ["b.PNG", "a.jpeg", "c.gif"]
        assert rows.pixels.shape == (3, 8, 8, 3)
        np.testing.assert_array_equal(rows.y, [0, 0, 1])

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("features", ["none", "lab+hog"])
    def test_a_folder_of_broken_pictures_is_refused_by_the_first_reason(self, tmp_path, features):
        if features != "none":
            pytest.importorskip("skimage", reason='pip install -e ".[handmade]" is needed')
        for name in ("a", "b"):
            (tmp_path / "mine" / name).mkdir(parents=True)
            (tmp_path / "mine" / name / f"{name}.png").write_text(f"no picture {name}")
        with pytest.raises(UsageError, match=r"none of the .* can be used; .*a\.png': no picture"):
            ImageFolder(tmp_path / "mine", features=features, pixels=8).load()

    def test_more_kinds_of_pictures_are_read_and_other_files_are_counted(self, home):
        for name, kind in (("d.jfif", "JPEG"), ("e.jpe", "JPEG"), ("f.ppm", None), ("g.pgm", None)):
            Image.new("L" if name == "g.pgm" else "RGB", (8, 8)).save(home / "dogs" / name, kind)
        for name in ("todo.TXT", "h.heic", "README", "\x1b[2J.\x1b[2J"):
            (home / "cats" / name).touch()
        with pytest.warns(UserWarning, match="^left out: 5 files of other kinds: ") as told:
            names = [path.name for path, _ in ImageFolder(home).find_images()]
        assert {"d.jfif", "e.jpe", "f.ppm", "g.pgm"} < set(names)
        (line,) = (str(one.message) for one in told)
        assert {".txt 2", ".heic 1", "no ending 1"} < set(line.partition("kinds: ")[2].split(", "))
        assert "\x1b" not in line
        for path in (home / "dogs").glob("*.[jp]*"):
            assert read_image(path).mode == "RGB"

    def test_without_the_usual_teacher_a_fifth_of_each_class_is_set_apart(self, data, tmp_path):
        mine = tmp_path / "mine"
        for i in range(11):
            picture(mine / "cats" / f"{i}.png", i)
            picture(mine / "dogs" / f"{i}.png", 20 + i)
        with pytest.warns(UserWarning, match="set apart: 4 of 22 pictures"):
            rows = ImageFolder(mine, visterms=20, block=32).load()
        assert rows.class_counts().tolist() == [9, 9]
        assert rows.X.shape == (18, 20)
        assert rows.X.sum(axis=1).min() > 0
        (told,) = rows.left_out
        assert "caltech101 is not on this machine ('data prepare caltech101' gets it)" in told
        # Which ones goes by their contents: other names and another order change nothing.
        again = tmp_path / "again"
        for label in ("cats", "dogs"):
            (again / label).mkdir(parents=True)
            for i in range(11):
                shutil.copy(mine / label / f"{i}.png", again / label / f"{20 - i}.png")
        with pytest.warns(UserWarning, match="set apart"):
            renamed = ImageFolder(again, visterms=20, block=32).load()
        np.testing.assert_array_equal(
            np.sort(rows.X.toarray(), axis=0), np.sort(renamed.X.toarray(), axis=0)
        )

    def test_links_to_files_are_pictures_and_links_to_folders_are_ignored(self, home):
        outside = picture(home.parent / "outside" / "x.png")
        (home / "cats" / "link.png").symlink_to(outside)
        (home / "dogs" / "loop").symlink_to("..")
        (home / "linked").symlink_to(outside.parent)
        (home / "dogs" / "notes.txt").unlink()
        names = [path.name for path, _ in ImageFolder(home).find_images()]
        assert names == ["b.PNG", "a.jpeg", "link.png", "c.gif"]
