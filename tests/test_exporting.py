"""A run's tables as files for other programs."""

import base64
import csv
import io
import json

import pandas as pd
import pytest
from fake_runs import fake_trials
from PIL import Image

from oasis_bench.command_line import main
from oasis_bench.runs import RunFacts, read_run
from oasis_bench.runs.schema import TRIAL_TABLES
from oasis_bench.runs.store import Store

TABLES = {"run", "trials", *TRIAL_TABLES, "confusion", "pictures"} - {"predicted_classes"}


@pytest.fixture
def folder(write_run):
    """A run of a result, a failure with a traceback of two lines, and a picture."""
    failed = {"status": "failed", "reason": 'say "no"', "traceback": "line 1,\nline 2"}
    trials = [{"n_steps": 500, "fit_seconds": 1.0}, {"partition": 1, **failed}]
    folder = write_run("run", trials)
    content = io.BytesIO()
    Image.new("RGB", (2, 2)).save(content, "JPEG")
    with Store.open(folder) as store:
        pictures = [(3, "é", content.getvalue()), (4, "gone", None)]
        names = ("row", "caption", "thumbnail")
        kept = [dict(zip(names, one, strict=True)) for one in pictures]
        store.add_labels(lambda rows: (), lambda rows: kept)
    return folder


def export(folder, *options):
    return main(["export", str(folder), *map(str, options)])


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_every_table_of_the_store_becomes_a_file_that_pandas_reads_back(folder, kind, capsys):
    assert export(folder, "--format", kind) == 0
    files = {path.stem: path for path in (folder / "export").iterdir()}
    assert set(files) == TABLES
    assert {path.suffix for path in files.values()} == {f".{kind}"}
    assert sorted(capsys.readouterr().out.split()) == sorted(map(str, files.values()))
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet}[kind]
    run = read_run(folder)
    trials = read(files["trials"])
    assert list(trials) == list(run.trials)
    assert trials["traceback"].tolist()[1] == "line 1,\nline 2"
    assert trials["reason"].tolist()[1] == 'say "no"'
    measures = read(files["measures"])
    assert len(measures) == 51  # mAP, and precision at 1 to 50
    assert {"learner", "subset", "partition", "split", "task", "chance"} <= set(measures)
    assert measures["value"].tolist() == run.measures["value"].tolist()
    assert pd.isna(measures["k"][0])
    assert measures["k"].tolist()[1:] == list(range(1, 51))
    info = read(files["run"]).set_index("key")["value"]
    values = {key: json.loads(value) for key, value in info.items()}
    assert RunFacts.from_json(values) == run.info
    pictures = read(files["pictures"]).set_index("row")
    assert pictures.loc[3, "caption"] == "é"
    thumbnail = pictures.loc[3, "thumbnail"]
    thumbnail = base64.b64decode(thumbnail) if kind == "csv" else thumbnail
    assert Image.open(io.BytesIO(thumbnail)).size == (2, 2)
    assert pd.isna(pictures.loc[4, "thumbnail"])


def test_whole_numbers_stay_whole_beside_missing_ones(folder):
    export(folder, "--format", "csv")
    export(folder, "--format", "parquet")
    with (folder / "export" / "trials.csv").open(newline="") as file:
        assert [row["n_steps"] for row in csv.DictReader(file)] == ["500", ""]
    types = pd.read_parquet(folder / "export" / "trials.parquet").dtypes
    assert (types["n_steps"], types["partition"]) == ("Int64", "Int64")
    assert types["fit_seconds"] == "float64"  # though all of them are whole


def test_a_task_that_a_learner_does_not_answer_has_no_tuned_values(write_run, tmp_path):
    tasks, params = ("retrieval", "classification"), {"C": 2}
    refused = {"classification": ("not applicable", "it scores no training items")}
    trials = fake_trials("A", (0.5, 0.6), tasks=tasks, params=params)
    trials += fake_trials("B", (0.5, 0.6), tasks=tasks, params=params, unanswered=refused)
    run = write_run("two", trials, experiment={"tasks": list(tasks)})
    assert export(run, "--format", "summary", "--output", tmp_path / "out") == 0
    rows = pd.read_csv(tmp_path / "out" / "two.csv").groupby(["learner", "task"])["params"].first()
    assert rows["A"].to_dict() == {"classification": "C=2", "retrieval": "C=2"}
    assert rows["B"].dropna().to_dict() == {"retrieval": "C=2"}
