"""A run's tables: precision, run time, choices and what did not finish; and the plain-text summary.

Every table is the text that a reader sees and the raw numbers behind it.  Not for figures or HTML.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd

from oasis_bench.statistics import compare_to_best, summarise
from oasis_bench.store import RunRecord

PRECISION_AT = (1, 10, 50)
MEASURES = {"mAP": 1, **{f"precision at {k}": k for k in PRECISION_AT}}
"""The least number of other images that each measure needs."""

TIMINGS = (
    "fit_seconds",
    "fit_cpu_seconds",
    "fit_peak_bytes",
    "n_steps",
    "selection_fit_seconds",
    "selection_score_seconds",
)
BOLD_NOTE = "Bold: best, or not distinguishable from the best by the paired 95 % interval."
SHARED_NOTE = "Other trials ran on the same cores: not comparable with times taken alone."
NOTE_WIDTH = 240


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
class _Notes:
    """Footnotes of a table, each kept once and marked a, b, ... z, aa, bb ..."""

    texts: list[str] = field(default_factory=list)

    def mark(self, *texts: str) -> tuple[str, ...]:
        self.texts += [text for text in texts if text not in self.texts]
        return tuple(self._letter(self.texts.index(text)) for text in texts)

    def all(self, *of_whole_table: str) -> list[tuple[str, str]]:
        marked = [(self._letter(number), text) for number, text in enumerate(self.texts)]
        return [*marked, *(("", text) for text in of_whole_table)]

    @staticmethod
    def _letter(number: int) -> str:
        return chr(ord("a") + number % 26) * (number // 26 + 1)


def learners(run: RunRecord) -> list[str]:
    """Return the learners' labels in the order of the experiment."""
    return list(run.info["experiment"]["learners"])


def subsets(run: RunRecord) -> dict[str, int]:
    """Return the number of classes of each subset, rising."""
    sizes = {name: len(classes) for name, classes in run.info["classes"].items()}
    return dict(sorted(sizes.items(), key=lambda item: item[1]))


def subset_title(run: RunRecord, subset: str) -> str:
    """Name a subset for a heading."""
    size = subsets(run)[subset]
    return f"{size} classes" if subset == str(size) else f"{subset} ({size} classes)"


def finished(run: RunRecord) -> pd.DataFrame:
    """Return the trials that gave a result."""
    return run.trials[run.trials["status"] == "ok"]


def shortfall(run: RunRecord, subset: str, learner: str) -> tuple[str, ...]:
    """Say why fewer partitions than planned are behind a learner's numbers, where that is so."""
    planned = run.info["experiment"]["partitions"]
    trials = run.trials
    trials = trials[(trials["subset"] == subset) & (trials["learner"] == learner)]
    lost = trials[trials["status"] != "ok"]
    reasons = Counter(f"{row.status}: {row.reason}" for row in lost.itertuples())
    if len(trials) == planned and not reasons:
        return ()
    parts = [f"{count} {clip(reason, NOTE_WIDTH)}" for reason, count in reasons.items()]
    if not_run := planned - len(trials):
        parts.append(f"{not_run} not run")
    n_finished = len(trials) - len(lost)
    return (
        f"{learner}: {n_finished} of {plural(planned, 'partition')} finished; {'; '.join(parts)}.",
    )


def precision_numbers(run: RunRecord) -> pd.DataFrame:
    """Compute mean, spread and comparison of each measure, for each subset and learner.

    Returns
    -------
    DataFrame
        A row each: subset, n_classes, learner, measure, mean, sd, n (partitions), verdict ('best',
        'tied' with the best, 'worse', or '' where nothing is told apart), n_shared (partitions of
        the comparison) and chance_level.
    """
    e = run.info["experiment"]
    scores = _scores(run)
    rows = []
    for subset, size in subsets(run).items():
        trials = finished(run)
        chance = summarise(trials.loc[trials["subset"] == subset, "chance_level"]).mean
        for measure in MEASURES:
            chosen = scores[(scores["subset"] == subset) & (scores["measure"] == measure)]
            wide = chosen.pivot(index="partition", columns="learner", values="value")
            wide = wide.reindex(columns=learners(run)).astype(float)
            comparison = compare_to_best(
                wide, n_train=size * e["train_per_class"], n_test=size * e["test_per_class"]
            )
            for learner in learners(run):
                summary = summarise(wide[learner].dropna())
                values = (subset, size, learner, measure, summary.mean, summary.sd, summary.n)
                rows.append((*values, comparison.verdict(learner), comparison.n_shared, chance))
    columns = ["subset", "n_classes", "learner", "measure", "mean", "sd", "n"]
    return pd.DataFrame(rows, columns=[*columns, "verdict", "n_shared", "chance_level"])


