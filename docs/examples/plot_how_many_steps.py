"""
How many steps does OASIS need?
===============================

OASIS learns from one triplet at a time, so it can be evaluated while it learns: ``partial_fit``
continues from the current state.  Here OASIS learns from half of the digits, and ranks the other
half.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from oasis_bench.algorithms import OASIS, Euclidean

X, y = load_digits(return_X_y=True)
X = normalize(X)

# %%
# For three random halves, the table shows the mean average precision after each number of steps.
# Before the first step, OASIS ranks rows of unit length as the Euclidean distance does.
steps = [0, 300, 1000, 3000, 10_000, 30_000, 100_000]
curves = {}
for seed in range(3):
    train, test, of_train, of_test = train_test_split(
        X, y, test_size=0.5, stratify=y, random_state=seed
    )
    learner, done, curve = OASIS(random_state=seed), 0, []
    for n in steps:
        learner.partial_fit(train, of_train, n_steps=n - done)
        done = n
        curve.append(learner.score(test, of_test))
    curves[f"half {seed}"] = curve
table = pd.DataFrame(curves, index=pd.Index(steps, name="steps"))
print(table.round(3))

# %%
# The first steps can make the ranking worse than Euclidean, because each step only improves one
# triplet.  Later steps gain less and less.  So the number of steps must be tuned.
# ``python -m oasis_bench run`` tunes it on folds of the training rows, never on the test rows.
mean = table.mean(axis=1)
euclidean = Euclidean().fit(train).score(test, of_test)
print(f"half {seed}: {curve[0]:.3f} after 0 steps, Euclidean {euclidean:.3f}")
print(f"better than Euclidean on the mean from {mean[1:].gt(mean[0]).idxmax():,} steps on")
near = mean.gt(mean.max() - 0.05).idxmax()
print(f"best at {mean.idxmax():,} steps; within .05 of the best from {near:,} on")

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for marker, (name, curve) in zip("os^", curves.items(), strict=True):
    axes.plot(steps, curve, marker=marker, label=name)
axes.set_xscale("symlog", linthresh=300)
axes.set_xticks(steps, [f"{n:,}" for n in steps], rotation=30)
axes.set(xlabel="steps (triplets)", ylabel="mean average precision, test rows")
axes.legend()
plt.show()
