"""Retrieval among seen beside unseen classes, and what a run of seen classes alone is told."""

import pytest
from fake_runs import fake_trial, make_run
from report_helpers import marks, texts

from oasis_bench.reports.measures import difference_tables, seen_and_unseen_tables
from oasis_bench.reports.view import view_of

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


def test_seen_stand_beside_unseen_classes_each_with_its_chance(both):
    (table,) = seen_and_unseen_tables(view_of(both))
    assert table.header == ("Classes", "Learner", "Seen classes", "Unseen classes")
    assert texts(table) == [
        ["10", "OASIS", "0.710 ± 0.010", "0.605 ± 0.007"],
        ["10", "posterior", "0.910 ± 0.010*", "0.410 ± 0.010*"],
        # ((R - 1) / (n - 1) (n - H_n) + H_n) / n with n = 249 and R = 24 and 49.8.
        ["10", "chance", "0.115", "0.216"],
    ]
    assert marks(table, 3) == ["a", "", ""]
    assert table.marked_notes[0][1].startswith("OASIS: 2 of 3 partitions finished; 1 timeout")
    assert len(table.numbers) == 6
    for task in BOTH:
        named = [set(found.numbers["learner"]) for found in difference_tables(view_of(both), task)]
        assert "chance" not in set().union(*named)
