"""Tables are read in one way by a model and by all that is given to it later."""

import datetime
import importlib.util
import json
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import oasis_bench
from oasis_bench.algorithms import LDA, Euclidean
from oasis_bench.command_line import main
from oasis_bench.data import Column, ReadTable, Schema, frame_as_bytes, read_frame
from oasis_bench.datasets import TableFile
from oasis_bench.plugins import load_model, save_model
from oasis_bench.scorers import mean_average_precision, similarity_of
from oasis_bench.system import UsageError

N = 60
RNG = np.random.default_rng(3)
U = RNG.normal(size=N).round(4)
QUICK = {"inner_folds": 2, "search": 2, "blend": "off"}
DIRECT = ["--use", "direct"]


def write(path, header, lines):
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def read(path, **options):
    return TableFile(path, **options).load()


def fitted(path, learner="Euclidean", **options):
    return oasis_bench.fit(path, learner, **options, **QUICK)


def column_of(cells, tmp_path, **options):
    """Return the column x of a file with a column of numbers, and its remarks."""
    labels = ["a", "b"] * len(cells)
    lines = [f"{n * n + 0.5};{cell};{labels[n]}" for n, cell in enumerate(cells)]
    rows = read(write(tmp_path / "column.csv", "n;x;label", lines), **options)
    return rows.schema.columns[1], rows.X[:, 1], rows.remarks


# A later file is read as the first one was


TEXTS = {
    "codes with a zero before": (["01", "02", "7a", "b", "c"], ["01", "02"]),
    "exponents": (["1E2", "1.10", "x", "y", "z"], ["1E2", "1.10"]),
    "true, false and unknown": (["TRUE", "FALSE", "unknown", "other", "no"], ["TRUE", "FALSE"]),
    "dates beside words": (["2020-01-01", "open", "closed", "late"], ["2020-01-01"]),
    "a word for missing": (["?", "b", "c", "d"], ["?", "b"]),
}


@pytest.mark.parametrize(("texts", "few"), TEXTS.values(), ids=TEXTS.keys())
def test_a_query_with_some_of_the_categories_is_read_as_the_whole_table(tmp_path, texts, few):
    cells = [texts[i % len(texts)] for i in range(N)]
    lines = [f"{u},{cell},k{i % 3}" for i, (u, cell) in enumerate(zip(U, cells, strict=True))]
    table = write(tmp_path / "t.csv", "u,code,label", lines)
    chosen = [line for line in lines if line.split(",")[1] in few]
    query = write(tmp_path / "q.csv", "u,code,label", chosen)
    main(
        ["fit", str(table), "--learner", "Euclidean", *DIRECT, "--output", str(tmp_path / "m.npz")]
    )
    found = tmp_path / "found.csv"
    words = [str(tmp_path / "m.npz"), str(table), str(query), "-k", "1", "--output", str(found)]
    assert main(["neighbours", *words]) == 0
    nearest = pd.read_csv(found)
    assert nearest["neighbour"].tolist() == [lines.index(line) for line in chosen]
    np.testing.assert_allclose(nearest["similarity"], 0, atol=1e-6)


def test_numbers_keep_the_signs_of_the_table(tmp_path):
    table = ["865.394;0,76;a", "1.865.394;0,5;b", "12.000;1;a", "7.500;0,25;b"] * 5
    model = fitted(write(tmp_path / "t.csv", "pop;share;label", table))
    query = write(tmp_path / "q.csv", "share;pop", ["1;865.394", "0,5;23.636"])
    X, _ = TableFile(query).load_items(schema=model[0].schema)
    np.testing.assert_array_equal(X, [[865394, 1], [23636, 0.5]])
    bad = write(tmp_path / "bad.csv", "share;pop", ["1;12", "0.5;13"])
    with pytest.raises(UsageError, match=r"column 'share' was a number.*'0\.5' in row 2"):
        TableFile(bad).load_items(schema=model[0].schema)


def test_a_comma_is_refused_where_the_table_did_not_say_what_it_means(tmp_path):
    table = write(tmp_path / "t.csv", "a,label", [f"{u},{'xy'[i % 2]}" for i, u in enumerate(U)])
    schema = read(table).schema
    query = write(tmp_path / "q.csv", "a;b", ["1.234;5", "1,234;6"])
    with pytest.raises(UsageError, match=r"column 'a' was a number .*'1,234' in row 2"):
        TableFile(query).load_items(schema=schema)


