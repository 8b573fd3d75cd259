"""The tasks of what people judged: triplets of items, and the marks of several raters.

Their splits go by text query, reference or rated query, never by triplet.  Groups of judgements
share items, so that single judgements cannot be split.  Each group tests once, in one of several
folds, so that no judgement counts twice.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from oasis_bench.data import JudgedTriplets, Judgements, LabelledRows, Labels, Ratings
from oasis_bench.system import UsageError, derive_seed
from oasis_bench.tasks.ranking import Numbers, Scores, places, refuse_nan
from oasis_bench.tasks.split import Classes, Partition, Split
from oasis_bench.tasks.task import Evaluation, Task, Truth

TOP_KS = (30, 3)
"""30 is the paper's, of 1000 pictures a text query; the data sets here have about 11."""

PRECISION, AT_TOP_K = "similarity precision", "score at top K"
AGREEMENT, CEILING, HUMAN = "agreement", "ceiling", "human level"
OF_TRIPLETS = (PRECISION, AGREEMENT)
"""The measures that are means over triplets."""

Floats = npt.NDArray[np.float64]


class TripletAnswers(Evaluation):
    """Which of two items the scores put nearer to the query, triplet by triplet.

    Item numbers are places among the items that are scored.  With votes, the positive is the item
    of more votes; a triplet of equal votes has none and counts for measures of votes alone.
    """

    def __init__(
        self, judged: JudgedTriplets, ties: Numbers, measures: Collection[str] | None = None
    ) -> None:
        possible = _possible_measures(judged)
        super().__init__(len(ties), len(ties), tuple(possible if measures is None else measures))
        if missing := [name for name in self.kept if name not in possible]:
            raise ValueError(f"{missing[0]} is of votes, and these triplets have none")
        self.n_queries = len(np.unique(judged.items[:, 0]))
        self._place = places(ties)
        self._queries, self._a, self._b = judged.items.T
        self._votes = judged.votes
        self._sign = (
            np.ones(len(judged.items), dtype=np.int64)
            if judged.votes is None
            else np.sign(judged.votes[:, 0] - judged.votes[:, 1])
        )
        order = np.argsort(self._queries, kind="stable")
        self._order, self._sorted_queries = order, self._queries[order]
        self._preferred = np.zeros(len(judged.items), dtype=np.int64)
        self._at_top = np.zeros((len(TOP_KS), len(judged.items)), dtype=np.int64)
        self._groups = judged.groups
        self._items_of_group = {
            group: np.unique(judged.items[judged.groups == group])
            for group in (np.unique(judged.groups) if AT_TOP_K in self.kept else ())
        }

    def judge(self, start: int, scores: Scores) -> None:
        """Compare the two scores of each triplet whose query is in the block."""
        refuse_nan(int(np.isnan(scores).sum()), scores)
        first, last = np.searchsorted(self._sorted_queries, (start, start + len(scores)))
        mine = self._order[first:last]
        rows = self._queries[mine] - start
        to_a, to_b = scores[rows, self._a[mine]], scores[rows, self._b[mine]]
        self._preferred[mine] = (to_a > to_b).astype(np.int64) - (to_a < to_b)
        if AT_TOP_K in self.kept:
            for triplet, row in zip(mine, rows, strict=True):
                self._at_top[:, triplet] = self._score_at_top(int(triplet), scores[row])

    def _score_at_top(self, triplet: int, scores: Scores) -> list[int]:
        """Return, for each K, +1 or -1 where a or b is among the K nearest of its group, else 0."""
        items = self._items_of_group[self._groups[triplet]]
        items = items[items != self._queries[triplet]]
        s, place = scores[items], self._place[items]
        before_a, before_b = (
            np.count_nonzero((s > scores[i]) | ((s == scores[i]) & (place < self._place[i])))
            for i in (self._a[triplet], self._b[triplet])
        )
        sign = int(np.sign(before_b - before_a))
        return [sign if min(before_a, before_b) < k else 0 for k in TOP_KS]

    def values(self, measure: str) -> dict[int | None, float]:
        """Return the value; NaN where no triplet counts."""
        if measure == AT_TOP_K:
            sums = (self._at_top * self._sign).sum(axis=1)
            return dict(zip(TOP_KS, sums.astype(float).tolist(), strict=True))
        if measure in OF_TRIPLETS:
            values = self._of_each(measure)
            return {None: _mean(values[~np.isnan(values)])}
        assert self._votes is not None
        a, b = self._votes.T
        n = a + b
        if measure == CEILING:
            return {None: _mean(np.maximum(a, b) / n)}
        several = n > 1
        a, b, n = a[several], b[several], n[several]
        return {None: _mean((a * (a - 1) + b * (b - 1)) / (n * (n - 1)))}

    def _of_each(self, measure: str) -> Floats:
        """Return the similarity precision or agreement of each triplet, NaN where none counts."""
        if measure == PRECISION:
            right = (1 + self._sign * self._preferred) / 2
            return np.where(self._sign == 0, np.nan, right)
        assert self._votes is not None
        a, b = self._votes.T
        return np.asarray((1 + self._preferred * (a - b) / (a + b)) / 2)

    def of_groups(self) -> list[dict[str, Any]]:
        """Return the sums of similarity precision and agreement, a text query or reference each."""
        groups, place = np.unique(self._groups, return_inverse=True)
        found = []
        for measure in set(OF_TRIPLETS).intersection(self.kept):
            values = self._of_each(measure)
            counts = np.bincount(place, ~np.isnan(values)).astype(int).tolist()
            sums = np.bincount(place, np.nan_to_num(values)).tolist()
            each = zip(groups.tolist(), counts, sums, strict=True)
            found += [
                {"measure": measure, "k": None, "cluster": group, "n": n, "value": value}
                for group, n, value in each
                if n
            ]
        return found

    def chances(self, measure: str) -> dict[int | None, float]:
        """Return what a random order gives: as often right as wrong."""
        known: dict[str, dict[int | None, float]] = {
            PRECISION: {None: 0.5},
            AT_TOP_K: dict.fromkeys(TOP_KS, 0.0),
            AGREEMENT: {None: 0.5},
        }
        return known.get(measure, {})


