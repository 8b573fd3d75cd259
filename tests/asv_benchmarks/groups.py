"""Rows in groups: how long a partition takes to draw, and a ranking that leaves groups out."""

from types import SimpleNamespace

import numpy as np

from oasis_bench.data import LabelledRows
from oasis_bench.plugins import Registry
from oasis_bench.tasks import Retrieval, Truth


class Groups:
    """20 000 rows of 100 classes in 2000 groups, each in one class; and 2000 rows to rank."""

    params = ("seen-classes", "stratified", "unseen-classes")
    param_names = ("split",)

    def setup(self, name):
        rng = np.random.default_rng(0)
        groups = rng.permutation(20_000) % 2000
        y = groups % 100
        names = tuple(map(str, range(100)))
        self.rows = LabelledRows(rng.random((20_000, 2)), y, names, groups=groups)
        settings = SimpleNamespace(per_class=(80, 80), test_share=0.5, most_items=1000, seed=0)
        self.split = Registry.load().splits[name](settings).for_rows(self.rows)
        self.numbers, self.scores = np.arange(2000), rng.random((2000, 2000))
        self.truth = Truth(y=y[:2000], groups=groups[:2000] % 200)

    def time_a_partition(self, name):
        self.split.draw(self.rows, range(100), 0, 0)

    def time_inner_folds(self, name):
        self.split.inner_folds(self.rows.y, None, 3, 0)

    def time_ranking_without_the_own_group(self, name):
        Retrieval().evaluate(self.truth, self.look_up, self.numbers, 0).measurements()

    def look_up(self, queries, gallery):
        return self.scores[np.ix_(queries, gallery)]
