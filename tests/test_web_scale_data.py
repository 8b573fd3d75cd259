"""The generated web-scale data: what they look like, and how they lie on disk."""

import mmap
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from oasis_bench.data import canonical
from oasis_bench.datasets import WebScale
from oasis_bench.datasets.web_scale import (
    BATCH,
    REFERENCE,
    TRAINING,
    VISTERMS_PER_IMAGE,
    WebImages,
    WebScaleParameters,
    append_csr,
    index_type,
    map_csr,
    prepare_web_scale,
)
from oasis_bench.system import UsageError

N_TRAIN, N_TEST = 8192, 1000
SMALL = WebScaleParameters(n_train=100, n_test=30, n_visterms=400)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("web") / "data"


@pytest.fixture(scope="module")
def data(folder):
    return prepare_web_scale(folder, WebScaleParameters(N_TRAIN, N_TEST, n_visterms=10_000))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("web") / "small"
    prepare_web_scale(folder, SMALL)
    return folder


@pytest.fixture
def copy_of_small(small, tmp_path):
    return Path(shutil.copytree(small, tmp_path / "copy"))


def is_mapped(array):
    while isinstance(array, np.ndarray | memoryview):
        array = array.base if isinstance(array, np.ndarray) else array.obj
    return isinstance(array, mmap.mmap)


def same(left, right):
    return left.shape == right.shape and all(
        np.array_equal(getattr(left, part), getattr(right, part))
        for part in ("data", "indices", "indptr")
    )


class TestTheImages:
    """Against the papers' numbers and those of the Caltech images with 10000 visterms.

    1095 pictures of Caltech256 and 5512 of Caltech101, counted by this program: 7.4 % and 6.3 % of
    the non-zeros are in the top 1 % of the visterms, 35.1 % and 36.6 % in the top 10 %; 60 % and
    64 % of them are counts of 1; the commonest visterm is in 13.4 % and 4.9 % of the pictures; a
    picture has 84.8 and 48.7 non-zeros, with standard deviations of 0.98 and 0.44 of that.
    """

    def test_they_are_sparse_as_the_papers_are(self, data):
        n_visterms = np.diff(data.train.X.indptr)
        assert n_visterms.mean() == pytest.approx(70, abs=3)
        assert 0.44 < n_visterms.std() / n_visterms.mean() < 0.98
        assert n_visterms.min() >= 1

    def test_their_visterms_are_as_unequal_as_real_ones(self, data):
        n_images = np.sort(np.bincount(data.train.X.indices, minlength=10_000))[::-1]
        share = n_images.cumsum() / n_images.sum()
        assert 0.055 < share[99] < 0.08
        assert 0.33 < share[999] < 0.40
        assert 0.049 < n_images[0] / N_TRAIN < 0.134

    def test_rows_are_canonical_and_of_length_1(self, data):
        for X in (data.train.X, data.test.X):
            assert X.dtype == np.float32
            assert X.has_canonical_format
            np.testing.assert_allclose(sparse.linalg.norm(X, axis=1), 1, rtol=1e-6)

    def test_weights_are_whole_counts_times_the_idf_of_a_set_apart(self):
        images = WebImages(WebScaleParameters(seed=3))
        n_images = sum(
            np.bincount(images.batch(REFERENCE, number).X.indices, minlength=10_000)
            for number in range(8)
        )
        idf = np.log(8 * BATCH / np.maximum(n_images, 1))
        X = images.batch(TRAINING, 0).X
        counts, n_visterms = X.data / idf[X.indices], np.diff(X.indptr)
        least = np.minimum.reduceat(counts, X.indptr[:-1])
        in_least = counts / np.repeat(least, n_visterms)
        in_least = in_least[np.repeat(n_visterms > 20, n_visterms)]  # least: once
        np.testing.assert_allclose(in_least, in_least.round(), rtol=1e-4)
        assert 0.55 < np.mean(in_least.round() == 1) < 0.7

    def test_queries_are_as_many_as_in_table_1(self):
        paper = WebScaleParameters()
        assert (paper.n_train, paper.n_test) == (2_292_259, 402_164)
        assert paper.first_own_query == pytest.approx(139_944, rel=0.01)
        assert paper.n_queries == pytest.approx(150_000, rel=0.01)
        n_test_batches = (paper.n_queries - paper.first_own_query) // 100
        assert n_test_batches * (325 + 100) == pytest.approx(41_877, rel=0.01)

    def test_about_100_images_are_relevant_to_one(self, data):
        is_of_query = (data.train.R > 0).astype(float)
        n_related = (is_of_query @ is_of_query.T).nnz - N_TRAIN  # no image is related to itself
        assert 80 < n_related / N_TRAIN < 120
        assert data.train.R.nnz / N_TRAIN == pytest.approx(1.6, abs=0.02)

    def test_relevance_lies_between_a_tenth_and_1(self, data):
        for R in (data.train.R, data.test.R):
            assert R.has_canonical_format
            assert np.diff(R.indptr).min() >= 1
            assert 0.1 <= R.data.min() < R.data.max() <= 1

    def test_test_images_share_some_queries_with_training_images(self, data):
        first_own = data.parameters.first_own_query
        trained, tested = np.unique(data.train.R.indices), np.unique(data.test.R.indices)
        assert trained.max() < first_own
        assert np.isin(tested[tested < first_own], trained).all()
        own = np.sum(tested >= first_own) / len(tested)
        assert own == pytest.approx((150_000 - 139_944) / 41_877, abs=0.05)