def test_dates_are_not_taken_from_numbers_nor_numbers_from_dates(tmp_path):
    lines = [f"2020-01-{1 + i % 28:02},{u},{'xy'[i % 2]}" for i, u in enumerate(U)]
    schema = read(write(tmp_path / "t.csv", "day,size,label", lines)).schema
    for cells, message in (
        ("43831,1", "column 'day' was a date .*'43831' in row 1"),
        ("20200131,1", "column 'day' was a date .*'20200131' in row 1"),
        ("2020-01-31,2001-05-03", "column 'size' was a number .*'2001-05-03' in row 1"),
    ):
        query = write(tmp_path / "q.csv", "day,size", [cells])
        with pytest.raises(UsageError, match=message):
            TableFile(query).load_items(schema=schema)
    for column, value in (("day", 20200131), ("size", pd.Timestamp("2001-05-03"))):
        table = pd.DataFrame({"day": ["2020-01-31"], "size": [1.0]}).assign(**{column: value})
        with pytest.raises(UsageError, match=f"column '{column}' was a"):
            schema.rows_of(table)


def test_a_missing_value_is_refused_where_the_table_had_none(tmp_path):
    lines = [f"{u},{u * u},{'xy'[i % 2]}" for i, u in enumerate(U)]
    schema = read(write(tmp_path / "t.csv", "a,b,label", lines)).schema
    with pytest.raises(UsageError, match=r"'b' has a missing value in row 2, .* complete rows"):
        schema.rows_of(pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.nan]}))


@pytest.mark.parametrize("from_zero", [True, False])
def test_svmlight_keeps_its_base_and_its_width(tmp_path, from_zero):
    X = RNG.integers(1, 9, (N, 4)).astype(float)
    dump_svmlight_file(X, np.arange(N) % 2, str(tmp_path / "t.svm"), zero_based=from_zero)
    few = X[:5].copy()
    few[:, [0, 3]] = 0  # neither the first feature nor the last
    dump_svmlight_file(few, np.zeros(5), str(tmp_path / "q.svm"), zero_based=from_zero)
    model = fitted(tmp_path / "t.svm", scaling=("none",))
    save_model(model, tmp_path / "m.npz")
    schema = ReadTable.of_model(load_model(tmp_path / "m.npz"))
    assert (schema.n_features, schema.from_zero) == (4, from_zero)
    found, _ = TableFile(tmp_path / "q.svm").load_items(schema=schema)
    np.testing.assert_array_equal(found.toarray(), few)
    dump_svmlight_file(np.ones((2, 5)), np.zeros(2), str(tmp_path / "w.svm"), zero_based=from_zero)
    with pytest.raises(UsageError, match="svmlight cannot be read"):
        TableFile(tmp_path / "w.svm").load_items(schema=schema)


def test_a_feature_with_the_name_of_a_label_stays_a_feature(tmp_path):
    lines = [f"{u},{u * u},{'xz'[i % 2]}" for i, u in enumerate(U)]
    schema = read(write(tmp_path / "t.csv", "x,y,label", lines)).schema
    query = write(tmp_path / "q.csv", "y,x", ["1,2"])
    np.testing.assert_array_equal(TableFile(query).load_items(schema=schema)[0], [[2, 1]])


# From Python


def table_of_all_kinds():
    """Return a table with a column of each kind; its texts and dates are in text."""
    kinds = np.arange(N) % 3
    return pd.DataFrame(
        {
            "a": U + kinds,
            "b": np.where(RNG.random(N) < 0.2, np.nan, U * 7),
            "colour": np.array(["red", "green", "blue", None], dtype=object)[np.arange(N) % 4],
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(N) * 37 % 900, "D"),
            "is_new": np.arange(N) % 5 < 2,
            "label": np.array(["u", "v", "w"])[kinds],
        }
    )


