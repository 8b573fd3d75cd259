import numpy as np
import numpy.typing as npt

from oasis_bench.algorithms._dual_ascent import DualAscent

_Numbers = npt.NDArray[np.intp]
_Float64Array = npt.NDArray[np.float64]

CAN_MEET: bool

def take_row_actions(
    number: npt.NDArray[np.floating],
    ascent: DualAscent,
    order: _Numbers,
    seen: _Numbers,
    changes: _Numbers,
) -> float: ...
def visit_groups(
    number: npt.NDArray[np.floating],
    ascent: DualAscent,
    order: _Numbers,
    share: _Float64Array,
    arrivals: npt.NDArray[np.longlong],
    thread: int,
    n_threads: int,
) -> None: ...
def sum_triplets(ascent: DualAscent, alphas: _Float64Array, sums: _Float64Array) -> None: ...
def add_pairs(
    number: npt.NDArray[np.floating],
    ascent: DualAscent,
    pairs: _Numbers,
    sums: _Float64Array,
    U: _Float64Array,
) -> None: ...
def weigh_pairs(
    number: npt.NDArray[np.floating], ascent: DualAscent, pairs: _Numbers, U: _Float64Array
) -> None: ...
def sum_losses(ascent: DualAscent, start: int, stop: int) -> float: ...
