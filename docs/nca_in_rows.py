"""Accuracies of the publication's NCA on tables of KEEL, beside the published ones (claim K1).

    python docs/nca_in_rows.py iris wine glass    # prints a line for each table, as Markdown

Stochastic NCA, as pyDML 0.1.0 has it by default and the publication used it, climbs on one row
after the other and stops early; our learner goes on to the optimum.  Here its map transforms the
rows for scikit-learn's KNeighborsClassifier, on the ten folds of each table, scaled to 0 to 1.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import MinMaxScaler

from oasis_bench.plugins import Registry

PUBLISHED = Path(__file__).parents[1] / "oasis_bench/claims/published/knn_keel.csv"


def nca_in_rows(X, y, rng, n_passes=100, rate=0.3):
    """Return L (d, d) by ascent on one row after the other, with a rate that adapts to each pass.

    It stops where the rate times the largest derivative of the last row is below 1e-8.
    """
    L, before, is_same = np.eye(X.shape[1]), 0.0, y[:, None] == y
    for _ in range(n_passes):
        for i in rng.permutation(len(X)):
            differences = X - X[i]
            near = _softmax(-np.square(differences @ L.T).sum(axis=1)[None], [i])[0]
            weights = near * (near @ is_same[i] - is_same[i])
            gradient = 2 * L @ ((differences * weights[:, None]).T @ differences)
            L = L + rate * gradient
        rows = X @ L.T
        norms = np.square(rows).sum(axis=1)
        now = (_softmax(2 * rows @ rows.T - norms[:, None] - norms, range(len(X))) * is_same).sum()
        rate *= 1.01 if now > before else 0.5
        before = now
        if rate < 1e-14 or rate * np.abs(gradient).max() < 1e-8:
            break
    return L


def _softmax(scores, own):
    """Return the softmax of each row, in which the item `own` of the row has no part."""
    scores[np.arange(len(scores)), own] = -np.inf
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)


def accuracies(table):
    """Return the mean accuracy over the folds of a table, by k."""
    data = Registry.load().open_dataset("keel", {"table": table}).load()
    X, y, folds = np.asarray(data.prepared(), dtype=float), data.y, data.folds
    found = {k: [] for k in (3, 5, 7)}
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        scaler = MinMaxScaler().fit(X[train])
        rows, queries = scaler.transform(X[train]), scaler.transform(X[test])
        L = nca_in_rows(rows, y[train], np.random.default_rng(int(fold)))
        for k, scores in found.items():
            classifier = KNeighborsClassifier(k).fit(rows @ L.T, y[train])
            scores.append(classifier.score(queries @ L.T, y[test]))
    return {k: np.mean(scores) for k, scores in found.items()}


if __name__ == "__main__":
    published = pd.read_csv(PUBLISHED).set_index(["learner", "table", "k"])["accuracy"].sort_index()
    for table in sys.argv[1:]:
        theirs = published["NCA", table]
        cells = [f"{own:.4f} ({theirs[k]:.4f})" for k, own in accuracies(table).items()]
        print(f"| {table} | {' | '.join(cells)} |", flush=True)
