"""Test items in a plane: principal axes against scikit-learn, what a run keeps, and its figure."""

import numpy as np
import pandas as pd
import pytest
from fake_runs import FakeTrial, fake_trial, make_run
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize
from small_runs import small

from oasis_bench.experiment import LearnerSpec
from oasis_bench.reports.figures import planes, space_figures
from oasis_bench.reports.view import view_of
from oasis_bench.runs import read_run, run_experiment
from oasis_bench.trial.harness_side.evaluator import (
    CLASSES,
    ITEMS_PER_CLASS,
    KeptRows,
    items_in_plane,
    plane,
    plane_of_rows,
)

ROWS = np.random.default_rng(0).normal(size=(40, 6)) * np.arange(1, 7)


def same_up_to_signs(points, expected):
    scale = np.linalg.norm(points[:, 0]) / np.linalg.norm(expected[:, 0])
    return np.allclose(np.abs(points), scale * np.abs(expected), atol=1e-10)


def minus_squared_distances(rows):
    return -((rows[:, None] - rows) ** 2).sum(axis=2)


@pytest.mark.parametrize("similarity", [ROWS @ ROWS.T, minus_squared_distances(ROWS)])
def test_the_plane_is_that_of_the_principal_components(similarity):
    pca = PCA(2).fit(ROWS)
    points = plane(similarity)
    assert same_up_to_signs(points, pca.transform(ROWS))
    share = (points**2).sum(axis=1).mean()
    assert share == pytest.approx(pca.explained_variance_ratio_.sum())
    assert np.array_equal(plane_of_rows(ROWS), plane(ROWS @ ROWS.T))


def test_an_axis_of_a_negative_eigenvalue_has_no_length():
    """The Gram matrix 2aa' - 3bb' has the eigenvalues 2 and -3: the plane has 2 / 5 of them."""
    a, b = np.array([1.0, -1, 1, -1]) / 2, np.array([1.0, 1, -1, -1]) / 2
    points = plane(2 * np.outer(a, a) - 3 * np.outer(b, b))
    assert np.abs(points[:, 0]).tolist() == pytest.approx([0.4**0.5] * 4)
    assert points[:, 1].tolist() == pytest.approx([0] * 4, abs=1e-6)


@pytest.mark.parametrize("value", [np.inf, np.nan, 0.0, 1.0])
def test_there_is_no_plane_of_scores_that_are_not_finite_or_all_alike(value):
    assert plane(np.full((5, 5), value)) is None


def test_scores_come_in_blocks_and_few_items_of_few_classes_are_kept():
    y = np.random.default_rng(1).permutation(np.repeat(np.arange(30), 40))
    items = items_in_plane(y, seed=3)
    kept = KeptRows(items, len(y))
    counts = pd.Series(y[items]).value_counts()
    assert len(counts) == CLASSES
    assert set(counts) == {ITEMS_PER_CLASS}
    rows = np.random.default_rng(2).normal(size=(len(y), 3))
    for start in range(0, len(y), 7):
        kept.add(start, rows[start : start + 7] @ rows.T)
    assert np.allclose(plane(kept.rows[:, items]), plane_of_rows(rows[items]))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("projected") / "run"
    oasis = LearnerSpec("OASIS", {"n_steps": 300})
    learners = {"OASIS": oasis, "Euclidean": LearnerSpec("Euclidean")}
    assert run_experiment(small(learners, classes=(2, 3), partitions=2, blend="off"), folder) == 0
    return read_run(folder)


def test_a_run_keeps_the_planes_of_the_first_partition_of_its_largest_subset(run):
    points = run.projections
    assert set(zip(points["subset"], points["partition"], strict=True)) == {("3", 0)}
    assert points.groupby(["learner", "label"]).size().tolist() == [6] * 6
    X, y = load_digits(return_X_y=True)
    own = points[points["learner"] == "Euclidean"]
    assert y[own["row"]].tolist() == own["label"].tolist()
    rows = normalize(X[own["row"]])
    before = own[["x_before", "y_before"]].to_numpy()
    assert same_up_to_signs(before, PCA(2).fit_transform(rows))
    # Its scores are minus the distance: squared, they have the same plane.
    assert same_up_to_signs(own[["x", "y"]].to_numpy(), PCA(2).fit_transform(rows))


def test_the_figure_has_a_panel_before_and_one_for_each_learner(run):
    (drawing,) = space_figures(view_of(run))
    assert len(drawing.parts) == 4  # and the legend
    shown = planes(view_of(run), run.projections, ["OASIS", "Euclidean"])
    assert list(shown) == ["before learning, l2", "OASIS", "Euclidean"]
    # Turned, not stretched: the distances of the items are those that were kept.
    own = run.projections[run.projections["learner"] == "OASIS"]
    lengths = [np.sort((it[["x", "y"]] ** 2).sum(axis=1)) for it in (own, shown["OASIS"])]
    assert np.allclose(*lengths)


def test_a_turned_plane_lies_as_the_first_one_does(tmp_path):
    """A plane that is the first one turned by 90 degrees and mirrored is drawn as the first."""
    first = np.random.default_rng(0).normal(size=(6, 2))
    turned = first @ np.array([[0.0, 1.0], [1.0, 0.0]])
    names = ("row", "label", "x", "y", "x_before", "y_before")
    trials = [
        FakeTrial(
            fake_trial(learner, 2, scaling=scaling).columns,
            projections=[
                dict(zip(names, (row, row % 2, *turned[row], *before[row]), strict=True))
                for row in range(6)
            ],
        )
        for learner, scaling, before in (("A", "l2", first), ("B", "minmax", turned))
    ]
    made = make_run(tmp_path / "run", trials, ["A", "B"], classes=(2,))
    shown = planes(view_of(made), made.projections, ["A", "B"])
    assert list(shown) == ["before learning, l2", "before learning, minmax", "A", "B"]
    for own in shown.values():
        assert np.allclose(own[["x", "y"]], first)
