"""Rows in groups: no group crosses training, test or inner folds, and none ranks its own rows."""

import os
import re
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from oasis_bench.command_line import main
from oasis_bench.data import LabelledRows
from oasis_bench.datasets import ManyClasses, TableFile
from oasis_bench.plugins import Registry
from oasis_bench.runs import read_run
from oasis_bench.system import UsageError
from oasis_bench.tasks import Retrieval, Truth, rank_others
from oasis_bench.tasks.groups import deal_groups
from oasis_bench.tasks.verification import pairs_of_labels

SPLITS = Registry.load().splits
SETTINGS = SimpleNamespace(per_class=(12, 8), test_share=0.4, most_items=90, seed=0)


def grouped(groups, y, **more):
    """Return rows of these groups and classes; each row has another number."""
    X = np.arange(2.0 * len(y)).reshape(-1, 2)
    names = tuple(f"c{number}" for number in range(int(np.max(y)) + 1))
    return LabelledRows(X, np.asarray(y), names, groups=np.asarray(groups), **more)


def rows_at_random(rng, is_nested):
    """Return rows of 6 classes; groups of unequal sizes lie in one class, or across all."""
    n_of = rng.integers(4, 9, 6) if is_nested else [12]
    class_of = np.repeat(np.arange(len(n_of)), n_of)
    group = np.sort(rng.integers(len(class_of), size=400))
    group = np.unique(group, return_inverse=True)[1]
    y = class_of[group] if is_nested else rng.integers(6, size=400)
    order = rng.permutation(400)
    return grouped(group[order], y[order])


def groups_of(y, groups, part):
    """Return the groups of each class in a part."""
    return {c: set(groups[part][y[part] == c]) for c in np.unique(y[part])}


@pytest.mark.parametrize("is_nested", [True, False])
@pytest.mark.parametrize("name", ["seen-classes", "stratified", "unseen-classes"])
@pytest.mark.parametrize("seed", range(6))
def test_no_group_crosses_training_test_and_inner_folds(name, is_nested, seed):
    rows = rows_at_random(np.random.default_rng(seed), is_nested)
    y, groups, split = rows.y, rows.groups, SPLITS[name](SETTINGS).for_rows(rows)
    assert split.refusal(rows) is None
    train, test, *_ = split.draw(rows, range(6), 0, seed)
    held, tested = groups_of(y, groups, train), groups_of(y, groups, test)
    assert not set().union(*held.values()) & set().union(*tested.values())
    sizes = split.sizes(rows, range(6), 0)
    assert len(train) <= sizes[0]
    assert len(test) <= sizes[1]
    if name == "unseen-classes":
        assert not held.keys() & tested.keys()
        assert len(held) == len(tested) == 3
    else:
        assert held.keys() == tested.keys() == {*range(6)} - {*split_off(rows)}
        whole = split.whole_groups(rows, range(6), 0.4, seed)
        for part in (whole.train, whole.test):  # of all their rows
            assert min(map(len, groups_of(y, groups, part).values())) >= 2
    if name != "stratified":
        for part, most in ((train, 12), (test, 8)):
            assert np.bincount(y[part]).max() <= most
    inner = SPLITS[name](SETTINGS).for_groups(groups[train])
    if name == "unseen-classes":  # three classes are too few for inner folds: all rows instead
        inner, train = split, np.arange(400)
    times = np.zeros(len(train), int)
    for learn, validate, *_ in inner.inner_folds(y[train], None, 3, seed):
        assert not set(groups[train][learn]) & set(groups[train][validate])
        if name == "unseen-classes":
            assert not set(y[train][learn]) & set(y[train][validate])
        times[validate] += 1
    assert times.max() == 1
    if name != "unseen-classes":
        assert times.min() == 1


def split_off(rows):
    """Return the classes of fewer than four groups, counted row by row."""
    seen = {}
    for c, group in zip(rows.y, rows.groups, strict=True):
        seen.setdefault(c, set()).add(group)
    return [c for c, own in seen.items() if len(own) < 4]


