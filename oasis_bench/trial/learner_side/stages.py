"""The learner's half of a trial, stage by stage: tune, fit or load, score, score alone, replay.

Each stage runs in a process of its own, which has fitted and cached nothing before.  What is timed
lies within `Meter`.  No label of a test item comes here: the other half of each stage, which
evaluates the scores, is in `oasis_bench.trial.harness_side.conversation`.
"""

from __future__ import annotations

import math
import os
import pickle
import socket
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from functools import partial
from importlib import import_module
from io import BytesIO
from itertools import groupby
from numbers import Real
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from oasis_bench.data import Scaling, symmetry_index
from oasis_bench.experiment import ChooseBy, TrialSpec
from oasis_bench.plugins import (
    BilinearLearner,
    Blend,
    ExemplarLearner,
    MetricLearner,
    Registry,
    is_the_baseline,
    read_model,
    write_model,
)
from oasis_bench.system import Text, Threads, shared, slices
from oasis_bench.tasks import Evaluation, Task, block_size, kernel_ready, tie_order
from oasis_bench.trial import wall
from oasis_bench.trial.learner_side.fit_data import FitData, inner_fit_data, whole_fit_data
from oasis_bench.trial.learner_side.meter import Meter, Stopwatch, time_limit
from oasis_bench.trial.learner_side.tuning import (
    Baselines,
    EndedError,
    FoldProcesses,
    FoldWork,
    tune,
)

COPY_SECONDS, COPY_RATE = 0.02, 200e6
"""Seconds, and bytes a second, that copying a fitted learner may take.

What takes longer is work that the learner has put off, and is added to the time of its fit."""

WARM_UP_SECONDS = 10.0
"""After these the warm-up ends: on so few items some learners do not converge."""


