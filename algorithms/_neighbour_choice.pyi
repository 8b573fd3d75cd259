import numpy as np
import numpy.typing as npt

from oasis_bench.data import FloatArray

def choose_neighbours(scores: FloatArray, first: int, totals: FloatArray) -> float: ...
def choose_own_class(
    scores: FloatArray,
    first: int,
    totals: FloatArray,
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
) -> float: ...
