"""The two stages of a trial: choose on inner folds; then fit on the clock and score off it.

Each stage runs in a process of its own; the first is left out where there is no choice.
"""

from __future__ import annotations

import json
import traceback
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import ParameterGrid
from threadpoolctl import threadpool_limits

from oasis_bench.data.matrices import symmetry_index
from oasis_bench.data.rows import LabelledRows
from oasis_bench.data.scaling import learn_preparation
from oasis_bench.experiment.identity import source_hash
from oasis_bench.experiment.plan import TrialSpec
from oasis_bench.experiment.splits import draw_partition, draw_share, inner_folds
from oasis_bench.plugins.learner import BilinearLearner, IncrementalLearner, MetricLearner
from oasis_bench.plugins.registry import load_registry
from oasis_bench.system.plain_text import error_line
from oasis_bench.system.provenance import processor_name
from oasis_bench.system.threads import blas_threads
from oasis_bench.tasks.ranking import rank_others, tie_order
from oasis_bench.tasks.retrieval import evaluate_ranking
from oasis_bench.tasks.shared_labels import SharedLabels
from oasis_bench.trial.choice import checkpoints, choose
from oasis_bench.trial.clock import Stopwatch, measure, time_limit
from oasis_bench.trial.messages import (
    Chosen,
    Ended,
    Measured,
    PhaseBegan,
    Send,
    TableRow,
)

WARM_UP_IMAGES = 8
"""Of each of two classes."""

WARM_UP_SECONDS = 10.0
"""After these the warm-up ends: on so few images some learners do not converge."""

EXAMPLE_RANKS = 5

DENSE_BYTES = 2 * 2**30
"""Sparse rows are made dense for a learner that takes no others, up to this size."""


class NotApplicableError(Exception):
    """A learner that cannot learn from a data set of this kind, for a reason known beforehand."""


def run_stage(spec: TrialSpec, rows: LabelledRows, chosen: Chosen | None, send: Send) -> None:
    """Choose; or fit and measure, where `chosen` is given or there is no choice."""
    try:
        trial = _Trial(spec, rows, send)
        with threadpool_limits(spec.experiment.threads):
            if chosen is None:
                trial.refuse_what_it_cannot_learn_from()
                chosen, searched = trial.choose()
                if searched:  # the fit that is measured gets a process that has fitted nothing
                    send(chosen)
                    return
            trial.warm_up(chosen)
        with threadpool_limits(spec.experiment.threads):  # of libraries loaded by now, too
            trial.fit_and_score(chosen, blas_threads())
        send(Ended("ok"))
    except NotApplicableError as error:
        send(Ended("not applicable", str(error)))
    except MemoryError as error:
        send(Ended("out of memory", error_line(error), traceback.format_exc()))
    except Exception as error:
        send(Ended("failed", error_line(error), traceback.format_exc()))


