"""The learner's half of a trial, stage by stage: tune, fit or load, score, score alone, replay.

The fork server calls `warm_up` once; then it forks a process for each stage.  This process runs
`learner_process`, and has fitted and cached nothing before.  Timed code runs within `Meter`.  No
test label comes here: `oasis_bench.trial.harness_side.stages` has the other half of each stage,
which evaluates the scores.
"""

from __future__ import annotations

import math
import os
import pickle
import resource
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from io import BytesIO, TextIOWrapper
from numbers import Real
from typing import Any, cast

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from oasis_bench.data import FloatArray, Scaling, apply_steps, symmetry_index
from oasis_bench.plugins import (
    BASELINE,
    BilinearLearner,
    ExemplarLearner,
    MetricLearner,
    NoScaleError,
    Posterior,
    Registry,
    is_the_baseline,
    place_in_plugin,
    read_model,
    sd_of_learned,
    sds_of_affinity,
    without_votes,
    write_model,
)
from oasis_bench.system import (
    THREAD_VARIABLES,
    Processes,
    error_line,
    import_packages,
    n_blas_threads,
    slices,
)
from oasis_bench.tasks import Split, block_size, evaluate_ranking, kernel_ready
from oasis_bench.trial import wall
from oasis_bench.trial.learner_side.fit_data import FitData
from oasis_bench.trial.learner_side.fold_processes import EndedError, FoldProcesses, FoldWork
from oasis_bench.trial.learner_side.inner_folds import InnerFolds, make_learner
from oasis_bench.trial.learner_side.meter import Meter, Stopwatch, time_limit
from oasis_bench.trial.learner_side.tuning import Tuning

COPY_SECONDS, COPY_RATE = 0.02, 200e6
"""Copying a fitted learner may take so many seconds, plus its size at so many bytes a second.

More time is work that the learner has put off; it is added to the time of its fit."""

WARM_UP_SECONDS = 10.0
"""The warm-up ends after this: on so few items some learners do not converge."""


