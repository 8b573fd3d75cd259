"""Made-up runs, written as the harness writes them: for tests of the store and of what reads it.

`fake_trial` makes a trial, `write_run` a run of trials in a new folder; `make_run` reads it back.
`fake_info` makes what a run tells of itself.
"""

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, get_args, get_type_hints

from oasis_bench.experiment import LearnerSpec, cell_name
from oasis_bench.plugins import Registry
from oasis_bench.runs import RunFacts, read_run
from oasis_bench.runs.store import Store
from oasis_bench.trial import TrialResult

TRACED_STEPS = {500: 0.2, 1000: 0.1, 2000: 0.02, 4000: 0.0}
"""Numbers of steps that an incremental learner was measured after, and what mAP then lacks."""

TASKS = {
    "retrieval": ("seen-classes", "test", ["mAP", "precision"]),
    "classification": ("seen-classes", "training", ["accuracy", "mean recognition"]),
    "unseen-classes": ("unseen-classes", "test", ["mAP", "precision"]),
    "judged-triplets": ("judged", "test", ["similarity precision", "agreement", "ceiling"]),
}
"""The split, the gallery and the measures of each task."""


@dataclass
class FakeTrial:
    """A made-up trial: its columns, and rows of the further tables, as dicts.

    Some have more than a trial writes, which labels say later: see `_without_labels`.
    """

    columns: dict[str, Any]
    answers: list[dict[str, Any]] = field(default_factory=list)
    measures: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    predicted_classes: list[dict[str, Any]] = field(default_factory=list)
    validation: list[dict[str, Any]] = field(default_factory=list)
    traces: list[dict[str, Any]] = field(default_factory=list)
    symmetry: list[dict[str, Any]] = field(default_factory=list)
    retrievals: list[dict[str, Any]] = field(default_factory=list)
    projections: list[dict[str, Any]] = field(default_factory=list)
    fit_numbers: list[dict[str, Any]] = field(default_factory=list)
    tuned: list[dict[str, Any]] = field(default_factory=list)
    of_use: dict[str, Any] = field(default_factory=dict)


TYPES = get_type_hints(TrialResult)
"""The type of a trial's row, and those of sequences of rows of the further tables."""


def result_of(trial):
    """Return a trial without made-up labels as the harness makes it."""
    tables = [one.name for one in fields(FakeTrial) if one.name not in ("columns", "of_use")]
    rows = {
        name: [get_args(TYPES[name])[0](**row) for row in getattr(trial, name)] for name in tables
    }
    return TrialResult(TYPES["row"](**trial.columns), **rows)


