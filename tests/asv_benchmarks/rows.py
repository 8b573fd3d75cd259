"""Rows of unit length for the benchmarks, drawn anew in each process.  Not a benchmark itself."""

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

KINDS = ["sparse 1000", "sparse 10000", "digits 64", "pixels 784", "embeddings 1280"]
"""And their numbers of features."""

N_ROWS = 20_000  # the rows of a step do not lie in the cache
N_NONZERO = 70


def noise(kind, dtype, n_rows=N_ROWS):
    """Return rows of a kind and ten classes that they do not depend on: most steps are updates.

    Digits are all that there are.
    """
    name, d = kind.split()
    d = int(d)
    if name == "digits":
        X = load_digits().data
    elif name == "pixels":
        X = pixels(n_rows, d)
    elif name in ("dense", "embeddings"):
        X = np.random.default_rng(0).standard_normal((n_rows, d))
    else:
        X = visterms(n_rows, d)
    y = np.random.default_rng(1).integers(10, size=X.shape[0])
    return normalize(X).astype(dtype), y


def popularity(d):
    """Return how often each visterm occurs: by rank as in the Caltech images, ranks shuffled."""
    rank = np.arange(1, d + 1)
    popular = rank**-0.25 * np.exp(-3 * rank / d)
    return np.random.default_rng(0).permutation(popular) / popular.sum()


def visterms(n_rows, d):
    """Draw CSR rows of about 70 visterms, one of each 70th part of their popularity."""
    rng = np.random.default_rng(0)
    places = (np.arange(N_NONZERO) + rng.random((n_rows, N_NONZERO))) / N_NONZERO
    columns = np.searchsorted(np.cumsum(popularity(d))[:-1], places).astype(np.int32)
    indptr = np.arange(0, columns.size + 1, N_NONZERO, dtype=np.int32)
    X = sparse.csr_array((rng.random(columns.size), columns.ravel(), indptr), shape=(n_rows, d))
    X.sum_duplicates()
    return X


def pixels(n_rows, d):
    """Draw dense rows with as many zeros as MNIST has."""
    rng = np.random.default_rng(0)
    return rng.random((n_rows, d)) * (rng.random((n_rows, d)) < 0.19)
