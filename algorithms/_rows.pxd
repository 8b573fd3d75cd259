"""What the learners' kernels share: types of numbers, row loops (`_rows.h`), sparse differences.

A row loop has one name for float and for double: the compiler chooses by the type of the pointers.
"""

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

# Beyond this share of entries, 1 in so many, a whole row of d numbers is read sooner than the
# entries of it are picked.
cdef enum: SPREAD = 4

cdef extern from "_rows.h" nogil:
    # sum_i q_i (W_i . v); W (d, d)
    double score_dense "score_dense_float"(
        const float* W, const float* q, const float* v, Py_ssize_t d)
    double score_dense "score_dense_double"(
        const double* W, const double* q, const double* v, Py_ssize_t d)
    # W_i += tau q_i v
    void add_dense "add_dense_float"(
        float* W, const float* q, const float* v, Py_ssize_t d, double tau)
    void add_dense "add_dense_double"(
        double* W, const double* q, const double* v, Py_ssize_t d, double tau)
    # v = p - n; returns |v|^2
    double subtract_dense "subtract_dense_float"(
        const float* p, const float* n, float* v, Py_ssize_t d)
    double subtract_dense "subtract_dense_double"(
        const double* p, const double* n, double* v, Py_ssize_t d)
    # row . v
    float dot_dense "dot_dense_float"(const float* row, const float* v, Py_ssize_t d)
    double dot_dense "dot_dense_double"(const double* row, const double* v, Py_ssize_t d)
    # row += weight v
    void axpy_dense "axpy_dense_float"(float* row, const float* v, Py_ssize_t d, float weight)
    void axpy_dense "axpy_dense_double"(double* row, const double* v, Py_ssize_t d, double weight)
    # row[columns] . values
    float dot_sparse "dot_sparse_float"(
        const float* row, const int32_t* columns, const float* values, Py_ssize_t count)
    double dot_sparse "dot_sparse_double"(
        const double* row, const int32_t* columns, const double* values, Py_ssize_t count)
    # row[columns] += weight values
    void axpy_sparse "axpy_sparse_float"(
        float* row, const int32_t* columns, const float* values, Py_ssize_t count, float weight)
    void axpy_sparse "axpy_sparse_double"(
        double* row, const int32_t* columns, const double* values, Py_ssize_t count, double weight)
    # k . (a - b)
    double dot_difference "dot_difference_float"(
        const float* k, const float* a, const float* b, Py_ssize_t n)
    double dot_difference "dot_difference_double"(
        const double* k, const double* a, const double* b, Py_ssize_t n)
    # row[q_u] += tau_u (k[p_u] - k[n_u]) for each step u
    void catch_up "catch_up_float"(
        float* row, const float* k, const int32_t* q, const int32_t* p, const int32_t* n,
        const float* tau, Py_ssize_t count)
    void catch_up "catch_up_double"(
        double* row, const double* k, const int32_t* q, const int32_t* p, const int32_t* n,
        const double* tau, Py_ssize_t count)


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
    """Return |values|^2, summed in double."""
    cdef Py_ssize_t j
    cdef double total = 0
    for j in range(count):
        total += <double>values[j] * values[j]
    return total


cdef inline void clear(real* spread, const int32_t* columns, Py_ssize_t count) noexcept nogil:
    """Set these entries of a row to zero."""
    cdef Py_ssize_t j
    for j in range(count):
        spread[columns[j]] = 0