def fake_trial(
    learner="A",
    n_classes=10,
    partition=0,
    mAP=0.5,
    n_steps=None,
    params=None,
    tasks=("retrieval",),
    unanswered=None,
    chance=None,
    n_left_out=0,
    lift=0.0,
    gain=None,
    use="direct",
    **columns,
):
    """Make the record of a trial; `columns` are those of the store that are not the usual.

    Each class has 40 training and 25 test images.  What it measures of each of `tasks`, which are
    of one split, follows from mAP: see `_measures`.  `unanswered` has status and reason of the
    tasks that it did not answer.  With `n_steps` it also has validation, 5 folds that add 0 to
    0.04, and traces after `TRACED_STEPS`.  `chance` is that of precision at k, of n_test - 1 images
    where 24 are relevant if not given.  As learned, each value is lower by `lift`, and by
    posterior it is higher by `gain` (None: not offered), where tau is 0.3 and b 0.75.
    """
    n_test = n_classes * 25
    split = TASKS[tasks[0]][0]
    usual = {
        "learner": learner,
        "algorithm": "OASIS",
        "dataset": "made up",
        "subset": str(n_classes),
        "n_classes": n_classes,
        "partition": partition,
        "split": split,
        "transductive": 0,
        "status": "ok",
        "n_train": n_classes * 40,
        "n_test": n_test,
        "n_features": 64,
        "threads": 1,
        "shared_cores": 0,
        "finished": "2026-11-21T08:00:00+00:00",
    }
    sizes = usual | columns
    usual["rho"] = sizes["n_test"] / (sizes["n_train"] + sizes["n_test"])
    subset = columns.get("subset", usual["subset"])
    of_split = "" if split == "seen-classes" else f", {split}"
    usual["trial_id"] = f"{learner}, classes {subset}, {partition}{of_split}"
    if columns.get("status", "ok") != "ok":
        return FakeTrial({**usual, **columns})
    params_json = json.dumps(params or {})
    measured = {
        "scaling": "l2",
        "params": params_json,
        "n_steps": n_steps,
        "fit_seconds": 1.0,
        "fit_cpu_seconds": 1.0,
        "fit_waiting_seconds": 0.0,
        "fit_peak_bytes": 50 * 2**20,
        "tuning_fit_seconds": 5.0,
        "tuning_score_seconds": 2.0,
        "query_seconds": 0.5,
        "query_cpu_seconds": 0.5,
        "n_timed_queries": n_test,
        "model_bytes": 2**20,
        "processor": "a processor",
    }
    traced = {} if n_steps is None else TRACED_STEPS
    unanswered = unanswered or {}
    answers = [
        {
            "task": task,
            "status": unanswered.get(task, ("ok", None))[0],
            "reason": unanswered.get(task, ("ok", None))[1],
            "n_queries": None if task in unanswered else n_test,
            "n_left_out": None if task in unanswered else n_left_out,
        }
        for task in tasks
    ]
    answered = [task for task in tasks if task not in unanswered]
    return FakeTrial(
        {**usual, **measured, **columns},
        of_use={} if gain is None else {"use": use, "tau": 0.3, "posterior_blend": 0.75},
        answers=answers,
        measures=[
            {"task": task, "measure": measure, "k": k, "chance": by_chance}
            | {"value": value + (gain if use == "posterior" else 0), "direct": value}
            | {"posterior": None if gain is None else value + gain, "as_learned": value - lift}
            for task in answered
            for measure, k, value, by_chance in _measures(task, mAP, n_classes, chance)
        ],
        predicted_classes=[
            {"task": task, "label": true, "predicted": predicted, "n": n}
            for task in answered
            if task == "classification"
            for true in range(n_classes)
            for predicted, n in ((true, 20), ((true + 1) % n_classes, 5))
        ],
        validation=[
            {
                "task": tasks[0],
                "scaling": "l2",
                "params": params_json,
                "n_steps": steps,
                "fold": fold,
                "value": mAP - lack + 0.01 * fold,
            }
            for steps, lack in traced.items()
            for fold in range(5)
        ],
        traces=[
            {"part": part, "n_steps": steps, "value": mAP - lack + more}
            for steps, lack in traced.items()
            for part, more in (("train", 0.1), ("test", 0.0))
        ],
    )


def _measures(task, mAP, n_classes, chance):
    """Make measure, k, value and chance of each number that a trial has of a task.

    Precision at k is mAP + 0.1 at k = 1 and falls by 0.001 with each k; accuracy of k neighbours is
    mAP + 0.2 at k = 1 and falls by 0.01 with each k, as mean recognition does, which is lower by
    0.05; similarity precision and agreement are mAP + 0.1 and mAP.
    """
    if task == "judged-triplets":
        return [
            ("similarity precision", None, mAP + 0.1, 0.5),
            ("agreement", None, mAP, 0.5),
            ("ceiling", None, 0.9, None),
        ]
    if task == "classification":
        return [
            (measure, k, mAP + more - 0.01 * (k - 1), 1 / n_classes)
            for measure, more in (("accuracy", 0.2), ("mean recognition", 0.15))
            for k in (1, 3, 5, 7)
        ]
    others = n_classes * 25 - 1
    chance = 24 / others if chance is None else chance
    n_relevant = chance * others
    harmonic = sum(1 / rank for rank in range(1, others + 1))
    # The mean over all orders of the average precision of n_relevant among the others.
    of_mAP = ((n_relevant - 1) / (others - 1) * (others - harmonic) + harmonic) / others
    at_k = [("precision", k, mAP + 0.1 - 0.001 * (k - 1), chance) for k in range(1, 51)]
    return [("mAP", None, mAP, of_mAP), *at_k[:others]]


