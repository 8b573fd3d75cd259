"""Model files with a change in any entry, array or value: refused, or as good as before."""

import json
import zipfile
from io import BytesIO

import numpy as np
import pandas as pd
import pytest
from numpy.lib import format as npy
from scipy import sparse
from sklearn.pipeline import make_pipeline

import oasis_bench
from oasis_bench.algorithms import OASIS, Euclidean
from oasis_bench.data import Scaling, apply_steps
from oasis_bench.plugins import Blend, load_blend, load_model, save_model, training_rows_of
from oasis_bench.scorers import similarity_of
from oasis_bench.system import UsageError

RNG = np.random.default_rng(0)
Y = np.arange(24) % 3
COUNTS = RNG.poisson(2.0, (24, 5)) * (RNG.random((24, 5)) < 0.7) + np.eye(24, 5) + 0.5 * Y[:, None]
COUNTS[:, 0] *= 100
COUNTS[5, :] = [0, 1, 0, 2, 1]
TABLE = pd.DataFrame(
    {
        "size": np.where(np.arange(24) % 7 == 1, np.nan, RNG.normal(Y)),
        "weight": RNG.normal(100 * Y, 50),
        "colour": np.array(["red", "green", "blue"])[RNG.integers(0, 3, 24)],
        "day": [f"2010-07-{day:02d}" for day in RNG.integers(1, 28, 24)],
    }
)


def scaled(kind, learner, form=np.asarray, of_baseline=None):
    """Return a way to save a learner with its scaling, and a baseline's where it is blended."""

    def save(path):
        X = form(COUNTS)
        steps = Scaling(kind).learn(X, takes_sparse=False)
        prepared = apply_steps(steps, X)
        blend = None
        if of_baseline is not None:
            others = Scaling(of_baseline).learn(X)
            given = apply_steps(others, X)
            blend = Blend.of(learner.fit(prepared, Y), prepared, 0.5, 0, tuple(others), given)
        save_model(make_pipeline(*steps, learner.fit(prepared, Y)), path, X, blend)
        return X

    return save


def prepared(learner, scaling):
    """Return a way to save what `fit` makes of a table with missing values, texts and dates."""

    def save(path):
        how = {"inner_folds": 2, "search": 2, "max_steps": 100, "scaling": scaling}
        how["use"] = "direct"  # test_uses.py has the other use
        oasis_bench.fit((TABLE, Y), learner, output=path, **how)
        return TABLE

    return save


LEARNER = OASIS(n_steps=50, random_state=0)  # all of its arrays have one possible shape