def test_the_same_table_of_each_source_gives_the_same_model_and_neighbours(tmp_path):
    polars = pytest.importorskip("polars")
    frame = table_of_all_kinds()
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    sources = {
        "csv": tmp_path / "t.csv",
        "parquet": tmp_path / "t.parquet",
        "pandas": frame,
        "read by pandas": pd.read_csv(tmp_path / "t.csv"),
        "polars": polars.from_pandas(frame),
        "arrow": pa.Table.from_pandas(frame),
    }
    models = {name: fitted(source, "LDA") for name, source in sources.items()}
    queries = [sources[name] for name in ("pandas", "read by pandas", "polars", "arrow")]
    rows, similarities = oasis_bench.neighbours(models["csv"], frame, frame, k=3)
    for name, model in models.items():
        np.testing.assert_array_equal(model[-1].components_, models["csv"][-1].components_, name)
        for query in queries:
            again = oasis_bench.neighbours(model, query, query, k=3)
            np.testing.assert_array_equal(again[0], rows)
            np.testing.assert_array_equal(again[1], similarities)
    embedded = oasis_bench.embed(models["csv"], frame)
    for name in ("csv", "parquet"):
        path = tmp_path / f"of {name}.npy"
        save_model(models[name], tmp_path / "m.npz")
        assert (
            main(["embed", str(tmp_path / "m.npz"), str(sources[name]), "--output", str(path)]) == 0
        )
        np.testing.assert_array_equal(np.load(path), embedded)


def test_columns_are_matched_by_name_with_missing_values_too():
    X, y = load_iris(return_X_y=True, as_frame=True)
    X = X.mask(np.random.default_rng(0).random(X.shape) < 0.1)
    model = fitted((X, y), "LDA", task="retrieval")
    straight, reverse = (model.score(rows, y) for rows in (X, X[X.columns[::-1]]))
    assert straight == reverse > 0.8
    assert straight == mean_average_precision(model, X, y)
    np.testing.assert_array_equal(
        similarity_of(model, X[:2], X), similarity_of(model, X[:2].iloc[:, ::-1], X)
    )
    names = make_pipeline(*[step for _, step in model.steps[:2]]).get_feature_names_out()
    assert [*names] == [*X.columns, *(f"{name}_missing" for name in X.columns)]
    frame = make_pipeline(*[step for _, step in model.steps[:2]]).set_output(transform="pandas")
    np.testing.assert_array_equal(frame.transform(X), model[:2].transform(X))
    np.testing.assert_array_equal(clone(model[0]).transform(X), model[0].transform(X))


def test_texts_of_a_frame_are_texts(tmp_path):
    codes = np.array(["01234", "1234", "none", "0,5"], dtype=object)[np.arange(N) % 4]
    categories = pd.Categorical(np.arange(N) % 3 + 1)
    frame = pd.DataFrame(
        {"u": U * 1000, "code": codes, "class_": categories, "label": ["a", "b"] * 30}
    )
    model = fitted(frame)
    schema = model[0].schema
    assert [column.kind for column in schema.columns] == ["number", "category", "category"]
    assert schema.columns[1].texts == ("0,5", "01234", "1234", "none")
    assert schema.columns[2].texts == ("1", "2", "3")
    np.testing.assert_array_equal(schema.rows_of(frame)[:, 0], U * 1000)
    rows, _ = oasis_bench.neighbours(model, frame, frame, k=1)
    np.testing.assert_array_equal(rows[:, 0], np.arange(N))
    path = tmp_path / "again.csv"
    frame.to_csv(path, index=False)
    np.testing.assert_array_equal(
        TableFile(path).load_items(schema=schema)[0], schema.rows_of(frame)
    )


def test_texts_that_look_like_numbers_are_remarked_and_can_be_declared():
    prices = np.array(["19,355.08", "1,200.50", "7.25"], dtype=object)[np.arange(N) % 3]
    frame = pd.DataFrame({"price": prices, "u": U, "label": ["a", "b"] * 30})
    model = fitted(frame)  # the same frame is never refused
    assert oasis_bench.embed(model, frame).shape[0] == N
    declared = fitted(frame, column={"price": "number"})[0].schema
    np.testing.assert_array_equal(declared.rows_of(frame)[:3, 0], [19355.08, 1200.5, 7.25])


