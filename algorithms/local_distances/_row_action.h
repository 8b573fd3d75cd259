/* Row loops of the dual row action, on the best instructions that the machine has.

   u holds sum alpha X of one exemplar, in double; d holds feature-to-set distances.  The weights
   are [u]_+. */

#ifndef REAL /* a kernel includes this file: include it once for each type of numbers */

#include <stddef.h>

#include "_multiversioned.h"

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
