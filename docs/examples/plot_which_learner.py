"""
Which learner should I use for my table?
========================================

That depends on the table, so measure it.  `oasis_bench.run` takes a DataFrame with a column of
labels.  It tunes each learner on inner folds, and says which learners are as good as the best,
worse, or not distinguishable from it.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
from sklearn.datasets import load_wine

import oasis_bench

table = load_wine(as_frame=True).frame.rename(columns={"target": "cultivar"})
print(table.iloc[:3, [0, 1, 2, -2, -1]])

# %%
# Columns with different units must be scaled.  For a table the scaling is tuned by default.  The
# first two learners are baselines, which a metric must beat to be useful.
result = oasis_bench.run(
    table,
    ["Euclidean", "ClassifierPosterior", "LDA", "OASIS", "LMNN"],
    label="cultivar",
    classes=3,
    partitions=3,
    inner_folds=2,
    search=4,
    max_steps=4000,
    tasks=["retrieval", "classification"],
    output=Path(tempfile.mkdtemp(), "run"),
)
result

# %%
# What is the quality, and what does it cost? The seconds are those of tuning and the final fit.
quality = result.measures.query("task == 'retrieval' and measure == 'mAP'")
quality = quality.groupby("learner")["value"].agg(["mean", "std"])
parts = ["tuning_fit_seconds", "tuning_score_seconds", "fit_seconds"]
costs = result.trials.groupby("learner")[parts].mean().fillna(0).sum(axis=1).rename("seconds")
print(quality.join(costs).sort_values("mean", ascending=False).round(3).to_string())

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for marker, (name, (mean, deviation)) in zip("osD^v", quality.iterrows(), strict=True):
    axes.errorbar(costs[name], mean, yerr=deviation, fmt=marker, capsize=3, label=name)
axes.set_xscale("log")
axes.set(xlabel="seconds of tuning and fit", ylabel="mAP, mean and deviation")
axes.legend(fontsize="small", ncols=2)
plt.show()
