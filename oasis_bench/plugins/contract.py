"""Tests of what every learner, data set, task and split must do, for any plugin.

``python -m oasis_bench check FILE`` tests the plugins of a file, and ``pytest --pyargs
oasis_bench.plugins.contract`` tests all registered learners.  The tests of a plugin can derive from
`LearnerContract`::

    class TestMine(LearnerContract):
        learner = Mine(n_steps=1000)
"""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError, SkipTestWarning
from sklearn.preprocessing import normalize
from sklearn.utils.estimator_checks import check_estimator

from oasis_bench.data import FloatArray, JudgedTriplets, LabelledRows, Patches, PatchKind, Ratings
from oasis_bench.plugins import learner as learner_module, load_model, save_model
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.plugins.learner import (
    BilinearLearner,
    EmbeddingLearner,
    ExemplarLearner,
    MahalanobisLearner,
    as_inner_product,
)
from oasis_bench.plugins.metric_learner import IncrementalLearner, MetricLearner
from oasis_bench.plugins.registry import Registry, plugin_files_of
from oasis_bench.system import UsageError, error_line
from oasis_bench.tasks import Evaluation, Split, Task, Truth, evaluate_ranking

_Test = TypeVar("_Test", bound=Callable[..., None])
Items: TypeAlias = tuple[Any, Any]
"""Items and their labels."""

IN_ANOTHER_ORDER = "scores of the items in another order"
ALONE = "a pair alone has another score (a learner may set `transductive = True`)"


def of_learners(has: Callable[[MetricLearner], bool], otherwise: str) -> Callable[[_Test], _Test]:
    """Limit a test to learners with a property; other learners skip it with a reason."""

    def limited(test: _Test) -> _Test:
        test.of_learners = [*_limits(test), (has, otherwise)]  # type: ignore[attr-defined]
        return test

    return limited


def _limits(test: Any) -> Sequence[tuple[Callable[[MetricLearner], bool], str]]:
    limits: Sequence[Any] = getattr(test, "of_learners", ())
    return limits


in_steps = of_learners(
    lambda learner: isinstance(learner, IncrementalLearner), "it does not learn step by step"
)


