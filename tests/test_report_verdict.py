"""The sentences that open a report and the terminal's summary, on made-up runs."""

import json
import re
from dataclasses import asdict, replace

import numpy as np
import pytest
from fake_runs import fake_trial, make_run, write_run

from oasis_bench.analysis import PairedInterval
from oasis_bench.experiment import Experiment, LearnerSpec
from oasis_bench.reports import write_report
from oasis_bench.reports.report import methods
from oasis_bench.reports.report_files import unbroken
from oasis_bench.reports.terminal import MOST_LINES, answer_text, summary_text
from oasis_bench.reports.verdict import answers, headlines, next_steps
from oasis_bench.reports.view import view_of
from oasis_bench.runs import read_run

# mAP of each partition: B is always .2 lower than A, C follows A up and down around it.
SCORES = {
    "A": [0.70, 0.72, 0.71, 0.69, 0.70],
    "B": [0.50, 0.53, 0.51, 0.49, 0.50],
    "C": [0.71, 0.70, 0.69, 0.71, 0.69],
}


@pytest.fixture
def run(tmp_path):
    trials = [
        fake_trial(name, partition=p, mAP=value)
        for name, values in SCORES.items()
        for p, value in enumerate(values)
    ]
    command = "python -m oasis_bench run --partitions 5 --seed 1 --output run"
    return make_run(tmp_path / "run", trials, list(SCORES), info={"command": command})


def test_the_answer_names_the_leader_the_differences_and_who_is_unclear(run):
    first, costs = answers(view_of(run))
    differences = [a - b for a, b in zip(SCORES["A"], SCORES["B"], strict=True)]
    found = PairedInterval.of(differences, 250 / 650)
    tied = PairedInterval.of(np.subtract(SCORES["A"], SCORES["C"]), 250 / 650)
    assert first == (
        "Retrieval, 10 classes: A has the highest mAP (0.704). It is significantly better than B "
        f"by 0.198 [{found.low:.3f}, {found.high:.3f}]. C (0.004 [{tied.low:.3f}, "
        f"{tied.high:.3f}] lower) is not distinguishable from it (5 partitions). "
        "Brackets are 95 % intervals."
    )
    # 5 + 2 s of tuning, 1 s of the fit, 0.5 s of queries: what a fake trial has.
    assert costs.startswith("Cost of one partition (tuning, fit, queries): A 8.50 s, B 8.50 s and")


@pytest.mark.parametrize("given", [{}, {"margin": 0.5}])
def test_a_margin_is_for_measures_that_are_not_between_0_and_1(tmp_path, given):
    """A is .004 above C, and .198 above B with hardly any spread: within the margin, too."""
    trials = [
        fake_trial(name, partition=p, mAP=2 + value)
        for name, values in SCORES.items()
        for p, value in enumerate(values)
    ]
    text = answers(view_of(make_run(tmp_path / "run", trials, list(SCORES), **given)))[0]
    assert ("within ±0.5" in text) == bool(given)
    assert ("significantly better than B" in text) != bool(given)
    assert "C (0.004" in text
    assert ("not distinguishable" in text) != bool(given)


def test_what_to_do_next_is_a_command_without_the_folder(run):
    (step,) = next_steps(view_of(run))
    assert step.why.startswith("More partitions give the tests more power")
    assert step.command == "python -m oasis_bench run --seed 1 --partitions 20"
    assert summary_text(run, in_python=True).endswith(":\n  partitions=20")


