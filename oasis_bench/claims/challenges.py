"""Changes of an experiment by which a referee would try to break a verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from oasis_bench.experiment import Experiment, Search, find_grids
from oasis_bench.plugins import MetricLearner, load_registry

SEED_AWAY = 1000
"""Added to the seed: far from that of a second look, which is the next one."""

WIDER = 10
"""A wider search has so many times the seconds, or the candidates."""


def other_draws(experiment: Experiment) -> Experiment | None:
    """Change the seed: other partitions, folds, candidates and triplets.

    None where the partitions are all folds of the data set, and so are the same again.
    """
    if experiment.partitions is None:
        return None
    return replace(experiment, seed=experiment.seed + SEED_AWAY)


def other_scaling(experiment: Experiment) -> Experiment | None:
    """Leave out the weights of tf-idf: rows of unit length; None where there are no words."""
    if not _has_words(experiment):
        return None
    return replace(experiment, scaling=("l2",))


def other_features(experiment: Experiment) -> Experiment | None:
    """Learn from a pretrained network's features in place of visual words; None without these."""
    if not _has_words(experiment) or experiment.dataset_options:
        return None
    return replace(experiment, dataset_options={"features": "efficientnet-lite0"})


def wider_search(experiment: Experiment) -> Experiment | None:
    """Let learners search longer, of finer and wider grids; None where none has such a grid."""
    search = experiment.search
    if search.seconds is not None:
        longer = f"{WIDER * search.seconds:g}s"
    elif search.candidates is not None:
        longer = str(WIDER * search.candidates)
    else:
        return None
    registry = load_registry()
    learners = dict(experiment.learners)
    for label, grid in find_grids(experiment, registry).items():
        spec = learners[label]
        algorithm = registry.algorithms[spec.algorithm]
        own = {name: _wider(algorithm, name, values) for name, values in grid.items()}
        added = {name: values for name, values in own.items() if len(values) > len(grid[name])}
        learners[label] = replace(spec, params={**spec.params, **added})
    if learners == experiment.learners:
        return None
    return replace(experiment, search=Search.of("search", longer), learners=learners)


def wider_grid(values: Sequence[Any]) -> list[Any]:
    """Add a value between each two positive numbers of a grid, and one beyond each end.

    They are geometric: 0.1 and 1 become 0.01, 0.1, 0.316..., 1 and 10.  Whole numbers stay whole;
    what is no number is kept.
    """
    numbers = sorted({x for x in values if isinstance(x, int | float) and not isinstance(x, bool)})
    if len(numbers) < 2 or numbers[0] <= 0:
        return list(values)
    ends = numbers[0] ** 2 / numbers[1], numbers[-1] ** 2 / numbers[-2]
    added: list[float] = [*ends, *(math.sqrt(low * high) for low, high in pairwise(numbers))]
    if all(isinstance(x, int) for x in numbers):
        added = [max(1, round(x)) for x in added]
    return list(dict.fromkeys([*values, *added]))


def _wider(algorithm: type[MetricLearner], name: str, values: Sequence[Any]) -> list[Any]:
    """Widen the grid of a hyper-parameter by the values that a learner takes."""

    def takes(value: Any) -> bool:
        try:
            algorithm(**{name: value})._validate_params()
        except ValueError:
            return False
        return True

    return [one for one in wider_grid(values) if one in values or takes(one)]


CHALLENGES: dict[str, Callable[[Experiment], Experiment | None]] = {
    "draws": other_draws,
    "scaling": other_scaling,
    "features": other_features,
    "search": wider_search,
}
"""By name; each returns None for an experiment to which it does not apply."""


def _has_words(experiment: Experiment) -> bool:
    return experiment.dataset in ("caltech256", "caltech101", "corel5k") and not {
        "patches",
        "features",
    } & set(experiment.dataset_options)
