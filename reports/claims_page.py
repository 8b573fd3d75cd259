"""The page of 'paper': each claim with its verdict, and where the papers' figures are."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import pandas as pd

from oasis_bench.analysis import LEVEL, PairedInterval
from oasis_bench.claims import (
    CHALLENGES,
    CLAIMS,
    ITEMS,
    LEAST,
    Finding,
    Outcome,
    Verdict,
    class_sentences,
    decide,
    experiments,
    worth_repeating,
)
from oasis_bench.experiment import Experiment
from oasis_bench.reports.formatting import aligned, plural, series
from oasis_bench.reports.published_tables import beside_published
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.table import Table, to_csv
from oasis_bench.runs import StoredRun, holds_run, one_for_each_value, read_run
from oasis_bench.system import UsageError, write_whole

PAGE = "claims.html"
SECOND_LOOK = "second-look"
"""The folder of the runs that look again."""

CHALLENGED = "challenges"
"""The folder that has one for the runs of each challenge, by its name."""


def write_claims(folder: Path, remarks: Sequence[str] = ()) -> tuple[Path, str]:
    """Decide the claims by the runs in a folder, and write tables and page into it.

    Parameters
    ----------
    folder : Path
        A folder that the verb `paper` has written; 'claims.html', 'claims.csv' with a row for each
        claim, 'effects.csv' with one for each effect, and 'tables/' in it are written, each file
        whole.
    remarks : sequence of str, default none
        Lines at the top of the page, such as that the runs are quick ones.

    Returns
    -------
    Path
        The page.
    str
        A summary in plain text.

    Raises
    ------
    UsageError
        Where the files cannot be written.
    """
    runs, left_out = stored_runs(folder)
    verdicts = decide(CLAIMS, runs, stored_runs(folder / SECOND_LOOK)[0])
    overview, details = _overview(verdicts), {v.claim.id: _findings(v) for v in verdicts}
    challenged = _challenged(verdicts, folder / CHALLENGED)
    beside = beside_published(runs)
    counts = Counter(str(verdict.outcome) for verdict in verdicts)
    summary = series([f"{counts[name]} {name}" for name in get_args(Outcome) if counts[name]])
    page = render(
        "claims.html.j2",
        remarks=remarks,
        summary=f"{plural(len(verdicts), 'claim')}: {summary}.",
        overview=overview,
        verdicts=verdicts,
        details=details,
        challenged=challenged,
        items=ITEMS,
        classes=class_sentences(runs),
        beside=beside,
        places={name: _page_of(name, own) for name, own in runs.items()},
        left_out=left_out,
        level=LEVEL,
        tested=sum(bool(verdict.claim.conditions) for verdict in verdicts),
    )
    measured = {name: table for name, table in details.items() if table.rows}
    tables = [overview, *challenged, *measured.values(), *beside]
    path = write_files(folder, PAGE, page, tables, [])
    write_whole(folder, "claims.csv", to_csv(overview.numbers))
    if measured:
        effects = {name: table.numbers for name, table in measured.items()}
        rows = pd.concat(effects, names=["id", None]).reset_index("id")
        write_whole(folder, "effects.csv", to_csv(rows))
    lines = [(v.claim.id, v.outcome, v.claim.sentence) for v in verdicts]
    return path, "\n".join([*aligned(lines, left=(0, 1, 2)), summary])


def stored_runs(folder: Path) -> tuple[dict[str, dict[str, StoredRun]], dict[str, str]]:
    """Read the finished experiments of a folder; tell why others that have begun do not count.

    A verdict from half of the partitions would be a look that the test does not allow for.

    Returns
    -------
    dict
        By experiment its runs, by the paths of their folders in `folder`; those of an experiment
        that is several runs in the order of its values.
    dict
        By experiment why its runs do not count.
    """
    found, reasons = {}, {}
    for name in experiments():
        values = one_for_each_value(Experiment.from_toml(name))
        paths = [f"{name}/{value}" for value in values] or [name]
        here = [path for path in paths if holds_run(folder / path)]
        try:
            runs = {path: read_run(folder / path) for path in here}
        except UsageError as error:
            reasons[name] = str(error)
            continue
        if len(runs) < len(paths) or any(run.info.finished is None for run in runs.values()):
            if runs:
                reasons[name] = "not finished"
        else:
            found[name] = runs
    return found, reasons


def second_look(folder: Path) -> dict[str, int]:
    """Return the experiments in a folder that a second look is worth, with its partitions."""
    return worth_repeating(decide(CLAIMS, stored_runs(folder)[0]))


def _page_of(name: str, runs: Mapping[str, StoredRun]) -> str:
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


def _challenged(verdicts: Sequence[Verdict], folder: Path) -> list[Table]:
    """Make the table of what each challenge makes of each verdict; none where none has run."""
    found = {
        name: {one.claim.id: one for one in decide(CLAIMS, runs) if one.findings}
        for name in CHALLENGES
        if (runs := stored_runs(folder / name)[0])
    }
    rows, numbers = [], []
    for verdict in verdicts:
        claim, cells = verdict.claim, []
        for name, own in found.items():
            one = own.get(claim.id)
            cells.append(_short(one))
            if one is not None and one.weakest is not None:
                effect = one.weakest.interval.mean
                numbers.append((claim.id, verdict.outcome, name, _outcome(one), effect))
        if any(cells):
            rows.append([claim.id, _short(verdict), *cells])
    if not rows:
        return []
    columns = ["id", "verdict", "challenge", "outcome", "effect"]
    return [
        Table(
            name="challenges",
            title="The same claims under other conditions",
            header=("Claim", "Verdict", *(heading(name) for name in found)),
            align="l" * (2 + len(found)),
            rows=rows,
            numbers=pd.DataFrame(numbers, columns=columns),
        )
    ]


def heading(challenge: str) -> str:
    """Return what stands above the column of a challenge."""
    return "Wider search" if challenge == "search" else f"Other {challenge}"


def _short(verdict: Verdict | None) -> str:
    if verdict is None or verdict.weakest is None:
        return ""
    return f"{_outcome(verdict)} ({verdict.weakest.interval.mean:.3f})"


def _outcome(verdict: Verdict) -> str:
    """Return the outcome; of a claim that was challenged in part, what that part says."""
    if verdict.outcome != "not tested" or not verdict.findings:
        return verdict.outcome
    held = all(one.outcome == "holds" for one in verdict.findings)
    return f"in part: {'holds' if held else 'cannot be told'}"


def _effect_text(finding: Finding | None) -> str:
    if finding is None:
        return ""
    return f"{finding.condition.words} ({finding.where}): {_interval_text(finding.interval)}"


def _interval_text(interval: PairedInterval) -> str:
    if math.isnan(interval.low):
        what = "one partition" if interval.n == 1 else f"each of {interval.n} partitions: no test"
        return f"{interval.mean:.3f}, of {what}"
    return f"{interval.mean:.3f} [{interval.low:.3f}, {interval.high:.3f}]"


def _findings(verdict: Verdict) -> Table:
    """Make a row for each finding of a claim."""
    rows, numbers = [], []
    for one in verdict.findings:
        interval, needed = one.interval, ""
        if one.outcome == "cannot be told":
            few = "not known yet" if interval.n < LEAST or not interval.sd else "more do not help"
            needed = few if one.needed is None else str(one.needed)
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
            "Outcome",
            "Values that would tell",
        ),
        align="lllrlr",
        rows=rows,
        numbers=pd.DataFrame(numbers),
    )
