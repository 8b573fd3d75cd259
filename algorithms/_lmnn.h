/* Row loops of LMNN, on the best instructions that the machine has. */

#ifndef OASIS_BENCH_LMNN_H
#define OASIS_BENCH_LMNN_H

#include <stddef.h>
#include <stdint.h>

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

/* Write (a, first + b) for each b that is not beyond the reach of both rows: left + right[b] -
   2 products[b] is the squared distance, and where it overflows to NaN, b counts.  Return how many
   they are; those beyond `room` are only counted.  Most chunks have none, which a few vector
   instructions tell. */
MULTIVERSIONED static ptrdiff_t pairs_of_row(
    const float *restrict products, float left, float left_reach, const float *restrict right,
    const float *restrict right_reach, ptrdiff_t n, int32_t a, int32_t first,
    int32_t (*restrict pairs)[2], ptrdiff_t room)
{
    enum { CHUNK = 16 };
    ptrdiff_t count = 0;
    for (ptrdiff_t start = 0; start < n; start += CHUNK) {
        const ptrdiff_t stop = start + CHUNK < n ? start + CHUNK : n;
        int32_t some = stop - start < CHUNK;
        for (ptrdiff_t k = 0; k < CHUNK && stop - start == CHUNK; k++) {
            const float distance = left + right[start + k] - 2 * products[start + k];
            const float reach = right_reach[start + k];
            some |= !(distance > (left_reach > reach ? left_reach : reach));
        }
        for (ptrdiff_t b = start; some && b < stop; b++) {
            const float distance = left + right[b] - 2 * products[b];
            if (!(distance > left_reach && distance > right_reach[b])) {
                if (count < room) {
                    pairs[count][0] = a;
                    pairs[count][1] = first + (int32_t)b;
                }
                count++;
            }
        }
    }
    return count;
}

#endif
