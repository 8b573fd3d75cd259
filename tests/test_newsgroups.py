"""20 Newsgroups: the real file, and broken ones."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from scipy.io import loadmat, savemat

from oasis_bench.datasets import TwentyNewsgroups
from oasis_bench.system import UsageError

REAL = Path(os.environ.get("OASIS_BENCH_DATA", os.devnull), "20newsgroups", "20newsgroups.mat")
needs_data = pytest.mark.skipif(
    not REAL.is_file(), reason="OASIS_BENCH_DATA does not hold 20newsgroups"
)

# A word that some newsgroups say more often than any other does.
TELLTALE = {
    "alt.atheism": "atheism",
    "comp.graphics": "jpeg",
    "rec.sport.hockey": "nhl",
    "sci.space": "orbit",
    "talk.politics.mideast": "israeli",
    "talk.religion.misc": "elohim",
}


@pytest.fixture(scope="module")
def rows():
    return TwentyNewsgroups().load()


@needs_data
def test_the_rows_are_canonical_sparse_counts(rows):
    assert isinstance(rows.X, sparse.csr_array)
    assert rows.X.shape == (18221, 36568)
    assert rows.X.dtype == np.float32
    assert rows.X.has_canonical_format
    np.testing.assert_array_equal(rows.X.data, np.round(rows.X.data))
    assert rows.X.data.min() == 1
    assert round(rows.X.nnz / 18221) == 49
    assert len(rows.class_names) == 20
    assert TwentyNewsgroups.scaling == "tfidf"


@needs_data
def test_newsgroups_say_their_own_words_most(rows):
    vocabulary = loadmat(REAL, variable_names=["vocab"])["vocab"].ravel()
    column = {str(word[0]): i for i, word in enumerate(vocabulary)}
    members = sparse.csr_array((np.ones(len(rows.y.data)), (rows.y, np.arange(len(rows.y.data)))))
    said = (members @ rows.X).toarray()
    share = said / said.sum(axis=1, keepdims=True)
    for group, word in TELLTALE.items():
        assert rows.class_names[int(share[:, column[word]].argmax())] == group


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path))
    (tmp_path / "20newsgroups").mkdir()
    return tmp_path / "20newsgroups" / "20newsgroups.mat"


def small():
    """40 postings and 7 words, in MATLAB's order: by columns."""
    counts = np.arange(280.0).reshape(40, 7) % 5 // 2
    return {"A": sparse.csc_array(counts), "gnd3": np.arange(40)[:, None] % 20 + 1}


def test_counts_and_labels_keep_their_places(path):
    content = small()
    savemat(path, content)
    rows = TwentyNewsgroups().load()
    assert isinstance(rows.X, sparse.csr_array)
    np.testing.assert_array_equal(rows.X.toarray(), content["A"].toarray())
    assert rows.X.has_canonical_format
    assert rows.X.dtype == np.float32
    np.testing.assert_array_equal(rows.y, np.arange(40) % 20)


WRONG = {
    "no counts": ({"gnd3": small()["gnd3"]}, "A"),
    "dense counts": (small() | {"A": np.ones((40, 7))}, "check_format"),
    "too few labels": (small() | {"gnd3": np.arange(20) + 1}, "40 rows but 20 labels"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_file_of_another_form_is_refused(path, wrong):
    content, reason = WRONG[wrong]
    savemat(path, content)
    with pytest.raises(UsageError, match=rf"^{path} cannot be read .*{reason}.*: replace it$"):
        TwentyNewsgroups().load()


def test_a_damaged_file_is_refused_before_it_can_crash_scipy(path):
    savemat(path, small(), do_compression=True)
    good = path.read_bytes()
    assert len(TwentyNewsgroups().load().y.data) == 40
    for place in range(140, len(good), 7):
        path.write_bytes(good[:place] + bytes([good[place] ^ 0x55]) + good[place + 1 :])
        with pytest.raises(UsageError, match=rf"^{path} cannot be read "):
            TwentyNewsgroups().load()
