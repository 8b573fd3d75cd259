"""One trial: choose on inner folds, fit on the clock, evaluate off the clock.

The only module with a clock.  It runs in a process of its own.
"""

from __future__ import annotations

import json
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import ParameterGrid
from threadpoolctl import threadpool_info, threadpool_limits

from oasis_bench.dataset import LabelledRows
from oasis_bench.learner import BilinearLearner, IncrementalLearner, MetricLearner
from oasis_bench.measures import evaluate_ranking, rank_others, relevant_rows
from oasis_bench.memory import PeakMemory
from oasis_bench.plan import TrialSpec
from oasis_bench.preparation import learn_preparation
from oasis_bench.registry import load_registry
from oasis_bench.selection import Choice, checkpoints, choose
from oasis_bench.splits import draw_partition, draw_share, inner_folds
from oasis_bench.store import TrialRecord
from oasis_bench.symmetry import symmetry_index

WARM_UP_IMAGES = 8
EXAMPLE_RANKS = 5

DENSE_BYTES = 2 * 2**30
"""Sparse rows are made dense for a learner that takes no others, up to this size."""


class NotApplicableError(Exception):
    """A learner that cannot learn from a data set of this kind, for a reason known beforehand."""


class Stopwatch:
    """Seconds spent, by what they were spent on."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Add the time within to `what`."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - start


def waiting_seconds() -> float | None:
    """Return how long the threads of this process were ready and had no core; None if not told."""
    try:
        texts = [path.read_text() for path in Path("/proc/self/task").glob("*/schedstat")]
    except OSError:
        return None
    return sum(int(text.split()[1]) for text in texts) / 1e9 if texts else None


def run_trial(spec: TrialSpec, rows: LabelledRows) -> TrialRecord:
    """Run a trial to its record; a learner that raises makes a record of status 'failed'."""
    try:
        return _Trial(spec, rows).run()
    except NotApplicableError as error:
        return unfinished(spec, rows, "not applicable", str(error))
    except Exception as error:
        return unfinished(spec, rows, "failed", _one_line(error), traceback.format_exc())


def unfinished(
    spec: TrialSpec, rows: LabelledRows, status: str, reason: str, trace: str | None = None
) -> TrialRecord:
    """Make the record of a trial that gave no result."""
    columns = _identity(spec, rows)
    return TrialRecord({**columns, "status": status, "reason": reason, "traceback": trace})


class _Trial:
    """The rows, the seeds and the steps of one trial."""

    def __init__(self, spec: TrialSpec, rows: LabelledRows) -> None:
        self.spec = spec
        self.rows = rows
        self.learner_class = load_registry(spec.plugin_files).algorithms[spec.algorithm]
        self._refuse_what_it_cannot_take()
        e, seed = spec.experiment, spec.seed_for("partition")
        if isinstance(rows.y, sparse.csr_array):
            self.partition = draw_share(rows.X.shape[0], spec.n_test, seed)
        else:
            self.partition = draw_partition(
                rows.y, spec.classes, e.train_per_class, e.test_per_class, seed
            )
        prepare = learn_preparation(spec.normalize, rows.X[self.partition.train])
        self.train, self.test = (
            (self._densified(prepare(rows.X[part])), rows.y[part]) for part in self.partition
        )

    def _refuse_what_it_cannot_take(self) -> None:
        name = self.learner_class.name
        if self.rows.multi_label and not self.learner_class.takes_relevance:
            raise NotApplicableError(f"{name} takes one label an image, not several")
        n_bytes = self.spec.n_train * self.rows.X.shape[1] * self.rows.X.dtype.itemsize
        if self._must_be_dense and n_bytes > DENSE_BYTES:
            raise NotApplicableError(
                f"{name} takes dense rows only, and these would be {n_bytes / 2**30:.1f} GiB"
            )

    def _refuse_what_it_cannot_learn_from(self) -> None:
        """Ask the learner itself, with all parameters that would be tried."""
        for params in ParameterGrid(dict(self.spec.grid)):
            if reason := self._make(params, "fit").refusal(*self.train):
                raise NotApplicableError(reason)

    @property
    def _must_be_dense(self) -> bool:
        return sparse.issparse(self.rows.X) and not self.learner_class.takes_sparse

    def _densified(self, X: Any) -> Any:
        return X.toarray() if self._must_be_dense else X

    def run(self) -> TrialRecord:
        """Choose, fit on the clock and evaluate, with pinned threads."""
        stopwatch = Stopwatch()
        with threadpool_limits(self.spec.experiment.threads):
            self._refuse_what_it_cannot_learn_from()
            choice = self._choose(stopwatch)
            learner = self._make(choice.params, "fit", n_steps=choice.n_steps)
            self._warm_up(choice)
        # Again, for libraries that were first loaded by now.
        with threadpool_limits(self.spec.experiment.threads):
            return self._measure(learner, choice, stopwatch)

    def _measure(self, learner: MetricLearner, choice: Choice, stopwatch: Stopwatch) -> TrialRecord:
        threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
        peak_bytes, cpu_seconds, waiting_seconds = self._fit(learner, stopwatch)
        measured = evaluate_ranking(learner.similarity, *self.test, seed=self.spec.seed_for("ties"))
        columns = {
            **_identity(self.spec, self.rows),
            "status": "ok",
            "threads": threads,
            "n_features": self.train[0].shape[1],
            "params": json.dumps(choice.params),
            "n_steps": choice.params.get("n_steps", choice.n_steps),
            "fit_seconds": stopwatch.seconds["final fit"],
            "fit_cpu_seconds": cpu_seconds,
            "fit_waiting_seconds": waiting_seconds,
            "fit_peak_bytes": peak_bytes,
            "selection_fit_seconds": stopwatch.seconds["fit"],
            "selection_score_seconds": stopwatch.seconds["score"],
            "mean_average_precision": measured.mean_average_precision,
            "chance_level": measured.chance_level,
            "n_queries": measured.n_queries,
            "n_queries_left_out": measured.n_queries_left_out,
            "symmetry_index": _symmetry(learner) if self.spec.experiment.traces else None,
        }
        return TrialRecord(
            columns,
            precision_at_k=[
                {"k": k, "precision": float(value)}
                for k, value in enumerate(measured.precision_at_k, start=1)
            ],
            validation=[
                {**point, "params": json.dumps(point["params"])} for point in choice.points
            ],
            retrievals=self._retrieve(learner),
            **self._trace(choice),
        )

    def _choose(self, stopwatch: Stopwatch) -> Choice:
        X, y = self.train
        e = self.spec.experiment
        return choose(
            lambda params, fold: self._make(params, f"fold {fold}"),
            self.spec.grid,
            X,
            y,
            inner_folds(y, e.inner_folds, self.spec.seed_for("folds")),
            self._score,
            e.max_steps,
            stopwatch,
        )

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

    def _warm_up(self, choice: Choice) -> None:
        """Fit a few images, so that the clock sees no lazy import and no first call."""
        X, y = self.train
        if self.rows.multi_label:
            few = np.arange(min(100, X.shape[0]))
        else:
            few = np.concatenate(
                [np.flatnonzero(y == number)[:WARM_UP_IMAGES] for number in self.spec.classes[:2]]
            )
        learner = self._make(choice.params, "warm-up", None if choice.n_steps is None else 10)
        with suppress(Exception):  # too few images for some learners: the fit itself will tell
            learner.fit(X[few], y[few])

    def _fit(
        self, learner: MetricLearner, stopwatch: Stopwatch
    ) -> tuple[int | None, float, float | None]:
        """Fit on the clock; return peak memory above the start, CPU seconds and waiting seconds."""
        memory = PeakMemory()
        waited, cpu = waiting_seconds(), time.process_time()
        with stopwatch("final fit"):
            learner.fit(*self.train)
        cpu = time.process_time() - cpu
        waited = None if waited is None else (waiting_seconds() or waited) - waited
        return memory.above_start(), cpu, waited

    def _retrieve(self, learner: MetricLearner) -> list[dict[str, Any]]:
        """Note the first images that some test images bring up, the same for every learner."""
        if not self.spec.shows_examples:
            return []
        X, y = self.test
        n_test = X.shape[0]
        rng = np.random.default_rng(self.spec.seed_for("examples"))
        queries = rng.permutation(n_test)[: self.spec.experiment.examples].astype(np.intp)
        tie_order = np.random.default_rng(self.spec.seed_for("ties")).permutation(n_test)
        ranking = rank_others(learner.similarity(X[queries], X), queries, tie_order)
        is_relevant = relevant_rows(y, queries)
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

    def _trace(self, choice: Choice) -> dict[str, list[dict[str, Any]]]:
        """Record mAP on training and test rows and the symmetry of W, along the steps."""
        traces, symmetry = [], []
        for n_steps, learner in self._replay(choice):
            traces += [
                {
                    "split": split,
                    "n_steps": n_steps,
                    "mean_average_precision": self._score(learner, *part),
                }
                for split, part in (("train", self.train), ("test", self.test))
            ]
            symmetry.append({"n_steps": n_steps, "symmetry_index": _symmetry(learner)})
        return {
            "traces": traces,
            "symmetry": [point for point in symmetry if point["symmetry_index"] is not None],
        }

    def _replay(self, choice: Choice) -> Iterator[tuple[int, MetricLearner]]:
        """Learn the same steps once more, and stop at each checkpoint.

        The replay passes through the measured model and goes on as far as the validation did;
        nothing is chosen by it.
        """
        learner = self._make(choice.params, "fit")
        searched = choice.n_steps is not None and isinstance(learner, IncrementalLearner)
        if not (searched and self.spec.experiment.traces):
            return
        last = max(point["n_steps"] for point in choice.points if point["params"] == choice.params)
        done = 0
        for n_steps in checkpoints(self.spec.experiment.max_steps):
            if n_steps > last:
                break
            learner.partial_fit(*self.train, n_steps=n_steps - done)
            done = n_steps
            yield n_steps, learner


def _identity(spec: TrialSpec, rows: LabelledRows) -> dict[str, Any]:
    """Return the columns that are known before the trial, and when it ended."""
    e = spec.experiment
    return {
        "trial_id": spec.trial_id,
        "learner": spec.learner,
        "algorithm": spec.algorithm,
        "dataset": e.dataset,
        "subset": spec.subset,
        "n_classes": len(spec.classes),
        "partition": spec.partition,
        "n_train": spec.n_train,
        "n_test": spec.n_test,
        "n_features": rows.X.shape[1],
        "threads": e.threads,
        "shared_cores": int(spec.shares_cores),
        "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }


def _symmetry(learner: MetricLearner) -> float | None:
    """Return the symmetry index of W, or None for a learner without one and for W = 0."""
    if isinstance(learner, BilinearLearner):
        with suppress(ValueError):
            return symmetry_index(learner.bilinear_matrix_)
    return None


def _one_line(error: Exception) -> str:
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return "".join(char if char.isprintable() else "\ufffd" for char in text)
