"""The state of one trial: stage by stage, it takes messages, and it ends in a record.

Not for processes: `oasis_bench.execution.trial_process` starts the stages, passes on what they send
and need, and holds them to the budget.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from oasis_bench.experiment import ChooseBy, TrialSpec
from oasis_bench.plugins import IncrementalLearner, MetricLearner
from oasis_bench.system import error_line, is_sealed, processor_name
from oasis_bench.tasks import Task, parse_measure
from oasis_bench.trial.choice import LEARNING
from oasis_bench.trial.clock import HarnessClock
from oasis_bench.trial.evaluator import Evaluator, ScoreReader, answer, galleries_of, reason_against
from oasis_bench.trial.items import NotApplicableError, TrialItems
from oasis_bench.trial.messages import (
    Answered,
    Chosen,
    Ended,
    Fitted,
    Loaded,
    Message,
    MessageError,
    PhaseBegan,
    Replayed,
    Saved,
    Scores,
    Started,
    Validated,
)
from oasis_bench.trial.output_files import OutputFiles
from oasis_bench.trial.record import TrialResult, columns_of
from oasis_bench.trial.rules import Rules
from oasis_bench.trial.sealed_items import Sealed
from oasis_bench.trial.stages import (
    ANSWER,
    FIT,
    LOAD,
    REPLAY,
    WARM_UP,
    Stage,
    StageName,
    folds_at_once,
    has_choice,
)
from oasis_bench.trial.traces import TRAINING, Traces


class TrialState:
    """A trial under way.

    Parameters
    ----------
    spec : TrialSpec
    items : TrialItems
    sealed : callable
        ``sealed(scaling)`` gives these as `SealedItems`.
    learner : type
    tasks : sequence of Task
        Those that the trial is asked.
    folder : Path
        Where the files are that it keeps.
    model : int, optional
        The file of a saved model, where that takes the place of a fit.

    Attributes
    ----------
    phase : str
        What the trial does now.
    first_bytes : int or None
        Memory of the stage's processes before it began; None where it has not begun.
    stage_has_ended : bool
    record : TrialResult or None
        Set when the trial has ended.

    Raises
    ------
    NotApplicableError
        Where the learner can answer none of the tasks.
    """

    def __init__(
        self,
        spec: TrialSpec,
        items: TrialItems,
        sealed: Sealed,
        learner: type[MetricLearner],
        tasks: Sequence[Task],
        folder: Path,
        model: int | None = None,
    ) -> None:
        refused = {task.name: reason for task in tasks if (reason := reason_against(task, learner))}
        answered = [task for task in tasks if task.name not in refused]
        if not answered:
            raise NotApplicableError(next(iter(refused.values())))
        if spec.chooses_by.task in refused:  # then by the first measure that it can answer for
            measure = parse_measure(answered[0].measures[0], answered[0])
            spec = replace(spec, chooses_by=ChooseBy(answered[0].name, *measure))
        self.spec = spec
        self.record: TrialResult | None = None
        self._items, self._learner = items, learner
        self._sealed = sealed
        self._refused = refused
        self._galleries = galleries_of(answered)
        keeps = spec.keeps
        drawn = (keeps.examples, spec.seed_for("examples"), keeps.queries, keeps.projection)
        self._evaluator = Evaluator(answered, items, *drawn, spec.chooses_by)
        self._chooser = next(t for t in answered if t.name == spec.chooses_by.task)
        self._traces = Traces(self._chooser, spec.chooses_by, items)
        self._rules = Rules(spec)
        scaling, params = spec.candidates[0]
        self._chosen = Chosen(scaling, dict(params))
        chooses = model is None and has_choice(spec, learner)
        if not chooses:
            sealed(scaling)  # raises where the items cannot be scaled so
        self._columns: dict[str, Any] = {}
        self._numbers: dict[str, float] = {}
        self._validation: list[dict[str, Any]] = []
        self._kept = OutputFiles(spec, items, folder)
        self._saved_model = model
        self._model: int | None = None
        self._notes: list[str] = []
        self._is_measured = False
        self._stages: deque[StageName] = deque(["fit" if model is None else "load"])
        if chooses:
            self._stages.appendleft("choose")
        self._is_transductive = bool(learner.transductive)  # once: it cannot change later
        if not self._is_transductive:
            self._stages.append("answer alone")
        self._begin_stage()

    def _begin_stage(self) -> None:
        self.phase = "the start"
        self.first_bytes: int | None = None
        self.stage_has_ended = False
        self._phases: Counter[str] = Counter()
        self._results: deque[type[Message]] = deque(self._rules.results(self._stages[0]))
        self._clock: HarnessClock | None = None
        self._readers: deque[ScoreReader] = deque()
        self._alone: list[ScoreReader] = []
        if self._stages[0] in ("fit", "load"):
            self._readers.extend(self._evaluator.readers)
        elif self._stages[0] == "answer alone":
            self._alone = self._evaluator.readers_alone()
            self._readers.extend(self._alone)
        elif self._stages[0] == "training items":
            self._readers.append(self._traces.begin_training())

    def stage(self, server: int) -> Stage:
        """Return the stage that is to run, below the process `server`."""
        self._server = server
        name = self._stages[0]
        galleries = (self._chooser.gallery,) if name == "replay" else self._galleries
        return Stage(name, self.spec.for_learner(), self._chosen, galleries, server)

    def files(self, message: Message) -> list[int]:
        """Return the files that the stage waits for after a message."""
        stage = self._stages[0]
        if stage == "choose":
            return [self._sealed(None).training] if isinstance(message, Started) else []
        items = self._sealed(self._chosen.scaling)
        match message:
            case Started() if stage == "replay":
                return [items.training, items.test]
            case PhaseBegan(phase) if stage == "training items":
                assert self._model is not None
                return [self._model, items.gallery]
            case PhaseBegan(phase) if phase == WARM_UP:
                return [items.few]
            case PhaseBegan(phase) if phase == FIT:
                return [items.training]
            case PhaseBegan(phase) if phase == LOAD:
                assert self._saved_model is not None
                return [self._saved_model]
            case PhaseBegan(phase) if phase == ANSWER:
                gallery = [items.gallery] if "training" in self._galleries else []
                if stage != "answer alone":
                    return [items.test, *gallery]
                assert self._model is not None
                return [self._model, items.sample, *gallery]
        return []

    def n_bytes_after(self, message: Message) -> int:
        """Return how many bytes of scores follow a message.

        Raises
        ------
        MessageError
            Where no such scores are to come now.
        """
        if not isinstance(message, Scores):
            return 0
        if not self._readers or self.phase not in (ANSWER, REPLAY):
            raise MessageError("no scores are to come now")
        return self._readers[0].n_bytes(message)

    def add(self, message: Message, content: bytearray, file: int | None) -> None:
        """Take a message into account, with the scores that followed it and the file with it.

        Raises
        ------
        MessageError
            Where it may not come now; the file is then left to the caller.
        """
        stage = self._stages[0]
        match message:
            case Started(n_bytes) if self.first_bytes is None:
                self.first_bytes = n_bytes
            case PhaseBegan(phase) if self._may_begin(stage, phase):
                self._phases[phase] += 1
                self.phase = phase
                is_timed = phase == FIT or (phase == ANSWER and stage != "answer alone")
                if is_timed or (phase == LEARNING and self._clock is None):
                    self._clock = HarnessClock(self._server)
            case Validated() if stage == "choose" and self._rules.is_point(
                message, len(self._validation)
            ):
                row = {**vars(message), "params": json.dumps(message.params)}
                self._validation.append(row)
            case Scores():
                self._evaluate_scores(message, content)
            case Replayed(n_steps) if (
                stage == "replay"
                and not self._readers
                and self._rules.is_checkpoint(n_steps)
                and not self._traces.has(n_steps)
            ):
                self._readers.extend(self._traces.begin(message))
            case Ended("ok") if not self._results and not self._readers:
                self._end_stage()
            case Ended(status, reason, traceback) if status != "ok":
                self.end(status, reason, traceback)
            case _ if self._results and type(message) is self._results[0]:
                self._results.popleft()
                self._keep(message, file)
            case _:
                raise MessageError(f"{type(message).__name__} may not come in stage {stage!r}")

    def end(self, status: str, reason: str | None = None, traceback: str | None = None) -> None:
        """Make the record of a trial that has ended, or was ended.

        Where the result is measured already, only the replay for the traces was cut short.
        """
        if status != "ok" and self._is_measured:
            self._notes.append(f"traces end early: {status}: {reason}")
            status, traceback = "ok", None
        if status == "ok":
            reason = "; ".join(self._notes) or None
        evaluator = self._evaluator if self._is_measured else None
        takes_rows = evaluator is not None and self._learner.takes == "rows"
        prepared = self._sealed(self._chosen.scaling).test_items if takes_rows else None
        self.record = TrialResult(
            {
                **columns_of(self.spec, self._items.n_features, status, reason, traceback),
                "n_train": len(self._items.ties["training"]),
                "n_test": len(self._items.test_rows),
                "transductive": int(self._is_transductive),
                **(self._columns if evaluator else {}),
            },
            answers=[*evaluator.answers(), *self._not_answered()] if evaluator else (),
            measures=evaluator.measures() if evaluator else (),
            confusion=evaluator.confusion() if evaluator else (),
            retrievals=evaluator.retrievals() if evaluator else (),
            projections=evaluator.projections(prepared) if evaluator else (),
            files=self._kept.finish() if evaluator else {},
            validation=self._validation,
            traces=self._traces.values,
            symmetry=self._traces.symmetry,
            fit_numbers=self._fit_numbers() if evaluator else (),
        )
        self.close()

    def _fit_numbers(self) -> list[dict[str, Any]]:
        """Return what the learner says in numbers, and the measure on training items."""
        training = self._traces.training_value(self._columns["n_steps"])
        named = {} if training is None else {TRAINING: training}
        return [{"name": name, "value": value} for name, value in (self._numbers | named).items()]

    def close(self) -> None:
        """Close the file of the fitted learner, and remove what is not finished."""
        self._kept.discard()
        if self._model is not None:
            os.close(self._model)
            self._model = None

    def _end_stage(self) -> None:
        """Go on to the next stage, or end the trial."""
        stage = self._stages.popleft()
        if stage == "answer alone":
            try:
                self._evaluator.refuse_other_scores(self._alone)
            except ValueError as error:
                self.end("failed", str(error))
                return
        if not self._stages and not self._is_measured:
            self._is_measured = True
            steps = issubclass(self._learner, IncrementalLearner)
            # Where the number of steps was given, there is no checkpoint to stop at.
            if self.spec.experiment.traces:
                if steps and self._chosen.last_checkpoint is not None:
                    self._stages.append("replay")
                elif self._chooser.gallery == "test" and self._has_learned:
                    self._stages.append("training items")
        if self._stages:
            self._begin_stage()
            self.stage_has_ended = True
        else:
            self.end("ok")

    @property
    def _has_learned(self) -> bool:
        """Whether the learner has learned from the training items, and something judges it there.

        A saved model has not.  Of judgements, none may be left to train by.
        """
        judgements = self._items.judgements
        return self._saved_model is None and (judgements is None or len(judgements.items) > 0)

    def _keep(self, message: Message, file: int | None) -> None:
        if file is not None and not is_sealed(file):
            # It could still be changed when the test items are known.
            raise MessageError("the file that came with the message is not sealed")
        match message:
            case Chosen():
                if not self._rules.is_candidate(message.scaling, message.params):
                    raise MessageError("what was chosen is not among the candidates")
                score_seconds = message.score_seconds
                total, cpu_seconds = self._at_least(message.fit_seconds + score_seconds)
                if folds_at_once(self.spec) > 1:  # the clock here sees only the longest
                    total = max(total, cpu_seconds)
                self._chosen = replace(message, fit_seconds=total - score_seconds)
                self._scale()
            case Fitted():
                if file is None:
                    raise MessageError("the fitted learner did not come with the message")
                self._model = file
                self._numbers = message.numbers
                seconds, cpu_seconds = self._at_least(
                    message.seconds, message.cpu_seconds, os.fstat(file).st_size
                )
                message = replace(message, seconds=seconds, cpu_seconds=cpu_seconds)
                self._columns |= self._columns_of_fit(message)
            case Saved(reason):
                if file is not None:
                    self._kept.add_model(file)
                else:
                    self._notes.append(f"its model is not saved: {reason}")
            case Loaded():
                if file is None:
                    raise MessageError("the fitted learner did not come with the message")
                self._model = file
                self._numbers = message.numbers
                self._columns |= self._columns_of_model(message)
            case Answered() if self._readers:
                raise MessageError("scores are missing")
            case Answered():
                seconds, cpu_seconds = self._at_least(message.seconds, message.cpu_seconds)
                self._columns |= {
                    "query_seconds": seconds,
                    "query_cpu_seconds": cpu_seconds,
                    "n_timed_queries": len(self._items.test_rows) * len(self._galleries),
                }

    def _scale(self) -> None:
        """Scale the items as was chosen, or end the trial."""
        try:
            self._sealed(self._chosen.scaling)
        except Exception as error:
            self.end("failed", error_line(error))

    def _at_least(
        self, seconds: float, cpu_seconds: float = 0.0, n_bytes: int = 0
    ) -> tuple[float, float]:
        """Return what a stage says that it took, or what it took at least by the clock here."""
        if self._clock is None:
            return seconds, cpu_seconds
        self._clock.subtract(n_bytes=n_bytes)
        least, least_cpu = self._clock.at_least()
        return max(seconds, least), max(cpu_seconds, least_cpu)

    def _columns_of_model(self, message: Fitted | Loaded) -> dict[str, Any]:
        chosen = self._chosen
        assert self._model is not None
        return {
            "threads": message.threads,
            "processor": processor_name(),
            "scaling": chosen.scaling,
            "params": json.dumps(chosen.params),
            "n_steps": chosen.params.get("n_steps", chosen.n_steps),
            "symmetry_index": message.symmetry_index,
            "model_bytes": os.fstat(self._model).st_size,
        }

    def _columns_of_fit(self, message: Fitted) -> dict[str, Any]:
        chosen = self._chosen
        return {
            **self._columns_of_model(message),
            "fit_seconds": message.seconds,
            "fit_cpu_seconds": message.cpu_seconds,
            "fit_waiting_seconds": message.waiting_seconds,
            "fit_peak_bytes": message.peak_bytes,
            "tuning_fit_seconds": chosen.fit_seconds,
            "tuning_score_seconds": chosen.score_seconds,
        }

    def _evaluate_scores(self, message: Scores, content: bytearray) -> None:
        start = time.monotonic()
        try:
            self._readers[0].add(message, content)
        except ValueError as error:
            self.end("failed", error_line(error))
            return
        if self._stages[0] in ("fit", "load"):
            self._kept.add_scores(message, content)
        if self._clock is not None:
            self._clock.subtract(time.monotonic() - start, len(content))
        if self._readers[0].is_complete:
            self._readers.popleft()
        if not self._readers:
            self._traces.finish()

    def _not_answered(self) -> list[dict[str, Any]]:
        return [answer(name, "not applicable", why) for name, why in self._refused.items()]

    def _may_begin(self, stage: StageName, phase: str) -> bool:
        """Tell whether a phase may begin now."""
        if phase == ANSWER and self._results and self._results[0] is not Answered:
            return False
        return self._phases[phase] < self._rules.most_phases(stage, phase)
