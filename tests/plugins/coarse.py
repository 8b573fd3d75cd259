"""A similarity of few values, and items of several words of which some share none with another."""

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import cosine_similarity

from oasis_bench.data import LabelledRows
from oasis_bench.plugins import Dataset, MetricLearner
from oasis_bench.system import no_progress


class Coarse(MetricLearner):
    """Its rankings are full of ties."""

    name = "Coarse"
    summary = "cosine similarity, rounded to tenths"
    citation = "none"
    takes_relevance = True

    def fit(self, X, y):
        self.n_features_in_ = X.shape[1]
        return self

    def similarity(self, queries, gallery):
        return np.round(cosine_similarity(queries, gallery), 1)


class Words(Dataset):
    """Items 0 to 69 have one to three of eight words; each of the others has a word of its own."""

    name = "words"
    summary = "80 items of noise with words"
    citation = licence = "none"

    def load(self, progress=no_progress):
        rng = np.random.default_rng(0)
        y = np.zeros((80, 18), dtype=np.float32)
        for row in y[:70]:
            row[rng.choice(8, rng.integers(1, 4), replace=False)] = 1
        y[np.arange(70, 80), np.arange(8, 18)] = 1
        X = y[:, :8] @ rng.normal(size=(8, 6)) + rng.normal(size=(80, 6))
        return LabelledRows(X, sparse.csr_array(y), tuple(map(str, range(18))))
