import numpy as np
import numpy.typing as npt

from oasis_bench.algorithms._oasis_block_schedule import Block

_Float = npt.NDArray[np.floating]
_Double = npt.NDArray[np.float64]
_Place = npt.NDArray[np.intp]

def allow_avx2(allowed: bool) -> None: ...
def load(
    data: _Float,
    indices: npt.NDArray[np.integer],
    indptr: npt.NDArray[np.integer],
    triplets: _Place,
    of: Block,
) -> int: ...
def pack(of: Block, values: _Float, packed: npt.NDArray[np.int16], scale: _Double) -> None: ...
def sort_by_row(of: Block, query_values: _Float, places: _Place) -> None: ...
def pass_over_rows(
    W: _Float, first: int, stop: int, done: Block, following: Block, scores: _Double
) -> None: ...
def solve_in_order(
    of: Block,
    scores: _Double,
    aggressiveness: float,
    list_start: _Place,
    list_length: npt.NDArray[np.int32],
    members: npt.NDArray[np.uint16],
    list_values: _Float,
    products: _Float,
) -> int: ...
