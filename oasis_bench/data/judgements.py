"""What people said of items: triplets that they judged, and candidates that they marked.

Not for reading files: each data set does that in its own module.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from oasis_bench.system import UsageError

Items = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class JudgedTriplets:
    """Triplets that people judged: which of two items is more similar to a query.

    Parameters
    ----------
    items : ndarray of shape (n_triplets, 3), int64
        Item numbers: the query (or reference), the item judged more similar to it (or a), the
        other (or b).  The three are different.
    votes : ndarray of shape (n_triplets, 2), int64, optional
        How many people voted for a and for b; at least one in each triplet.  None: all who were
        asked chose the first.
    groups : ndarray of shape (n_triplets,), int64
        The text query or the reference that a triplet belongs to.  Triplets of one group share
        items, so that a split never parts them.

    Raises
    ------
    UsageError
        Where an array breaks one of these rules.
    """

    items: Items
    votes: npt.NDArray[np.int64] | None
    groups: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        _check_integers("items of judged triplets", self.items, (None, 3))
        n_triplets = len(self.items)
        _check_integers("groups of judged triplets", self.groups, (n_triplets,))
        first, second, third = self.items.T
        same = (first == second) | (first == third) | (second == third)
        if same.any():
            number = int(same.argmax())
            raise UsageError(
                f"judged triplet {number} has items {self.items[number].tolist()}: three "
                "different ones are needed"
            )
        if self.votes is not None:
            _check_integers("votes of judged triplets", self.votes, (n_triplets, 2))
            empty = self.votes.sum(axis=1) == 0
            if empty.any():
                raise UsageError(f"judged triplet {int(empty.argmax())} has no vote: leave it out")

    def part(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """Return the triplets that a mask (n_triplets,) chooses."""
        votes = None if self.votes is None else self.votes[chosen]
        return type(self)(self.items[chosen], votes, self.groups[chosen])

    def among(self, items: npt.NDArray[np.integer]) -> Self:
        """Return the triplets whose items are all among those given, renumbered.

        An item's new number is its place in `items`, which are different item numbers.
        """
        place = _places(items, self.items)
        known = (place >= 0).all(axis=1)
        votes = None if self.votes is None else self.votes[known]
        return type(self)(place[known], votes, self.groups[known])

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """Go over the arrays that are there, in order: what a hash of the content reads."""
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
        _check_integers("queries of ratings", self.queries, (None,))
        _check_integers("candidates of ratings", self.candidates, (len(self.queries),))
        if self.marks.dtype != np.bool_ or self.marks.ndim != 2 or not self.marks.shape[1]:
            raise UsageError(
                f"marks of shape {self.marks.shape} and type {self.marks.dtype}: bool, a row a "
                "candidate and a column a rater, at least one, are needed"
            )
        if len(self.marks) != len(self.queries):
            raise UsageError(f"{len(self.marks)} rows of marks for {len(self.queries)} candidates")
        if (own := self.queries == self.candidates).any():
            raise UsageError(
                f"item {self.queries[int(own.argmax())]} is rated as a candidate of itself: leave "
                "it out"
            )
        different, counts = np.unique(self.items, axis=0, return_counts=True)
        if len(different) < len(self.queries):
            query, candidate = different[int(counts.argmax())]
            raise UsageError(
                f"candidate {candidate} of query {query} is rated {counts.max()} times: one row of "
                "marks each is needed"
            )

    @property
    def items(self) -> Items:
        """The query and the candidate of each row (n_marked, 2)."""
        return np.stack([self.queries, self.candidates], axis=1)

    @property
    def groups(self) -> Items:
        """The query, by its first number: what a split keeps together."""
        return self.queries if self.names is None else self.names

    def part(self, chosen: npt.NDArray[np.bool_]) -> Self:
        """Return the ratings that a mask (n_marked,) chooses."""
        names = self.groups[chosen]
        return type(self)(self.queries[chosen], self.candidates[chosen], self.marks[chosen], names)

    def among(self, items: npt.NDArray[np.integer]) -> Self:
        """Return the ratings whose query and candidate are among the items given, renumbered.

        An item's new number is its place in `items`, which are different item numbers.
        """
        queries, candidates = _places(items, self.queries), _places(items, self.candidates)
        known = (queries >= 0) & (candidates >= 0)
        names = self.groups[known]
        return type(self)(queries[known], candidates[known], self.marks[known], names)

    def arrays(self) -> Iterator[npt.NDArray[Any]]:
        """Go over the arrays, in order: what a hash of the content reads."""
        return iter((self.queries, self.candidates, self.marks))


Judgements = JudgedTriplets | Ratings


def check_item_numbers(judgements: Judgements, n_items: int) -> None:
    """Raise UsageError where judgements name an item that is not 0 to `n_items` - 1."""
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


def _check_integers(what: str, array: Any, shape: tuple[int | None, ...]) -> None:
    fits = array.ndim == len(shape) and all(
        wanted in (None, size) for size, wanted in zip(array.shape, shape, strict=True)
    )
    if array.dtype != np.int64 or not fits:
        wanted = ", ".join("n" if size is None else str(size) for size in shape)
        raise UsageError(
            f"{what} of shape {array.shape} and type {array.dtype}: int64 of shape ({wanted}) is "
            "needed"
        )
    if array.size and array.min() < 0:
        raise UsageError(f"{what}: least number {array.min()}, but none may be negative")
