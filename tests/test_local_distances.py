"""Local distance functions against their twins, SciPy, their equations and cases by hand."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA

from oasis_bench.algorithms import (
    LocalDistances,
    LocalPatchDistances,
    _dual_ascent,
    local_distances,
)
from oasis_bench.algorithms._dual_ascent import Constraints
from oasis_bench.algorithms.local_distances import short_list, solve
from oasis_bench.algorithms.local_patch_distances import located, projected
from oasis_bench.data import Patches, PatchKind
from oasis_bench.plugins import digit_items, digit_rows, load_model, save_model
from oasis_bench.system import UsageError


def vectors(distances, triplets):
    """X_ijk of each triplet (Frome et al. 2007, section 4), one row each."""
    starts = np.cumsum([0, *(array.shape[1] for array in distances)])
    X = np.zeros((len(triplets), starts[-1]))
    for row, (i, j, k) in zip(X, triplets, strict=True):
        row[starts[k] : starts[k + 1]] += distances[k][i]
        row[starts[j] : starts[j + 1]] -= distances[j][i]
    return X


def primal(X, W, C):
    return W @ W / 2 + C * np.maximum(0, 1 - X @ W).sum()


def optimum(X, C):
    """The largest value of the dual, by L-BFGS-B."""

    def negative_dual(alphas):
        W = np.maximum(X.T @ alphas, 0)
        return W @ W / 2 - alphas.sum(), X @ W - 1

    options = {"maxiter": 50_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-11}
    found = minimize(
        negative_dual, np.zeros(len(X)), jac=True, bounds=[(0, C)] * len(X), options=options
    )
    return -found.fun


def problem(seed, n_triplets=40):
    """Random distances of 2 to 6 features an image, and triplets, some of them twice."""
    rng = np.random.default_rng(seed)
    distances = [rng.random((7, rng.integers(2, 7))) for _ in range(7)]
    triplets = rng.integers(0, 7, (n_triplets, 3))
    return distances, np.concatenate([triplets, triplets[:5]])


@pytest.mark.parametrize("C", [1e-5, 0.1, 3.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_primal_is_the_optimum_of_another_solver(seed, C):
    distances, triplets = problem(seed)
    X = vectors(distances, triplets)
    weights, gap = solve(distances, triplets, C, 1e-7)
    assert [len(w) for w in weights] == [array.shape[1] for array in distances]
    found = primal(X, np.concatenate(weights), C)
    assert found == pytest.approx(optimum(X, C), rel=1e-6)
    assert 0 <= gap <= 1e-7 * found
    assert min(np.concatenate(weights)) >= 0


def test_triplets_that_contradict_each_other_reach_the_bound():
    distances = [np.full((2, 1), 2.0)] * 2
    # (0, 0, 1) and (0, 1, 0): no weights hold both, W = 0 is best, and each loss is 1.
    weights, gap = solve(distances, [[0, 0, 1], [0, 1, 0]], 5.0, 1e-9)
    np.testing.assert_allclose(np.concatenate(weights), 0, atol=1e-6)
    assert gap <= 1e-9 * 10


def test_one_triplet_is_solved_by_hand():
    # alpha = 1 / |X|^2 where W = [alpha X]_+ has W'X = 1: the positive's weights stay 0.
    distances = [np.array([[3.0, 1.0], [0, 0]]), np.array([[1.0, 2.0], [0, 0]])]
    weights, gap = solve(distances, [[0, 0, 1]], 10.0, 1e-12)
    np.testing.assert_allclose(np.concatenate(weights), [0, 0, 0.2, 0.4], rtol=1e-9)
    assert gap <= 1e-12


def classes(n=24, seed=0, consistent=True, n_nearest=2, dtype=np.float64):
    """Constraints of three classes, with a pruned list for each exemplar, and the triplets."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    whole = [rng.random((n, 4 + j % 3)).astype(dtype) for j in range(n)]
    lists = [short_list(array, j, n_nearest) for j, array in enumerate(whole)]
    kept = [array[rows] for array, rows in zip(whole, lists, strict=True)]
    constraints = Constraints.of_classes(kept, lists, y, consistent)
    return constraints, whole, lists, y


