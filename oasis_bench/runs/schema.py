"""The content of a run's SQLite file: its tables, and the table `run` as the record `RunFacts`.

Labels of test items are only in `labels` and `pictures`, which are empty until the last trial has
ended: a learner may read the file.  What a trial writes names items by their row numbers.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, TypedDict, get_type_hints

from msgspec import ValidationError, convert, to_builtins

from oasis_bench.data import Schema
from oasis_bench.experiment import Experiment
from oasis_bench.system import UsageError, quoted
from oasis_bench.tasks import Task

SCHEMA_VERSION = 14
"""Raised by one with every change of the tables, or of the content of the table `run`."""

TRIAL_TABLES = (
    *("answers", "tuned", "measures", "groups", "predicted_classes", "validation", "traces"),
    *("symmetry", "retrievals"),
    "projections",
    "fit_numbers",
)
"""The tables with further rows of each trial."""

_TABLES = """
CREATE TABLE run (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL               -- JSON
) STRICT;
CREATE TABLE trials (
    trial_id TEXT PRIMARY KEY,        -- hash of what decides the result (see TrialSpec)
    learner TEXT NOT NULL,            -- its label in this run
    algorithm TEXT NOT NULL,          -- its name in the registry
    dataset TEXT NOT NULL,
    subset TEXT NOT NULL,
    n_classes INTEGER NOT NULL,
    partition INTEGER NOT NULL,       -- from 0
    split TEXT NOT NULL,              -- how the items were divided (see tasks.task.Task)
    transductive INTEGER NOT NULL,    -- 1 where the learner may use the unlabelled test items
    status TEXT NOT NULL CHECK (
        status IN ('ok', 'failed', 'crashed', 'timeout', 'out of memory', 'not applicable')
    ),
    reason TEXT,                      -- one line, where status is not ok
    traceback TEXT,
    scaling TEXT,                     -- this and the next three as the first measure tuned them
    params TEXT,                      -- (see the table tuned): what the costs below are of
    n_steps INTEGER,
    blend REAL CHECK (blend BETWEEN 0 AND 1),
    n_train INTEGER NOT NULL,
    n_test INTEGER NOT NULL,
    rho REAL NOT NULL CHECK (rho BETWEEN 0 AND 1),  -- of partitions (see tasks.Split.rho)
    n_features INTEGER NOT NULL,
    fit_seconds REAL,                 -- wall clock of the final fit alone
    fit_cpu_seconds REAL,
    fit_waiting_seconds REAL,         -- its threads waited for a core; NULL where not measurable
    fit_peak_bytes INTEGER,           -- above the start of the fit; NULL where not known
    tuning_fit_seconds REAL,          -- inner folds, as if in turn: learning
    tuning_score_seconds REAL,        -- inner folds: validation
    threads INTEGER NOT NULL,         -- the largest thread pool during the fit
    shared_cores INTEGER NOT NULL,    -- 1 where other trials ran at the same time
    processor TEXT,                   -- that of the final fit; NULL without a result
    query_seconds REAL,               -- embedding and scoring all queries, wall clock
    query_cpu_seconds REAL,
    n_timed_queries INTEGER,          -- queries that were scored in that time
    model_bytes INTEGER,              -- of the fitted learner
    symmetry_index REAL,              -- of W; NULL where there is none or it was not asked for
    finished TEXT NOT NULL            -- UTC, ISO 8601
) STRICT;
CREATE UNIQUE INDEX trials_once ON trials (learner, subset, partition, split);
CREATE TABLE answers (                -- how each task that was asked of a trial was answered
    trial_id TEXT NOT NULL REFERENCES trials,
    task TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('ok', 'failed', 'not applicable')),
    reason TEXT,                      -- one line, where status is not ok
    n_queries INTEGER,                -- that count
    n_left_out INTEGER,               -- that do not, such as items without a relevant one
    PRIMARY KEY (trial_id, task)
) STRICT;
CREATE TABLE tuned (                  -- what was fitted for the tasks of each gallery
    trial_id TEXT NOT NULL REFERENCES trials,
    gallery TEXT NOT NULL,            -- what its queries are compared with (see tasks.task.Task)
    task TEXT NOT NULL,               -- this measure of this task tuned it on the inner folds
    measure TEXT NOT NULL,
    k INTEGER,
    scaling TEXT NOT NULL,            -- of the rows, tuned or given
    params TEXT NOT NULL,             -- JSON: the hyper-parameters
    n_steps INTEGER,                  -- tuned or given; NULL where there are no steps
    blend REAL CHECK (blend BETWEEN 0 AND 1),  -- the weight b of the learner (see
                                      -- plugins.blending); NULL: not blended with the baseline
    baseline_scaling TEXT,            -- of the baseline's rows; NULL: those of a saved model
    baseline_sd REAL,                 -- of the baseline's score and the learner's, on pairs of
    learned_sd REAL,                  -- training items
    PRIMARY KEY (trial_id, gallery)
) STRICT;
CREATE TABLE measures (
    trial_id TEXT NOT NULL REFERENCES trials,
    task TEXT NOT NULL,
    measure TEXT NOT NULL,            -- such as 'mAP', 'precision', 'accuracy'
    k INTEGER,                        -- NULL where the measure has none
    value REAL NOT NULL,
    as_learned REAL NOT NULL,         -- the same of the learner alone, b = 1
    chance REAL                       -- of this measure for a random order; NULL: not known
) STRICT;
CREATE UNIQUE INDEX measures_once ON measures (trial_id, task, measure, ifnull(k, 0));
CREATE TABLE groups (                 -- what each group of judgements adds to a measure
    trial_id TEXT NOT NULL REFERENCES trials,
    task TEXT NOT NULL,
    measure TEXT NOT NULL,
    k INTEGER,                        -- NULL where the measure has none
    cluster INTEGER NOT NULL,         -- the text query, reference or rated query
    n INTEGER NOT NULL CHECK (n > 0), -- judgements of it that count
    value REAL NOT NULL               -- their sum
) STRICT;
CREATE UNIQUE INDEX groups_once ON groups (trial_id, task, measure, ifnull(k, 0), cluster);
CREATE TABLE predicted_classes (
    trial_id TEXT NOT NULL REFERENCES trials,
    task TEXT NOT NULL,
    predicted INTEGER NOT NULL,       -- a class number of the data set
    rows TEXT NOT NULL,               -- JSON: the test items of which it is predicted, ascending
    PRIMARY KEY (trial_id, task, predicted)
) STRICT;
CREATE TABLE labels (                 -- of all items that other tables name
    row INTEGER NOT NULL,             -- of the data set
    label INTEGER NOT NULL,           -- a class number; an item may have several
    PRIMARY KEY (row, label)
) STRICT;
CREATE TABLE validation (             -- the measures that tune, on the inner folds
    trial_id TEXT NOT NULL REFERENCES trials,
    task TEXT NOT NULL,               -- whose measure it is (see tuned)
    scaling TEXT NOT NULL,
    params TEXT NOT NULL,             -- JSON
    n_steps INTEGER,
    fold INTEGER NOT NULL,
    value REAL NOT NULL
) STRICT;
CREATE TABLE retrievals (             -- what some queries retrieve, best first
    trial_id TEXT NOT NULL REFERENCES trials,
    query INTEGER NOT NULL,           -- row numbers of the data set
    rank INTEGER NOT NULL,            -- from 1
    retrieved INTEGER NOT NULL,
    PRIMARY KEY (trial_id, query, rank)
) STRICT;
CREATE TABLE pictures (
    row INTEGER PRIMARY KEY,          -- of the data set
    caption TEXT NOT NULL,            -- its class, or its words
    thumbnail BLOB                    -- JPEG; NULL where the file could not be read
) STRICT;
CREATE TABLE traces (                 -- the same measure along the steps, off the clock
    trial_id TEXT NOT NULL REFERENCES trials,
    part TEXT NOT NULL CHECK (part IN ('train', 'test')),
    n_steps INTEGER NOT NULL,
    value REAL NOT NULL,
    PRIMARY KEY (trial_id, part, n_steps)
) STRICT;
CREATE TABLE symmetry (               -- of W along the same steps, for learners of x'Wy
    trial_id TEXT NOT NULL REFERENCES trials,
    n_steps INTEGER NOT NULL,
    symmetry_index REAL NOT NULL,     -- |(W + W')/2| / |W|, Frobenius norms
    PRIMARY KEY (trial_id, n_steps)
) STRICT;
CREATE TABLE projections (            -- some test items in a plane (see the trial's evaluator)
    trial_id TEXT NOT NULL REFERENCES trials,
    row INTEGER NOT NULL,             -- of the data set
    x REAL NOT NULL,                  -- by the learner's scores; the mean of x^2 + y^2 is the
    y REAL NOT NULL,                  -- share of the variance that the plane has
    x_before REAL,                    -- by the scaled rows that the learner got; NULL where it
    y_before REAL,                    -- takes no rows
    PRIMARY KEY (trial_id, row)
) STRICT;
CREATE TABLE fit_numbers (            -- single numbers of the final fit
    trial_id TEXT NOT NULL REFERENCES trials,
    name TEXT NOT NULL,               -- a fitted attribute, such as gap_; 'training': the
                                      -- measure that chooses, on the training items
    value REAL NOT NULL,
    PRIMARY KEY (trial_id, name)
) STRICT;
"""

SCHEMA = _TABLES
for _kind, _range in (
    ("INTEGER", r"\2 BETWEEN 0 AND 9007199254740992"),
    ("REAL", r"abs(\2) < 1e100"),
):
    _column = rf"(?m)^( +(\w+) {_kind}(?: NOT NULL| PRIMARY KEY)?)"
    SCHEMA = re.sub(_column, rf"\1 CHECK ({_range})", SCHEMA)
"""The tables; whole numbers are at least 0 and exact as floats, and others are finite."""

PICTURED_ROWS = "SELECT query FROM retrievals UNION SELECT retrieved FROM retrievals"
"""The row numbers of the items that have a picture, where the data set has pictures."""

NAMED_ROWS = f"""
{PICTURED_ROWS} UNION SELECT row FROM projections
UNION SELECT item.value FROM predicted_classes, json_each(predicted_classes.rows) AS item
"""
"""The row numbers of the items that have labels when the last trial has ended."""

_OF_TRIAL = "SELECT learner, subset, partition, split, trial_id"

QUERIES = {
    "trials": "SELECT * FROM trials",
    **{
        table: f"SELECT learner, subset, partition, split, {table}.* "
        f"FROM {table} JOIN trials USING (trial_id) ORDER BY {table}.rowid"
        for table in TRIAL_TABLES
    },
    "confusion": f"""
        {_OF_TRIAL}, task, label, predicted, count(*) AS n
        FROM predicted_classes JOIN trials USING (trial_id)
        JOIN json_each(predicted_classes.rows) AS item JOIN labels ON labels.row = item.value
        GROUP BY trials.rowid, task, label, predicted ORDER BY trials.rowid, task, label, predicted
    """,
    "retrievals": f"""
        {_OF_TRIAL}, query, rank, retrieved, EXISTS (
            SELECT 1 FROM labels AS own JOIN labels AS found USING (label)
            WHERE own.row = query AND found.row = retrieved
        ) AS relevant
        FROM retrievals JOIN trials USING (trial_id)
        WHERE query IN (SELECT row FROM labels) ORDER BY retrievals.rowid
    """,
    "projections": f"""
        {_OF_TRIAL}, row, label, x, y, x_before, y_before
        FROM projections JOIN trials USING (trial_id) JOIN labels USING (row)
        ORDER BY projections.rowid
    """,
    "pictures": "SELECT * FROM pictures",
}
"""The query of each table of `StoredRun`; those that need labels give nothing without them."""


# --- the table `run`: each field of `RunFacts` is JSON under its name

LEARNER = tuple[str, dict[str, Any], str | None, str | None]
"""Types of the facts about a learner: algorithm, hyper-parameters, model file, features."""


class Provenance(TypedDict, total=False):
    """What reports look up in the provenance of a session; they show the rest as it is."""

    commit: str | None
    versions: dict[str, str | None]


class Identity(TypedDict):
    """What is looked up in what decides the results of a learner; the rest is compared."""

    data: str
    code: str
    classes: list[int]


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a learner comes from, as its plugin says: for the report to cite."""

    summary: str
    citation: str


@dataclass(frozen=True, kw_only=True)
class DatasetSource(Source):
    """Where a data set comes from, as its plugin says."""

    name: str
    licence: str


@dataclass(frozen=True, kw_only=True)
class TaskSource(Source):
    """What a task is, as its plugin says."""

    split: str  # how items are divided for it
    gallery: str  # what queries are compared with (see `tasks.task.Task`)
    measures: Sequence[str]  # the first is the default for tuning
    of_data: Sequence[str] = ()  # those of the data: no learner can be better or worse at them


@dataclass(frozen=True, kw_only=True)
class SplitSource(Source):
    """How items are divided, in the words of the split's plugin."""

    per_class: bool  # whether by items a class
    most: int | None = None  # partitions that there can be; None: any number


@dataclass(frozen=True)
class Sources:
    """The sources of a run: its data set, learners by label, tasks and splits by name."""

    dataset: DatasetSource
    learners: Mapping[str, Source]
    tasks: Mapping[str, TaskSource]
    splits: Mapping[str, SplitSource]


@dataclass(frozen=True, kw_only=True)
class Session:
    """One call of the command that ran trials of a run."""

    started: str  # UTC, ISO 8601
    command: str | None  # the command line; None where the run was started from Python
    provenance: Mapping[str, Any]  # machine, versions and commit (see `system.machine`)
    load_at_start: float | None = None  # of the machine before the first trial; None: not known


@dataclass(frozen=True, kw_only=True)
class Resumption(Session):
    """A later session, which went on with the run."""

    trials: int  # that it set out to run
    limits: Mapping[str, str]  # 'budget' and 'memory' where not those of the experiment


@dataclass(frozen=True, kw_only=True)
class RunFacts(Session):
    """A run as a whole; the attributes of `Session` are those of its first session."""

    experiment: Experiment
    identities: Mapping[str, Mapping[str, Any]]  # what decides results, by learner and subset
    plugin_files: Sequence[str]
    sources: Sources
    planned_trials: int
    classes: Mapping[str, Sequence[str]]  # the names of each subset, or of its first class set
    multi_label: bool  # whether an item has several labels
    items: str  # what the data set calls its items, in the plural, such as 'images'
    scaling: Sequence[str]  # of rows; several are tuned; none: no learner takes rows
    remarks: Sequence[str]  # what of the data decided how the run is made, and what may mislead
    left_out: Sequence[str]  # what of the data set was not used, a line each
    notes: Mapping[str, str]  # what a reader of results on a subset must know, by the subset
    table: Schema | None = None  # how the table was read, if it is one
    n_folds: int = 0  # that the data set is published with: the partitions; 0: there are none
    resumed: tuple[Resumption, ...] = ()  # the later sessions, in their order
    finished: str | None = None  # UTC, ISO 8601; None where the run was cut short
    load_at_end: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain values, without those that this run does not have."""
        optional = ("resumed", "finished", "load_at_end", "table")
        nothing: tuple[Any, ...] = (None, (), [], {})
        values = {**asdict(self), "table": to_builtins(self.table)}
        return {
            name: value
            for name, value in values.items()
            if name not in optional or value not in nothing
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Make it of what `to_json` gave; what is of another type is refused."""
        types = get_type_hints(cls)
        try:
            parts = {key: convert(values[key], types[key]) for key in values if key != "experiment"}
            info = cls(experiment=Experiment.from_dict(values["experiment"]), **parts)
            info._check()
        except (KeyError, TypeError, AttributeError, ValueError, ValidationError) as error:
            if isinstance(error, UsageError):
                raise
            reason = " ".join(str(error).split())
            raise UsageError(f"what the store says of its run cannot be read: {reason}") from error
        return info

    def _check(self) -> None:
        """Raise ValueError if a fact is not as the parts of the program that use it expect it."""
        e, sources = self.experiment, self.sources
        for one in e.learners.values():
            convert((one.algorithm, one.params, one.model, one.features), LEARNER)
        types = get_type_hints(Experiment)
        for it in fields(e):
            if "setting" not in it.metadata and it.name != "learners":
                convert(getattr(e, it.name), types[it.name])
        for session in (self, *self.resumed):
            convert(dict(session.provenance), Provenance)
            shlex.split(session.command or "")
        for identity in self.identities.values():
            convert(dict(identity), Identity)
        tasks = sources.tasks.values()
        for what, named, known in (
            ("learners", sources.learners, e.learners),
            ("learners", e.learners, sources.learners),
            ("tasks", e.tasks, sources.tasks),
            ("splits", [task.split for task in tasks], sources.splits),
            ("galleries", [task.gallery for task in tasks], Task.GALLERIES),
        ):
            if unknown := next((name for name in named if name not in known), None):
                raise UsageError(f"its {what} do not fit together: {quoted(unknown)}")
        if not all(task.measures for task in tasks) or not all(self.classes.values()):
            raise UsageError("a task has no measures, or a class subset no classes")
