/* Loops of scoring and ranking, for float and for double; `_ranking.pyx` names them for Cython. */

#ifndef REAL /* the kernel includes this file: include it once for each type of numbers */

#include <stddef.h>
#include <stdint.h>

#include "_multiversioned.h"

/* A group of queries is scored at once: 32 of float, 16 of double.  For 10 000 features it is 1.3
   MB and fits a second-level cache; twice as many queries take twice the time a score. */
#define GROUP_BYTES 128
#define TILE_ROWS 16

/* AVX2 has registers of 32 bytes, and AVX-512 gains nothing from wider ones here.  A vector wider
   than the registers is slow. */
#ifdef __x86_64__
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

#define LOOPS "_ranking.h"
#include "_float_and_double.h"
#undef LOOPS

#else


#define WIDTH (GROUP_BYTES / sizeof(REAL))
#define VECTORS (GROUP_BYTES / sizeof(NAME(vector)))

#ifdef __GNUC__
/* GCC would not keep the sums of a plain array in registers, at a quarter of the speed. */
typedef REAL NAME(vector)
    __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(REAL)), may_alias));
#else
typedef REAL NAME(vector);
#endif

/* scores[l][i] = sum_c X_ic queries[c][l], for CSR rows i and a group of WIDTH queries, of which
   the first `count` are wanted; `stride` numbers lie between the scores of one query and the next */
MULTIVERSIONED static void NAME(score_group)(
    const REAL *restrict data, const int32_t *restrict indices, const ptrdiff_t *restrict indptr,
    ptrdiff_t n_rows, const REAL *restrict queries, REAL *restrict scores, ptrdiff_t stride,
    ptrdiff_t count)
{
    REAL tile[TILE_ROWS][WIDTH];
    for (ptrdiff_t start = 0; start < n_rows; start += TILE_ROWS) {
        const ptrdiff_t height = n_rows - start < TILE_ROWS ? n_rows - start : TILE_ROWS;
        for (ptrdiff_t i = 0; i < height; i++) {
            NAME(vector) sums[VECTORS] = {0};
            for (ptrdiff_t a = indptr[start + i]; a < indptr[start + i + 1]; a++) {
                const NAME(vector) *restrict column =
                    (const NAME(vector) *)(queries + (ptrdiff_t)indices[a] * (ptrdiff_t)WIDTH);
                for (size_t v = 0; v < VECTORS; v++)
                    sums[v] += data[a] * column[v];
            }
            for (size_t v = 0; v < VECTORS; v++)
                ((NAME(vector) *)tile[i])[v] = sums[v];
        }
        for (ptrdiff_t l = 0; l < count; l++)
            for (ptrdiff_t i = 0; i < height; i++)
                scores[l * stride + start + i] = tile[i][l];
    }
}

/* cell_j = (top - s_j) scale, cut to 0 ... last: it never falls where s falls, NaN is in cell 0 */
MULTIVERSIONED static void NAME(find_cells)(
    const REAL *restrict s, ptrdiff_t n, REAL top, REAL scale, REAL last, int32_t *restrict cell)
{
    for (ptrdiff_t j = 0; j < n; j++) {
        REAL x = (top - s[j]) * scale;
        x = x > 0 ? x : 0;
        cell[j] = (int32_t)(x < last ? x : last);
    }
}

MULTIVERSIONED static ptrdiff_t NAME(count_nan)(const REAL *restrict s, ptrdiff_t n)
{
    ptrdiff_t total = 0;
    for (ptrdiff_t j = 0; j < n; j++)
        total += s[j] != s[j];
    return total;
}

#undef WIDTH
#undef VECTORS

#endif
