"""Retrieval among seen beside unseen classes, and what a run of seen classes alone lacks."""

from __future__ import annotations

import pandas as pd

from oasis_bench.reports.formatting import number_text
from oasis_bench.reports.run.facts import (
    class_noun,
    dagger_notes,
    learners,
    marked,
    partitions_text,
    shortfall,
    split_of,
    subset_label,
    subsets,
    tasks,
)
from oasis_bench.reports.run.measure_tables import (
    bold_note,
    mean_texts,
    measure_numbers,
    with_chance,
)
from oasis_bench.reports.run.verdict import again
from oasis_bench.reports.table import Cell, Table
from oasis_bench.runs import StoredRun
from oasis_bench.tasks import too_few_classes

SEEN, UNSEEN = "retrieval", "unseen-classes"
MEASURE = "mAP"
CLASSIFIER = "ClassifierPosterior"


def seen_and_unseen_tables(run: StoredRun) -> list[Table]:
    """Make the table of mAP among seen and unseen classes: none where a run has not both tasks."""
    if not {SEEN, UNSEEN} <= set(tasks(run)):
        return []
    of_task = {task: measure_numbers(run, task) for task in (SEEN, UNSEEN)}
    of_task = {task: own[own["name"] == MEASURE] for task, own in of_task.items()}
    rows: list[list[str | Cell]] = []
    for subset in subsets(run):
        columns, chances = [], []
        for task, numbers in of_task.items():
            own = numbers[numbers["subset"] == subset]
            cells = zip(own["learner"], mean_texts(own), own["bold"], strict=True)
            columns.append(
                [
                    Cell(text, bold, shortfall(run, subset, name, split_of(run, task), task))
                    for name, text, bold in cells
                ]
            )
            chances.append(number_text(own["chance"].iloc[0], "{:.3f}", missing="-"))
        label = subset_label(run, subset)
        rows += [
            [label, marked(run, name), *cells]
            for name, *cells in zip(learners(run), *columns, strict=True)
        ]
        rows.append([label, "chance", *chances])
    parts = [with_chance(numbers).assign(task=task) for task, numbers in of_task.items()]
    everything = pd.concat(parts, ignore_index=True)
    return [
        Table(
            name="seen_and_unseen",
            title=f"{MEASURE} among seen and among unseen classes: mean ± standard deviation over "
            + partitions_text(run),
            header=("Classes", "Learner", "Seen classes", "Unseen classes"),
            align="llrr",
            rows=rows,
            numbers=everything,
            notes=[*bold_note(everything), *dagger_notes(run, learners(run))],
        )
    ]


def what_is_missing(run: StoredRun) -> tuple[str, str] | None:
    """Say what retrieval among seen classes alone does not show, and the command that adds it.

    Returns
    -------
    tuple of two str, or None
        A sentence, and a command, or the options to add to the run's own where that is not known;
        None where the run has a classifier or unseen classes, or nothing was fitted.
    """
    specs = run.info.experiment.learners
    if SEEN not in tasks(run) or UNSEEN in tasks(run):
        return None
    if any(spec.algorithm == CLASSIFIER or spec.model for spec in specs.values()):
        return None
    seen = f"{class_noun(run)} that it has seen"
    what = f"a classifier’s posterior, which can beat every metric among {seen}"
    options = {"--algorithms": ",".join([*specs, CLASSIFIER])}
    most = max(map(len, run.info.classes.values()), default=0)
    if not (run.info.multi_label or run.info.n_folds or too_few_classes(most)):
        what += ", and retrieval among unseen classes, where what was learned must carry over"
        options["--tasks"] = ",".join([*tasks(run), UNSEEN])
    added = "both" if "--tasks" in options else "it"
    return f"Missing here: {what}. To add {added}:", again(run, options)
