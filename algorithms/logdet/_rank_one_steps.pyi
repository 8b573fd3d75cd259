import numpy as np
import numpy.typing as npt

Float64Array = npt.NDArray[np.float64]

def learn_triplets(
    Z: Float64Array,
    eta: float,
    upper: float,
    lower: float,
    products: Float64Array,
    weights: Float64Array,
) -> int: ...
def project_pairs(
    Z: Float64Array,
    signs: Float64Array,
    gamma: float,
    upper: float,
    lower: float,
    multipliers: Float64Array,
    products: Float64Array,
    weights: Float64Array,
) -> None: ...
