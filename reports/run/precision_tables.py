"""The tables of precision, one for each class subset: means, spreads and comparisons."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from typing import Any

import pandas as pd

from oasis_bench.analysis.statistics import BestLearners, compare_to_best, summarise
from oasis_bench.reports.formatting import number_text, plural
from oasis_bench.reports.run.facts import (
    chance_level,
    finished,
    learners,
    mean_over_partitions,
    partitions_text,
    shortfall,
    sizes,
    subset_title,
    subsets,
)
from oasis_bench.reports.table import Cell, Table
from oasis_bench.store.run_file import RunRecord

PRECISION_AT = (1, 10, 50)
MEASURES = {"mAP": None, **{f"precision at {k}": k for k in PRECISION_AT}}
"""The number of places of the ranking that each measure looks at; None for all."""

BOLD = ("best", "tied", "better")
"""The verdicts that are shown in bold."""

BOLD_NOTE = (
    "Bold: best, or not distinguishable from the best by the corrected resampled paired t-test "
    "(level 0.05 for all comparisons of a row together, by Holm)."
)
FILE_NAME_WIDTH = 60


def precision_numbers(run: RunRecord) -> pd.DataFrame:
    """Compute mean, spread and comparison of each measure, for each subset and learner.

    Returns
    -------
    DataFrame
        A row each: subset, n_classes, learner, measure, mean, sd, n (partitions), verdict (see
        `statistics.BestLearners`), n_shared (partitions shared with the best) and chance_level.
    """
    rows: list[dict[str, Any]] = []
    for subset, measure, scores, comparison in comparisons(run):
        chance = chance_level(run, subset)
        for learner in learners(run):
            summary = summarise(scores[learner].dropna())
            rows.append(
                {
                    "subset": subset,
                    "n_classes": subsets(run)[subset],
                    "learner": learner,
                    "measure": measure,
                    "mean": summary.mean,
                    "sd": summary.sd,
                    "n": summary.n,
                    "verdict": comparison.verdicts[learner],
                    "n_shared": comparison.n_shared[learner],
                    "chance_level": chance,
                }
            )
    return pd.DataFrame(rows)


def comparisons(run: RunRecord) -> Iterator[tuple[str, str, pd.DataFrame, BestLearners]]:
    """Compare the learners with the best, for each subset and measure.

    Yields
    ------
    subset, measure : str
    scores : DataFrame of shape (n_partitions, n_learners)
    comparison : BestLearners
    """
    values = _scores(run)
    for subset in subsets(run):
        images = sizes(run, subset)
        for measure in MEASURES:
            chosen = values[(values["subset"] == subset) & (values["measure"] == measure)]
            scores = chosen.pivot(index="partition", columns="learner", values="value")
            scores = scores.reindex(columns=learners(run)).astype(float)
            # Without a trial there are no sizes, and no scores that they would matter for.
            yield subset, measure, scores, compare_to_best(scores, *(images or (1, 1)))


def _scores(run: RunRecord) -> pd.DataFrame:
    """Bring mAP and precision at k into one long frame."""
    average = finished(run).rename(columns={"mean_average_precision": "value"})
    at_k = run.precision_at_k[run.precision_at_k["k"].isin(PRECISION_AT)]
    at_k = at_k.rename(columns={"precision": "value"})
    at_k = at_k.assign(measure=[f"precision at {k}" for k in at_k["k"]])
    columns = ["learner", "subset", "partition", "measure", "value"]
    return pd.concat([average.assign(measure="mAP")[columns], at_k[columns]])


def mean_texts(numbers: pd.DataFrame) -> list[str]:
    """Write mean ± standard deviation of each row of `precision_numbers`; '-' without a result."""
    return [
        f"{mean:.3f} ± {number_text(sd, '{:.3f}')}" if n else "-"
        for mean, sd, n in zip(numbers["mean"], numbers["sd"], numbers["n"], strict=True)
    ]


def precision_tables(run: RunRecord) -> list[Table]:
    """Make a table for each subset: measures down, learners across, mean ± standard deviation."""
    numbers = precision_numbers(run)
    return [
        _precision_table(run, subset, numbers[numbers["subset"] == subset])
        for subset in subsets(run)
    ]


def _precision_table(run: RunRecord, subset: str, numbers: pd.DataFrame) -> Table:
    rows: list[list[str | Cell]] = []
    for measure, places in MEASURES.items():
        of_measure = numbers[numbers["measure"] == measure]
        row: list[str | Cell] = [Cell(measure, notes=tuple(_limits(run, subset, places)))]
        texts = zip(mean_texts(of_measure), of_measure.itertuples(), strict=True)
        for text, number in texts:
            learner = str(number.learner)
            notes = (*shortfall(run, subset, learner), *_caveats(of_measure, learner))
            row.append(Cell(text, number.verdict in BOLD, notes))
        chance = of_measure["chance_level"].iloc[0] if of_measure["n"].any() else float("nan")
        rows.append([*row, number_text(chance, "{:.3f}", missing="-")])
    return Table(
        name=f"precision_{file_name(subset)}",
        title=f"Precision, {subset_title(run, subset)}: mean ± standard deviation over "
        + partitions_text(run),
        header=("", *learners(run), "Chance"),
        align="l" + "r" * (len(learners(run)) + 1),
        rows=rows,
        numbers=numbers,
        notes=[_comparison_note(numbers), *_left_out(run, subset)],
    )


def _limits(run: RunRecord, subset: str, places: int | None) -> Iterator[str]:
    """Say where precision at k does not exist, or cannot reach 1.

    The bound is that of the mean number of relevant images: with several labels an image the true
    one may lie a little below it, as the mean of min(relevant, k) / k is at most the bound.
    """
    images = sizes(run, subset)
    if places is None or images is None:
        return
    others = images[1] - 1
    relevant = round(chance_level(run, subset) * others, 6)
    if places > others:
        yield f"Only {others} other test images."
    elif relevant < places:
        count = f"{relevant:.1f}".removesuffix(".0")
        exactly = "" if relevant == round(relevant) else " on average"
        yield (
            f"At most {relevant / places:.2f}: {count} relevant images{exactly} "
            f"for {places} places."
        )


def _caveats(of_measure: pd.DataFrame, learner: str) -> Iterator[str]:
    """Say where a learner was not compared with the best, or is above it where both finished."""
    best = of_measure.loc[of_measure["verdict"] == "best", "learner"]
    own = of_measure[of_measure["learner"] == learner].iloc[0]
    if best.empty or not own["n"]:
        return
    shared = plural(own["n_shared"], "partition")
    if not own["verdict"]:
        yield (
            f"{learner}: not compared, as it shares {shared} with {best.iloc[0]}, the best; "
            "2 are needed."
        )
    elif own["verdict"] == "better":
        yield f"{learner}: above {best.iloc[0]}, the best, on the {shared} that both finished."


def _comparison_note(numbers: pd.DataFrame) -> str:
    """Say what bold means in one subset's numbers, or why nothing is bold."""
    average = numbers[numbers["measure"] == "mAP"]
    if (average["verdict"] == "best").any():
        compared = average.loc[average["verdict"] != "", "n_shared"]
        pairwise = " Each is compared on the partitions that it and the best both finished."
        return BOLD_NOTE + (pairwise if compared.nunique() > 1 else "")
    if (average["n"] > 0).sum() < 2:
        return "Nothing is bold: fewer than two learners have a result to compare."
    return (
        "Nothing is bold: no learner shares two partitions with the best, and on fewer "
        "nothing can be told apart."
    )


def _left_out(run: RunRecord, subset: str) -> Iterator[str]:
    """Say how many test images are no queries, where there are any."""
    count, images = mean_over_partitions(run, subset, "n_queries_left_out"), sizes(run, subset)
    if images is not None and count > 0:
        yield (
            f"Of the {images[1]:,} test images of a partition, {count:,.1f} on average have no "
            "relevant other and are no queries."
        )


def file_name(subset: str) -> str:
    """Return a short name of plain characters for a subset's files; no two subsets share one."""
    plain = re.sub(r"[^\w+-]", "_", subset, flags=re.ASCII)[:FILE_NAME_WIDTH]
    digest = hashlib.sha256(subset.encode()).hexdigest()[:8]
    return plain if plain == subset else f"{plain}-{digest}"
