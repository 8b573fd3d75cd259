"""Kernel: the dual row action of local distance functions (Frome et al. 2007, section 4).

A pair is an exemplar j and a reference i, with the distances d_ji.  A negative pair goes with a run
of positive pairs, one triplet each.  The product w_j'd_ji of a pair is kept with the number of
changes of w_j that it has seen: a triplet whose products are up to date and whose alpha does not
change costs no pass over the distances.  Nothing here is checked: `_constraints.py` does that.  The
readable twin is in the tests.
"""

from libc.math cimport fabs
from libc.stdint cimport intptr_t

from _rows cimport real

cdef extern from "_row_action.h" nogil:
    double weigh "weigh_float"(const double* u, const float* d, Py_ssize_t n)
    double weigh "weigh_double"(const double* u, const double* d, Py_ssize_t n)
    double move "move_float"(double* u, const float* d, Py_ssize_t n, double step)
    double move "move_double"(double* u, const double* d, Py_ssize_t n, double step)
    double weigh_and_bend "weigh_and_bend_float"(
        const double* u, const float* d, Py_ssize_t n, double* curvature)
    double weigh_and_bend "weigh_and_bend_double"(
        const double* u, const double* d, Py_ssize_t n, double* curvature)
    double move_and_weigh "move_and_weigh_float"(
        double* u, const float* d, Py_ssize_t n, double step)
    double move_and_weigh "move_and_weigh_double"(
        double* u, const double* d, Py_ssize_t n, double step)
    double apart "apart_float"(const float* a, const float* b, Py_ssize_t n)
    double apart "apart_double"(const double* a, const double* b, Py_ssize_t n)
    void meet(long long* arrivals, long long n_threads, long long* meetings)
    const int _CAN_MEET "CAN_MEET"

CAN_MEET = bool(_CAN_MEET)  # whether several threads may visit groups together

cdef double LEAST_CURVATURE = 0.01  # of |d|^2, where nearly all weights are 0
cdef double LEAST_SHARE = 1e-12     # of a move that is not taken back

def take_row_actions(
    const real[::1] number,             # IN: of the type of the distances: it says which
    const Py_ssize_t[::1] order,        # IN: the negatives to visit, numbers below
    const Py_ssize_t[::1] negatives,    # IN: (n_negatives,) the pair of each
    const Py_ssize_t[::1] first,        # IN: (n_negatives,) its positives: from here
    const Py_ssize_t[::1] last,         # IN: (n_negatives,) to before here
    const Py_ssize_t[::1] first_alpha,  # IN: (n_negatives,) where its alphas begin
    const Py_ssize_t[::1] positives,    # IN: the pairs of positives
    const Py_ssize_t[::1] addresses,    # IN: (n_pairs,) where the distances of a pair lie
    const Py_ssize_t[::1] exemplars,    # IN: (n_pairs,)
    const double[::1] squares,          # IN: (n_pairs,) |d|^2
    const Py_ssize_t[::1] starts,       # IN: (n_exemplars + 1,) where the weights of each begin
    double C,                           # IN
    double[::1] alphas,                 # INOUT: (n_triplets,)
    double[::1] U,                      # INOUT: sum alpha X
    double[::1] products,               # INOUT: (n_pairs,) [u]_+'d
    Py_ssize_t[::1] seen,               # INOUT: (n_pairs,) changes of the exemplar that it has seen
    Py_ssize_t[::1] changes,            # INOUT: (n_exemplars,) changes of u, from 0
):
    """Take the row action of each triplet in turn; return the sum of the losses before them."""
    cdef Py_ssize_t place, t, n, q, j, k, of_j, of_k, width_j, width_k
    cdef double alpha, gain, curvature, step, loss = 0
    cdef double* u_j
    cdef double* u_k
    cdef const real* d_j
    cdef const real* d_k
    with nogil:
        for place in range(order.shape[0]):
            n = order[place]
            k = negatives[n]
            of_k = exemplars[k]
            u_k, d_k = &U[starts[of_k]], <const real*><intptr_t>addresses[k]
            width_k = starts[of_k + 1] - starts[of_k]
            for q in range(first[n], last[n]):
                j, t = positives[q], first_alpha[n] + q - first[n]
                of_j = exemplars[j]
                u_j, d_j = &U[starts[of_j]], <const real*><intptr_t>addresses[j]
                width_j = starts[of_j + 1] - starts[of_j]
                if seen[k] != changes[of_k]:
                    products[k], seen[k] = weigh(u_k, d_k, width_k), changes[of_k]
                if seen[j] != changes[of_j]:
                    products[j], seen[j] = weigh(u_j, d_j, width_j), changes[of_j]
                gain = 1 - (products[k] - products[j])  # of the dual, a unit of alpha
                alpha = alphas[t]
                if gain > 0:
                    loss += gain
                if alpha == (C if gain > 0 else 0) or gain == 0:
                    continue
                curvature = squares[k] + squares[j] if of_j != of_k else apart(d_k, d_j, width_k)
                step = gain / curvature if curvature > 0 else C
                step = max(0., min(C, alpha + step)) - alpha
                alphas[t] = alpha + step
                if step == 0 or curvature <= 0:
                    continue
                products[k] = move(u_k, d_k, width_k, step)
                changes[of_k] += 1
                seen[k] = changes[of_k]
                products[j] = move(u_j, d_j, width_j, -step)
                changes[of_j] += 1
                seen[j] = changes[of_j]
                if of_j == of_k:  # the second move has changed the first product too
                    seen[k] = -1
    return loss


