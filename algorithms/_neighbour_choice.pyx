"""Kernel: the probabilities p(j|i) by which rows choose neighbours, from blocks of scores.

p(j|i) is exp(-d(i, j)) over the sum of those of all other rows: Goldberger, Roweis, Hinton &
Salakhutdinov 2004, equation 1; Globerson & Roweis 2005, equation 1.  Nothing here is checked:
`_chosen_neighbours.py` does that.  The readable twins are in the tests.
"""

from libc.math cimport INFINITY, log
from libc.stdint cimport int64_t

ctypedef fused real:
    float
    double

cdef extern from "_neighbour_choice.h" nogil:
    float largest "largest_float"(const float*, Py_ssize_t)
    double largest "largest_double"(const double*, Py_ssize_t)
    float exponentiate "exponentiate_float"(float*, Py_ssize_t, float)
    double exponentiate "exponentiate_double"(double*, Py_ssize_t, double)
    float sum_of "sum_of_float"(const float*, Py_ssize_t)
    double sum_of "sum_of_double"(const double*, Py_ssize_t)
    void scale_and_add "scale_and_add_float"(float*, double*, Py_ssize_t, float)
    void scale_and_add "scale_and_add_double"(double*, double*, Py_ssize_t, double)


def choose_neighbours(
    real[:, ::1] scores,    # INOUT: (b, n) minus the distances, up to a number for each row;
                            # then the probabilities
    Py_ssize_t first,       # IN: the column of the first row's own score, which is left out
    double[::1] totals,     # INOUT: (n,) sums over rows, added to
):
    """Turn each row of scores into probabilities; return the sum over rows of log sum exp."""
    cdef Py_ssize_t i, n = scores.shape[1]
    cdef real most, total
    cdef double log_sums = 0
    cdef real* row
    with nogil:
        for i in range(scores.shape[0]):
            row = &scores[i, 0]
            row[first + i] = -INFINITY
            most = largest(row, n)
            total = exponentiate(row, n, most)
            log_sums += most + log(total)
            row[first + i] = 0
            scale_and_add(row, &totals[0], n, 1 / total)
    return log_sums


def choose_own_class(
    real[:, ::1] scores,         # INOUT: (b, n) as above, columns sorted by class; then the weights
                                 # p(j|i) (1 where j is of the class of i, else 0, less p_i)
    Py_ssize_t first,            # IN: the column of the first row's own score
    double[::1] totals,          # INOUT: (n,) sums of weights over rows, added to
    const int64_t[::1] starts,   # IN: (n,) where the class of each row begins ...
    const int64_t[::1] stops,    # IN: (n,) ... and ends
):
    """Weigh the neighbours by NCA's gradient; return the sum of p_i, that i chooses its class."""
    cdef Py_ssize_t i, start, stop, n = scores.shape[1]
    cdef real total, own
    cdef double sum_of_own = 0
    cdef real* row
    with nogil:
        for i in range(scores.shape[0]):
            row = &scores[i, 0]
            row[first + i] = -INFINITY
            total = exponentiate(row, n, largest(row, n))
            row[first + i] = 0
            start, stop = starts[first + i], stops[first + i]
            own = sum_of(row + start, stop - start) / total
            sum_of_own += own
            scale_and_add(row, &totals[0], start, -own / total)
            scale_and_add(row + start, &totals[0] + start, stop - start, (1 - own) / total)
            scale_and_add(row + stop, &totals[0] + stop, n - stop, -own / total)
    return sum_of_own
