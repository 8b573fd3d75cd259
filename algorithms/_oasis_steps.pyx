"""Kernel: OASIS steps over given triplets, on dense rows, CSR rows or Gram matrices (eq. 3-9).

Each step reads q'W(p - n) and, where the loss is positive, adds tau q(p - n)' to W.  Nothing here
is checked: the faces `oasis.py` and `_oasis_dense_steps.py` do that.  The readable twin is
`tests/oasis_twins.py`.

What makes it fast: the loops over a row of W are compiled for the machine's vector instructions
(`_rows.h`); rows of W that q does not touch are passed over; and where p - n has a non-zero in
every few columns it is spread out, since a whole row is then read sooner than its entries are
picked.
"""

from libc.stdint cimport int32_t

from _rows cimport (
    SPREAD, add_dense, axpy_dense, axpy_sparse, catch_up, clear, dot_dense, dot_difference,
    dot_sparse, index, real, score_dense, squared_norm, subtract, subtract_dense,
)


def step_dense(
    const real[:, ::1] X,               # IN: (n, d)
    const Py_ssize_t[:, ::1] triplets,  # IN: (m, 3) query, positive, negative
    double aggressiveness,              # IN: C
    real[:, ::1] W,                     # INOUT: (d, d)
    real[::1] difference,               # work space: (d,)
):
    """Apply the triplets in order; return how many of them changed W."""
    cdef Py_ssize_t m, d = X.shape[1], n_updates = 0
    cdef const real* q
    cdef real* v = &difference[0]
    cdef double score, norm, tau
    with nogil:
        for m in range(triplets.shape[0]):
            q = &X[triplets[m, 0], 0]
            norm = subtract_dense(&X[triplets[m, 1], 0], &X[triplets[m, 2], 0], v, d)
            score = score_dense(&W[0, 0], q, v, d)
            if score >= 1:
                continue
            tau = step_size(score, norm * squared_norm(q, d), aggressiveness)
            if tau > 0:
                n_updates += 1
                add_dense(&W[0, 0], q, v, d, tau)
    return n_updates


def step_csr(
    const real[::1] data,               # IN: CSR of (n, d), sorted and without duplicates
    const index[::1] indices,           # IN
    const index[::1] indptr,            # IN
    const Py_ssize_t[:, ::1] triplets,  # IN: (m, 3) query, positive, negative
    double aggressiveness,              # IN: C
    real[:, ::1] W,                     # INOUT: (d, d)
    real[::1] values,                   # work space: (d,) the entries of p - n ...
    int32_t[::1] columns,               # work space: (d,) ... where they stand ...
    real[::1] spread,                   # work space: (d,), zeros: ... and p - n itself
):
    """Apply the triplets in order at a cost that does not grow with d; return the updates."""
    cdef Py_ssize_t m, count, first, length, d = W.shape[0], n_updates = 0
    cdef double score, norm, tau
    cdef bint dense
    with nogil:
        for m in range(triplets.shape[0]):
            first = indptr[triplets[m, 0]]
            length = indptr[triplets[m, 0] + 1] - first
            count = subtract(
                data, indices, indptr, triplets[m, 1], triplets[m, 2], &columns[0], &values[0]
            )
            if length == 0 or count == 0:
                continue
            dense = d < SPREAD * count
            if dense:
                scatter(&values[0], &columns[0], count, &spread[0])
            norm = squared_norm(&values[0], count) * squared_norm(&data[first], length)
            score = score_rows(
                &W[0, 0], d, &indices[first], &data[first], length,
                &values[0], &columns[0], count, &spread[0] if dense else NULL,
            )
            tau = step_size(score, norm, aggressiveness)
            if tau > 0:
                n_updates += 1
                add_rows(
                    &W[0, 0], d, &indices[first], &data[first], length,
                    &values[0], &columns[0], count, &spread[0] if dense else NULL, tau,
                )
            if dense:
                clear(&spread[0], &columns[0], count)
    return n_updates


