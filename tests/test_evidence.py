"""What intervals stand on: class sets as replicates, and groups of judgements.

On digits and on made-up runs.
"""

from dataclasses import replace

import numpy as np
import pytest
from fake_runs import fake_trial, fake_trials, make_run
from scipy import stats

from oasis_bench.analysis import PairedInterval, compare_runs
from oasis_bench.claims import CLAIMS, measured_effects
from oasis_bench.command_line import main
from oasis_bench.datasets import Digits
from oasis_bench.experiment import Experiment, LearnerSpec, Plan
from oasis_bench.plugins import Registry
from oasis_bench.reports.terminal import summary_text
from oasis_bench.reports.verdict import _without_comparison, answers, next_steps
from oasis_bench.reports.view import view_of
from oasis_bench.runs import read_run
from oasis_bench.system import UsageError

OF_A, OF_B = [0.75, 0.79, 0.71, 0.80, 0.77], [0.70, 0.72, 0.69, 0.71, 0.72]
SIZES = {"train_per_class": 10, "test_per_class": 6, "inner_folds": 2}


def of_sets(folder, n_sets, **learners):
    trials = [
        trial
        for name, scores in learners.items()
        for trial in fake_trials(name, scores[:n_sets], n_classes=2, rho=0)
    ]
    settings = {"replicates": n_sets, "classes": [2], "partitions": n_sets}
    return make_run(folder, trials, list(learners), **settings)


def planned(**settings):
    e = Experiment("", "digits", {"E": LearnerSpec("Euclidean")}, **SIZES, **settings)
    return Plan.of(e, Digits(), Digits().load(), Registry.load()).trials


def test_each_set_has_classes_of_its_own_and_sets_do_not_correlate():
    specs = planned(classes=(3,), replicates=3)
    sets = [set(spec.where.classes) for spec in specs]
    assert list(map(len, sets)) == [3, 3, 3]
    assert len(set.union(*sets)) == 9
    assert {spec.where.rho for spec in specs} == {0}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"partitions": 5}, "each set of classes is a partition: leave partitions out"),
        ({"classes": ("all",)}, "classes must be numbers"),
        (
            {"classes": (3,), "replicates": 4},
            "12 classes, and 10 of the 10 .* lower --replicates",
        ),
    ],
)
def test_what_replicates_cannot_be_is_refused_with_a_remedy(given, message):
    with pytest.raises(UsageError, match=message):
        planned(**{"classes": (2,), "replicates": 3, **given})


def test_differences_over_all_sets_are_tested_by_student_s_t(tmp_path):
    run = of_sets(tmp_path / "run", 5, A=OF_A, B=OF_B)
    (found,) = view_of(run).comparisons["retrieval"][0].differences.values()
    theirs = stats.ttest_rel(OF_A, OF_B)
    interval = theirs.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert answers(view_of(run))[0].startswith("Retrieval, 5 class sets of 2 classes: A")
    (line,) = [
        it
        for it in compare_runs(run, of_sets(tmp_path / "new", 5, A=OF_B))[0].itertuples()
        if it.measure == "mAP"
    ]
    assert (line.n, line.low, line.high) == pytest.approx((5, -interval.high, -interval.low))
    assert line.verdict == "worse"


def test_four_sets_are_described_and_not_tested(tmp_path):
    run = of_sets(tmp_path / "run", 4, A=OF_A, B=OF_B)
    first = answers(view_of(run))[0]
    assert "A has the highest mAP, 0.762; a test needs 5 class sets, and there are 4" in first
    assert not [step for step in next_steps(view_of(run)) if "--partitions" in step.command]
    lines, _ = compare_runs(run, of_sets(tmp_path / "new", 4, A=OF_B))
    assert {line.verdict for line in lines.itertuples() if line.measure == "mAP"} == {"not judged"}


def test_a_run_of_class_sets_of_digits(tmp_path):
    options = "--dataset digits --classes 2 --replicates 5 --train 10 --test 6 --algorithms"
    names = "Euclidean --inner-folds 2 --no-traces --tasks retrieval,classification"
    folder = tmp_path / "run"
    assert main(["run", *options.split(), *names.split(), "--output", str(folder)]) == 0
    run = read_run(folder)
    assert run.trials["rho"].eq(0).all()
    assert run.confusion.groupby("partition")["label"].nunique().tolist() == [2] * 5
    assert run.confusion["label"].nunique() == 10
    page = " ".join((folder / "report.html").read_text().split())
    assert "Each of 5 class sets has other classes" in page


MEASURE, COUNTS = "similarity precision", np.random.default_rng(0).integers(1, 6, (2, 15))
"""Judgements of each group, of two folds of 15 groups."""


