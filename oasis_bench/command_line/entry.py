"""The command line: from arguments to an exit status, with its error messages.

`command_line.options` has the options.
"""

from __future__ import annotations

import argparse
import errno
import gc
import os
import pkgutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from typing import Any, NoReturn, cast

from oasis_bench import __version__
from oasis_bench.command_line.options import EVERY_LEARNER, make_parser
from oasis_bench.command_line.printed import Answer, Printed, printed_streams
from oasis_bench.experiment import built_in_names, read_experiment
from oasis_bench.plugins import PATH_DATASETS, find_dataset, installed
from oasis_bench.system import UsageError, error_line, quoted, unknown_name

USAGE = 2
INTERRUPTED = 130

KINDS = {"algorithms": "algorithm", "dataset": "data set", "tasks": "task", "split": "split"}
"""The kinds of plugins that options take, by the attributes of the options."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status.

    0: success; 1: a trial failed, no trial has a result, or `compare` found a change for the worse;
    2: an error of the user; 3: nothing could be compared; 130: Ctrl-C.
    """
    with printed_streams() as streams:
        try:
            status = _status(arguments)
        except SystemExit as end:  # after --help, or by a signal
            if end.code or not _lost(streams):
                raise
            status = 0
        if (error := _lost(streams)) and status != INTERRUPTED:
            status = USAGE
            print(
                f"oasis-bench: cannot write the output: {error.strerror}: what is in "
                "files is saved: free disk space, or redirect the output",
                file=sys.stderr,
            )
    return status


def _lost(streams: Sequence[Printed]) -> OSError | None:
    """Return why a stream could not be written; None if its reader, such as head, has ended."""
    for stream in streams:
        stream.flush()
    errors = [stream.error for stream in streams if stream.error is not None]
    return next((error for error in errors if error.errno != errno.EPIPE), None)


def _status(arguments: Sequence[str] | None) -> int:
    for number in (signal.SIGTERM, signal.SIGHUP):  # as `timeout` and batch systems end a run
        signal.signal(number, _end)
    try:
        options = parse_words(arguments)  # --help ends here, by SystemExit
        if options.verb == "run" and not options.plugin:
            _refuse_unknown(options)
        if options.verb == "run" and options.cluster is None:
            from oasis_bench.execution import start_early

            start_early()  # a fork server imports in parallel, which saves a second
        gc.disable()  # imports leave no garbage, and looking for it takes a fifth of their time
        verb = partial(pkgutil.resolve_name(options.function), options)  # it may take a second
        if arguments is None:  # imports live as long as the process
            gc.freeze()
        gc.enable()
        with warnings.catch_warnings():
            warnings.showwarning = cast(Any, _show_warning)
            if not getattr(options, "json", False):
                return _carry_out(verb)
            with redirect_stdout(Answer()) as answer:
                status = _carry_out(verb)
            about = {"command": options.verb, "version": __version__, "status": status}
            print(answer.as_json(**about))
            return status
    except UsageError as error:
        line = str(error)
    except KeyboardInterrupt as interrupt:
        print(f"oasis-bench: {str(interrupt) or 'interrupted'}", file=sys.stderr)
        return INTERRUPTED
    except MemoryError as error:
        line = ": ".join(filter(None, ["not enough memory", str(error)]))
        line = f"{line}: free some, or run on less data"
    except OSError as error:
        what, reason = error.filename or "the output", error.strerror
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            line = f"cannot write {what}: {reason}: free some"
        elif error.filename is not None:
            line = f"{quoted(what)}: {reason}: give another path, or correct what is in its way"
        else:
            raise
    print(f"oasis-bench: {line}", file=sys.stderr)
    return USAGE


def parse_words(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the words of a command, and read its experiment."""
    parser = make_parser()
    if "_ARGCOMPLETE" in os.environ:  # a shell asks what may come next; the process ends here
        import argcomplete

        argcomplete.autocomplete(parser, default_completer=cast(Any, _proposals))
    options = parser.parse_args(words)
    if getattr(options, "experiment", None) is not None:
        options.experiment = read_experiment(options.experiment)
    return options


def _proposals(prefix: str, action: argparse.Action, **_: Any) -> list[str]:
    """Return what a shell proposes for the value of an option: names, and files if it takes any."""
    from argcomplete.completers import FilesCompleter

    names = built_in_names() if action.dest == "experiment" else []
    if action.dest in KINDS:
        names = [it.name for it in installed(KINDS[action.dest]) if it.name not in PATH_DATASETS]
    before, comma, _last = prefix.rpartition(",")
    takes_files = not names or "|" in str(action.metavar)
    files = FilesCompleter()(prefix) if takes_files else ()
    return [*(before + comma + name for name in names), *files]


def _refuse_unknown(options: argparse.Namespace) -> None:
    """Refuse unknown learners and data sets of a run, before its imports, which take a second."""
    known = [EVERY_LEARNER, *(point.name for point in installed("algorithm"))]
    if options.experiment is not None:
        known += options.experiment.learners
    for name in options.algorithms or ():
        if name not in known:
            raise UsageError(unknown_name("algorithm", name, known[1:]))
    if options.dataset is not None:
        find_dataset(options.dataset, [point.name for point in installed("data set")])


def _carry_out(verb: Callable[[], int]) -> int:
    """Call a verb; if a plugin calls `sys.exit`, this must not look like success."""
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
    except (UsageError, MemoryError):
        raise
    except Exception as error:
        from oasis_bench.plugins import place_in_plugin

        if (place := place_in_plugin(error)) is None:
            raise
        raise UsageError(f"{place}: {error_line(error)}: correct the plugin") from error


def _show_warning(message: Warning | str, *where: object) -> None:
    print(f"oasis-bench: {message}", file=sys.stderr)


class _Ended(SystemExit):
    """The end by a signal."""


def _end(number: int, frame: object) -> NoReturn:
    raise _Ended(128 + number)