def test_a_class_of_three_recordings_leaves_and_four_are_dealt_two_and_two():
    groups = np.repeat(np.arange(11), 5)
    rows = grouped(groups, np.repeat([0, 1, 2], [20, 15, 20]))
    for name in ("seen-classes", "stratified"):
        split = SPLITS[name](SETTINGS).for_rows(rows)
        assert list(split.usable(rows)) == [0, 2]
        whole = split.whole_groups(rows, range(3), 0.4, 1)
        for part in (whole.train, whole.test):
            assert {c: len(own) for c, own in groups_of(rows.y, groups, part).items()} == {
                0: 2,
                2: 2,
            }
    assert split.in_words().endswith("whole groups train or test")


def test_partitions_vary_and_each_group_tests_about_as_often():
    y, groups = np.repeat([0, 1], 60), np.repeat(np.arange(12), 10)
    times = np.zeros(12)
    for seed in range(300):
        tests = deal_groups(y, groups, (0.4, 0.6), seed) == 0
        assert np.count_nonzero(tests) == 40  # 2 of 6 groups: of each class 20 rows, not 30, for 24
        times[np.unique(groups[tests])] += 1
    assert np.abs(times - 100).max() < 5 * np.sqrt(300 * 1 / 3 * 2 / 3)


def by_hand(scores, place, y, groups):
    """Return R and n of each query that counts, its average precision and precision at 1 and 2."""
    found = []
    for q in range(len(y)):
        others = [i for i in range(len(y)) if groups[i] != groups[q]]
        others.sort(key=lambda i: (-scores[q, i], place[i]))
        hits = [y[i] == y[q] for i in others]
        if any(hits):
            ranks = [r for r, hit in enumerate(hits, 1) if hit]
            average = np.mean([(i + 1) / r for i, r in enumerate(ranks)])
            found.append((len(ranks), len(others), average, hits[0], sum(hits[:2]) / 2))
    return np.array(found, dtype=float)


def evaluated(scores, y, groups, seed=0):
    numbers = np.arange(len(y))
    return Retrieval().evaluate(
        Truth(y=y, groups=groups), lambda a, b: scores[np.ix_(a, b)], numbers, seed
    )


@pytest.mark.parametrize("seed", range(5))
def test_a_query_ranks_no_item_of_its_group_as_in_a_loop(seed):
    rng = np.random.default_rng(seed)
    y, groups = rng.integers(4, size=60), np.sort(rng.integers(9, size=60))
    y[groups == 0] = 4  # a class of one group: its queries do not count
    scores = rng.integers(6, size=(60, 60)).astype(float)  # with ties
    found = evaluated(scores, y, groups, seed)
    place = np.argsort(np.random.default_rng(seed).permutation(60))
    expected = by_hand(scores, place, y, groups)
    assert found.n_queries == len(expected)
    assert found.n_left_out == np.count_nonzero(groups == 0)
    assert found.value("mAP") == pytest.approx(expected[:, 2].mean(), rel=1e-12)
    for k in (1, 2):
        assert found.value("precision", k) == pytest.approx(expected[:, 2 + k].mean(), rel=1e-12)
    by_chance = found.chances("precision")[1]
    assert by_chance == pytest.approx((expected[:, 0] / expected[:, 1]).mean(), rel=1e-12)


def test_chance_is_the_mean_over_all_orders_of_what_each_query_ranks():
    y, groups = np.array([0, 0, 1, 1, 0, 1]), np.array([0, 0, 0, 1, 1, 2])
    found = evaluated(np.zeros((6, 6)), y, groups)
    expected = []
    for q in range(6):
        others = [i for i in range(6) if groups[i] != groups[q]]
        if not any(y[i] == y[q] for i in others):
            continue
        orders = []
        for order in permutations(others):
            ranks = [r for r, i in enumerate(order, 1) if y[i] == y[q]]
            orders.append(np.mean([(i + 1) / r for i, r in enumerate(ranks)]))
        expected.append(np.mean(orders))
    assert found.chances("mAP")[None] == pytest.approx(np.mean(expected), rel=1e-12)


def test_groups_of_one_row_change_no_number():
    rng = np.random.default_rng(0)
    y, scores = rng.integers(3, size=30), rng.random((30, 30))
    alone = evaluated(scores, y, None).measurements()
    assert alone == evaluated(scores, y, np.arange(30)).measurements()


