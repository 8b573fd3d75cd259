"""The tables of what the trials chose, how symmetric their W is, and which have no result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

import pandas as pd

from oasis_bench.analysis import summarise
from oasis_bench.reports.formatting import number_text, params_text
from oasis_bench.reports.run.facts import (
    by_cell,
    chooser,
    class_noun,
    dagger_notes,
    facets,
    finished,
    marked,
    of_splits,
    partitions_text,
    splits,
    subset_label,
    subsets,
    task_title,
    test_values,
)
from oasis_bench.reports.run.search_notes import search_notes
from oasis_bench.reports.table import Cell, Table
from oasis_bench.runs import StoredRun
from oasis_bench.trial import TRAINING


def selection_table(run: StoredRun) -> Table:
    """Make the table of what the inner folds chose: a row for each subset and learner."""
    numbers = chosen_trials(run)
    candidates = run.validation[["trial_id", "scaling", "params"]].drop_duplicates()
    tried = candidates["trial_id"].value_counts()
    rows = []
    for split, subset, learner, own in by_cell(run, numbers):
        if own.empty:
            continue
        chosen = own["params"].map(params_text)
        if len(run.info.scaling) > 1:
            chosen = own["scaling"] + ", " + chosen.replace("none", "no hyper-parameter")
        params = Counter(chosen).most_common()
        counted = "; ".join(f"{text} ({count})" for text, count in params)
        steps = ", ".join(f"{n:,.0f}" for n in own["n_steps"].dropna()) or "none"
        rows.append(
            [
                subset_label(run, subset),
                *of_splits(run, split),
                marked(run, learner),
                f"{tried.reindex(own['trial_id']).fillna(1).median():.0f}",
                counted if len(params) > 1 else params[0][0],
                Cell(steps, notes=tuple(search_notes(run, own))),
                number_text(own["validation"].mean(), "{:.3f}", missing="none"),
                number_text(own["test"].mean(), "{:.3f}"),
            ]
        )
    columns = ["split", "subset", "n_classes", "learner", "partition", "scaling", "params"]
    return Table(
        name="selection",
        title="What the inner folds chose",
        header=(
            *(class_noun(run).capitalize(), *of_splits(run, "Split"), "Learner", "Candidates"),
            *("Chosen (in how many partitions)", "Steps, a partition each"),
            *("Validation", "Test"),
        ),
        align="r" + "l" * len(of_splits(run, "")) + "lrllrr",
        rows=rows,
        numbers=numbers[[*columns, "n_steps", "measure", "validation", "test"]],
        notes=[*chosen_by(run), *dagger_notes(run, numbers["learner"])],
    )


def chosen_by(run: StoredRun) -> Iterator[str]:
    """Say by what measure the inner folds chose, on each split."""
    for split in splits(run):
        task, measure = chooser(run, split)
        where = "".join(of_splits(run, f" on the split {split}"))
        yield f"Validation and test{where}: {measure} of the task {task}."


def chosen_trials(run: StoredRun) -> pd.DataFrame:
    """Return the finished trials with what chose them: on validation folds, training, test items.

    That of training items is NaN where it was not measured.
    """
    keys = ["trial_id", "scaling", "params", "n_steps"]
    validation = (
        run.validation.groupby(keys, dropna=False)["value"].mean().reset_index(name="validation")
    )
    trials = finished(run).sort_values("partition")
    trials = trials.merge(validation, on=keys, how="left")
    training = run.fit_numbers[run.fit_numbers["name"] == TRAINING].set_index("trial_id")["value"]
    trials["training"] = trials["trial_id"].map(training.to_dict()).astype(float)
    parts = []
    for split in splits(run):
        own = trials[trials["split"] == split]
        test = own["trial_id"].map(test_values(run, split).to_dict()).astype(float)
        parts.append(own.assign(measure=chooser(run, split)[1], test=test))
    return pd.concat(parts)


def symmetry_tables(run: StoredRun) -> list[Table]:
    """Make the table of the symmetry index after the final fit; none where no W was recorded."""
    trials = finished(run)
    measured = trials[trials["symmetry_index"].notna()]
    rows, numbers = [], []
    for split, subset, learner, own in by_cell(run, measured):
        if own.empty:
            continue
        index = summarise(own["symmetry_index"])
        text = f"{index.mean:.3f} ± {number_text(index.sd, '{:.3f}')}"
        rows.append([subset_label(run, subset), *of_splits(run, split), marked(run, learner), text])
        cell = (split, subset, subsets(run)[subset], learner)
        numbers.append((*cell, index.mean, index.sd, index.n))
    if not rows:
        return []
    return [
        Table(
            name="symmetry",
            title="Symmetry index of W after the final fit: mean ± standard deviation over "
            + partitions_text(run),
            header=(
                *(class_noun(run).capitalize(), *of_splits(run, "Split")),
                *("Learner", "Symmetry index"),
            ),
            align="r" + "l" * len(of_splits(run, "")) + "lr",
            rows=rows,
            numbers=pd.DataFrame(
                numbers, columns=["split", "subset", "n_classes", "learner", "mean", "sd", "n"]
            ),
            notes=dagger_notes(run, [learner for _, _, _, learner, *_ in numbers]),
        )
    ]


def unfinished_table(run: StoredRun) -> Table:
    """Make the table of trials without a result and why: a row for each reason."""
    rows = run.trials[run.trials["status"] != "ok"]
    return _without(run, rows, "unfinished", "Trials without a result, and why", {})


def unanswered_table(run: StoredRun, task: str) -> Table:
    """Make the table of trials that gave a result but did not answer a task, and why."""
    rows = run.answers[(run.answers["task"] == task) & (run.answers["status"] != "ok")]
    rows = rows[rows["trial_id"].isin(finished(run)["trial_id"])]
    title = f"{task_title(task)}: not answered, and why"
    return _without(run, rows, f"unanswered_{task}", title, facets(run, task))


def _without(
    run: StoredRun, trials: pd.DataFrame, name: str, title: str, of: Mapping[str, str]
) -> Table:
    keys = ["learner", "subset", "split", "status", "reason"]
    numbers = trials[["learner", "subset", "split", "partition", "status", "reason"]]
    groups = numbers.groupby(keys, sort=False, dropna=False)["partition"]
    return Table(
        name=name,
        title=title,
        header=(
            *("Learner", class_noun(run).capitalize(), *of_splits(run, "Split")),
            *("Partitions (from 0)", "Status", "Reason"),
        ),
        align="lr" + "l" * len(of_splits(run, "")) + "lll",
        rows=[
            [
                marked(run, str(learner)),
                subset_label(run, str(subset)),
                *of_splits(run, str(split)),
                ", ".join(str(partition) for partition in sorted(partitions)),
                str(status),
                str(reason),
            ]
            for (learner, subset, split, status, reason), partitions in groups
        ],
        numbers=numbers,
        notes=dagger_notes(run, numbers["learner"]),
        of=of,
    )
