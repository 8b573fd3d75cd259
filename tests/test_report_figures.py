"""The figures of time, their numbers, and what every trial tuned."""

from dataclasses import replace

import numpy as np
import pytest
from fake_runs import fake_trial, make_run, write_run
from matplotlib.figure import Figure

from oasis_bench.reports.figure_style import LEARNERS, learner_styles
from oasis_bench.reports.figures import (
    draw_by_classes,
    draw_costs,
    pareto_front,
    times_and_values,
)
from oasis_bench.reports.leaderboard import draw_reductions, read_boards
from oasis_bench.reports.report_files import inline_svg
from oasis_bench.reports.trials import selection_table
from oasis_bench.reports.view import view_of


def by_definition(seconds, values):
    """Tell of each learner whether no other is at least as good in both, and better in one."""
    points = list(zip(seconds, values, strict=True))
    return [not any((t <= s and w >= v) and (t < s or w > v) for t, w in points) for s, v in points]


def test_the_pareto_front_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    for _ in range(50):
        seconds, values = rng.integers(1, 5, 8).astype(float), rng.integers(1, 5, 8).astype(float)
        assert pareto_front(seconds, values).tolist() == by_definition(seconds, values)


def test_time_is_choice_and_fit_together_and_its_median_is_told(tmp_path):
    trials = [
        fake_trial("A", partition=p, mAP=0.5 + 0.1 * p, fit_seconds=seconds)
        for p, seconds in enumerate((1.0, 2.0, 9.0))
    ]
    run = make_run(tmp_path / "run", trials, ["A", "B"], partitions=3)
    (row,) = times_and_values(view_of(run), "retrieval").to_dict("records")
    assert (row["seconds_min"], row["seconds"], row["seconds_max"]) == (8.0, 9.0, 16.0)  # 7 chosen
    assert row["middle"] == pytest.approx(0.6)
    assert row["high"] - row["middle"] == pytest.approx(0.1 / np.sqrt(3))


def test_measure_and_costs_are_drawn_against_the_number_of_classes(tmp_path):
    trials = [
        fake_trial("A", n_classes, p, n, fit_seconds=seconds)
        for n_classes, values, fits in ((10, (0.5, 0.7), (1.0, 4.0)), (20, (0.4, 0.4), (8.0, 16.0)))
        for p, (n, seconds) in enumerate(zip(values, fits, strict=True))
    ]
    view = view_of(make_run(tmp_path / "run", trials, ["A"], partitions=2, classes=(10, 20)))

    def drawn(axes):
        ((line, _, (bars,)),) = axes.containers
        ends = np.array(bars.get_segments())[:, :, 1]
        return line.get_ydata().tolist(), ends.tolist()

    (axes,) = draw_by_classes(view, "retrieval").panels
    middle, ends = drawn(axes)
    assert middle == pytest.approx([0.6, 0.4])
    assert ends == [pytest.approx([0.5, 0.7]), pytest.approx([0.4, 0.4])]  # a standard error
    tuning, fit, _ = (drawn(axes) for axes in draw_costs(view, view.splits[0]).panels)
    assert fit == ([2.5, 12.0], [[1.0, 4.0], [8.0, 16.0]])
    assert tuning[0] == [7.0, 7.0]
    one = view_of(make_run(tmp_path / "one", trials[:2], ["A"], partitions=2))
    assert draw_by_classes(one, "retrieval") is draw_costs(one, one.splits[0]) is None


def test_a_learner_looks_the_same_in_every_run_and_like_no_other():
    named = [*LEARNERS, *(f"learner {n}" for n in range(20))]
    styles = learner_styles(named)
    looks = {(it["color"], it["marker"]) for it in styles.values()}
    assert len(looks) == len(named)
    for name in ("OASIS", "Euclidean", "learner 7"):
        assert learner_styles(["LDA", name, "MMC"])[name] == learner_styles([name])[name]
    assert learner_styles(LEARNERS[::-1])["NCA"] == styles["NCA"]


def test_the_picture_of_the_leaderboard_has_the_best_learner_on_top(tmp_path):
    runs = [
        write_run(
            tmp_path / name,
            [fake_trial(*one) for one in (("Euclidean", 10, 0, 0.5), ("A", 10, 0, 0.6))],
            {"dataset": name},
        )
        for name in "xy"
    ]
    boards, _ = read_boards(runs)
    axes = Figure().subplots()
    draw_reductions(axes, boards[0])
    assert [it.get_text() for it in axes.get_yticklabels()] == ["Euclidean", "A"]
    assert axes.get_lines()[0].get_xdata() == pytest.approx([0, 20], abs=1e-4)


def test_every_trial_is_listed_with_what_it_chose(tmp_path):
    trials = [
        fake_trial("A", partition=0, mAP=0.5, n_steps=1000, params={"C": 1}),
        fake_trial("B", partition=0, mAP=0.7),
    ]
    trials[0] = replace(trials[0], fit_numbers=[{"name": "training", "value": 0.9}])
    run = make_run(tmp_path / "run", trials, ["A", "B"], partitions=1)
    columns = ["learner", "params", "n_steps", "validation", "training", "test", "fit_seconds"]
    rows = selection_table(view_of(run)).numbers[columns].fillna(-1).to_numpy().tolist()
    # validation: the mean of the folds at the tuned steps, 0.02 more than mAP less the lack
    assert rows[0] == ["A", '{"C": 1}', 1000, pytest.approx(0.42), 0.9, 0.5, 1]
    assert rows[1] == ["B", "{}", -1, -1, -1, 0.7, 1]


def test_an_svg_of_a_page_takes_its_greys_from_the_page():
    svg = b"""<?xml version="1.0"?><!-- <b> --><svg width="1"><metadata>m</metadata>
    <defs><style type="text/css">*{a: b}</style></defs><g id="one">
    <path style="fill: #ffffff; stroke: #0173b2"/><text style="fill: #262626">#ffffff</text>
    </g></svg>"""
    inline = inline_svg(svg)
    assert inline.startswith('<svg width="1">')
    assert 'style="fill: var(--paper); stroke: #0173b2"' in inline
    assert '<text style="fill: var(--ink)">#ffffff</text>' in inline
    assert not any(text in inline for text in ("metadata", "<style", "<!--", "id="))
