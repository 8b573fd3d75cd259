"""Small copies of the pictures behind rows, for the report to show what a query brings up."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from scipy import sparse

from oasis_bench.data.rows import LabelledRows

SIZE = (96, 96)


def thumbnail(path: Path) -> bytes | None:
    """Shrink a picture to at most 96 x 96 pixels as JPEG, or None where it cannot be read."""
    try:
        with Image.open(path) as image:
            image.draft("RGB", (2 * SIZE[0], 2 * SIZE[1]))
            upright = ImageOps.exif_transpose(image)
            if upright.mode.startswith("I"):  # 16 bits
                upright = upright.point(lambda value: value / 256).convert("L")
            small = Image.new("RGB", upright.size, "white")
            small.paste(upright, mask=upright.convert("RGBA").getchannel("A"))
            small.thumbnail(SIZE)
            content = io.BytesIO()
            small.save(content, "JPEG", quality=80)
    except Exception:  # decoders raise nearly anything
        return None
    return content.getvalue()


def caption(rows: LabelledRows, row: int) -> str:
    """Name the class of a row, or the queries that it is relevant to."""
    if isinstance(rows.y, sparse.csr_array):
        numbers = rows.y.indices[rows.y.indptr[row] : rows.y.indptr[row + 1]]
    else:
        numbers = np.atleast_1d(rows.y[row])
    return ", ".join(rows.class_names[number] for number in numbers)
