"""The papers' class lists of Caltech256, and the experiments whose classes stand in for them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from oasis_bench.claims.claim import Runs
from oasis_bench.experiment import DEFAULT_TEST, DEFAULT_TRAIN, Experiment
from oasis_bench.plugins import Registry, open_dataset
from oasis_bench.runs import StoredRun

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
    dataset = open_dataset(DATASET, registry)
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
