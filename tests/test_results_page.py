"""Published results are data: a CSV file of a run, and the tables of a page that are made of it."""

import importlib.util
import re
from pathlib import Path

import pandas as pd
import pytest
from fake_runs import fake_trial, fake_trials

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
    # One table shows all of KEEL, one all of `uses`, and the leaderboard all of the suite and what
    # tuning gains.
    assert files == shown | {
        name for name in files if re.match("(keel|suite|suite-defaults|uses)/", name)
    }


def test_published_figures_stand_in_brackets(tmp_path):
    """Published, in published/knn_keel.csv: iris, k = 3, Euclidean .9533; nothing of OASIS."""
    (tmp_path / "keel").mkdir()
    rows = pd.DataFrame({"learner": ["Euclidean", "OASIS"], "mean": [0.95, 0.9612]})
    rows = rows.assign(subset="all", task="classification", measure="accuracy", k=3, planned=10)
    rows = rows.assign(command="run --output runs/keel", started="2026-11-22T01", commit="abc")
    rows.to_csv(tmp_path / "keel" / "iris.csv", index=False)
    page = "<!-- published: keel; 3 -->\n<!-- end of results -->\n"
    made = make_results.make_page(page, tmp_path)
    assert "| data | Euclidean | OASIS |\n" in made
    assert "| iris | 0.9500 (0.9533) | 0.9612 |\n" in made
    assert "Mean accuracy over 10 folds, k = 3;" in made
    assert "`run`,\n2026-11-22, commit abc." in made


def test_the_best_learner_elsewhere_is_chosen_without_the_data_set_itself():
    """A hand case, with the means over the others in the comment."""
    saved = pd.DataFrame({"a": [0.0, 4.0, 2.0], "b": [4.0, 2.0, 2.0]}, index=["x", "y", "z"])
    saved.loc["z", "b"] = 0.0
    found = make_results.best_elsewhere(saved)
    # without x: a 3, b 1; without y: a 1, b 2; without z: a 2, b 3
    assert found.to_dict() == {"x": 0.0, "y": 2.0, "z": 0.0}


def test_what_tuning_gains_is_a_share_of_the_error_with_defaults(write_run, tmp_path):
    """A hand case of two data sets."""
    mAP = {
        "suite": [{"A": 0.8, "B": 0.7}, {"A": 0.6, "B": 0.5}],
        "suite-defaults": [{"A": 0.7, "B": 0.7}, {"A": 0.5, "B": 0.6}],
    }  # tuning removes 1/3 and 0 of the error, then 1/5 and -1/4
    for name, data_sets in mAP.items():
        for number, scores in enumerate(data_sets):
            trials = [
                trial
                for learner, score in {"Euclidean": 0.5, **scores}.items()
                for trial in fake_trials(learner, (score, score), tasks=("retrieval",))
            ]
            settings = {"dataset": f"set{number}", "tasks": ["retrieval"]}
            run = write_run(f"{name} {number}", trials, experiment=settings)
            output = ["--output", str(tmp_path / name)]
            assert main(["export", str(run), "--format", "summary", *output]) == 0
    gains = make_results.tuning_gains("retrieval mAP", tmp_path)
    assert gains.to_numpy() == pytest.approx([1 / 6, -1 / 40])
    page = "<!-- tuning: retrieval mAP -->\n<!-- end of results -->\n"
    lines = make_results.make_page(page, tmp_path).splitlines()
    assert lines[3] == "| Retrieval among classes seen in training | +7 | - | - | 2 |"


LEFT = ("pml-Triplet", "pml-MultiSimilarity", "metric-learn-LSML", "metric-learn-SCML")
"""Learners of the results that the program does not have any more."""


@pytest.mark.parametrize(
    "file", sorted((DOCS / "results" / "suite").glob("*.csv")), ids=lambda file: file.stem
)
def test_a_committed_result_is_of_the_suite_and_agrees_with_itself(file):
    one = read_experiment("suite").one_for_each_value()[file.stem]
    rows = pd.read_csv(file, dtype={"blend": str})
    assert set(rows) <= set(COLUMNS)
    [protocol] = rows["protocol"].unique()
    is_of_now = protocol == one.protocol
    assert set(rows["learner"]) - {*one.learners} == (set() if is_of_now else {*LEFT})
    assert set(one.learners) <= set(rows["learner"]) or not is_of_now
    listed = (file.parent / "equal-code.txt").read_text().splitlines()
    assert set(rows["code"]) <= {line.split()[0] for line in listed}
    assert set(rows["search"]) == {{1: "20s", one.protocol: one.search}[protocol]}
    assert set(rows["task"]) == set(one.tasks)
    assert set(rows["planned"]) == {one.partitions if is_of_now else 3}
    assert rows["note"].notna().equals(rows["partitions"] < rows["planned"])
    weight = pd.to_numeric(rows["blend"], errors="coerce")  # where partitions differ: NaN
    baseline = rows[rows["learner"] == "Euclidean"].set_index(["task", "name"])["mean"]
    replaced = rows[weight == 0].join(baseline.rename("baseline"), on=["task", "name"])
    # These two are of a later run, with a baseline of its own.
    later = replaced["learner"].isin(["metric-learn-LSML", "metric-learn-SCML"])
    assert replaced["mean"][~later].equals(replaced["baseline"][~later])
    assert (replaced["mean"] - replaced["baseline"]).abs().le(0.0045).all()  # results/README.md
    alone = rows[weight == 1]
    assert alone["mean"].equals(alone["as_learned"])