KINDS = {
    "none": scaled("none", LEARNER),
    "sparse": scaled("tfidf+pca3", Euclidean(), sparse.csr_array),
    "blended": scaled("minmax", LEARNER, of_baseline="center+l2"),
    "blended with raw rows": scaled("tfidf", LEARNER, of_baseline="none"),
    "prepared": prepared("OASIS", ("standard", "minmax")),  # of which it takes the first
}


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    """The entries of a model file by name, rows for it, and their ranks."""
    path = tmp_path_factory.mktemp("saved") / "model.npz"
    rows = KINDS[request.param](path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    return entries, rows, ranks(load_model(path), rows)


def ranks(model, rows):
    return np.argsort(-similarity_of(model, rows, rows), axis=1, kind="stable")


WORDS = {*TABLE.columns, *TABLE["colour"]}
"""Texts in a model's file that no check can know: those of the data."""


class Outcomes:
    """What became of changed files: how many are refused, and those that are not sound."""

    def __init__(self, path, saved):
        self.path, (self.entries, self.rows, self.ranks) = path, saved
        self.n_refused, self.n_accepted, self.wrong = 0, 0, []

    def add(self, change, entries, checksums=False):
        """Read a changed file, which may have its checksums.  Tell whether it is refused."""
        with zipfile.ZipFile(self.path, "w") as archive:
            for name in entries.keys() - (() if checksums else ("contents.json",)):
                archive.writestr(name, entries[name])
        try:
            is_refused = self._is_refused()
        except Exception as error:
            self.wrong.append((change, repr(error)[:100]))
            return False
        self.n_refused += is_refused
        self.n_accepted += not is_refused
        return is_refused

    def _is_refused(self):
        try:
            model = load_model(self.path)
            load_blend(self.path)
            training_rows_of(self.path)
        except UsageError as error:
            message = str(error)
        else:
            np.testing.assert_array_equal(ranks(model, self.rows), self.ranks)
            return False
        assert "\n" not in message
        return True


@pytest.fixture
def outcomes(saved, tmp_path):
    """Collect outcomes, of which none may be wrong."""
    outcomes = Outcomes(tmp_path / "m.npz", saved)
    assert not outcomes.add("nothing", outcomes.entries)
    yield outcomes
    assert not outcomes.wrong


def places(item, place):
    """Yield the place and the form of each array that an encoded value has."""
    if isinstance(item, dict) and len(item) == 1:
        ((kind, content),) = item.items()
        if kind in ("array", "scalar"):
            yield place, content
        elif kind in ("list", "tuple", "dict"):
            parts = content.items() if kind == "dict" else enumerate(content)
            for key, part in parts:
                yield from places(part, f"{place}.{key}")


def with_array(entries, name, array):
    """Return the entries with an array in place of one, and its form where it is described."""
    content = BytesIO()
    npy.write_array(content, array)
    changed = {**entries, name: content.getvalue()}
    for text in [name for name in entries if name.endswith("steps.json") or name == "header.json"]:
        described = json.loads(entries[text])
        items = {text.removesuffix(".json"): described}
        if text == "header.json":
            items = {**described["fitted"]}
            items |= {f"params/{key}": value for key, value in described["params"].items()}
        for key, item in items.items():
            for place, form in places(item, key):
                if f"{place}.npy" == name:
                    form.update(dtype=array.dtype.str, shape=list(array.shape))
        changed[text] = json.dumps(described).encode()
    return changed


def arrays_like(name, array):
    """Yield arrays that are not what a model can have in place of this one."""
    yield np.array(-1)
    yield array[None]
    for axis in range(array.ndim):
        yield np.take(array, np.arange(1, array.shape[axis]), axis)
        yield np.concatenate([array, array], axis)
    yield array[:0] if array.ndim else np.empty(0)
    yield array.astype(str)
    if array.dtype.kind == "f":
        yield array.astype(np.int64)
        for value in (np.nan, np.inf, -np.inf):
            yield np.full_like(array, value)
            other = array.copy()
            other.flat[-1] = value
            yield other
        if name.endswith(("scale_.npy", "idf_.npy")):
            yield array * 0
            yield -array
    elif array.dtype.kind == "i":
        yield array.astype(float)
        yield -1 - array
        yield array + 10**6
        yield array[::-1]
    elif array.dtype.kind == "b":
        yield array.astype(int)
        yield ~array


def test_each_array_is_checked(outcomes):
    entries = outcomes.entries
    for name in [name for name in entries if name.endswith(".npy")]:
        array = npy.read_array(BytesIO(entries[name]))
        for other in arrays_like(name, array):
            change = name, f"{other!r:.100}"
            outcomes.add(change, with_array(entries, name, np.asarray(other)))
    assert outcomes.n_refused > 5 * outcomes.n_accepted


def test_each_entry_is_needed(outcomes):
    entries = outcomes.entries
    for name in entries:
        without = {other: entries[other] for other in entries if other != name}
        is_needed = name not in ("contents.json", "about.json")  # the second is of the model card
        assert outcomes.add(name, without, checksums=True) == is_needed
        for content in (b"", b"[]", b"{}", b"null", b"[", b"[" * 10**5):
            outcomes.add((name, content[:9]), {**entries, name: content}, checksums=True)


def test_a_blend_is_read_from_an_undamaged_file_only(outcomes):
    without = {name: it for name, it in outcomes.entries.items() if name != "euclidean-blend.npy"}
    if without.keys() < outcomes.entries.keys():
        outcomes.add("blend", without, checksums=True)
        with pytest.raises(UsageError, match=r"euclidean-blend\.npy. is missing"):
            load_blend(outcomes.path)


def test_another_content_of_an_entry_is_refused_whatever_it_is(outcomes):
    entries = outcomes.entries
    for name in [name for name in entries if name.endswith(".npy")]:
        array = npy.read_array(BytesIO(entries[name]))
        if array.dtype != bool:
            assert outcomes.add(name, with_array(entries, name, array / 2), checksums=True)
            other = with_array(entries, name, array * array.dtype.type(2))
            assert outcomes.add(name, other, checksums=True)


def values_like(value):
    """Yield values of JSON that are not what a model can have in place of this one."""
    yield from (None, [], {}, "x", 1e300)
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int | float):
        yield from (value + 1, -value - 1, str(value), 0.5)
    elif isinstance(value, list):
        yield from (value[1:], value + value)
    elif isinstance(value, dict):
        yield from ({**value, "more": 1}, {**value, "more_": 1}, {**value, "_more": 1})
        for key in value:
            yield {name: one for name, one in value.items() if name != key}
            yield {f"{name}x" if name == key else name: one for name, one in value.items()}


def changes(value, place=()):
    """Yield each change of a value, or within it: its place, the value there, and the new whole."""
    for other in values_like(value):
        yield place, value, other
    if isinstance(value, list | dict):
        for key in range(len(value)) if isinstance(value, list) else value:
            for at, before, other in changes(value[key], (*place, key)):
                whole = [*value] if isinstance(value, list) else {**value}
                whole[key] = other
                yield at, before, whole


def test_each_value_is_checked(outcomes):
    entries = outcomes.entries
    for name in ("header.json", "scaling-steps.json", "baseline-steps.json"):
        document = json.loads(entries.get(name, "[]"))
        for place, before, whole in changes(document):
            is_word = isinstance(before, str) and before in WORDS
            is_shorter = place in ((), ("list",)) and name != "header.json"  # is a scaling, too
            if not is_word and not is_shorter:
                change = name, place, before
                outcomes.add(change, {**entries, name: json.dumps(whole).encode()})
    assert outcomes.n_refused > 2 * outcomes.n_accepted


def test_what_could_not_be_loaded_is_not_saved(tmp_path):
    steps = Scaling("standard+l2").learn(COUNTS)
    learner = LEARNER.fit(apply_steps(steps, COUNTS), Y)
    steps[0].mean_[2] = np.nan
    with pytest.raises(UsageError, match="StandardScaler: mean_ has values that are not finite"):
        save_model(make_pipeline(*steps, learner), tmp_path / "m.npz")
    steps[0].mean_ = steps[0].mean_[:4]
    with pytest.raises(UsageError, match=r"StandardScaler: mean_ has shape \(4,\): \(5\) is"):
        save_model(make_pipeline(*steps, learner), tmp_path / "m.npz")
    assert not list(tmp_path.iterdir())
