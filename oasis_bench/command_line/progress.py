"""The display of progress: a live bar on a terminal, plain lines elsewhere, all to stderr."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

from tqdm import tqdm


class Display:
    """Progress: a live bar on a terminal, plain lines elsewhere; `close` it at the end."""

    def __init__(self) -> None:
        self.done = self.planned = 0
        self._live = sys.stderr.isatty()
        self._bar: Any = None
        self._under_way: str | None = None

    def trial(self, columns: dict[str, Any], done: int, planned: int) -> None:
        """Show that a trial has ended, or that the first begins."""
        self.done, self.planned = done, planned
        if done == 0:
            self._open(desc="trials", total=planned, unit="trial")
            return
        name = (
            f"{columns['learner']}, classes {columns['subset']}, partition {columns['partition']}"
        )
        problem = "" if columns["status"] == "ok" else f": {columns['status']}, {columns['reason']}"
        if self._live:
            if problem:
                self.line(name + problem)
            self._bar.set_postfix_str(name, refresh=False)
            self._bar.update()
        else:
            figures = problem or (
                f": mAP {columns['mean_average_precision']:.3f}, fit {columns['fit_seconds']:.3g} s"
            )
            print(f"[{done}/{planned}] {name}{figures}", file=sys.stderr)

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
