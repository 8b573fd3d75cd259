"""What can be named on the command line, as lines of text: learners with their columns, plugins."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from oasis_bench.plugins.learner import BilinearLearner, MahalanobisLearner, MetricLearner
from oasis_bench.plugins.registry import BrokenPluginError, Catalogue


def plugin_rows(catalogue: Catalogue[Any]) -> list[tuple[str, ...]]:
    """Return name and summary of each plugin, or what is broken about it."""
    rows: list[tuple[str, ...]] = []
    for name in catalogue:
        try:
            rows.append((name, catalogue[name].summary))
        except BrokenPluginError as error:
            rows.append((name, f"BROKEN: {error}"))
    return rows


def learner_lines(catalogue: Catalogue[MetricLearner]) -> list[str]:
    """Return three lines a learner: its columns, what it is, and the paper."""
    rows: list[tuple[str, ...]] = [
        ("name", "form", "rows", "cost of a fit (n rows, d features, c classes)")
    ]
    notes: list[list[str]] = [[]]
    for name in catalogue:
        try:
            learner = catalogue[name]
        except BrokenPluginError as error:
            rows.append((name, f"BROKEN: {error}"))
            notes.append([])
        else:
            kind = "sparse" if learner.takes_sparse else "dense"
            rows.append((name, _form(learner), kind, learner.cost))
            notes.append([f"    {learner.summary}", f"    paper: {learner.citation}"])
    return [line for row, more in zip(aligned(rows), notes, strict=True) for line in (row, *more)]


def _form(learner: type[MetricLearner]) -> str:
    if issubclass(learner, BilinearLearner):
        return "bilinear"
    return "Mahalanobis" if issubclass(learner, MahalanobisLearner) else "other"


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Pad each cell to the width of its column, but for the last of a row."""
    columns = zip_longest(*(row[:-1] for row in rows), fillvalue="")
    widths = [max(len(cell) for cell in column) for column in columns]
    return [
        "  ".join([*(f"{cell:<{widths[i]}}" for i, cell in enumerate(row[:-1])), row[-1]])
        for row in rows
    ]
