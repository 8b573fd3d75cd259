"""Tables with missing values, categories and dates: against scikit-learn, and end to end."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from oasis_bench.algorithms import LDA
from oasis_bench.command_line import main
from oasis_bench.data import Scaling, apply_steps
from oasis_bench.datasets import TableFile
from oasis_bench.plugins import embed, load_model, neighbours, training_rows_of
from oasis_bench.system import UsageError
from oasis_bench.trial.wall.assignment import learn_preparation

N = 120
KINDS = np.arange(N) % 3


def messy(seed=0):
    """Return a table with a column of each kind, and a label that some of them tell."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "id": np.arange(N) + 1000,
            "name": [f"person {i}" for i in range(N)],
            "age": rng.normal(40 + 10 * KINDS, 5).round(1),
            "income": rng.normal(100 + 50 * KINDS, 20).round(1),
            "colour": np.array(["red", "green", "blue"])[KINDS],
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, N), "D"),
            "member": (rng.random(N) < 0.5).astype(object),
            "version": "v1",
            "label": np.array(["a", "b", "c"])[KINDS],
        }
    )
    table["seen"] = table["seen"].dt.strftime("%Y-%m-%d")
    table.loc[3, "age"] = np.nan
    table.loc[rng.random(N) < 0.3, "income"] = np.nan
    table.loc[rng.random(N) < 0.1, "member"] = None
    table.loc[rng.random(N) < 0.1, "colour"] = None
    table.loc[7, "colour"] = "mauve"
    return table


@pytest.fixture
def path(tmp_path):
    messy().to_csv(tmp_path / "messy.csv", index=False)
    return tmp_path / "messy.csv"


def as_scikit_learn(train, rows):
    """Prepare raw rows by scikit-learn's transformers, learned from raw training rows."""
    frames = []
    for frame in (train, rows):
        days = pd.to_datetime(frame["seen"]).sub(pd.Timestamp("1970-01-01")).dt.days
        flags = frame["member"].astype("boolean").astype("float64")
        colours = frame["colour"].where(frame["colour"].notna(), " missing")
        frames.append(frame.assign(seen=days, member=flags, colour=colours))
    numbers = ["age", "income", "seen", "member"]
    one_hot = OneHotEncoder(
        min_frequency=2, handle_unknown="infrequent_if_exist", sparse_output=False
    )
    columns = ColumnTransformer(
        [("numbers", SimpleImputer(strategy="median"), numbers), ("texts", one_hot, ["colour"])]
    ).fit(frames[0])
    X = columns.transform(frames[1])
    missing = [frames[1][[name]].isna() for name in ("income", "member")]
    return np.hstack([X[:, :4], *missing, X[:, 4:]])


def test_rows_are_those_of_scikit_learn_learned_from_training_rows_alone(path):
    table, rows = messy(), TableFile(path).load()
    train = np.arange(N) < 60
    steps = learn_preparation(LDA, "none", rows.X[train], rows.encoding)
    for part in (train, ~train):
        expected = as_scikit_learn(table[train], table[part])
        np.testing.assert_array_equal(apply_steps(steps, rows.X[part]), expected)
    # the medians of the training rows are others than those of all
    (first,) = Scaling("none").learn(rows.X[train], encoding=rows.encoding)
    whole = Scaling("none").learn(rows.X, encoding=rows.encoding)[0]
    assert first.medians_[3] == np.median(table["income"][train].dropna()) != whole.medians_[3]


def test_scaling_follows_the_preparation(path):
    rows = TableFile(path).load()
    prepare, standard = Scaling("standard").learn(rows.X, encoding=rows.encoding)
    X = prepare.transform(rows.X)
    np.testing.assert_array_equal(standard.mean_, StandardScaler().fit(X).mean_)
    assert np.isfinite(apply_steps([prepare, standard], rows.X)).all()


def test_each_decision_is_described_and_remarked(path, capsys):
    assert main(["data", "describe", str(path)]) == 0
    said = capsys.readouterr().out
    for line in (
        r"'id' .*left out, as an id",
        r"'name' .*left out, as an id",
        r"'age' .*, 1 missing: missing ones get the median of the training rows$",
        r"'income' .* missing: missing ones get the median of the training rows and an indicator",
        r"'colour' .*one-hot; texts in under 1% of the training rows share a column",
        r"'seen' .*date.*: days since 1970",
        r"'member' .*number, 0 to 1.*: missing ones get the median",
        r"'version' .*left out, as it is constant",
    ):
        assert re.search(line, said, re.MULTILINE), line
    (remark,) = TableFile(path).load().remarks
    assert remark.startswith(
        "columns prepared: 3 with missing values imputed by the median ('age', 'income', 'member')"
        ", 1 one-hot ('colour'), 1 as days ('seen'), 1 left out as constant ('version'), 2 left "
        "out as id ('id', 'name')"
    )


