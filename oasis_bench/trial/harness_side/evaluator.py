"""Evaluates the scores of a learner as they come: the only place that has the test labels.

`Evaluator` does so for the result of a trial, `Traces` at the checkpoints of its replay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from oasis_bench.data import FloatArray
from oasis_bench.experiment import ChooseBy, TrialSpec
from oasis_bench.plugins import (
    Blend,
    ExemplarLearner,
    MetricLearner,
    as_inner_product,
    baseline_scores,
    mixed_affinities,
)
from oasis_bench.system import one_blas_thread, spelled
from oasis_bench.tasks import Evaluation, Numbers, Task, kernel_ready, rank_others
from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.items import SealedItems, TrialItems
from oasis_bench.trial.harness_side.result import Votes
from oasis_bench.trial.harness_side.rows import (
    AnswerRow,
    GroupRow,
    MeasureRow,
    Part,
    PredictedRow,
    ProjectionRow,
    RetrievalRow,
    SymmetryRow,
    TraceRow,
)

EXAMPLE_RANKS = 20
"""Retrieved items kept per example query: as many as people judge in JMLR 5.2.3."""

AGREEMENT = 1e-3
"""Largest difference between two scores of one pair, as a share of the range of scores.

Rounding of distances in float32 reaches some 3e-4.
"""

MOVED = 0.01
"""Largest mean change of rank, as a share of n/3, the mean change between random orders."""

N_TOP, TURNED = 8, 0.03
"""Of the `N_TOP` items most similar to a query, at most this share of pairs may change order.

Rounding changed at most .0012 in 159 fits of 17 learners on digits.  Query expansion within the
nearest 4 to 15 % of 250 items changes .1 to .3."""

MOST_ALONE = 90
"""From this number on, no more items are added to the second scoring."""

ROUNDED = 100
"""Two scores of one pair are equal if they differ by at most so many units in the last place."""

TRAINING = "training"
"""Name of the measure on the training items, among the numbers of a fit."""

HIGHEST = float(np.finfo(float).max)

Scores2D = npt.NDArray[np.float64]


@dataclass
class Measured:
    """The measurements of tasks, as rows; each field has the name of its table."""

    answers: list[AnswerRow] = field(default_factory=list)
    measures: list[MeasureRow] = field(default_factory=list)
    groups: list[GroupRow] = field(default_factory=list)
    predicted_classes: list[PredictedRow] = field(default_factory=list)


class KeptRows:
    """Keeps the scores of some queries in `rows`, of shape (n_queries, n_gallery)."""

    def __init__(self, queries: Numbers | Sequence[int], n_gallery: int) -> None:
        self.queries = np.asarray(queries, dtype=np.intp)
        self.rows = np.empty((len(self.queries), n_gallery))

    def add(self, start: int, scores: FloatArray) -> None:
        """Take the scores (n_block, n_gallery) of the queries from `start` on."""
        held = (self.queries >= start) & (self.queries < start + len(scores))
        self.rows[held] = scores[self.queries[held] - start]


Takes: TypeAlias = "Evaluation | KeptRows"
"""Takes blocks of scores."""

Mix = Callable[[int, FloatArray], FloatArray]
"""``mix(start, scores)`` blends the scores of the queries from `start` on with the baseline's."""


def mix_of(blend: Blend, learner: type[MetricLearner], items: SealedItems, gallery: str) -> Mix:
    """Return the function that blends the learner's scores against a gallery."""

    def mix(start: int, scores: FloatArray) -> FloatArray:
        others = items.test_rows if gallery == "test" else items.training_rows
        baseline = baseline_scores(items.test_rows[start : start + len(scores)], others)
        return blend.mix(baseline, as_inner_product(learner, scores))

    return mix


def scores_of_votes(
    gallery: str, votes: Votes, items: SealedItems
) -> Iterator[tuple[int, FloatArray]]:
    """Yield the first query and the scores of each block: affinities, blended on these `items`."""
    is_test = gallery == "test"
    points = votes.test, votes.test if is_test else votes.training
    others = items.test_rows if is_test else items.training_rows
    for start, (scores,) in mixed_affinities([(*points, votes.blend)], items.test_rows, others):
        yield start, scores


