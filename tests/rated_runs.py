"""Made-up runs with pictures to rate, and rating files as the page saves them."""

import io
import json
from collections import defaultdict

import numpy as np
from fake_runs import fake_trial, make_run
from PIL import Image

from oasis_bench.reports.ratings import FORMAT, data_key, questions
from oasis_bench.trial import TrialResult

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
    return TrialResult(record.columns, record.answers, record.measures, retrievals=rows)


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


def words_as_ratings(folder, run):
    """Make rating files of the words of a run's pictures, which people gave them.

    The i-th rater is the i-th word of each query, and finds relevant what has that word.
    """
    words = {
        row: caption.split(", ") for row, caption in run.pictures[["row", "caption"]].to_numpy()
    }
    asked = questions(run, 25, 20)
    most = max(len(words[query]) for query, _ in asked)
    return [
        rating_file(
            folder / f"word-{number}.json",
            run,
            number,
            {
                (query, row): RELEVANT if words[query][number] in words[row] else NOT
                for query, candidates in asked
                if number < len(words[query])
                for row in candidates
            },
        )
        for number in range(most)
    ]


def votes_as_ratings(folder, run, judged, n_raters=5):
    """Make rating files of votes on triplets (query, a, b), for the pairs that the page asks.

    A vote for a finds a relevant to the query, and b not.  The votes of a pair are dealt out to
    raters in the order of the triplets; those of more raters than `n_raters` are left out.
    """
    votes = defaultdict(list)
    for (query, *pair), counts in zip(judged.items.tolist(), judged.votes.tolist(), strict=True):
        for place, row in enumerate(pair):
            votes[query, row] += [RELEVANT] * counts[place] + [NOT] * counts[1 - place]
    asked = [(query, row) for query, candidates in questions(run, 25, 20) for row in candidates]
    return [
        rating_file(
            folder / f"vote-{number}.json",
            run,
            number,
            {pair: votes[pair][number] for pair in asked if number < len(votes[pair])},
        )
        for number in range(n_raters)
    ]
