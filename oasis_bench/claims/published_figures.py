"""Figures that others have published: the files in `published/`, and what they are of."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd

from oasis_bench.store.run_file import RunRecord
from oasis_bench.tasks.classification import ACCURACY, RECOGNITION_BY_FROME

PUBLISHED = Path(__file__).parent / "published"
CALTECH101_CLASSES = 101
OUR_NAMES = {
    "Wavelet": "wavelet",
    "Color": "colour (LAB)",
    "SIFT-like": "SIFT words",
    "Fisher": "Fisher vector",
    "HOG": "HOG",
    "SPMKtexton1024max": "texton",
    "OASIS on L1HashKPCA": "OASIS: hand-made",
    "Golden features": "golden: all",
    "ConvNet": "network as it is",
    "Single-scale ranking": "single-scale ranking",
    "OASIS on single-scale ranking": "OASIS: single-scale ranking",
    "DeepRanking": "DeepRanking",
}
"""The learners of the experiment deep-ranking that stand for models of its paper."""


def published_figures(run: RunRecord) -> pd.DataFrame:
    """Return what was published for the data of a run: measure, k, learner, published."""
    info, e = run.info, run.info.experiment
    of_all_folds = e.n_partitions == info.n_folds and tuple(info.scaling) == ("minmax",)
    found = pd.DataFrame(columns=["measure", "k", "learner", "published"])
    if e.dataset == "keel" and of_all_folds:
        cells = pd.read_csv(PUBLISHED / "knn_keel.csv").rename(columns={"accuracy": "published"})
        found = cells[cells["table"] == e.dataset_options["table"]].assign(measure=ACCURACY)
    elif e.dataset == "caltech101" and run.trials["n_classes"].max() == CALTECH101_CLASSES:
        cells = pd.read_csv(PUBLISHED / "frome_caltech101.csv")
        found = cells[cells["train_per_class"] == e.train_per_class].rename(
            columns={"mean_recognition": "published"}
        )
        found = found.assign(measure=RECOGNITION_BY_FROME, k=math.nan)
    kept = found[["measure", "k", "learner", "published"]]
    return kept.astype({"k": float, "published": float})


def published_precision(n_classes: int) -> pd.DataFrame:
    """Return JMLR table 4 for 10, 20 or 50 classes: name (of the measure), learner, mean and sd.

    They are of the papers' classes of Caltech256.
    """
    cells = pd.read_csv(PUBLISHED / "jmlr_table4_precision.csv")
    cells = cells[cells["subset"] == f"{n_classes} classes"]
    names = cells["measure"].replace("mean average precision", "mAP")
    return cells.assign(name=names)[["name", "learner", "mean", "sd"]]


def published_minutes(n_classes: int) -> pd.DataFrame:
    """Return JMLR table 5 for a number of classes: learner, mean and sd of minutes of training."""
    cells = pd.read_csv(PUBLISHED / "jmlr_table5_runtime_minutes.csv")
    return cells.loc[cells["classes"] == n_classes, ["learner", "mean", "sd"]]


def published_judgements() -> pd.DataFrame:
    """Return tables 1 and 2 of Wang et al.: model, learner (ours; NaN: none) and precision."""
    cells = pd.read_csv(PUBLISHED / "deep_ranking_tables.csv").drop_duplicates("model")
    cells = cells.rename(columns={"similarity precision": "precision"})
    return cells.assign(learner=cells["model"].map(OUR_NAMES))[["model", "learner", "precision"]]
