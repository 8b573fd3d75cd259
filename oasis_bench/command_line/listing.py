"""What can be named on the command line, as text: learners, data sets and what these hold."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from scipy import sparse

from oasis_bench.data import PATCHES_AND_PIXELS, SCALINGS, LabelledRows, unlike_scales
from oasis_bench.plugins import (
    BilinearLearner,
    BrokenPluginError,
    Catalogue,
    Dataset,
    EmbeddingLearner,
    ExemplarLearner,
    MahalanobisLearner,
    MetricLearner,
)
from oasis_bench.tasks import GALLERIES, Split, Task, measure_names

BROKEN = "BROKEN: "
"""What stands before the error of a plugin."""

FORMS: dict[str, Any] = {
    "bilinear": BilinearLearner,
    "Mahalanobis": MahalanobisLearner,
    "embedding": EmbeddingLearner,
    "exemplar": ExemplarLearner,
}
"""The first that fits names a learner's form."""

SIZES = ("for any number of rows", "for thousands of rows")


def plugin_rows(catalogue: Catalogue[Any]) -> list[tuple[str, ...]]:
    """Return name and summary of each plugin, or what is broken about it."""
    rows: list[tuple[str, ...]] = []
    for name in catalogue:
        try:
            rows.append((name, catalogue[name].summary))
        except BrokenPluginError as error:
            rows.append((name, f"{BROKEN}{error}"))
    return rows


def learner_lines(catalogue: Catalogue[MetricLearner]) -> list[str]:
    """Return a heading for each form and size, and three lines a learner.

    They are its columns, what it is, and the paper.
    """
    groups: dict[str, list[tuple[tuple[str, ...], list[str]]]] = {
        f"{form}, {size}": [] for form in (*FORMS, "other") for size in SIZES
    }
    broken = []
    for name in catalogue:
        try:
            learner = catalogue[name]
        except BrokenPluginError as error:
            broken.append(f"{name}  {BROKEN}{error}")
            continue
        form = form_of(learner)
        notes = [f"    {learner.summary}", f"    paper: {learner.citation}"]
        row = (name, form, input_of(learner), learner.cost)
        groups[f"{form}, {size_of(learner)}"].append((row, notes))
    header = ("name", "form", "takes", "cost of a fit (n rows, d features, c classes)")
    of_all = [row for learners in groups.values() for row, _ in learners]
    rows = iter(aligned([header, *of_all]))
    lines = [next(rows)]
    for group, learners in groups.items():
        if learners:
            lines.append(f"{group}:")
        for _, notes in learners:
            lines += [next(rows), *notes]
    return [*lines, *broken]


def input_of(learner: type[MetricLearner]) -> str:
    """Name what a learner takes: dense or sparse rows, pixels, patches, or both: pixels+."""
    density = "sparse" if learner.takes_sparse else "dense"
    named = {"rows": density, PATCHES_AND_PIXELS: "pixels+"}
    return named.get(learner.takes, learner.takes)


def size_of(learner: type[MetricLearner]) -> str:
    """Say how many rows a learner is for, by what its cost grows with."""
    return SIZES["n^2" in learner.cost]


def task_lines(catalogue: Catalogue[Task], splits: Catalogue[Split]) -> list[str]:
    """Return what each task is, how its items are split, its measures and the paper."""
    lines = []
    for name, row in zip(catalogue, aligned(plugin_rows(catalogue)), strict=True):
        lines.append(row)
        try:
            task = catalogue[name]
        except BrokenPluginError:
            continue
        lines += [
            f"    {splits[task.split].summary}; compared with {GALLERIES[task.gallery]}",
            f"    measures: {', '.join(measure_names(task))}",
            f"    paper: {task.citation}",
        ]
    return lines


