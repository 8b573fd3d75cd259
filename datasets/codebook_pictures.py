"""The pictures that codebooks are learned from: those of another data set, without copies.

Not for learning a codebook: `features.codebooks` and `features.hand_made`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from oasis_bench.datasets.features.duplicates import near_duplicates
from oasis_bench.datasets.features.picture_files import Picture, Workers, hashed_pictures
from oasis_bench.plugins import load_registry
from oasis_bench.system import UsageError


def pictures_of_source(
    source_name: str, name: str, workers: Workers, tell: Callable[[str], None]
) -> list[Picture]:
    """Find the pictures of the data set that the codebooks of data set `name` are learned from.

    Raises
    ------
    UsageError
        Where they cannot be had.
    """
    source: Any = load_registry().datasets[source_name]()
    if not hasattr(source, "find_images"):
        raise UsageError(f"data set {source.name!r} holds no images to learn codebooks from")
    try:
        found = source.find_images(workers.progress, tell)
    except UsageError as error:
        raise UsageError(
            f"the codebooks of {name} are learned from {source.name}: {error}"
        ) from error
    return hashed_pictures([path for path, _ in found], workers)


def without_copies(
    teachers: Sequence[Picture],
    evaluated: Sequence[Picture],
    source_name: str,
    name: str,
    workers: Workers,
) -> list[Picture]:
    """Return the pictures that teach the codebooks, without copies of the evaluated ones.

    Caltech256's classes that end in -101 hold pictures of Caltech101.

    Raises
    ------
    UsageError
        Where all of them are copies.
    """
    copies = near_duplicates(teachers, evaluated, workers)
    others = [picture for picture in teachers if picture.content not in copies]
    if not others:
        raise UsageError(
            f"the codebooks of {name} are learned from pictures that are all among those to be "
            f"evaluated: where these are {source_name}, run it by its name"
        )
    return others


def teachers_of(
    source_name: str,
    name: str,
    evaluated: Sequence[Picture],
    workers: Workers,
    tell: Callable[[str], None],
) -> list[Picture]:
    """Return the pictures of `pictures_of_source`, `without_copies` of the evaluated ones."""
    found = pictures_of_source(source_name, name, workers, tell)
    return without_copies(found, evaluated, source_name, name, workers)
