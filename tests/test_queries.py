"""The test pictures that a report shows: those that `queries` names, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from small_runs import trials_of

from oasis_bench.algorithms import Euclidean
from oasis_bench.data import LabelledRows
from oasis_bench.experiment import named_queries
from oasis_bench.system import UsageError
from oasis_bench.tasks import Retrieval
from oasis_bench.trial import draw_items
from oasis_bench.trial.harness_side.evaluator import Evaluator
from oasis_bench.trial.wall.messages import Scores


@pytest.fixture
def pictures(numbered_rows):
    """The numbered rows with a picture each; the last class is called 5."""
    images = tuple(Path(f"{row}.png") for row in range(72))
    return LabelledRows(numbered_rows.X, numbered_rows.y, (*"abcde", "5"), images)


@pytest.fixture
def specs(experiment, pictures):
    """Plan the trials of the largest subset, all six classes, with some queries."""

    def specs(*queries, **settings):
        of_all = replace(experiment, classes=("all",), queries=queries or None, **settings)
        return trials_of(of_all, pictures)

    return specs


def shown(spec, pictures):
    """Return the rows of the queries that a trial keeps, and the rows that test."""
    items = draw_items(spec, pictures, Euclidean)
    evaluator = Evaluator([Retrieval()], items, spec)
    (reader,) = evaluator.readers.values()
    n = len(items.test_rows)
    scores = np.random.default_rng(0).normal(size=(n, n))
    reader.add(Scores("test", n, "float64"), scores.tobytes())
    return {row.query for row in evaluator.retrievals()}, set(items.test_rows.tolist())


def test_named_rows_are_shown_and_no_others(specs, pictures):
    _, tested = shown(specs()[0], pictures)
    asked = sorted(tested)[3:6]
    assert shown(specs(*map(str, asked))[0], pictures)[0] == set(asked)


def test_a_class_gives_as_many_as_there_are_examples(specs, pictures):
    found, tested = shown(specs("b", examples=3)[0], pictures)
    assert len(found) == 3
    assert found <= {row for row in tested if pictures.y[row] == 1}


def test_the_name_of_a_class_goes_before_a_row(specs, pictures):
    """Class '5' is the one of that name, not row 5: its four test items are shown."""
    found, tested = shown(specs("5")[0], pictures)
    assert found == {row for row in tested if pictures.y[row] == 5}


def test_without_queries_the_examples_are_drawn_from_all(specs, pictures):
    found, tested = shown(specs()[0], pictures)
    assert len(found) == 8
    assert found < tested


def test_an_item_of_several_labels_is_named_by_each(experiment):
    y = sparse.csr_array(np.array([[1.0, 0, 0], [0, 2, 1], [0, 0, 3]]))
    images = tuple(Path(f"{row}.png") for row in range(3))
    rows = LabelledRows(np.eye(3), y, tuple("abc"), images)
    named = named_queries(replace(experiment, queries=("b", "c", "0")), rows)
    assert {text: own.tolist() for text, own in named.items()} == {"b": [1], "c": [1, 2], "0": [0]}


def test_queries_are_refused_that_do_not_test(specs, pictures, experiment):
    _, tested = shown(specs()[0], pictures)
    trains = min(set(range(72)) - tested)
    with pytest.raises(UsageError, match=f"--queries {trains}: no test item of the first"):
        specs(str(trains))
    assert specs(str(min(tested)), "b")
    two = replace(experiment, classes=(("a", "b"),), queries=("c",))
    with pytest.raises(UsageError, match="--queries c: no test item of the first partition"):
        trials_of(two, pictures)
