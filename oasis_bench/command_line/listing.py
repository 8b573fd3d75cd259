"""The verbs `list`, `data` and `check`: plugins are listed, described, tried out and tested."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from scipy import sparse

from oasis_bench.analysis import with_costs
from oasis_bench.command_line.parsing import DATA_OPTIONS
from oasis_bench.command_line.progress import ProgressDisplay
from oasis_bench.data import PATCHES_AND_PIXELS, LabelledRows, scaling_words, unlike_scales
from oasis_bench.experiment import (
    Duration,
    Experiment,
    LearnerSpec,
    Search,
    built_in_experiments,
    tasks_by_option,
)
from oasis_bench.plugins import (
    PATH_DATASETS,
    BilinearLearner,
    BrokenPluginError,
    Catalogue,
    Dataset,
    EmbeddingLearner,
    ExemplarLearner,
    MahalanobisLearner,
    MetricLearner,
    Registry,
    load_registry,
    load_rows,
    needed_options,
    open_dataset,
    read_options,
    refuse_unlike_inputs,
)
from oasis_bench.runs import StoredRun, read_run, run_experiment
from oasis_bench.system import UsageError, require_packages
from oasis_bench.tasks import GALLERIES, Split, Task, measure_names

BROKEN = "BROKEN: "
"""What stands before the error of a plugin."""

FORMS: dict[str, Any] = {
    "bilinear": BilinearLearner,
    "Mahalanobis": MahalanobisLearner,
    "embedding": EmbeddingLearner,
    "exemplar": ExemplarLearner,
}
"""The first that fits names a learner's form."""

SIZES = ("for any number of rows", "for thousands of rows")

SEARCH, BUDGET = Search.of("search", "1s"), Duration.of("budget", "10s")
"""What a learner may take: for its search, and for its fit."""

FIRST = ("Euclidean", "StandardizedEuclidean", "ClassifierPosterior", "OASIS", "LDA")
"""What a first run compares: the baselines and two quick learners."""

CHECK_FAILED = 1


def list_all(options: argparse.Namespace) -> int:
    """Print what can be named in a run, or try every learner on a data set."""
    registry = load_registry(options.plugin)
    if options.dataset is not None:
        if options.what != "algorithms":
            raise UsageError("--for is for algorithms: 'list algorithms --for PATH'")
        data_options = read_options(options.dataset, registry, dict(options.data_options))
        with closing(ProgressDisplay()) as display:
            tried = tried_lines(options.dataset, data_options, registry, options.plugin, display)
        print("\n".join(tried))
        return 0
    tables: dict[str, Callable[[], list[str]]] = {
        "algorithms": lambda: learner_lines(registry.algorithms),
        "datasets": lambda: aligned(plugin_rows(registry.datasets)),
        "tasks": lambda: task_lines(registry.tasks, registry.splits),
        "splits": lambda: split_lines(registry.splits),
        "experiments": lambda: aligned(
            [(name, Experiment.from_toml(name).title) for name in built_in_experiments()]
        ),
    }
    shown = []
    for what, lines in tables.items():
        if options.what in (None, what):
            shown += [f"{what}:", *(f"  {line}" for line in lines())]
    print("\n".join(shown))
    return 0


def data_list(options: argparse.Namespace) -> int:
    """Print each data set, where it is and how to get it."""
    datasets = load_registry(options.plugin).datasets
    for name in datasets:
        try:
            dataset = datasets[name]
        except BrokenPluginError as error:
            print(f"{name}: {BROKEN}{error}")
            continue
        if name in PATH_DATASETS:
            here: str | None = "of yours"
        elif needed := needed_options(dataset):
            here = f"known with its options ({', '.join(needed)})"
        else:
            here = dataset().location()
        print(f"{name}: {dataset.summary}\n    here: {here or 'not yet'}\n    {dataset.home}")
    return 0


