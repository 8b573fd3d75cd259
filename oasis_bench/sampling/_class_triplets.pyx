"""Kernel: exact uniform triplets of rows sorted by class, by xoshiro256++ and Lemire's method."""

from libc.stdint cimport uint64_t

cdef extern from "_random.h":
    uint64_t below(uint64_t* state, uint64_t bound) nogil


def draw_class_triplets(
    const Py_ssize_t[::1] rows,     # IN: row numbers sorted by class, those of lonely classes last
    const Py_ssize_t[::1] starts,   # IN: for each place in rows, where its class starts
    const Py_ssize_t[::1] sizes,    # IN: and how many rows it has
    Py_ssize_t n_queries,           # IN: the first n_queries places can be queries
    uint64_t[::1] state,            # INOUT: xoshiro256++, 4 words
    Py_ssize_t[:, ::1] triplets,    # OUT: (m, 3) query, positive, negative
):
    cdef Py_ssize_t m, query, positive, negative
    cdef Py_ssize_t n_rows = rows.shape[0]
    cdef uint64_t local[4]
    with nogil:
        for m in range(4):
            local[m] = state[m]
        for m in range(triplets.shape[0]):
            query = below(local, n_queries)
            positive = starts[query] + below(local, sizes[query] - 1)
            positive += positive >= query                 # skip the query itself
            negative = below(local, n_rows - sizes[query])
            if negative >= starts[query]:                 # skip the query's class
                negative += sizes[query]
            triplets[m, 0] = rows[query]
            triplets[m, 1] = rows[positive]
            triplets[m, 2] = rows[negative]
        for m in range(4):
            state[m] = local[m]
