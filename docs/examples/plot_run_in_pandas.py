"""
How do I read a run in pandas?
==============================

A run is a folder with an SQLite file.  `RunResult` opens it, whether it was made by the command, by
`oasis_bench.run` or on a cluster.  One table has a row for each trial, another one a row for each
measured value.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import oasis_bench
from oasis_bench.notebook import RunResult

folder = Path(tempfile.mkdtemp(), "run")
oasis_bench.run(
    "digits",
    ["Euclidean", "NCA"],
    classes=[3, 6],
    partitions=3,
    inner_folds=2,
    search=2,
    output=folder,
)

# %%
# ``trials`` has a row for each trial: its status, its tuned values, and its costs.
result = RunResult(folder)
columns = ["learner", "n_classes", "partition", "status", "params", "fit_seconds"]
print(result.trials[columns].head(6).to_string(index=False))

# %%
# ``measures`` has a row for each measured value, with its expected value for a random ranking.
measures = result.measures
columns = ["learner", "subset", "partition", "task", "measure", "k", "value", "chance"]
print(measures[columns].head(4).to_string(index=False))

# %%
# Learners had the same partitions, so compute differences on each partition.  A plain t-test
# ignores that partitions share items.  The intervals of a report, and those computed here, are
# wider for this reason.  rho is the correlation between partitions: the harmonic mean of the shares
# of the items that train and that test in one partition.
mAP = measures.query("task == 'retrieval' and measure == 'mAP'")
mAP = mAP.pivot_table(index=["subset", "partition"], columns="learner", values="value")
gain = mAP["NCA"] - mAP["Euclidean"]
rho = result.trials.groupby("subset")["rho"].mean()
for subset, rows in gain.groupby("subset"):
    error = np.sqrt((1 / len(rows) + rho[subset] / (1 - rho[subset])) * rows.var())
    half = stats.t.ppf(0.975, len(rows) - 1) * error
    print(f"{subset} classes, NCA minus Euclidean: {rows.mean():+.3f} ± {half:.3f}")

# %%
# You can also plot every partition.  A line connects the values measured on the same items.
figure, panels = plt.subplots(1, 2, figsize=(7, 3.5), sharey=True, layout="constrained")
for axes, (subset, rows) in zip(panels, mAP.groupby("subset"), strict=True):
    axes.plot(rows.columns, rows.T, marker="o")
    axes.set(title=f"{subset} classes", ylabel="mAP")
    axes.margins(x=0.3)
plt.show()
