"""The user's own file: what the usual writers wrote is read back, and what is wrong is told."""

from __future__ import annotations

import gzip
import io
import pickle
import re
import shlex
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from oasis_bench.data import LabelledRows
from oasis_bench.datasets import TableFile
from oasis_bench.system import UsageError

RNG = np.random.default_rng(7)
X = RNG.normal(size=(6, 3))
X32 = X.astype(np.float32)
# Six decimals: scikit-learn writes svmlight with 16 digits, one too few for any float64.
SPARSE = sparse.csr_array(X.round(6) * (RNG.random(X.shape) < 0.5))
ANIMALS = ["owl", "cat", "owl", "bee", "cat", "owl"]
Y = np.array([10, 9, 10, 2, 9, 10])


def load(path: Path, label: str | None = None) -> LabelledRows:
    return TableFile(path, label).load()


def frame(values: Any = X, label: str = "label", labels: Any = ANIMALS) -> pd.DataFrame:
    return pd.DataFrame(values, columns=["a", "b", "c"]).assign(**{label: labels})


def svmlight(compressed: bool) -> bytes:
    file = io.BytesIO()
    dump_svmlight_file(SPARSE, Y, file, zero_based=False, comment="made by scikit-learn")
    return gzip.compress(file.getvalue()) if compressed else file.getvalue()


def assert_rows(rows: LabelledRows, values: Any, labels: Any, names: tuple[str, ...]) -> None:
    found, expected = [
        array.toarray() if isinstance(array, sparse.csr_array) else array
        for array in (rows.X, values)
    ]
    np.testing.assert_array_equal(found, expected, strict=True)
    assert rows.class_names == names
    assert [rows.class_names[i] for i in rows.y] == [str(label) for label in labels]
    assert rows.y.dtype == np.int64


# What the formats hold


def test_csv_written_by_pandas_is_read_to_the_last_bit(tmp_path: Path) -> None:
    frame().to_csv(tmp_path / "t.csv", index=False)
    assert_rows(load(tmp_path / "t.csv"), X, ANIMALS, ("bee", "cat", "owl"))


def test_csv_may_have_quotes_blank_lines_spaces_and_a_byte_order_mark(tmp_path: Path) -> None:
    text = '\ufefflabel, a ,"b, or c"\r\n"x ""1""\ny",1,2e3\r\n\r\n z, -1 ,.5\r\n'
    (tmp_path / "t.csv").write_text(text, newline="")
    rows = load(tmp_path / "t.csv")
    assert_rows(rows, np.array([[1, 2000], [-1, 0.5]]), ['x "1"\ny', "z"], ('x "1"\ny', "z"))


def test_parquet_written_by_pandas_is_read_without_its_index(tmp_path: Path) -> None:
    by_name = frame().set_index(pd.Index([3, 1, 4, 15, 9, 2], name="row"))
    by_name.to_parquet(tmp_path / "t.parquet")
    assert parquet.read_schema(tmp_path / "t.parquet").names == ["a", "b", "c", "label", "row"]
    assert_rows(load(tmp_path / "t.parquet"), X, ANIMALS, ("bee", "cat", "owl"))


@pytest.mark.parametrize("kind", ["category", "int8", "Int64", "float32", "string", "boolean"])
def test_parquet_labels_may_be_of_any_type_that_names_classes(tmp_path: Path, kind: str) -> None:
    labels = pd.Series([1, 0, 1, 1, 0, 0]).astype(kind)  # type: ignore[call-overload]
    frame(labels=labels).to_parquet(tmp_path / "t.parquet")
    assert_rows(load(tmp_path / "t.parquet"), X, [1, 0, 1, 1, 0, 0], ("0", "1"))


