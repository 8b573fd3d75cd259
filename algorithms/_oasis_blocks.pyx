"""Kernel: OASIS steps in blocks of triplets that go over W once, row after row.

The loops are in `_oasis_blocks_loops.h`, the readable twin is `_oasis_reference.py`.  Nothing here is checked:
the face `_block_schedule.py` does that.
"""

from libc.stdint cimport int16_t, int32_t, uint16_t

from _rows cimport index, real, squared_norm, subtract

cdef extern from "_oasis_blocks.h" nogil:
    ctypedef struct block:
        const Py_ssize_t* query_start
        const uint16_t* query_columns
        const void* query_values
        Py_ssize_t* row_start
        int32_t* row_triplets
        void* row_weights
        const Py_ssize_t* start
        const int32_t* count
        const uint16_t* columns
        const void* values
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


def load(
    const real[::1] data,               # IN: CSR of (n, d), sorted and without duplicates
    const index[::1] indices,           # IN
    const index[::1] indptr,            # IN
    const Py_ssize_t[:, ::1] triplets,  # IN: (m, 3) query, positive, negative
    Py_ssize_t[::1] query_start,        # OUT: (m + 1,) where the entries of each query start
    uint16_t[::1] query_columns,        # OUT: their features ...
    real[::1] query_values,             # OUT: ... and values
    Py_ssize_t[::1] start,              # OUT: (m,) where those of v = p - n start, in chunks of 8
    int32_t[::1] count,                 # OUT: (m,) how many they are
    uint16_t[::1] columns,              # OUT: their features ...
    real[::1] values,                   # OUT: ... and values
    double[::1] norms,                  # OUT: (m,) |q|^2 |v|^2
):
    """Copy the rows that a block of triplets needs; return how far `columns` is filled."""
    cdef Py_ssize_t m, k, row, entry = 0, place = 0, length
    cdef double query_norm
    with nogil:
        for m in range(triplets.shape[0]):
            if m + LOAD_AHEAD < triplets.shape[0]:
                for k in range(3):
                    row = triplets[m + LOAD_AHEAD, k]
                    length = indptr[row + 1] - indptr[row]
                    prefetch_bytes(&data[indptr[row]], length * sizeof(real))
                    prefetch_bytes(&indices[indptr[row]], length * sizeof(index))
            query_start[m] = place
            query_norm = 0
            for k in range(indptr[triplets[m, 0]], indptr[triplets[m, 0] + 1]):
                query_columns[place], query_values[place] = <uint16_t>indices[k], data[k]
                query_norm += <double>data[k] * data[k]
                place += 1
            start[m] = entry
            length = subtract(
                data, indices, indptr, triplets[m, 1], triplets[m, 2],
                &columns[entry], &values[entry],
            )
            count[m] = <int32_t>length
            norms[m] = query_norm * squared_norm(&values[entry], length)
            for k in range(length, PADDED(length)):
                columns[entry + k], values[entry + k] = 0, 0
            entry += PADDED(length)
        query_start[triplets.shape[0]] = place
    return entry


def pack(
    const Py_ssize_t[::1] start,        # IN: (m,) entries of p - n, as `load` made them
    const int32_t[::1] count,           # IN: (m,)
    const float[::1] values,            # IN
    int16_t[::1] packed,                # OUT: values / scale, rounded
    double[::1] scale,                  # OUT: (m,) the largest |value| / 32767
):
    """Round the entries of each p - n to 16 bits."""
    cdef Py_ssize_t m, k
    cdef float largest
    cdef double inverse
    with nogil:
        for m in range(count.shape[0]):
            largest = 0
            for k in range(start[m], start[m] + count[m]):
                largest = max(largest, abs(values[k]))
            scale[m] = largest / 32767.0
            inverse = 32767.0 / largest if largest > 0 else 0
            for k in range(start[m], start[m] + PADDED(count[m])):  # adding rounds towards zero
                packed[k] = <int16_t>(<int32_t>(values[k] * inverse + 32768.5) - 32768)


