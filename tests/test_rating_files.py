"""Rating files and ratings.csv: what is asked, what is collected, and what is refused."""

import json

import numpy as np
import pytest
from fake_runs import fake_trial, make_run
from PIL import Image
from rated_runs import rated_run, rating_file, small_run

from oasis_bench.command_line import main
from oasis_bench.reports import collect_ratings, write_rating_page
from oasis_bench.reports.ratings import questions, read_ratings, whole_depths
from oasis_bench.reports.run.view import view_of
from oasis_bench.runs import read_run
from oasis_bench.system import UsageError

PAIR = (0, 1)
"""A pair that the run of `run` retrieves."""


@pytest.fixture
def run(tmp_path):
    rankings = {"A": {0: [1, 2, 3]}, "B": {0: [3, 1, 4]}}
    return rated_run(tmp_path / "run", rankings, [0] * 5)


def test_candidates_are_the_first_of_all_learners_each_once(run):
    (question,) = questions(run, 25, 20)
    assert question.query == 0
    assert sorted(question.candidates) == [1, 2, 3, 4]
    (question,) = questions(run, 1, 2)
    assert sorted(question.candidates) == [1, 3]
    (question,) = questions(run, 1, 3)
    assert sorted(question.candidates) == [1, 2, 3]


def test_the_order_of_the_page_is_drawn_and_always_the_same(tmp_path):
    rankings = {"A": {query: list(range(10, 30)) for query in range(10)}}
    run = rated_run(tmp_path / "run", rankings, [0] * 30)
    asked = questions(run, 25, 20)
    orders = {tuple(question.candidates) for question in asked}
    assert len(orders) == 10
    assert all(sorted(order) == list(range(10, 30)) for order in orders)
    assert [question.query for question in asked] != list(range(10))
    assert questions(run, 25, 20) == asked
    ranks = np.argsort([question.candidates for question in asked])  # the place of each rank
    assert abs(ranks[:, 0].mean() - 9.5) < 6  # about a standard deviation of uniform places: 1.8


def test_a_picture_without_a_thumbnail_is_not_asked(tmp_path):
    thumbnails = [b"jpeg", None, b"jpeg", None]
    rankings = {"A": {0: [1, 2], 3: [2, 0]}}
    run = rated_run(tmp_path / "run", rankings, [0] * 4, thumbnails)
    (question,) = questions(run, 25, 20)
    assert (question.query, question.candidates) == (0, [2])


def test_the_depth_is_that_to_which_every_learner_is_marked(run):
    rows = view_of(run).retrievals
    assert whole_depths(rows, [(0, 1), (0, 3)]).tolist() == [1]
    assert whole_depths(rows, [(0, 1), (0, 2), (0, 3)]).tolist() == [2]
    assert whole_depths(rows, [(0, 1), (0, 2), (0, 3), (0, 4)]).tolist() == [3]
    assert whole_depths(rows, [(0, 1)]).tolist() == [0]


def test_the_command_says_what_the_run_has_less_of_than_asked(run, tmp_path, capsys):
    assert main(["judge", str(tmp_path / "run"), "--candidates", "3"]) == 0
    out, err = capsys.readouterr()
    assert "asked: 3 candidates of 1 query picture" in out
    assert f"page: {tmp_path / 'run/judge.html'}" in out
    assert err.splitlines() == [
        "oasis-bench: --queries 25: the run keeps 1 query picture: 'run --examples 25' keeps "
        "more, where there are as many test pictures",
        "oasis-bench: the page has the first 2 of every learner for every query",
    ]
    page = tmp_path / "other.html"
    assert main(["judge", str(tmp_path / "run"), "--queries", "1", "--output", str(page)]) == 0
    assert (
        "--candidates 20: for some query all learners together retrieve 4 different pictures"
        in (capsys.readouterr().err)
    )
    assert page.exists()


def test_a_run_without_pictures_cannot_be_judged(tmp_path):
    make_run(tmp_path / "run", [fake_trial("A")], ["A"])
    with pytest.raises(UsageError, match=r"no retrieved pictures to judge.*--examples 25"):
        write_rating_page(tmp_path / "run", 25, 20)


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


