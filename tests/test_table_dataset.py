"""The user's own file: what the usual writers wrote is read back, and what is wrong is told."""

import gzip
import io
import re
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from oasis_bench.data import frame_as_bytes
from oasis_bench.datasets import TableFile
from oasis_bench.system import UsageError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(6, 3))
X32 = X.astype(np.float32)
# Six decimals: scikit-learn writes svmlight with 16 digits, one too few for any float64.
SPARSE = sparse.csr_array(X.round(6) * (RNG.random(X.shape) < 0.5))
ANIMALS = ["owl", "cat", "owl", "bee", "cat", "owl"]
Y = np.array([10, 9, 10, 2, 9, 10])


def load(path, label=None, **how):
    return TableFile(path, label, **how).load()


def frame(values=X, label="label", labels=ANIMALS):
    return pd.DataFrame(values, columns=["a", "b", "c"]).assign(**{label: labels})


def svmlight(compressed):
    file = io.BytesIO()
    dump_svmlight_file(SPARSE, Y, file, zero_based=False, comment="made by scikit-learn")
    return gzip.compress(file.getvalue()) if compressed else file.getvalue()


def assert_rows(rows, values, labels, names):
    found, expected = [
        array.toarray() if isinstance(array, sparse.csr_array) else array
        for array in (rows.X, values)
    ]
    np.testing.assert_array_equal(found, expected, strict=True)
    assert rows.class_names == names
    assert [rows.class_names[i] for i in rows.y] == [str(label) for label in labels]
    assert rows.y.dtype == np.int64


# What the formats hold


def test_csv_may_have_quotes_blank_lines_spaces_and_a_byte_order_mark(tmp_path):
    text = '\ufefflabel, a ,"b, or c"\r\n"x ""1""\ny",1,2e3\r\n\r\n z, -1 ,.5\r\n'
    (tmp_path / "t.csv").write_text(text, newline="")
    rows = load(tmp_path / "t.csv")
    assert_rows(rows, np.array([[1, 2000], [-1, 0.5]]), ['x "1"\ny', "z"], ('x "1"\ny', "z"))


def test_parquet_written_by_pandas_is_read_without_its_index(tmp_path):
    by_name = frame().set_index(pd.Index([3, 1, 4, 15, 9, 2], name="row"))
    by_name.to_parquet(tmp_path / "t.parquet")
    assert parquet.read_schema(tmp_path / "t.parquet").names == ["a", "b", "c", "label", "row"]
    assert_rows(load(tmp_path / "t.parquet"), X, ANIMALS, ("bee", "cat", "owl"))


@pytest.mark.parametrize("kind", ["category", "int8", "Int64", "float32", "string", "boolean"])
def test_parquet_labels_may_be_of_any_type_that_names_classes(tmp_path, kind):
    labels = pd.Series([1, 0, 1, 1, 0, 0]).astype(kind)
    frame(labels=labels).to_parquet(tmp_path / "t.parquet")
    assert_rows(load(tmp_path / "t.parquet"), X, [1, 0, 1, 1, 0, 0], ("0", "1"))


