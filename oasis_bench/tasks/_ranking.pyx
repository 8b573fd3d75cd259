"""Kernels: scores against sparse rows, the ranks of relevant images, and the best k.

An image beats another by a higher score or, where scores are equal, by an earlier place in the
order of ties: no two are equal.  Nothing here is checked: the faces `scoring.py` and `ranking.py`
do that.  The readable twins are in the tests.

What makes it fast: a block of queries is scored at once, so that each entry of a sparse row is
read once for all of them (`_ranking.h`); and of all scores only the relevant ones are sorted.
The range of these is cut into cells, of which most hold no relevant score or one, so that nearly
every other score finds with one look how many of them beat it.
"""

from libc.stdint cimport int32_t
from libc.string cimport memset

ctypedef fused real:
    float
    double

cdef extern from "_ranking.h" nogil:
    enum: GROUP_BYTES
    void score_group "score_group_float"(
        const float* data, const int32_t* indices, const Py_ssize_t* indptr, Py_ssize_t n_rows,
        const float* queries, float* scores, Py_ssize_t stride, Py_ssize_t count)
    void score_group "score_group_double"(
        const double* data, const int32_t* indices, const Py_ssize_t* indptr, Py_ssize_t n_rows,
        const double* queries, double* scores, Py_ssize_t stride, Py_ssize_t count)
    void find_cells "find_cells_float"(
        const float* s, Py_ssize_t n, float top, float scale, float last, int32_t* cell)
    void find_cells "find_cells_double"(
        const double* s, Py_ssize_t n, double top, double scale, double last, int32_t* cell)
    Py_ssize_t count_nan "count_nan_float"(const float* s, Py_ssize_t n)
    Py_ssize_t count_nan "count_nan_double"(const double* s, Py_ssize_t n)

QUERY_GROUP_BYTES = GROUP_BYTES

# Scores are looked at in chunks whose cells stay in the first-level cache.
cdef enum: CHUNK = 512

# More cells would save little, and these must be numbers that float32 holds exactly.
cdef enum: CELLS_PER_RELEVANT = 16
cdef enum: MOST_CELLS = 1 << 20


def work_space_sizes(Py_ssize_t most_relevant):
    """Return how many cell numbers and cell borders `rank_relevant` works on."""
    return max(most_relevant, CHUNK), cells(most_relevant) + 3


def score_csr(
    const real[::1] data,               # IN: CSR of the gallery (n, d) ...
    const int32_t[::1] indices,         # IN
    const Py_ssize_t[::1] indptr,       # IN: (n + 1,)
    const real[:, ::1] projected,       # IN: (d, QUERY_GROUP_BYTES wide), a column q'W each
    real[:, :] scores,                  # OUT: (at most that many, n), each row contiguous
):
    """Write the scores of a group of queries against gallery rows."""
    cdef Py_ssize_t stride = scores.strides[0] // <Py_ssize_t>sizeof(real)
    if scores.shape[1] == 0 or data.shape[0] == 0:
        scores[:, :] = 0
        return
    with nogil:
        score_group(
            &data[0], &indices[0], &indptr[0], scores.shape[1], &projected[0, 0],
            &scores[0, 0], stride, scores.shape[0])


def rank_relevant(
    const real[:, ::1] scores,          # IN: (b, n)
    const Py_ssize_t[::1] out_indptr,   # IN: (b + 1,) of the columns that are not ranked, CSR ...
    const Py_ssize_t[::1] left_out,     # IN: such as the query's own
    const Py_ssize_t[::1] place,        # IN: (n,) place of each column in the order of ties
    const Py_ssize_t[::1] indptr,       # IN: (b + 1,) of the relevant, CSR; one or more a query
    const Py_ssize_t[::1] relevant,     # IN: their columns, none of those left out
    real[::1] values,                   # work space: (r,), r the most relevant of a query ...
    Py_ssize_t[::1] ties,               # work space: (r,)
    Py_ssize_t[::1] tally,              # work space: (r + 1,)
    int32_t[::1] cell,                  # work space: see `work_space_sizes`
    int32_t[::1] border,                # work space
    Py_ssize_t[::1] ranks,              # OUT: as `relevant`: their ranks from 1, rising
):
    """Rank the relevant images of each query among all others; return how many scores are NaN."""
    cdef Py_ssize_t b, first, count, undefined = 0
    with nogil:
        for b in range(scores.shape[0]):
            first, count = indptr[b], indptr[b + 1] - indptr[b]
            undefined += rank_one(
                &scores[b, 0], scores.shape[1], left_out, out_indptr[b], out_indptr[b + 1],
                &place[0], &relevant[first], count, &values[0], &ties[0], &tally[0], &cell[0],
                &border[0], &ranks[first])
    return undefined