def named_triplets(constraints, lists):
    """The pairs (exemplar, reference) of each triplet's negative and positive, in their order."""
    pairs = [
        (j, lists[j][row]) for j, row in zip(constraints.exemplars, constraints.rows, strict=True)
    ]
    return [
        (pairs[k], pairs[constraints.positives[q]])
        for n, k in enumerate(constraints.negatives)
        for q in range(constraints.first[n], constraints.last[n])
    ]


@pytest.mark.parametrize("consistent", [True, False])
def test_triplets_are_all_pairs_of_a_group(consistent):
    constraints, _, lists, y = classes(consistent=consistent)
    pairs = [(j, i) for j, near in enumerate(lists) for i in near]
    shared = 1 if consistent else 0
    expected = {
        (negative, positive)
        for negative in pairs
        for positive in pairs
        if negative[shared] == positive[shared]
        and y[negative[0]] != y[negative[1]]
        and y[positive[0]] == y[positive[1]]
    }
    found = named_triplets(constraints, lists)
    assert len(found) == len(set(found)) == constraints.n_triplets
    assert set(found) == expected


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_row_actions_are_those_of_the_paper(consistent, dtype):
    constraints, whole, lists, _ = classes(consistent=consistent, dtype=dtype)
    starts, C = constraints.starts, 0.1
    X = np.zeros((constraints.n_triplets, starts[-1]))
    named = named_triplets(constraints, lists)
    for row, ((k, of_k), (j, of_j)) in zip(X, named, strict=True):
        row[starts[k] : starts[k + 1]] += whole[k][of_k]
        row[starts[j] : starts[j + 1]] -= whole[j][of_j]
    ascent = _dual_ascent.DualAscent(constraints, C, np.random.default_rng(0))
    twin, alphas = np.random.default_rng(0), np.zeros(len(X))
    for _ in range(3):
        mean_loss, losses = ascent.take_row_actions(), []
        for g in twin.permutation(constraints.n_groups):
            for n in np.flatnonzero(constraints.groups == g):
                start = constraints.first_alpha[n]
                for t in range(start, start + constraints.last[n] - constraints.first[n]):
                    W = np.maximum(X.T @ alphas, 0)
                    losses.append(max(0, 1 - W @ X[t]))
                    step = (1 - W @ X[t]) / (X[t] @ X[t])
                    alphas[t] = np.clip(alphas[t] + step, 0, C)
        np.testing.assert_allclose(ascent.alphas, alphas, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ascent.U, X.T @ alphas, rtol=1e-9, atol=1e-10)
        assert mean_loss == pytest.approx(np.mean(losses))
        W = np.maximum(X.T @ alphas, 0)
        assert ascent.dual() == pytest.approx(alphas.sum() - W @ W / 2)
        assert ascent.primal(W) == pytest.approx(primal(X, W, C))


