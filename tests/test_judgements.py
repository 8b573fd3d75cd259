"""What people judged: what is refused, and the part that is left among some of the items."""

import numpy as np
import pytest

from oasis_bench.data import JudgedTriplets, LabelledRows, Ratings
from oasis_bench.system import UsageError

ITEMS = np.array([[0, 1, 2], [0, 2, 3], [4, 3, 1]])
VOTES = np.array([[3, 1], [0, 2], [1, 1]])
GROUPS = np.array([7, 7, 9])
MARKS = np.array([[True, False], [True, True], [False, False]])


def triplets(items=ITEMS, votes=VOTES, groups=GROUPS):
    return JudgedTriplets(items, votes, groups)


def ratings(queries=(0, 0, 2), candidates=(1, 2, 0), marks=MARKS):
    return Ratings(np.array(queries), np.array(candidates), marks)


def test_what_is_among_some_items_is_renumbered_to_their_places():
    part = triplets().among(np.array([3, 0, 2, 1]))
    assert part.items.tolist() == [[1, 3, 2], [1, 2, 0]]
    assert part.votes is not None
    assert part.votes.tolist() == [[3, 1], [0, 2]]
    assert part.groups.tolist() == [7, 7]
    rated = ratings().among(np.array([2, 0]))
    assert (rated.queries.tolist(), rated.candidates.tolist()) == ([1, 0], [0, 1])
    assert rated.marks.tolist() == [[True, True], [False, False]]
    assert len(triplets().among(np.array([5, 9])).items) == 0


def test_rows_hold_judgements_of_their_own_items_only():
    X, y = np.eye(5), np.array([0, 0, 1, 1, 1])
    plain, judged, rated = (
        LabelledRows(X, y, ("a", "b"), **more)
        for more in ({}, {"judged": triplets()}, {"ratings": ratings()})
    )
    assert len({rows.content_hash() for rows in (plain, judged, rated)}) == 3
    other_votes = LabelledRows(X, y, ("a", "b"), judged=triplets(votes=VOTES[::-1].copy()))
    assert other_votes.content_hash() != judged.content_hash()
    with pytest.raises(UsageError, match="judged triplets name item 4: 0 to 3 is needed"):
        LabelledRows(X[:4], y[:4], ("a", "b"), judged=triplets())
    with pytest.raises(UsageError, match="there are no ratings"):
        LabelledRows(X, y, ("a", "b"), ratings=Ratings(ITEMS[:0, 0], ITEMS[:0, 0], MARKS[:0]))