def test_words_for_missing_values_are_missing_in_memory_too(tmp_path):
    words = ["x", "y", "none", "?", "", "NA"]
    lines = [f"{u},{words[i % 6]},{'ab'[i % 2]}" for i, u in enumerate(U)]
    path = write(tmp_path / "t.csv", "u,code,label", lines)
    schema = read(path).schema
    as_texts = pd.read_csv(path, keep_default_na=False)
    np.testing.assert_array_equal(
        schema.rows_of(as_texts), TableFile(path).load_items(schema=schema)[0]
    )
    assert np.isnan(schema.rows_of(as_texts)[:6, 1]).tolist() == [False] * 2 + [True] * 4


def test_numbers_stand_for_categories_that_have_their_value(tmp_path):
    codes = ["01", "02", "7a", "x", "y"]
    lines = [f"{u},{codes[i % 5]},{'ab'[i % 2]}" for i, u in enumerate(U)]
    schema = read(write(tmp_path / "t.csv", "u,code,label", lines)).schema
    found = schema.rows_of(pd.DataFrame({"u": [0, 0, 0], "code": [1.0, 2.0, 9.0]}))
    assert found[:, 1].tolist() == [0, 1, 5]
    twice = Schema((Column("c", "category", texts=("01", "001", "b")),), is_plain=False)
    with pytest.raises(UsageError, match=r"column 'c' was a text .*, and 1 in row 1"):
        twice.rows_of(pd.DataFrame({"c": [1, 2]}))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.array([["a", 1.0]], dtype=object), "column 'u' was a number .*'a' in row 1"),
        (np.ones((1, 3)), r"rows of shape \(1, 3\), and the model was fitted on 2 columns"),
        (pd.DataFrame({"u": [1.0]}), "the rows lack the column 'code'"),
        (pd.DataFrame([[1.0, 2.0, "x"]], columns=["u", "u", "code"]), "several columns .*'u'"),
    ],
)
def test_rows_that_do_not_fit_are_told_in_one_line(tmp_path, given, message):
    lines = [f"{u},{'pqr'[i % 3]},{'ab'[i % 2]}" for i, u in enumerate(U)]
    model = fitted(write(tmp_path / "t.csv", "u,code,label", lines))
    with pytest.raises(UsageError, match=message) as caught:
        oasis_bench.neighbours(model, given, given, k=1)
    assert "\n" not in str(caught.value)


def test_a_model_of_an_array_with_missing_values_refuses_texts():
    X = np.where(RNG.random((N, 3)) < 0.1, np.nan, RNG.normal(size=(N, 3)))
    model = fitted((X, np.arange(N) % 2))
    with pytest.raises(UsageError, match="rows of numbers are needed"):
        oasis_bench.embed(model, np.array([["a", "b", "c"]], dtype=object))


def test_a_mask_is_missing_and_float32_stays():
    X = np.ma.array(RNG.normal(size=(N, 2)), mask=False)
    X[3, 1] = np.ma.masked
    model = fitted((X, np.arange(N) % 2))
    assert model[0].n_features_in_ == 2
    assert model[0].medians_[1] == np.median(np.delete(X.data[:, 1], 3))
    frame = pd.DataFrame({"a": U, "b": U * 2}, dtype=np.float32).assign(label=np.arange(N) % 2)
    assert fitted(frame)[0].transform(frame).dtype == np.float32


def test_labels_that_print_alike_are_refused():
    y = np.array([1, "1"] * 30, dtype=object)
    with pytest.raises(UsageError, match="labels of several types print alike"):
        fitted((U[:, None], y))
    with pytest.raises(UsageError, match="labels of type object: strings or whole numbers only"):
        fitted(pd.DataFrame({"u": U, "label": y}))


# A frame in a file


def test_a_frame_comes_back_with_its_types(tmp_path):
    frame = table_of_all_kinds().assign(
        text=["a\rb", 'q"', "z,"] * 20,
        whole=np.arange(N),
        half=U.astype(np.float32),
        kind=pd.Categorical(["p", None, "q"] * 20),
        date=[datetime.date(9999, 12, 31), None] * 30,
    )
    (tmp_path / "t.table.npz").write_bytes(frame_as_bytes(frame))
    again = read_frame(tmp_path / "t.table.npz")
    assert again.columns.tolist() == frame.columns.tolist()
    for name in ("a", "b", "whole", "half", "day"):
        np.testing.assert_array_equal(again[name], frame[name])
    assert again["half"].dtype == np.float32
    for name in ("text", "colour", "kind", "is_new"):
        found = [None if pd.isna(one) else one for one in again[name]]
        assert found == [None if pd.isna(one) else one for one in frame[name]]
    assert again["date"].tolist()[0].year == 9999
    with zipfile.ZipFile(tmp_path / "t.table.npz") as archive:
        assert len(json.loads(archive.read("table.json"))) == frame.shape[1]


