"""Pairs and triplets of rows of a table: how they are read, and from a run to a model in use."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import oasis_bench
from oasis_bench.command_line import main
from oasis_bench.datasets import TableFile
from oasis_bench.plugins import load_model
from oasis_bench.runs import read_run
from oasis_bench.system import UsageError

N, N_PEOPLE = 120, 24


@pytest.fixture
def faces(tmp_path, monkeypatch):
    """Write rows of 24 people without labels, in noise, with pairs and triplets of their names."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    who = np.arange(N) % N_PEOPLE
    X = np.column_stack([3 * rng.normal(size=(N_PEOPLE, 2))[who], np.zeros((N, 3))])
    X += rng.normal(size=X.shape) * [0.5, 0.5, 5, 5, 5]
    names = np.array([f"p{i:03}" for i in rng.permutation(N)])
    table = pd.DataFrame(X, columns=list("abcde"))
    table.insert(0, "photo", names)
    table.to_csv("faces.csv", index=False)
    table.assign(who=who).to_csv("labelled.csv", index=False)
    pairs, triplets = [], []
    for i in range(N):
        like, unlike = (i + N_PEOPLE) % N, (i + 1) % N if i % 2 == 0 else (i - 1) % N
        pairs.append((names[i], names[like], "same"))
        pairs.append((names[unlike], names[i], "different"))
        triplets.append((names[i], names[like], names[unlike]))
    pairs = pd.DataFrame(pairs, columns=["left", "right", "same"])
    pairs.to_csv("pairs.csv", index=False)
    header = ["query", "nearer", "farther"]
    pd.DataFrame(triplets, columns=header).to_csv("triplets.csv", sep=";", index=False)
    return {name: i for i, name in enumerate(names)}, pairs, triplets


def table(**options):
    return TableFile(Path("faces.csv"), **{"name_column": "photo", **options}).load()


def test_names_become_row_numbers_and_same_rows_a_class(faces):
    number, pairs, triplets = faces
    rows = table(pairs="pairs.csv")
    assert rows.columns == tuple("abcde")
    expected = {
        (*sorted((number[left], number[right])), same == "same")
        for left, right, same in pairs.itertuples(index=False)
    }
    found = np.column_stack([rows.ratings.items, rows.ratings.marks])
    assert {(a, b, bool(same)) for a, b, same in found.tolist()} == expected
    assert len(found) == len(expected) == 180  # pairs of different rows came twice
    np.testing.assert_array_equal(rows.y % N_PEOPLE, np.arange(N) % N_PEOPLE)
    assert rows.class_names[3] == [*number][3]
    judged = table(triplets="triplets.csv")
    items = [[number[name] for name in triplet] for triplet in triplets]
    assert judged.judged.items.tolist() == items
    assert judged.judged.groups.tolist() == [query for query, *_ in items]
    assert len(judged.class_names) == N
    labelled = TableFile(Path("labelled.csv"), "who", pairs="pairs.csv", name_column="photo").load()
    assert labelled.class_names[-1] == "23"


@pytest.mark.parametrize("lines", ["0,3,True\n119,3,False\n", "0.0,3.0,1.0\n119,3,n\n"])
def test_without_a_column_of_names_rows_count_from_0(faces, lines):
    """Numbers and answers of other programs are known, too."""
    Path("p.csv").write_text(f"a,b,c\n{lines}")
    rows = TableFile(Path("faces.csv"), pairs="p.csv").load()
    assert rows.ratings.items.tolist() == [[0, 3], [3, 119]]
    assert rows.ratings.marks.ravel().tolist() == [True, False]


def test_pairs_that_contradict_others_are_remarked(faces):
    Path("p.csv").write_text("a,b,c\n0,1,same\n1,2,same\n0,2,different\n3,4,different\n")
    remarks = TableFile(Path("faces.csv"), pairs="p.csv").load().remarks
    (remark,) = [remark for remark in remarks if "marked as different" in remark]
    assert remark.startswith("1 pair is marked as different, but")
    assert remark.endswith("the first is '0' and '2'")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("a,b,c\n0,0.0,1", "line 2 names a row twice"),
        ("a,b,c\n0,1,maybe", r"p\.csv: line 2: 'maybe' is neither same nor different"),
        ("a,b,c\n0,1,1\n0,120,1", r"line 3: no row is called '120': .*--name-column"),
        ("a,b,c\n0,1,1\n1,0,no", "rows '0' and '1' are marked as the same and as different"),
        ("a,b\n0,1", r"has 1 lines below the columns 'a', 'b': three columns"),
        ("a,b,c\n", "has 0 lines"),
        ("0,1,1\n1,2,0", "the first line has names of rows"),
    ],
)
def test_what_is_wrong_with_pairs_is_told(faces, tmp_path, lines, message):
    (tmp_path / "p.csv").write_text(lines)
    with pytest.raises(UsageError, match=message):
        TableFile(Path("faces.csv"), pairs="p.csv").load()