class Channel:
    """The process's end of the line between a trial's process and the harness."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def send(self, message: wall.Message, descriptor: int | None = None) -> None:
        """Send a message, and a file if there is one."""
        line = wall.to_line(message)
        files = [] if descriptor is None else [descriptor]
        n_sent = socket.send_fds(self._socket, [line], files)
        if n_sent < len(line):
            self._socket.sendall(line[n_sent:])

    def send_scores(self, message: wall.Scores, scores: FloatArray) -> None:
        """Send scores after their message."""
        self.send(message)
        self._socket.sendall(scores.data.cast("B"))

    def receive_file(self) -> int:
        """Wait for a file from the harness; return its descriptor."""
        _, files, _, _ = socket.recv_fds(self._socket, 1, 1)
        return files[0]

    def wait(self) -> None:
        """Wait until the harness says to go on."""
        self._socket.recv(1)


def warm_up() -> None:
    """Make the slow first calls once, in the fork server, so that no trial has to make them."""
    registry = Registry.load()
    _ = registry.splits[Split.USUAL]  # it imports the folds of scikit-learn
    learner = registry.algorithms[BASELINE]()
    with threadpool_limits(1):
        rows = np.eye(4)
        y = np.array([0, 0, 1, 1])
        rows = apply_steps(Scaling("l2").learn(rows), rows)
        evaluate_ranking(learner.fit(rows, y).similarity, rows, y, seed=0)
    n_blas_threads()
    _ = wall.Stage, wall.seal  # they import the modules of the wall


def learner_process(stage: wall.Stage, line: int) -> None:
    """Run one stage of a trial: the main function of its process, with its end of the line."""
    assignment = stage.assignment
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(assignment.threads)))
    channel = Channel(line)
    printed = channel.receive_file()
    for stream in (sys.stdout, sys.stderr):
        os.dup2(printed, stream.fileno())
        cast(TextIOWrapper, stream).reconfigure(
            encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
    os.close(printed)
    if assignment.memory_bytes is None:
        channel.send(wall.Started(0))
    else:
        channel.send(wall.Started(Processes(stage.server).n_bytes()))
        if sys.platform == "linux":  # allocations beyond the limit fail
            limit = psutil.Process().memory_info().data + assignment.memory_bytes
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    run_stage(stage, channel)


def run_stage(stage: wall.Stage, channel: Channel) -> None:
    """Do the work of a stage and tell the harness how it ended."""
    works: dict[wall.StageName, Callable[[wall.Stage, Channel], None]] = {
        "tune": _tune,
        "fit": _fit,
        "load": _load,
        "vote": _vote,
        "score alone": _score_alone,
        "replay": _replay,
        "score training items": _score_training_items,
    }
    try:
        with _limited_to(stage.assignment.threads):
            works[stage.name](stage, channel)
        channel.send(wall.Ended("ok"))
    except EndedError as error:
        channel.send(*error.args)
    except Exception as error:
        channel.send(_ended(error))


@contextmanager
def _limited_to(threads: int) -> Iterator[None]:
    """Limit the thread pools of libraries.

    Skip this, which takes some milliseconds, if the environment already sets one thread.
    """
    if threads == 1 and all(os.environ.get(name) == "1" for name in THREAD_VARIABLES):
        yield
        return
    with threadpool_limits(threads):
        yield


def _ended(error: Exception) -> wall.Ended:
    """Return the message of a stage that ends with an error."""
    if isinstance(error, wall.NotApplicableError):
        return wall.Ended("not applicable", str(error))
    reason, place = error_line(error), place_in_plugin(error)
    reason += f" ({place})" if place else ""
    text = "".join(traceback.format_exception(error))
    if isinstance(error, MemoryError):
        return wall.Ended("out of memory", reason, text)
    return wall.Ended("failed", reason, text)


def _tune(stage: wall.Stage, channel: Channel) -> None:
    """Tune on the inner folds."""
    assignment, seed = stage.assignment, stage.assignment.seeds.fit
    learner = assignment.learner()
    import_packages(learner.imports)  # off the clock, and once for the processes of all folds
    items = wall.map_items(channel.receive_file())
    stopwatch = Stopwatch(lambda phase: channel.send(wall.PhaseBegan(phase)))
    start = time.perf_counter()
    for scaling in assignment.scalings:
        prepared = wall.map_items(channel.receive_file())
        tried = [one.params for one in assignment.candidates if one.scaling == scaling]
        _refuse((make_learner(assignment, params, seed) for params in tried), prepared)
    stopwatch.seconds[wall.LEARNING] += time.perf_counter() - start

    def workers(work: FoldWork) -> FoldProcesses:
        limits = assignment.folds_at_once, stopwatch, _ended, assignment.budget_seconds
        return FoldProcesses(work, *limits)

    try:
        winners = Tuning(
            InnerFolds(assignment, items),
            assignment.candidates,
            assignment.max_steps,
            stopwatch,
            channel.send,
            workers=workers if assignment.folds_at_once > 1 else None,
        ).winners(on_all_folds=is_the_baseline(learner))
    except wall.NotApplicableError:  # there are too few classes for inner folds
        if assignment.needs_search(learner):
            raise
        winners = [copy(stage.tuned) for _ in assignment.chooses_by]
    for tuned in winners:
        if assignment.is_blended(learner) and tuned.blend is None:  # not tuned: no blend
            tuned.blend, tuned.baseline_scaling = 1.0, tuned.scaling
        tuned.fit_seconds = stopwatch.seconds[wall.LEARNING]
        tuned.score_seconds = stopwatch.seconds[wall.VALIDATION]
        channel.send(tuned)


def _fit(stage: wall.Stage, channel: Channel) -> None:
    """Fit on the clock, send the fitted learner, then score the test items."""
    assignment, tuned = stage.assignment, stage.tuned
    _warm_up(stage, channel)
    learner = make_learner(assignment, tuned.params, assignment.seeds.fit, tuned.n_steps)
    channel.send(wall.PhaseBegan(wall.FIT))
    # Items are sent only now, with the clock running, so that no work on them is free.
    items = wall.map_items(channel.receive_file())
    data = FitData.of(*items.to_fit, assignment.seeds.judgements)
    with _limited_to(assignment.threads):  # also libraries loaded by now
        threads = n_blas_threads()
        meter = Meter(stage.server)
        with meter:
            if not assignment.needs_tuning(type(learner)):
                _refuse([learner], items)
            data.fit(learner)
        cost = meter.cost()
    symmetry = _symmetry_of(learner) if assignment.traces else None
    model, late = _copied(learner)
    channel.send(
        wall.Fitted(
            threads=threads,
            seconds=cost.seconds + late,
            cpu_seconds=cost.cpu_seconds + late,
            waiting_seconds=cost.waiting_seconds,
            peak_bytes=cost.peak_bytes,
            symmetry_index=symmetry,
            numbers=_numbers_of(learner),
        ),
        model,
    )
    os.close(channel.receive_file())  # the harness has read its clock
    if assignment.keeps_model:
        _send_model_file(learner, model, stage, items, channel)
    if assignment.is_blended(type(learner)):
        # Use a copy: the learner itself is timed later, and must not have computed anything.
        copied = pickle.loads(wall.map_bytes(model))
        channel.send(wall.Compared(sd_of_learned(copied, items.X, assignment.seeds.blend)))
        del copied
    _score(learner, stage, channel)


def _send_model_file(
    learner: MetricLearner, model: int, stage: wall.Stage, items: wall.Items, channel: Channel
) -> None:
    """Send the model file of a learner, in its tuned use if this is offered.

    Votes are of a copy, from the file `model`: the learner itself is timed later.
    """
    used = learner
    if stage.tuned.use == "posterior" and stage.tuned.tau is not None:
        known = stage.assignment.knows_classes
        copied = pickle.loads(wall.map_bytes(model))
        with suppress(NoScaleError):  # then there are no votes
            used = Posterior(copied, stage.tuned.tau, known).fit(items.X, items.y)
    try:
        channel.send(wall.Saved(), wall.seal(lambda file: write_model(used, file)))
    except Exception as error:
        channel.send(wall.Saved(error_line(error)))


def _load(stage: wall.Stage, channel: Channel) -> None:
    """Read a saved model in place of a fit, then score the test items."""
    assignment = stage.assignment
    _warm_up(stage, channel)
    channel.send(wall.PhaseBegan(wall.LOAD))
    content = BytesIO(wall.map_bytes(channel.receive_file()))
    learner = read_model(content, Registry.load(assignment.plugin_files))
    alone = without_votes(learner)
    alone.__dict__.pop("feature_names_in_", None)  # matched already: rows come without names
    model, _ = _copied(learner)
    symmetry = _symmetry_of(alone) if assignment.traces else None
    tau = learner.tau if isinstance(learner, Posterior) else None
    channel.send(wall.Loaded(n_blas_threads(), symmetry, _numbers_of(alone), tau), model)
    _score(alone, stage, channel)


def _vote(stage: wall.Stage, channel: Channel) -> None:
    """Let the training items vote for the classes of the test items; no clock is read."""
    learner = _fitted_copy(stage, channel, wall.VOTE)
    training, test = (wall.map_items(channel.receive_file()) for _ in range(2))
    _send_votes(learner, stage, channel, training, test.X, is_alone=False)


def _send_votes(
    learner: MetricLearner,
    stage: wall.Stage,
    channel: Channel,
    training: wall.Items,
    test: Any,
    is_alone: bool,
) -> None:
    """Send the posteriors of test items, and of training items where they are the gallery.

    In the stage 'score alone' only those of the test items are needed.
    """
    is_saved = isinstance(learner, Posterior)  # it has seen other training items
    posterior = learner if is_saved else Posterior(learner, 1.0, stage.assignment.knows_classes)
    try:
        if not is_saved:
            posterior.fit(training.X, training.y)
    except NoScaleError as error:
        channel.send(wall.Voted(reason=str(error)))
        return
    taus = [*stage.taus.values()]
    needs_sds, seed = not (is_saved or is_alone), stage.assignment.seeds.blend
    sds = sds_of_affinity(posterior, seed, taus) if needs_sds else [0.0] * len(taus)
    channel.send(wall.Voted(len(posterior.classes_), sds))
    of_test = posterior.points(posterior.shares(test, taus))
    for (gallery, tau), points in zip(stage.taus.items(), of_test, strict=True):
        _send_points("test", points, channel)
        if gallery == "training" and not is_alone:
            posterior.tau = tau
            every = np.arange(training.X.shape[0])
            own = posterior.embed(training.X) if is_saved else posterior.embed_training(every)
            _send_points(gallery, own, channel)


def _send_points(gallery: str, points: FloatArray, channel: Channel) -> None:
    """Send the points of items, float64, in blocks."""
    most = block_size(points.shape[1], np.float64, wall.MOST_SCORE_BYTES)
    for part in slices(len(points), most):
        sent = np.ascontiguousarray(points[part])
        channel.send_scores(wall.Scores(gallery, len(sent), sent.dtype.name), sent)


def _score_alone(stage: wall.Stage, channel: Channel) -> None:
    """Score some test items with a copy of the fitted learner, which has never seen the others.

    Its time is not recorded.
    """
    learner = _fitted_copy(stage, channel, wall.ANSWER)
    test, training = _receive_items(stage, channel)
    _send_scores(without_votes(learner), stage.galleries, test, training, channel, nullcontext())
    if stage.taus:
        training = wall.map_items(channel.receive_file())
        _send_votes(learner, stage, channel, training, test, is_alone=True)


def _score_training_items(stage: wall.Stage, channel: Channel) -> None:
    """Score the training items against each other with a copy of the fitted learner."""
    learner = _fitted_copy(stage, channel, wall.REPLAY)
    X = wall.map_items(channel.receive_file()).X
    _send_scores(learner, ("test",), X, X, channel, nullcontext())


def _fitted_copy(stage: wall.Stage, channel: Channel, phase: str) -> MetricLearner:
    """Begin a phase with a copy of the fitted learner, which the harness sends."""
    stage.assignment.learner()  # imports the module of the learner
    channel.send(wall.PhaseBegan(phase))
    learner: MetricLearner = pickle.loads(wall.map_bytes(channel.receive_file()))
    return learner


def _score(learner: MetricLearner, stage: wall.Stage, channel: Channel) -> None:
    """Score the items that the harness sends, on the clock."""
    meter = Meter(stage.server)
    channel.send(wall.PhaseBegan(wall.ANSWER))
    items = _receive_items(stage, channel)
    _send_scores(learner, stage.galleries, *items, channel, meter, waits=True)
    cost = meter.cost()
    channel.send(wall.Queried(cost.seconds, cost.cpu_seconds))


def _receive_items(stage: wall.Stage, channel: Channel) -> tuple[Any, Any]:
    """Wait for the test items and, if they are a gallery, the training items."""
    test = wall.map_items(channel.receive_file()).X
    return test, wall.map_items(channel.receive_file()).X if "training" in stage.galleries else None


def _replay(stage: wall.Stage, channel: Channel) -> None:
    """Learn the same steps once more, and send the scores at each checkpoint.

    The replay passes through the measured model, up to rounding, and goes as far as the validation
    went.  Nothing is tuned by it.
    """
    assignment, tuned = stage.assignment, stage.tuned
    training, test = (wall.map_items(channel.receive_file()) for _ in range(2))
    X, data = training.X, FitData.of(*training.to_fit, assignment.seeds.judgements)
    learner = make_learner(assignment, tuned.params, assignment.seeds.fit)
    assert tuned.last_checkpoint is not None
    done = 0
    for n_steps in wall.checkpoints(assignment.max_steps):
        if n_steps > tuned.last_checkpoint:
            break
        channel.send(wall.PhaseBegan(wall.REPLAY))
        data.fit(learner, done, n_steps)
        done = n_steps
        channel.send(wall.Replayed(n_steps, _symmetry_of(learner)))
        if "test" in stage.galleries:
            _send_scores(learner, ("test",), X, X, channel, nullcontext())
        _send_scores(learner, stage.galleries, test.X, X, channel, nullcontext())


def _send_scores(
    learner: MetricLearner,
    galleries: tuple[str, ...],
    test: Any,
    training: Any,
    channel: Channel,
    meter: AbstractContextManager[None],
    waits: bool = False,
) -> None:
    """Send the scores of test items against each gallery; `meter` is entered around the work.

    If it `waits`, the harness evaluates each part before the next one is computed: the two would
    share the cores.
    """
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
            if waits:
                channel.wait()


def _scorer(
    learner: MetricLearner, gallery: str, test: Any, others: Any
) -> tuple[Callable[[slice], FloatArray], str]:
    """Return a function that scores a block of test items, and the method that it calls.

    A gallery is embedded once, not once per block.
    """
    if gallery == "training" and isinstance(learner, ExemplarLearner):
        return lambda part: learner.similarity_to_training(test[part]), "similarity_to_training"
    if not learner.has_embedding:
        return lambda part: learner.similarity(test[part], others), "similarity"
    queries = learner.embed(test)
    embedded = queries if gallery == "test" else learner.embed(others)
    return lambda part: learner.score_embeddings(queries[part], embedded), "score_embeddings"


def _warm_up(stage: wall.Stage, channel: Channel) -> None:
    """Fit and score a few items, so that lazy imports and first calls are not timed.

    This learner is thrown away, and the process has no other items yet.
    """
    channel.send(wall.PhaseBegan(wall.WARM_UP))
    few = wall.map_items(channel.receive_file())
    n_steps = None if stage.tuned.n_steps is None else 10
    assignment = stage.assignment
    learner = make_learner(assignment, stage.tuned.params, assignment.seeds.warm_up, n_steps)
    import_packages(learner.imports)  # without a time limit: half an import is of no use
    # Some learners fail on so few items.  Any other error occurs again on the clock.
    seconds = min(WARM_UP_SECONDS, (assignment.budget_seconds or math.inf) / 2)
    with suppress(Exception), time_limit(seconds):
        FitData.of(*few.to_fit, assignment.seeds.judgements).fit(learner)
        for gallery in stage.galleries:
            score, _ = _scorer(learner, gallery, few.X, few.X)
            score(slice(0, 2))


def _refuse(learners: Iterable[MetricLearner], items: wall.Items) -> None:
    """Raise NotApplicableError if any of the learners refuses the items."""
    data = FitData.of(*items.to_fit, seed=0)
    for learner in learners:
        if data.reads_labels(learner) and (reason := learner.refusal(items.X, items.y)):
            raise wall.NotApplicableError(reason)


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
