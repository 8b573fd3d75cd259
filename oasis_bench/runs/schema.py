"""The content of a run's SQLite file: its tables, and the table `run` as the record `RunFacts`.

Labels of test items are only in `labels` and `pictures`.  Both are empty until the last trial has
ended, because a learner may read the file.  Other tables name items by their row numbers.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self, TypedDict, get_args, get_type_hints

from msgspec import Struct, ValidationError, convert, inspect, to_builtins

from oasis_bench.data import Schema
from oasis_bench.experiment import Experiment
from oasis_bench.system import UsageError, quoted
from oasis_bench.tasks import Task
from oasis_bench.trial import TrialResult

SCHEMA_VERSION = 16
"""It grows by one with each change of the tables, or of the content of the table `run`."""

_ONCE = {
    "answers": "task",
    "tuned": "gallery",
    "measures": "task, measure, ifnull(k, 0)",
    "groups": "task, measure, ifnull(k, 0), cluster",
    "predicted_classes": "task, predicted",
    "traces": "part, n_steps",
    "symmetry": "n_steps",
    "retrievals": "query, rank",
    "projections": "row",
    "fit_numbers": "name",
}
"""Tables with further rows of each trial, and the columns that are unique within a trial."""

TRIAL_TABLES = (*_ONCE, "validation")
"""All tables with further rows of each trial."""

_EXACT = 2**53
"""The largest whole number up to which all are exact as floats."""

_OTHER_TABLES = f"""
CREATE TABLE run (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL               -- JSON
) STRICT;
CREATE TABLE labels (                 -- of all items that other tables name
    row INTEGER NOT NULL CHECK (row BETWEEN 0 AND {_EXACT}),  -- of the data set
    label INTEGER NOT NULL CHECK (label BETWEEN 0 AND {_EXACT}),  -- of a class, or several
    PRIMARY KEY (row, label)
) STRICT;
CREATE TABLE pictures (
    row INTEGER PRIMARY KEY CHECK (row BETWEEN 0 AND {_EXACT}),
    caption TEXT NOT NULL,            -- its class, or its words
    thumbnail BLOB                    -- JPEG; NULL where the file could not be read
) STRICT;
"""


def _column(field: inspect.Field) -> str:
    """Declare a column: whole numbers are at least 0 and exact as floats, others are finite."""
    of_field = field.type.types if isinstance(field.type, inspect.UnionType) else (field.type,)
    kind, name = of_field[0], field.name
    needed = " NOT NULL" if len(of_field) == 1 else ""
    if isinstance(kind, inspect.IntType):
        least = 0 if kind.gt is None else kind.gt + 1
        return f"{name} INTEGER{needed} CHECK ({name} BETWEEN {least} AND {_EXACT})"
    if isinstance(kind, inspect.FloatType):
        is_share = (kind.ge, kind.le) == (0, 1)
        check = f"{name} BETWEEN 0 AND 1" if is_share else f"abs({name}) < 1e100"
        return f"{name} REAL{needed} CHECK ({check})"
    if isinstance(kind, inspect.LiteralType):
        known = ", ".join(f"'{value}'" for value in kind.values)
        return f"{name} TEXT{needed} CHECK ({name} IN ({known}))"
    return f"{name} TEXT{needed}"


def _table(name: str, record: type[Struct], *more: str) -> str:
    """Declare the table of a record, with more columns before its own."""
    info = inspect.type_info(record)
    assert isinstance(info, inspect.StructType)
    columns = ",\n    ".join([*more, *map(_column, info.fields)])
    return f"CREATE TABLE {name} (\n    {columns}\n) STRICT;\n"


def _index(table: str, columns: str) -> str:
    """Declare that these columns are unique."""
    return f"CREATE UNIQUE INDEX {table}_once ON {table} ({columns});\n"


_RECORDS = get_type_hints(TrialResult, include_extras=True)
_OF_A_TRIAL = "trial_id TEXT NOT NULL REFERENCES trials (trial_id)"
SCHEMA = "".join(
    [
        _OTHER_TABLES,
        _table("trials", _RECORDS["row"]),
        _index("trials", "learner, subset, partition, split"),
        "CREATE UNIQUE INDEX trial_ids ON trials (trial_id);\n",
        *(_table(table, get_args(_RECORDS[table])[0], _OF_A_TRIAL) for table in TRIAL_TABLES),
        *(_index(table, f"trial_id, {columns}") for table, columns in _ONCE.items()),
    ]
)
"""The tables; the columns of trial tables are the fields of the records of `TrialResult`."""

PICTURED_ROWS = "SELECT query FROM retrievals UNION SELECT retrieved FROM retrievals"
"""The row numbers of the items that have a picture, if the data set has pictures."""

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
"""The query of each table of `StoredRun`; queries that need labels are empty without them."""


# --- the table `run`: each field of `RunFacts` is JSON under its name

LEARNER = tuple[str, dict[str, Any], str | None, str | None]
"""Types of the facts about a learner: algorithm, hyper-parameters, model file, features."""


class Provenance(TypedDict, total=False):
    """The keys of a session's provenance that reports use; they show the rest unchanged."""

    commit: str | None
    versions: dict[str, str | None]


