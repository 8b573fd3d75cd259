"""A data set whose items are rows, pixels and patches: 15 of each of 4 digits."""

from oasis_bench.data import LabelledRows
from oasis_bench.plugins import Dataset, digit_items
from oasis_bench.system import no_progress


class AllInputs(Dataset):
    name = "all-inputs"
    summary = "60 digits as rows, pixels and patches"
    citation = licence = "none"
    gives = ("rows", "pixels", "patches")

    def load(self, progress=no_progress):
        (X, y), (pixels, _), (patches, _) = map(digit_items, self.gives)
        return LabelledRows(X, y, tuple("0123"), pixels=pixels, patches=patches)
