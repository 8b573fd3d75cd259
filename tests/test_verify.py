"""Tests of the verb `verify`: sent results are checked, and forged ones are refused."""

import os
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from oasis_bench.command_line import main, verify

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
    rows.loc[mine, ["mean", "direct", "posterior", "as_learned"]] += 0.05
    return rows


def raised_a_little(name, rows, mine):
    rows.loc[mine, "mean"] += 0.0015
    return rows


def without_a_corpus(name, rows, mine):
    return None if name == "ring" else rows


def absent_on_some(name, rows, mine):
    return rows[~mine | (name > "h")]


def of_another_protocol(name, rows, mine):
    return rows.assign(protocol=1)


def of_another_code(name, rows, mine):
    return rows.assign(code="mine")


def best_partitions(name, rows, mine):
    rows.loc[mine, "planned"] = 3
    return rows


def of_more_classes(name, rows, mine):
    return rows.assign(n_classes=rows["n_classes"] + 10)


def many_failures(name, rows, mine):
    if name < "clinc":
        rows.loc[mine, "mean"] = None
    return rows


def a_failure_on_purpose(name, rows, mine):
    if name == "iris":
        rows.loc[mine, ["mean", "direct", "posterior", "as_learned"]] = None
    return rows


def without_a_measure(name, rows, mine):
    return rows[~(mine & (rows["name"] == "nDCG"))]


def without_a_column(name, rows, mine):
    return rows.drop(columns=["command", "as_learned"])


def better_baseline(name, rows, mine):
    rows.loc[~mine & (name == "mnist"), "mean"] += 0.01
    return rows


def with_a_path(name, rows, mine):
    return rows.assign(command="python -m oasis_bench run --plugin /home/me/mine.py")


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (without_a_corpus, "results are needed of each corpus of the suite, and of no other: "),
        (absent_on_some, "Adiac: each of ['Euclidean', 'WCCN'] needs one row for each published"),
        (of_another_protocol, "iris: protocol differs from the published one"),
        (of_another_code, "results are needed of one known version of the code"),
        (best_partitions, "iris: planned differs from the published one"),
        (of_more_classes, "iris: n_classes differs from the published one"),
        (many_failures, "no result on 18 of 57 corpora"),
        (without_a_measure, "iris: each of ['Euclidean', 'WCCN'] needs one row for each published"),
        (without_a_column, "iris: Euclidean has mAP (as_learned) nan in place of 0.8665"),
        (better_baseline, "mnist: Euclidean has mAP (mean) 0."),
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
        (raised_a_little, 1, "WCCN: the values that were sent differ by +0.00150 in the median"),
        (a_failure_on_purpose, 1, "iris: WCCN has "),
    ],
)
def test_corpora_are_run_again(again, tmp_path, capsys, change, status, line):
    folder = forged(tmp_path / "sent", change)
    words = ["verify", str(folder), "--corpora", "iris", "--output", str(again)]
    assert main(words) == status
    assert line in capsys.readouterr().out


def test_drawn_and_failed_corpora_are_run_again(tmp_path, monkeypatch, capsys):
    again = []
    monkeypatch.setattr(verify, "_run_again", lambda given, names, _: again.extend(names) or given)
    assert main(["verify", str(forged(tmp_path / "good", unchanged)), "--draw", "3"]) == 0
    drawn = [*again]
    assert len({*drawn}) == 3
    assert {*drawn} <= {*sent()}
    again.clear()
    folder = forged(tmp_path / "failed", a_failure_on_purpose)
    assert main(["verify", str(folder), "--corpora", "wine"]) == 0
    assert again == ["wine", "iris"]
    assert "measured again: wine, iris" in capsys.readouterr().out


def test_values_measured_again_may_differ_by_rounding_alone():
    """By .003, or three of the test items."""
    frame = pd.DataFrame({"learner": ["A", "B"], "task": "t", "name": "mAP", "n_test": [100, 9000]})
    known = frame.assign(**dict.fromkeys(verify.VALUES, 0.5)).set_index(verify.KEYS)
    for gap, expected in (([0.029, 0.0029], []), ([0.031, 0.0031], ["A", "B"])):
        other = known.assign(direct=0.5 + np.array(gap))
        lines = [*verify.differences("x", known, other)]
        assert [line.split()[1] for line in lines] == expected
    assert [*verify.shifts({"x": known}, {"x": known.assign(mean=0.5001)})] == []
    (line,) = verify.shifts({"x": known}, {"x": known.assign(mean=[0.5, 0.4998])})
    assert line.startswith("B: the values that were sent differ by -0.00020")


def test_bad_input_is_one_line(tmp_path, capsys):
    folder = forged(tmp_path / "sent", unchanged)
    without = forged(tmp_path / "without", lambda name, rows, mine: rows[mine])
    for arguments in ([tmp_path], [without], [folder, "--results", without]):
        assert main(["verify", *map(str, arguments)]) == 2
        where = arguments[-1]
        assert f"Euclidean is missing in {where}: name the" in capsys.readouterr().err
    assert main(["verify", str(folder), "--corpora", "irs"]) == 2
    assert "unknown corpus 'irs': did you mean 'iris'?" in capsys.readouterr().err
