"""The page of 'paper': each claim with its verdict, and the papers' tables compared with ours.

Only the tests of K1 use published figures.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from oasis_bench.claims import CHANGES, ClassList, Runs, decided_by, published
from oasis_bench.reports.measures import table_beside
from oasis_bench.reports.report_files import write_page
from oasis_bench.reports.table import (
    Column,
    Table,
    aligned,
    p_text,
    plural,
    seconds_text,
    series,
    to_csv,
)
from oasis_bench.reports.view import view_of
from oasis_bench.reports.words import WORDS, notes_where, sentence
from oasis_bench.runs import StoredRun
from oasis_bench.system import Folder

PAGE = "claims.html"

WIDTH = 90
"""Of the drawing of an effect, in pixels."""

TABLES = {
    ("paper-table4", "paper-table4-more"): {
        "table4": "JMLR table 4",
        "table5": "JMLR table 5: CPU seconds of a fit",
    },
    ("paper-easy",): {
        "preprint_table1": "Preprint table 1",
        "preprint_table2": "Preprint table 2: CPU seconds of a fit",
    },
}
"""By experiments: the tables of precision and of time that they repeat, with their titles."""

PAGES = {"web-scale": "web-scale"}
"""The pages of what is no run but the records of another command."""


def write_claims(folder: Path, remarks: Sequence[str] = ()) -> tuple[Path, str]:
    """Decide the claims by the runs in a folder, and write the tables and the page into it.

    Parameters
    ----------
    folder : Path
        A folder that the command `paper` has written.  The function writes 'claims.html',
        'claims.csv' with a row for each claim, 'effects.csv' with a row for each effect, and the
        folder 'tables' into it.  If it is interrupted, no file is incomplete.
    remarks : sequence of str, default none
        Lines at the top of the page, for example to say that the runs are quick ones.

    Returns
    -------
    Path
        The page.
    str
        A summary in plain text.

    Raises
    ------
    UsageError
        If the files cannot be written.
    """
    verdicts, effects, runs, left_out = decided_by(folder)
    counts = verdicts["verdict"].value_counts(sort=False)  # of categories in their order
    summary = series([f"{count} {name}" for name, count in counts.items() if count])
    path = write_page(
        folder,
        PAGE,
        "claims.html.j2",
        remarks=remarks,
        summary=f"{plural(len(verdicts), 'claim')}: {summary}.",
        verdicts=verdicts.to_dict("index"),
        weakest=effects.to_dict("index"),
        effect_text=effect_text,
        plot=effect_plot,
        p_text=p_text,
        details=partial(_details, effects),
        items=published("tables_and_figures").to_dict("records"),
        classes=list(class_sentences(runs)),
        beside=beside_published(runs),
        reading=WORDS["claims"],
        changes=CHANGES,
        places={
            name: f"{name}/{'report' if name in own else PAGES.get(name, 'side_by_side')}.html"
            for name, own in runs.items()
        },
        left_out=left_out,
    )
    weakest = effects.reindex(verdicts["weakest"]).drop(columns=["id", "p_value", "outcome"])
    overview = verdicts.drop(columns=["sentence", "place", "experiments", "note"])
    overview = overview.drop(columns=["weakest", "words"]).rename_axis("id").reset_index()
    Folder(folder).write(
        "claims.csv",
        to_csv(pd.concat([overview, weakest.reset_index(drop=True)], axis=1)),
    )
    Folder(folder).write("effects.csv", to_csv(effects))
    lines = verdicts.reset_index()[["index", "words", "sentence"]].to_numpy().tolist()
    return path, "\n".join([*aligned(lines, left=(0, 1, 2)), summary])


def class_sentences(runs: Runs) -> Iterator[str]:
    """Say for each experiment on class lists that has run whether its classes are the papers'."""
    for name, own in runs.items():
        for run in own.values() if name not in PAGES else ():
            found = [it for subset in run.info.classes if (it := ClassList.of(run, subset))]
            lists = ", ".join(it.name for it in found)
            what = "other_classes" if any(it.stand_in for it in found) else "own_classes"
            if found:
                yield sentence(what, name=name, lists=lists, dataset=run.info.experiment.dataset)


def effect_text(effect: Mapping[Hashable, Any]) -> str:
    """Write the mean of an effect with its 90 % interval."""
    if math.isnan(effect["low"]):
        return f"{effect['mean']:.3f}, not testable"
    return f"{effect['mean']:.3f} [{effect['low']:.3f}, {effect['high']:.3f}]"


