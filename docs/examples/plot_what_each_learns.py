"""
What does each learner learn?
=============================

Learners have different forms: a distance, a bilinear similarity, class probabilities.  But all of
them score pairs of items.  Here each learner ranks the same training rows for each test row.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import rankdata
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize, scale

from oasis_bench.algorithms import (
    GMML,
    ITML,
    LDA,
    LEGO,
    LFDA,
    LMNN,
    MCML,
    MMC,
    NCA,
    OASIS,
    PLDA,
    RCA,
    WCCN,
    AveragedOASIS,
    ClassifierPosterior,
    CosineOASIS,
    Covariance,
    DissimOASIS,
    Euclidean,
    FastLMNN,
    ForestProximity,
    LocalDistances,
    MiniBatchOASIS,
    NearestNeighbourMemory,
    OnlineProjOASIS,
    ProjOASIS,
    PsdOASIS,
    StandardizedEuclidean,
    WhitenedOASIS,
)

X, y = load_wine(return_X_y=True)
X = normalize(scale(X))
train, test, of_train, of_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
train, of_train = train[np.argsort(of_train)], np.sort(of_train)
test, of_test = test[np.argsort(of_test)], np.sort(of_test)

# %%
# The rows are 89 training and 89 test wines of three growers, standardised and of unit length.  The
# parameters are the defaults, with 1000 steps for learners that learn in steps.
in_steps = [OASIS, CosineOASIS, PsdOASIS, ProjOASIS, OnlineProjOASIS, DissimOASIS]
in_steps += [WhitenedOASIS, AveragedOASIS, MiniBatchOASIS, LEGO]
learners = [Euclidean(), StandardizedEuclidean(), Covariance(), ClassifierPosterior()]
learners += [NearestNeighbourMemory()]
learners += [learner(n_steps=1000, random_state=0) for learner in in_steps]
learners += [LMNN(), FastLMNN(), MCML(), NCA(random_state=0), LDA(), LFDA(), RCA(), MMC()]
learners += [ITML(random_state=0), LocalDistances(random_state=0)]
learners += [PLDA(), WCCN(), GMML(), ForestProximity(random_state=0)]

ranks = {}
for learner in learners:
    learner.fit(train, of_train)
    if isinstance(learner, LocalDistances):  # it only has distances to training rows
        scores = learner.similarity_to_training(test)
    else:
        scores = learner.similarity(test, train)
    name = type(learner).__name__
    ranks[name] = rankdata(-scores, axis=1)
    first = np.argsort(ranks[name], axis=1, kind="stable")[:, :10]
    right = np.mean(of_train[first] == of_test[:, None])
    print(f"{name:22} precision at 10: {right:.3f}")

# %%
# A panel has a line for each test row and a column for each training row, both sorted by class.
# The darker a point, the earlier the test row ranks this training row.  If all rows of the class
# come first, there are three dark blocks on the diagonal.  A block of one shade means that the
# learner knows the class and nothing else, as `NearestNeighbourMemory` does.
figure, panels = plt.subplots(7, 5, figsize=(10, 14.5), layout="constrained")
for axes in panels.flat:
    axes.set_axis_off()
for axes, (name, order) in zip(panels.flat, ranks.items(), strict=False):
    axes.imshow(order, cmap="Blues_r")
    axes.set_title(name, fontsize="small")
plt.show()
