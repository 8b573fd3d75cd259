"""A run's table of how symmetric the learned W is; the figures module draws it along the steps."""

from __future__ import annotations

import pandas as pd

from oasis_bench.analysis.statistics import summarise
from oasis_bench.reports.reading import (
    by_subset_and_learner,
    class_noun,
    finished,
    subset_label,
    subsets,
)
from oasis_bench.reports.tables import Cell, Table
from oasis_bench.reports.text import number_text, plural
from oasis_bench.store.run_file import RunRecord


def symmetry_tables(run: RunRecord) -> list[Table]:
    """Make the table of the symmetry index after the final fit; none where no W was recorded."""
    rows, numbers = [], []
    trials = finished(run)
    measured = trials[trials["symmetry_index"].notna()]
    for subset, learner, own in by_subset_and_learner(run, measured):
        if own.empty:
            continue
        index = summarise(own["symmetry_index"])
        text = f"{index.mean:.3f} ± {number_text(index.sd, '{:.3f}')}"
        rows.append([Cell(subset_label(run, subset)), Cell(learner), Cell(text)])
        numbers.append(
            {
                "subset": subset,
                "n_classes": subsets(run)[subset],
                "learner": learner,
                "mean": index.mean,
                "sd": index.sd,
                "n": index.n,
            }
        )
    if not rows:
        return []
    partitions = plural(run.info["experiment"]["partitions"], "partition")
    return [
        Table(
            name="symmetry",
            title="Symmetry index of W after the final fit: mean ± standard deviation over "
            + partitions,
            header=(class_noun(run).capitalize(), "Learner", "Symmetry index"),
            align="rlr",
            rows=rows,
            notes=[],
            numbers=pd.DataFrame(numbers),
        )
    ]
