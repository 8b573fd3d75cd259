"""One trial: choose on inner folds, fit on the clock, evaluate off the clock.

The only module with a clock.  Each of its two stages runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.model_selection import ParameterGrid
from threadpoolctl import ThreadpoolController

from oasis_bench.data.matrices import symmetry_index
from oasis_bench.data.rows import LabelledRows
from oasis_bench.data.scaling import learn_preparation
from oasis_bench.experiment.identity import source_hash
from oasis_bench.experiment.plan import TrialSpec
from oasis_bench.experiment.splits import draw_partition, draw_share, inner_folds
from oasis_bench.plugins.learner import BilinearLearner, IncrementalLearner, MetricLearner
from oasis_bench.plugins.registry import load_registry
from oasis_bench.system.memory import PeakMemory
from oasis_bench.system.plain_text import error_line
from oasis_bench.system.processes import descendants
from oasis_bench.system.provenance import processor_name
from oasis_bench.tasks.ranking import rank_others
from oasis_bench.tasks.retrieval import SharedLabels, evaluate_ranking
from oasis_bench.trial.choice import checkpoints, choose
from oasis_bench.trial.messages import EVALUATION, REPLAY, Account, Tell
from oasis_bench.trial.record import TrialRecord

WARM_UP_IMAGES = 8

WARM_UP_SECONDS = 10.0
"""After these the warm-up has seen enough: on so few images some learners do not converge."""

EXAMPLE_RANKS = 5

DENSE_BYTES = 2 * 2**30
"""Sparse rows are made dense for a learner that takes no others, up to this size."""


class NotApplicableError(Exception):
    """A learner that cannot learn from a data set of this kind, for a reason known beforehand."""


class Stopwatch:
    """Seconds spent, by what they were spent on; it tells what begins.

    Parameters
    ----------
    tell : callable
    await_turn : callable
        Called once, before anything is timed: it returns when nobody else is on the clock.
    """

    def __init__(self, tell: Tell, await_turn: Callable[[], object]) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self._tell = tell
        self._await_turn: Callable[[], object] | None = await_turn

    def await_turn(self) -> None:
        """Wait as long as somebody else is on the clock."""
        if self._await_turn is not None:
            self._await_turn()
            self._await_turn = None

    @contextmanager
    def __call__(self, what: str) -> Iterator[None]:
        """Add the time within to `what`."""
        self.await_turn()
        self._tell({"phase": what})
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[what] += time.perf_counter() - start


def waiting_seconds(
    before: tuple[float, float] | None, after: tuple[float, float] | None, cpu_seconds: float
) -> float | None:
    """Return how long threads were ready and had no core, or None where this is not known.

    The system tells it of living threads alone: it is not known where others, with more than a
    twentieth of the processor time, have come and gone.

    Parameters
    ----------
    before, after : tuple of float or None
        Of `_scheduled_seconds`.
    cpu_seconds : float
        Processor time of the process in between.
    """
    if before is None or after is None:
        return None
    ran, waited = (later - earlier for earlier, later in zip(before, after, strict=True))
    return waited if cpu_seconds - ran <= 0.05 * cpu_seconds + 0.01 else None


def _cpu_seconds() -> float:
    """Return the processor time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _children() -> tuple[int, frozenset[int]]:
    """Return what changes when a process of this one's own, or of theirs, begins or ends."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_minflt, descendants(os.getpid())


def _scheduled_seconds() -> tuple[float, float] | None:
    """Return how long the threads that there are have run and have waited to run; Linux."""
    try:
        texts = [path.read_text() for path in Path("/proc/self/task").glob("*/schedstat")]
    except OSError:
        return None
    times = [[int(number) / 1e9 for number in text.split()[:2]] for text in texts]
    return (sum(ran for ran, _ in times), sum(waited for _, waited in times)) if times else None


def run_trial(spec: TrialSpec, rows: LabelledRows) -> TrialRecord:
    """Run a trial in this process, without limits, to its record."""
    account = Account(spec, rows.X.shape[1])
    run_stage(spec, rows, None, account.hear, lambda: None)
    if account.record is None:
        run_stage(spec, rows, account.choice, account.hear, lambda: None)
    assert account.record is not None
    return account.record


def run_stage(
    spec: TrialSpec,
    rows: LabelledRows,
    choice: Mapping[str, Any] | None,
    tell: Tell,
    await_turn: Callable[[], object],
) -> None:
    """Choose, or, where that is done or there is no choice, fit and measure.

    Parameters
    ----------
    spec : TrialSpec
    rows : LabelledRows
    choice : mapping or None
        What the stage before told.
    tell : callable
        Told of what begins and of all results; a learner that raises gives a 'failure'.
    await_turn : callable
        Called once, when all is prepared and before anything is timed.
    """
    try:
        stage = _Trial(spec, rows, tell, Stopwatch(tell, await_turn))
        pools, n_modules = ThreadpoolController(), len(sys.modules)
        with pools.limit(limits=spec.experiment.threads):
            if choice is None:
                stage.refuse_what_it_cannot_learn_from()
                choice, searched = stage.choose()
                if searched:  # the fit that is measured gets a process that has fitted nothing
                    tell({"choice": choice})
                    return
            stage.warm_up(choice)
        if len(sys.modules) != n_modules:  # libraries may have been loaded by now
            pools = ThreadpoolController()
        with pools.limit(limits=spec.experiment.threads):
            threads = max((pool["num_threads"] for pool in pools.info()), default=1)
            stage.measure(choice, threads)
        tell({"end": True})
    except NotApplicableError as error:
        tell(_failure("not applicable", str(error)))
    except MemoryError as error:
        tell(_failure("out of memory", error_line(error), traceback.format_exc()))
    except Exception as error:
        tell(_failure("failed", error_line(error), traceback.format_exc()))


def _failure(status: str, reason: str, trace: str | None = None) -> dict[str, Any]:
    return {"failure": {"status": status, "reason": reason, "traceback": trace}}


class _Trial:
    """The rows, the seeds and the steps of one trial."""

    def __init__(
        self, spec: TrialSpec, rows: LabelledRows, tell: Tell, stopwatch: Stopwatch
    ) -> None:
        self.spec = spec
        self.rows = rows
        self._tell = tell
        self._stopwatch = stopwatch
        self._children_before = _children()
        self.learner_class = load_registry(spec.plugin_files).algorithms[spec.algorithm]
        if source_hash(self.learner_class) != spec.identity["source"]:
            raise RuntimeError(
                f"the source of {spec.learner} has changed since the run began: put it back and "
                "run this trial again with --resume and --retry failed, or start a new run"
            )
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

    def refuse_what_it_cannot_learn_from(self) -> None:
        """Ask the learner itself, with all parameters that would be tried."""
        for params in ParameterGrid(dict(self.spec.grid)):
            if reason := self._make(params, "fit").refusal(*self.train):
                raise NotApplicableError(reason)

    @property
    def _must_be_dense(self) -> bool:
        return sparse.issparse(self.rows.X) and not self.learner_class.takes_sparse

    def _densified(self, X: Any) -> Any:
        return X.toarray() if self._must_be_dense else X

    def choose(self) -> tuple[dict[str, Any], bool]:
        """Choose on the inner folds; return what to fit, and whether anything was tried."""
        X, y = self.train
        e = self.spec.experiment
        chosen = choose(
            lambda params, fold: self._make(params, f"fold {fold}"),
            self.spec.grid,
            X,
            y,
            lambda: inner_folds(y, e.inner_folds, self.spec.seed_for("folds")),
            self._score,
            e.max_steps,
            self._stopwatch,
            self._tell_of_validation,
        )
        seen = [point["n_steps"] for point in chosen.points if point["params"] == chosen.params]
        seconds = self._stopwatch.seconds
        choice = {
            "params": dict(chosen.params),
            "n_steps": chosen.n_steps,
            "last_checkpoint": None if chosen.n_steps is None else max(seen),
            "fit_seconds": seconds["learning on inner folds"],
            "score_seconds": seconds["validation"],
        }
        return choice, bool(chosen.points)

    def measure(self, choice: Mapping[str, Any], threads: int) -> None:
        """Fit on the clock, evaluate and replay, with so many threads."""
        learner = self._make(choice["params"], "fit", n_steps=choice["n_steps"])
        peak_bytes, cpu_seconds, waited = self._fit(learner)
        seed = self.spec.seed_for("ties")
        measured = evaluate_ranking(learner.similarity, *self.test, seed=seed)
        retrievals = self._retrieve(learner)
        columns = {
            "threads": threads,
            "processor": processor_name(),
            "n_features": self.train[0].shape[1],
            "params": json.dumps(choice["params"]),
            "n_steps": choice["params"].get("n_steps", choice["n_steps"]),
            "fit_seconds": self._stopwatch.seconds["the final fit"],
            "fit_cpu_seconds": cpu_seconds,
            "fit_waiting_seconds": waited,
            "fit_peak_bytes": peak_bytes,
            "selection_fit_seconds": choice["fit_seconds"],
            "selection_score_seconds": choice["score_seconds"],
            "mean_average_precision": measured.mean_average_precision,
            "chance_level": measured.chance_level,
            "n_queries": measured.n_queries,
            "n_queries_left_out": measured.n_queries_left_out,
            "symmetry_index": _symmetry(learner) if self.spec.experiment.traces else None,
        }
        precision_at_k = [
            {"k": k, "precision": float(value)}
            for k, value in enumerate(measured.precision_at_k, start=1)
        ]
        tables = {"precision_at_k": precision_at_k, "retrievals": retrievals}
        self._tell({"measured": {"columns": columns, **tables}})
        self._trace(choice)

    def _tell_of_validation(self, point: Mapping[str, Any]) -> None:
        self._tell({"validation": {**point, "params": json.dumps(point["params"])}})

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

    def warm_up(self, choice: Mapping[str, Any]) -> None:
        """Fit a few images, so that the clock sees no lazy import and no first call."""
        self._tell({"phase": "the warm-up"})
        X, y = self.train
        if self.rows.multi_label:
            few = np.arange(min(100, X.shape[0]))
        else:
            few = np.concatenate(
                [np.flatnonzero(y == number)[:WARM_UP_IMAGES] for number in self.spec.classes[:2]]
            )
        n_steps = None if choice["n_steps"] is None else 10
        learner = self._make(choice["params"], "warm-up", n_steps)
        # Too few images for some learners: the fit itself will tell.
        with suppress(Exception), _interrupted_after(WARM_UP_SECONDS):
            learner.fit(X[few], y[few])

    def _fit(self, learner: MetricLearner) -> tuple[int | None, float, float | None]:
        """Fit on the clock; return peak memory above the start, CPU seconds and waiting seconds.

        The memory is not known where the trial has had processes of its own, by now or in the fit.
        """
        self._stopwatch.await_turn()
        memory = PeakMemory()
        scheduled = _scheduled_seconds()
        with self._stopwatch("the final fit"):
            cpu = _cpu_seconds()
            learner.fit(*self.train)
            cpu = _cpu_seconds() - cpu
        waited = waiting_seconds(scheduled, _scheduled_seconds(), cpu)
        peak_bytes = memory.above_start()
        self._tell({"phase": EVALUATION})
        alone = _children() == self._children_before
        return peak_bytes if alone else None, cpu, waited

    def _retrieve(self, learner: MetricLearner) -> list[dict[str, Any]]:
        """Note the first images that some test images bring up, the same for every learner."""
        if not (self.spec.shows_examples and self.spec.experiment.examples):
            return []
        X, y = self.test
        n_test = X.shape[0]
        rng = np.random.default_rng(self.spec.seed_for("examples"))
        queries = rng.permutation(n_test)[: self.spec.experiment.examples].astype(np.intp)
        tie_order = np.random.default_rng(self.spec.seed_for("ties")).permutation(n_test)
        ranking = rank_others(learner.similarity(X[queries], X), queries, tie_order)
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

    def _trace(self, choice: Mapping[str, Any]) -> None:
        """Tell of mAP on training and test rows and of the symmetry of W, along the steps."""
        for n_steps, learner in self._replay(choice):
            for split, part in (("train", self.train), ("test", self.test)):
                value = self._score(learner, *part)
                point = {"split": split, "n_steps": n_steps, "mean_average_precision": value}
                self._tell({"trace": point})
            if (symmetry := _symmetry(learner)) is not None:
                self._tell({"symmetry": {"n_steps": n_steps, "symmetry_index": symmetry}})

    def _replay(self, choice: Mapping[str, Any]) -> Iterator[tuple[int, MetricLearner]]:
        """Learn the same steps once more, and stop at each checkpoint.

        The replay passes through the measured model, up to rounding, and goes on as far as the
        validation did; nothing is chosen by it.
        """
        learner = self._make(choice["params"], "fit")
        searched = choice["n_steps"] is not None and isinstance(learner, IncrementalLearner)
        if not (searched and self.spec.experiment.traces):
            return
        done = 0
        for n_steps in checkpoints(self.spec.experiment.max_steps):
            if n_steps > choice["last_checkpoint"]:
                break
            self._tell({"phase": REPLAY})
            learner.partial_fit(*self.train, n_steps=n_steps - done)
            done = n_steps
            yield n_steps, learner


@contextmanager
def _interrupted_after(seconds: float) -> Iterator[None]:
    """Raise TimeoutError within when the time is over: in the main thread, not in midst of C."""

    def interrupt(number: int, frame: object) -> None:
        raise TimeoutError

    if threading.current_thread() is not threading.main_thread():  # no signal comes there
        yield
        return
    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _symmetry(learner: MetricLearner) -> float | None:
    """Return the symmetry index of W, or None for a learner without one and for W = 0."""
    if isinstance(learner, BilinearLearner):
        with suppress(ValueError):
            return symmetry_index(learner.bilinear_matrix_)
    return None
