"""A split in a file of one's own: each third row tests."""

import numpy as np

from oasis_bench.tasks import Partition, Split


class EveryThird(Split):
    name = "every-third"
    summary = "each third row tests"
    citation = "none"
    in_place_of = ("seen-classes",)
    no_sizes = "has its third rows tested"
    unread = ("test_share", "most_items")

    def sizes(self, rows, classes, partition):
        part = self.draw(rows, classes, partition, 0)
        return len(part.train), len(part.test)

    def draw(self, rows, classes, partition, seed):
        own = np.flatnonzero(np.isin(rows.y, classes))
        return Partition(own[np.arange(len(own)) % 3 > 0], own[::3])

    def inner_folds(self, y, judgements, n_folds, seed):
        places = np.arange(len(y))
        return [Partition(places[places % 2 != k], places[places % 2 == k]) for k in range(2)]
