"""Vectors for an index: their inner products are the similarity, with scaling, blend and votes."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_wine
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from test_contract import QUICK

import oasis_bench
from oasis_bench import scorers
from oasis_bench.algorithms import LDA, OASIS, LocalDistances, NearestNeighbourMemory
from oasis_bench.plugins import (
    Blend,
    Model,
    Posterior,
    Registry,
    as_inner_product,
    load_model,
    save_model,
)
from oasis_bench.system import UsageError

X, Y = load_wine(return_X_y=True, as_frame=True)
QUERIES, TRAIN = X[::9], np.arange(len(X)) % 3 > 0
REGISTERED = Registry.load().algorithms
LEARNERS = [
    name
    for name in REGISTERED
    if REGISTERED[name].takes == "rows" and "torch" not in REGISTERED[name].imports
]


def product(model, queries, gallery, **how):
    u, v = model.query_vectors(queries, **how), model.gallery_vectors(gallery, **how)
    u, v = (sparse.csr_array(it).toarray() for it in (u, v))
    return -cdist(u, v, "sqeuclidean") / 2 if how else u @ v.T


def check(model, queries=QUERIES, gallery=X, bound=1000):
    """Compare with the similarity, which is computed without vectors."""
    expected = scorers.similarity_of(model, queries, gallery)
    if model.blend_.weight == 1:  # -d, of a distance
        expected = as_inner_product(type(model[-1]), expected)
    bounds = {"rtol": 0, "atol": 1e-5 * expected.std()}
    np.testing.assert_allclose(product(model, queries, gallery), expected, **bounds)
    near = product(model, queries, gallery, bound=bound)
    near += (expected - near).mean(axis=1, keepdims=True)
    np.testing.assert_allclose(near, expected, **bounds)


@pytest.fixture(scope="module", params=LEARNERS)
def fitted(request):
    learner = REGISTERED[request.param]().set_params(**QUICK.get(request.param, {}))
    if "n_steps" in learner.get_params():
        learner.set_params(n_steps=500)
    return make_pipeline(StandardScaler(), learner).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize("use", ["direct", "known", "unknown"])
def test_products_are_the_similarity_of_each_learner_with_blend_and_scaling(fitted, use, tmp_path):
    scale, learner = fitted[0], fitted[-1]
    rows = scale.transform(X[TRAIN])
    if use != "direct" and not isinstance(learner, NearestNeighbourMemory):  # its votes tie
        learner = Posterior(learner, 0.3, use == "known").fit(rows, Y[TRAIN])
    elif isinstance(learner, LocalDistances):
        with pytest.raises(UsageError, match=r"LocalDistances has no vectors .* votes"):
            Model(fitted.steps).gallery_vectors(X)
        return
    own = make_pipeline(StandardScaler(), Normalizer()).fit(X[TRAIN])
    steps = tuple(step for _, step in own.steps)
    for weight in (0, 0.25, 0.75, 1):
        for more in ({}, {"steps": steps, "baseline_X": own.transform(X[TRAIN])}):
            model = Model([("scale", scale), ("learner", learner)])
            model.blend_ = Blend.of(learner, rows, weight, **more)
            save_model(model, tmp_path / "m.npz")
            check(load_model(tmp_path / "m.npz"))


@pytest.mark.parametrize("learner", [OASIS(n_steps=500, random_state=0), LDA()])
def test_the_vectors_of_oasis_and_of_a_distance_are_those_of_their_formulas(learner):
    rows, b = StandardScaler().fit_transform(X), 0.25
    model = Model([("learner", learner.fit(rows, Y))])
    model.blend_ = blend = Blend.of(learner, rows, b)
    w0, w1 = (1 - b) / blend.baseline_sd, b / blend.learned_sd
    norms, ones = (rows**2).sum(axis=1), np.ones(len(X))
    if isinstance(learner, OASIS):  # the rows are there once
        query = [w1 * rows @ learner.bilinear_matrix_ + w0 * rows, w0 * ones, -w0 * norms / 2]
        gallery = [rows, -norms / 2, ones]
    else:
        points = rows @ learner.components_.T
        own = (points**2).sum(axis=1)
        query = [w1 * points, w0 * rows, w1 * ones, w0 * ones, -(w1 * own + w0 * norms) / 2]
        gallery = [points, rows, -own / 2, -norms / 2, ones]
    np.testing.assert_allclose(model.query_vectors(rows), np.column_stack(query), atol=1e-9)
    np.testing.assert_allclose(model.gallery_vectors(rows), np.column_stack(gallery), atol=1e-9)


def test_the_gallery_of_oasis_is_its_scaled_rows_whatever_it_learns():
    rows = StandardScaler().fit_transform(X)
    learner = OASIS(n_steps=100, random_state=0).fit(rows, Y)
    np.testing.assert_array_equal(learner.gallery_vectors(rows), rows)
    model = Model([("learner", learner)])
    model.blend_ = Blend.of(learner, rows, 0.5)
    before, asked = model.gallery_vectors(rows), model.query_vectors(rows)
    learner.partial_fit(rows, Y, n_steps=100)
    model.blend_ = Blend.of(learner, rows, 0.25)
    np.testing.assert_array_equal(model.gallery_vectors(rows), before)
    assert not np.allclose(model.query_vectors(rows), asked)
    check(model, rows, rows)


@pytest.mark.parametrize("weight", [0, 0.5, 1])
def test_sparse_rows_make_sparse_gallery_vectors(weight):
    rows = sparse.csr_array(np.where(X.median() < X, Normalizer().fit_transform(X), 0))
    learner = OASIS(n_steps=500, random_state=0).fit(rows, Y)
    model = Model([("learner", learner)])
    model.blend_ = Blend.of(learner, rows, weight)
    assert sparse.issparse(model.gallery_vectors(rows))
    check(model, rows, rows)


def test_rows_far_from_zero_and_in_single_precision_keep_their_digits():
    rows = StandardScaler().fit_transform(X)
    for given in (rows + 1e6, rows.astype(np.float32)):
        learner = LDA().fit(given, Y)
        model = Model([("learner", learner)])
        model.blend_ = Blend.of(learner, given, 0.5)
        check(model, given, given)


def test_a_distance_and_its_blend_need_no_bound_and_other_learners_name_theirs():
    rows = StandardScaler().fit_transform(X)
    of_oasis, of_lda = (
        Model([("learner", learner.fit(rows, Y))])
        for learner in (OASIS(n_steps=500, random_state=0), LDA())
    )
    for model in (of_lda, of_oasis):
        model.blend_ = Blend.of(model[-1], rows, 0.5)
        check(model, rows, rows, bound=0)
    assert of_oasis.gallery_vectors(rows, 0).shape == rows.shape
    alone, longest = of_oasis[-1], np.linalg.norm(rows, axis=1).max()
    for bound in (0, 0.9 * longest, np.nan, np.inf):
        with pytest.raises(UsageError, match=r"^bound = .* need \S+ or more: give") as error:
            alone.gallery_vectors(rows, bound)
        (least,) = re.findall(r"need (\S+) or", str(error.value))
        assert float(least) == pytest.approx(longest, rel=2e-5)
        alone.gallery_vectors(rows, float(least))
    gallery = alone.gallery_vectors(rows, 2 * longest)
    np.testing.assert_allclose(np.linalg.norm(gallery, axis=1), 2 * longest)


def test_rows_of_unit_length_in_single_precision_have_the_bound_1():
    rows = Normalizer().fit_transform(X).astype(np.float32)
    learner = OASIS(n_steps=500, random_state=0).fit(rows, Y)
    lengths = np.linalg.norm(learner.gallery_vectors(rows, 1), axis=1)
    np.testing.assert_allclose(lengths, 1, atol=1e-3)


def test_a_learner_with_its_own_embedding_is_blended_with_the_rows():
    class Shorter(OASIS):
        def embed(self, X):
            return super().embed(X) / 2

    rows = StandardScaler().fit_transform(X)
    model = Model([("learner", Shorter(n_steps=500, random_state=0).fit(rows, Y))])
    model.blend_ = Blend.of(model[-1], rows, 0.5)
    check(model, rows, rows)


class Wider(LDA):
    """A learner with scores that its base class does not know of."""

    name = "Wider"

    def score_embeddings(self, queries, gallery):
        return -cdist(queries, gallery, "cityblock")


def test_what_is_no_inner_product_is_refused():
    several = NearestNeighbourMemory().fit(X, sparse.csr_array(np.eye(4)[Y] + np.eye(4)[3 - Y]))
    for learner in (Wider().fit(X, Y), several):
        for make in (learner.query_vectors, learner.gallery_vectors):
            with pytest.raises(UsageError, match=rf"^{learner.name} has no vectors for an index: "):
                make(X)
    with pytest.raises(UsageError, match="the rows lack the column 'alcohol'"):
        Model([("s", StandardScaler().fit(X)), ("l", LDA().fit(X, Y))]).query_vectors(X[["hue"]])


def test_the_command_writes_both_kinds(command, tmp_path):
    X.assign(kind=Y).to_csv(tmp_path / "t.csv", index=False)
    how = {"label": "kind", "scaling": "standard", "inner_folds": 2, "max_steps": 1000}
    model = oasis_bench.fit(tmp_path / "t.csv", "OASIS", output=tmp_path / "m.npz", **how)
    command("list")  # takes what was printed so far
    made = {}
    for kind, end in (("queries", "npy"), ("gallery", "parquet")):
        path = tmp_path / f"{kind}.{end}"
        words = [tmp_path / "m.npz", tmp_path / "t.csv", "--for", kind, "--output", path]
        assert command("embed", *words) == (0, "", [])
        made[kind] = np.load(path) if end == "npy" else pd.read_parquet(path).to_numpy()
    expected = scorers.similarity_of(model, X, X)
    found = made["queries"] @ made["gallery"].T
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * expected.std())
    assert command("embed", *words[:4], "--bound", 99, "--output", tmp_path / "b.npy")[0] == 0
    np.testing.assert_array_equal(np.load(tmp_path / "b.npy"), model.gallery_vectors(X, 99))
    for more in (["--for", "both"], ["--bound", "1"]):
        status, _, (line,) = command("embed", *words[:2], *more, "--output", path)
        assert status == 2
        assert "--for" in line


def nearest(model, queries, gallery, k):
    return oasis_bench.neighbours(model, gallery, queries, k)[0]


@pytest.fixture
def vectors():
    """Query and gallery vectors of a blend, and the neighbours that an index should find."""
    rows = StandardScaler().fit_transform(X)
    model = Model([("learner", OASIS(n_steps=500, random_state=0).fit(rows, Y))])
    model.blend_ = Blend.of(model[-1], rows, 0.5)
    both = model.query_vectors(rows[::9]), model.gallery_vectors(rows)
    return *(it.astype(np.float32) for it in both), nearest(model, rows[::9], rows, 5)


def test_faiss_finds_the_neighbours_also_of_items_that_are_added_later(vectors, tmp_path):
    faiss = pytest.importorskip("faiss")
    queries, gallery, expected = vectors
    index = faiss.IndexFlatIP(gallery.shape[1])
    index.add(gallery[:100])
    faiss.write_index(index, str(tmp_path / "index"))
    again = faiss.read_index(str(tmp_path / "index"))
    again.add(gallery[100:])
    np.testing.assert_array_equal(again.search(queries, 5)[1], expected)


def test_usearch_finds_the_neighbours_also_of_items_that_are_added_later(vectors, tmp_path):
    index_of = pytest.importorskip("usearch.index")
    queries, gallery, expected = vectors
    index = index_of.Index(ndim=gallery.shape[1], metric="ip", dtype="f32")
    index.add(np.arange(100), gallery[:100])
    index.save(str(tmp_path / "index"))
    again = index_of.Index.restore(str(tmp_path / "index"))
    again.add(np.arange(100, len(gallery)), gallery[100:])
    np.testing.assert_array_equal(again.search(queries, 5, exact=True).keys, expected)