class Identity(TypedDict):
    """The keys of an identity that are used; the rest is only compared."""

    data: str
    code: str
    classes: list[int]


@dataclass(frozen=True, kw_only=True)
class Source:
    """The source of a learner, from its plugin, for the report to cite."""

    summary: str
    citation: str


@dataclass(frozen=True, kw_only=True)
class DatasetSource(Source):
    """The source of a data set, from its plugin."""

    name: str
    licence: str


@dataclass(frozen=True, kw_only=True)
class TaskSource(Source):
    """The facts about a task, from its plugin."""

    split: str  # how items are divided for it
    gallery: str  # items to compare queries with (see `tasks.task.Task`)
    measures: Sequence[str]  # the first is the default for tuning
    of_data: Sequence[str] = ()  # measures of the data, equal for all learners


@dataclass(frozen=True, kw_only=True)
class SplitSource(Source):
    """How items are divided, in the words of the split's plugin."""

    per_class: bool  # whether by items per class
    most: int | None = None  # largest number of partitions; None: no limit
    knows_classes: bool | None = None  # whether test classes are training classes (see `Split`)


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
    command: str | None  # the command line; None if the run was started from Python
    provenance: Mapping[str, Any]  # machine, versions and commit (see `system.machine`)
    load_at_start: float | None = None  # of the machine before the first trial; None: not known


@dataclass(frozen=True, kw_only=True)
class Resumption(Session):
    """A later session, which continued the run."""

    trials: int  # planned in this session
    limits: Mapping[str, str]  # 'budget' and 'memory' if other than in the experiment


@dataclass(frozen=True, kw_only=True)
class RunFacts(Session):
    """A run as a whole; the attributes of `Session` are those of its first session."""

    experiment: Experiment
    identities: Mapping[str, Mapping[str, Any]]  # see `TrialSpec`, by learner and subset
    plugin_files: Sequence[str]
    sources: Sources
    planned_trials: int
    classes: Mapping[str, Sequence[str]]  # the names of each subset, or of its first class set
    multi_label: bool  # whether an item has several labels
    items: str  # the data set's word for its items, in the plural: 'images'
    scaling: Sequence[str]  # of rows; several are tuned; none: no learner takes rows
    remarks: Sequence[str]  # on choices made from the data, and possible errors
    left_out: Sequence[str]  # unused parts of the data set, a line each
    notes: Mapping[str, str]  # remarks for readers of the results, by subset
    table: Schema | None = None  # how the table was read, if it is one
    n_folds: int = 0  # published folds of the data set, used as partitions
    resumed: tuple[Resumption, ...] = ()  # the later sessions, in their order
    finished: str | None = None  # UTC, ISO 8601; None if the run was cut short
    load_at_end: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the facts as plain values, without missing ones."""
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
        """Make the facts from `to_json`; refuse values of another type."""
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
        """Raise ValueError if a fact is not as the other parts of the program expect it."""
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
