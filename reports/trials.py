"""The tables of trials: what was tuned, what it gave and cost, and which have no result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from oasis_bench.reports.table import (
    Cell,
    Column,
    Table,
    counted,
    numbers_as,
    params_text,
    plural,
    seconds_text,
)
from oasis_bench.reports.view import RunView, task_title
from oasis_bench.reports.words import notes_where

three_digits = numbers_as("{:.3f}", "none")


def selection_table(view: RunView) -> Table:
    """Make the table of what the inner folds tuned: a row for each subset, learner and measure."""
    cells = {
        (split, *where, measure): own
        for split in view.splits
        for *where, of_cell in view.by_subset_and_learner(
            view.tuned[view.tuned["split"] == split], split
        )
        for measure, own in of_cell.groupby("measure", sort=False, dropna=False)
    }
    rows = pd.DataFrame(list(cells), columns=["split", "subset", "learner", "measure"])
    trials = cells.values()
    has_several_measures = bool(view.measures_that_tuned["split"].duplicated().any())
    tried = [view.n_tried.reindex(own["trial_id"]).fillna(1) for own in trials]
    at_end = [{it for end in tuned_ends(view, own) for it in end.trial_ids} for own in trials]
    columns = ["split", "subset", "n_classes", "learner", "partition", "scaling", "params"]
    columns += ["n_steps", "use", "tau", "blend", "measure", "validation", "training"]
    columns += ["direct", "posterior", "as_learned", "test"]
    columns += ["tuning_seconds", "fit_seconds"]
    return Table(
        name="selection",
        title="Tuned hyper-parameters and steps (the CSV file has a row for each trial)",
        columns=[
            view.subset_column(rows),
            *view.split_columns(rows),
            view.learner_column(rows),
            *[Column("By", rows["measure"], align="l")] * has_several_measures,
            *(
                Column(str(name).capitalize(), [it[name].median() for it in tried], "{:.0f}".format)
                for name in view.n_tried
            ),
            Column(
                "Tuned (in how many partitions)", (_tuned(view, own) for own in trials), align="l"
            ),
            Column("Steps in each partition", map(_steps, trials), align="l"),
            Column("At an end", map(len, at_end)),
            Column("Validation", (own["validation"].mean() for own in trials), three_digits),
            *[Column("Use", map(_uses, trials), align="l")]
            * (view.is_blended or view.has_posterior),
            *[Column("As learned", [it["as_learned"].mean() for it in trials], three_digits)]
            * view.is_blended,
            Column("Test", (own["test"].mean() for own in trials), numbers_as("{:.3f}")),
        ],
        numbers=view.tuned[columns],
        notes=[
            *tuned_by_notes(view),
            *notes_where(
                {"use": view.has_posterior, "weight": view.is_blended, "at_end": True},
                items=view.info.items,
            ),
        ],
    )


def _tuned(view: RunView, trials: pd.DataFrame) -> str:
    """Write what was tuned, with the numbers of partitions where it differs."""
    chosen = trials["params"].map(params_text)
    if len(view.info.scaling) > 1:
        chosen = trials["scaling"] + ", " + chosen.replace("none", "no hyper-parameter")
    return counted(chosen)


def _steps(trials: pd.DataFrame) -> str:
    """Write the tuned numbers of steps."""
    return "; ".join(f"{n:,.0f}" for n in trials["n_steps"].dropna()) or "none"


def _uses(trials: pd.DataFrame) -> str:
    """Write the selected use with its tau and b, and the numbers of partitions that differ."""
    tau = trials["tau"].map(numbers_as(", tau {:g}", ""))
    blend = trials["blend"].map(numbers_as(", b {:g}", ""))
    return counted(trials["use"].fillna("none") + tau + blend)


def tuned_by_notes(view: RunView) -> Iterator[str]:
    """Say by what measure the inner folds tuned, on each split."""
    for split, rows in view.measures_that_tuned.groupby("split", sort=False):
        where = view.of_split(f" on the split {split}")
        by = [f"{one.measure} of the task {one.task}" for one in rows.itertuples()]
        yield f"Validation and test{where}: {' or '.join(by)}."


@dataclass(frozen=True)
class TunedEnd:
    """The smallest or largest value of a hyper-parameter, and the trials in which it was tuned."""

    name: str
    tried: tuple[Any, ...]  # all values, those that are no numbers first
    is_largest: bool
    trial_ids: frozenset[str]
    n_trials: int

    @property
    def in_words(self) -> str:
        """Say how often it was tuned."""
        numbers = [value for value in self.tried if is_number(value)]
        which, value = ("largest", max(numbers)) if self.is_largest else ("smallest", min(numbers))
        of_all = plural(self.n_trials, "partition")
        tuned = f"tuning selected the {which} {self.name} that was tried ({value:g})"
        return f"in {len(self.trial_ids)} of {of_all} {tuned}"

    @property
    def wider(self) -> str:
        """Write all values and one beyond the end, as `--param` takes them."""
        numbers = [value for value in self.tried if is_number(value)]
        end, before = (numbers[-1], numbers[-2]) if self.is_largest else numbers[:2]
        if self.is_largest and 0.5 < end < 1:  # a share: it stays below 1
            more = 1 - float(f"{(1 - end) ** 2 / (1 - before):.1g}")
        else:
            more = float(f"{end * end / before:.2g}")
        more = round(more) if isinstance(end, int) else float(f"{more:.6g}")
        return ",".join(map(str, [*self.tried, more] if self.is_largest else [more, *self.tried]))


def is_number(value: object) -> bool:
    """Tell whether a value of a hyper-parameter is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def tuned_ends(view: RunView, trials: pd.DataFrame) -> list[TunedEnd]:
    """Return the ends of ranges, of three numbers or more, that one learner's trials have tuned.

    Natural ends do not count: a whole number of 0 or 1, such as one neighbour, and the largest
    number where None, as many as there are, was tried too.
    """
    seen = view.validation.loc[view.validation["trial_id"].isin(trials["trial_id"]), "params"]
    tried: dict[str, set[Any]] = {}
    for text in seen.unique():
        for name, value in json.loads(text).items():
            tried.setdefault(name, set()).add(value)
    chosen = {key: json.loads(text) for key, text in trials[["trial_id", "params"]].to_numpy()}
    found = []
    for name, values in tried.items():
        numbers = sorted(filter(is_number, values))
        if len(numbers) < 3:
            continue
        others = sorted(values.difference(numbers), key=str)
        for end in (numbers[0], numbers[-1]):
            is_natural = isinstance(end, int) and end in (0, 1)
            is_natural |= end == numbers[-1] and None in values
            at_end = frozenset(key for key, own in chosen.items() if own.get(name) == end)
            if at_end and not is_natural:
                is_largest = end == numbers[-1]
                found.append(TunedEnd(name, (*others, *numbers), is_largest, at_end, len(trials)))
    return found


