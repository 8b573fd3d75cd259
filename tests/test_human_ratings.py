"""What a report says of raters: a case worked by hand, part of the marks, hostile names."""

import numpy as np
import pandas as pd
import pytest
from rated_runs import rated_run, rating_file

from oasis_bench.reports import collect_ratings, write_report
from oasis_bench.reports.ratings import rating_tables, read_ratings
from oasis_bench.reports.view import view_of

YES, NO, UNKNOWN = "relevant", "not relevant", "cannot tell"


@pytest.fixture
def by_hand(tmp_path):
    """Two learners, one query, two raters; returns the run and the raters' files."""
    rankings = {"A": {0: [1, 2, 3]}, "B": {0: [3, 1, 4]}}
    run = rated_run(tmp_path / "run", rankings, [0, 0, 1, 1, 0])
    marks = [(YES, NO, YES, NO), (YES, YES, NO, UNKNOWN)]
    files = [
        rating_file(
            tmp_path / f"{number}.json",
            run,
            number,
            {(0, row): mark for row, mark in enumerate(given, start=1)},
            rater="<script>alert(1)</script>" if number else "",
        )
        for number, given in enumerate(marks)
    ]
    return run, files


def test_tables_of_a_case_worked_by_hand(by_hand, tmp_path):
    run, files = by_hand
    collect_ratings(tmp_path / "run", files)
    (precision,) = rating_tables(view_of(run), read_ratings(tmp_path / "run"))
    assert [[cell.text for cell in row] for row in precision.cells] == [
        ["10", "A", "3", "1", "0.667 ± 0.000", "0.333"],
        ["10", "B", "3", "1", "0.583 ± 0.083", "0.667"],
        ["10", "human level", "3", "1", "0.667 ± 0.000", "–"],
    ]
    of_b = precision.numbers[precision.numbers["learner"] == "B"]
    np.testing.assert_allclose(of_b["by_raters"], [1 / 2, 3 / 4, 7 / 12])
    np.testing.assert_allclose(of_b["by_labels"], [0, 1 / 2, 2 / 3])
    assert "A random order of the rated candidates has precision 0.500." in precision.notes[0]


def test_the_report_has_them_and_escapes_names(by_hand, tmp_path):
    _, files = by_hand
    folder = tmp_path / "run"
    assert "Judged by people" not in write_report(folder).read_text()
    collect_ratings(folder, files)
    page = write_report(folder).read_text()
    section = page.partition('<h2 id="raters">')[2].partition("<h2")[0]
    assert "<script>" not in section
    numbers = pd.read_csv(folder / "tables/ratings.csv").set_index("learner")
    assert set(numbers.index) == {"A", "B", "human level"}
    own = numbers.loc["human level", "by_raters"]
    np.testing.assert_allclose(own, [1 / 2, 1 / 2, 2 / 3], rtol=1e-5)
