"""What the kernels that take OASIS steps share: types of numbers, and p - n of two sparse rows."""

from libc.stdint cimport int32_t, int64_t, uint16_t

ctypedef fused real:
    float
    double

ctypedef fused index:
    int32_t
    int64_t

ctypedef fused column:
    uint16_t
    int32_t


cdef inline Py_ssize_t subtract(
    const real[::1] data,
    const index[::1] indices,
    const index[::1] indptr,
    Py_ssize_t positive,
    Py_ssize_t negative,
    column* columns,
    real* values,
) noexcept nogil:
    """Merge two sorted rows into the entries of p - n, without a branch; return how many."""
    cdef index p = indptr[positive], p_stop = indptr[positive + 1]
    cdef index n = indptr[negative], n_stop = indptr[negative + 1]
    cdef index of_p, of_n
    cdef int from_p, from_n
    cdef Py_ssize_t count = 0
    while p < p_stop and n < n_stop:
        of_p, of_n = indices[p], indices[n]
        from_p, from_n = of_p <= of_n, of_n <= of_p
        columns[count] = <column>(of_p if from_p else of_n)
        values[count] = from_p * data[p] - from_n * data[n]
        p += from_p
        n += from_n
        count += 1
    while p < p_stop:
        columns[count], values[count] = <column>indices[p], data[p]
        p += 1
        count += 1
    while n < n_stop:
        columns[count], values[count] = <column>indices[n], -data[n]
        n += 1
        count += 1
    return count


cdef inline double squared_norm(const real* values, Py_ssize_t count) noexcept nogil:
    cdef Py_ssize_t j
    cdef double total = 0
    for j in range(count):
        total += <double>values[j] * values[j]
    return total
