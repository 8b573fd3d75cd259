/* Blocks of triplets for float, float with entries in 16 bits, and double: their arrays, and the
   choice between AVX2 and plain C.  The loops themselves are in `_oasis_blocks_loops.h`. */

#ifndef OASIS_BENCH_BLOCKS_H
#define OASIS_BENCH_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "_multiversioned.h"

/* How many turns ahead entries are fetched: measured, 2 to 4 are best. */
#define AHEAD 3

/* Entries are stored in chunks of 8, the last filled up with zeros at column 0. */
#define PADDED(count) (((ptrdiff_t)(count) + 7) & ~(ptrdiff_t)7)

/* A block of triplets as arrays; void stands for float or double, and for int16_t in `values` of a
   packed one. */
typedef struct {
    /* the entries of each query: where they start, features, values */
    ptrdiff_t *query_start; uint16_t *query_columns; void *query_values;
    /* the same, row of W after row of W: where a row's start, triplets, values */
    ptrdiff_t *row_start; int32_t *row_triplets; void *row_weights;
    /* the entries of v = p - n: where each triplet's start, how many, features, values */
    ptrdiff_t *start; int32_t *count; uint16_t *columns; void *values;
    /* |q|^2 |v|^2, tau */
    double *norms, *step;
} block;

/* For each feature a list of steps: where it starts, its length; the steps, their values. */
typedef struct {
    const ptrdiff_t *start; int32_t *length; uint16_t *members; void *values;
} lists;

static ALWAYS_INLINE void prefetch_bytes(const void *from, ptrdiff_t n_bytes)
{
    for (ptrdiff_t byte = 0; byte < n_bytes; byte += 64)
        __builtin_prefetch((const char *)from + byte);
}

#define APPEND(REAL) \
/* Add a step to the list of a feature, in chunks of 8 that begin as zeros. */ \
static inline void append_##REAL( \
    const lists *to, uint16_t feature, uint16_t member, REAL value) \
{ \
    const int32_t length = to->length[feature]++; \
    uint16_t *members = to->members + to->start[feature] + length; \
    REAL *values = (REAL *)to->values + to->start[feature] + length; \
    if (length % 8 == 0) { \
        memset(members, 0, 8 * sizeof(uint16_t)); \
        memset(values, 0, 8 * sizeof(REAL)); \
    } \
    *members = member; \
    *values = value; \
}
APPEND(float)
APPEND(double)

#define GATHER_DOT(NAME, REAL, STORED) \
static inline REAL NAME( \
    const REAL *row, const uint16_t *columns, const STORED *values, ptrdiff_t padded) \
{ \
    REAL sum = 0; \
    for (ptrdiff_t j = 0; j < padded; j++) \
        sum += row[columns[j]] * values[j]; \
    return sum; \
}
GATHER_DOT(dot_float, float, float)
GATHER_DOT(dot_packed, float, int16_t)
GATHER_DOT(dot_double, double, double)

#ifdef HAS_AVX2_CODE
#define GATHER_DOT_AVX2(NAME, STORED, EIGHT) \
AVX2 static inline float NAME( \
    const float *row, const uint16_t *columns, const STORED *values, ptrdiff_t padded) \
{ \
    __m256 even = _mm256_setzero_ps(), odd = even; \
    for (ptrdiff_t j = 0; j < padded; j += 8) { \
        const __m128i eight = _mm_loadu_si128((const void *)(columns + j)); \
        const __m256 entries = _mm256_i32gather_ps(row, _mm256_cvtepu16_epi32(eight), 4); \
        const __m256 sum = _mm256_fmadd_ps(entries, EIGHT(values + j), even); \
        even = odd; \
        odd = sum; \
    } \
    even = _mm256_add_ps(even, odd); \
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(even), _mm256_extractf128_ps(even, 1)); \
    half = _mm_add_ps(half, _mm_movehl_ps(half, half)); \
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half))); \
}
#define EIGHT_INT16(from) \
    _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const void *)(from))))
GATHER_DOT_AVX2(dot_float_avx2, float, _mm256_loadu_ps)
GATHER_DOT_AVX2(dot_packed_avx2, int16_t, EIGHT_INT16)

AVX2 static inline double dot_double_avx2(
    const double *row, const uint16_t *columns, const double *values, ptrdiff_t padded)
{
    __m256d low = _mm256_setzero_pd(), high = low;
    for (ptrdiff_t j = 0; j < padded; j += 8) {
        const __m256i places = _mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(columns + j)));
        low = _mm256_fmadd_pd(_mm256_i32gather_pd(row, _mm256_castsi256_si128(places), 8),
                              _mm256_loadu_pd(values + j), low);
        high = _mm256_fmadd_pd(_mm256_i32gather_pd(row, _mm256_extracti128_si256(places, 1), 8),
                               _mm256_loadu_pd(values + j + 4), high);
    }
    low = _mm256_add_pd(low, high);
    const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(low), _mm256_extractf128_pd(low, 1));
    return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}
#endif

/* What the loops are compiled for.  Steps in order need the values as they are, not packed. */
#define REAL float
#define STORED float
#define KIND float
#define IN_ORDER 1
#include "_oasis_blocks_loops.h"
#undef STORED
#undef KIND
#undef IN_ORDER

#define STORED int16_t
#define KIND packed
#define IN_ORDER 0
#include "_oasis_blocks_loops.h"
#undef REAL
#undef STORED
#undef KIND
#undef IN_ORDER

#define REAL double
#define STORED double
#define KIND double
#define IN_ORDER 1
#include "_oasis_blocks_loops.h"
#undef REAL
#undef STORED
#undef KIND
#undef IN_ORDER

/* Whether AVX2 is used where the processor has it: the tests compare both. */
static int avx2_allowed = 1;
#ifdef HAS_AVX2_CODE
#define CHOSEN(f) (avx2_allowed && has_avx2() ? f##_avx2 : f)
#else
#define CHOSEN(f) f
#endif
#define best_pass_float CHOSEN(pass_float)
#define best_pass_packed CHOSEN(pass_packed)
#define best_pass_double CHOSEN(pass_double)
#define best_solve_float CHOSEN(solve_float)
#define best_solve_double CHOSEN(solve_double)

#endif
