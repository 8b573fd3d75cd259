"""What should make a run fall over, at the command line: one line, the right status, no hang."""

import csv
import io
import os
import re
import shutil
import sqlite3
import sys
import zipfile
from contextlib import closing
from itertools import product
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trial, write_run
from small_runs import OnTrial

import oasis_bench
from oasis_bench.command_line import main
from oasis_bench.data import thumbnail
from oasis_bench.datasets.picture_files import UnusableImageError, hashed_pictures, read_image
from oasis_bench.plugins.registry import PLUGIN_MODULE
from oasis_bench.reports.table import to_csv
from oasis_bench.runs import run_experiment
from oasis_bench.runs.store import FILE_NAME
from oasis_bench.system import OutputError, no_progress

SMALL = "--classes 2 --partitions 1 --inner-folds 2 --train 6 --test 4".split()  # noqa: SIM905
EUCLIDEAN = [*SMALL, "--algorithms", "Euclidean"]


@pytest.fixture
def refused(command, tmp_path):
    """Call a command that must end with status 2, one line, and no output folder; return the line.

    `--output` is added to a run.
    """

    def call(*words):
        output = tmp_path / "refused"
        more = ["--output", output] if words[0] == "run" and "--resume" not in words else []
        status, out, errors = command(*words, *more)
        assert (status, len(errors), out) == (2, 1, ""), (status, out, errors)
        assert not output.exists()
        return errors[0]

    return call


# Plugins that end the program.


EXITS = """import sys
from {0} import {1}
class Quits({1}):
    name = 'Quits'
    def {2}: sys.exit(0)
"""


@pytest.mark.parametrize(
    ("made", "option"),
    [
        (("datasets", "Digits", "__init__(self)"), "--dataset"),
        (("datasets", "Digits", "load(self, _)"), "--dataset"),
        (("tasks.retrieval", "Retrieval", "__init__(self)"), "--tasks"),
    ],
)
def test_a_plugin_that_exits_when_it_is_used_is_told_with_its_place(
    refused, tmp_path, made, option
):
    module, base, method = made
    path = tmp_path / "quits.py"
    path.write_text(EXITS.format(f"oasis_bench.{module}", base, method))
    line = refused("run", *EUCLIDEAN, option, "Quits", "--plugin", path)
    assert "quits.py, line 5," in line
    assert "SystemExit" in line


# Files that are not regular.


@pytest.mark.parametrize("name", ["t.csv", "t.npz", "t.parquet", "t.svmlight", "t.svm.gz"])
@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_a_table_that_is_a_fifo_or_a_device_is_refused(refused, tmp_path, name, kind):
    irregular(tmp_path / name, kind)
    line = refused("run", *EUCLIDEAN, "--dataset", tmp_path / name)
    assert f"it is a {kind}" in line
    assert name in line


@pytest.mark.parametrize("kind", ["FIFO", "device"])
def test_an_experiment_or_a_model_that_is_a_fifo_or_a_device_is_refused(refused, tmp_path, kind):
    irregular(tmp_path / "e.toml", kind)
    irregular(tmp_path / "m.npz", kind)
    assert f"it is a {kind}" in refused("run", "--experiment", tmp_path / "e.toml")
    line = refused("evaluate", tmp_path / "m.npz", "--dataset", "digits")
    assert f"it is a {kind}" in line


def test_a_picture_that_is_a_fifo_is_unusable(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    [hashed] = hashed_pictures([tmp_path / "pipe.png"], no_progress)
    assert "it is a FIFO" in hashed.content
    with pytest.raises(UnusableImageError, match="it is a FIFO"):
        read_image(tmp_path / "pipe.png")
    assert thumbnail(tmp_path / "pipe.png") is None


def irregular(path, kind):
    if kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


# Links of a stranger's run.


@pytest.fixture(scope="module")
def run_with_scores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("linked") / "run"
    words = ["--predictions", "--save-models", "--output", str(folder)]
    assert main(["run", *EUCLIDEAN, *words]) == 0
    (folder / "output.log").write_text("printed")
    (folder / "ratings.csv").write_text("rater_id,rater,query,candidate,mark\n")
    assert main(["export", str(folder), "--format", "csv"]) == 0
    return folder


READERS = {
    "report": ("output.log", "report.html", "tables", "ratings.csv", "results.sqlite"),
    "export --format csv": ("export", "export/trials.csv"),
    "export --format trec": ("predictions",),
    "evaluate --tasks classification": ("predictions/Euclidean_2_0.npz",),
    "run --resume": ("output.log", "models", ".unfinished", "results.sqlite"),
}


@pytest.mark.parametrize(("verb", "name"), [(v, name) for v in READERS for name in READERS[v]])
def test_what_a_run_links_to_is_neither_read_nor_written(
    command, run_with_scores, tmp_path, verb, name
):
    run, mine = tmp_path / "run", tmp_path / "mine"
    shutil.copytree(run_with_scores, run)
    path = run / name
    (path.rename if path.exists() else Path.mkdir)(mine)
    path.symlink_to(mine)
    before = _state_of(mine)
    words = verb.split()
    words.insert(2 if "--resume" in words else 1, run)
    status, out, errors = command(*words)
    assert status == 2, (out, errors)
    assert f"{path} is a symbolic link: only" in errors[-1]
    assert _state_of(mine) == before


def _state_of(path):
    files = [path, *path.rglob("*")]
    return {it: (it.stat().st_mtime_ns, it.is_file() and it.read_bytes()) for it in files}


# Values that are far too large.

DIGITS = "9" * 5000
LONG_NAME = "a" * 300


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--partitions", "1000000000"], ["1000000000 trials", "at most 100000", "--partitions"]),
        (["--partitions", DIGITS], ["partitions = '99", "characters", "a whole number"]),
        (["--memory", "99999999999GiB"], ["memory = '99999999999GiB'", "1000TiB at most"]),
        (["--threads", "100000"], ["threads = 100000", "at most 1024"]),
        (["--seed", str(2**63)], [f"seed = {2**63}", f"at most {2**63 - 1}"]),
        (["--classes", DIGITS], ["unknown class subset '99", "characters"]),
        (["--dataset", f"{LONG_NAME}.csv"], ["File name too long"]),
        (["--dataset", "web-scale", "--visterms", str(10**23)], ["visterms = 1000", "at most"]),
        (["--resume", LONG_NAME], ["File name too long"]),
    ],
)
def test_a_value_beyond_its_bound_is_told_in_a_short_line(refused, words, parts):
    usual = [] if words[0] == "--resume" else EUCLIDEAN
    line = refused("run", *usual, *words)
    assert all(part in line for part in parts), line
    assert len(line) < 800