def test_values_of_several_types_are_named(tmp_path):
    frame = pd.DataFrame({"u": U, "odd": [1, "x"] * 30, "label": ["a", "b"] * 30})
    with pytest.raises(UsageError, match=r"'odd': 'x' in row 2 is no number, as others are: "):
        fitted(frame)
    assert fitted(frame, drop="odd")[0].schema.names == ("u",)


# What a column is


FORMS = {
    "percentages": ("%", [("12.5%", 12.5), ("3 %", 3), ("100%", 100)]),
    "a currency": ("$", [("$3.30", 3.3), ("-$1,200.50", -1200.5), ("$7", 7)]),
    "a unit": ("kg", [("0.37 kg", 0.37), ("12kg", 12), ("1.5 kg", 1.5)]),
    "parentheses": ("", [("(0.37)", -0.37), ("12.1", 12.1), ("(3)", -3)]),
    "a minus of Unicode": ("", [("\u22121.5", -1.5), ("2", 2), ("3", 3)]),
    "truth values": ("true/false", [("TRUE", 1), ("False", 0), ("true", 1)]),
    "times": ("time of day", [("12:30:00", 12.5 / 24), ("06:00", 0.25), ("23:59", 1439 / 1440)]),
    "day first": ("%d/%m/%Y", [("31/12/2020", 18627), ("01/02/2020", 18293)]),
    "month first": ("%m/%d/%Y", [("12/31/2020", 18627), ("02/01/2020", 18293)]),
    "points": ("%d.%m.%Y", [("31.12.2020", 18627), ("01.02.2020", 18293)]),
    "names of months": ("%d %b %Y", [("31 Dec 2020", 18627), ("1 Feb 2020", 18293)]),
    "far away": ("ISO 8601", [("9999-12-31", 2932896), ("0001-01-01", -719162)]),
    "with a zone": (
        "ISO 8601",
        [("2020-12-31T12:00:00+01:00", 18627 + 11 / 24), ("1970-01-02T12:00Z", 1.5)],
    ),
}


@pytest.mark.parametrize(("form", "cells"), FORMS.values(), ids=FORMS.keys())
def test_cells_are_read_as_a_person_reads_them(tmp_path, form, cells):
    column, found, _ = column_of([text for text, _ in cells] * 4, tmp_path)
    assert column.form == form
    np.testing.assert_allclose(found[: len(cells)], [value for _, value in cells], rtol=1e-12)


def test_what_was_read_otherwise_is_described(tmp_path, capsys):
    lines = [f"{n + 0.5};{n % 9}%;{1 + n % 28}/12/2020;{'ab'[n % 2]}" for n in range(30)]
    path = write(tmp_path / "t.csv", "n;share;day;label", lines)
    assert main(["data", "describe", str(path)]) == 0
    said = capsys.readouterr().out
    assert "'share'  number (%), 0 to 8" in said
    assert "'day'    date (%d/%m/%Y), 2020-12-01 to 2020-12-28: days since 1970" in said
    assert "columns read: 'share' as a number (%), 'day' as a date (%d/%m/%Y)" in read(path).remarks


def test_dates_that_may_be_read_in_two_ways_must_be_declared(tmp_path):
    cells = ["01/02/2020", "03/04/2020", "05/06/2020"] * 4
    with pytest.raises(UsageError, match=r"'01/02/2020' in row 1 is %d/%m/%Y or %m/%d/%Y"):
        column_of(cells, tmp_path)
    _, found, _ = column_of(cells, tmp_path, column="x=%m/%d/%Y")
    assert found[0] == (datetime.date(2020, 1, 2) - datetime.date(1970, 1, 1)).days
    column, _, _ = column_of(cells, tmp_path, column="x=text")
    assert column.kind == "category"
    with pytest.raises(UsageError, match=r"'01/02/2020' in row 2 is %d/%m/%Y or"):
        column_of(["", *cells], tmp_path)
    with pytest.raises(UsageError, match=r"'01/02/2020' in row 1 is %d/%m/%Y or"):
        column_of([*cells, "unknown"], tmp_path, column="x=date")  # a mistake decides nothing
    with pytest.raises(UsageError, match=r"no cell is a date \(%m/%m/%Y\)"):
        column_of(cells, tmp_path, column="x=%m/%m/%Y")


