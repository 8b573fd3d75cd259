"""Pictures: sets of local descriptors and pixels for learners, small copies for reports."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from oasis_bench.data.matrices import FloatArray, check_array
from oasis_bench.system import UsageError, open_regular, unknown_name

Descriptors = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class PatchKind:
    """The descriptors of one kind, such as SIFT, of all pictures in turn.

    Iteration gives the descriptors (m_i, p) of each picture.

    Parameters
    ----------
    descriptors : ndarray of shape (n_patches, p), float32
        Finite.
    offsets : ndarray of shape (n_items + 1,), int64
        Picture i has the patches ``offsets[i]`` to ``offsets[i + 1] - 1``: at least one.
    positions : ndarray of shape (n_patches, 2), float32
        The centre of each patch, x from the left and y from the top, in pixels of the picture.

    Raises
    ------
    UsageError
        If an array breaks one of these rules.
    """

    descriptors: Descriptors
    offsets: npt.NDArray[np.int64]
    positions: npt.NDArray[np.float32]

    def __post_init__(self) -> None:
        n_patches, offsets = len(self.descriptors), self.offsets
        check_array("descriptors of patches", self.descriptors, np.float32, None, None)
        check_array("positions of patches", self.positions, np.float32, n_patches, 2)
        check_array("offsets of patches", offsets, np.int64, None)
        if not len(offsets) or offsets[0] != 0 or offsets[-1] != n_patches:
            raise UsageError(
                f"offsets of patches {offsets[:8].tolist()}: they go from 0 to {n_patches}"
            )
        if (sizes := np.diff(offsets)).min(initial=1) < 1:
            raise UsageError(
                f"picture {int(sizes.argmin())} has {sizes.min()} patches of a kind: leave it out"
            )

    @classmethod
    def joined(cls, descriptors: Sequence[Any], positions: Sequence[Any]) -> Self:
        """Join the descriptors (m_i, p) and the positions (m_i, 2) of pictures, one array each."""
        return cls(
            np.concatenate(descriptors, dtype=np.float32),
            np.cumsum([0, *(len(part) for part in descriptors)], dtype=np.int64),
            np.concatenate(positions, dtype=np.float32),
        )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[Descriptors]:
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.descriptors[start:stop]

    def means(self, rows: npt.NDArray[np.floating] | None = None) -> FloatArray:
        """Return the mean of each picture's `rows` (n_patches, p); None: of its descriptors."""
        rows = self.descriptors if rows is None else rows
        if len(rows) == len(self):  # one each
            return rows
        sums = np.add.reduceat(rows, self.offsets[:-1], axis=0, dtype=np.float64)
        return np.asarray(sums / np.diff(self.offsets)[:, None])

    def part(self, numbers: npt.NDArray[np.integer]) -> Self:
        """Return the patches of the pictures of these numbers, in their order."""
        sizes = np.diff(self.offsets)[numbers]
        offsets = np.cumsum([0, *sizes], dtype=np.int64)
        places = np.arange(offsets[-1]) + np.repeat(self.offsets[numbers] - offsets[:-1], sizes)
        return type(self)(self.descriptors[places], offsets, self.positions[places])