# Tables that claim what they do not hold.


def npy_header(shape, descr="<f8"):
    content = io.BytesIO()
    fields = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(content, fields)
    return content.getvalue()


def test_an_npz_that_claims_512_gigabytes_is_refused_by_its_header(refused, tmp_path):
    with zipfile.ZipFile(tmp_path / "t.npz", "w") as file:
        file.writestr("X.npy", npy_header((10**9, 64)))
        file.writestr("y.npy", npy_header((10,), "<i8") + bytes(80))
    line = refused("run", *EUCLIDEAN, "--dataset", tmp_path / "t.npz")
    assert "array 'X' cannot be read" in line
    assert "claims 512000000000 bytes, and 0 follow" in line


def test_an_npz_of_more_than_the_free_memory_is_refused(refused, tmp_path, monkeypatch):
    rows = 10**6  # 80 MB of zeros, in a file of 80 kB
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((rows, 10)), y=np.arange(rows) % 2)
    monkeypatch.setattr("oasis_bench.system.machine.available_bytes", lambda: 10**6)
    line = refused("run", *EUCLIDEAN, "--dataset", tmp_path / "t.npz")
    assert "does not fit into memory" in line
    assert "needs 76 MiB" in line


# Stores that are damaged, or a stranger's.

DAMAGES = {
    "classes is null": "INSERT OR REPLACE INTO run VALUES ('classes', 'null')",
    "deep JSON": f"UPDATE run SET value = '{'[' * 9000}' WHERE key = 'notes'",
    "no info": "DELETE FROM run",
    "an unknown status": "PRAGMA ignore_check_constraints = ON; UPDATE trials SET status = 'fine'",
    "no trials": "PRAGMA foreign_keys = OFF; DELETE FROM trials",
    "a table less": "DROP TABLE traces",
}


@pytest.fixture(scope="module")
def whole_run(tmp_path_factory):
    """Return a run of two made-up learners, of which one has steps."""
    trials = [
        fake_trial(learner, partition=partition, n_steps=steps, params={"C": 1})
        for learner, steps in (("A", 1000), ("B", None))
        for partition in range(2)
    ]
    return write_run(tmp_path_factory.mktemp("stores") / "whole", trials)


VERBS = ("compare", "export", "ranks", "resume")
SOME = ("classes is null", "a table less")


@pytest.mark.parametrize(
    ("verb", "damage"),
    [*product(["report"], DAMAGES), *product(VERBS, SOME)],
)
def test_a_damaged_store_is_told_in_one_line(command, whole_run, tmp_path, damage, verb):
    broken = tmp_path / "broken"
    shutil.copytree(whole_run, broken)
    with closing(sqlite3.connect(broken / FILE_NAME)) as connection:
        connection.executescript(f"{DAMAGES[damage]};")
    before = (broken / FILE_NAME).read_bytes()
    words = {
        "report": ["report", broken],
        "compare": ["compare", whole_run, broken],
        "export": ["export", broken, "--format", "csv"],
        "ranks": ["ranks", whole_run, broken, "--output", tmp_path / "ranks"],
        "resume": ["run", "--resume", broken],
    }[verb]
    status, out, errors = command(*words)
    assert (status, len(errors), out) == (2, 1, "")
    assert "broken/results.sqlite is" in errors[0]
    assert (broken / FILE_NAME).read_bytes() == before


# Plugin files that a store names.


