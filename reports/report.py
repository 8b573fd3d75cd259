"""The page of a run, and what it says of how the run was made."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from oasis_bench.data import Scaling
from oasis_bench.reports import figures, measures, trials
from oasis_bench.reports.ratings import rating_tables, read_ratings
from oasis_bench.reports.report_files import data_uri, render, write_page
from oasis_bench.reports.table import latex_text, plural, series
from oasis_bench.reports.verdict import answers, headlines, next_steps
from oasis_bench.reports.view import RunView, task_title, view_of
from oasis_bench.reports.words import WORDS, defined
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

CITE = re.compile(r"(~\\cite\{[^}]*\})")

YEAR = re.compile(r"\b(18|19|20)\d\d\b(?!\.\d)")
"""A year, and no part of a number of arXiv, such as 1807.03748."""


def write_report(folder: Path, baseline: str | None = None, run: StoredRun | None = None) -> Path:
    """Make the tables, the figures and the page of a run from its store.

    Writes 'tables/', 'figures/' and 'report.html' into the folder of the run.  The marks of raters
    are read from 'ratings.csv' there.  Differences are from the learner `baseline`, by default from
    the best one.  `run` is the store if it has been read already.
    """
    view = view_of(read_run(folder) if run is None else run)
    chapters = [_chapter(view, task, baseline) for task in view.tasks]
    ratings = read_ratings(folder)
    tables = {
        "published": measures.published_beside(view),
        "costs": trials.cost_tables(view),
        "selection": [trials.selection_table(view)],
        "unfinished": [trials.unfinished_table(view)],
        "ratings": [] if ratings is None else rating_tables(view, ratings),
    }
    drawn = {
        "steps": figures.split_figures(view, "along_steps"),
        "space": figures.space_figures(view),
        "costs": figures.split_figures(view, "costs"),
    }
    lost = view.stored.trials.dropna(subset="traceback")
    pictures, queries = retrieved(view)
    return write_page(
        folder,
        PAGE,
        "report.html.j2",
        view=view,
        e=view.experiment,
        run=view.stored,
        chapters=chapters,
        tables=tables,
        figures=drawn,
        baseline=None if baseline is None else view.marked(baseline),
        answers=answers(view),
        headlines=headlines(view),
        next_steps=next_steps(view),
        methods=methods(view),
        lost=lost.to_dict("records"),
        pictures=pictures,
        retrieved=queries,
        reading=defined(
            "reading",
            items=view.info.items,
            threads=plural(view.experiment.threads, "thread"),
            clock=CLOCK_IN_WORDS,
        ),
        log=_log(folder),
    )


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


def _chapter(view: RunView, task: str, baseline: str | None) -> dict[str, Any]:
    """Return what the page shows of one task."""
    is_judged = view.split_of(task) in view.judged
    names = view.measures[task]["measure"].unique()
    return {
        "task": task,
        "title": task_title(task),
        "source": view.info.sources.tasks[task],
        "words": {name: text for name in names if (text := measure_words(view, task, name))},
        "headlines": measures.measure_tables(view, task),
        "differences": measures.difference_tables(view, task, baseline),
        "paired_by": "query" if is_judged else view.partition_noun,
        "confusion": measures.confusion_tables(view, task),
        "figures": figures.task_figures(view, task),
    }


class Picture(NamedTuple):
    """An item that the page shows."""

    row: int
    caption: str  # its class or words
    uri: str | None  # that of its thumbnail

    @property
    def key(self) -> str:
        """Its class in the page's style sheet."""
        return f"p{self.row}"


class Query(NamedTuple):
    """A query, and for each learner what it found, best first, each with whether it is a hit."""

    picture: Picture
    found: Mapping[str, Sequence[tuple[Picture, bool]]]


