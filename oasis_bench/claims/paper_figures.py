"""What the papers published: figures (the files in `published/`), and where ours stand."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from oasis_bench.runs import StoredRun
from oasis_bench.tasks import ACCURACY, RECOGNITION_BY_FROME

PUBLISHED = Path(__file__).parent / "published"
CALTECH101_CLASSES = 101
JMLR_CLASSES = {"B10": 10, "B20": 20, "B50": 50, "Var10": 10, "Var20": 20}
"""Class lists of JMLR table 4 by their numbers of classes; those of the preprint are the same."""

OUR_NAMES = {
    "Wavelet": "wavelet",
    "Color": "colour (LAB)",
    "SIFT-like": "SIFT words",
    "Fisher": "Fisher vector",
    "HOG": "HOG",
    "SPMKtexton1024max": "texton",
    "L1HashKPCA": "PCA: hand-made",
    "OASIS on L1HashKPCA": "OASIS: hand-made",
    "Golden features": "golden: all",
    "ConvNet": "network as it is",
    "Single-scale ranking": "single-scale ranking",
    "OASIS on single-scale ranking": "OASIS: single-scale ranking",
    "Single-scale and visual feature": "single-scale ranking and hand-made",
    "DeepRanking": "DeepRanking",
}
"""The learners of the experiment deep-ranking that stand for models of its paper."""


def published_figures(run: StoredRun) -> pd.DataFrame:
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


def published_precision(class_list: str) -> pd.DataFrame:
    """Return JMLR table 4, or table 1 of the preprint, for one of the papers' class lists.

    Rows: name (of the measure), k (NaN of mAP), learner, mean and sd.
    """
    jmlr = pd.read_csv(PUBLISHED / "jmlr_table4_precision.csv")
    preprint = pd.read_csv(PUBLISHED / "preprint_table1_precision.csv")
    cells = pd.concat([jmlr, preprint])
    n_classes = JMLR_CLASSES.get(class_list)
    cells = cells[cells["subset"] == (f"{n_classes} classes" if n_classes else class_list)]
    names = cells["measure"].replace("mean average precision", "mAP")
    k = names.str.extract(r"precision at (\d+)", expand=False).astype(float)
    return cells.assign(name=names, k=k)[["name", "k", "learner", "mean", "sd"]]


def published_minutes(class_list: str) -> pd.DataFrame:
    """Return minutes of training on a class list: learner (ours), mean and sd.

    They are of JMLR table 5 for 'B10', 'B20' and 'B50', where OASIS is the one with C, and of the
    preprint's table 2 for 'Easy10', 'Var10' and 'Var20', where it is in Matlab.
    """
    if class_list.startswith("B"):
        cells = pd.read_csv(PUBLISHED / "jmlr_table5_runtime_minutes.csv")
        cells = cells[cells["classes"] == JMLR_CLASSES[class_list]]
        ours = {"OASIS Matlab+C": "OASIS"}
    else:
        cells = pd.read_csv(PUBLISHED / "preprint_table2_runtime_minutes.csv")
        cells = cells[cells["subset"] == class_list]
        ours = {"OASIS Matlab": "OASIS", "Dissim-OASIS Matlab": "DissimOASIS"}
    return cells.replace({"learner": ours})[["learner", "mean", "sd"]]


def published_web_scale() -> pd.DataFrame:
    """Return what the papers say of their web-scale experiment: figure, value, unit, source."""
    return pd.read_csv(PUBLISHED / "web_scale.csv")


def published_judgements() -> pd.DataFrame:
    """Return tables 1 and 2 of Wang et al.: model, learner (ours) and precision."""
    cells = pd.read_csv(PUBLISHED / "deep_ranking_tables.csv").drop_duplicates("model")
    cells = cells.rename(columns={"similarity precision": "precision"})
    return cells.assign(learner=cells["model"].map(OUR_NAMES))[["model", "learner", "precision"]]


@dataclass(frozen=True)
class PaperItem:
    """A table or a figure of a paper, by paper and number.

    The experiment is the built-in one that measures it, '' where there is none; the note says where
    in its report to look, or why there is no experiment.
    """

    place: str
    shows: str
    experiment: str = ""
    note: str = ""


NO_MEASUREMENT = "no measurement:"
"""How the reason begins why there is no experiment of a drawing."""

ITEMS = (
    PaperItem(
        "JMLR table 1; preprint table 3",
        "the size of the web data",
        note="the papers' data was never published; 'web-scale' makes images of that number, and "
        "its page has these figures beside ours",
    ),
    PaperItem(
        "JMLR tables 2, 3; NIPS 2009 table 1; preprint tables 4, 5",
        "pictures that OASIS ranks first: successes and failures",
        "paper-words",
        "in its report: retrieved pictures, best and worst queries",
    ),
    PaperItem(
        "JMLR table 4; preprint table 1; JMLR figure 6; NIPS 2009 figure 2; preprint figure 4",
        "precision of five learners, 10 classes",
        "paper-table4",
        "figures: in its report, precision at k; published points are stars",
    ),
    PaperItem(
        "JMLR table 4; preprint table 1; JMLR figure 6; NIPS 2009 figure 2; preprint figure 4",
        "precision of five learners, 20 and 50 classes",
        "paper-table4-more",
        "249 classes, of which no table has precision: caltech256-papers, for all of Caltech256",
    ),
    PaperItem(
        "Preprint table 1; preprint figure 4",
        "precision on Easy10, beside Var10 and Var20",
        "paper-easy",
        "five classes each, of those that Caltech101 has, where not all of Caltech256 is on disk",
    ),
    PaperItem(
        "JMLR table 5; NIPS 2009 table 2",
        "time of five learners, 10 classes",
        "paper-table4",
        "in its report: costs",
    ),
    PaperItem(
        "JMLR table 5; NIPS 2009 table 2",
        "time of five learners, 20 and 50 classes",
        "paper-table4-more",
        "in its report: costs; fast LMNN: competitors-mnist; 249 classes: caltech256-papers",
    ),
    PaperItem(
        "Preprint table 2",
        "time of five learners, and of Dissim-OASIS, on Easy10, Var10 and Var20",
        "paper-easy",
        "in its report: costs; Dissim-OASIS: paper-family",
    ),
    PaperItem(
        "JMLR figure 1; preprint figure 1",
        "the algorithm in pseudo-code",
        note=f"{NO_MEASUREMENT} OASIS is written after it, and the page of mathematics follows it",
    ),
    PaperItem(
        "JMLR figure 2; preprint figure 2",
        "local binary patterns",
        note=f"{NO_MEASUREMENT} the visual words of pictures are made of them",
    ),
    PaperItem(
        "JMLR figure 3; preprint figure 6",
        "precision at top k of the web data, by the labels of text queries (A in JMLR)",
        note="the papers' data was never published; 'web-scale' has precision at 1, 10 and 50 of "
        "generated images",
    ),
    PaperItem(
        "JMLR figure 3; NIPS 2009 figure 1; preprint figure 7",
        "precision by human raters (B to D in JMLR, a in NIPS)",
        note="it needs raters: 'judge RUN' makes their page, 'judge RUN --collect' the figure in "
        "the report",
    ),
    PaperItem(
        "JMLR figure 4; NIPS 2009 figure 1",
        "time over the number of images (b in NIPS)",
        "paper-growth",
        "to 6000 images; 'web-scale' goes up to 2.3 million; fast LMNN: competitors-mnist",
    ),
    PaperItem(
        "JMLR figure 5; preprint figure 3",
        "precision along the steps",
        "paper-curve",
        "10 classes (A); 20 classes (B): 'run --experiment paper-curve --classes B20', for all of "
        "Caltech256",
    ),
    PaperItem(
        "JMLR figure 7",
        "means of 5 and 10 learners",
        "paper-family",
        "in its report: learning steps; on the classes of figure 8, the paper's are 249",
    ),
    PaperItem(
        "JMLR figure 8; NIPS 2009 figure 3; preprint figure 5",
        "symmetric variants (a in NIPS)",
        "paper-family",
        "in its report: precision at k; 20 classes only where all of Caltech256 is on disk; not on "
        "Easy10",
    ),
    PaperItem(
        "JMLR figure 9; NIPS 2009 figure 3",
        "projections on the positive semi-definite cone (b in NIPS)",
        "paper-family",
        "in its report: learning steps; the paper's 20 classes only where all of Caltech256 is on "
        "disk, else ten",
    ),
    PaperItem(
        "Wang et al. tables 1, 2",
        "similarity precision of models",
        "deep-ranking",
        "their scores at top 30 rank 1000 pictures of a text query, of which we have eleven",
    ),
    PaperItem(
        "Wang et al. figure 1",
        "judged triplets",
        note=f"{NO_MEASUREMENT} they are the data of deep-ranking",
    ),
    PaperItem(
        "Wang et al. figures 2, 3, 4",
        "the network, its scales and the sampling of triplets",
        note=f"{NO_MEASUREMENT} DeepRanking and its sampler are written after them",
    ),
    PaperItem(
        "Wang et al. figure 5",
        "filters of the first layer",
        note="none: the networks of deep-ranking keep the first layer of a pretrained one",
    ),
    PaperItem(
        "Wang et al. figure 6",
        "share of out-of-class negatives, weighted and uniform sampling",
        "deep-ranking-sampling",
        "in its report: a learner for each share; the score at top 3 stands for that at top 30",
    ),
    PaperItem(
        "Wang et al. figure 7",
        "examples of rankings by a classifier, OASIS and Deep Ranking",
        "deep-ranking",
        "its report has no pictures: claim D5 counts what the examples show",
    ),
    PaperItem(
        "Frome et al. figures 1, 3, 4",
        "example pictures, the triplets and geometric blur",
        note=f"{NO_MEASUREMENT} LocalPatchDistances and its patches are written after them",
    ),
    PaperItem(
        "Frome et al. figure 2",
        "weights of patches on pictures",
        "frome-settings",
        "the share that is zero; drawn by the gallery's example on local distances",
    ),
    PaperItem(
        "Frome et al. figure 5",
        "recognition over pictures a class",
        "paper-frome",
        "20 classes; all 101 beside the published rates: frome-caltech101, which takes hours",
    ),
    PaperItem(
        "Frome et al. figure 6",
        "confusion matrix at 15 pictures a class",
        "paper-frome",
        "in the report of its run of 15; 20 classes; all 101: frome-caltech101",
    ),
    PaperItem("Suárez et al. 2021, KEEL", "accuracy of k nearest neighbours", "keel"),
)