def test_retrieved_items_and_pairs_are_of_other_groups():
    scores = np.array([[9.0, 8, 7, 6, 5]] * 2)
    groups = np.array([0, 1, 0, 1, 2])
    ranked = rank_others(scores, np.array([0, 1]), np.arange(5), groups)
    assert ranked.tolist() == [[1, 3, 4, -1], [0, 2, 4, -1]]
    left, right, same = pairs_of_labels(np.array([0, 0, 0, 1, 1]), groups)
    pairs = [(0, 1), (0, 3), (0, 4), (1, 2), (1, 4), (2, 3), (2, 4), (3, 4)]
    assert [*zip(left, right, strict=True)] == pairs
    assert same.tolist() == [True, False, False, True, False, False, False, True]


def test_rows_say_what_is_wrong_with_their_groups():
    y = np.array([0, 1, 0, 1])
    with pytest.raises(UsageError, match=r"groups \[0\]: 2 or more, from 0 without a gap"):
        grouped([0, 0, 0, 0], y)
    with pytest.raises(UsageError, match="group of row 2 is in several folds"):
        grouped([0, 1, 1, 2], y, folds=np.array([0, 0, 1, 1]))
    rows = grouped([0, 1, 2, 0], y)
    folded = LabelledRows(rows.X, y, ("c0", "c1"), folds=rows.groups)
    plain = LabelledRows(rows.X, y, ("c0", "c1"))
    assert len({one.content_hash() for one in (rows, folded, plain)}) == 3
    for name, reason in (
        ("pairs", r"has groups, which pairs does not keep apart: leave them out \(--group\)"),
        ("stratified", "has 0 classes of 4 groups: 2 are needed"),
        ("unseen-classes", "has 2 classes"),
    ):
        split = SPLITS[name](SETTINGS).for_rows(rows)
        assert re.match(reason, split.refusal(rows))


# Files

HOW = "--algorithms Euclidean,OASIS --inner-folds 2 --search 2 --max-steps 500 --partitions 2"


@pytest.fixture
def table(tmp_path):
    """Return a CSV file of 8 classes, each of 8 recordings of 4 rows that are nearly equal."""
    rng = np.random.default_rng(3)
    tape = np.arange(256) // 4
    means = rng.normal(size=(8, 3))[tape // 8] + 2 * rng.normal(size=(64, 3))[tape]
    cells = pd.DataFrame(means + 0.01 * rng.normal(size=(256, 3)), columns=["a", "b", "c"])
    cells["kind"], cells["tape"] = np.array([*"stuvwxyz"])[tape // 8], [f"t{i}" for i in tape]
    cells.sample(frac=1, random_state=0).to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_a_column_of_groups_is_no_feature(table):
    cells, rows = pd.read_csv(table), TableFile(table, "kind", group="tape").load()
    assert rows.columns == ("a", "b", "c")
    assert len(set(zip(cells["tape"], rows.groups, strict=True))) == rows.groups.max() + 1 == 64
    described = TableFile(table, "kind", group="tape").description().lines()
    assert described[-1] == "  'tape'  groups, 64 different"
    y, tape = (cells[name].to_numpy(str) for name in ("kind", "tape"))
    np.savez(table.with_suffix(".npz"), X=rows.X, y=y, tape=tape)
    held = TableFile(table.with_suffix(".npz"), group="tape").load().groups
    np.testing.assert_array_equal(held, rows.groups)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"group": "kind"}, "--group 'kind' is the label: name another column"),
        ({"group": "tapes"}, "there is no column for the groups .*did you mean 'tape'"),
        ({"group": "tape", "drop": "tape"}, "--drop names the column .* of the groups"),
        ({"group": "a"}, "the groups are numbers with fractions"),
        ({"group": "tape", "pairs": "p.csv"}, "pairs and triplets already divide .* out --group"),
    ],
)
def test_a_wrong_column_of_groups_is_one_error(table, options, reason):
    with pytest.raises(UsageError, match=reason) as raised:
        TableFile(table, "kind", **options).load()
    assert "\n" not in str(raised.value)


def test_a_missing_group_is_refused(table):
    cells = pd.read_csv(table)
    cells.loc[[3, 5], "tape"] = None
    cells.to_csv(table, index=False)
    with pytest.raises(UsageError, match="2 groups are missing, the first in row 4: fill them in"):
        TableFile(table, "kind", group="tape").load()


