"""The verb `web-scale`: trainings on millions of generated images, and their report."""

from __future__ import annotations

import argparse
from contextlib import closing

from oasis_bench.command_line.progress import Display, in_words
from oasis_bench.plugins import load_reports
from oasis_bench.system import available_cores, make_writable
from oasis_bench.web_scale import (
    Checkpoint,
    Training,
    chance_level,
    forecast_lines,
    open_data,
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
    lines = forecast_lines(*size, planned, options.output)
    make_writable(options.output)
    print("\n".join(lines), flush=True)
    with closing(Display()) as display:
        data = open_data(*size, display.download)
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
