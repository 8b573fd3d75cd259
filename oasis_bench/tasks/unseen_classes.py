"""The task of unseen classes: retrieval among test items of classes that no training item has."""

from __future__ import annotations

from oasis_bench.data import LabelledRows
from oasis_bench.tasks.retrieval import Retrieval


class UnseenClasses(Retrieval):
    """As `Retrieval`, but training and test classes are disjoint."""

    name = "unseen-classes"
    summary = "retrieval among classes that the learner has never seen"
    citation = (
        "Oh Song, Xiang, Jegelka & Savarese (2016), Deep Metric Learning via Lifted Structured "
        "Feature Embedding, CVPR; Musgrave, Belongie & Lim (2020), A Metric Learning Reality "
        "Check, ECCV"
    )
    split = "unseen-classes"

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows of several labels and fewer than four classes."""
        if rows.multi_label:
            return "its rows have several labels: they cannot be split by class"
        return too_few_classes(len(rows.class_names))


def too_few_classes(n_classes: int) -> str | None:
    """Say why so few classes cannot be split into two parts of two or more, or return None."""
    if n_classes >= 4:
        return None
    return f"{n_classes} classes: 4 are needed, 2 to learn from and 2 to test on"
