"""Kernel: steps of Online-Proj-OASIS and Dissim-OASIS over given triplets.

Each step forms two sparse vectors from its rows, dense or CSR alike: their non-zero entries, and
the same spread out over d numbers.  Cost is then non-zeros times non-zeros.  Nothing here is
checked: `oasis_symmetric.py` does that.
The readable twin is `tests/oasis_twins.py`.
"""

from libc.stdint cimport int32_t

from _rows cimport (
    SPREAD, axpy_dense, axpy_sparse, clear, dot_dense, dot_sparse, index, real, squared_norm,
)

def step(
    const real[:, ::1] X,               # IN: (n, d) where rows are dense, else (0, 0)
    const real[::1] data,               # IN: CSR of (n, d), without duplicates
    const index[::1] indices,           # IN
    const index[::1] indptr,            # IN
    const Py_ssize_t[:, ::1] triplets,  # IN: (m, 3) query, positive, negative
    double aggressiveness,              # IN: C
    bint dissimilar,                    # IN: a step of Dissim-OASIS, else of Online-Proj-OASIS
    real[:, ::1] W,                     # INOUT: (d, d)
    real[:, ::1] spread,                # work space: (2, d), zeros: two vectors ...
    real[:, ::1] values,                # work space: (2, d) ... their entries ...
    int32_t[:, ::1] columns,            # work space: (2, d) ... and where those stand
):
    """Apply the triplets in order; return how many of them changed W.

    On CSR rows the cost does not grow with d.
    """
    cdef Py_ssize_t m, q, p, n, n_updates = 0
    cdef Py_ssize_t count[2]
    with nogil:
        for m in range(triplets.shape[0]):
            q, p, n = triplets[m, 0], triplets[m, 1], triplets[m, 2]
            count[0] = load(
                X, data, indices, indptr, q, p if dissimilar else -1, spread, values, columns, 0
            )
            count[1] = load(
                X, data, indices, indptr, q if dissimilar else p, n, spread, values, columns, 1
            )
            if dissimilar:
                n_updates += dissim(W, aggressiveness, spread, values, columns, count)
            else:
                n_updates += online_proj(W, aggressiveness, spread, values, columns, count)
            clear_both(spread, columns, count)
    return n_updates


cdef inline bint online_proj(
    real[:, ::1] W, double aggressiveness,
    real[:, ::1] spread, real[:, ::1] values, int32_t[:, ::1] columns, const Py_ssize_t* count,
) noexcept nogil:
    """W += tau (V + V') / 2 for V = q (p - n)', the two vectors q and p - n."""
    cdef double norm = squared_norm(&values[0, 0], count[0]) * squared_norm(&values[1, 0], count[1])
    cdef double loss = 1 - product(W, 0, 1, spread, values, columns, count)
    if loss <= 0 or norm <= 0:
        return False
    cdef double half = min(aggressiveness, loss / norm) / 2
    add(W, 0, 1, half, spread, values, columns, count)
    add(W, 1, 0, half, spread, values, columns, count)
    return True


cdef inline bint dissim(
    real[:, ::1] W, double aggressiveness,
    real[:, ::1] spread, real[:, ::1] values, int32_t[:, ::1] columns, const Py_ssize_t* count,
) noexcept nogil:
    """W -= tau V for V = aa' - bb', the two vectors a = q - p and b = q - n."""
    cdef double norm = gradient_norm(spread, values, columns, count)
    cdef double loss = (
        1 + product(W, 0, 0, spread, values, columns, count)
        - product(W, 1, 1, spread, values, columns, count)
    )
    if loss <= 0 or norm <= 0:
        return False
    cdef double tau = min(aggressiveness, loss / norm)
    add(W, 0, 0, -tau, spread, values, columns, count)
    add(W, 1, 1, tau, spread, values, columns, count)
    return True


cdef inline double product(
    real[:, ::1] W, int left, int right,
    real[:, ::1] spread, real[:, ::1] values, int32_t[:, ::1] columns, const Py_ssize_t* count,
) noexcept nogil:
    """Return x'Wy for the vectors of these two numbers."""
    cdef Py_ssize_t a, d = W.shape[0], length = count[right]
    cdef bint whole = d < SPREAD * length
    cdef double total = 0
    cdef const real* row
    for a in range(count[left]):
        row = &W[columns[left, a], 0]
        if whole:
            total += <double>values[left, a] * dot_dense(row, &spread[right, 0], d)
        else:
            total += <double>values[left, a] * dot_sparse(
                row, &columns[right, 0], &values[right, 0], length
            )
    return total


