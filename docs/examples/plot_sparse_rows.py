"""
Can it learn from millions of sparse rows?
==========================================

The time of a step of OASIS depends on the number of non-zero values (nnz) of its three rows,
nnz(q) (nnz(p) + nnz(n)), and not on the number of rows.  Here the rows are random.  They are as
sparse as the bags of visual words of the OASIS papers: 70 of 10 000 features are not zero.  They
show time and memory, not quality.
"""

from time import process_time

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import OASIS

N_FEATURES, NON_ZERO, N_CLASSES, STEPS = 10_000, 70, 100, 10_000


def sparse_rows(n_rows, rng):
    """Draw rows whose features depend on the class a little."""
    y = rng.integers(N_CLASSES, size=n_rows)
    columns = rng.integers(N_FEATURES, size=(n_rows, NON_ZERO), dtype=np.int32)
    columns[:, :20] = (y[:, None] * 37 + columns[:, :20] % 200) % N_FEATURES
    values = rng.random((n_rows, NON_ZERO), dtype=np.float32)
    starts = np.arange(0, n_rows * NON_ZERO + 1, NON_ZERO, dtype=np.int32)
    X = sparse.csr_array((values.ravel(), columns.ravel(), starts), shape=(n_rows, N_FEATURES))
    X.sum_duplicates()
    return normalize(X), y


# %%
# We make the same number of steps on more and more rows, in float32.  W always has 10 000 x 10 000
# numbers (400 MB).
rng = np.random.default_rng(0)
sizes, seconds, megabytes = (3000, 10_000, 30_000, 100_000), [], []
for n_rows in sizes:
    X, y = sparse_rows(n_rows, rng)
    learner = OASIS(random_state=0)
    learner.partial_fit(X, y, n_steps=100)  # what is made once is not timed
    start = process_time()
    learner.partial_fit(X, y, n_steps=STEPS)
    seconds.append(process_time() - start)
    megabytes.append((X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 1e6)
    micro = seconds[-1] / STEPS * 1e6
    print(f"{n_rows:8,} rows, {megabytes[-1]:6.1f} MB: {micro:5.0f} microseconds a step (CPU)")
    del learner

# %%
# So the time of a fit depends on its number of steps, and more rows only need more memory.
# `MiniBatchOASIS` makes the steps in several threads.  ``python -m oasis_bench web-scale`` is the
# papers' experiment with two million rows.
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.loglog(sizes, np.array(seconds) / STEPS * 1e6, marker="o", label="microseconds a step (CPU)")
axes.loglog(sizes, megabytes, marker="s", linestyle="dashed", label="megabytes of the rows")
axes.set(xlabel="rows")
axes.legend()
plt.show()
