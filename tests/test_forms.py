"""The forms of learners: what each computes and refuses, and scikit-learn's own tools on them."""

import json

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score

from oasis_bench import scorers
from oasis_bench.algorithms import RCA, Euclidean
from oasis_bench.plugins import (
    EmbeddingLearner,
    Registry,
    digit_items,
    digit_rows,
    load_model,
    save_model,
)
from oasis_bench.plugins.model_file import read_archive
from oasis_bench.system import ArrayArchive, UsageError

X, Y = digit_rows()


@pytest.mark.parametrize("scoring", [None, scorers.precision_at_k(1)])
def test_folds_of_one_class_are_refused_and_the_folds_named_make_a_score(scoring):
    order = np.argsort(Y, kind="stable")
    ordered, learner = (X[order], Y[order]), Euclidean()
    n_folds = len(set(Y.tolist()))  # of the same size, so that each holds one class
    with pytest.raises(ValueError, match="is of class 0, so that any ranking is right: shuffle"):
        cross_val_score(learner, *ordered, cv=KFold(n_folds), scoring=scoring, error_score="raise")
    named = StratifiedKFold(5, shuffle=True, random_state=0)
    found = cross_val_score(learner, *ordered, cv=named, scoring=scoring)
    assert 0.5 < found.mean() < 1


def test_patches_are_scored_by_training_items_alone_and_a_file_that_misplaces_them_is_refused(
    plugins, tmp_path
):
    patches, y = digit_items("patches")
    path = tmp_path / "model.npz"
    fitted = Registry.load([plugins / "patch_sets.py"]).algorithms["SetDistance"]().fit(patches, y)
    assert not fitted.has_embedding
    with pytest.raises(AttributeError, match="SetDistance has no similarity of test items"):
        fitted.score(patches, y)
    save_model(fitted, path)
    with path.open("rb") as file:
        header, arrays = read_archive(file)
    offsets = arrays["exemplars_.block.1"]
    np.testing.assert_array_equal(offsets, patches.kinds["block"].offsets)
    offsets[1] += 10**6  # a picture's descriptors would be read outside their array
    with ArrayArchive(path, "w") as archive:
        archive.writestr("header.json", json.dumps(header))
        for name, array in arrays.items():
            archive.write_array(f"{name}.npy", array)
    with pytest.raises(UsageError, match=r"model\.npz: picture 1 has -\d+ patches of a kind"):
        load_model(path, [plugins / "patch_sets.py"])


def test_a_metric_of_which_no_direction_is_left_scores_all_pairs_alike():
    learner = RCA().fit(np.eye(3) + np.eye(3)[::-1] / 2, [0, 0, 1])
    learner.components_ = np.zeros((0, 3))
    np.testing.assert_array_equal(learner.similarity(np.eye(3), np.ones((2, 3))), np.zeros((3, 2)))
    np.testing.assert_array_equal(learner.score_embeddings(np.ones((3, 0)), np.ones((2, 0))), 0)


class Halves(EmbeddingLearner):
    """An embedding of rows, given in whatever way."""

    name, summary, citation = "Halves", "half of each number", "none"

    def fit(self, X, y=None):
        self.n_features_in_ = np.asarray(X).shape[1]
        return self

    def embed(self, X):
        return np.asarray(X, dtype=float) / 2


def test_points_are_counted_of_items_that_are_only_arrays_on_demand():
    class OnDemand:
        def __array__(self, dtype=None, copy=None):
            return np.eye(3)

    found = Halves().fit(np.eye(3)).embed(OnDemand())
    np.testing.assert_array_equal(found, np.eye(3) / 2)
