"""What the web-scale experiment costs on more images and machines: a model, fitted and checked.

    python -m oasis_bench web-scale --images 10000,30000,100000,300000 --output RUN
    python docs/web_scale_plan.py RUN [--cluster]

Prints the fit to the trainings in RUN, what a fit without the largest of them says of it, and the
plan for one machine and for 64.  With --cluster: what the simulation of `fit_on_cluster` says
beside what two processes here take.
"""

from __future__ import annotations

import argparse
import heapq
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from oasis_bench.algorithms.oasis import MiniBatchOASIS, cluster, fit_on_cluster
from oasis_bench.web_scale import STEPS_PER_IMAGE, TrainingRecord, open_data, read_records

N_VISTERMS = 10_000
MATRIX_BYTES = 4 * N_VISTERMS**2
"""Of W, in float32."""

N_TEST = 4096
"""Test images that are drawn besides; nothing is ranked here."""

SIZES = (2_292_259, 10_000_000, 100_000_000)
N_MACHINES = 64
NETWORKS = {"10 Gbit/s": 1.25e9, "1 Gbit/s": 0.125e9}
"""Bytes a second between two machines."""

LATENCY = 0.01
"""Seconds until a task begins on another machine: a guess on the safe side."""

ADDED_BYTES = 0.8e9
"""Bytes of W a second when two are added, as measured with --cluster on two shared cores."""


class Model(NamedTuple):
    """What one machine takes that holds its rows in memory.

    Attributes
    ----------
    step, update : float
        Seconds of a step, and of its update where there is one.
    exponents : ndarray of shape (3,)
        The share of steps that are updates is exp(exponents @ (1, log n_steps, log n_images)).
    fixed_bytes, image_bytes : float
        Memory without images, all of Python, W and a batch included, and of each image.
    """

    step: float
    update: float
    exponents: np.ndarray
    fixed_bytes: float
    image_bytes: float

    def seconds(self, n_images: float, n_steps: float) -> float:
        """Return the seconds of a training."""
        share = np.exp(self.exponents @ (1, np.log(n_steps), np.log(n_images)))
        return n_steps * (self.step + self.update * min(1.0, share))

    def memory(self, n_images: float) -> float:
        """Return the bytes of a training at its peak, its mapped rows included."""
        return self.fixed_bytes + self.image_bytes * n_images


def fitted(records: Sequence[TrainingRecord]) -> Model:
    """Fit the model to trainings of several sizes, by relative least squares."""
    points = [
        (record.training.n_images, point)
        for record in records
        for point in record.checkpoints
        if point.n_steps
    ]
    images = np.array([n for n, _ in points], float)
    steps, updates, seconds = (
        np.array([getattr(point, name) for _, point in points], float)
        for name in ("n_steps", "n_updates", "learn_seconds")
    )
    costs = _relative(np.column_stack([steps, updates]), seconds)
    form = np.column_stack([np.ones(len(points)), np.log(steps), np.log(images)])
    exponents = np.linalg.lstsq(form, np.log(updates / steps))[0]
    sizes = np.array([record.training.n_images for record in records], float)
    peaks = [max(point.peak_bytes for point in record.checkpoints) for record in records]
    memory = _relative(np.column_stack([np.full(len(sizes), 1e9), sizes]), np.array(peaks, float))
    return Model(*costs, exponents, 1e9 * memory[0], memory[1])