class ScoreReader:
    """Passes the scores of queries against one gallery, block by block, to evaluations.

    `of_learner` get the learner's own scores; `evaluations` get the blended scores if there is a
    `mix`.
    """

    def __init__(
        self,
        gallery: str,
        n_queries: int,
        n_gallery: int,
        evaluations: Sequence[Takes],
        of_learner: Sequence[Takes] = (),
        mix: Mix | None = None,
    ) -> None:
        self.gallery = gallery
        self._mix = mix
        self._n_queries, self._n_gallery = n_queries, n_gallery
        self._evaluations, self._of_learner = evaluations, of_learner
        self._done = 0

    @property
    def is_complete(self) -> bool:
        """Whether all scores are received."""
        return self._done == self._n_queries

    @property
    def is_blended(self) -> bool:
        """Whether the evaluations take blended scores."""
        return self._mix is not None

    def n_bytes(self, message: wall.Scores) -> int:
        """Return how many bytes follow a message.

        Raise MessageError for another gallery, or more queries than are left.
        """
        if message.gallery != self.gallery or message.n_queries > self._n_queries - self._done:
            raise wall.MessageError(f"{message.n_queries} rows of scores of {message.gallery!r}")
        return message.n_bytes(self._n_gallery)

    def add(self, message: wall.Scores, content: bytes | bytearray) -> None:
        """Evaluate a block; raise ValueError if a score is NaN."""
        scores = np.frombuffer(content, message.dtype).reshape(message.n_queries, self._n_gallery)
        for own in self._of_learner:
            own.add(self._done, scores)
        evaluated = scores if self._mix is None else self._mix(self._done, scores)
        for evaluation in self._evaluations:
            evaluation.add(self._done, evaluated)
        self._done += message.n_queries


@dataclass
class _OfTask:
    """The evaluations of a task, one for each use of the learner."""

    direct: Evaluation
    as_learned: Evaluation  # direct, without a blend
    selected: Evaluation
    posterior: Evaluation | None = None


