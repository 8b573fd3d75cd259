"""Class subsets, outer partitions and inner folds: the protocol of JMLR 2010, section 5.3.2."""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold

from oasis_bench.data import LabelledRows
from oasis_bench.experiment.data_use import choose_classes
from oasis_bench.plugins import Registry
from oasis_bench.system import UsageError, derive_seed
from oasis_bench.tasks import NotSplittableError, SeenClassesSplit, draw_partition

N_TRAIN, N_TEST = 40, 25


def inner_folds(y, n_folds, seed):
    return SeenClassesSplit(None).inner_folds(y, None, n_folds, seed)


@pytest.fixture
def labels():
    """10 classes of 65 to 110 rows, mixed."""
    rng = np.random.default_rng(0)
    return rng.permutation(np.repeat(np.arange(10), np.arange(65, 115, 5)))


def test_a_partition_draws_40_and_25_images_of_each_class_and_no_other(labels):
    train, test, *_ = draw_partition(labels, [1, 4, 7], N_TRAIN, N_TEST, seed=0)
    for rows, n_rows in ((train, N_TRAIN), (test, N_TEST)):
        classes, counts = np.unique(labels[rows], return_counts=True)
        assert classes.tolist() == [1, 4, 7]
        assert set(counts) == {n_rows}
    assert not set(train) & set(test)


def test_partitions_of_other_seeds_differ_and_of_the_same_seed_do_not(labels):
    drawn = [set(draw_partition(labels, [2, 3], 40, 25, seed).test.tolist()) for seed in range(5)]
    assert len({frozenset(test) for test in drawn}) == 5
    again = draw_partition(labels, [2, 3], 40, 25, seed=4)
    assert set(again.test.tolist()) == drawn[4]


def test_every_image_is_as_likely_to_test(labels):
    # Class 9 has 110 images and 25 of them test: over 400 draws an image tests 90.9 times on
    # average, with a standard deviation of sqrt(400 * 25/110 * 85/110) = 8.4.
    times = np.zeros(len(labels))
    for seed in range(400):
        times[draw_partition(labels, [9], N_TRAIN, N_TEST, seed).test] += 1
    of_class = times[labels == 9]
    assert of_class.sum() == 400 * 25
    assert np.abs(of_class - of_class.mean()).max() < 5 * 8.4


def test_fewer_classes_are_among_more_classes_of_the_same_seed():
    counts = np.full(257, 80)
    chosen = {n: set(choose_classes(counts, n, 65, seed=5).tolist()) for n in (2, 10, 50, 249)}
    assert [len(classes) for classes in chosen.values()] == [2, 10, 50, 249]
    assert chosen[2] < chosen[10] < chosen[50] < chosen[249]
    assert choose_classes(counts, 10, 65, seed=6).tolist() != sorted(chosen[10])


def test_a_class_with_too_few_images_is_never_chosen():
    counts = np.full(20, 65)
    counts[::3] = 64
    chosen = {
        number for seed in range(50) for number in choose_classes(counts, 5, 65, seed).tolist()
    }
    assert chosen == set(np.flatnonzero(counts == 65).tolist())


@pytest.mark.parametrize("shuffled", [False, True])
def test_inner_folds_deal_32_and_8_images_of_each_class(labels, shuffled):
    train, *_ = draw_partition(labels, [1, 4, 7], N_TRAIN, N_TEST, seed=0)
    y = labels[np.random.default_rng(1).permutation(train) if shuffled else train]
    folds = inner_folds(y, 5, seed=0)
    assert len(folds) == 5
    for learn, validate, *_ in folds:
        assert {*np.bincount(y[learn])[[1, 4, 7]].tolist()} == {32}
        assert {*np.bincount(y[validate])[[1, 4, 7]].tolist()} == {8}
        assert sorted([*learn, *validate]) == list(range(120))


