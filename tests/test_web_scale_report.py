"""What the web-scale report makes of the records of trainings."""

import json
import math
import re
from dataclasses import asdict

import numpy as np
import pandas as pd
import pytest
from report_helpers import contents, texts

from oasis_bench.datasets.web_scale import WebScaleParameters, prepare_web_scale
from oasis_bench.reports.web_scale import (
    curves,
    ends_of,
    fit_power_law,
    growth_table,
    growths,
    precision_table,
    published_table,
    time_table,
    with_schedules,
    write_web_scale_report,
)
from oasis_bench.system import UsageError
from oasis_bench.web_scale import Checkpoint, Training, TrainingRecord, checkpoints_of, train

DATA = {"n_train": 10_000, "n_test": 4096, "n_visterms": 1000, "seed": 0}
HOSTILE = "<script>alert(1)</script>"


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
    return with_schedules(checkpoints_of(records))


def ends(*records):
    return ends_of(checkpoints(*records))


def growths_of(*records):
    return growths(ends(*records))


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """The folder of a report with everything in it, and its files' bytes."""
    folder = tmp_path_factory.mktemp("web-scale") / "run"
    records = [
        record(n, batch, seed, seconds=n**1.2 / 1000, mAP=0.5 + seed / 100)
        for n in (1000, 3000, 10_000)
        for batch in (None, 256)
        for seed in (0, 1)
    ]
    told = {"processor": HOSTILE, "versions": {"<em>": "<b>"}, "pools": [{"<u>": "<i>"}]}
    other = record(100, 4096, provenance={**told, "commit": "<img src=x>"})
    write_web_scale_report(write(folder, *(record_with(each, told) for each in records), other))
    return folder, contents(folder)


def record_with(each, provenance):
    return TrainingRecord(**{**vars(each), "provenance": provenance})


def test_times_that_are_a_power_of_the_images_show_that_power():
    found = growths_of(*(record(n, seconds=n**1.2 / 1000) for n in (1000, 3000, 10_000)))
    assert found[["exponent", "low", "high"]].to_numpy().tolist() == [
        pytest.approx([1.2, np.nan, np.nan], nan_ok=True)  # on the line: no interval
    ]
    assert found["factor"].tolist() == pytest.approx([1e-3])
    assert texts(growth_table(found)) == [["exact", "70", "2", "3", "1.200", "-"]]


def test_the_interval_of_the_exponent_is_that_of_least_squares_by_hand():
    """Errors of d * (1, -1, -1, 1) leave the slope at 1; its standard error is d sqrt(2 / 5)."""
    d = math.log10(1.1)
    sizes, errors = (10**3, 10**4, 10**5, 10**6), (1, -1, -1, 1)
    found = growths_of(
        *(record(n, seconds=n * 1.1**e / 1000) for n, e in zip(sizes, errors, strict=True))
    )
    half = 4.302653 * d * math.sqrt(2 / 5)  # Student's t, 97.5 %, 2 degrees of freedom
    assert found[["exponent", "low", "high"]].to_numpy().tolist() == [
        pytest.approx([1, 1 - half, 1 + half], rel=1e-6)
    ]


def test_the_line_goes_through_the_medians_over_seeds():
    sizes = (1000, 3000, 10_000)
    seconds = {0: 1, 1: 1, 2: 50}  # the third seed is the noise
    found = growths_of(
        *(record(n, seed=s, seconds=n * x) for n in sizes for s, x in seconds.items())
    )
    assert found["exponent"].tolist() == pytest.approx([1])


def test_times_of_other_schedules_are_not_mixed_into_an_exponent():
    sizes = (1000, 3000, 10_000)
    alike = [record(n, 256, seconds=n / 100) for n in sizes]
    fewer_steps = record(100, 256, training=Training(100, 10, 256, 0), seconds=99)
    threads = record(100, 256, n_threads=1, seconds=99)
    found = growths_of(*alike, fewer_steps, threads, record(100, seconds=99))
    assert found["schedule"].tolist() == ["batch 256"]
    assert found["exponent"].tolist() == pytest.approx([1])