def sort_by_row(
    const Py_ssize_t[::1] query_start,  # IN: (m + 1,)
    const uint16_t[::1] query_columns,  # IN
    const real[::1] query_values,       # IN
    Py_ssize_t[::1] row_start,          # OUT: (d + 1,) where the queries of each row of W start
    int32_t[::1] row_triplets,          # OUT: which they are, in order ...
    real[::1] row_weights,              # OUT: ... and their entry of that row
    Py_ssize_t[::1] places,             # work space: (d,)
):
    """Turn the queries' entries from triplet after triplet to row of W after row of W."""
    cdef Py_ssize_t m, k, place, n_triplets = query_start.shape[0] - 1
    with nogil:
        count_starts(query_columns, query_start[n_triplets], 1, row_start)
        places[:] = row_start[: places.shape[0]]
        for m in range(n_triplets):
            for k in range(query_start[m], query_start[m + 1]):
                place = places[query_columns[k]]
                places[query_columns[k]] += 1
                row_triplets[place], row_weights[place] = <int32_t>m, query_values[k]


def pass_over_rows(
    real[:, ::1] W,                     # INOUT: (d, d)
    Py_ssize_t first,                   # IN: the rows of W from this one ...
    Py_ssize_t stop,                    # IN: ... to before this one
    Py_ssize_t[::1] done_row_start,             # INOUT: a block that is scored, as `load` and
    int32_t[::1] done_row_triplets,             # INOUT: ... `sort_by_row` made it; the entries
    real[::1] done_row_weights,                 # INOUT: ... without a step are dropped
    const Py_ssize_t[::1] done_start,           # IN
    const int32_t[::1] done_count,              # IN
    const uint16_t[::1] done_columns,           # IN
    const real[::1] done_values,                # IN
    const double[::1] step,                     # IN: (m,) tau of each of its triplets
    Py_ssize_t[::1] next_row_start,             # IN: the block after it
    int32_t[::1] next_row_triplets,             # IN
    real[::1] next_row_weights,                 # IN
    const Py_ssize_t[::1] next_start,           # IN
    const int32_t[::1] next_count,              # IN
    const uint16_t[::1] next_columns,           # IN
    const real[::1] next_values,                # IN
    double[::1] scores,                 # INOUT: (m,) q'W(p - n), summed over the rows so far
):
    """Apply the steps of one block to rows of W, and score the next block against them."""
    cdef block done, following
    with nogil:
        done = by_row(
            done_row_start, done_row_triplets, done_row_weights, done_start, done_count,
            done_columns, &done_values[0],
        )
        following = by_row(
            next_row_start, next_row_triplets, next_row_weights, next_start, next_count,
            next_columns, &next_values[0],
        )
        pass_in_full(&W[0, 0], W.shape[0], first, stop, &done, &step[0], &following, &scores[0])


def pass_packed_over_rows(
    float[:, ::1] W,                    # INOUT: as in `pass_over_rows`, like all that follows
    Py_ssize_t first,
    Py_ssize_t stop,
    Py_ssize_t[::1] done_row_start,
    int32_t[::1] done_row_triplets,
    float[::1] done_row_weights,
    const Py_ssize_t[::1] done_start,
    const int32_t[::1] done_count,
    const uint16_t[::1] done_columns,
    const int16_t[::1] done_values,     # IN: as `pack` made them
    const double[::1] step,             # IN: (m,) in units of each triplet's scale
    Py_ssize_t[::1] next_row_start,
    int32_t[::1] next_row_triplets,
    float[::1] next_row_weights,
    const Py_ssize_t[::1] next_start,
    const int32_t[::1] next_count,
    const uint16_t[::1] next_columns,
    const int16_t[::1] next_values,
    double[::1] scores,                 # INOUT: (m,) in units of each triplet's scale
):
    """Do what `pass_over_rows` does, with entries of p - n that are rounded to 16 bits."""
    cdef block done, following
    with nogil:
        done = by_row(
            done_row_start, done_row_triplets, done_row_weights, done_start, done_count,
            done_columns, &done_values[0],
        )
        following = by_row(
            next_row_start, next_row_triplets, next_row_weights, next_start, next_count,
            next_columns, &next_values[0],
        )
        pass_packed(&W[0, 0], W.shape[0], first, stop, &done, &step[0], &following, &scores[0])


