"""
How do I learn from triplets?
=============================

Sometimes there are no classes, only judgements: which of two items is more similar to a third?
Learners whose ``takes_triplets`` is true learn from triplets of row numbers (query, positive,
negative).

The judge here is simulated.  It only looks at three of the thirteen measurements of a wine.  So we
know what a learner should find.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from oasis_bench.algorithms import DissimOASIS

wine = load_wine()
X = StandardScaler().fit_transform(wine.data)
X /= np.linalg.norm(X, axis=1).mean()
seen_by_judge = [wine.feature_names.index(n) for n in ("alcohol", "hue", "proline")]


def answers(rows, n, rng):
    """Draw questions about `rows`, and put the item that the judge finds nearer first."""
    query, a, b = np.array([rng.choice(rows, 3, replace=False) for _ in range(n)]).T
    Z = X[:, seen_by_judge]
    a_nearer = np.linalg.norm(Z[query] - Z[a], axis=1) < np.linalg.norm(Z[query] - Z[b], axis=1)
    return np.column_stack([query, np.where(a_nearer, a, b), np.where(a_nearer, b, a)])


# %%
# We split the rows, not the triplets.  So no row of a test question is a training row.
rng = np.random.default_rng(0)
order = rng.permutation(len(X))
train, test = order[:120], order[120:]
held_back = answers(test, 2000, rng)


def agreement(learner):
    """Return the share of held-back answers that the learner gives, too."""
    query, positive, negative = (X[held_back[:, k]] for k in range(3))
    nearer = learner.pair_score(np.stack([query, positive], axis=1))
    return np.mean(nearer > learner.pair_score(np.stack([query, negative], axis=1)))


# %%
# ``partial_fit_triplets`` applies the triplets in their order.  Thousands of answers take a second.
learner, asked, curve = DissimOASIS(aggressiveness=0.1), [], []
for n in (1, 30, 70, 200, 700, 2000, 7000, 20_000):
    learner.partial_fit_triplets(X, answers(train, n - sum(asked), rng))
    asked.append(n - sum(asked))
    curve.append(agreement(learner))
    print(f"{n:6,} answers: agreement {curve[-1]:.3f}")

# %%
# The diagonal of W has a weight for each measurement.  So you can see what was learned.
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.semilogx(np.cumsum(asked), curve, marker="o")
left.axhline(0.5, color="grey", linestyle="dashed", label="chance")
left.set(xlabel="answers learned from", ylabel="agreement with held-back answers")
left.legend()
weights = np.diag(learner.dissimilarity_matrix_)
colours = ["tab:orange" if k in seen_by_judge else "tab:blue" for k in range(len(weights))]
right.barh(wine.feature_names, weights, color=colours)
right.invert_yaxis()
right.set(xlabel="diagonal of W (orange: what the judge looks at)")
plt.show()