def _relative(form: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Return coefficients of 0 or more whose squared relative errors are least."""
    return np.asarray(nnls(form / measured[:, None], np.ones(len(measured)))[0])


def simulated(
    seconds: Sequence[float], n_workers: int, transfer: float, add: float
) -> tuple[float, int]:
    """Simulate `fit_on_cluster`: workers learn shards in order, and add neighbours up in a tree.

    Parameters
    ----------
    seconds : sequence of float
        Of learning each shard.
    n_workers : int
    transfer, add : float
        Seconds to send a matrix from one worker to another, and to add two.

    Returns
    -------
    float
        Seconds until the client has the sum.
    int
        Matrices that were sent.

    Notes
    -----
    Assumed, unlike Dask: a sum is made where its left part lies, as soon as that worker is free and
    before it learns the next shard, and a worker that waits for a matrix does nothing else.
    """
    parts = _parts_of_sums(len(seconds))
    sum_of = {part: node for node, pair in parts.items() for part in pair}
    place: dict[int, int] = {}  # the worker that holds the matrix of a node
    sums: list[list[int]] = [[] for _ in range(n_workers)]  # that each worker is to make
    shards, sent, now = iter(enumerate(seconds)), 0, 0.0
    idle = set(range(n_workers))
    running: list[tuple[float, int, int]] = []  # end, worker, node
    while True:
        for worker in sorted(idle):
            if sums[worker]:
                node = sums[worker].pop(0)
                away = place[parts[node][1]] != worker
                sent, end = sent + away, now + add + transfer * away
            elif (shard := next(shards, None)) is not None:
                node, end = shard[0], now + shard[1]
            else:
                continue
            idle.remove(worker)
            heapq.heappush(running, (end, worker, node))
        if not running:
            return now + transfer, sent + 1
        now = running[0][0]
        while running and running[0][0] == now:  # all that end at once, before the next begin
            _, worker, node = heapq.heappop(running)
            idle.add(worker)
            place[node] = worker
            above = sum_of.get(node)
            if above is not None and all(part in place for part in parts[above]):
                sums[place[parts[above][0]]].append(above)


def _parts_of_sums(n_shards: int) -> dict[int, tuple[int, int]]:
    """Return the two parts of each sum of `fit_on_cluster`; shards are 0 to n_shards - 1."""
    parts: dict[int, tuple[int, int]] = {}

    class Recorder:
        def submit(self, add: object, left: int, right: int, **how: object) -> int:
            parts[node := n_shards + len(parts)] = (left, right)
            return node

    cluster._tree_sum(Recorder(), list(range(n_shards)), "")
    return parts


def on_machines(
    model: Model, n_images: float, n_machines: int, network: float, rounds: int = 1
) -> tuple[float, float, float]:
    """Return seconds, bytes of memory of a machine and bytes sent of a training in shards.

    Each machine learns one shard.  More than one round is what `fit_on_cluster` leaves out: W goes
    from the client to all machines between them, each that has it sending it to one more.
    """
    transfer, add = LATENCY + MATRIX_BYTES / network, MATRIX_BYTES / ADDED_BYTES
    images = n_images / n_machines
    learn = model.seconds(images, images * STEPS_PER_IMAGE) / rounds
    seconds, sent = simulated([learn] * n_machines, n_machines, transfer, add)
    back = transfer * np.ceil(np.log2(n_machines + 1))
    total = rounds * seconds + (rounds - 1) * back
    matrices = rounds * sent + (rounds - 1) * n_machines
    return total, model.memory(images) + 2 * MATRIX_BYTES, matrices * MATRIX_BYTES


def plan_lines(model: Model) -> list[str]:
    """Return the plan for one machine and for 64, as a table of Markdown."""
    lines = [
        "| images | machines | network | averaged | time | memory of a machine | sent |",
        "|---|---|---|---|---|---|---|",
    ]
    for n_images in SIZES:
        seconds = model.seconds(n_images, n_images * STEPS_PER_IMAGE)
        alone = f"{_time(seconds)} | {model.memory(n_images) / 2**30:.1f} GiB"
        lines.append(f"| {n_images:,} | 1 |  |  | {alone} |  |")
        for network, speed in NETWORKS.items():
            for rounds in (1, 20):
                seconds, memory, sent = on_machines(model, n_images, N_MACHINES, speed, rounds)
                often = "once" if rounds == 1 else f"{rounds} times"
                lines.append(
                    f"| {n_images:,} | {N_MACHINES} | {network} | {often} | {_time(seconds)} | "
                    f"{memory / 2**30:.1f} GiB | {sent / 1e9:.0f} GB |"
                )
    return lines


def cluster_lines(n_images: int, n_steps: int) -> list[str]:
    """Learn 2, 4 and 8 shards on two processes, and return real beside simulated seconds."""
    from distributed import Client, LocalCluster, wait

    learner = MiniBatchOASIS(n_steps=n_steps, batch_size=65_536, random_state=0)
    open_data(n_images, N_TEST, N_VISTERMS)  # drawn once, before the workers read it
    size = n_images // 8
    shards = [partial(_shard, n_images, k * size, size) for k in range(8)]
    lines = ["| shards | simulated, s | real, s |", "|---|---|---|"]
    with (
        LocalCluster(2, threads_per_worker=1, memory_limit=0, dashboard_address=":0") as two,
        Client(two) as client,
    ):
        a, b = client.scheduler_info()["workers"]

        def timed(work, worker):
            return client.submit(_timed, work, pure=False, workers=[worker])

        fits = [timed(partial(_fit, learner, shards[k]), (a, b)[k % 2]) for k in range(4)]
        learn = float(np.median([future.result() for future in fits]))
        matrix = np.ones((N_VISTERMS, N_VISTERMS), np.float32)
        add = timed(partial(np.add, matrix[:5000], matrix[:5000]), a).result() * 2
        left = client.submit(np.ones, matrix.shape, np.float32, workers=[a])
        wait(left)
        start = time.perf_counter()
        wait(client.submit(np.shape, left, workers=[b]))
        transfer = time.perf_counter() - start
        del left
        for n_shards in (2, 4, 8):
            start = time.perf_counter()
            fit_on_cluster(client, learner, shards[:n_shards])
            real = time.perf_counter() - start
            told, _ = simulated([learn] * n_shards, 2, transfer, add)
            lines.append(f"| {n_shards} | {told:.1f} | {real:.1f} |")
    measured = f"a shard {learn:.1f} s, a matrix sent {transfer:.2f} s, two added {add:.2f} s"
    return [*lines, "", measured]


def _shard(n_images: int, first: int, size: int) -> tuple[object, object]:
    rows = open_data(n_images, N_TEST, N_VISTERMS).train
    return rows.X[first : first + size], rows.R[first : first + size]


def _fit(learner: MiniBatchOASIS, shard: object) -> None:
    learner.fit(*shard())


def _timed(work: object) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _time(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def _one_kind(records: Sequence[TrainingRecord], run: Path) -> list[TrainingRecord]:
    """Return the trainings by size, or end with a line where the model is not for them."""
    kinds = {
        (one.data["n_visterms"], one.training.batch_size is not None, one.n_threads)
        for one in records
    }
    records = sorted(records, key=lambda one: one.training.n_images)
    sizes = [one.training.n_images for one in records]
    if len(set(sizes)) < 3 or len(kinds) > 1 or {(N_VISTERMS, True)} != {k[:2] for k in kinds}:
        raise SystemExit(
            f"{run} has trainings on {sizes} images: three sizes, {N_VISTERMS} visterms, batches "
            "and one number of threads are needed: see web-scale --help"
        )
    if not all(point.peak_bytes for one in records for point in one.checkpoints):
        raise SystemExit(f"{run} has trainings without a peak of memory: run them on Linux")
    return records


def main() -> None:
    """Print what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="output folder of web-scale")
    parser.add_argument("--cluster", action="store_true", help="compare with two processes")
    options = parser.parse_args()
    records = _one_kind(read_records(options.run), options.run)
    model, threads = fitted(records), records[0].n_threads
    a, b, c = model.exponents
    print(
        f"{threads} threads: a step {1e6 * model.step:.2f} us, its update {1e6 * model.update:.2f} "
        f"us; share of updates {np.exp(a):.3g} steps^{b:.3f} images^{c:.3f}; memory "
        f"{model.fixed_bytes / 1e9:.2f} GB and {model.image_bytes:.0f} bytes an image\n"
    )
    *smaller, largest = records
    for name, one, told in [
        *(("fitted", one, model) for one in records),
        ("foretold by the smaller ones", largest, fitted(smaller)),
    ]:
        n, last = one.training.n_images, one.checkpoints[-1]
        peak = max(point.peak_bytes for point in one.checkpoints)
        print(
            f"{n} images, {name}: {told.seconds(n, last.n_steps):.1f} s, measured "
            f"{last.learn_seconds:.1f} s; {told.memory(n) / 1e9:.2f} GB, measured {peak / 1e9:.2f}"
        )
    print(*plan_lines(model), sep="\n")
    if options.cluster:
        print(*cluster_lines(80_000, 2_000_000), sep="\n")


if __name__ == "__main__":
    main()