def test_parquet_features_may_be_of_any_numeric_type(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("names", [("X", "y"), ("features", "classes")])
def test_npz_arrays_are_known_by_name_or_by_their_dimensions(
    tmp_path: Path, names: tuple[str, str]
) -> None:
    np.savez(tmp_path / "t.npz", allow_pickle=False, **{names[0]: X, names[1]: Y})
    assert_rows(load(tmp_path / "t.npz"), X, Y, ("2", "9", "10"))


def test_npz_label_names_one_of_several_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "named.npz", X=X, y=Y, coarse=Y // 5)
    np.savez(tmp_path / "other.npz", features=X, fine=Y, coarse=Y // 5)
    assert load(tmp_path / "named.npz").class_names == ("2", "9", "10")
    assert load(tmp_path / "named.npz", "coarse").class_names == ("0", "1", "2")
    assert load(tmp_path / "other.npz", "coarse").class_names == ("0", "1", "2")


@pytest.mark.parametrize("matrix", [SPARSE, SPARSE.tocsc(), SPARSE.tocoo(), SPARSE.tobsr()])
def test_npz_of_a_sparse_matrix_joined_by_labels_stays_sparse(tmp_path: Path, matrix: Any) -> None:
    sparse.save_npz(tmp_path / "X.npz", matrix)
    with np.load(tmp_path / "X.npz") as arrays:
        np.savez(tmp_path / "t.npz", y=Y, **arrays)
    rows = load(tmp_path / "t.npz")
    assert isinstance(rows.X, sparse.csr_array)
    assert_rows(rows, SPARSE, Y, ("2", "9", "10"))


def test_sparse_rows_are_canonical(tmp_path: Path) -> None:
    data, indices, indptr = [1.0, 2.0, 4.0, 0.0], [2, 0, 2, 1], [0, 3, 4]
    arrays = {"format": "csr", "shape": (2, 3), "data": data, "indices": indices, "indptr": indptr}
    np.savez(tmp_path / "t.npz", allow_pickle=False, y=[0, 1], **arrays)
    rows = load(tmp_path / "t.npz").X
    assert isinstance(rows, sparse.csr_array)
    assert rows.has_canonical_format
    assert (rows.indices.tolist(), rows.data.tolist()) == ([0, 2], [2.0, 5.0])


@pytest.mark.parametrize("ending", [".svmlight", ".libsvm", ".svm", ".svmlight.gz", ".SVM"])
def test_svmlight_stays_sparse(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    path.write_bytes(svmlight(compressed=ending.endswith(".gz")))
    rows = load(path)
    assert isinstance(rows.X, sparse.csr_array)
    assert_rows(rows, SPARSE, Y, ("2", "9", "10"))


@pytest.mark.parametrize("values", [X32, X, X32.astype(">f4"), np.asfortranarray(X32)])
def test_float32_of_the_file_is_kept(tmp_path: Path, values: Any) -> None:
    np.savez(tmp_path / "t.npz", X=values, y=Y)
    expected = values.astype("=f4" if values.dtype.itemsize == 4 else "=f8")
    rows = load(tmp_path / "t.npz")
    assert_rows(rows, expected, Y, ("2", "9", "10"))
    assert np.asarray(rows.X).flags.c_contiguous


def test_float32_of_parquet_and_of_sparse_is_kept(tmp_path: Path) -> None:
    frame(X32).to_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").X.dtype == np.float32
    frame(X32).assign(d=[True, False] * 3).to_parquet(tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").X.dtype == np.float64
    sparse.save_npz(tmp_path / "X.npz", SPARSE.astype(np.float32))
    with np.load(tmp_path / "X.npz") as arrays:
        np.savez(tmp_path / "t.npz", y=Y, **arrays)
    assert load(tmp_path / "t.npz").X.dtype == np.float32


@pytest.mark.parametrize("dtype", ["uint8", "bool", "int64", "float16"])
def test_other_numbers_become_float64(tmp_path: Path, dtype: str) -> None:
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
        (["1E2", "10E1"], ("10E1", "1E2")),
        (["007", "7", "07"], ("007", "07", "7")),
        (["1", "1.0", "+1"], ("+1", "1", "1.0")),
        (["1.50", "1.5", " 1.5"], ("1.5", "1.50")),
        (["True", "TRUE", "true"], ("TRUE", "True", "true")),
        (["1e1", "9", "10"], ("9", "10", "1e1")),
        (["1_0", "9", "inf"], ("1_0", "9", "inf")),
        (["b", "B", "10"], ("10", "B", "b")),
        (["9007199254740993", "9007199254740992"], ("9007199254740992", "9007199254740993")),
    ],
)
def test_csv_classes_are_in_the_order_of_numbers_only_where_all_are_numbers(
    tmp_path: Path, texts: list[str], names: tuple[str, ...]
) -> None:
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
def test_npz_labels_are_strings_or_whole_numbers(
    tmp_path: Path, labels: Any, names: tuple[str, ...]
) -> None:
    np.savez(tmp_path / "t.npz", X=X[:3], y=labels)
    assert load(tmp_path / "t.npz").class_names == names


@pytest.mark.parametrize(
    ("names", "remark"),
    [
        (["7", "07", "8"], "classes '07', '7' are different, as they are spelt"),
        (["Yes", "yes", "no"], "classes 'Yes', 'yes' are different, as they are spelt"),
        (["None", "a", "b"], "'None' is taken as the name of a class: where it stands for a miss"),
        (["9007199254740993", "9007199254740992", "1"], None),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "parquet", "npz"])
def test_classes_that_may_be_one_or_none_are_told(
    tmp_path: Path, names: list[str], remark: str | None, ending: str
) -> None:
    table = frame(labels=names * 2)
    writers: dict[str, Callable[[Path], Any]] = {
        "csv": lambda path: table.to_csv(path, index=False),
        "parquet": table.to_parquet,
        "npz": lambda path: np.savez(path, X=X, y=np.array(names * 2)),
    }
    writers[ending](tmp_path / f"t.{ending}")
    rows = load(tmp_path / f"t.{ending}")
    assert sorted(rows.class_names) == sorted(names)
    assert [text[: len(remark or "")] for text in rows.remarks] == ([remark] if remark else [])


@pytest.mark.parametrize("name", ["NA", "nan", "null", "n/a"])
def test_a_label_that_may_be_missing_is_refused_by_its_name(tmp_path: Path, name: str) -> None:
    labels = ["x", name, "y", "x", "y", "z"]
    frame(labels=labels).to_csv(tmp_path / "t.csv", index=False)
    frame(labels=labels).to_parquet(tmp_path / "t.parquet")
    np.savez(tmp_path / "t.npz", X=X, y=np.array(labels))
    for path in tmp_path.iterdir():
        with pytest.raises(UsageError, match=rf"1 label is missing, .* row 2.* where '{name}' is"):
            load(path)


def test_decimal_labels_of_parquet_keep_all_digits(tmp_path: Path) -> None:
    labels = [Decimal(2**53 + 1), Decimal(2**53)]
    table = pa.table({"a": [1.0, 2.0], "y": pa.array(labels)})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert load(tmp_path / "t.parquet").class_names == (str(2**53), str(2**53 + 1))


@pytest.mark.parametrize("column", ["label", "class", "target", "y"])
def test_the_usual_names_of_a_label_column_are_known(tmp_path: Path, column: str) -> None:
    frame(label=column).to_csv(tmp_path / "t.csv", index=False)
    frame(label=column).to_parquet(tmp_path / "t.parquet")
    for path in tmp_path.iterdir():
        assert_rows(load(path), X, ANIMALS, ("bee", "cat", "owl"))


def test_the_label_column_that_is_asked_for_goes_before_the_usual_ones(tmp_path: Path) -> None:
    frame(label="kind").assign(label=range(6)).to_csv(tmp_path / "t.csv", index=False)
    rows = load(tmp_path / "t.csv", "kind")
    assert_rows(rows, np.c_[X, np.arange(6)], ANIMALS, ("bee", "cat", "owl"))


# What is wrong is told

CSV = {
    "": "is empty",
    "\n\n": "has no line of column names",
    "a,b\n1,2\n": "no column to take the label .*'label', 'class', 'target', 'y'.*'a', 'b': "
    "name one with --label COLUMN",
    "a,target,y\n1,2,3\n": r"several columns .*\('target', 'y'\).*--label COLUMN",
    "a,label,label\n1,2,3\n": r"several columns .*\('label'\)",
    "a,label\n": "holds 0 rows and 1 columns beside the label: at least one",
    "label\nx\ny\n": "holds 2 rows and 0 columns beside the label: at least one",
    ",label\n1,x\n2,y\n": "a column has no name",
    "a,label\n1,x\n2\n": "1 label is missing, the first in row 2",
    "label,a\nx,1\ny\n": "1 value is NaN or missing, .*first in row 2 .line 3., column 'a'",
    "a,label\n1,x\n2,y,\n": ".*Expected 2 fields in line 3, saw 3",
    "a,label\n1,x,z\n2,y,z\n": "CSV cannot be read .*: give each line as many fields",
    "a,b,label\n1,red,x\n2,3,y\n": "column 'b' is not numeric: 'red' in row 1 .line 2.: .*--label",
    "a,b c,d,label\n1,red,2,x\n2,3,?,y\n": "2 columns are not numeric: 'b c': 'red' in row 1 "
    ".line 2.; 'd': '\\?' in row 2 .line 3.: leave them out with --drop 'b c,d', write",
    "a,b,label\n1,2,x\n2,,y\nNA,1,x\n": "2 values are NaN or missing, the first in row "
    r"2 .line 3., column 'b'; by columns: 'a' \(1\), 'b' \(1\): fill them in",
    "a,b,label\n1,2,x\n2,1e999,y\n": "1 value is infinite or beyond float64, the first in "
    "row 2 .line 3., column 'b'; by .*: leave these columns out with --drop b, fill",
    "a,label\n1,x\n2,\n3,n/a\n": "2 labels are missing, the first in row 2",
    "a,label\n1,1.0\n2,\n3,2.0\n": "1 label is missing, the first in row 2",
    "a,label\n1,0.5\n2,2\n3,2.25\n": "the labels are numbers with fractions, such as 0.5 .2 ",
    "a,label\n1,x\n2,x\n": r"only 1 class",
    'a,label\n1,"x\n2,y\n': "CSV cannot be read .*EOF inside string.*close each quote",
}


FLOWERS = "5.1,3.5,setosa\n4.9,3.0,setosa\n6.1,3.2,virginica\n"


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        (FLOWERS, "setosa", "the first line, '5.1', '3.5', 'setosa', .* write a line of names"),
        ("1,2,0\n4,3,1\n6,3,0\n", "0", "the first line, .*: '0' is a label of other rows too"),
        ("1;2;x\n4;3;y\n6;3;x\n", "x", "the first line, .*: 'x' is a label of other rows too"),
        (FLOWERS, "virginica", ".* the columns are '5.1', .* where these are a row, write a line"),
        (FLOWERS, None, ".* the columns are '5.1', .* where these are a row, write a line"),
    ],
)
def test_a_file_without_names_of_columns_is_told(
    tmp_path: Path, text: str, label: str | None, message: str
) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UsageError, match=f"^{tmp_path / 't.csv'}: {message}"):
        load(tmp_path / "t.csv", label)


