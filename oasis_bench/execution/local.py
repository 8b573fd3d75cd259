"""Trials on this machine: each in a fresh process, at most `jobs` at a time.

A trial whose process dies is a record with the signal's name; the others go on.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, forkserver
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from oasis_bench.dataset import LabelledRows
from oasis_bench.execution.rows_file import map_rows, write_rows
from oasis_bench.plan import TrialSpec
from oasis_bench.store import TrialRecord
from oasis_bench.trial import run_trial, unfinished

LAST_WORDS_SECONDS = 2.0
"""How long a process may live on after it has given its result."""


@dataclass(frozen=True)
class _Running:
    spec: TrialSpec
    process: Any
    result: connection.Connection


@contextmanager
def run_locally(
    specs: Sequence[TrialSpec], rows: LabelledRows, jobs: int, output_log: Path
) -> Iterator[Iterator[TrialRecord]]:
    """Run trials and yield their records as they end; leaving the context kills what still runs.

    Parameters
    ----------
    specs : sequence of TrialSpec
        Started in this order.
    rows : LabelledRows
    jobs : int
        Trials at a time.
    output_log : Path
        Where what the learners print is appended.
    """
    running: list[_Running] = []
    with tempfile.TemporaryDirectory(prefix="oasis-bench-") as folder:
        write_rows(rows, Path(folder))
        try:
            yield _records(deque(specs), running, rows, jobs, (Path(folder), output_log))
        finally:
            for item in running:
                item.process.kill()
                item.process.join()


def _records(
    waiting: deque[TrialSpec],
    running: list[_Running],
    rows: LabelledRows,
    jobs: int,
    paths: tuple[Path, Path],
) -> Iterator[TrialRecord]:
    context = _context()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_start(context, waiting.popleft(), *paths))
        ready = connection.wait([item.result for item in running])
        for item in [item for item in running if item.result in ready]:
            record = _finish(item, rows)
            running.remove(item)
            yield record


def _context() -> BaseContext:
    """Fork trials off a server that has done the imports; where there is none, start Python."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__, "oasis_bench.algorithms"])
    # The server inherits the mask: Ctrl-C is the parent's, which ends the server.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    return context


def _start(context: BaseContext, spec: TrialSpec, rows_folder: Path, output_log: Path) -> _Running:
    receive, send = context.Pipe(duplex=False)
    process = context.Process(  # type: ignore[attr-defined]
        target=_trial_process, args=(spec, rows_folder, output_log, send), name=spec.trial_id
    )
    process.start()
    send.close()
    return _Running(spec, process, receive)


def _trial_process(
    spec: TrialSpec, rows_folder: Path, output_log: Path, send: connection.Connection
) -> None:
    """Run one trial: the main function of a trial's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, which kills this
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[variable] = str(spec.experiment.threads)
    threading.Thread(target=_exit_with_parent, args=(send,), daemon=True).start()
    log = os.open(output_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, sys.stdout.fileno())
    os.dup2(log, sys.stderr.fileno())
    send.send(run_trial(spec, map_rows(rows_folder)))


def _exit_with_parent(send: connection.Connection) -> None:
    """Wait until nobody can read the result any more, and end this process."""
    if hasattr(select, "poll"):
        poller = select.poll()
        poller.register(send.fileno(), 0)  # no event asked for: it wakes when the reader is gone
        poller.poll()
        os._exit(1)


def _finish(item: _Running, rows: LabelledRows) -> TrialRecord:
    """Take the record of a trial, or make one that says how its process died."""
    try:
        record: TrialRecord | None = item.result.recv()
    except (EOFError, OSError):  # it died before it sent, or while it did
        record = None
    item.process.join(None if record is None else LAST_WORDS_SECONDS)
    item.process.kill()  # where a thread or an exit handler of the learner's goes on
    item.process.join()
    item.result.close()
    if record is not None:
        return record
    code = item.process.exitcode
    reason = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
    return unfinished(item.spec, rows, "crashed", reason)