def test_a_plugin_file_that_only_the_store_names_is_not_run(command, refused, plugins, tmp_path):
    plugin, marker = tmp_path / "mine.py", tmp_path / "was run"
    plugin.write_text((plugins / "other_forms.py").read_text())
    run = tmp_path / "run"
    words = ["--algorithms", "Euclidean", "--predictions", "--plugin", plugin, "--output", run]
    assert command("run", *SMALL, *words)[0] == 0
    plugin.write_text(f"{plugin.read_text()}\nopen({str(marker)!r}, 'w')\n")
    for verb in (
        ["run", "--resume", run],
        ["evaluate", run, "--tasks", "retrieval"],
        ["export", run, "--format", "trec"],
    ):
        for name in [name for name in sys.modules if name.startswith(PLUGIN_MODULE)]:
            del sys.modules[name]  # a process imports a plugin once
        line = refused(*verb)
        assert f"if you trust them, add --plugin {plugin}" in line
        assert not marker.exists()
        assert command(*verb, "--plugin", plugin)[0] == 0
        assert marker.exists()
        marker.unlink()


# What is written for other programs, and what is lost.


EVIL = [
    "=1+1\x1b[2J",
    "+1+\x9b1m",
    "-1+1\u202e\\input{x}",
    "@x",
    "\t=1",
    "x\r=1",
    "\r\n=1",
    "\ufffe<b>&\x07",
]
UNSAFE = re.compile(r"[^\t\n\r -~\u00a0-\uffff]|[\u202a-\u202e\ufffe\uffff]")
FORMULA = re.compile(r"[=+\-@\t\r]", re.ASCII)


def check_harmless(folder):
    """Check every text file below a folder: control characters, formulas and XML."""
    files = [it for it in folder.rglob("*.*") if it.suffix in (".csv", ".svg", ".html", ".tex")]
    for path in files:
        text = path.read_bytes().decode()
        assert not UNSAFE.search(text), path
        assert path.suffix != ".tex" or "\\input" not in text
        if path.suffix == ".svg":
            ElementTree.fromstring(text)
        if path.suffix == ".csv":
            with path.open(newline="") as file:
                cells = [cell for row in csv.reader(file) for cell in row]
            for cell in cells:
                assert not FORMULA.match(cell) or len(cell) == 1 or np.isfinite(float(cell)), path
    return {path.suffix for path in files}


def test_texts_of_the_data_are_harmless_in_every_file(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y = np.repeat(EVIL[:4], 12)
    X = np.random.default_rng(0).normal(size=(48, 3)) + np.repeat(np.arange(4), 12)[:, None]
    frame = pd.DataFrame(X, columns=["a", "=b", "c"]).assign(label=y)
    run = tmp_path / "run"
    how = {"tasks": ["retrieval", "classification"], "classes": ["all"], "partitions": 2}
    few = {"inner_folds": 2, "search": 2, "max_steps": 200, "output": run, "save_models": True}
    few["use"] = "direct"
    learners = {EVIL[0]: "OASIS", EVIL[1]: "Euclidean", EVIL[2]: "Covariance", "LDA": "LDA"}
    oasis_bench.run(frame, learners, title=EVIL[0], **how, **few)
    named = frame.assign(name=np.resize(EVIL, 48))
    named.to_csv("t.csv", index=False, quoting=csv.QUOTE_ALL)
    of_rows = [next((run / "models").glob("LDA*")), "t.csv", "--name", "name"]
    for words in (
        ["export", run, "--format", "csv", "--output", run / "csv"],
        ["export", run, "--format", "summary", "--output", run / "summary"],
        ["neighbours", *of_rows, "t.csv", "-k", "2", "--output", run / "neighbours.csv"],
        ["embed", *of_rows, "--output", run / "points.csv"],
    ):
        status, _, errors = command(*words)
        assert status == 0, errors
    assert check_harmless(run) == {".csv", ".svg", ".html", ".tex"}
    assert to_csv(pd.DataFrame({"=cmd()": [1], "n": [2]})).splitlines()[0] == b"'=cmd(),n"
    found = pd.read_csv(run / "neighbours.csv", keep_default_na=False)
    assert found["query"].tolist()[::2] == pd.read_csv(run / "points.csv")["name"].tolist()
    assert found["query"][:4].tolist() == 2 * ["'=1+1\ufffd[2J"] + 2 * ["'+1+\ufffd1m"]
    assert found["similarity"].dtype == float
    assert (found["similarity"] < 0).any()


def test_a_store_that_is_deleted_in_mid_run_is_told_as_lost(tmp_path, experiment):
    def delete(record, done, planned):
        if done:
            shutil.rmtree(tmp_path / "run")

    with pytest.raises(OutputError, match="was removed while the run went on: its trials are lost"):
        run_experiment(experiment, tmp_path / "run", watcher=OnTrial(delete))


@pytest.mark.parametrize("words", [["--output", ""], ["--resume", ""], ["--plugin", ""]])
def test_an_empty_path_is_refused(command, words):
    status, out, errors = command("run", *words)
    assert (status, len(errors), out) == (2, 1, "")
    assert "a path is needed" in errors[0]
