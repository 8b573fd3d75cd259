"""Kernel: the probabilities p(j|i) of MCML from blocks of scores (Globerson & Roweis 2005, eq. 1).

Nothing here is checked: `_objective.py` does that.  The readable twin is in the tests.
"""

from libc.math cimport INFINITY, log

cdef extern from "_mcml.h" nogil:
    double largest(const double*, Py_ssize_t, double)
    double exponentiate(double*, Py_ssize_t, double)
    void scale_and_add(double*, double*, Py_ssize_t, double)


def choose_neighbours(
    double[:, ::1] scores,  # INOUT: (b, n) minus the distances, up to a number for each row;
                            # then the probabilities
    Py_ssize_t first,       # IN: the column of the first row's own score, which is left out
    double[::1] totals,     # INOUT: (n,) sums over rows, added to
):
    """Turn each row of scores into probabilities; return the sum over rows of log sum exp."""
    cdef Py_ssize_t i, n = scores.shape[1]
    cdef double most, total, log_sums = 0
    cdef double* row
    with nogil:
        for i in range(scores.shape[0]):
            row = &scores[i, 0]
            row[first + i] = -INFINITY
            most = largest(row, n, -INFINITY)
            total = exponentiate(row, n, most)
            log_sums += most + log(total)
            row[first + i] = 0
            scale_and_add(row, &totals[0], n, 1 / total)
    return log_sums
