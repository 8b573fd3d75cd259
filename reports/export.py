"""A run's numbers for other programs: its store, its tables, its results as rows; these read back.

The rows have the headlines of each task, not every measure.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from oasis_bench.plugins import PATH_DATASETS
from oasis_bench.reports.table import counted, numbers_as, params_text, to_csv
from oasis_bench.reports.view import DAGGER, RunView, view_of
from oasis_bench.runs import StoredRun, has_run, read_run
from oasis_bench.system import (
    Folder,
    UsageError,
    encodable,
    error_line,
    quoted,
    require_packages,
)

MEDIANS = ("tuning_seconds", "seconds_per_query", "fit_peak_bytes", "model_bytes", "n_steps")
RANGES = ("fit_seconds", "fit_cpu_seconds")

KIND_OF_ITEMS = {"rows": "tables", "images": "pictures", "documents": "text"}
"""What the kind of a data set is called, by what it calls its items."""

OF_NETWORKS = ("efficientnet", "timm:", ".npz")
"""The option `features` of embeddings has one of these."""

COLUMNS = (
    *("dataset", "corpus", "kind", "subset", "subset_title", "n_classes", "split"),
    *("n_train", "n_test", "n_features"),
    *("task", "measure", "k", "name", "learner", "mean", "sd"),
    *("direct", "posterior", "as_learned", "partitions", "planned", "chance"),
    *("verdict", "note", "scalings", "search", "candidates", "settings"),
    *("scaling", "params", "n_steps"),
    *("use", "tau", "blend"),
    *("transductive", "total_seconds", "tuning_seconds"),
    *(f"{name}{end}" for name in RANGES for end in ("", "_min", "_max")),
    *("seconds_per_query", "fit_peak_bytes", "model_bytes", "threads", "shared_cores", "processor"),
    *("started", "version", "commit", "command", "protocol", "code"),
)

TEXTS = ("dataset", "subset", "subset_title", "task", "measure", "name", "learner")
NUMBERS = ("n_classes", "mean", "partitions")
"""Columns that a summary has to have; it may lack the others."""

MORE_TEXTS = ("corpus", "kind", "note", "params", "scaling", "search", "use", "tau", "blend")
MORE_NUMBERS = (
    *("k", "n_train", "n_features", "sd", "direct", "posterior", "as_learned"),
    *("candidates", "settings"),
    *("total_seconds", "tuning_seconds", "fit_seconds", "transductive"),
)


def export_run(folder: Path, kind: str, output: Path | None = None) -> list[Path]:
    """Write a run's numbers as files into `output`, by default the folder 'export' of the run.

    With `kind` 'csv' or 'parquet' there is a file for each table of the store.  With 'summary'
    there is one CSV file of `result_rows`, with the name of the run's folder.  Tables of trials
    also have the learner, subset, partition and split.  The values of the table `run` are JSON.
    Pictures are JPEG, encoded in base64 in CSV.
    """
    output = Folder(folder).path(Folder.EXPORT) if output is None else output
    run = read_run(folder)
    if kind == "summary":
        content = to_csv(result_rows(run), float_format="%.6g")
        files = {f"{folder.resolve().name}.csv": content}
    else:
        files = {f"{name}.{kind}": WRITERS[kind](table) for name, table in _tables(run).items()}
    with Folder(output).exporting():
        for name, content in files.items():
            Folder(output).write(name, content)
    return [output / name for name in files]


def _tables(run: StoredRun) -> dict[str, pd.DataFrame]:
    """Return every table of the store, by its name, with the types that it is stored in."""
    info = [(key, json.dumps(value)) for key, value in run.info.to_json().items()]
    return {
        "run": pd.DataFrame(info, columns=["key", "value"], dtype="string"),
        **run.typed_tables(),
    }


def _csv(table: pd.DataFrame) -> bytes:
    if "thumbnail" in table:
        encoded = [jpeg and base64.b64encode(jpeg).decode() for jpeg in table["thumbnail"]]
        table = table.assign(thumbnail=encoded)
    return to_csv(table)


def _parquet(table: pd.DataFrame) -> bytes:
    require_packages("a .parquet file", ["pyarrow"], "parquet")
    return table.to_parquet(engine="pyarrow", index=False)


WRITERS = {"csv": _csv, "parquet": _parquet}


def result_rows(run: StoredRun) -> pd.DataFrame:
    """Return a row for each learner, class subset, task, headline and k.

    The columns are `COLUMNS`.  mean and sd are of the selected use, direct and posterior are the
    means of both, and as_learned is that of the learner alone.  They are over the `partitions` with
    a result; if these are fewer than `planned`, `note` gives the reason.  `verdict` is from the
    comparison with the best learner (see `analysis.statistics.Comparison`).  Costs are medians
    over partitions, and _min and _max are their range.  `scalings`, `search`, `candidates` and
    `settings` (validated; medians) describe the search.  `scaling`, `params`, `n_steps`, `use`,
    `tau` and `blend` (of the selected use: tau, and the weight of the learner) are as tuned for the
    task, with numbers of partitions if these differ.  Costs are those of the first task of a split;
    `total_seconds` is the time of tuning and fit.  `corpus` is the data set without its features.
    `kind` is one of `KIND_OF_ITEMS`, 'embeddings', or the noun for the items.  `commit` has all
    commits of the run.
    """
    view, parts = view_of(run), []
    for task in view.tasks:
        numbers, split = view.numbers[task], view.split_of(task)
        own = numbers[numbers["name"].isin(view.names(task, "is_shown"))]
        own = own.drop(columns="blend")
        own["note"] = [
            " ".join(view.shortfall(subset, learner, split, task)).removeprefix(
                f"{view.marked(learner)}: "
            )
            for subset, learner in zip(own["subset"], own["learner"], strict=True)
        ]
        tuned = view.tuned_for(task)
        trials = view.trials[view.trials["split"] == split]
        trials = trials.drop(columns=tuned.columns, errors="ignore")
        trials = trials.join(tuned, on="trial_id")
        cells = [
            {"subset": subset, "learner": learner, **_of_cell(view, of_cell)}
            for subset, learner, of_cell in view.by_subset_and_learner(trials, split)
        ]
        own = own.merge(pd.DataFrame(cells), on=["subset", "learner"])
        parts.append(own.assign(task=task, split=split))
    rows = pd.concat(parts).join(view.sizes, on=["subset", "split"])
    rows = rows.rename(columns={"n": "partitions"}).assign(
        subset_title=[view.subset_title(subset) for subset in rows["subset"]], **_of_run(view)
    )
    return rows[list(COLUMNS)].astype(dict.fromkeys(("threads", "n_train", "n_test"), "Int64"))


def _of_run(view: RunView) -> dict[str, Any]:
    """Return what all rows of a run have in common."""
    info = view.info
    commits = [info.provenance.get("commit")]
    commits += [session.provenance.get("commit") for session in info.resumed]
    own = info.sources.dataset.name in PATH_DATASETS
    dataset = encodable(Path(info.experiment.dataset).stem) if own else view.dataset_name
    features = str(info.experiment.dataset_options.get("features", ""))
    return {
        "dataset": dataset,
        "corpus": dataset.replace(f" {features}", "") if features else dataset,
        "kind": kind_of(info.items, features),
        "planned": info.experiment.partitions,
        "scalings": ", ".join(info.scaling),
        "search": info.experiment.search,
        "started": info.started,
        "version": info.provenance.get("versions", {}).get("oasis-bench"),
        "commit": "; ".join(dict.fromkeys(str(commit) for commit in commits if commit)),
        "command": info.command and encodable(info.command),
        "protocol": info.experiment.protocol,
        "code": "; ".join(sorted({str(identity["code"]) for identity in info.identities.values()})),
    }


def kind_of(items: str, features: str) -> str:
    """Return the kind of a data set, by the noun for its items and its option `features`."""
    is_embedded = any(name in features for name in OF_NETWORKS)
    return "embeddings" if is_embedded else KIND_OF_ITEMS.get(items, items)


def _of_cell(view: RunView, trials: pd.DataFrame) -> dict[str, Any]:
    """Return the costs of a learner on a subset and a split, and what was tuned."""
    done = trials[trials["status"] == "ok"]
    tried = view.n_tried.reindex(done["trial_id"]).fillna(1)  # of nothing to tune: one
    return {
        "n_features": trials["n_features"].max(),
        "transductive": int(trials["transductive"].any()),
        "total_seconds": (done["tuning_seconds"].fillna(0) + done["fit_seconds"]).median(),
        **{name: done[name].median() for name in (*MEDIANS, *RANGES)},
        **{f"{name}_min": done[name].min() for name in RANGES},
        **{f"{name}_max": done[name].max() for name in RANGES},
        **tried.median(),
        "scaling": counted(done["scaling"].dropna()),
        "params": counted(done["params"].dropna().map(params_text)),
        "use": counted(done["use"].dropna()),
        "tau": counted(done["tau"].dropna().map("{:g}".format)),
        "blend": counted(done["blend"].dropna().map("{:g}".format)),
        "threads": done["threads"].max(),
        "shared_cores": int(done["shared_cores"].any()),
        "processor": "; ".join(done["processor"].dropna().unique()),
    }


def read_results(paths: Sequence[Path]) -> pd.DataFrame:
    """Return the `result_rows` of runs and summaries, each once.

    A folder that is not a run means the runs or summaries in it.  Further columns: cell (a
    class subset of a run, on which learners are compared), option (the measure as in options),
    seconds and source.
    """
    found: dict[Path, Path] = {}
    for path in paths:
        inside: list[Path] = []
        if path.is_dir() and not has_run(path):
            runs = sorted(it for it in path.iterdir() if has_run(it))
            inside = runs or sorted(path.rglob("*.csv"))
        for one in inside or [path]:
            found.setdefault(one.resolve(), one)
    return pd.concat([_results_of(path) for path in found.values()], ignore_index=True)


def _results_of(path: Path) -> pd.DataFrame:
    """Read the rows of a summary, or make them of a run."""
    rows = read_summary(path) if path.is_file() else result_rows(read_run(path))
    rows = rows.reindex(columns=[*TEXTS, *NUMBERS, *MORE_TEXTS, *MORE_NUMBERS])
    rows = rows.astype({"n_train": float, "n_features": float})
    seconds = rows["tuning_seconds"].fillna(0) + rows["fit_seconds"]
    rows = rows.assign(
        corpus=rows["corpus"].fillna(rows["dataset"]),
        kind=rows["kind"].fillna("kind not known"),
        seconds=rows["total_seconds"].fillna(seconds),
        # As many digits as in summaries: equal results stay equal, wherever they are read from.
        mean=[float(f"{value:.6g}") for value in rows["mean"]],
        option=rows["measure"] + rows["k"].map(numbers_as("@{:.0f}", "")),
        learner=rows["learner"] + np.where(rows["transductive"] > 0, DAGGER, ""),
        cell=encodable(f"{path}\n") + rows["subset"].astype(str),
        source=encodable(str(path)),
    )
    keys = ["cell", "task", "name", "learner"]
    if (twice := rows.duplicated(keys)).any():
        learner = rows.loc[twice, "learner"].iloc[0]
        raise UsageError(
            f"{path} has {quoted(learner)} twice on a class subset: give a file of one run"
        )
    return rows


def read_summary(path: Path) -> pd.DataFrame:
    """Read a summary, the CSV file of 'export --format summary'."""
    types = dict.fromkeys((*TEXTS, *MORE_TEXTS), object)
    types |= dict.fromkeys((*NUMBERS, *MORE_NUMBERS), float)
    try:
        rows = pd.read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
        lacking = [name for name in (*TEXTS, *NUMBERS) if name not in rows]
        if lacking or rows.empty:
            what = f"its column {lacking[0]!r} is missing" if lacking else "it has no row"
            raise ValueError(f"{what}; make one with 'export RUN --format summary'")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} is not a summary of a run: {error_line(error)}") from error
    for name in (*TEXTS, "partitions"):
        if rows[name].isna().any():
            row = rows[name].isna().argmax() + 2
            again = "make the summary again with 'export RUN --format summary'"
            raise UsageError(f"{path}: {name} is empty in row {row}: {again}")
    # A text that a spreadsheet would take for a formula was written with an apostrophe before it.
    learners = rows["learner"].str.replace(r"^'(?=[=+\-@\t\r])", "", regex=True)
    return rows.assign(learner=learners)
