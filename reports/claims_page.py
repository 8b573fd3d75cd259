"""The page of 'paper': each claim with its verdict, and published tables beside ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from oasis_bench.analysis.headlines import task_measures
from oasis_bench.analysis.statistics import LEVEL, PairedInterval, summarise
from oasis_bench.claims.claim import Finding, Runs, Verdict, judge, worth_repeating
from oasis_bench.claims.papers import CLAIMS, TABLE4, experiments
from oasis_bench.claims.published_figures import published_minutes, published_precision
from oasis_bench.experiment.settings import Experiment
from oasis_bench.reports.formatting import aligned, plural, seconds_text, series
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.run.facts import subsets
from oasis_bench.reports.table import Table, to_csv
from oasis_bench.runner.several import one_for_each_value
from oasis_bench.store.run_file import FILE_NAME, RunRecord, read_run
from oasis_bench.system.files import write_whole

PAGE = "claims.html"
SECOND_LOOK = "second-look"
"""The folder of the runs that look again."""

OUTCOMES = ("holds", "does not hold", "cannot be told", "not tested")


def write_claims(folder: Path) -> tuple[Path, str]:
    """Judge the claims by the runs in a folder, and write tables and page into it.

    Parameters
    ----------
    folder : Path
        A folder that the verb `paper` has written; 'claims.html', 'claims.csv' and 'tables/' in it
        are written, each file whole.

    Returns
    -------
    Path
        The page.
    str
        A summary in plain text.

    Raises
    ------
    UsageError
        Where a run cannot be read, or the files cannot be written.
    """
    runs = stored_runs(folder)
    verdicts = judge(CLAIMS, runs, stored_runs(folder / SECOND_LOOK))
    overview, details = _overview(verdicts), {v.claim.id: _findings(v) for v in verdicts}
    beside = list(_beside(runs))
    counts = Counter(str(verdict.outcome) for verdict in verdicts)
    summary = series([f"{counts[name]} {name}" for name in OUTCOMES if counts[name]])
    page = render(
        "claims.html.j2",
        summary=f"{plural(len(verdicts), 'claim')}: {summary}.",
        overview=overview,
        verdicts=verdicts,
        details=details,
        beside=beside,
        places={name: _page_of(name, own) for name, own in runs.items()},
        level=LEVEL,
        tested=sum(bool(verdict.claim.conditions) for verdict in verdicts),
    )
    tables = [overview, *(table for table in details.values() if table.rows), *beside]
    path = write_files(folder, PAGE, page, tables, [])
    write_whole(folder / "claims.csv", to_csv(overview.numbers))
    lines = [(v.claim.id, v.outcome, v.claim.sentence) for v in verdicts]
    return path, "\n".join([*aligned(lines, left=(0, 1, 2)), summary])


def stored_runs(folder: Path) -> dict[str, dict[str, RunRecord]]:
    """Read the runs of each experiment that a folder has, by the paths of their folders in it.

    An experiment that is several runs has them in the order of its values.
    """
    found = {}
    for name in experiments():
        values = one_for_each_value(Experiment.from_toml(name))
        paths = [f"{name}/{value}" for value in values] or [name]
        runs = {path: read_run(folder / path) for path in paths if _is_run(folder / path)}
        if runs:
            found[name] = runs
    return found


def second_look(folder: Path) -> dict[str, int]:
    """Return the experiments in a folder that a second look is worth, with its partitions."""
    return worth_repeating(judge(CLAIMS, stored_runs(folder)))


def _is_run(folder: Path) -> bool:
    return (folder / FILE_NAME).is_file()


def _page_of(name: str, runs: Mapping[str, RunRecord]) -> str:
    """Return the address of an experiment's page, from the folder of all."""
    return f"{name}/report.html" if name in runs else f"{name}/side_by_side.html"


def _overview(verdicts: Sequence[Verdict]) -> Table:
    """Make a row for each claim: its verdict and the effect that speaks least for it."""
    rows, numbers = [], []
    for verdict in verdicts:
        claim, weakest = verdict.claim, verdict.weakest
        rows.append([claim.id, verdict.outcome, claim.sentence, claim.place, _effect_text(weakest)])
        interval = weakest.interval if weakest else None
        numbers.append(
            {
                "id": claim.id,
                "verdict": verdict.outcome,
                "effect": interval.mean if interval else None,
                "low": interval.low if interval else None,
                "high": interval.high if interval else None,
                "partitions": interval.n if interval else None,
                "condition": weakest.condition.words if weakest else "",
                "where": weakest.where if weakest else "",
                "place": claim.place,
            }
        )
    return Table(
        name="claims",
        title="The claims and their verdicts",
        header=(
            "Claim",
            "Verdict",
            "What is claimed",
            "Place",
            "Weakest effect",
        ),
        align="lllll",
        rows=rows,
        numbers=pd.DataFrame(numbers),
    )