def test_what_does_not_go_with_pairs_is_told(faces, tmp_path):
    with pytest.raises(UsageError, match=r"no\.csv: No such file"):
        table(pairs="no.csv")
    with pytest.raises(UsageError, match="pairs and triplets already divide the rows"):
        table(pairs="pairs.csv", fold_column="a")
    twice = pd.read_csv("faces.csv").assign(photo=["x"] * 2 + [*"y" * 118])
    twice.to_csv("faces.csv", index=False)
    with pytest.raises(UsageError, match="several rows are called 'y'"):
        table(pairs="pairs.csv")


def answers(folder, task, measure):
    found = read_run(Path(folder)).measures
    found = found[(found["task"] == task) & (found["measure"] == measure)]
    return found.groupby("learner")[["value", "chance"]].mean()


OF_ROWS = ["--name-column", "photo", "--inner-folds", "2", "--search", "2"]


def test_learners_of_pairs_beat_the_baseline_from_run_to_evaluate(faces, tmp_path, capsys):
    words = ["--algorithms", "Euclidean,LEGO,ITML", "--test-share", "0.34", *OF_ROWS]
    words += ["--partitions", "1", "--no-traces"]
    words += ["--param", "ITML.gamma=1", "--param", "ITML.n_pairs=300"]
    given = ["--dataset", "faces.csv", "--pairs", "pairs.csv"]
    assert main(["run", *given, *words, "--save-models", "--output", "run"]) == 0
    capsys.readouterr()
    found = answers("run", "verification", "ROC AUC")
    assert (found["chance"] == 0.5).all()
    assert (found["value"].drop("Euclidean") > found["value"]["Euclidean"] + 0.1).all()
    page = (tmp_path / "run/report.html").read_text()
    assert "true accepts at 0.1 % false accepts" in page
    assert main(["list", "tasks"]) == 0
    assert "verification" in capsys.readouterr().out
    model = "run/models/LEGO_all_0_pairs.npz"
    again = ["--name-column", "photo", "--output", "again"]
    assert main(["evaluate", model, *given, *again]) == 0
    (value,) = answers("again", "verification", "ROC AUC")["value"]
    assert value > 0.8


def test_a_run_tells_how_many_judgements_test(faces):
    """Each pair tests once, because all rows that pairs join are in one fold."""
    given = ["--dataset", "faces.csv", "--pairs", "pairs.csv", *OF_ROWS, "--test-share", "0.34"]
    words = ["--algorithms", "Euclidean", "--no-traces", "--partitions", "3", "--output", "run"]
    assert main(["run", *given, *words]) == 0
    (remark,) = (
        line for line in read_run(Path("run")).info.remarks if "judgements that test" in line
    )
    counts = [int(n) for n in re.findall(r"\d+", remark)]
    n_pairs = len(table(pairs="pairs.csv").ratings.items)
    assert 3 * counts[0] <= n_pairs <= 3 * counts[-1]


def test_a_mean_over_judgements_stands_alone_if_nothing_was_blended(faces, capsys):
    """Partitions have different numbers of judgements, and each judgement counts once."""
    _, _, triplets = faces
    more = [(query, nearer, other) for (query, nearer, _), (other, *_) in pairwise(triplets[:40])]
    pd.DataFrame(triplets + more).to_csv("triplets.csv", index=False)
    words = ["--dataset", "faces.csv", "--triplets", "triplets.csv", *OF_ROWS, "--partitions", "2"]
    words += ["--algorithms", "Euclidean", "--no-traces", "--tables", "--output", "run"]
    assert main(["run", *words]) == 0
    (row,) = re.findall(r"^ *Euclidean +(0\.\d+ ± .*)$", capsys.readouterr().out, re.MULTILINE)
    assert "(" not in row


def test_fit_takes_pairs_and_triplets(faces, capsys):
    words = ["fit", "faces.csv", *OF_ROWS]
    by = {}
    for kind, task in (("pairs", "verification"), ("triplets", "judged-triplets")):
        words[2:2] = [f"--{kind}", f"{kind}.csv"]
        assert main([*words, "--learner", "LEGO", "--output", f"{kind}.npz"]) == 0
        del words[2:4]
        assert f"LEGO, as learned (blend weight 1): {task}" in capsys.readouterr().out
        by[kind] = load_model(f"{kind}.npz")[-1].get_mahalanobis_matrix()
        assert np.trace(by[kind][:2, :2]) > 2 * np.trace(by[kind][2:, 2:])
        settings = {"name_column": "photo", "inner_folds": 2, "search": "2", kind: f"{kind}.csv"}
        in_python = oasis_bench.fit("faces.csv", "LEGO", **settings)[-1]
        np.testing.assert_array_equal(in_python.get_mahalanobis_matrix(), by[kind])
    assert not np.array_equal(by["pairs"], by["triplets"])


def test_rows_with_triplets_and_without_classes_are_told_their_task(faces, capsys):
    words = ["--name-column", "photo", "--triplets", "triplets.csv", "--task", "retrieval"]
    assert main(["fit", "faces.csv", *words, "--output", "m.npz"]) == 2
    told = capsys.readouterr().err
    assert "these items have judgements, which the task judged-triplets is for" in told
    assert "is the label an id" not in told