def test_a_typed_column_without_any_number_is_no_column_of_numbers():
    table = pd.DataFrame({"q": ["?", "abc", "def", "?"] * 5, "y": [0, 1] * 10})
    with pytest.raises(UsageError, match="no cell is a number: the first is"):
        oasis_bench.run(table, "Euclidean", label="y", column={"q": "number"})


def test_a_table_of_no_row_is_told():
    none = pd.DataFrame({"q": ["a", "b"], "y": [0, 1]})[:0]
    with pytest.raises(UsageError, match="the rows given: needs one row or more"):
        oasis_bench.run(none, "Euclidean", label="y")


MISTAKES = {
    "a date": (["2020-01-31"] * 6 + ["2020-02-30"], "'2020-02-30' in row 7 is no date", "date"),
    "a word": (["2020-01-31", "2020-02-28"] * 3 + ["open"], "'open' in row 7 is no date", "date"),
    "a number": (["1.5"] * 6 + ["4o"], "'4o' in row 7", "number"),
    "a percentage": (["12.5%"] * 6 + ["many"], "'many' in row 7", "number"),
}


@pytest.mark.parametrize(("cells", "message", "kind"), MISTAKES.values(), ids=MISTAKES.keys())
def test_one_bad_cell_is_an_error_or_missing_where_the_kind_is_declared(
    tmp_path, cells, message, kind
):
    with pytest.raises(UsageError, match=f"not numeric: 'x': {message}"):
        column_of(cells, tmp_path)
    column, found, remarks = column_of(cells, tmp_path, column=f"x={kind}")
    assert column.kind == kind
    assert np.isnan(found).tolist() == [False] * 6 + [True]
    assert any("1 cell is not" in remark and cells[-1] in remark for remark in remarks)


def test_kinds_are_declared_by_option_and_argument(tmp_path, capsys):
    lines = [f"{20200101 + i % 28},{i % 4},{u},{'ab'[i % 2]}" for i, u in enumerate(U)]
    path = write(tmp_path / "t.csv", "day,size,u,label", lines)
    words = ["data", "describe", str(path), "--column", "day=%Y%m%d", "--column", "size=category"]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "'day'    date (%Y%m%d), 2020-01-01 to 2020-01-28" in said
    assert "'size'   text, 4 different" in said
    schema = fitted(path, column={"day": "%Y%m%d", "size": "category", "u": "drop"})[0].schema
    assert [column.kind for column in schema.columns] == ["date", "category"]
    frame = pd.read_csv(path)
    np.testing.assert_array_equal(schema.rows_of(frame)[:4, 0], [18262, 18263, 18264, 18265])
    for given, message in (
        ("day", "--column 'day': NAME=KIND is needed"),
        ("day=week", "a kind of date, category, number, text, drop or the format"),
        ("dya=date", "--column: no column 'dya': did you mean 'day'"),
        ("u=date", r"--column u=date: .* has none of the known forms"),
    ):
        with pytest.raises(UsageError, match=message):
            read(path, column=given)


# How a text is divided


def test_a_row_in_place_of_names_is_refused_and_can_be_read(tmp_path):
    lines = [f"{i},{u},{i % 7}.5,{('spam', 'egg')[i % 2]}" for i, u in enumerate(U)]
    path = write(tmp_path / "t.csv", lines[0], lines[1:])
    with pytest.raises(UsageError, match=r"its first line is like a row.*--header none --label 4"):
        read(path, label="spam")
    rows = read(path, label="4", header="none")
    assert rows.X.shape[0] == N
    assert rows.columns == ("1", "2", "3")
    X, _ = TableFile(path, header="none").load_items(schema=rows.schema)
    np.testing.assert_array_equal(X, rows.X)


def test_texts_of_several_lines_are_no_damage(tmp_path):
    lines = [f'{i},"one, two\nthree {i % 3}",{"ab"[i % 2]}' for i in range(12)]
    assert read(write(tmp_path / "t.csv", "n,text,label", lines)).X.shape[0] == 12


