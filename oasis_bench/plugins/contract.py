"""What every metric learner must do, as tests that any plugin can be put through.

``pytest --pyargs oasis_bench.plugins.contract`` tests all registered learners; a plugin's own tests
derive from `LearnerContract`::

    class TestMine(LearnerContract):
        learner = Mine(n_steps=1000)
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

from oasis_bench.plugins import learner as learner_module
from oasis_bench.plugins.contract_items import digit_rows
from oasis_bench.plugins.learner import (
    BilinearLearner,
    IncrementalLearner,
    MahalanobisLearner,
    MetricLearner,
)
from oasis_bench.plugins.model_file import load_model, save_model
from oasis_bench.plugins.registry import load_registry
from oasis_bench.tasks.retrieval import evaluate_ranking


def _rounding(scores: Any) -> float:
    """Return the tolerance for rounding, which is large for distances near 0."""
    return 1e-6 * max(1.0, float(np.abs(scores).max()))


class LearnerContract:
    """The tests; a subclass sets `learner`, an unfitted estimator.

    A learner that no installed package registers is in one of `plugin_files`.
    """

    learner: MetricLearner
    plugin_files: ClassVar[Sequence[Path]] = ()

    @pytest.fixture
    def unfitted(self) -> MetricLearner:
        return _seeded(self.learner)

    @pytest.fixture
    def fitted(self, unfitted: MetricLearner) -> MetricLearner:
        return unfitted.fit(*digit_rows())

    def test_scikit_learn_accepts_it_as_an_estimator(self, unfitted: MetricLearner) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkipTestWarning)
            results = check_estimator(unfitted, on_fail=None)
        failed = {
            result["check_name"]: result["exception"]
            for result in results
            if result["status"] == "failed"
        }
        assert not failed

    def test_it_says_what_it_is(self, unfitted: MetricLearner) -> None:
        for text in (unfitted.name, unfitted.summary, unfitted.citation):
            assert text
            assert "\n" not in text
        assert set(unfitted.search_space) <= set(unfitted.get_params())

    def test_an_unfitted_learner_says_so(self, unfitted: MetricLearner) -> None:
        X, _ = digit_rows()
        with pytest.raises(NotFittedError):
            unfitted.similarity(X, X)

    def test_similarity_is_the_score_of_each_pair(self, fitted: MetricLearner) -> None:
        X, _ = digit_rows()
        queries, gallery = X[:7], X[5:]
        pairs = np.stack([np.repeat(queries, len(gallery), axis=0), np.tile(gallery, (7, 1))], 1)
        scores = fitted.similarity(queries, gallery)
        np.testing.assert_allclose(
            scores,
            fitted.pair_score(pairs).reshape(scores.shape),
            rtol=1e-7,
            atol=_rounding(scores),
        )

    def test_blocks_do_not_change_similarity(
        self, fitted: MetricLearner, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        X, _ = digit_rows()
        whole = fitted.similarity(X, X)
        monkeypatch.setattr(learner_module, "BLOCK_BYTES", 1)
        np.testing.assert_allclose(fitted.similarity(X, X), whole, rtol=1e-7, atol=_rounding(whole))

    def test_its_form_is_what_it_claims(self, fitted: MetricLearner) -> None:
        X, _ = digit_rows()
        x, y = X[:10], X[20:30]
        pairs = np.stack([x, y], axis=1)
        if isinstance(fitted, BilinearLearner):
            W = fitted.get_bilinear_matrix()
            np.testing.assert_allclose(fitted.pair_score(pairs), np.diag(x @ W @ y.T), rtol=1e-7)
            W[:] = 0
            assert fitted.bilinear_matrix_.any(), "get_bilinear_matrix must return a copy"
        if isinstance(fitted, MahalanobisLearner):
            M = fitted.get_mahalanobis_matrix()
            squared = np.diag((x - y) @ M @ (x - y).T)
            np.testing.assert_allclose(fitted.pair_distance(pairs) ** 2, squared, rtol=1e-7)
            np.testing.assert_allclose(fitted.pair_score(pairs), -fitted.pair_distance(pairs))
            projected = fitted.transform(x) - fitted.transform(y)
            np.testing.assert_allclose((projected**2).sum(axis=1), squared, rtol=1e-7)

    def test_it_ranks_better_than_chance(self, fitted: MetricLearner) -> None:
        measured = evaluate_ranking(fitted.similarity, *digit_rows(), seed=0)
        assert measured.mean_average_precision > 1.25 * measured.chance_level

    def test_the_same_seed_gives_the_same_bits(self, unfitted: MetricLearner) -> None:
        X, y = digit_rows()
        first, second = (clone(unfitted).fit(X, y).similarity(X, X) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_its_input_is_left_as_it_was(self, unfitted: MetricLearner) -> None:
        X, y = digit_rows()
        X_before, y_before = X.copy(), y.copy()
        unfitted.fit(X, y).similarity(X, X)
        np.testing.assert_array_equal(X, X_before)
        np.testing.assert_array_equal(y, y_before)

    def test_labels_may_be_names(self, unfitted: MetricLearner) -> None:
        X, y = digit_rows()
        names = np.array(["zero", "one", "two", "three"], dtype=object)[y]
        order = np.argsort(["zero", "one", "two", "three"])
        by_number = clone(unfitted).fit(X, np.argsort(order)[y]).similarity(X, X)
        np.testing.assert_array_equal(unfitted.fit(X, names).similarity(X, X), by_number)

    def test_single_precision_ranks_nearly_the_same(self, unfitted: MetricLearner) -> None:
        double, single = (
            evaluate_ranking(
                clone(unfitted).fit(*digit_rows(dtype)).similarity, *digit_rows(dtype), seed=0
            ).mean_average_precision
            for dtype in (np.float64, np.float32)
        )
        assert single == pytest.approx(double, abs=0.01)

    def test_sparse_rows_give_the_numbers_of_dense_ones(self, unfitted: MetricLearner) -> None:
        X, y = digit_rows()
        if not unfitted.takes_sparse:
            with pytest.raises((TypeError, ValueError), match=r"[Ss]parse|dense"):
                unfitted.fit(sparse.csr_array(X), y)
            return
        dense = clone(unfitted).fit(X, y).similarity(X, X)
        for indices in (np.int32, np.int64):
            rows = sparse.csr_array(X)
            rows.indices, rows.indptr = rows.indices.astype(indices), rows.indptr.astype(indices)
            found = clone(unfitted).fit(rows, y).similarity(rows, rows)
            np.testing.assert_allclose(found, dense, rtol=1e-7, atol=1e-6)

    def test_several_labels_are_taken_where_it_says_so(self, unfitted: MetricLearner) -> None:
        if not unfitted.takes_relevance:
            pytest.skip("it takes one label a row")
        X, y = digit_rows()
        one_each = sparse.csr_array(np.eye(4)[y])
        measured = evaluate_ranking(unfitted.fit(X, one_each).similarity, X, one_each, seed=0)
        by_class = evaluate_ranking(unfitted.similarity, X, y, seed=0)
        assert measured.mean_average_precision == by_class.mean_average_precision
        assert measured.mean_average_precision > 1.25 * measured.chance_level

    def test_a_fitted_learner_can_be_copied_and_pickled(self, fitted: MetricLearner) -> None:
        X, _ = digit_rows()
        expected = fitted.similarity(X, X)
        for twin in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
            np.testing.assert_array_equal(twin.similarity(X, X), expected)

    def test_saved_and_loaded_it_is_the_same(self, fitted: MetricLearner, tmp_path: Path) -> None:
        X, _ = digit_rows()
        save_model(fitted, tmp_path / "model.npz")
        loaded = load_model(tmp_path / "model.npz", self.plugin_files)
        assert (type(loaded).name, str(loaded)) == (fitted.name, str(fitted))
        np.testing.assert_array_equal(loaded.similarity(X, X), fitted.similarity(X, X))

    def test_a_loaded_learner_goes_on_where_the_saved_one_was(
        self, unfitted: MetricLearner, tmp_path: Path
    ) -> None:
        if not isinstance(unfitted, IncrementalLearner):
            pytest.skip("it does not learn step by step")
        X, y = digit_rows()
        save_model(clone(unfitted).partial_fit(X, y, n_steps=320), tmp_path / "model.npz")
        loaded = load_model(tmp_path / "model.npz", self.plugin_files)
        assert isinstance(loaded, IncrementalLearner)
        found = loaded.partial_fit(X, y, n_steps=680).similarity(X, X)
        whole = unfitted.partial_fit(X, y, n_steps=1000).similarity(X, X)
        np.testing.assert_allclose(found, whole, rtol=0, atol=1e-10)

    def test_two_halves_of_learning_equal_the_whole(self, unfitted: MetricLearner) -> None:
        # The first is of whole batches, for learners that learn in batches of up to 64 steps.
        if not isinstance(unfitted, IncrementalLearner):
            pytest.skip("it does not learn step by step")
        X, y = digit_rows()
        whole = clone(unfitted).set_params(n_steps=1000).fit(X, y).similarity(X, X)
        halves = unfitted.partial_fit(X, y, n_steps=320).partial_fit(X, y, n_steps=680)
        np.testing.assert_allclose(halves.similarity(X, X), whole, rtol=0, atol=1e-10)


# metric-learn's own take minutes by default: their tests use quicker parameters.
REGISTERED = [name for name in load_registry().algorithms if "metric-learn-" not in name]


class TestRegisteredLearners(LearnerContract):
    """The contract for every learner that the registry finds, but for metric-learn's."""

    n_steps: ClassVar[int | None] = 2000  # for learners that have steps; None: their default

    @pytest.fixture(params=REGISTERED)
    def unfitted(self, request: pytest.FixtureRequest) -> MetricLearner:
        learner = _seeded(load_registry().algorithms[request.param]())
        if self.n_steps is not None and isinstance(learner, IncrementalLearner):
            learner.set_params(n_steps=self.n_steps)
        return learner


def _seeded(learner: MetricLearner) -> MetricLearner:
    seeded: MetricLearner = clone(learner)
    return seeded.set_params(random_state=0) if "random_state" in seeded.get_params() else seeded
