"""The display of progress: a live bar on a terminal, plain lines elsewhere, all to stderr."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from tqdm import tqdm

from oasis_bench.analysis.headlines import option_name
from oasis_bench.experiment.identity import cell_name
from oasis_bench.trial.record import TrialRecord


class Display:
    """Progress: a live bar on a terminal, plain lines elsewhere; `close` it at the end."""

    def __init__(self) -> None:
        self.done = self.planned = 0
        self._live = sys.stderr.isatty()
        self._bar: Any = None
        self._under_way: str | None = None

    def trial(self, record: TrialRecord | None, done: int, planned: int) -> None:
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
            print(f"[{done}/{planned}] {name}{problem or _figures(record)}", file=sys.stderr)

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


def _figures(record: TrialRecord) -> str:
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
        choice = columns["selection_fit_seconds"] + columns["selection_score_seconds"]
        costs = [f"choice {choice:.3g} s", f"fit {seconds:.3g} s"]
    if (seconds := columns.get("answer_seconds")) is not None:
        costs.append(f"answer {1000 * seconds / columns['n_answered']:.3g} ms a query")
    return f": {', '.join([*texts.values(), *costs])}"
