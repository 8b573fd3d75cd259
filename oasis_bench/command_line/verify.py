"""The verb `verify`: check results of the suite that somebody sent, by running a part again."""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd

from oasis_bench.analysis import Leaderboard
from oasis_bench.command_line.progress import ProgressDisplay
from oasis_bench.command_line.run import how_of
from oasis_bench.experiment import LearnerSpec, changed, on_corpora, read_experiment
from oasis_bench.plugins import load_reports
from oasis_bench.runs import go_on, results_folder
from oasis_bench.system import UsageError, unknown_name

BASELINE = "Euclidean"
VALUES = ["mean", "direct", "posterior", "as_learned"]
TOLERANCE = 0.002
"""Values may differ by this much: another processor rounds otherwise, which can move the rank of
one item in a thousand."""

OWN_PATH = re.compile(r"(?:^|[\s=,'\"])(?:/|~|[A-Za-z]:\\)")

REFUSED = 1


def verify(options: argparse.Namespace) -> int:
    """Check the files against published results, then run corpora again and compare the values."""
    suite = read_experiment("suite")
    sent = _tables(options.sent)
    published = _tables(options.results or results_folder(suite, Path("runs/suite")))
    wrong = [*faults(sent, published)]
    names: list[str] = []
    if not wrong:
        n_drawn = min(options.draw, len(sent))
        names = options.corpora or random.SystemRandom().sample(sorted(sent), n_drawn)
        names = list(dict.fromkeys([*names, *failed(sent)]))
        for name in names:
            if name not in sent:
                raise UsageError(unknown_name("corpus", name, sent))
        wrong = [*_run_again(sent, names, options)]
    print(*wrong or [f"as published and measured again: {', '.join(names)}"], sep="\n")
    return REFUSED if wrong else 0


def _tables(folder: Path) -> dict[str, pd.DataFrame]:
    """Read the results in a folder, by corpus; a row for each learner, task and measure."""
    read = load_reports().read_summary
    keys = ["learner", "task", "name"]
    tables = {file.stem: read(file).set_index(keys) for file in sorted(folder.glob("*.csv"))}
    if not tables:
        raise UsageError(f"no results in {folder}: name the folder of their CSV files")
    return tables


def faults(sent: dict[str, pd.DataFrame], published: dict[str, pd.DataFrame]) -> Iterator[str]:
    """Yield what can be seen to be wrong without a run, a sentence each."""
    if missing := published.keys() - sent.keys():
        yield f"no results of {', '.join(sorted(missing))}: send those of every corpus"
    for name in published.keys() & sent.keys():
        own, known = sent[name], published[name].loc[BASELINE]
        if own.index.has_duplicates or BASELINE not in own.index.get_level_values(0):
            yield f"{name}: each learner is needed once, and {BASELINE} among them"
            continue
        for column in ("protocol", "planned", "code"):
            values = list(own.get(column, pd.Series(dtype=float)).unique())
            if len(values) != 1:
                yield f"{name}: one {column} is needed, but there are {len(values)}"
            elif column != "code" and values[0] != known[column].iloc[0]:
                yield f"{name}: {column} {values[0]:g} in place of {known[column].iloc[0]:g}"
        for learner, rows in own.groupby(level=0):
            if missing_rows := len(known.index.difference(rows.droplevel(0).index)):
                yield f"{name}: {missing_rows} measures of {learner} are missing"
        yield from differences(name, published[name].loc[[BASELINE]], own.loc[[BASELINE]])
        for command in own["command"].dropna().unique():
            if OWN_PATH.search(command):
                yield f"{name}: the command has a path of your machine: {command}"
    if len(failed(sent)) > Leaderboard.MOST_STAND_INS * len(sent):
        yield f"no result on {len(failed(sent))} of {len(sent)} corpora: one in twenty may fail"


def failed(sent: dict[str, pd.DataFrame]) -> list[str]:
    """Return the corpora where a learner lacks the result of a partition."""
    return [name for name, rows in sent.items() if (rows["partitions"] < rows["planned"]).any()]


def differences(name: str, before: pd.DataFrame, after: pd.DataFrame) -> Iterator[str]:
    """Yield, for each learner of `before`, its largest difference where it is no rounding."""
    for learner in before.index.unique(0):
        rows = before.loc[[learner]]
        known = rows[VALUES].to_numpy(float)
        other = after.reindex(rows.index)[VALUES].to_numpy(float)
        gaps = np.where(np.isnan(known) == np.isnan(other), abs(known - other), np.inf)
        gaps = np.nan_to_num(gaps, nan=0.0, posinf=np.inf)
        if gaps.max() > TOLERANCE:
            i, j = map(int, np.unravel_index(gaps.argmax(), gaps.shape))
            what = f"{rows.index[i][-1]} ({VALUES[j]}) {other[i, j]:.4f}"
            more = f"{np.count_nonzero(gaps > TOLERANCE)} values differ"
            yield f"{name}: {learner} has {what} in place of {known[i, j]:.4f}; {more}"


def _run_again(
    sent: dict[str, pd.DataFrame], names: list[str], options: argparse.Namespace
) -> Iterator[str]:
    """Run the learners on some corpora, and yield what differs from the values that were sent."""
    some = on_corpora(read_experiment("suite"), names)
    planned = {n for name in names for n in sent[name]["planned"].astype(int)}
    given = {"partitions": planned.pop()} if len(planned) == 1 else {}
    learners = {it for name in names for it in sent[name].index.get_level_values(0)}
    some = changed(some, given, learners={it: LearnerSpec(it) for it in sorted(learners)})
    with closing(ProgressDisplay()) as display:
        display.note(f"to continue after an interruption, add --corpora {','.join(names)}")
        go_on(some, options.output, how_of(options), display, lambda run: None)
    found = _tables(options.output / "results")
    for name in names:
        if name in found:
            yield from differences(name, found[name], sent[name])
        else:
            yield f"{name} could not be run again: see above"
