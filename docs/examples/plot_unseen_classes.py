"""
Does a metric generalise to new classes?
========================================

A shop adds products every day, and cannot learn a new metric for each of them.  So a metric that
was learned on some classes must rank others.  Here each learner is fitted on five of the ten
digits, the known classes.  It is evaluated on other rows of these digits, and on the five new ones.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import LDA, LMNN, OASIS, ClassifierPosterior, CosineOASIS, Euclidean

X, y = load_digits(return_X_y=True)
X = normalize(X)
learners = [
    Euclidean(),
    ClassifierPosterior(C=10.0),
    LDA(),
    LMNN(),
    OASIS(n_steps=5000, random_state=0),
    CosineOASIS(n_steps=5000, random_state=0),
]

# %%
# We repeat this for five random halves of the classes.  40 rows of each known class are training
# rows, and the others are test rows.  All rows of the new classes are test rows.
rows = []
for seed in range(5):
    rng = np.random.default_rng(seed)
    seen = rng.permutation(10)[:5]
    train = np.concatenate([rng.permutation(np.flatnonzero(y == c))[:40] for c in seen])
    known = np.setdiff1d(np.flatnonzero(np.isin(y, seen)), train)
    new = np.flatnonzero(~np.isin(y, seen))
    for learner in learners:
        learner.fit(X[train], y[train])
        for kind, items in (("known", known), ("new", new)):
            rows.append((learner.name, kind, seed, learner.score(X[items], y[items])))
mAP = pd.DataFrame(rows, columns=["learner", "classes", "draw", "mAP"])
table = mAP.pivot_table(index="learner", columns="classes", values="mAP", sort=False)
print(table.round(3))

# %%
# A gain among known classes may not generalise.  The clearest case is `ClassifierPosterior`.  It
# computes how likely a row belongs to each of the known classes, which says little about others.
# ``--tasks retrieval,unseen-classes`` evaluates both in one run.
figure, axes = plt.subplots(figsize=(7, 3.5), layout="constrained")
axes.hlines(table.index, table.min(axis=1), table.max(axis=1), color="lightgrey", linewidth=3)
axes.plot(table["known"], table.index, "o", label="known classes")
axes.plot(table["new"], table.index, "D", label="new classes")
axes.invert_yaxis()
axes.set(xlabel="mean average precision, mean of 5 random splits")
figure.legend(loc="outside upper right", ncols=2)
plt.show()
