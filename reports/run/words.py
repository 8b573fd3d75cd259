"""What measures are, in words: for the reader of a report."""

from __future__ import annotations

from oasis_bench.runs import StoredRun

MEASURES = {
    "mAP": "Average precision is the mean, over the ranks of the relevant {items}, of the "
    "precision at that rank; mAP is its mean over queries.",
    "precision": "The share of relevant {items} among the first k. With R relevant {items} it "
    "cannot exceed R/k at a larger k.",
    "R-precision": "Precision at k = R, the number of relevant {items} of the query.",
    "MAP@R": "1/R times the sum, over the relevant {items} among the first R ranks, of "
    "the precision at that rank (Musgrave, Belongie and Lim 2020).",
    "recall": "The share of queries with one or more relevant {items} among the first k.",
    "nDCG": "The sum of 1/log₂(1 + rank) over the relevant {items}, over the largest possible.",
    "accuracy": "The share of test {items} whose class most of their k nearest training {items} "
    "have.",
    "accuracy by Frome's rule": "Accuracy where the class wins that is the first to be seen twice "
    "among the ten nearest training {items}, else the class of the nearest.",
    "mean recognition": "The mean over classes of the accuracy within the class.",
    "mean recognition by Frome's rule": "The mean over classes of the accuracy within the class, "
    "by that rule.",
    "similarity precision": "The share of judged triplets whose positive is more similar to the "
    "query than the negative; a tie counts a half.",
    "score at top K": "Over the triplets whose positive or negative is among the first k of the "
    "query's group: 1 where the positive comes first, else −1 (Wang et al. 2014, 6.3).",
    "agreement": "The mean over triplets of the share of the votes that the answer got.",
    "ceiling": "The largest agreement that any answers can have, as people differ.",
    "human level": "How well one person's judgements agree with those of the others.",
}
OF_TASK = {
    ("ratings", "precision"): "The mean share of raters that marked the first k candidates.",
}
"""Where a measure means something else in a task than in the others."""


def measure_words(run: StoredRun, task: str, measure: str) -> str | None:
    """Say what a measure of a task is; None for one of a plugin."""
    words = OF_TASK.get((task, measure), MEASURES.get(measure))
    return None if words is None else words.format(items=run.info.items)
