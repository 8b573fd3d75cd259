"""Made-up runs, written as the harness writes them: for tests of the store and of what reads it.

`fake_trial` makes a trial, `write_run` a run of trials in a new folder; `make_run` reads it back.
`fake_info` makes what a run tells of itself.
"""

import json
from dataclasses import asdict

from oasis_bench.experiment.run_info import RunInfo
from oasis_bench.experiment.settings import LearnerSpec
from oasis_bench.store.run_file import Store, read_run
from oasis_bench.trial.record import TrialRecord

TRACED_STEPS = {500: 0.2, 1000: 0.1, 2000: 0.02, 4000: 0.0}
"""Numbers of steps that an incremental learner was measured after, and what mAP then lacks."""


def fake_trial(
    learner="A", n_classes=10, partition=0, mAP=0.5, n_steps=None, params=None, **columns
):
    """Make the record of a trial; `columns` are those of the store that are not the usual.

    Each class has 40 training and 25 test images.  Precision at k is mAP + 0.1 at k = 1 and falls
    by 0.001 with each k.  With `n_steps` it also has validation, 5 folds that add 0 to 0.04, and
    traces after `TRACED_STEPS`.
    """
    n_test = n_classes * 25
    usual = {
        "learner": learner,
        "algorithm": "OASIS",
        "dataset": "made up",
        "subset": str(n_classes),
        "n_classes": n_classes,
        "partition": partition,
        "status": "ok",
        "n_train": n_classes * 40,
        "n_test": n_test,
        "n_features": 64,
        "threads": 1,
        "shared_cores": 0,
        "finished": "2026-11-21T08:00:00+00:00",
    }
    subset = columns.get("subset", usual["subset"])
    usual["trial_id"] = f"{learner}, classes {subset}, {partition}"
    if columns.get("status", "ok") != "ok":
        return TrialRecord({**usual, **columns})
    mAP = columns.get("mean_average_precision", mAP)
    params_json = json.dumps(params or {})
    measured = {
        "params": params_json,
        "n_steps": n_steps,
        "fit_seconds": 1.0,
        "fit_cpu_seconds": 1.0,
        "fit_waiting_seconds": 0.0,
        "fit_peak_bytes": 50 * 2**20,
        "selection_fit_seconds": 5.0,
        "selection_score_seconds": 2.0,
        "mean_average_precision": mAP,
        "chance_level": 24 / (n_test - 1),
        "n_queries": n_test,
        "n_queries_left_out": 0,
        "processor": "a processor",
    }
    traced = {} if n_steps is None else TRACED_STEPS
    return TrialRecord(
        {**usual, **measured, **columns},
        precision_at_k=[
            {"k": k, "precision": mAP + 0.1 - 0.001 * (k - 1)}
            for k in range(1, min(50, n_test - 1) + 1)
        ],
        validation=[
            {
                "params": params_json,
                "n_steps": steps,
                "fold": fold,
                "mean_average_precision": mAP - lack + 0.01 * fold,
            }
            for steps, lack in traced.items()
            for fold in range(5)
        ],
        traces=[
            {"split": split, "n_steps": steps, "mean_average_precision": mAP - lack + more}
            for steps, lack in traced.items()
            for split, more in (("train", 0.1), ("test", 0.0))
        ],
    )


def fake_trials(learner, scores, **columns):
    """Make a trial for each mAP of `scores`, on partitions 0, 1, ..."""
    return [fake_trial(learner, partition=p, mAP=mAP, **columns) for p, mAP in enumerate(scores)]


def write_run(folder, trials, experiment=None, identity=None, pictures=(), **info):
    """Write a run of made-up trials into a new folder and return the folder.

    Parameters
    ----------
    folder : Path
    trials : sequence of TrialRecord or dict
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
    records = [it if isinstance(it, TrialRecord) else fake_trial(**it) for it in trials]
    columns = [record.columns for record in records]
    with Store.create(
        folder, fake_info(folder.name, columns, experiment, identity, **info)
    ) as store:
        store.add_pictures(pictures)
        for record in records:
            store.add(record)
    return folder


def fake_info(title="run", rows=(), experiment=None, identity=None, **info):
    """Make what a run of trials with the columns `rows` tells of itself; others as `write_run`."""
    settings = _experiment(title, rows, experiment or {})
    sizes = {row["subset"]: row["n_classes"] for row in rows}
    sizes |= {str(n): n for n in settings["classes"] if str(n) not in sizes}
    algorithms = {label: spec["algorithm"] for label, spec in settings["learners"].items()}
    usual = {
        "experiment": settings,
        "identities": {
            f"{row['learner']}, classes {row['subset']}": _identity(row) | (identity or {})
            for row in rows
        },
        "plugin_files": [],
        "classes": {subset: [f"class {i}" for i in range(n)] for subset, n in sizes.items()},
        "multi_label": False,
        "normalize": "l2",
        "left_out": [],
        "notes": {},
        "sources": {
            "dataset": dict.fromkeys(("name", "summary", "citation", "licence"), "made up"),
            "learners": {
                label: {"summary": name, "citation": "none"} for label, name in algorithms.items()
            },
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
    return RunInfo.from_json(usual | info)


def make_run(folder, trials, learners, partitions=5, classes=(10,), info=None, pictures=()):
    """Write a run as `write_run` does, with learners that may have no trial, and read it back.

    `learners` are their labels, or a dict from labels to settings of `LearnerSpec`; `info` holds
    values of the table `run`.
    """
    own = learners if isinstance(learners, dict) else {label: {} for label in learners}
    experiment = {
        "title": "A made-up comparison",
        "learners": {label: asdict(LearnerSpec("OASIS", **given)) for label, given in own.items()},
        "classes": list(classes),
        "partitions": partitions,
    }
    return read_run(write_run(folder, trials, experiment, pictures=pictures, **(info or {})))


def _experiment(title, rows, given):
    """Return the settings of an experiment that has these trials."""
    usual = {
        "title": title,
        "dataset": "made up",
        "classes": sorted({row["n_classes"] for row in rows}) or [10],
        "partitions": 2,
        "inner_folds": 5,
        "train_per_class": 40,
        "test_per_class": 25,
        "seed": 0,
        "threads": 1,
        "normalize": None,
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
        "classes": [0, 1],
        "sizes": [row["n_train"], row["n_test"]],
        "normalize": "l2",
        "source": "9f86d0",
        "version": "0.1.0",
        "max_steps": 1000,
        "partition": 0,
    }