def _scores(run: RunRecord) -> pd.DataFrame:
    """Bring mAP and precision at k into one long frame."""
    columns = ["learner", "subset", "partition", "measure", "value"]
    average = finished(run).rename(columns={"mean_average_precision": "value"})
    at_k = run.precision_at_k[run.precision_at_k["k"].isin(PRECISION_AT)]
    at_k = at_k.rename(columns={"precision": "value"})
    return pd.concat(
        [
            average.assign(measure="mAP")[columns],
            at_k.assign(measure=[f"precision at {k}" for k in at_k["k"]])[columns],
        ]
    )


def precision_tables(run: RunRecord) -> list[Table]:
    """Make a table for each subset: measures down, learners across, mean ± standard deviation."""
    numbers = precision_numbers(run)
    return [
        _precision_table(run, subset, numbers[numbers["subset"] == subset])
        for subset in subsets(run)
    ]


def _precision_table(run: RunRecord, subset: str, numbers: pd.DataFrame) -> Table:
    e = run.info["experiment"]
    notes = _Notes()
    others = subsets(run)[subset] * e["test_per_class"] - 1
    rows = []
    for measure, needed in MEASURES.items():
        row = [Cell(measure)]
        of_measure = numbers[numbers["measure"] == measure]
        for number in of_measure.itertuples():
            text = f"{number.mean:.3f} ± {number.sd:.3f}".replace("nan", "n/a")
            marks = shortfall(run, subset, str(number.learner))
            if not number.n:
                text = "-"
                marks = (f"Only {others} other test images.",) if needed > others else marks
            bold = number.verdict in ("best", "tied")
            row.append(Cell(text, bold, notes.mark(*marks)))
        has_chance = (of_measure["n"] > 0).any()
        row.append(Cell(f"{of_measure['chance_level'].iloc[0]:.3f}" if has_chance else "-"))
        rows.append(row)
    return Table(
        name="precision_" + re.sub(r"[^\w-]", "_", subset),
        title=f"Precision, {subset_title(run, subset)}: "
        f"mean ± standard deviation over {plural(e['partitions'], 'partition')}",
        header=("", *learners(run), "Chance"),
        align="l" + "r" * (len(learners(run)) + 1),
        rows=rows,
        notes=notes.all(_comparison_note(numbers)),
        numbers=numbers,
    )


def _comparison_note(numbers: pd.DataFrame) -> str:
    """Say what bold means in one subset's numbers, or why there is none."""
    average = numbers[numbers["measure"] == "mAP"]
    if (average["verdict"] == "best").any():
        shared = int(average["n_shared"].iloc[0])
        of = f" Compared on the {shared} partitions that all share."
        return BOLD_NOTE + (of if shared < average["n"].max() else "")
    if (average["n"] > 0).sum() < 2:
        return "Nothing is bold: fewer than two learners have a result to compare."
    return "Nothing is bold: with fewer than two shared partitions nothing can be told apart."