class Evaluator:
    """Evaluates the scores of a trial's learner by the tasks of one split.

    For the report it keeps the neighbours of some queries, and the positions of some test items in
    a plane, if `spec` asks for them.  Classes are predicted with the tuning measure of the task, or
    its first measure.
    """

    def __init__(
        self,
        tasks: Sequence[Task],
        items: TrialItems,
        spec: TrialSpec,
    ) -> None:
        self._items, self._chooses_by = items, spec.chooses_by
        self._tasks = tasks
        new = {task.name: self._new_evaluation(task) for task in tasks}
        self._of_task = {name: _OfTask(one, one, one) for name, one in new.items()}
        self.votes: dict[str, Votes] = {}
        """The votes for each gallery that has some."""
        n_test, seed = len(items.test_rows), spec.seed_for("examples")
        drawn = np.random.default_rng(seed).permutation(n_test)
        places = np.argsort(items.original_order)[drawn]
        if spec.queries is not None:
            places = places[np.isin(items.test_rows[places], spec.queries)]
        y = items.truth.y
        self._projected: KeptRows | None = None
        if spec.projection and isinstance(y, np.ndarray):
            self._projected = KeptRows(items_in_plane(y, seed), n_test)
        self._shown = KeptRows(places[: spec.examples], n_test)
        self._shows_votes = False
        self._sampled = {
            gallery: KeptRows(items.sample, len(items.ties[gallery]))
            for gallery in galleries_of(tasks)
        }
        self.readers = {gallery: self._new_reader(gallery) for gallery in self._sampled}
        """The reader of the scores against each gallery."""

    def _new_evaluation(self, task: Task) -> Evaluation:
        return task.evaluation(self._items.truth, self._items.ties[task.gallery])

    def _new_reader(self, gallery: str, mix: Mix | None = None) -> ScoreReader:
        names = [task.name for task in self._tasks if task.gallery == gallery]
        evaluations: list[Takes] = [self._of_task[name].direct for name in names]
        if gallery == "test":
            evaluations += [self._shown, *filter(None, [self._projected])]
        own: list[Takes] = [self._sampled[gallery]]
        if mix is not None:
            own += [self._of_task[name].as_learned for name in names]
        where = gallery, len(self._items.test_rows), len(self._items.ties[gallery])
        return ScoreReader(*where, evaluations, own, mix)

    def blend(
        self, gallery: str, blend: Blend, learner: type[MetricLearner], items: SealedItems
    ) -> None:
        """Evaluate the tasks of a gallery on blended scores, and also on the learner's own.

        The baseline scores these `items`.  Call this before any scores are added.
        """
        if blend.weight < 1:
            for task in self._tasks:
                if task.gallery == gallery:
                    self._of_task[task.name].as_learned = self._new_evaluation(task)
            mix = mix_of(blend, learner, items, gallery)
            self.readers[gallery] = self._new_reader(gallery, mix)

    def add_votes(self, gallery: str, votes: Votes, items: SealedItems, is_selected: bool) -> None:
        """Evaluate the tasks of a gallery on votes, blended with the baseline on these `items`."""
        self.votes[gallery] = votes
        takes: list[Takes] = []
        for task in self._tasks:
            if task.gallery != gallery:
                continue
            evaluation, of_task = self._new_evaluation(task), self._of_task[task.name]
            of_task.posterior = evaluation
            if is_selected:
                of_task.selected = evaluation
            if evaluation.takes_classes and votes.classes is not None:
                evaluation.add_classes(votes.classes[votes.test.argmax(axis=1)])
            else:
                takes.append(evaluation)
        if is_selected and gallery == "test":
            takes += [self._shown, *filter(None, [self._projected])]
            self._shows_votes = True
        for start, scores in scores_of_votes(gallery, votes, items) if takes else ():
            for one in takes:
                one.add(start, scores)

    @cached_property
    def alone(self) -> Numbers:
        """Places of the test items that are scored a second time, without the others.

        They are the sample and the items most similar to its first queries, at most half of all.
        They reveal a learner whose scores depend on the neighbours of a query.
        """
        sample, n_test = self._items.sample, len(self._items.test_rows)
        if "test" not in self._sampled:
            return sample
        scores = self._sampled["test"].rows.copy()
        scores[np.arange(len(sample)), sample] = -np.inf
        found = [*sample]
        for nearest in np.argsort(-scores, axis=1)[:, :N_TOP]:
            if len({*found, *nearest}) > (n_test + 1) // 2 or len(found) >= MOST_ALONE:
                break
            found += [*nearest]
        return np.unique(found)

    def readers_alone(self, galleries: Sequence[str]) -> list[tuple[ScoreReader, KeptRows]]:
        """Return readers for the scores of the items `alone`, each with the rows that it fills."""
        n = len(self.alone)
        queries = np.searchsorted(self.alone, self._items.sample)
        sizes = {"test": n, "training": len(self._items.ties["training"])}
        kept = {gallery: KeptRows(queries, sizes[gallery]) for gallery in galleries}
        return [
            (ScoreReader(gallery, n, sizes[gallery], (rows,)), rows)
            for gallery, rows in kept.items()
        ]

    def refuse_other_scores(self, alone: Sequence[tuple[ScoreReader, KeptRows]]) -> None:
        """Raise ValueError if the sample alone gets other scores than among all test items."""
        sample = self._items.sample
        for reader, kept in alone:
            is_test = reader.gallery == "test"
            among_all = self._sampled[reader.gallery].rows
            scores = np.stack([kept.rows, among_all[:, self.alone] if is_test else among_all])
            if is_test:  # an item's score with itself is not ranked
                others = self.alone != sample[:, None]
                scores = scores[:, others].reshape(2, len(sample), -1)
            if not _agree(*scores):
                raise ValueError(
                    "two items get another score when other test items are asked with them: its "
                    "similarity uses the unlabelled test items, which only a learner with "
                    "transductive = True may do, or is random, or its rounding on rows far from "
                    f"zero is large ({spelled('scaling', 'standard')})"
                )

    def refuse_other_votes(self, gallery: str, points: Points) -> None:
        """Raise ValueError if the votes for the items `alone` differ from those among all items."""
        moved = np.abs(points - self.votes[gallery].test[self.alone]).max(axis=1)
        if not moved.mean() <= TURNED:
            raise ValueError(
                "the training items vote otherwise when other test items are asked with an item: "
                "its similarity to training items depends on the other test items"
            )

    def tables(self) -> Measured:
        """Return the status and the measures of all tasks."""
        found = Measured()
        rules = {by.task: (by.measure, by.k) for by in self._chooses_by}
        for name, of in self._of_task.items():
            own = of.selected
            found.answers.append(AnswerRow(name, "ok", None, own.n_queries, own.n_left_out))
            uses = of.selected, of.direct, of.posterior or own, of.as_learned
            for one, direct, voted, learned in zip(
                *(use.measurements() for use in uses), strict=True
            ):
                if np.isnan(one.value):  # no query of this trial has such a value
                    continue
                of_votes = None if of.posterior is None else voted.value
                values = one.value, direct.value, of_votes, learned.value
                found.measures.append(MeasureRow(name, one.measure, one.k, *values, one.chance))
            found.groups += [GroupRow(name, *one) for one in own.of_groups()]
            predicted = own.predicted(*rules.get(name, ()))
            for number in () if predicted is None else np.unique(predicted).tolist():
                of_class = np.sort(self._items.test_rows[predicted == number]).tolist()
                found.predicted_classes.append(PredictedRow(name, number, json.dumps(of_class)))
        return found

    def retrievals(self) -> list[RetrievalRow]:
        """Return the first items that the example queries retrieve; learners share the queries."""
        queries = self._shown.queries
        if "test" not in self.readers or not len(queries) or self._items.truth.y is None:
            return []
        scores = kernel_ready(self._shown.rows)
        ranking = rank_others(scores, queries, self._items.ties["test"], self._items.truth.groups)
        rows = self._items.test_rows
        return [
            RetrievalRow(int(rows[query]), rank, int(rows[found]))
            for place, query in enumerate(queries)
            for rank, found in enumerate(ranking[place, :EXAMPLE_RANKS], start=1)
            if found >= 0
        ]

    def projections(self, learner: type[MetricLearner], rows: Any) -> list[ProjectionRow]:
        """Return rows of the table `projections`.

        Scores that are minus a distance are squared, as in a blend.  `rows` are the test items as
        the learner got them; None if it takes no rows.
        """
        if self._projected is None or "test" not in self.readers:
            return []
        items = self._projected.queries
        scores: Any = self._projected.rows[:, items]
        if not (self._shows_votes or self.readers["test"].is_blended):
            scores = as_inner_product(learner, scores)
        with one_blas_thread:  # on a busy machine, two that wait for each other take far longer
            points = plane(scores)
            if points is None:
                return []
            before = None if rows is None else plane_of_rows(rows[items])
        places = np.full_like(points, np.nan) if before is None else before
        columns = (self._items.test_rows[items], *points.T, *places.T)
        values = zip(*(column.tolist() for column in columns), strict=True)
        return [ProjectionRow(*one) for one in values]


