"""Changes of an experiment by which a referee would try to break a verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from oasis_bench.experiment.budget import search_of
from oasis_bench.experiment.settings import Experiment

SEED_AWAY = 1000
"""Added to the seed: far from that of a second look, which is the next one."""

WIDER = 3
"""A wider search has so many times the seconds, or the candidates."""


def other_draws(experiment: Experiment) -> Experiment:
    """Change the seed: other partitions, folds, candidates and triplets."""
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
    """Let every learner search three times as much; None where the search has no end."""
    search = search_of("search", experiment.search)
    if search.seconds is not None:
        return replace(experiment, search=f"{WIDER * search.seconds:g}s")
    if search.candidates is not None:
        return replace(experiment, search=str(WIDER * search.candidates))
    return None


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