def test_a_first_row_whose_label_is_its_own_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("5.1,3.5,setosa\n4.9,3.0,versicolor\n6.1,3.2,virginica\n")
    table = TableFile(tmp_path / "t.csv", "setosa")
    (remark,) = table.load().remarks
    assert remark.startswith("the first line, '5.1', '3.5', 'setosa', names the columns and seems")
    assert remark in table.description()[0]


@pytest.mark.parametrize(
    ("names", "label"),
    [(["0", "1", "2", "3"], "3"), (["0", "1", "2", "kind"], "kind"), (["a", "b", "c", "u"], "u")],
)
def test_columns_that_are_counted_and_labels_named_as_one_class_are_no_row(
    tmp_path: Path, names: list[str], label: str
) -> None:
    labels = ["3", "u", "3", "u", "3", "u"]
    pd.DataFrame(np.c_[X, labels], columns=names).to_csv(tmp_path / "t.csv", index=False)
    rows = load(tmp_path / "t.csv", label)
    assert (len(rows.y), rows.remarks) == (6, ())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('a,kind\n1,"u\nv"\n\n  \n2,w\n?,w\n', "'?' in row 3 (line 7)"),
        ('a,kind\n1,"u\nv"\r\n2,w\r\n,w\r\n', "the first in row 3 (line 5), column 'a'"),
        ("\n\na,kind\n1,u\n2,\n", "1 label is missing, the first in row 2 (line 5)"),
    ],
)
def test_lines_are_those_of_the_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(text, newline="")
    with pytest.raises(UsageError, match=re.escape(message)):
        load(tmp_path / "t.csv", "kind")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["a,b", 'say "no"', "it's", "$HOME", "-x", "a,", " "])