def _agree(scores: Scores2D, others: Scores2D) -> bool:
    """Tell whether two tables of scores (n_queries, n_gallery) are the same, up to rounding.

    Three checks are needed.  If some pairs get huge scores, all others are close in value.  If all
    scores are nearly equal, as cosines of rows far from zero, rounding decides their ranks.  And a
    learner may reorder only the items most similar to a query.
    """
    with np.errstate(over="ignore"):
        is_single = np.array_equal(scores, scores.astype(np.float32), equal_nan=True)
    eps = np.finfo(np.float32 if is_single else np.float64).eps
    if np.allclose(scores, others, rtol=ROUNDED * eps, atol=0):
        return True
    finite = others[np.isfinite(others)]
    if not finite.size:
        return False
    with np.errstate(over="ignore"):
        spread = float(np.ptp(finite)) or float(np.abs(finite).max())
        is_close = np.allclose(scores, others, rtol=0, atol=min(AGREEMENT * spread, HIGHEST))
    moved = np.abs(rankdata(scores, axis=1) - rankdata(others, axis=1))
    is_close &= float(moved.mean()) <= MOVED * scores.shape[1] / 3
    return is_close and _turned_at_top(scores, others, ROUNDED * float(eps)) <= TURNED


def _turned_at_top(scores: Scores2D, others: Scores2D, rounding: float) -> float:
    """Return the share of pairs that change order among the items most similar to a query.

    Scores are equal if they differ by at most a share of `rounding`: such pairs have no order.
    """
    top = np.argsort(-others, axis=1)[:, :N_TOP]
    i, j = np.triu_indices(top.shape[1], 1)
    orders = []
    for table in (scores, others):
        held = np.take_along_axis(table, top, axis=1)
        a, b = held[:, i], held[:, j]
        orders.append(np.sign(a - b) * (np.abs(a - b) > rounding * np.maximum(abs(a), abs(b))))
    return float((orders[0] * orders[1] < 0).mean()) if len(i) else 0.0


def galleries_of(tasks: Sequence[Task]) -> tuple[str, ...]:
    """Return the galleries that tasks need, the test items first."""
    needed = {task.gallery for task in tasks}
    return tuple(gallery for gallery in Task.GALLERIES if gallery in needed)


def reason_against(task: Task, learner: type[MetricLearner]) -> str | None:
    """Return why a learner cannot do a task, or None if it can."""
    if task.gallery == "test" and issubclass(learner, ExemplarLearner):
        return (
            f"{learner.name} scores training items only, and {task.name} asks for scores among "
            "test items"
        )
    return None


Traced: TypeAlias = tuple[Part, ScoreReader, Evaluation]
"""The part of a trace, the reader of its scores, and their evaluation."""


