"""Kernel: LMNN's hinge losses over a working set of pairs, and the search for that set.

A pair is two rows of different classes, met by the triplets of both.  Nothing here is checked:
`lmnn.py` does that.  The readable twin is in the tests.
"""

from libc.stdint cimport int32_t

cdef extern from "_lmnn.h" nogil:
    double squared_distance(const double*, const double*, Py_ssize_t)
    void add_difference(double*, double*, const double*, const double*, double, Py_ssize_t)
    Py_ssize_t pairs_of_row(
        const float* products, float left, float left_reach, const float* right,
        const float* right_reach, Py_ssize_t n, int32_t a, int32_t first, int32_t (*pairs)[2],
        Py_ssize_t room)


def target_distances(
    const double[:, ::1] Z,         # IN: (n, r) rows as the metric sees them
    const int32_t[:, ::1] targets,  # IN: (n, k) rows
    double[:, ::1] distances,       # OUT: (n, k) squared
):
    """Write the squared distance of each row to its target neighbours; return their sum."""
    cdef Py_ssize_t i, j
    cdef double total = 0
    with nogil:
        for i in range(targets.shape[0]):
            for j in range(targets.shape[1]):
                distances[i, j] = squared_distance(&Z[i, 0], &Z[targets[i, j], 0], Z.shape[1])
                total += distances[i, j]
    return total


def hinge_losses(
    const double[:, ::1] Z,          # IN: (n, r)
    const int32_t[:, ::1] pairs,     # IN: (m, 2)
    const double[:, ::1] distances,  # IN: (n, k) of the targets
    double width,                    # IN: the hinge is a parabola between 0 and this
    double[:, ::1] target_slopes,    # INOUT: (n, k) zeros, becomes the sum of slopes
    double[::1] pair_slopes,         # OUT: (m,)
):
    """Return the sums over triplets of the hinge, the smoothed hinge, slope x hinge and slope."""
    cdef Py_ssize_t m, side, i, j, k = distances.shape[1]
    cdef double distance, loss, slope, total
    cdef double hinge = 0, smoothed = 0, product = 0, slopes = 0
    with nogil:
        for m in range(pairs.shape[0]):
            distance = squared_distance(&Z[pairs[m, 0], 0], &Z[pairs[m, 1], 0], Z.shape[1])
            total = 0
            for side in range(2):
                i = pairs[m, side]
                for j in range(k):
                    loss = 1 + distances[i, j] - distance
                    if loss <= 0:
                        continue
                    slope = loss / width if loss < width else 1
                    hinge += loss
                    product += slope * loss
                    smoothed += 0.5 * slope * loss if loss < width else loss - 0.5 * width
                    target_slopes[i, j] += slope
                    total += slope
            pair_slopes[m] = total
            slopes += total
    return hinge, smoothed, product, slopes


def laplacian_times(
    const double[:, ::1] Z,             # IN: (n, r)
    const int32_t[:, ::1] targets,      # IN: (n, k)
    const double[:, ::1] pulls,         # IN: (n, k) weights of the pairs (row, target)
    const int32_t[:, ::1] pairs,        # IN: (m, 2)
    const double[::1] pushes,           # IN: (m,) weights of the pairs, taken as negative
    double[:, ::1] product,             # INOUT: (n, r) zeros
):
    """Add the Laplacian of the weighted pairs times Z."""
    cdef Py_ssize_t i, j, a, b, m, r = Z.shape[1]
    with nogil:
        for i in range(targets.shape[0]):
            for j in range(targets.shape[1]):
                a = targets[i, j]
                add_difference(&product[i, 0], &product[a, 0], &Z[i, 0], &Z[a, 0], pulls[i, j], r)
        for m in range(pairs.shape[0]):
            if pushes[m] != 0:
                a, b = pairs[m, 0], pairs[m, 1]
                add_difference(&product[a, 0], &product[b, 0], &Z[a, 0], &Z[b, 0], -pushes[m], r)


def pairs_within_reach(
    const float[:, ::1] products,   # IN: (p, q) z_a'z_b
    const float[::1] left,          # IN: (p,) |z_a|^2
    const float[::1] right,         # IN: (q,) |z_b|^2
    const float[::1] left_reach,    # IN: (p,) squared distance within which a pair counts ...
    const float[::1] right_reach,   # IN: (q,) ... for either of its rows
    Py_ssize_t first_left,          # IN: row number of the first a ...
    Py_ssize_t first_right,         # IN: ... and of the first b
    int32_t[:, ::1] pairs,          # OUT: (room, 2)
):
    """Write the pairs as far as there is room; return how many there are."""
    cdef Py_ssize_t a, room = pairs.shape[0], count = 0
    with nogil:
        for a in range(products.shape[0]):
            count += pairs_of_row(
                &products[a, 0], left[a], left_reach[a], &right[0], &right_reach[0],
                products.shape[1], <int32_t>(first_left + a), <int32_t>first_right,
                <int32_t (*)[2]>(&pairs[0, 0] + 2 * min(count, room)), max(room - count, 0),
            )
    return count


def keep_within_reach(
    const double[:, ::1] Z,      # IN: (n, r)
    const double[::1] reach,     # IN: (n,) squared distance within which a pair of the row counts
    int32_t[:, ::1] pairs,       # INOUT: (m, 2), those that stay come first
):
    """Move the pairs within reach of either row to the front; return how many they are."""
    cdef Py_ssize_t m, a, b, count = 0
    with nogil:
        for m in range(pairs.shape[0]):
            a, b = pairs[m, 0], pairs[m, 1]
            if squared_distance(&Z[a, 0], &Z[b, 0], Z.shape[1]) < max(reach[a], reach[b]):
                pairs[count, 0], pairs[count, 1] = <int32_t>a, <int32_t>b
                count += 1
    return count