def of_judgements(folder, n_groups=15, n_folds=2, **shares):
    """Make a run whose learners have, of each group, such a share of the judgements right."""
    rng, trials = np.random.default_rng(1), []
    for name, share in shares.items():
        for fold, counts in enumerate(np.tile(COUNTS, (n_folds // 2, 1))[:, :n_groups]):
            right = rng.binomial(counts, share)
            level = 0.5 + share * (0.1 + 0.01 * fold)
            trial = fake_trial(name, partition=fold, mAP=level, tasks=("judged-triplets",))
            usual = {"task": "judged-triplets", "measure": MEASURE, "k": None}
            groups = [
                {**usual, "cluster": 100 * fold + group, "n": int(n), "value": float(value)}
                for group, (n, value) in enumerate(zip(counts, right, strict=True))
            ]
            trials.append(replace(trial, groups=groups))
    return make_run(folder, trials, list(shares), partitions=n_folds, tasks=["judged-triplets"])


def mean_of(run, learner):
    own = run.groups[run.groups["learner"] == learner]
    return own["value"].sum() / own["n"].sum()


def difference_of(run, first, second, other=None):
    a, b = (
        it.groups[it.groups["learner"] == name].reset_index()
        for it, name in ((run, first), (other or run, second))
    )
    return PairedInterval.of((a["value"] - b["value"]) / a["n"], 0, a["n"])


def test_a_measure_of_judgements_without_groups_is_not_tested_on_any_number_of_folds(tmp_path):
    run = of_judgements(tmp_path / "run", n_folds=10, A=0.9, B=0.6)
    view = view_of(run)
    measures = view.measures["judged-triplets"]
    measures["is_headline"] |= measures["name"] == "agreement"  # it has no groups here
    with_groups, without = view.compare("judged-triplets")
    assert (with_groups.name, with_groups.verdicts) == (MEASURE, {"A": "best", "B": "worse"})
    assert (without.name, without.verdicts) == ("agreement", {"A": "", "B": ""})
    assert "it has no value for each query of judgements" in _without_comparison(
        view, "judged-triplets", without
    )


def test_judgements_are_compared_by_the_jackknife_over_their_groups(tmp_path):
    run = of_judgements(tmp_path / "run", A=0.9, B=0.6, C=0.88)
    view = view_of(run)
    numbers = view.numbers["judged-triplets"].set_index(["name", "learner"])
    assert numbers.loc[(MEASURE, "A"), "mean"] == pytest.approx(mean_of(run, "A"))
    found = difference_of(run, "A", "B")
    assert f"B by {found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]" in answers(view)[0]
    assert not [step for step in next_steps(view) if "--partitions" in step.command]
    text = summary_text(run)
    assert "mean ± standard error, by the jackknife over queries" in text
    spread = numbers.loc[(MEASURE, "A"), "sd"]
    assert f"{mean_of(run, 'A'):.3f} ± {spread:.3f}" in text
    own = run.groups[run.groups["learner"] == "A"]
    interval = PairedInterval.of(own["value"] / own["n"], 0, own["n"])
    assert spread == pytest.approx(interval.sd / np.sqrt(30))


def test_runs_of_judgements_are_compared_over_the_same_groups(tmp_path):
    old = of_judgements(tmp_path / "old", A=0.9)
    new = of_judgements(tmp_path / "new", B=0.9, A=0.5)
    (line,) = [it for it in compare_runs(old, new)[0].itertuples() if it.measure == MEASURE]
    found = difference_of(new, "A", "A", old)
    assert (line.n, line.verdict) == (30, "worse")
    assert (line.old, line.new) == pytest.approx((mean_of(old, "A"), mean_of(new, "A")))
    assert (line.low, line.high) == pytest.approx((found.low, found.high))


def test_few_groups_of_judgements_are_described_and_not_tested(tmp_path):
    run = of_judgements(tmp_path / "run", n_groups=2, A=0.9, B=0.2)
    assert "4 queries of judgements are too few for a test" in answers(view_of(run))[0]
    assert "± n/a" in summary_text(run)
    (line,) = [
        it
        for it in compare_runs(run, of_judgements(tmp_path / "new", n_groups=2, A=0.2))[
            0
        ].itertuples()
        if it.measure == MEASURE
    ]
    assert (line.verdict, line.reason) == (
        "not judged",
        "3.96 groups of judgements, as if of equal sizes: 6 are tested",
    )


def test_a_claim_on_judgements_is_tested_over_their_groups(tmp_path):
    """The error of a weighted mean, by its linear approximation: the jackknife has about that."""
    shares = {"OASIS: hand-made": 0.9, "texton": 0.8}
    run = of_judgements(tmp_path / "run", **shares)
    claims = [claim for claim in CLAIMS if claim.id == "D1"]
    measured = measured_effects(claims, {"deep-ranking": {"run": run}})
    (row,) = measured[measured["values"] > 0].to_dict("records")
    own, other = (run.groups[run.groups["learner"] == name].reset_index() for name in shares)
    less = (own["value"] - other["value"]) / own["n"]
    mean = np.average(less, weights=own["n"])
    error = np.sqrt(np.sum((own["n"] * (less - mean)) ** 2)) / own["n"].sum()
    assert (row["mean"], row["values"]) == (pytest.approx(mean), 30)
    assert row["low"] == pytest.approx(mean - stats.t.ppf(0.95, 29) * error, abs=0.1 * error)
    assert row["p_value"] == pytest.approx(stats.t.sf(mean / error, 29), rel=0.3)
