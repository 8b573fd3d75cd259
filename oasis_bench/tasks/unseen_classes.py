"""The task of unseen classes: retrieval among test items of classes that no training item has."""

from __future__ import annotations

from oasis_bench.data.rows import LabelledRows
from oasis_bench.tasks.retrieval import Retrieval

LEAST_CLASSES = 4
"""Two to learn from and two to test on."""


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
        if len(rows.class_names) < LEAST_CLASSES:
            return (
                f"it has {len(rows.class_names)} classes: {LEAST_CLASSES} are needed, 2 to learn "
                "from and 2 to test on"
            )
        return None