def visit_groups(
    const real[::1] number,             # IN: as above, like all that is not said here
    const Py_ssize_t[::1] order,        # IN: the groups to visit
    const Py_ssize_t[::1] pair_bounds,  # IN: (n_groups + 1,) the pairs of each, no exemplar twice
    const Py_ssize_t[::1] bounds,       # IN: (n_groups + 1,) the negatives of each
    const Py_ssize_t[::1] negatives,
    const Py_ssize_t[::1] first,
    const Py_ssize_t[::1] last,
    const Py_ssize_t[::1] first_alpha,
    const Py_ssize_t[::1] positives,
    const Py_ssize_t[::1] addresses,
    const Py_ssize_t[::1] exemplars,
    const double[::1] squares,
    const Py_ssize_t[::1] starts,
    double C,
    double[::1] alphas,
    double[::1] U,
    double[::1] products,               # OUT: (n_pairs,) of no use afterwards
    double[::1] curvatures,             # OUT: likewise
    double[::1] moves,                  # OUT: likewise
    double[::1] growths,                # OUT: likewise
    double[::1] alphas_before,          # OUT: (triplets of the largest group,) likewise
    double[::1] share,                  # INOUT: (1,) of the threads: of the moves, 0: all is done
    long long[::1] arrivals,            # INOUT: (1,) of the threads: 0
    Py_ssize_t thread,                  # IN: 0 to n_threads - 1
    Py_ssize_t n_threads,               # IN: all of them call this at the same time
):
    """Take the row actions of a group on a model of its products, then move the weights.

    In the model a product changes by step |d|^2, over the weights above 0 alone, as it does where
    no weight comes to 0 or leaves it: a triplet costs no pass over the distances.  Where the dual
    would fall, half of the way is taken back.

    Threads share the pairs of a group, and the first one does the rest while others wait: the
    result is the same for any number of them.
    """
    cdef Py_ssize_t place, g, n, q, j, k, p, t, of_p, begin, start, stop
    cdef double gain, curvature, step, gained
    cdef long long meetings = 0
    gained = begin = 0
    with nogil:
        for place in range(order.shape[0]):
            g = order[place]
            if bounds[g] == bounds[g + 1]:
                continue
            start, stop = pair_bounds[g], pair_bounds[g + 1]
            start, stop = (
                start + thread * (stop - start) // n_threads,
                start + (thread + 1) * (stop - start) // n_threads,
            )
            for p in range(start, stop):
                of_p = exemplars[p]
                products[p] = weigh_and_bend(
                    &U[starts[of_p]], <const real*><intptr_t>addresses[p],
                    starts[of_p + 1] - starts[of_p], &curvatures[p],
                )
                curvatures[p] = max(curvatures[p], LEAST_CURVATURE * squares[p])
                moves[p] = growths[p] = 0
            meet(&arrivals[0], n_threads, &meetings)
            if thread == 0:
                gained = 0
                begin = first_alpha[bounds[g]]
                for n in range(bounds[g], bounds[g + 1]):
                    k = negatives[n]
                    for q in range(first[n], last[n]):
                        j, t = positives[q], first_alpha[n] + q - first[n]
                        alphas_before[t - begin] = alphas[t]
                        gain = 1 - (products[k] - products[j])
                        if alphas[t] == (C if gain > 0 else 0) or gain == 0:
                            continue
                        curvature = curvatures[k] + curvatures[j] if j != k else 0
                        step = gain / curvature if curvature > 0 else C
                        step = max(0., min(C, alphas[t] + step)) - alphas[t]
                        alphas[t] += step
                        gained += step
                        if j != k:
                            products[k] += step * curvatures[k]
                            products[j] -= step * curvatures[j]
                            moves[k] += step
                            moves[j] -= step
                share[0] = 1
            meet(&arrivals[0], n_threads, &meetings)
            while share[0] != 0:
                for p in range(start, stop):
                    if moves[p] != 0:
                        of_p = exemplars[p]
                        growths[p] = move_and_weigh(
                            &U[starts[of_p]], <const real*><intptr_t>addresses[p],
                            starts[of_p + 1] - starts[of_p], share[0] * moves[p],
                        )
                meet(&arrivals[0], n_threads, &meetings)
                if thread == 0:
                    for p in range(pair_bounds[g], pair_bounds[g + 1]):
                        gained -= growths[p]
                    if gained >= 0 or fabs(share[0]) < LEAST_SHARE:
                        share[0] = 0
                    else:
                        for n in range(bounds[g], bounds[g + 1]):
                            for t in range(first_alpha[n], first_alpha[n] + last[n] - first[n]):
                                step = (alphas_before[t - begin] - alphas[t]) / 2
                                alphas[t] += step
                                gained += step
                        share[0] = -fabs(share[0]) / 2
                meet(&arrivals[0], n_threads, &meetings)


