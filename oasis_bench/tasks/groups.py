"""Divides rows that come in groups, such as recordings: a group trains or tests as a whole.

A group may lie in one class, as a recording of one frog, or across classes, as a writer of all
letters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

Groups: TypeAlias = "npt.NDArray[np.int64]"
"""The group of each row."""

RANKABLE = 2
"""Groups of a class that a part should have: a query needs an item of its class in another one."""


def groups_per_class(y: Any, groups: Groups) -> npt.NDArray[np.intp]:
    """Count the groups that have rows of each class."""
    return np.bincount(np.unique([y, groups], axis=1)[0])


def deal_groups(y: Any, groups: Groups, shares: Sequence[float], seed: int) -> npt.NDArray[np.intp]:
    """Return the part of each row (n_rows,); whole groups are dealt in random order.

    A group goes to the part that lacks its classes most: to one with fewer than two groups of them,
    else to the one that then has the fewest of their rows for its share; of equals to the emptiest.
    In a group of several classes each counts by its rows.
    """
    _, classes = np.unique(y, return_inverse=True)
    _, group = np.unique(groups, return_inverse=True)
    counts = sparse.csr_array((np.ones(len(y)), (group, classes)))
    counts.sum_duplicates()
    sizes = np.bincount(classes)
    n_held, filled = np.zeros((2, len(shares), len(sizes)))
    part = np.empty(counts.shape[0], dtype=np.intp)
    for number in np.random.default_rng(seed).permutation(len(part)):
        own = slice(*counts.indptr[number : number + 2])
        held, n_rows = counts.indices[own], counts.data[own]
        n, full = n_held[:, held], filled[:, held] + n_rows / sizes[held]
        cost = np.where(n < RANKABLE, n - RANKABLE, full / np.array(shares)[:, None]) @ n_rows
        part[number] = best = np.lexsort((filled.sum(axis=1) / shares, cost))[0]
        n_held[best, held] += 1
        filled[best, held] = full[best]
    return part[group]


def hold_apart(
    learns: npt.NDArray[np.bool_], tests: npt.NDArray[np.bool_], groups: Groups, seed: int
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the rows of training, and of test classes, so that no group has rows of both.

    Of groups that had, one half at random trains and the other tests; their other rows leave.
    """
    both = np.intersect1d(groups[learns], groups[tests])
    testing = np.random.default_rng([seed, 1]).permutation(both)[: len(both) // 2]
    training = np.setdiff1d(both, testing)
    trained, tested = learns & ~np.isin(groups, testing), tests & ~np.isin(groups, training)
    return np.flatnonzero(trained), np.flatnonzero(tested)
