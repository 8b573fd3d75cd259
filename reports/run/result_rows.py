"""A run's results as rows of one table, each with its costs and its origin: data for other pages.

Not every measure: the headlines of each task.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd

from oasis_bench.analysis import shown_in_text, with_costs
from oasis_bench.plugins import PATH_DATASETS
from oasis_bench.reports.formatting import params_text
from oasis_bench.reports.run.facts import (
    by_cell,
    dataset_name,
    finished,
    marked,
    shortfall,
    sizes,
    split_of,
    subset_title,
    subsets,
    tasks,
)
from oasis_bench.reports.run.measure_tables import measure_numbers
from oasis_bench.runs import StoredRun
from oasis_bench.system import encodable

MEDIANS = ("tuning_seconds", "seconds_per_query", "fit_peak_bytes", "model_bytes", "n_steps")
RANGES = ("fit_seconds", "fit_cpu_seconds")

COLUMNS = (
    *("dataset", "subset", "subset_title", "n_classes", "split", "n_train", "n_test", "n_features"),
    *("task", "measure", "k", "name", "learner", "mean", "sd", "partitions", "planned", "chance"),
    *("verdict", "note", "scalings", "search", "candidates", "scaling", "params", "n_steps"),
    "tuning_seconds",
    *(f"{name}{end}" for name in RANGES for end in ("", "_min", "_max")),
    *("seconds_per_query", "fit_peak_bytes", "model_bytes", "threads", "shared_cores", "processor"),
    *("started", "version", "commit", "command"),
)


def result_rows(run: StoredRun) -> pd.DataFrame:
    """Return a row for each learner, class subset, task, headline and k.

    Returns
    -------
    DataFrame
        Its columns are `COLUMNS`: mean, sd and chance are over the `partitions` that have a result,
        of the `planned` ones; `note` says why where they are fewer; `verdict` is that of the
        comparison with the best (see `analysis.statistics.BestLearners`).  Costs are medians over
        partitions, with _min and _max their range.  The inner folds might choose among `scalings`
        with the budget `search`, and compared `candidates` (median); `scaling` and `params` are
        what they chose, with the number of partitions where that differs.  `commit` names all
        commits that the run was made with.
    """
    parts = []
    for task in tasks(run):
        numbers, split = measure_numbers(run, task), split_of(run, task)
        own = numbers[numbers["name"].isin(shown_in_text(run, task))]
        notes = [
            " ".join(shortfall(run, subset, learner, split, task)).removeprefix(
                f"{marked(run, learner)}: "
            )
            for subset, learner in zip(own["subset"], own["learner"], strict=True)
        ]
        parts.append(own.assign(task=task, split=split, note=notes))
    cells = pd.DataFrame(
        [
            {"split": split, "subset": subset, "learner": learner, **_of_cell(run, own)}
            for split, subset, learner, own in by_cell(run, run.trials)
        ]
    )
    rows = pd.concat(parts).merge(cells, on=["split", "subset", "learner"])
    rows = rows.rename(columns={"n": "partitions"})
    images = {
        (subset, split): sizes(run, subset, split) or (None, None)
        for subset in subsets(run)
        for split in rows["split"].unique()
    }
    where = list(zip(rows["subset"], rows["split"], strict=True))
    rows = rows.assign(
        subset_title=[subset_title(run, subset) for subset in rows["subset"]],
        n_train=pd.array([images[key][0] for key in where], "Int64"),
        n_test=pd.array([images[key][1] for key in where], "Int64"),
        **_of_run(run),
    )
    return rows[list(COLUMNS)].astype({"threads": "Int64"})


def _of_run(run: StoredRun) -> dict[str, Any]:
    """Return what all rows of a run have in common."""
    info = run.info
    commits = [info.provenance.get("commit")]
    commits += [session.provenance.get("commit") for session in info.resumed]
    own = info.sources.dataset.name in PATH_DATASETS
    return {
        "dataset": encodable(Path(info.experiment.dataset).stem) if own else dataset_name(run),
        "planned": info.experiment.partitions,
        "scalings": ", ".join(info.scaling),
        "search": info.experiment.search,
        "started": info.started,
        "version": info.provenance.get("versions", {}).get("oasis-bench"),
        "commit": "; ".join(dict.fromkeys(str(commit) for commit in commits if commit)),
        "command": info.command and encodable(info.command),
    }


def _of_cell(run: StoredRun, trials: pd.DataFrame) -> dict[str, Any]:
    """Return the costs of a learner on a subset and a split, and what was chosen."""
    done = trials[trials["trial_id"].isin(finished(run)["trial_id"])]
    values = with_costs(done)[[*MEDIANS, *RANGES]]
    tried = run.validation[["trial_id", "scaling", "params"]].drop_duplicates()["trial_id"]
    tried = tried.value_counts().reindex(done["trial_id"]).fillna(1)  # of nothing to choose: one
    return {
        "n_features": trials["n_features"].max(),
        **{name: values[name].median() for name in (*MEDIANS, *RANGES)},
        **{f"{name}_min": values[name].min() for name in RANGES},
        **{f"{name}_max": values[name].max() for name in RANGES},
        "candidates": tried.median(),
        "scaling": _counted(done["scaling"].dropna()),
        "params": _counted(done["params"].map(params_text)),
        "threads": done["threads"].max(),
        "shared_cores": int(done["shared_cores"].any()),
        "processor": "; ".join(done["processor"].dropna().unique()),
    }


def _counted(chosen: pd.Series[str]) -> str:
    """Write what was chosen on the partitions, with their numbers where they differ."""
    texts = Counter(chosen).most_common()
    return "; ".join(f"{text} ({n})" if texts[1:] else text for text, n in texts)
