"""What the web-scale experiment will write, and its chance level: said before it begins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from oasis_bench.plugins.registry import load_registry
from oasis_bench.tasks.chance import average_precision_of_chance
from oasis_bench.tasks.shared_labels import SharedLabels
from oasis_bench.web_scale.training import Training, test_queries


def disk_lines(
    n_images: int,
    n_test_images: int,
    n_visterms: int,
    planned: Sequence[Training],
    folder: Path,
) -> list[str]:
    """Say how much is written to which folder, a line each.

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
        f"images: up to {_size(n_bytes)} are written to {place}"
        if n_bytes
        else f"images: those in {place} are used",
        f"models: {models}, the last of {n_trainings}, are written to {folder}",
    ]


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e8 else f"{n_bytes / 1e6:.1f} MB"


def chance_level(data: Any, n_queries: int) -> float:
    """Return the mean average precision of a random order, over the queries of `train`."""
    n_test = data.test.X.shape[0]
    labels, queries = SharedLabels(data.test.R), test_queries(n_test, n_queries)
    queries = queries[labels.has_relevant(queries)]
    n_relevant = np.diff(labels.relevant_rows(queries).indptr)
    return float(average_precision_of_chance(n_relevant, n_test - 1).mean())
