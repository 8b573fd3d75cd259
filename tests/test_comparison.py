"""Comparison of two runs: what is compared, which changes are beyond noise, the exit status."""

import math

import numpy as np
import pytest
from scipy import stats

from oasis_bench.analysis import compare_runs
from oasis_bench.command_line import main
from oasis_bench.runs import read_run

MIB = 2**20


@pytest.fixture
def compare(write_run, capsys):
    """Compare columns of runs on the command line; return exit status, lines and text."""

    def call(old, new, *options, of_old=None, of_new=None):
        folders = [
            write_run("old", old, **(of_old or {})),
            write_run("new", new, **(of_new or {})),
        ]
        status = main(["compare", *map(str, folders), *options])
        found, _ = compare_runs(*map(read_run, folders))
        lines = {(it.subset, it.learner, it.measure): it for it in found.itertuples()}
        return status, lines, capsys.readouterr().out

    return call


def trials(column, values, **columns):
    return [{"partition": p, column: value, **columns} for p, value in enumerate(values)]


def verdicts(lines):
    return {measure: line.verdict for (*_, measure), line in lines.items()}


def test_precision_that_fell_beyond_the_corrected_interval_is_worse(compare):
    old = trials("mAP", [0.5, 0.6, 0.7, 0.6, 0.5])
    new = trials("mAP", [0.46, 0.55, 0.64, 0.55, 0.45])
    status, lines, text = compare(old, new)
    line = lines["10", "A", "mAP"]
    # Differences 0.04, 0.05, 0.06, 0.05, 0.05: s = sqrt(2e-4 / 4), t(4) = 2.776445.
    error = math.sqrt(2e-4 / 4) * math.sqrt(1 / 5 + 250 / 400)
    half = 2.776445 * error
    assert (line.old, line.new, line.n) == (pytest.approx(0.58), pytest.approx(0.53), 5)
    assert (line.change, line.low, line.high) == pytest.approx((-0.05, -0.05 - half, -0.05 + half))
    # Precision at 1 and at 10 fell as much: three equal p-values, each corrected to three times it.
    assert line.p_value == pytest.approx(3 * 2 * stats.t.sf(0.05 / error, df=4))
    assert line.verdict == "worse"
    assert status == 1
    row = next(row for row in text.splitlines() if " mAP " in row)
    assert (
        " ".join(row.split())
        == "10 A retrieval mAP 5 0.5800 0.5300 -0.0500 [-0.0678, -0.0322] 0.0044 worse"
    )
    assert text.splitlines()[-1] == (
        "3 worse beyond noise, of 9 lines, 0 better, 0 not judged"  # P@1, P@10 fell with mAP
    )


def test_the_overlap_of_partitions_widens_the_interval_of_precision_and_not_of_seconds(compare):
    # Precision alone: p = 0.010 without the overlap, and 0.087 with it.  Four lines are tested.
    changes = np.array([0.005, 0.02, 0.03, 0.03, 0.02])
    old = trials("mAP", [0.5] * 5)
    new = trials("mAP", 0.5 - changes)
    for trial, change in zip(new, changes, strict=True):
        trial["fit_seconds"] = math.exp(10 * change)
    status, lines, _ = compare(old, new)
    assert 4 * stats.ttest_1samp(changes, 0).pvalue < 0.05
    assert lines["10", "A", "mAP"].verdict == "same"
    assert lines["10", "A", "fit_seconds"].verdict == "worse"
    assert status == 1


