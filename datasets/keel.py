"""Classic tables of the KEEL repository, with the folds that it publishes."""

from __future__ import annotations

from oasis_bench.data import SCALES_COLUMNS, LabelledRows
from oasis_bench.datasets.files import dataset_folder
from oasis_bench.datasets.table_file import TableFile
from oasis_bench.plugins import Dataset
from oasis_bench.system import Progress, UsageError, no_progress, unknown_name

TABLES = (
    *("iris", "wine", "glass", "sonar", "bupa", "ionosphere", "wdbc", "pima", "vowel"),
    *("winequality-red", "led7digit", "segment", "banana", "phoneme", "page-blocks", "texture"),
    *("optdigits", "spambase", "thyroid", "ring", "twonorm", "magic", "letter"),
)
"""The ten of which accuracies on the same folds are published (Suárez et al. 2021) first."""


class Keel(Dataset):
    """A table of the KEEL repository: 150 to 20 000 rows of 2 to 64 numbers, of 2 to 26 classes.

    Read from ``keel/TABLE.csv``: numbers, the label `class`, and `fold`, 1 to 10, the fold of
    KEEL's ten-fold cross-validation in which the row tests.  KEEL has an archive for each table,
    ``TABLE-10-fold.zip``: its ``TABLE-10-Ntst.dat`` holds the rows of fold N, which the file here
    joins.

    Parameters
    ----------
    table : str
        The table: one of `TABLES`.
    folds : bool, default True
        Whether items are divided by KEEL's folds; False: as of any other data set.
    """

    name = "keel"
    summary = "23 tables of KEEL with its ten folds: --data-option table=iris, wine, ..."
    citation = (
        "J. Alcalá-Fdez, A. Fernández, J. Luengo, J. Derrac, S. García, L. Sánchez and F. Herrera. "
        "KEEL data-mining software tool: data set repository, integration of algorithms and "
        "experimental analysis framework. Journal of Multiple-Valued Logic and Soft Computing 17, "
        "2011"
    )
    licence = "not stated: the tables are their donors', most of them of the UCI repository"
    home = (
        "from TABLE-10-fold.zip of https://sci2s.ugr.es/keel, join the rows of TABLE-10-1tst.dat "
        "to TABLE-10-10tst.dat as $OASIS_BENCH_DATA/keel/TABLE.csv, label in the column class and "
        "1 to 10 in the column fold"
    )
    scaling = SCALES_COLUMNS

    def __init__(self, table: str, folds: bool = True) -> None:
        if table not in TABLES:
            raise UsageError(f"data set keel: {unknown_name('table', table, TABLES)}")
        self.table, self.folds = table, folds
        self._path = dataset_folder("keel") / f"{table}.csv"

    @property
    def title(self) -> str:
        """The data set and the table."""
        return f"{self.name} {self.table}"

    def location(self) -> str | None:
        """Return the path of the table, or None where the user must get it first."""
        return str(self._path) if self._path.is_file() else None

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the table, float64; `progress` is not called.

        Raises
        ------
        UsageError
            Where the file is missing or damaged.
        """
        if not self._path.is_file():
            raise UsageError(f"there is no {self._path}: {self.home}")
        if self.folds:
            return TableFile(self._path, "class", "fold").load()
        return TableFile(self._path, "class", drop="fold").load()
