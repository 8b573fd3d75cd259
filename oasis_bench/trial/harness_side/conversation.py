"""The harness's half of a trial, stage by stage, in step with that of the learner's process.

Each stage is a generator that mirrors the learner's half (`oasis_bench.trial.learner_side.stages`)
line by line: where that one sends a message, this one yields its type and gets the message; where
that one waits for items, this one gives them.  What may come next is the next line; anything else
ends the trial.  What is timed lies between `HarnessClock(...)` and `clock.charge(...)`; the test
labels are in the `Evaluator` and the `Traces`.

Not for processes: `oasis_bench.execution` starts those and holds them to their budget.
"""

from __future__ import annotations

import json
import math
import os
import socket
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from traceback import format_exc
from typing import Any, NoReturn, TypeAlias

import msgspec
import numpy as np

from oasis_bench.experiment import ChooseBy, TrialSpec
from oasis_bench.plugins import Blend, IncrementalLearner, MetricLearner, load_blend
from oasis_bench.system import Machine, OutputError, Text
from oasis_bench.tasks import Task
from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.evaluator import (
    TRAINING,
    Evaluator,
    ScoreReader,
    Traces,
    answer,
    galleries_of,
    reason_against,
)
from oasis_bench.trial.harness_side.inbox import ROUGH_SECONDS, WALL_SECONDS, HarnessClock, Inbox
from oasis_bench.trial.harness_side.items import Sealed, SealedItems, TrialItems
from oasis_bench.trial.harness_side.result import KeptFiles, PrintedOutput, TrialResult, columns_of

Expected: TypeAlias = type[wall.Message] | tuple[type[wall.Message], ...] | int
"""The type of the message that is to come next, the types of those that may, or so many bytes."""

Talk: TypeAlias = Generator[Expected, Any, None]


OF_BLEND = ("blend", "baseline_scaling", "baseline_sd", "learned_sd")
"""Columns of the table `tuned` that are NULL for a learner that is not blended."""


class EndsTrialError(Exception):
    """The trial fails here; the arguments are the reason and, of code of the user, a traceback."""


@contextmanager
def _task_at_work() -> Iterator[None]:
    """Let an error of a task, which may be the user's, end the trial alone, and not the run."""
    try:
        yield
    except (OutputError, OSError, MemoryError):  # of the machine
        raise
    except Exception as error:
        raise EndsTrialError(Text.of_error(error), format_exc()) from error