def use_threads(n_threads, monkeypatch):
    for module in ("algorithms._dual_ascent", "system.work"):
        monkeypatch.setattr(f"oasis_bench.{module}.n_blas_threads", lambda: n_threads)


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_a_visit_is_the_row_actions_on_the_model_of_a_group(n_threads, monkeypatch):
    monkeypatch.setattr(_dual_ascent, "GROUP_NUMBERS", 1)
    use_threads(n_threads, monkeypatch)
    constraints, whole, lists, _ = classes()
    named, C = named_triplets(constraints, lists), 0.1
    ascent = _dual_ascent.DualAscent(constraints, C, np.random.default_rng(0))
    twin, alphas = np.random.default_rng(0), np.zeros(len(named))
    u = [np.zeros(array.shape[1]) for array in whole]
    for _ in range(3):
        ascent.visit_groups()
        for g in twin.permutation(constraints.n_groups):
            members = [t for t, (negative, _) in enumerate(named) if negative[1] == g]
            exemplars = {j for t in members for j, _ in named[t]}
            d = {j: whole[j][g] for j in exemplars}
            products = {j: np.maximum(u[j], 0) @ d[j] for j in exemplars}
            bend = {j: max((d[j] ** 2)[u[j] > 0].sum(), 0.01 * d[j] @ d[j]) for j in exemplars}
            moves, before = dict.fromkeys(exemplars, 0.0), alphas.copy()
            for t in members:
                k, j = named[t][0][0], named[t][1][0]
                step = (1 - products[k] + products[j]) / (bend[k] + bend[j])
                step = np.clip(alphas[t] + step, 0, C) - alphas[t]
                alphas[t] += step
                products[k] += step * bend[k]
                products[j] -= step * bend[j]
                moves[k] += step
                moves[j] -= step
            share = 1.0
            while True:  # half of the way back, while the dual would be lower than before
                gained = (alphas - before).sum() - sum(
                    (np.maximum(u[j] + share * moves[j] * d[j], 0) ** 2).sum() / 2
                    - (np.maximum(u[j], 0) ** 2).sum() / 2
                    for j in exemplars
                )
                if gained >= 0:
                    break
                share /= 2
                alphas = (alphas + before) / 2
            for j in exemplars:
                u[j] += share * moves[j] * d[j]
        np.testing.assert_allclose(ascent.alphas, alphas, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(ascent.U, np.concatenate(u), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("consistent", [True, False])
def test_the_dual_never_falls_and_the_gap_closes(consistent):
    constraints, *_ = classes(consistent=consistent, n_nearest=None)
    ascent = _dual_ascent.DualAscent(constraints, 0.3, np.random.default_rng(0))
    found = _dual_ascent.maximise(ascent, 1e-6, 0.0, 10_000)
    assert min(np.diff(found.duals)) > -1e-12 * found.duals[-1]
    assert found.is_within(1e-6)
    assert ascent.primal(found.weights) == found.primal


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch):
    monkeypatch.setattr(_dual_ascent, "PART_NUMBERS", 64)
    answers = []
    for n_threads in (1, 3):
        for consistent in (True, False):
            use_threads(n_threads, monkeypatch)
            constraints, *_ = classes(consistent=consistent)
            ascent = _dual_ascent.DualAscent(constraints, 0.3, np.random.default_rng(0))
            answers.append(_dual_ascent.maximise(ascent, 1e-6, 0.0, 30).weights)
    np.testing.assert_array_equal(answers[0], answers[2])
    np.testing.assert_array_equal(answers[1], answers[3])


def test_the_chosen_c_is_that_of_the_least_mean_loss_of_one_pass():
    constraints, *_ = classes(seed=3)
    losses = {
        e: _dual_ascent.DualAscent(
            constraints, 10 ** (e / 2), np.random.default_rng(7)
        ).take_row_actions()
        for e in range(-8, 9)
    }
    best = min(losses, key=lambda e: (losses[e], e))
    found = _dual_ascent.choose_by_one_pass(constraints, 7)
    half_orders = 2 * np.log10(found.C)
    assert half_orders == pytest.approx(best)


def test_the_short_list_has_the_nearest_of_each_feature():
    rng = np.random.default_rng(0)
    distances = rng.random((9, 4))
    expected = set()
    for m in range(4):
        order = [i for i in np.argsort(distances[:, m]) if i != 3]
        expected |= set(order[:2])
    assert set(short_list(distances, 3, 2)) == expected
    assert short_list(distances, 3, None).tolist() == [0, 1, 2, 4, 5, 6, 7, 8]


def test_a_row_s_similarity_is_its_weighted_distance_to_each_training_row():
    X, y = digit_rows()
    learned = LocalDistances(random_state=0).fit(X[::2], y[::2])
    expected = [
        [-(w * np.abs(x - q)).sum() for x, w in zip(X[::2], learned.weights_, strict=True)]
        for q in X[1::2]
    ]
    np.testing.assert_allclose(learned.similarity_to_training(X[1::2]), expected, atol=1e-12)


@pytest.mark.parametrize("consistent", [True, False])
def test_what_was_learned_is_the_solution_of_its_triplets(consistent):
    X, y = digit_rows()
    learned = LocalDistances(
        C=0.5, tol=1e-4, least_growth=0, n_nearest=None, consistent=consistent, random_state=0
    ).fit(X[::3], y[::3])
    X, y = X[::3], y[::3]
    W, C, losses = np.array(learned.weights_), learned.C_, []
    D = np.array([np.abs(X - x) @ w for x, w in zip(X, W, strict=True)])  # D[j, i]
    for a in range(len(X)):  # the reference; in the form of 2006 the exemplar
        D_a = D[:, a] if consistent else D[a]
        same = np.delete(D_a, a)[np.delete(y == y[a], a)]
        losses.append(np.maximum(0, 1 - D_a[y != y[a]][:, None] + same).sum())
    value = (W**2).sum() / 2 + C * sum(losses)
    assert learned.primal_ == pytest.approx(value, rel=1e-5)  # distances are kept in float32
    assert 0 <= learned.gap_ <= 1e-4 * value
    assert learned.duals_[-1] == pytest.approx(learned.primal_ - learned.gap_)
    assert learned.zero_share_ == np.mean(W == 0) > 0


def set_distance(exemplar, picture):
    """d_ji of one pair by its definition."""
    return np.concatenate([cdist(exemplar[kind], picture[kind]).min(axis=1) for kind in exemplar])


def test_pictures_are_at_the_weighted_distances_of_their_patches():
    patches, y = digit_items("patches")
    train, test = np.arange(0, 60, 4), np.arange(1, 60, 9)
    learned = LocalPatchDistances(C=0.1, random_state=0).fit(patches[train], y[train])
    assert any((w == 0).any() and w.any() for w in learned.weights_)
    exemplars = list(patches[train])
    assert [len(w) for w in learned.weights_] == [
        len(exemplar["block"]) + len(exemplar["corner"]) for exemplar in exemplars
    ]
    expected = [
        [
            -w @ set_distance(exemplar, picture)
            for exemplar, w in zip(exemplars, learned.weights_, strict=True)
        ]
        for picture in patches[test]
    ]
    np.testing.assert_allclose(
        learned.similarity_to_training(patches[test]), expected, rtol=1e-4, atol=1e-5
    )


def test_weights_of_pictures_are_those_that_solve_their_triplets():
    patches, y = digit_items("patches")
    train = np.arange(0, 60, 5)
    pictures, y = list(patches[train]), y[train]
    learned = LocalPatchDistances(C=0.05, tol=1e-6, least_growth=0, n_nearest=None, random_state=0)
    learned.fit(patches[train], y)
    distances = [np.array([set_distance(a, b) for b in pictures]) for a in pictures]
    triplets = [
        (i, j, k)
        for i in range(12)
        for j in range(12)
        for k in range(12)
        if i != j and y[i] == y[j] != y[k]
    ]
    X = vectors(distances, triplets)
    found = primal(X, np.concatenate(learned.weights_), 0.05)
    assert found == pytest.approx(optimum(X, 0.05), rel=1e-4)


def test_distances_of_pictures_kept_in_the_cache_give_the_same_weights(tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path))
    patches, y = digit_items("patches")
    few, y = patches[::4], y[::4]
    plain = LocalPatchDistances(C=0.1, random_state=0).fit(few, y)
    kept = LocalPatchDistances(C=0.1, random_state=0, keep=True)
    for _ in range(2):  # the second reads them
        kept.fit(few, y)
        for a, b in zip(plain.weights_, kept.weights_, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)
    assert len(list(tmp_path.rglob("*.npy"))) == len(few) * len(few.kinds)
    queries = patches[1::4]
    for _ in range(2):
        np.testing.assert_allclose(
            kept.similarity_to_training(queries), plain.similarity_to_training(queries), rtol=1e-3
        )