def test_a_run_with_groups_and_what_comes_after_it(table, tmp_path, capsys, monkeypatch):
    data = ["--dataset", str(table), "--label", "kind"]
    tasks = ["--tasks", "retrieval,classification,unseen-classes", *HOW.split()]
    means = []
    for name, groups in (("apart", ["--group", "tape"]), ("mixed", ["--drop", "tape"])):
        run = ["run", *data, *groups, *tasks, "--train", "18", "--test", "12", "--predictions"]
        assert main([*run, "--output", str(tmp_path / name)]) == 0
        held = read_run(tmp_path / name)
        assert set(held.trials["status"]) == {"ok"}
        assert ("whole groups" in held.info.sources.splits["seen-classes"].summary) == bool(
            name == "apart"
        )
        of_map = held.measures.query("measure == 'mAP' and task == 'retrieval'")
        means.append(of_map["value"].mean())
    assert means[0] < means[1] - 0.1  # copies of the query make it easy
    out = [
        "export",
        str(tmp_path / "apart"),
        "--format",
        "trec",
        "--output",
        str(tmp_path / "trec"),
    ]
    assert main(out) == 0
    tape = pd.read_csv(table)["tape"]
    for path in (tmp_path / "trec").glob("*.run"):
        for line in path.read_text().splitlines():
            query, _, item, *_ = line.split()
            assert tape[int(query[4:])] != tape[int(item[4:])]
    monkeypatch.setattr("oasis_bench.runs.fitting.MOST_ROWS", 64)  # some groups have no row of them
    model, new = tmp_path / "m.npz", tmp_path / "new.csv"
    assert main(["fit", str(table), *data[2:], "--group", "tape", "--output", str(model)]) == 0
    pd.read_csv(table).drop(columns=["tape", "kind"]).to_csv(new, index=False)
    for rows in (new, table):
        found = ["neighbours", str(model), str(rows), str(rows), "-k", "2"]
        assert main([*found, "--output", str(tmp_path / f"{rows.stem}-near.csv")]) == 0
    near = [(tmp_path / f"{name}-near.csv").read_text() for name in ("new", "t")]
    assert near[0] == near[1]
    capsys.readouterr()
    assert main(["data", "describe", *data[1:], "--group", "tape"]) == 0
    assert "64: each trains or tests as a whole" in capsys.readouterr().out


def test_given_folds_keep_the_frequencies_of_the_most_items():
    y = np.repeat([0, 1], [300, 100])
    rows = LabelledRows(np.zeros((400, 1)), y, ("a", "b"), folds=np.arange(400) % 2)
    split = SPLITS["seen-classes"](SimpleNamespace(most_items=40)).for_rows(rows)
    train, test, *_ = split.draw(rows, [0, 1], 0, 0)
    for part, fold in ((train, 1), (test, 0)):
        assert np.bincount(y[part]).tolist() == [30, 10]
        assert set(rows.folds[part]) == {fold}


# The corpora


def corpus(name):
    try:
        return ManyClasses(name).load()
    except UsageError as error:
        pytest.skip(str(error))


def test_frogs_are_found_less_often_without_the_calls_of_their_own_recording():
    rows = corpus("frogs")
    X = (rows.X - rows.X.mean(axis=0)) / rows.X.std(axis=0)
    norms = (X**2).sum(axis=1)
    near = 2 * X @ X.T - norms[:, None] - norms
    values = [evaluated(near, rows.y, groups).value("recall", 1) for groups in (None, rows.groups)]
    assert values == pytest.approx([0.97, 0.75], abs=0.01)


def test_the_corpora_have_the_groups_of_their_files():
    frogs, omniglot, coil = map(corpus, ("frogs", "omniglot", "coil20"))
    cells = pd.read_csv(Path(os.environ["OASIS_BENCH_DATA"], "frogs/frogs.csv"))
    assert len({*zip(cells["RecordID"], frogs.groups, strict=True)}) == 60
    assert np.bincount(omniglot.groups).tolist() == [242] * 20
    assert np.bincount(coil.groups).tolist() == [9] * 160  # 20 objects of 8 blocks of 9 poses
    poses = np.flatnonzero(coil.groups == coil.groups[0])
    assert poses.tolist() == list(range(9))
    parts = corpus("pendigits")
    assert np.bincount(parts.folds).tolist() == [3498, 7494]
    assert "has folds" in SPLITS["unseen-classes"](SETTINGS).for_rows(parts).refusal(parts)
