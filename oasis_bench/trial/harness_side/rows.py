"""Rows of the store's tables, as a trial makes them: one record for each table of trials.

The fields are the columns; `oasis_bench.runs.schema` says what is in each.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class TrialRow(Struct, kw_only=True):
    """A row of the table `trials`; what only a measured trial has is None otherwise."""

    trial_id: str
    learner: str
    algorithm: str
    dataset: str
    subset: str
    n_classes: int
    partition: int
    split: str
    transductive: int = 0
    status: str
    reason: str | None = None
    traceback: str | None = None
    scaling: str | None = None
    params: str | None = None
    n_steps: int | None = None
    blend: float | None = None
    n_train: int
    n_test: int
    rho: float
    n_features: int
    fit_seconds: float | None = None
    fit_cpu_seconds: float | None = None
    fit_waiting_seconds: float | None = None
    fit_peak_bytes: int | None = None
    tuning_fit_seconds: float | None = None
    tuning_score_seconds: float | None = None
    threads: int
    shared_cores: int
    processor: str | None = None
    query_seconds: float | None = None
    query_cpu_seconds: float | None = None
    n_timed_queries: int | None = None
    model_bytes: int | None = None
    symmetry_index: float | None = None
    finished: str


class AnswerRow(Struct):
    """How a task was answered; without numbers where it has no result."""

    task: str
    status: str
    reason: str | None = None
    n_queries: int | None = None
    n_left_out: int | None = None


class TunedRow(Struct):
    """What was fitted for the tasks of a gallery."""

    gallery: str
    task: str
    measure: str
    k: int | None
    scaling: str
    params: str
    n_steps: int | None = None
    blend: float | None = None
    baseline_scaling: str | None = None
    baseline_sd: float | None = None
    learned_sd: float | None = None


class MeasureRow(Struct):
    """The value of a measure."""

    task: str
    measure: str
    k: int | None
    value: float
    as_learned: float
    chance: float | None


class GroupRow(Struct):
    """What a group of judgements adds to a measure."""

    task: str
    measure: str
    k: int | None
    cluster: int
    n: int
    value: float


class PredictedRow(Struct):
    """The test items of which a class is predicted."""

    task: str
    predicted: int
    rows: str


class ValidationRow(Struct):
    """The value of a measure that tunes on an inner fold."""

    task: str
    scaling: str
    params: str
    n_steps: int | None
    fold: int
    value: float


class TraceRow(Struct):
    """The measure that tunes at a checkpoint."""

    part: str
    n_steps: int
    value: float


class SymmetryRow(Struct):
    """The symmetry of W at a checkpoint."""

    n_steps: int
    symmetry_index: float


class RetrievalRow(Struct):
    """An item that a query retrieves."""

    query: int
    rank: int
    retrieved: int


class ProjectionRow(Struct):
    """The place of a test item in a plane."""

    row: int
    x: float
    y: float
    x_before: float | None
    y_before: float | None


class FitNumberRow(Struct):
    """A single number of the final fit."""

    name: str
    value: float


Row: TypeAlias = (
    AnswerRow
    | TunedRow
    | MeasureRow
    | GroupRow
    | PredictedRow
    | ValidationRow
    | TraceRow
    | SymmetryRow
    | RetrievalRow
    | ProjectionRow
    | FitNumberRow
)
"""A row of one of the further tables of trials."""
