"""Retrieval among seen beside unseen classes, and what a run of seen classes alone is told."""

import pytest
from fake_runs import fake_trial, make_run

BOTH = ["retrieval", "unseen-classes"]


@pytest.fixture
def both(tmp_path):
    """The posterior is best among seen classes, OASIS among unseen ones; one trial is lost."""
    scores = {"OASIS": (0.7, 0.6), "posterior": (0.9, 0.4)}
    trials = [
        fake_trial(
            learner,
            partition=p,
            mAP=mAP + 0.01 * p,
            tasks=(task,),
            chance=24 / 249 if task == "retrieval" else 0.2,
        )
        for learner, pair in scores.items()
        for task, mAP in zip(BOTH, pair, strict=True)
        for p in range(3)
        if (learner, task, p) != ("OASIS", "unseen-classes", 2)
    ]
    late = {"status": "timeout", "reason": "longer than 1h", "split": "unseen-classes"}
    trials.append(fake_trial("OASIS", partition=2, tasks=("unseen-classes",), **late))
    return make_run(tmp_path / "run", trials, list(scores), partitions=3, tasks=BOTH)
