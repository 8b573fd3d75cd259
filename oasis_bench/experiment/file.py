"""Reads experiments from TOML files, and applies the changes that a user gives."""

from __future__ import annotations

import os
import tomllib
from ast import literal_eval
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from oasis_bench.experiment.settings import Experiment, LearnerSpec, names_folder
from oasis_bench.system import (
    UsageError,
    check_value,
    error_line,
    open_regular,
    quoted,
    short_path,
    spelled,
    unknown_name,
)

BUILT_IN = Path(__file__).parent / "built_in"

LEAST_FOR_UNSEEN = 7
"""Smallest number of classes for tuning on unseen classes."""

TASK_OF_OPTION = {"pairs": "verification", "triplets": "judged-triplets"}
"""The default task if one of these options of the data set is given."""


def built_in_names() -> list[str]:
    """Name the experiment files that come with the package."""
    return sorted(path.stem for path in BUILT_IN.glob("*.toml"))


def read_experiment(source: str) -> Experiment:
    """Read an experiment file, or a built-in one by its name."""
    built_in, path = source if source in built_in_names() else None, Path(source)
    if built_in is None and path.suffix != ".toml" and not os.path.isfile(source):
        raise UsageError(unknown_name("experiment", source, built_in_names()))
    try:
        with open_regular(path if built_in is None else BUILT_IN / f"{source}.toml") as file:
            found = _fields_of_file(tomllib.loads(file.read().decode("utf-8")))
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from error
    except OSError as error:
        called = short_path(source)
        raise UsageError(f"cannot read experiment {called}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"experiment {source} is not TOML: {error_line(error)}") from error
    return Experiment(**found, built_in=built_in)


def _fields_of_file(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of a file as fields of `Experiment`, or refuse its keys and tables."""
    keys = {item.name for item in fields(Experiment)} - {"dataset_options", "built_in"}
    _refuse_unknown("key", [*values], sorted(keys))
    settings = Experiment.settings().keys()
    learners = {
        label: _learner(label, _table(f"learners.{label}", table))
        for label, table in _table("learners", values.get("learners", {})).items()
    }
    corpora = {
        name: _table(f"corpora.{name}", table, {*settings, "dataset", "learners"})
        for name, table in _table("corpora", values.get("corpora", {})).items()
    }
    each = _table("each", values.get("each", {}), settings)
    quick = _table("quick", values.get("quick", {}), {*settings, "corpora"})
    for name in corpora:
        if not names_folder(name):
            raise UsageError(f"[corpora.{quoted(name)}]: a name without / is needed")
    _refuse_unknown("corpus", quick.get("corpora", []), corpora)
    for corpus in corpora.values():
        _refuse_unknown("learner", corpus.get("learners", []), learners)
    if corpora and ("dataset" in values or not all("dataset" in it for it in corpora.values())):
        raise UsageError("a dataset is needed in each of [corpora], and only there")
    first = next(iter(corpora.values()), values)
    for key, table in (("title", values), ("dataset", first)):
        if key not in table:
            raise UsageError(f"the key {key!r} is missing")
    tables = {"learners": learners, "each": each, "quick": quick}
    tables["corpora"] = {name: table | _dataset(table) for name, table in corpora.items()}
    return {**values, **tables, **_dataset(first)}


def _table(name: str, table: Any, keys: Collection[str] | None = None) -> dict[str, Any]:
    """Return a table of a file; refuse a value that is not a table, or keys not in `keys`."""
    if not isinstance(table, dict):
        raise UsageError(f"{name} must be a table, [{name}]")
    for key in table:
        if keys is not None and key not in keys:
            raise UsageError(f"[{name}]: {unknown_name('setting', key, sorted(keys))}")
    return table


def _refuse_unknown(kind: str, names: Any, known: Collection[str]) -> None:
    """Raise UsageError if `names` is not a list of known names."""
    if not isinstance(names, list):
        raise UsageError(f"{quoted(names)}: a list of names is needed")
    for name in names:
        if name not in [*known]:
            raise UsageError(unknown_name(kind, str(name), known))


def _dataset(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the data set of a table, a name or a table, as fields of `Experiment`."""
    dataset = table["dataset"]
    if not isinstance(dataset, dict):
        return {"dataset": dataset, "dataset_options": table.get("dataset_options", {})}
    if "name" not in dataset:
        raise UsageError("the table [dataset] needs a name")
    options = {key: value for key, value in dataset.items() if key != "name"}
    return {"dataset": dataset["name"], "dataset_options": options}


def _learner(label: str, table: dict[str, Any]) -> LearnerSpec:
    """Return the learner of a table; a key not in `LearnerSpec` is a hyper-parameter."""
    if "," in label:
        raise UsageError(f"learner {label!r}: a label must not hold a comma")
    check_value(f"features of {label}", table.get("features", ""), str)
    own = {name: table.pop(name) for name in ("features", *LearnerSpec.LIMITS) if name in table}
    return LearnerSpec(str(table.pop("algorithm", label)), table, **own)


def changed(
    experiment: Experiment,
    given: Mapping[str, Any],
    *,
    dataset: str | None = None,
    dataset_options: Mapping[str, Any] = MappingProxyType({}),
    learners: Mapping[str, LearnerSpec] | None = None,
    title: str | None = None,
    quick: bool = False,
    params: Sequence[str] = (),
) -> Experiment:
    """Return an experiment with the changes that a user has given.

    If the data set changes, classes, title and options are reset to their defaults.  The default
    experiment keeps the task of unseen classes only for its own data set, and with enough classes.
    An option of the data set may set the task (`TASK_OF_OPTION`).  A `budget` or `memory` in
    `given` is for all learners.  With `quick`, settings that are not given are those of a quick
    run.  `params` are hyper-parameters, as in 'LMNN.pull_weight=0.5,0.9': one value, or a list to
    search.  Of a suite, the corpora are left out that do not ask the given tasks, if others do.
    """
    e, usual = experiment, Experiment.settings()
    changes = _quick(e) if quick else {}
    options = e.dataset_options
    is_other = dataset is not None and (dataset != e.dataset or bool(e.corpora))
    if e.corpora and dataset_options and not is_other:
        raise UsageError(
            "an option of the data set is for one data set, and a suite has several: give "
            f"{spelled('dataset')}, too"
        )
    if is_other:
        changes |= {"dataset": dataset, "title": Path(dataset or "").name}
        changes |= {"classes": ("all",), "corpora": {}}
        options = {}
    asked = given.get("classes", changes.get("classes", ()))
    if e.built_in == "default" and (is_other or _are_few(usual["classes"].held(asked))):
        changes["tasks"] = usual["tasks"].default
    changes |= tasks_by_option(dataset_options)
    changes |= {name: value for name, value in given.items() if name not in LearnerSpec.LIMITS}
    if changes.get("replicates") and "partitions" not in given:
        changes["partitions"] = None  # each set of classes is a partition
    changes["dataset_options"] = {**options, **dataset_options}
    changes["learners"] = _with_params(learners or e.learners, params)
    changes |= {} if title is None else {"title": title}
    changes["each"] = {name: values for name, values in e.each.items() if name not in changes}
    own = (changes.keys() | given.keys()) & usual.keys()  # a corpus has no say in what is given
    corpora = changes.get("corpora", e.corpora)
    asked = {*usual["tasks"].held(changes.get("tasks", ()))}
    asking = [
        name
        for name, table in corpora.items()
        if asked <= {*usual["tasks"].held(table.get("tasks", e.tasks))}
        and {*table.get("learners", changes["learners"])} & {*changes["learners"]}
    ]
    changes["corpora"] = {
        name: {key: value for key, value in corpora[name].items() if key not in own}
        for name in asking or corpora
    }
    limits = {name: given[name] for name in LearnerSpec.LIMITS if name in given}
    return replace(e, **changes).limited(limits)


def on_corpora(suite: Experiment, names: Sequence[str]) -> Experiment:
    """Return a suite on the named corpora alone, also where a quick run has others."""
    if not suite.corpora:
        raise UsageError(f"{spelled('corpora')} is for a suite: name it as the experiment")
    _refuse_unknown("corpus", names, suite.corpora)
    corpora = {name: suite.corpora[name] for name in names}
    quick = {name: value for name, value in suite.quick.items() if name != "corpora"}
    return replace(suite, corpora=corpora, quick=quick)


def tasks_by_option(dataset_options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting `tasks` that options of a data set imply, if any."""
    tasks = tuple(task for name, task in TASK_OF_OPTION.items() if name in dataset_options)
    return {"tasks": tasks} if tasks else {}


def _quick(e: Experiment) -> dict[str, Any]:
    """Return 2 partitions, 2 inner folds, 4 candidates, few steps, no traces, a class subset.

    With replicates, it is 2 of these.  The subset is the first of at least seven classes, which
    unseen classes need, or else the first.  The experiment's own `quick` settings come first.
    """
    numbers = [it for it in e.classes if isinstance(it, int) and it >= LEAST_FOR_UNSEEN]
    return {
        "replicates" if e.replicates else "partitions": 2,
        "inner_folds": 2,
        "search": "4",
        "max_steps": 64_000,
        "traces": False,
        "classes": tuple(numbers or e.classes)[:1],
        "quick": {},
        "corpora": {name: e.corpora[name] for name in e.quick.get("corpora", e.corpora)},
        **{name: value for name, value in e.quick.items() if name != "corpora"},
    }


def _are_few(classes: Any) -> bool:
    """Tell whether class subsets are all too small for unseen classes."""
    sizes = [len(one) if isinstance(one, tuple) else one for one in classes]
    return bool(sizes) and all(isinstance(it, int) and it < LEAST_FOR_UNSEEN for it in sizes)


def _with_params(
    learners: Mapping[str, LearnerSpec], params: Sequence[str]
) -> dict[str, LearnerSpec]:
    """Add hyper-parameters given as text to the learners, or refuse one."""
    found = dict(learners)
    for text in params:
        given = f"{spelled('params')} {quoted(text)}"
        key, sign, values = text.partition("=")
        label, _, name = key.rpartition(".")
        if not (label and name and sign and values):
            raise UsageError(f"{given}: LEARNER.NAME=VALUE,VALUE is needed")
        if label not in found:
            raise UsageError(f"{given}: {unknown_name('learner', label, found)}")
        read = [_value(part.strip()) for part in values.split(",")]
        own = {**found[label].params, name: read if len(read) > 1 else read[0]}
        found[label] = replace(found[label], params=own)
    return found


def _value(text: str) -> Any:
    """Read a number, True, False or None; other values are text."""
    try:
        return literal_eval(text)
    except (SyntaxError, ValueError):
        return text