def data_load(options: argparse.Namespace) -> int:
    """Load a data set, downloading it where it is not here, and print what it holds."""
    registry = load_registry(options.plugin)
    data_options = read_options(options.dataset, registry, dict(options.data_options))
    dataset = open_dataset(options.dataset, registry, data_options)
    if options.verb == "data describe":
        lines = dataset.description() if dataset.location() is not None else []  # may raise
        _print_facts(facts_of(dataset))
        if dataset.location() is None:
            print(f"its rows: not here yet: 'data prepare {options.dataset}' gets them")
            return 0
        for line in lines:
            print(line)
    with closing(ProgressDisplay()) as display:
        rows = load_rows(dataset, display.download)
    _print_facts(facts_of_rows(dataset, rows))
    return 0


def _print_facts(facts: dict[str, str]) -> None:
    for name, value in facts.items():
        print(f"{name:<15}  {value}", flush=True)


def plugin_rows(catalogue: Catalogue[Any]) -> list[tuple[str, ...]]:
    """Return name and summary of each plugin, or what is broken about it."""
    rows: list[tuple[str, ...]] = []
    for name in catalogue:
        try:
            rows.append((name, catalogue[name].summary))
        except BrokenPluginError as error:
            rows.append((name, f"{BROKEN}{error}"))
    return rows


def learner_lines(catalogue: Catalogue[MetricLearner]) -> list[str]:
    """Return a heading for each form and size, and three lines a learner.

    They are its columns, what it is, and the paper.
    """
    groups: dict[str, list[tuple[tuple[str, ...], list[str]]]] = {
        f"{form}, {size}": [] for form in (*FORMS, "other") for size in SIZES
    }
    broken = []
    for name in catalogue:
        try:
            learner = catalogue[name]
        except BrokenPluginError as error:
            broken.append(f"{name}  {BROKEN}{error}")
            continue
        form = form_of(learner)
        notes = [f"    {learner.summary}", f"    paper: {learner.citation}"]
        row = (name, form, input_of(learner), learner.cost)
        groups[f"{form}, {size_of(learner)}"].append((row, notes))
    header = ("name", "form", "takes", "cost of a fit (n rows, d features, c classes)")
    of_all = [row for learners in groups.values() for row, _ in learners]
    rows = iter(aligned([header, *of_all]))
    lines = [next(rows)]
    for group, learners in groups.items():
        if learners:
            lines.append(f"{group}:")
        for _, notes in learners:
            lines += [next(rows), *notes]
    return [*lines, *broken]


def input_of(learner: type[MetricLearner]) -> str:
    """Name what a learner takes: dense or sparse rows, pixels, patches, or both: pixels+."""
    density = "sparse" if learner.takes_sparse else "dense"
    named = {"rows": density, PATCHES_AND_PIXELS: "pixels+"}
    return named.get(learner.takes, learner.takes)


def size_of(learner: type[MetricLearner]) -> str:
    """Say how many rows a learner is for, by what its cost grows with."""
    return SIZES["n^2" in learner.cost]


def task_lines(catalogue: Catalogue[Task], splits: Catalogue[Split]) -> list[str]:
    """Return what each task is, how its items are split, its measures and the paper."""

    def about(task: type[Task]) -> list[str]:
        return [
            f"{splits[task.split].summary}; compared with {GALLERIES[task.gallery]}",
            f"measures: {', '.join(measure_names(task))}",
        ]

    return _described(catalogue, about)


def split_lines(catalogue: Catalogue[Split]) -> list[str]:
    """Return what each split is, whether `--split` takes it, and the paper."""

    def about(split: type[Split]) -> list[str]:
        if not split.in_place_of:
            return ["of the tasks that name it"]
        return [f"with --split {split.name}, in place of {' or '.join(split.in_place_of)}"]

    return _described(catalogue, about)


def _described(catalogue: Catalogue[Any], about: Callable[[Any], list[str]]) -> list[str]:
    """Return a row for each plugin, below it what is to say about it, and the paper."""
    lines = []
    for name, row in zip(catalogue, aligned(plugin_rows(catalogue)), strict=True):
        lines.append(row)
        try:
            plugin = catalogue[name]
        except BrokenPluginError:
            continue
        lines += [f"    {line}" for line in (*about(plugin), f"paper: {plugin.citation}")]
    return lines