cdef inline block by_row(
    Py_ssize_t[::1] row_start,
    int32_t[::1] row_triplets,
    real[::1] row_weights,
    const Py_ssize_t[::1] start,
    const int32_t[::1] count,
    const uint16_t[::1] columns,
    const void* values,
) noexcept nogil:
    """Return what a pass over W needs of a block."""
    cdef block of
    of.row_start, of.row_triplets, of.row_weights = &row_start[0], &row_triplets[0], &row_weights[0]
    of.start, of.count, of.columns, of.values = &start[0], &count[0], &columns[0], values
    return of


def solve_in_order(
    Py_ssize_t n_triplets,              # IN: triplets of the block
    const double[::1] scores,           # IN: (m,) against the W before the block
    const double[::1] norms,            # IN: (m,) |V|^2
    double aggressiveness,              # IN: C
    const Py_ssize_t[::1] query_start,  # IN: the block, as `load` made it
    const uint16_t[::1] query_columns,  # IN
    const real[::1] query_values,       # IN
    const Py_ssize_t[::1] start,        # IN
    const int32_t[::1] count,           # IN
    const uint16_t[::1] columns,        # IN
    const real[::1] values,             # IN
    Py_ssize_t n_entries,               # IN: how long `columns` is used
    const Py_ssize_t[::1] row_start,    # IN: (d + 1,)
    Py_ssize_t[:, ::1] list_start,      # work space: (2, d + 1)
    int32_t[:, ::1] list_length,        # work space: (2, d)
    uint16_t[:, ::1] members,           # work space: the lists of q and of p - n: which steps ...
    real[:, ::1] list_values,           # work space: ... and their entries
    real[::1] products,                 # work space: (m,)
    double[::1] step,                   # OUT: (m,) tau
):
    """Find the steps as if each had been applied before the next.  Return the updates."""
    cdef block this
    cdef lists q_lists, v_lists
    cdef Py_ssize_t j, d = list_length.shape[1], n_updates
    with nogil:
        list_length[:] = 0
        list_start[0, 0] = 0
        for j in range(d):
            list_start[0, j + 1] = list_start[0, j] + PADDED(row_start[j + 1] - row_start[j])
        count_starts(columns, n_entries, 8, list_start[1])
        q_lists.start, q_lists.length = &list_start[0, 0], &list_length[0, 0]
        q_lists.members, q_lists.values = &members[0, 0], &list_values[0, 0]
        v_lists.start, v_lists.length = &list_start[1, 0], &list_length[1, 0]
        v_lists.members, v_lists.values = &members[1, 0], &list_values[1, 0]
        this.query_start, this.query_columns = &query_start[0], &query_columns[0]
        this.query_values, this.start, this.count = &query_values[0], &start[0], &count[0]
        this.columns, this.values = &columns[0], &values[0]
        n_updates = solve(
            &this, n_triplets, &scores[0], &norms[0], aggressiveness, &q_lists, &v_lists,
            &products[0], &step[0],
        )
    return n_updates


cdef inline void count_starts(
    const uint16_t[::1] columns, Py_ssize_t n_entries, Py_ssize_t chunk, Py_ssize_t[::1] starts
) noexcept nogil:
    """Count the entries of each feature, rounded up to chunks, and sum: where a list starts."""
    cdef Py_ssize_t k, total = 0, here
    starts[:] = 0
    for k in range(n_entries):
        starts[columns[k]] += 1
    for k in range(starts.shape[0]):
        here = (starts[k] + chunk - 1) // chunk * chunk
        starts[k] = total
        total += here
