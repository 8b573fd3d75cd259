"""The page of `data describe`: what a data set holds, and what becomes of each of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from oasis_bench.data import LabelledRows, row_hashes
from oasis_bench.reports.report_files import data_uri, write_page
from oasis_bench.reports.table import clip, plural

if TYPE_CHECKING:
    from oasis_bench.plugins import Description

BARS = 12
"""Of a histogram: equal parts of the range of numbers, or the most frequent texts."""

NEARLY_CONSTANT = 0.95
"""A column with one value in this share of its rows is marked."""

LONGEST = 60
"""Characters of a text that are shown."""

CLASSES, PICTURES = 20, 6
"""The first classes of which pictures are shown, and how many of each."""


def write_glance(
    page: Path,
    title: str,
    facts: Mapping[str, str],
    described: Description,
    rows: LabelledRows | None = None,
) -> Path:
    """Write a page about a data set.

    Parameters
    ----------
    page : Path
        The file to write.
    title : str
        The name of the data set.
    facts : mapping of str to str
        What ``data describe`` prints of the rows.
    described : Description
        The columns of a table.
    rows : LabelledRows, optional
        Copies of rows are counted in them, and their pictures are shown.  None: they cannot be
        read yet, and `facts` says why.

    Returns
    -------
    Path
        The page.

    Raises
    ------
    UsageError
        If the file cannot be written.
    """
    columns = [(it.name, it.words, *_histogram(it.values)) for it in described.columns]
    return write_page(
        page.parent,
        page.name,
        "glance.html.j2",
        title=title,
        facts=facts,
        remarks=[*described.remarks, *(_about_copies(rows) if rows else ())],
        columns=columns,
        n_more=described.n_columns - len(columns),
        pictures=[*_pictures(rows)] if rows else [],
    )


def _histogram(values: pd.Series[Any]) -> tuple[list[tuple[float, str]], str]:
    """Return the height of each bar, 1 of the largest, with its words; and a warning, or ''."""
    known = values.replace([np.inf, -np.inf], np.nan).dropna()
    each = known.value_counts()
    if not len(each):
        return [], ""
    counts = each.to_numpy()[:BARS]
    names = [clip(str(name), LONGEST) for name in each.index[:BARS]]
    if pd.api.types.is_numeric_dtype(known) and len(each) > 1:
        with suppress(ValueError):  # numbers too near each other, or too far apart, for parts
            counts, ends = np.histogram(known.astype(float), BARS)
            names = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(ends)]
    bars = [
        (count / counts.max(), f"{name}: {plural(int(count), 'row')}")
        for name, count in zip(names, counts, strict=True)
    ]
    share = each.iloc[0] / len(known)
    if not NEARLY_CONSTANT <= share < 1:
        return bars, ""
    return bars, f"nearly constant: {share:.1%} are {clip(str(each.index[0]), LONGEST)}"


def _about_copies(rows: LabelledRows) -> Iterator[str]:
    """Say how many rows are equal to an earlier one, and whether equal rows have other labels."""
    if not rows.X.shape[1]:  # items without rows
        return
    _, place = np.unique(row_hashes(rows.X), return_inverse=True)
    if n_copies := len(place) - int(place.max()) - 1:
        copies = plural(n_copies, "row")
        yield f"Equal to an earlier one: {copies}. They may lie in both parts of a split."
    if n_copies and not rows.multi_label:
        n_labels = np.bincount(np.unique([place, rows.y], axis=1)[0])
        if n_unclear := int(np.count_nonzero(n_labels > 1)):
            yield f"Equal rows with different labels: {plural(n_unclear, 'case')}."


def _pictures(rows: LabelledRows) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each of the first classes, and some of its pictures."""
    if rows.images is None or rows.multi_label:
        return
    for number, name in enumerate(rows.class_names[:CLASSES]):
        found = (rows.thumbnail(row) for row in np.flatnonzero(rows.y == number)[:PICTURES])
        yield name, [data_uri(jpeg, "image/jpeg") for jpeg in found if jpeg is not None]