def test_the_interval_of_seconds_is_the_paired_t_interval_of_their_logarithms(compare):
    before, after = np.array([1.0, 1.3, 0.9, 1.1]), np.array([1.3, 1.6, 1.3, 1.5])
    old, new = (trials("fit_seconds", values) for values in (before, after))
    status, lines, _ = compare(old, new)
    line = lines["10", "A", "fit_seconds"]
    interval = stats.ttest_rel(np.log(after), np.log(before)).confidence_interval()
    assert (line.low, line.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert (line.old, line.new) == pytest.approx((stats.gmean(before), stats.gmean(after)))
    assert line.change == pytest.approx(stats.gmean(after / before))
    assert (line.verdict, status) == ("worse", 1)
    assert lines["10", "A", "fit_cpu_seconds"].verdict == "same"


@pytest.mark.parametrize(
    ("measure", "before", "after", "verdict", "is_tested"),
    [
        ("fit_seconds", [1.0, 1.0], [1.11, 1.112], "worse", True),
        ("fit_seconds", [1.0, 1.0], [0.85, 0.86], "better", True),
        ("fit_seconds", [1.0, 1.0, 1.0], [2.0, 0.5, 2.0], "same", True),
        ("fit_seconds", [1.0, 1.0], [1.0, 1.0], "same", False),
        ("fit_seconds", [0.0002, 0.0003], [0.0008, 0.0009], "same", False),  # less than 1 ms
        ("fit_seconds", [0.0020, 0.0020], [0.0025, 0.0024], "same", True),  # by 0.5 ms
        ("query_seconds", [0.5, 0.5], [0.25, 0.251], "better", True),
        ("query_seconds", [0.001, 0.001], [0.0025, 0.0025], "same", False),  # 10 µs a query
        ("model_bytes", [MIB, MIB], [2 * MIB, 2 * MIB], "worse", False),
        ("fit_peak_bytes", [0, 0], [20 * MIB, 21 * MIB], "worse", True),
        ("fit_peak_bytes", [50 * MIB] * 2, [50 * MIB + 2**19, 50 * MIB], "same", True),
        ("fit_seconds", [1.0, 1.0], [2.0, 2.0], "not judged", False),
        ("mAP", [0.5, 0.6], [0.49, 0.5901], "worse", True),
        ("mAP", [0.5, 0.6], [0.49, 0.59], "not judged", False),  # no spread
        ("mAP", [0.5, 0.6], [0.5 - 1e-16, 0.6 - 1e-16], "same", False),
    ],
)
def test_each_change_has_its_verdict(compare, measure, before, after, verdict, is_tested):
    status, lines, _ = compare(trials(measure, before), trials(measure, after))
    cost = {"query_seconds": "seconds_per_query"}
    line = lines["10", "A", cost.get(measure, measure)]
    assert line.verdict == verdict
    assert math.isnan(line.p_value) != is_tested
    assert status == (verdict == "worse")


def test_verdicts_go_by_the_p_values_of_all_lines_corrected_by_holm(compare):
    """Three costs of five partitions: p-values 0.0025, 0.033 and 0.038; the last two are chance."""
    logs = {
        "fit_seconds": np.array([0.5, 0.6, 0.4, 0.5, 0.9]),
        "fit_cpu_seconds": np.array([0.5, 0.1, 0.2, 0.3, 0.1]),
        "fit_peak_bytes": np.array([0.5, 0.3, 0.1, 0.8, 0.2]),
    }
    old = trials("fit_seconds", [1.0] * 5, fit_peak_bytes=50 * MIB)
    new = [
        {
            "partition": p,
            "fit_seconds": math.exp(logs["fit_seconds"][p]),
            "fit_cpu_seconds": math.exp(logs["fit_cpu_seconds"][p]),
            "fit_peak_bytes": round(50 * MIB * math.exp(logs["fit_peak_bytes"][p])),
        }
        for p in range(5)
    ]
    status, lines, text = compare(old, new)
    t = {name: it.mean() / it.std(ddof=1) * math.sqrt(5) for name, it in logs.items()}
    p = {name: 2 * stats.t.sf(value, df=4) for name, value in t.items()}
    first, second, third = sorted(p.values())
    corrected = [3 * first, 2 * second, max(2 * second, third)]
    order = sorted(p, key=p.__getitem__)
    assert [lines["10", "A", it].p_value for it in order] == pytest.approx(corrected, rel=1e-5)
    assert first < 0.05 / 3
    assert 0.05 / 2 < second < third < 0.05
    assert [lines["10", "A", it].verdict for it in order] == ["worse", *["same"] * 2]
    assert all(lines["10", "A", it].low > 1 for it in order)  # intervals are not corrected
    assert math.isnan(lines["10", "A", "mAP"].p_value)  # identical: no part of the family
    assert (status, text.splitlines()[-1][:20]) == (1, "1 worse beyond noise")


def test_the_interval_of_a_change_ends_where_the_measure_does(compare):
    _, lines, _ = compare(trials("mAP", [0.1, 0.5]), trials("mAP", [0.9, 0.6]))
    line = lines["10", "A", "mAP"]
    assert (line.low, line.high) == (-1, 1)


def test_the_tolerance_can_be_chosen(compare, capsys):
    old, new = trials("fit_seconds", [1.0, 1.0]), trials("fit_seconds", [1.4, 1.41])
    assert compare(old, new, "--tolerance", "0.5")[0] == 0
    for bad in ("-0.1", "nan", "inf", "much"):
        assert main(["compare", ".", ".", f"--tolerance={bad}"]) == 2
        assert repr(bad) in capsys.readouterr().err


def test_a_trial_that_was_lost_is_worse_and_one_that_was_gained_is_better(compare):
    lost = {"status": "timeout", "reason": "more than 10m"}
    failed = {"status": "failed", "reason": "ValueError"}
    old = [{"partition": 0}, {"partition": 1}, {"partition": 0, "learner": "B", **failed}]
    new = [{"partition": 0}, {"partition": 1, **lost}, {"partition": 0, "learner": "B"}]
    status, lines, text = compare(old, new)
    assert status == 1
    line = lines["10", "A", "results"]
    assert (line.old, line.new, line.verdict) == (2, 1, "worse")
    assert "worse: partition 1 timeout: more than 10m" in text
    assert lines["10", "B", "results"].verdict == "better"
    assert lines["10", "A", "mAP"].n == 1


def test_one_partition_cannot_be_judged_unless_nothing_changed(compare, write_run, capsys):
    status, lines, text = compare([{}], [{"mAP": 0.4, "fit_seconds": 9.0}])
    assert verdicts(lines)["mAP"] == "not judged"
    assert lines["10", "A", "mAP"].change == pytest.approx(-0.1)
    assert "not judged: one partition has no interval" in text
    assert verdicts(lines)["fit_cpu_seconds"] == "same"
    assert status == 0  # CPU seconds and memory are judged
    costs = {"fit_seconds": 2.0, "fit_cpu_seconds": 2.0, "fit_peak_bytes": 90 * MIB}
    costs |= {"tuning_fit_seconds": 6.0, "query_seconds": 0.6, "model_bytes": 9 * MIB}
    other = write_run("other", [{"mAP": 0.4, **costs}])
    folder = other.with_name("old")
    assert main(["compare", str(folder), str(other)]) == 3
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("nothing could be judged: 9 lines")


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"shared_cores": 1}, "trials shared cores"),
        ({"threads": 2}, "different numbers of threads"),
        ({"processor": "another"}, "one and the same processor"),
        ({"processor": None}, "one and the same processor"),
        ({"fit_waiting_seconds": 0.5}, "waited for a core"),
    ],
)
def test_seconds_that_cannot_be_compared_are_shown_and_decide_nothing(compare, columns, reason):
    old = trials("fit_seconds", [1.0, 1.0, 1.0])
    new = trials("fit_seconds", [3.0, 3.1, 3.2], **columns)
    for one, seconds in zip(new, [2.0, 2.1, 2.2], strict=True):
        one["query_seconds"] = seconds
    status, lines, text = compare(old, new)
    for cost in ("fit_seconds", "seconds_per_query"):
        assert verdicts(lines)[cost] == "not judged"
    assert "x3.10" in text
    assert reason in text
    assert verdicts(lines)["mAP"] == "same"
    assert status == 0


