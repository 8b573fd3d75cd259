"""The verbs to use a learner on the user's own rows, and `model describe`: a model card."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from oasis_bench.analysis import RunAnalysis
from oasis_bench.command_line.options import EVERY_LEARNER
from oasis_bench.command_line.progress import ProgressDisplay
from oasis_bench.command_line.run import data_options, experiment_of
from oasis_bench.data import ReadTable, Scaling
from oasis_bench.experiment import Experiment, LearnerSpec, saved_steps
from oasis_bench.plugins import (
    Blend,
    Posterior,
    Registry,
    embed as embed_items,
    learner_of,
    load_model_of,
    load_reports,
    neighbours as find_neighbours,
    training_rows_of,
    without_votes,
)
from oasis_bench.runs import fit_on_all, has_run, in_file_name, read_run
from oasis_bench.system import Folder, UsageError, refuse_input, require_packages, whole_file

ENDINGS = (".csv", ".npy", ".parquet")

_Items: TypeAlias = tuple[Any, Sequence[str] | None]
"""Items as a model takes them, and their names if they have any."""


def fit(options: argparse.Namespace) -> int:
    """Tune a learner, fit it on all rows, print its expected quality, and write its model file."""
    (name,) = options.algorithms
    if name == EVERY_LEARNER:
        raise UsageError(f"--learner {name}: one learner is fitted: name it")
    learners = {name: LearnerSpec(name)}
    options.experiment = Experiment("fit", options.dataset, learners, classes=("all",))
    experiment = experiment_of(options)
    with closing(ProgressDisplay()) as display:
        fitted = fit_on_all(experiment, options.output, options.plugin, display)
    print(fitted)
    print(f"kept in {options.output}; to use it: 'python -m oasis_bench neighbours --help'")
    return 0


def neighbours(options: argparse.Namespace) -> int:
    """Write the nearest rows of a gallery for each query."""
    if options.output is not None and options.output.suffix != ".csv":
        raise UsageError(f"--output {options.output}: the table is CSV: give a name that ends so")
    _check_folder(options.output)
    with closing(ProgressDisplay()) as display:
        model, (gallery, queries) = _load(options, [options.gallery, options.queries], display)
        rows, similarities = find_neighbours(
            model, gallery[0], queries[0], options.k, progress=display.bar
        )
    query, rank = np.indices(rows.shape).reshape(2, -1)
    table = {
        "query": _called(queries, query),
        "rank": rank + 1,
        "neighbour": _called(gallery, rows.ravel()),
        "similarity": similarities.ravel(),
    }
    _write(pd.DataFrame(table), options.output)
    return 0


def embed(options: argparse.Namespace) -> int:
    """Write the coordinates of rows in the learned space."""
    ending = options.output.suffix
    if ending not in ENDINGS:
        raise UsageError(f"--output {options.output}: its ending is none of {', '.join(ENDINGS)}")
    if ending == ".npy" and options.name is not None:
        raise UsageError(f"--name {options.name}: a .npy file has no names: write a .csv file")
    if ending == ".parquet":
        require_packages("a .parquet file", ["pyarrow"], "parquet")
    if options.bound is not None and options.purpose is None:
        raise UsageError("--bound is of vectors for an index: give --for queries or --for gallery")
    _check_folder(options.output)
    with closing(ProgressDisplay()) as display:
        model, ((X, names),) = _load(options, [options.dataset], display)
        blend: Blend | None = getattr(model, "blend_", None)
        what = "votes" if isinstance(learner_of(model, [])[0], Posterior) else "as learned"
        if blend is not None and blend.weight < 1 and options.purpose is None:
            display.note(f"points are {what}, without the blend of weight {blend.weight:g}")
    make = {"queries": model.query_vectors, "gallery": model.gallery_vectors}.get(options.purpose)
    points: Any = make(X, options.bound) if make else embed_items(model, X)
    table = pd.DataFrame(_dense(points)).add_prefix("x")
    if names is not None and ending != ".npy":
        head = "name" if options.name in (None, *table) else options.name
        table.insert(0, head, names)
    _write(table, options.output)
    return 0


def describe(options: argparse.Namespace) -> int:
    """Print the card of a saved model, or write it."""
    path, registry = options.model, Registry.load(options.plugin)
    model, rows = load_model_of(registry, path), training_rows_of(path)
    used = learner_of(model, [])[0]
    learner, steps = without_votes(used), saved_steps(path, registry)
    scaling = None if steps is None else Scaling.of(steps)
    blend, same = (getattr(model, name, None) for name in ("blend_", "same_"))
    facts = {
        "learner": f"{learner.name}: {learner.summary} ({learner.citation})",
        "hyper-parameters": str(learner.get_params(deep=False)).strip("{}"),
        "rows are scaled": "not known" if scaling is None else scaling.words,
        "training rows": "not known" if rows is None else f"{len(rows):,}",
        "use": f"posterior, tau {used.tau:g}" if isinstance(used, Posterior) else "direct",
        "blend": "none" if blend is None else f"weight {blend.weight:g}, the rest is Euclidean",
        "same_probability": "not calibrated" if same is None else f"prior {same.prior:.3g}",
        **getattr(model, "about_", {}),
        **_facts_of_run(path.resolve()),
        "vectors": f"`oasis_bench.plugins.load_model({path.name!r}).gallery_vectors(rows)`",
    }
    card = f"# {path.name}\n"
    for name, text in facts.items():
        card += f"\n- {name}: " + text.replace("\n", "\n  ")
    if options.output is None:
        print(card)
    else:
        with whole_file(options.output) as file:
            file.write(f"{card}\n".encode())
    return 0


def _facts_of_run(path: Path) -> dict[str, str]:
    """Return what the run with a model in its folder `models` says of its data and its learner."""
    if not has_run(folder := path.parent.parent):
        return {}
    run, part = RunAnalysis(read_run(folder)), path.name.partition("_")[0]
    labels = [it for it in run.learners if in_file_name(it) == part]
    data, versions = run.info.sources.dataset, run.info.provenance.get("versions", {})
    facts = {"data": data.name, "licence of the data": data.licence}
    facts["made by"] = f"oasis-bench {versions.get('oasis-bench', '')}"
    for task, compared in run.comparisons.items():
        for it in compared if len(labels) == 1 else ():
            found = it.interval(labels[0], run.rho.get((it.subset, run.split_of(task)), 0))
            what = f"{task}, classes {it.subset}, {it.name}: mean, 95 % interval, n"
            facts[what] = f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}], {found.n}"
    return facts


def _check_folder(path: Path | None) -> None:
    """Raise UsageError if a file cannot be written, before the work for it begins."""
    if path is not None:
        Folder(path.absolute().parent).make_writable()


def _dense(rows: Any) -> Any:
    """Return rows as an array."""
    return rows.toarray() if hasattr(rows, "toarray") else rows


def _called(items: _Items, numbers: Any) -> Any:
    """Return the names of items with these numbers."""
    _, names = items
    return numbers if names is None else np.array(names, dtype=object)[numbers]


def _load(
    options: argparse.Namespace, sources: Sequence[str], display: ProgressDisplay
) -> tuple[Any, list[_Items]]:
    """Load a model without its first step, which reads tables, and items read by this step."""
    registry = Registry.load(options.plugin)
    datasets = []
    for source in sources:
        given = data_options(options, source)
        datasets.append(registry.open_dataset(source, given))
        refuse_input(options.output, [datasets[-1].location(), *given.values()])
    model = load_model_of(registry, options.model)
    takes, schema = learner_of(model, [])[0].takes, ReadTable.of_model(model)
    model = ReadTable.taken_from(model)
    loaded: list[_Items] = []
    for source, dataset in zip(sources, datasets, strict=True):
        X, names = dataset.load_items(takes, schema, options.name, display.download)
        if takes == "rows" and X.shape[1] != (n_needed := model.n_features_in_):
            raise UsageError(
                f"{source} has {X.shape[1]} features, and {options.model} was fitted on {n_needed}"
            )
        if hasattr(model, "feature_names_in_"):  # a model of another program
            X = pd.DataFrame(_dense(X), columns=model.feature_names_in_)
        loaded.append((X, names))
    if options.name is not None and all(names is None for _, names in loaded):
        raise UsageError(f"--name {options.name}: {', '.join(sources)}: no columns have names")
    return model, loaded


def _write(table: pd.DataFrame, path: Path | None) -> None:
    """Write a table to a file, which appears whole or not at all, or to the terminal."""
    texts = load_reports().for_spreadsheets
    if path is None:
        texts(table).to_csv(sys.stdout, index=False)
        return
    with whole_file(path) as file:
        if path.suffix == ".npy":
            np.save(file, table.to_numpy())
        elif path.suffix == ".parquet":
            table.to_parquet(file, index=False)
        else:
            texts(table).to_csv(file, index=False)
