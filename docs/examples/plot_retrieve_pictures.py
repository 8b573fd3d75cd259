"""
Which pictures come first, before and after learning?
=====================================================

A metric is learned so that pictures of the same class come first.  What does that look like?  The
rows are the pixels of scanned digits.  You can use features of photographs in the same way.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import CosineOASIS, Euclidean
from oasis_bench.tasks import top_k

digits = load_digits()
X, y = normalize(digits.data), digits.target
train, test = train_test_split(np.arange(len(y)), test_size=0.5, stratify=y, random_state=0)

# %%
# Every test picture is a query against all other test pictures.  ``top_k`` finds the best ten.  It
# computes scores block by block, so a large gallery does not need a large matrix.
K = 10
learners = {
    "Euclidean": Euclidean().fit(X[train], y[train]),
    "CosineOASIS": CosineOASIS(n_steps=30_000, random_state=0).fit(X[train], y[train]),
}
found = {}
for name, learner in learners.items():
    found[name], _ = top_k(
        learner.similarity, X[test], X[test], K, seed=0, left_out=np.arange(len(test))
    )
hits = {name: y[test][rows] == y[test][:, None] for name, rows in found.items()}
for name, right in hits.items():
    print(f"{name}: of the first {K} pictures {right.mean():.1%} are of the query's class")

# %%
# The figure shows the two queries that gain most, one in the middle, and the two that lose most.
# Pictures of the query's class have a green frame with a full line, the others a red, dotted one.
gain = hits["CosineOASIS"].sum(axis=1) - hits["Euclidean"].sum(axis=1)
order = np.argsort(-gain, kind="stable")
chosen = order[[0, 1, len(order) // 2, -2, -1]]


def show(axes, number, colour=None, style="solid"):
    axes.imshow(digits.images[test[number]], cmap="gray_r")
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set(color=colour or "black", linewidth=2.5 if colour else 0.5, linestyle=style)


figure, panels = plt.subplots(2 * len(chosen), K + 1, figsize=(9, 9.5), layout="constrained")
for row, query in enumerate(chosen):
    for line, (name, rows) in enumerate(found.items()):
        axes = panels[2 * row + line]
        show(axes[0], query)
        axes[0].set_ylabel(name, rotation=0, ha="right", va="center")
        for place, number in enumerate(rows[query]):
            right = hits[name][query, place]
            show(
                axes[place + 1],
                number,
                "tab:green" if right else "tab:red",
                "solid" if right else "dotted",
            )
    panels[2 * row][0].set_title(f"{gain[query]:+d} right", fontsize="small")
plt.show()
