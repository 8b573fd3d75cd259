"""Compares published accuracies of k nearest neighbours with those of scikit-learn's classifier.

    python docs/knn_of_keel.py iris wine glass    # prints a line for each table, as Markdown

The publication (claim K1) classifies with scikit-learn's KNeighborsClassifier, which breaks ties of
votes by the order of the classes; the task `classification` breaks them for the nearer class.  Here
our learners, with the settings of the experiment `keel`, transform the rows for that classifier,
on the ten folds of each table, scaled to 0 to 1.  'NCA in rows' is stochastic NCA as pyDML 0.1.0
has it by default, which the publication used.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import MinMaxScaler

from oasis_bench.experiment import read_experiment
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
    """Return the mean accuracies over the folds of a table, by learner and k."""
    learners, registry = read_experiment("keel").learners, Registry.load()
    data = registry.open_dataset("keel", {"table": table}).load()
    X, y, folds = np.asarray(data.prepared(), dtype=float), data.y, data.folds
    found = []
    for fold in np.unique(folds):
        train, test = folds != fold, folds == fold
        scaler = MinMaxScaler().fit(X[train])
        rows, queries = scaler.transform(X[train]), scaler.transform(X[test])
        L = nca_in_rows(rows, y[train], np.random.default_rng(int(fold)))
        maps = {"NCA in rows": (rows @ L.T, queries @ L.T)}
        for name in LEARNERS:
            spec = learners[name]
            learner = registry.algorithms[spec.algorithm](**spec.params)
            if "random_state" in learner.get_params():
                learner.set_params(random_state=0)
            learner.fit(rows, y[train])
            maps[name] = learner.transform(rows), learner.transform(queries)
        for name, (own, asked) in maps.items():
            for k in (3, 5, 7):
                if name in (f"LMNN-{k}", *LEARNERS[:3], "MCML", "NCA in rows"):
                    score = KNeighborsClassifier(k).fit(own, y[train]).score(asked, y[test])
                    found.append(("LMNN" if "LMNN" in name else name, k, score))
    return pd.DataFrame(found, columns=["learner", "k", "accuracy"])


LEARNERS = ("Euclidean", "LDA", "NCA", "LMNN-3", "LMNN-5", "LMNN-7", "MCML")

if __name__ == "__main__":
    published = pd.read_csv(PUBLISHED).replace({"learner": "LMNN-."}, "LMNN", regex=True)
    published = published.set_index(["table", "learner", "k"])["accuracy"].sort_index()
    for table in sys.argv[1:]:
        means = accuracies(table).groupby(["learner", "k"], sort=False)["accuracy"].mean()
        for learner, own in means.groupby("learner", sort=False):
            theirs = published[table, learner.partition(" ")[0]]
            cells = [f"{own[learner, k]:.4f} ({theirs[k]:.4f})" for k in (3, 5, 7)]
            print(f"| {table} | {learner} | {' | '.join(cells)} |", flush=True)