def test_complete_numbers_stay_as_they_are(tmp_path):
    table = messy()[["income", "age", "label"]].dropna()
    table.to_csv(tmp_path / "t.csv", index=False)
    auto, none = (TableFile(tmp_path / "t.csv", prepare=how).load() for how in ("auto", "none"))
    assert auto.encoding is None
    assert auto.content_hash() == none.content_hash()


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    table = messy()
    table.loc[5, "label"] = None
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(UsageError) as caught:
        TableFile(tmp_path / "t.csv", prepare="none").load()
    told = str(caught.value)
    for part in ("4 columns are not numeric", "'income' (", "'age' (1)", "1 label is missing"):
        assert part in told
    with pytest.raises(UsageError, match="--prepare 'all': one of 'auto' 'none'"):
        TableFile(tmp_path / "t.csv", prepare="all").load()


def test_a_target_of_numbers_becomes_classes_of_equal_size(tmp_path):
    prices = np.random.default_rng(1).normal(size=N)
    table = pd.DataFrame({"a": np.arange(N) ** 2.5, "price": prices})
    table.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(UsageError, match=r"numbers with fractions.*--bins 5"):
        TableFile(tmp_path / "t.csv", "price").load()
    rows = TableFile(tmp_path / "t.csv", "price", bins=5).load()
    expected = pd.qcut(table["price"], 5, labels=False)
    np.testing.assert_array_equal(rows.y, expected)
    assert rows.class_names[1] == "({:.6g}, {:.6g}]".format(*table["price"].quantile([0.2, 0.4]))
    near = table.assign(price=1_250_000 + np.arange(N) % 6)
    near.to_csv(tmp_path / "near.csv", index=False)
    names = TableFile(tmp_path / "near.csv", "price", bins=5).load().class_names
    assert len(set(names)) == len(names) > 3
    for bins, label, message in (
        (1, "price", "--bins 1: a number from 2"),
        (3, "kind", "--bins makes classes of numbers, but the label 'x' is text"),
    ):
        table.assign(kind="x").to_csv(tmp_path / "t.csv", index=False)
        with pytest.raises(UsageError, match=message):
            TableFile(tmp_path / "t.csv", label, bins=bins).load()


FEW = ["--inner-folds", "2", "--classes", "all"]


def test_a_messy_table_from_run_to_evaluate(path, tmp_path, capsys):
    run = tmp_path / "run"
    words = ["--algorithms", "LDA,Euclidean", "--partitions", "1", "--train", "20", "--test", "20"]
    keep = ["--save-models", "--output", str(run)]
    assert main(["run", "--dataset", str(path), *words, *FEW, *keep]) == 0
    assert "columns prepared: 3 with" in capsys.readouterr().err
    assert "1 left out as constant" in (run / "report.html").read_text()
    model = str(run / "models/LDA_all_0.npz")
    other = messy()[["label", "colour", "member", "seen", "income", "age"]]  # without ids
    other.to_csv(tmp_path / "other.csv", index=False)
    for of in ("messy.csv", "other.csv"):
        words = ["--dataset", str(tmp_path / of), "--output", str(tmp_path / f"of {of}")]
        words += ["--partitions", "1"]
        assert main(["evaluate", model, *words]) == 0
        assert "60 of the 120 rows are training rows" in capsys.readouterr().err


def test_a_saved_model_takes_raw_rows(path, tmp_path):
    model_path = tmp_path / "m.npz"
    words = ["--learner", "LDA", "--inner-folds", "2", "--output", str(model_path)]
    words += ["--use", "direct"]
    assert main(["fit", str(path), *words]) == 0
    model, rows, table = load_model(model_path), TableFile(path).load(), messy()
    assert (model[0].schema, model[1].encoding) == (rows.schema, rows.encoding)
    assert len(training_rows_of(model_path)) == N
    raw = table.drop(columns=["label", "id", "version"]).iloc[:12]
    raw.to_csv(tmp_path / "raw.csv", index=False)
    found = tmp_path / "found.csv"
    words = [str(path), str(tmp_path / "raw.csv"), "-k", "2", "--output", str(found)]
    assert main(["neighbours", str(model_path), *words]) == 0
    nearest, _ = neighbours(model, table, raw, 2)
    assert pd.read_csv(found)["neighbour"].tolist() == nearest.ravel().tolist()
    assert nearest[:, 0].tolist() == [*range(12)]
    expected = model[-1].transform(
        apply_steps([step for _, step in model.steps[1:-1]], rows.X[:12])
    )
    np.testing.assert_array_equal(embed(model, raw), expected)


def test_the_page_on_data_of_your_own_shows_what_is_printed(tmp_path, capsys, monkeypatch):
    docs = Path(__file__).parents[1] / "docs"
    shutil.copy(docs / "_static/wines.csv", tmp_path)
    monkeypatch.chdir(tmp_path)
    page = (docs / "own-data.md").read_text()
    words = [shlex.split(line[6:])[3:] for line in page.splitlines() if line.startswith("    $ ")]
    assert main(words[0]) == 0
    described = capsys.readouterr().out.splitlines()
    lines = page.split("    $ python -m oasis_bench data describe")[1].splitlines()[1:17]
    assert lines[0].startswith("    columns: 12")
    assert {line[4:] for line in lines} <= {*described}
    few = ["--algorithms", "Euclidean", "--partitions", "1", "--output", "run"]
    assert main([*words[1][:-2], *few]) == 0
    told = capsys.readouterr().err
    after = page.split("    $ python -m oasis_bench run --dataset wines.csv")[1].splitlines()[1:5]
    assert all(line.strip() in told for line in after)
    assert "30 of each class are for training" in after[-1]
