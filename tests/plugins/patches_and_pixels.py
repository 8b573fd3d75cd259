"""A learner that takes patches and pixels, and learns from labels and judged triplets together."""

import numpy as np

from oasis_bench.plugins import EmbeddingLearner


class KindOfColour(EmbeddingLearner):
    """Weighs mean colours, and the mean of each kind of patches, by whether they fit triplets."""

    name = "KindOfColour"
    summary = "mean colours and patches, each as often as it is right"
    citation = "none"
    takes = "patches+pixels"
    takes_labels_with_triplets = True

    def fit(self, X, y, *, triplets=None):
        assert len(X.pixels) == len(X) == len(y)
        self.shares_ = np.ones(1 + len(X.kinds))
        self.norms_ = [max(1e-9, np.linalg.norm(p, axis=1).mean()) for p in self._parts(X)]
        if triplets is not None:
            assert (np.asarray(y)[triplets] == np.asarray(y)[triplets[:, :1]]).all()
            for number, rows in enumerate(self._parts(X)):
                q, p, n = (rows[triplets[:, place]] for place in range(3))
                nearer = ((q - p) ** 2).sum(axis=1) < ((q - n) ** 2).sum(axis=1)
                self.shares_[number] = nearer.mean()
        return self

    def embed(self, X):
        parts = zip(self.shares_, self.norms_, self._parts(self._check_items(X)), strict=True)
        return np.hstack([share * rows / norm for share, norm, rows in parts])

    def _parts(self, X):
        described = [
            np.array([item[kind].mean(axis=0) for item in X], dtype=float) for kind in X.kinds
        ]
        return [X.pixels.reshape(len(X), -1, 3).mean(axis=1) / 255, *described]