class TestTheSame:
    """Parameters decide every bit; the numbers of images decide where it ends."""

    @pytest.mark.parametrize("n_train", [1, BATCH, BATCH + 1])
    def test_the_first_images_are_the_same_whatever_their_number(self, data, tmp_path, n_train):
        few = prepare_web_scale(tmp_path / "few", WebScaleParameters(n_train, 30, 10_000))
        assert same(few.train.X, data.train.X[:n_train])
        assert same(few.test.X, data.test.X[:30])
        columns = few.parameters.n_queries
        assert same(few.train.R, data.train.R[:n_train, :columns])

    def test_the_model_is_that_of_version_2(self):
        """Where this fails, `VERSION` must be raised: folders of before hold other images."""
        X, R = WebImages(WebScaleParameters()).batch(TRAINING, 1)
        assert X.indices[:5].tolist() == [71, 90, 94, 139, 153]
        assert R.indices[:5].tolist() == [443, 305, 393, 422, 310]
        assert X.nnz == 292_195


class TestTheFolder:
    """It is whole or not there, and it is mapped, never copied."""

    def test_matrices_are_mapped_read_only_without_a_copy(self, data):
        for matrix in (data.train.X, data.train.R, data.test.X, data.test.R):
            for array in (matrix.data, matrix.indices, matrix.indptr):
                assert is_mapped(array)
                assert not array.flags.writeable
            assert matrix.indices.dtype == matrix.indptr.dtype == np.int32
        checked = canonical(data.train.X)
        assert is_mapped(checked.data)
        assert is_mapped(checked.indices)

    def test_index_types_are_wide_enough(self):
        X, _ = WebImages(WebScaleParameters(n_visterms=50_000)).batch(TRAINING, 0)
        assert X.nnz / BATCH < VISTERMS_PER_IMAGE
        last = 2**31 // VISTERMS_PER_IMAGE
        assert index_type(last) == np.int32
        assert index_type(last + 1) == np.int64

    def test_other_parameters_are_refused(self, small):
        with pytest.raises(UsageError, match=r"'n_train': 100.*, not .*'n_train': 200.*'seed': 7"):
            prepare_web_scale(small, WebScaleParameters(200, 30, 400, seed=7))

    @pytest.mark.parametrize(
        ("name", "content"),
        [
            ("train/X_data", b""),
            ("header.json", b"{}"),
            ("header.json", b"{"),
            ("test/R_data", b"1"),
        ],
    )
    def test_a_damaged_folder_is_refused(self, copy_of_small, name, content):
        (copy_of_small / name).write_bytes(content)
        with pytest.raises(UsageError, match="does not hold these web-scale data whole: "):
            prepare_web_scale(copy_of_small, SMALL)

    @pytest.mark.parametrize(
        ("values", "reason"),
        [
            ({"n_train": 0}, "n_train = 0: .* at least 1"),
            ({"n_visterms": 399}, "399 visterms: 400 to 50000"),
            ({"n_visterms": 50_001}, "50001 visterms: 400 to 50000"),
        ],
    )
    def test_numbers_out_of_bounds_are_refused(self, values, reason):
        with pytest.raises(UsageError, match=reason):
            WebScaleParameters(**values)

    @pytest.mark.parametrize("n_visterms", [400, 401, 50_000])
    def test_every_visterm_in_bounds_can_be_drawn(self, n_visterms):
        drawn = np.unique(WebImages(WebScaleParameters(n_visterms=n_visterms))._visterm_of_ticket)
        np.testing.assert_array_equal(drawn, np.arange(n_visterms))


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_csr_files_hold_what_was_written_in_pieces(tmp_path, index):
    X = sparse.random_array((50, 9), density=0.2, format="csr", rng=0, dtype=np.float32)
    for rows in (X[:0], X[:20], X[20:21], X[21:]):
        append_csr(tmp_path, "A", rows, index)
    mapped = map_csr(tmp_path, "A", 9, index)
    assert same(mapped, X)
    assert mapped.indices.dtype == mapped.indptr.dtype == index
    assert is_mapped(mapped.indices)


class TestTheDataSet:
    def test_its_rows_are_the_first_training_images(self, data):
        rows = WebScale(visterms=10_000, n_images=BATCH + 5).load()
        assert isinstance(rows.X, sparse.csr_array)
        assert isinstance(rows.y, sparse.csr_array)
        assert same(rows.X, data.train.X[: BATCH + 5])
        R = data.train.R[: BATCH + 5]
        used = np.unique(R.indices)
        assert same(rows.y, sparse.csr_array(R[:, used]))
        assert rows.class_names == tuple(f"query {number}" for number in used)
        assert rows.multi_label