@pytest.mark.parametrize(
    ("tried", "tuned", "words", "wider"),
    [
        ([1.5, 5, 10], 10, "largest C that was tried (10)", "1.5,5,10,20"),
        ([0.5, 0.9, 0.97], 0.97, "largest C that was tried (0.97)", "0.5,0.9,0.97,0.991"),
        ([0.01, 0.03, 1.0], 0.01, "smallest C that was tried (0.01)", "0.0033,0.01,0.03,1.0"),
        (["auto", 3, 5, 9], 3, "smallest C that was tried (3)", "2,auto,3,5,9"),
        ([1, 3, 5], 1, None, None),  # natural ends
        ([None, 16, 8, 32], 32, None, None),
        ([0.1, 0.3, 0.4, 1.0], 0.3, None, None),
        ([0.1, 1.0], 1.0, None, None),  # no range
    ],
)
def test_a_tuned_end_of_a_range_is_told_with_the_command_that_widens_it(
    tmp_path, tried, tuned, words, wider
):
    def trial(p, C):
        row = {"task": "retrieval", "scaling": "l2", "n_steps": None, "fold": 0, "value": 0}
        rows = [{**row, "params": json.dumps({"C": c})} for c in tried]
        made = fake_trial("A", partition=p, mAP=0.7 + 0.01 * p, params={"C": C})
        return replace(made, validation=rows)

    inner = next((value for value in tried[1:] if value != tuned), tried[0])
    trials = [trial(p, C) for p, C in enumerate([tuned, tuned, inner])]
    trials += [fake_trial("B", partition=p, mAP=0.5) for p in range(3)]
    command = "python -m oasis_bench run --seed 1 --param B.x=2 --output run"
    run = make_run(tmp_path / "run", trials, ["A", "B"], info={"command": command})
    view = view_of(run)
    found = [step for step in next_steps(view) if "--param A" in step.command]
    assert len(found) == (words is not None)
    quick = replace(run.info, remarks=[f"{Experiment.QUICK_REMARK}: {command}"])
    of_quick = next_steps(view_of(replace(run, info=quick)))
    assert not any("--param A" in step.command for step in of_quick)
    for step in found:
        told = f"A: in 2 of 3 partitions tuning selected the {words}. A wider range may be better"
        assert step.why == told
        told = f"python -m oasis_bench run --seed 1 --param B.x=2 --param A.C={wider}"
        assert step.command == told


@pytest.mark.parametrize(
    ("most", "found"), [(10, ["partitions=10"]), (5, []), (None, ["partitions=20"])]
)
def test_no_more_partitions_are_proposed_than_the_split_has(run, most, found):
    sources = run.info.sources
    splits = {name: replace(it, most=most) for name, it in sources.splits.items()}
    info = replace(run.info, sources=replace(sources, splits=splits))
    steps = next_steps(view_of(replace(run, info=info)))
    assert [it.argument for it in steps if "partitions" in it.argument] == found


def test_nothing_is_proposed_that_another_command_does_not_take(run):
    paper = "python -m oasis_bench paper --experiments paper-table4"
    commands = {command: replace(run.info, command=command) for command in (paper, None)}
    steps = {it: next_steps(view_of(replace(run, info=info))) for it, info in commands.items()}
    assert steps[paper] == []
    assert steps[None]


def test_terminal_and_report_open_with_the_answer(run, tmp_path):
    text = " ".join(summary_text(run).split())
    assert text.startswith(answers(view_of(run))[0])
    assert text.endswith(next_steps(view_of(run))[0].command)
    page = " ".join(write_report(tmp_path / "run").read_text().split())
    assert page.index(unbroken(answers(view_of(run))[0])) < page.index('<h2 id="retrieval">')


@pytest.mark.parametrize("equal", [False, True])
def test_another_leader_of_another_measure_is_told_unless_values_are_equal(tmp_path, equal):
    trials = []
    for p in range(5):
        trials += [
            fake_trial("B", partition=p, mAP=0.5 + 0.001 * p),
            fake_trial("A", partition=p, mAP=0.7 + 0.0011 * p),
        ]
    for trial in trials:
        for row in trial.measures:
            if equal and row["measure"] == "precision":
                row["value"] = 0.9
            elif trial.columns["learner"] == "B" and (row["measure"], row["k"]) == ("precision", 1):
                row["value"] += 0.3
    (first, _) = answers(view_of(make_run(tmp_path / "run", trials, ["B", "A"])))
    assert "A leads in mAP (0.702). It is significantly better than B by 0.200 [" in first
    told = "B is best in precision at 1 (0.902), 0.100 [0.099, 0.100] above A (significant)."
    assert told in first or equal
    assert ("precision" in first) != equal


def test_one_partition_allows_no_test(tmp_path):
    trials = [fake_trial(name, partition=0, mAP=values[0]) for name, values in SCORES.items()]
    (first, _) = answers(view_of(make_run(tmp_path / "run", trials, list(SCORES), partitions=1)))
    highest = "Retrieval, 10 classes: C has the highest mAP, 0.710"
    assert first == f"{highest}; a test needs more than one partition."


def test_a_search_that_ended_at_its_cap_asks_for_more_steps(tmp_path):
    trials = [fake_trial(name, partition=p, n_steps=1000) for name in "AB" for p in range(5)]
    run = make_run(tmp_path / "run", trials, ["A", "B"], max_steps=1000)
    assert any(step.command.endswith("--max-steps 4000") for step in next_steps(view_of(run)))


