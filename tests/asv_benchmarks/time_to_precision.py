"""CPU time until OASIS, and NCA by L-BFGS, rank new images as well as OASIS does at its best.

`python tests/asv_benchmarks/time_to_precision.py` prints a table.  Each learner is stopped by its
mAP on the test images, which is measured off the clock.
"""

import time
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.metrics import euclidean_distances
from sklearn.neighbors import NeighborhoodComponentsAnalysis
from sklearn.preprocessing import normalize
from threadpoolctl import threadpool_limits

from oasis_bench.algorithms import OASIS
from oasis_bench.tasks import evaluate_ranking

SEEDS = range(3)
SHARES = [0.9, 0.95, 0.99]
"""Of the best mAP of OASIS on float64 rows: what is to be reached."""

DTYPES = ["float64", "float32"]
"""Of the rows of OASIS."""

D, N_NONZERO, N_CLASSES, N_TRAIN, N_TEST = 1000, 70, 10, 40, 25
N_TOPICS, TOPICS_PER_CLASS, TOLD = 50, 5, 0.2

LAST_STEP, GROWTH = 150_000, 0.1
"""Steps of the longest fit of OASIS, past its best, and how much longer each is than the last."""

NCA_SETTINGS = [
    (n_components, length, pca)
    for pca in (None, 100)
    for length in (1, 2)
    for n_components in (10, 20, 50, 100)
] + [(D, 1, None)]
"""Dimensions of NCA, length of the rows, and dimensions that PCA leaves before.

NCA starts from PCA; with D dimensions, scikit-learn's default, from the identity.  Longer rows,
each feature scaled to unit variance, and fewer dimensions (started from LDA) are worse."""


class Images(NamedTuple):
    X: np.ndarray
    y: np.ndarray


class Point(NamedTuple):
    """Of a trace: CPU seconds of learning until then, steps or iterations, mAP on test images."""

    seconds: float
    done: int
    precision: float


def ten_classes(seed):
    """Draw training and test images of ten classes, bags of visterms of unit length.

    Each 20 of 1000 visterms make a topic.  A visterm tells of one of the five topics of its
    image's class with probability 0.2, else it is any.  What the visterms of a topic have in
    common a similarity must learn: the cosine's mAP is near 0.2, as on the ten classes of JMLR
    2010.
    """
    rng = np.random.default_rng(seed)
    rank = rng.permutation(np.arange(1, D + 1))
    popularity = rank**-0.25 * np.exp(-3 * rank / D)  # as in the Caltech images
    X = np.zeros((N_CLASSES, N_TRAIN + N_TEST, D))
    for images in X:
        topics = rng.choice(N_TOPICS, TOPICS_PER_CLASS, replace=False)
        telling = popularity * np.isin(np.arange(D) % N_TOPICS, topics)
        chance = TOLD * telling / telling.sum() + (1 - TOLD) * popularity / popularity.sum()
        # The 70 largest of log chance + Gumbel noise are a draw without replacement.
        drawn = np.argsort(np.log(chance) + rng.gumbel(size=images.shape))[:, -N_NONZERO:]
        np.put_along_axis(images, drawn, rng.geometric(0.6, size=drawn.shape), axis=1)
    y = np.arange(N_CLASSES)
    train, test = X[:, :N_TRAIN].reshape(-1, D), X[:, N_TRAIN:].reshape(-1, D)
    return Images(normalize(train), y.repeat(N_TRAIN)), Images(normalize(test), y.repeat(N_TEST))


def trace_oasis(train, test, seed, dtype):
    """Learn from CSR rows, each time anew and with 10 % more steps."""
    X, X_test = (sparse.csr_array(images.X.astype(dtype)) for images in (train, test))
    trace, n_steps = [], 0
    while n_steps < LAST_STEP:
        n_steps += max(100, int(GROWTH * n_steps))
        start = time.process_time()
        learner = OASIS(n_steps=n_steps, random_state=seed).fit(X, train.y)
        seconds = time.process_time() - start
        precision = mean_precision(learner.similarity, X_test, test.y)
        trace.append(Point(seconds, n_steps, precision))
    return trace


def trace_nca(train, test, n_components, length, pca):
    """Learn from dense rows, and look at each iteration."""
    seen = []
    start = time.process_time()

    def look(components, iteration):
        seen.append((time.process_time() - start, iteration, components.copy()))

    X, X_test = length * train.X, length * test.X
    if pca is not None:
        reduction = PCA(pca, random_state=0).fit(X)
        X, X_test = reduction.transform(X), reduction.transform(X_test)
    NeighborhoodComponentsAnalysis(n_components, callback=look, random_state=0).fit(X, train.y)
    trace = []
    for seconds, done, components in seen:
        Z = X_test @ components.reshape(n_components, -1).T
        trace.append(Point(seconds, done, mean_precision(by_distance, Z, test.y)))
    return trace


def by_distance(queries, gallery):
    return -euclidean_distances(queries, gallery)


def mean_precision(similarity, X, y):
    return evaluate_ranking(similarity, X, y, seed=0).mean_average_precision


def best(trace):
    return max(point.precision for point in trace)


def first(trace, precision):
    """Return the point that reaches a precision, or one that never comes."""
    never = Point(np.inf, np.inf, precision)
    return next((point for point in trace if point.precision >= precision), never)


def measure(seed):
    """Return the traces of OASIS by type and those of NCA by setting, on one draw of the images."""
    train, test = ten_classes(seed)
    with threadpool_limits(1):
        nca = {setting: trace_nca(train, test, *setting) for setting in NCA_SETTINGS}
        return {dtype: trace_oasis(train, test, seed, dtype) for dtype in DTYPES}, nca


def print_table():
    """Print CPU seconds and steps, or iterations, to each share: medians, least and greatest."""
    measured = [measure(seed) for seed in SEEDS]
    targets = [best(oasis["float64"]) for oasis, _ in measured]
    traces = {f"OASIS, {dtype}": [oasis[dtype] for oasis, _ in measured] for dtype in DTYPES}
    for setting in NCA_SETTINGS:
        traces[f"NCA (dimensions, length, PCA) {setting}"] = [nca[setting] for _, nca in measured]
    rows = {}
    for name, drawn in traces.items():
        columns = {"best mAP": [best(trace) for trace in drawn]}
        for share in SHARES:
            points = [first(t, share * target) for t, target in zip(drawn, targets, strict=True)]
            columns[f"seconds to {share:.0%}"] = [point.seconds for point in points]
            columns[f"done at {share:.0%}"] = [point.done for point in points]
        summaries = {"median": np.median, "least": min, "greatest": max}
        for kind, summary in summaries.items():
            rows[name, kind] = {column: summary(values) for column, values in columns.items()}
    print(pd.DataFrame.from_dict(rows, orient="index").to_string(float_format="%.3g"))


if __name__ == "__main__":
    print_table()