class _Trial:
    """The rows, the seeds and the steps of one trial."""

    def __init__(self, spec: TrialSpec, rows: LabelledRows, send: Send) -> None:
        self.spec = spec
        self.rows = rows
        self._send = send
        self.learner_class = load_registry(spec.plugin_files).algorithms[spec.algorithm]
        if source_hash(self.learner_class) != spec.identity["source"]:
            raise RuntimeError(
                f"the source of {spec.learner} has changed since the run began: put it back and "
                "run this trial again with --resume and --retry failed, or start a new run"
            )
        must_be_dense = sparse.issparse(rows.X) and not self.learner_class.takes_sparse
        self._refuse_what_it_cannot_take(must_be_dense)
        e, seed = spec.experiment, spec.seed_for("partition")
        if isinstance(rows.y, sparse.csr_array):
            self.partition = draw_share(rows.X.shape[0], spec.n_test, seed)
        else:
            self.partition = draw_partition(
                rows.y, spec.classes, e.train_per_class, e.test_per_class, seed
            )
        prepare = learn_preparation(spec.normalize, rows.X[self.partition.train])
        X_train, X_test = (prepare(rows.X[part]) for part in self.partition)
        if must_be_dense:
            X_train, X_test = X_train.toarray(), X_test.toarray()
        self.train = X_train, rows.y[self.partition.train]
        self.test = X_test, rows.y[self.partition.test]

    def _refuse_what_it_cannot_take(self, must_be_dense: bool) -> None:
        name = self.learner_class.name
        if self.rows.multi_label and not self.learner_class.takes_relevance:
            raise NotApplicableError(f"{name} takes one label an image, not several")
        n_bytes = self.spec.n_train * self.rows.X.shape[1] * self.rows.X.dtype.itemsize
        if must_be_dense and n_bytes > DENSE_BYTES:
            raise NotApplicableError(
                f"{name} takes dense rows only, and these would be {n_bytes / 2**30:.1f} GiB"
            )

    def refuse_what_it_cannot_learn_from(self) -> None:
        """Ask the learner itself, with all parameters that would be tried."""
        for params in ParameterGrid(dict(self.spec.grid)):
            if reason := self._make(params, "fit").refusal(*self.train):
                raise NotApplicableError(reason)

    def choose(self) -> tuple[Chosen, bool]:
        """Choose on the inner folds; return what to fit, and whether anything was tried."""
        X, y = self.train
        e = self.spec.experiment
        stopwatch = Stopwatch(self._begin)
        choice = choose(
            lambda params, fold: self._make(params, f"fold {fold}"),
            self.spec.grid,
            X,
            y,
            lambda: inner_folds(y, e.inner_folds, self.spec.seed_for("folds")),
            self._score,
            e.max_steps,
            stopwatch,
            self._send_validation,
        )
        seen = [point["n_steps"] for point in choice.points if point["params"] == choice.params]
        chosen = Chosen(
            params=dict(choice.params),
            n_steps=choice.n_steps,
            last_checkpoint=None if choice.n_steps is None else max(seen),
            fit_seconds=stopwatch.seconds["learning on inner folds"],
            score_seconds=stopwatch.seconds["validation"],
        )
        return chosen, bool(choice.points)

    def warm_up(self, chosen: Chosen) -> None:
        """Fit a few images, so that the clock sees no lazy import and no first call."""
        self._begin("the warm-up")
        X, y = self.train
        if self.rows.multi_label:
            few = np.arange(min(100, X.shape[0]))
        else:
            few = np.concatenate(
                [np.flatnonzero(y == number)[:WARM_UP_IMAGES] for number in self.spec.classes[:2]]
            )
        n_steps = None if chosen.n_steps is None else 10
        learner = self._make(chosen.params, "warm-up", n_steps)
        # Some learners fail on so few images.  Any other error occurs again in the final fit.
        with suppress(Exception), time_limit(WARM_UP_SECONDS):
            learner.fit(X[few], y[few])

    def fit_and_score(self, chosen: Chosen, threads: int) -> None:
        """Fit on the clock, score and replay off the clock, with so many threads."""
        learner = self._make(chosen.params, "fit", n_steps=chosen.n_steps)
        self._begin("the final fit")
        cost = measure(lambda: learner.fit(*self.train))
        self._begin("evaluation")
        found = evaluate_ranking(learner.similarity, *self.test, seed=self.spec.seed_for("ties"))
        columns = {
            "threads": threads,
            "processor": processor_name(),
            "n_features": self.train[0].shape[1],
            "params": json.dumps(chosen.params),
            "n_steps": chosen.params.get("n_steps", chosen.n_steps),
            "fit_seconds": cost.seconds,
            "fit_cpu_seconds": cost.cpu_seconds,
            "fit_waiting_seconds": cost.waiting_seconds,
            "fit_peak_bytes": cost.peak_bytes,
            "selection_fit_seconds": chosen.fit_seconds,
            "selection_score_seconds": chosen.score_seconds,
            "mean_average_precision": found.mean_average_precision,
            "chance_level": found.chance_of_precision,
            "n_queries": found.n_queries,
            "n_queries_left_out": found.n_queries_left_out,
            "symmetry_index": _symmetry(learner) if self.spec.experiment.traces else None,
        }
        precision_at_k = [
            {"k": k, "precision": float(value)}
            for k, value in enumerate(found.precision_at_k, start=1)
        ]
        self._send(Measured(columns, precision_at_k, self._retrieve(learner)))
        self._trace(chosen)

    def _begin(self, phase: str) -> None:
        self._send(PhaseBegan(phase))

    def _send_validation(self, point: Mapping[str, Any]) -> None:
        row = {**point, "params": json.dumps(point["params"])}
        self._send(TableRow("validation", row))

    def _make(
        self, params: Mapping[str, Any], purpose: str, n_steps: int | None = None
    ) -> MetricLearner:
        learner: MetricLearner = self.learner_class().set_params(**params)
        if "random_state" in learner.get_params() and "random_state" not in params:
            learner.set_params(random_state=self.spec.seed_for(purpose, of_learner=True))
        if n_steps is not None:
            learner.set_params(n_steps=n_steps)
        return learner

    def _score(self, learner: MetricLearner, X: Any, y: Any) -> float:
        seed = self.spec.seed_for("ties")
        return evaluate_ranking(learner.similarity, X, y, seed, k_max=1).mean_average_precision

    def _retrieve(self, learner: MetricLearner) -> list[dict[str, Any]]:
        """Return the first images that the example queries retrieve; learners share the queries."""
        if not (self.spec.shows_examples and self.spec.experiment.examples):
            return []
        X, y = self.test
        n_test = X.shape[0]
        rng = np.random.default_rng(self.spec.seed_for("examples"))
        queries = rng.permutation(n_test)[: self.spec.experiment.examples].astype(np.intp)
        order = tie_order(self.spec.seed_for("ties"), n_test)
        ranking = rank_others(learner.similarity(X[queries], X), queries, order)
        is_relevant = SharedLabels(y).relevant_rows(queries).toarray() > 0
        rows = self.partition.test
        return [
            {
                "query": int(rows[query]),
                "rank": rank,
                "retrieved": int(rows[found]),
                "relevant": int(is_relevant[place, found]),
            }
            for place, query in enumerate(queries)
            for rank, found in enumerate(ranking[place, :EXAMPLE_RANKS], start=1)
        ]

    def _trace(self, chosen: Chosen) -> None:
        """Send mAP on training and test rows and the symmetry of W, along the steps."""
        for n_steps, learner in self._replay(chosen):
            for split, part in (("train", self.train), ("test", self.test)):
                value = self._score(learner, *part)
                point = {"split": split, "n_steps": n_steps, "mean_average_precision": value}
                self._send(TableRow("traces", point))
            if (symmetry := _symmetry(learner)) is not None:
                point = {"n_steps": n_steps, "symmetry_index": symmetry}
                self._send(TableRow("symmetry", point))

    def _replay(self, chosen: Chosen) -> Iterator[tuple[int, MetricLearner]]:
        """Learn the same steps once more, and stop at each checkpoint.

        The replay passes through the measured model, up to rounding, and goes on as far as the
        validation did; nothing is chosen by it.
        """
        learner = self._make(chosen.params, "fit")
        if not (self.spec.experiment.traces and isinstance(learner, IncrementalLearner)):
            return
        if chosen.last_checkpoint is None:  # the number of steps was given
            return
        done = 0
        for n_steps in checkpoints(self.spec.experiment.max_steps):
            if n_steps > chosen.last_checkpoint:
                break
            self._begin("the replay for the traces")
            learner.partial_fit(*self.train, n_steps=n_steps - done)
            done = n_steps
            yield n_steps, learner


def _symmetry(learner: MetricLearner) -> float | None:
    """Return the symmetry index of W, or None for a learner without one and for W = 0."""
    if isinstance(learner, BilinearLearner):
        with suppress(ValueError):
            return symmetry_index(learner.bilinear_matrix_)
    return None
