"""The tables and texts of many classes: counts and rows by hand, and small files."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from oasis_bench.analysis import domains_of
from oasis_bench.data import Scaling
from oasis_bench.datasets import ManyClasses
from oasis_bench.datasets.many_classes import SOURCES
from oasis_bench.system import UsageError

FACTS = {
    # file, label, rows kept, classes kept, features: by opening the files
    "Adiac": ("ucr/Adiac.csv.gz", "label", 781, 37, 176),
    "FiftyWords": ("ucr/FiftyWords.csv.gz", "label", 837, 40, 270),  # 10 classes are small
    "SwedishLeaf": ("ucr/SwedishLeaf.csv.gz", "label", 1122, 15, 128),  # 3 rows are equal to others
    "Fungi": ("ucr/Fungi.csv.gz", "label", 204, 18, 201),
    "CricketX": ("ucr/CricketX.csv.gz", "label", 780, 12, 300),
    "Plane": ("ucr/Plane.csv.gz", "label", 210, 7, 144),
    "MedicalImages": ("ucr/MedicalImages.csv.gz", "label", 1140, 10, 99),
    "MelbournePedestrian": ("ucr/MelbournePedestrian.csv.gz", "label", 2400, 10, 24),
    "ACSF1": ("ucr/ACSF1.csv.gz", "label", 200, 10, 1460),
    "frogs": ("frogs/frogs.csv", "species", 2400, 10, 22),
    "pendigits": ("uci/pendigits.csv.gz", "label", 10992, 10, 16),
    "mfeat-pix": ("uci/mfeat-pix.csv.gz", "label", 1994, 10, 240),
    "libras": ("uci/libras.csv.gz", "label", 330, 15, 90),  # 30 pairs of equal rows
    "plant-leaves": ("uci/plant-leaves.csv.gz", "species", 1584, 99, 192),
    "landuse21": ("uci/landuse21.csv.gz", "label", 2099, 21, 119),
    "scene15": ("uci/scene15.csv.gz", "label", 2394, 15, 119),
    "coil20": ("coil20/coil20.csv.gz", "object", 1440, 20, 1024),
    "omniglot": ("omniglot/characters-28x28.csv.gz", "character", 4840, 242, 784),
    "clinc150": ("intents/clinc150.csv", "intent", 22144, 150, 6192),
    "banking77": ("intents/banking77.csv", "intent", 12925, 77, 2532),
    "hwu64": ("intents/hwu64.csv", "intent", 10790, 64, 4521),
}
FEATURES = r"^(t|p|f|a|b|c|MFCCs_|margin|shape|texture)\d+$"
"""The columns of features, as `README` of the files names them."""

DATA = os.environ.get("OASIS_BENCH_DATA", os.devnull)


def cells_of(table):
    path = Path(DATA, FACTS[table][0])
    if not path.is_file():
        pytest.skip(f"OASIS_BENCH_DATA does not hold {FACTS[table][0]}")
    return pd.read_csv(path)


def test_each_table_is_tested_and_has_a_domain():
    assert set(FACTS) == set(SOURCES)
    for table in FACTS:
        title = ManyClasses(table).title
        assert domains_of([title]) != [title]


@pytest.mark.parametrize("table", FACTS)
def test_each_row_is_a_row_of_the_file_with_its_class(table):
    cells = cells_of(table)
    _, label, n_rows, n_classes, n_features = FACTS[table]
    rows = ManyClasses(table).load_checked()
    assert rows.X.shape == (n_rows, n_features)
    assert len(rows.class_names) == n_classes
    assert rows.class_counts().min() >= 8
    classes = np.array(rows.class_names)[rows.y]
    if "text" in cells:
        assert set(rows.class_names) == set(cells[label])
        return
    features = cells.filter(regex=FEATURES).to_numpy(float)
    given = {row.tobytes(): f"{name}" for row, name in zip(features, cells[label], strict=True)}
    assert [given[row.tobytes()] for row in rows.X] == classes.tolist()
    assert len({row.tobytes() for row in rows.X}) == n_rows


def test_a_text_has_the_counts_of_its_words():
    """The first one: 'I am still waiting on my card?'; am, card, my, on, still and waiting."""
    cells = cells_of("banking77")
    rows = ManyClasses("banking77").load()
    assert cells["text"][0] == "I am still waiting on my card?"
    assert isinstance(rows.X, sparse.csr_array)
    assert rows.X.dtype == np.float32
    first = rows.X[[0]].toarray().ravel()
    assert first.sum() == first.astype(bool).sum() == 6
    assert rows.class_names[rows.y[0]] == "card_arrival"
    held = cells["text"].str.lower().str.findall(r"\b\w\w+\b")
    columns = sorted({word for words in held for word in words})
    named = [columns[i] for i in np.flatnonzero(first)]
    assert named == ["am", "card", "my", "on", "still", "waiting"]
    assert ManyClasses("banking77").default_scaling(rows) == "tfidf"


# Small files


@pytest.fixture
def put(tmp_path, monkeypatch):
    """Return what writes the cells of a table where it is looked for."""
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path))

    def write(table, cells):
        path = tmp_path / FACTS[table][0]
        path.parent.mkdir(exist_ok=True)
        cells.to_csv(path, index=False)
        return path

    return write


def frogs(sizes):
    """Frogs with as many rows of each species as `sizes` says; each has another value."""
    species = np.repeat([*sizes], [*sizes.values()])
    n = len(species)
    values = {"MFCCs_1": np.arange(n) / 8, "MFCCs_2": 1.0}
    return pd.DataFrame({**values, "species": species, "RecordID": np.arange(n) % 5})


def test_small_classes_and_equal_rows_leave(put):
    cells = frogs({"b": 9, "a": 8, "few": 7, "twice": 8})
    cells.loc[8, "MFCCs_1"] = cells.loc[2, "MFCCs_1"]  # of b, of other recordings
    cells.loc[31, "MFCCs_1"] = cells.loc[30, "MFCCs_1"]  # of `twice`, which then has seven
    put("frogs", cells)
    rows = ManyClasses("frogs").load()
    assert rows.class_names == ("a", "b")
    np.testing.assert_array_equal(rows.X, [[i / 8, 1] for i in [*range(8), *range(9, 17)]])
    np.testing.assert_array_equal(rows.y, [1] * 8 + [0] * 8)
    assert rows.left_out == ("2 rows that equal an earlier row", "2 classes of fewer than 8 rows")
    assert ManyClasses("frogs").default_scaling(rows) == Scaling.OF_COLUMNS


def test_numbers_as_classes_are_in_numerical_order(put):
    cells = frogs({10: 8, 9: 8}).rename(columns={"species": "label", "RecordID": "part"})
    put("pendigits", cells)
    assert ManyClasses("pendigits").load().class_names == ("9", "10")


def test_texts_of_the_same_words_are_equal(put):
    texts = [f"play song{i} now" for i in range(8)] + [f"stop it, it {i}{i}" for i in range(8)]
    texts += ["Now play song3!"]
    put("hwu64", pd.DataFrame({"text": texts, "intent": ["play"] * 8 + ["stop"] * 8 + ["play"]}))
    rows = ManyClasses("hwu64").load()
    assert rows.X.shape == (16, 20)  # it, now, play, stop, eight songs, eight numbers
    assert rows.X[[8]].toarray().max() == 2  # it
    np.testing.assert_array_equal(rows.X.sum(axis=1), [3] * 8 + [4] * 8)


def test_a_missing_file_is_named_with_its_source(tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    dataset = ManyClasses("frogs")
    assert dataset.location() is None
    with pytest.raises(UsageError) as raised:
        dataset.load()
    message = str(raised.value)
    assert "\n" not in message
    for part in ("frogs/frogs.csv", "$OASIS_BENCH_DATA", "Neural-Computing-Coursework", "RecordID"):
        assert part in message


def test_a_damaged_file_and_an_unknown_table_are_refused(put):
    path = put("frogs", frogs({"a": 8, "b": 8}).drop(columns="species"))
    with pytest.raises(UsageError, match=rf"^{path} cannot be read .*'species'.*: replace it$"):
        ManyClasses("frogs").load()
    lost = frogs({"a": 8, "b": 8})
    lost.loc[3, "MFCCs_1"] = None
    put("frogs", lost)
    with pytest.raises(UsageError, match=r"cannot be read .*: replace it$"):
        ManyClasses("frogs").load()
    with pytest.raises(UsageError, match="unknown table 'frog': did you mean 'frogs'"):
        ManyClasses("frog")
