"""Made-up runs with pictures to rate, and rating files as the page saves them."""

import io
import json

import numpy as np
from fake_runs import FakeTrial, fake_trial, make_run
from PIL import Image

from oasis_bench.reports.ratings import FORMAT, data_key

RELEVANT, NOT = "relevant", "not relevant"


def jpeg(colour, size=(96, 64)):
    """Make a picture of one colour."""
    content = io.BytesIO()
    Image.new("RGB", size, colour).save(content, "JPEG")
    return content.getvalue()


def with_retrievals(record, found):
    """Add what queries retrieve to a trial: query -> [(row, whether it is a hit), ...]."""
    rows = [
        {"query": query, "rank": rank, "retrieved": row, "relevant": int(hit)}
        for query, pairs in found.items()
        for rank, (row, hit) in enumerate(pairs, start=1)
    ]
    return FakeTrial(record.columns, record.answers, record.measures, retrievals=rows)


def rated_run(folder, rankings, labels, thumbnails=None, captions=None):
    """Write a run and read it back.

    Parameters
    ----------
    rankings : dict of str to dict
        What each learner retrieves for each query, best first: row numbers.
    labels : sequence
        The class of each row, or its words as a set; a hit has that of the query, or shares one.
    thumbnails : sequence of bytes, optional
        The picture of each row; a colour each if not given.
    captions : sequence of str, optional
        Of each row; its class if not given.
    """

    def hit(query, row):
        both = labels[query], labels[row]
        return bool(both[0] & both[1]) if isinstance(both[0], set) else both[0] == both[1]

    trials = [
        with_retrievals(
            fake_trial(learner),
            {query: [(row, hit(query, row)) for row in rows] for query, rows in found.items()},
        )
        for learner, found in rankings.items()
    ]
    thumbnails = thumbnails or [
        jpeg((row * 37 % 256, row * 91 % 256, row * 53 % 256)) for row in range(len(labels))
    ]
    pictures = [
        {
            "row": row,
            "caption": captions[row] if captions else f"class {labels[row]}",
            "thumbnail": thumbnails[row],
        }
        for row in range(len(labels))
    ]
    return make_run(folder, trials, list(rankings), partitions=1, pictures=pictures)


def small_run(folder, n_queries=3, n_ranks=4, n_rows=12):
    """Write a run of two learners with drawn rankings of items of three classes."""
    rng = np.random.default_rng(0)
    rankings = {
        learner: {
            query: rng.permutation(np.delete(np.arange(n_rows), query))[:n_ranks].tolist()
            for query in range(n_queries)
        }
        for learner in ("GreatLearner", "OtherLearner")
    }
    return rated_run(folder, rankings, [row % 3 for row in range(n_rows)])


def rating_file(path, run, number, marks, **other):
    """Write what rater `number` sends: (query, candidate) -> mark; `other` replaces values."""
    content = {
        "format": FORMAT,
        "data": data_key(run),
        "rater_id": f"{number:016x}",
        "rater": f"rater {number}",
        "ratings": [[int(query), int(row), mark] for (query, row), mark in marks.items()],
    }
    path.write_text(json.dumps(content | other))
    return path
