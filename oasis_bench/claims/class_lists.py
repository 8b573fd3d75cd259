"""The papers' class lists of Caltech256, and the experiments whose classes stand in for them."""

from __future__ import annotations

from dataclasses import dataclass

from oasis_bench.experiment.settings import Experiment
from oasis_bench.store.run_file import RunRecord

DATASET = "caltech256"

CLASS_LISTS = {
    "paper-table4": ("B10",),
    "paper-table4-more": ("B20", "B50"),
    "paper-easy": ("Easy10", "Var10", "Var20"),
}
"""The lists of each experiment of their tables: its first class subset stands in for the first."""


@dataclass(frozen=True)
class ListOfSubset:
    """The papers' class list that a class subset is or stands in for.

    Attributes
    ----------
    name : str
        As in `Caltech256.class_subsets`: B10 and so on of the JMLR paper, Easy10 and so on of the
        preprint.
    stand_in : bool
        Whether other classes take the place of the papers'.
    """

    name: str
    stand_in: bool


def list_of(run: RunRecord, subset: str) -> ListOfSubset | None:
    """Return the list that a run's class subset is or stands in for; None where it is neither.

    Only the experiments of `CLASS_LISTS` stand in for a list, and only by their own classes.
    """
    e = run.info.experiment
    if e.dataset == DATASET and subset in {name for own in CLASS_LISTS.values() for name in own}:
        return ListOfSubset(subset, stand_in=False)
    for experiment, lists in CLASS_LISTS.items():
        planned = Experiment.from_toml(experiment)
        same = (e.title, e.dataset) == (planned.title, planned.dataset)
        subsets = zip(e.classes, run.info.classes, planned.classes, lists, strict=False)
        for item, name, theirs, own in subsets:
            if same and name == subset and item == theirs:
                return ListOfSubset(own, stand_in=True)
    return None
