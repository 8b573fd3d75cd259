"""The tables of differences from the best learner or a baseline, and of what could be seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from oasis_bench.analysis import LEVEL, headlines, seen_difference
from oasis_bench.reports.formatting import interval_text, number_text, p_text, plural
from oasis_bench.reports.run.facts import (
    dagger_notes,
    facets,
    marked,
    sizes,
    split_of,
    subset_title,
)
from oasis_bench.reports.run.measure_tables import comparisons, file_name
from oasis_bench.reports.table import Table
from oasis_bench.runs import StoredRun

VERDICTS = {
    "worse": "worse",
    "tied": "not told apart",
    "better": "better where both finished",
    "untested": "not tested",
}
BESIDE_BASELINE = {**VERDICTS, "better": "better"}


def difference_tables(run: StoredRun, task: str, baseline: str | None = None) -> list[Table]:
    """Make a table for each subset with a comparison: a row for each learner but one.

    That is the best, or the baseline where one is named.  It shows the first headline of the task;
    its CSV file has all.
    """
    numbers = _numbers(run, task, baseline)
    if numbers.empty:
        return []
    shown = headlines(run, task)[0]
    return [
        _table(run, task, str(subset), shown, own, baseline)
        for subset, own in numbers.groupby("subset", sort=False)
        if (own["measure"] == shown).any()
    ]


def _numbers(run: StoredRun, task: str, baseline: str | None) -> pd.DataFrame:
    """Compute the columns of the CSV files, a row for each subset, measure and comparison.

    Of the best less the learner, or of the learner less the baseline: difference, low and high,
    the 95 % interval, and sd over the n shared partitions; p_value, and p_corrected for all
    comparisons of the subset and measure; detectable, the true difference that one comparison
    alone finds with probability 0.8, and detectable_corrected, the same at the first and strictest
    step of the correction.  What differences without spread lack is NaN, and a detectable
    difference that is larger than the measure's range.
    """
    rows: list[dict[str, Any]] = []
    of = "best" if baseline is None else "baseline"
    for subset, measure, _, comparison in comparisons(run, task, baseline):
        images = sizes(run, subset, split_of(run, task))
        for learner, found in comparison.differences.items():
            assert images is not None  # there are trials
            strictest = LEVEL / max(1, sum(it.sd > 0 for it in comparison.differences.values()))
            values = (found.mean, found.low, found.high)
            if baseline is not None:
                values = (-found.mean, -found.high, -found.low)
            rows.append(
                {
                    "subset": subset,
                    "measure": measure,
                    of: comparison.best,
                    "learner": learner,
                    "n": found.n,
                    **dict(zip(("difference", "low", "high"), values, strict=True)),
                    "sd": found.sd,
                    "p_value": found.p_value,
                    "p_corrected": comparison.p_values[learner],
                    "verdict": comparison.verdicts[learner],
                    "detectable": seen_difference(found, *images),
                    "detectable_corrected": seen_difference(found, *images, level=strictest),
                }
            )
    return pd.DataFrame(rows)


def _table(
    run: StoredRun, task: str, subset: str, name: str, numbers: pd.DataFrame, baseline: str | None
) -> Table:
    shown = numbers[numbers["measure"] == name]
    verdicts = VERDICTS if baseline is None else BESIDE_BASELINE
    other = baseline or str(shown["best"].iloc[0])
    what = f"{marked(run, other)}, the best, less each other learner"
    if baseline is not None:
        what = f"each other learner less {marked(run, other)}"
    return Table(
        name=f"differences_{task}_{file_name(subset)}",
        title=f"{name}: {what}, {subset_title(run, subset)}",
        header=(
            *("Learner", "Difference", "95 % interval", "p", "p, Holm"),
            *("Verdict", "Seen with power 0.8"),
        ),
        align="lrrrrlr",
        rows=[
            [
                marked(run, row["learner"]),
                f"{row['difference']:z.3f}",
                interval_text(row["low"], row["high"]),
                p_text(row["p_value"]),
                p_text(row["p_corrected"]),
                verdicts[row["verdict"]],
                number_text(row["detectable"], "{:.3f}", missing="none"),
            ]
            for row in shown.to_dict("records")
        ],
        numbers=numbers,
        notes=[*_notes(shown), *dagger_notes(run, [other, *numbers["learner"]])],
        of={**facets(run, task, subset), "Measure": name},
    )


def _notes(shown: pd.DataFrame) -> Iterator[str]:
    """Say what was corrected, and in plain words what differences these partitions can show."""
    tested = shown[shown["p_value"].notna()]
    count = len(tested)
    if count < len(shown):
        yield (
            "Not tested, and without an interval: a learner whose difference is the same on each "
            "partition, as that has no spread."
        )
    if not count:
        return
    partitions = _range([str(n) for n in sorted(tested["n"].unique())])
    yield (
        "Interval and p are of each comparison alone. The verdict goes by p, Holm, corrected for "
        f"the {plural(count, 'comparison')} of this table, at level 0.05."
        if count > 1
        else "One comparison: there is nothing to correct for."
    )
    alone, strict = (
        _range([f"{value:.3f}" for value in sorted(tested[name].dropna())])
        for name in ("detectable", "detectable_corrected")
    )
    corrected = f", and of {strict} at the strictest step of the correction"
    yield (
        f"Power: at the spread seen over {partitions} partitions, a true difference of "
        f"{alone or 'no size'} is told apart with probability 0.8 in a comparison alone"
        f"{corrected * (count > 1 and bool(strict))}. Smaller ones are easily missed: ‘not told "
        "apart’ is not ‘equal’."
    )
    if tested["detectable"].isna().any():
        yield "None is seen where a difference would have to be larger than the measure can have."


def _range(texts: list[str]) -> str:
    """Write the first and the last of ascending numbers, once where both texts are the same."""
    if not texts:
        return ""
    return texts[0] if texts[0] == texts[-1] else f"{texts[0]} to {texts[-1]}"