def best(
    const real[:, ::1] scores,          # IN: (b, n)
    const Py_ssize_t[::1] left_out,     # IN: (b,) a column that is not ranked, or -1
    const Py_ssize_t[::1] place,        # IN: (n,) place of each column in the order of ties
    Py_ssize_t[:, ::1] found,           # OUT: (b, k) the columns of the best k, best first
):
    """Find the best k of each row of scores; return how many scores are NaN."""
    cdef Py_ssize_t b, undefined = 0
    with nogil:
        for b in range(scores.shape[0]):
            best_of_one(
                &scores[b, 0], scores.shape[1], left_out[b], &place[0], &found[b, 0],
                found.shape[1])
            undefined += count_nan(&scores[b, 0], scores.shape[1])
    return undefined


cdef inline Py_ssize_t cells(Py_ssize_t n_relevant) noexcept nogil:
    return min(CELLS_PER_RELEVANT * n_relevant, MOST_CELLS)


cdef Py_ssize_t rank_one(
    const real* s, Py_ssize_t n, const Py_ssize_t[::1] left_out, Py_ssize_t first_out,
    Py_ssize_t end_out, const Py_ssize_t* place, const Py_ssize_t* relevant, Py_ssize_t count,
    real* values, Py_ssize_t* ties, Py_ssize_t* tally, int32_t* cell, int32_t* border,
    Py_ssize_t* ranks,
) noexcept nogil:
    """Count, for each relevant image, those that it does not beat: itself and all before it."""
    cdef Py_ssize_t chunk, start, j, m, length, undefined = 0
    cdef Py_ssize_t last = cells(count)
    cdef real top, scale
    for m in range(count):
        values[m] = s[relevant[m]]
    measure(values, count, last, &top, &scale)
    sort_by_cells(s, place, relevant, values, count, top, scale, last, cell, border, ties)
    memset(tally, 0, (count + 1) * sizeof(Py_ssize_t))
    for chunk in range((n + CHUNK - 1) // CHUNK):
        start = chunk * CHUNK
        length = min(CHUNK, n - start)
        undefined += count_nan(s + start, length)
        find_cells(s + start, length, top, scale, <real>last, cell)
        for j in range(length):
            m = count_before(
                s[start + j], place[start + j], values, ties, border[cell[j]], border[cell[j] + 1])
            tally[m] += 1
    for j in range(first_out, end_out):
        m = count_before(s[left_out[j]], place[left_out[j]], values, ties, 0, count)
        tally[m] -= 1
    ranks[0] = tally[0]
    for m in range(1, count):
        ranks[m] = ranks[m - 1] + tally[m]
    return undefined


cdef inline Py_ssize_t count_before(
    real score, Py_ssize_t tie, const real* values, const Py_ssize_t* ties, Py_ssize_t low,
    Py_ssize_t high,
) noexcept nogil:
    """Count the relevant images that beat one of this score and place: from `low` to `high`."""
    cdef Py_ssize_t half, middle, length = high - low
    while length > 0:  # a binary search whose branches do not depend on what is found
        half = (length + 1) >> 1
        middle = low + half - 1
        low += half * (
            (values[middle] > score) | ((values[middle] == score) & (ties[middle] < tie)))
        length -= half
    return low


cdef inline void measure(
    const real* values, Py_ssize_t count, Py_ssize_t last, real* top, real* scale
) noexcept nogil:
    """Cut the range of the values into cells 0 to last - 1, so that all below are in the last.

    Whatever the scale - infinite or NaN where all values are equal, 0 where one is infinite -
    no score is in an earlier cell than a higher score.
    """
    cdef Py_ssize_t m
    cdef real bottom = values[0]
    top[0] = values[0]
    for m in range(1, count):
        top[0] = max(top[0], values[m])
        bottom = min(bottom, values[m])
    scale[0] = (last - 1) / (top[0] - bottom)


cdef void sort_by_cells(
    const real* s, const Py_ssize_t* place, const Py_ssize_t* relevant, real* values,
    Py_ssize_t count, real top, real scale, Py_ssize_t last, int32_t* cell, int32_t* border,
    Py_ssize_t* ties,
) noexcept nogil:
    """Sort the relevant images' values and places, best first; cell c is border[c] to [c + 1]."""
    cdef Py_ssize_t m, c
    memset(border, 0, (last + 3) * sizeof(int32_t))
    find_cells(values, count, top, scale, <real>last, cell)
    for m in range(count):
        border[cell[m] + 2] += 1
    for c in range(2, last + 3):
        border[c] += border[c - 1]
    for m in range(count):  # moves border[c + 1] from the start of cell c to its end
        ties[border[cell[m] + 1]] = relevant[m]
        border[cell[m] + 1] += 1
    for c in range(last + 1):
        if border[c + 1] - border[c] > 1:
            build_heap(s, place, ties + border[c], border[c + 1] - border[c])
            sort_heap(s, place, ties + border[c], border[c + 1] - border[c])
    for m in range(count):
        values[m] = s[ties[m]]
        ties[m] = place[ties[m]]


cdef void best_of_one(
    const real* s, Py_ssize_t n, Py_ssize_t left_out, const Py_ssize_t* place,
    Py_ssize_t* heap, Py_ssize_t k,
) noexcept nogil:
    """Keep the best k in a heap whose root is the worst of them, then sort it."""
    cdef Py_ssize_t j, size = 0
    for j in range(n):
        if j == left_out:
            continue
        if size < k:
            heap[size] = j
            size += 1
            if size == k:
                build_heap(s, place, heap, k)
        elif s[j] >= s[heap[0]] and beats(s, place, j, heap[0]):
            heap[0] = j
            sift_down(s, place, heap, 0, k)
    sort_heap(s, place, heap, k)


cdef inline bint beats(
    const real* s, const Py_ssize_t* place, Py_ssize_t i, Py_ssize_t j
) noexcept nogil:
    return s[i] > s[j] or (s[i] == s[j] and place[i] < place[j])


cdef inline void build_heap(
    const real* s, const Py_ssize_t* place, Py_ssize_t* heap, Py_ssize_t size
) noexcept nogil:
    cdef Py_ssize_t root
    for root in range(size // 2 - 1, -1, -1):
        sift_down(s, place, heap, root, size)


cdef inline void sort_heap(
    const real* s, const Py_ssize_t* place, Py_ssize_t* heap, Py_ssize_t size
) noexcept nogil:
    """Move the worst, the root, behind the others until all are in order, best first."""
    cdef Py_ssize_t end
    for end in range(size - 1, 0, -1):
        heap[0], heap[end] = heap[end], heap[0]
        sift_down(s, place, heap, 0, end)


cdef inline void sift_down(
    const real* s, const Py_ssize_t* place, Py_ssize_t* heap, Py_ssize_t root, Py_ssize_t size
) noexcept nogil:
    """Let the entry at `root` sink until it beats none of those below it."""
    cdef Py_ssize_t child, moved = heap[root]
    while 2 * root + 1 < size:
        child = 2 * root + 1
        if child + 1 < size and beats(s, place, heap[child], heap[child + 1]):
            child += 1
        if not beats(s, place, moved, heap[child]):
            break
        heap[root] = heap[child]
        root = child
    heap[root] = moved