def test_parquet_features_may_be_of_any_numeric_type(tmp_path):
    columns = {
        "whole": pa.array([1, 2], "int8"),
        "yes": pa.array([True, False]),
        "money": pa.array([Decimal("1.50"), Decimal("2.25")]),
        "single": pa.array([0.5, 0.25], "float32"),
        "coded": pa.array([3, 4]).dictionary_encode(),
        "y": pa.array(["p", "q"]),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    expected = np.array([[1, 1, 1.5, 0.5, 3], [2, 0, 2.25, 0.25, 4]])
    assert_rows(load(tmp_path / "t.parquet"), expected, ["p", "q"], ("p", "q"))


def test_npz_arrays_are_known_by_name_and_label_names_another(tmp_path):
    np.savez(tmp_path / "t.npz", X=X, y=Y, coarse=Y // 5)
    assert_rows(load(tmp_path / "t.npz"), X, Y, ("2", "9", "10"))
    assert load(tmp_path / "t.npz", "coarse").class_names == ("0", "1", "2")


@pytest.mark.parametrize("matrix", [SPARSE, SPARSE.tocsc(), SPARSE.tocoo(), SPARSE.tobsr()])
def test_npz_of_a_sparse_matrix_joined_by_labels_stays_sparse(tmp_path, matrix):
    sparse.save_npz(tmp_path / "X.npz", matrix)
    with np.load(tmp_path / "X.npz") as arrays:
        np.savez(tmp_path / "t.npz", y=Y, **arrays)
    rows = load(tmp_path / "t.npz")
    assert isinstance(rows.X, sparse.csr_array)
    assert_rows(rows, SPARSE, Y, ("2", "9", "10"))
    (tmp_path / "pairs.csv").write_text("a,b,same\n0,1,1\n1,2,0\n")
    with np.load(tmp_path / "X.npz") as arrays:
        columns = [f"c{i}" for i in range(SPARSE.shape[1])]
        np.savez(tmp_path / "t.npz", columns=columns, **arrays)
    rows = TableFile(tmp_path / "t.npz", pairs=str(tmp_path / "pairs.csv")).load()
    assert isinstance(rows.X, sparse.csr_array)
    assert rows.y.tolist() == [0, 0, 1, 2, 3, 4]


@pytest.mark.parametrize("ending", [".svmlight", ".libsvm", ".svm", ".svmlight.gz", ".SVM"])
def test_svmlight_stays_sparse(tmp_path, ending):
    path = tmp_path / f"t{ending}"
    path.write_bytes(svmlight(compressed=ending.endswith(".gz")))
    rows = load(path)
    assert isinstance(rows.X, sparse.csr_array)
    assert_rows(rows, SPARSE, Y, ("2", "9", "10"))


@pytest.mark.parametrize("values", [X32, X, X32.astype(">f4"), np.asfortranarray(X32)])
def test_float32_of_the_file_is_kept(tmp_path, values):
    np.savez(tmp_path / "t.npz", X=values, y=Y)
    expected = values.astype("=f4" if values.dtype.itemsize == 4 else "=f8")
    rows = load(tmp_path / "t.npz")
    assert_rows(rows, expected, Y, ("2", "9", "10"))
    assert np.asarray(rows.X).flags.c_contiguous


@pytest.mark.parametrize("dtype", ["uint8", "bool", "int64", "float16"])
def test_other_numbers_become_float64(tmp_path, dtype):
    values = (X > 0).astype(dtype)
    np.savez(tmp_path / "t.npz", X=values, y=Y)
    assert_rows(load(tmp_path / "t.npz"), values.astype(np.float64), Y, ("2", "9", "10"))


# Labels


@pytest.mark.parametrize(
    ("texts", "names"),
    [
        (["10", "9", "-1"], ("-1", "9", "10")),
        (["10.0", "9.0", "-1.0"], ("-1", "9", "10")),
        (["1.0e+01", "9.0e+00", "-1.0e+00"], ("-1", "9", "10")),  # numpy.savetxt
        (["007", "7", "07"], ("007", "07", "7")),
        (["1.50", "1.5", " 1.5"], ("1.5", "1.50")),
        (["1e1", "9", "10"], ("9", "10", "1e1")),
        (["1_0", "9", "inf"], ("1_0", "9", "inf")),
        (["9007199254740993", "9007199254740992"], ("9007199254740992", "9007199254740993")),
    ],
)
def test_csv_classes_are_in_the_order_of_numbers_only_where_all_are_numbers(tmp_path, texts, names):
    lines = [f"{i},{text}" for i, text in enumerate(texts)]
    (tmp_path / "t.csv").write_text("\n".join(["a,label", *lines]))
    assert load(tmp_path / "t.csv").class_names == names


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (np.array(["10", "9", "9.5"]), ("9", "9.5", "10")),
        (np.array([b"x", b"y", b"x"]), ("x", "y")),
        (np.array([3.0, -0.0, 0.0]), ("0", "3")),
        (np.array([True, False, True]), ("0", "1")),
        (np.array([2**63, 1, 2], dtype=np.uint64), ("1", "2", str(2**63))),
    ],
)
def test_npz_labels_are_strings_or_whole_numbers(tmp_path, labels, names):
    np.savez(tmp_path / "t.npz", X=X[:3], y=labels)
    assert load(tmp_path / "t.npz").class_names == names


