"""The 8 x 8 scanned digits that come with scikit-learn: real data without a download."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from oasis_bench.data.rows import LabelledRows
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.system.progress import Progress, no_progress


class Digits(Dataset):
    """1797 scanned handwritten digits, 8 x 8 pixels of 17 grey levels, 10 classes.

    The test part of the UCI set, as scikit-learn ships it: pixel values 0 to 16, float64.
    """

    name = "digits"
    summary = "scanned digits of 8 x 8 pixels: 1797 rows, 64 features, 10 classes; no download"
    citation = (
        "E. Alpaydin and C. Kaynak. Optical Recognition of Handwritten Digits. "
        "UCI Machine Learning Repository, 1998. doi:10.24432/C50P49"
    )
    home = "it comes with scikit-learn"
    licence = "CC BY 4.0"

    def location(self) -> str | None:
        """Say where the data lies on this machine."""
        return "in scikit-learn"

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the digits from the scikit-learn that is installed."""
        X, y = load_digits(return_X_y=True)
        return LabelledRows(X, y.astype(np.int64), tuple("0123456789"))