def test_advice_to_leave_a_column_out_can_be_copied(tmp_path: Path, name: str, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    table = pd.DataFrame({name: ["p", "q"], "b": [1, 2], "kind": ["u", "v"]})
    table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)
    with pytest.raises(UsageError) as caught:
        load(path, "kind")
    advice = re.search(
        r"leave it out with (--drop.*), write it|it out with (.*)", str(caught.value)
    )
    assert advice is not None
    words = shlex.split(advice[1] or advice[2])
    drop = words[0].partition("=")[2] if len(words) == 1 else words[1]
    np.testing.assert_array_equal(TableFile(path, "kind", drop=drop).load().X, [[1], [2]])


def test_a_separator_at_the_end_of_each_line_is_no_column(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,kind,\n1,u,\n2,v,\n")
    rows = load(tmp_path / "t.csv", "kind")
    np.testing.assert_array_equal(rows.X, [[1], [2]])
    assert rows.remarks == ("column 3 has neither a name nor a value: it is left out",)


@pytest.mark.parametrize("number", [2**53 + 2, 2**63, 2**70, -(2**63)])
def test_whole_numbers_that_float64_may_round_are_told(tmp_path: Path, number: int) -> None:
    (tmp_path / "t.csv").write_text(f"a,kind\n{number},u\n-2,v\n")
    rows = load(tmp_path / "t.csv", "kind")
    np.testing.assert_array_equal(rows.X, [[float(number)], [-2]])
    (remark,) = rows.remarks
    assert remark.startswith("column 'a' holds whole numbers beyond 2**53")


@pytest.mark.parametrize("cell", ["0x1F", "5%", "$5", "(1)", "1_000", "2020-01-01", "12:30", "1d5"])
def test_text_that_only_looks_like_a_number_is_none(tmp_path: Path, cell: str) -> None:
    (tmp_path / "t.csv").write_text(f"a,kind\n7,u\n{cell},v\n")
    with pytest.raises(UsageError, match=re.escape(f"not numeric: '{cell}' in row 2 (line 3)")):
        load(tmp_path / "t.csv", "kind")


@pytest.mark.parametrize(("text", "reason"), CSV.items())
def test_a_faulty_csv_is_told_in_one_line(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(UsageError, match=f"^{tmp_path / 't.csv'}: {reason}") as caught:
        load(tmp_path / "t.csv")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_csv_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,label\n1,é\n2,b\n", encoding="latin-1")
    with pytest.raises(UsageError, match=r"is not UTF-8 text \(line 2\): save it as UTF-8"):
        load(tmp_path / "t.csv")


def test_many_columns_are_not_all_listed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(",".join(f"p{i}" for i in range(784)))
    with pytest.raises(UsageError, match=r"'p11' \.\.\. \(784 in all\)"):
        load(tmp_path / "t.csv")


NPZ: dict[str, tuple[dict[str, Any], str]] = {
    "no labels": (
        {"X": X},
        r"which arrays are meant is not clear in 'X \(6, 3\)': call the features X .* the labels y",
    ),
    "two choices": (
        {"a": X, "b": Y, "c": Y},
        r"which arrays are meant is not clear in 'a \(6, 3\)', 'b \(6,\)', 'c",
    ),
    "objects": ({"X": X, "y": np.array(ANIMALS, object)}, "array 'y' holds .*refused: .*astype"),
    "objects in X": ({"X": X.astype(object), "y": Y}, "array 'X' holds Python objects"),
    "objects by other names": ({"a": X.astype(object), "b": Y}, "array 'a' holds Python objects"),
    "objects in a record": ({"X": X, "y": np.zeros(6, [("a", object)])}, "array 'y' holds"),
    "objects in CSR": (
        {"y": Y.astype(object), "format": "csr", "shape": (6, 3), "data": 1, "indices": 0},
        "array 'y' holds Python objects",
    ),
    "lengths": ({"X": X, "y": Y[:5]}, "6 rows but 5 labels"),
    "images": ({"X": X[:, :, None], "y": Y}, r"features of shape \(6, 3, 1\)"),
    "complex": ({"X": X + 1j, "y": Y}, "features of shape .* complex128: numbers"),
    "words": ({"X": X.astype(str), "y": Y}, "features of shape .*: numbers of shape"),
    "one-hot": ({"X": X, "y": np.eye(6)}, r"array 'y' has shape \(6, 6\)"),
    "dates": ({"X": X, "y": Y.astype("M8[D]")}, r"array 'y' .*datetime64\[D\]"),
    "not a number": ({"X": np.where(X[4, 1] == X, np.nan, X), "y": Y}, ".*row 5, column 2"),
    "missing label": ({"X": X, "y": np.where(Y == 2, np.nan, Y)}, "1 label is .* in row 4"),
    "empty label": ({"X": X, "y": np.array(["a", "", "b", "", "a", "a"])}, "2 labels .* row 2"),
    "endless label": ({"X": X, "y": np.where(Y == 2, np.inf, Y)}, "the labels .* such as inf"),
    "measurement": ({"X": X, "y": X[:, 0]}, "the labels are numbers with"),
    "bytes": ({"X": X, "y": np.array([b"\xff"] * 6)}, "array 'y' cannot be read"),
}


@pytest.mark.parametrize(("arrays", "reason"), NPZ.values(), ids=NPZ.keys())
def test_a_faulty_npz_is_told(tmp_path: Path, arrays: dict[str, Any], reason: str) -> None:
    np.savez(tmp_path / "t.npz", allow_pickle=True, **arrays)
    with pytest.raises(UsageError, match=f"^{tmp_path / 't.npz'}: {reason}") as caught:
        load(tmp_path / "t.npz")
    assert "pickle" not in str(caught.value)


@pytest.mark.parametrize("before", [pickle.dumps(X), b"x"], ids=["pickle", "text"])
def test_what_numpy_takes_for_a_pickle_is_no_npz(tmp_path: Path, before: bytes) -> None:
    np.savez(tmp_path / "t.npz", X=X, y=Y)
    (tmp_path / "t.npz").write_bytes(before + (tmp_path / "t.npz").read_bytes())
    with pytest.raises(UsageError, match=r"t\.npz: is not an npz file, .*savez$"):
        load(tmp_path / "t.npz")


def test_npz_of_a_sparse_matrix_alone_tells_how_to_add_labels(tmp_path: Path) -> None:
    path = tmp_path / "t.npz"
    sparse.save_npz(path, SPARSE)
    with pytest.raises(UsageError, match=r"no array 'y' of labels: numpy\.savez") as caught:
        load(path)
    remedy = str(caught.value).partition("of labels: ")[2].removesuffix(" adds it")
    exec(remedy, {"numpy": np, "path": path, "labels": Y})
    assert_rows(load(path), SPARSE, Y, ("2", "9", "10"))


def test_npz_of_a_sparse_matrix_with_indices_out_of_bounds_is_refused(tmp_path: Path) -> None:
    arrays = {"format": "csc", "shape": (2, 2), "indices": [0, 9**9], "indptr": [0, 1, 2]}
    np.savez(tmp_path / "t.npz", data=[1.0, 2.0], y=[0, 1], **arrays)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"the sparse matrix cannot be read .*indices"):
        load(tmp_path / "t.npz")


def test_a_value_that_is_not_finite_is_found_in_sparse_rows(tmp_path: Path) -> None:
    (tmp_path / "t.svm").write_text("1 1:1 3:2\n2 2:1\n1 1:5 3:nan 4:inf\n")
    with pytest.raises(UsageError, match=r"1 value is NaN.* row 3, column 3;.*1 .* inf.* 4;"):
        load(tmp_path / "t.svm")


@pytest.mark.parametrize(
    "text", ["x 1:2\n", "1,2 1:2\n", "1 1:x\n", "1 1\n", "1 3:1 2:1\n", "1 99999999999:2\n"]
)
def test_faulty_svmlight_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.svm").write_text(text)
    with pytest.raises(UsageError, match=f"^{tmp_path / 't.svm'}: svmlight cannot be read"):
        load(tmp_path / "t.svm")


def test_svmlight_has_no_label_column(tmp_path: Path) -> None:
    (tmp_path / "t.svm").write_text("1 1:1\n2 2:1\n")
    with pytest.raises(UsageError, match="leave --label out"):
        load(tmp_path / "t.svm", "y")


PARQUET: dict[str, tuple[dict[str, Any], str]] = {
    "words": ({"a": ["x", "y"], "label": [1, 2]}, "column 'a' is not numeric: 'x'"),
    "dates": (
        {"a": [None, pd.Timestamp("2020")], "label": [1, 2]},
        "column 'a' is not numeric: Timestamp",
    ),
    "lists": ({"a": [[1.0], [2.0]], "label": [1, 2]}, r"column 'a' is not numeric: .*1\."),
    "structs": ({"a": [{"x": 1}, {"x": 2}], "label": [1, 2]}, r"column 'a' is not .* \{'x': 1\}"),
    "maps": (
        {"a": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int8())), "label": [1, 2]},
        "column 'a' is not numeric",
    ),
    "bytes": ({"a": [b"1.5", b"2"], "label": [1, 2]}, "column 'a' is not numeric: b'1.5' in row 1"),
    "spans": ({"a": pa.array([1, 2], pa.duration("s")), "label": [1, 2]}, "column 'a' .*Timedelta"),
    "list labels": ({"a": [1, 2], "label": [[1], [2]]}, "labels of type object: .* another column"),
    "nothing": ({"a": pa.nulls(2), "label": [1, 2]}, "column 'a' is not numeric: None"),
    "null": ({"a": [1, None], "label": [1, 2]}, "1 value .* row 2, column 'a'"),
    "null label": ({"a": [1, 2, 3], "label": ["x", None, "y"]}, "1 label .* row 2"),
    "null number": ({"a": [1, 2, 3], "label": [5, 6, None]}, "1 label .* row 3"),
    "date label": ({"a": [1], "label": [pd.Timestamp("2020")]}, "labels of type datetime64"),
    "label alone": ({"label": [1, 2]}, "holds 2 rows and 0 columns beside"),
    "no label": ({"a": [1], "b": [2]}, "no column to take the label .* 'a', 'b'"),
}


