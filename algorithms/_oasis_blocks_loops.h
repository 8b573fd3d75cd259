/* Blocks of triplets, row by row of W, for one type of numbers: included by `_oasis_blocks.h`.

   REAL is the type of W, STORED that of the entries of p - n, KIND the ending of the functions'
   names.  Steps in order are compiled where STORED is REAL, IN_ORDER.  Everything is compiled
   twice, for any processor and for AVX2: TARGET allows the instructions, NAME(f) is the name of f
   for them, DOT(row, columns, values, padded) a dot product of gathered entries. */

#define JOIN_NAMES(f, kind) f##_##kind
#define JOIN(f, kind) JOIN_NAMES(f, kind)
#ifdef FOR_AVX2
#define TARGET AVX2
#define NAME(f) JOIN(JOIN(f, KIND), avx2)
#else
#define TARGET
#define NAME(f) JOIN(f, KIND)
#endif
#define DOT NAME(dot)

/* row[columns] += weight * values; no column occurs twice, so that four may be in flight */
TARGET static inline void NAME(axpy)(
    REAL *restrict row, const uint16_t *restrict columns, const STORED *restrict values,
    ptrdiff_t count, REAL weight)
{
    ptrdiff_t j = 0;
    for (; j + 4 <= count; j += 4) {
        const REAL a = row[columns[j]] + weight * values[j];
        const REAL b = row[columns[j + 1]] + weight * values[j + 1];
        const REAL c = row[columns[j + 2]] + weight * values[j + 2];
        const REAL e = row[columns[j + 3]] + weight * values[j + 3];
        row[columns[j]] = a;
        row[columns[j + 1]] = b;
        row[columns[j + 2]] = c;
        row[columns[j + 3]] = e;
    }
    for (; j < count; j++)
        row[columns[j]] += weight * values[j];
}

/* Fetch the entries of p - n that are needed a few turns from now.  Not inlined at once, GCC takes
   it for a function without effect and leaves it out. */
TARGET static ALWAYS_INLINE void NAME(prefetch)(const block *of, ptrdiff_t entry, ptrdiff_t stop)
{
    if (entry + AHEAD < stop) {
        const int32_t t = of->row_triplets[entry + AHEAD];
        prefetch_bytes(of->columns + of->start[t], of->count[t] * sizeof(uint16_t));
        prefetch_bytes((const STORED *)of->values + of->start[t], of->count[t] * sizeof(STORED));
    }
}

/* Drop the entries of a part of W whose triplets take no step, multiply the others by their step, and
   return where they end; each row's start moves up, but for the first, which stays. */
TARGET static ptrdiff_t NAME(keep_steps)(
    const block *of, ptrdiff_t first, ptrdiff_t stop, const double *step)
{
    ptrdiff_t entry = of->row_start[first], kept = entry;
    REAL *weights = of->row_weights;
    for (ptrdiff_t i = first; i < stop; i++) {
        const ptrdiff_t row_stop = of->row_start[i + 1];
        if (i > first)
            of->row_start[i] = kept;
        for (; entry < row_stop; entry++) {
            const int32_t t = of->row_triplets[entry];
            of->row_triplets[kept] = t;
            weights[kept] = (REAL)(step[t] * weights[entry]);
            kept += step[t] > 0;
        }
    }
    return kept;
}

/* For each row of a part of W: apply the steps of `done`, then score `next` against it. */
TARGET static void NAME(pass)(
    REAL *W, ptrdiff_t d, ptrdiff_t first, ptrdiff_t stop, const block *done, const double *step,
    const block *next, double *scores)
{
    const REAL *done_weights = done->row_weights, *next_weights = next->row_weights;
    const STORED *done_values = done->values, *next_values = next->values;
    const ptrdiff_t done_stop = NAME(keep_steps)(done, first, stop, step);
    const ptrdiff_t next_stop = next->row_start[stop];
    for (ptrdiff_t i = first; i < stop; i++) {
        REAL *row = W + i * d;
        const ptrdiff_t row_stop = i + 1 < stop ? done->row_start[i + 1] : done_stop;
        for (ptrdiff_t k = done->row_start[i]; k < row_stop; k++) {
            const int32_t t = done->row_triplets[k];
            NAME(prefetch)(done, k, done_stop);
            NAME(axpy)(row, done->columns + done->start[t], done_values + done->start[t],
                       done->count[t], done_weights[k]);
        }
        for (ptrdiff_t k = next->row_start[i]; k < next->row_start[i + 1]; k++) {
            const int32_t t = next->row_triplets[k];
            NAME(prefetch)(next, k, next_stop);
            scores[t] += (double)next_weights[k]
                * DOT(row, next->columns + next->start[t], next_values + next->start[t],
                      PADDED(next->count[t]));
        }
    }
}

#if IN_ORDER
/* The sum over earlier steps u of the block of step_u (q_t . q_u)(v_u . v_t), v = p - n: what
   they would have added to the score of t.  They stand in one list a feature of q and one a
   feature of v; products gathers step_u (q_t . q_u). */
TARGET static inline double NAME(correction)(
    const block *of, const lists *q_lists, const lists *v_lists, ptrdiff_t t,
    ptrdiff_t n_earlier, REAL *restrict products)
{
    const REAL *query_values = of->query_values, *v = of->values;
    memset(products, 0, n_earlier * sizeof(REAL));
    for (ptrdiff_t k = of->query_start[t]; k < of->query_start[t + 1]; k++) {
        const uint16_t i = of->query_columns[k];
        const uint16_t *restrict u = q_lists->members + q_lists->start[i];
        const REAL *restrict values = (const REAL *)q_lists->values + q_lists->start[i];
        NAME(axpy)(products, u, values, q_lists->length[i], query_values[k]);
    }
    double sum = 0;
    for (ptrdiff_t e = of->start[t]; e < of->start[t] + of->count[t]; e++) {
        const uint16_t j = of->columns[e];
        sum += (double)v[e]
            * DOT(products, v_lists->members + v_lists->start[j],
                  (const REAL *)v_lists->values + v_lists->start[j], PADDED(v_lists->length[j]));
    }
    return sum;
}

/* Find the steps of a block in order from its scores against the W before it. */
TARGET static ptrdiff_t NAME(solve)(
    const block *of, ptrdiff_t n, const double *scores, const double *norms,
    double aggressiveness, const lists *q_lists, const lists *v_lists, REAL *products, double *step)
{
    ptrdiff_t n_updates = 0;
    for (ptrdiff_t t = 0; t < n; t++) {
        const double loss = 1 - scores[t]
            - NAME(correction)(of, q_lists, v_lists, t, n_updates, products);
        step[t] = 0;
        if (loss <= 0 || norms[t] <= 0)
            continue;
        step[t] = loss / norms[t] < aggressiveness ? loss / norms[t] : aggressiveness;
        for (ptrdiff_t k = of->query_start[t]; k < of->query_start[t + 1]; k++)
            JOIN(append, REAL)(q_lists, of->query_columns[k], (uint16_t)n_updates,
                         (REAL)(step[t] * ((const REAL *)of->query_values)[k]));
        for (ptrdiff_t e = of->start[t]; e < of->start[t] + of->count[t]; e++)
            JOIN(append, REAL)(v_lists, of->columns[e], (uint16_t)n_updates,
                         ((const REAL *)of->values)[e]);
        n_updates++;
    }
    return n_updates;
}
#endif

#undef TARGET
#undef NAME
#undef DOT
#if defined(HAS_AVX2_CODE) && !defined(FOR_AVX2)
#define FOR_AVX2
#include "_oasis_blocks_loops.h"
#undef FOR_AVX2
#endif
