"""A data set whose items are rows, pixels and patches: 15 of each of 4 digits."""

from oasis_bench.dataset import Dataset, LabelledRows, no_progress
from oasis_bench.plugins.contract_items import digit_items


class AllInputs(Dataset):
    name = "all-inputs"
    summary = "60 digits as rows, pixels and patches"
    citation = licence = "none"
    gives = ("rows", "pixels", "patches")

    def load(self, progress=no_progress):
        (X, y), (pixels, _), (patches, _) = map(digit_items, self.gives)
        return LabelledRows(X, y, tuple("0123"), pixels=pixels, patches=patches)