def fake_trials(learner, scores, **columns):
    """Make a trial for each mAP of `scores`, on partitions 0, 1, ..."""
    return [fake_trial(learner, partition=p, mAP=mAP, **columns) for p, mAP in enumerate(scores)]


def write_run(folder, trials, experiment=None, identity=None, pictures=(), **info):
    """Write a run of made-up trials into a new folder and return the folder.

    Parameters
    ----------
    folder : Path
    trials : sequence of FakeTrial or dict
        A dict holds the columns of a trial that are not the usual.
    experiment : dict, optional
        Settings that are not the usual.  Without them the learners are those that have a trial.
    identity : dict, optional
        What decides the results of every trial, where it is not the usual.
    pictures : sequence of dict
        Rows of the table `pictures`.
    **info
        Values of the table `run` that are not the usual; of the dicts in `resumed`, too.
    """
    records = [it if isinstance(it, FakeTrial) else fake_trial(**it) for it in trials]
    columns = [record.columns for record in records]
    with Store.create(
        folder, fake_info(folder.name, columns, experiment, identity, **info)
    ) as store:
        labels = set()
        for record in records:
            record = replace(_without_labels(record, labels), tuned=_tuned(record))
            store.add(result_of(record))
        store.add_labels(lambda rows: labels, lambda rows: pictures)
    return folder


def _tuned(record):
    """Say of each gallery that it was tuned by the first task that has it, as the columns say."""
    rows, retrieval = {}, {"task": "retrieval", "status": record.columns["status"]}
    for answer in record.answers or [retrieval]:
        _, gallery, measures = TASKS[answer["task"]]
        if answer["status"] == "ok" and gallery not in rows:
            names = ("scaling", "params", "n_steps", "blend")
            own = {name: record.columns.get(name) for name in names} | record.of_use
            k = 1 if measures[0] == "accuracy" else None
            by = {"task": answer["task"], "measure": measures[0], "k": k}
            rows[gallery] = {"gallery": gallery, **by, **own}
    return list(rows.values())


def _without_labels(record, labels):
    """Take what needs labels out of a made-up trial, and add labels (row, label) that say the same.

    `relevant` of retrievals, `label` of projections, and the counts of a confusion matrix.
    """
    for row in record.retrievals:
        of_pair = 10**6 * (row["query"] + 1) + row["retrieved"]
        ends = ("query", "retrieved") if row["relevant"] else ("query",)
        labels |= {(row[end], of_pair) for end in ends}
    labels |= {(row["row"], row["label"]) for row in record.projections}
    classes = defaultdict(list)
    for row in record.predicted_classes:
        first = 10**5 * (row["label"] + 1) + 1000 * row["predicted"]
        items = range(first, first + row["n"])
        labels |= {(item, row["label"]) for item in items}
        classes[row["task"], row["predicted"]] += items
    return replace(
        record,
        retrievals=[_without(row, "relevant") for row in record.retrievals],
        projections=[_without(row, "label") for row in record.projections],
        predicted_classes=[
            {"task": task, "predicted": predicted, "rows": json.dumps(items)}
            for (task, predicted), items in classes.items()
        ],
    )


def _without(row, name):
    return {key: value for key, value in row.items() if key != name}


