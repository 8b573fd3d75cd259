"""Stores DataFrames in files that keep the type of each column; needs only pandas.

A file is an npz: ``table.json`` describes the columns, and arrays hold their values.
"""

from __future__ import annotations

import json
import zipfile
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oasis_bench.data.cells import dates_of, is_missing, kind_of, text_of, texts_of
from oasis_bench.system import ArrayArchive, UsageError, open_regular

if TYPE_CHECKING:  # pandas is imported only when used: a trial needs none
    import pandas as pd

HEAD = "table.json"


def frame_as_bytes(frame: pd.DataFrame) -> bytes:
    """Return the content of a file of a DataFrame; its index is left out."""
    content, described = BytesIO(), []
    with ArrayArchive(content, "w") as archive:
        for i in range(frame.shape[1]):
            array: npt.NDArray[Any]
            column = frame.iloc[:, i]
            kind = kind_of(column)
            one: dict[str, Any] = {"name": text_of(str(frame.columns[i])), "kind": kind}
            if kind in ("text", "category"):
                texts = texts_of(column)
                one["texts"] = [text for text in dict.fromkeys(texts) if text is not None]
                code = {None: -1, **{text: n for n, text in enumerate(one["texts"])}}
                array = np.array([code[text] for text in texts], dtype=np.intp)
            elif kind == "date":
                array = dates_of(column).view(np.int64)
            elif kind in ("mixed", "other"):
                one["values"] = [_plain(value) for value in column]
                array = np.zeros(0)
            elif column.dtype == object and all(map(_is_int64, column)):
                array = column.to_numpy(np.int64)  # float64 has fewer digits
            elif column.isna().any() or column.dtype == object:
                array = column.to_numpy(np.float64, na_value=np.nan)
            else:
                array = column.to_numpy()
            described.append(one)
            archive.write_array(f"{i}.npy", np.ascontiguousarray(array))
        archive.writestr(zipfile.ZipInfo(HEAD), json.dumps(described))
    return content.getvalue()


def _is_int64(value: Any) -> bool:
    return isinstance(value, int | np.integer) and -(2**63) <= int(value) < 2**63


def _plain(value: Any) -> Any:
    """Return a value for JSON: a number, a text, None if missing, or a list with its type."""
    if isinstance(value, Decimal | np.number):
        value = float(value)
    if isinstance(value, str | int | float):
        return None if is_missing(value) else value
    return None if value is None else [f"a value of type {type(value).__name__}"]


def read_frame(path: Path) -> pd.DataFrame:
    """Read a file of `frame_as_bytes`."""
    import pandas as pd

    columns = []
    with open_regular(path) as file, ArrayArchive(file) as archive:
        described = json.loads(archive.read(HEAD))
        for i, one in enumerate(described):
            array = archive.read_array(f"{i}.npy")
            match one["kind"]:
                case "text":
                    texts = np.array([*one["texts"], None], dtype=object)
                    column = pd.Series(texts[array], dtype=object)
                case "category":
                    column = pd.Series(pd.Categorical.from_codes(array, one["texts"]))
                case "date":
                    column = pd.Series(array.view("datetime64[us]"))
                case "boolean":
                    column = pd.Series(array).astype("boolean")
                case "mixed" | "other":
                    column = pd.Series(one["values"], dtype=object)
                case _:
                    column = pd.Series(array)
            columns.append(column)
    if not columns:
        raise UsageError("has no columns")
    frame = pd.concat(columns, axis=1)
    frame.columns = pd.Index([one["name"] for one in described])
    return frame
