"""The task of unseen classes: retrieval among test items of classes that no training item has."""

from __future__ import annotations

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
