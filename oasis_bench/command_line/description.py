"""What a data set holds, in words and numbers."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from oasis_bench.data.rows import LabelledRows
from oasis_bench.plugins.dataset import Dataset


def facts_of(dataset: Dataset) -> dict[str, str]:
    """Return what is known of a data set before it is read, in the order in which to show it."""
    facts = {
        "name": dataset.name,
        "what": dataset.summary,
        "here": dataset.location() or "not yet",
        "how to get it": dataset.home,
        "licence": dataset.licence,
        "citation": dataset.citation,
        "rows are used": {
            "l2": "divided by their length",
            "none": "as they are",
            "tfidf": "weighted by the idf of training rows, then divided by their length",
        }[dataset.normalize],
    }
    return facts | {f"note on {subset}": note for subset, note in dataset.notes.items()}


def facts_of_rows(dataset: Dataset, rows: LabelledRows) -> dict[str, str]:
    """Return what the rows of a data set are, in numbers."""
    counts = rows.class_counts()
    smallest, largest = int(counts.argmin()), int(counts.argmax())
    facts = {
        "rows": f"{rows.X.shape[0]:,}",
        "labels" if rows.multi_label else "classes": f"{len(counts)}, of {counts[smallest]:,} "
        f"({rows.class_names[smallest]}) to {counts[largest]:,} rows "
        f"({rows.class_names[largest]})",
        "features": f"{rows.X.shape[1]:,} ({rows.X.dtype}, "
        f"{'sparse' if sparse.issparse(rows.X) else 'dense'})",
        "non-zeros a row": f"{_non_zeros(rows) / rows.X.shape[0]:.1f}",
    }
    if rows.multi_label:
        facts["labels a row"] = f"{counts.sum() / rows.X.shape[0]:.1f}"
    if dataset.class_subsets:
        facts["class subsets"] = ", ".join(
            f"{name} ({_here(names, rows)} of {len(names)} classes here)"
            for name, names in dataset.class_subsets.items()
        )
    if rows.left_out:
        facts["not all"] = "; ".join(rows.left_out)
    return facts


def _non_zeros(rows: LabelledRows) -> int:
    return int(rows.X.nnz if isinstance(rows.X, sparse.csr_array) else np.count_nonzero(rows.X))


def _here(names: tuple[str, ...], rows: LabelledRows) -> int:
    return len(set(names) & set(rows.class_names))