def test_a_noisy_trial_is_left_out_of_seconds_alone(compare):
    old = trials("fit_seconds", [1.0, 1.0, 1.0])
    new = trials("fit_seconds", [1.0, 1.0, 7.0])
    new[2]["fit_waiting_seconds"] = 6.0
    status, lines, _ = compare(old, new)
    assert (lines["10", "A", "fit_seconds"].n, lines["10", "A", "mAP"].n) == (2, 3)
    assert (lines["10", "A", "fit_seconds"].verdict, status) == ("same", 0)


@pytest.mark.parametrize(
    ("of_new", "reason"),
    [
        ({"identity": {"seed": 1}}, "seed (0, 1)"),
        (
            {"identity": {"data": "other"}, "experiment": {"dataset": "mnist"}},
            "the rows of the data set (made up, mnist)",
        ),
        ({"identity": {"classes": [*range(1, 11)]}}, "classes"),
        (
            {"identity": {"sizes": [200, 250]}},
            "the numbers of training and test items ([400, 250], [200, 250])",
        ),
        ({"identity": {"scaling": "none"}}, "the scaling of rows (l2, none)"),
        ({"identity": {"algorithm": "LMNN"}}, "algorithm (OASIS, LMNN)"),
    ],
)
def test_trials_on_other_images_are_not_compared_and_the_reason_is_told(compare, of_new, reason):
    both = trials("fit_seconds", [1.0, 1.0])
    status, lines, text = compare(both, both, of_new=of_new)
    assert (status, lines) == (3, {})
    assert f"not compared, as OLD and NEW differ in {reason}: A on classes 10" in " ".join(
        text.split()
    )
    assert text.splitlines()[-1] == "nothing could be compared"


