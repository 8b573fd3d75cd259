from typing import Any

import numpy as np
import numpy.typing as npt

def step_dense(
    X: npt.NDArray[np.floating],
    triplets: npt.NDArray[np.intp],
    aggressiveness: float,
    W: npt.NDArray[np.floating],
    difference: npt.NDArray[np.floating],
) -> int: ...
def step_csr(
    data: npt.NDArray[np.floating],
    indices: npt.NDArray[np.signedinteger[Any]],
    indptr: npt.NDArray[np.signedinteger[Any]],
    triplets: npt.NDArray[np.intp],
    aggressiveness: float,
    W: npt.NDArray[np.floating],
    values: npt.NDArray[np.floating],
    columns: npt.NDArray[np.int32],
    spread: npt.NDArray[np.floating],
) -> int: ...
def step_dual(
    K: npt.NDArray[np.floating],
    triplets: npt.NDArray[np.intp],
    scores: npt.NDArray[np.float64],
    norms: npt.NDArray[np.float64],
    aggressiveness: float,
    D: npt.NDArray[np.floating],
    steps: npt.NDArray[np.int32],
    taus: npt.NDArray[np.floating],
    seen: npt.NDArray[np.intp],
) -> int: ...
def solve_block(
    cosines: npt.NDArray[np.floating],
    scores: npt.NDArray[np.float64],
    norms: npt.NDArray[np.float64],
    aggressiveness: float,
    lengths: npt.NDArray[np.floating],
    taus: npt.NDArray[np.float64],
) -> None: ...
