"""Kernel: OASIS steps in blocks of triplets that go over W once, row after row.

The loops are in `_oasis_blocks_loops.h`, the readable twin is `tests/oasis_twins.py`.  A block is an
object `Block` of `_oasis_block_schedule.py`, which says what its arrays hold.  Nothing here is
checked: that module does that.
"""

from libc.stdint cimport int16_t, int32_t, intptr_t, uint16_t

from _rows cimport index, real, squared_norm, subtract

cdef extern from "_oasis_blocks.h" nogil:
    ctypedef struct block:
        Py_ssize_t* query_start
        uint16_t* query_columns
        void* query_values
        Py_ssize_t* row_start
        int32_t* row_triplets
        void* row_weights
        Py_ssize_t* start
        int32_t* count
        uint16_t* columns
        void* values
        double* norms
        double* step
    ctypedef struct lists:
        const Py_ssize_t* start
        int32_t* length
        uint16_t* members
        void* values
    int avx2_allowed
    Py_ssize_t PADDED(Py_ssize_t)
    void prefetch_bytes(const void*, Py_ssize_t)
    void pass_in_full "best_pass_float"(
        float* W, Py_ssize_t d, Py_ssize_t first, Py_ssize_t stop, const block* done,
        const double* step, const block* following, double* scores)
    void pass_in_full "best_pass_double"(
        double* W, Py_ssize_t d, Py_ssize_t first, Py_ssize_t stop, const block* done,
        const double* step, const block* following, double* scores)
    void pass_packed "best_pass_packed"(
        float* W, Py_ssize_t d, Py_ssize_t first, Py_ssize_t stop, const block* done,
        const double* step, const block* following, double* scores)
    Py_ssize_t solve "best_solve_float"(
        const block* of, Py_ssize_t n, const double* scores, const double* norms,
        double aggressiveness, const lists* q_lists, const lists* v_lists, float* products,
        double* step)
    Py_ssize_t solve "best_solve_double"(
        const block* of, Py_ssize_t n, const double* scores, const double* norms,
        double aggressiveness, const lists* q_lists, const lists* v_lists, double* products,
        double* step)


cdef enum:
    LOAD_AHEAD = 8  # triplets: their rows lie anywhere in X


def allow_avx2(bint allowed):
    """Choose between the two forms of the loops, for their tests."""
    global avx2_allowed
    avx2_allowed = allowed


cdef block _block(of):
    """Point at the arrays of a `Block`, which must outlive it."""
    cdef block b
    b.query_start, b.query_values = <Py_ssize_t*>_at(of.query_start), _at(of.query_values)
    b.row_start, b.row_triplets = <Py_ssize_t*>_at(of.row_start), <int32_t*>_at(of.row_triplets)
    b.query_columns, b.row_weights = <uint16_t*>_at(of.query_columns), _at(of.row_weights)
    b.start, b.count = <Py_ssize_t*>_at(of.start), <int32_t*>_at(of.count)
    b.columns, b.values = <uint16_t*>_at(of.columns), _at(of.values)
    b.norms, b.step = <double*>_at(of.norms), <double*>_at(of.step)
    return b


cdef void* _at(array):
    return <void*><intptr_t>array.ctypes.data


def load(
    const real[::1] data,               # IN: CSR of (n, d), sorted and without duplicates
    const index[::1] indices,           # IN
    const index[::1] indptr,            # IN
    const Py_ssize_t[:, ::1] triplets,  # IN: (m, 3) query, positive, negative
    of,                                 # OUT: a `Block` that has room enough
):
    """Copy the rows that a block of triplets needs; return how far `columns` is filled."""
    cdef Py_ssize_t m, k, row, entry = 0, place = 0, length
    cdef double query_norm
    cdef block b = _block(of)
    cdef real* query_values = <real*>b.query_values
    cdef real* values = <real*>b.values
    with nogil:
        for m in range(triplets.shape[0]):
            if m + LOAD_AHEAD < triplets.shape[0]:
                for k in range(3):
                    row = triplets[m + LOAD_AHEAD, k]
                    length = indptr[row + 1] - indptr[row]
                    prefetch_bytes(&data[indptr[row]], length * sizeof(real))
                    prefetch_bytes(&indices[indptr[row]], length * sizeof(index))
            b.query_start[m] = place
            query_norm = 0
            for k in range(indptr[triplets[m, 0]], indptr[triplets[m, 0] + 1]):
                b.query_columns[place], query_values[place] = <uint16_t>indices[k], data[k]
                query_norm += <double>data[k] * data[k]
                place += 1
            b.start[m] = entry
            length = subtract(
                data, indices, indptr, triplets[m, 1], triplets[m, 2],
                &b.columns[entry], &values[entry],
            )
            b.count[m] = <int32_t>length
            b.norms[m] = query_norm * squared_norm(&values[entry], length)
            for k in range(length, PADDED(length)):
                b.columns[entry + k], values[entry + k] = 0, 0
            entry += PADDED(length)
        b.query_start[triplets.shape[0]] = place
    return entry


