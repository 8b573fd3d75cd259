"""The command line: from arguments to an exit status, and what errors look like.

Its options are in `command_line.options`; `command_line.verbs` names what carries out its verbs.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NoReturn, TextIO

from oasis_bench.command_line.options import parse_words
from oasis_bench.command_line.verbs import function_of
from oasis_bench.system import LONGEST_REASON, UsageError, cut, shown

USAGE = 2
INTERRUPTED = 130

OF_A_PATH = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.ENOTDIR)
"""Errors of the system that another path does not have."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns
    -------
    int
        0; 1 where a trial failed or `compare` found something worse; 2 for a mistake of the
        user's; 3 where nothing could be compared; 130 after Ctrl-C.
    """
    for name in ("SIGTERM", "SIGHUP"):  # as `timeout` and batch systems end a run
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _end)
    try:
        options = parse_words(arguments)  # --help ends here, by SystemExit
        if options.verb == "run" and options.cluster is None:
            from oasis_bench.execution import borrow, give_back

            give_back(borrow())  # a fork server imports while this process does: a second less
        gc.disable()  # imports leave no garbage, and looking for it takes a fifth of their time
        verb = function_of(options)
        if arguments is None:  # the process is the command's, and its imports live as long
            gc.freeze()
        gc.enable()
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            status = _carry_out(verb)
        sys.stdout.flush()
    except UsageError as error:
        print(f"oasis-bench: {cut(str(error), LONGEST_REASON)}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt as interrupt:
        print(f"oasis-bench: {str(interrupt) or 'interrupted'}", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader, such as head, has seen enough
        _print_no_more()
        return 0
    except OSError as error:
        what, reason = error.filename or "the output", error.strerror
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _print_no_more()
            line = f"cannot write {what}: {reason}: free some"
        elif error.filename is not None and error.errno in OF_A_PATH:
            line = f"{shown(what)}: {reason}: give another path, or correct what is in its way"
        else:
            raise
        with suppress(OSError):
            print(f"oasis-bench: {line}", file=sys.stderr)
        return USAGE
    return status


def _carry_out(verb: Callable[[], int]) -> int:
    """Call a verb; a plugin that calls `sys.exit` must not look like a run that went well."""
    try:
        return verb()
    except _Ended:
        raise
    except SystemExit as stop:
        *_, where = traceback.extract_tb(stop.__traceback__)
        raise UsageError(
            f"{where.filename}, line {where.lineno}, ended the program (SystemExit: {stop.code}): "
            "let it raise another error, or leave that plugin out"
        ) from stop


def _print_no_more() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    print(f"oasis-bench: {message}", file=sys.stderr)


class _Ended(SystemExit):
    """The end by a signal."""


def _end(number: int, frame: object) -> NoReturn:
    raise _Ended(128 + number)