def runtime_table(run: RunRecord) -> Table:
    """Make the table of seconds, memory and choices: a row for each subset and learner."""
    notes, rows, numbers = _Notes(), [], []
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
            _number_text(median["fit_peak_bytes"] / 2**20, "{:,.1f}"),
            _most_common(own["params"].map(_params_text)),
            _number_text(median["n_steps"], "{:,.0f}", missing="none"),
            seconds_text(median["selection_fit_seconds"]),
            seconds_text(median["selection_score_seconds"]),
        ]
        if own.empty:
            texts = ["-"] * len(texts)
        marks = shortfall(run, subset, learner)
        if own["shared_cores"].any():
            marks += (SHARED_NOTE,)
        rows.append(
            [
                Cell(str(subsets(run)[subset])),
                Cell(learner),
                Cell(texts[0], marks=notes.mark(*marks)),
                *(Cell(text) for text in texts[1:]),
            ]
        )
    return Table(
        name="runtime",
        title="Run time of the final fit and of the choice before it: medians over partitions",
        header=(
            "Classes",
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
        notes=notes.all(),
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
    rows, notes = [], _Notes()
    for subset, learner, own in by_subset_and_learner(run, numbers):
        if own.empty:
            continue
        params = Counter(own["params"].map(_params_text)).most_common()
        counted = "; ".join(f"{text} ({count})" for text, count in params)
        rows.append(
            [
                Cell(str(subsets(run)[subset])),
                Cell(learner),
                Cell(f"{tried.reindex(own['trial_id']).fillna(1).median():.0f}"),
                Cell(counted if len(params) > 1 else params[0][0]),
                Cell(
                    ", ".join(f"{n:,.0f}" for n in own["n_steps"].dropna()) or "none",
                    marks=notes.mark(*_capped(run, own["n_steps"])),
                ),
                Cell(_number_text(own["validation_mAP"].mean(), "{:.3f}", missing="none")),
                Cell(f"{own['test_mAP'].mean():.3f}"),
            ]
        )
    columns = ["subset", "n_classes", "learner", "partition", "params", "n_steps"]
    return Table(
        name="selection",
        title="What the inner folds chose",
        header=(
            "Classes",
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


def _capped(run: RunRecord, n_steps: pd.Series[float]) -> list[str]:
    """Say where early stopping found no saturation before the last step that it may take."""
    last = run.info["experiment"].get("max_steps")
    count = int((n_steps == last).sum())
    if not count:
        return []
    return [
        f"in {count} of {plural(len(n_steps), 'partition')} mAP still rose at "
        f"max_steps = {last:,}: more steps may rank better"
    ]


def unfinished_table(run: RunRecord) -> Table:
    """Make the table of trials that failed or crashed, with the reason."""
    columns = ["learner", "subset", "partition", "status", "reason"]
    numbers = run.trials.loc[run.trials["status"] != "ok", columns]
    return Table(
        name="unfinished",
        title="Failed or crashed, and why",
        header=("Learner", "Subset", "Partition (from 0)", "Status", "Reason"),
        align="lrrll",
        rows=[[Cell(str(value)) for value in row] for row in numbers.itertuples(index=False)],
        notes=[],
        numbers=numbers,
    )


def clip(text: str, width: int) -> str:
    """Cut `text` to `width` characters, the last one an ellipsis where something was cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def plural(count: int, noun: str) -> str:
    """Write a number of things."""
    return f"{count} {noun}" + ("" if count == 1 else "s")


def seconds_text(seconds: float) -> str:
    """Write seconds with two or three digits."""
    if 0 < seconds < 0.01:
        return f"{seconds:.2g}"
    digits = next((n for bound, n in ((1, 3), (10, 2), (100, 1)) if seconds < bound), 0)
    return _number_text(seconds, f"{{:,.{digits}f}}") if seconds else "0"


def _params_text(params: str) -> str:
    """Write hyper-parameters, given as JSON, as name=value."""
    return ", ".join(f"{name}={value}" for name, value in json.loads(params).items()) or "none"


def by_subset_and_learner(
    run: RunRecord, rows: pd.DataFrame
) -> Iterator[tuple[str, str, pd.DataFrame]]:
    """Go over subsets and learners, each with its rows."""
    for subset in subsets(run):
        for learner in learners(run):
            own = rows[(rows["subset"] == subset) & (rows["learner"] == learner)]
            yield subset, learner, own


def _most_common(texts: pd.Series[str]) -> str:
    """Write the most frequent of `texts`, and how frequent it is where there are others."""
    (text, count), *others = Counter(texts).most_common() or [("-", 0)]
    return f"{text} ({count} of {len(texts)})" if others else text


def _number_text(value: float, pattern: str, missing: str = "n/a") -> str:
    return missing if pd.isna(value) else pattern.format(value)
