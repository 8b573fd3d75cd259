"""Saved models: what comes back is what was saved, and no file can make anything else of it."""

import json
import pickle
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import QuantileTransformer

from oasis_bench.algorithms import (
    LDA,
    LMNN,
    OASIS,
    AveragedOASIS,
    DeepRanking,
    Euclidean,
    OnEmbedding,
)
from oasis_bench.data import Patches, PatchKind, Scaling, apply_steps
from oasis_bench.plugins import IncrementalLearner, Registry, load_model, save_model
from oasis_bench.scorers import similarity_of
from oasis_bench.system import PeakMemory, UsageError

PLUGIN = """\
from oasis_bench.algorithms import Euclidean

class Holder(Euclidean):
    name = "Holder"

    def __init__(self, value=None):
        if isinstance(value, str) and value == "bad":
            raise RuntimeError("a bad value")
        self.value = value

    def fit(self, X, y=None):
        super().fit(X)
        self.copy_ = self.value
        return self
"""


@pytest.fixture
def rows():
    """Ten rows of 3 features, in two classes."""
    return np.random.default_rng(0).normal(size=(10, 3)), np.arange(10) % 2


@pytest.fixture
def learner(rows):
    return OASIS(n_steps=20, random_state=0).fit(*rows)


@pytest.fixture
def path(learner, tmp_path):
    """The file of `learner`, as it was saved."""
    save_model(learner, tmp_path / "model.npz")
    return tmp_path / "model.npz"


@pytest.fixture
def plugin_file(tmp_path):
    path = tmp_path / "holder.py"
    path.write_text(PLUGIN)
    return path


@pytest.fixture
def holder(plugin_file):
    """A learner of a plugin file that holds what it is given."""
    return Registry.load([plugin_file]).algorithms["Holder"]


def npy(array, allow_pickle=False):
    """Return the bytes of an NPY file."""
    stream = BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(array), (1, 0), allow_pickle=allow_pickle)
    return stream.getvalue()