OTHERS = {
    "format": ({"format": "other"}, r"'other' - at `\$\.format`"),
    "data": ({"data": "0" * 16}, "another data set"),
    "rater_id": ({"rater_id": "../../etc"}, r"at `\$\.rater_id`"),
    "rater": ({"rater": "x" * 81}, r"length <= 80 - at `\$\.rater`"),
    "no rater": ({"rater": None}, r"got `null` - at `\$\.rater`"),
    "no ratings": ({"ratings": []}, r"length >= 1 - at `\$\.ratings`"),
    "ratings": ({"ratings": {"0": 1}}, r"got `object` - at `\$\.ratings`"),
    "short rating": ({"ratings": [[0, 1]]}, r"length 3 - at `\$\.ratings\[0\]`"),
    "truth": ({"ratings": [[False, True, "relevant"]]}, r"got `bool` - at `\$\.ratings\[0\]\[0\]`"),
    "number": ({"ratings": [[0, 1.0, "relevant"]]}, r"got `float` - at `\$\.ratings\[0\]\[1\]`"),
    "mark": ({"ratings": [[0, 1, "<script>"]]}, r"'<script>' - at `\$\.ratings\[0\]\[2\]`"),
    "huge number": ({"ratings": [[0, 10**40, "relevant"]]}, "the run does not retrieve"),
    "pair": ({"ratings": [[1, 0, "relevant"]]}, r"\(1, 0\)"),
    "twice": ({"ratings": [[0, 1, "relevant"], [0, 1, "not relevant"]]}, "come twice"),
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


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "truncated"),
        (b"\xff\xfe{", "malformed"),
        (b'{"format": ', "truncated"),
        (b"[" * 100_000, "got `array`"),
        (b'{"other": ' + b"[" * 100_000, "recursion"),
        (b"9" * 5000, "Number out of range"),
        (b"null", "got `null`"),
        (b" " * 20_000_001, "more than 20,000,000 bytes"),
    ],
)
def test_damaged_content_is_refused_in_one_line(content, words, run, tmp_path):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(UsageError, match=words):
        collect_ratings(tmp_path / "run", [tmp_path / "bad"])
    assert not (tmp_path / "run/ratings.csv").exists()


def test_a_missing_file_and_damaged_ratings_are_named(run, tmp_path, capsys):
    folder = tmp_path / "run"
    assert main(["judge", str(folder), "--collect", str(tmp_path / "none")]) == 2
    assert f"{tmp_path / 'none'}: No such file or directory" in capsys.readouterr().err
    good = rating_file(tmp_path / "good", run, 1, {PAIR: "relevant"})
    for text in (
        "",
        "a,b\n1,2\n",
        "rater_id,rater,query,candidate,mark\n1,x,0,1,good\n",
        "a,b\n1,2,3,4,5\n",
        f"rater_id,rater,query,candidate,mark\n1,x,0,{10**40},relevant\n",
    ):
        (folder / "ratings.csv").write_text(text)
        with pytest.raises(UsageError, match=r"ratings\.csv is damaged"):
            collect_ratings(folder, [good])


def test_a_page_of_real_size_stays_small(tmp_path):
    small_run(tmp_path / "run", n_queries=25, n_ranks=20, n_rows=250)
    page = write_rating_page(tmp_path / "run", 25, 20)
    assert page.summary == "asked: 500 candidates of 25 query pictures"
    text = page.path.read_text()
    assert len(text) < 1_000_000
    content = text.partition('id="asked">')[2].partition("</script>")[0]
    rows = {row for query, found in json.loads(content)["questions"] for row in (query, *found)}
    assert text.count("data:image/jpeg") == len(rows)  # each picture once


def test_a_real_run_keeps_twenty_ranks_and_their_pictures(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OASIS_BENCH_DATA", raising=False)  # codebooks of these pictures
    rng = np.random.default_rng(0)
    for label in ("bear", "owl"):
        (tmp_path / "pictures" / label).mkdir(parents=True)
        for number in range(25):
            noise = rng.integers(0, 256, (64, 64, 3), dtype=np.uint8)
            Image.fromarray(noise).save(tmp_path / "pictures" / label / f"{number}.png")
    words = ["run", "--dataset", str(tmp_path / "pictures"), "--block", "16", "--visterms", "10"]
    words += ["--algorithms", "Euclidean,StandardizedEuclidean", "--partitions", "1"]
    words += ["--train", "8", "--test", "12", "--tasks", "retrieval"]
    folder = tmp_path / "run"
    assert main([*words, "--examples", "3", "--output", str(folder)]) == 0
    run = read_run(folder)
    ranks = run.retrievals.groupby(["learner", "query"])["rank"].agg(list)
    assert len(ranks) == 2 * 3
    assert ranks.map(lambda it: it == list(range(1, 21))).all()
    classes = run.pictures.set_index("row")["caption"]
    found = run.retrievals
    same = classes[found["query"]].to_numpy() == classes[found["retrieved"]].to_numpy()
    assert found["relevant"].tolist() == same.astype(int).tolist()
    assert 0 < same.sum() < len(same)
    shown = {*run.retrievals["query"], *run.retrievals["retrieved"]}
    assert set(run.pictures.loc[run.pictures["thumbnail"].notna(), "row"]) == shown
    capsys.readouterr()
    assert main(["judge", str(folder), "--queries", "3"]) == 0
    assert "asked: 60 candidates of 3 query pictures" in capsys.readouterr().out


def test_what_is_for_the_page_is_refused_where_ratings_are_collected(tmp_path, run, capsys):
    (tmp_path / "file").touch()
    words = ["judge", str(tmp_path / "run"), "--collect", str(tmp_path / "file"), "--queries", "3"]
    assert main(words) == 2
    assert "--queries is for the page" in capsys.readouterr().err
