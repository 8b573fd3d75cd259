/* One row of the probabilities that rows choose their neighbours by, for float and for double, on
   the best instructions that the machine has. */

#ifndef REAL

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_multiversioned.h"

/* exp(x) of x <= 0, to 1e-13 or better.  A compiler can vectorise it, unlike the C library's.
   x = k log 2 + r.  Below -340 it stays at 1e-148: of smaller numbers products would be
   subnormal, on which arithmetic is some ten times slower. */
static inline double exp_of_negative_double(double x)
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

/* The same to 3e-7; below -40 it stays at 4e-18. */
static inline float exp_of_negative_float(float x)
{
    const float clipped = x > -40.0f ? x : -40.0f;
    const float k = rintf(clipped * 1.44269504f);
    const float r = clipped - k * 0.693359375f + k * 2.12194440e-4f;
    float sum = 1.0f / 5040;
    sum = sum * r + 1.0f / 720;
    sum = sum * r + 1.0f / 120;
    sum = sum * r + 1.0f / 24;
    sum = sum * r + 1.0f / 6;
    sum = sum * r + 0.5f;
    sum = sum * r + 1.0f;
    sum = sum * r + 1.0f;
    const int32_t bits = ((int32_t)k + 127) << 23;
    float power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

#define LOOPS "_neighbour_choice.h"
#include "_float_and_double.h"
#undef LOOPS

#else

/* as many numbers as are 64 bytes: GCC vectorises a maximum of so many, not of a whole row */
enum { NAME(LANES) = 64 / sizeof(REAL) };

/* the largest of a row */
MULTIVERSIONED static REAL NAME(largest)(const REAL *restrict row, ptrdiff_t n)
{
    REAL most[NAME(LANES)];
    ptrdiff_t j = 0;
    for (int lane = 0; lane < NAME(LANES); lane++)
        most[lane] = -INFINITY;
    for (; j + NAME(LANES) <= n; j += NAME(LANES))
        for (int lane = 0; lane < NAME(LANES); lane++)
            most[lane] = row[j + lane] > most[lane] ? row[j + lane] : most[lane];
    for (; j < n; j++)
        most[0] = row[j] > most[0] ? row[j] : most[0];
    for (int lane = 1; lane < NAME(LANES); lane++)
        most[0] = most[lane] > most[0] ? most[lane] : most[0];
    return most[0];
}

/* row <- exp(row - most); returns the sum */
MULTIVERSIONED static REAL NAME(exponentiate)(REAL *restrict row, ptrdiff_t n, REAL most)
{
    REAL sum = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        row[j] = NAME(exp_of_negative)(row[j] - most);
        sum += row[j];
    }
    return sum;
}

/* the sum of a row */
MULTIVERSIONED static REAL NAME(sum_of)(const REAL *restrict row, ptrdiff_t n)
{
    REAL sum = 0;
    for (ptrdiff_t j = 0; j < n; j++)
        sum += row[j];
    return sum;
}

/* row <- scale row; totals <- totals + row */
MULTIVERSIONED static void NAME(scale_and_add)(
    REAL *restrict row, double *restrict totals, ptrdiff_t n, REAL scale)
{
    for (ptrdiff_t j = 0; j < n; j++) {
        row[j] *= scale;
        totals[j] += row[j];
    }
}

#endif
