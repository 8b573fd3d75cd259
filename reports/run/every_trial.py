"""The tables of every trial and of every candidate that was tried: details behind the summary."""

from __future__ import annotations

import pandas as pd

from oasis_bench.analysis import with_costs
from oasis_bench.reports.formatting import number_text, params_text, seconds_text
from oasis_bench.reports.run.facts import (
    by_cell,
    class_noun,
    dagger_notes,
    learners,
    marked,
    of_splits,
    subset_label,
    subsets,
)
from oasis_bench.reports.run.trial_tables import chosen_by, chosen_trials
from oasis_bench.reports.table import Cell, Table
from oasis_bench.runs import StoredRun

SHOWN_CANDIDATES = 10
"""Candidates that the page shows of a learner on a subset; the CSV file has all."""


def trials_table(run: StoredRun) -> Table:
    """Make the table of all finished trials: what was chosen, what it gave, what it took."""
    numbers = with_costs(chosen_trials(run))
    columns = ["learner", "subset", "n_classes", "split", "partition", "scaling", "params"]
    columns += ["n_steps", "measure", "validation", "training", "test"]
    columns += ["tuning_seconds", "fit_seconds"]
    several, names, labels = _words(run)
    asked = bool(numbers["training"].notna().any())
    rows: list[list[str | Cell]] = [
        [
            names[row["learner"]],
            labels[row["subset"]],
            *of_splits(run, row["split"]),
            str(row["partition"]),
            *([row["scaling"]] if several else []),
            params_text(row["params"]),
            number_text(row["n_steps"], "{:,.0f}", missing="none"),
            number_text(row["validation"], "{:.3f}", missing="none"),
            *([number_text(row["training"], "{:.3f}", missing="none")] if asked else []),
            number_text(row["test"], "{:.3f}"),
            seconds_text(row["tuning_seconds"]),
            seconds_text(row["fit_seconds"]),
        ]
        for _, _, _, own in by_cell(run, numbers)
        for row in own[columns].to_dict("records")
    ]
    return Table(
        name="trials",
        title="Every trial that gave a result",
        header=(
            *("Learner", class_noun(run).capitalize(), *of_splits(run, "Split"), "Partition"),
            *(["Scaling"] if several else []),
            *("Chosen", "Steps", "Validation", *(["Training"] if asked else []), "Test"),
            *("Tuning, s", "Fit, s"),
        ),
        align="lr" + "l" * len(of_splits(run, "")) + "r" + "l" * several + "lrrrrr" + "r" * asked,
        rows=rows,
        numbers=numbers[columns],
        notes=[
            *chosen_by(run),
            *(["Training: the same measure, of the training items among themselves."] * asked),
            *dagger_notes(run, numbers["learner"]),
        ],
    )


def candidates_tables(run: StoredRun) -> list[Table]:
    """Make the table of what was tried on inner folds, the best first; none where nothing was."""
    candidates = _candidates(run)
    if candidates.empty:
        return []
    several, names, labels = _words(run)
    rows: list[list[str | Cell]] = [
        [
            names[row["learner"]],
            labels[row["subset"]],
            *of_splits(run, row["split"]),
            *([row["scaling"]] if several else []),
            params_text(row["params"]),
            f"{row['validation']:.3f}",
            str(row["partitions"]),
            str(row["chosen"]),
        ]
        for _, _, _, own in by_cell(run, candidates)
        for row in own.head(SHOWN_CANDIDATES).to_dict("records")
    ]
    return [
        Table(
            name="candidates",
            title="Candidates on the inner folds: mean of each at its best number of steps",
            header=(
                *("Learner", class_noun(run).capitalize(), *of_splits(run, "Split")),
                *(["Scaling"] if several else []),
                *("Hyper-parameters", "Validation", "Partitions", "Chosen in"),
            ),
            align="lr" + "l" * len(of_splits(run, "")) + "l" * several + "lrrr",
            rows=rows,
            numbers=candidates,
            notes=[
                f"At most {SHOWN_CANDIDATES} of a learner and subset, the best first; the CSV file "
                "has all.",
                *chosen_by(run),
                *dagger_notes(run, candidates["learner"]),
            ],
        )
    ]


def _words(run: StoredRun) -> tuple[bool, dict[str, str], dict[str, str]]:
    """Return whether scalings were chosen among, the names of learners, and the subsets' labels."""
    names = {name: marked(run, name) for name in learners(run)}
    return len(run.info.scaling) > 1, names, {it: subset_label(run, it) for it in subsets(run)}


def _candidates(run: StoredRun) -> pd.DataFrame:
    """Return each candidate with the mean over partitions of its best mean over folds.

    Returns
    -------
    DataFrame
        split, subset, learner, scaling, params, validation, partitions (that tried it) and chosen
        (in how many), the best of a learner on a subset first.
    """
    cell = ["split", "subset", "learner"]
    tried = ["scaling", "params"]
    keys = ["trial_id", *cell, *tried]
    steps = run.validation["n_steps"].fillna(-1)
    means = run.validation.assign(n_steps=steps).groupby([*keys, "n_steps"])["value"].mean()
    best = means.groupby(keys).max().reset_index()
    taken = run.trials[["trial_id", *tried]].assign(chosen=1)
    best = best.merge(taken, on=["trial_id", *tried], how="left").fillna({"chosen": 0})
    found: pd.DataFrame = best.groupby([*cell, *tried]).agg(
        validation=("value", "mean"), partitions=("value", "size"), chosen=("chosen", "sum")
    )
    found = found.astype({"chosen": int}).reset_index()
    return found.sort_values("validation", ascending=False, kind="stable")