def test_lines_above_the_names(tmp_path):
    lines = ["", "n;m;label", *(f"{u};{i};{'ab'[i % 2]}" for i, u in enumerate(U))]
    path = write(tmp_path / "t.csv", "Export of 2020", lines)
    with pytest.raises(UsageError, match=r"its table seems to begin in line 3: .* --header 3"):
        read(path)
    assert read(path, header="3").columns == ("n", "m")
    with pytest.raises(UsageError, match="--header first: the number of a line, or none"):
        read(path, header="first")
    path = write(
        tmp_path / "s.csv", "sep=|", ["n|label", *(f"{u}|{i % 2}" for i, u in enumerate(U))]
    )
    np.testing.assert_array_equal(read(path).X[:, 0], U)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
def test_texts_with_a_byte_order_mark(tmp_path, encoding):
    lines = ["größe|label", *(f"{u}|{'ab'[i % 2]}" for i, u in enumerate(U))]
    (tmp_path / "t.csv").write_bytes("\n".join(lines).encode(encoding))
    rows = read(tmp_path / "t.csv")
    assert rows.columns == ("größe",)
    assert rows.remarks[0].startswith(f"read with encoding {encoding.upper()}, column separator")


def test_columns_of_one_name_are_refused_before_a_model_is_made(tmp_path):
    lines = [f"{u},{i},{'ab'[i % 2]}" for i, u in enumerate(U)]
    path = write(tmp_path / "t.csv", "x,x,label", lines)
    with pytest.raises(UsageError, match="several columns are called 'x': rename all but one"):
        fitted(path)


def test_classes_that_print_alike_are_remarked(tmp_path):
    names = ("caf\u00e9", "cafe\u0301", "x")
    lines = [f"{u},{names[i % 3]}" for i, u in enumerate(U)]
    rows = read(write(tmp_path / "t.csv", "u,label", lines))
    assert len(rows.class_names) == 3
    assert any("are different because of their spelling" in remark for remark in rows.remarks)


def test_one_long_text_takes_memory_once(tmp_path):
    import resource

    lines = [f"{i % 9},{'ab'[i % 2]},{i % 5 if i else 'z' * 200_000}" for i in range(10_000)]
    path = write(tmp_path / "t.csv", "n,label,text", lines)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    read(path, column="text=text")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 200_000  # KiB; an array of fixed width had 7.45 GiB


# In files of models and runs


def test_a_schema_is_in_a_model_file_and_a_damaged_one_is_refused(tmp_path):
    lines = [f"{u},{'pqr'[i % 3]},{i}%,{'ab'[i % 2]}" for i, u in enumerate(U)]
    model = fitted(write(tmp_path / "t.csv", "u,code,share,label", lines))
    save_model(model, tmp_path / "m.npz")
    assert load_model(tmp_path / "m.npz")[0].schema == model[0].schema
    with zipfile.ZipFile(tmp_path / "m.npz") as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(entries["schema.json"])
    columns = schema["columns"]
    for damaged in (
        {**schema, "columns": 3},
        {**schema, "columns": [{**columns[0], "kind": "matrix"}, *columns[1:]]},
        {**schema, "columns": [columns[0], *columns]},
        {**schema, "decimal": ";"},
        {**schema, "more": 1},
    ):
        with zipfile.ZipFile(tmp_path / "d.npz", "w") as archive:
            for name, content in {**entries, "schema.json": json.dumps(damaged)}.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        with pytest.raises(UsageError):
            load_model(tmp_path / "d.npz")


def test_the_best_learner_of_a_run_reads_later_rows(tmp_path):
    lines = [f"{i * i},25;{i % 7},5;{'pqr'[i % 3]};{'ab'[i % 2]}" for i in range(N)]
    path = write(tmp_path / "t.csv", "u;w;code;label", lines)
    few = {"classes": "all", "partitions": 1, "train_per_class": 10, "test_per_class": 10}
    result = oasis_bench.run(path, ["Euclidean"], output=tmp_path / "run", search="off", **few)
    best = result.best()
    query = pd.DataFrame({"code": ["p"], "u": ["0,25"], "w": ["1,5"]})
    np.testing.assert_array_equal(best[0].transform(query), [[0.25, 1.5, 0]])
    assert oasis_bench.notebook.RunResult(tmp_path / "run").best()[0].schema == best[0].schema


