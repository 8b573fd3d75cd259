"""A run's tables of run time, of what was chosen and of what has no result.

Every table is the text that a reader sees and the raw numbers behind it.  Not for precision, which
has a module of its own, nor for LaTeX or HTML.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd

from oasis_bench.analysis.noise import noisy
from oasis_bench.reports.reading import (
    by_subset_and_learner,
    class_noun,
    finished,
    shortfall,
    subset_label,
    subsets,
)
from oasis_bench.reports.text import number_text, params_text, plural, seconds_text
from oasis_bench.store.run_file import RunRecord

TIMINGS = (
    "fit_seconds",
    "fit_cpu_seconds",
    "fit_waiting_seconds",
    "fit_peak_bytes",
    "n_steps",
    "selection_fit_seconds",
    "selection_score_seconds",
)
SHARED_NOTE = "Other trials ran on the same cores: not comparable with times taken alone."
NOISY_NOTE = (
    "Noisy in {}: the fit waited for a core for more than 5 % of its time, as other programs ran."
)
PROCESSORS_NOTE = "Trials ran on different processors: their times do not compare with each other."


@dataclass(frozen=True)
class Cell:
    """Text, whether it is bold, and the marks of its footnotes."""

    text: str
    bold: bool = False
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table as it is shown, and the numbers behind it.

    Attributes
    ----------
    name : str
        The stem of its files.
    title : str
    header : tuple of str
    align : str
        'l' or 'r' for each column.
    rows : list of list of Cell
    notes : list of (mark, text)
        The mark is '' where a note is of the whole table.
    numbers : DataFrame
        Raw and tidy, for the CSV file.
    """

    name: str
    title: str
    header: tuple[str, ...]
    align: str
    rows: list[list[Cell]]
    notes: list[tuple[str, str]]
    numbers: pd.DataFrame