def step_dual(
    const real[:, ::1] K,               # IN: (n, n) the Gram matrix of the rows
    const Py_ssize_t[:, ::1] triplets,  # IN: (m, 3) query, positive, negative
    const double[::1] scores,           # IN: (m,) q'W(p - n) before the first step
    const double[::1] norms,            # IN: (m,) |q|^2 |p - n|^2
    double aggressiveness,              # IN: C
    real[:, ::1] D,                     # IN: zeros; OUT: (n, n) A, the sums of the steps' tau
    int32_t[:, ::1] steps,              # work space: (3, m) the triplets that changed W ...
    real[::1] taus,                     # work space: (m,) ... and by how much
    Py_ssize_t[::1] seen,               # work space: (n,), zeros: steps that a row of D has
):
    """Find the steps in order as `_oasis_dense_steps.py` says; return how many of them change W."""
    cdef Py_ssize_t m, k, row, n = K.shape[0], n_updates = 0
    cdef double score, tau
    with nogil:
        for m in range(triplets.shape[0]):
            for k in range(1, 3):
                row = triplets[m, k]
                catch_up(
                    &D[row, 0], &K[row, 0], &steps[0, seen[row]], &steps[1, seen[row]],
                    &steps[2, seen[row]], &taus[seen[row]], n_updates - seen[row],
                )
                seen[row] = n_updates
            score = scores[m] + dot_difference(
                &K[triplets[m, 0], 0], &D[triplets[m, 1], 0], &D[triplets[m, 2], 0], n
            )
            tau = step_size(score, norms[m], aggressiveness)
            if tau > 0:
                for k in range(3):
                    steps[k, n_updates] = <int32_t>triplets[m, k]
                taus[n_updates] = <real>tau
                n_updates += 1
        D[:] = 0
        for m in range(n_updates):
            D[steps[0, m], steps[1, m]] += taus[m]
            D[steps[0, m], steps[2, m]] -= taus[m]
    return n_updates


def solve_block(
    const real[:, ::1] cosines,         # IN: (m, m) cos(q_t, q_u) cos(v_t, v_u), v = p - n
    const double[::1] scores,           # IN: (m,) q'W(p - n) before the first step
    const double[::1] norms,            # IN: (m,) |q| |v|
    double aggressiveness,              # IN: C
    real[::1] lengths,                  # work space: (m,) tau |q| |v|
    double[::1] taus,                   # OUT: (m,)
):
    """Find the steps of a block in order as `_oasis_dense_steps.py` says."""
    cdef Py_ssize_t t
    cdef double score
    with nogil:
        for t in range(cosines.shape[0]):
            score = scores[t] + norms[t] * dot_dense(&cosines[t, 0], &lengths[0], t)
            taus[t] = step_size(score, norms[t] * norms[t], aggressiveness)
            lengths[t] = <real>(taus[t] * norms[t])


cdef inline double score_rows(
    const real* W, Py_ssize_t d, const index* rows, const real* weights, Py_ssize_t length,
    const real* values, const int32_t* columns, Py_ssize_t count, const real* spread,
) noexcept nogil:
    """Return the sum of weights[a] W[rows[a]] (p - n), spread out or, where NULL, sparse."""
    cdef Py_ssize_t a
    cdef double score = 0
    cdef const real* row
    for a in range(length):
        row = W + <Py_ssize_t>rows[a] * d
        if spread != NULL:
            score += <double>weights[a] * dot_dense(row, spread, d)
        else:
            score += <double>weights[a] * dot_sparse(row, columns, values, count)
    return score


cdef inline void add_rows(
    real* W, Py_ssize_t d, const index* rows, const real* weights, Py_ssize_t length,
    const real* values, const int32_t* columns, Py_ssize_t count, const real* spread, double tau,
) noexcept nogil:
    """Add tau weights[a] (p - n) to each W[rows[a]]."""
    cdef Py_ssize_t a
    cdef real* row
    for a in range(length):
        row = W + <Py_ssize_t>rows[a] * d
        if spread != NULL:
            axpy_dense(row, spread, d, <real>(tau * weights[a]))
        else:
            axpy_sparse(row, columns, values, count, <real>(tau * weights[a]))


cdef inline double step_size(double score, double gradient_norm, double aggressiveness) noexcept nogil:
    """tau = min(C, loss / |V|^2) with loss = max(0, 1 - score); 0 where |V| = 0 (eq. 4 and 9)."""
    cdef double loss = 1.0 - score
    if loss <= 0 or gradient_norm <= 0:
        return 0.0
    return min(aggressiveness, loss / gradient_norm)


cdef inline void scatter(
    const real* values, const int32_t* columns, Py_ssize_t count, real* spread
) noexcept nogil:
    cdef Py_ssize_t j
    for j in range(count):
        spread[columns[j]] = values[j]
