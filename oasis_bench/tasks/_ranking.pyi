import numpy as np
import numpy.typing as npt

QUERY_GROUP_BYTES: int

def work_space_sizes(most_relevant: int) -> tuple[int, int]: ...
def score_csr(
    data: npt.NDArray[np.floating],
    indices: npt.NDArray[np.int32],
    indptr: npt.NDArray[np.intp],
    projected: npt.NDArray[np.floating],
    scores: npt.NDArray[np.floating],
) -> None: ...
def rank_relevant(
    scores: npt.NDArray[np.floating],
    queries: npt.NDArray[np.intp],
    place: npt.NDArray[np.intp],
    indptr: npt.NDArray[np.intp],
    relevant: npt.NDArray[np.intp],
    values: npt.NDArray[np.floating],
    ties: npt.NDArray[np.intp],
    tally: npt.NDArray[np.intp],
    cell: npt.NDArray[np.int32],
    border: npt.NDArray[np.int32],
    ranks: npt.NDArray[np.intp],
) -> int: ...
def best(
    scores: npt.NDArray[np.floating],
    left_out: npt.NDArray[np.intp],
    place: npt.NDArray[np.intp],
    found: npt.NDArray[np.intp],
) -> int: ...
