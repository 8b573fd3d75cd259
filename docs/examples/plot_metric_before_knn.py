"""
Does a metric before k-NN help?
===============================

A learner with ``transform`` can be a step of a scikit-learn pipeline.  It maps rows to a space in
which the Euclidean distance is the learned distance.  A nearest-neighbour classifier can follow.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_wine
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from oasis_bench.algorithms import LDA, LMNN, NCA, RCA

X, y = load_wine(return_X_y=True)

# %%
# All pipelines use the same folds.  The metric is a step of the pipeline, so it is learned only
# from the training rows of each fold.
folds = RepeatedStratifiedKFold(n_splits=5, n_repeats=4, random_state=0)
neighbours = KNeighborsClassifier(n_neighbors=3)
pipelines = {
    "rows as they are": make_pipeline(neighbours),
    "standardised": make_pipeline(StandardScaler(), neighbours),
    "+ RCA": make_pipeline(StandardScaler(), RCA(), neighbours),
    "+ LDA": make_pipeline(StandardScaler(), LDA(), neighbours),
    "+ NCA": make_pipeline(StandardScaler(), NCA(random_state=0), neighbours),
    "+ LMNN": make_pipeline(StandardScaler(), LMNN(), neighbours),
}
accuracy = pd.DataFrame(
    {name: cross_val_score(pipeline, X, y, cv=folds) for name, pipeline in pipelines.items()}
)
print(accuracy.agg(["mean", "std"]).T.round(3))

# %%
# Some folds are harder than others.  So compare on each fold: the difference from the standardised
# rows on the same fold shows what a metric adds.
difference = accuracy.drop(columns="standardised").sub(accuracy["standardised"], axis=0)
print("\nmean difference from the standardised rows")
print(difference.mean().round(3).to_string())

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.boxplot(accuracy, tick_labels=accuracy.columns)
axes.set(ylabel="accuracy of 3-NN, 20 test folds")
axes.tick_params(axis="x", rotation=20)
plt.show()
