"""What data sets of pictures share: from files with labels to rows of visterm counts.

Not for where the files are (each data set knows that) and not for the features (`visterms`).
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.dataset import Dataset, LabelledRows, Progress, no_progress
from oasis_bench.datasets.picture_files import Workers, hashed_pictures
from oasis_bench.datasets.visterms import VistermFeatures, visterm_counts
from oasis_bench.errors import UsageError
from oasis_bench.registry import load_registry

MAX_NAMED = 10
"""Files left out that a warning names; the others are counted."""

Label: TypeAlias = "str | tuple[str, ...]"
"""The class of a picture; or its words, where a data set has several labels."""


class ImageDataset(Dataset):
    """Pictures as bags of visual words (JMLR 2010, section 3): raw counts of visterms, CSR.

    The codebooks of colours and of blocks are learned from the pictures of another data set, so
    that no test image has a part in them (the papers took pictures from the web for it).  The
    idf weights are the harness's, learned from the training images of each partition.

    A picture that cannot be used is left out with a warning that says why.

    Class attributes
    ----------------
    features : VistermFeatures
        Block size and the like.
    codebook_source : str
        The name of the data set that teaches the codebooks, an `ImageDataset` too.

    Parameters
    ----------
    n_visterms : int, default 1000
        Visual words in the codebook: the number of features (JMLR 2010, 5.3: 1000 where dense
        methods take part, else 10000).
    """

    normalize = "tfidf"
    features: ClassVar[VistermFeatures] = VistermFeatures()
    codebook_source: ClassVar[str]

    def __init__(self, n_visterms: int = 1000) -> None:
        self.n_visterms = n_visterms

    @abstractmethod
    def find_images(self, progress: Progress = no_progress) -> Sequence[tuple[Path, Label]]:
        """Find the pictures and their labels, downloading them first where needed.

        Parameters
        ----------
        progress : callable, default no_progress
            Told of a download.

        Returns
        -------
        sequence of (Path, str) or of (Path, tuple of str)
            Each picture with its class; or with its words, for relevance to several queries.

        Raises
        ------
        UsageError
            Where there are none, with the remedy.
        """

    def visterm_features(self) -> VistermFeatures:
        """Return the parameters of the features, with the number of visterms asked for."""
        return replace(self.features, n_visterms=self.n_visterms)

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Count the visterms of each picture; the counts of earlier calls are on disk.

        Parameters
        ----------
        progress : callable, default no_progress
            Told of downloads, and of the pictures done.

        Raises
        ------
        UsageError
            Where the pictures or those of the codebooks cannot be had or used.
        """
        found = self.find_images(progress)
        images = [path for path, _ in found]
        result = visterm_counts(
            images,
            self._codebook_images(images, progress),
            self.visterm_features(),
            progress,
        )
        warn_left_out(result.left_out)
        warn_left_out(result.codebook_left_out, "left out of the codebooks")
        if not len(result.kept):
            path, reason = result.left_out[0]
            raise UsageError(
                f"none of the {len(found)} images of {self.name} can be used; the first is "
                f"{str(path)!r}: {reason}"
            )
        kept = [found[i] for i in result.kept]
        y, names = _as_labels([label for _, label in kept])
        return LabelledRows(result.counts, y, names, images=tuple(path for path, _ in kept))

    def _codebook_images(self, evaluated: Sequence[Path], progress: Progress) -> list[Path]:
        """Find the pictures that teach the codebooks, less copies of those to be evaluated.

        Caltech256's classes that end in -101 hold pictures of Caltech101.
        """
        source = load_registry().datasets[self.codebook_source]()
        if not isinstance(source, ImageDataset):
            raise UsageError(f"data set {source.name!r} holds no images to learn codebooks from")
        try:
            teachers = [path for path, _ in source.find_images(progress)]
        except UsageError as error:
            raise UsageError(
                f"the codebooks of {self.name} are learned from {source.name}: {error}"
            ) from error
        workers = Workers(None, progress)
        contents = {picture.content for picture in hashed_pictures(evaluated, workers)}
        apart = [
            picture.path
            for picture in hashed_pictures(teachers, workers)
            if picture.content not in contents
        ]
        if not apart:
            raise UsageError(
                f"the codebooks of {self.name} are learned from {source.name}, but all its "
                "pictures are among those to be evaluated: run the data set by its name"
            )
        return apart


def require_images(
    found: Sequence[tuple[Path, Label]], folder: Path, layout: str
) -> Sequence[tuple[Path, Label]]:
    """Return what was found in a data set's folder.

    Raises
    ------
    UsageError
        Where nothing was, with the official layout.
    """
    if not found:
        raise UsageError(
            f"{folder} holds no {layout}: put the official release there, or remove the folder"
        )
    return found


def warn_left_out(left_out: Sequence[tuple[Path, str]], what: str = "left out") -> None:
    """Warn of what is left out, with the reasons: name the first ten, count the others."""
    for path, reason in left_out[:MAX_NAMED]:
        warnings.warn(f"{what}: {str(path)!r}: {reason}", stacklevel=3)
    if len(left_out) > MAX_NAMED:
        warnings.warn(
            f"{what}: {len(left_out) - MAX_NAMED} more, {len(left_out)} in all",
            stacklevel=3,
        )


def _as_labels(
    labels: Sequence[Label],
) -> tuple[npt.NDArray[np.int64] | sparse.csr_array, tuple[str, ...]]:
    """Make class numbers of classes, and relevance (images x words) of 1 of words."""
    words = [{label} if isinstance(label, str) else set(label) for label in labels]
    names = sorted(set().union(*words))
    number = {name: i for i, name in enumerate(names)}
    columns = [sorted(number[word] for word in some) for some in words]
    indices = np.array([column for some in columns for column in some], dtype=np.int64)
    if all(isinstance(label, str) for label in labels):
        return indices, tuple(names)
    indptr = np.cumsum([0, *map(len, columns)])
    ones = np.ones(len(indices), dtype=np.float32)
    relevance = sparse.csr_array((ones, indices, indptr), shape=(len(labels), len(names)))
    return relevance, tuple(names)