@pytest.mark.parametrize("name", ["NA", "nan", "null", "n/a"])
def test_a_label_that_may_be_missing_is_refused_by_its_name(tmp_path, name):
    labels = ["x", name, "y", "x", "y", "z"]
    frame(labels=labels).to_csv(tmp_path / "t.csv", index=False)
    frame(labels=labels).to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", X=X, y=np.array(labels))
    for path in tmp_path.iterdir():
        with pytest.raises(UsageError, match=r"1 label is missing, .* row 2"):
            load(path)


@pytest.mark.parametrize("column", ["label", "class", "target", "y"])
def test_the_usual_names_of_a_label_column_are_known(tmp_path, column):
    """And numbers are read to the last bit."""
    frame(label=column).to_csv(tmp_path / "t.csv", index=False)
    frame(label=column).to_parquet(tmp_path / "t.parquet")
    for path in tmp_path.iterdir():
        assert_rows(load(path), X, ANIMALS, ("bee", "cat", "owl"))


def test_the_label_column_that_is_asked_for_goes_before_the_usual_ones(tmp_path):
    frame(label="kind").assign(label=range(6)).to_csv(tmp_path / "t.csv", index=False)
    rows = load(tmp_path / "t.csv", "kind")
    assert_rows(rows, np.c_[X, np.arange(6)], ANIMALS, ("bee", "cat", "owl"))


# What is wrong is told

CSV = {
    "": "is empty",
    "a,b\n1,2\n": "there is no column for the label .*'label', 'class', 'target', 'y'.*'a', 'b': "
    "name one with --label COLUMN",
    "a,target,y\n1,2,3\n": r"several columns .*\('target', 'y'\).*--label COLUMN",
    "a,label\n": "needs one row or more, and one column or more besides the label: it has 0 and 1",
    "a,label\n1,x\n2,y,\n": "line 3 has 3 fields and the others have 2",
    "a,b,label\n1,2,x\n3,4,y\n5,6\n": "line 4 has 2 fields and the others have 3: complete it",
    'a,b,label\n1,"2,x\n3,4",y\n5,6,x\n': "line 2 begins a quoted cell of 2 lines",
    "a,b,label\n1,red,x\n2,3,y\n": "1 column is not numeric: 'b': 'red' in row 1.*--label",
    "a,label\n1,x\n2,x\n": r"only 1 class",
    'a,label\n1,"x\n2,y\n': "CSV cannot be read .*EOF inside string.*close each quote",
}


@pytest.mark.parametrize("cell", ["0x1F", "5%", "$5", "1_000", "2020-01-01", "12:30", "1d5"])
def test_text_that_only_looks_like_a_number_is_none(tmp_path, cell):
    (tmp_path / "t.csv").write_text(f"a,kind\n7,u\n{cell},v\n")
    with pytest.raises(UsageError, match=re.escape(f"not numeric: 'a': '{cell}' in row 2")):
        load(tmp_path / "t.csv", "kind")


@pytest.mark.parametrize(("text", "reason"), CSV.items())
def test_a_faulty_csv_is_told_in_one_line(tmp_path, text, reason):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UsageError, match=f"^{tmp_path / 't.csv'}: {reason}") as caught:
        load(tmp_path / "t.csv")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


NPZ = {
    "no labels": (
        {"X": X},
        r"there is no array 'y': the arrays are 'X': .*savez\(path, y=\.\.\., ",
    ),
    "other names": (
        {"features": X, "y": Y},
        "there is no array 'X': the arrays are 'features', 'y': call the features X",
    ),
    "objects": ({"X": X, "y": np.array(ANIMALS, object)}, "array 'y' holds .*refused: .*astype"),
    "lengths": ({"X": X, "y": Y[:5]}, "6 rows but 5 labels"),
    "not a number": ({"X": np.where(X[4, 1] == X, np.nan, X), "y": Y}, ".*row 5, column 2"),
    "bytes": ({"X": X, "y": np.array([b"\xff"] * 6)}, "array 'y' cannot be read"),
    "one number": ({"X": 5.0, "y": Y}, r"features of shape \(\)"),
}