def split_lines(catalogue: Catalogue[Split]) -> list[str]:
    """Return what each split is, whether `--split` takes it, and the paper."""
    lines = []
    for name, row in zip(catalogue, aligned(plugin_rows(catalogue)), strict=True):
        lines.append(row)
        try:
            split = catalogue[name]
        except BrokenPluginError:
            continue
        of_tasks = "of the tasks that name it"
        if split.in_place_of:
            of_tasks = f"with --split {name}, in place of {split.in_place_of}"
        lines += [f"    {of_tasks}", f"    paper: {split.citation}"]
    return lines


def form_of(learner: type[MetricLearner]) -> str:
    """Name the form of a learner."""
    return next((name for name, form in FORMS.items() if issubclass(learner, form)), "other")


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Pad each cell to the width of its column, but for the last of a row."""
    columns = zip_longest(*(row[:-1] for row in rows), fillvalue="")
    widths = [max(len(cell) for cell in column) for column in columns]
    return [
        "  ".join([*(f"{cell:<{widths[i]}}" for i, cell in enumerate(row[:-1])), row[-1]])
        for row in rows
    ]


def facts_of(dataset: Dataset) -> dict[str, str]:
    """Return what is known of a data set before it is read, in the order in which to show it."""
    facts = {
        "name": dataset.name,
        "what": dataset.summary,
        "here": dataset.location() or "not yet",
        "how to get it": dataset.home,
        "licence": dataset.licence,
        "citation": dataset.citation,
        "inputs": ", ".join(dataset.gives),
    }
    return facts | {f"note on {subset}": note for subset, note in dataset.notes.items()}


def facts_of_rows(dataset: Dataset, rows: LabelledRows) -> dict[str, str]:
    """Return what the rows of a data set are, in numbers."""
    counts = rows.class_counts()
    smallest, largest = int(counts.argmin()), int(counts.argmax())
    sizes = f"{counts[smallest]:,} {dataset.items} each"
    if counts[smallest] != counts[largest]:
        sizes = (
            f"{counts[smallest]:,} ({rows.class_names[smallest]}) to {counts[largest]:,} "
            f"{dataset.items} ({rows.class_names[largest]})"
        )
    facts = {
        dataset.items: f"{rows.X.shape[0]:,}",
        "labels" if rows.multi_label else "classes": f"{len(counts)}, of {sizes}",
        "features": f"{rows.X.shape[1]:,} ({rows.X.dtype}, "
        f"{'sparse' if sparse.issparse(rows.X) else 'dense'})",
        "non-zeros a row": f"{_non_zeros(rows) / rows.X.shape[0]:.1f}",
    }
    scaling = dataset.default_scaling(rows)
    facts["scaling"] = f"{scaling}: {SCALINGS[scaling]}"
    if (ranges := unlike_scales(rows.X)) is not None:
        facts["columns"] = "of ranges from {:.3g} to {:.3g}".format(*ranges)
    if rows.multi_label:
        facts["labels a row"] = f"{counts.sum() / rows.X.shape[0]:.1f}"
    if rows.judged is not None:
        votes = rows.judged.votes
        facts["judged triplets"] = f"{len(rows.judged.items):,}" + (
            f", with {int(votes.sum()):,} votes" if votes is not None else ", without votes"
        )
    if rows.ratings is not None:
        n_rated, n_raters = rows.ratings.marks.shape
        facts["ratings"] = f"{n_rated:,} candidates of queries by {n_raters} raters"
    if dataset.class_subsets:
        facts["class subsets"] = ", ".join(
            f"{name} ({_here(names, rows)} of {len(names)} classes here)"
            for name, names in dataset.class_subsets.items()
        )
    if rows.images is not None and rows.remarks:
        facts["remarks"] = "; ".join(rows.remarks)
    if rows.left_out:
        facts["not all"] = "; ".join(rows.left_out)
    return facts


def _non_zeros(rows: LabelledRows) -> int:
    return int(rows.X.nnz if isinstance(rows.X, sparse.csr_array) else np.count_nonzero(rows.X))


def _here(names: tuple[str, ...], rows: LabelledRows) -> int:
    return len(set(names) & set(rows.class_names))