def test_fewer_components_are_the_distances_of_scikit_learn_s_principal_components(tmp_path):
    patches, y = digit_items("patches")
    few, rest, y = patches[::4], patches[1::8], y[::4]
    widths = {name: kind.descriptors.shape[1] for name, kind in few.kinds.items()}
    n = min(widths.values())  # kinds of so many numbers stay as they are
    assert n < max(widths.values())
    learned = LocalPatchDistances(C=0.1, random_state=0, n_components=n).fit(few, y)
    models = {
        name: PCA(n, svd_solver="full").fit(kind.descriptors)
        for name, kind in few.kinds.items()
        if widths[name] > n
    }
    assert set(learned.directions_) == set(models)

    def mapped(picture):
        return {k: models[k].transform(v) if k in models else v for k, v in picture.items()}

    expected = [
        [
            -w @ set_distance(mapped(exemplar), mapped(picture))
            for exemplar, w in zip(few, learned.weights_, strict=True)
        ]
        for picture in rest
    ]
    found = learned.similarity_to_training(rest)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    save_model(learned, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.similarity_to_training(rest), found)
    name = next(iter(models))
    kind = rest.kinds[name]
    short = PatchKind(kind.descriptors[:, :n].copy(), kind.offsets, kind.positions)
    with pytest.raises(UsageError, match=f"{name!r} with {n} numbers: {widths[name]} are needed"):
        learned.similarity_to_training(Patches({**rest.kinds, name: short}))
    more = Patches({"extra": kind, **rest.kinds})
    np.testing.assert_array_equal(learned.similarity_to_training(more), found)