@pytest.mark.parametrize(("arrays", "reason"), NPZ.values(), ids=NPZ.keys())
def test_a_faulty_npz_is_told(tmp_path, arrays, reason):
    np.savez(tmp_path / "t.npz", allow_pickle=True, **arrays)
    with pytest.raises(UsageError, match=f"^{tmp_path / 't.npz'}: {reason}") as caught:
        load(tmp_path / "t.npz", prepare="none")
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["x 1:2\n", "1,2 1:2\n", "1 1:x\n", "1 1\n", "1 3:1 2:1\n", "1 99999999999:2\n"]
)
def test_faulty_svmlight_is_told(tmp_path, text):
    (tmp_path / "t.svm").write_text(text)
    with pytest.raises(UsageError, match=f"^{tmp_path / 't.svm'}: svmlight cannot be read"):
        load(tmp_path / "t.svm")


PARQUET = {
    "words": ({"a": ["x", "y"], "label": [1, 2]}, "1 column is not numeric: 'a': 'x'"),
    "lists": (
        {"a": [[1.0], [2.0]], "label": [1, 2]},
        "1 column is not numeric: 'a': values of type ndarray",
    ),
    "list labels": ({"a": [1, 2], "label": [[1], [2]]}, "labels of type object: .* another column"),
    "null": ({"a": [1, None], "label": [1, 2]}, "1 value .* row 2, column 'a'"),
}


@pytest.mark.parametrize(("columns", "reason"), PARQUET.values(), ids=PARQUET.keys())
def test_a_faulty_parquet_is_told(tmp_path, columns, reason):
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(UsageError, match=f"^{tmp_path / 't.parquet'}: {reason}"):
        load(tmp_path / "t.parquet", prepare="none")
    described = TableFile(tmp_path / "t.parquet").description().lines()
    assert len(described) == len(columns) + 1
    assert all("\n" not in line for line in described)


