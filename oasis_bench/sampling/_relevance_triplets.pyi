import numpy as np
import numpy.typing as npt

def running_sums(
    values: npt.NDArray[np.float64],
    indptr: npt.NDArray[np.intp],
    sums: npt.NDArray[np.float64],
) -> None: ...

class LabelGraph:
    def __init__(
        self,
        indptr: npt.NDArray[np.intp],
        labels: npt.NDArray[np.int32],
        factor: npt.NDArray[np.float64],
        mass_sums: npt.NDArray[np.float64],
        places: npt.NDArray[np.intp],
        label_ptr: npt.NDArray[np.intp],
        images: npt.NDArray[np.int32],
        weight_sums: npt.NDArray[np.float64],
        threshold: float,
        weighted: bool,
    ) -> None: ...
    def find_queries(self, exact: bool, usable: npt.NDArray[np.uint8]) -> None: ...
    def draw(
        self,
        queries: npt.NDArray[np.intp],
        exact: bool,
        state: npt.NDArray[np.uint64],
        triplets: npt.NDArray[np.intp],
    ) -> None: ...
