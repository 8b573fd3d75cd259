"""What people really said as ratings: the words of Corel5k, and votes on materials."""

import io
import os

import numpy as np
import pytest
from PIL import Image
from rated_runs import rated_run, votes_as_ratings, words_as_ratings

from oasis_bench.data import thumbnail
from oasis_bench.datasets import Corel5k, MaterialAppearance
from oasis_bench.reports import collect_ratings, write_report
from oasis_bench.reports.ratings import HUMAN, rating_tables, read_ratings
from oasis_bench.reports.view import view_of

pytestmark = pytest.mark.skipif(
    "OASIS_BENCH_DATA" not in os.environ, reason="needs OASIS_BENCH_DATA"
)

N_QUERIES, N_RANKS = 20, 10


def rankings_of(thumbnails):
    """Rank pictures by the distance of their colours in 4 x 4 fields, and in a drawn order."""
    pictures = [Image.open(io.BytesIO(it)).convert("RGB").resize((4, 4)) for it in thumbnails]
    rows = np.array([np.asarray(it, dtype=float).ravel() for it in pictures])
    rng = np.random.default_rng(0)
    found = {"Colours": {}, "Drawn": {}}
    for query in range(N_QUERIES):
        others = np.delete(np.arange(len(rows)), query)
        distances = np.linalg.norm(rows[others] - rows[query], axis=1)
        found["Colours"][query] = others[np.argsort(distances)][:N_RANKS].tolist()
        found["Drawn"][query] = rng.permutation(others)[:N_RANKS].tolist()
    return found


def test_words_of_corel5k_as_raters(tmp_path):
    labelled = Corel5k().find_images()
    labelled = [labelled[i] for i in np.random.default_rng(0).permutation(len(labelled))[:300]]
    words = [set(label) for _, label in labelled]
    thumbnails = [thumbnail(path) for path, _ in labelled]
    rankings = rankings_of(thumbnails)
    captions = [", ".join(label) for _, label in labelled]
    run = rated_run(tmp_path / "run", rankings, words, thumbnails, captions)
    collect_ratings(tmp_path / "run", words_as_ratings(tmp_path, run))
    (precision,) = rating_tables(view_of(run), read_ratings(tmp_path / "run"))
    last = precision.numbers.groupby("learner").last()
    k = int(last["k"].iloc[0])
    for learner, found in rankings.items():
        own = found.items()
        by_labels = [np.mean([bool(words[q] & words[row]) for row in rows[:k]]) for q, rows in own]
        assert last.loc[learner, "by_labels"] == pytest.approx(np.mean(by_labels))
        by_raters = []
        for place in range(max(len(labelled[q][1]) for q in found)):
            given = [(labelled[q][1], rows) for q, rows in own if len(labelled[q][1]) > place]
            shares = [
                np.mean([label[place] in words[row] for row in rows[:k]]) for label, rows in given
            ]
            by_raters.append(np.mean(shares))
        assert last.loc[learner, "by_raters"] == pytest.approx(np.mean(by_raters))
        assert last.loc[learner, "by_raters"] < last.loc[learner, "by_labels"]
    assert "Judged by people" in write_report(tmp_path / "run").read_text()


def test_votes_on_materials_as_raters(tmp_path):
    rows = MaterialAppearance().load()
    thumbnails = [thumbnail(path) for path in rows.images]
    run = rated_run(tmp_path / "run", rankings_of(thumbnails), rows.y.tolist(), thumbnails)
    collect_ratings(tmp_path / "run", votes_as_ratings(tmp_path, run, rows.judged))
    ratings = read_ratings(tmp_path / "run")
    (precision,) = rating_tables(view_of(run), ratings)
    last = precision.numbers.groupby("learner").last()
    # A vote is for one of two: half of all are for, whatever is shown.
    assert last.loc["Drawn", "by_raters"] == pytest.approx(0.5, abs=0.1)
    assert last.loc["Colours", "by_raters"] > 0.65
    assert last.loc[HUMAN, "by_raters"] > last.loc["Drawn", "by_raters"]
    assert last.loc["Colours", "by_labels"] == 0  # each material is a class of its own
    assert "Judged by people" in write_report(tmp_path / "run").read_text()
