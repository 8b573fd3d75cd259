"""A data set of which people judged triplets and rated candidates, by the first column alone."""

import numpy as np

from oasis_bench.data import JudgedTriplets, LabelledRows, Ratings
from oasis_bench.plugins import Dataset
from oasis_bench.system import no_progress

N_QUERIES, N_OTHERS = 24, 60


class JudgedItems(Dataset):
    """Queries 0 to 23, each judged with items of its own among the others; no two share a class."""

    name = "judged-items"
    summary = "items that are alike where their first columns are"
    citation = licence = "none"
    normalize = "none"

    def load(self, progress=no_progress):
        rng = np.random.default_rng(0)
        n_items = N_QUERIES + N_OTHERS
        X = rng.normal(size=(n_items, 6))
        X[:, 0] = np.where(rng.random(n_items) < 0.5, -1, 1)
        others = N_QUERIES + rng.permutation(N_OTHERS)[: N_QUERIES * 2].reshape(N_QUERIES, 2)
        like = X[others, 0] == X[:N_QUERIES, :1]
        unlike = like[:, 0] == like[:, 1]
        X[others[unlike, 1], 0] *= -1  # then one of the two is like the query, the other is not
        first = np.where((X[others[:, 0], 0] == X[:N_QUERIES, 0])[:, None], others, others[:, ::-1])
        queries = np.arange(N_QUERIES)
        judged = JudgedTriplets(np.column_stack([queries, first]), None, queries)
        ratings = Ratings(
            np.repeat(queries, 2),
            first.ravel(),
            np.tile([[True, True, True], [False, False, True]], (N_QUERIES, 1)),
        )
        y, names = np.arange(n_items), tuple(map(str, range(n_items)))
        return LabelledRows(X, y, names, judged=judged, ratings=ratings)
