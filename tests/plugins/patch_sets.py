"""An exemplar learner that takes patches: distances from feature to set, all weights 1."""

import numpy as np
from scipy.spatial.distance import cdist

from oasis_bench.plugins import ExemplarLearner


class SetDistance(ExemplarLearner):
    name, takes = "SetDistance", "patches"
    summary = "sum over the patches of a training picture of the distance to the nearest patch"
    citation = "Frome, Sha, Singer & Malik, ICCV 2007, equation 1 with weights 1"

    def __init__(self, power=1.0):
        self.power = power

    def fit(self, X, y=None):
        self.exemplars_ = X
        return self

    def similarity_to_training(self, queries):
        queries = self._check_items(queries)
        return -np.array(
            [[distance(mine, item, self.power) for mine in self.exemplars_] for item in queries]
        )


def distance(exemplar, item, power=1.0):
    nearest = [cdist(exemplar[kind], item[kind]).min(axis=1) for kind in exemplar]
    return sum((distances**power).sum() for distances in nearest)