def forge(path, change=None, **entries):
    """Write a file anew with its header changed and entries replaced; None takes one out."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(contents["header.json"])
    if change:
        change(header)
    contents["header.json"] = json.dumps(header).encode()
    contents |= {f"{name}.npy": content for name, content in entries.items()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            if content is not None:
                archive.writestr(name, content)


def forge_array(path, name, array):
    """Put another array in the place of one, and its form in the header."""

    def change(header):
        form = {"dtype": array.dtype.str, "shape": list(array.shape)}
        header["fitted"][name] = {"array": form}

    forge(path, change, **{name: npy(array)})


def set_in_header(*keys_and_value):
    *keys, last, value = keys_and_value

    def change(header):
        for key in keys:
            header = header[key]
        header[last] = value

    return change


def assert_refused(path, message, **options):
    with pytest.raises(UsageError, match=message) as error:
        load_model(path, **options)
    assert str(error.value).startswith(f"{path}: ")
    assert str(error.value).isprintable()


# --- what comes back


@pytest.mark.parametrize("name", Registry.load().algorithms)
def test_every_fitted_array_of_a_registered_learner_has_a_stated_form(name):
    # Kernels trust shapes: without a `FittedArray` an array in a file could mislead them.
    learner = Registry.load().algorithms[name]()
    if "max_iter" in learner.get_params():
        learner.set_params(max_iter=20)
    y = np.arange(36) % 3
    X = np.random.default_rng(0).normal(size=(36, 6)) + 2 * np.eye(3, 6)[y]
    if learner.takes.startswith("patches"):
        places = [np.zeros((3, 2))] * len(X)
        X = Patches({"corner": PatchKind.joined([row.reshape(3, 2) for row in X], places)})
    pixels = np.random.default_rng(0).integers(0, 256, (36, 8, 8, 3), dtype=np.uint8)
    if learner.takes == "pixels":
        X = pixels
    if learner.takes == "patches+pixels":
        X = Patches(X.kinds, pixels)
    if "embedder__n_steps" in learner.get_params():
        learner.set_params(embedder__n_steps=64)
    if "pip install" in (reason := learner.refusal(X, y) or ""):
        pytest.skip(reason)
    if isinstance(learner, IncrementalLearner):
        learner.partial_fit(X, y, n_steps=50)
    else:
        learner.fit(X, y)
    arrays = {name for name, value in vars(learner).items() if isinstance(value, np.ndarray)}
    assert arrays <= set(learner._fitted_state())


@pytest.fixture
def nested(rows, tmp_path):
    """A file of a learner of two learners; that of pictures has numbers without a meaning."""
    embedder = DeepRanking(dimension=3, random_state=4)
    embedder.parameters_, embedder._momentum = np.ones(5, np.float32), np.zeros(5, np.float32)
    embedder.n_steps_, embedder._seed = 7, 1
    learner = OnEmbedding(DeepRanking(dimension=3), OASIS(0.3, n_steps=20))
    learner.embedder_, learner.learner_ = embedder, clone(learner.learner).fit(*rows)
    save_model(learner, tmp_path / "nested.npz")
    return learner, tmp_path / "nested.npz"


def test_learners_in_a_learner_are_kept(nested, rows):
    learner, path = nested
    loaded = load_model(path)
    assert str(loaded) == str(learner)
    assert loaded.get_params()["learner__aggressiveness"] == 0.3
    assert str(loaded.embedder_) == str(learner.embedder_)
    np.testing.assert_array_equal(loaded.embedder_.parameters_, np.ones(5))
    for one in (loaded, learner):
        one.learner_.partial_fit(*rows, n_steps=9)
    W = learner.learner_.bilinear_matrix_
    np.testing.assert_array_equal(loaded.learner_.bilinear_matrix_, W)
    with np.load(path) as arrays:
        assert arrays["learner_.bilinear_matrix_"].shape == W.shape


def test_given_triplets_are_dealt_on_after_loading(rows, tmp_path):
    X, _ = rows
    triplets = np.random.default_rng(1).integers(10, size=(41, 3))
    whole = AveragedOASIS(n_learners=3, random_state=0).partial_fit_triplets(X, triplets)
    half = AveragedOASIS(n_learners=3, random_state=0).partial_fit_triplets(X, triplets[:20])
    save_model(half, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz").partial_fit_triplets(X, triplets[20:])
    np.testing.assert_array_equal(loaded.matrices_, whole.matrices_)
    assert (loaded.n_steps_, loaded.n_updates_) == (41, whole.n_updates_)


def test_a_file_of_release_0_1_0_is_loaded_and_goes_on():
    # AveragedOASIS(n_learners=2, n_steps=30, random_state=5), fitted to these rows.
    X, y = np.arange(24.0).reshape(8, 3) % 7, np.arange(8) % 2
    learner = load_model(Path(__file__).parent / "recorded" / "averaged_oasis_0.1.0.npz")
    recorded = [
        [0.11968057375565033, 0.5900866173869129, 0.7507895456352423],
        [-2.470938991745323, -1.1454429515439373, 9.194196217832049],
    ]
    np.testing.assert_allclose(learner.similarity(X[:2], X[:3]), recorded, rtol=1e-12)
    learner.partial_fit(X, y, n_steps=20)
    recorded = [
        [0.9035217524633818, 1.4979850885745225, -1.7315078355587004],
        [0.610751189067229, 2.5001495335545156, 0.13296375722972203],
    ]
    np.testing.assert_allclose(learner.similarity(X[:2], X[:3]), recorded, rtol=1e-10)


def test_a_random_state_goes_on_where_it_was(rows, tmp_path):
    learner = OASIS(n_steps=20, random_state=np.random.RandomState(7)).fit(*rows)
    learner.random_state.standard_normal()  # leaves a second one in store
    save_model(learner, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(
        loaded.random_state.standard_normal(1000), learner.random_state.standard_normal(1000)
    )
    np.testing.assert_array_equal(
        loaded.fit(*rows).bilinear_matrix_, learner.fit(*rows).bilinear_matrix_
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0.1,
        np.inf,
        "höchstens \ud800",
        np.float32(0.1),
        np.int64(3),
        (1, (2.5, "a"), []),
        {"a": 1, "b": {"c": (2,)}},
    ],
    ids=repr,
)
def test_a_value_comes_back_with_its_type(holder, plugin_file, rows, tmp_path, value):
    save_model(holder(value).fit(*rows), tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz", [plugin_file])
    for found in (loaded.value, loaded.copy_):
        assert (type(found), repr(found)) == (type(value), repr(value))


@pytest.mark.parametrize(
    "value",
    [
        np.arange(6.0).reshape(2, 3),
        np.array([[True], [False]]),
        np.array(["a", "längst"]),
        np.array(["a", "längst"], dtype=object),
        np.arange(10, dtype=np.int16)[::3],
    ],
    ids=lambda value: f"{value.dtype} {value.shape}",
)
def test_an_array_comes_back_alone_and_within_others(holder, plugin_file, rows, tmp_path, value):
    learner = holder({"first": value, "second": [1, value]}).fit(*rows)
    save_model(learner, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz", [plugin_file])
    for held in (loaded.value, loaded.copy_):
        for found in (held["first"], held["second"][1]):
            assert found.dtype == value.dtype
            np.testing.assert_array_equal(found, value)


def test_no_second_copy_of_a_matrix_is_made(rows, tmp_path):
    X, y = rows
    learner = OASIS(n_steps=1, random_state=0).fit(np.pad(X, ((0, 0), (0, 2897))), y)
    n_bytes = learner.bilinear_matrix_.nbytes
    assert n_bytes > 64 * 2**20
    saving = PeakMemory()
    save_model(learner, tmp_path / "model.npz")
    saved = saving.above_start()
    if saved is None:
        pytest.skip("this system does not tell the peak of memory")
    loading = PeakMemory()
    load_model(tmp_path / "model.npz")
    assert saved < n_bytes / 2
    assert loading.above_start() < 1.5 * n_bytes


# --- what is not saved


@pytest.mark.parametrize("unfitted", [OASIS(), Euclidean(), LMNN()])
def test_a_learner_that_learned_nothing_is_not_saved(unfitted, tmp_path):
    with pytest.raises(NotFittedError):
        save_model(unfitted, tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (object(), "params/value is of type object"),
        (LogisticRegression(), "params/value is a LogisticRegression .*skops"),
        (sparse.csc_array((2, 2)), "csc_array"),
        (np.array([1, None]), "ndarray"),
        (np.ma.array([1.0]), "MaskedArray"),
        (np.array(["2010-07-01"], "datetime64"), "ndarray"),
        ([1, {2: 3}], r"params/value\.1 is of type dict"),
        (np.random.default_rng(0), "Generator"),
        (np.random.RandomState(np.random.PCG64(0)), "PCG64"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_file_cannot_hold_is_named(holder, rows, tmp_path, value, named):
    with pytest.raises(UsageError, match=f"^this Holder cannot be saved: .*{named}"):
        save_model(holder(value).fit(*rows), tmp_path / "model.npz")
    assert not (tmp_path / "model.npz").exists()


@pytest.mark.parametrize(
    ("whole", "said"),
    [
        (make_pipeline(QuantileTransformer(n_quantiles=5), OASIS(n_steps=5)), r"pipeline\[-1\]"),
        ("OASIS", "a str is no learner"),
    ],
)
def test_what_is_no_learner_is_refused_with_the_way_out(whole, said, rows, tmp_path):
    if not isinstance(whole, str):
        whole.fit(*rows)
    with pytest.raises(UsageError, match=rf"{said}.*skops"):
        save_model(whole, tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


SCALED = [(np.asarray, kind) for kind in (*Scaling.WORDS, "l2+pca3", "tfidf+pca3")]
SCALED += [(pd.DataFrame, kind) for _, kind in SCALED if not kind.startswith("tfidf")]
SCALED += [(sparse.csr_array, kind) for kind in (*Scaling.KEEPS_ZEROS, "l2+pca3", "tfidf+pca3")]


@pytest.mark.parametrize(("form", "kind"), SCALED)
def test_a_scaling_is_saved_with_its_learner(rows, tmp_path, kind, form):
    X = np.where(rows[0] > 0.3, rows[0], 0)
    X = form(X) if form is not pd.DataFrame else pd.DataFrame(X).add_prefix("x")
    steps = Scaling(kind).learn(X, takes_sparse=False)
    model = make_pipeline(*steps, LDA().fit(apply_steps(steps, X), rows[1]))
    save_model(model, tmp_path / "model.npz", training_rows=X)
    loaded = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(similarity_of(loaded, X, X), similarity_of(model, X, X))
    assert [type(step) for _, step in loaded.steps] == [type(step) for _, step in model.steps]
    if form is pd.DataFrame:
        mixed = X[X.columns[::-1]].assign(more="text")
        np.testing.assert_array_equal(similarity_of(loaded, mixed, X), similarity_of(model, X, X))
        with pytest.raises(UsageError, match="lack the column 'x0' of the fitted model"):
            similarity_of(loaded, mixed.drop(columns="x0"), X)


def test_a_step_that_is_none_of_a_scaling_is_not_made(rows, tmp_path):
    path = tmp_path / "model.npz"
    steps = Scaling("standard").learn(rows[0])
    save_model(make_pipeline(*steps, LDA().fit(*rows)), path)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    described = json.loads(parts["scaling-steps.json"])
    described["list"][0]["dict"].update(name="FunctionTransformer")
    parts["scaling-steps.json"] = json.dumps(described).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    assert_refused(path, "cannot be read as a model file .'FunctionTransformer'")


def test_what_could_not_be_loaded_is_not_saved(learner, tmp_path):
    learner.set_params(aggressiveness=-1.0)
    with pytest.raises(UsageError, match="aggressiveness"):
        save_model(learner, tmp_path / "model.npz")
    learner.set_params(aggressiveness=1.0)
    learner.bilinear_matrix_[0, 1] = np.nan
    with pytest.raises(UsageError, match="bilinear_matrix_ has values that are not finite"):
        save_model(learner, tmp_path / "model.npz")
    assert not list(tmp_path.iterdir())


def test_a_class_that_loading_would_take_for_another_is_not_saved(rows, tmp_path):
    class Mine(OASIS):
        pass

    with pytest.raises(UsageError, match=r"'OASIS' of .*Mine belongs to another class: give it a"):
        save_model(Mine(n_steps=20).fit(*rows), tmp_path / "model.npz")


@pytest.mark.parametrize("place", ["absent/model.npz", "folder", "model.npz/below"])
def test_a_place_that_cannot_be_written_is_refused(learner, path, place):
    (path.parent / "folder").mkdir()
    before = sorted(path.parent.iterdir())
    with pytest.raises(UsageError, match=r"^cannot write .*: give a file in another folder"):
        save_model(learner, path.parent / place)
    assert sorted(path.parent.iterdir()) == before


# --- what is not loaded


def test_a_file_cut_off_anywhere_is_refused(path):
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        assert_refused(path, "cannot be read as a model file")


def test_a_flipped_byte_is_refused_or_changes_nothing(learner, path):
    content = path.read_bytes()
    n_refused = 0
    for place in range(0, len(content), 5):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        path.write_bytes(damaged)
        try:
            loaded = load_model(path)
        except UsageError:
            n_refused += 1
            continue
        np.testing.assert_array_equal(loaded.bilinear_matrix_, learner.bilinear_matrix_)
        np.testing.assert_array_equal(loaded._sampler_state, learner._sampler_state)
        assert loaded.get_params() == learner.get_params()
    assert n_refused > len(content) / 5 / 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_in_header("format", "other model"), "is of the format 'other model', not 'oasis-benc"),
        (set_in_header("format_version", 3), "has format version 3, written by oasis-bench 0"),
        (set_in_header("algorithm", "os:system"), "its algorithm 'os:system' is not installed"),
        (set_in_header("params", "aggressiveness", -1), "'aggressiveness' parameter of OASIS must"),
        (set_in_header("params", "depth", 3), "OASIS refuses its parameters: .*'depth'"),
        (set_in_header("params", "n_steps", {"object": 1}), "params/n_steps is not what the head"),
        (set_in_header("fitted", "n_steps_", "many"), "n_steps_ has type <U4: integer is needed"),
        (lambda header: header["fitted"].pop("n_steps_"), "n_steps_ is missing"),
        (lambda header: header["fitted"].clear(), "is not fitted yet"),
        (set_in_header("fitted", "n_features_in_", 4), r"bilinear_matrix_ has shape \(3, 3\): \(4"),
        (set_in_header("fitted", "__class__", "x"), "'__class__' cannot be a fitted attribute"),
    ],
)
def test_a_header_that_does_not_fit_is_refused(path, change, message):
    forge(path, change)
    assert_refused(path, message)


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("bilinear_matrix_", np.full((3, 3), np.nan), "has values that are not finite"),
        ("bilinear_matrix_", np.eye(3, dtype=int), "has type int64: floating is needed"),
        ("_sampler_state", np.ones(2, np.uint64), r"has shape \(2,\): \(4\) is needed"),
        # from which a draw would never return
        ("_sampler_state", np.zeros(4, np.uint64), "_sampler_state is all zeros"),
    ],
)
def test_an_array_that_does_not_fit_the_learner_is_refused(path, name, array, message):
    forge_array(path, name, array)
    assert_refused(path, message)


def test_an_entry_too_many_is_not_unpacked(path):
    forge(path, **{"../../outside": npy(np.eye(2))})
    before = sorted(path.parent.parent.rglob("*"))
    load_model(path)
    assert sorted(path.parent.parent.rglob("*")) == before


class Payload:
    """Makes a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_pickled_objects_are_refused_and_never_unpickled(path):
    trace = path.parent / "trace"
    objects = np.array([[Payload(trace)] * 3] * 3, dtype=object)
    content = npy(objects, allow_pickle=True)
    forge(path, bilinear_matrix_=content)
    assert_refused(path, "bilinear_matrix_' holds Python objects, which are refused")
    forge(path, bilinear_matrix_=pickle.dumps(Payload(trace)))
    assert_refused(path, "cannot be read as a model file")
    assert not trace.exists()
    pickle.loads(pickle.dumps(Payload(trace))).close()
    assert trace.exists(), "the payload must be one that works"


def test_an_entry_that_unpacks_to_more_than_the_file_is_refused(path):
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("zeros.npy", bytes(10**7))
    assert_refused(path, "its entries claim 1000[0-9]+ bytes, and the file has")


@pytest.mark.parametrize(("part", "value"), [("pos", 10**6), ("pos", -1), ("key", [1, 2, 3])])
def test_a_random_state_that_numpy_would_read_out_of_bounds_is_refused(path, part, value):
    state = np.random.RandomState(0).get_state(legacy=False)
    state["state"] = {"key": state["state"]["key"].tolist(), "pos": 624} | {part: value}
    forge(path, set_in_header("params", "random_state", {"RandomState": state}))
    assert_refused(path, "a RandomState has")


def test_a_plugin_is_found_by_its_file_alone(holder, plugin_file, rows, tmp_path):
    path = tmp_path / "model.npz"
    save_model(holder().fit(*rows), path)
    assert_refused(path, r"its algorithm 'Holder' is not installed: .*--plugin")
    assert_refused(path, "no plugin file", plugin_files=[tmp_path / "absent.py"])
    assert type(load_model(path, [str(plugin_file)])) is holder
