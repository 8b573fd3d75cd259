"""Rating files and ratings.csv: what is asked, what is collected, and what is refused."""

import numpy as np
import pytest
from rated_runs import rated_run, rating_file

from oasis_bench.command_line import main
from oasis_bench.reports import collect_ratings, write_rating_page
from oasis_bench.reports.ratings import questions, read_ratings, whole_depths
from oasis_bench.reports.view import view_of
from oasis_bench.system import UsageError

PAIR = (0, 1)
"""A pair that the run of `run` retrieves."""


@pytest.fixture
def run(tmp_path):
    rankings = {"A": {0: [1, 2, 3]}, "B": {0: [3, 1, 4]}}
    return rated_run(tmp_path / "run", rankings, [0] * 5)


def test_candidates_are_the_first_of_all_learners_each_once(run):
    ((query, candidates),) = questions(run, 25, 20)
    assert query == 0
    assert sorted(candidates) == [1, 2, 3, 4]
    ((query, candidates),) = questions(run, 1, 2)
    assert sorted(candidates) == [1, 3]
    ((query, candidates),) = questions(run, 1, 3)
    assert sorted(candidates) == [1, 2, 3]


def test_the_order_of_the_page_is_drawn_and_always_the_same(tmp_path):
    rankings = {"A": {query: list(range(10, 30)) for query in range(10)}}
    run = rated_run(tmp_path / "run", rankings, [0] * 30)
    asked = questions(run, 25, 20)
    orders = {tuple(candidates) for _, candidates in asked}
    assert len(orders) == 10
    assert all(sorted(order) == list(range(10, 30)) for order in orders)
    assert [query for query, _ in asked] != list(range(10))
    assert questions(run, 25, 20) == asked
    ranks = np.argsort([candidates for _, candidates in asked])  # the place of each rank
    assert abs(ranks[:, 0].mean() - 9.5) < 6  # about a standard deviation of uniform places: 1.8


def test_the_depth_is_that_to_which_every_learner_is_marked(run):
    rows = view_of(run).retrievals
    assert whole_depths(rows, [(0, 1), (0, 3)]).tolist() == [1]
    assert whole_depths(rows, [(0, 1), (0, 2), (0, 3)]).tolist() == [2]
    assert whole_depths(rows, [(0, 1), (0, 2), (0, 3), (0, 4)]).tolist() == [3]
    assert whole_depths(rows, [(0, 1)]).tolist() == [0]


def test_raters_are_joined_and_a_later_mark_replaces_an_earlier_one(run, tmp_path):
    folder = tmp_path / "run"
    first = rating_file(tmp_path / "1", run, 1, {(0, 1): "relevant", (0, 2): "cannot tell"})
    second = rating_file(tmp_path / "2", run, 2, {(0, 1): "not relevant"}, rater="=1+1\u202e")
    assert "collected: 3 marks of 2 raters" in collect_ratings(folder, [first, second])
    again = rating_file(tmp_path / "3", run, 1, {(0, 2): "relevant"})
    assert "1 mark of 1 rater; " in collect_ratings(folder, [again])
    ratings = read_ratings(folder)
    assert {tuple(row) for row in ratings.to_numpy()} == {
        ("0" * 15 + "1", "rater 1", 0, 1, "relevant"),
        ("0" * 15 + "1", "rater 1", 0, 2, "relevant"),
        ("0" * 15 + "2", "'=1+1\ufffd", 0, 1, "not relevant"),
    }
    before = (folder / "ratings.csv").read_bytes()
    collect_ratings(folder, [again])  # the name is guarded once
    assert sorted((folder / "ratings.csv").read_bytes().split()) == sorted(before.split())


@pytest.mark.parametrize("name", ["results.sqlite", "ratings.csv"])
def test_the_page_replaces_no_file_of_the_run(run, tmp_path, name):
    folder = tmp_path / "run"
    (folder / "ratings.csv").touch()
    before = (folder / name).read_bytes()
    with pytest.raises(UsageError, match=f"{name} is an input too"):
        write_rating_page(folder, output=folder / name)
    assert (folder / name).read_bytes() == before
    assert write_rating_page(folder, output=folder / "judge.html") == write_rating_page(folder)


OTHERS = {
    "data": ({"data": "0" * 16}, "another data set"),
    "rater": ({"rater": "x" * 81}, r"length <= 80 - at `\$\.rater`"),
    "ratings": ({"ratings": {"0": 1}}, r"got `object` - at `\$\.ratings`"),
    "mark": ({"ratings": [[0, 1, "<script>"]]}, r"'<script>' - at `\$\.ratings\[0\]\[2\]`"),
    "pair": ({"ratings": [[1, 0, "relevant"]]}, r"\(1, 0\)"),
    "twice": ({"ratings": [[0, 1, "relevant"], [0, 1, "not relevant"]]}, "occurs twice"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_file_that_is_not_of_the_page_is_refused_and_nothing_is_lost(name, run, tmp_path):
    folder = tmp_path / "run"
    good = rating_file(tmp_path / "good", run, 1, {PAIR: "relevant"})
    collect_ratings(folder, [good])
    before = (folder / "ratings.csv").read_bytes()
    changed, words = OTHERS[name]
    bad = rating_file(tmp_path / "bad", run, 2, {PAIR: "relevant"}, **changed)
    other = rating_file(tmp_path / "other", run, 3, {PAIR: "relevant"})
    with pytest.raises(UsageError, match=words) as refused:
        collect_ratings(folder, [other, bad])
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(f"{bad}: ")
    assert (folder / "ratings.csv").read_bytes() == before


def test_a_missing_file_and_damaged_ratings_are_named(run, tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["judge", str(folder), "--collect", str(tmp_path / "none")]) == 2
    assert f"{tmp_path / 'none'}: No such file or directory" in capsys.readouterr().err
    good = rating_file(tmp_path / "good", run, 1, {PAIR: "relevant"})
    for text in (
        "",
        "rater_id,rater,query,candidate,mark\n1,x,0,1,good\n",
        f"rater_id,rater,query,candidate,mark\n1,x,0,{10**40},relevant\n",
    ):
        (folder / "ratings.csv").write_text(text)
        with pytest.raises(UsageError, match=r"ratings\.csv is damaged"):
            collect_ratings(folder, [good])