cdef inline void add(
    real[:, ::1] W, int left, int right, double weight,
    real[:, ::1] spread, real[:, ::1] values, int32_t[:, ::1] columns, const Py_ssize_t* count,
) noexcept nogil:
    """W += weight xy' for the vectors of these two numbers."""
    cdef Py_ssize_t a, d = W.shape[0], length = count[right]
    cdef bint whole = d < SPREAD * length
    cdef real* row
    cdef real scale
    for a in range(count[left]):
        row = &W[columns[left, a], 0]
        scale = <real>(weight * values[left, a])
        if whole:
            axpy_dense(row, &spread[right, 0], d, scale)
        else:
            axpy_sparse(row, &columns[right, 0], &values[right, 0], length, scale)


cdef inline double gradient_norm(
    real[:, ::1] spread, real[:, ::1] values, int32_t[:, ::1] columns, const Py_ssize_t* count,
) noexcept nogil:
    """|aa' - bb'|^2 as (|s|^2 |t|^2 + (s't)^2) / 2 for s = a - b, t = a + b: exactly 0 at a = b.

    |a|^4 + |b|^4 - 2 (a'b)^2 is the same number, but what is left of it there is rounding.
    """
    cdef double s, t, ss = 0, tt = 0, st = 0
    cdef Py_ssize_t j
    for j in range(count[0]):
        if values[0, j] != 0:  # a difference may have cancelled: then b's entry counts below
            s = values[0, j] - spread[1, columns[0, j]]
            t = values[0, j] + spread[1, columns[0, j]]
            ss, tt, st = ss + s * s, tt + t * t, st + s * t
    for j in range(count[1]):
        if spread[0, columns[1, j]] == 0:
            s = values[1, j]
            ss, tt, st = ss + s * s, tt + s * s, st - s * s
    return (ss * tt + st * st) / 2


cdef inline Py_ssize_t load(
    const real[:, ::1] X, const real[::1] data, const index[::1] indices, const index[::1] indptr,
    Py_ssize_t x, Py_ssize_t y,
    real[:, ::1] spread, real[:, ::1] values, int32_t[:, ::1] columns, int vector,
) noexcept nogil:
    """Make row x - row y (row x where y is -1) the vector of this number; return its entries."""
    if X.shape[0] == 0:
        return load_csr(data, indices, indptr, x, y, spread, values, columns, vector)
    return load_dense(&X[x, 0], &X[y, 0] if y >= 0 else NULL, spread, values, columns, vector)


cdef inline Py_ssize_t load_dense(
    const real* x, const real* y,
    real[:, ::1] spread, real[:, ::1] values, int32_t[:, ::1] columns, int vector,
) noexcept nogil:
    """Make x - y (x where y is NULL) the vector of this number; return how many entries it has."""
    cdef Py_ssize_t j, count = 0
    cdef real value
    for j in range(spread.shape[1]):
        value = x[j] if y == NULL else x[j] - y[j]
        spread[vector, j] = value
        values[vector, count], columns[vector, count] = value, <int32_t>j
        count += value != 0
    return count


cdef inline Py_ssize_t load_csr(
    const real[::1] data, const index[::1] indices, const index[::1] indptr,
    Py_ssize_t x, Py_ssize_t y,
    real[:, ::1] spread, real[:, ::1] values, int32_t[:, ::1] columns, int vector,
) noexcept nogil:
    """Do the same on CSR rows."""
    cdef Py_ssize_t j, count = 0
    for j in range(indptr[x], indptr[x + 1]):
        if data[j] != 0:
            spread[vector, indices[j]] = data[j]
            columns[vector, count] = <int32_t>indices[j]
            count += 1
    if y >= 0:
        for j in range(indptr[y], indptr[y + 1]):
            if data[j] != 0:
                if spread[vector, indices[j]] == 0:
                    columns[vector, count] = <int32_t>indices[j]
                    count += 1
                spread[vector, indices[j]] -= data[j]
    for j in range(count):
        values[vector, j] = spread[vector, columns[vector, j]]
    return count


cdef inline void clear_both(
    real[:, ::1] spread, int32_t[:, ::1] columns, const Py_ssize_t* count
) noexcept nogil:
    clear(&spread[0, 0], &columns[0, 0], count[0])
    clear(&spread[1, 0], &columns[1, 0], count[1])
