"""The verb `ranks` on whole runs: its page, tables, figure and summary."""

import math
import re
from dataclasses import asdict

import fake_runs
import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trial
from scipy import stats

from oasis_bench.command_line import main
from oasis_bench.experiment import LearnerSpec


def write_run(folder, dataset, scores, subsets=(10,), lost=(), untried=(), params=None):
    """Write a run of two partitions of `dataset`; mAP on the largest subset is `scores`.

    `lost` and `untried` are pairs of a learner and a partition without a result, or without a
    trial; `params` those of learners that do not have the defaults.
    """
    trials = [
        fake_trial(learner, n_classes, partition, mAP=score + (max(subsets) - n_classes) / 10)
        if (learner, partition) not in lost
        else fake_trial(learner, n_classes, partition, status="timeout", reason="over 10 s")
        for learner, score in scores.items()
        for n_classes in subsets
        for partition in range(2)
        if (learner, partition) not in untried
    ]
    specs = {name: asdict(LearnerSpec("OASIS", (params or {}).get(name, {}))) for name in scores}
    experiment = {"dataset": dataset, "classes": list(subsets), "learners": specs}
    return fake_runs.write_run(folder, trials, experiment)


@pytest.fixture
def ranks(tmp_path, capsys):
    """Run the verb on runs and return its status, output and errors, and the folder written."""

    def call(*runs):
        status = main(["ranks", *map(str, runs), "--output", str(tmp_path / "a" / "out")])
        told = capsys.readouterr()
        return status, told.out, told.err, tmp_path / "a" / "out"

    return call


def flat(text):
    return " ".join(text.split())


def seven_runs(folder):
    """A is above B and B above C on each of seven data sets."""
    return [
        write_run(folder / f"run{n}", f"set{n}", {"A": 0.6, "B": 0.5, "C": 0.4}) for n in range(7)
    ]


def test_ranks_of_several_runs_are_a_table_a_figure_a_page_and_a_summary(ranks, tmp_path):
    status, out, err, folder = ranks(*seven_runs(tmp_path))
    assert (status, err) == (0, "")
    lines = out.splitlines()
    first = lines.index("average ranks by mAP (retrieval) over 7 data sets, 1 is best")
    assert lines[first + 1 : first + 4] == ["  A  1.000", "  B  2.000", "  C  3.000"]
    assert max(map(len, out.splitlines()[:-1])) <= 110
    # All agree: chi-square is N (k - 1); of Wilcoxon's test p is 2 ** -6, twice as Holm corrects.
    assert "chi-square 14.00, p = " in flat(out)
    assert "against A, corrected by Holm, level 0.05: significantly below: B and C." in flat(out)
    assert {str(path.relative_to(folder)) for path in folder.rglob("*.*")} == {
        "ranks.html",
        *(
            f"tables/{name}.{kind}"
            for name in ("leaderboard", "scores", "inputs", "pairs", "ranks")
            for kind in ("csv", "tex")
        ),
        "figures/ranks.svg",
    }
    written = pd.read_csv(folder / "tables" / "ranks.csv")
    assert written.groupby("learner")["average_rank"].first().to_dict() == {"A": 1, "B": 2, "C": 3}
    assert len(written) == 21
    assert written["p_against_best"].dropna().unique().tolist() == [2 * 2 * 0.5**7]
    latex = (folder / "tables" / "ranks.tex").read_text()
    assert r"\textbf{1.000} & - & 0.600 (1) & 0.600 (1)" in latex
    assert "B & 2.000 & 0.031" in latex
    assert "C & 3.000 & 0.031" in latex


def test_each_data_set_counts_once_by_its_largest_subset(ranks, tmp_path):
    one = write_run(tmp_path / "one", "x", {"A": 0.6, "B": 0.5}, subsets=(20, 2, 10))
    two = write_run(tmp_path / "two", "y", {"A": 0.6, "B": 0.5})
    _, out, _, folder = ranks(one, two)
    written = pd.read_csv(folder / "tables" / "ranks.csv")
    assert written.set_index(["dataset", "learner"]).loc[("x", "A"), "subset"] == 20
    assert "x (20 classes, 2 partitions) and y (10 classes, 2 partitions)" in flat(out)


