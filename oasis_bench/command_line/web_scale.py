"""The verb `web-scale`: trainings on millions of generated images, and their report."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from oasis_bench.command_line.progress import Display, in_words
from oasis_bench.plugins import load_registry, load_reports
from oasis_bench.system import available_cores, make_writable
from oasis_bench.web_scale import (
    Checkpoint,
    Training,
    chance_level,
    train,
    trainings,
)


def run_web_scale(options: argparse.Namespace) -> int:
    """Say what will be written, train, and write the report."""
    n_threads = options.threads or available_cores()
    planned = trainings(options.images, options.batch, options.seeds, options.steps_per_image)

    def tell(training: Training, point: Checkpoint) -> None:
        left = training.n_steps - point.n_steps
        seconds = point.learn_seconds / point.n_steps * left if point.n_steps else 0.0
        display.line(
            f"{training.name}: {point.n_steps:,} steps, {point.learn_seconds:,.0f} s, "
            f"mAP {point.mean_average_precision:.4f} ± {point.standard_error:.4f}"
            + (f", about {in_words(seconds)} of learning left" if seconds else "")
        )

    size = max(options.images), options.test_images, options.visterms
    dataset: Any = load_registry().datasets["web-scale"]
    to_write = dataset.to_write(*size)
    lines = _forecast(to_write, options.visterms, planned, options.output)
    make_writable(options.output)
    print(*lines, sep="\n", flush=True)
    with closing(Display()) as display:
        data = dataset.kept(*size, display.download)
        display.line(f"chance: mAP {chance_level(data, options.queries):.4f}")
        try:
            for training in planned:
                train(
                    *(data, training, options.output, n_threads, options.queries),
                    progress=display.bar,
                    on_checkpoint=tell,
                )
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                "interrupted: the same command goes on from the last checkpoint"
            ) from None
    print(f"report: {load_reports().write_web_scale_report(options.output)}")
    return 0


def _forecast(
    to_write: tuple[Path, float], d: int, planned: Sequence[Training], folder: Path
) -> list[str]:
    """Say what is written where, and how much there is to learn; a training keeps W in float32."""
    place, n_bytes = to_write
    n_trainings = f"{len(planned)} training{'s' * (len(planned) > 1)}"
    models = _size_text(4 * d**2 * len(planned))
    return [
        f"images: up to {_size_text(n_bytes)} are drawn and written to {place}"
        if n_bytes
        else f"images: those in {place} are used",
        f"results: the report, and figures and last model of {n_trainings} ({models}), are "
        f"written to {folder}",
        f"learning: {sum(training.n_steps for training in planned):,} steps in {n_trainings}; a "
        "million take about 11 s on two cores in batches of 65,536, and several minutes where "
        "batches are small or exact",
    ]


def _size_text(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.1f} MB"
