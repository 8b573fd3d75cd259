"""What the web-scale experiment will write and learn, and its chance level: said at its start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oasis_bench.plugins import load_registry
from oasis_bench.system import UsageError
from oasis_bench.tasks import SharedLabels, average_precision_of_chance
from oasis_bench.web_scale.training import Training, test_queries


def forecast_lines(
    n_images: int,
    n_test_images: int,
    n_visterms: int,
    planned: Sequence[Training],
    folder: Path,
) -> list[str]:
    """Say what is written to which folder, and how much there is to learn, a line each.

    Parameters
    ----------
    n_images, n_test_images, n_visterms : int
        Of the images, which are kept in the cache folder.
    planned : sequence of Training
        Each keeps its last model, W in float32.
    folder : Path
        The output.
    """
    dataset: Any = load_registry().datasets["web-scale"]
    place, n_bytes = dataset.to_write(n_images, n_test_images, n_visterms)
    models = _size(4 * n_visterms**2 * len(planned))
    n_trainings = f"{len(planned)} training{'s' * (len(planned) > 1)}"
    return [
        f"images: up to {_size(n_bytes)} are drawn and written to {place}"
        if n_bytes
        else f"images: those in {place} are used",
        f"results: the report, and figures and last model of {n_trainings} ({models}), are "
        f"written to {folder}",
        f"learning: {sum(training.n_steps for training in planned):,} steps in {n_trainings}; a "
        "million take about 11 s on two cores in batches of 65,536, and several minutes where "
        "batches are small or exact",
    ]


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.1f} MB"


def chance_level(data: Any, n_queries: int) -> float:
    """Return the mean average precision of a random order, over the queries of `train`.

    Raises
    ------
    UsageError
        Where no query has a relevant other test image.
    """
    n_test = data.test.X.shape[0]
    labels, queries = SharedLabels(data.test.R), test_queries(n_test, n_queries)
    queries = queries[labels.has_relevant(queries)]
    if not len(queries):
        raise UsageError(
            f"--queries {n_queries}, --test-images {n_test}: no query has a relevant other test "
            "image, so that there is nothing to rank: from --test-images 4096 on each has one"
        )
    n_relevant = np.diff(labels.relevant_rows(queries).indptr)
    return float(average_precision_of_chance(n_relevant, n_test - 1).mean())
