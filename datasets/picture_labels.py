"""The labels of pictures: copies with equal labels or not, and classes or words as numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

Label: TypeAlias = "str | tuple[str, ...]"
"""The class of a picture; or its words, where a data set has several labels."""


def distinct(contents: Sequence[str], labels: Sequence[Label]) -> list[int]:
    """Choose the pictures to keep: the first of each content, if all of that have its label."""
    first: dict[str, int] = {}
    disputed: set[str] = set()
    for number, content in enumerate(contents):
        one = first.setdefault(content, number)
        if _words(labels[one]) != _words(labels[number]):
            disputed.add(content)
    return [number for content, number in first.items() if content not in disputed]


def _words(label: Label) -> set[str]:
    return {label} if isinstance(label, str) else set(label)


def as_labels(
    labels: Sequence[Label],
) -> tuple[npt.NDArray[np.int64] | sparse.csr_array, tuple[str, ...]]:
    """Return class numbers or, for words, a relevance of 1 (images x words); and the names."""
    if all(isinstance(label, str) for label in labels):
        classes, numbers = np.unique(np.array(labels), return_inverse=True)
        return numbers.astype(np.int64), tuple(classes.tolist())
    binarizer = MultiLabelBinarizer(sparse_output=True)
    relevance = sparse.csr_array(binarizer.fit_transform(labels), dtype=np.float32)
    relevance.sort_indices()
    return relevance, tuple(binarizer.classes_.tolist())
