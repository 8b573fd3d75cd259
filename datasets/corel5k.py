"""Corel5k: photographs with several words each, in the layout of Duygulu et al.

The words stand for the papers' text queries (JMLR 2010, 5.2.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from oasis_bench.datasets.features import VistermFeatures
from oasis_bench.datasets.files import dataset_folder
from oasis_bench.datasets.pictures import ImageDataset, Label, require_images, warn
from oasis_bench.system import Progress, UsageError, no_progress

PARTS = (("training_label", "train_jpeg"), ("test_label", "test_jpeg"))


class Corel5k(ImageDataset):
    """5000 photographs, 192 x 128 pixels, with 1 to 5 of 374 words each.

    A line of ``labels/training_label`` is ``image-number word-number ...`` and belongs to
    ``train_jpeg/image-number.jpeg``; likewise ``test_label`` and ``test_jpeg``; line i of
    ``labels/words`` is word i, from 1.  Training and test images are joined, training first.
    A word is a query, with relevance 1 for the images that have it; words of no image are left
    out.  An image that is missing is left out with a warning.

    Blocks are 32 x 32 pixels every 16, half of the papers' as the photographs are; the pictures
    that the codebooks are learned from are shrunk to fit 192 x 192 first.
    """

    name = "corel5k"
    summary = "photographs with several labels: 5000 images, 374 words, 1 to 5 an image"
    citation = (
        "P. Duygulu, K. Barnard, J. F. G. de Freitas and D. A. Forsyth. Object recognition as "
        "machine translation: learning a lexicon for a fixed image vocabulary. ECCV, 2002"
    )
    licence = "not free: the photographs are Corel's, passed on for research"
    home = (
        "$OASIS_BENCH_DATA/corel5k, with train_jpeg, test_jpeg and labels: it has no official "
        "download any more; codebooks from caltech101"
    )
    codebook_source = "caltech101"
    folder = "corel5k"
    features = VistermFeatures(block=32, stride=16, codebook_size=(192, 192))

    def find_images(
        self, progress: Progress = no_progress, tell: Callable[[str], None] = warn
    ) -> Sequence[tuple[Path, Label]]:
        """Find the photographs, in the order of the label files, each with its words."""
        folder = dataset_folder(self.folder)
        words = _lines(folder / "labels" / "words")
        labelled = [
            pair
            for labels, images in PARTS
            for pair in _read_labels(folder / "labels" / labels, folder / images, words)
        ]
        found = []
        for path, label in labelled:
            if path.is_file():
                found.append((path, label))
            else:
                tell(f"left out: {str(path)!r}: no such file")
        return require_images(found, folder, "train_jpeg/NUMBER.jpeg with a label")


def _read_labels(
    path: Path, images: Path, words: Sequence[str]
) -> Iterator[tuple[Path, tuple[str, ...]]]:
    for number, line in enumerate(_lines(path), start=1):
        fields = line.split()
        valid = all(field.isascii() and field.isdecimal() for field in fields) and len(fields) > 1
        if not valid or not all(1 <= int(field) <= len(words) for field in fields[1:]):
            raise UsageError(
                f"{path}: line {number}: {line[:60]!r} is not an image number and word numbers "
                f"from 1 to {len(words)}: replace the file with the official one"
            )
        yield images / f"{fields[0]}.jpeg", tuple(words[int(field) - 1] for field in fields[1:])


def _lines(path: Path) -> list[str]:
    """Read the lines of a label file, without empty ones at its end."""
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").rstrip().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise UsageError(
            f"cannot read {path}: {reason}: Corel5k has no official download any more: put its "
            "train_jpeg, test_jpeg and labels into corel5k/ of the folder that OASIS_BENCH_DATA "
            "names"
        ) from error
