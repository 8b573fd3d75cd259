"""The 8 x 8 scanned digits that come with scikit-learn: real data without a download."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from oasis_bench.data import FloatArray, LabelledRows, Pixels
from oasis_bench.datasets.picture_files import check_count
from oasis_bench.plugins import Dataset, Fields
from oasis_bench.system import Progress, no_progress


class Digits(Fields, Dataset):
    """1797 scanned handwritten digits, 8 x 8 pixels of 17 grey levels, 10 classes.

    The test part of the UCI set, as scikit-learn ships it: pixel values 0 to 16, float64.

    Parameters
    ----------
    pixels : int, optional
        Also make pictures of this width and height, for learners of pixels: grey, 0 to 255.  The
        original size is 8; other sizes are interpolated.
    """

    name = "digits"
    summary = "scanned digits of 8 x 8 pixels: 1797 rows, 64 features, 10 classes; no download"
    citation = (
        "E. Alpaydin and C. Kaynak. Optical Recognition of Handwritten Digits. "
        "UCI Machine Learning Repository, 1998. doi:10.24432/C50P49"
    )
    home = "it comes with scikit-learn"
    licence = "CC BY 4.0"
    items = "images"
    gives = ("rows", "pixels")

    pixels: int | None = None

    def __post_init__(self) -> None:
        check_count("pixels", self.pixels)

    def location(self) -> str | None:
        """Return where the data is on this machine."""
        return "in scikit-learn"

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the digits from the scikit-learn that is installed."""
        X, y = load_digits(return_X_y=True)
        pixels = None if self.pixels is None else _pictures(X, self.pixels)
        return LabelledRows(X, y.astype(np.int64), tuple("0123456789"), pixels=pixels)


def _pictures(X: FloatArray, side: int) -> Pixels:
    """Return rows of 64 grey levels, 0 to 16, as pictures (n, side, side, 3)."""
    from PIL import Image  # a trial does without

    grey = np.rint(X.reshape(-1, 8, 8) * 255 / 16).astype(np.uint8)
    size = (side, side)
    resized = [Image.fromarray(one).resize(size, Image.Resampling.BILINEAR) for one in grey]
    return np.stack([np.asarray(one.convert("RGB")) for one in resized])
