"""Tests of the verb `verify`: sent results are checked, and forged ones are refused."""

import os
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from oasis_bench.command_line import main

PUBLISHED = Path(__file__).parents[1] / "docs" / "results" / "suite"
KEEL = Path(os.environ.get("OASIS_BENCH_DATA", os.devnull), "keel")


@cache
def sent():
    """Return the published rows of WCCN and Euclidean, by corpus."""
    tables = {file.stem: pd.read_csv(file) for file in PUBLISHED.glob("*.csv")}
    return {name: it.query("learner in ['WCCN', 'Euclidean']") for name, it in tables.items()}


@pytest.fixture(scope="module")
def again(tmp_path_factory):
    """Where corpora are run again: what is there is kept."""
    return tmp_path_factory.mktemp("again")


def forged(folder, change):
    """Write `sent` rows as somebody would send them; `change` edits them."""
    folder.mkdir()
    for name, rows in sent().items():
        if (rows := change(name, rows.copy(), rows["learner"] == "WCCN")) is not None:
            rows.to_csv(folder / f"{name}.csv", index=False)
    return folder


def unchanged(name, rows, mine):
    return rows


def raised(name, rows, mine):
    rows.loc[mine, ["mean", "direct", "posterior", "as_learned"]] += 0.01
    return rows


def without_a_corpus(name, rows, mine):
    return None if name == "ring" else rows


def of_another_protocol(name, rows, mine):
    return rows.assign(protocol=1)


def best_partitions(name, rows, mine):
    rows.loc[mine, "planned"] = 3
    return rows


def many_failures(name, rows, mine):
    if name < "clinc":
        rows.loc[mine, "partitions"] = 0
    return rows


def a_failure_on_purpose(name, rows, mine):
    if name == "iris":
        rows.loc[mine, ["mean", "direct", "posterior", "as_learned"]] = None
        rows.loc[mine, "partitions"] = 0
    return rows


def without_a_measure(name, rows, mine):
    return rows[~(mine & (rows["name"] == "nDCG"))]


def better_baseline(name, rows, mine):
    rows.loc[~mine & (name == "wine"), "mean"] += 0.01
    return rows


def with_a_path(name, rows, mine):
    return rows.assign(command="python -m oasis_bench run --plugin /home/me/mine.py")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (without_a_corpus, "no results of ring"),
        (of_another_protocol, "iris: protocol 1 in place of 2"),
        (best_partitions, "iris: one planned is needed, but there are 2"),
        (many_failures, "no result on 18 of 57 corpora"),
        (without_a_measure, "iris: 1 measures of WCCN are missing"),
        (better_baseline, "wine: Euclidean has "),
        (with_a_path, "iris: the command has a path of your machine"),
    ],
)
def test_what_can_be_seen_without_a_run_is_refused(tmp_path, capsys, change, line):
    assert main(["verify", str(forged(tmp_path / "sent", change))]) == 1
    assert line in capsys.readouterr().out


@pytest.mark.skipif(not KEEL.is_dir(), reason="OASIS_BENCH_DATA does not hold keel")
@pytest.mark.parametrize(
    ("change", "status", "line"),
    [
        (unchanged, 0, "as published and measured again: iris\n"),
        (raised, 1, "iris: WCCN has "),
        (a_failure_on_purpose, 1, "iris: WCCN has "),
    ],
)
def test_corpora_are_run_again(again, tmp_path, capsys, change, status, line):
    folder = forged(tmp_path / "sent", change)
    words = ["verify", str(folder), "--corpora", "iris", "--output", str(again)]
    assert main(words) == status
    assert line in capsys.readouterr().out


def test_bad_input_is_one_line(tmp_path, capsys):
    assert main(["verify", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"oasis-bench: no results in {tmp_path}: name the ")
    folder = forged(tmp_path / "sent", unchanged)
    assert main(["verify", str(folder), "--corpora", "irs"]) == 2
    assert "unknown corpus 'irs': did you mean 'iris'?" in capsys.readouterr().err
