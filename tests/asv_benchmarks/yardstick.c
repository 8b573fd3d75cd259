/* OASIS steps (JMLR 2010, figure 1) as one writes them first: the yardstick of the kernels.

   Compiled by yardstick.py for each type of numbers (-Dreal=float, -Dreal=double).  The rows are
   CSR, or dense; triplets are (m, 3) row numbers of query, positive and negative; W is (d, d) and
   changed in place.  Both return how many steps changed it, or -1 where memory is short. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

static real squared_norm(const real *x, ptrdiff_t n)
{
    real sum = 0;
    for (ptrdiff_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sum;
}

static real step_size(real score, real norm, real aggressiveness)
{
    const real loss = 1 - score;
    if (loss <= 0 || norm <= 0)
        return 0;
    return loss / norm < aggressiveness ? loss / norm : aggressiveness;
}

ptrdiff_t step_csr(
    const real *data, const int32_t *indices, const int32_t *indptr,
    const int64_t *triplets, ptrdiff_t m, double aggressiveness, real *W, ptrdiff_t d)
{
    ptrdiff_t n_updates = 0;
    real *values = malloc(d * sizeof *values); /* p - n */
    int32_t *columns = malloc(d * sizeof *columns);
    if (!values || !columns)
        n_updates = -1;

    for (ptrdiff_t t = 0; t < m && n_updates >= 0; t++) {
        const ptrdiff_t first = indptr[triplets[3 * t]];
        const ptrdiff_t length = indptr[triplets[3 * t] + 1] - first;
        const int32_t *rows = indices + first;
        const real *q = data + first;

        ptrdiff_t p = indptr[triplets[3 * t + 1]], n = indptr[triplets[3 * t + 2]], count = 0;
        const ptrdiff_t p_stop = indptr[triplets[3 * t + 1] + 1];
        const ptrdiff_t n_stop = indptr[triplets[3 * t + 2] + 1];
        while (p < p_stop || n < n_stop) {
            if (n == n_stop || (p < p_stop && indices[p] < indices[n])) {
                columns[count] = indices[p];
                values[count++] = data[p++];
            } else if (p == p_stop || indices[n] < indices[p]) {
                columns[count] = indices[n];
                values[count++] = -data[n++];
            } else {
                columns[count] = indices[p];
                values[count++] = data[p++] - data[n++];
            }
        }

        real score = 0;
        for (ptrdiff_t i = 0; i < length; i++) {
            const real *row = W + rows[i] * d;
            real sum = 0;
            for (ptrdiff_t j = 0; j < count; j++)
                sum += row[columns[j]] * values[j];
            score += q[i] * sum;
        }

        const real norm = squared_norm(q, length) * squared_norm(values, count);
        const real tau = step_size(score, norm, aggressiveness);
        if (tau > 0) {
            n_updates++;
            for (ptrdiff_t i = 0; i < length; i++) {
                real *row = W + rows[i] * d;
                const real weight = tau * q[i];
                for (ptrdiff_t j = 0; j < count; j++)
                    row[columns[j]] += weight * values[j];
            }
        }
    }
    free(values);
    free(columns);
    return n_updates;
}

ptrdiff_t step_dense(
    const real *X, const int64_t *triplets, ptrdiff_t m, double aggressiveness, real *W,
    ptrdiff_t d)
{
    ptrdiff_t n_updates = 0;
    real *restrict v = malloc(d * sizeof *v); /* p - n */
    if (!v)
        n_updates = -1;

    for (ptrdiff_t t = 0; t < m && n_updates >= 0; t++) {
        const real *q = X + triplets[3 * t] * d;
        const real *p = X + triplets[3 * t + 1] * d;
        const real *n = X + triplets[3 * t + 2] * d;
        for (ptrdiff_t j = 0; j < d; j++)
            v[j] = p[j] - n[j];

        real score = 0;
        for (ptrdiff_t i = 0; i < d; i++) {
            if (q[i] != 0) {
                const real *row = W + i * d;
                real sum = 0;
                for (ptrdiff_t j = 0; j < d; j++)
                    sum += row[j] * v[j];
                score += q[i] * sum;
            }
        }

        const real tau = step_size(score, squared_norm(q, d) * squared_norm(v, d), aggressiveness);
        if (tau > 0) {
            n_updates++;
            for (ptrdiff_t i = 0; i < d; i++) {
                if (q[i] != 0) {
                    real *row = W + i * d;
                    const real weight = tau * q[i];
                    for (ptrdiff_t j = 0; j < d; j++)
                        row[j] += weight * v[j];
                }
            }
        }
    }
    free(v);
    return n_updates;
}
