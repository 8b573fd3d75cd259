"""The verbs `data` and `check`, and the lines of `list`: what plugins are."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import zip_longest
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy import sparse

from oasis_bench.command_line.parsing import joined_options
from oasis_bench.command_line.printed import add_rows
from oasis_bench.command_line.progress import ProgressDisplay
from oasis_bench.data import LabelledRows, Patches, Scaling, unlike_ranges
from oasis_bench.experiment import built_in_names, read_experiment
from oasis_bench.plugins import (
    PATH_DATASETS,
    BilinearLearner,
    Catalogue,
    Dataset,
    EmbeddingLearner,
    ExemplarLearner,
    MahalanobisLearner,
    MetricLearner,
    Registry,
    load_reports,
)
from oasis_bench.system import UsageError, refuse_input, require_packages
from oasis_bench.tasks import Split, Task

BROKEN = "BROKEN: "
"""The text before a plugin's error."""

FORMS: dict[str, Any] = {
    "bilinear": BilinearLearner,
    "Mahalanobis": MahalanobisLearner,
    "embedding": EmbeddingLearner,
    "exemplar": ExemplarLearner,
}
"""The first class that fits names a learner's form."""

SIZES = ("for any number of rows", "quadratic in the number of rows")

GROUPS = [f"{form}, {size}" for form in (*FORMS, "other") for size in SIZES]
"""The groups of learners, in their order."""

WIDTH = 98
"""Characters of a line of a list, without its indent of two."""

CHECK_FAILED = 1


def lines_about(what: str, plugins: Sequence[Path], is_detailed: bool) -> list[str]:
    """Return the lines of `list` about algorithms, datasets, tasks, splits or experiments."""
    if what == "experiments":
        titles = [(name, read_experiment(name).title) for name in built_in_names()]
        return aligned(titles, kind=what)
    registry = Registry.load(plugins)
    abouts: dict[str, Callable[[Any], list[str]]] = {
        "algorithms": lambda learner: [f"cost of a fit: {learner.cost}"],
        "datasets": about_dataset,
        "tasks": partial(about_task, registry),
        "splits": about_split,
    }
    return described(what, getattr(registry, what), abouts[what] if is_detailed else None)


def data_load(options: argparse.Namespace) -> int:
    """Load a data set, download it if necessary, and describe it."""
    registry = Registry.load(options.plugin)
    data_options = registry.read_options(options.dataset, joined_options(options.data_options))
    dataset = registry.open_dataset(options.dataset, data_options)
    page = options.output if options.verb == "data describe" else None
    refuse_input(page, [dataset.location(), *data_options.values()])
    if options.verb == "data describe":
        if dataset.name not in PATH_DATASETS:  # users know the source of their own data
            _print_facts(facts_of(dataset))
        if dataset.location() is None:
            print("its rows: not here yet: see 'how to get it' above")
            return 0
        described = dataset.description()
        print(*described.lines(), sep="\n", end="\n" * bool(described.n_columns))

    def write(*what: Any) -> Any:
        return load_reports().write_glance(page, Path(options.dataset).name, *what)

    try:
        with closing(ProgressDisplay()) as display:
            rows = dataset.load_checked(display.download)
    except UsageError as error:
        if page and described.n_columns:
            print(f"page: {write({'cannot be used yet': str(error)}, described)}", flush=True)
        raise
    facts = facts_of_rows(dataset, rows)
    _print_facts(facts, partial(_counts, rows))
    if page:
        print(f"page: {write(facts, described, rows)}")
    return 0


def _counts(rows: LabelledRows) -> dict[str, int]:
    classes = zip(rows.class_names, rows.class_counts().tolist(), strict=True)
    counts = {"n_items": rows.X.shape[0], "n_features": rows.prepared().shape[1]}
    return counts | {f"n_items of class {name}": n for name, n in classes}


def _print_facts(facts: Mapping[str, str], counts: Callable[[], Mapping[str, int]] = dict) -> None:
    """Print facts; the rows of an answer in JSON have `counts`, too."""
    add_rows(lambda: [{"fact": it, "value": own} for it, own in {**facts, **counts()}.items()])
    print(*aligned([(f"{name:<15}", value) for name, value in facts.items()]), sep="\n", flush=True)


def described(
    what: str, catalogue: Catalogue[Any], about: Callable[[Any], list[str]] | None
) -> list[str]:
    """Return lines for each plugin: its name and summary, or its error; below, lines of `about`.

    Learners are grouped by form and size, and their lines also name their input.
    """
    groups: dict[str, list[tuple[str, ...]]] = {group: [] for group in GROUPS}
    notes = {}
    for name in catalogue:
        try:
            plugin = catalogue[name]
        except UsageError as error:
            groups.setdefault("broken", []).append((name, f"{BROKEN}{error}"))
            continue
        is_learner = issubclass(plugin, MetricLearner)
        row = (name, input_of(plugin), plugin.summary) if is_learner else (name, plugin.summary)
        groups.setdefault(group_of(plugin) if is_learner else "", []).append(row)
        if about is not None:
            notes[name] = [*about(plugin), f"cite: {plugin.citation}"]
    headings = {rows[0][0]: f"{group}:" for group, rows in groups.items() if rows and group}
    return aligned([row for rows in groups.values() for row in rows], notes, headings, what)


