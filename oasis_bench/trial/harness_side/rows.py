"""Rows of the store's tables, as a trial makes them: one record for each table of trials.

The fields are the columns: `oasis_bench.runs.schema` makes the tables of these records.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from oasis_bench.trial import wall

Status: TypeAlias = Literal["ok", "failed", "crashed", "timeout", "out of memory", "not applicable"]
Share: TypeAlias = Annotated[float, Meta(ge=0, le=1)]


Part: TypeAlias = Literal["train", "test"]


class TrialRow(Struct, kw_only=True):
    """A row of the table `trials`; values that only a measured trial has are else None.

    The fields from `scaling` to `blend`, and the costs, are those of the first measure.
    """

    trial_id: str  # hash of the identity (see TrialSpec)
    learner: str  # its label in this run
    algorithm: str  # its name in the registry
    dataset: str
    subset: str
    n_classes: int
    partition: int  # from 0
    split: str  # how the items were divided (see tasks.task.Task)
    transductive: int = 0  # 1 if the learner may use the unlabelled test items
    status: Status
    reason: str | None = None  # why status is not ok, or notes of an ok trial
    traceback: str | None = None
    scaling: str | None = None
    params: str | None = None
    n_steps: int | None = None
    blend: Share | None = None
    n_train: int
    n_test: int
    rho: Share  # of partitions (see tasks.Split.rho)
    n_features: int
    fit_seconds: float | None = None  # wall clock of the final fit alone
    fit_cpu_seconds: float | None = None
    fit_waiting_seconds: float | None = None  # waiting for a core; None if not measurable
    fit_peak_bytes: int | None = None  # above the start of the fit; None if not known
    tuning_fit_seconds: float | None = None  # all fits on inner folds, as if in turn
    tuning_score_seconds: float | None = None  # validation on inner folds
    threads: int  # the largest thread pool during the fit
    shared_cores: int  # 1 if other trials ran at the same time
    processor: str | None = None  # that of the final fit
    query_seconds: float | None = None  # embedding and scoring all queries, wall clock
    query_cpu_seconds: float | None = None
    n_timed_queries: int | None = None  # queries that were scored in that time
    model_bytes: int | None = None  # of the fitted learner
    symmetry_index: float | None = None  # of W; None without W, or without traces
    finished: str  # UTC, ISO 8601


class AnswerRow(Struct):
    """The status of a task; without numbers if it has no result."""

    task: str
    status: Literal["ok", "failed", "not applicable"]
    reason: str | None = None  # one line, if status is not ok
    n_queries: int | None = None  # that are evaluated
    n_left_out: int | None = None  # not evaluated, such as items without a relevant one


class TunedRow(Struct):
    """The tuned settings for the tasks of a gallery."""

    gallery: str  # the items to compare queries with (see tasks.task.Task)
    task: str  # its measure tuned the settings on the inner folds
    measure: str
    k: int | None
    scaling: str  # of the rows, tuned or given
    params: str  # JSON: the hyper-parameters
    n_steps: int | None = None  # tuned or given; None without steps
    blend: Share | None = None  # the weight b of the learner; None: not blended
    baseline_scaling: str | None = None  # of the baseline's rows; None: that of a saved model
    baseline_sd: float | None = None  # of the baseline's score, on pairs of training items
    learned_sd: float | None = None  # of the learner's score, on the same pairs
    use: wall.Use = "direct"  # that the inner folds select
    tau: float | None = None  # of the votes for the posterior use; None: not offered
    posterior_blend: Share | None = None  # the weight b of the posterior use
    affinity_sd: float | None = None  # of the inner product of posteriors, on the same pairs


class MeasureRow(Struct):
    """The value of a measure."""

    task: str
    measure: str  # such as 'mAP', 'precision', 'accuracy'
    k: int | None  # None if the measure has none
    value: float  # of the use that the inner folds select
    direct: float
    posterior: float | None  # None: not offered
    as_learned: float  # the value of the learner alone: direct, b = 1
    chance: float | None  # of this measure for a random order; None: not known


class GroupRow(Struct):
    """The part of a measure that a group of judgements adds."""

    task: str
    measure: str
    k: int | None
    cluster: int  # the text query, reference or rated query
    n: Annotated[int, Meta(gt=0)]  # its judgements that count
    value: float  # their sum


class PredictedRow(Struct):
    """The test items predicted to be of a class."""

    task: str
    predicted: int  # a class number of the data set
    rows: str  # JSON: the test items, ascending


class ValidationRow(Struct):
    """The value of a tuning measure on an inner fold."""

    task: str  # whose measure it is (see `TunedRow`)
    scaling: str
    params: str  # JSON
    n_steps: int | None
    fold: int
    value: float


class TraceRow(Struct):
    """The value of the tuning measure at a checkpoint."""

    part: Part
    n_steps: int
    value: float


class SymmetryRow(Struct):
    """The symmetry of W at a checkpoint, for learners of x'Wy."""

    n_steps: int
    symmetry_index: float  # |(W + W')/2| / |W|, Frobenius norms


class RetrievalRow(Struct):
    """An item that a query retrieves; items are row numbers of the data set."""

    query: int
    rank: int  # from 1
    retrieved: int


class ProjectionRow(Struct):
    """The place of a test item in a plane (see `evaluator.plane`)."""

    row: int  # of the data set
    x: float  # from the learner's scores
    y: float
    x_before: float | None  # from the scaled rows; None if it takes no rows
    y_before: float | None


class FitNumberRow(Struct):
    """A single number of the final fit."""

    name: str  # a fitted attribute, such as gap_; 'training': the tuning measure on training items
    value: float