def retrieved(view: RunView) -> tuple[dict[int, Picture], dict[str, list[Query]]]:
    """Return pictures by row, and the queries of each subset with any (JMLR 2010, tables 2 and 3).

    The first query of each class comes before any second one.
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
            own.append((of_class[picture.caption], Query(picture, found)))
            of_class[picture.caption] += 1
        if own:
            queries[subset] = [query for _, query in sorted(own, key=itemgetter(0))]
    return shown, queries


def _picture(kept: pd.DataFrame, row: int) -> Picture:
    if row not in kept.index:  # some data sets have no pictures
        return Picture(row, f"row {row}", None)
    own: Any = kept.loc[row]
    thumbnail = own["thumbnail"]
    uri = None if thumbnail is None else data_uri(thumbnail, "image/jpeg")
    return Picture(row, own["caption"], uri)


def references(citation: str) -> dict[str, str]:
    """Return the citations of a source by their keys in BibTeX, of the first author and the year.

    A separate part without a year, such as the name of a library, has none.
    """
    found = {}
    for text in citation.split("; "):
        text = re.sub(r"^[^,(]*: ", "", text)  # what it is cited for
        author, year = re.search(r"[^\W\d_][\w'-]+", text), YEAR.search(text)
        if author and year:
            plain = unicodedata.normalize("NFKD", author[0]).encode("ascii", "ignore").decode()
            found[f"{re.sub(r'[^a-z]', '', plain.lower())}{year[0]}"] = text
    return found


def methods(view: RunView) -> tuple[str, str, str]:
    """Say how a run was made, in a paragraph: as plain text, in LaTeX for a paper, its BibTeX."""
    sources, text = view.info.sources, _methods(view)
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


def _methods(view: RunView) -> str:
    """Fill the template of the methods; citations are LaTeX's."""
    sources, learners = view.info.sources, view.experiment.learners
    scope = [plural(size, "word") for size in view.subsets.values()]
    if not view.info.multi_label:
        scope = [view.subset_label(subset) for subset in view.subsets]
    per_class = [name for name, about in sources.splits.items() if about.per_class]
    sizes = view.sizes  # of a split that has no sizes a class, where there is one
    of_others = sizes[~sizes.index.isin(per_class, level="split")]
    (train, test), *_ = *of_others.itertuples(index=False), *sizes.itertuples(index=False), (0, 0)
    of_first = view.trials.groupby("learner", sort=False)["n_features"].agg(["min", "max"])[:1]
    ends = dict.fromkeys(f"{n:,}" for n in of_first.to_numpy().ravel())  # by rare categories
    values = {label: _values(view, label).items() for label in learners}
    several = {
        label: [name for name, held in own if len(held) > 1] for label, own in values.items()
    }
    single = {
        label: [f"{name} = {held[0]}" for name, held in own if len(held) == 1]
        for label, own in values.items()
    }
    by = view.measures_that_tuned[["task", "measure"]].drop_duplicates()
    text = render(
        "methods.txt.j2",
        view=view,
        learners=[
            _cited(view.marked(label), own.citation) for label, own in sources.learners.items()
        ],
        dataset=_cited(view.dataset_name, sources.dataset.citation),
        scope=series(scope) + ("" if view.info.multi_label else f" {view.class_noun}"),
        version=view.info.provenance.get("versions", {}).get("oasis-bench", ""),
        train=f"{train:,}",
        test=f"{test:,}",
        per_class=per_class,
        is_tested=any(it.best for own in view.comparisons.values() for it in own),
        rows=f"rows of {' to '.join(ends)} features" if ends else "rows",
        scaling=Scaling,
        tasks=[_cited(name, task.citation) for name, task in sources.tasks.items()],
        splits=[f"{name} ({about.summary})" for name, about in sources.splits.items()],
        models=[
            f"{spec.algorithm} was read from {Path(spec.model).name}"
            for spec in learners.values()
            if spec.model
        ],
        tuned_by=[f"the {measure} of {task}" for task, measure in by.to_numpy()],
        tuned=[f"{label} ({', '.join(names)})" for label, names in several.items() if names],
        fixed=[f"{label} {', '.join(texts)}" for label, texts in single.items() if texts],
    )
    return " ".join(text.strip().split("\n"))


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
