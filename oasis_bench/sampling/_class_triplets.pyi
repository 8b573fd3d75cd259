import numpy as np
import numpy.typing as npt

def draw_class_triplets(
    rows: npt.NDArray[np.intp],
    starts: npt.NDArray[np.intp],
    sizes: npt.NDArray[np.intp],
    n_queries: int,
    state: npt.NDArray[np.uint64],
    triplets: npt.NDArray[np.intp],
) -> None: ...