@pytest.mark.parametrize("n_components", [None, 3])
def test_locations_add_their_squared_distance_times_the_variance(n_components, tmp_path):
    patches, y = digit_items("patches")
    few, rest, y = patches[::4], patches[1::8], y[::4]
    options = {"C": 0.1, "random_state": 0, "n_components": n_components}
    learned = LocalPatchDistances(location_weight=0.3, **options).fit(few, y)
    elsewhere = {
        name: PatchKind(kind.descriptors, kind.offsets, 2 * kind.positions + 7)
        for name, kind in rest.kinds.items()
    }
    queries, directions = rest, learned.directions_
    few, rest = (projected(some, directions) for some in (few, rest))
    variances = {name: kind.descriptors.var(axis=0).sum() for name, kind in few.kinds.items()}

    def with_places(patches):
        for number in range(len(patches)):
            picture = {}
            for name, kind in patches[[number]].kinds.items():
                places = kind.positions - kind.positions.mean(axis=0)
                places /= np.sqrt((np.linalg.norm(places, axis=1) ** 2).mean())
                places *= np.sqrt(0.3 * variances[name])
                picture[name] = np.hstack([kind.descriptors, places])
            yield picture

    expected = [
        [
            -w @ set_distance(exemplar, picture)
            for exemplar, w in zip(with_places(few), learned.weights_, strict=True)
        ]
        for picture in with_places(rest)
    ]
    found = learned.similarity_to_training(queries)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    save_model(learned, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.similarity_to_training(queries), found)
    np.testing.assert_allclose(
        learned.similarity_to_training(Patches(elsewhere)), found, rtol=1e-4, atol=1e-5
    )
    with pytest.raises(UsageError, match="unknown kind of patches 'corner'"):
        learned.similarity_to_training(Patches({"block": queries.kinds["block"]}))


def test_the_only_patch_of_a_picture_is_at_the_origin():
    one = PatchKind.joined([np.array([[3.0]])], [np.array([[40.0, 7.0]])])
    kind = located(Patches({"spot": one}), {"spot": 2.0}).kinds["spot"]
    np.testing.assert_array_equal(kind.descriptors, [[3, 0, 0]])


@pytest.mark.parametrize(("C", "n_bytes"), [(0.1, 32), (None, 64)])
def test_triplets_need_memory_too(C, n_bytes, monkeypatch):
    X, y = digit_rows()
    needed = {}
    monkeypatch.setattr(
        local_distances, "require_memory", lambda size, what, _: needed.update({what: size})
    )
    learned = LocalDistances(C, random_state=0).fit(X[:40], y[:40])
    assert needed[f"LocalDistances on {learned.n_triplets_:,} triplets"] == (
        n_bytes * learned.n_triplets_
    )


@pytest.mark.parametrize("learner", [LocalDistances, LocalPatchDistances])
def test_no_pass_leaves_all_weights_1(learner):
    X, y = digit_items(learner.takes)
    plain = learner(max_passes=0).fit(X[:6], y[:6])
    assert all((w == 1).all() for w in plain.weights_)
    expected = [
        [
            -(np.abs(a - b).sum() if learner is LocalDistances else set_distance(a, b).sum())
            for a in list(X[:6])
        ]
        for b in list(X[6:9])
    ]
    np.testing.assert_allclose(plain.similarity_to_training(X[6:9]), expected, rtol=1e-5)


def test_nothing_is_left_of_an_earlier_fit_and_weights_of_1_are_saved(tmp_path):
    X, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    learner = LocalDistances(0.1, random_state=0).fit(X, y)
    assert learner.n_passes_ > 0
    learner.set_params(max_passes=0).fit(X, y)
    assert not hasattr(learner, "duals_")
    save_model(learner, tmp_path / "m.npz")
    same = load_model(tmp_path / "m.npz").similarity_to_training(X)
    np.testing.assert_array_equal(same, learner.similarity_to_training(X))
