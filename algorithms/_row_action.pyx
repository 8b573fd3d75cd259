"""Kernel: the dual row action of local distance functions (Frome et al. 2007, section 4).

A pair is an exemplar j and a reference i, with the distances d_ji.  A negative pair goes with a run
of positive pairs, one triplet each.  The product w_j'd_ji of a pair is kept with the number of
changes of w_j that it has seen: a triplet whose products are up to date and whose alpha does not
change costs no pass over the distances.  Nothing here is checked: `_dual_ascent.py` does that.  The
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

cdef struct Ascent:
    double C
    const Py_ssize_t* negatives     # (n_negatives,) the pair of each
    const Py_ssize_t* first         # (n_negatives,) its positives: from here
    const Py_ssize_t* last          # (n_negatives,) to before here
    const Py_ssize_t* first_alpha   # (n_negatives,) where its alphas begin
    const Py_ssize_t* positives     # the pairs of positives
    const Py_ssize_t* addresses     # (n_pairs,) where the distances of a pair lie
    const Py_ssize_t* exemplars     # (n_pairs,)
    const Py_ssize_t* starts        # (n_exemplars + 1,) where the weights of each begin
    const Py_ssize_t* pair_bounds   # (n_groups + 1,) the pairs of each, no exemplar twice
    const Py_ssize_t* bounds        # (n_groups + 1,) the negatives of each
    const double* squares           # (n_pairs,) |d|^2
    double* alphas                  # (n_triplets,)
    double* U                       # sum alpha X
    double* products                # (n_pairs,) [u]_+'d
    double* curvatures              # (n_pairs,) as the others below of no use after a visit
    double* moves                   # (n_pairs,)
    double* growths                 # (n_pairs,)
    double* alphas_before           # (triplets of the largest group,)


cdef const Py_ssize_t* _whole(const Py_ssize_t[::1] numbers):
    return &numbers[0] if numbers.shape[0] else NULL


cdef double* _changing(double[::1] numbers):
    return &numbers[0] if numbers.shape[0] else NULL


cdef int _point_at(object ascent, Ascent* a) except -1:
    """Let `a` point at the arrays of a `DualAscent` and its constraints, which must outlive it."""
    c = ascent.constraints
    a.C = ascent.C
    a.negatives, a.first, a.last = _whole(c.negatives), _whole(c.first), _whole(c.last)
    a.first_alpha, a.positives = _whole(c.first_alpha), _whole(c.positives)
    a.addresses, a.exemplars = _whole(c.addresses), _whole(c.exemplars)
    a.starts, a.pair_bounds, a.bounds = _whole(c.starts), _whole(c.pair_bounds), _whole(c.bounds)
    a.squares, a.alphas, a.U = _changing(c.squares), _changing(ascent.alphas), _changing(ascent.U)
    a.products, a.curvatures = _changing(ascent.products), _changing(ascent.curvatures)
    a.moves, a.growths = _changing(ascent.moves), _changing(ascent.growths)
    a.alphas_before = _changing(ascent.alphas_before)
    return 0


def take_row_actions(
    const real[::1] number,             # IN: of the type of the distances: it says which
    ascent,                             # INOUT: a DualAscent
    const Py_ssize_t[::1] order,        # IN: the negatives to visit
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
    cdef Ascent at
    cdef const Ascent* a = &at
    _point_at(ascent, &at)
    with nogil:
        for place in range(order.shape[0]):
            n = order[place]
            k = a.negatives[n]
            of_k = a.exemplars[k]
            u_k, d_k = &a.U[a.starts[of_k]], <const real*><intptr_t>a.addresses[k]
            width_k = a.starts[of_k + 1] - a.starts[of_k]
            for q in range(a.first[n], a.last[n]):
                j, t = a.positives[q], a.first_alpha[n] + q - a.first[n]
                of_j = a.exemplars[j]
                u_j, d_j = &a.U[a.starts[of_j]], <const real*><intptr_t>a.addresses[j]
                width_j = a.starts[of_j + 1] - a.starts[of_j]
                if seen[k] != changes[of_k]:
                    a.products[k], seen[k] = weigh(u_k, d_k, width_k), changes[of_k]
                if seen[j] != changes[of_j]:
                    a.products[j], seen[j] = weigh(u_j, d_j, width_j), changes[of_j]
                gain = 1 - (a.products[k] - a.products[j])  # of the dual, a unit of alpha
                alpha = a.alphas[t]
                if gain > 0:
                    loss += gain
                if alpha == (a.C if gain > 0 else 0) or gain == 0:
                    continue
                curvature = a.squares[k] + a.squares[j] if of_j != of_k else apart(d_k, d_j, width_k)
                step = gain / curvature if curvature > 0 else a.C
                step = max(0., min(a.C, alpha + step)) - alpha
                a.alphas[t] = alpha + step
                if step == 0 or curvature <= 0:
                    continue
                a.products[k] = move(u_k, d_k, width_k, step)
                changes[of_k] += 1
                seen[k] = changes[of_k]
                a.products[j] = move(u_j, d_j, width_j, -step)
                changes[of_j] += 1
                seen[j] = changes[of_j]
                if of_j == of_k:  # the second move has changed the first product too
                    seen[k] = -1
    return loss


def visit_groups(
    const real[::1] number,             # IN: as above, like all that is not said here
    ascent,
    const Py_ssize_t[::1] order,        # IN: the groups to visit
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
    cdef Ascent a
    _point_at(ascent, &a)
    with nogil:
        _visit(number, &a, order, &share[0], &arrivals[0], thread, n_threads)


cdef void _visit(
    const real[::1] number, const Ascent* a, const Py_ssize_t[::1] order,
    double* share, long long* arrivals, Py_ssize_t thread, Py_ssize_t n_threads,
) noexcept nogil:
    cdef Py_ssize_t place, g, n, q, j, k, p, t, of_p, begin, start, stop
    cdef double gain, curvature, step, gained
    cdef long long meetings = 0
    gained = begin = 0
    for place in range(order.shape[0]):
        g = order[place]
        if a.bounds[g] == a.bounds[g + 1]:
            continue
        start, stop = a.pair_bounds[g], a.pair_bounds[g + 1]
        start, stop = (
            start + thread * (stop - start) // n_threads,
            start + (thread + 1) * (stop - start) // n_threads,
        )
        for p in range(start, stop):
            of_p = a.exemplars[p]
            a.products[p] = weigh_and_bend(
                &a.U[a.starts[of_p]], <const real*><intptr_t>a.addresses[p],
                a.starts[of_p + 1] - a.starts[of_p], &a.curvatures[p],
            )
            a.curvatures[p] = max(a.curvatures[p], LEAST_CURVATURE * a.squares[p])
            a.moves[p] = a.growths[p] = 0
        meet(arrivals, n_threads, &meetings)
        if thread == 0:
            gained = 0
            begin = a.first_alpha[a.bounds[g]]
            for n in range(a.bounds[g], a.bounds[g + 1]):
                k = a.negatives[n]
                for q in range(a.first[n], a.last[n]):
                    j, t = a.positives[q], a.first_alpha[n] + q - a.first[n]
                    a.alphas_before[t - begin] = a.alphas[t]
                    gain = 1 - (a.products[k] - a.products[j])
                    if a.alphas[t] == (a.C if gain > 0 else 0) or gain == 0:
                        continue
                    curvature = a.curvatures[k] + a.curvatures[j] if j != k else 0
                    step = gain / curvature if curvature > 0 else a.C
                    step = max(0., min(a.C, a.alphas[t] + step)) - a.alphas[t]
                    a.alphas[t] += step
                    gained += step
                    if j != k:
                        a.products[k] += step * a.curvatures[k]
                        a.products[j] -= step * a.curvatures[j]
                        a.moves[k] += step
                        a.moves[j] -= step
            share[0] = 1
        meet(arrivals, n_threads, &meetings)
        while share[0] != 0:
            for p in range(start, stop):
                if a.moves[p] != 0:
                    of_p = a.exemplars[p]
                    a.growths[p] = move_and_weigh(
                        &a.U[a.starts[of_p]], <const real*><intptr_t>a.addresses[p],
                        a.starts[of_p + 1] - a.starts[of_p], share[0] * a.moves[p],
                    )
            meet(arrivals, n_threads, &meetings)
            if thread == 0:
                for p in range(a.pair_bounds[g], a.pair_bounds[g + 1]):
                    gained -= a.growths[p]
                if gained >= 0 or fabs(share[0]) < LEAST_SHARE:
                    share[0] = 0
                else:
                    for n in range(a.bounds[g], a.bounds[g + 1]):
                        for t in range(a.first_alpha[n], a.first_alpha[n] + a.last[n] - a.first[n]):
                            step = (a.alphas_before[t - begin] - a.alphas[t]) / 2
                            a.alphas[t] += step
                            gained += step
                    share[0] = -fabs(share[0]) / 2
            meet(arrivals, n_threads, &meetings)


def sum_triplets(
    ascent,                             # IN: a DualAscent, as all below
    const double[::1] alphas,           # IN
    double[::1] sums,                   # INOUT: (n_pairs,) of the alphas of each pair, with a sign
):
    """Add the alphas of each negative, and take away those of each positive."""
    cdef Py_ssize_t n, q, n_negatives = len(ascent.constraints.negatives)
    cdef double alpha
    cdef Ascent a
    _point_at(ascent, &a)
    with nogil:
        for n in range(n_negatives):
            for q in range(a.first[n], a.last[n]):
                alpha = alphas[a.first_alpha[n] + q - a.first[n]]
                sums[a.negatives[n]] += alpha
                sums[a.positives[q]] -= alpha


def add_pairs(
    const real[::1] number,
    ascent,
    const Py_ssize_t[::1] pairs,        # IN: of exemplars that no other thread has
    const double[::1] sums,             # IN: (n_pairs,)
    double[::1] U,                      # INOUT
):
    """Add to U the distances of some pairs, each times its sum."""
    cdef Py_ssize_t place, p, of_p
    cdef Ascent a
    _point_at(ascent, &a)
    with nogil:
        for place in range(pairs.shape[0]):
            p = pairs[place]
            of_p = a.exemplars[p]
            if sums[p] != 0:
                move(
                    &U[a.starts[of_p]], <const real*><intptr_t>a.addresses[p],
                    a.starts[of_p + 1] - a.starts[of_p], sums[p],
                )


def weigh_pairs(
    const real[::1] number,
    ascent,                             # OUT: its products [u]_+'d of these pairs
    const Py_ssize_t[::1] pairs,        # IN
    const double[::1] U,
):
    """Write the products of some pairs."""
    cdef Py_ssize_t place, p, of_p
    cdef Ascent a
    _point_at(ascent, &a)
    with nogil:
        for place in range(pairs.shape[0]):
            p = pairs[place]
            of_p = a.exemplars[p]
            a.products[p] = weigh(
                &U[a.starts[of_p]], <const real*><intptr_t>a.addresses[p],
                a.starts[of_p + 1] - a.starts[of_p],
            )


def sum_losses(ascent, Py_ssize_t start, Py_ssize_t stop):
    """Return the sum over the triplets of some negatives of [1 - W'X]_+, from the products."""
    cdef Py_ssize_t n, q
    cdef double loss = 0
    cdef Ascent a
    _point_at(ascent, &a)
    with nogil:
        for n in range(start, stop):
            for q in range(a.first[n], a.last[n]):
                loss += max(0., 1 - a.products[a.negatives[n]] + a.products[a.positives[q]])
    return loss