@pytest.mark.parametrize(("n_rows", "n_folds"), [(2, 2), (3, 2), (4, 2), (5, 2), (6, 5)])
def test_folds_of_few_rows_a_class_have_two_of_it_to_rank(n_rows, n_folds):
    """Of five rows and five folds each would have one; two rows can only be taken apart."""
    y = np.repeat(np.arange(10), n_rows)
    folds = inner_folds(y, 5, seed=0)
    assert len(folds) == n_folds
    assert sorted(np.concatenate([it.test for it in folds])) == list(range(len(y)))
    if n_rows > 3:
        assert all(np.bincount(y[it.test]).max() >= 2 for it in folds)
    with pytest.raises(NotSplittableError, match="no class has 2 training items"):
        inner_folds(np.arange(10), 5, seed=0)


def test_of_a_large_fold_3000_items_validate():
    y = np.arange(40_000) % 10
    folds = inner_folds(y, 5, seed=0)
    whole = StratifiedKFold(5, shuffle=True, random_state=0).split(y, y)
    for (learn, validate, *_), (learn_in_whole, validate_in_whole) in zip(
        folds, whole, strict=True
    ):
        assert learn.tolist() == learn_in_whole.tolist()
        assert len(set(validate)) == len(validate) == 3000
        assert set(validate) < set(validate_in_whole)
        # 300 of each class, with a deviation of 15, as for draws without repetition from 8000
        assert np.abs(np.bincount(y[validate]) - 300).max() < 5 * 15
    apart = Registry.load().splits["unseen-classes"](None).inner_folds(y, None, 5, seed=0)
    assert [len(validate) for _, validate, *_ in apart] == [3000] * 5
    assert [len(learn) for learn, *_ in apart] == [32_000] * 5


def test_a_seed_is_the_head_of_the_sha_256_of_its_names():
    # SHA-256 of '0' begins with 5feceb66 (FIPS 180-4); two names are told from one.
    assert derive_seed(0) == 0x5FECEB66
    joined = hashlib.sha256(b"0\0partition\0" + b"3").hexdigest()
    assert derive_seed(0, "partition", 3) == int(joined[:8], 16)
    assert derive_seed(1, 23) != derive_seed(12, 3)


def rows_of(*counts, **more):
    names = tuple(f"class {number}" for number in range(len(counts)))
    y = np.repeat(np.arange(len(counts)), counts)
    return LabelledRows(np.arange(2.0 * len(y)).reshape(-1, 2), y, names, **more)


SPLITS = Registry.load().splits
UnseenClassesSplit, StratifiedSplit = SPLITS["unseen-classes"], SPLITS["stratified"]


def asks(n_train=6, n_test=3, test_share=0.1):
    sizes = {"per_class": (n_train, n_test), "test_share": test_share}
    return SimpleNamespace(**sizes, most_items=None)


def test_rho_is_the_harmonic_mean_of_the_shares_that_train_and_test():
    """Hand cases: that of 6 and 3 is 4; of folds, which share no test item, the share is 1 / 3."""
    of_9, of_all = rows_of(9, 9, 9, 9, 9), range(5)
    assert SeenClassesSplit(asks()).rho(of_9, of_all, 0) == pytest.approx(4 / 9)
    of_many = rows_of(9, 90, 900)
    assert SeenClassesSplit(asks()).rho(of_many, range(3), 0) == pytest.approx(4 * 0.37 / 9)
    unseen = UnseenClassesSplit(asks())
    assert unseen.rho(of_9, of_all, 0) == pytest.approx(2.4 / 5)
    assert unseen.rho(of_many, range(3), 0) == pytest.approx(4 / 9)
    assert SeenClassesSplit(asks(2, 4)).rho(of_9, of_all, 0) == pytest.approx(4 / 9)
    assert UnseenClassesSplit(asks(9, 9)).rho(rows_of(9, 9), range(2), 0) == 0.5
    halves = StratifiedSplit(asks(test_share=0.5))
    assert halves.rho(rows_of(80, 20), range(2), 0) == pytest.approx(0.5)  # as Nadeau & Bengio
    assert StratifiedSplit(asks(test_share=0.2)).rho(rows_of(80, 20), range(2), 0) == 0.32
    folds = rows_of(6, 6, folds=np.tile([0, 1, 2], 4))
    assert SeenClassesSplit(asks()).for_rows(folds).rho(folds, range(2), 1) == pytest.approx(1 / 3)


