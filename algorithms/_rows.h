/* Row loops of the learners' kernels, for float and for double: `_rows.pxd` names them for Cython.

   Each is compiled for several instruction sets (`_multiversioned.h`).  W is (d, d), row after row;
   columns and values are the entries of p - n where they are sparse. */

#ifndef REAL /* a kernel includes this file: include it once for each type of numbers */

#include <stddef.h>
#include <stdint.h>

#include "_multiversioned.h"

#define LOOPS "_rows.h"
#include "_float_and_double.h"
#undef LOOPS

#else

/* as many columns as are 256 bytes: their sums stay in registers */
enum { NAME(COLUMNS) = 256 / sizeof(REAL) };

/* sum_i q_i W_ij v_j over so many columns j from the first on */
MULTIVERSIONED static double NAME(score_columns)(
    const REAL *restrict W, const REAL *restrict q, const REAL *restrict v, ptrdiff_t d)
{
    REAL sums[NAME(COLUMNS)] = {0}, score = 0;
    for (ptrdiff_t i = 0; i < d; i++) {
        if (q[i] != 0) {
            const REAL *restrict row = W + i * d;
            for (ptrdiff_t j = 0; j < NAME(COLUMNS); j++)
                sums[j] += q[i] * row[j];
        }
    }
    for (ptrdiff_t j = 0; j < NAME(COLUMNS); j++)
        score += sums[j] * v[j];
    return score;
}

/* sum_i q_i (W_i . v), v dense */
MULTIVERSIONED static double NAME(score_dense)(
    const REAL *restrict W, const REAL *restrict q, const REAL *restrict v, ptrdiff_t d)
{
    const ptrdiff_t columns = NAME(COLUMNS), narrow = 4 * columns;
    double score = 0;
    ptrdiff_t first = 0; /* of wide rows one sum each is faster */
    for (; d <= narrow && first + columns <= d; first += columns)
        score += NAME(score_columns)(W + first, q, v + first, d);
    for (ptrdiff_t i = 0; i < d && first < d; i++) {
        if (q[i] != 0) {
            const REAL *restrict row = W + i * d;
            REAL sum = 0;
            for (ptrdiff_t j = first; j < d; j++)
                sum += row[j] * v[j];
            score += (double)q[i] * sum;
        }
    }
    return score;
}

/* W_i += tau q_i v */
MULTIVERSIONED static void NAME(add_dense)(
    REAL *restrict W, const REAL *restrict q, const REAL *restrict v, ptrdiff_t d, double tau)
{
    for (ptrdiff_t i = 0; i < d; i++) {
        const REAL weight = (REAL)(tau * q[i]);
        if (weight != 0) {
            REAL *restrict row = W + i * d;
            for (ptrdiff_t j = 0; j < d; j++)
                row[j] += weight * v[j];
        }
    }
}

/* v = p - n; returns |v|^2 */
MULTIVERSIONED static double NAME(subtract_dense)(
    const REAL *restrict p, const REAL *restrict n, REAL *restrict v, ptrdiff_t d)
{
    double sum = 0;
    for (ptrdiff_t j = 0; j < d; j++) {
        v[j] = p[j] - n[j];
        sum += (double)v[j] * v[j];
    }
    return sum;
}

/* one row of W with v dense, and with v sparse */
MULTIVERSIONED static REAL NAME(dot_dense)(
    const REAL *restrict row, const REAL *restrict v, ptrdiff_t d)
{
    REAL sum = 0;
    for (ptrdiff_t j = 0; j < d; j++)
        sum += row[j] * v[j];
    return sum;
}

MULTIVERSIONED static void NAME(axpy_dense)(
    REAL *restrict row, const REAL *restrict v, ptrdiff_t d, REAL weight)
{
    for (ptrdiff_t j = 0; j < d; j++)
        row[j] += weight * v[j];
}

MULTIVERSIONED static REAL NAME(dot_sparse)(
    const REAL *restrict row, const int32_t *restrict columns, const REAL *restrict values,
    ptrdiff_t count)
{
    REAL sum = 0;
    for (ptrdiff_t j = 0; j < count; j++)
        sum += row[columns[j]] * values[j];
    return sum;
}

MULTIVERSIONED static void NAME(axpy_sparse)(
    REAL *restrict row, const int32_t *restrict columns, const REAL *restrict values,
    ptrdiff_t count, REAL weight)
{
    for (ptrdiff_t j = 0; j < count; j++)
        row[columns[j]] += weight * values[j];
}

/* k . (a - b) */
MULTIVERSIONED static double NAME(dot_difference)(
    const REAL *restrict k, const REAL *restrict a, const REAL *restrict b, ptrdiff_t n)
{
    REAL sum = 0;
    for (ptrdiff_t j = 0; j < n; j++)
        sum += k[j] * (a[j] - b[j]);
    return sum;
}

/* row[q_u] += tau_u (k[p_u] - k[n_u]), step after step: picked in chunks, which vectorises */
MULTIVERSIONED static void NAME(catch_up)(
    REAL *restrict row, const REAL *restrict k, const int32_t *restrict q,
    const int32_t *restrict p, const int32_t *restrict n, const REAL *restrict tau,
    ptrdiff_t count)
{
    enum { CHUNK = 64 };
    REAL change[CHUNK];
    ptrdiff_t u = 0;
    for (; u + CHUNK <= count; u += CHUNK) {
        for (ptrdiff_t c = 0; c < CHUNK; c++)
            change[c] = tau[u + c] * (k[p[u + c]] - k[n[u + c]]);
        for (ptrdiff_t c = 0; c < CHUNK; c++)
            row[q[u + c]] += change[c];
    }
    for (; u < count; u++)
        row[q[u]] += tau[u] * (k[p[u]] - k[n[u]]);
}

#endif