@pytest.mark.parametrize(("columns", "reason"), PARQUET.values(), ids=PARQUET.keys())
def test_a_faulty_parquet_is_told(tmp_path: Path, columns: dict[str, Any], reason: str) -> None:
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(UsageError, match=f"^{tmp_path / 't.parquet'}: {reason}"):
        load(tmp_path / "t.parquet")
    described = TableFile(tmp_path / "t.parquet").description()
    assert len(described) == len(columns) + 1
    assert all("\n" not in line for line in described)


def test_parquet_columns_of_one_name_are_told(tmp_path: Path) -> None:
    arrays = [pa.array([1.0]), pa.array([2.0]), pa.array(["u"])]
    parquet.write_table(pa.table(arrays, names=["a", "a", "y"]), tmp_path / "t.parquet")
    with pytest.raises(UsageError, match=r"t\.parquet: several columns are called 'a': rename all"):
        load(tmp_path / "t.parquet")


def test_parquet_without_pyarrow_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame().to_parquet(tmp_path / "t.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r'pip install "oasis-bench\[parquet\]"'):
        load(tmp_path / "t.parquet")


@pytest.mark.parametrize("spoil", [lambda raw: raw[: len(raw) // 2], lambda raw: b"nonsense\n"])
@pytest.mark.parametrize("ending", [".npz", ".parquet", ".svmlight.gz"])
def test_a_truncated_or_foreign_file_is_told(
    tmp_path: Path, ending: str, spoil: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / f"t{ending}"
    if ending == ".npz":
        np.savez(path, X=X, y=Y)
    elif ending == ".parquet":
        frame().to_parquet(path)
    else:
        path.write_bytes(svmlight(compressed=True))
    load(path)
    path.write_bytes(spoil(path.read_bytes()))
    with pytest.raises(UsageError, match=f"^{path}: .*(truncated|corrupt)") as caught:
        load(path)
    assert "\n" not in str(caught.value)


def test_a_damaged_npz_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "t.npz", X=X, y=Y)
    raw = (tmp_path / "t.npz").read_bytes()
    at = raw.index(X.tobytes())
    (tmp_path / "t.npz").write_bytes(raw[:at] + b"\xff" + raw[at + 1 :])
    with pytest.raises(UsageError, match=r"array 'X' cannot be read .*CRC"):
        load(tmp_path / "t.npz")


def test_what_is_no_file_to_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("1")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(UsageError, match=r"none\.csv: No such file"):
        load(tmp_path / "none.csv")
    with pytest.raises(UsageError, match=r"folder\.csv: is a folder"):
        load(tmp_path / "folder.csv")
    with pytest.raises(UsageError, match=r"one of \.npz, \.csv, \.parquet, .*\.svmlight\.gz"):
        load(tmp_path / "t.txt")


PEOPLE = "id,name,height,b,kind\n1,Ann,1.5,,u\n2,Bob,2.5,3,v\n3,Cy,3.5,3,u\n"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_that_are_dropped_are_no_features(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t.{ending}"
    path.write_text(PEOPLE)
    if ending == "parquet":
        pd.read_csv(io.StringIO(PEOPLE)).to_parquet(path)
    rows = TableFile(path, label="kind", drop="id, name,b").load()
    np.testing.assert_array_equal(rows.X, [[1.5], [2.5], [3.5]])
    assert rows.class_names == ("u", "v")


OTHERWISE = {
    "semicolons": ("a;b, in m;kind\n1,5;-2;u\n0,5;3,25e1;v\n", "; between columns and , as"),
    "points": ("a;b;kind\n1.5;-2;u\n0.5;32.5;v\n", "; between columns"),
    "tabs": ("a\tb\tkind\n1,50\t-2\tu\n,5\t32,5\tv\n", "tab between columns and , as"),
    "quotes": ('"a";"b,c";"kind"\n"1,5";"-2";"u;x"\n0,5;32,5;v\n', "; between columns and , as"),
}


@pytest.mark.parametrize("ending", ["csv", "tsv"])
@pytest.mark.parametrize(("text", "how"), OTHERWISE.values(), ids=OTHERWISE.keys())
def test_other_separators_and_decimal_commas_are_known(
    tmp_path: Path, text: str, how: str, ending: str
) -> None:
    path = tmp_path / f"t.{ending}"
    path.write_text(text)
    table = TableFile(path, label="kind")
    rows = table.load()
    np.testing.assert_array_equal(rows.X, [[1.5, -2], [0.5, 32.5]])
    remark = f"read with {how}{' decimal sign' * how.endswith('as')}"
    assert rows.remarks == (remark,)
    described = table.description()
    assert described[0] == f"columns: 3, {remark}"
    assert described[1].endswith("number, 0.5 to 1.5")


SIGNS: dict[str, list[tuple[str, float]]] = {
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
def test_one_decimal_sign_is_found_for_the_whole_file(
    tmp_path: Path, lines: list[tuple[str, float]], separator: str
) -> None:
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
def test_what_a_sign_means_can_be_said(
    tmp_path: Path, given: dict[str, str], text: str, number: float
) -> None:
    (tmp_path / "t.csv").write_text(f"a;kind\n{text};u\n2;v\n")
    rows = TableFile(tmp_path / "t.csv", "kind", **given).load()
    np.testing.assert_array_equal(rows.X, [[number], [2]])


def test_a_point_that_may_be_of_thousands_is_a_decimal_sign_and_told(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;kind\n1.234;u\n12;v\n")
    rows = load(tmp_path / "t.csv", "kind")
    np.testing.assert_array_equal(rows.X, [[1.234], [12]])
    assert rows.remarks[1].startswith("1.234 is read with . as decimal sign: ")
    assert rows.remarks[1].endswith(" --thousands .")


@pytest.mark.parametrize(
    ("text", "given", "message"),
    [
        ("1,234;1", {}, "'a' is not numeric: '1,234' in row 1 (line 2): say --decimal ',' or --th"),
        ("1.5;0,96", {}, "'b' is not numeric: '0,96' in row 1 (line 2): write one decimal sign"),
        ("2;1\n1,5;1\n1.5;1", {}, "column 'a' is not numeric: '1,5' in row 2 (line 3): leave"),
        ("1,5;1\n1.234,5;2\n1_000;3", {}, "'a' is not numeric: '1_000' in row 3 (line 4): leave"),
        ("1,5;2", {"decimal": "."}, "'a' is not numeric: '1,5' in row 1 (line 2): leave it out"),
        ("1.5;2", {"decimal": ","}, "'a' is not numeric: '1.5' in row 1 (line 2): leave it out"),
        ("1;2", {"decimal": ";"}, "--decimal ';': one of '.' ','"),
        ("1;2", {"decimal": ",", "thousands": ","}, "--decimal and --thousands are both ','"),
    ],
)
def test_signs_that_fit_no_column_are_told_with_the_first_cell(
    tmp_path: Path, text: str, given: dict[str, str], message: str
) -> None:
    lines = [f"{line};{'uv'[i % 2]}" for i, line in enumerate([*text.split("\n"), "7;7"])]
    (tmp_path / "t.csv").write_text("\n".join(["a;b;kind", *lines]))
    with pytest.raises(UsageError, match=re.escape(message)):
        TableFile(tmp_path / "t.csv", "kind", **given).load()


def test_signs_are_for_text_alone(tmp_path: Path) -> None:
    frame().to_parquet(tmp_path / "t.parquet")
    with pytest.raises(UsageError, match="--decimal, --thousands are for CSV"):
        TableFile(tmp_path / "t.parquet", decimal=",").load()


def test_a_column_that_is_left_out_still_shows_the_decimal_sign(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b;kind\n603.245;0,96;u\n12;1;v\n")
    rows = TableFile(tmp_path / "t.csv", "kind", drop="b").load()
    np.testing.assert_array_equal(rows.X, [[603245], [12]])


def test_commas_that_may_be_of_thousands_are_no_decimal_commas(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a\ty\n1,234\tu\n999\tv\n")
    with pytest.raises(UsageError, match="column 'a' is not numeric: '1,234'"):
        load(tmp_path / "t.csv")


def test_a_comma_stays_the_separator_where_lines_have_other_ones_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b;c,label\n1,x;1\n2,y\n")
    assert load(tmp_path / "t.csv").class_names == ("x;1", "y")


@pytest.mark.parametrize(
    ("drop", "message"),
    [
        ("weight", "no column 'weight' to leave out: did you mean 'height'? the columns are 'id'"),
        ("kind", "--drop names the column of the labels"),
        ("id,height,b,name", "holds 3 rows and 0 columns beside the label"),
        (
            "id",
            "'name' is not numeric: 'Ann' in row 1 (line 2): leave it out with --drop id,name,",
        ),
    ],
)
def test_what_cannot_be_dropped_is_told(tmp_path: Path, drop: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(PEOPLE)
    with pytest.raises(UsageError, match=re.escape(message)):
        TableFile(tmp_path / "t.csv", label="kind", drop=drop).load()


def test_a_table_is_described_before_it_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(PEOPLE)
    assert TableFile(tmp_path / "t.csv", label="kind", drop="id").description() == [
        "columns: 5",
        "  'id'      left out",
        "  'name'    text, 3 different, such as 'Ann': --drop it, or make numbers of it",
        "  'height'  number, 1.5 to 3.5",
        "  'b'       number, always 3: tells nothing, 1 missing",
        "  'kind'    labels, 2 different (u: 2, v: 1)",
    ]


def test_a_column_that_may_be_an_id_or_the_label_is_told(tmp_path: Path) -> None:
    table = pd.DataFrame({"id": range(12), "a": np.arange(12) / 2, "kind": list("uv") * 6})
    table.to_csv(tmp_path / "t.csv", index=False)
    lines = TableFile(tmp_path / "t.csv").description()
    assert lines[1].endswith("number, 0 to 11, all different: an id? --drop id")
    assert "an id" not in lines[2]
    assert lines[3].endswith("; perhaps the label: --label kind")
    rows = load(tmp_path / "t.csv", "kind")
    assert rows.remarks == (
        "a different whole number in each row of column 'id': if it is an id, --drop id",
    )