@pytest.mark.parametrize(("n_pool", "n_classes"), [(9, 4), (30, 4), (200, 4)])
def test_partitions_of_simulated_items_correlate_by_rho(n_pool, n_classes):
    """An item has two values: a partition has means of its training and of its test items."""
    rng, rows = np.random.default_rng(0), rows_of(*[n_pool] * n_classes)
    split = SeenClassesSplit(asks())

    def result(of_training, of_test, partition, seed):
        drawn = split.draw(rows, range(n_classes), partition, seed)
        return of_training[drawn.train].mean() + of_test[drawn.test].mean()

    means = [
        [result(*pool, p, 2 * number + p) for p in (0, 1)]
        for number, pool in enumerate(rng.normal(size=(1500, 2, len(rows.y))))
    ]
    found = np.corrcoef(np.transpose(means))[0, 1]
    assert found == pytest.approx(split.rho(rows, range(n_classes), 0), abs=0.06)


def test_partitions_of_simulated_classes_correlate_by_the_share_that_is_unseen():
    rng, rows = np.random.default_rng(0), rows_of(*[60] * 8)
    split = UnseenClassesSplit(asks())
    means = [
        [of_class[rows.y[split.draw(rows, range(8), p, 2 * n + p).test]].mean() for p in (0, 1)]
        for n, of_class in enumerate(rng.normal(size=(1500, 8)))
    ]
    found = np.corrcoef(np.transpose(means))[0, 1]
    assert found == pytest.approx(split.rho(rows, range(8), 0), abs=0.06) == 0.5


def test_all_items_of_the_smallest_class_can_be_drawn_for_unseen_classes():
    """A class trains or tests, so it needs no items of both kinds."""
    counts = np.array([20, 30, 20, 25])
    rows, split = rows_of(*counts), UnseenClassesSplit(asks(20, 20))
    assert split.needed_per_class() == 20
    train, test = split.draw(rows, range(4), 0, 0)[:2]
    assert np.bincount(rows.y[np.concatenate([train, test])]).tolist() == [20] * 4


def test_replicates_are_disjoint_sets_of_classes_and_too_many_are_refused():
    counts = np.array([65] * 12 + [64] * 3)
    drawn = choose_classes(counts, 4, N_TRAIN + N_TEST, 0, 3)
    assert sorted(drawn) == list(range(12))
    np.testing.assert_array_equal(
        np.sort(drawn[:4]), choose_classes(counts, 4, N_TRAIN + N_TEST, 0)
    )
    with pytest.raises(UsageError, match="16 classes, and 12 of the 15 have 65 items: lower --rep"):
        choose_classes(counts, 4, N_TRAIN + N_TEST, 0, 4)


@pytest.mark.parametrize("name", ["stratified", "seen-classes"])
def test_a_label_budget_keeps_rows_of_each_class_and_a_larger_one_keeps_them_too(name):
    rows = rows_of(30, 40, 50, 20)
    split = Registry.load().splits[name](asks(10, 8, test_share=0.4))
    drawn = split.draw(rows, range(4), 0, 3)
    kept = {n: split.draw_within(n, rows, range(4), 0, 3) for n in (2, 5, 1000)}
    for n, part in kept.items():
        before = np.bincount(rows.y[drawn.train])
        np.testing.assert_array_equal(np.bincount(rows.y[part.train]), np.minimum(before, n))
        np.testing.assert_array_equal(part.test, drawn.test)
    assert set(kept[2].train) < set(kept[5].train) < set(kept[1000].train) == set(drawn.train)
    whole = split.draw_within(None, rows, range(4), 0, 3)
    np.testing.assert_array_equal(whole.train, drawn.train)


def test_a_label_budget_keeps_classes_where_those_that_test_are_new():
    rows = rows_of(*[12] * 14)
    split = UnseenClassesSplit(asks(10, 8))
    drawn = split.draw(rows, range(14), 0, 3)
    few, more = (split.draw_within(n, rows, range(14), 0, 3) for n in (3, 5))
    counts = np.bincount(rows.y[few.train])
    assert sorted(counts[counts > 0]) == [10] * 3
    assert len(np.unique(rows.y[more.train])) == 5
    assert set(few.train) < set(more.train) < set(drawn.train)
    np.testing.assert_array_equal(few.test, drawn.test)