def test_a_pipeline_of_scikit_learn_is_saved_with_its_names(tmp_path):
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = make_pipeline(StandardScaler(), LDA()).fit(X, y)
    save_model(model, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(
        similarity_of(loaded, X[X.columns[::-1]], X), similarity_of(model, X, X)
    )


def test_typed_values_are_read_as_their_texts_were(tmp_path):
    """Times of day, and numbers of a typed table where texts had a unit or a decimal comma."""
    lines = [f"{u},{n % 24:02}:30,{n * n % 37}%,{'ab'[n % 2]}" for n, u in enumerate(U)]
    schema = read(write(tmp_path / "t.csv", "u,at,share,label", lines)).schema
    typed = pd.DataFrame({"u": U[:2], "at": [datetime.time(6), None], "share": ["5%", "7.5%"]})
    np.testing.assert_array_equal(schema.rows_of(typed)[:, 1:], [[0.25, 5], [np.nan, 7.5]])
    with pytest.raises(UsageError, match=r"column 'share' was a number .%.*, and 0.05 in row 1"):
        schema.rows_of(typed.assign(share=[0.05, 0.075]))
    texts = pd.DataFrame({"u": U, "x": [f"{n},5" for n in range(N)], "label": ["a", "b"] * 30})
    model = fitted(texts, decimal=",", column="x=number")
    np.testing.assert_array_equal(model[0].schema.rows_of(texts)[:2, 1], [0.5, 1.5])


@pytest.mark.parametrize("signs", ["--decimal ,", "--thousands .", "--column u=text"])
def test_what_a_model_settled_is_not_asked_again(tmp_path, capsys, signs):
    lines = [f"{u},{u * u},{'ab'[i % 2]}" for i, u in enumerate(U)]
    path = write(tmp_path / "t.csv", "u,v,label", lines)
    save_model(fitted(path), tmp_path / "m.npz")
    command = ["neighbours", tmp_path / "m.npz", path, path, *signs.split()]
    assert main([*map(str, command)]) == 2
    assert signs.split()[0] in capsys.readouterr().err


def test_names_are_matched_as_a_reader_sees_them(tmp_path):
    """A name of composed characters, or within spaces, is the same name."""
    lines = [f"{u},{u * u},{'ab'[i % 2]}" for i, u in enumerate(U)]
    model = fitted(write(tmp_path / "t.csv", "gr\u00f6\u00dfe,v,label", lines))
    X = np.column_stack([U, U * U])
    decomposed = pd.DataFrame(X, columns=["gro\u0308\u00dfe ", " v"])
    np.testing.assert_array_equal(oasis_bench.embed(model, decomposed), oasis_bench.embed(model, X))


def test_categories_of_other_types_are_their_texts(tmp_path):
    """Interval, UUID and large whole numbers keep what they say."""
    large = [2**60 + n % 3 for n in range(N)]
    frame = pd.DataFrame(
        {
            "u": U,
            "age": pd.cut(U, [-9, 0, 9]),
            "key": pd.Categorical(large),
            "label": ["a", "b"] * 30,
        }
    )
    _, age, key = fitted(frame)[0].schema.columns
    assert age.texts == ("(-9, 0]", "(0, 9]")
    assert key.texts == tuple(str(2**60 + n) for n in range(3))


def test_sparse_rows_keep_the_scaling_of_their_fit():
    """A scaling that moves zero refuses sparse rows when it is used, as when it is fitted."""
    X = np.abs(RNG.normal(size=(N, 4)))
    model = fitted((X, np.arange(N) % 2), scaling="standard")
    with pytest.raises(UsageError, match="sparse"):
        oasis_bench.embed(model, scipy.sparse.csr_array(X))


def test_without_pyarrow_tables_of_others_are_told_in_one_line(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "pyarrow" else find_spec(name, *more),
    )
    model = Euclidean().fit(U[:, None], np.arange(N) % 2)
    with pytest.raises(UsageError, match=r"polars or Arrow needs pyarrow: run pip install"):
        oasis_bench.neighbours(model, pa.table({"u": U}), U[:1, None])