def pack(
    of,                                 # IN: a `Block` that is loaded
    const float[::1] values,            # IN: its values
    int16_t[::1] packed,                # OUT: values / scale, rounded
    double[::1] scale,                  # OUT: (m,) the largest |value| / 32767
):
    """Round the entries of each p - n to 16 bits."""
    cdef Py_ssize_t m, k, n_triplets = of.n_triplets
    cdef float largest
    cdef double inverse
    cdef block b = _block(of)
    with nogil:
        for m in range(n_triplets):
            largest = 0
            for k in range(b.start[m], b.start[m] + b.count[m]):
                largest = max(largest, abs(values[k]))
            scale[m] = largest / 32767.0
            inverse = 32767.0 / largest if largest > 0 else 0
            for k in range(b.start[m], b.start[m] + PADDED(b.count[m])):
                # adding before the cast rounds to nearest: a cast alone goes towards zero
                packed[k] = <int16_t>(<int32_t>(values[k] * inverse + 32768.5) - 32768)


def sort_by_row(
    of,                                 # INOUT: a `Block` that is loaded
    const real[::1] query_values,       # IN: its values
    Py_ssize_t[::1] places,             # work space: (d,)
):
    """Turn the queries' entries from triplet after triplet to row of W after row of W."""
    cdef Py_ssize_t m, k, place, n_triplets = of.n_triplets
    cdef block b = _block(of)
    with nogil:
        count_starts(b.query_columns, b.query_start[n_triplets], 1, b.row_start, places.shape[0])
        for k in range(places.shape[0]):
            places[k] = b.row_start[k]
        for m in range(n_triplets):
            for k in range(b.query_start[m], b.query_start[m + 1]):
                place = places[b.query_columns[k]]
                places[b.query_columns[k]] += 1
                b.row_triplets[place] = <int32_t>m
                (<real*>b.row_weights)[place] = query_values[k]


def pass_over_rows(
    real[:, ::1] W,                     # INOUT: (d, d)
    Py_ssize_t first,                   # IN: the rows of W from this one ...
    Py_ssize_t stop,                    # IN: ... to before this one
    done,                               # INOUT: a `Block` whose steps are known: of its entries by
                                        # row those without a step are dropped
    following,                          # IN: the block after it
    double[::1] scores,                 # INOUT: (m,) its q'W(p - n), summed over the rows so far
):
    """Apply the steps of one block to rows of W, and score the next block against them.

    Steps and scores of packed blocks are in units of each triplet's scale.
    """
    cdef block of_done = _block(done), of_next = _block(following)
    cdef bint is_packed = done.is_packed
    if is_packed:
        of_done.values, of_next.values = _at(done.packed), _at(following.packed)
    with nogil:
        if is_packed:
            pass_packed(
                <float*>&W[0, 0], W.shape[0], first, stop, &of_done, of_done.step, &of_next,
                &scores[0],
            )
        else:
            pass_in_full(
                &W[0, 0], W.shape[0], first, stop, &of_done, of_done.step, &of_next, &scores[0]
            )


def solve_in_order(
    of,                                 # INOUT: a `Block`, whose steps are found
    const double[::1] scores,           # IN: (m,) against the W before the block
    double aggressiveness,              # IN: C
    Py_ssize_t[:, ::1] list_start,      # work space: (2, d + 1)
    int32_t[:, ::1] list_length,        # work space: (2, d)
    uint16_t[:, ::1] members,           # work space: the lists of q and of p - n: which steps ...
    real[:, ::1] list_values,           # work space: ... and their entries
    real[::1] products,                 # work space: (m,)
):
    """Find the steps as if each had been applied before the next.  Return the updates."""
    cdef block b = _block(of)
    cdef lists of_kind[2]
    cdef Py_ssize_t j, n_triplets = of.n_triplets, n_entries = of.n_entries
    cdef Py_ssize_t d = list_length.shape[1], n_updates
    with nogil:
        list_length[:] = 0
        list_start[0, 0] = 0
        for j in range(d):
            list_start[0, j + 1] = list_start[0, j] + PADDED(b.row_start[j + 1] - b.row_start[j])
        count_starts(b.columns, n_entries, 8, &list_start[1, 0], d)
        for j in range(2):
            of_kind[j].start, of_kind[j].length = &list_start[j, 0], &list_length[j, 0]
            of_kind[j].members, of_kind[j].values = &members[j, 0], &list_values[j, 0]
        n_updates = solve(
            &b, n_triplets, &scores[0], b.norms, aggressiveness, &of_kind[0], &of_kind[1],
            &products[0], b.step,
        )
    return n_updates


cdef inline void count_starts(
    const uint16_t* columns, Py_ssize_t n_entries, Py_ssize_t chunk, Py_ssize_t* starts,
    Py_ssize_t d,
) noexcept nogil:
    """Count the entries of each of d features, up to whole chunks, and sum: where a list starts."""
    cdef Py_ssize_t k, total = 0, here
    for k in range(d + 1):
        starts[k] = 0
    for k in range(n_entries):
        starts[columns[k]] += 1
    for k in range(d + 1):
        here = (starts[k] + chunk - 1) // chunk * chunk
        starts[k] = total
        total += here
