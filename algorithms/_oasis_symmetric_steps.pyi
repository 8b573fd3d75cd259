from typing import Any

import numpy as np
import numpy.typing as npt

def step(
    X: npt.NDArray[np.floating],
    data: npt.NDArray[np.floating],
    indices: npt.NDArray[np.signedinteger[Any]],
    indptr: npt.NDArray[np.signedinteger[Any]],
    triplets: npt.NDArray[np.intp],
    aggressiveness: float,
    dissimilar: bool,
    W: npt.NDArray[np.floating],
    spread: npt.NDArray[np.floating],
    values: npt.NDArray[np.floating],
    columns: npt.NDArray[np.int32],
) -> int: ...
def step_logdet(
    X: npt.NDArray[np.floating],
    data: npt.NDArray[np.floating],
    indices: npt.NDArray[np.signedinteger[Any]],
    indptr: npt.NDArray[np.signedinteger[Any]],
    triplets: npt.NDArray[np.intp],
    eta: float,
    margin: float,
    A: npt.NDArray[np.float64],
    products: npt.NDArray[np.float64],
    spread: npt.NDArray[np.floating],
    values: npt.NDArray[np.floating],
    columns: npt.NDArray[np.int32],
) -> int: ...