def _possible_measures(judged: JudgedTriplets) -> tuple[str, ...]:
    """Leave out what is of votes where there are none."""
    of_votes = () if judged.votes is not None else (AGREEMENT, CEILING, HUMAN)
    return tuple(name for name in JudgedTripletsTask.measures if name not in of_votes)


def _mean(values: npt.NDArray[np.float64]) -> float:
    return float(values.mean()) if len(values) else np.nan


class JudgedTripletsTask(Task):
    """Triplets that people judged: the item that they chose should be the more similar one.

    Similarity precision is the share of triplets in which it is; equal scores count a half.
    Score at top K (Wang et al., 6.3) ranks, for each query, the items of its group; a triplet with
    an item among the first K counts +1 where the chosen item comes first, else -1; the score is
    their sum.  With votes: agreement is the mean over triplets of the share of the votes that the
    answer got (equal scores: half of each), the ceiling that of the largest share, and the human
    level that of a voter's agreement with the triplet's other voters.
    """

    name = "judged-triplets"
    summary = "of two items, the one that people find more similar to the query should score higher"
    citation = (
        "Wang et al. (2014), Learning Fine-grained Image Similarity with Deep Ranking, CVPR, "
        "section 6.3; votes: Lagunas et al. (2019), A Similarity Measure for Material Appearance, "
        "ACM Transactions on Graphics 38"
    )
    split = "judged"
    gallery = "test"
    measures = (PRECISION, AT_TOP_K, AGREEMENT, CEILING, HUMAN)
    ks: ClassVar = {AT_TOP_K: TOP_KS}
    ranges: ClassVar = {AT_TOP_K: (-np.inf, np.inf)}
    of_data = (CEILING, HUMAN)

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse a data set without judged triplets."""
        return "it has no triplets judged by people" if rows.judged is None else None

    def measures_of(self, rows: LabelledRows) -> tuple[str, ...]:
        """Return all measures, or those that need no votes."""
        return self.measures if rows.judged is None else _possible_measures(rows.judged)

    def evaluation(
        self,
        truth: Truth,
        n_gallery: int,
        ties: Numbers,
        measures: Collection[str] | None = None,
    ) -> TripletAnswers:
        """Make the evaluation; `truth` holds the triplets among the test items."""
        if truth.judged is None or not len(truth.judged.items):
            raise ValueError("there is no judged triplet among the test items")
        return TripletAnswers(truth.judged, ties, measures)


LAST_K = 50
MARKED, ERROR = "precision", "standard error over raters"


class RatedCandidates(Evaluation):
    """Ranks the rated candidates of each query and averages the raters' marks of the first k.

    Item numbers are places among the items that are scored.  The curves end at the number of
    candidates of the query that has the fewest; of one rater there is no human level and no error.
    """

    def __init__(
        self, ratings: Ratings, ties: Numbers, measures: Collection[str] | None = None
    ) -> None:
        n_raters = ratings.marks.shape[1]
        possible = RatingsTask.measures if n_raters > 1 else (MARKED,)
        super().__init__(len(ties), len(ties), possible if measures is None else tuple(measures))
        if missing := [name for name in self.kept if name not in possible]:
            raise ValueError(f"{missing[0]}: several raters are needed, and there is one")
        self._place = places(ties)
        order = np.argsort(ratings.queries, kind="stable")
        self._queries, starts = np.unique(ratings.queries[order], return_index=True)
        self._groups = ratings.groups[order][starts]
        self._candidates = np.split(ratings.candidates[order], starts[1:])
        self._marks = np.split(ratings.marks[order].astype(float), starts[1:])
        self.n_queries = len(self._queries)
        last = min(LAST_K, *map(len, self._marks))
        self._ks = np.arange(1, last + 1)
        self._by_rater = np.full((self.n_queries, last, n_raters), np.nan)

    def judge(self, start: int, scores: Scores) -> None:
        """Rank the candidates of each query of the block."""
        refuse_nan(int(np.isnan(scores).sum()), scores)
        first, last = np.searchsorted(self._queries, (start, start + len(scores)))
        for i in range(first, last):
            candidates = self._candidates[i]
            to_them = scores[self._queries[i] - start, candidates]
            best = np.lexsort((self._place[candidates], -to_them))[: len(self._ks)]
            marked = self._marks[i][best].cumsum(axis=0)
            self._by_rater[i] = marked / self._ks[:, None]

    def values(self, measure: str) -> dict[int | None, float]:
        """Return the mean over queries and raters, or its error over raters, at each k."""
        if measure == HUMAN:
            return self._at_each_k(
                np.mean([human_level(marks, len(self._ks)) for marks in self._marks], axis=(0, 2))
            )
        by_rater = self._by_rater.mean(axis=0)
        if measure == MARKED:
            return self._at_each_k(by_rater.mean(axis=1))
        n_raters = by_rater.shape[1]
        return self._at_each_k(by_rater.std(axis=1, ddof=1) / np.sqrt(n_raters))

    def chances(self, measure: str) -> dict[int | None, float]:
        """Return, for precision, the mean over queries of the share of marks."""
        if measure != MARKED:
            return {}
        share = np.mean([marks.mean() for marks in self._marks])
        return self._at_each_k(np.full(len(self._ks), share))

    def of_groups(self) -> list[dict[str, Any]]:
        """Return the precision at each k of each query, a mean over raters."""
        if MARKED not in self.kept:
            return []
        of_queries = zip(self._groups.tolist(), self._by_rater.mean(axis=2).tolist(), strict=True)
        return [
            {"measure": MARKED, "k": k, "cluster": query, "n": 1, "value": value}
            for query, values in of_queries
            for k, value in enumerate(values, start=1)
        ]

    def _at_each_k(self, values: Floats) -> dict[int | None, float]:
        return {int(k): float(value) for k, value in zip(self._ks, values, strict=True)}


def human_level(marks: Floats, last: int) -> Floats:
    """Return the precision at k = 1 to `last` of each rater, judged by the others (JMLR 5.2.3).

    A rater ranks what he marked as relevant first, in a random order, and then the rest: this is
    the mean over these orders.  A candidate is as relevant as the share of the others who marked
    it so.  From marks (n_candidates, n_raters) of one query, 1, 0 or NaN, to (last, n_raters), NaN
    beyond the number of candidates that the rater and another one marked.
    """
    levels = np.full((last, marks.shape[1]), np.nan)
    for rater, own in enumerate(marks.T):
        others = np.delete(marks, rater, axis=1)
        both = ~np.isnan(own) & (~np.isnan(others)).any(axis=1)
        if not both.any():
            continue
        by_others = np.nanmean(others[both], axis=1)
        chosen = own[both] == 1
        ks = np.arange(1, min(last, len(chosen)) + 1)
        first = np.minimum(ks, chosen.sum())
        means = [by_others[part].mean() if part.any() else 0.0 for part in (chosen, ~chosen)]
        levels[: len(ks), rater] = (first * means[0] + (ks - first) * means[1]) / ks
    return levels


class RatingsTask(Task):
    """Candidates of a query, each marked by several people as relevant or not.

    Precision at k is the mean, over queries, raters and the first k candidates, of the marks; its
    standard error is over raters.  The human level is the precision at k of a rater's own choice
    (what he marked, then the rest), judged by the other raters.
    """

    name = "ratings"
    summary = "the candidates that come first should be those that most people find relevant"
    citation = (
        "Chechik, Sharma, Shalit & Bengio (2010), Large Scale Online Learning of Image Similarity "
        "Through Ranking, JMLR 11, section 5.2.3"
    )
    split = "rated"
    gallery = "test"
    measures = (MARKED, HUMAN, ERROR)
    ks = dict.fromkeys(measures, tuple(range(1, LAST_K + 1)))
    of_data = (HUMAN, ERROR)

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse a data set without ratings."""
        return "it has no ratings by people" if rows.ratings is None else None

    def evaluation(
        self,
        truth: Truth,
        n_gallery: int,
        ties: Numbers,
        measures: Collection[str] | None = None,
    ) -> RatedCandidates:
        """Make the evaluation; `truth` holds the ratings of the test items."""
        if truth.ratings is None or not len(truth.ratings.queries):
            raise ValueError("there is no rated candidate among the test items")
        return RatedCandidates(truth.ratings, ties, measures)