def group_of(learner: type[MetricLearner]) -> str:
    """Name the form of a learner, and its size: the rows it can take."""
    form = next((name for name, kind in FORMS.items() if issubclass(learner, kind)), "other")
    return f"{form}, {SIZES['n^2' in learner.cost]}"


def input_of(learner: type[MetricLearner]) -> str:
    """Name a learner's input: dense or sparse rows, pixels, patches, or both: pixels+."""
    density = "sparse" if learner.takes_sparse else "dense"
    named = {"rows": density, Patches.AND_PIXELS: "pixels+"}
    return named.get(learner.takes, learner.takes)


def about_dataset(dataset: type[Dataset]) -> list[str]:
    """Return where a data set is, and how to get it."""
    here: str | None = "the path that you give"
    if dataset.name not in PATH_DATASETS:
        needed = ", ".join(dataset.needed_options())
        here = f"depends on its options ({needed})" if needed else dataset().location()
    return [f"here: {here or 'not yet'}", f"how to get it: {dataset.home}"]


def about_task(registry: Registry, task: type[Task]) -> list[str]:
    """Return how the items of a task are split, and its measures."""
    return [
        f"{registry.splits[task.split].summary}; compared with {Task.GALLERIES[task.gallery]}",
        f"measures: {', '.join(task.measure_names())}",
    ]


def about_split(split: type[Split]) -> list[str]:
    """Return whether `--split` takes a split."""
    if not split.in_place_of:
        return ["used by the tasks that name it"]
    return [f"with --split {split.name}, in place of {' or '.join(split.in_place_of)}"]


def aligned(
    rows: Sequence[tuple[str, ...]],
    notes: Mapping[str, Sequence[str]] = MappingProxyType({}),
    headings: Mapping[str, str] = MappingProxyType({}),
    kind: str | None = None,
) -> list[str]:
    """Align cells in columns, the last wrapped; a name may have `notes` below and a heading.

    Of plugins of a `kind`, an answer in JSON has the same rows.
    """
    if kind is not None:
        add_rows(
            lambda: [
                {
                    **{"kind": kind, "name": row[0], "takes": row[1] if row[2:] else None},
                    **{"summary": row[-1], "notes": notes.get(row[0])},
                }
                for row in rows
            ]
        )
    columns = zip_longest(*(row[:-1] for row in rows), fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in rows:
        first = "".join(
            f"{cell:<{width + 2}}" for cell, width in zip(row[:-1], widths, strict=False)
        )
        lines += [headings[row[0]]] if row[0] in headings else []
        lines += textwrap.wrap(
            first + row[-1], WIDTH, subsequent_indent=" " * len(first), break_on_hyphens=False
        )
        for note in notes.get(row[0], ()):
            lines += textwrap.wrap(note, WIDTH, initial_indent="    ", subsequent_indent="      ")
    return lines


def facts_of(dataset: Dataset) -> dict[str, str]:
    """Return the known facts about a data set before it is read, in the order of display."""
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
    """Return facts about the rows of a data set."""
    counts = rows.class_counts()
    smallest, largest = int(counts.argmin()), int(counts.argmax())
    sizes = f"{counts[smallest]:,} {dataset.items} each"
    if counts[smallest] != counts[largest]:
        sizes = (
            f"{counts[smallest]:,} ({rows.class_names[smallest]}) to {counts[largest]:,} "
            f"{dataset.items} ({rows.class_names[largest]})"
        )
    X = rows.prepared()
    n_non_zeros = X.nnz if isinstance(X, sparse.csr_array) else np.count_nonzero(X)
    facts = {
        dataset.items: f"{rows.X.shape[0]:,}",
        "labels" if rows.multi_label else "classes": f"{len(counts)}, of {sizes}",
        "features": f"{X.shape[1]:,} ({X.dtype}, {'sparse' if sparse.issparse(X) else 'dense'})",
        "non-zeros a row": f"{n_non_zeros / X.shape[0]:.1f}",
    }
    if rows.groups is not None:
        facts["groups"] = f"{rows.groups.max() + 1:,}: each trains or tests as a whole"
    default = dataset.default_scaling(rows)
    for scaling in (default,) if isinstance(default, str) else default:
        facts[f"scaling {scaling}"] = Scaling(scaling).words
    if (ranges := unlike_ranges(X)) is not None:
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
            facts["pairs"] = f"{len(marks):,}, of which {marks.sum():,} are 'same'"
        else:
            facts["ratings"] = f"{len(marks):,} candidates of queries by {marks.shape[1]} raters"
    if dataset.class_subsets:
        facts["class subsets"] = ", ".join(
            f"{name} ({len({*names} & {*rows.class_names})} of {len(names)} classes here)"
            for name, names in dataset.class_subsets.items()
        )
    if rows.images is not None and rows.remarks:
        facts["remarks"] = "; ".join(rows.remarks)
    if rows.left_out:
        facts["not all"] = "; ".join(rows.left_out)
    return facts


def check(options: argparse.Namespace) -> int:
    """Check the plugins of a file; the status says if all passed."""
    require_packages("check", ["pytest"], "test")
    from oasis_bench.plugins import check_plugins

    return 0 if check_plugins(options.file) else CHECK_FAILED
