"""What the web-scale experiment costs on more images and machines: a model, fitted and checked.

    python -m oasis_bench web-scale --images 10000,30000,100000,300000 --output RUN
    python docs/web_scale_plan.py RUN

Prints the fit to the trainings in RUN, what a fit without the largest of them says of it, and the
plan for one machine and for 64.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from oasis_bench.reports.web_scale_measurements import checkpoints_of, ends_of
from oasis_bench.web_scale import STEPS_PER_IMAGE, read_records

N_VISTERMS = 10_000
MATRIX_BYTES = 4 * N_VISTERMS**2
"""Of W, in float32."""

SIZES = (2_292_259, 10_000_000, 100_000_000)
N_MACHINES = 64
NETWORKS = {"10 Gbit/s": 1.25e9, "1 Gbit/s": 0.125e9}
"""Bytes a second between two machines."""

LATENCY = 0.01
"""Seconds until a task begins on another machine: a guess on the safe side."""

ADDED_BYTES = 0.8e9
"""Bytes of W a second when two are added, as measured on two shared cores."""


class Model(NamedTuple):
    """What one machine takes that holds its rows in memory.

    A step takes `step` seconds, and `update` more where it is one: exp(exponents @ (1, log n_steps,
    log n_images)) is the share of steps that are.  Memory is `fixed_bytes`, all of Python, W and a
    batch included, and `image_bytes` for each image.
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


def fitted(checkpoints: pd.DataFrame) -> Model:
    """Fit the model to trainings of several sizes, by relative least squares."""
    points, ends = checkpoints[checkpoints["n_steps"] > 0], ends_of(checkpoints)
    names = ["images", "n_steps", "n_updates", "learn_seconds"]
    images, steps, updates, seconds = points[names].to_numpy(float).T
    costs = _relative(np.column_stack([steps, updates]), seconds)
    form = np.column_stack([np.ones(len(points)), np.log(steps), np.log(images)])
    exponents = np.linalg.lstsq(form, np.log(updates / steps))[0]
    sizes, peaks = ends[["images", "peak_bytes"]].to_numpy(float).T
    memory = _relative(np.column_stack([np.full(len(sizes), 1e9), sizes]), peaks)
    return Model(*costs, exponents, 1e9 * memory[0], memory[1])


def _relative(form: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """Return coefficients of 0 or more whose squared relative errors are least."""
    return np.asarray(nnls(form / measured[:, None], np.ones(len(measured)))[0])


def on_machines(
    model: Model, n_images: float, n_machines: int, network: float, rounds: int = 1
) -> tuple[float, float, float]:
    """Return seconds, bytes of memory of a machine and bytes sent of a training in shards.

    Each machine learns one shard; `fit_on_cluster` adds their matrices in a tree, neighbours first,
    and sends the sum to the client.  More than one round is what it leaves out: W goes from the
    client to all machines between them, each that has it sending it to one more.
    """
    transfer, add = LATENCY + MATRIX_BYTES / network, MATRIX_BYTES / ADDED_BYTES
    images = n_images / n_machines
    learn = model.seconds(images, images * STEPS_PER_IMAGE)
    together = np.ceil(np.log2(n_machines)) * (transfer + add) + transfer
    back = np.ceil(np.log2(n_machines + 1)) * transfer
    matrices = (2 * rounds - 1) * n_machines
    return (
        learn + rounds * together + (rounds - 1) * back,
        model.memory(images) + 2 * MATRIX_BYTES,
        matrices * MATRIX_BYTES,
    )


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


def _time(seconds: float) -> str:
    if seconds < 600:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def _checkpoints_of_one_kind(run: Path) -> pd.DataFrame:
    """Read the checkpoints of a run, or end with a line where the model is not for them."""
    records = read_records(run)
    kinds = {
        (one.data["n_visterms"], one.training.batch_size is not None, one.n_threads)
        for one in records
    }
    sizes = sorted({one.training.n_images for one in records})
    if len(sizes) < 3 or len(kinds) > 1 or {(N_VISTERMS, True)} != {k[:2] for k in kinds}:
        raise SystemExit(
            f"{run} has trainings on {sizes} images: three sizes, {N_VISTERMS} visterms, batches "
            "and one number of threads are needed: see web-scale --help"
        )
    checkpoints = checkpoints_of(records)
    if checkpoints["peak_bytes"].isna().any():
        raise SystemExit(f"{run} has trainings without a peak of memory: run them on Linux")
    return checkpoints


def main() -> None:
    """Print what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path, help="output folder of web-scale")
    checkpoints = _checkpoints_of_one_kind(parser.parse_args().run)
    model, threads, sizes = fitted(checkpoints), checkpoints["threads"][0], checkpoints["images"]
    a, b, c = model.exponents
    print(
        f"{threads} threads: a step {1e6 * model.step:.2f} us, its update {1e6 * model.update:.2f} "
        f"us; share of updates {np.exp(a):.3g} steps^{b:.3f} images^{c:.3f}; memory "
        f"{model.fixed_bytes / 1e9:.2f} GB and {model.image_bytes:.0f} bytes an image\n"
    )
    ends = ends_of(checkpoints)
    for name, shown, told in [
        ("fitted", ends, model),
        ("foretold by the smaller ones", ends.tail(1), fitted(checkpoints[sizes < sizes.max()])),
    ]:
        for one in shown.itertuples():
            n = one.images
            print(
                f"{n} images, {name}: {told.seconds(n, one.n_steps):.1f} s, measured "
                f"{one.learn_seconds:.1f} s; {told.memory(n) / 1e9:.2f} GB, measured "
                f"{one.peak_bytes / 1e9:.2f}"
            )
    print(*plan_lines(model), sep="\n")


if __name__ == "__main__":
    main()
