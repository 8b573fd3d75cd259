"""What several tests share: throw-away plugins, a tiny experiment and its data, made-up runs."""

import signal
from dataclasses import asdict
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from oasis_bench.data.rows import LabelledRows
from oasis_bench.experiment.settings import Experiment, LearnerSpec
from oasis_bench.store.run_file import Store
from oasis_bench.trial.record import TrialRecord


@pytest.fixture(scope="session", autouse=True)
def interruptible():
    """Let Ctrl-C reach the tests of it, also where a shell started them in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def plugins():
    """Return the folder of the throw-away plugins."""
    return Path(__file__).parent / "plugins"


@pytest.fixture
def numbered_rows():
    """6 classes of 12 rows whose column 0 is the row's number; the others hold noise."""
    X = np.random.default_rng(0).normal(size=(72, 4))
    X[:, 0] = np.arange(72)
    return LabelledRows(X, np.arange(72) % 6, tuple("abcdef"))


@pytest.fixture
def experiment():
    """A small experiment on rows such as `numbered_rows`."""
    return Experiment(
        title="Small",
        dataset="digits",
        learners={"OASIS": LearnerSpec("OASIS"), "Euclidean": LearnerSpec("Euclidean")},
        classes=(2, 3),
        partitions=2,
        inner_folds=2,
        train_per_class=6,
        test_per_class=4,
        max_steps=1000,
    )


@pytest.fixture
def write_run(tmp_path):
    """Return what writes a run of made-up trials into a new folder."""
    return partial(_write_run, tmp_path)


def _write_run(tmp_path, name, trials, identity=None, experiment=None, **info):
    """Write a run whose trials are given by the columns in which they are not the usual.

    Precision at k is mAP + 0.1 at 1 and falls by 0.001 with each k; `identity` holds what decides
    the results of every trial, where it is not the usual.
    """
    usual = {
        **{"learner": "A", "algorithm": "OASIS", "dataset": "made up", "subset": "10"},
        **{"n_classes": 10, "partition": 0, "status": "ok", "n_train": 400, "n_test": 250},
        **{"n_features": 64, "threads": 1, "shared_cores": 0, "finished": "2026-11-21T08:00:00"},
    }
    measured = {
        **{"params": "{}", "mean_average_precision": 0.5, "chance_level": 0.1, "n_queries": 250},
        **{"n_queries_left_out": 0, "fit_seconds": 1.0, "fit_cpu_seconds": 1.0},
        **{"fit_waiting_seconds": 0.0, "fit_peak_bytes": 50 * 2**20},
        **{"selection_fit_seconds": 0.0, "selection_score_seconds": 0.0},
    }
    records, identities = [], {}
    for given in trials:
        columns = {**usual, **(measured if given.get("status", "ok") == "ok" else {}), **given}
        cell = f"{columns['learner']}, classes {columns['subset']}"
        columns.setdefault("trial_id", f"{cell}, {columns['partition']}")
        first = columns.get("mean_average_precision", 0) + 0.1
        at_k = [{"k": k, "precision": first - 0.001 * (k - 1)} for k in range(1, 51)]
        records.append(TrialRecord(columns, at_k if columns["status"] == "ok" else ()))
        identities[cell] = {
            **{"algorithm": columns["algorithm"], "data": "d41d8c", "seed": 0, "classes": [0, 1]},
            **{"sizes": [columns["n_train"], columns["n_test"]], "normalize": "l2"},
            **{"source": "9f86d0", "version": "0.1.0", "max_steps": 1000, "partition": 0},
            **(identity or {}),
        }
    known = {record.columns["learner"]: record.columns["algorithm"] for record in records}
    subsets = {record.columns["subset"]: record.columns["n_classes"] for record in records}
    settings = {
        **{"title": name, "dataset": "made up", "classes": [int(subset) for subset in subsets]},
        **{"partitions": 2, "inner_folds": 5, "train_per_class": 40, "test_per_class": 25},
        **{"seed": 0, "threads": 1, "normalize": None, "traces": True, "examples": 8},
        **{"budget": "1h", "memory": "off"},
        "learners": {label: asdict(LearnerSpec(it)) for label, it in known.items()},
        **(experiment or {}),
    }
    about = {
        **{"experiment": settings, "identities": identities, "plugin_files": []},
        "classes": {subset: [f"class {i}" for i in range(n)] for subset, n in subsets.items()},
        **{"multi_label": False, "normalize": "l2", "left_out": [], "notes": {}},
        "sources": {
            "dataset": {"name": "made up", "summary": "made up for tests"},
            "learners": {label: {"summary": it, "citation": "none"} for label, it in known.items()},
        },
        "planned_trials": len(known) * len(subsets) * settings["partitions"],
        **{"provenance": {"processor": "a processor", "commit": name}, "load_at_start": 0.1},
        **{"command": f"python -m oasis_bench run --output {name}"},
        **{"started": "2026-11-21T07:00:00+00:00", "finished": "2026-11-21T09:00:00+00:00"},
    }
    with Store.create(tmp_path / name) as store:
        store.write_info(**about | info)
        for record in records:
            store.add(record)
    return tmp_path / name
