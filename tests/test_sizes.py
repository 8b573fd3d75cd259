"""Training and test sizes that fit the smallest class; the figures are worked by hand."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_splits import StratifiedSplit, UnseenClassesSplit, rows_of

from oasis_bench.datasets import TableFile
from oasis_bench.experiment import Experiment, LearnerSpec, changed, read_experiment
from oasis_bench.experiment.data_use import settle, size_remarks
from oasis_bench.experiment.trials import refuse_unknown_names
from oasis_bench.plugins import Registry
from oasis_bench.system import UsageError
from oasis_bench.tasks import SeenClassesSplit

DATASET = TableFile(Path("my.csv"))


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
    told = [*size_remarks(asked, settled, rows_of(*counts), "rows", False)]
    sizes = f"{expected[0]} of each class are for training and {expected[1]} for testing"
    is_told = sizes in "".join(told)
    assert is_told == (expected[:2] != asked.per_class)
    assert (
        settle(settled, DATASET, rows_of(*counts), splits_of(asked)) == settled
    )  # as a resumed run does
    assert asked.settled_as(settled) == settled  # so it is seen to be the same experiment


@pytest.mark.parametrize("given", [{"most_items": 50}, {"test_share": 0.3}])
def test_a_setting_that_no_split_reads_is_refused(given):
    asked, rows = experiment(**given), rows_of(65, 100)
    ((name, value),) = given.items()
    with pytest.raises(UsageError, match=f"--{name.replace('_', '-')} {value} has no effect here"):
        settle(asked, DATASET, rows, [SeenClassesSplit(asked)])
    settle(asked, DATASET, rows, [StratifiedSplit(asked), SeenClassesSplit(asked)])


def test_what_only_a_built_in_experiment_says_may_be_unread():
    """New classes of the suite alone: its split and its sizes are for known classes."""
    registry, rows, given = Registry.load(), rows_of(30, 30), {"tasks": ("unseen-classes",)}
    refuse_unknown_names(changed(read_experiment("uses"), given, dataset="digits"), registry)
    asked = changed(read_experiment("suite"), given).one_for_each_value()["vowel"]
    refuse_unknown_names(asked, registry)
    settle(asked, DATASET, rows, [UnseenClassesSplit(asked)])
    with pytest.raises(UsageError, match="leave --split out"):
        refuse_unknown_names(replace(asked, split="seen-classes"), registry)
    for given in ({"most_items": 99}, {"test_share": 0.3}):
        with pytest.raises(UsageError, match="has no effect here"):
            settle(replace(asked, **given), DATASET, rows, [UnseenClassesSplit(asked)])
