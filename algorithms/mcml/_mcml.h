/* One row of MCML's neighbour probabilities, on the best instructions that the machine has. */

#ifndef OASIS_BENCH_MCML_H
#define OASIS_BENCH_MCML_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_multiversioned.h"

/* exp(x) of x <= 0, to 1e-13 or better.  A compiler can vectorise it, unlike the C library's.
   x = k log 2 + r.  Below -340 it stays at 1e-148: of smaller numbers products would be
   subnormal, on which arithmetic is some ten times slower. */
static inline double exp_of_negative(double x)
{
    const double clipped = x > -340.0 ? x : -340.0;
    const double k = rint(clipped * 1.4426950408889634);
    const double r = clipped - k * 0.693147180369123816490 - k * 1.90821492927058770002e-10;
    double sum = 1.0 / 479001600;
    sum = sum * r + 1.0 / 39916800;
    sum = sum * r + 1.0 / 3628800;
    sum = sum * r + 1.0 / 362880;
    sum = sum * r + 1.0 / 40320;
    sum = sum * r + 1.0 / 5040;
    sum = sum * r + 1.0 / 720;
    sum = sum * r + 1.0 / 120;
    sum = sum * r + 1.0 / 24;
    sum = sum * r + 1.0 / 6;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    const int64_t bits = ((int64_t)(int32_t)k + 1023) << 52;
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

/* The largest of a row and `start`.  GCC does not vectorise a maximum; of eight it does. */
MULTIVERSIONED static double largest(const double *restrict row, ptrdiff_t n, double start)
{
    double most[8];
    ptrdiff_t j = 0;
    for (int lane = 0; lane < 8; lane++)
        most[lane] = start;
    for (; j + 8 <= n; j += 8)
        for (int lane = 0; lane < 8; lane++)
            most[lane] = row[j + lane] > most[lane] ? row[j + lane] : most[lane];
    for (; j < n; j++)
        most[0] = row[j] > most[0] ? row[j] : most[0];
    for (int lane = 1; lane < 8; lane++)
        most[0] = most[lane] > most[0] ? most[lane] : most[0];
    return most[0];
}

/* row <- exp(row - most); returns the sum */
MULTIVERSIONED static double exponentiate(double *restrict row, ptrdiff_t n, double most)
{
    double sum = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        row[j] = exp_of_negative(row[j] - most);
        sum += row[j];
    }
    return sum;
}

/* row <- scale row; totals <- totals + row */
MULTIVERSIONED static void scale_and_add(
    double *restrict row, double *restrict totals, ptrdiff_t n, double scale)
{
    for (ptrdiff_t j = 0; j < n; j++) {
        row[j] *= scale;
        totals[j] += row[j];
    }
}

#endif
