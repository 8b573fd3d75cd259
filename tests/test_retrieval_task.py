"""The retrieval task's measures against scikit-learn and formulas, its chances by enumeration."""

from itertools import combinations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import ndcg_score
from test_measures import LABELS, SCORES

from oasis_bench.tasks import Retrieval, Truth, ranking, tie_order
from oasis_bench.tasks.classification import Classification
from oasis_bench.tasks.judged_tasks import JudgedTripletsTask
from oasis_bench.tasks.retrieval import RetrievalFromTraining


def table(scores):
    """Return the similarity that looks rows up by the number that they hold, and these rows."""
    return lambda q, g: scores[np.ix_(q[:, 0], g[:, 0])], np.arange(len(scores))[:, None]


def ask(scores, y, seed=0, measures=None):
    similarity, X = table(np.asarray(scores))
    return Retrieval().evaluate(Truth(y=y), similarity, X, seed, measures=measures)


def by_name(evaluation):
    return {(m.measure, m.k): m for m in evaluation.measurements()}


def written_out(hits):
    """Return each measure of one ranking of hits, straight from its formula."""
    hits = np.asarray(hits, dtype=float)
    R, ranks = int(hits.sum()), np.arange(1, len(hits) + 1)
    precision = hits.cumsum() / ranks
    gains, ideal = hits / np.log2(ranks + 1), np.sort(hits)[::-1] / np.log2(ranks + 1)
    return {
        ("mAP", None): (precision * hits).sum() / R,
        ("R-precision", None): precision[R - 1],
        ("MAP@R", None): (precision * hits)[:R].sum() / R,
        ("nDCG", None): gains.sum() / ideal.sum(),
        **{("precision", k): precision[k - 1] for k in ranks[:50]},
        **{("recall", k): float(hits[:k].any()) for k in (1, 2, 4, 8) if k <= len(hits)},
    }


def rankings(scores, y):
    """Return the hits down each query's ranking, for scores without ties."""
    orders = (np.argsort(-row) for row in scores)
    return [(y[o[o != i]] == y[i]) for i, o in enumerate(orders)]


@pytest.mark.parametrize("several", [False, True])
def test_training_items_are_ranked_without_the_query(several):
    rng = np.random.default_rng(1)
    y, training = rng.integers(8, size=40), np.append(rng.integers(8, size=90), 99)
    scores = rng.normal(size=(40, 91)).astype(np.float32)
    expected = [written_out(training[np.argsort(-row)] == y[i]) for i, row in enumerate(scores)]
    labels = [y, training]
    if several:  # one each, as relevance
        labels = [sparse.csr_array(np.eye(100)[one]) for one in labels]
    found = by_name(
        RetrievalFromTraining().evaluate(
            Truth(y=labels[0], training=labels[1]),
            lambda q, g: scores[np.ix_(q[:, 0], g[:, 0])],
            np.arange(40)[:, None],
            seed=0,
            training=np.arange(91)[:, None],
        )
    )
    assert found.keys() == expected[0].keys()
    for key in found:
        mean = np.mean([of_query[key] for of_query in expected])
        assert found[key].value == pytest.approx(mean, rel=1e-12), key
    shares = [(training == one).mean() for one in y]
    assert found["precision", 10].chance == pytest.approx(np.mean(shares))


def test_each_measure_is_the_mean_of_its_formula():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(8, size=70), rng.normal(size=(70, 70))
    expected = [written_out(hits) for hits in rankings(scores, y)]
    found = by_name(ask(scores, y))
    assert found.keys() == expected[0].keys()
    for key in found:
        mean = np.mean([of_query[key] for of_query in expected])
        assert found[key].value == pytest.approx(mean, rel=1e-12), key


def test_ndcg_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    y, scores = rng.integers(5, size=40), rng.normal(size=(40, 40))
    others = ~np.eye(40, dtype=bool)
    relevance = (y[:, None] == y)[others].reshape(40, 39)
    expected = ndcg_score(relevance, scores[others].reshape(40, 39))
    assert ask(scores, y).value("nDCG") == pytest.approx(expected, rel=1e-12)


def test_the_hand_case_has_these_measures():
    # Hits, as in tests/test_measures.py: + - - + | - + + - | + + - - | - - - + | - + - -
    found = ask(SCORES, LABELS)
    assert found.value("R-precision") == pytest.approx((1 / 2 + 1 / 2 + 1 + 0 + 0) / 5)
    assert found.value("MAP@R") == pytest.approx((1 / 2 + 1 / 4 + 1 + 0 + 0) / 5)
    assert [found.value("recall", k) for k in (1, 2, 4)] == [2 / 5, 4 / 5, 1]
    first, second, third, fourth = 1 / np.log2([2, 3, 4, 5])
    best = first + second
    gains = [(first + fourth) / best, (second + third) / best, 1, fourth / first, second / first]
    assert found.value("nDCG") == pytest.approx(np.mean(gains))


@pytest.mark.parametrize(("n_relevant", "n_ranked"), [(1, 1), (1, 6), (3, 8), (8, 8), (5, 11)])
def test_chance_is_the_mean_over_all_orders(n_relevant, n_ranked):
    orders = [
        written_out(np.isin(np.arange(n_ranked), chosen))
        for chosen in combinations(range(n_ranked), n_relevant)
    ]
    # One query with n_relevant others of its class; those of other classes are alone in them.
    y = np.array([0] * (n_relevant + 1) + list(range(1, n_ranked - n_relevant + 1)))
    found = by_name(ask(np.zeros((n_ranked + 1, n_ranked + 1)), y))
    assert found.keys() == orders[0].keys()
    for key in found:
        mean = np.mean([order[key] for order in orders])
        assert found[key].chance == pytest.approx(mean, rel=1e-12), key


def test_blocks_in_any_order_give_the_same_measures(monkeypatch):
    rng = np.random.default_rng(3)
    y = np.concatenate([rng.integers(6, size=40), [77]])  # the last has no relevant other
    scores = rng.integers(9, size=(41, 41)).astype(np.float32)  # ties
    whole = ask(scores, y)
    assert (whole.n_queries, whole.n_left_out) == (40, 1)
    monkeypatch.setattr(ranking, "PART_SCORES", 3 * 41)
    blocks = Retrieval().evaluation(Truth(y=y), tie_order(0, 41))
    for start, stop in ((30, 41), (0, 7), (7, 30)):
        blocks.add(start, scores[start:stop])
    assert blocks.measurements() == whole.measurements()


@pytest.mark.parametrize(
    ("task", "text", "expected"),
    [
        (Retrieval, "mAP", ("mAP", None)),
        (Retrieval, "MAP@R", ("MAP@R", None)),
        (Retrieval, "precision@10", ("precision", 10)),
        (Classification, "accuracy", ("accuracy", 1)),
        (Classification, "mean recognition@5", ("mean recognition", 5)),
        (JudgedTripletsTask, "score at top K", ("score at top K", 30)),
    ],
)
def test_a_measure_is_read_with_its_k(task, text, expected):
    assert task.parse_measure(text) == expected


def test_values_need_the_scores_of_all_queries():
    found = Retrieval().evaluation(Truth(y=LABELS), tie_order(0, 5))
    found.add(0, SCORES[:2])
    found.add(4, SCORES[4:])
    for read in (found.measurements, lambda: found.value("mAP")):
        with pytest.raises(ValueError, match="the scores of 2 of 5 queries are missing"):
            read()
    found.add(2, SCORES[2:4])
    assert found.measurements() == ask(SCORES, LABELS).measurements()