def sum_triplets(
    const Py_ssize_t[::1] negatives,
    const Py_ssize_t[::1] first,
    const Py_ssize_t[::1] last,
    const Py_ssize_t[::1] first_alpha,
    const Py_ssize_t[::1] positives,
    const double[::1] alphas,           # IN
    double[::1] sums,                   # INOUT: (n_pairs,) of the alphas of each pair, with a sign
):
    """Add the alphas of each negative, and take away those of each positive."""
    cdef Py_ssize_t n, q
    cdef double alpha
    with nogil:
        for n in range(negatives.shape[0]):
            for q in range(first[n], last[n]):
                alpha = alphas[first_alpha[n] + q - first[n]]
                sums[negatives[n]] += alpha
                sums[positives[q]] -= alpha


def add_pairs(
    const real[::1] number,
    const Py_ssize_t[::1] pairs,        # IN: of exemplars that no other thread has
    const double[::1] sums,             # IN: (n_pairs,)
    const Py_ssize_t[::1] addresses,
    const Py_ssize_t[::1] exemplars,
    const Py_ssize_t[::1] starts,
    double[::1] U,                      # INOUT
):
    """Add to U the distances of some pairs, each times its sum."""
    cdef Py_ssize_t place, p, of_p
    with nogil:
        for place in range(pairs.shape[0]):
            p = pairs[place]
            of_p = exemplars[p]
            if sums[p] != 0:
                move(
                    &U[starts[of_p]], <const real*><intptr_t>addresses[p],
                    starts[of_p + 1] - starts[of_p], sums[p],
                )


def weigh_pairs(
    const real[::1] number,
    const Py_ssize_t[::1] pairs,        # IN
    const Py_ssize_t[::1] addresses,
    const Py_ssize_t[::1] exemplars,
    const Py_ssize_t[::1] starts,
    const double[::1] U,
    double[::1] products,               # OUT: [u]_+'d of these pairs
):
    """Write the products of some pairs."""
    cdef Py_ssize_t place, p, of_p
    with nogil:
        for place in range(pairs.shape[0]):
            p = pairs[place]
            of_p = exemplars[p]
            products[p] = weigh(
                &U[starts[of_p]], <const real*><intptr_t>addresses[p],
                starts[of_p + 1] - starts[of_p],
            )


def sum_losses(
    const Py_ssize_t[::1] negatives,
    const Py_ssize_t[::1] first,
    const Py_ssize_t[::1] last,
    const Py_ssize_t[::1] positives,
    const double[::1] products,         # IN: up to date
):
    """Return the sum over all triplets of [1 - W'X]_+."""
    cdef Py_ssize_t n, q
    cdef double loss = 0
    with nogil:
        for n in range(negatives.shape[0]):
            for q in range(first[n], last[n]):
                loss += max(0., 1 - products[negatives[n]] + products[positives[q]])
    return loss
