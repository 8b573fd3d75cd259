"""Class sets as replicates: `--replicates`, on digits and on made-up runs."""

import pytest
from fake_runs import fake_trials, make_run
from scipy import stats

from oasis_bench.analysis import compare_runs
from oasis_bench.command_line import main
from oasis_bench.datasets import Digits
from oasis_bench.experiment import Experiment, LearnerSpec, plan
from oasis_bench.plugins import load_registry
from oasis_bench.reports.run.verdict import answers, next_steps
from oasis_bench.reports.run.view import view_of
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
    return plan(e, Digits(), Digits().load(), load_registry())


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
            "12 classes, and 10 of the 10 .* 3 replicates at most",
        ),
    ],
)
def test_what_replicates_cannot_be_is_refused_with_a_remedy(given, message):
    with pytest.raises(UsageError, match=message):
        planned(**{"classes": (2,), "replicates": 3, **given})


def test_differences_over_all_sets_are_tested_by_student_s_t(tmp_path):
    run = of_sets(tmp_path / "run", 5, A=OF_A, B=OF_B)
    (found,) = view_of(run).comparisons["retrieval"][0].best.differences.values()
    theirs = stats.ttest_rel(OF_A, OF_B)
    interval = theirs.confidence_interval()
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert answers(view_of(run))[0].startswith("Retrieval, 5 class sets of 2 classes: A")
    (line,) = [
        it
        for it in compare_runs(run, of_sets(tmp_path / "new", 5, A=OF_B)).lines
        if it.measure == "mAP"
    ]
    assert (line.n, line.low, line.high) == pytest.approx((5, -interval.high, -interval.low))
    assert line.verdict == "worse"


def test_four_sets_are_described_and_not_tested(tmp_path):
    run = of_sets(tmp_path / "run", 4, A=OF_A, B=OF_B)
    first = answers(view_of(run))[0]
    assert "A has the highest mAP, 0.762; 4 class sets are described, not tested" in first
    assert not [step for step in next_steps(view_of(run)) if "--partitions" in step.command]
    lines = compare_runs(run, of_sets(tmp_path / "new", 4, A=OF_B)).lines
    assert {line.verdict for line in lines if line.measure == "mAP"} == {"not judged"}


def test_a_run_of_class_sets_of_digits(tmp_path):
    options = "--dataset digits --classes 2 --replicates 5 --train 10 --test 6 --algorithms"
    names = (
        "Euclidean,RCA --search off --inner-folds 2 --no-traces --tasks retrieval,classification"
    )
    folder = tmp_path / "run"
    assert main(["run", *options.split(), *names.split(), "--output", str(folder)]) == 0
    run = read_run(folder)
    assert run.trials["rho"].eq(0).all()
    assert run.confusion.groupby("partition")["label"].nunique().tolist() == [2] * 5
    assert run.confusion["label"].nunique() == 10
    page = " ".join((folder / "report.html").read_text().split())
    assert "Each of 5 class sets has classes and images of its own" in page
