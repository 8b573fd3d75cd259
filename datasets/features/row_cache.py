"""Rows of pictures, computed a part at a time and kept in the cache folder.

Not for what a row is: each kind of features passes a function that computes some of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from oasis_bench.datasets.features.picture_files import (
    Fault,
    Picture,
    PictureRows,
    faults_of_arrays,
)
from oasis_bench.datasets.files.arrays import Arrays, cache_key, cached
from oasis_bench.system import cache_home, slices

AT_ONCE = 256
"""Pictures in a file of the cache: what Ctrl-C loses at most."""


def rows_in_parts(
    pictures: Sequence[Picture],
    folder: str,
    code: Sequence[str],
    decided_by: Sequence[str],
    compute: Callable[[Sequence[Picture], int], Arrays],
) -> tuple[PictureRows, Arrays]:
    """Return the row of each picture; what was computed before is read.

    One file holds 256 pictures, under a hash of their contents and of what else decides the rows:
    after Ctrl-C a call goes on from there.

    Parameters
    ----------
    pictures : sequence of Picture
    folder : str
        The folder within the cache folder.
    code, decided_by : sequence of str
        The modules that compute rows, and parameters and versions of libraries.
    compute : callable
        Called with some pictures of different contents, and how many are done already; returns
        'rows' (n_usable, n_features), the arrays of `arrays_of_faults`, and others.

    Returns
    -------
    rows : PictureRows
        float32.
    arrays : dict of str to ndarray
        What `compute` returned for the last part.

    Raises
    ------
    UsageError
        Where the cache cannot be written.
    """
    unique = list({picture.content: picture for picture in pictures}.values())
    found: dict[str, npt.NDArray[np.float32]] = {}
    faults: dict[str, Fault] = {}
    arrays: Arrays = {}
    for part in slices(len(unique), AT_ONCE):
        some = unique[part]
        key = cache_key(code, *decided_by, *(one.content for one in some))
        path = cache_home() / folder / f"{key}.npz"
        arrays = cached(path, partial(compute, some, part.start))
        faults |= faults_of_arrays(arrays)
        usable = (one.content for one in some if one.content not in faults)
        found |= zip(usable, arrays["rows"], strict=True)
    kept = [number for number, one in enumerate(pictures) if one.content in found]
    left_out = [(one.path, faults[one.content]) for one in pictures if one.content in faults]
    X = np.array([found[pictures[number].content] for number in kept], np.float32)
    return PictureRows(X, kept, left_out), arrays
