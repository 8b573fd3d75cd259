"""Tasks of one's own that fail: while scores come, or when their measures are taken."""

import numpy as np

from oasis_bench.tasks import Evaluation, Task


class Fails(Evaluation):
    def __init__(self, task, n_items):
        super().__init__(n_items, task.measures)
        self.task, self.n_queries = task, n_items

    def judge(self, start, scores):
        if self.task.name == "fails-at-scores":
            raise ZeroDivisionError("no such scores")

    def values(self, measure):
        if self.task.name == "fails-at-the-end":
            raise LookupError("no such measure")
        return {None: np.float64(0)}

    def chances(self, measure):
        return {}


class FailsAtScores(Task):
    name = "fails-at-scores"
    summary = citation = "none"
    split = "seen-classes"
    gallery = "test"
    measures = ("nothing",)

    def refusal(self, rows):
        return None

    def evaluation(self, truth, ties, measures=None):
        return Fails(self, len(truth.y))


class FailsAtTheEnd(FailsAtScores):
    name = "fails-at-the-end"
