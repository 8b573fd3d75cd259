"""Collects the findings of a running trial, and makes its result when it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from traceback import format_exc

from oasis_bench.plugins import Blend, MetricLearner
from oasis_bench.system import OutputError, error_line, processor_name
from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.evaluator import TRAINING, Evaluator, Traces
from oasis_bench.trial.harness_side.items import SealedItems
from oasis_bench.trial.harness_side.result import KeptFiles, TrialResult, ended
from oasis_bench.trial.harness_side.rows import (
    AnswerRow,
    FitNumberRow,
    Status,
    TrialRow,
    TunedRow,
    ValidationRow,
)


class EndsTrialError(Exception):
    """Ends the trial as failed; the arguments are the reason and, for user code, a traceback."""


@contextmanager
def task_at_work() -> Iterator[None]:
    """Let an error of a task, which may be user code, end only the trial, not the run."""
    try:
        yield
    except (OutputError, OSError, MemoryError):  # machine errors
        raise
    except Exception as error:
        raise EndsTrialError(error_line(error), format_exc()) from error


@dataclass
class Fit:
    """A fit of a trial, for the tasks of some galleries, and its costs."""

    galleries: tuple[str, ...]
    tuned: wall.Tuned
    items: SealedItems  # as the learner gets them
    model: int = -1  # file descriptor of the fitted learner; -1: none
    came: wall.Fitted | wall.Loaded | None = None
    seconds: float | None = None  # by both clocks
    cpu_seconds: float | None = None
    blend: Blend | None = None  # of the selected use
    queried: tuple[float, float, int] = (0.0, 0.0, 0)  # seconds, processor seconds, queries

    @property
    def n_steps(self) -> int | None:
        """The number of steps, tuned or given."""
        given: int | None = self.tuned.params.get("n_steps", self.tuned.n_steps)
        return given

    def close(self) -> None:
        """Close the file of the fitted learner."""
        if self.model >= 0:
            os.close(self.model)
            self.model = -1


@dataclass
class Findings:
    """The findings of a running trial; the last of its `fits` is for the first measure."""

    row: TrialRow
    learner: type[MetricLearner]
    evaluator: Evaluator
    traces: Traces
    kept: KeptFiles
    refused: Mapping[str, str]  # tasks that the learner cannot do, each with the reason
    places: Mapping[str, int]  # number of the measure that tunes each gallery, from 0
    validation: list[ValidationRow] = field(default_factory=list)
    tuned: dict[str, TunedRow] = field(default_factory=dict)  # by gallery
    fits: list[Fit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_measured: bool = False

    def result(self, status: Status, reason: str | None, traceback: str | None) -> TrialResult:
        """Return the result of a trial that has ended or was stopped.

        If the trial is measured already, only the replay for the traces was cut short.
        """
        if status != "ok" and self.is_measured:
            self.notes.append(f"traces end early: {status}: {reason}")
            status, traceback = "ok", None
        if status == "ok":
            reason = "; ".join(self.notes) or None
        found = TrialResult(self.row)
        try:
            with task_at_work():
                if self.is_measured:
                    found = self._measured()
        except EndsTrialError as error:
            status, (reason, traceback) = "failed", error.args
        found.validation, found.traces = self.validation, self.traces.values
        found.symmetry = self.traces.symmetry
        found.row = ended(found.row, status, reason, traceback)
        return found

    def _measured(self) -> TrialResult:
        """Return the result of a measured trial."""
        fit, row = self.fits[-1], self.row
        came = fit.came
        assert came is not None  # it is measured
        self._add_costs(fit, came)
        rows = fit.items.test_rows if self.learner.takes == "rows" else None
        found = self.evaluator.tables()
        found.answers += [
            AnswerRow(name, "not applicable", why) for name, why in self.refused.items()
        ]
        numbers = dict(came.numbers)
        if (training := self.traces.training_value(fit.n_steps)) is not None:
            numbers[TRAINING] = training
        return TrialResult(
            row,
            **vars(found),
            retrievals=self.evaluator.retrievals(),
            projections=self.evaluator.projections(self.learner, rows),
            tuned=sorted(self.tuned.values(), key=lambda row: self.places[row.gallery]),
            fit_numbers=[FitNumberRow(name, value) for name, value in numbers.items()],
            blend_values=fit.tuned.blend_values,
            posterior_values=fit.tuned.posterior_values,
            files=self.kept.finish(fit.blend),
        )

    def _add_costs(self, fit: Fit, came: wall.Fitted | wall.Loaded) -> None:
        """Write the settings and costs of the fit of the first measure into the row."""
        row, tuned = self.row, self.tuned[fit.galleries[0]]
        row.scaling, row.params, row.n_steps = tuned.scaling, tuned.params, tuned.n_steps
        row.threads, row.processor = came.threads, processor_name()
        row.symmetry_index, row.model_bytes = came.symmetry_index, os.fstat(fit.model).st_size
        row.blend = tuned.blend
        if isinstance(came, wall.Fitted):
            row.fit_seconds, row.fit_cpu_seconds = fit.seconds, fit.cpu_seconds
            row.fit_waiting_seconds, row.fit_peak_bytes = came.waiting_seconds, came.peak_bytes
            row.tuning_fit_seconds = fit.tuned.fit_seconds
            row.tuning_score_seconds = fit.tuned.score_seconds
        seconds, cpu_seconds, counts = zip(*(one.queried for one in self.fits), strict=True)
        row.query_seconds, row.query_cpu_seconds = sum(seconds), sum(cpu_seconds)
        row.n_timed_queries = sum(counts)

    def discard(self) -> None:
        """Close the files of fitted learners, and remove unfinished files."""
        self.kept.discard()
        for fit in self.fits:
            fit.close()
