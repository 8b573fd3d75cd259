"""The verb `verify`: check results of the suite that somebody sent, by running a part again."""

from __future__ import annotations

import argparse
import hashlib
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd

from oasis_bench.analysis import Leaderboard
from oasis_bench.command_line.progress import ProgressDisplay
from oasis_bench.command_line.run import how_of
from oasis_bench.experiment import LearnerSpec, changed, on_corpora, package_hash, read_experiment
from oasis_bench.plugins import BASELINE, load_reports
from oasis_bench.runs import go_on, results_folder
from oasis_bench.system import UsageError

KEYS = ["learner", "task", "name"]
VALUES = ["mean", "direct", "posterior", "as_learned"]
SAME = ["corpus", "kind", "n_classes", "n_test", "n_features", "chance", "planned", "protocol"]
OWN_PATH = re.compile(r"(?:^|[\s=,'\"])(?:/|~|\.\.|[A-Za-z]:[\\/]|\\\\)")

TOLERANCE, ITEMS = 0.003, 3
"""A value may differ by this much, or by this many test items: other processors round otherwise."""

SHIFT = 1e-4
"""The median difference over corpora that is too large: rounding goes up as often as down."""

Tables = Mapping[str, pd.DataFrame]


def verify(options: argparse.Namespace) -> int:
    """Check the files against published results, then run corpora again and compare the values."""
    suite, sent = read_experiment("suite"), _tables(options.sent)
    published = _tables(options.results or results_folder(suite, Path("runs/suite")))
    suite = on_corpora(suite, sorted(published))
    drawn = random.SystemRandom().sample(sorted(published), min(options.draw, len(published)))
    names = [*on_corpora(suite, options.corpora or drawn).corpora]
    wrong = [*faults(sent, published)]
    if not wrong:
        names = list(dict.fromkeys([*names, *failed(sent)]))
        again = _run_again(sent, names, options)
        wrong = [f"{it} could not be run again: see above" for it in names if it not in again]
        wrong += [line for it in again for line in differences(it, again[it], sent[it])]
        wrong += shifts(again, sent)
    print(*wrong or [f"as published and measured again: {', '.join(names)}"], sep="\n")
    return int(bool(wrong))


def _tables(folder: Path) -> Tables:
    """Read the results in a folder, by corpus; a row for each learner, task and measure."""
    read = load_reports().read_summary
    columns = [*KEYS, *SAME, *VALUES, "partitions", "code", "command"]
    files = {file.stem: read(file) for file in sorted(folder.glob("*.csv"))}
    if not files or any(BASELINE not in set(rows["learner"]) for rows in files.values()):
        raise UsageError(f"{BASELINE} is missing in {folder}: name the folder of CSV files")
    return {name: rows.reindex(columns=columns).set_index(KEYS) for name, rows in files.items()}


def faults(sent: Tables, published: Tables) -> Iterator[str]:
    """Yield what can be seen to be wrong without a run, a sentence each."""
    if wrong := published.keys() ^ sent.keys():
        yield f"results are needed of each corpus of the suite, and of no other: {sorted(wrong)}"
    codes = {code for rows in sent.values() for code in rows["code"]}
    known_codes = {code for rows in published.values() for code in rows["code"]}
    if len(codes) != 1 or not codes <= known_codes | {package_hash()}:
        yield f"results are needed of one known version of the code, but these are of {codes}"
    learners = {it for rows in sent.values() for it in rows.index.unique(0)} | {BASELINE}
    for name in published.keys() & sent.keys():
        own, known = sent[name], published[name].loc[[BASELINE]].reset_index("learner")
        needed = {(learner, *key) for learner in learners for key in known.index}
        if len(own) != len(needed) or set(own.index) != needed:
            yield f"{name}: each of {sorted(learners)} needs one row for each published measure"
            continue
        values = known[SAME].reindex(own.reset_index("learner").index).to_numpy()
        found = own[SAME].to_numpy()
        is_same = (found == values) | (pd.isna(found) & pd.isna(values))
        for column in np.array(SAME)[~is_same.all(axis=0)]:
            yield f"{name}: {column} differs from the published one"
        yield from differences(name, published[name].loc[[BASELINE]], own)
        for command in own["command"].dropna().unique():
            if OWN_PATH.search(command):
                yield f"{name}: the command has a path of your machine: {command}"
    if (n := len(failed(sent))) > Leaderboard.MOST_STAND_INS * len(sent):
        yield f"no result on {n} of {len(sent)} corpora: one in twenty may fail"


def failed(sent: Tables) -> list[str]:
    """Return the corpora where a learner lacks a value, or the result of a partition."""
    return [
        name
        for name, rows in sent.items()
        if (rows["mean"].isna() | (rows["partitions"] < rows["planned"])).any()
    ]


def differences(name: str, known: pd.DataFrame, sent: pd.DataFrame) -> Iterator[str]:
    """Yield, for each learner of `known`, its largest difference where it is no rounding."""
    for learner, rows in known.groupby(level=0):
        one, other = (it[VALUES].to_numpy(float) for it in (rows, sent.reindex(rows.index)))
        gaps = np.where(np.isnan(one) == np.isnan(other), abs(one - other), np.inf)
        gaps = np.nan_to_num(gaps, nan=0.0, posinf=np.inf)
        if gaps.max() > max(TOLERANCE, ITEMS / rows["n_test"].min()):
            i, j = map(int, np.unravel_index(gaps.argmax(), gaps.shape))
            what = f"{rows.index[i][-1]} ({VALUES[j]}) {other[i, j]:.4f}"
            yield f"{name}: {learner} has {what} in place of {one[i, j]:.4f}"


def shifts(again: Tables, sent: Tables) -> Iterator[str]:
    """Yield the learners whose values are moved to one side, each by less than the tolerance."""
    moved = {it: (sent[it]["mean"] - again[it]["mean"]).groupby(level=0).mean() for it in again}
    for learner, shift in pd.DataFrame(moved).median(axis=1).items():
        if abs(shift) > SHIFT:
            yield f"{learner}: the values that were sent differ by {shift:+.5f} in the median"


def _run_again(sent: Tables, names: list[str], options: argparse.Namespace) -> Tables:
    """Run the learners on some corpora; return the results.

    By default each bundle has its own folder, so that results of another one are not taken for it.
    """
    files = [*sorted(options.sent.glob("*.csv")), *options.plugin]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:8]
    output = options.output or Path("runs") / f"verify-{digest}"
    planned = {name: int(sent[name]["planned"].iloc[0]) for name in names}
    learners = {it: LearnerSpec(it) for it in sent[names[0]].index.unique(0)}
    suite = read_experiment("suite")
    with closing(ProgressDisplay()) as display:
        display.note(f"to continue after an interruption, add --corpora {','.join(names)}")
        for n in sorted(set(planned.values())):
            some = on_corpora(suite, [it for it in names if planned[it] == n])
            some = changed(some, {"partitions": n}, learners=learners)
            go_on(some, output, how_of(options), display, lambda run: None)
    found = _tables(output / "results") if (output / "results").is_dir() else {}
    return {name: found[name] for name in names if name in found}