def unfinished_table(view: RunView) -> Table:
    """Make the table of trials without a result, or none of a task: a row for each reason."""
    numbers = view.lost.assign(task=view.lost["task"].replace("", "all"))
    keys = ["learner", "subset", "split", "task", "status", "reason"]
    groups = numbers.groupby(keys, sort=False, dropna=False)["partition"]
    shown = groups.agg(lambda own: ", ".join(map(str, sorted(own)))).reset_index()
    return Table(
        name="unfinished",
        title="Trials without a result, and why",
        columns=[
            view.learner_column(shown),
            view.subset_column(shown),
            *view.split_columns(shown),
            Column("Task", shown["task"].map(task_title), align="l"),
            Column("Partitions (from 0)", shown["partition"], align="l"),
            Column("Status", shown["status"], align="l"),
            Column("Reason", shown["reason"], align="l"),
        ],
        numbers=numbers,
    )


def cost_tables(view: RunView) -> list[Table]:
    """Make the table of the three costs and of memory for each split."""
    return [_cost_table(view, split) for split in view.splits]


def _cost_table(view: RunView, split: str) -> Table:
    cells = list(view.by_subset_and_learner(view.finished_on(split), split))
    keys, trials = ["subset", "learner"], [own for *_, own in cells]
    rows = pd.DataFrame([where for *where, _ in cells], columns=keys)
    numbers = view.costs(split)
    medians = numbers.set_index([*keys, "quantity"])["median"].unstack()
    medians = medians.loc[list(rows.itertuples(index=False, name=None))]

    def column(header: str, values: Any, text: Any) -> Column:
        shown = [it if len(own) else Cell("-") for it, own in zip(values, trials, strict=True)]
        return Column(header, shown, text)

    return Table(
        name="costs" + view.of_split(f"_{split}"),
        title="Time of tuning, fit and query, and memory: medians over partitions"
        + view.of_split(f", split {split}"),
        columns=[
            view.subset_column(rows),
            view.learner_column(rows),
            column("Tuning, s", medians["tuning_seconds"], seconds_text),
            Column("Fit, s [min – max]", (_fit_cell(view, split, *cell) for cell in cells)),
            column("Fit, CPU s", medians["fit_cpu_seconds"], seconds_text),
            column("Query, ms", 1000 * medians["seconds_per_query"], seconds_text),
            column("Model, KiB", medians["model_bytes"] / 2**10, numbers_as("{:,.1f}")),
            column("Peak, MiB", medians["fit_peak_bytes"] / 2**20, numbers_as("{:,.1f}")),
        ],
        numbers=numbers,
        notes=notes_where({"processors": view.trials["processor"].nunique() > 1}),
    )


def _fit_cell(view: RunView, split: str, subset: str, learner: str, trials: pd.DataFrame) -> Cell:
    """Write the median of fit times with their range, and why some lack or do not compare."""
    notes = view.shortfall(subset, learner, split)
    n_noisy = int(trials["noisy"].sum())
    needed = {"shared": trials["shared_cores"].any(), "noisy": n_noisy}
    notes += (*notes_where(needed, n=n_noisy, partitions=plural(len(trials), "partition")),)
    if trials.empty:
        return Cell("-", notes=notes)
    fit = trials["fit_seconds"]
    extent = f" [{seconds_text(fit.min())} – {seconds_text(fit.max())}]" if fit.any() else ""
    return Cell(seconds_text(fit.median()) + extent, notes=notes)
