"""The page of a run, and what it says of how the run was made."""

from __future__ import annotations

import json
import os
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd

from oasis_bench.data import Scaling
from oasis_bench.reports.figures import (
    cost_figures,
    quality_against_time,
    space_figures,
    step_figures,
    task_figures,
)
from oasis_bench.reports.measures import (
    confusion_tables,
    difference_tables,
    measure_tables,
    published_beside,
)
from oasis_bench.reports.ratings import rating_tables, read_ratings
from oasis_bench.reports.report_files import data_uri, render, write_files
from oasis_bench.reports.table import latex_text, plural, series
from oasis_bench.reports.trials import cost_tables, selection_table, unfinished_table
from oasis_bench.reports.verdict import answers, next_steps
from oasis_bench.reports.view import RunView, refuse_baseline, task_title, view_of
from oasis_bench.runs import StoredRun, read_run
from oasis_bench.system import Folder, printable
from oasis_bench.trial import CLOCK_IN_WORDS

PAGE = "report.html"
SHOWN_RANKS = 5
"""A report shows so many results of an example query, best first; the store has more."""

LOG_WIDTH = 20_000
"""Bytes of the log that the page shows, the last ones."""

REPEATED = re.compile(r"^((?:.+\n){1,2}?)\1+", re.MULTILINE)
"""One or two lines that are printed more than once in a row, such as a warning for each fit."""


WORDS = tomllib.loads(
    resources.files("oasis_bench.reports").joinpath("templates/words.toml").read_text("utf-8")
)
"""Definitions of measures, also for tasks where they differ; references of our own."""

CITE = re.compile(r"(~\\cite\{[^}]*\})")


def write_report(folder: Path, baseline: str | None = None, run: StoredRun | None = None) -> Path:
    """Make the tables, the figures and the page of a run from its store.

    Writes 'tables/', 'figures/' and 'report.html' into the folder of the run.  The marks of raters
    are read from 'ratings.csv' there.  Differences are from the learner `baseline`, by default from
    the best one.  `run` is the store if it has been read already.
    """
    view = view_of(read_run(folder) if run is None else run)
    refuse_baseline(view.stored, baseline)
    chapters = [_chapter(view, task, baseline) for task in view.tasks]
    ratings = read_ratings(folder)
    tables = {
        "published": published_beside(view),
        "costs": cost_tables(view),
        "selection": [selection_table(view)],
        "unfinished": [unfinished_table(view)],
        "ratings": [] if ratings is None else rating_tables(view, ratings),
    }
    makers = {"steps": step_figures, "space": space_figures, "costs": cost_figures}
    figures = {name: make(view) for name, make in makers.items()}
    trials, (pictures, queries) = view.stored.trials, retrieved(view)
    page = render(
        "report.html.j2",
        view=view,
        e=view.experiment,
        run=view.stored,
        items=view.info.items,
        chapters=chapters,
        tables=tables,
        figures=figures,
        baseline=None if baseline is None else view.marked(baseline),
        answers=answers(view),
        next_steps=next_steps(view),
        methods=methods(view),
        lost=trials[trials["traceback"].notna()].to_dict("records"),
        pictures=pictures,
        retrieved=queries,
        clock=CLOCK_IN_WORDS,
        log=_log(folder),
    )
    drawings = [it for one in chapters for it in (*one["against_time"], *one["figures"])]
    drawings += [it for group in figures.values() for it in group]
    groups = ("headlines", "differences", "confusion")
    all_tables = [table for chapter in chapters for name in groups for table in chapter[name]]
    all_tables += [table for group in tables.values() for table in group]
    return write_files(folder, PAGE, page, all_tables, drawings)


def _log(folder: Path) -> str:
    """Return the end of what learners printed during a run; '' where they printed nothing."""
    try:
        with Folder(folder).open(Folder.OUTPUT_LOG) as file:
            file.seek(-min(LOG_WIDTH, file.seek(0, os.SEEK_END)), os.SEEK_END)
            text = file.read(LOG_WIDTH).decode("utf-8", errors="replace")
    except OSError:
        return ""
    text = REPEATED.sub(_counted, f"{text.strip()}\n")
    return printable(text.strip(), keep="\n")


