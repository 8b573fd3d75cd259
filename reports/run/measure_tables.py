"""The tables of a task's measures, one for each class subset: means, spreads and comparisons."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

import pandas as pd

from oasis_bench.analysis import (
    BestLearners,
    compare_to_best,
    headlines,
    measures_of,
    shown_in_text,
    task_measures,
)
from oasis_bench.reports.formatting import number_text, plural
from oasis_bench.reports.run.facts import (
    dagger_notes,
    facets,
    learners,
    marked,
    partitions_text,
    shortfall,
    sizes,
    split_of,
    subset_title,
    subsets,
    task_title,
)
from oasis_bench.reports.table import Cell, Table
from oasis_bench.runs import StoredRun

BOLD = ("best", "tied")
"""The verdicts that are shown in bold, of learners that were measured on all partitions."""

CHANCE = "chance"
"""What stands for a learner in rows of chance."""

BOLD_NOTE = (
    "Bold: best, or not distinguishable from the best by the corrected resampled paired t-test "
    "(level 0.05 for all comparisons of a measure together, by Holm)."
)
FILE_NAME_WIDTH = 60


class Comparison(NamedTuple):
    """Learners compared with the best by one measure: scores are (n_partitions, n_learners)."""

    subset: str
    name: str
    scores: pd.DataFrame
    best: BestLearners


def measure_numbers(run: StoredRun, task: str) -> pd.DataFrame:
    """Compute mean, spread, chance and comparison of each measure of a task.

    Returns
    -------
    DataFrame
        A row for each subset, measure and learner: subset, n_classes, learner, measure, k, name
        (see `analysis.headlines`), mean, sd, n (partitions), chance (mean over the partitions,
        each counted once), n_measured (partitions with a value of any learner), verdict (see
        `statistics.BestLearners`) and n_shared (partitions shared with the best), which are ''
        and 0 but for headlines, and bold.
    """
    values, measures = task_measures(run, task), measures_of(run, task)
    keys = ["subset", "name"]
    spread = values.groupby([*keys, "learner"])["value"].agg(["mean", "std", "count"])
    partitions = values.drop_duplicates([*keys, "partition"]).groupby(keys)["chance"]
    each_once = partitions.agg(["mean", "size"]).set_axis(["chance", "n_measured"], axis="columns")
    cells = pd.MultiIndex.from_product(
        [subsets(run), measures["name"], learners(run)], names=[*keys, "learner"]
    )
    numbers = spread.reindex(cells).set_axis(["mean", "sd", "n"], axis="columns").reset_index()
    numbers = numbers.merge(measures, on="name").join(each_once, on=keys)
    verdicts = pd.DataFrame(
        [
            (subset, name, learner, verdict, comparison.n_shared[learner])
            for subset, name, _, comparison in comparisons(run, task)
            for learner, verdict in comparison.verdicts.items()
        ],
        columns=[*keys, "learner", "verdict", "n_shared"],
    )
    numbers = numbers.merge(verdicts, on=[*keys, "learner"], how="left")
    numbers = numbers.fillna({"n": 0, "n_measured": 0, "verdict": "", "n_shared": 0})
    numbers = numbers.astype({"n": int, "n_measured": int, "n_shared": int})
    on_all = numbers["n"] == numbers["n_measured"]
    numbers["bold"] = numbers["verdict"].isin(BOLD) & on_all
    numbers["n_classes"] = numbers["subset"].map(subsets(run))
    columns = ["subset", "n_classes", "learner", "measure", "k", "name", "mean", "sd", "n"]
    return numbers[[*columns, "n_measured", "chance", "verdict", "n_shared", "bold"]]


def with_chance(numbers: pd.DataFrame) -> pd.DataFrame:
    """Add a row for each subset and measure of `measure_numbers` with a chance: its learner is it.

    Its mean is the chance, over all partitions; it has no spread and is not compared.
    """
    rows = numbers.drop_duplicates(["subset", "name"]).dropna(subset="chance")
    rows = rows.assign(learner=CHANCE, mean=rows["chance"], sd=math.nan, n=rows["n_measured"])
    rows = rows.assign(verdict="", n_shared=0, bold=False)
    return pd.concat([numbers, rows], ignore_index=True) if len(rows) else numbers


@lru_cache(maxsize=16)
def comparisons(run: StoredRun, task: str, baseline: str | None = None) -> tuple[Comparison, ...]:
    """Compare the learners with the best, or a baseline, for each subset and headline of a task."""
    found = []
    values = task_measures(run, task)
    for subset in subsets(run):
        images = sizes(run, subset, split_of(run, task))
        of_subset = values[values["subset"] == subset]
        for name in headlines(run, task):
            chosen = of_subset[of_subset["name"] == name]
            scores = chosen.pivot(index="partition", columns="learner", values="value")
            scores = scores.reindex(columns=learners(run)).astype(float)
            # Without a trial there are no sizes, and no scores that they would matter for.
            best = compare_to_best(scores, *(images or (1, 1)), baseline=baseline)
            found.append(Comparison(subset, name, scores, best))
    return tuple(found)


def mean_texts(numbers: pd.DataFrame) -> list[str]:
    """Write mean ± standard deviation of each row of `measure_numbers`; '-' without a result."""
    return [
        f"{mean:.3f} ± {number_text(sd, '{:.3f}')}" if n else "-"
        for mean, sd, n in zip(numbers["mean"], numbers["sd"], numbers["n"], strict=True)
    ]


def measure_tables(run: StoredRun, task: str) -> tuple[list[Table], list[Table]]:
    """Make tables for each subset: mean ± standard deviation, and chance.

    Returns
    -------
    headlines : list of Table
        Learners down; the headlines across, and the measures of the data that they are compared
        with.
    every : list of Table
        All measures down, learners across; empty where the headlines are all.
    """
    numbers, first = measure_numbers(run, task), shown_in_text(run, task)
    shown = numbers[numbers["name"].isin(first)]
    return (
        [
            _table(run, task, str(subset), own)
            for subset, own in shown.groupby("subset", sort=False)
        ],
        [
            _table(run, task, str(subset), own, every=True)
            for subset, own in numbers.groupby("subset", sort=False)
            if len(first) < len(measures_of(run, task))
        ],
    )


def _table(
    run: StoredRun, task: str, subset: str, numbers: pd.DataFrame, every: bool = False
) -> Table:
    split, names = split_of(run, task), {name: marked(run, name) for name in learners(run)}
    images = sizes(run, subset, split)
    ranks = images is not None and "mAP" in run.info.sources.tasks[task].measures
    records = numbers.assign(text=mean_texts(numbers)).to_dict("records")
    columns: list[list[Cell]] = []  # of a measure: its name, each learner's, chance
    for name, of_measure in groupby(records, lambda value: value["name"]):
        values = [{str(key): it for key, it in value.items()} for value in of_measure]
        limits = _limits(values[0], images[1] - 1, run.info.items) if images and ranks else ()
        cells = [
            Cell(value["text"], value["bold"], tuple(_caveats(values, value, names)))
            for value in values
        ]
        chance = number_text(values[0]["chance"], "{:.3f}", missing="-")
        columns.append([Cell(str(name)), *cells, Cell(chance, notes=tuple(limits))])
    gaps = {name: shortfall(run, subset, name, split, task) for name in names}
    first = [Cell("Measure" if every else "Learner")]
    first += [Cell(text, notes=gaps[name]) for name, text in names.items()] + [Cell(CHANCE)]
    # Learners stand below each other; so do measures where there are many of them.
    header, *rows = [first, *columns] if every else zip(first, *columns, strict=True)
    what = f"{task_title(task)}, {'every measure, ' * every}{subset_title(run, subset)}"
    return Table(
        name=f"{task}_{file_name(subset)}" + "_every" * every,
        title=f"{what}: mean ± standard deviation over {partitions_text(run)}",
        header=tuple(cell.text for cell in header),
        align="l" + "r" * (len(header) - 1),
        rows=rows,
        numbers=with_chance(numbers),
        notes=[
            *(note for cell in header for note in cell.notes),
            *bold_note(numbers[numbers["name"] == headlines(run, task)[0]]),
            *_left_out(run, task, subset),
            *dagger_notes(run, names),
        ],
        of=facets(run, task, subset),
        across="Learner" if every else "Measure",
    )


def _limits(value: Mapping[str, Any], others: int, items: str) -> Iterator[str]:
    """Say where precision at k of a ranking does not exist, or cannot reach 1.

    The bound is that of the mean number of relevant items: with several labels an item the true
    one may lie a little below it, as the mean of min(relevant, k) / k is at most the bound.
    """
    if value["measure"] != "precision":
        return
    k, relevant = value["k"], _relevant(value, others)
    if k > others:
        yield f"Only {others} other test {items}."
    elif relevant < k:
        count, exactly = _count_text(relevant)
        yield f"At most {relevant / k:.2f}: {count} relevant {items}{exactly} for {k:.0f} places."


def _relevant(value: Mapping[str, Any], others: int) -> float:
    """Return the mean number of relevant items of a query, from the chance of precision."""
    return float(round(value["chance"] * others, 6))


def _count_text(relevant: float) -> tuple[str, str]:
    exactly = "" if relevant == round(relevant) else " on average"
    return f"{relevant:.1f}".removesuffix(".0"), exactly


def ceilings(run: StoredRun, task: str, numbers: pd.DataFrame) -> Iterator[str]:
    """Say, a line each, which precision at k of `measure_numbers` cannot reach 1, and why."""
    if "mAP" not in run.info.sources.tasks[task].measures:
        return
    shown = numbers[(numbers["measure"] == "precision") & numbers["chance"].notna()]
    for value in shown.drop_duplicates(["subset", "name"]).to_dict("records"):
        images = sizes(run, str(value["subset"]), split_of(run, task))
        if images is None or value["k"] > images[1] - 1:
            continue
        named_value = {str(key): it for key, it in value.items()}
        if (relevant := _relevant(named_value, images[1] - 1)) < value["k"]:
            count, exactly = _count_text(relevant)
            items = run.info.items.removesuffix("s") if count == "1" else run.info.items
            yield (
                f"precision@{value['k']:.0f}: at most {relevant / value['k']:.3f} here, as a query "
                f"has {count} relevant {items}{exactly}"
            )


def _caveats(
    values: Sequence[Mapping[str, Any]], own: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[str]:
    """Say where a learner was not compared with the best, or is above it where both finished."""
    first = next((names[it["learner"]] for it in values if it["verdict"] == "best"), None)
    if first is None or not own["n"]:
        return
    name, shared = names[own["learner"]], plural(own["n_shared"], "partition")
    if not own["verdict"]:
        yield f"{name}: not compared, as it shares {shared} with {first}, the best; 2 are needed."
    elif own["verdict"] == "untested":
        yield (
            f"{name}: not tested, as it differs from {first}, the best, by the same on each of the "
            f"{shared} that both finished."
        )
    elif own["verdict"] == "better":
        yield f"{name}: above {first}, the best, on the {shared} that both finished."


def bold_note(numbers: pd.DataFrame) -> Iterator[str]:
    """Say what bold means in the rows of one measure, or why nothing is bold."""
    measured = numbers[numbers["n"] > 0]
    if numbers["bold"].any():
        compared = numbers.loc[numbers["verdict"] != "", "n_shared"]
        note = BOLD_NOTE
        if (measured["n"] < measured["n_measured"]).any():
            note += " Never bold: a learner that was not measured on all partitions."
        if compared.nunique() > 1:
            note += " Each is compared on the partitions that it and the best both finished."
        yield note
    elif (numbers["verdict"] == "best").any():
        yield (
            "Nothing is bold: no learner that could be compared was measured on all "
            f"{plural(int(numbers['n_measured'].max()), 'partition')}."
        )
    elif len(measured) < 2:
        yield "Nothing is bold: fewer than two learners have a result to compare."
    else:
        yield (
            "Nothing is bold: no learner shares two partitions with the best, and on fewer "
            "nothing can be told apart."
        )


def _left_out(run: StoredRun, task: str, subset: str) -> Iterator[str]:
    """Say how many test items are no queries, where there are any."""
    answers = run.answers[(run.answers["task"] == task) & (run.answers["subset"] == subset)]
    answers = answers[answers["status"] == "ok"].drop_duplicates("partition")
    count = answers["n_left_out"].mean()
    images = sizes(run, subset, split_of(run, task))
    if images is not None and count > 0:
        yield (
            f"Of the {images[1]:,} test {run.info.items} of a partition, {count:,.1f} on average "
            "have no relevant other and are no queries."
        )


def file_name(subset: str) -> str:
    """Return a short name of plain characters for a subset's files; no two subsets share one."""
    plain = re.sub(r"[^\w+-]", "_", subset, flags=re.ASCII)[:FILE_NAME_WIDTH]
    digest = hashlib.sha256(subset.encode()).hexdigest()[:8]
    return plain if plain == subset else f"{plain}-{digest}"
