"""
Does a metric help on top of my embeddings?
===========================================

A network was trained on some classes, and its embeddings are used for other classes.  Does a metric
that is learned from a few labelled rows rank them better than the cosine?

Here a small network takes the place of yours.  It has learned to distinguish the digits 0 to 3, and
embeds the six other digits, which it has never seen.  For your own pictures, ``--features
efficientnet-lite0`` makes embeddings with a pretrained network.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import LDA, OASIS, ClassifierPosterior, Euclidean

digits = load_digits()
of_network = digits.target < 4
network = MLPClassifier(hidden_layer_sizes=(64,), max_iter=300, tol=1e-3, random_state=0)
network.fit(digits.data[of_network] / 16, digits.target[of_network])
X = np.maximum(digits.data[~of_network] / 16 @ network.coefs_[0] + network.intercepts_[0], 0)
y = digits.target[~of_network]

# %%
# Rows have unit length, so the Euclidean distance ranks as the cosine does.  Embeddings often point
# in similar directions.  So each learner is also tried on centred rows, from which the mean of the
# training rows is subtracted.  Three of the six digits are known classes, with 40 training rows
# each.  The other three are new.
learners = {
    "cosine": Euclidean(),
    "ClassifierPosterior": ClassifierPosterior(C=10.0),
    "LDA": LDA(),
    "OASIS": OASIS(n_steps=5000, random_state=0),
}
found = []
for draw in range(4):
    rng = np.random.default_rng(draw)
    seen = rng.permutation(np.unique(y))[:3]
    train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:40] for c in seen])
    tests = {
        "known": np.setdiff1d(np.flatnonzero(np.isin(y, seen)), train),
        "new": np.flatnonzero(~np.isin(y, seen)),
    }
    for centre, name in ((np.zeros(X.shape[1]), ""), (X[train].mean(axis=0), ", centred")):
        rows = normalize(X - centre)
        for label, learner in learners.items():
            learner.fit(rows[train], y[train])
            for kind, items in tests.items():
                found.append((label + name, kind, draw, learner.score(rows[items], y[items])))
mAP = pd.DataFrame(found, columns=["learner", "classes", "draw", "mAP"])
table = mAP.groupby(["learner", "classes"], sort=False)["mAP"].agg(["mean", "std"]).unstack()
print(table.round(3))

# %%
# A metric can help among the classes that it has learned from, and harm among others.  So measure
# both before you use a metric for an index.  The next command does this for a file of embeddings
# (arrays ``X`` and ``y``).  It tunes for each learner whether to centre the rows::
#
#     python -m oasis_bench run --dataset embeddings.npz --scaling l2,center+l2 \
#         --tasks retrieval,unseen-classes
figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
for axes, kind in zip(panels, ("known", "new"), strict=True):
    axes.errorbar(table["mean"][kind], table.index, xerr=table["std"][kind], fmt="o", capsize=3)
    axes.axvline(table["mean"][kind]["cosine"], color="grey", linestyle="dashed")
    axes.set(title=f"{kind} classes", xlabel="mAP, mean and deviation of 4 random splits")
panels[0].invert_yaxis()
plt.show()
