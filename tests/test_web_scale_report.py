"""What the web-scale report makes of the records of trainings."""

import json
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from report_helpers import texts

from oasis_bench.datasets.web_scale import WebScaleParameters, prepare_web_scale
from oasis_bench.reports.web_scale import (
    checkpoints_of,
    curves,
    ends_of,
    precision_table,
    published_table,
    write_web_scale_report,
)
from oasis_bench.system import UsageError
from oasis_bench.web_scale import Checkpoint, Training, TrainingRecord, train

DATA = {"n_train": 10_000, "n_test": 4096, "n_visterms": 1000, "seed": 0}


def checkpoint(n_steps, mAP=0.5, seconds=1.0, **others):
    values = {
        "n_steps": n_steps,
        "n_updates": n_steps // 2,
        "learn_seconds": seconds,
        "cpu_seconds": 2 * seconds,
        "mean_average_precision": mAP,
        "standard_error": 0.01,
        "precision_at": {"1": mAP + 0.2, "10": mAP + 0.1, "50": mAP},
        "n_queries": 1000,
        "peak_bytes": 2**30,
    }
    return Checkpoint(**{**values, **others})


def record(images=1000, batch=None, seed=0, points=None, mAP=0.5, seconds=1.0, **others):
    """A training of 70 steps an image, complete unless `points` say else; W = I gives mAP 0.2."""
    steps = 70 * images
    end = checkpoint(steps, mAP, seconds)
    values = {
        "data": DATA,
        "training": Training(images, steps, batch, seed),
        "n_threads": 2,
        "checkpoints": tuple(points or (checkpoint(0, 0.2, 0.0), end)),
        "provenance": {"processor": "a processor", "cores": 2, "commit": None},
    }
    return TrainingRecord(**{**values, **others})


def write(folder, *records):
    folder.mkdir(exist_ok=True)
    for each in records:
        (folder / f"{each.training.name}.json").write_text(json.dumps(asdict(each)))
    return folder


def checkpoints(*records):
    return checkpoints_of(records)


def ends(*records):
    return ends_of(checkpoints(*records))


def test_the_precision_table_pools_seeds_by_hand():
    table = precision_table(ends(record(seed=0, mAP=0.50), record(seed=1, mAP=0.52)))
    assert texts(table) == [  # sd of two values that are 0.02 apart: 0.02 / sqrt(2)
        [
            *("1,000", "exact", "70,000", "2", "0.2000", "0.5100 ± 0.0141", "0.0100"),
            *("0.710 ± 0.014", "0.610 ± 0.014", "0.510 ± 0.014"),
        ]
    ]
    assert table.numbers["mean_average_precision"].tolist() == [0.50, 0.52]


def test_published_figures_stand_beside_the_largest_complete_training():
    """JMLR 5.2.1: 2 292 259 images, 160 million steps, 4000 minutes; 5.2.2: 1.5 % at the top."""
    exact = [record(10_000, seed=s, mAP=0.1, seconds=60 * (3 + 2 * s)) for s in (0, 1)]
    begun = record(30_000, points=[checkpoint(0, 0.2, 0.0)])
    table = published_table(ends(record(), *exact, record(10_000, 256), begun), DATA)
    rows = {row[0]: row[1:3] for row in texts(table)}
    assert rows["training images"] == ["2,292,259", "10,000"]
    assert rows["test images"] == ["402,164", "4,096"]
    assert rows["steps at saturation"] == ["160,000,000", "700,000"]
    assert rows["training time"] == ["4,000", "8"]  # processor's minutes: the mean of 6 and 10
    assert rows["precision at 1 against R_II"] == ["0.015", "0.3"]  # `checkpoint` adds .2 to mAP
    assert rows["human precision peak"] == ["0.42", "-"]
    (only_begun,) = [
        row for row in texts(published_table(ends(begun), DATA)) if row[0] == "training time"
    ]
    assert only_begun[2] == "-"


def test_curves_are_of_the_largest_number_of_images_as_far_as_all_seeds_have_come():
    points = {
        seed: [checkpoint(0, 0.2, 0.0), checkpoint(350, mAP), checkpoint(700, mAP + 0.1)]
        for seed, mAP in enumerate((0.3, 0.4))
    }
    records = [record(seed=seed, points=each) for seed, each in points.items()]
    records += [record(100), record(10_000, points=[checkpoint(0, 0.2, 0.0)]), record(seed=2)]
    (curve,) = curves(checkpoints(*records[:-1])).values()
    np.testing.assert_allclose(curve[["x", "mean", "se"]], [[350, 0.35, 0.01], [700, 0.45, 0.01]])
    (curve,) = curves(checkpoints(record(seed=0, points=points[0][:2]), *records[1:2])).values()
    assert curve["x"].tolist() == [350]


def test_data_that_cannot_be_compared_are_refused_but_more_images_of_the_same_can(tmp_path):
    more = record(seed=1, data={**DATA, "n_train": 20_000})
    page = write_web_scale_report(write(tmp_path / "run", record(), more)).read_text()
    assert "4,096 test images" in page
    harder = record(seed=2, data={**DATA, "n_visterms": 10_000})
    with pytest.raises(UsageError, match=r"on other data, .*'n_visterms': 10000"):
        write_web_scale_report(write(tmp_path / "run", harder))


def test_what_training_keeps_becomes_a_report(tmp_path):
    data = prepare_web_scale(tmp_path / "data", WebScaleParameters(2000, 500, 400))
    kept = train(data, Training(2000, 2000, None, 0), tmp_path / "run", 1, n_queries=100)
    page = write_web_scale_report(tmp_path / "run").read_text()
    written = pd.read_csv(tmp_path / "run" / "tables" / "precision.csv").iloc[0]
    first, last = kept.checkpoints[0], kept.checkpoints[-1]
    assert written["complete"]
    assert written["mean_average_precision_at_start"] == first.mean_average_precision
    assert written["mean_average_precision"] == last.mean_average_precision
    assert f"{last.mean_average_precision:.4f}" in page
    assert "unfinished" not in page