PEOPLE = "id,name,height,b,kind\n1,Ann,1.5,,u\n2,Bob,2.5,3,v\n3,Cy,3.5,3,u\n"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_that_are_dropped_are_no_features(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    path.write_text(PEOPLE)
    if ending == "parquet":
        pd.read_csv(io.StringIO(PEOPLE)).to_parquet(path)
    rows = TableFile(path, label="kind", drop="id, name,b").load()
    np.testing.assert_array_equal(rows.X, [[1.5], [2.5], [3.5]])
    assert rows.class_names == ("u", "v")


OTHERWISE = {
    "semicolons": (
        "a;b, in m;kind\n1,5;-2;u\n0,5;3,25e1;v\n",
        "column separator ';', decimal sign ','",
    ),
    "points": ("a;b;kind\n1.5;-2;u\n0.5;32.5;v\n", "column separator ';'"),
    "tabs": ("a\tb\tkind\n1,50\t-2\tu\n,5\t32,5\tv\n", "column separator tab, decimal sign ','"),
    "quotes": (
        '"a";"b,c";"kind"\n"1,5";"-2";"u;x"\n0,5;32,5;v\n',
        "column separator ';', decimal sign ','",
    ),
}


@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize(("text", "how"), OTHERWISE.values(), ids=OTHERWISE.keys())
def test_other_separators_and_decimal_commas_are_known(tmp_path, text, how, ending):
    path = tmp_path / f"t.{ending}"
    path.write_text(text)
    table = TableFile(path, label="kind")
    rows = table.load()
    np.testing.assert_array_equal(rows.X, [[1.5, -2], [0.5, 32.5]])
    remark = f"read with {how}"
    assert rows.remarks == (remark,)
    described = table.description().lines()
    assert described[0] == f"columns: 3, {remark}"
    assert described[1].endswith("number, 0.5 to 1.5")


def test_decimal_commas_divide_no_columns(tmp_path):
    """Each line has as many commas as semicolons, and no names."""
    (tmp_path / "t.csv").write_text("5,1;3,5;u\n4,9;3,25;v\n6,1;2,9;u\n")
    rows = load(tmp_path / "t.csv", "3", header="none")
    np.testing.assert_array_equal(rows.X, [[5.1, 3.5], [4.9, 3.25], [6.1, 2.9]])
    assert rows.class_names == ("u", "v")


def test_a_short_and_a_long_line_do_not_make_up_for_each_other(tmp_path):
    good = "".join(f"{i},{i},{'uv'[i % 2]},{i}\n" for i in range(10))
    (tmp_path / "t.csv").write_text(f"a,b,label,c\n{good}1,2,u,3,9\n4,5,v\n")
    with pytest.raises(UsageError, match="line 12 has 5 fields and the others have 4"):
        load(tmp_path / "t.csv")


def test_bins_are_of_numbers_with_the_signs_of_the_file(tmp_path):
    lines = "".join(f"{i},5;{price}\n" for i, price in enumerate(("1.234", "567", "12.500", "89")))
    (tmp_path / "t.csv").write_text("a;price\n" + lines)
    rows = load(tmp_path / "t.csv", "price", bins=2, thousands=".")
    assert rows.y.tolist() == [1, 0, 1, 0]
    (tmp_path / "t.csv").write_text("a;price\n1;0,5\n2;1,5\n3;2,5\n4;0,25\n")
    assert load(tmp_path / "t.csv", "price", bins=2).y.tolist() == [0, 1, 1, 0]


def test_whole_numbers_of_many_digits_are_different_classes_and_names(tmp_path):
    big = 2**53
    rows = load_frame(
        tmp_path, pd.DataFrame({"a": [1.0, 2], "label": [big, big + 1]}, dtype=object)
    )
    assert rows.class_names == (str(big), str(big + 1))
    (tmp_path / "t.csv").write_text("a,code\n1,1.10\n2,2.50\n")
    _, names = TableFile(tmp_path / "t.csv").load_items(name="code")
    assert names == ["1.10", "2.50"]


def load_frame(folder, frame):
    (folder / "t.table.npz").write_bytes(frame_as_bytes(frame))
    return load(folder / "t.table.npz")


SIGNS = {
    "points of thousands": [("603.245;0,96", 603245), ("-1.234.567,8;1", -1234567.8), ("12;1", 12)],
    "commas of thousands": [("603,245;0.96", 603245), ("1,234,567.8;1", 1234567.8), ("12;1", 12)],
    "spaces": [("1 234,5;1", 1234.5), ("1\xa0234,5;1", 1234.5), ("-1\u202f234;1", -1234)],
    "apostrophes": [("1'234.5;1", 1234.5), ("1\u2019234;1", 1234), ("2;1", 2)],
    "points alone": [("1.234.567;1", 1234567), ("2.000;1", 2000), ("3;1", 3)],
    "exponents": [("1.234,5e3;1", 1234500), ("-1,5E-1;1", -0.15), ("1e3;1", 1000)],
    "no comma": [("1.234e3;1", 1234), ("2.345;1", 2.345), ("3,456;1", 3456)],
    "a zero before the sign": [("0.123;1", 0.123), ("2.345;1", 2.345)],
    "whole numbers": [("12345;0,5", 12345), ("1e2;1,5", 100)],
}


@pytest.mark.parametrize("separator", [";", "\t", ","])
@pytest.mark.parametrize("lines", SIGNS.values(), ids=SIGNS.keys())
def test_one_decimal_sign_is_found_for_the_whole_file(tmp_path, lines, separator):
    rows = [
        separator.join([*(f'"{cell}"' for cell in text.split(";")), "uv"[i % 2]])
        for i, (text, _) in enumerate(lines)
    ]
    (tmp_path / "t.csv").write_text("\n".join([separator.join(["a", "b", "kind"]), *rows]))
    found = np.asarray(load(tmp_path / "t.csv", "kind").X)
    assert found[:, 0].tolist() == [value for _, value in lines]


@pytest.mark.parametrize(
    ("given", "text", "number"),
    [
        ({"decimal": ","}, "1,234", 1.234),
        ({"decimal": ","}, "1.234", 1234),
        ({"decimal": "."}, "1,234", 1234),
        ({"thousands": ","}, "1,234", 1234),
        ({"thousands": "."}, "1.234", 1234),
        ({"thousands": "."}, "1,234", 1.234),
        ({"thousands": " "}, "1\xa0234", 1234),
        ({"decimal": ",", "thousands": "'"}, "1'234,5", 1234.5),
    ],
)
def test_what_a_sign_means_can_be_said(tmp_path, given, text, number):
    (tmp_path / "t.csv").write_text(f"a;kind\n{text};u\n2;v\n")
    rows = TableFile(tmp_path / "t.csv", "kind", **given).load()
    np.testing.assert_array_equal(rows.X, [[number], [2]])


@pytest.mark.parametrize(
    ("encoding", "name", "remark"),
    [
        ("utf-8-sig", "t.csv", None),
        ("utf-16", "t.csv", "encoding UTF-16, column separator tab,"),
        ("cp1252", "t.tsv.gz", "encoding Latin-1 (it is not UTF-8), column separator tab,"),
        ("utf-8", "T.CSV.GZ", None),
    ],
)
def test_a_text_is_read_in_its_encoding_packed_or_not(tmp_path, encoding, name, remark):
    lines = ["größe\tlabel", *(f"{i},5\t{'süß' if i % 2 else 'säuer €'}" for i in range(20))]
    content = "\n".join(lines).encode(encoding)
    content = gzip.compress(content) if name.lower().endswith("gz") else content
    (tmp_path / name).write_bytes(content)
    table = TableFile(tmp_path / name)
    rows = table.load()
    assert (rows.columns, rows.class_names) == (("größe",), ("säuer €", "süß"))
    np.testing.assert_array_equal(rows.X[:, 0], np.arange(20) + 0.5)
    assert rows.remarks[0].startswith(f"read with {remark or 'column separator tab,'} ")
    assert "'größe'  number, 0.5 to 19.5" in table.description().lines()[1]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.txt", b"1 2 3", "unknown kind of file"),
        ("t.csv", b"PK\3\4\0\0", "has NUL characters"),
        (
            "t.csv.gz",
            gzip.compress(b"a,label\n" * 99, mtime=0)[:30],
            "gzip cannot be read .Compressed",
        ),
        ("t.csv.gz", b"a,label\n1,x\n", "Not a gzipped file"),
    ],
)
def test_what_is_no_text_is_told(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        TableFile(tmp_path / name).load()


def test_arrays_in_files_of_their_own(tmp_path):
    X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", np.array([*"abbaab"]))
    rows = TableFile(tmp_path / "X.npy", labels=str(tmp_path / "y.npy")).load()
    np.testing.assert_array_equal(rows.X, X)
    assert (rows.X.dtype, rows.y.tolist()) == (np.float32, [0, 1, 1, 0, 0, 1])
    np.testing.assert_array_equal(TableFile(tmp_path / "X.npy").load_items()[0], X)
    np.save(tmp_path / "o.npy", np.array([None]), allow_pickle=True)
    (tmp_path / "t.csv").write_text("a,label\n1,x\n")
    for name, options, message in (
        ("X.npy", {}, "give a file of labels with --labels"),
        ("X.npy", {"label": "y"}, r"--label is not for a file of \.npy"),
        ("X.npy", {"labels": str(tmp_path / "no.npy")}, r"no\.npy: No such file"),
        ("X.npy", {"labels": str(tmp_path / "o.npy")}, r"o\.npy: npy cannot be read"),
        ("X.npy", {"labels": str(tmp_path / "X.npy")}, r"has shape \(6, 3\)"),
        ("t.csv", {"labels": str(tmp_path / "y.npy")}, r"--labels is not for a file of \.csv"),
    ):
        with pytest.raises(UsageError, match=message):
            TableFile(tmp_path / name, **options).load()
