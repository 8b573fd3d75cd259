"""Answers in JSON: standard output is one object alone, with what the text and the store say."""

import json
import sqlite3
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trials

from oasis_bench.experiment import built_in_names
from oasis_bench.plugins import Registry

TALKATIVE = """
import os
from oasis_bench.algorithms import Euclidean

print("as it is imported")

class Talkative(Euclidean):
    name, summary = "Talkative", "prints \\u202e while it learns"

    def fit(self, X, y=None):
        print("as it learns")
        os.write(1, b"to the descriptor\\n")
        return super().fit(X, y)
"""


def read(text):
    """Read JSON strictly, and check what each answer has; NaN and Infinity are no JSON."""

    def refuse(constant):
        raise AssertionError(f"{constant} is no JSON")

    answer = json.loads(text, parse_constant=refuse)
    assert list(answer) == ["command", "version", "status", "text", "rows"]
    assert isinstance(answer["text"], str)
    assert len({tuple(row) for row in answer["rows"]}) <= 1  # the same keys
    assert text.isascii()
    return answer


@pytest.fixture
def answer(command):
    """Call a verb with --json; return the answer."""

    def call(*words):
        status, out, _ = command(*words, "--json")
        found = read(out)
        assert found["status"] == status
        return found

    return call


def test_a_run_prints_progress_on_the_other_stream_and_rows_of_its_store(tmp_path):
    (tmp_path / "talkative.py").write_text(TALKATIVE)
    words = (
        "run --dataset digits --algorithms Talkative,Euclidean --classes 2 --partitions 2 "
        "--search 1 --inner-folds 2 --train 8 --test 6 --no-traces "
        "--plugin talkative.py --output out --json"
    )
    done = subprocess.run(
        [sys.executable, "-m", "oasis_bench", *words.split()],
        **{"cwd": tmp_path, "capture_output": True, "text": True, "timeout": 300, "check": True},
    )
    found = read(done.stdout)
    assert "[4/4]" in done.stderr
    assert "[4/4]" not in found["text"]
    assert (found["command"], found["status"]) == ("run", 0)
    assert found["text"].endswith("report: out/report.html\n")
    with sqlite3.connect(tmp_path / "out" / "results.sqlite") as store:
        of_learners = dict(
            store.execute(
                "SELECT learner, AVG(value) FROM measures JOIN trials USING (trial_id) "
                "WHERE task = 'retrieval' AND measure = 'mAP' GROUP BY learner"
            )
        )
    assert len(of_learners) == 2
    rows = [row for row in found["rows"] if row["name"] == "mAP"]
    assert {row["learner"]: row["mean"] for row in rows} == pytest.approx(of_learners)
    assert {row["folder"] for row in rows} == {"out"}
    assert {row["partitions"] for row in rows} == {2}


def test_each_of_several_runs_has_rows(answer, tmp_path):
    file = tmp_path / "two.toml"
    file.write_text(
        'title = "two"\ndataset = { name = "digits" }\neach = { seed = [1, 2] }\n'
        "learners = { Euclidean = {} }\n"
    )
    words = "--classes 2 --partitions 1 --inner-folds 2 --train 6 --test 4"
    output = tmp_path / "out"
    found = answer("run", "--experiment", file, *words.split(), "--output", output)
    assert len({row["folder"] for row in found["rows"]}) == 2
    assert all(row["folder"].startswith(str(output)) for row in found["rows"])
    assert all(row["sd"] is None for row in found["rows"])  # of one partition
    assert found["text"].count("report: ") == 3  # of each run, and the page of both


def test_report_gives_the_rows_of_the_summary_and_the_text_of_the_terminal(
    answer, command, write_run, tmp_path
):
    folder = write_run("run", fake_trials("A", [0.75, 0.5]) + fake_trials("B", [0.5]))
    found = answer("report", folder)
    _, text, _ = command("report", folder)
    assert found["text"] == text
    command("export", folder, "--format", "summary", "--output", tmp_path)
    table = pd.read_csv(tmp_path / "run.csv")
    rows = pd.DataFrame(found["rows"])[table.columns]
    numbers = list(table.select_dtypes("number").dropna(axis="columns", how="all"))
    np.testing.assert_allclose(rows[numbers].astype(float), table[numbers], rtol=1e-5)
    assert rows["learner"].tolist() == table["learner"].tolist()
    by_name = {(row["learner"], row["name"]): row for row in found["rows"]}
    assert by_name["A", "mAP"]["mean"] == 0.625
    assert by_name["B", "mAP"]["sd"] is None  # NaN, of one partition