def fake_info(title="run", rows=(), experiment=None, identity=None, **info):
    """Make what a run of trials with the columns `rows` tells of itself; others as `write_run`."""
    settings = _experiment(title, rows, experiment or {})
    sizes = {row["subset"]: row["n_classes"] for row in rows}
    sizes |= {str(n): n for n in settings["classes"] if str(n) not in sizes}
    algorithms = {label: spec["algorithm"] for label, spec in settings["learners"].items()}
    usual = {
        "experiment": settings,
        "identities": {
            cell_name(row["learner"], row["subset"], row["split"]): _identity(row)
            | (identity or {})
            for row in rows
        },
        "plugin_files": [],
        "classes": {subset: [f"class {i}" for i in range(n)] for subset, n in sizes.items()},
        "multi_label": False,
        "items": "images",
        "scaling": ["l2"],
        "remarks": [],
        "left_out": [],
        "notes": {},
        "sources": {
            "dataset": dict.fromkeys(("summary", "citation", "licence"), "made up")
            | {"name": settings["dataset"]},
            "learners": {
                label: {"summary": name, "citation": "none"} for label, name in algorithms.items()
            },
            "tasks": {task: task_source(task) for task in settings["tasks"]},
            "splits": {TASKS[task][0]: split_source(TASKS[task][0]) for task in settings["tasks"]},
        },
        "planned_trials": len(algorithms) * len(sizes) * settings["partitions"],
        "provenance": {"processor": "a processor", "commit": title},
        "load_at_start": 0.1,
        "command": f"python -m oasis_bench run --output {title}",
        "started": "2026-11-21T07:00:00+00:00",
        "finished": "2026-11-21T09:00:00+00:00",
    }
    session = {"command": None, "provenance": {}, "trials": 1, "limits": {}}
    info["resumed"] = [session | given for given in info.get("resumed", ())]
    return RunFacts.from_json(usual | info)


def task_source(task):
    """Make what a run tells of a task."""
    split, gallery, measures = TASKS[task]
    about = {"summary": f"{task}, made up", "citation": "none"}
    of_data = [name for name in measures if name == "ceiling"]
    what = {"split": split, "gallery": gallery, "measures": measures, "of_data": of_data}
    return {**about, **what}


def split_source(name):
    """Make what a run tells of a split."""
    split, per_class = Registry.load().splits[name], name in ("seen-classes", "unseen-classes")
    of_classes = {"per_class": per_class, "knows_classes": split.knows_classes}
    return {"summary": split.summary, "citation": "none", **of_classes}


def make_run(
    folder, trials, learners, partitions=5, classes=(10,), info=None, pictures=(), **settings
):
    """Write a run as `write_run` does, with learners that may have no trial, and read it back.

    `learners` are their labels, or a dict from labels to settings of `LearnerSpec`; `info` holds
    values of the table `run`, `settings` are those of the experiment.
    """
    own = learners if isinstance(learners, dict) else {label: {} for label in learners}
    experiment = {
        "title": "A made-up comparison",
        "learners": {label: asdict(LearnerSpec("OASIS", **given)) for label, given in own.items()},
        "classes": list(classes),
        "partitions": partitions,
        **settings,
    }
    return read_run(write_run(folder, trials, experiment, pictures=pictures, **(info or {})))


def _experiment(title, rows, given):
    """Return the settings of an experiment that has these trials."""
    usual = {
        "title": title,
        "dataset": "made up",
        "classes": sorted({row["n_classes"] for row in rows}) or [10],
        "tasks": ["retrieval"],
        "partitions": 2,
        "inner_folds": 5,
        "train_per_class": 40,
        "test_per_class": 25,
        "seed": 0,
        "threads": 1,
        "scaling": None,
        "search": "20",
        "traces": True,
        "examples": 8,
        "budget": "1h",
        "memory": "off",
        "learners": {row["learner"]: asdict(LearnerSpec(row["algorithm"])) for row in rows}
        or {"A": asdict(LearnerSpec("OASIS"))},
    }
    return usual | given


def _identity(row):
    return {
        "algorithm": row["algorithm"],
        "data": "d41d8c",
        "seed": 0,
        "classes": list(range(row["n_classes"])),
        "sizes": [row["n_train"], row["n_test"]],
        "scaling": "l2",
        "source": "9f86d0",
        "code": "e3b0c4",
        "version": "0.1.0",
        "max_steps": 1000,
        "partition": 0,
    }
