"""The page of 'paper': each claim with its verdict, and where the papers' figures are."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from oasis_bench.analysis import LEVEL
from oasis_bench.claims import (
    CLAIMS,
    class_sentences,
    decide,
    experiments,
    measured_effects,
    paper_items,
)
from oasis_bench.experiment import Experiment
from oasis_bench.reports.formatting import aligned, p_text, plural, series
from oasis_bench.reports.published_tables import beside_published
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.table import Column, Table, to_csv
from oasis_bench.runs import StoredRun, holds_run, one_for_each_value, read_run
from oasis_bench.system import UsageError, write_whole

PAGE = "claims.html"

PLOT_WIDTH, PLOT_HEIGHT = 160, 18
"""Pixels of the plot of an effect."""


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
    verdicts, effects = decide(CLAIMS, measured_effects(CLAIMS, runs))
    beside = beside_published(runs)
    counts = verdicts["verdict"].value_counts(sort=False)  # of categories in their order
    summary = series([f"{count} {name}" for name, count in counts.items() if count])
    page = render(
        "claims.html.j2",
        remarks=remarks,
        summary=f"{plural(len(verdicts), 'claim')}: {summary}.",
        claims=CLAIMS,
        verdicts=verdicts.to_dict("index"),
        weakest=effects.to_dict("index"),
        plot=effect_plot,
        effect_text=effect_text,
        p_text=p_text,
        details={name: _details(str(name), own) for name, own in effects.groupby("id")},
        items=paper_items().to_dict("records"),
        classes=class_sentences(runs),
        beside=beside,
        places={name: _page_of(name, own) for name, own in runs.items()},
        left_out=left_out,
        level=LEVEL,
    )
    path = write_files(folder, PAGE, page, beside, [])
    weakest = effects.reindex(verdicts["weakest"]).drop(columns=["id", "p_value", "outcome"])
    overview = verdicts.drop(columns=["weakest", "words"]).rename_axis("id").reset_index()
    write_whole(
        folder,
        "claims.csv",
        to_csv(pd.concat([overview, weakest.reset_index(drop=True)], axis=1)),
    )
    write_whole(folder, "effects.csv", to_csv(effects))
    lines = [(claim.id, str(verdicts.loc[claim.id, "words"]), claim.sentence) for claim in CLAIMS]
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


def _page_of(name: str, runs: dict[str, StoredRun]) -> str:
    """Return the address of an experiment's page, from the folder of all."""
    return f"{name}/report.html" if name in runs else f"{name}/side_by_side.html"


def effect_text(effect: Mapping[Hashable, Any]) -> str:
    """Write the mean of an effect with its 90 % interval."""
    if math.isnan(effect["low"]):
        return f"{effect['mean']:.3f}, not testable"
    return f"{effect['mean']:.3f} [{effect['low']:.3f}, {effect['high']:.3f}]"


def effect_plot(effect: Mapping[Hashable, Any]) -> Markup:
    """Draw mean and interval of an effect, and the range that is claimed as a band."""
    ends = [effect["mean"], effect["low"], effect["high"], effect["above"], effect["below"]]
    shown = [end for end in ends if math.isfinite(end)]
    least, reach = min(shown), max(shown) - min(shown) or 1.0

    def x(value: float) -> float:
        """Return a place on the axis; bounds that are infinite are at its ends."""
        place: float = 0.1 + 0.8 * (value - least) / reach
        return PLOT_WIDTH * min(max(place, 0.0), 1.0)

    left, right, middle = x(effect["above"]), x(effect["below"]), PLOT_HEIGHT / 2
    ticks = [
        f'<path d="M{x(bound):.1f} 0V{PLOT_HEIGHT}" stroke="var(--edge)" stroke-dasharray="2"/>'
        for bound in (effect["above"], effect["below"])
        if math.isfinite(bound)
    ]
    mean = x(effect["mean"])
    low, high = (mean if math.isnan(effect["low"]) else x(effect[end]) for end in ("low", "high"))
    return Markup(
        f'<svg width="{PLOT_WIDTH}" height="{PLOT_HEIGHT}" aria-hidden="true">'
        f'<rect x="{left:.1f}" width="{right - left:.1f}" height="{PLOT_HEIGHT}" '
        f'fill="var(--tint)"/>{"".join(ticks)}'
        f'<path d="M{low:.1f} {middle}H{high:.1f}" stroke="var(--ink)"/>'
        f'<circle cx="{mean:.1f}" cy="{middle}" r="3.5" fill="var(--accent)"/></svg>'
    )


def _details(name: str, effects: pd.DataFrame) -> Table:
    """Make a row for each effect of a claim."""
    found = [effect_text(row) for row in effects.to_dict("records")]
    return Table(
        name=f"claim_{name}",
        title=f"What was measured for {name}",
        columns=[
            Column("Effect", effects["effect"], align="l"),
            Column("Run", effects["where"], align="l"),
            Column("Found [90 % interval]", found, align="l"),
            Column("Values", effects["values"]),
            Column("p", effects["p_value"], p_text),
            Column("Outcome", effects["outcome"], align="l"),
        ],
        numbers=effects,
    )
