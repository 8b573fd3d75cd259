"""Picture files to pixels: RGB of 8 bits, whatever the format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from oasis_bench.datasets.files.folders import reason_of
from oasis_bench.system import open_regular

if TYPE_CHECKING:  # Pillow is imported where it is used: a trial does without
    from PIL.Image import Image as Picture

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM")
"""What is decoded.  Pillow knows more, of which some start other programs (EPS: Ghostscript)."""


class UnusableImageError(Exception):
    """A picture file that cannot be used; the message is the reason, without the file's name."""


class TooSmallError(UnusableImageError):
    """A picture that can be decoded, but is too small for enough blocks."""


def read_image(path: Path, enough: int | None = None) -> Picture:
    """Decode a picture to RGB, 8 bits a channel.

    The EXIF orientation is applied, transparent pixels become white, 16-bit greys lose their low
    byte, and of an animation the first frame counts.  Where `enough` pixels of width and height are
    enough, a JPEG of a multiple is decoded at a fraction of its size, which is much faster.
    """
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with open_regular(path) as file, Image.open(file, formats=FORMATS) as image:
            n_pixels, limit = image.width * image.height, Image.MAX_IMAGE_PIXELS
            if limit is not None and n_pixels > limit:
                raise UnusableImageError(f"{n_pixels} pixels, more than {limit}: shrink it")
            if enough is not None:
                image.draft("RGB", (enough, enough))
            ImageOps.exif_transpose(image, in_place=True)
            return _to_rgb(image)
    except UnusableImageError:
        raise
    except UnidentifiedImageError as error:
        raise UnusableImageError(f"no picture in any of {', '.join(FORMATS)}") from error
    except Exception as error:  # Pillow's decoders raise nearly anything for a damaged file
        raise UnusableImageError(reason_of(error)) from error


def _to_rgb(image: Picture) -> Picture:
    from PIL import Image

    if image.mode == "F":
        raise UnusableImageError("its pixels are floats of no known range: save it with 8 bits")
    if image.mode.startswith("I"):  # Pillow would clip 16 bits to 8 instead of scaling them
        high_bytes = np.clip(np.asarray(image), 0, 0xFFFF) >> 8
        return Image.fromarray(high_bytes.astype(np.uint8)).convert("RGB")
    if image.has_transparency_data:
        white = Image.new("RGBA", image.size, "white")
        return Image.alpha_composite(white, image.convert("RGBA")).convert("RGB")
    return image.convert("RGB")
