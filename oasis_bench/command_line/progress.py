"""Progress on stderr: a live bar on a terminal or in a notebook, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
import warnings
from contextlib import suppress
from typing import Any

from tqdm import TqdmWarning

from oasis_bench.experiment import cell_name
from oasis_bench.runs import Watcher
from oasis_bench.system import for_terminal
from oasis_bench.trial import TrialResult

with warnings.catch_warnings():
    warnings.simplefilter("ignore", TqdmWarning)  # in a notebook without ipywidgets: text will do
    from tqdm.auto import tqdm


def in_words(seconds: float) -> str:
    """Write an approximate time: 40 s, 6 min, 3 h."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds < 10 else f"{10 * round(seconds / 10)} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.2g} h"


class ProgressDisplay(Watcher):
    """One bar at a time, or plain lines if it is not `live`; `close` it at the end.

    By default it is live on a terminal; in a notebook tqdm makes the bar a widget.
    """

    def __init__(self, live: bool | None = None) -> None:
        self._live = sys.stderr.isatty() if live is None else live
        self._bar: Any = None
        self._what: str | None = None
        self._began = time.monotonic()

    def trial(self, result: TrialResult | None, done: int, planned: int) -> None:
        """Show that a trial has ended, or that the first begins; the bar closes after the last."""
        if result is None:
            self._began = time.monotonic()
            self._open("trials", total=planned, unit="trial")
        else:
            self._ended(result, done, planned)
        if done == planned:
            self.close()

    def _ended(self, result: TrialResult, done: int, planned: int) -> None:
        row = result.row
        cell = cell_name(row.learner, row.subset, row.split)
        name = f"{cell}, partition {row.partition}"
        problem = "" if row.status == "ok" else f": {row.status}, {row.reason}"
        if self._live:
            if problem:
                self.note(name + problem)
            self._bar.set_postfix_str(for_terminal(name), refresh=False)
            self._bar.update()
            return
        seconds = (time.monotonic() - self._began) / done * (planned - done)
        left = f", about {in_words(seconds)} left" if done < planned else ""
        self.note(f"[{done}/{planned}] {name}{problem or _figures(result)}{left}")

    def download(self, what: str, done: int, total: int | None) -> None:
        """Show the progress of a download or a preparation; without a live bar, only its start."""
        if what != self._what and not self._live:
            self.note(what)
        self.bar(what, done, total)

    def bar(self, what: str, done: int, total: int | None) -> None:
        """Show the progress of some work, if the bar is live."""
        if what != self._what:
            self._open(what, total=total, unit="", unit_scale=True)
        if self._live:
            self._bar.update(done - self._bar.n)

    def note(self, line: str) -> None:
        """Show a line, above the bar."""
        if self._live:
            tqdm.write(for_terminal(line), file=sys.stderr)
        else:
            print(line, file=sys.stderr)

    def _open(self, what: str, **bar: Any) -> None:
        self.close()
        self._what = what
        if self._live:
            self._bar = tqdm(desc=for_terminal(what), file=sys.stderr, dynamic_ncols=True, **bar)

    def close(self) -> None:
        """Leave the last bar as it is, and the terminal as it was."""
        if self._bar is not None:
            with suppress(OSError):
                self._bar.close()
            self._bar = None


def _figures(result: TrialResult) -> str:
    """Write the first measure of each task, or why there is none, and the three costs."""
    row, texts = result.row, dict[str, str]()
    for one in result.measures:
        name = one.measure + ("" if one.k is None else f"@{one.k}")
        texts.setdefault(one.task, f"{name} {one.value:.3f}")
    for answer in result.answers:
        texts.setdefault(answer.task, f"{answer.task} {answer.status}: {answer.reason}")
    costs = []
    if row.fit_seconds is not None:  # a saved model has none
        tuning = (row.tuning_fit_seconds or 0) + (row.tuning_score_seconds or 0)
        costs = [f"tuning {tuning:.3g} s", f"fit {row.fit_seconds:.3g} s"]
    if row.query_seconds is not None and row.n_timed_queries:
        costs.append(f"query {1000 * row.query_seconds / row.n_timed_queries:.3g} ms")
    return f": {', '.join([*texts.values(), *costs])}"
