"""The figures of time, their numbers, and what every trial tuned."""

import matplotlib as mpl
import numpy as np
import pytest
from fake_runs import fake_trial, make_run
from matplotlib.backends.backend_agg import FigureCanvasAgg

from oasis_bench.reports.figure_style import (
    LEARNERS,
    STYLE,
    Plot,
    draw_legend,
    learner_styles,
    styles_in_order,
)
from oasis_bench.reports.figures import (
    draw_by_classes,
    draw_costs,
    pareto_front,
    task_figures,
    times_and_values,
)
from oasis_bench.reports.report_files import inline_svg
from oasis_bench.reports.view import view_of


@pytest.mark.parametrize(
    "names",
    [
        tuple("0123456789"),
        ("cedar", "oak", "pine", "birch", "maple", "elm"),
        tuple(f"digit {number}" for number in range(10)),
        LEARNERS[:8],
    ],
)
def test_a_legend_is_no_wider_than_its_picture(names):
    with mpl.rc_context(STYLE):
        figure = Plot(1, (2, 2))
        draw_legend(figure, styles_in_order(names), {}, lines=False)
        picture = figure.pictures[-1]
        picture.canvas = FigureCanvasAgg(picture)
        picture.canvas.draw()
        (legend,) = picture.legends
        own, whole = legend.get_window_extent(), picture.bbox
    assert whole.x0 <= own.x0 < own.x1 <= whole.x1


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


def test_both_uses_are_drawn_and_only_if_the_run_has_them(tmp_path):
    trials = [
        fake_trial("A", n_classes, p, 0.5, gain=0.1 if n_classes == 10 else 0.3, use="posterior")
        for n_classes in (10, 20)
        for p in range(2)
    ]
    view = view_of(make_run(tmp_path / "run", trials, ["A"], partitions=2, classes=(10, 20)))
    (axes,) = draw_by_classes(view, "retrieval").panels
    direct, posterior = (line for line, *_ in axes.containers)
    assert direct.get_ydata().tolist() == [0.5, 0.5]
    assert posterior.get_ydata().tolist() == [0.6, 0.8]
    assert direct.get_color() == posterior.get_color()
    assert (direct.get_linestyle(), posterior.get_linestyle()) == ("-", "--")
    assert posterior.get_markerfacecolor() == "white" != direct.get_markerfacecolor()
    points = times_and_values(view, "retrieval").set_index(["subset", "use"])["middle"]
    assert points.to_dict() == pytest.approx(
        {
            **{("10", "direct"): 0.5, ("10", "posterior"): 0.6},
            **{("20", "direct"): 0.5, ("20", "posterior"): 0.8},
        }
    )
    (drawing,) = task_figures(view, "retrieval")["against_time"]
    assert drawing.caption.endswith("open markers: by posterior.")
    alone = [fake_trial("A", partition=p) for p in range(2)]
    view = view_of(make_run(tmp_path / "alone", alone, ["A"], partitions=2))
    (drawing,) = task_figures(view, "retrieval")["against_time"]
    assert b"posterior" not in drawing.svg


def test_a_learner_looks_the_same_in_every_run_and_like_no_other():
    named = [*LEARNERS, *(f"learner {n}" for n in range(20))]
    styles = learner_styles(named)
    looks = {(it["color"], it["marker"]) for it in styles.values()}
    assert len(looks) == len(named)
    for name in ("OASIS", "Euclidean", "learner 7"):
        assert learner_styles(["LDA", name, "MMC"])[name] == learner_styles([name])[name]
    assert learner_styles(LEARNERS[::-1])["NCA"] == styles["NCA"]


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
