"""What the papers published: figures (the files in `published/`), class lists, and our places."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from oasis_bench.experiment import DEFAULT_TEST, DEFAULT_TRAIN, Experiment
from oasis_bench.plugins import Registry
from oasis_bench.runs import StoredRun
from oasis_bench.tasks import ACCURACY, RECOGNITION_BY_FROME

Runs = Mapping[str, Mapping[str, StoredRun]]
"""The runs of each experiment, by experiment and then by the name of the run."""

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


def paper_items() -> pd.DataFrame:
    """Return the tables and figures of the papers: place, shows, experiment and note.

    The experiment is the built-in one that measures it, '' where there is none; the note says where
    in its report to look, or why there is no experiment.
    """
    return pd.read_csv(PUBLISHED / "tables_and_figures.csv", keep_default_na=False)


DATASET = "caltech256"

CLASS_LISTS = {
    "paper-table4": ("B10",),
    "paper-table4-more": ("B20", "B50"),
    "paper-easy": ("Easy10", "Var10", "Var20"),
    "paper-curve": ("B10",),
    "paper-family": ("B10", "B20"),
    "paper-parameters": ("B10",),
    "paper-overfit": ("B10",),
}
"""The lists that each experiment is about, in the order of the subsets that stand in for them."""

PARTITIONS = 10
"""Partitions of the papers' classes, in place of class sets."""

PAPERS_PER_CLASS = DEFAULT_TRAIN, DEFAULT_TEST
"""Training and test pictures a class of the papers: 40 and 25."""


@dataclass(frozen=True)
class ListOfSubset:
    """The papers' class list that a class subset is, or stands in for with other classes.

    Its name is as in `Caltech256.class_subsets`: B10 and so on of the JMLR paper, Easy10 and so on
    of the preprint.
    """

    name: str
    stand_in: bool


def on_papers_classes(name: str, experiment: Experiment, registry: Registry) -> Experiment:
    """Return a built-in experiment on the papers' class lists, where all of them are on disk.

    They are where each class has the 40 training and 25 test pictures of the papers.  Else, and
    where the papers have no lists for it, the experiment is returned as it is.
    """
    lists = CLASS_LISTS.get(name, ())
    if not lists:
        return experiment
    dataset = Registry.open_dataset(DATASET, registry)
    sizes = dataset.class_sizes()
    needed = {one for own in lists for one in dataset.class_subsets[own]}
    if any(sizes.get(one, 0) < sum(PAPERS_PER_CLASS) for one in needed):
        return experiment
    about, _, _ = experiment.title.rpartition(":")
    return replace(
        experiment,
        title=f"{about}: the classes {', '.join(lists)} of Caltech256",
        dataset=DATASET,
        classes=lists,
        replicates=None,
        partitions=experiment.partitions or PARTITIONS,
        train_per_class=None,
        test_per_class=None,
    )


def class_sentences(runs: Runs) -> list[str]:
    """Say for each experiment that has run whether its classes are the papers'."""
    sentences = []
    for name in CLASS_LISTS:
        for run in runs.get(name, {}).values():
            found = [one for subset in run.info.classes if (one := list_of(run, subset))]
            lists = ", ".join(one.name for one in found)
            if any(one.stand_in for one in found):
                sentences.append(
                    f"{name}: {run.info.experiment.dataset} has classes that stand in for the "
                    f"papers' ({lists}), which need all of Caltech256 on disk."
                )
            elif found:
                sentences.append(f"{name}: the papers' own classes of Caltech256 ({lists}).")
    return sentences


def list_of(run: StoredRun, subset: str) -> ListOfSubset | None:
    """Return the list that a run's class subset is or stands in for; None where it is neither.

    A list of the papers has as many pictures a class as theirs.  Only the experiments of
    `CLASS_LISTS` stand in for one, and only by their own classes; these may have fewer pictures.
    """
    e, known = run.info.experiment, {name for own in CLASS_LISTS.values() for name in own}
    if (e.dataset, e.per_class) == (DATASET, PAPERS_PER_CLASS) and subset in known:
        return ListOfSubset(subset, stand_in=False)
    if e.built_in not in CLASS_LISTS:
        return None
    planned, lists = Experiment.from_toml(e.built_in), CLASS_LISTS[e.built_in]
    subsets = zip(e.classes, run.info.classes, planned.classes, lists, strict=False)
    for item, name, theirs, own in subsets:
        if e.dataset == planned.dataset and name == subset and item == theirs:
            return ListOfSubset(own, stand_in=True)
    return None