def test_the_precision_table_pools_seeds_by_hand():
    table = precision_table(ends(record(seed=0, mAP=0.50), record(seed=1, mAP=0.52)))
    assert texts(table) == [  # sd of two values that are 0.02 apart: 0.02 / sqrt(2)
        [
            *("1,000", "exact", "70,000", "2", "0.2000", "0.5100 ± 0.0141", "0.0100"),
            *("0.710 ± 0.014", "0.610 ± 0.014", "0.510 ± 0.014"),
        ]
    ]
    assert table.numbers["mean_average_precision"].tolist() == [0.50, 0.52]


def test_the_time_table_shows_medians_and_ranges_and_the_highest_peak():
    points = [
        (checkpoint(0, 0.2, 0.0, peak_bytes=3 * 2**30), checkpoint(70_000, 0.5, seconds))
        for seconds in (180, 240, 300)
    ]
    table = time_table(ends(*(record(seed=s, points=each) for s, each in enumerate(points))))
    assert texts(table) == [
        [
            *("1,000", "exact", "70,000", "3", "2", "4.00 min [3.00 – 5.00]"),
            *("8.00 min [6.00 – 10.0]", "3,428.57", "3,072"),  # 240 s over 70000 steps
        ]
    ]


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


def test_an_unfinished_training_says_how_far_it_is_and_stands_apart():
    done = [record(10_000, seed=s, mAP=0.5) for s in (0, 1)]
    points = [checkpoint(0, 0.2, 0.0), checkpoint(43_750, 0.3, 0.5)]
    table = precision_table(ends(*done, record(10_000, seed=2, points=points)))
    assert [row[2:4] + row[5:6] for row in texts(table)] == [
        ["700,000", "2", "0.5000 ± 0.0000"],
        ["43,750 of 700,000 (seed 2)", "1", "0.3000"],
    ]


def test_a_report_of_nothing_but_starts_has_no_figures(tmp_path):
    begun = [record(seed=s, points=[checkpoint(0, 0.2, 0.0)]) for s in (0, 1)]
    nothing = record(seed=2, checkpoints=())
    page = write_web_scale_report(write(tmp_path / "run", *begun, nothing)).read_text()
    assert "Unfinished: 2 of 2 trainings." in page
    assert "<figure>" not in page
    assert "0 of 70,000 (seed 0)" in page
    assert not re.search(r"\b(nan|None)\b", page)
    assert not (tmp_path / "run" / "figures").exists()


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


def test_all_files_are_there_and_a_rebuilt_report_is_the_same_bytes(full):
    folder, first = full
    write_web_scale_report(folder)
    assert contents(folder) == first
    assert {name for name in first if not name.startswith("images-")} == {
        "web-scale.html",
        "figures/map_along_steps.svg",
        *(
            f"tables/{name}.{kind}"
            for name in ("precision", "time", "growth", "published")
            for kind in ("csv", "tex")
        ),
    }


def test_no_text_becomes_markup_and_nothing_is_loaded(full):
    page = full[1]["web-scale.html"].decode()
    assert page.count("<script") == 1  # the page's own
    for tag in ("<em>", "<b>", "<u>", "<i>", "<img src=x"):
        assert tag not in page
        assert tag.replace("<", "&lt;").rstrip(">") in page
    assert not re.search(r'src="|url\((?!data:|#)|@import', page)
    assert all(it.startswith("#") for it in re.findall(r'href="([^"]*)"', page))


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


def test_an_exact_power_law_is_found_and_has_no_interval():
    sizes = np.array([80, 200, 400, 1000])
    law = fit_power_law(sizes, 3e-6 * sizes**1.5)
    assert (law["factor"], law["exponent"]) == pytest.approx((3e-6, 1.5))
    assert np.isnan([law["low"], law["high"]]).all()
    level = fit_power_law(sizes, np.full(4, 1e-9))  # as times below the tick of a clock
    assert level["exponent"] == 0
    assert np.isnan([level["low"], level["high"]]).all()


def test_the_interval_of_an_exponent_of_a_hand_case():
    """The logarithms are 0, 1, 2 and 0, 1.3, 2: slope 1, residuals -0.1, 0.2, -0.1."""
    law = fit_power_law(np.exp([0, 1, 2]), np.exp([0, 1.3, 2]))
    half = 12.7062 * math.sqrt(0.06 / 2)  # Student's t with one degree of freedom
    found = law["exponent"], law["low"], law["high"]
    assert found == pytest.approx((1, 1 - half, 1 + half), rel=1e-5)