def form_of(learner: type[MetricLearner]) -> str:
    """Name the form of a learner."""
    return next((name for name, form in FORMS.items() if issubclass(learner, form)), "other")


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Pad each cell to the width of its column, but for the last of a row."""
    columns = zip_longest(*(row[:-1] for row in rows), fillvalue="")
    widths = [max(len(cell) for cell in column) for column in columns]
    return [
        "  ".join([*(f"{cell:<{widths[i]}}" for i, cell in enumerate(row[:-1])), row[-1]])
        for row in rows
    ]


def facts_of(dataset: Dataset) -> dict[str, str]:
    """Return what is known of a data set before it is read, in the order in which to show it."""
    facts = {
        "name": dataset.name,
        "what": dataset.summary,
        "here": dataset.location() or "not yet",
        "how to get it": dataset.home,
        "licence": dataset.licence,
        "citation": dataset.citation,
        "inputs": ", ".join(dataset.gives),
    }
    return facts | {f"note on {subset}": note for subset, note in dataset.notes.items()}


def facts_of_rows(dataset: Dataset, rows: LabelledRows) -> dict[str, str]:
    """Return what the rows of a data set are, in numbers."""
    counts = rows.class_counts()
    smallest, largest = int(counts.argmin()), int(counts.argmax())
    sizes = f"{counts[smallest]:,} {dataset.items} each"
    if counts[smallest] != counts[largest]:
        sizes = (
            f"{counts[smallest]:,} ({rows.class_names[smallest]}) to {counts[largest]:,} "
            f"{dataset.items} ({rows.class_names[largest]})"
        )
    facts = {
        dataset.items: f"{rows.X.shape[0]:,}",
        "labels" if rows.multi_label else "classes": f"{len(counts)}, of {sizes}",
        "features": f"{rows.X.shape[1]:,} ({rows.X.dtype}, "
        f"{'sparse' if sparse.issparse(rows.X) else 'dense'})",
        "non-zeros a row": f"{_non_zeros(rows) / rows.X.shape[0]:.1f}",
    }
    default = dataset.default_scaling(rows)
    for scaling in (default,) if isinstance(default, str) else default:
        facts[f"scaling {scaling}"] = str(scaling_words(scaling))
    if (ranges := unlike_scales(rows.X)) is not None:
        facts["columns"] = "of ranges from {:.3g} to {:.3g}".format(*ranges)
    if rows.multi_label:
        facts["labels a row"] = f"{counts.sum() / rows.X.shape[0]:.1f}"
    if rows.judged is not None:
        votes = rows.judged.votes
        facts["judged triplets"] = f"{len(rows.judged.items):,}" + (
            f", with {int(votes.sum()):,} votes" if votes is not None else ", without votes"
        )
    if rows.ratings is not None:
        marks = rows.ratings.marks
        if marks.shape[1] == 1:
            facts["pairs"] = f"{len(marks):,}, of which {marks.sum():,} are of the same"
        else:
            facts["ratings"] = f"{len(marks):,} candidates of queries by {marks.shape[1]} raters"
    if dataset.class_subsets:
        facts["class subsets"] = ", ".join(
            f"{name} ({_here(names, rows)} of {len(names)} classes here)"
            for name, names in dataset.class_subsets.items()
        )
    if rows.images is not None and rows.remarks:
        facts["remarks"] = "; ".join(rows.remarks)
    if rows.left_out:
        facts["not all"] = "; ".join(rows.left_out)
    return facts


def _non_zeros(rows: LabelledRows) -> int:
    return int(rows.X.nnz if isinstance(rows.X, sparse.csr_array) else np.count_nonzero(rows.X))


def _here(names: tuple[str, ...], rows: LabelledRows) -> int:
    return len(set(names) & set(rows.class_names))


def tried_lines(
    name: str,
    data_options: Mapping[str, Any],
    registry: Registry,
    plugin_files: Sequence[Path],
    display: ProgressDisplay,
) -> list[str]:
    """Run one trial of every learner that takes the data set's items; return what it came to.

    Learners that answered come first, what costs least on top; then those that did not, and why.
    """
    dataset = open_dataset(name, registry, data_options)
    rows = load_rows(dataset, display.download)
    learners, unlike = {}, {}
    for label in registry.algorithms:
        try:
            refuse_unlike_inputs(registry.algorithms[label], dataset, rows)
            learners[label] = LearnerSpec(label)
        except (BrokenPluginError, UsageError) as error:
            unlike[label] = str(error)
    experiment = Experiment(
        f"All algorithms on {name}",
        name,
        learners,
        dict(data_options),
        classes=("all",),
        partitions=1,
        search=SEARCH,
        budget=BUDGET,
        traces=False,
        examples=0,
    )
    experiment = replace(experiment, **tasks_by_option(data_options))
    with TemporaryDirectory(prefix="oasis-bench-") as folder:
        output = Path(folder) / "run"
        run_experiment(
            experiment,
            output,
            plugin_files=plugin_files,
            on_trial=display.trial,
            on_download=display.download,
            on_note=display.line,
        )
        run = read_run(output)
    found = _by_cost(run)
    first = [learner for learner, *_ in found if learner in FIRST]
    how = _how(run, first, ["--dataset", name, *_as_words(data_options, plugin_files)])
    answered = _answered(found, registry, _first_measure(run))
    return [*answered, "", *_not_answered(run, unlike), "", *how]


def _answered(
    found: Sequence[tuple[str, float, float]], registry: Registry, measure: str
) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("name", "form", "takes", "tuning + fit, s", f"{measure}, a first look"),
    ]
    for label, seconds, value in found:
        learner = registry.algorithms[label]
        figures = f"{seconds:.3g}", f"{value:.3f}"
        rows.append((label, form_of(learner), input_of(learner), *figures))
    return aligned(rows)


def _by_cost(run: StoredRun) -> list[tuple[str, float, float]]:
    """Return learner, seconds of tuning and fit, and the first measure: what costs least first."""
    measured = run.measures[run.measures["measure"] == _first_measure(run)]
    costs = with_costs(run.trials)[["trial_id", "tuning_seconds", "fit_seconds"]]
    found = measured.merge(costs, on="trial_id")
    seconds = found["tuning_seconds"] + found["fit_seconds"]
    return sorted(zip(found["learner"], seconds, found["value"], strict=True), key=itemgetter(1))


def _first_measure(run: StoredRun) -> str:
    return next(iter(run.info.sources.tasks.values())).measures[0]


def _not_answered(run: StoredRun, unlike: Mapping[str, str]) -> list[str]:
    lost = run.trials[run.trials["status"] != "ok"]
    reasons = dict(zip(lost["learner"], lost["status"] + ": " + lost["reason"], strict=True))
    rows = [(label, reason) for label, reason in (reasons | dict(unlike)).items()]
    return ["without an answer:", *aligned(rows)] if rows else ["all of them answered"]


def _how(run: StoredRun, first: Sequence[str], data: Sequence[str]) -> list[str]:
    """Say what was done, and how to go on."""
    e = run.info.experiment
    size = int(run.trials["n_train"].max())
    words = ["python", "-m", "oasis_bench", "run", *data, "--algorithms", ",".join(first)]
    return [
        f"One partition of {size} training items, {e.search} of search and {e.budget} of fit at "
        "most for each: no result, but where to begin. Try them in the order of the table, what "
        "costs least first. To begin with, the baselines and two learners that are quick:",
        f"  {shlex.join(words)}",
    ]


def _as_words(data_options: Mapping[str, Any], plugin_files: Sequence[Path]) -> list[str]:
    """Write options of the data set and plugin files as on the command line."""
    words = []
    for name, value in data_options.items():
        short = name.replace("_", "-")
        is_short = short in {known for known, *_ in DATA_OPTIONS}
        words += [f"--{short}", f"{value}"] if is_short else ["--data-option", f"{name}={value}"]
    return words + [word for path in plugin_files for word in ("--plugin", str(path))]


def check(options: argparse.Namespace) -> int:
    """Check what a plugin file defines; the status says if all is well."""
    require_packages("check", ["pytest"], "test")
    from oasis_bench.plugins import check_plugins

    return 0 if check_plugins(options.file) else CHECK_FAILED
