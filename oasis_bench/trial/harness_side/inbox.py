"""The harness's end of the line to a trial's process: what comes is put together.

Nothing here waits: that process runs a plugin's code.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress

from oasis_bench.trial import wall

LONGEST_LINE = 2**20
"""Bytes of a message, without the scores that follow it."""


class Inbox:
    """Puts together messages, their files, and scores."""

    def __init__(self, line: socket.socket) -> None:
        line.setblocking(False)
        self._line = line
        self._text = bytearray()
        self._content: bytearray | None = None  # of scores, not all of which have come
        self._missing = 0
        self._file: int | None = None
        self.is_open = True

    def read(self) -> bool:
        """Read once what has come, without waiting; tell whether anything has."""
        try:
            if self._content is not None and self._missing:
                n_read = self._line.recv_into(memoryview(self._content)[-self._missing :])
                self._missing -= n_read
            else:
                part, files, _, _ = socket.recv_fds(self._line, 2**20, 1)
                n_read = len(part)
                self._text += part
                for file in files:
                    self._drop_file()
                    self._file = file
        except BlockingIOError:
            return False
        except OSError:  # the process has died
            n_read = 0
        self.is_open = n_read > 0
        return self.is_open

    def next_message(self) -> tuple[wall.Message | None, int | None]:
        """Return the next message that is complete, and the file with it; None without one.

        Raise MessageError where what came is no message.
        """
        line, end, rest = self._text.partition(b"\n")
        if not end:
            if len(line) > LONGEST_LINE:
                raise wall.MessageError("a line without an end")
            return None, None
        message = wall.from_line(bytes(line))
        self._text = rest
        file = None
        if isinstance(message, wall.WITH_FILE):
            file, self._file = self._file, None
        self._drop_file()
        return message, file

    def next_bytes(self, n_bytes: int) -> bytearray | None:
        """Return so many bytes when all have come; None before."""
        if self._content is None:
            self._content = bytearray(n_bytes)
            here = min(len(self._text), n_bytes)
            self._content[:here] = self._text[:here]
            self._text = self._text[here:]
            self._missing = n_bytes - here
        if self._missing:
            return None
        content, self._content = self._content, None
        return content

    def send_file(self, file: int) -> None:
        """Send a file to the process."""
        with suppress(OSError):  # it has died: the server reports it
            socket.send_fds(self._line, [b"f"], [file])

    def close(self) -> None:
        """Close the line."""
        self._drop_file()
        self._line.close()

    def _drop_file(self) -> None:
        """Close a file that belongs to no message."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