class Channel:
    """The process's end of the line between a trial's process and the harness."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def send(self, message: wall.Message, descriptor: int | None = None) -> None:
        """Send a message, with a file where one is given."""
        line = wall.to_line(message)
        files = [] if descriptor is None else [descriptor]
        n_sent = socket.send_fds(self._socket, [line], files)
        if n_sent < len(line):
            self._socket.sendall(line[n_sent:])

    def send_scores(self, message: wall.Scores, scores: wall.ScoreArray) -> None:
        """Send scores after their message."""
        self.send(message)
        self._socket.sendall(scores.data.cast("B"))

    def receive_file(self) -> int:
        """Wait for a file from the harness; return its descriptor."""
        _, files, _, _ = socket.recv_fds(self._socket, 1, 1)
        return files[0]


def run_stage(stage: wall.Stage, channel: Channel) -> None:
    """Do the work of a stage and tell the harness how it ended."""
    works: dict[wall.StageName, Callable[[wall.Stage, Channel], None]] = {
        "tune": _tune,
        "fit": _fit,
        "load": _load,
        "score alone": _score_alone,
        "replay": _replay,
        "score training items": _score_training_items,
    }
    try:
        with _limited_to(stage.spec.experiment.threads):
            works[stage.name](stage, channel)
        channel.send(wall.Ended("ok"))
    except EndedError as error:
        channel.send(error.message)
    except Exception as error:
        channel.send(_ended(error))


@contextmanager
def _limited_to(threads: int) -> Iterator[None]:
    """Limit the thread pools of libraries; to one thread they are limited from the beginning.

    To find the libraries takes some milliseconds.
    """
    if threads == 1 and all(os.environ.get(name) == "1" for name in Threads.VARIABLES):
        yield
        return
    with threadpool_limits(threads):
        yield


def _ended(error: Exception) -> wall.Ended:
    """Return the message of a stage that ends by an error."""
    if isinstance(error, wall.NotApplicableError):
        return wall.Ended("not applicable", str(error))
    status = "out of memory" if isinstance(error, MemoryError) else "failed"
    reason, place = Text.of_error(error), Registry.place_of(error)
    reason += f" ({place})" if place else ""
    return wall.Ended(status, reason, "".join(traceback.format_exception(error)))


def _tune(stage: wall.Stage, channel: Channel) -> None:
    """Tune on the inner folds."""
    spec, e = stage.spec, stage.spec.experiment
    learner, by_scaling = _learner_class(spec), attrgetter("scaling")
    _import_packages(learner)  # off the clock, and once for the processes of all folds
    items = wall.map_items(channel.receive_file())
    stopwatch = Stopwatch(lambda phase: channel.send(wall.PhaseBegan(phase)))
    start = time.perf_counter()
    for scaling, of_scaling in groupby(sorted(spec.candidates, key=by_scaling), by_scaling):
        X = Scaling.prepared_by(
            wall.learn_preparation(learner, scaling, items["X"], spec.encoding)
        )(items["X"])
        _refuse((_make(spec, one.params, "fit") for one in of_scaling), {**items, "X": X})
    stopwatch.seconds[wall.LEARNING] += time.perf_counter() - start
    validation, is_blended = _Validation(spec), wall.is_blended(spec, learner)
    try:
        winners = tune(
            lambda params, fold: _make(spec, {**learner.inner_params, **params}, f"fold {fold}"),
            spec.candidates,
            lambda scaling: inner_fit_data(spec, items, learner, scaling),
            validation.values,
            e.max_steps,
            stopwatch,
            lambda point: channel.send(wall.Validated(**point)),
            e.search.seconds,
            partial(_fold_processes, spec, stopwatch) if wall.folds_at_once(spec) > 1 else None,
            len(spec.chooses_by),
            (spec.scalings, validation.of_baseline) if is_blended else None,
            is_the_baseline(learner),
        )
    except wall.NotApplicableError:  # there are too few classes to hold some apart
        if wall.needs_search(spec, learner):
            raise
        winners = [copy(stage.tuned) for _ in spec.chooses_by]
    for tuned in winners:
        if is_blended and tuned.blend is None:  # not tuned: as it is learned
            tuned.blend, tuned.baseline_scaling = 1.0, tuned.scaling
        tuned.fit_seconds = stopwatch.seconds[wall.LEARNING]
        tuned.score_seconds = stopwatch.seconds[wall.VALIDATION]
        channel.send(tuned)


def _fold_processes(
    spec: TrialSpec, stopwatch: Stopwatch, work: FoldWork, n_folds: int
) -> FoldProcesses:
    return FoldProcesses(
        work, n_folds, wall.folds_at_once(spec), stopwatch, _ended, spec.budget.seconds
    )


class _Validation:
    """The measures that tune, of a fitted learner or of its baseline, on the data of a fold."""

    def __init__(self, spec: TrialSpec) -> None:
        registry = Registry.load(spec.plugin_files)
        self._spec, self._seed = spec, spec.seed_for("ties")
        self._tasks = [registry.tasks[by.task]() for by in spec.chooses_by]

    def values(
        self, learner: MetricLearner, data: FitData, baselines: Baselines | None
    ) -> npt.NDArray[np.float64]:
        """Return a row for each measure: one value, or one for each weight of a blend."""
        each = [data] * len(self._tasks) if baselines is None else baselines
        is_blended = wall.is_blended(self._spec, type(learner))
        seed = self._spec.seed_for("blend")
        learned = Blend.sd_of_learned(learner, data.X, seed) if is_blended else 0.0
        return np.array(
            [
                self._values(task, by, learner, data, (rows, learned) if is_blended else None)
                for task, by, rows in zip(self._tasks, self._spec.chooses_by, each, strict=True)
            ]
        )

    def of_baseline(self, data: FitData) -> npt.NDArray[np.float64]:
        """Return the value of the Euclidean baseline by each measure."""
        assert data.truth is not None
        asked = Blend.baseline_scores, data.queries, self._seed, data.X
        return np.array(
            [
                task.evaluate(data.truth, *asked, (by.measure,)).value(by.measure, by.k)
                for task, by in zip(self._tasks, self._spec.chooses_by, strict=True)
            ]
        )

    def _values(
        self,
        task: Task,
        by: ChooseBy,
        learner: MetricLearner,
        data: FitData,
        blended_with: tuple[FitData, float] | None,
    ) -> list[float]:
        """Return the values of the blends, of which there may be none, then the learner's own.

        They are with a baseline of these rows and the standard deviation of the learner's scores.
        """
        assert data.truth is not None
        similarity: Callable[[Any, Any], wall.ScoreArray] = learner.similarity
        training = data.X
        if task.gallery == "training" and isinstance(learner, ExemplarLearner):
            similarity = partial(_similarity_to_training, learner)
            training = np.arange(data.X.shape[0])  # the learner has the items
        only = (by.measure,)
        blends: list[tuple[Blend, Evaluation]] = []
        if blended_with is not None:
            rows, learned = blended_with
            gallery = rows.queries if task.gallery == "test" else rows.X
            ties = tie_order(self._seed, gallery.shape[0])
            sds = shared(Blend.sd_of_baseline, rows.X, self._spec.seed_for("blend")), learned
            blends = [
                (Blend(weight, *sds), task.evaluation(data.truth, ties, only))
                for weight in Blend.WEIGHTS[:-1]
            ]

        def judge_blends(start: int, scores: wall.ScoreArray) -> None:
            if not blends:
                return
            baseline = Blend.baseline_scores(rows.queries[start : start + len(scores)], gallery)
            own = Blend.as_inner_product(type(learner), scores)
            for blend, evaluation in blends:
                evaluation.add(start, blend.mix(baseline, own))

        asked = (similarity, data.queries, self._seed, training, only)
        own = task.evaluate(data.truth, *asked, also=judge_blends)
        evaluations = [*(evaluation for _, evaluation in blends), own]
        return [one.value(by.measure, by.k) for one in evaluations]


def _similarity_to_training(
    learner: ExemplarLearner, queries: Any, training: Any
) -> wall.ScoreArray:
    """Return the scores of training items, which the learner has: they need not be given."""
    shape = queries.shape[0], training.shape[0]
    return kernel_ready(learner.similarity_to_training(queries), shape, "similarity_to_training")


def _fit(stage: wall.Stage, channel: Channel) -> None:
    """Fit on the clock, send the fitted learner, then score the test items."""
    spec, tuned = stage.spec, stage.tuned
    _warm_up(stage, channel)
    learner = _make(spec, tuned.params, "fit", tuned.n_steps)
    channel.send(wall.PhaseBegan(wall.FIT))
    # Items are sent only now, with the clock running, so that no work on them is free.
    items = wall.map_items(channel.receive_file())
    data = whole_fit_data(spec, items)
    with _limited_to(spec.experiment.threads):  # of libraries loaded by now, too
        threads = Threads.of_blas()
        meter = Meter(stage.server)
        with meter:
            if not wall.needs_tuning(spec, type(learner)):
                _refuse([learner], items)
            data.fit(learner)
        cost = meter.cost()
    symmetry = _symmetry_of(learner) if spec.experiment.traces else None
    model, late = _copied(learner)
    channel.send(
        wall.Fitted(
            threads,
            cost.seconds + late,
            cost.cpu_seconds + late,
            cost.waiting_seconds,
            cost.peak_bytes,
            symmetry,
            _numbers_of(learner),
        ),
        model,
    )
    os.close(channel.receive_file())  # the harness has read its clock
    if spec.keeps_model:
        _send_model_file(learner, channel)
    if wall.is_blended(spec, type(learner)):
        # A copy is asked: the learner itself, which is to be timed, has computed nothing yet.
        copied = pickle.loads(wall.map_bytes(model))
        channel.send(wall.Compared(Blend.sd_of_learned(copied, items["X"], spec.seed_for("blend"))))
        del copied
    _score(learner, stage, channel)


def _send_model_file(learner: MetricLearner, channel: Channel) -> None:
    try:
        channel.send(wall.Saved(), wall.seal(lambda file: write_model(learner, file)))
    except Exception as error:
        channel.send(wall.Saved(Text.of_error(error)))


def _load(stage: wall.Stage, channel: Channel) -> None:
    """Read a saved model in place of a fit, then score the test items."""
    spec = stage.spec
    _warm_up(stage, channel)
    channel.send(wall.PhaseBegan(wall.LOAD))
    content = BytesIO(wall.map_bytes(channel.receive_file()))
    learner = read_model(content, Registry.load(spec.plugin_files))
    learner.__dict__.pop("feature_names_in_", None)  # matched already: rows come without names
    symmetry = _symmetry_of(learner) if spec.experiment.traces else None
    model, _ = _copied(learner)
    channel.send(wall.Loaded(Threads.of_blas(), symmetry, _numbers_of(learner)), model)
    _score(learner, stage, channel)


def _score_alone(stage: wall.Stage, channel: Channel) -> None:
    """Score some test items with a copy of the fitted learner, which has never seen the others.

    Its time is not recorded.
    """
    learner = _fitted_copy(stage, channel, wall.ANSWER)
    _send_scores(learner, stage.galleries, *_receive_items(stage, channel), channel, nullcontext())


def _score_training_items(stage: wall.Stage, channel: Channel) -> None:
    """Compare the training items with one another, by a copy of the fitted learner."""
    learner = _fitted_copy(stage, channel, wall.REPLAY)
    X = wall.map_items(channel.receive_file())["X"]
    _send_scores(learner, ("test",), X, X, channel, nullcontext())


def _fitted_copy(stage: wall.Stage, channel: Channel, phase: str) -> MetricLearner:
    """Begin a phase with a copy of the fitted learner, which the harness sends."""
    Registry.load(stage.spec.plugin_files)  # imports the module of the learner
    channel.send(wall.PhaseBegan(phase))
    learner: MetricLearner = pickle.loads(wall.map_bytes(channel.receive_file()))
    return learner


def _score(learner: MetricLearner, stage: wall.Stage, channel: Channel) -> None:
    """Score the items that the harness sends, on the clock."""
    meter = Meter(stage.server)
    channel.send(wall.PhaseBegan(wall.ANSWER))
    _send_scores(learner, stage.galleries, *_receive_items(stage, channel), channel, meter)
    cost = meter.cost()
    channel.send(wall.Queried(cost.seconds, cost.cpu_seconds))


def _receive_items(stage: wall.Stage, channel: Channel) -> tuple[Any, Any]:
    """Wait for the test items and, where they are compared with these, the training items."""
    test = wall.map_items(channel.receive_file())["X"]
    return test, wall.map_items(channel.receive_file())[
        "X"
    ] if "training" in stage.galleries else None


def _replay(stage: wall.Stage, channel: Channel) -> None:
    """Learn the same steps once more, and send the scores at each checkpoint.

    The replay passes through the measured model, up to rounding, and goes on as far as the
    validation did; nothing is chosen by it.
    """
    spec, tuned = stage.spec, stage.tuned
    training, test = (wall.map_items(channel.receive_file()) for _ in range(2))
    X, data = training["X"], whole_fit_data(spec, training)
    learner = _make(spec, tuned.params, "fit")
    assert tuned.last_checkpoint is not None
    done = 0
    for n_steps in wall.checkpoints(spec.experiment.max_steps):
        if n_steps > tuned.last_checkpoint:
            break
        channel.send(wall.PhaseBegan(wall.REPLAY))
        data.fit(learner, done, n_steps)
        done = n_steps
        channel.send(wall.Replayed(n_steps, _symmetry_of(learner)))
        if "test" in stage.galleries:
            _send_scores(learner, ("test",), X, X, channel, nullcontext())
        _send_scores(learner, stage.galleries, test["X"], X, channel, nullcontext())


def _send_scores(
    learner: MetricLearner,
    galleries: tuple[str, ...],
    test: Any,
    training: Any,
    channel: Channel,
    meter: AbstractContextManager[None],
) -> None:
    """Send the scores of test items against each gallery; `meter` is entered around the work."""
    for gallery in galleries:
        others = test if gallery == "test" else training
        with meter:
            score, method = _scorer(learner, gallery, test, others)
        n_gallery = others.shape[0]
        for part in slices(test.shape[0], block_size(n_gallery, np.float64, wall.MOST_SCORE_BYTES)):
            with meter:
                scores = score(part)
            n_queries = part.stop - part.start
            sent = kernel_ready(scores, (n_queries, n_gallery), method)
            if np.isnan(sent).any():
                learner.checked_scores(sent, method)  # raises
            channel.send_scores(wall.Scores(gallery, n_queries, sent.dtype.name), sent)


def _scorer(
    learner: MetricLearner, gallery: str, test: Any, others: Any
) -> tuple[Callable[[slice], wall.ScoreArray], str]:
    """Return what scores a block of test items, and the name of the method that it calls.

    A gallery is embedded once, not once a block.
    """
    if gallery == "training" and isinstance(learner, ExemplarLearner):
        return lambda part: learner.similarity_to_training(test[part]), "similarity_to_training"
    if not learner.has_embedding:
        return lambda part: learner.similarity(test[part], others), "similarity"
    queries = learner.embed(test)
    embedded = queries if gallery == "test" else learner.embed(others)
    return lambda part: learner.score_embeddings(queries[part], embedded), "score_embeddings"


def _import_packages(learner: type[MetricLearner]) -> None:
    """Import what a learner needs, however long it takes: half of an import is of no use."""
    for package in learner.imports:
        with suppress(ImportError):
            import_module(package)


def _warm_up(stage: wall.Stage, channel: Channel) -> None:
    """Fit and ask a few items, so that the clock sees no lazy import and no first call.

    That learner is thrown away, and the process has no other items yet.
    """
    channel.send(wall.PhaseBegan(wall.WARM_UP))
    few = wall.map_items(channel.receive_file())
    n_steps = None if stage.tuned.n_steps is None else 10
    learner = _make(stage.spec, stage.tuned.params, "warm-up", n_steps)
    _import_packages(type(learner))
    # Some learners fail on so few items.  Any other error occurs again on the clock.
    seconds = min(WARM_UP_SECONDS, (stage.spec.budget.seconds or math.inf) / 2)
    with suppress(Exception), time_limit(seconds):
        whole_fit_data(stage.spec, few).fit(learner)
        for gallery in stage.galleries:
            score, _ = _scorer(learner, gallery, few["X"], few["X"])
            score(slice(0, 2))


def _refuse(learners: Iterable[MetricLearner], items: Mapping[str, Any]) -> None:
    """Raise NotApplicableError where a learner refuses the items, with any parameters to try."""
    data = FitData.of(items["X"], items["y"], items.get("judgements"), seed=0)
    for learner in learners:
        if data.reads_labels(learner) and (reason := learner.refusal(items["X"], items["y"])):
            raise wall.NotApplicableError(reason)


def _learner_class(spec: TrialSpec) -> type[MetricLearner]:
    return Registry.load(spec.plugin_files).algorithms[spec.algorithm]


def _make(
    spec: TrialSpec, params: Mapping[str, Any], purpose: str, n_steps: int | None = None
) -> MetricLearner:
    learner: MetricLearner = _learner_class(spec)().set_params(**params)
    if "random_state" in learner.get_params() and "random_state" not in params:
        learner.set_params(random_state=spec.seed_for(purpose, of_learner=True))
    if n_steps is not None:
        learner.set_params(n_steps=n_steps)
    return learner


def _copied(learner: MetricLearner) -> tuple[int, float]:
    """Write a fitted learner into a sealed file.

    Return its descriptor, and the seconds beyond COPY_SECONDS and COPY_RATE.
    """
    start = time.perf_counter()
    model = wall.seal(lambda file: pickle.dump(learner, file, protocol=5))
    seconds = time.perf_counter() - start
    return model, max(0.0, seconds - COPY_SECONDS - os.fstat(model).st_size / COPY_RATE)


def _numbers_of(learner: MetricLearner) -> dict[str, float]:
    """Return the fitted attributes that are single finite numbers; not the number of features."""
    found = {}
    for name, value in vars(learner).items():
        is_fitted = name.endswith("_") and not name.startswith("_") and name != "n_features_in_"
        if is_fitted and isinstance(value, Real) and len(name) <= wall.LONGEST_NAME:
            with suppress(OverflowError):
                found[name] = float(value)
    finite = [item for item in found.items() if math.isfinite(item[1])]
    return dict(finite[: wall.MOST_NUMBERS])


def _symmetry_of(learner: MetricLearner) -> float | None:
    """Return the symmetry index of W, or None for a learner without one and for W = 0."""
    if isinstance(learner, BilinearLearner):
        with suppress(ValueError):
            return symmetry_index(learner.bilinear_matrix_)
    return None