def _effect_text(finding: Finding | None) -> str:
    if finding is None:
        return ""
    return f"{finding.condition.words} ({finding.where}): {_interval_text(finding.interval)}"


def _interval_text(interval: PairedInterval) -> str:
    if math.isnan(interval.low):
        return f"{interval.mean:.3f}, of one partition"
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _findings(verdict: Verdict) -> Table:
    """Make a row for each finding of a claim."""
    rows, numbers = [], []
    for one in verdict.findings:
        interval, needed = one.interval, ""
        if one.outcome == "cannot be told":
            needed = "more do not help" if one.needed is None else str(one.needed)
        row = [one.condition.words, one.where, _interval_text(interval), str(interval.n)]
        rows.append([*row, one.outcome, needed])
        numbers.append(
            {
                "condition": one.condition.words,
                "where": one.where,
                "effect": interval.mean,
                "low": interval.low,
                "high": interval.high,
                "partitions": interval.n,
                "p_value": one.p_value,
                "outcome": one.outcome,
                "needed": one.needed,
            }
        )
    return Table(
        name=f"claim_{verdict.claim.id}",
        title=f"What was measured for {verdict.claim.id}",
        header=(
            "Condition",
            "Run",
            f"Effect [{100 * (1 - 2 * verdict.level):.2f} % interval]",
            "Values",
            "It",
            "Partitions that would tell",
        ),
        align="lllrlr",
        rows=rows,
        numbers=pd.DataFrame(numbers),
    )


def _beside(runs: Runs) -> list[Table]:
    """Make the tables of the JMLR paper, ours beside the published figures."""
    precision: list[pd.DataFrame] = []
    minutes: list[pd.DataFrame] = []
    for name in TABLE4:
        for run in runs.get(name, {}).values():
            for subset, n_classes in subsets(run).items():
                precision.append(_precision(run, subset, n_classes))
                minutes.append(_minutes(run, subset, n_classes))
    if not precision:
        return []
    return [
        _table_beside(
            "table4",
            "JMLR table 4: ours, and (in brackets) the published, of other classes",
            pd.concat(precision),
            "{:.2f}".format,
        ),
        _table_beside(
            "table5",
            "JMLR table 5: CPU seconds of a fit: ours, and (in brackets) the published",
            pd.concat(minutes),
            seconds_text,
        ),
    ]


def _precision(run: RunRecord, subset: str, n_classes: int) -> pd.DataFrame:
    values = task_measures(run, "retrieval")
    ours = values[values["subset"] == subset].groupby(["name", "learner"])["value"]
    found = published_precision(n_classes).rename(columns={"mean": "published"})
    means = ours.mean().rename("ours").reset_index()
    return found.merge(means, on=["name", "learner"], how="left").assign(n_classes=n_classes)


def _minutes(run: RunRecord, subset: str, n_classes: int) -> pd.DataFrame:
    """Return CPU seconds of a fit; the published OASIS is the one with C."""
    found = published_minutes(n_classes).replace({"learner": {"OASIS Matlab+C": "OASIS"}})
    trials = run.trials[run.trials["subset"] == subset]
    seconds = {
        str(learner): summarise(own["fit_cpu_seconds"].astype(float).dropna()).mean
        for learner, own in trials.groupby("learner")
    }
    found = found[found["learner"].isin(list(seconds))]
    return found.assign(
        name="seconds",
        n_classes=n_classes,
        ours=found["learner"].map(seconds),
        published=60 * found["mean"],
    )


def _table_beside(
    name: str, title: str, numbers: pd.DataFrame, text: Callable[[float], str]
) -> Table:
    """Make a row for each measure and number of classes, a column for each learner."""
    names = list(dict.fromkeys(numbers["learner"]))
    rows = []
    for (n_classes, measure), own in numbers.groupby(["n_classes", "name"], sort=False):
        by_learner = own.set_index("learner").reindex(names)
        cells = [
            ("-" if pd.isna(ours) else text(ours))
            + ("" if pd.isna(published) else f" ({text(published)})")
            for ours, published in zip(by_learner["ours"], by_learner["published"], strict=True)
        ]
        rows.append([str(n_classes), str(measure), *cells])
    kept = numbers[["n_classes", "name", "learner", "ours", "published"]]
    return Table(
        name=name,
        title=title,
        header=("Classes", "Measure", *names),
        align="rl" + "r" * len(names),
        rows=rows,
        numbers=kept,
    )
