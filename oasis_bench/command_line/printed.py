"""The standard streams of the command line: each printed line passes through them.

It has no slow imports: a program that cannot start must also say so.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from oasis_bench.system import for_terminal


class Printed:
    """A stream that takes any text, and raises no error if it cannot be written.

    Control characters, such as the escape sequences of a name, do not reach the terminal; Python
    escapes replace characters that the encoding lacks.

    `error` is the reason why nothing more is written: the disk is full, or the reader, such as
    head, has ended.
    """

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.error: OSError | None = None
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    def write(self, text: str) -> int:
        """Write a text, which may begin with the carriage return of a progress bar."""
        start = "\r" if text.startswith("\r") else ""
        self._try(self._stream.write, start + for_terminal(text[len(start) :]))
        return len(text)

    def flush(self) -> None:
        """Write the buffer."""
        self._try(self._stream.flush)

    def _try(self, action: Callable[..., object], *arguments: str) -> None:
        if self.error is not None:
            return
        try:
            action(*arguments)
        except OSError as error:
            self.error = error
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._stream.fileno())  # the buffer goes nowhere
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class Answer(io.StringIO):
    """What a verb prints with --json, and `rows`, the records behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, Any]] = []

    def as_json(self, **about: object) -> str:
        """Write one object in ASCII; numbers that are not finite are null."""
        record = {**about, "text": self.getvalue(), "rows": self.rows}
        finite = json.loads(json.dumps(record), parse_constant=lambda _: None)
        return json.dumps(finite, indent=1)


def add_rows(rows: Callable[[], Any]) -> None:
    """Add rows to an answer in JSON, which are a DataFrame, or dicts; else they are not made."""
    if isinstance(sys.stdout, Answer):
        found = rows()
        if not isinstance(found, list):
            found = found.astype(object).where(found.notna(), None).to_dict("records")
        sys.stdout.rows += found


@contextmanager
def printed_streams() -> Iterator[list[Printed]]:
    """Replace the standard streams by `Printed`; without standard streams, nothing is written.

    Yields standard output and standard error.
    """
    before = sys.stdout, sys.stderr
    streams = [one if isinstance(one, Printed) else Printed(one) for one in before]
    sys.stdout, sys.stderr = streams
    try:
        yield streams
    finally:
        for stream in streams:
            stream.flush()
        sys.stdout, sys.stderr = before
