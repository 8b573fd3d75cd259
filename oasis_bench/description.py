"""What a data set holds, in words and numbers."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import sparse

from oasis_bench.dataset import Dataset, LabelledRows


def describe(dataset: Dataset, rows: LabelledRows) -> dict[str, Any]:
    """Return facts of a data set by their names, in the order in which to show them."""
    counts = rows.class_counts()
    smallest, largest = int(counts.argmin()), int(counts.argmax())
    of = "labels" if rows.multi_label else "classes"
    facts: dict[str, Any] = {
        "name": dataset.name,
        "what": dataset.summary,
        "rows": f"{rows.X.shape[0]:,}",
        of: f"{len(counts)}, of {counts[smallest]:,} ({rows.class_names[smallest]}) to "
        f"{counts[largest]:,} rows ({rows.class_names[largest]})",
        "features": f"{rows.X.shape[1]:,} ({rows.X.dtype}, "
        f"{'sparse' if sparse.issparse(rows.X) else 'dense'})",
        "non-zeros a row": f"{_non_zeros(rows) / rows.X.shape[0]:.1f}",
        "rows are used": {
            "l2": "divided by their length",
            "none": "as they are",
            "tfidf": "weighted by the idf of training rows, then divided by their length",
        }[dataset.normalize],
    }
    if rows.multi_label:
        facts["labels a row"] = f"{counts.sum() / rows.X.shape[0]:.1f}"
    if dataset.class_subsets:
        facts["class subsets"] = ", ".join(
            f"{name} ({len(names)} classes, {_on_disk(names, rows)} on disk)"
            for name, names in dataset.class_subsets.items()
        )
    if rows.images:
        facts["pictures in"] = os.path.commonpath([path.parent for path in rows.images])
    return facts | {
        "how to get it": dataset.home,
        "licence": dataset.licence,
        "citation": dataset.citation,
    }


def _non_zeros(rows: LabelledRows) -> int:
    return int(rows.X.nnz if isinstance(rows.X, sparse.csr_array) else np.count_nonzero(rows.X))


def _on_disk(names: tuple[str, ...], rows: LabelledRows) -> int:
    return len(set(names) & set(rows.class_names))
