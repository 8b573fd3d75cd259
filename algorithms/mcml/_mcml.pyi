import numpy as np
import numpy.typing as npt

def choose_neighbours(
    scores: npt.NDArray[np.float64], first: int, totals: npt.NDArray[np.float64]
) -> float: ...
