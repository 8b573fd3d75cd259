"""Small copies of the pictures behind rows: the report shows what a query finds."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps
from scipy import sparse

from oasis_bench.data.rows import LabelledRows
from oasis_bench.system import open_regular

SIZE = (96, 96)


def thumbnail(path: Path) -> bytes | None:
    """Return a picture as a JPEG of at most 96 x 96 pixels, or None where it cannot be read."""
    try:
        with open_regular(path) as file, Image.open(file) as image:
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
    """Return the name of a row's class, or of the queries that the row is relevant to."""
    if isinstance(rows.y, sparse.csr_array):
        numbers = rows.y.indices[rows.y.indptr[row] : rows.y.indptr[row + 1]]
    else:
        numbers = np.atleast_1d(rows.y[row])
    return ", ".join(rows.class_names[number] for number in numbers)