@pytest.mark.parametrize("n_partitions", [1, 2])
def test_where_all_are_at_the_most_there_is_nobody_leads_and_more_partitions_are_no_remedy(
    tmp_path, n_partitions
):
    trials = [fake_trial(name, partition=p, mAP=1.0) for name in "AB" for p in range(n_partitions)]
    for trial in trials:
        for row in trial.measures:
            row["value"] = 1.0
    run = make_run(tmp_path / "run", trials, ["A", "B"], partitions=n_partitions)
    assert answers(view_of(run))[0] == (
        "Retrieval, 10 classes: all learners reach the maximum of mAP (1.000). More test images or "
        "another measure may separate them."
    )
    assert next_steps(view_of(run)) == []


def test_a_best_at_chance_is_said_to_be_there(tmp_path):
    """Chance of mAP is 0.115: 10 classes of 25 test images."""
    trials = [fake_trial("A", partition=p, mAP=value) for p, value in enumerate((0.10, 0.16))]
    run = make_run(tmp_path / "run", trials, ["A"], partitions=2)
    assert answers(view_of(run))[0].endswith("No learner is clearly above chance (0.115).")


def test_a_classifier_that_wins_is_said_to_be_no_metric(tmp_path):
    trials = [
        fake_trial(name, partition=p, mAP=value + more)
        for name, more in (("P", 0.1), ("A", 0), ("B", -0.05))
        for p, value in enumerate(SCORES["A"])
    ]
    learners = {"P": "ClassifierPosterior", "A": "OASIS", "B": "LMNN"}
    specs = {name: asdict(LearnerSpec(algorithm)) for name, algorithm in learners.items()}
    run = read_run(write_run(tmp_path / "run", trials, {"learners": specs}))
    assert answers(view_of(run))[0].startswith(
        "Retrieval, 10 classes: P has the highest mAP (0.804). "
    )
    assert answers(view_of(run))[0].endswith(
        "P is a classifier and learns no metric. The best metric learner is A (0.704)."
    )


NOISE = [-0.004, 0.002, 0.004, 0.001, -0.003]


def run_of_uses(folder, direct, posterior, algorithms=None, tasks=("retrieval",)):
    """Make a run of five partitions of learners with these mAPs directly and by posterior.

    Those of A follow `NOISE`; a posterior of None is not offered.
    """
    trials = [
        fake_trial(
            name,
            partition=p,
            mAP=mAP + NOISE[p] * (name == "A"),
            gain=None if posterior[name] is None else posterior[name] - mAP,
            tasks=tasks,
        )
        for name, mAP in direct.items()
        for p in range(5)
    ]
    algorithms = {"A": "OASIS", "Euclidean": "Euclidean", **(algorithms or {})}
    specs = {name: asdict(LearnerSpec(algorithms[name])) for name in direct}
    settings = {"learners": specs, "partitions": 5, "tasks": list(tasks)}
    return read_run(write_run(folder, trials, settings))


@pytest.mark.parametrize(
    ("euclidean", "by_posterior", "gain"),
    [
        (0.5, 0.6, "learning a metric helps."),
        (0.5, None, "learning a metric helps."),
        (0.5, 0.7, "the labels help, and learning a metric adds less than 0.01 to them."),
        (0.5, 0.693, "the labels help, and learning a metric adds nothing significant to them."),
        (0.5, 0.8, "the labels help, and they help more without a learned metric."),
        (0.7, 0.6, "learning a metric gains less than 0.01."),
        (0.693, 0.6, "learning a metric brings no significant gain."),
        (0.8, 0.6, "learning a metric does harm."),
    ],
)
def test_the_answer_begins_with_what_learning_gains(tmp_path, euclidean, by_posterior, gain):
    direct, posterior = {"A": 0.65, "Euclidean": euclidean}, {"A": 0.7, "Euclidean": by_posterior}
    run = run_of_uses(tmp_path / "run", direct, posterior)
    first = answers(view_of(run))[0]
    assert first.startswith(f"Known classes (retrieval, 10 classes, 5 partitions): {gain} ")


def test_labels_do_not_help_where_votes_are_no_better_than_the_distance(tmp_path):
    """Euclidean has .70 directly, and .69 by posterior with so much spread that A is unclear."""
    votes = [0.4, 0.8, 0.6, 0.7, 0.95]
    trials = [
        fake_trial(name, partition=p, mAP=mAP + NOISE[p] * (name == "A"), gain=gain)
        for name, mAP in {"A": 0.8, "Euclidean": 0.7}.items()
        for p, own in enumerate(votes)
        for gain in [own - 0.7 if name == "Euclidean" else -0.1]
    ]
    specs = {"A": asdict(LearnerSpec("OASIS")), "Euclidean": asdict(LearnerSpec("Euclidean"))}
    run = read_run(write_run(tmp_path / "run", trials, {"learners": specs, "partitions": 5}))
    assert (
        ": learning a metric helps against Euclidean used directly, but not by posterior. The "
        "best metric, A directly, has mAP 0.800." in answers(view_of(run))[0]
    )


