"""Kernel: OASIS steps over given triplets, dense rows and CSR rows (JMLR 2010, eq. 3-9).

Each step reads q'W(p - n) and, where the loss is positive, adds tau q(p - n)' to W.  Nothing here
is checked: the face `oasis.py` does that.  The readable twin is `_oasis_reference.py`.
"""

from libc.stdint cimport int32_t, int64_t

ctypedef fused real:
    float
    double

ctypedef fused index:
    int32_t
    int64_t


def step_dense(
    const real[:, ::1] X,               # IN: (n, d)
    const Py_ssize_t[:, ::1] triplets,  # IN: (m, 3) query, positive, negative
    double aggressiveness,              # IN: C
    real[:, ::1] W,                     # INOUT: (d, d)
    real[::1] difference,               # work space: (d,)
):
    """Apply the triplets in order; return how many of them changed W."""
    cdef Py_ssize_t m, i, j, query, positive, negative
    cdef Py_ssize_t d = X.shape[1], n_updates = 0
    cdef double score, query_norm, difference_norm, tau
    cdef real weight, row_score
    with nogil:
        for m in range(triplets.shape[0]):
            query, positive, negative = triplets[m, 0], triplets[m, 1], triplets[m, 2]
            difference_norm = 0.0
            for j in range(d):
                difference[j] = X[positive, j] - X[negative, j]
                difference_norm += <double>difference[j] * difference[j]
            score = query_norm = 0.0
            for i in range(d):
                weight = X[query, i]
                if weight != 0:
                    row_score = 0
                    for j in range(d):
                        row_score += W[i, j] * difference[j]
                    score += <double>weight * row_score
                    query_norm += <double>weight * weight
            tau = step_size(score, query_norm * difference_norm, aggressiveness)
            if tau > 0:
                n_updates += 1
                for i in range(d):
                    weight = <real>(tau * X[query, i])
                    if weight != 0:
                        for j in range(d):
                            W[i, j] += weight * difference[j]
    return n_updates


def step_csr(
    const real[::1] data,               # IN: CSR of (n, d), sorted and without duplicates
    const index[::1] indices,           # IN
    const index[::1] indptr,            # IN
    const Py_ssize_t[:, ::1] triplets,  # IN: (m, 3) query, positive, negative
    double aggressiveness,              # IN: C
    real[:, ::1] W,                     # INOUT: (d, d)
    real[::1] values,                   # work space: (d,) the entries of p - n ...
    Py_ssize_t[::1] columns,            # work space: (d,) ... and where they stand
):
    """Apply the triplets in order at a cost that does not grow with d; return the updates."""
    cdef Py_ssize_t m, a, i, j, count, n_updates = 0
    cdef index start, stop
    cdef double score, query_norm, difference_norm, tau
    cdef real weight, row_score
    with nogil:
        for m in range(triplets.shape[0]):
            count = subtract_csr(
                data, indices, indptr, triplets[m, 1], triplets[m, 2], values, columns
            )
            difference_norm = 0.0
            for j in range(count):
                difference_norm += <double>values[j] * values[j]
            start, stop = indptr[triplets[m, 0]], indptr[triplets[m, 0] + 1]
            score = query_norm = 0.0
            for a in range(start, stop):
                i = indices[a]
                row_score = 0
                for j in range(count):
                    row_score += W[i, columns[j]] * values[j]
                score += <double>data[a] * row_score
                query_norm += <double>data[a] * data[a]
            tau = step_size(score, query_norm * difference_norm, aggressiveness)
            if tau > 0:
                n_updates += 1
                for a in range(start, stop):
                    i = indices[a]
                    weight = <real>(tau * data[a])
                    for j in range(count):
                        W[i, columns[j]] += weight * values[j]
    return n_updates


cdef inline double step_size(double score, double gradient_norm, double aggressiveness) noexcept nogil:
    """tau = min(C, loss / |V|^2) with loss = max(0, 1 - score); 0 where |V| = 0 (eq. 4 and 9)."""
    cdef double loss = 1.0 - score
    if loss <= 0 or gradient_norm <= 0:
        return 0.0
    return min(aggressiveness, loss / gradient_norm)


cdef inline Py_ssize_t subtract_csr(
    const real[::1] data,
    const index[::1] indices,
    const index[::1] indptr,
    Py_ssize_t positive,
    Py_ssize_t negative,
    real[::1] values,
    Py_ssize_t[::1] columns,
) noexcept nogil:
    """Merge two sorted rows into the entries of p - n; return how many there are."""
    cdef index p = indptr[positive], p_stop = indptr[positive + 1]
    cdef index n = indptr[negative], n_stop = indptr[negative + 1]
    cdef Py_ssize_t count = 0
    while p < p_stop or n < n_stop:
        if n == n_stop or (p < p_stop and indices[p] < indices[n]):
            columns[count], values[count] = indices[p], data[p]
            p += 1
        elif p == p_stop or indices[n] < indices[p]:
            columns[count], values[count] = indices[n], -data[n]
            n += 1
        else:
            columns[count], values[count] = indices[p], data[p] - data[n]
            p += 1
            n += 1
        count += 1
    return count
