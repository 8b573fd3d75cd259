"""
How do I read a run in pandas?
==============================

A run is a folder with one SQLite file.  `RunResult` opens it, whoever made it: the command,
`oasis_bench.run` or a cluster.  Its tables have a row for each trial, and a row for each number.
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
    ["Euclidean", "RCA"],
    classes=[3, 6],
    partitions=3,
    inner_folds=2,
    search=2,
    output=folder,
)

# %%
# A row for each trial: how it ended, its tuned values, what it cost.
result = RunResult(folder)
columns = ["learner", "n_classes", "partition", "status", "params", "fit_seconds"]
print(result.trials[columns].head(6).to_string(index=False))

# %%
# A row for each number, with the value that a random order would have.
measures = result.measures
columns = ["learner", "subset", "partition", "task", "measure", "k", "value", "chance"]
print(measures[columns].head(4).to_string(index=False))

# %%
# Learners had the same partitions, so differences are taken partition by partition.
# Partitions share items, which a plain t-test ignores.  The intervals of a report, and these, are
# therefore wider.  The correlation rho of partitions is the harmonic mean of two shares of the
# items: those that train and those that test in one partition.
mAP = measures.query("task == 'retrieval' and measure == 'mAP'")
mAP = mAP.pivot_table(index=["subset", "partition"], columns="learner", values="value")
gain = mAP["RCA"] - mAP["Euclidean"]
rho = result.trials.groupby("subset")["rho"].mean()
for subset, rows in gain.groupby("subset"):
    error = np.sqrt((1 / len(rows) + rho[subset] / (1 - rho[subset])) * rows.var())
    half = stats.t.ppf(0.975, len(rows) - 1) * error
    print(f"{subset} classes, RCA less Euclidean: {rows.mean():+.3f} ± {half:.3f}")

# %%
# Or plot every partition: a line joins the values measured on the same items.
figure, panels = plt.subplots(1, 2, figsize=(7, 3.5), sharey=True, layout="constrained")
for axes, (subset, rows) in zip(panels, mAP.groupby("subset"), strict=True):
    axes.plot(rows.columns, rows.T, marker="o")
    axes.set(title=f"{subset} classes", ylabel="mAP")
    axes.margins(x=0.3)
plt.show()
