"""Kernel: exact uniform triplets of rows sorted by class, by xoshiro256++ and Lemire's method."""

from libc.stdint cimport uint64_t

cdef extern from *:
    """
    #include <stdint.h>

    static inline uint64_t rotate_left(uint64_t x, int k) {
        return (x << k) | (x >> (64 - k));
    }

    /* Blackman & Vigna 2021, xoshiro256++ */
    static inline uint64_t next_word(uint64_t s[4]) {
        const uint64_t result = rotate_left(s[0] + s[3], 23) + s[0];
        const uint64_t t = s[1] << 17;
        s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3];
        s[2] ^= t;
        s[3] = rotate_left(s[3], 45);
        return result;
    }

    /* Lemire 2019: uniform below `bound` (< 2^32) without division in nearly every draw */
    static inline uint64_t below(uint64_t s[4], uint64_t bound) {
        uint64_t product = (next_word(s) >> 32) * bound;
        if ((uint32_t)product < bound) {
            const uint64_t threshold = (((uint64_t)1 << 32) - bound) % bound;
            while ((uint32_t)product < threshold)
                product = (next_word(s) >> 32) * bound;
        }
        return product >> 32;
    }
    """
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