class JudgementsSplit(Split):
    """What the splits of judgements have in common: groups train or test, classes do not matter."""

    all_may_test = True

    def refusal(self, rows: LabelledRows) -> str | None:
        """Refuse rows without judgements."""
        missing = f"has no judgements to split ({self.name})"
        return super().refusal(rows) if self.judgements(rows) is not None else missing

    def in_words(self) -> str:
        """Return the summary, unless all of them test."""
        return self.summary if self.settings.test_share < 1 else "all judgements test"

    def n_partitions(self, rows: LabelledRows) -> int:
        """Return the number of folds: each group tests in one of them."""
        judgements = self.judgements(rows)
        assert judgements is not None, "refused before"
        return count_folds(judgements, self.settings.test_share)

    def sizes(self, rows: LabelledRows, classes: Classes, partition: int) -> tuple[int, int]:
        """Return the most that there can be."""
        return rows.y.shape[0], rows.y.shape[0]

    def rho(self, rows: LabelledRows, classes: Classes, partition: int) -> float:
        """Return the share of the groups that test."""
        return 1 / self.n_partitions(rows)

    def draw(self, rows: LabelledRows, classes: Classes, partition: int, seed: int) -> Partition:
        """Hold out a fold of groups; all partitions divide the groups in the same way."""
        judgements, share = self.judgements(rows), self.settings.test_share
        assert judgements is not None, "refused before"
        seed = derive_seed(self.settings.seed, "folds of judgements")
        return draw_fold(judgements, rows.y.shape[0], share, partition, seed)

    def inner_folds(
        self, y: Labels, judgements: Judgements | None, n_folds: int, seed: int
    ) -> list[Partition]:
        """Divide the groups of the training judgements."""
        assert judgements is not None, "a training part of judgements has some"
        return group_folds(judgements, y.shape[0], n_folds, seed)


