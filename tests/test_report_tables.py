"""The tables of times, growth, choices and symmetry, and how tables become LaTeX."""

import pytest
from fake_runs import fake_trial, make_run
from report_helpers import marks, texts

from oasis_bench.reports import summary_text
from oasis_bench.reports.trials import (
    cost_tables,
    selection_table,
)
from oasis_bench.reports.view import view_of
from oasis_bench.trial import TrialResult


def test_runtime_is_median_and_range_with_memory_choice_and_shared_cores(tmp_path):
    seconds = [4.0, 1.0, 3.0, 2.0, 100.0]
    run = make_run(
        tmp_path / "run",
        [
            fake_trial(
                "A",
                partition=p,
                fit_seconds=s,
                fit_cpu_seconds=2 * s,
                fit_peak_bytes=None if p else 3 * 2**20,
                n_steps=(500, 1000, 1000, 2000, 4000)[p],
                params={"C": 0.1 if p < 4 else 0.2},
                shared_cores=int(p == 2),
            )
            for p, s in enumerate(seconds)
        ]
        + [fake_trial("B", partition=p, fit_peak_bytes=None) for p in range(5)],
        ["A", "B"],
    )
    table = cost_tables(view_of(run))[0]
    assert texts(table) == [
        [
            *("10", "A", "7.00", "3.00 [1.00 – 100]", "6.00", "2.00", "1,024.0", "3.0"),
            *("C=0.1 (4 of 5)", "1,000"),
        ],
        ["10", "B", "7.00", "1.00 [1.00 – 1.00]", "1.00", "2.00", "1,024.0", "n/a", "none", "none"],
    ]
    assert marks(table, 3)[0] == "a"
    assert "ran on the same cores" in table.marked_notes[0][1]
    raw = table.numbers.set_index(["learner", "quantity"]).loc[("A", "fit_seconds")]
    assert raw[["median", "min", "max", "n"]].tolist() == [3, 1, 100, 5]


@pytest.mark.parametrize(
    ("waiting", "seconds", "is_noisy"),
    [(0.06, 1.0, True), (0.04, 1.0, False), (0.009, 0.01, False), (None, 1.0, False)],
    ids=["over 5 %", "under 5 %", "under 10 ms", "not measurable"],
)
def test_a_fit_that_waited_for_a_core_is_marked(tmp_path, waiting, seconds, is_noisy):
    other = [fake_trial("B", partition=p, fit_waiting_seconds=None) for p in range(5)]
    waited = fake_trial("A", partition=0, fit_seconds=seconds, fit_waiting_seconds=waiting)
    clean = [fake_trial("A", partition=p, fit_waiting_seconds=0.0) for p in range(1, 5)]
    run = make_run(tmp_path / "run", [waited, *clean, *other], ["A", "B"])
    (table,) = cost_tables(view_of(run))
    assert [bool(mark) for mark in marks(table, 3)] == [is_noisy, False]
    assert any("Noisy in 1 of 5 partitions:" in text for _, text in table.marked_notes) == is_noisy
    assert ("1 fit time noisy: the fit waited" in summary_text(run)) == is_noisy


def test_selection_shows_what_was_chosen_and_what_its_folds_scored(tmp_path):
    run = make_run(
        tmp_path / "run",
        [
            fake_trial("A", partition=p, mAP=0.5, n_steps=n, params={"C": n})
            for p, n in ((1, 2000), (0, 500))
        ],
        ["A"],
        partitions=2,
    )
    # The folds add 0, 0.01 ... 0.04; at 2000 steps 0.02 is missing to 0.5, at 500 steps 0.2.
    assert texts(selection_table(view_of(run))) == [
        ["10", "A", "1", "C=500 (1); C=2000 (1)", "500, 2,000", "0", "0.410", "0.500"]
    ]


def test_only_a_search_that_ended_at_its_last_checkpoint_is_called_cut_off(tmp_path):
    """The checkpoints of `trial` go from 500 to 4000; B's steps were given, nothing was seen."""
    given = [fake_trial("B", partition=p, n_steps=4000) for p in range(3)]
    given = [TrialResult(record.columns) for record in given]
    searched = [fake_trial("A", partition=p, n_steps=n) for p, n in enumerate((4000, 500, 4000))]
    run = make_run(tmp_path / "run", [*searched, *given], ["A", "B"], partitions=3)
    table = selection_table(view_of(run))
    assert marks(table, 4) == ["a", ""]
    assert table.marked_notes == [
        (
            "a",
            "In 2 of 3 partitions mAP still rose at the last checkpoint (4,000 steps): a larger "
            "max_steps may do better.",
        ),
        ("", "Validation and test: mAP of the task retrieval."),
        ("", "At an end: partitions in which an end of a range was tuned that is no natural one."),
    ]