class LearnerContract:
    """The tests of a learner; a subclass sets `learner`, an unfitted estimator.

    If no installed package registers the learner, `plugin_files` has the file that defines it.
    """

    learner: MetricLearner
    plugin_files: ClassVar[Sequence[Path]] = ()

    @pytest.fixture
    def unfitted(self) -> MetricLearner:
        return _seeded(self.learner)

    @pytest.fixture(autouse=True)
    def limit(self, request: pytest.FixtureRequest, unfitted: MetricLearner) -> None:
        for has, otherwise in _limits(request.function):
            only(has(unfitted), otherwise)

    @pytest.fixture
    def items(self, unfitted: MetricLearner) -> Items:
        """Items of the kind that the learner takes, and their labels."""
        return digit_items(unfitted.takes)

    @pytest.fixture
    def fitted(self, unfitted: MetricLearner, items: Items) -> MetricLearner:
        return unfitted.fit(*items)

    @of_learners(lambda learner: learner.takes == "rows", "scikit-learn's checks are of rows")
    def test_scikit_learn_accepts_it_as_an_estimator(self, unfitted: MetricLearner) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SkipTestWarning)
            results = check_estimator(unfitted, on_fail=None)
        failed = [
            f"{result['check_name']}: {error_line(result['exception'])}"
            for result in results
            if result["status"] == "failed"
        ]
        assert not failed, "\n".join(failed)

    def test_it_says_what_it_is(self, unfitted: MetricLearner) -> None:
        for text in (unfitted.name, unfitted.summary, unfitted.citation):
            assert text
            assert "\n" not in text
        assert set(unfitted.search_space) <= set(unfitted.get_params())
        assert set(unfitted.inner_params) <= set(unfitted.get_params())
        assert not set(unfitted.inner_params) & set(unfitted.search_space)
        assert unfitted.takes_triplets == hasattr(unfitted, "partial_fit_triplets")
        assert unfitted.takes_pairs == hasattr(unfitted, "partial_fit_pairs")
        if unfitted.takes_labels_with_triplets:
            assert "triplets" in inspect.signature(unfitted.fit).parameters
            assert not isinstance(unfitted, IncrementalLearner), "its steps would not be chosen"

    def test_an_unfitted_learner_says_so(self, unfitted: MetricLearner, items: Items) -> None:
        X, _ = items
        with pytest.raises(NotFittedError):
            answers(unfitted, X, X)

    @of_learners(lambda learner: not learner.transductive, "it is transductive")
    def test_a_pair_has_one_score(self, fitted: MetricLearner, items: Items) -> None:
        X, _ = items
        whole = answers(fitted, X, X)
        assert whole.shape == (60, 60)
        order = np.random.default_rng(0).permutation(60)
        if isinstance(fitted, ExemplarLearner):
            assert_close(answers(fitted, X[order], X), whole[order], IN_ANOTHER_ORDER)
            assert_close(answers(fitted, X[[3]], X), whole[[3]], ALONE)
            return
        shuffled = answers(fitted, X[order], X[order])
        assert_close(shuffled, whole[np.ix_(order, order)], IN_ANOTHER_ORDER)
        for query, other in ((0, 1), (3, 40), (59, 2)):
            alone = answers(fitted, X[[query]], X[[other]])
            assert_close(alone, whole[[query], [other]][None], ALONE)

    @of_learners(
        lambda learner: learner.has_embedding and not learner.transductive,
        "its items have no score alone",
    )
    def test_embeddings_score_as_their_items(self, fitted: MetricLearner, items: Items) -> None:
        X, _ = items
        embedded = fitted.embed(X)
        assert embedded.shape[0] == 60
        few = np.array([5, 0, 41])
        found = fitted.score_embeddings(embedded[few], embedded)
        assert_close(found, fitted.similarity(X, X)[few])

    @of_learners(lambda learner: not learner.transductive, "it is transductive")
    def test_vectors_for_an_index_give_its_scores(
        self, fitted: MetricLearner, items: Items
    ) -> None:
        X, _ = items
        try:
            made = fitted.query_vectors(X[:7]), fitted.gallery_vectors(X)
        except UsageError as refused:
            pytest.skip(str(refused))
        vectors, others = (sparse.csr_array(it).toarray() for it in made)
        found = vectors @ others.T
        scorer: Any = getattr(fitted, "learner_", fitted)  # of one on embeddings: its last learner
        expected = as_inner_product(type(scorer), fitted.similarity(X[:7], X))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * expected.std())

    @of_learners(lambda learner: hasattr(learner, "pair_score"), "it has no pair_score")
    @of_learners(lambda learner: not learner.takes.startswith("patches"), "patches are no pairs")
    @of_learners(lambda learner: not learner.transductive, "it is transductive")
    def test_similarity_is_the_score_of_a_pair(self, fitted: MetricLearner, items: Items) -> None:
        X, _ = items
        queries, gallery = X[:7], X[5:]
        shape = (7, len(gallery))
        pairs = np.stack([queries[np.indices(shape)[0]], gallery[np.indices(shape)[1]]], axis=2)
        scores = fitted.similarity(queries, gallery)
        assert_close(fitted.pair_score(pairs.reshape(-1, *pairs.shape[2:])).reshape(shape), scores)

    def test_blocks_do_not_change_similarity(
        self, fitted: MetricLearner, items: Items, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        X, _ = items
        whole = answers(fitted, X, X)
        monkeypatch.setattr(learner_module, "BLOCK_BYTES", 1)
        assert_close(answers(fitted, X, X), whole)

    def test_its_form_is_what_it_claims(self, fitted: MetricLearner, items: Items) -> None:
        X, y = items
        if isinstance(fitted, BilinearLearner):
            check_bilinear_form(fitted, X)
        if isinstance(fitted, EmbeddingLearner) and not fitted.transductive:
            check_embedding_form(fitted, X)
        if isinstance(fitted, MahalanobisLearner):
            check_mahalanobis_form(fitted, X)
        if isinstance(fitted, ExemplarLearner):
            with pytest.raises(UsageError, match="similarity_to_training"):
                fitted.similarity(X, X)
            assert clone(fitted).fit(X[:9], y[:9]).similarity_to_training(X).shape == (60, 9)

    def test_it_ranks_better_than_chance(self, fitted: MetricLearner, items: Items) -> None:
        assert mean_average_precision(fitted, *items) > 1.5 * CHANCE

    @of_learners(
        lambda learner: not (isinstance(learner, ExemplarLearner) or learner.transductive),
        "its test items have no similarity alone",
    )
    def test_its_score_is_mean_average_precision(self, fitted: MetricLearner, items: Items) -> None:
        X, y = items
        assert fitted.score(X, y) == pytest.approx(mean_average_precision(fitted, X, y), abs=1e-3)

    def test_the_same_seed_gives_the_same_bits(self, unfitted: MetricLearner, items: Items) -> None:
        X, y = items
        first, second = (answers(clone(unfitted).fit(X, y), X, X) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    def test_its_input_is_left_as_it_was(self, unfitted: MetricLearner, items: Items) -> None:
        X, y = items
        before = copy.deepcopy((X, y))
        answers(unfitted.fit(X, y), X, X)
        for now, then in zip((*arrays_of(X), y), (*arrays_of(before[0]), before[1]), strict=True):
            np.testing.assert_array_equal(now, then)

    def test_labels_may_be_names(self, unfitted: MetricLearner, items: Items) -> None:
        X, y = items
        names = np.array(["zero", "one", "two", "three"], dtype=object)[y]
        order = np.argsort(["zero", "one", "two", "three"])
        by_number = answers(clone(unfitted).fit(X, np.argsort(order)[y]), X, X)
        np.testing.assert_array_equal(answers(unfitted.fit(X, names), X, X), by_number)

    @of_learners(lambda learner: not learner.needs_labels, "it needs labels")
    def test_it_learns_the_same_without_labels(self, unfitted: MetricLearner, items: Items) -> None:
        X, y = items
        expected = answers(clone(unfitted).fit(X, y), X, X)
        np.testing.assert_array_equal(answers(unfitted.fit(X, None), X, X), expected)

    @of_learners(lambda learner: learner.takes == "rows", "its items have one precision")
    def test_single_precision_ranks_nearly_the_same(self, unfitted: MetricLearner) -> None:
        double, single = (
            mean_average_precision(clone(unfitted).fit(*digit_rows(dtype)), *digit_rows(dtype))
            for dtype in (np.float64, np.float32)
        )
        assert single == pytest.approx(double, abs=0.01)

    @of_learners(lambda learner: learner.takes == "rows", "its items are never sparse")
    def test_sparse_rows_give_the_numbers_of_dense_ones(self, unfitted: MetricLearner) -> None:
        X, y = digit_rows()
        if not unfitted.takes_sparse:
            with pytest.raises((TypeError, ValueError), match=r"[Ss]parse|dense"):
                unfitted.fit(sparse.csr_array(X), y)
            return
        dense = answers(clone(unfitted).fit(X, y), X, X)
        for indices in (np.int32, np.int64):
            rows = sparse.csr_array(X)
            rows.indices, rows.indptr = rows.indices.astype(indices), rows.indptr.astype(indices)
            found = answers(clone(unfitted).fit(rows, y), rows, rows)
            np.testing.assert_allclose(found, dense, rtol=1e-7, atol=1e-6)
        repeated = in_two_parts(sparse.csr_array(X))
        expected = answers(clone(unfitted).fit(sparse.csr_array(X), y), X, X)
        found = answers(clone(unfitted).fit(repeated, y), repeated, repeated)
        np.testing.assert_allclose(
            found, expected, rtol=1e-7, atol=1e-6, err_msg="CSR that names a feature twice: sum it"
        )
        assert repeated.nnz == 2 * np.count_nonzero(X), "the caller's matrix was changed"

    @of_learners(lambda learner: learner.takes_relevance, "it takes one label an item")
    def test_it_takes_several_labels_an_item(self, unfitted: MetricLearner, items: Items) -> None:
        X, y = items
        one_each = sparse.csr_array(np.eye(4)[y])
        measured = mean_average_precision(unfitted.fit(X, one_each), X, one_each)
        assert measured == mean_average_precision(unfitted, X, y)
        assert measured > 1.5 * CHANCE

    @of_learners(lambda learner: learner.takes_triplets, "it takes no triplets")
    def test_it_learns_from_given_triplets(self, unfitted: MetricLearner, items: Items) -> None:
        X, _ = items
        learned: Any = clone(unfitted)
        learned.partial_fit_triplets(X, TRIPLETS)
        start = clone(unfitted).partial_fit_triplets(X, TRIPLETS[:0])
        assert not np.array_equal(answers(learned, X, X), answers(start, X, X))
        with pytest.raises(ValueError, match="60"):
            learned.partial_fit_triplets(X, [[0, 1, 60]])

    @of_learners(lambda learner: learner.takes_pairs, "it takes no pairs")
    def test_it_learns_from_given_pairs(self, unfitted: MetricLearner, items: Items) -> None:
        X, y = items
        order = np.random.default_rng(0).permutation(len(y))
        pairs = np.column_stack([order[:-1], order[1:]])
        same, n = np.asarray(y)[pairs[:, 0]] == np.asarray(y)[pairs[:, 1]], 12
        alike, unlike = pairs[same][:n], pairs[~same][:n]
        learned, other = (clone(unfitted) for _ in range(2))
        learned.partial_fit_pairs(X, alike, unlike)
        other.partial_fit_pairs(X, alike[::-1] // 2, unlike)
        assert not np.array_equal(answers(learned, X, X), answers(other, X, X))
        with pytest.raises(ValueError, match="60"):
            learned.partial_fit_pairs(X, alike, np.full_like(unlike, 60))

    @of_learners(
        lambda learner: learner.takes_labels_with_triplets, "it does not take both together"
    )
    def test_labels_and_triplets_work_together(self, unfitted: MetricLearner, items: Items) -> None:
        X, y = items
        learner: Any = unfitted
        both = answers(clone(learner).fit(X, y, triplets=TRIPLETS), X, X)
        assert not np.array_equal(both, answers(clone(learner).fit(X, y), X, X))
        other = np.roll(np.asarray(y), 7)
        assert not np.array_equal(
            both, answers(clone(learner).fit(X, other, triplets=TRIPLETS), X, X)
        )

    def test_it_can_be_copied_and_pickled(self, fitted: MetricLearner, items: Items) -> None:
        X, _ = items
        expected = answers(fitted, X, X)
        for twin in (copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):
            np.testing.assert_array_equal(answers(twin, X, X), expected)

    def test_saved_and_loaded_it_is_the_same(
        self, fitted: MetricLearner, items: Items, tmp_path: Path
    ) -> None:
        X, _ = items
        loaded = self._saved_and_loaded(fitted, tmp_path)
        assert (type(loaded).name, str(loaded)) == (fitted.name, str(fitted))
        np.testing.assert_array_equal(answers(loaded, X, X), answers(fitted, X, X))

    @in_steps
    def test_a_loaded_learner_goes_on_where_the_saved_one_was(
        self, unfitted: MetricLearner, items: Items, tmp_path: Path
    ) -> None:
        X, y = items
        loaded: Any = self._saved_and_loaded(
            clone(unfitted).partial_fit(X, y, n_steps=320), tmp_path
        )
        found = answers(loaded.partial_fit(X, y, n_steps=680), X, X)
        whole = answers(clone(unfitted).partial_fit(X, y, n_steps=1000), X, X)
        np.testing.assert_allclose(found, whole, rtol=0, atol=1e-10)

    @in_steps
    def test_two_halves_equal_the_whole(self, unfitted: MetricLearner, items: Items) -> None:
        # The first half has whole batches, for learners with batches of up to 64 steps.
        X, y = items
        whole = answers(clone(unfitted).set_params(n_steps=1000).fit(X, y), X, X)
        halves: Any = clone(unfitted)
        halves.partial_fit(X, y, n_steps=320).partial_fit(X, y, n_steps=680)
        np.testing.assert_allclose(answers(halves, X, X), whole, rtol=0, atol=1e-10)

    @in_steps
    def test_before_its_first_step_it_answers(self, unfitted: MetricLearner, items: Items) -> None:
        # Early stopping also tries 0 steps.
        X, y = items
        unlearned: Any = clone(unfitted)
        unlearned.partial_fit(X, y, n_steps=0)
        assert np.isfinite(answers(unlearned, X, X)).all()
        at_once = clone(unfitted).set_params(n_steps=0).fit(X, y)
        np.testing.assert_array_equal(answers(unlearned, X, X), answers(at_once, X, X))

    def _saved_and_loaded(self, learner: MetricLearner, folder: Path) -> MetricLearner:
        save_model(learner, folder / "model.npz")
        files = self.plugin_files or plugin_files_of(type(learner))
        loaded: MetricLearner = load_model(folder / "model.npz", files)
        return loaded


class DatasetContract:
    """The tests of a data set; a subclass has a fixture `dataset`, its class."""

    def test_it_says_what_it_is(self, dataset: type[Dataset]) -> None:
        _check_texts(dataset, ("name", "summary", "citation", "items"))

    def test_it_is_the_same_each_time_it_is_loaded(self, dataset: type[Dataset]) -> None:
        needed = dataset.needed_options()
        only(not needed, f"it needs options: {', '.join(needed)}")
        first, second = (dataset().load_checked() for _ in range(2))
        assert first.content_hash() == second.content_hash()


class TaskContract:
    """The tests of a task; a subclass has a fixture `task`, its class.

    Twelve items of four classes are queries.  The similarity is 1 within a class, otherwise 0.
    """

    def test_it_says_what_it_is(self, task: type[Task]) -> None:
        _check_texts(task, ("name", "summary", "citation"))

    def test_its_measures_lie_in_their_ranges(self, task: type[Task]) -> None:
        for measured in chain(*(_evaluated(task, sign).measurements() for sign in (1, -1))):
            least, greatest = task.ranges.get(measured.measure, (0, 1))
            for number in (measured.value, measured.chance):
                assert number is None or least <= number <= greatest, measured

    def test_a_right_answer_is_no_worse_than_its_reverse(self, task: type[Task]) -> None:
        wrong = {(it.measure, it.k): it.value for it in _evaluated(task, -1).measurements()}
        for right in _evaluated(task, 1).measurements():
            assert right.value >= wrong[right.measure, right.k], right


SIZES: Any = SimpleNamespace(per_class=(2, 1), seed=0, test_share=0.25, most_items=None)
"""Settings of a split."""


class SplitContract:
    """The tests of a split; a subclass has a fixture `split`, its class.

    It divides twelve judged items of four classes.
    """

    def test_it_says_what_it_is(self, split: type[Split]) -> None:
        _check_texts(split, ("name", "summary", "citation"))

    def test_training_and_test_items_do_not_overlap(self, split: type[Split]) -> None:
        rows, of_rows = _split_of_judged_rows(split)
        train, test, *_ = of_rows.draw(rows, range(4), 0, 0)
        assert len(train), "no item trains"
        assert len(test), "no item tests"
        assert not set(train) & set(test), "items train and test"
        n_train, n_test = of_rows.sizes(rows, range(4), 0)
        assert len(train) <= n_train, f"{len(train)} items train, and sizes says {n_train}"
        assert len(test) <= n_test, f"{len(test)} items test, and sizes says {n_test}"

    def test_a_seed_gives_the_same_partition_each_time(self, split: type[Split]) -> None:
        rows, of_rows = _split_of_judged_rows(split)
        first, second = (of_rows.draw(rows, range(4), 0, 5) for _ in range(2))
        np.testing.assert_array_equal(first.train, second.train)
        np.testing.assert_array_equal(first.test, second.test)

    def test_inner_folds_divide_the_training_items(self, split: type[Split]) -> None:
        rows, of_rows = _split_of_judged_rows(split)
        folds = of_rows.inner_folds(rows.y, of_rows.judgements(rows), 2, 0)
        assert folds, "there are none"
        for fold in folds:
            assert len(fold.train), "nothing to learn from"
            assert len(fold.test), "nothing to validate on"
            assert not set(fold.train) & set(fold.test), "items are learned from and validate"
            assert max(*fold.train, *fold.test) < rows.y.shape[0], "no such training item"


def _split_of_judged_rows(split: type[Split]) -> tuple[LabelledRows, Split]:
    rows = _judged_rows()
    of_rows = split(SIZES).for_rows(rows)
    reason = of_rows.refusal(rows)
    only(reason is None, f"it refuses the items: {reason}")
    return rows, of_rows


def _evaluated(task: type[Task], sign: int) -> Evaluation:
    rows, one = _judged_rows(), task()
    y, judged, ratings = rows.y, rows.judged, rows.ratings
    reason = one.refusal(rows)
    only(reason is None, reason or "")
    truth = Truth(y=y, training=y, judged=judged, ratings=ratings)
    found = one.evaluate(truth, lambda a, b: sign * (a @ b.T), rows.X, 0, rows.X)
    assert {it.measure for it in found.measurements()} <= set(task.measures)
    return found


def _judged_rows() -> LabelledRows:
    """Return twelve items of four classes, each with a triplet and two rated candidates."""
    y = np.repeat(np.arange(4), 3)
    queries = np.arange(12)
    like, unlike = 3 * y + (queries + 1) % 3, (queries + 3) % 12
    judged = JudgedTriplets(np.column_stack([queries, like, unlike]), None, queries)
    marks = np.tile([[True, True], [False, False]], (12, 1))
    ratings = Ratings(np.repeat(queries, 2), np.column_stack([like, unlike]).ravel(), marks)
    return LabelledRows(np.eye(4)[y], y, tuple("abcd"), judged=judged, ratings=ratings)


def _check_texts(plugin: type[Dataset] | type[Task] | type[Split], names: Sequence[str]) -> None:
    for name in names:
        text = getattr(plugin, name)
        assert text.strip(), f"{name} is empty"
        assert text.isprintable(), f"{name} is more than a line of text: {text!r}"


# Learners of metric-learn take minutes by default: their tests use quicker parameters.
REGISTERED = [name for name in Registry.load().algorithms if "metric-learn-" not in name]


@cache
def _default(name: str) -> MetricLearner:
    return Registry.load().algorithms[name]()


class TestRegisteredLearners(LearnerContract):
    """The contract for every learner in the registry, except those of metric-learn."""

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        names = [
            name
            for name in REGISTERED
            if all(has(_default(name)) for has, _ in _limits(metafunc.function))
        ]
        metafunc.parametrize("unfitted", names, indirect=True)

    @pytest.fixture
    def unfitted(self, request: pytest.FixtureRequest) -> MetricLearner:
        learner = quick(Registry.load().algorithms[request.param]())
        reason = learner.refusal(*digit_items(learner.takes)) or ""
        only("pip install" not in reason, reason)  # an extra that is not installed
        return learner


def quick(learner: MetricLearner, n_steps: int = 2000) -> MetricLearner:
    """Return an unfitted learner with a seed and, if it learns in steps, with `n_steps` steps."""
    seeded = _seeded(learner)
    if isinstance(seeded, IncrementalLearner):
        seeded.set_params(n_steps=n_steps)
    return seeded


def _seeded(learner: MetricLearner) -> MetricLearner:
    seeded: MetricLearner = clone(learner)
    return seeded.set_params(random_state=0) if "random_state" in seeded.get_params() else seeded


# --- items of digits, and what each form of learner must compute

TRIPLETS = np.array([[query, (query + 1) % 15, 15 + query] for query in range(15)])

CHANCE = 14 / 59
"""The share of relevant items among the others, for 15 of each of 4 classes."""


def digit_rows(dtype: type = np.float64) -> tuple[Any, Any]:
    """Return 15 training rows of each of 4 digits, of unit length, and their labels."""
    pictures, y = _digits()
    return normalize(pictures.reshape(len(y), -1)).astype(dtype), y


def digit_items(kind: str) -> tuple[Any, Any]:
    """Return the same digits as items of a kind of `LabelledRows.KINDS`, and their labels.

    Patches are the non-blank blocks of 4 x 4 and of 2 x 2 pixels on a grid.
    """
    if kind == "rows":
        return digit_rows()
    pictures, y = _digits()
    grey = np.rint(pictures * 255 / 16).astype(np.uint8)
    pixels = np.repeat(grey[..., None], 3, axis=3)
    if kind == "pixels":
        return pixels, y
    kinds = {"block": _blocks(pictures, 4), "corner": _blocks(pictures, 2)}
    return Patches(kinds, pixels if kind == Patches.AND_PIXELS else None), y


def _digits() -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    X, y = _all_digits()
    numbers = np.concatenate([np.flatnonzero(y == digit)[:15] for digit in range(4)])
    return X[numbers].reshape(-1, 8, 8), y[numbers]


_all_digits = cache(partial(load_digits, return_X_y=True))


def _blocks(pictures: npt.NDArray[np.float64], side: int) -> PatchKind:
    """Return the non-blank blocks of `side` x `side` pixels at every second pixel."""
    corners = [(row, column) for row in range(0, 9 - side, 2) for column in range(0, 9 - side, 2)]
    descriptors, positions = [], []
    for picture in pictures:
        blocks = np.stack([picture[i : i + side, j : j + side].ravel() for i, j in corners])
        inked = blocks.any(axis=1)
        descriptors.append(blocks[inked])
        positions.append(np.array(corners)[inked, ::-1] + (side - 1) / 2)
    return PatchKind.joined(descriptors, positions)


def answers(learner: MetricLearner, queries: Any, gallery: Any) -> FloatArray:
    """Score queries against a gallery, which an exemplar learner was fitted on."""
    if isinstance(learner, ExemplarLearner):
        return learner.similarity_to_training(queries)
    return learner.similarity(queries, gallery)


def mean_average_precision(learner: MetricLearner, X: Any, y: Any) -> float:
    """Return the measure of rankings: each training item ranks all others."""
    scores = answers(learner, X, X)
    numbers = np.arange(len(scores))
    return evaluate_ranking(
        lambda queries, _: scores[queries], numbers, y, seed=0
    ).mean_average_precision


def assert_close(found: FloatArray, expected: FloatArray, what: str = "") -> None:
    """Compare scores up to rounding, which is large for distances near 0."""
    atol = 1e-6 * max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=atol, err_msg=what)


def only(condition: bool, otherwise: str) -> None:
    """Skip a test if the condition is false."""
    if not condition:
        pytest.skip(otherwise)


def arrays_of(X: Any) -> list[Any]:
    """Return the arrays that items consist of."""
    return list(X.arrays()) if isinstance(X, Patches) else [X]


def in_two_parts(X: sparse.csr_array) -> sparse.csr_array:
    """Return equal rows that list each feature twice: the entries of a CSR are summed."""
    parts = np.repeat(X.data / 2, 2), np.repeat(X.indices, 2), 2 * X.indptr
    return sparse.csr_array(parts, shape=X.shape)


def check_bilinear_form(fitted: BilinearLearner, X: Any) -> None:
    """Compare `pair_score` with x'Wy."""
    x, y = X[:10], X[20:30]
    W = fitted.get_bilinear_matrix()
    pairs = np.stack([x, y], axis=1)
    np.testing.assert_allclose(fitted.pair_score(pairs), np.diag(x @ W @ y.T), rtol=1e-7)
    W[:] = 0
    assert fitted.bilinear_matrix_.any(), "get_bilinear_matrix must return a copy"


def check_embedding_form(fitted: EmbeddingLearner, X: Any) -> None:
    """Compare similarities with the distances of the embeddings."""
    embedded = fitted.transform(X)
    x, y = embedded[:10], embedded[20:30]
    distances = np.sqrt(((x[:, None] - y[None]) ** 2).sum(axis=2))
    assert_close(fitted.similarity(X[:10], X[20:30]), -distances)


def check_mahalanobis_form(fitted: MahalanobisLearner, X: Any) -> None:
    """Compare distances with (x - y)'M(x - y), and the embedding with them."""
    x, y = X[:10], X[20:30]
    pairs = np.stack([x, y], axis=1)
    squared = np.diag((x - y) @ fitted.get_mahalanobis_matrix() @ (x - y).T)
    np.testing.assert_allclose(fitted.pair_distance(pairs) ** 2, squared, rtol=1e-7)
    np.testing.assert_allclose(fitted.pair_score(pairs), -fitted.pair_distance(pairs))
    projected = fitted.transform(x) - fitted.transform(y)
    np.testing.assert_allclose((projected**2).sum(axis=1), squared, rtol=1e-7)