@dataclass(frozen=True, eq=False)
class Patches:
    """Local descriptors of pictures, of one or more kinds.

    ``patches[numbers]`` gives the Patches of these pictures (an array of item numbers, a mask or a
    slice).  Iteration gives a dict for each picture: its descriptors (m_i, p) by kind.

    Parameters
    ----------
    kinds : mapping of str to PatchKind
        At least one, named by identifiers such as 'sift'; all of the same pictures.
    pixels : ndarray of shape (n_items, height, width, 3), uint8, optional
        The pictures themselves, for a learner that takes 'patches+pixels'.

    Raises
    ------
    UsageError
        If there is no kind, a name is no identifier, or kinds have different numbers of pictures.
    """

    AND_PIXELS: ClassVar = "patches+pixels"
    """The kind of items of learners that take patches with pixels."""

    kinds: Mapping[str, PatchKind]
    pixels: npt.NDArray[np.uint8] | None = None

    def __post_init__(self) -> None:
        counts = {name: len(kind) for name, kind in self.kinds.items()}
        if self.pixels is not None:
            check_pixels(self.pixels)
            counts["pixels"] = len(self.pixels)
        if len(set(counts.values())) != 1:
            raise UsageError(
                f"kinds of patches with these numbers of pictures: {counts}: not one number"
            )
        if other := [name for name in self.kinds if not name.isidentifier()]:
            raise UsageError(f"kind of patches {other[0]!r}: use letters, digits and underscores")

    @classmethod
    def one_each(cls, kinds: Mapping[str, Any]) -> Self:
        """Make patches of rows (n_pictures, p) by kind: a picture has one descriptor of each."""
        return cls(
            {
                name: PatchKind(
                    np.ascontiguousarray(rows, np.float32),
                    np.arange(len(rows) + 1, dtype=np.int64),
                    np.zeros((len(rows), 2), np.float32),
                )
                for name, rows in kinds.items()
            }
        )

    def as_rows(self) -> Descriptors:
        """Return what `one_each` was made of, kind beside kind: (n_pictures, sum of p).

        Raises
        ------
        UsageError
            Where a picture has more than one descriptor of a kind.
        """
        several = [name for name, kind in self.kinds.items() if len(kind.descriptors) > len(self)]
        if several:
            raise UsageError(
                f"pictures have several patches of kind {several[0]}: rows have one descriptor each"
            )
        return np.concatenate([kind.descriptors for kind in self.kinds.values()], axis=1)

    def of_kinds(self, names: str | None) -> Self:
        """Return the patches of some kinds, their names joined by +; None: all.

        Raises
        ------
        UsageError
            Where there is no such kind.
        """
        chosen = list(self.kinds) if names is None else names.split("+")
        for name in chosen:
            if name not in self.kinds:
                raise UsageError(f"kinds: {unknown_name('kind of patches', name, self.kinds)}")
        return type(self)({name: self.kinds[name] for name in chosen}, self.pixels)

    @property
    def shape(self) -> tuple[int]:
        """The number of pictures."""
        return (len(self),)

    @property
    def dtype(self) -> np.dtype[np.float32]:
        """The type of the descriptors."""
        return np.dtype(np.float32)

    def __len__(self) -> int:
        return len(next(iter(self.kinds.values())))

    def __iter__(self) -> Iterator[dict[str, Descriptors]]:
        for parts in zip(*self.kinds.values(), strict=True):
            yield dict(zip(self.kinds, parts, strict=True))

    def __getitem__(self, numbers: Any) -> Self:
        if isinstance(numbers, tuple):  # scikit-learn asks for X[numbers, ...]
            numbers = numbers[0]
        chosen = np.atleast_1d(np.arange(len(self))[numbers])
        return type(self)(
            {name: kind.part(chosen) for name, kind in self.kinds.items()},
            None if self.pixels is None else self.pixels[chosen],
        )

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """Go over the arrays, in order: what a hash of the content reads."""
        yield np.array(list(self.kinds))
        for kind in self.kinds.values():
            yield from (kind.descriptors, kind.offsets, kind.positions)
        if self.pixels is not None:
            yield self.pixels


def check_pixels(pixels: Any) -> None:
    """Raise UsageError where pixels are not uint8 of shape (n_pictures, height, width, 3)."""
    check_array("pixels", np.asarray(pixels), np.uint8, None, None, None, 3)


DEPTHS = (8, 10, 12, 14, 16, 24, 32)
"""Bits of a grey value that cameras and scanners record, in files of 16 or 32 bits."""


def eight_bits(greys: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Scale the greys of a picture, whole numbers of up to 32 bits, to 8 bits.

    A file of 16 bits rarely says that its camera recorded 12.  So a picture has the smallest of
    `DEPTHS` that holds its largest value, whatever other pictures hold: a saved model then gets a
    picture as it is in the folder that the model was fitted on.
    """
    largest = int(greys.max(initial=0))
    depth = next(bits for bits in DEPTHS if largest < 2**bits)
    return np.asarray(np.maximum(greys, 0) >> (depth - 8), dtype=np.uint8)


def rgb_of(image: Any) -> Any:
    """Return a picture of Pillow in RGB; transparent pixels become white."""
    from PIL import Image  # here: a trial does without

    if image.mode == "F":
        raise ValueError("its pixels are floats of no known range: save it with 8 bits")
    if image.mode.startswith("I"):  # Pillow would clip 16 bits to 8 instead of scaling them
        return Image.fromarray(eight_bits(np.asarray(image))).convert("RGB")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")


SIZE = (96, 96)

PICTURE_FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""What is decoded.  Pillow knows more, of which some start other programs (EPS: Ghostscript)."""


def thumbnail(path: Path) -> bytes | None:
    """Return a picture as a JPEG of at most 96 x 96 pixels, or None where it cannot be read."""
    from PIL import Image, ImageOps  # here: a trial does without

    try:
        with open_regular(path) as file, Image.open(file, formats=PICTURE_FORMATS) as image:
            image.draft("RGB", (2 * SIZE[0], 2 * SIZE[1]))
            small = rgb_of(ImageOps.exif_transpose(image))
            small.thumbnail(SIZE)
            content = io.BytesIO()
            small.save(content, "JPEG", quality=80)
    except Exception:  # decoders raise nearly anything
        return None
    return content.getvalue()