def test_nobody_has_the_highest_mean_by_one_easy_partition(tmp_path):
    """B was too slow on all partitions but one, where it is above all values of A."""
    trials = [fake_trial("A", partition=p, mAP=0.7 + NOISE[p]) for p in range(5)]
    trials += [fake_trial("B", partition=0, mAP=0.95)]
    run = read_run(write_run(tmp_path / "run", trials, {"partitions": 5}))
    assert answers(view_of(run))[0].startswith(
        "Retrieval, 10 classes: A has the highest mAP, 0.700; no other learner has two partitions "
        "in common with it."
    )


def test_the_methods_name_the_test_and_the_sizes_of_each_split(tmp_path):
    means = {"A": 0.7, "B": 0.6}
    trials = [fake_trial(it, partition=p, mAP=means[it] + NOISE[p]) for it in means for p in (0, 1)]
    run = read_run(write_run(tmp_path / "two", trials, {"partitions": 2}))
    latex = methods(view_of(run))[1]
    assert "tested by a resampled t-test" in latex
    assert {"nadeau2003", "holm1979"} <= {*re.findall(r"\\cite\{(\w+)\}", latex)}
    alone = read_run(write_run(tmp_path / "one", trials[::2], {"partitions": 1}))
    assert "tested" not in methods(view_of(alone))[0]
    few = {"partitions": 2, "replicates": 2}
    assert "tested" not in methods(view_of(read_run(write_run(tmp_path / "few", trials, few))))[0]


def test_the_answer_compares_the_best_use_with_both_of_euclidean(tmp_path):
    """A direct .65, by posterior .7; a classifier that is better is no metric."""
    direct, posterior = {"A": 0.65, "P": 0.9, "Euclidean": 0.5}, {"A": 0.7, "P": 0.9}
    run = run_of_uses(
        tmp_path / "run",
        direct,
        {**posterior, "Euclidean": 0.6},
        {"P": "ClassifierPosterior"},
        ("unseen-classes",),
    )
    over = [PairedInterval.of([d + it for it in NOISE], 250 / 650) for d in (0.2, 0.1)]
    intervals = [f"{it.mean:.3f} [{it.low:.3f}, {it.high:.3f}] lower" for it in over]
    assert answers(view_of(run))[0] == (
        "New classes (unseen classes, 10 classes, 5 partitions): learning a metric helps. The best "
        f"metric, A by posterior, has mAP 0.700. Euclidean is {intervals[0]} directly (worse) and "
        f"{intervals[1]} by posterior (worse)."
    )
    assert "By posterior: training images vote for the classes" in answers(view_of(run))[-1]
    chance = view_of(run).numbers["unseen-classes"]["chance"].iloc[0]
    assert headlines(view_of(run)) == [
        "New classes: learning a metric helps. The best metric, A by posterior, has mAP 0.700. "
        f"Euclidean has 0.500 directly and 0.600 by posterior, and chance is {chance:.3f}."
    ]
    page = write_report(tmp_path / "run").read_text()
    assert page.index(headlines(view_of(run))[0]) < page.index("The tests and the costs in words")


def test_the_terminal_shows_known_and_new_classes_in_nine_lines(tmp_path):
    """Both come before who leads, and the whole is followed by the path of the report."""
    means = {"A": 0.65, "Euclidean": 0.5}
    trials = [
        fake_trial(name, partition=p, mAP=mAP + NOISE[p], gain=0.1 + NOISE[p], tasks=(task,))
        for name, mAP in means.items()
        for p in range(5)
        for task in ("retrieval", "unseen-classes")
    ]
    settings = {"tasks": ["retrieval", "unseen-classes"], "partitions": 5}
    learners = {it: asdict(LearnerSpec("LMNN" if it == "A" else it)) for it in means}
    run = read_run(write_run(tmp_path / "run", trials, {**settings, "learners": learners}))
    text = answer_text(run)
    assert text.startswith("Known classes (retrieval")
    assert "\nNew classes (unseen classes" in text
    assert len(text.splitlines()) <= MOST_LINES
    assert summary_text(run).startswith("Known classes (retrieval")