class Conversation:
    """A trial under way: what it does now is its `phase`; when it has ended, it has a `result`.

    What its processes print is appended to `log`, a file in the folder of the run.
    ``sealed(scaling)`` gives the items in files; `model` is the file of a saved model that takes
    the place of a fit.  Raise NotApplicableError where the learner fits none of the tasks.
    """

    def __init__(
        self,
        spec: TrialSpec,
        items: TrialItems,
        sealed: Sealed,
        learner: type[MetricLearner],
        tasks: Sequence[Task],
        log: Path,
        model: int | None = None,
    ) -> None:
        refused = {task.name: reason for task in tasks if (reason := reason_against(task, learner))}
        evaluated = [task for task in tasks if task.name not in refused]
        if not evaluated:
            raise wall.NotApplicableError(next(iter(refused.values())))
        asked = tuple(by for by in spec.chooses_by if by.task not in refused)
        if not asked:  # then by the first measure that is possible
            measure = Task.parse_measure(evaluated[0].measures[0], evaluated[0])
            asked = (ChooseBy(evaluated[0].name, *measure),)
        self.spec = spec = replace(spec, chooses_by=asked)
        self.phase = "the start"
        self.first_bytes: int | None = None  # of the stage's processes before it began
        self.result: TrialResult | None = None
        self._items, self._sealed, self._learner = items, sealed, learner
        self._refused = refused
        task_of = {task.name: task for task in evaluated}
        tunes = {task_of[by.task].gallery: place for place, by in reversed([*enumerate(asked)])}
        # What tunes each gallery, as its place in `chooses_by`; first that of the first measure.
        self._places = {gallery: tunes.get(gallery, 0) for gallery in galleries_of(evaluated)}
        self._galleries = tuple(self._places)  # of the tasks that the present fit is for
        drawn = (spec.examples, spec.seed_for("examples"), spec.queries, spec.projection)
        self._evaluator = Evaluator(evaluated, items, *drawn, spec.chooses_by)
        self._chooser = task_of[asked[0].task]
        self._traces = Traces(self._chooser, asked[0], items)
        scaling, params = spec.candidates[0]
        self._winners = [wall.Tuned(scaling, dict(params))] * len(asked)
        self._tuned = self._winners[0]  # what the present fit is of
        self._is_blended = wall.is_blended(spec, learner)
        self._tuned_rows: dict[str, dict[str, Any]] = {}  # of the table `tuned`, by gallery
        self._needs_tuning = model is None and wall.needs_tuning(spec, learner)
        if not self._needs_tuning:
            sealed(scaling)  # raises where the items cannot be scaled so
        self._columns: dict[str, Any] = {}
        self._blend: Blend | None = None  # of what the first measure tuned
        self._queried = np.zeros(3)  # seconds, of processors too, and queries of all fits
        self._numbers: dict[str, float] = {}
        self._validation: list[dict[str, Any]] = []
        self._kept = KeptFiles(spec, items, log.parent)
        self._saved_model = model
        self._model = -1  # the file of the fitted learner, where it is above -1
        self._file: int | None = None  # that came with the last message
        self._notes: list[str] = []
        self._is_measured = False
        self._is_transductive = bool(learner.transductive)  # once: it cannot change later
        self._left = self._stages()
        self.printed = PrintedOutput(spec, log)
        self.next_stage()

    def _stages(self) -> Iterator[tuple[wall.StageName, Talk]]:
        """Yield the stages of the trial, each with the harness's half of it."""
        if self._needs_tuning:
            yield "tune", self._tune()
        for galleries in self._fits():
            self._close_model()
            self._galleries = galleries
            self._tuned = self._winners[self._places[galleries[0]]]
            if self._saved_model is None:
                yield "fit", self._fit()
            else:
                yield "load", self._load()
            if not self._is_transductive:
                yield "score alone", self._score_alone()
        self._is_measured = True
        if self.spec.experiment.traces:
            steps = issubclass(self._learner, IncrementalLearner)
            # Where the number of steps was given, there is no checkpoint to stop at.
            if steps and self._tuned.last_checkpoint is not None:
                yield "replay", self._replay()
            elif self._chooser.gallery == "test" and self._has_learned:
                yield "score training items", self._score_training_items()

    def _fits(self) -> list[tuple[str, ...]]:
        """Return the galleries that each fit is for, the first measure's last.

        What the first measure tuned is what the columns of the trial are about.
        """
        of_fit: dict[str, tuple[str, ...]] = {}
        last_first = sorted(self._places, key=lambda it: (-self._places[it], it == "test"))
        for gallery in last_first:
            won = self._winners[self._places[gallery]]
            key = json.dumps([won.scaling, won.params, won.n_steps])
            of_fit[key] = (gallery, *of_fit.pop(key, ()))
        return list(of_fit.values())

    def next_stage(self) -> bool:
        """Go on to the next stage, or end the trial where there is none; tell which."""
        self.phase, self.first_bytes = "the start", None
        stage = next(self._left, None)
        if stage is None:
            self.end("ok")
            return False
        self._stage, work = stage
        self._talk = self._whole(work)
        self._expected: Expected = next(self._talk)
        return True

    def start(
        self, server: int, line: socket.socket, begin_phase: Callable[[], object]
    ) -> wall.Stage:
        """Return the stage that is to run, below the process `server`, at the end of the `line`.

        ``begin_phase()`` gives it the whole budget of time.
        """
        self.inbox = Inbox(line)
        self._server, self._give, self._begin_phase = server, self.inbox.send_file, begin_phase
        galleries = (self._chooser.gallery,) if self._stage == "replay" else self._galleries
        return wall.Stage(self._stage, self.spec.for_learner(), self._tuned, galleries, server)

    def listen(self) -> bool:
        """Take all that has come; tell whether the stage has ended well.

        What may not come ends the trial.
        """
        try:
            while self.result is None:
                came: Any
                wanted: Any = self._expected
                if isinstance(wanted, int):
                    came, wanted = self.inbox.next_bytes(wanted), bytearray
                else:
                    came, self._file = self.inbox.next_message()
                if came is None:
                    return False
                if isinstance(came, wall.Ended) and came.status != "ok":
                    self.end(came.status, came.reason, came.traceback)
                elif isinstance(came, wanted):
                    self._expected = self._talk.send(came)
                else:
                    self._refuse(came)
                self._close_file()
        except StopIteration:
            return True
        except EndsTrialError as error:
            self.end("failed", *error.args)
        except wall.MessageError as error:
            self.end("crashed", f"what its process sent cannot be read: {error}")
        finally:
            self._close_file()
        return False

    def _whole(self, work: Talk) -> Talk:
        """Take the messages of one process."""
        self.first_bytes = (yield wall.Started).n_bytes
        yield from work
        yield wall.Ended

    def _tune(self) -> Talk:
        """Take what the inner folds validate, and what they chose."""
        candidates = json.loads(json.dumps(self.spec.candidates))  # as messages have them
        steps = [None, *wall.checkpoints(self.spec.experiment.max_steps)]
        n_folds, n_measures = self.spec.experiment.inner_folds, len(self.spec.chooses_by)
        most = len(candidates) * len(steps) * n_folds
        n_begun: Counter[str] = Counter()
        clock = None
        self._give(self._sealed(None).training)
        while not isinstance(
            message := (yield wall.PhaseBegan, wall.Validated, wall.Tuned), wall.Tuned
        ):
            if isinstance(message, wall.PhaseBegan):
                n_begun[message.phase] += 1
                if n_begun[message.phase] > most:
                    self._refuse(message)
                self._begin(message, wall.LEARNING, wall.VALIDATION)
                clock = clock or HarnessClock(self._server, ROUGH_SECONDS, ROUGH_SECONDS)
            else:
                is_candidate = [message.scaling, message.params] in candidates
                is_point = message.n_steps in steps and message.fold < n_folds
                is_point &= len(message.values) == n_measures
                if not (is_candidate and is_point and len(self._validation) < most * n_measures):
                    self._refuse(message)
                row = {**msgspec.structs.asdict(message), "params": json.dumps(message.params)}
                self._validation += [
                    {**row, "task": by.task, "value": value}
                    for by, value in zip(self.spec.chooses_by, row.pop("values"), strict=True)
                ]
        self._winners = [message]
        while len(self._winners) < n_measures:
            self._winners.append((yield wall.Tuned))
        for winner in self._winners:
            is_candidate = [winner.scaling, winner.params] in candidates
            is_blend = winner.blend in (Blend.WEIGHTS if self._is_blended else (None,))
            is_blend &= winner.blend is None or winner.baseline_scaling in self.spec.scalings
            if not (is_candidate and is_blend):
                raise wall.MessageError("what was tuned is not among what was to be tried")
        self._validation.sort(  # folds side by side give their values in any order
            key=lambda row: (
                candidates.index([row["scaling"], json.loads(row["params"])]),
                steps.index(row["n_steps"]),
                row["fold"],
            )
        )
        seconds = message.fit_seconds + message.score_seconds
        if clock is not None:
            if wall.folds_at_once(self.spec) > 1:  # of wall-clock time it sees only the longest
                seconds = max(clock.charge(seconds, seconds))
            else:
                seconds, _ = clock.charge(seconds, math.inf)
        message.fit_seconds = seconds - message.score_seconds
        try:
            for winner in self._winners:
                self._sealed(winner.scaling)
        except Exception as error:
            raise EndsTrialError(Text.of_error(error)) from error

    def _fit(self) -> Talk:
        """Take the fitted learner and what its fit took, then its scores of the test items."""
        items = self._sealed(self._tuned.scaling)
        yield from self._began(wall.WARM_UP)
        self._give(items.few)
        yield from self._began(wall.FIT)
        clock = self._clock()
        self._give(items.training)
        fitted = yield wall.Fitted
        self._model = self._file_that_came()
        clock.subtract(n_bytes=os.fstat(self._model).st_size)
        seconds, cpu_seconds = clock.charge(fitted.seconds, fitted.cpu_seconds)
        self._give(self._model)  # its process waits for this: the clock sees no later work
        self._columns = {
            **self._columns_of_model(fitted),
            "fit_seconds": seconds,
            "fit_cpu_seconds": cpu_seconds,
            "fit_waiting_seconds": fitted.waiting_seconds,
            "fit_peak_bytes": fitted.peak_bytes,
            "tuning_fit_seconds": self._winners[0].fit_seconds,
            "tuning_score_seconds": self._winners[0].score_seconds,
        }
        if self.spec.keeps_model:
            saved = yield wall.Saved
            if self._file is None:
                self._notes.append(f"its model is not saved: {saved.reason}")
            elif 0 in map(self._places.get, self._galleries):
                takes_rows = self._learner.takes == "rows"
                self._kept.add_model(self._file_that_came(), items.steps if takes_rows else None)
        if self._tuned.blend is not None:
            compared, seed = (yield wall.Compared), self.spec.seed_for("blend")
            for gallery in self._galleries:
                won = self._winners[self._places[gallery]]
                rows = self._sealed(won.baseline_scaling)
                sds = Blend.sd_of_baseline(rows.training_rows, seed), compared.learned_sd
                steps = None if won.baseline_scaling == won.scaling else tuple(rows.steps)
                self._begin_blend(gallery, Blend(won.blend or 0.0, *sds, steps), rows)
        yield from self._score()

    def _load(self) -> Talk:
        """Take the learner of a saved model, then its scores of the test items."""
        assert self._saved_model is not None
        items = self._sealed(self._tuned.scaling)
        yield from self._began(wall.WARM_UP)
        self._give(items.few)
        yield from self._began(wall.LOAD)
        self._give(self._saved_model)
        loaded = yield wall.Loaded
        self._model = self._file_that_came()
        self._columns = self._columns_of_model(loaded)
        blend = load_blend(BytesIO(wall.map_bytes(self._saved_model)))
        if self._is_blended and blend is not None:
            rows = items
            if blend.steps is not None:
                rows = SealedItems(self._items, self._learner, "none", blend.steps)
            for gallery in self._galleries:
                self._begin_blend(gallery, blend, rows)
        yield from self._score()

    def _begin_blend(self, gallery: str, blend: Blend, rows: SealedItems) -> None:
        """Evaluate a blend of the scores that come, with the baseline of these rows."""
        self._evaluator.blend(gallery, blend, self._learner, rows)
        self._tuned_rows[gallery] |= {
            "blend": blend.weight,
            "baseline_scaling": self._winners[self._places[gallery]].baseline_scaling,
            "baseline_sd": blend.baseline_sd,
            "learned_sd": blend.learned_sd,
        }
        if self._places[gallery] == 0:
            self._blend, self._columns["blend"] = blend, blend.weight

    def _score(self) -> Talk:
        """Take the scores of all test items, and what computing them took."""
        items = self._sealed(self._tuned.scaling)
        yield from self._began(wall.ANSWER)
        clock = self._clock()
        self._give(items.test)
        if "training" in self._galleries:
            self._give(items.gallery)
        for gallery in self._galleries:
            reader = self._evaluator.readers[gallery]
            yield from self._scores(reader, clock, self._kept.add_scores)
        queried = yield wall.Queried
        seconds, cpu_seconds = clock.charge(queried.seconds, queried.cpu_seconds)
        self._queried += [seconds, cpu_seconds, len(self._items.test_rows) * len(self._galleries)]

    def _score_alone(self) -> Talk:
        """Take the scores of some test items by a copy that has no others: they must be the same.

        Only then no score of an item depends on other test items.
        """
        items = self._sealed(self._tuned.scaling)
        yield from self._began(wall.ANSWER)
        self._give(self._model)
        self._give(items.sample)
        if "training" in self._galleries:
            self._give(items.gallery)
        alone = self._evaluator.readers_alone(self._galleries)
        for reader, _ in alone:
            yield from self._scores(reader)
        try:
            self._evaluator.refuse_other_scores(alone)
        except ValueError as error:
            raise EndsTrialError(str(error)) from error

    def _replay(self) -> Talk:
        """Take the scores at each checkpoint, for the traces."""
        items = self._sealed(self._tuned.scaling)
        self._give(items.training)
        self._give(items.test)
        for n_steps in wall.checkpoints(self.spec.experiment.max_steps):
            if n_steps > (self._tuned.last_checkpoint or 0):
                break
            yield from self._began(wall.REPLAY)
            replayed = yield wall.Replayed
            if replayed.n_steps != n_steps:
                self._refuse(replayed)
            with _task_at_work():
                parts = self._traces.parts()
            for _, reader, _ in parts:
                yield from self._scores(reader)
            with _task_at_work():
                self._traces.add(replayed, parts)

    def _score_training_items(self) -> Talk:
        """Take the scores of the training items among one another, by a copy of the learner."""
        items = self._sealed(self._tuned.scaling)
        yield from self._began(wall.REPLAY)
        self._give(self._model)
        self._give(items.gallery)
        with _task_at_work():
            part = self._traces.of_training()
        yield from self._scores(part[1])
        with _task_at_work():
            self._traces.of_fit = self._traces.value(part)

    def _clock(self) -> HarnessClock:
        # Where trials share cores, the harness may be at work for another one when a message comes.
        rough = self.spec.shares_cores
        return HarnessClock(self._server, ROUGH_SECONDS if rough else WALL_SECONDS)

    def _began(self, phase: str) -> Talk:
        """Expect that a phase begins."""
        self._begin((yield wall.PhaseBegan), phase)

    def _begin(self, message: wall.PhaseBegan, *phases: str) -> None:
        if message.phase not in phases:
            self._refuse(message)
        self.phase = message.phase
        self._begin_phase()

    def _scores(
        self,
        reader: ScoreReader,
        clock: HarnessClock | None = None,
        keep: Callable[[wall.Scores, bytearray], object] = lambda message, scores: None,
    ) -> Talk:
        """Evaluate the scores of one gallery; the time that it takes here is off the clock."""
        while not reader.is_complete:
            message = yield wall.Scores
            scores = yield reader.n_bytes(message)
            start = time.monotonic()
            with _task_at_work():
                reader.add(message, scores)
            keep(message, scores)
            if clock is not None:
                clock.subtract(time.monotonic() - start, len(scores))

    def _refuse(self, message: wall.Message) -> NoReturn:
        raise wall.MessageError(f"{type(message).__name__} may not come in stage {self._stage!r}")

    def _file_that_came(self) -> int:
        """Return the file that came with a message, which its process can no longer change.

        It could do so when it knows the test items.
        """
        if self._file is None:
            raise wall.MessageError("the fitted learner did not come with the message")
        if not wall.is_sealed(self._file):
            raise wall.MessageError("the file that came with the message is not sealed")
        file, self._file = self._file, None
        return file

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _columns_of_model(self, message: wall.Fitted | wall.Loaded) -> dict[str, Any]:
        self._numbers = message.numbers
        tuned = {
            "scaling": self._tuned.scaling,
            "params": json.dumps(self._tuned.params),
            "n_steps": self._tuned.params.get("n_steps", self._tuned.n_steps),
        }
        for gallery in self._galleries:
            by = self.spec.chooses_by[self._places[gallery]]
            self._tuned_rows[gallery] = {"gallery": gallery, **by._asdict(), **tuned}
            self._tuned_rows[gallery] |= dict.fromkeys(OF_BLEND)
        return {
            "threads": message.threads,
            "processor": Machine.processor(),
            **tuned,
            "symmetry_index": message.symmetry_index,
            "model_bytes": os.fstat(self._model).st_size,
        }

    @property
    def _has_learned(self) -> bool:
        """Whether the learner has learned from the training items, and something judges it there.

        A saved model has not.  Of judgements, none may be left to train by.
        """
        judgements = self._items.judgements
        return self._saved_model is None and (judgements is None or len(judgements.items) > 0)

    def end(self, status: str, reason: str | None = None, traceback: str | None = None) -> None:
        """Make the result of a trial that has ended, or was ended.

        Where the result is measured already, only the replay for the traces was cut short.
        """
        if status != "ok" and self._is_measured:
            self._notes.append(f"traces end early: {status}: {reason}")
            status, traceback = "ok", None
        if status == "ok":
            reason = "; ".join(self._notes) or None
        columns: dict[str, Any] = {}
        tables: dict[str, Any] = {}
        try:
            with _task_at_work():
                if self._is_measured:
                    columns, tables = self._measured()
        except EndsTrialError as error:
            status, (reason, traceback) = "failed", error.args
        self.result = TrialResult(
            {
                **columns_of(self.spec, self._items.n_features, status, reason, traceback),
                "n_train": len(self._items.ties["training"]),
                "n_test": len(self._items.test_rows),
                "transductive": int(self._is_transductive),
                **columns,
            },
            validation=self._validation,
            traces=self._traces.values,
            symmetry=self._traces.symmetry,
            **tables,
        )
        self.close()

    def _measured(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the columns, and the other fields of the result, of a trial that is measured."""
        prepared = None
        if self._learner.takes == "rows":
            prepared = self._sealed(self._tuned.scaling).test_items
        tables: dict[str, Any] = self._evaluator.tables()
        for name, why in self._refused.items():
            tables["answers"].append(answer(name, "not applicable", why))
        numbers, training = self._numbers, self._traces.training_value(self._columns["n_steps"])
        if training is not None:
            numbers = {**numbers, TRAINING: training}
        seconds, cpu_seconds, n_queries = self._queried.tolist()
        columns = {
            **self._columns,
            "query_seconds": seconds,
            "query_cpu_seconds": cpu_seconds,
            "n_timed_queries": int(n_queries),
        }
        return columns, {
            **tables,
            "retrievals": self._evaluator.retrievals(),
            "projections": self._evaluator.projections(self._learner, prepared),
            "tuned": sorted(
                self._tuned_rows.values(), key=lambda row: self._places[row["gallery"]]
            ),
            "fit_numbers": [{"name": name, "value": value} for name, value in numbers.items()],
            "blend_values": self._winners[0].blend_values,
            "files": self._kept.finish(self._blend),
        }

    def close(self) -> None:
        """Close the file of the fitted learner, and remove what is not finished."""
        self._kept.discard()
        self._close_model()

    def _close_model(self) -> None:
        if self._model >= 0:
            os.close(self._model)
            self._model = -1
