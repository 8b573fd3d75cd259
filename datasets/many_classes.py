"""Tables and short texts of 7 to 242 classes, for retrieval among unseen classes.

`many_classes.toml` lists them.
"""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from oasis_bench.data import LabelledRows, Rows, Scaling
from oasis_bench.datasets.files import broken, dataset_folder
from oasis_bench.datasets.table_file import NamedTable
from oasis_bench.datasets.texts import WORDS, TextFeatures
from oasis_bench.plugins import Fields
from oasis_bench.system import Progress, UsageError, no_progress, spelled

FEWEST_ROWS = 8
"""A class of fewer rows is left out."""


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a table, or each of several `tables`, is from, and what its columns are."""

    file: str
    label: str
    source: str
    citation: str
    licence: str = "not stated"
    group: str | None = None
    block: int | None = None
    folds: str | None = None
    others: tuple[str, ...] = ()
    scaling: str | None = None
    tables: tuple[str, ...] = ()

    @property
    def no_features(self) -> list[str]:
        """The columns that are no features, without the label."""
        return [*self.others, *filter(None, [self.group, self.folds])]


def _sources() -> dict[str, Source]:
    text = Path(__file__).with_name("many_classes.toml").read_text("utf-8")
    found = msgspec.convert(tomllib.loads(text), dict[str, Source])
    return {table: one for name, one in found.items() for table in one.tables or (name,)}


SOURCES = _sources()


class ManyClasses(Fields, NamedTable):
    """A table or short texts of many classes: series, leaves, digits, scenes, frog calls, intents.

    Of equal rows only the first one stays, and classes of fewer than eight rows are left out.  A
    text is its counts of words of two letters or more, or its embedding; texts of the same words
    are equal rows in both cases.  Recordings, drawers, and blocks of poses of an object are groups;
    parts by other writers are folds.

    Parameters
    ----------
    table : str
        The name of the table, one of `SOURCES`.
    features : str, default 'words'
        The features of a text: 'words', 'all-minilm-l6-v2' (embeddings of a sentence network), or
        'sentence-transformers:FOLDER' (embeddings of a network in a folder of the user's).
    """

    name = "many-classes"
    summary = (
        "21 tables and texts of 7 to 242 classes, for unseen classes: --data-option table=NAME"
    )
    citation = "for each table its own"
    licence = "for each table its own; most are not stated"
    home = (
        "put the CSV file of the table into $OASIS_BENCH_DATA; data describe many-classes "
        "--data-option table=NAME says which"
    )
    scaling = Scaling.OF_COLUMNS

    table: str
    features: str = WORDS

    def __post_init__(self) -> None:
        self._refuse_unknown(SOURCES)
        self._source = source = SOURCES[self.table]
        self._texts = TextFeatures(self.features)
        if self.features != WORDS and source.scaling != "tfidf":
            raise UsageError(f"{super().title} has no texts: leave out {spelled('features')}")
        folder, file = source.file.format(table=self.table).split("/")
        self._path = dataset_folder(folder) / file
        columns = " and ".join([source.label, *source.no_features])
        vars(self).update(  # of this table, not of the class
            citation=source.citation,
            licence=source.licence,
            home=(
                f"make $OASIS_BENCH_DATA/{folder}/{file} of {source.source}: a CSV file with a "
                f"line of names, the features, and {columns}; it is not downloaded for you"
            ),
        )

    @property
    def title(self) -> str:
        """The data set, the table, and the features if they are not words."""
        return f"{super().title} {self._texts.name}".removesuffix(f" {WORDS}")

    def default_scaling(self, rows: LabelledRows) -> str | tuple[str, ...]:
        """Return the scaling of this table, 'l2' for embeddings."""
        return "l2" if self.features != WORDS else self._source.scaling or self.scaling

    def load(self, progress: Progress = no_progress) -> LabelledRows:
        """Read the table, float64, or the texts: counts, float32 in CSR, or embeddings.

        Raises
        ------
        UsageError
            If the file is missing or damaged, or its texts cannot be embedded.
        """
        import pandas as pd  # a trial does without

        self._refuse_missing()
        with broken(f"{self._path}", "replace it"):
            cells = pd.read_csv(self._path, keep_default_na=False)
            labels = cells.pop(self._source.label)
            features = cells.drop(columns=self._source.no_features)
            is_text = "text" in features
            counting = CountVectorizer(dtype=np.float32)
            if is_text:
                words_of = counting.build_analyzer()
                features["text"] = [" ".join(sorted(words_of(it))) for it in features["text"]]
            is_new = ~features.duplicated()
            sizes = labels[is_new].value_counts()
            small = sizes.index[sizes < FEWEST_ROWS]
            is_kept = is_new & ~labels.isin(small)
            kept = features[is_kept]
            if is_text:
                X: Rows = sparse.csr_array(counting.fit_transform(kept["text"]))
            else:
                X = kept.to_numpy(np.float64)
            names, y = np.unique(labels[is_kept].to_numpy(), return_inverse=True)
            folds, groups = self._source.folds, self._source.group
            of_group = None if groups is None else cells[groups][is_kept]
            if of_group is not None and self._source.block is not None:
                of_group = of_group // self._source.block + y * len(cells)
            left_out = {
                "rows that equal an earlier row": int((~is_new).sum()),
                f"classes of fewer than {FEWEST_ROWS} rows": len(small),
            }
            rows = LabelledRows(
                X,
                y.astype(np.int64),
                tuple(map(str, names)),
                folds=None if folds is None else pd.factorize(cells[folds][is_kept], sort=True)[0],
                groups=None if of_group is None else pd.factorize(of_group, sort=True)[0],
                left_out=tuple(f"{n} {what}" for what, n in left_out.items() if n),
            )
        if self.features == WORDS:
            return rows
        X, schema = self._texts.rows(cells["text"][is_kept].tolist(), "text", progress)
        return replace(rows, X=X, schema=schema, remarks=(f"features: {schema.texts}",))
