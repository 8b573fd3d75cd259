"""Local distance functions against their twins, SciPy, their equations and cases by hand."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from oasis_bench.algorithms import LocalDistances, LocalPatchDistances
from oasis_bench.algorithms.local_distances import _dual_ascent, solve
from oasis_bench.algorithms.local_distances._constraints import Constraints
from oasis_bench.algorithms.local_distances.local_distances import short_list
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


def test_a_huge_c_gives_the_hard_margin():
    rng = np.random.default_rng(0)
    distances = [rng.random((4, 5)) for _ in range(4)]
    triplets = [[0, 1, 2], [3, 1, 2], [1, 0, 3]]
    X = vectors(distances, triplets)
    weights, _ = solve(distances, triplets, 1e8, 1e-9)
    hard = minimize(
        lambda W: (W @ W / 2, W),
        np.ones(20),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * 20,
        constraints={"type": "ineq", "fun": lambda W: X @ W - 1, "jac": lambda W: X},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    np.testing.assert_allclose(np.concatenate(weights), hard.x, atol=1e-6)


def test_triplets_that_contradict_each_other_reach_the_bound():
    distances = [np.full((2, 1), 2.0)] * 2
    # (0, 0, 1) and (0, 1, 0): no weights hold both, W = 0 is best, and each loss is 1.
    weights, gap = solve(distances, [[0, 0, 1], [0, 1, 0]], 5.0, 1e-9)
    np.testing.assert_allclose(np.concatenate(weights), 0, atol=1e-6)
    assert gap <= 1e-9 * 10


def test_a_triplet_without_a_vector_only_costs():
    # j == k, and distances of 0: the loss is 1 whatever the weights.
    distances = [np.zeros((3, 2)), np.ones((3, 2)), np.zeros((3, 2))]
    weights, gap = solve(distances, [[1, 1, 1], [0, 0, 2]], 7.0, 1e-9)
    assert not np.concatenate(weights).any()
    assert gap == 0


def test_without_triplets_all_weights_are_0():
    weights, gap = solve([np.ones((2, 3)), np.ones((2, 5))], np.empty((0, 3), dtype=int), 1.0, 1e-6)
    assert [w.tolist() for w in weights] == [[0] * 3, [0] * 5]
    assert gap == 0


def test_an_image_in_no_triplet_has_weights_0():
    weights, _ = solve([np.ones((3, 2))] * 3, [[0, 0, 1]], 1.0, 1e-6)
    assert not weights[2].any()
    assert weights[1].all()


def test_one_triplet_is_solved_by_hand():
    # alpha = 1 / |X|^2 where W = [alpha X]_+ has W'X = 1: the positive's weights stay 0.
    distances = [np.array([[3.0, 1.0], [0, 0]]), np.array([[1.0, 2.0], [0, 0]])]
    weights, gap = solve(distances, [[0, 0, 1]], 10.0, 1e-12)
    np.testing.assert_allclose(np.concatenate(weights), [0, 0, 0.2, 0.4], rtol=1e-9)
    assert gap <= 1e-12


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, ">f8"])
def test_distances_may_be_of_any_type_and_read_only(dtype, tmp_path):
    distances, triplets = problem(0)
    distances = [array.astype(dtype) for array in distances]
    if np.dtype(dtype).itemsize == 4:
        for j, array in enumerate(distances):
            np.save(tmp_path / f"{j}.npy", array)
        distances = [np.load(tmp_path / f"{j}.npy", mmap_mode="r") for j in range(7)]
    for array in distances:
        array.flags.writeable = False
    weights, _ = solve(distances, triplets, 0.5, 1e-7)
    X = vectors([array.astype(np.float64) for array in distances], triplets)
    assert primal(X, np.concatenate(weights), 0.5) == pytest.approx(optimum(X, 0.5), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"C": 0}, "C is 0: give a finite number above 0"),
        ({"C": np.nan}, "C is nan"),
        ({"tol": -1.0}, "tol is -1.0"),
        ({"max_passes": 0}, "max_passes is 0"),
        ({"triplets": [[0, 1, 7]]}, "from 0 to 7: 0 to 6"),
        ({"triplets": [[-1, 1, 2]]}, "from -1 to 2"),
        ({"triplets": [[0.0, 1.0, 2.0]]}, "type float64"),
        ({"triplets": [[0, 1]]}, r"shape \(1, 2\)"),
        ({"distances": [np.ones((2, 3))]}, r"distances\[0\] has shape \(2, 3\)"),
        ({"distances": [np.ones((1, 3), dtype=complex)]}, "type complex128"),
        ({"distances": [np.array([[1.0, np.nan]])]}, "from nan to nan"),
        ({"distances": [np.array([[1.0, -0.5]])]}, "from -0.5 to 1.0"),
        ({"distances": []}, "0 images"),
    ],
)
def test_what_cannot_be_solved_is_refused(change, message):
    distances, triplets = problem(0)
    given = {"distances": distances, "triplets": triplets, "C": 1.0, "tol": 1e-3, **change}
    with pytest.raises(UsageError, match=message):
        solve(**given)


def test_too_few_passes_are_told():
    with pytest.warns(ConvergenceWarning, match="after 2 passes, above tol=1e-09"):
        _, gap = solve(*problem(0), 1.0, 1e-9, max_passes=2)
    assert gap > 0


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


def test_the_solution_is_the_same_on_any_number_of_threads(monkeypatch):
    monkeypatch.setattr(_dual_ascent, "GROUP_NUMBERS", 1)
    found = []
    for n_threads in (1, 2, 3):
        monkeypatch.setattr(_dual_ascent, "blas_threads", lambda n=n_threads: n)
        ascent = _dual_ascent.DualAscent(classes()[0], 0.1, np.random.default_rng(0))
        for _ in range(5):
            ascent.visit_groups()
        found.append((ascent.alphas, ascent.U))
    for other in found[1:]:
        np.testing.assert_array_equal(other[0], found[0][0])
        np.testing.assert_array_equal(other[1], found[0][1])


@pytest.mark.parametrize("n_threads", [1, 2, 3])
def test_a_visit_is_the_row_actions_on_the_model_of_a_group(n_threads, monkeypatch):
    monkeypatch.setattr(_dual_ascent, "GROUP_NUMBERS", 1)
    monkeypatch.setattr(_dual_ascent, "blas_threads", lambda: n_threads)
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
            monkeypatch.setattr("oasis_bench.system.work.blas_threads", lambda n=n_threads: n)
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


def test_consistent_weights_beat_independent_ones():
    # Section 1 of the paper: distances from different items can be compared.
    X, y = load_digits(return_X_y=True)
    train = np.arange(len(y)) % 15 == 0
    correct = []
    for consistent in (True, False):
        learned = LocalDistances(C=0.01, consistent=consistent, random_state=0)
        learned.fit(X[train] / 16, y[train])
        nearest = learned.similarity_to_training(X[~train] / 16).argmax(axis=1)
        correct.append((y[train][nearest] == y[~train]).mean())
    assert correct[0] > correct[1]
    assert correct[0] > 0.85


def test_a_class_of_one_and_one_class_alone_are_learned_from():
    X, y = digit_rows()
    alone = LocalDistances(random_state=0).fit(X[:5], y[:5])
    assert alone.n_triplets_ == 0
    np.testing.assert_array_equal(alone.weights_, np.ones((5, 64)))
    few = LocalDistances(random_state=0).fit(X[:16], y[:16])  # one row of the second class
    assert few.n_triplets_ > 0
    assert np.isfinite(few.similarity_to_training(X)).all()


def test_a_stop_by_growth_is_earlier():
    X, y = digit_rows()
    early, late = (
        LocalDistances(C=0.3, tol=1e-9, least_growth=growth, max_passes=60, random_state=0)
        for growth in (1e-3, 0)
    )
    early.fit(X, y)
    with pytest.warns(ConvergenceWarning, match="max_passes=60"):
        late.fit(X, y)
    assert early.n_passes_ < late.n_passes_ == 60
    growth = np.diff(early.duals_) / early.duals_[1:]
    assert growth[-1] < 1e-3 <= growth[:-1].min()


def test_a_model_can_be_saved(tmp_path):
    X, y = digit_rows()
    learned = LocalDistances(random_state=0).fit(X, y)
    save_model(learned, tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(
        loaded.similarity_to_training(X), learned.similarity_to_training(X)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert loaded.C_ == learned.C_


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


def test_learners_of_other_kinds_share_the_distances_that_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path))
    patches, y = digit_items("patches")
    few, y = patches[::4], y[::4]
    learner = LocalPatchDistances(C=0.1, random_state=0, keep=True).fit(few, y)
    learner.similarity_to_training(patches[1::4])
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")}
    for kind in few.kinds:
        one = LocalPatchDistances(C=0.1, random_state=0, keep=True, kinds=kind).fit(few, y)
        one.similarity_to_training(patches[1::4])
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.npy")} == before


@pytest.mark.parametrize("keep", [False, True])
def test_a_fit_on_pictures_tells_how_far_it_is(keep, tmp_path, monkeypatch):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path))
    monkeypatch.setattr("oasis_bench.algorithms.local_distances.local_patch_distances.PICTURES", 4)
    patches, y = digit_items("patches")
    few, y = patches[::6], y[::6]
    told = []
    learner = LocalPatchDistances(C=0.1, random_state=0, keep=keep)
    learner.fit(few, y, progress=lambda *step: told.append(step))
    passes = [("passes", n + 1, None) for n in range(learner.n_passes_)]
    assert learner.n_passes_ > 1
    assert told[-learner.n_passes_ :] == passes
    before = told[: -learner.n_passes_]
    total = 10 * (len(few.kinds) if keep else 1)
    assert {(what, total) for what, _, total in before} == {("distances between patches", total)}
    done = [n for _, n, _ in before]
    assert done == sorted(set(done))
    assert done[-1] == total
    assert keep or len(done) >= 3  # after each part of 4 exemplars at least


def test_kinds_of_patches_can_be_chosen():
    patches, y = digit_items("patches")
    few, y = patches[::4], y[::4]
    block = Patches({"block": few.kinds["block"]})
    of_block = LocalPatchDistances(C=0.1, random_state=0).fit(block, y)
    chosen = LocalPatchDistances(C=0.1, random_state=0, kinds="block").fit(few, y)
    np.testing.assert_array_equal(
        chosen.similarity_to_training(few), of_block.similarity_to_training(block)
    )
    with pytest.raises(UsageError, match="unknown kind of patches 'blocks': did you mean 'block'"):
        LocalPatchDistances(kinds="blocks").fit(few, y)


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


def test_as_many_components_as_numbers_change_nothing():
    patches, y = digit_items("patches")
    few, y = patches[::4], y[::4]
    plain = LocalPatchDistances(C=0.1, random_state=0).fit(few, y)
    same = LocalPatchDistances(C=0.1, random_state=0, n_components=1000).fit(few, y)
    np.testing.assert_array_equal(
        same.similarity_to_training(few), plain.similarity_to_training(few)
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
