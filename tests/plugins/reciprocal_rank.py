"""A task of one's own: the mean of 1 / rank of the first item of the query's class."""

import numpy as np

from oasis_bench.tasks import Evaluation, Task, rank_others


class FirstRanks(Evaluation):
    def __init__(self, y, ties):
        super().__init__(len(y), ReciprocalRank.measures)
        self.y, self.ties, self.n_queries = y, ties, len(y)
        self.reciprocals = np.zeros(len(y))

    def judge(self, start, scores):
        queries = np.arange(start, start + len(scores))
        found = self.y[rank_others(scores, queries, self.ties)] == self.y[queries, None]
        self.reciprocals[queries] = 1 / (1 + found.argmax(axis=1))

    def values(self, measure):
        return {None: self.reciprocals.mean()}

    def chances(self, measure):
        return {}


class ReciprocalRank(Task):
    name = "reciprocal-rank"
    summary = "how early is the first item of the query's class?"
    citation = "Voorhees (1999), The TREC-8 Question Answering Track Report"
    split = "seen-classes"
    gallery = "test"
    measures = ("reciprocal rank",)

    def refusal(self, rows):
        return "its rows have several labels" if rows.multi_label else None

    def evaluation(self, truth, ties, measures=None):
        return FirstRanks(truth.y, ties)