def _counted(found: re.Match[str]) -> str:
    """Write repeated lines once, with how often they follow."""
    return f"{found[1]}({plural(len(found[0]) // len(found[1]) - 1, 'more time')})\n"


def _chapter(view: RunView, task: str, baseline: str | None = None) -> dict[str, Any]:
    """Return what the page shows of one task."""
    source = view.info.sources.tasks[task]
    names = view.measures[task]["measure"].unique()
    words = {name: text for name in names if (text := measure_words(view, task, name))}
    return {
        "task": task,
        "title": task_title(task),
        "source": source,
        "words": words,
        "headlines": measure_tables(view, task),
        "differences": difference_tables(view, task, baseline),
        "confusion": confusion_tables(view, task),
        "against_time": quality_against_time(view, task),
        "figures": task_figures(view, task),
    }


def retrieved(view: RunView) -> tuple[dict[int, dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """Return pictures by row, and the queries of each subset with any (JMLR 2010, tables 2 and 3).

    A picture has its key in the page's style sheet, row, caption (its class or words) and uri, that
    of its thumbnail or None.  A query has a picture, and what each learner found, best first, with
    its hits.  The first query of each class comes before any second one.
    """
    rows = view.retrievals
    rows = rows[rows["rank"] <= SHOWN_RANKS].sort_values("rank")
    kept = view.stored.pictures.set_index("row")
    shown = {int(row): _picture(kept, int(row)) for row in {*rows["query"], *rows["retrieved"]}}
    queries = {}
    for subset in view.subsets:
        own, of_class = [], Counter[str]()
        for number, of_query in rows[rows["subset"] == subset].groupby("query"):
            picture = shown[int(str(number))]
            found = {
                learner: [
                    (shown[row], bool(hit))
                    for row, hit in zip(lines["retrieved"], lines["relevant"], strict=True)
                ]
                for learner in view.learners
                if len(lines := of_query[of_query["learner"] == learner])
            }
            place = of_class[picture["caption"]]
            own.append((place, {"picture": picture, "found": found}))
            of_class[picture["caption"]] += 1
        if own:
            queries[subset] = [it for _, it in sorted(own, key=lambda pair: pair[0])]
    return shown, queries


def _picture(kept: pd.DataFrame, row: int) -> dict[str, Any]:
    picture = {"key": f"p{row}", "row": row, "caption": f"row {row}", "uri": None}
    if row in kept.index:  # some data sets have no pictures
        own: Any = kept.loc[row]
        thumbnail = own["thumbnail"]
        uri = None if thumbnail is None else data_uri(thumbnail, "image/jpeg")
        picture |= {"caption": own["caption"], "uri": uri}
    return picture


def references(citation: str) -> dict[str, str]:
    """Return the citations of a source by their keys in BibTeX, of the first author and the year.

    A separate part without a year, such as the name of a library, has none.
    """
    found = {}
    for text in citation.split("; "):
        text = re.sub(r"^[^,(]*: ", "", text)  # what it is cited for
        author, year = re.search(r"[^\W\d_][\w'-]+", text), re.search(r"\b(18|19|20)\d\d\b", text)
        if author and year:
            plain = unicodedata.normalize("NFKD", author[0]).encode("ascii", "ignore").decode()
            found[f"{re.sub(r'[^a-z]', '', plain.lower())}{year[0]}"] = text
    return found


def methods(view: RunView) -> tuple[str, str, str]:
    """Say how a run was made, in a paragraph: as plain text, in LaTeX for a paper, its BibTeX."""
    sources, text = view.info.sources, " ".join(_methods(view))
    known = {**WORDS["references"]}
    for source in (sources.dataset, *sources.learners.values(), *sources.tasks.values()):
        known |= references(source.citation)
    cites = CITE.findall(text)
    latex = [it if it in cites else latex_text(it) for it in CITE.split(text)]
    keys = dict.fromkeys(key for cite in cites for key in cite[7:-1].split(","))
    bibtex = [f"@misc{{{key},\n  note = {{{latex_text(known[key])}}}\n}}" for key in keys]
    return CITE.sub("", text), "".join(latex), "\n".join(bibtex)


def _cited(name: str, citation: str) -> str:
    """Return a name with the keys of its citations."""
    keys = ",".join(references(citation))
    return f"{name}~\\cite{{{keys}}}" if keys else name


def _methods(view: RunView) -> Iterator[str]:
    e, sources = view.experiment, view.info.sources
    learners = [
        _cited(view.marked(name), about.citation) for name, about in sources.learners.items()
    ]
    scope = [plural(size, "word") for size in view.subsets.values()]
    if not view.info.multi_label:
        scope = [view.subset_label(subset) for subset in view.subsets]
    noun = "" if view.info.multi_label else f" {view.class_noun}"
    version = view.info.provenance.get("versions", {}).get("oasis-bench", "")
    yield (
        f"We compare {plural(len(learners), 'learner')} ({series(learners)}) on "
        f"{_cited(view.dataset_name, sources.dataset.citation)} with {series(scope)}{noun}, "
        f"using oasis-bench {version}~\\cite{{oasisbench}} "
        f"(version {view.experiment.protocol} of its protocol)."
    )
    yield _partitions(view)
    yield scaling_text(view)
    tasks = [_cited(name, task.citation) for name, task in sources.tasks.items()]
    yield f"The {'tasks are' if len(tasks) > 1 else 'task is'} {series(tasks)}."
    if len(view.splits) > 1 or view.splits != ["seen-classes"]:
        splits = [f"{name} ({about.summary})" for name, about in sources.splits.items()]
        yield f"The {'splits are' if len(splits) > 1 else 'split is'} {series(splits)}."
    yield protocol_text(view)
    if e.replicates:
        yield "Class sets share no items, so differences are tested by a paired t-test over them."
    elif view.judged:
        yield "Differences are tested by a bootstrap over queries."
    elif e.n_partitions > 1:
        yield (
            "Differences from the best learner are tested by a resampled t-test that is corrected "
            "for shared training and test items, after Nadeau and Bengio~\\cite{nadeau2003}, with "
            "Holm's correction~\\cite{holm1979}, at level 0.05."
        )
    yield f"Each fit runs on {plural(e.threads, 'thread')}."


def _partitions(view: RunView) -> str:
    """Say how items are divided into training and test items."""
    e, items = view.experiment, view.info.items
    outer = plural(e.n_partitions, "outer partition")
    train, test = next((f"{a:,}", f"{b:,}") for a, b in [*view.sizes.values(), (0, 0)])
    seed, per_class = f"sampled at random (seed {e.seed})", f"{e.train_per_class} training and "
    per_class += f"{e.test_per_class} test {items} per class"
    if view.info.n_folds:
        text = f"{outer} of the {view.info.n_folds} folds of the data set are used: one fold for"
        return f"{text} testing ({test} {items} on average), the others for training ({train})."
    if view.info.multi_label:
        text = f"Each of {outer} has {train} training and {test} test {items}, {seed}."
        return f"{text} {items.capitalize()} are relevant to each other if they share a word."
    if e.replicates:
        return f"Each of {view.partitions_text} has other classes, and {per_class}, {seed}."
    if any(split.per_class for split in view.info.sources.splits.values()):
        return f"Each of {outer} has {per_class}, {seed}."
    if e.test_share == 1:
        return "No partition is random: all items are test items."
    return f"Each of {outer} has on average {train} training and {test} test {items}, {seed}."


def protocol_text(view: RunView) -> str:
    """Say for each learner which hyper-parameters were tuned, and which were given."""
    experiment = view.experiment
    tuned, fixed = [], []
    for label in experiment.learners:
        values = _values(view, label)
        if several := [name for name, held in values.items() if len(held) > 1]:
            tuned.append(f"{label} ({', '.join(several)})")
        single = [f"{name} = {held[0]}" for name, held in values.items() if len(held) == 1]
        if single:
            fixed.append(f"{label} {', '.join(single)}")
    models = [
        f"{spec.algorithm} was read from {Path(spec.model).name}"
        for spec in experiment.learners.values()
        if spec.model
    ]
    if models:
        parts = [f"Nothing was fitted: {series(models)}."]
    elif tuned:
        parts = [
            f"Hyper-parameters are tuned on {experiment.inner_folds} inner folds of the training "
            f"{view.info.items}, by {_by(view)}. The search tunes {series(tuned)}. Each learner "
            f"has the same budget: {_budget(view)}."
        ]
    else:
        parts = ["No hyper-parameter is tuned."]
    if view.is_blended:
        parts.append(
            "The scores of learners that take feature vectors are blended with those of the "
            "Euclidean baseline; the weight of the blend is tuned on the same folds."
        )
    parts += [f"We fixed {'; '.join(fixed)}."] * bool(fixed and not models)
    parts += ["All other parameters have their defaults."] * (not models)
    return " ".join([*parts, f"Each fit has {'; '.join(_limits(view))}."])


def scaling_text(view: RunView) -> str:
    """Say how rows were scaled."""
    scalings = view.info.scaling
    if not scalings:
        return "Nothing is scaled: no learner takes rows."
    of_first = view.trials.groupby("learner", sort=False)["n_features"].agg(["min", "max"])[:1]
    ends = dict.fromkeys(f"{n:,}" for n in of_first.to_numpy().ravel())  # by rare categories
    rows = f"Rows of {' to '.join(ends)} features" if ends else "Rows"
    what = f"{rows} are scaled by {scalings[0]} ({Scaling(scalings[0]).words})"
    if len(scalings) > 1:
        what = f"The scaling of {rows[:1].lower()}{rows[1:]} is tuned among {series(scalings)}"
    default = ", the data set's default" + "s" * (len(scalings) > 1)
    given = "" if view.experiment.scaling else default
    if view.experiment.test_share == 1 or {*scalings} <= {"none", "l2"}:  # neither learns
        return f"{what}{given}."
    return f"{what}{given}. The scaling is learned only from the training {view.info.items}."


def _budget(view: RunView) -> str:
    """Write the budget of the search."""
    search = view.experiment.search
    if search.candidates is None:
        return "no limit"
    time = "" if search.seconds is None else f" and {search} of processor time per trial"
    return "at most " + plural(search.candidates, "candidate") + time


def _by(view: RunView) -> str:
    """Say by what measure hyper-parameters were tuned."""
    by = view.measures_that_tuned[["task", "measure"]].drop_duplicates()
    return series([f"the {measure} of {task}" for task, measure in by.to_numpy()])


def _limits(view: RunView) -> Iterator[str]:
    """Say how much time and memory a fit might take: all, some learners, and resumed sessions."""
    experiment = view.experiment
    yield _limits_text(experiment.budget, experiment.memory)
    for label, spec in experiment.learners.items():
        if text := _limits_text(spec.budget, spec.memory):
            yield f"{label} has {text}"
    for session in view.info.resumed:
        if text := _limits_text(session.limits.get("budget"), session.limits.get("memory")):
            yield f"after the run was resumed on {session.started[:10]}, each has {text}"


def _limits_text(time: str | None, memory: str | None) -> str:
    """Write the limits that are given."""
    return " and ".join(
        f"no {what} limit" if given == "off" else f"a {what} limit of {given}"
        for what, given in (("time", time), ("memory", memory))
        if given
    )


def _values(view: RunView, label: str) -> dict[str, list[Any]]:
    """Collect the values of each hyper-parameter: those named, and those seen in its trials."""
    values: dict[str, list[Any]] = {}
    for name, given in view.experiment.learners[label].params.items():
        values[name] = list(given) if isinstance(given, list) else [given]
    validated = view.validation[view.validation["learner"] == label]
    fitted = view.finished
    fitted = fitted[fitted["learner"] == label]
    for text in dict.fromkeys([*validated["params"], *fitted["params"]]):
        for name, value in json.loads(text).items():
            held = values.setdefault(name, [])
            if value not in held:
                held.append(value)
    if checkpoints := validated["n_steps"].dropna().unique().tolist():
        # Early stopping tunes them where there are several.
        name = "steps" if len(checkpoints) > 1 else "n_steps"
        values[name] = [int(checkpoint) for checkpoint in checkpoints]
    return values


def measure_words(view: RunView, task: str, measure: str) -> str | None:
    """Say what a measure of a task is; None for one of a plugin."""
    words = WORDS.get(task, {}).get(measure, WORDS["measures"].get(measure))
    return None if words is None else words.format(items=view.info.items)