class Traces:
    """Keeps the tuning measure at the checkpoints of a replay.

    `values` and `symmetry` are rows of the tables `traces` and `symmetry`; `of_fit` is the measure
    of the fitted learner on the training items, if it is computed without a replay.
    """

    def __init__(self, task: Task, by: ChooseBy, items: TrialItems) -> None:
        self._task, self._by, self._items = task, by, items
        self.values: list[TraceRow] = []
        self.symmetry: list[SymmetryRow] = []
        self.of_fit: float | None = None

    def parts(self) -> list[Traced]:
        """Return the parts to score at a checkpoint: the training items and the test items.

        If the gallery is the training items, they are left out: each would retrieve itself.
        """
        task, items = self._task, self._items
        ties = items.ties[task.gallery]
        test = task.evaluation(items.truth, ties, (self._by.measure,))
        reader = ScoreReader(task.gallery, len(items.test_rows), len(ties), [test])
        of_training = [self.of_training()] if task.gallery == "test" else []
        return [*of_training, ("test", reader, test)]

    def of_training(self) -> Traced:
        """Return the part of the training items."""
        items, ties = self._items, self._items.ties["training"]
        n = len(ties)
        own = self._task.evaluation(items.training_truth, ties, (self._by.measure,))
        return "train", ScoreReader("test", n, n, [own]), own

    def value(self, part: Traced) -> float:
        """Return the measure of a part with complete scores."""
        return part[2].value(self._by.measure, self._by.k)

    def add(self, message: wall.Replayed, parts: Sequence[Traced]) -> None:
        """Keep the values of a checkpoint with complete scores."""
        n_steps = message.n_steps
        self.values += [TraceRow(part[0], n_steps, self.value(part)) for part in parts]
        if message.symmetry_index is not None:
            self.symmetry.append(SymmetryRow(n_steps, message.symmetry_index))

    def training_value(self, n_steps: int | None) -> float | None:
        """Return the measure on training items after that many steps, or of the fitted learner."""
        for row in self.values:
            if (row.part, row.n_steps) == ("train", n_steps):
                return row.value
        return self.of_fit


# --- places of some test items in a plane: for figures of learned spaces, not a measure

CLASSES, ITEMS_PER_CLASS = 10, 25
"""Limits of the items that a trial projects."""

Points = npt.NDArray[np.float64]


def items_in_plane(y: npt.NDArray[np.int64], seed: int) -> Numbers:
    """Return places of test items with classes `y`: at most `ITEMS_PER_CLASS` of each.

    The items come in random order; `seed` draws the classes if there are more than `CLASSES`.
    """
    classes = np.random.default_rng(seed).permutation(np.unique(y))[:CLASSES]
    of_class = [np.flatnonzero(y == number)[:ITEMS_PER_CLASS] for number in np.sort(classes)]
    return np.sort(np.concatenate(of_class))


def plane(similarity: Points) -> Points | None:
    """Place items in the plane of the two principal axes of their similarity.

    These are the first two eigenvectors of B = J (S + S') J / 2 with J = I - 11'/n, each times the
    square root of its eigenvalue; an axis of a negative eigenvalue has length 0.  If S is minus
    the squared distance, this is classical scaling (Torgerson, Psychometrika 17, 1952).  If S is
    x'Wy with a symmetric positive W, it gives the principal components of the items mapped by W.

    The points, of shape (n, 2), are scaled so that the mean of x^2 + y^2 is the plane's share of
    the sum of all absolute eigenvalues.  Return None if a similarity is not finite or all are
    equal.
    """
    largest = float(np.abs(similarity).max(initial=0.0))
    if not 0 < largest < np.inf:  # nor NaN
        return None
    gram = similarity / largest
    gram = (gram + gram.T) / 2
    gram = gram - gram.mean(axis=0) - gram.mean(axis=1, keepdims=True) + gram.mean()
    values, axes = np.linalg.eigh(gram)
    total = float(np.abs(values).sum())
    if total <= len(values) * np.finfo(float).eps * len(values):
        return None
    first, lengths = axes[:, :-3:-1], np.sqrt(np.maximum(values[:-3:-1], 0) / total)
    # The sign of an eigenvector is free: its largest entry is positive.
    signs = np.sign(first[np.abs(first).argmax(axis=0), range(first.shape[1])])
    return np.asarray(first * signs * lengths * np.sqrt(len(values)))


def plane_of_rows(rows: Any) -> Points | None:
    """Return the first two principal components of rows (n, n_features), dense or sparse."""
    products = rows @ rows.T
    return plane(np.asarray(products.toarray() if hasattr(products, "toarray") else products))
