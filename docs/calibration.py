"""Writes how often the corrected t-test calls two learners of equal expected value different.

python docs/calibration.py                     # by partitions: the table of docs/fair-comparison.md
python docs/calibration.py --class-sets        # the same by disjoint class sets
python docs/calibration.py --clusters          # the same by groups of judgements
python docs/calibration.py --null runs/null    # a run of 17 learners that are all equal

They take ten minutes of a core, three minutes, a quarter of a minute and three minutes. Two
learners are made equal: from each difference the mean of all differences is subtracted, over all
pools and partitions. A pool is what one data set would be; from each, ten partitions are drawn by
the split itself, with the papers' 40 training and 25 test items of ten classes. Then the test
should be significant on 5 % of pools.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import numpy.typing as npt
from sklearn.decomposition import PCA

from oasis_bench.algorithms import LDA, RCA, Euclidean
from oasis_bench.analysis import LEVEL, PairedInterval
from oasis_bench.data import LabelledRows
from oasis_bench.datasets import MNIST
from oasis_bench.experiment import Experiment, LearnerSpec
from oasis_bench.reports import summary_text
from oasis_bench.runs import How, read_run, run_experiment
from oasis_bench.system import derive_seed
from oasis_bench.tasks import SeenClassesSplit, Split, evaluate_ranking
from oasis_bench.tasks.split import UnseenClassesSplit

N_CLASSES, N_FEATURES, N_POOLS, N_PARTITIONS = 10, 16, 400, 10
SETTINGS = SimpleNamespace(per_class=(40, 25))
PROJECTION = Path(__file__).parents[1] / "tests/plugins/random_projection.py"
PAIRS = ((LDA, Euclidean), (RCA, Euclidean))

Pools = Iterator[LabelledRows]


def pools_of_mnist(n_pool: int) -> Pools:
    """Draw pools of so many images of each digit, of the 60 000; large ones share some."""
    X, y = _mnist()
    of_class = [np.flatnonzero(y == digit) for digit in range(N_CLASSES)]
    for number in range(N_POOLS):
        rng = np.random.default_rng(derive_seed(1, "pool", number))
        yield _rows(np.stack([X[rng.choice(own, n_pool, replace=False)] for own in of_class]))


@cache
def _mnist() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the training images on principal directions of some of them."""
    rows = MNIST().load()
    X, y = np.asarray(rows.X[:60_000], dtype=np.float64), rows.y[:60_000]
    return PCA(N_FEATURES, random_state=0).fit(X[:5000]).transform(X), y


def pools_of_gaussians(n_pool: int, n_pools: int = N_POOLS) -> Pools:
    """Draw pools of ten new classes each: normal means, and items about them."""
    for number in range(n_pools):
        rng = np.random.default_rng(derive_seed(1, "pool", number))
        means = rng.normal(size=(N_CLASSES, 1, N_FEATURES)) * np.geomspace(1, 0.1, N_FEATURES)
        yield _rows(means + rng.normal(size=(N_CLASSES, n_pool, N_FEATURES)))


def _rows(X: npt.NDArray[np.float64]) -> LabelledRows:
    names = tuple(f"class {number}" for number in range(N_CLASSES))
    y = np.repeat(np.arange(N_CLASSES), X.shape[1])
    return LabelledRows(X.reshape(len(y), -1), y, names)


def measured(
    split: Split, rows: LabelledRows, pool: int, n_partitions: int = N_PARTITIONS
) -> npt.NDArray[np.float64]:
    """Return mAP minus that of the second of each pair (n_partitions, n_pairs)."""
    differences = []
    for partition in range(n_partitions):
        seed = derive_seed(1, "partition", pool, partition)
        train, test, *_ = split.draw(rows, range(N_CLASSES), partition, seed)
        mAP = {}
        for learner in {learner for pair in PAIRS for learner in pair}:
            fitted = learner().fit(rows.X[train], rows.y[train])
            found = evaluate_ranking(fitted.similarity, rows.X[test], rows.y[test], 0, k_max=1)
            mAP[learner] = found.mean_average_precision
        differences.append([mAP[first] - mAP[second] for first, second in PAIRS])
    return np.array(differences)


