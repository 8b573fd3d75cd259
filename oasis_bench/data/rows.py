"""The content of a data set: rows, their labels and the names of the classes.

Also people's judgements of items: triplets, and candidates marked as relevant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from oasis_bench.data.cells import is_missing
from oasis_bench.data.matrices import canonical, check_array, is_sparse
from oasis_bench.data.pictures import Patches, check_pixels, thumbnail
from oasis_bench.data.schema import Encoding, Schema
from oasis_bench.system import UsageError, spelled

Rows: TypeAlias = "npt.NDArray[np.floating] | sparse.csr_array"
Labels: TypeAlias = "npt.NDArray[np.int64] | sparse.csr_array"

Pixels: TypeAlias = "npt.NDArray[np.uint8]"


def checked_labels(y: Any, n_items: int | None = None) -> Any:
    """Return class labels as `class_labels` does, or relevance (n_items, n_labels) as CSR."""
    if not is_sparse(y):
        return class_labels(y, n_items, "; where items have several labels, sparse.csr_array(y)")
    return _one_for_each(sparse.csr_array(canonical(y)), n_items)


def class_labels(y: Any, n_items: int | None = None, hint: str = "") -> Any:
    """Return class labels (n_items,) as an array; raise UsageError as `checked_labels` does."""
    from sklearn.utils import assert_all_finite, column_or_1d  # here: it is slow to import

    if is_sparse(y):
        raise UsageError("y has several labels an item (it is sparse): one class each is needed")
    # As an array of texts, a list of texts and NaN would have the text 'nan'.
    given = y if isinstance(y, np.ndarray) else np.asarray(y, dtype=object)
    if given.ndim not in (1, 2) or (given.ndim == 2 and given.shape[1] != 1):
        raise UsageError(
            f"y of shape {given.shape}: one label for each item, (n_items,), is needed{hint}"
        )
    if missing := int(_is_missing(given).sum()):
        raise UsageError(
            f"Input y contains NaN: {missing} {'label is' if missing == 1 else 'labels are'} "
            "missing (NaN, None, NA or NaT): fill them in or leave those rows out"
        )
    labels = column_or_1d(y, warn=True)
    assert_all_finite(labels, input_name="y")
    return _one_for_each(np.asarray(labels), n_items)


def _one_for_each(labels: Any, n_items: int | None) -> Any:
    if n_items is not None and labels.shape[0] != n_items:
        raise UsageError(f"{n_items} rows but {labels.shape[0]} labels: one each is needed")
    return labels


def _is_missing(values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    plain: Any = np.asarray(values)
    if plain.dtype.kind == "O":
        found = [is_missing(one) for one in plain.ravel()]
        missing = np.array(found, dtype=np.bool_).reshape(plain.shape)
    else:
        missing = plain != plain  # NaN and NaT alone differ
    return np.asarray(missing | np.ma.getmaskarray(values), dtype=np.bool_)


Items = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class JudgedTriplets:
    """Triplets that people judged: which of two items is more similar to a query.

    Parameters
    ----------
    items : ndarray of shape (n_triplets, 3), int64
        Item numbers: the query (or reference), the item judged more similar to it (or a), and the
        other item (or b).  The three are different.
    votes : ndarray of shape (n_triplets, 2), int64, optional
        How many people voted for a and for b; at least one in each triplet.  None: all raters
        chose the first.
    groups : ndarray of shape (n_triplets,), int64
        The text query or the reference of each triplet.  Triplets of one group share items, so a
        split keeps them together.

    Raises
    ------
    UsageError
        Where an array breaks one of these rules.
    """

    items: Items
    votes: npt.NDArray[np.int64] | None
    groups: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        check_array("items of judged triplets", self.items, np.int64, None, 3)
        n_triplets = len(self.items)
        check_array("groups of judged triplets", self.groups, np.int64, n_triplets)
        first, second, third = self.items.T
        same = (first == second) | (first == third) | (second == third)
        if same.any():
            number = int(same.argmax())
            raise UsageError(
                f"judged triplet {number} has an item twice: {self.items[number].tolist()}"
            )
        if self.votes is not None:
            check_array("votes of judged triplets", self.votes, np.int64, n_triplets, 2)
            empty = self.votes.sum(axis=1) == 0
            if empty.any():
                raise UsageError(f"judged triplet {int(empty.argmax())} has no vote: leave it out")

    def part(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """Return the triplets selected by a mask (n_triplets,)."""
        votes = None if self.votes is None else self.votes[chosen]
        return type(self)(self.items[chosen], votes, self.groups[chosen])

    def among(self, items: npt.NDArray[np.integer]) -> Self:
        """Return the triplets with all their items in `items`, renumbered.

        An item's new number is its place in `items`, which are different item numbers.
        """
        place = _places(items, self.items)
        known = np.asarray((place >= 0).all(axis=1))
        return replace(self.part(known), items=place[known])

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """Iterate over the existing arrays, in order, for a hash of the content."""
        return (part for part in (self.items, self.votes, self.groups) if part is not None)


@dataclass(frozen=True, eq=False)
class Ratings:
    """Candidates of queries, each marked by several people as relevant or not (JMLR 2010, 5.2.3).

    Parameters
    ----------
    queries, candidates : ndarray of shape (n_marked,), int64
        Item numbers; a candidate is not its own query, and no pair comes twice.
    marks : ndarray of shape (n_marked, n_raters), bool
        Whether each rater marked the candidate as relevant to the query.
    names : ndarray of shape (n_marked,), int64, optional
        The numbers of the queries before `among` renumbered them.

    Raises
    ------
    UsageError
        Where an array breaks one of these rules.
    """

    queries: Items
    candidates: Items
    marks: npt.NDArray[np.bool_]
    names: Items | None = None

    def __post_init__(self) -> None:
        n_marked = len(self.queries)
        check_array("queries of ratings", self.queries, np.int64, None)
        check_array("candidates of ratings", self.candidates, np.int64, n_marked)
        check_array("marks of ratings", self.marks, np.bool_, n_marked, None)
        if not self.marks.shape[1]:
            raise UsageError("marks of ratings of no rater: at least one is needed")
        if (own := self.queries == self.candidates).any():
            raise UsageError(f"item {self.queries[int(own.argmax())]} is a candidate of itself")
        different, counts = np.unique(self.items, axis=0, return_counts=True)
        if len(different) < len(self.queries):
            query, candidate = different[int(counts.argmax())]
            raise UsageError(
                f"candidate {candidate} of query {query} is rated {counts.max()} times"
            )

    @property
    def items(self) -> Items:
        """The query and the candidate of each row (n_marked, 2)."""
        return np.stack([self.queries, self.candidates], axis=1)

    @property
    def groups(self) -> Items:
        """The original number of each query; a split keeps a query together."""
        return self.queries if self.names is None else self.names

    def part(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """Return the ratings selected by a mask (n_marked,)."""
        names = self.groups[chosen]
        return type(self)(self.queries[chosen], self.candidates[chosen], self.marks[chosen], names)

    def among(self, items: npt.NDArray[np.integer]) -> Self:
        """Return the ratings with query and candidate in `items`, renumbered.

        An item's new number is its place in `items`, which are different item numbers.
        """
        queries, candidates = _places(items, self.queries), _places(items, self.candidates)
        known = (queries >= 0) & (candidates >= 0)
        names = self.groups[known]
        return type(self)(queries[known], candidates[known], self.marks[known], names)

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """Iterate over the arrays, in order, for a hash of the content."""
        return iter((self.queries, self.candidates, self.marks))

    def joined(self, n_items: int) -> npt.NDArray[np.int64]:
        """Return the group of each of `n_items` items: pairs connect items to groups."""
        from scipy.sparse.csgraph import connected_components  # here: it is slow to import

        graph = sparse.coo_array((np.ones(len(self.queries)), self.items.T), (n_items, n_items))
        return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


Judgements = JudgedTriplets | Ratings


def check_item_numbers(judgements: Judgements, n_items: int) -> None:
    """Raise UsageError if judgements name an item outside of 0 to `n_items` - 1."""
    what = "judged triplets" if isinstance(judgements, JudgedTriplets) else "ratings"
    numbers = judgements.items
    if not len(numbers):
        raise UsageError(f"there are no {what}: leave them out or give at least one")
    if numbers.max() >= n_items:
        raise UsageError(f"{what} name item {numbers.max()}: 0 to {n_items - 1} is needed")


def _places(items: npt.NDArray[np.integer], numbers: Items) -> Items:
    """Return the place of each number among the items, or -1."""
    place = np.full(int(max(items.max(initial=-1), numbers.max(initial=-1))) + 1, -1, np.int64)
    place[items] = np.arange(len(items))
    return np.asarray(place[numbers])


@dataclass(frozen=True, eq=False)
class LabelledRows:
    """The content of a data set.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_rows, n_features)
        float32 or float64, finite; with an `encoding`, NaN means a missing value.
    y : ndarray of shape (n_rows,), int64, or csr_array of shape (n_rows, n_queries)
        The number of each row's class, an index into `class_names`; or, with several labels,
        how relevant each row is to each query (JMLR 2010, 5.2.1: R_QI, here items x queries).
    class_names : tuple of str
        The names of the classes, or of the queries; at least two, each with at least one row.
    images : tuple of Path, optional
        The picture behind each row.
    left_out : tuple of str, default ()
        Lines on left-out parts of the data set, with reasons.
    remarks : tuple of str, default ()
        Lines for the user on the data, before a run; they decide nothing.
    judged : JudgedTriplets, optional
        Triplets of rows that people judged.
    ratings : Ratings, optional
        Rows that people marked as relevant to a row.
    pixels : ndarray of shape (n_rows, height, width, 3), uint8, optional
        The picture of each row in red, green and blue.
    patches : Patches, optional
        The local descriptors of the picture of each row.
    folds : ndarray of shape (n_rows,), int64, optional
        The fold of each row, from 0 without a gap, at least two folds: the published partitions of
        the data set.  Each fold tests once, and the other rows train.
    groups : ndarray of shape (n_rows,), int64, optional
        The group of each row, from 0 without a gap, at least two groups: rows that are alike for
        another reason than their class, such as calls in one recording.  No group trains and tests,
        and a query's own group is not ranked.  With folds, a group is in one fold.
    encoding : tuple of tuples of str, optional
        The kind of each column of a table, and the meaning of its codes.  `Prepare` prepares such
        rows with statistics of the training rows.
    schema : Schema, optional
        The schema of the table, for models and their later rows; it names the features.

    Raises
    ------
    UsageError
        If the rows break one of these rules.
    """

    KINDS: ClassVar = ("rows", "pixels", "patches", Patches.AND_PIXELS)
    """The kinds of items for learners: rows of X, pictures, local descriptors, or the last two."""

    X: Rows
    y: Labels
    class_names: tuple[str, ...]
    images: tuple[Path, ...] | None = None
    left_out: tuple[str, ...] = ()
    judged: JudgedTriplets | None = None
    ratings: Ratings | None = None
    pixels: Pixels | None = None
    patches: Patches | None = None
    folds: npt.NDArray[np.int64] | None = None
    remarks: tuple[str, ...] = ()
    encoding: Encoding | None = None
    schema: Schema | None = None
    groups: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        for name in ("X", "y"):
            object.__setattr__(self, name, canonical(getattr(self, name)))
        n_classes = len(self.class_names)
        if self.X.dtype not in (np.float32, np.float64):
            raise UsageError(f"rows of type {self.X.dtype}: float32 or float64 is needed")
        _one_for_each(self.y, self.X.shape[0])
        if n_classes < 2:
            raise UsageError(
                f"only {n_classes} class ({', '.join(map(repr, self.class_names)) or 'none'}): at "
                "least 2 are needed, to be compared"
            )
        if isinstance(self.y, sparse.csr_array):
            if self.y.shape[1] != n_classes or self.y.data.min(initial=0) < 0:
                raise UsageError(
                    f"relevance of shape {self.y.shape} for {n_classes} queries, least value "
                    f"{self.y.data.min(initial=0)}: one column a query, none negative, is needed"
                )
        elif self.y.dtype.kind not in "iu":
            raise UsageError(f"labels of type {self.y.dtype}: int64 class numbers are needed")
        elif self.y.min() < 0 or self.y.max() >= n_classes:
            held = f"{self.y.min()} to {self.y.max()}"
            raise UsageError(f"class numbers from {held} for {n_classes} class names")
        if self.images is not None and len(self.images) != self.X.shape[0]:
            raise UsageError(f"{len(self.images)} images for {self.X.shape[0]} rows: one each")
        if not (counts := self.class_counts()).all():
            raise UsageError(
                f"class {self.class_names[int(counts.argmin())]!r} has no row: leave its name out"
            )
        values = self.X.data if sparse.issparse(self.X) else self.X
        lost = np.isinf(values) if self.encoding is not None else ~np.isfinite(values)
        if lost.any():
            raise UsageError(f"{np.count_nonzero(lost)} values are NaN or infinite: fill them in")
        for judgements in (self.judged, self.ratings):
            if judgements is not None:
                check_item_numbers(judgements, self.X.shape[0])
        for name in ("folds", "groups"):
            if (numbers := getattr(self, name)) is not None:
                _check_numbers(name, numbers, self.X.shape[0])
        if self.folds is not None and self.groups is not None:
            group = np.unique([self.groups, self.folds], axis=1)[0]
            if len(crossing := group[1:][np.diff(group) == 0]):
                row = int((self.groups == crossing[0]).argmax()) + 1
                out = f"leave out {spelled('fold_column')} or {spelled('group')}"
                raise UsageError(f"the group of row {row} is in several folds, which test: {out}")
        for kind in ("pixels", "patches"):
            if (items := getattr(self, kind)) is not None:
                check_items(kind, items)
                if items.shape[0] != self.X.shape[0]:
                    raise UsageError(
                        f"{kind} of {items.shape[0]} pictures for {self.X.shape[0]} rows: one each"
                    )

    @property
    def multi_label(self) -> bool:
        """Whether rows are relevant to queries instead of being of one class each."""
        return isinstance(self.y, sparse.csr_array)

    def items(self, kind: str, features: str | None = None) -> Any:
        """Return the items as a learner takes them.

        Parameters
        ----------
        kind : {'rows', 'pixels', 'patches', 'patches+pixels'}
            The last returns `Patches` with pixels.
        features : str, optional
            Kinds of features joined by +, if rows have several kinds: return rows, or patches, of
            these only.

        Raises
        ------
        UsageError
            If the data set does not have them.
        """
        rows = self.X if self.X.shape[1] else None
        given = {"rows": rows, "pixels": self.pixels, "patches": self.patches}
        given = {name: items for name, items in given.items() if items is not None}
        if self.patches is not None and self.pixels is not None:
            given[Patches.AND_PIXELS] = Patches(self.patches.kinds, self.pixels)
        if kind not in given:
            raise UsageError(f"the data set gives {' and '.join(given)}, not {kind}")
        if features is None:
            return given[kind]
        if self.patches is None or kind == "pixels":
            raise UsageError(
                f"features = {features}: the data set has no kinds of features to choose from, or "
                f"the learner takes pixels: ask for them, such as {spelled('features', 'lab+hog')}"
            )
        chosen = self.patches.of_kinds(features)
        if kind == "rows":
            return chosen.as_rows()
        return Patches(chosen.kinds, self.pixels if kind == Patches.AND_PIXELS else None)

    @property
    def n_folds(self) -> int:
        """The number of folds; 0 if the data set has none."""
        return 0 if self.folds is None else int(self.folds.max()) + 1

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The name of each feature, if they have names."""
        return None if self.schema is None else self.schema.names

    def read_as(self, schema: Schema | None) -> Self:
        """Return rows of numbers as a model reads them: columns by name, or else by place."""
        if schema is not None:
            schema.refuse_other_texts("" if self.schema is None else self.schema.texts)
        if schema is None or schema.columns is None or schema == self.schema:
            return self
        if any(len(column) > 1 for column in self.encoding or ()):
            raise UsageError(
                "these rows have categories that the model has coded otherwise: give a table"
            )
        X: Any = self.X
        if self.columns is not None:
            import pandas as pd  # here: a trial needs none

            X = pd.DataFrame(X, columns=list(self.columns))
        return replace(self, X=schema.rows_of(X), encoding=schema.coding, schema=schema)

    def prepared(self) -> Rows:
        """Return the rows, prepared with statistics of all rows if they have an encoding."""
        if self.encoding is None:
            return self.X
        from oasis_bench.data.preparing import Prepare  # here: it is slow to import

        prepared: Rows = Prepare(self.encoding).fit_transform(self.X)
        return prepared

    def caption(self, row: int) -> str:
        """Return the name of a row's class, or of the queries that the row is relevant to."""
        if isinstance(self.y, sparse.csr_array):
            numbers = self.y.indices[self.y.indptr[row] : self.y.indptr[row + 1]]
        else:
            numbers = np.atleast_1d(self.y[row])
        return ", ".join(self.class_names[number] for number in numbers)

    def thumbnail(self, row: int) -> bytes | None:
        """Return the picture of a row as a small JPEG, or None if it cannot be read."""
        return None if self.images is None else thumbnail(self.images[row])

    def class_counts(self) -> npt.NDArray[np.int64]:
        """Count the rows of each class or query, in the order of `class_names`."""
        if isinstance(self.y, sparse.csr_array):
            return np.asarray((self.y > 0).sum(axis=0)).astype(np.int64)
        return np.bincount(self.y, minlength=len(self.class_names)).astype(np.int64)

    @cached_property
    def secret(self) -> str:
        """Hash the content with a salt, for random orders that no file of a run reveals."""
        return self.content_hash("secret")

    def content_hash(self, salt: str = "") -> str:
        """Hash all but paths, remarks and names (SHA-256), for the identity of trials."""
        coded = "" if self.encoding is None else repr(self.encoding)
        digest = hashlib.sha256(f"{salt}{self.class_names!r}{coded}".encode())
        arrays = [*_parts(self.X), *_parts(self.y)]
        for part in (self.judged, self.ratings, self.patches):
            arrays += [] if part is None else part.arrays()
        digest.update(b"groups" * (self.groups is not None))  # not the same numbers as folds
        others = self.pixels, self.folds, self.groups
        arrays += [part for part in others if part is not None]
        for array in arrays:
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def check_items(kind: str, items: Any) -> None:
    """Raise UsageError if items are not valid pixels or patches for rows."""
    if kind == "pixels":
        check_pixels(items)
    elif not isinstance(items, Patches):
        raise UsageError(f"patches are a {type(items).__name__}: a Patches is needed")
    elif kind == Patches.AND_PIXELS and items.pixels is None:
        raise UsageError("these patches are without pixels: give Patches(kinds, pixels)")
    elif kind == "patches" and items.pixels is not None:
        raise UsageError("these patches hold pixels: give Patches(kinds)")


def _check_numbers(what: str, given: npt.NDArray[np.int64], n_rows: int) -> None:
    check_array(what, given, np.int64, n_rows)
    numbers = np.unique(given)
    if len(numbers) < 2 or not np.array_equal(numbers, np.arange(len(numbers))):
        raise UsageError(
            f"{what} {numbers[:8].tolist()}: 2 or more, from 0 without a gap, are needed"
        )


def _parts(array: npt.NDArray[Any] | sparse.csr_array) -> tuple[npt.NDArray[Any], ...]:
    """Return the arrays of the content; indices are converted to int64."""
    if isinstance(array, sparse.csr_array):
        indices, indptr = (part.astype(np.int64) for part in (array.indices, array.indptr))
        return array.data, indices, indptr, np.array(array.shape)
    return (array,)