@dataclass
class Notes:
    """Footnotes of a table, each kept once and marked a, b, ... z, aa, bb ..."""

    texts: list[str] = field(default_factory=list)

    def mark(self, *texts: str) -> tuple[str, ...]:
        """Keep footnotes and return their marks."""
        self.texts += [text for text in texts if text not in self.texts]
        return tuple(self._letter(self.texts.index(text)) for text in texts)

    def all(self, *of_whole_table: str) -> list[tuple[str, str]]:
        """Return the footnotes with their marks, and below them notes without one."""
        marked = [(self._letter(number), text) for number, text in enumerate(self.texts)]
        return [*marked, *(("", text) for text in of_whole_table)]

    @staticmethod
    def _letter(number: int) -> str:
        return chr(ord("a") + number % 26) * (number // 26 + 1)


def runtime_table(run: RunRecord) -> Table:
    """Make the table of seconds, memory and choices: a row for each subset and learner."""
    notes, rows, numbers = Notes(), [], []
    for subset, learner, own in by_subset_and_learner(run, finished(run)):
        values = {name: pd.to_numeric(own[name]).dropna() for name in TIMINGS}
        numbers += [
            {
                "subset": subset,
                "n_classes": subsets(run)[subset],
                "learner": learner,
                "quantity": name,
                "median": column.median(),
                "min": column.min(),
                "max": column.max(),
                "n": len(column),
            }
            for name, column in values.items()
        ]
        median = {name: column.median() for name, column in values.items()}
        fit = values["fit_seconds"]
        ends = f"[{seconds_text(fit.min())} – {seconds_text(fit.max())}]"
        texts = [
            f"{seconds_text(median['fit_seconds'])} {ends}",
            seconds_text(median["fit_cpu_seconds"]),
            number_text(median["fit_peak_bytes"] / 2**20, "{:,.1f}"),
            _most_common(own["params"].map(params_text)),
            number_text(median["n_steps"], "{:,.0f}", missing="none"),
            seconds_text(median["selection_fit_seconds"]),
            seconds_text(median["selection_score_seconds"]),
        ]
        if own.empty:
            texts = ["-"] * len(texts)
        marks = shortfall(run, subset, learner)
        if own["shared_cores"].any():
            marks += (SHARED_NOTE,)
        if count := int(noisy(own).sum()):
            marks += (NOISY_NOTE.format(f"{count} of {plural(len(own), 'partition')}"),)
        rows.append(
            [
                Cell(subset_label(run, subset)),
                Cell(learner),
                Cell(texts[0], marks=notes.mark(*marks)),
                *(Cell(text) for text in texts[1:]),
            ]
        )
    return Table(
        name="runtime",
        title="Run time of the final fit and of the choice before it: medians over partitions",
        header=(
            class_noun(run).capitalize(),
            "Learner",
            "Fit, s [min – max]",
            "CPU, s",
            "Peak, MiB",
            "Hyper-parameters",
            "Steps",
            "Choice: learning, s",
            "Choice: validation, s",
        ),
        align="rlrrrlrrr",
        rows=rows,
        notes=notes.all(*([PROCESSORS_NOTE] if run.trials["processor"].nunique() > 1 else [])),
        numbers=pd.DataFrame(numbers),
    )


def selection_table(run: RunRecord) -> Table:
    """Make the table of what the inner folds chose: a row for each subset and learner."""
    keys = ["trial_id", "params", "n_steps"]
    seen = run.validation.assign(n_steps=pd.to_numeric(run.validation["n_steps"]))
    folds = seen.groupby(keys, dropna=False)["mean_average_precision"]
    trials = finished(run).assign(n_steps=pd.to_numeric(finished(run)["n_steps"]))
    trials = trials.rename(columns={"mean_average_precision": "test_mAP"}).sort_values("partition")
    numbers = trials.merge(folds.mean().reset_index(name="validation_mAP"), on=keys, how="left")
    tried = run.validation.groupby("trial_id")["params"].nunique()
    rows, notes = [], Notes()
    for subset, learner, own in by_subset_and_learner(run, numbers):
        if own.empty:
            continue
        params = Counter(own["params"].map(params_text)).most_common()
        counted = "; ".join(f"{text} ({count})" for text, count in params)
        rows.append(
            [
                Cell(subset_label(run, subset)),
                Cell(learner),
                Cell(f"{tried.reindex(own['trial_id']).fillna(1).median():.0f}"),
                Cell(counted if len(params) > 1 else params[0][0]),
                Cell(
                    ", ".join(f"{n:,.0f}" for n in own["n_steps"].dropna()) or "none",
                    marks=notes.mark(*_capped(run, own)),
                ),
                Cell(number_text(own["validation_mAP"].mean(), "{:.3f}", missing="none")),
                Cell(f"{own['test_mAP'].mean():.3f}"),
            ]
        )
    columns = ["subset", "n_classes", "learner", "partition", "params", "n_steps"]
    return Table(
        name="selection",
        title="What the inner folds chose",
        header=(
            class_noun(run).capitalize(),
            "Learner",
            "Candidates",
            "Chosen (in how many partitions)",
            "Steps, a partition each",
            "mAP, validation",
            "mAP, test",
        ),
        align="rlrllrr",
        rows=rows,
        notes=notes.all(),
        numbers=numbers[[*columns, "validation_mAP", "test_mAP"]],
    )


def _capped(run: RunRecord, trials: pd.DataFrame) -> Iterator[str]:
    """Say where early stopping saw no saturation up to its last checkpoint."""
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


def unfinished_table(run: RunRecord) -> Table:
    """Make the table of trials without a result and why: a row for each reason."""
    columns = ["learner", "subset", "partition", "status", "reason"]
    numbers = run.trials.loc[run.trials["status"] != "ok", columns]
    keys = ["learner", "subset", "status", "reason"]
    rows = [
        [
            Cell(str(learner)),
            Cell(subset_label(run, str(subset))),
            Cell(", ".join(str(partition) for partition in sorted(partitions))),
            Cell(str(status)),
            Cell(str(reason)),
        ]
        for (learner, subset, status, reason), partitions in numbers.groupby(
            keys, sort=False, dropna=False
        )["partition"]
    ]
    return Table(
        name="unfinished",
        title="Trials without a result, and why",
        header=("Learner", class_noun(run).capitalize(), "Partitions (from 0)", "Status", "Reason"),
        align="lrlll",
        rows=rows,
        notes=[],
        numbers=numbers,
    )


def _most_common(texts: pd.Series[str]) -> str:
    """Write the most frequent of `texts`, and how frequent it is where there are others."""
    (text, count), *others = Counter(texts).most_common() or [("-", 0)]
    return f"{text} ({count} of {len(texts)})" if others else text
