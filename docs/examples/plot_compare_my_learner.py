"""
How do I compare my learner?
============================

A learner is a Python class in a file.  It derives from a base class for its form (here
`MahalanobisLearner`, a distance), has a name, and defines ``fit``.  It inherits everything else:
``similarity``, ``transform``, ``score``.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt

import oasis_bench

folder = Path(tempfile.mkdtemp())
plugin = folder / "within_class_scaling.py"
SOURCE = '''
"""A learner of my own: scale features by how much they vary within classes."""
import numpy as np
from oasis_bench.plugins import MahalanobisLearner
from sklearn.utils.validation import validate_data


class WithinClassScaling(MahalanobisLearner):
    """Each feature over its standard deviation within classes."""

    name = "WithinClassScaling"
    summary = "features over their deviations within classes"
    citation = "none"
    search_space = {"floor": (0.001, 0.01, 0.1)}

    def __init__(self, floor=0.01):
        self.floor = floor

    def fit(self, X, y):
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        means = {label: X[y == label].mean(axis=0) for label in np.unique(y)}
        within = np.mean([(x - means[c]) ** 2 for x, c in zip(X, y)], axis=0)
        self.components_ = np.diag(1 / np.sqrt(within + self.floor**2))
        return self
'''
with plugin.open("w") as file:
    file.write(SOURCE)

# %%
# ``python -m oasis_bench check FILE`` tests what every learner must do.  Then ``run`` compares it
# with others on the same partitions and with the same budget for tuning.  The learner must be in a
# file, because each fit runs in its own process.
result = oasis_bench.run(
    "digits",
    ["WithinClassScaling", "RCA", "Euclidean"],
    plugin_files=[plugin],
    classes=5,
    partitions=4,
    inner_folds=2,
    search=3,
    output=folder / "run",
)
result

# %%
# The numbers behind this: the difference from Euclidean on each partition.
mAP = result.measures.query("task == 'retrieval' and measure == 'mAP'")
mAP = mAP.pivot_table(index="partition", columns="learner", values="value")
difference = mAP.drop(columns="Euclidean").sub(mAP["Euclidean"], axis=0)
print(difference.round(3).to_string())

figure, axes = plt.subplots(figsize=(7, 2.2), layout="constrained")
for marker, name in zip("os", difference, strict=True):
    axes.plot(difference[name], [name] * len(difference), marker, alpha=0.7)
axes.axvline(0, color="grey")
axes.margins(y=0.5)
axes.set(xlabel="mAP minus that of Euclidean, a mark for each partition")
plt.show()
