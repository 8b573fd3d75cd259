import numpy as np
import numpy.typing as npt

_Float64Array = npt.NDArray[np.float64]

def learn_triplets(
    Z: _Float64Array,
    eta: float,
    upper: float,
    lower: float,
    products: _Float64Array,
    weights: _Float64Array,
) -> int: ...
def project_pairs(
    Z: _Float64Array,
    signs: _Float64Array,
    gammas: _Float64Array,
    upper: float,
    lower: float,
    multipliers: _Float64Array,
    products: _Float64Array,
    weights: _Float64Array,
) -> None: ...
