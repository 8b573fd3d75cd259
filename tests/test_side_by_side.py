"""Runs of several values side by side, and beside figures that were published."""

import fake_runs
import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trial, make_run

from oasis_bench.reports import write_side_by_side
from oasis_bench.reports.measures import published_beside
from oasis_bench.reports.view import view_of

BY_FROME = "mean recognition by Frome's rule"
NAMES = ["LocalPatchDistances", "Euclidean"]


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Return what makes runs of Caltech101, one for each number of training pictures a class.

    On two partitions the learners have n / 100 and n / 100 + 0.02 by Frome's rule, and chance is a
    tenth of n / 100.
    """
    split, gallery, measures = fake_runs.TASKS["classification"]
    known = (split, gallery, [*measures, BY_FROME])
    monkeypatch.setitem(fake_runs.TASKS, "classification", known)

    def trial(learner, n, partition, n_classes):
        made = fake_trial(
            learner, n_classes=n_classes, partition=partition, tasks=("classification",)
        )
        value = {"value": n / 100 + 0.02 * partition, "as_learned": 0.5, "chance": n / 1000}
        row = {"task": "classification", "measure": BY_FROME, "k": None}
        made.measures.append({**row, **value})
        return made

    def make(values, n_classes=101):
        folders = {str(n): tmp_path / "out" / str(n) for n in values}
        for n in values:
            make_run(
                folders[str(n)],
                [trial(name, n, part, n_classes) for name in NAMES for part in (0, 1)],
                NAMES,
                partitions=2,
                classes=(n_classes,),
                dataset="caltech101",
                choose_by=BY_FROME,
                inner_folds=2,
                tasks=["classification"],
                train_per_class=n,
            )
        return folders

    return make


def test_runs_stand_beside_each_other_and_beside_published_figures(runs, tmp_path):
    page = write_side_by_side(runs((15, 5, 20)), tmp_path / "out", "train_per_class")
    assert page.name == "side_by_side.html"
    beside = pd.read_csv(tmp_path / "out" / "tables" / "side_by_side.csv")
    of_15 = beside[(beside["dataset"] == 15) & (beside["learner"] == NAMES[0])].iloc[0]
    assert of_15[["ours", "published", "difference"]].tolist() == pytest.approx(
        [0.16, 0.632, 0.16 - 0.632]
    )
    # Of two values 0.02 apart the deviation is 0.02 / sqrt(2).
    assert of_15["sd"] == pytest.approx(0.02 / np.sqrt(2))


def test_a_run_alone_has_the_published_figure_of_its_size(runs):
    folders = runs((10, 20))
    found = [
        [table.numbers["published"].dropna().tolist() for table in published_beside(view_of(read))]
        for read in map(fake_runs.read_run, folders.values())
    ]
    assert found == [[], [[0.666]]]
