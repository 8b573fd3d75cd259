"""The papers' tables, our figures beside the published ones; these enter no test."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pandas as pd

from oasis_bench.analysis import summarise, task_measures
from oasis_bench.claims import (
    TABLE4,
    Runs,
    list_of,
    published_judgements,
    published_minutes,
    published_precision,
)
from oasis_bench.reports.formatting import seconds_text
from oasis_bench.reports.table import Table
from oasis_bench.reports.view import view_of
from oasis_bench.runs import StoredRun
from oasis_bench.tasks import PRECISION

STAND_IN_NOTE = (
    "'for B10' and the like: other classes stand in for that list of the papers, so that the order "
    "of learners can be compared, values cannot."
)


def beside_published(runs: Runs) -> list[Table]:
    """Make the tables of which there are runs."""
    return [
        *_of_class_lists(
            [run for name in TABLE4 for run in runs.get(name, {}).values()],
            ("table4", "JMLR table 4"),
            ("table5", "JMLR table 5"),
        ),
        *_of_class_lists(
            list(runs.get("paper-easy", {}).values()),
            ("preprint_table1", "Preprint table 1"),
            ("preprint_table2", "Preprint table 2"),
        ),
        *_of_deep_ranking(runs),
    ]


def _of_class_lists(
    runs: Sequence[StoredRun], of_precision: tuple[str, str], of_time: tuple[str, str]
) -> list[Table]:
    """Make the tables of precision and of time, each of a name and a title, over class lists."""
    precision: list[pd.DataFrame] = []
    seconds: list[pd.DataFrame] = []
    for run in runs:
        for subset, n_classes in view_of(run).subsets.items():
            if (found := list_of(run, subset)) is not None:
                for kept, make in ((precision, _precision), (seconds, _seconds)):
                    rows = make(run, subset, found.name)
                    kept.append(
                        rows.assign(
                            n_classes=n_classes, class_list=found.name, stand_in=found.stand_in
                        )
                    )
    if not precision:
        return []
    beside = "ours, and (in brackets) the published"
    return [
        _table_beside(
            of_precision[0], f"{of_precision[1]}: {beside}", pd.concat(precision), "{:.2f}".format
        ),
        _table_beside(
            of_time[0],
            f"{of_time[1]}: CPU seconds of a fit: {beside}",
            pd.concat(seconds),
            seconds_text,
        ),
    ]


def _precision(run: StoredRun, subset: str, class_list: str) -> pd.DataFrame:
    values = task_measures(run, "retrieval")
    ours = values[values["subset"] == subset].groupby(["name", "learner"])["value"]
    found = published_precision(class_list).rename(columns={"mean": "published"})
    means = ours.mean().rename("ours").reset_index()
    cells = pd.MultiIndex.from_product(
        [found["name"].unique(), view_of(run).learners], names=["name", "learner"]
    ).to_frame(index=False)
    return cells.merge(found, how="left").merge(means, how="left")


def _seconds(run: StoredRun, subset: str, class_list: str) -> pd.DataFrame:
    """Return CPU seconds of a fit, of the learners that have a published time."""
    trials = run.trials[run.trials["subset"] == subset]
    seconds = {
        str(learner): summarise(own["fit_cpu_seconds"].astype(float).dropna()).mean
        for learner, own in trials.groupby("learner")
    }
    found = published_minutes(class_list)
    found = found[found["learner"].isin(list(seconds))]
    return found.assign(
        name="seconds", ours=found["learner"].map(seconds), published=60 * found["mean"]
    )


def _table_beside(
    name: str, title: str, numbers: pd.DataFrame, text: Callable[[float], str]
) -> Table:
    """Make a row for each measure and class subset, a column for each learner."""
    names = list(dict.fromkeys(numbers["learner"]))
    keys = ["n_classes", "class_list", "stand_in", "name"]
    rows = []
    for (n_classes, class_list, stand_in, measure), own in numbers.groupby(keys, sort=False):
        by_learner = own.set_index("learner").reindex(names)
        cells = [
            ("-" if pd.isna(ours) else text(ours))
            + ("" if pd.isna(published) else f" ({text(published)})")
            for ours, published in zip(by_learner["ours"], by_learner["published"], strict=True)
        ]
        classes = f"{n_classes} for {class_list}" if stand_in else str(class_list)
        rows.append([classes, str(measure), *cells])
    return Table.by_rows(
        name=name,
        title=title,
        header=("Classes", "Measure", *names),
        align="ll" + "r" * len(names),
        rows=rows,
        numbers=numbers[[*keys, "learner", "ours", "published"]],
        notes=[STAND_IN_NOTE] * bool(numbers["stand_in"].any()),
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
        Table.by_rows(
            name="deep_ranking",
            title="Tables 1 and 2 of Deep Ranking: similarity precision, ours and the published",
            header=("Model of the paper", "Ours ± sd", "Published"),
            align="llr",
            rows=rows,
            numbers=numbers,
        )
    ]