def test_a_run_without_any_result_has_no_mean(answer, write_run):
    lost = [
        {"learner": name, "partition": p, "status": "failed", "reason": "it broke", "mAP": None}
        for name in "AB"
        for p in (0, 1)
    ]
    found = answer("report", write_run("lost", lost))
    assert "it broke" in found["text"]
    assert {row["mean"] for row in found["rows"]} <= {None}


def test_compare_gives_its_lines_and_its_exit_status(answer, write_run):
    old = write_run("old", fake_trials("A", [0.70, 0.71, 0.72, 0.73, 0.74]))
    new = write_run("new", fake_trials("A", [0.60, 0.62, 0.61, 0.63, 0.64]))
    found = answer("compare", old, new)
    assert found["status"] == 1
    (line,) = [row for row in found["rows"] if row["measure"] == "mAP"]
    assert (line["old"], line["new"]) == pytest.approx((0.72, 0.62))
    assert (line["change"], line["n"], line["verdict"]) == (pytest.approx(-0.1), 5, "worse")
    assert line["low"] < line["change"] < line["high"] < 0
    assert "worse beyond noise" in found["text"]
    once = [write_run(f"once{mAP}", fake_trials("A", [mAP])) for mAP in (0.5, 0.6)]
    found = answer("compare", *once)
    (line,) = [row for row in found["rows"] if row["measure"] == "mAP"]
    assert (line["low"], line["p_value"], line["verdict"]) == (None, None, "not judged")


def test_ranks_gives_a_row_for_each_learner_of_a_task(answer, write_run, tmp_path):
    scores = {"Euclidean": (0.5, 0.8), "B": (0.75, 0.9)}  # B removes a half of the error
    folders = [
        write_run(
            name,
            [it for label in scores for it in fake_trials(label, [scores[label][place]] * 2)],
            experiment={"dataset": name},
        )
        for place, name in enumerate(("one", "two"))
    ]
    found = answer("ranks", *folders, "--output", tmp_path / "out")
    rows = {row["learner"]: row for row in found["rows"] if row["group"] == "all"}
    assert set(rows) == {"Euclidean", "B"}
    assert rows["B"]["error_reduction"] == pytest.approx(0.5)
    assert (rows["B"]["average_rank"], rows["Euclidean"]["average_rank"]) == (1, 2)
    assert (rows["B"]["task"], rows["B"]["measure"]) == ("retrieval", "mAP")
    assert rows["B"]["error_reduction_low"] is None  # two data sets are too few for an interval
    assert found["text"].endswith(f"report: {tmp_path / 'out' / 'leaderboard.html'}\n")


def test_list_gives_what_there_is(answer, command, tmp_path):
    registry = Registry.load()
    found = answer("list")
    names = {"experiments": built_in_names()}
    names |= {
        kind: getattr(registry, kind) for kind in ("algorithms", "datasets", "tasks", "splits")
    }
    for kind, expected in names.items():
        rows = [row for row in found["rows"] if row["kind"] == kind]
        assert sorted(row["name"] for row in rows) == sorted(expected)
    assert found["text"] == command("list")[1]
    for row in answer("list", "algorithms")["rows"]:
        learner = registry.algorithms[row["name"]]
        assert row["summary"] == learner.summary
        assert f"cite: {learner.citation}" in row["notes"]
        assert (row["takes"] in ("dense", "sparse")) == (learner.takes == "rows")
    assert [row["name"] for row in answer("data", "list")["rows"]] == sorted(registry.datasets)
    (tmp_path / "talkative.py").write_text(TALKATIVE)
    found = answer("list", "algorithms", "--plugin", tmp_path / "talkative.py")
    assert "as it is imported" in found["text"]
    assert "prints \u202e while it learns" in [row["summary"] for row in found["rows"]]


def test_data_describe_gives_facts_and_counts(answer, command, tmp_path):
    path = tmp_path / "t\u00e4ble.csv"
    pd.DataFrame({"a": np.arange(9.0), "b": 1.5, "kind": list("xxxxyyyzz")}).to_csv(
        path, index=False
    )
    found = answer("data", "describe", path, "--label", "kind")
    facts = {row["fact"]: row["value"] for row in found["rows"]}
    assert facts["n_items"] == 9
    assert {name: facts[f"n_items of class {name}"] for name in "xyz"} == {"x": 4, "y": 3, "z": 2}
    assert facts["classes"] == "3, of 2 (z) to 4 rows (x)"
    assert found["text"] == command("data", "describe", path, "--label", "kind")[1]
    facts = {row["fact"]: row["value"] for row in answer("data", "describe", "digits")["rows"]}
    assert (facts["n_items"], facts["n_features"], facts["licence"]) == (1797, 64, "CC BY 4.0")


def test_an_error_prints_no_json(command, tmp_path):
    status, out, errors = command("data", "describe", tmp_path / "none.csv", "--json")
    assert (status, out) == (2, "")
    assert len(errors) == 1
