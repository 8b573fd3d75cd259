"""
Does a metric before k-NN help?
===============================

A learner with ``transform`` is a step of a scikit-learn pipeline: rows are mapped to a space in
which the plain Euclidean distance is the learned one, and any classifier of neighbours goes after
it.
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
# The same folds for all; the metric is learned on the training rows of each fold alone, because it
# is a step of the pipeline that is cross-validated.
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
# Folds differ in how hard they are, so what a metric adds is read fold by fold: the difference
# from the standardised rows on the same fold.
difference = accuracy.drop(columns="standardised").sub(accuracy["standardised"], axis=0)
print("\nmean difference from the standardised rows")
print(difference.mean().round(3).to_string())

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.boxplot(accuracy, tick_labels=accuracy.columns)
axes.set(ylabel="accuracy of 3-NN, 20 test folds")
axes.tick_params(axis="x", rotation=20)
plt.show()