def line(title: str, split: Split, pools: Pools) -> str:
    """Return a row of the table: rho, what the variance of the means asks for, and both rates."""
    differences = []
    for number, rows in enumerate(pools):
        rho = split.rho(rows, range(N_CLASSES), 0)
        differences.append(measured(split, rows, number))
    found = np.array(differences)  # pools, partitions, pairs
    found -= found.mean(axis=(0, 1))
    within = found.var(axis=1, ddof=1).mean(axis=0)
    shared = found.mean(axis=1).var(axis=0, ddof=1) / within - 1 / N_PARTITIONS
    true_rho = shared / (1 + shared)
    rates = [
        np.mean([PairedInterval.of(one, used).p_value <= LEVEL for pool in found for one in pool.T])
        for used in (rho, 0)
    ]
    texts = [f"{rho:.3f}", ", ".join(f"{it:.3f}" for it in true_rho), *map("{:.3f}".format, rates)]
    return f"| {title} | {' | '.join(texts)} |"


def class_sets() -> None:
    """Print the rate of runs over so many sets of ten classes, which share no class."""
    pools = enumerate(pools_of_gaussians(65, 2000))
    split = SeenClassesSplit(SETTINGS)
    found = np.array([measured(split, rows, number, 1)[0] for number, rows in pools])
    found -= found.mean(axis=0)
    print("| class sets | tests | false positives |\n|---|---|---|")
    for n_sets in (5, 10, 20):
        runs = np.concatenate([pair.reshape(-1, n_sets) for pair in found.T])
        rate = np.mean([PairedInterval.of(run, 0).p_value <= LEVEL for run in runs])
        print(f"| {n_sets} | {len(runs)} | {rate:.3f} |")


def clusters(n_tests: int = 4000) -> None:
    """Print the rate over groups of judgements of unequal size.

    A difference is the sum of a normal effect of the group and of one of the judgement.
    """
    rng = np.random.default_rng(0)
    print("| groups | effective, median | effect of the group, sd | false positives |")
    print("|---|---|---|---|")
    for n_groups in (10, 20, 40):
        for sd in (0, 0.3, 1):
            p_values, effective = [], []
            for _ in range(n_tests):
                sizes = np.ceil(rng.lognormal(3, 0.8, n_groups))
                own = sd * rng.normal(size=n_groups) + rng.normal(size=n_groups) / np.sqrt(sizes)
                p_values.append(PairedInterval.of(own, 0, sizes).p_value)
                effective.append(sizes.sum() ** 2 / (sizes**2).sum())
            tested = ~np.isnan(p_values)
            rate = np.mean(np.array(p_values)[tested] <= LEVEL)
            print(f"| {n_groups} | {np.median(effective):.1f} | {sd:g} | {rate:.3f} |", flush=True)


def null_run(folder: Path) -> None:
    """Print the answer of a run of 17 learners of which none is better than another."""
    draws = {
        f"draw {n}": LearnerSpec("RandomProjection", {"draw": n, "n_components": 8})
        for n in range(17)
    }
    e = Experiment("Equal learners", "digits", draws, classes=(10,), traces=False)
    run_experiment(e, folder, How(plugin_files=[PROJECTION]))
    print(summary_text(read_run(folder)))


def table() -> None:
    """Print the table."""
    seen, unseen = SeenClassesSplit(SETTINGS), UnseenClassesSplit(SETTINGS)
    print("| pool | ρ of the split | ρ measured, of each pair | false positives | with ρ = 0 |")
    print("|---|---|---|---|---|")
    for n in (65, 80, 150, 300, 1000):
        print(line(f"MNIST, {n} a class", seen, pools_of_mnist(n)), flush=True)
    for n in (65, 300):
        print(line(f"unseen classes, {n} a class", unseen, pools_of_gaussians(n)), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--null"]:
        null_run(Path(sys.argv[2]))
    else:
        {"--class-sets": class_sets, "--clusters": clusters}.get("".join(sys.argv[1:]), table)()
