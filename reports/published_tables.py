"""The papers' tables, our figures beside the published ones; these enter no test."""

from __future__ import annotations

import math
from collections.abc import Callable

import pandas as pd

from oasis_bench.analysis.headlines import task_measures
from oasis_bench.analysis.statistics import summarise
from oasis_bench.claims.claim import Runs
from oasis_bench.claims.oasis_papers import TABLE4
from oasis_bench.claims.published_figures import (
    published_judgements,
    published_minutes,
    published_precision,
)
from oasis_bench.reports.formatting import seconds_text
from oasis_bench.reports.run.facts import learners, subsets
from oasis_bench.reports.table import Table
from oasis_bench.store.run_file import RunRecord
from oasis_bench.tasks.judged_triplets import PRECISION


def beside_published(runs: Runs) -> list[Table]:
    """Make the tables of which there are runs."""
    return [*_of_jmlr(runs), *_of_deep_ranking(runs)]


def _of_jmlr(runs: Runs) -> list[Table]:
    precision: list[pd.DataFrame] = []
    minutes: list[pd.DataFrame] = []
    for name in TABLE4:
        for run in runs.get(name, {}).values():
            for subset, n_classes in subsets(run).items():
                precision.append(_precision(run, subset, n_classes))
                minutes.append(_seconds(run, subset, n_classes))
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
    cells = pd.MultiIndex.from_product(
        [found["name"].unique(), learners(run)], names=["name", "learner"]
    ).to_frame(index=False)
    both = cells.merge(found, how="left").merge(means, how="left")
    return both.assign(n_classes=n_classes)


def _seconds(run: RunRecord, subset: str, n_classes: int) -> pd.DataFrame:
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


def _of_deep_ranking(runs: Runs) -> list[Table]:
    """Make tables 1 and 2 of Deep Ranking as one: a row for each model that has one of ours."""
    run = runs.get("deep-ranking", {}).get("deep-ranking")
    if run is None:
        return []
    values = task_measures(run, "judged-triplets")
    means = values[values["name"] == PRECISION].groupby("learner")["value"].agg(["mean", "std"])
    numbers = published_judgements().merge(means, on="learner", how="left")
    models, learners = numbers["model"].astype(str), numbers["learner"].astype(str)
    columns = (numbers[name].astype(float) for name in ("mean", "std", "precision"))
    rows = [
        [model, "" if math.isnan(mean) else f"{own}: {mean:.3f} ± {sd:.3f}", f"{published:.3f}"]
        for model, own, mean, sd, published in zip(models, learners, *columns, strict=True)
    ]
    return [
        Table(
            name="deep_ranking",
            title="Tables 1 and 2 of Deep Ranking: similarity precision, ours and the published",
            header=("Model of the paper", "Ours ± sd", "Published"),
            align="llr",
            rows=rows,
            numbers=numbers,
        )
    ]
