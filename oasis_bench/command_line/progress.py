"""The display of progress: a live bar on a terminal, plain lines elsewhere, all to stderr."""

from __future__ import annotations

import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from statistics import fmean
from typing import Any

from tqdm import tqdm

from oasis_bench.analysis import option_name
from oasis_bench.experiment import TrialSpec, cell_name
from oasis_bench.trial import TrialResult


class TimeLeft:
    """How long the trials that are left will take, by those that have ended.

    A trial takes as long as the mean of those of its learner and class subset.  Where none has
    ended, as the last one of its learner, and in proportion to the training items; one of a new
    learner as the mean of all, and nothing is known before the first has ended: 0.

    Parameters
    ----------
    specs : sequence of TrialSpec
        The trials to run.
    """

    def __init__(self, specs: Sequence[TrialSpec]) -> None:
        self._left = {spec.trial_id: spec for spec in specs}
        self._taken: dict[tuple[str, ...], list[float]] = defaultdict(list)
        self._last: dict[str, TrialSpec] = {}

    def end(self, trial_id: str, seconds: float) -> None:
        """Take into account that a trial has ended, so long after the one before it."""
        spec = self._left.pop(trial_id)
        self._taken[_cell(spec)].append(seconds)
        self._last[spec.learner] = spec

    def seconds(self) -> float:
        """Return about how many seconds are left."""
        ended = list(chain.from_iterable(self._taken.values()))
        of_all = fmean(ended) if ended else 0.0
        return sum(self._expected(spec, of_all) for spec in self._left.values())

    def _expected(self, spec: TrialSpec, of_all: float) -> float:
        if taken := self._taken.get(_cell(spec)):
            return fmean(taken)
        if (last := self._last.get(spec.learner)) is None:
            return of_all
        return fmean(self._taken[_cell(last)]) * spec.where.n_train / last.where.n_train


def _cell(spec: TrialSpec) -> tuple[str, ...]:
    return spec.learner, spec.where.subset, spec.where.split


def in_words(seconds: float) -> str:
    """Write a time that is not known better than by a tenth: 40 s, 6 min, 3 h."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds < 10 else f"{10 * round(seconds / 10)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.2g} h"


class Display:
    """Progress: a live bar on a terminal, plain lines elsewhere; `close` it at the end."""

    def __init__(self) -> None:
        self.done = self.planned = 0
        self._live = sys.stderr.isatty()
        self._bar: Any = None
        self._under_way: str | None = None
        self._time_left = TimeLeft(())
        self._last_end = time.monotonic()

    def plan(self, specs: Sequence[TrialSpec]) -> None:
        """Take note of the trials that are to run."""
        self._time_left, self._last_end = TimeLeft(specs), time.monotonic()

    def trial(self, record: TrialResult | None, done: int, planned: int) -> None:
        """Show that a trial has ended, or that the first begins."""
        self.done, self.planned = done, planned
        if record is None:
            self._open(desc="trials", total=planned, unit="trial")
            return
        columns = record.columns
        cell = cell_name(columns["learner"], columns["subset"], columns["split"])
        name = f"{cell}, partition {columns['partition']}"
        problem = "" if columns["status"] == "ok" else f": {columns['status']}, {columns['reason']}"
        if self._live:
            if problem:
                self.line(name + problem)
            self._bar.set_postfix_str(name, refresh=False)
            self._bar.update()
        else:
            now = time.monotonic()
            self._time_left.end(columns["trial_id"], now - self._last_end)
            self._last_end = now
            left = f", about {in_words(self._time_left.seconds())} left" if done < planned else ""
            print(f"[{done}/{planned}] {name}{problem or _figures(record)}{left}", file=sys.stderr)

    def download(self, what: str, done: int, total: int | None) -> None:
        """Show how far a download is."""
        if what != self._under_way and not self._live:
            print(what, file=sys.stderr)
        self.bar(what, done, total)

    def bar(self, what: str, done: int, total: int | None) -> None:
        """Show how far something is, on a terminal alone."""
        if what != self._under_way:
            self._under_way = what
            self._open(desc=what, total=total, unit="", unit_scale=True)
        if self._live:
            self._bar.update(done - self._bar.n)

    def line(self, text: str) -> None:
        """Show a line above the bar."""
        if self._live:
            tqdm.write(text, file=sys.stderr)
        else:
            print(text, file=sys.stderr)

    def _open(self, **bar: Any) -> None:
        self.close()
        if self._live:
            self._bar = tqdm(**bar, file=sys.stderr, dynamic_ncols=True)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()
            self._bar = None


def _figures(record: TrialResult) -> str:
    """Write the first measure of each task, or why there is none, and the three costs."""
    columns = record.columns
    texts: dict[str, str] = {}
    for row in record.measures:
        name = option_name(row["measure"], row["k"])
        texts.setdefault(row["task"], f"{name} {row['value']:.3f}")
    for answer in record.answers:
        texts.setdefault(answer["task"], f"{answer['task']} {answer['status']}: {answer['reason']}")
    costs = []
    if (seconds := columns.get("fit_seconds")) is not None:  # not of a saved model
        tuning = columns["tuning_fit_seconds"] + columns["tuning_score_seconds"]
        costs = [f"tuning {tuning:.3g} s", f"fit {seconds:.3g} s"]
    if (seconds := columns.get("query_seconds")) is not None:
        costs.append(f"query {1000 * seconds / columns['n_timed_queries']:.3g} ms")
    return f": {', '.join([*texts.values(), *costs])}"