def effect_plot(effect: Mapping[Hashable, Any]) -> Markup:
    """Draw the mean and interval of an effect, and as a band what the claim says."""
    ends = [effect[name] for name in ("mean", "low", "high", "above", "below")]
    shown = [end for end in ends if math.isfinite(end)]
    least, reach = min(shown), max(shown) - min(shown) or 1.0
    # Bounds that are infinite are at the ends of the axis.
    mean, low, high, left, right = (
        WIDTH * min(max(0.1 + 0.8 * (end - least) / reach, 0.0), 1.0) for end in ends
    )
    line = f'<path d="M{low:.1f} 8H{high:.1f}"/>' if math.isfinite(effect["low"]) else ""
    return Markup(  # numbers only: nothing to escape
        f'<svg width="{WIDTH}" height="16" aria-hidden="true"><rect x="{left:.1f}" '
        f'width="{right - left:.1f}" height="16"/>{line}'
        f'<circle cx="{mean:.1f}" cy="8" r="3.5"/></svg>'
    )


def _details(effects: pd.DataFrame, name: str) -> Table:
    """Make a row for each effect of a claim."""
    effects = effects[effects["id"] == name]
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


def beside_published(runs: Runs) -> list[Table]:
    """Make the tables of which there are runs: of precision, and of CPU seconds of a fit."""
    tables, keys = [], {"classes": "Classes", "name": "Measure"}
    for names, titles in TABLES.items():
        lists = [
            (run, subset, view_of(run).subsets[subset], found)
            for name in names
            for run in runs.get(name, {}).values()
            for subset in view_of(run).subsets
            if (found := ClassList.of(run, subset)) is not None
        ]
        notes = notes_where({"other_classes": any(found.stand_in for *_, found in lists)})
        for (name, title), make, text in zip(
            titles.items(), (_precision, _seconds), ("{:.2f}".format, seconds_text), strict=True
        ):
            parts = [
                make(run, subset, found).assign(
                    n_classes=n,
                    class_list=found.name,
                    stand_in=found.stand_in,
                    classes=f"{n} for {found.name}" if found.stand_in else found.name,
                )
                for run, subset, n, found in lists
            ]
            if parts:
                tables.append(table_beside(name, title, keys, pd.concat(parts), text, notes))
    return [*tables, *_of_deep_ranking(runs)]


def _precision(run: StoredRun, subset: str, class_list: ClassList) -> pd.DataFrame:
    values = view_of(run).values["retrieval"]
    ours = values[values["subset"] == subset].groupby(["name", "learner"])["value"]
    found = class_list.precision().rename(columns={"mean": "published"})
    means = ours.mean().rename("ours").reset_index()
    cells = pd.MultiIndex.from_product(
        [found["name"].unique(), view_of(run).learners], names=["name", "learner"]
    ).to_frame(index=False)
    rows = cells.merge(found, how="left").merge(means, how="left")
    return rows[["name", "learner", "ours", "published"]]


def _seconds(run: StoredRun, subset: str, class_list: ClassList) -> pd.DataFrame:
    """Return CPU seconds of a fit, of the learners that have a published time."""
    trials = run.trials[run.trials["subset"] == subset]
    ours = trials.groupby("learner")["fit_cpu_seconds"].mean().rename("ours").reset_index()
    rows = class_list.minutes().merge(ours).assign(name="seconds")
    return rows.assign(published=60 * rows["mean"])[["name", "learner", "ours", "published"]]


def _of_deep_ranking(runs: Runs) -> list[Table]:
    """Make tables 1 and 2 of Deep Ranking as one: a row for each model that has one of ours."""
    run = runs.get("deep-ranking", {}).get("deep-ranking")
    if run is None:
        return []
    values = view_of(run).values["judged-triplets"]
    means = (
        values[values["name"] == "similarity precision"]
        .groupby("learner")["value"]
        .agg(["mean", "std"])
    )
    numbers = published("deep_ranking_tables").merge(means, on="learner", how="left")
    ours = [
        "" if math.isnan(it["mean"]) else f"{it['learner']}: {it['mean']:.3f} ± {it['std']:.3f}"
        for it in numbers.to_dict("records")
    ]
    return [
        Table(
            name="deep_ranking",
            title="Tables 1 and 2 of Deep Ranking: similarity precision, ours and the published",
            columns=[
                Column("Model of the paper", numbers["model"], align="l"),
                Column("Ours ± sd", ours, align="l"),
                Column("Published", numbers["precision"], "{:.3f}".format),
            ],
            numbers=numbers,
        )
    ]
