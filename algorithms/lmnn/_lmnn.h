/* Row loops of LMNN, on the best instructions that the machine has. */

#ifndef OASIS_BENCH_LMNN_H
#define OASIS_BENCH_LMNN_H

#include <stddef.h>

#include "_multiversioned.h"

/* |a - b|^2 */
MULTIVERSIONED static double squared_distance(
    const double *restrict a, const double *restrict b, ptrdiff_t d)
{
    double sum = 0;
    for (ptrdiff_t j = 0; j < d; j++)
        sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

/* up += weight (a - b), down -= weight (a - b) */
MULTIVERSIONED static void add_difference(
    double *restrict up, double *restrict down, const double *restrict a, const double *restrict b,
    double weight, ptrdiff_t d)
{
    for (ptrdiff_t j = 0; j < d; j++) {
        const double step = weight * (a[j] - b[j]);
        up[j] += step;
        down[j] -= step;
    }
}

#endif
