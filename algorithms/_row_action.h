/* Row loops of the dual row action, on the best instructions that the machine has.

   u holds sum alpha X of one exemplar, in double; d holds feature-to-set distances.  The weights
   are [u]_+. */

#ifndef REAL /* a kernel includes this file: include it once for each type of numbers */

#include <stddef.h>

#include "_multiversioned.h"

/* Wait until all threads of a few have called it as often: they spin, and then give way. */
#ifdef __GNUC__
#include <sched.h>
static void meet(long long *arrivals, long long n_threads, long long *meetings)
{
    const long long all = n_threads * ++*meetings;
    __atomic_add_fetch(arrivals, 1, __ATOMIC_ACQ_REL);
    for (int spins = 0; __atomic_load_n(arrivals, __ATOMIC_ACQUIRE) < all; spins++)
        if (spins > 10000)
            sched_yield();
}
#define CAN_MEET 1
#else
#define meet(arrivals, n_threads, meetings) ((void)0)
#define CAN_MEET 0
#endif

#define LOOPS "_row_action.h"
#include "_float_and_double.h"
#undef LOOPS

#else

/* [u]_+ . d */
MULTIVERSIONED static double NAME(weigh)(
    const double *restrict u, const REAL *restrict d, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t m = 0; m < n; m++)
        sum += (u[m] > 0 ? u[m] : 0) * d[m];
    return sum;
}

/* u += step d; returns [u]_+ . d afterwards */
MULTIVERSIONED static double NAME(move)(
    double *restrict u, const REAL *restrict d, ptrdiff_t n, double step)
{
    double sum = 0;
    for (ptrdiff_t m = 0; m < n; m++) {
        const double moved = u[m] + step * d[m];
        u[m] = moved;
        sum += (moved > 0 ? moved : 0) * d[m];
    }
    return sum;
}

/* [u]_+ . d; `curvature` becomes |d|^2 over the weights that are not 0 */
MULTIVERSIONED static double NAME(weigh_and_bend)(
    const double *restrict u, const REAL *restrict d, ptrdiff_t n, double *curvature)
{
    double sum = 0, squares = 0;
    for (ptrdiff_t m = 0; m < n; m++) {
        const double used = u[m] > 0 ? d[m] : 0;
        sum += u[m] * used;
        squares += used * used;
    }
    *curvature = squares;
    return sum;
}

/* u += step d; returns by how much half of |[u]_+|^2 has grown */
MULTIVERSIONED static double NAME(move_and_weigh)(
    double *restrict u, const REAL *restrict d, ptrdiff_t n, double step)
{
    double growth = 0;
    for (ptrdiff_t m = 0; m < n; m++) {
        const double before = u[m], after = before + step * d[m];
        const double w = before > 0 ? before : 0, v = after > 0 ? after : 0;
        u[m] = after;
        growth += (v - w) * (v + w);
    }
    return growth / 2;
}

/* |a - b|^2 */
MULTIVERSIONED static double NAME(apart)(
    const REAL *restrict a, const REAL *restrict b, ptrdiff_t n)
{
    double sum = 0;
    for (ptrdiff_t m = 0; m < n; m++)
        sum += ((double)a[m] - b[m]) * ((double)a[m] - b[m]);
    return sum;
}

#endif