def test_a_learner_that_lacks_a_result_is_left_out_and_never_given_a_rank(ranks, tmp_path):
    scores = {"A": 0.6, "B": 0.5, "Slow": 0.7}
    one = write_run(tmp_path / "one", "x", scores, lost=[("Slow", 1)])
    two = write_run(tmp_path / "two", "y", {**scores, "New": 0.9})
    _, out, _, folder = ranks(one, two)
    assert "Slow is left out: on x: 1 of 2 partitions finished; 1 timeout: over 10 s." in flat(out)
    assert "New is left out: not run on x." in flat(out)
    written = pd.read_csv(folder / "tables" / "ranks.csv")
    assert set(written["learner"]) == {"A", "B"}
    assert set(written["rank"]) == {1, 2}


def run_of_tasks(folder, dataset, scores):
    """Write a run of two tasks: A is first in retrieval, and last in classification."""
    trials = [
        fake_trial(
            learner,
            partition=partition,
            mAP=mAP,
            tasks=("retrieval", "classification"),
            transductive=int(learner == "B"),
        )
        for learner, mAP in scores.items()
        for partition in range(2)
    ]
    for trial in trials:
        for row in trial.measures:
            if row["task"] == "classification":
                row["value"] = 1 - row["value"]
    experiment = {"dataset": dataset, "tasks": ["retrieval", "classification"]}
    return fake_runs.write_run(folder, trials, experiment)


def test_learners_are_ranked_by_the_measure_of_a_task_that_is_asked_for(tmp_path, capsys):
    scores = {"A": 0.5, "B": 0.4}
    runs = [str(run_of_tasks(tmp_path / name, name, scores)) for name in ("x", "y")]
    output = ["--output", str(tmp_path / "out")]
    assert main(["ranks", *runs, *output]) == 0
    assert "average ranks by mAP (retrieval) over 2 data sets" in capsys.readouterr().out
    written = pd.read_csv(tmp_path / "out" / "tables" / "ranks.csv")
    assert written.groupby("learner")["rank"].first().to_dict() == {"A": 1, "B †": 2}
    asked = ["--task", "classification", "--measure", "accuracy@3"]
    assert main(["ranks", *runs, *asked, *output]) == 0
    told = capsys.readouterr().out
    assert "average ranks by accuracy, k = 3 (classification) over 2 data sets" in told
    assert "† transductive" in told
    written = pd.read_csv(tmp_path / "out" / "tables" / "ranks.csv")
    assert written.groupby("learner")["rank"].first().to_dict() == {"B †": 1, "A": 2}
    assert written["score"].iloc[0] == pytest.approx(1 - (0.4 + 0.2 - 0.02))
    for wrong, said in (
        (["--task", "clasification"], "unknown task 'clasification': did you mean 'classification"),
        (["--measure", "accuracy@3"], "unknown measure of retrieval 'accuracy@3': there are mAP"),
    ):
        assert main(["ranks", *runs, *wrong, *output]) == 2
        assert said in capsys.readouterr().err


def leaderboard_of(folder):
    """Return the rows of the leaderboard by learner."""
    return pd.read_csv(folder / "tables" / "leaderboard.csv").set_index("learner")


def summary_of(run, folder):
    """Export the summary of a run and return its file."""
    words = ["export", str(run), "--format", "summary", "--output", str(folder)]
    assert main(words) == 0
    return folder / f"{run.name}.csv"


def test_learners_that_lack_data_sets_are_compared_where_they_met(ranks, tmp_path):
    scores = (
        {"A": 0.6, "B": 0.5},
        {"A": 0.6, "C": 0.5},
        {"A": 0.4, "B": 0.8},
        {"B": 0.8, "C": 0.9},
    )
    runs = [write_run(tmp_path / f"r{n}", f"d{n}", own) for n, own in enumerate(scores)]
    status, out, err, folder = ranks(*runs)
    assert (status, err) == (0, "")
    rows = leaderboard_of(folder)
    assert rows["datasets"].to_dict() == {"A": 3, "B": 3, "C": 2}
    assert rows["win_rate"].to_dict() == pytest.approx(
        {"A": 2 / 3, "B": 1 / 3, "C": 1 / 2}, abs=1e-3
    )
    # Each table has two learners: ranks 1 and 2 of two are 1 and 3 of three.
    assert rows["average_rank"].to_dict() == pytest.approx(
        {"A": 5 / 3, "B": 7 / 3, "C": 2}, abs=1e-3
    )
    assert rows["placed"].to_dict() == {"A": True, "B": True, "C": False}
    assert "Not placed, as on fewer than 3 data sets: C." in flat(out)
    assert "learners with a result on every data set: none; tests need at least 2" in flat(out)
    assert not (folder / "tables" / "ranks.csv").exists()
    page = (folder / "ranks.html").read_text()
    assert "Learners over 4 data sets, by mAP (retrieval)" in page
    assert re.search(r"<td[^>]*>3 of 4</td>", page)


