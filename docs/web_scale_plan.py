"""What the web-scale experiment costs on more images and machines: a model, fitted and checked.

    python -m oasis_bench web-scale --images 10000,30000,100000,300000 --output RUN
    python docs/web_scale_plan.py RUN [--cluster]

Prints the fit to the trainings in RUN, and the plan for one and for 64 machines, as
`docs/results.md` shows them.  With --cluster: what the simulation of `fit_on_cluster` says beside
what two processes of this machine take.
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

from oasis_bench.algorithms.oasis import MiniBatchOASIS, fit_on_cluster
from oasis_bench.web_scale.training import STEPS_AN_IMAGE, TrainingRecord, open_data, read_records

N_VISTERMS = 10_000
MATRIX = 4 * N_VISTERMS**2
"""Bytes of W in float32."""

N_TEST = 4096
"""Test images that are drawn besides; nothing is ranked here."""

SIZES = (2_292_259, 10_000_000, 100_000_000)
NETWORKS = {"10 Gbit/s": 1.25e9, "1 Gbit/s": 0.125e9}
"""Bytes a second between two machines."""

LATENCY = 0.01
"""Seconds until a task of Dask begins on another machine; its documentation says less."""


class Model(NamedTuple):
    """What a machine with two cores takes.

    Attributes
    ----------
    step, update : float
        Seconds of a step, and of its update where there is one.
    share : ndarray of shape (3,)
        The share of steps that are updates is exp(share @ (1, log n_steps, log n_images)).
    matrices, row : float
        Memory: matrices of d^2 numbers, and bytes of an image.
    """

    step: float
    update: float
    share: np.ndarray
    matrices: float
    row: float

    def seconds(self, n_images: float, n_steps: float | None = None) -> float:
        """Return the seconds of a training."""
        n_steps = n_steps or n_images * STEPS_AN_IMAGE
        share = np.exp(self.share @ (1, np.log(n_steps), np.log(n_images)))
        return n_steps * (self.step + self.update * min(1.0, share))

    def memory(self, n_images: float) -> float:
        """Return the bytes of a training, its mapped rows included."""
        return self.matrices * MATRIX + self.row * n_images


def fitted(records: Sequence[TrainingRecord]) -> Model:
    """Fit the model to trainings, by relative least squares."""
    points = [
        (record.training.n_images, point)
        for record in records
        for point in record.checkpoints
        if point.n_steps
    ]
    n_images = np.array([n for n, _ in points], float)
    steps, updates, seconds, peak = (
        np.array([getattr(point, name) for _, point in points], float)
        for name in ("n_steps", "n_updates", "learn_seconds", "peak_bytes")
    )
    costs, _ = nnls(np.column_stack([steps, updates]) / seconds[:, None], np.ones(len(points)))
    form = np.column_stack([np.ones(len(points)), np.log(steps), np.log(n_images)])
    share = np.linalg.lstsq(form, np.log(updates / steps))[0]
    form = np.column_stack([np.full(len(points), float(MATRIX)), n_images])
    memory, _ = nnls(form / peak[:, None], np.ones(len(points)))
    return Model(*costs, share, *memory)


def simulated(
    seconds: Sequence[float], n_workers: int, transfer: float, add: float
) -> tuple[float, int]:
    """Simulate `fit_on_cluster`: workers learn shards in order, and add neighbours up in a tree.

    Parameters
    ----------
    seconds : sequence of float
        Of learning each shard.
    n_workers : int
        Each does one task at a time; a sum goes before a shard, on the worker of its left part.
    transfer, add : float
        Seconds to send a matrix from one worker to another, and to add two.

    Returns
    -------
    float
        Seconds until the client has the sum.
    int
        Matrices that were sent.
    """
    parts, whole = _tree(len(seconds))
    place: dict[int, int] = {}  # the worker that holds the matrix of a node
    waiting: list[list[int]] = [[] for _ in range(n_workers)]  # sums that it is to make
    idle, shards, sent, now = set(range(n_workers)), iter(enumerate(seconds)), 0, 0.0
    running: list[tuple[float, int, int]] = []  # end, worker, node
    while True:
        for worker in sorted(idle):
            if waiting[worker]:
                node = waiting[worker].pop(0)
                away = sum(place[child] != worker for child in parts[node])
                sent, end = sent + away, now + add + transfer * away
            elif (shard := next(shards, None)) is not None:
                node, end = shard[0], now + shard[1]
            else:
                continue
            idle.remove(worker)
            heapq.heappush(running, (end, worker, node))
        if not running:
            return now + transfer, sent + 1
        now, worker, node = heapq.heappop(running)
        idle.add(worker)
        place[node] = worker
        above = whole.get(node)
        if above is not None and all(child in place for child in parts[above]):
            waiting[place[parts[above][0]]].append(above)


def _tree(n_shards: int) -> tuple[dict[int, tuple[int, int]], dict[int, int]]:
    """Return the two parts of each sum, and the sum of each part, as `fit_on_cluster` adds."""
    parts: dict[int, tuple[int, int]] = {}
    level, node = list(range(n_shards)), n_shards
    while len(level) > 1:
        pairs = list(zip(level[::2], level[1::2], strict=False))
        sums = list(range(node, node + len(pairs)))
        parts.update(zip(sums, pairs, strict=True))
        level, node = sums + level[2 * len(pairs) :], node + len(pairs)
    return parts, {part: node for node, pair in parts.items() for part in pair}


def on_machines(
    model: Model, n_images: float, n_machines: int, network: float, rounds: int = 1
) -> tuple[float, float, float]:
    """Return seconds, bytes of memory of a machine and bytes sent of a training in shards.

    Each machine learns one shard.  Between rounds W goes back to all, by peers: each that has it
    sends it to one more.
    """
    transfer, add = LATENCY + MATRIX / network, MATRIX / 2e9
    images = n_images / n_machines
    learn = model.seconds(images) / rounds
    seconds, sent = simulated([learn] * n_machines, n_machines, transfer, add)
    back = transfer * np.ceil(np.log2(n_machines))
    total = rounds * seconds + (rounds - 1) * back
    matrices = rounds * sent + (rounds - 1) * (n_machines - 1)
    return total, model.memory(images) + 2 * MATRIX, matrices * MATRIX


def plan_lines(model: Model) -> list[str]:
    """Return the plan for one machine and for 64, as a table of Markdown."""
    lines = [
        "| images | machines | network | averaged | time | memory of a machine | sent |",
        "|---|---|---|---|---|---|---|",
    ]
    for n_images in SIZES:
        alone = f"{_time(model.seconds(n_images))} | {model.memory(n_images) / 2**30:.1f} GiB"
        lines.append(f"| {n_images:,} | 1 | | never | {alone} | |")
        for network, speed in NETWORKS.items():
            for rounds in (1, 20):
                seconds, memory, sent = on_machines(model, n_images, 64, speed, rounds)
                often = "once" if rounds == 1 else f"{rounds} times"
                lines.append(
                    f"| {n_images:,} | 64 | {network} | {often} | {_time(seconds)} | "
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
        LocalCluster(2, threads_per_worker=1, memory_limit=0, dashboard_address=":0") as cluster,
        Client(cluster) as client,
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
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def main() -> None:
    """Print what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="output folder of web-scale")
    parser.add_argument("--cluster", action="store_true", help="compare with two processes")
    options = parser.parse_args()
    records = read_records(options.run)
    model = fitted(records)
    print(
        f"a step {1e6 * model.step:.1f} us, its update {1e6 * model.update:.1f} us; share of "
        f"updates e^{model.share[0]:.2f} steps^{model.share[1]:.2f} images^{model.share[2]:.2f}; "
        f"memory {model.matrices:.1f} W and {model.row:.0f} bytes an image\n"
    )
    for record in records:
        n, last = record.training.n_images, record.checkpoints[-1]
        print(f"{n} images: {last.learn_seconds:.1f} s, the model {model.seconds(n):.1f} s")
    print(*plan_lines(model), sep="\n")
    if options.cluster:
        print(*cluster_lines(80_000, 2_000_000), sep="\n")


if __name__ == "__main__":
    main()
