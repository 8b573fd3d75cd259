"""Kernel: the steps of LEGO and of ITML on a block of pairs, for a symmetric matrix A.

Each step is A += weight (Az)(Az)' with z the difference of a pair.  A small A takes each step at
once.  A large one is not given, as an A of no row: `products` has Az for the A before the block,
the steps before are added to it, and `_rank_one_blocks.py` brings A up to date afterwards.  Nothing
here is checked.  The readable twins are in `tests/oasis_twins.py` and, for ITML, in its tests.
"""

from libc.math cimport sqrt

from _rows cimport add_dense, axpy_dense, dot_dense


def learn_triplets(
    const double[:, ::1] Z,         # IN: (2 m, d) of each triplet q - p, then q - n
    double eta,                     # IN
    double upper,                   # IN: u, that same-class pairs should be below
    double lower,                   # IN: l, that different-class pairs should be above
    double[:, ::1] A,               # INOUT: (d, d), or (0, 0)
    double[:, ::1] products,        # INOUT: (2 m, d) Az for the A before the block; before the step
    double[::1] weights,            # OUT: (2 m,) of the steps, 0 where there is no loss
):
    """Take the steps of LEGO in order; return of how many triplets a pair had a loss."""
    cdef Py_ssize_t m, k, n_updates = 0
    cdef double distance, target
    with nogil:
        for m in range(Z.shape[0] // 2):
            for k in range(2 * m, 2 * m + 2):
                weights[k] = 0
                distance = advance(Z, A, products, weights, k)
                target = lower if k % 2 else upper
                if 0 < distance < target if k % 2 else distance > target:
                    weights[k] = lego_weight(distance, target, eta)
                    step(A, products, weights, k)
            n_updates += weights[2 * m] != 0 or weights[2 * m + 1] != 0
    return n_updates


def learn_triplets_by_gram(
    const Py_ssize_t[:, ::1] triplets,  # IN: (m, 3) q, p, n: numbers of rows of G = RAR'
    double eta,                     # IN
    double upper,                   # IN: u
    double lower,                   # IN: l
    const double[:, ::1] G,         # IN: (n, n) before the block, in its upper triangle
    double[:, ::1] products,        # OUT: (2 m, n) RAz for the A before the step
    double[::1] weights,            # OUT: (2 m,)
    double[:, ::1] growth,          # INOUT: (n, n) M, with 1/A = 1/A_0 + R'MR
):
    """Take the steps of LEGO on pairs of some rows R, of which only G and M are known."""
    cdef Py_ssize_t i, k, left, right, n = G.shape[0], n_updates = 0
    cdef double distance, target, change
    with nogil:
        for k in range(products.shape[0]):
            left, right = triplets[k // 2, 0], triplets[k // 2, 1 + k % 2]
            for i in range(n):
                products[k, i] = G[min(i, left), max(i, left)] - G[min(i, right), max(i, right)]
            for i in range(k):
                if weights[i] != 0:
                    change = weights[i] * (products[i, left] - products[i, right])
                    axpy_dense(&products[k, 0], &products[i, 0], n, change)
            weights[k] = 0
            distance = products[k, left] - products[k, right]
            target = lower if k % 2 else upper
            if 0 < distance < target if k % 2 else distance > target:
                weights[k] = lego_weight(distance, target, eta)
                change = -weights[k] / (1 + weights[k] * distance)  # of 1/A, along zz'
                growth[left, left] += change
                growth[right, right] += change
                growth[left, right] -= change
                growth[right, left] -= change
            if k % 2:
                n_updates += weights[k - 1] != 0 or weights[k] != 0
    return n_updates


def project_pairs(
    const double[:, ::1] Z,         # IN: (m, d) the differences of the pairs
    const double[::1] signs,        # IN: (m,) delta: 1 for pairs of the same class, -1 for others
    const double[::1] gammas,       # IN: (m,) the weight of each pair's slack
    double upper,                   # IN: u, the bound of same-class pairs
    double lower,                   # IN: l, the bound of different-class pairs
    double[::1] multipliers,        # INOUT: (m,) lambda, never negative
    double[:, ::1] A,               # INOUT: (d, d), or (0, 0)
    double[:, ::1] products,        # INOUT: (m, d) Az for the A before the block; before the step
    double[::1] weights,            # OUT: (m,) of the steps
):
    """Project A on the constraint of each pair in turn (Davis et al. 2007, algorithm 1)."""
    cdef Py_ssize_t k
    cdef double distance, gamma, alpha, slacked
    with nogil:
        for k in range(Z.shape[0]):
            distance = advance(Z, A, products, weights, k)
            gamma = gammas[k]
            # 1 / xi, the bound with its slack
            slacked = 1 / (upper if signs[k] > 0 else lower) - signs[k] * multipliers[k] / gamma
            alpha = signs[k] * gamma / (gamma + 1) * (1 / distance - slacked)
            alpha = signs[k] * min(multipliers[k], alpha)
            multipliers[k] -= signs[k] * alpha
            weights[k] = alpha / (1 - alpha * distance)
            step(A, products, weights, k)


cdef inline double advance(
    const double[:, ::1] Z,
    const double[:, ::1] A,
    double[:, ::1] products,
    const double[::1] weights,
    Py_ssize_t k,
) noexcept nogil:
    """Make products[k] Az for the A after the steps before k; return z'Az."""
    cdef Py_ssize_t i, d = Z.shape[1]
    cdef const double* z = &Z[k, 0]
    cdef double* Az = &products[k, 0]
    for i in range(A.shape[0]):
        Az[i] = dot_dense(&A[i, 0], z, d)
    for i in range(0 if A.shape[0] else k):
        if weights[i] != 0:
            axpy_dense(Az, &products[i, 0], d, weights[i] * dot_dense(&products[i, 0], z, d))
    return dot_dense(z, Az, d)


cdef inline void step(
    double[:, ::1] A, const double[:, ::1] products, const double[::1] weights, Py_ssize_t k
) noexcept nogil:
    """A += weight (Az)(Az)', if A is given."""
    if A.shape[0] and weights[k] != 0:
        add_dense(&A[0, 0], &products[k, 0], &products[k, 0], A.shape[0], weights[k])


cdef inline double lego_weight(double distance, double target, double eta) noexcept nogil:
    """(ybar / yhat - 1) / yhat, with ybar the distance after the step: see `move` of the twin."""
    cdef double a = eta * target * distance - 1
    cdef double root = sqrt(a * a + 4 * eta * distance * distance)
    cdef double ratio  # ybar / yhat
    if a < 0:  # the two forms are equal: each is taken where it cancels nothing
        ratio = 2 / (root - a)
    else:
        ratio = (a + root) / (2 * eta * distance * distance)
    return (ratio - 1) / distance