def test_a_summary_counts_as_its_run_does(ranks, tmp_path):
    runs = seven_runs(tmp_path)
    _, _, _, folder = ranks(*runs)
    of_runs = leaderboard_of(folder)
    files = [summary_of(run, tmp_path / "summaries") for run in runs[:4]]
    status, _, err, folder = ranks(*files, *runs[4:])
    assert (status, err) == (0, "")
    pd.testing.assert_frame_equal(leaderboard_of(folder), of_runs)
    assert pd.read_csv(folder / "tables" / "ranks.csv")["rank"].max() == 3


def test_several_runs_of_a_data_set_share_its_weight(ranks, tmp_path):
    better, worse = {"A": 0.6, "B": 0.5}, {"A": 0.5, "B": 0.6}
    same = [write_run(tmp_path / f"same{n}", "x", better) for n in range(4)]
    other = write_run(tmp_path / "other", "y", worse)
    _, out, _, folder = ranks(*same, other)
    assert leaderboard_of(folder)["average_rank"].to_dict() == {"A": 1.5, "B": 1.5}
    assert leaderboard_of(folder)["win_rate"].to_dict() == {"A": 0.5, "B": 0.5}
    assert "on 2 data sets (5 tables)" in out


def test_error_reductions_are_those_of_the_baseline_that_is_named(tmp_path, capsys):
    pairs = [(0.6, 0.5), (0.8, 0.5), (0.9, 0.5)]
    runs = [
        str(write_run(tmp_path / f"r{n}", f"d{n}", {"A": a, "B": b}))
        for n, (a, b) in enumerate(pairs)
    ]
    words = ["ranks", *runs, "--output", str(tmp_path / "out")]
    assert main([*words, "--baseline", "B"]) == 0
    row = leaderboard_of(tmp_path / "out").loc["A"]
    shares = np.array([0.2, 0.6, 0.8])  # of the errors .5: .4, .2 and .1 are left
    half = stats.t.ppf(0.975, df=2) * shares.std(ddof=1) / math.sqrt(3)
    assert row["error_reduction"] == pytest.approx(shares.mean(), abs=1e-4)
    assert row["error_reduction_median"] == pytest.approx(0.6)
    ends = row[["error_reduction_low", "error_reduction_high"]].tolist()
    assert shares.mean() + half > 1  # more than all errors, which cannot be saved
    assert ends == pytest.approx([shares.mean() - half, 1], abs=1e-4)
    capsys.readouterr()
    assert main(words) == 0  # without Euclidean there is no baseline
    assert "Error reduction" not in capsys.readouterr().out
    assert main([*words, "--baseline", "b"]) == 2
    assert "unknown baseline 'b': did you mean 'B'?" in capsys.readouterr().err


def test_seconds_are_the_median_data_set_of_choosing_and_fitting(ranks, tmp_path):
    """Choosing takes 5 + 2 s in made-up trials; two runs of a data set count by their mean."""
    fits = {"r0": ("x", (1, 3, 50)), "r1": ("x", (5, 5, 5)), "r2": ("y", (2, 2, 2))}
    runs = []
    for name, (dataset, seconds) in fits.items():
        trials = [
            fake_trial(learner, partition=p, mAP=0.5 + 0.1 * (learner == "A"), fit_seconds=s)
            for learner in "AB"
            for p, s in enumerate(seconds)
        ]
        experiment = {"partitions": 3, "dataset": dataset}
        runs.append(fake_runs.write_run(tmp_path / name, trials, experiment, {"data": dataset}))
    _, _, _, folder = ranks(*runs)
    expected = np.median([(7 + 3 + 7 + 5) / 2, 7 + 2])
    assert leaderboard_of(folder)["seconds"].to_dict() == {"A": expected, "B": expected}
    bare = summary_of(runs[0], tmp_path / "summaries")
    rows = pd.read_csv(bare).drop(columns="tuning_seconds")  # as one without costs
    rows.to_csv(bare, index=False)
    _, _, _, folder = ranks(bare, runs[2])
    assert leaderboard_of(folder)["seconds"].to_dict() == {"A": 9, "B": 9}
