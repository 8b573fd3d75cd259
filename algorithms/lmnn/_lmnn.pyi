import numpy as np
import numpy.typing as npt

Doubles = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int32]

def target_distances(Z: Doubles, targets: Rows, distances: Doubles) -> float: ...
def hinge_losses(
    Z: Doubles,
    pairs: Rows,
    distances: Doubles,
    width: float,
    target_slopes: Doubles,
    pair_slopes: Doubles,
) -> tuple[float, float, float, float]: ...
def laplacian_times(
    Z: Doubles,
    targets: Rows,
    pulls: Doubles,
    pairs: Rows,
    pushes: Doubles,
    product: Doubles,
) -> None: ...
def pairs_within_reach(
    products: Doubles,
    left: Doubles,
    right: Doubles,
    left_reach: Doubles,
    right_reach: Doubles,
    first_left: int,
    first_right: int,
    pairs: Rows,
) -> int: ...
