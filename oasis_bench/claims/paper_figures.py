"""What the papers published: figures (the files in `published/`), class lists, and our places."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from oasis_bench.experiment import Experiment, read_experiment
from oasis_bench.plugins import Registry
from oasis_bench.runs import StoredRun

Runs = Mapping[str, Mapping[str, StoredRun]]
"""The runs of each experiment, by experiment and then by the name of the run."""

PUBLISHED = Path(__file__).parent / "published"
CALTECH101_CLASSES = 101
JMLR_CLASSES = {"B10": 10, "B20": 20, "B50": 50, "Var10": 10, "Var20": 20}
"""Class lists of JMLR table 4 by their numbers of classes; those of the preprint are the same."""


def published_figures(run: StoredRun) -> pd.DataFrame:
    """Return what was published for the data of a run: measure, k, learner, published."""
    info, e = run.info, run.info.experiment
    of_all_folds = e.n_partitions == info.n_folds and tuple(info.scaling) == ("minmax",)
    found = pd.DataFrame(columns=["measure", "k", "learner", "published"])
    if e.dataset == "keel" and of_all_folds:
        cells = pd.read_csv(PUBLISHED / "knn_keel.csv").rename(columns={"accuracy": "published"})
        found = cells[cells["table"] == e.dataset_options["table"]].assign(measure="accuracy")
    elif e.dataset == "caltech101" and run.trials["n_classes"].max() == CALTECH101_CLASSES:
        cells = pd.read_csv(PUBLISHED / "frome_caltech101.csv")
        found = cells[cells["train_per_class"] == e.train_per_class].rename(
            columns={"mean_recognition": "published"}
        )
        found = found.assign(measure="mean recognition by Frome's rule", k=math.nan)
    kept = found[["measure", "k", "learner", "published"]]
    return kept.astype({"k": float, "published": float})


def published(table: str) -> pd.DataFrame:
    """Return a table of `published/`: what a paper says of its experiment, or its list of figures.

    'web_scale': figure, value, unit, source.  'deep_ranking_tables': tables 1 and 2 of Wang et al.,
    model, learner (ours) and precision.  'tables_and_figures' of the papers: place, shows,
    experiment (the built-in one that measures it, '' where there is none) and note (where in its
    report to look, or why there is no experiment).
    """
    cells = pd.read_csv(PUBLISHED / f"{table}.csv", keep_default_na=False)
    if "model" in cells:  # in both tables of the paper
        cells = cells.drop_duplicates("model").rename(columns={"similarity precision": "precision"})
        return cells[["model", "learner", "precision"]]
    return cells


DATASET = "caltech256"

CLASS_LISTS = {
    "paper-table4": ("B10",),
    "paper-table4-more": ("B50", "B20"),
    "paper-easy": ("Easy10", "Var10", "Var20"),
    "paper-curve": ("B10",),
    "paper-family": ("B10", "B20"),
    "paper-parameters": ("B10",),
    "paper-overfit": ("B10",),
}
"""The lists that each experiment is about, in the order of the subsets that stand in for them."""

PARTITIONS = 10
"""Partitions of the papers' classes, in place of class sets."""

PAPERS_PER_CLASS = 40, 25
"""Training and test pictures a class of the papers."""


@dataclass(frozen=True)
class ClassList:
    """The papers' class list that a class subset is, or stands in for with other classes.

    Its name is as in `Caltech256.class_subsets`: B10 and so on of the JMLR paper, Easy10 and so on
    of the preprint.
    """

    name: str
    stand_in: bool

    @classmethod
    def of(cls, run: StoredRun, subset: str) -> ClassList | None:
        """Return the list that a run's class subset is or stands in for; None where it is neither.

        A list of the papers has as many pictures a class as theirs.  Only the experiments of
        `CLASS_LISTS` stand in for one, and only by their own classes; these may have fewer
        pictures.
        """
        e, known = run.info.experiment, {name for own in CLASS_LISTS.values() for name in own}
        if (e.dataset, e.per_class) == (DATASET, PAPERS_PER_CLASS) and subset in known:
            return cls(subset, stand_in=False)
        if e.built_in not in CLASS_LISTS:
            return None
        planned = read_experiment(e.built_in)
        lists = dict(zip(planned.classes, CLASS_LISTS[e.built_in], strict=False))
        for item, name in zip(e.classes, run.info.classes, strict=False):
            if e.dataset == planned.dataset and name == subset and item in lists:
                return cls(lists[item], stand_in=True)
        return None

    def precision(self) -> pd.DataFrame:
        """Return JMLR table 4, or table 1 of the preprint, for this list.

        Rows: name (of the measure), learner, mean and sd.
        """
        jmlr = pd.read_csv(PUBLISHED / "jmlr_table4_precision.csv")
        preprint = pd.read_csv(PUBLISHED / "preprint_table1_precision.csv")
        cells = pd.concat([jmlr, preprint])
        n_classes = JMLR_CLASSES.get(self.name)
        cells = cells[cells["subset"] == (f"{n_classes} classes" if n_classes else self.name)]
        names = cells["measure"].replace("mean average precision", "mAP")
        return cells.assign(name=names)[["name", "learner", "mean", "sd"]]

    def minutes(self) -> pd.DataFrame:
        """Return the minutes of training on this list: learner (ours), mean and sd.

        They are of JMLR table 5 for 'B10', 'B20' and 'B50', where OASIS is the one with C, and of
        the preprint's table 2 for 'Easy10', 'Var10' and 'Var20', where it is in Matlab.
        """
        if self.name.startswith("B"):
            cells = pd.read_csv(PUBLISHED / "jmlr_table5_runtime_minutes.csv")
            cells = cells[cells["classes"] == JMLR_CLASSES[self.name]]
            ours = {"OASIS Matlab+C": "OASIS"}
        else:
            cells = pd.read_csv(PUBLISHED / "preprint_table2_runtime_minutes.csv")
            cells = cells[cells["subset"] == self.name]
            ours = {"OASIS Matlab": "OASIS", "Dissim-OASIS Matlab": "DissimOASIS"}
        return cells.replace({"learner": ours})[["learner", "mean", "sd"]]

    @classmethod
    def experiment(cls, name: str, registry: Registry) -> Experiment:
        """Return a built-in experiment on the papers' class lists, where all of them are on disk.

        They are where each class has the 40 training and 25 test pictures of the papers.  Else, and
        where the papers have no lists for it, the experiment is returned as it is.
        """
        experiment = read_experiment(name)
        lists = CLASS_LISTS.get(name, ())
        if not lists:
            return experiment
        dataset = registry.open_dataset(DATASET)
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
