"""Published results are data: a CSV file of a run, and the tables of a page that are made of it."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trial, fake_trials

from oasis_bench.analysis import rule_gains
from oasis_bench.command_line import main
from oasis_bench.experiment import read_experiment
from oasis_bench.reports.export import COLUMNS

DOCS = Path(__file__).parent.parent / "docs"

spec = importlib.util.spec_from_file_location("make_results", DOCS / "make_results.py")
make_results = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_results)

TASKS = ("retrieval", "classification")
MAP_OF_A, FIT_SECONDS_OF_A = (0.5, 0.6, 0.7), (2.0, 4.0, 16.0)


@pytest.fixture
def results(write_run, tmp_path):
    """A folder with the file of a run: A is always there, B once not, C never."""
    of_a = [
        fake_trial("A", 4, p, mAP, 2000, {"C": p}, TASKS, fit_seconds=seconds, scaling=scaling)
        for p, (mAP, seconds, scaling) in enumerate(
            zip(MAP_OF_A, FIT_SECONDS_OF_A, ("standard", "l2", "l2"), strict=True)
        )
    ]
    lost = {"n_classes": 4, "status": "timeout", "reason": "longer than 600 s"}
    trials = [
        *of_a,
        *fake_trials("B", (0.6, 0.7), n_classes=4, tasks=TASKS),
        fake_trial("B", partition=2, **lost),
        *(fake_trial("C", partition=partition, **lost) for partition in range(3)),
        *fake_trials("A", (0.25, 0.3), n_classes=10, tasks=TASKS),
    ]
    settings = {"partitions": 3, "tasks": list(TASKS)}
    provenance = {"processor": "a processor", "commit": "abc", "versions": {"oasis-bench": "1.2"}}
    run = write_run("made-up", trials, experiment=settings, provenance=provenance)
    output = tmp_path / "results"
    words = ["export", str(run), "--format", "summary", "--output", str(output)]
    assert main(words) == 0
    return output


def test_the_summary_of_a_run_has_a_row_for_each_learner_subset_task_measure_and_k(results):
    (path,) = results.iterdir()
    assert path.name == "made-up.csv"
    rows = pd.read_csv(path)
    keys = ["learner", "subset", "task", "measure", "k"]
    assert not rows.duplicated(keys).any()
    kept = rows.groupby("task")[["measure", "k"]].apply(
        lambda own: set(own["measure"] + own["k"].fillna(0).map("@{:.0f}".format))
    )
    assert kept["retrieval"] == {"mAP@0", "precision@1", "precision@10", "precision@50"}
    assert kept["classification"] == {
        *(f"accuracy@{k}" for k in (1, 3, 5, 7)),
        "mean recognition@1",
    }
    row = rows[(rows["learner"] == "A") & (rows["subset"] == 4) & (rows["measure"] == "mAP")].iloc[
        0
    ]
    # Mean and deviation by hand; of 99 others 24 are relevant, chance as `fake_runs` has it.
    assert (row["mean"], row["sd"]) == pytest.approx((0.6, 0.1))
    assert (row["partitions"], row["planned"], row["verdict"]) == (3, 3, "best")
    harmonic = sum(1 / rank for rank in range(1, 100))
    assert row["chance"] == pytest.approx((23 / 98 * (99 - harmonic) + harmonic) / 99, rel=1e-5)
    fit = row[["fit_seconds", "fit_seconds_min", "fit_seconds_max"]]
    assert fit.tolist() == [4, 2, 16]
    assert (row["tuning_seconds"], row["seconds_per_query"]) == (7, 0.5 / 100)
    assert row["fit_peak_bytes"] == pytest.approx(50 * 2**20, rel=1e-5)
    assert (row["n_train"], row["n_test"], row["n_features"]) == (160, 100, 64)
    assert (row["candidates"], row["settings"], row["params"], row["n_steps"]) == (
        1,
        4,
        "C=0 (1); C=1 (1); C=2 (1)",
        2000,
    )
    assert (row["scalings"], row["search"], row["scaling"]) == ("l2", 20, "l2 (2); standard (1)")
    assert (row["processor"], row["commit"], row["version"]) == ("a processor", "abc", 1.2)
    assert row["command"] == "python -m oasis_bench run --output made-up"
    lost = rows[(rows["learner"] == "C") & (rows["subset"] == 4)]
    assert (lost["partitions"] == 0).all()
    assert lost["mean"].isna().all()
    assert set(lost["note"]) == {"0 of 3 partitions finished; 3 timeout: longer than 600 s."}


def test_the_page_is_what_the_files_give():
    for path, text in make_results.made_files(DOCS).items():
        assert path.read_text() == text, path


def test_every_file_of_results_is_shown_on_the_page():
    pages = "".join(page.read_text() for page in DOCS.glob("tables/*.md"))
    specs = re.findall(r"<!-- results: (.*?);", pages)
    shown = {name.partition(":")[0].strip() for spec in specs for name in spec.split(",")}
    folder = DOCS / "results"
    files = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.csv")}
    # One table shows all of KEEL, one all of `uses`, and the leaderboard all of the
    # suite and of its label budgets.
    assert files == shown | {
        name for name in files if re.match("(keel|suite|uses|budgets(-new-classes)?(-few)?)/", name)
    }


def test_published_figures_stand_in_brackets(tmp_path):
    """Published, in published/knn_keel.csv: iris, k = 3, Euclidean .9533; nothing of OASIS."""
    (tmp_path / "keel").mkdir()
    rows = pd.DataFrame({"learner": ["Euclidean", "OASIS"], "mean": [0.95, 0.9612]})
    rows = rows.assign(subset="all", task="knn-classification", measure="accuracy", k=3, planned=10)
    rows = rows.assign(command="run --output runs/keel", started="2026-11-22T01", commit="abc")
    rows.to_csv(tmp_path / "keel" / "iris.csv", index=False)
    page = "<!-- published: keel; 3 -->\n<!-- end of results -->\n"
    made = make_results.make_page(page, tmp_path)
    assert "| data | Euclidean | OASIS |\n" in made
    assert "| iris | 0.9500 (0.9533) | 0.9612 |\n" in made
    assert "Mean accuracy over 10 folds, k = 3;" in made
    assert "`run`,\n2026-11-22, commit abc." in made


# The mAP of two data sets: in the selected use, directly, by posterior.  The error of Euclidean
# used directly is .5, so that .01 of mAP is 2 points.
FIRST = [
    {"Euclidean": (0.6, 0.5, 0.6), "LDA": (0.7, 0.7, 0.6), "PLDA": (0.65, 0.6, 0.65)},
    {"Euclidean": (0.5, 0.5, 0.5), "LDA": (0.5, 0.5, 0.7), "PLDA": (0.75, 0.5, 0.75)},
]
SECOND = [
    {"Euclidean": (0.6, 0.5, 0.6), "LDA": (0.6, 0.6, 0.6), "PLDA": (0.7, 0.7, 0.7)},
    {"Euclidean": (0.5, 0.5, 0.5), "LDA": (0.5, 0.5, 0.5), "PLDA": (0.6, 0.6, 0.6)},
]


@pytest.fixture
def write_suite(write_run):
    """Write the results of a split of a suite; call with its folder and the mAP."""

    def write(output, mAP):
        for number, of_learners in enumerate(mAP):
            trials = [
                fake_trial(name, 2, p, selected, tasks=("retrieval",))
                for name, (selected, _, _) in of_learners.items()
                for p in range(2)
            ]
            settings = {"dataset": f"set{number}", "tasks": ["retrieval"]}
            run = write_run(f"run {number} of {output.name}", trials, experiment=settings)
            assert main(["export", str(run), "--format", "summary", "--output", str(output)]) == 0
            file = output / f"{run.name}.csv"
            rows = pd.read_csv(file)
            for place, use in ((1, "direct"), (2, "posterior")):
                rows[use] = [of_learners[name][place] for name in rows["learner"]]
            rows[rows["measure"] == "mAP"].to_csv(file, index=False)

    return write


def test_planned_comparisons_are_of_both_uses_by_hand(write_suite, tmp_path):
    write_suite(tmp_path / "suite", FIRST)
    table = make_results.planned("retrieval mAP", tmp_path)
    found = table[["median", "mean", "above"]].round(6).to_dict("index")
    # Euclidean saves .2 and 0 by its labels; LDA .4 and 0; PLDA .3 and .5.
    alone = {"median": 0.1, "mean": 0.1, "above": 1}
    assert found[make_results.LABELS] == alone
    # On the other data set PLDA, and LDA, is best: .3 - .2 and 0 - 0 are what they add.
    assert found[make_results.LEARNING] == {"median": 0.05, "mean": 0.05, "above": 1}
    assert found[make_results.TYPICAL] == {"median": 0.2, "mean": 0.2, "above": 2}
    assert found["PLDA minus LDA"] == {"median": 0.2, "mean": 0.2, "above": 1}
    # LDA -.2 and .4, PLDA .1 and .5: the medians are -.05 and .45.
    assert found[make_results.POSTERIOR] == {"median": 0.2, "mean": 0.2, "above": 1}
    assert make_results.CLASSIFIER not in found  # it has no results


def test_two_random_splits_are_compared_and_their_mean_is_taken(write_suite, tmp_path):
    write_suite(tmp_path / "suite", FIRST)
    write_suite(tmp_path / "suite" / "second-split", SECOND)
    typical = {
        split: table.loc[make_results.TYPICAL]
        for split, table in make_results.in_each_split(
            make_results.planned, "retrieval mAP", tmp_path
        ).items()
    }
    # LDA saves .4 and 0, then .2 and 0; PLDA .3 and .5, then .4 and .2; Euclidean .2 and 0.
    assert typical["first split"]["median"] == pytest.approx(0.2)
    assert typical["second split"]["median"] == pytest.approx(0.1)
    assert typical["all splits"]["median"] == pytest.approx((0.325 - 0.2 + 0.175) / 2)
    # Directly LDA saves .4 and 0, then .2 and 0; PLDA .2 and 0, then .4 and .2.
    directly = make_results.directly("retrieval mAP", tmp_path)
    assert directly.loc["typical", "mean"] == pytest.approx((0.3 + 0.05) / 2)
    # LDA is best on the first set in the first split, and PLDA in the second and on the other set.
    own = make_results.own_choice("retrieval mAP", tmp_path)
    assert own.tolist() == pytest.approx([(0 + 0.1) / 2, (0.2 + 0.5) / 2])
    # LDA differs by .2 and 0, PLDA by .1 and .3: 10 and 20 points in the median, 7.1 and 14.1 by
    # the root of two; .6745 is the median of the absolute values of a normal distribution.
    noise = make_results.make_noise("retrieval mAP", tmp_path)
    assert "| Known classes (2 data sets, 2 splits) | 15.7 (10.5 to 21.0) |" in noise


def test_three_random_splits_are_compared_in_pairs(write_suite, tmp_path):
    for folder, mAP in ((".", FIRST), ("second-split", SECOND), ("third-split", SECOND)):
        write_suite(tmp_path / "suite" / folder, mAP)
    # On the first set the best adds 0 and .1 as above, and .2 if both splits are as the second.
    own = make_results.own_choice("retrieval mAP", tmp_path)
    assert own.tolist() == pytest.approx([(0 + 0.1 + 0.2) / 3, (0.2 + 0.5 + 0.2) / 3])
    # The medians of six differences are 0 for LDA and .1 for PLDA.
    noise = make_results.make_noise("retrieval mAP", tmp_path)
    assert "| Known classes (2 data sets, 3 splits) | 5.2 (0.0 to 10.5) |" in noise
    head, *_ = make_results.make_splits("retrieval mAP", tmp_path).splitlines()
    assert head == (
        "| Compared, points | first split (p) | second split (p) | third split (p) | "
        "all splits (p) |"
    )


def test_splits_are_compared_on_the_data_sets_that_all_of_them_have(write_suite, tmp_path):
    write_suite(tmp_path / "suite", [*FIRST, FIRST[1]])
    write_suite(tmp_path / "suite" / "second-split", SECOND)
    own = make_results.own_choice("retrieval mAP", tmp_path)
    assert own.tolist() == pytest.approx([(0 + 0.1) / 2, (0.2 + 0.5) / 2])


def test_the_coverage_counts_the_splits_of_new_classes_apart(tmp_path):
    row = {"learner": "LDA", "dataset": "iris", "corpus": "iris", "name": "mAP", "planned": 1}
    row |= {"partitions": 1, "started": "2026-11-30T01", "commit": "abc", "command": "run"}
    of_task = {"retrieval": 2, "unseen-classes": 3}
    for split in range(3):
        folder = tmp_path / "suite" / str(split)
        folder.mkdir(parents=True)
        rows = [{**row, "task": task} for task, n in of_task.items() if split < n]
        pd.DataFrame(rows).to_csv(folder / "iris.csv", index=False)
    text = make_results.make_coverage("suite", tmp_path)
    assert "1 of 26 methods on 1 data sets, with 2 random splits, and 3 of new classes." in text


def test_values_by_a_rule_minus_those_of_one_answer_are_its_gain():
    rng = np.random.default_rng(5)
    names = [*(f"set {i}" for i in range(16)), "mnist", "keel optdigits", "many-classes pendigits"]
    options = pd.DataFrame(rng.normal(size=(len(names), 3)), names, ["A", "B", "C"])
    groups = pd.Series(rng.choice(["few", "many"], len(names)), names)
    options["A"] += 2 * (groups == "few")
    of_rule = make_results.values_by_rule(options, groups)
    of_one_answer = make_results.values_by_rule(options, groups.map(lambda _: "all"))
    gain = rule_gains(options, groups.to_frame("size")).at["size", "gain"]
    assert (of_rule - of_one_answer).mean() == pytest.approx(gain)
    assert gain > 0.2


def test_shares_of_variance_are_those_of_the_parts_that_made_the_values():
    rng = np.random.default_rng(3)
    parts = [rng.normal(size=shape) for shape in ((5, 1, 1), (1, 4, 1), (1, 1, 2), (5, 1, 2))]
    parts = [it - it.mean() for it in parts]
    parts[3] -= parts[3].mean(axis=0) + parts[3].mean(axis=2, keepdims=True)
    found = make_results.shares_of_variance(sum(parts))
    variances = np.array([np.broadcast_to(it, (5, 4, 2)).var() for it in parts])
    names = ["data set", "method", "use", "data set x use"]
    assert [found[name] for name in names] == pytest.approx(variances / variances.sum())
    assert sum(found.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    "file", sorted((DOCS / "results" / "suite").rglob("*.csv")), ids=lambda file: file.stem
)
def test_a_committed_result_is_of_the_suite_and_agrees_with_itself(file):
    one = read_experiment("suite").one_for_each_value()[file.stem]
    rows = pd.read_csv(file, dtype={"blend": str})
    assert set(rows) <= set(COLUMNS)
    seed = {"second-split": "1", "third-split": "2"}.get(file.parent.name)
    assert set(rows["command"].str.extract(r"--seed (\d+)")[0].replace({np.nan: None})) == {seed}
    assert set(rows["protocol"]) == {one.protocol}
    assert set(rows["learner"]) <= {*one.learners}  # the suite is measured in parts
    listed = (DOCS / "results" / "suite" / "equal-code.txt").read_text().splitlines()
    assert set(rows["code"]) <= {line.split()[0] for line in listed}
    assert set(rows["search"]) == {int(one.search)}
    only_new = file.parent.name == "third-split"
    assert set(rows["task"]) == ({"unseen-classes"} if only_new else set(one.tasks))
    assert set(rows["planned"]) <= {1, one.partitions}
    assert rows["note"].notna().equals(rows["partitions"] < rows["planned"])
    weight = pd.to_numeric(rows["blend"], errors="coerce")  # where partitions differ: NaN
    baseline = rows[rows["learner"] == "Euclidean"].set_index(["task", "name"])["direct"]
    replaced = rows[(weight == 0) & (rows["use"] == "direct")]
    replaced = replaced.join(baseline.rename("baseline"), on=["task", "name"])
    # Parts were measured on different processors, which round otherwise: up to 2e-5 was seen.
    assert replaced["mean"].to_numpy() == pytest.approx(replaced["baseline"].to_numpy(), abs=1e-4)
    alone = rows[(weight == 1) & (rows["use"] == "direct")]
    assert alone["mean"].equals(alone["as_learned"])


def test_no_published_row_names_a_folder_of_a_machine():
    for file in (DOCS / "results").rglob("*.csv"):
        commands = pd.read_csv(file, usecols=["command"])["command"]
        assert not commands.str.contains(r"[ =]/").any(), file