class JudgedSplit(JudgementsSplit):
    """Triplets that people judged, split by text query or reference."""

    name = "judged"
    summary = "triplets of some groups train, those of the others test"
    citation = (
        "Wang et al. (2014), Learning Fine-grained Image Similarity with Deep Ranking, CVPR, "
        "section 6"
    )

    def judgements(self, rows: LabelledRows) -> JudgedTriplets | None:
        """Return the triplets."""
        return rows.judged


class RatedSplit(JudgementsSplit):
    """What people marked as relevant to a query, split by query."""

    name = "rated"
    summary = "test items are some of the queries that people rated, with their candidates"
    citation = (
        "Chechik, Sharma, Shalit & Bengio (2010), Large Scale Online Learning of Image Similarity "
        "Through Ranking, JMLR 11, section 5.2.3"
    )

    def judgements(self, rows: LabelledRows) -> Ratings | None:
        """Return the ratings."""
        return rows.ratings


def items_are_shared(judgements: Judgements) -> bool:
    """Tell whether more than half of the items that are judged are in several groups.

    Such a set, of every item in many triplets, cannot be split so that no item of a test triplet
    is a training item.  Then only the queries (references) of test judgements are kept from
    training; what they are compared with may have been seen there, in other judgements.
    """
    pairs = np.stack([np.repeat(judgements.groups, judgements.items.shape[1]), _flat(judgements)])
    group_of_item = np.unique(pairs, axis=1)
    _, n_groups = np.unique(group_of_item[1], return_counts=True)
    return bool(np.mean(n_groups > 1) > 0.5)


