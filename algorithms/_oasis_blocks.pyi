from typing import Any

import numpy as np
import numpy.typing as npt

_Float = npt.NDArray[np.floating]
_Double = npt.NDArray[np.float64]
_Place = npt.NDArray[np.intp]
_Feature = npt.NDArray[np.uint16]
_Number = npt.NDArray[np.int32]

def allow_avx2(allowed: bool) -> None: ...
def load(
    data: _Float,
    indices: npt.NDArray[np.integer],
    indptr: npt.NDArray[np.integer],
    triplets: _Place,
    query_start: _Place,
    query_columns: _Feature,
    query_values: _Float,
    start: _Place,
    count: _Number,
    columns: _Feature,
    values: _Float,
    norms: _Double,
) -> int: ...
def pack(
    start: _Place,
    count: _Number,
    values: _Float,
    packed: npt.NDArray[np.int16],
    scale: _Double,
) -> None: ...
def sort_by_row(
    query_start: _Place,
    query_columns: _Feature,
    query_values: _Float,
    row_start: _Place,
    row_triplets: _Number,
    row_weights: _Float,
    places: _Place,
) -> None: ...
def pass_over_rows(
    W: _Float,
    first: int,
    stop: int,
    *blocks: npt.NDArray[Any],  # mypy cannot tell apart two tuples that are spread out
) -> None: ...
def pass_packed_over_rows(
    W: npt.NDArray[np.float32],
    first: int,
    stop: int,
    *blocks: npt.NDArray[Any],
) -> None: ...
def solve_in_order(
    n_triplets: int,
    scores: _Double,
    norms: _Double,
    aggressiveness: float,
    query_start: _Place,
    query_columns: _Feature,
    query_values: _Float,
    start: _Place,
    count: _Number,
    columns: _Feature,
    values: _Float,
    n_entries: int,
    row_start: _Place,
    list_start: _Place,
    list_length: _Number,
    members: _Feature,
    list_values: _Float,
    products: _Float,
    step: _Double,
) -> int: ...
