"""The tables of what the trials chose, how symmetric their W is, and which have no result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pandas as pd

from oasis_bench.analysis.statistics import summarise
from oasis_bench.reports.formatting import number_text, params_text, plural
from oasis_bench.reports.run.facts import (
    by_subset_and_learner,
    class_noun,
    finished,
    partitions_text,
    subset_label,
    subsets,
)
from oasis_bench.reports.table import Cell, Table
from oasis_bench.store.run_file import RunRecord


def selection_table(run: RunRecord) -> Table:
    """Make the table of what the inner folds chose: a row for each subset and learner."""
    keys = ["trial_id", "params", "n_steps"]
    seen = run.validation.assign(n_steps=pd.to_numeric(run.validation["n_steps"]))
    folds = seen.groupby(keys, dropna=False)["mean_average_precision"]
    trials = finished(run).assign(n_steps=pd.to_numeric(finished(run)["n_steps"]))
    trials = trials.rename(columns={"mean_average_precision": "test_mAP"}).sort_values("partition")
    numbers = trials.merge(folds.mean().reset_index(name="validation_mAP"), on=keys, how="left")
    tried = run.validation.groupby("trial_id")["params"].nunique()
    rows = []
    for subset, learner, own in by_subset_and_learner(run, numbers):
        if own.empty:
            continue
        params = Counter(own["params"].map(params_text)).most_common()
        counted = "; ".join(f"{text} ({count})" for text, count in params)
        steps = ", ".join(f"{n:,.0f}" for n in own["n_steps"].dropna()) or "none"
        rows.append(
            [
                subset_label(run, subset),
                learner,
                f"{tried.reindex(own['trial_id']).fillna(1).median():.0f}",
                counted if len(params) > 1 else params[0][0],
                Cell(steps, notes=tuple(_stopped_by_max_steps(run, own))),
                number_text(own["validation_mAP"].mean(), "{:.3f}", missing="none"),
                f"{own['test_mAP'].mean():.3f}",
            ]
        )
    columns = ["subset", "n_classes", "learner", "partition", "params", "n_steps"]
    return Table(
        name="selection",
        title="What the inner folds chose",
        header=(
            *(class_noun(run).capitalize(), "Learner", "Candidates"),
            *("Chosen (in how many partitions)", "Steps, a partition each"),
            *("mAP, validation", "mAP, test"),
        ),
        align="rlrllrr",
        rows=rows,
        numbers=numbers[[*columns, "validation_mAP", "test_mAP"]],
    )


def _stopped_by_max_steps(run: RunRecord, trials: pd.DataFrame) -> Iterator[str]:
    """Say where early stopping chose its last checkpoint, so that more steps might be better."""
    seen = run.validation.merge(trials[["trial_id", "params"]], on=["trial_id", "params"])
    checkpoints = pd.to_numeric(seen["n_steps"]).groupby(seen["trial_id"]).agg(["max", "nunique"])
    checkpoints = checkpoints.reindex(trials["trial_id"])
    at_end = checkpoints["nunique"].gt(1) & (
        checkpoints["max"] == trials.set_index("trial_id")["n_steps"]
    )
    if at_end.any():
        yield (
            f"In {at_end.sum()} of {plural(len(trials), 'partition')} mAP still rose at the last "
            f"checkpoint ({checkpoints['max'].max():,.0f} steps): a larger max_steps may do better."
        )


def symmetry_tables(run: RunRecord) -> list[Table]:
    """Make the table of the symmetry index after the final fit; none where no W was recorded."""
    trials = finished(run)
    measured = trials[trials["symmetry_index"].notna()]
    rows, numbers = [], []
    for subset, learner, own in by_subset_and_learner(run, measured):
        if own.empty:
            continue
        index = summarise(own["symmetry_index"])
        text = f"{index.mean:.3f} ± {number_text(index.sd, '{:.3f}')}"
        rows.append([subset_label(run, subset), learner, text])
        numbers.append((subset, subsets(run)[subset], learner, index.mean, index.sd, index.n))
    if not rows:
        return []
    return [
        Table(
            name="symmetry",
            title="Symmetry index of W after the final fit: mean ± standard deviation over "
            + partitions_text(run),
            header=(class_noun(run).capitalize(), "Learner", "Symmetry index"),
            align="rlr",
            rows=rows,
            numbers=pd.DataFrame(
                numbers, columns=["subset", "n_classes", "learner", "mean", "sd", "n"]
            ),
        )
    ]


def unfinished_table(run: RunRecord) -> Table:
    """Make the table of trials without a result and why: a row for each reason."""
    keys = ["learner", "subset", "status", "reason"]
    numbers = run.trials.loc[
        run.trials["status"] != "ok", ["learner", "subset", "partition", "status", "reason"]
    ]
    groups = numbers.groupby(keys, sort=False, dropna=False)["partition"]
    return Table(
        name="unfinished",
        title="Trials without a result, and why",
        header=("Learner", class_noun(run).capitalize(), "Partitions (from 0)", "Status", "Reason"),
        align="lrlll",
        rows=[
            [
                str(learner),
                subset_label(run, str(subset)),
                ", ".join(str(partition) for partition in sorted(partitions)),
                str(status),
                str(reason),
            ]
            for (learner, subset, status, reason), partitions in groups
        ],
        numbers=numbers,
    )