def count_folds(judgements: Judgements, test_share: float) -> int:
    """Return in how many folds about this share of the groups tests; 1 where all of them do."""
    if test_share == 1:
        return 1
    return max(2, min(round(1 / test_share), len(np.unique(judgements.groups))))


def draw_fold(
    judgements: Judgements, n_items: int, test_share: float, fold: int, seed: int
) -> Partition:
    """Return a fold of groups to test; the other groups, and all items that do not test, train.

    No item of a test judgement is a training item; where `items_are_shared`, no query of one is.

    Items that nobody judged train.  The seed decides the folds, each of which has about the same
    number of groups, at least one.  With ``test_share = 1`` all of them test, and all items train
    without a judgement: for a saved model, which learns nothing.
    """
    if test_share == 1:
        every = np.ones(len(judgements.groups), dtype=np.bool_)
        test = np.unique(_flat(judgements)).astype(np.intp)
        items = np.arange(n_items, dtype=np.intp)
        return Partition(items, test, judgements.part(~every), judgements.among(test), 0)
    groups = _shuffled_groups(judgements, seed)
    tested = np.array_split(groups, count_folds(judgements, test_share))[fold]
    return _hold_out(judgements, n_items, tested, items_are_shared(judgements))


def group_folds(judgements: Judgements, n_items: int, n_folds: int, seed: int) -> list[Partition]:
    """Split training judgements into at most `n_folds` folds of groups; each validates once.

    ``train`` and ``test`` of a fold are what it learns from and what it validates on.
    """
    groups = _shuffled_groups(judgements, seed)
    shared = items_are_shared(judgements)
    parts = np.array_split(groups, min(n_folds, len(groups)))
    return [_hold_out(judgements, n_items, part, shared) for part in parts]


def _shuffled_groups(judgements: Judgements, seed: int) -> npt.NDArray[np.int64]:
    groups = np.unique(judgements.groups)
    if len(groups) < 2:
        raise UsageError(
            f"all {len(judgements.groups)} judgements are of one text query or reference: 2 are "
            "needed, to train and to test"
        )
    return np.random.default_rng(seed).permutation(groups)


def _hold_out(
    judgements: Judgements, n_items: int, test_groups: npt.NDArray[np.int64], shared: bool
) -> Partition:
    tests = np.isin(judgements.groups, test_groups)
    tested = judgements.part(tests)
    test = np.unique(_flat(tested)).astype(np.intp)
    kept_away = np.unique(tested.items[:, 0]) if shared else test
    train = np.setdiff1d(np.arange(n_items), kept_away).astype(np.intp)
    if not len(train):
        raise UsageError(
            f"all {n_items} items are in the judgements that test: lower the share that tests"
        )
    training = judgements.part(~tests).among(train)
    n_dropped = int(np.count_nonzero(~tests)) - len(training.items)
    return Partition(train, test, training, tested.among(test), n_dropped)


def _flat(judgements: Judgements) -> npt.NDArray[np.int64]:
    return np.asarray(judgements.items.ravel())
