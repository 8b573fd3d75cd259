"""Training and test sizes that fit the smallest class; the figures are worked by hand."""

from pathlib import Path

import numpy as np
import pytest

from oasis_bench.data import LabelledRows
from oasis_bench.datasets import TableFile
from oasis_bench.experiment import (
    Experiment,
    LearnerSpec,
    few_train_remark,
    imbalance_remark,
    part_remark,
    settled_as,
    size_remark,
)
from oasis_bench.experiment.data_use import choose_subsets, settle
from oasis_bench.system import UsageError
from oasis_bench.tasks import SeenClassesSplit

DATASET = TableFile(Path("my.csv"))


def rows_of(*counts):
    y = np.repeat(np.arange(len(counts)), counts)
    names = tuple(f"class {number}" for number in range(len(counts)))
    return LabelledRows(np.arange(2.0 * len(y)).reshape(-1, 2), y, names)


def experiment(**settings):
    learners = {"Euclidean": LearnerSpec("Euclidean")}
    return Experiment("Sizes", "my.csv", learners, **{"classes": ("all",), **settings})


def splits_of(asked):
    return [SeenClassesSplit(asked)]


@pytest.mark.parametrize(
    ("counts", "settings", "expected"),
    [
        ((65, 100), {}, (40, 25, 5)),  # as in the papers: nothing is fitted
        ((13, 100), {}, (8, 5, 4)),  # 40 : 25 of 13; folds of two of each class
        ((6, 100), {}, (4, 2, 2)),
        ((50, 100), {"train_per_class": 30}, (30, 20, 5)),  # what is given stays
        ((50, 100), {"test_per_class": 10}, (40, 10, 5)),
        ((45, 100), {"test_per_class": 10}, (35, 10, 5)),
        ((10, 70, 80), {"classes": (2,)}, (40, 25, 5)),  # two classes are large enough
        ((10, 26, 80), {"classes": (2,)}, (16, 10, 5)),
        ((10, 26, 80), {"classes": (("class 1", "class 2"),)}, (16, 10, 5)),
        ((3, 100), {}, (40, 25, 5)),  # too small to fit anything: refused later
    ],
)
def test_sizes_fit_the_smallest_class_that_is_asked_for(counts, settings, expected):
    asked = experiment(**settings)
    settled = settle(asked, DATASET, rows_of(*counts), splits_of(asked))
    assert (*settled.per_class, settled.inner_folds) == expected
    told = size_remark(asked, settled, "rows")
    assert (told is None) == (expected[:2] == asked.per_class)
    if told is not None:
        assert f"{expected[0]} of each class train and {expected[1]} test" in told
    assert (
        settle(settled, DATASET, rows_of(*counts), splits_of(asked)) == settled
    )  # as a resumed run does
    assert settled_as(asked, settled) == settled  # so it is seen to be the same experiment


@pytest.mark.parametrize(
    ("counts", "told"),
    [((6, 357), "8 of 363 rows train: the smallest class has 6: leave it out"), ((6, 20), None)],
)
def test_a_small_class_that_leaves_few_rows_to_train_is_told(counts, told):
    asked, rows = experiment(), rows_of(*counts)
    remark = few_train_remark(asked, settle(asked, DATASET, rows, splits_of(asked)), rows, "rows")
    assert remark is None if told is None else remark.startswith(told)


@pytest.mark.parametrize(
    ("counts", "settings", "is_told"),
    [((20, 100), {}, False), ((20, 101), {}, True), ((20, 101, 90), {"classes": (2,)}, False)],
)
def test_that_unequal_classes_are_drawn_equally_is_told(counts, settings, is_told):
    asked, rows = experiment(**settings), rows_of(*counts)
    remark = imbalance_remark(settle(asked, DATASET, rows, splits_of(asked)), rows, "rows")
    assert (remark is not None) == is_told
    if remark is not None:
        assert remark.startswith("warning: classes have 20 to 101 rows, and as many of each are ")
        assert "--split stratified" in remark


@pytest.mark.parametrize(
    ("counts", "settings", "told"),
    [
        ((300, 300, 300), {}, "a partition has 195 of 900 rows: 40 of each class to train and 25 "),
        ((130, 130), {}, None),  # half of them
        ((131, 130), {}, "a partition has 130 of 261 rows"),
        ((300, 300), {"train_per_class": 41}, None),  # as it is asked for
        ((300, 300), {"classes": (2,)}, None),
        ((6, 357), {}, None),  # `size_remark` tells
    ],
)
def test_that_most_rows_are_not_used_is_told(counts, settings, told):
    asked, rows = experiment(**settings), rows_of(*counts)
    remark = part_remark(asked, settle(asked, DATASET, rows, splits_of(asked)), rows, "rows")
    assert remark is None if told is None else remark.startswith(told)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((9, 1, 3), r"2 of 3 classes .* than 4 items .*'class 1', 1\).*label an id\?.* --label$"),
        ((9, 1, 8, 7), "leave those rows out, or take .* --classes 3: 7 .*, 21 of 25 in all$"),
        ((10_000, 3, 100, 65), "--classes 3: 65 .*, 195 of 10,168 in all, unless --train and --te"),
    ],
)
def test_classes_that_are_too_small_for_any_size_are_counted(counts, message):
    with pytest.raises(UsageError, match=message):
        choose_subsets(experiment(), DATASET, rows_of(*counts), SeenClassesSplit(experiment()))
