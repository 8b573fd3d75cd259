import numpy as np
import numpy.typing as npt

_Doubles = npt.NDArray[np.float64]
_Singles = npt.NDArray[np.float32]
_Rows = npt.NDArray[np.int32]

def target_distances(Z: _Doubles, targets: _Rows, distances: _Doubles) -> float: ...
def hinge_losses(
    Z: _Doubles,
    pairs: _Rows,
    distances: _Doubles,
    width: float,
    target_slopes: _Doubles,
    pair_slopes: _Doubles,
) -> tuple[float, float, float, float]: ...
def laplacian_times(
    Z: _Doubles,
    targets: _Rows,
    pulls: _Doubles,
    pairs: _Rows,
    pushes: _Doubles,
    product: _Doubles,
) -> None: ...
def pairs_within_reach(
    products: _Singles,
    left: _Singles,
    right: _Singles,
    left_reach: _Singles,
    right_reach: _Singles,
    first_left: int,
    first_right: int,
    pairs: _Rows,
) -> int: ...
def keep_within_reach(Z: _Doubles, reach: _Doubles, pairs: _Rows) -> int: ...
