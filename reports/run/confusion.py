"""Confusion matrices of a task: the shares behind the figure, and the pairs confused most."""

from __future__ import annotations

import pandas as pd

from oasis_bench.analysis import headlines, task_measures
from oasis_bench.experiment import cell_name
from oasis_bench.reports.run.facts import (
    chooser,
    class_noun,
    dagger_notes,
    facets,
    learners,
    marked,
    partitions_text,
    split_of,
    subset_label,
    subsets,
    task_title,
)
from oasis_bench.reports.table import Table
from oasis_bench.runs import StoredRun

PAIRS = 5
"""The pairs of classes that the table shows of a subset."""


def class_names(run: StoredRun, subset: str, split: str) -> dict[int, str]:
    """Return the names of a subset's classes by their number in the data set, in its order."""
    cells = (cell_name(learner, subset, split) for learner in learners(run))
    identity = next(run.info.identities[cell] for cell in cells if cell in run.info.identities)
    return dict(zip(identity["classes"], run.info.classes[subset], strict=True))


def matrix_measure(run: StoredRun, task: str) -> str:
    """Name the measure by whose rule the classes of a task's matrices are predicted.

    It is the measure that the inner folds choose by, where that is of the task; else its first.
    """
    of_task, name = chooser(run, split_of(run, task))
    return name if of_task == task else headlines(run, task)[0]


def best_learner(run: StoredRun, task: str, subset: str) -> str | None:
    """Return the learner with the highest mean of `matrix_measure`; None without any."""
    values = task_measures(run, task)
    own = values[(values["subset"] == subset) & (values["name"] == matrix_measure(run, task))]
    return None if own.empty else str(own.groupby("learner")["value"].mean().idxmax())


def rule_text(run: StoredRun, task: str) -> str:
    """Say how classes are predicted and which learner is shown."""
    measure = matrix_measure(run, task)
    return f"Classes are predicted as for {measure}; the learner shown is the best by it."


def confusion_shares(run: StoredRun, task: str) -> pd.DataFrame:
    """Sum confusion matrices over partitions.

    Returns
    -------
    DataFrame
        A row for each subset, learner, label and predicted class that occur together: n test
        items, and share, n over those of the label.
    """
    counts = run.confusion[run.confusion["task"] == task]
    keys = ["subset", "learner", "label"]
    sums = counts.groupby([*keys, "predicted"], sort=False)["n"].sum().reset_index()
    return sums.assign(share=sums["n"] / sums.groupby(keys)["n"].transform("sum"))


def confusion_tables(run: StoredRun, task: str) -> list[Table]:
    """Make the table of the pairs that the best learner of each subset confuses most.

    Its CSV file has the whole matrices of all learners.  There is none without a matrix.
    """
    shares = confusion_shares(run, task)
    if shares.empty:
        return []
    rows, numbers, shown = [], [], []
    for subset in subsets(run):
        own = shares[shares["subset"] == subset]
        names = class_names(run, subset, split_of(run, task))
        own = own.assign(true_name=own["label"].map(names), name=own["predicted"].map(names))
        numbers.append(own)
        shown.append(learner := best_learner(run, task, subset) or "")
        wrong = own[(own["learner"] == learner) & (own["label"] != own["predicted"])]
        for pair in wrong.nlargest(PAIRS, "share").to_dict("records"):
            cells = (pair["true_name"], pair["name"], f"{pair['n']:,}", f"{pair['share']:.3f}")
            rows.append([subset_label(run, subset), marked(run, pair["learner"]), *cells])
    return [
        Table(
            name=f"{task}_confusion",
            title=f"{task_title(task)}: the {PAIRS} pairs confused most by the best learner, over "
            + partitions_text(run),
            header=(
                *(class_noun(run).capitalize(), "Learner", "True class", "Taken for"),
                *(run.info.items.capitalize(), "Share of the true class"),
            ),
            align="rlllrr",
            rows=rows,
            numbers=pd.concat(numbers),
            notes=(rule_text(run, task), *dagger_notes(run, shown)),
            of=facets(run, task),
        )
    ]