def test_what_only_one_run_has_is_told_and_not_compared(compare):
    old = [
        *({"partition": p, "learner": "A"} for p in range(3)),
        {"learner": "B"},
        {"subset": "20", "n_classes": 20},
    ]
    new = [{"learner": "A"}, {"partition": 3}, {"learner": "C", "status": "failed", "reason": "no"}]
    status, lines, text = compare(old, new)
    assert {key[:2] for key in lines} == {("10", "A")}
    assert {line.n for line in lines.values()} == {1}
    assert status == 0
    for told in (
        "only in OLD: A on classes 10, partition 1, 2; B on classes 10, partition 0; "
        "A on classes 20, partition 0",
        "only in NEW: A on classes 10, partition 3; C on classes 10, partition 0",
    ):
        assert told in " ".join(text.split())


def test_in_what_the_compared_trials_differ_is_told(compare):
    of_new = {"identity": {"source": "other", "max_steps": 2000}}
    status, _, text = compare([{}, {"learner": "B"}], [{}, {"learner": "B"}], of_new=of_new)
    assert status == 0
    assert "OLD and NEW differ in the source code: A, B" in text.splitlines()
    assert "OLD and NEW differ in max_steps (1000, 2000): A, B" in text.splitlines()


def test_a_folder_without_a_run_is_a_mistake(write_run, tmp_path, capsys):
    folder = write_run("old", [{}])
    for absent, told in ((tmp_path / "absent", "No such file"), (tmp_path, "has no run")):
        assert main(["compare", str(folder), str(absent)]) == 2
        assert told in capsys.readouterr().err


def test_every_task_that_both_runs_asked_is_compared_and_the_others_are_told(compare):
    both = {"tasks": ("retrieval", "classification")}
    unseen = {"tasks": ("unseen-classes",), "partition": 0}
    of_old = {"experiment": {"tasks": ["retrieval", "classification", "unseen-classes"]}}
    of_new = {"experiment": {"tasks": ["classification", "unseen-classes", "judged-triplets"]}}
    old = [*trials("mAP", [0.5, 0.6], **both), {**unseen, "mAP": 0.5}]
    new = [*trials("mAP", [0.4, 0.5001], tasks=("classification",)), {**unseen, "mAP": 0.5}]
    status, lines, text = compare(old, new, of_old=of_old, of_new=of_new)
    by_task = {(line.task, line.measure): line for line in lines.values()}
    assert {task for task, _ in by_task} >= {"classification", "unseen-classes"}
    accuracy = by_task["classification", "accuracy, k = 1"]
    assert (accuracy.old, accuracy.new, accuracy.verdict) == (
        *(pytest.approx(0.75), pytest.approx(0.65005)),
        "worse",
    )
    assert not any(task == "retrieval" for task, _ in by_task)
    assert by_task["unseen-classes", "mAP"].n == 1
    assert "only in OLD: the task retrieval" in text.splitlines()
    assert "only in NEW: the task judged-triplets" in text.splitlines()
    assert status == 1


def test_an_answer_that_was_lost_is_worse_though_the_fit_stands(compare):
    tasks = {"tasks": ("retrieval", "classification")}
    of_both = {"experiment": {"tasks": ["retrieval", "classification"]}}
    lost = {"unanswered": {"classification": ("failed", "ValueError: NaN")}}
    old = [{**tasks, "partition": 0}, {**tasks, "partition": 1}]
    new = [old[0], {**old[1], **lost}]
    status, lines, text = compare(old, new, of_old=of_both, of_new=of_both)
    (line,) = [line for line in lines.values() if line.measure == "results"]
    assert (line.task, line.old, line.new, line.verdict) == ("classification", 2, 1, "worse")
    assert "worse: partition 1 failed: ValueError: NaN" in text
    assert status == 1
