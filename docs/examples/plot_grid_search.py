"""
How do I tune a learner with scikit-learn?
==========================================

Learners are scikit-learn estimators, so they work in pipelines, `cross_val_score` and
`GridSearchCV`.  A scorer is the measure to optimise: mean average precision, recall at 1, or the
accuracy of nearest neighbours.
"""

import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from oasis_bench import scorers
from oasis_bench.algorithms import OASIS

X, y = load_digits(return_X_y=True)
train, test, of_train, of_test = train_test_split(X, y, train_size=400, stratify=y, random_state=0)

# %%
# scikit-learn does not treat a learner as a classifier, so its default folds are blocks of
# successive rows.  Pass folds that are stratified.  ``measures`` computes several measures from one
# ranking, and ``refit`` names the measure to optimise.
search = GridSearchCV(
    make_pipeline(Normalizer(), OASIS(random_state=0)),
    {"oasis__aggressiveness": [0.01, 0.1, 1.0], "oasis__n_steps": [1000, 5000, 20_000]},
    scoring=scorers.measures("mAP", "recall@1"),
    refit="mAP",
    cv=StratifiedKFold(4, shuffle=True, random_state=0),
)
search.fit(train, of_train)
tried = pd.DataFrame(search.cv_results_).rename(columns=lambda name: name.split("__")[-1])
print(tried[["aggressiveness", "n_steps", "mean_test_mAP", "mean_test_recall@1"]].round(3))
print("tuned:", search.best_params_)

# %%
# The fitted pipeline ranks new rows: ``similarity_of`` applies all steps to them.  The result is
# evaluated on rows that were not used in the search.
scores = scorers.similarity_of(search, test[:3], train)
print(scores.shape)
for name in ("mAP", "recall@1"):
    print(f"test rows, {name}: {scorers.measures(name)(search, test, of_test)[name]:.3f}")

figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
for marker, (aggressiveness, rows) in zip("os^", tried.groupby("aggressiveness"), strict=True):
    axes.errorbar(
        rows["n_steps"],
        rows["mean_test_mAP"],
        yerr=rows["std_test_mAP"],
        marker=marker,
        capsize=3,
        label=f"C = {aggressiveness}",
    )
axes.set_xscale("log")
axes.set(xlabel="steps", ylabel="mAP on the folds, mean and deviation")
axes.legend()
plt.show()
