"""What bash proposes at the Tab key, by its own completion of the installed command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from oasis_bench.command_line.options import LISTED
from oasis_bench.plugins import Registry

BIN = Path(sys.executable).parent
PROPOSE = """
eval "$(register-python-argcomplete oasis-bench)"
COMP_LINE=$1 COMP_POINT=${#1} COMP_TYPE=9
_python_argcomplete oasis-bench
printf '%s\\n' "${COMPREPLY[@]}"
"""

pytestmark = pytest.mark.skipif(
    not (shutil.which("bash") and (BIN / "register-python-argcomplete").is_file()),
    reason="needs bash, and argcomplete beside this Python",
)


def proposals(line, folder):
    """Return what bash proposes where a line ends."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", PROPOSE, "bash", line],
        **{"cwd": folder, "env": {**os.environ, "PATH": path}, "timeout": 60},
        **{"capture_output": True, "text": True, "check": True},
    )
    return [text.rstrip() for text in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("oasis-bench comp", ["compare"]),
        ("oasis-bench data ", ["describe", "list", "prepare"]),
        ("oasis-bench run --partit", ["--partitions"]),
        ("oasis-bench run --scal", ["--scaling"]),
        ("oasis-bench run --algorithms OASIS,LM", ["OASIS,LMNN"]),
        ("oasis-bench run --algorithms=OASIS,LM", ["OASIS,LMNN"]),
        ("oasis-bench run --tasks retrieval,uns", ["retrieval,unseen-classes"]),
        ("oasis-bench run --split strat", ["stratified"]),
        ("oasis-bench fit table.csv --learner MCM", ["MCML"]),
        ("oasis-bench fit table.csv --task veri", ["verification"]),
    ],
)
def test_verbs_options_and_names_are_proposed(tmp_path, line, expected):
    assert sorted(proposals(line, tmp_path)) == expected


def test_every_learner_is_proposed_and_no_file(tmp_path):
    (tmp_path / "table.csv").write_text("a,kind\n1,x\n")
    found = proposals("oasis-bench run --algorithms ", tmp_path)
    assert [name for name in found if not name.startswith("--")] == [*Registry.load().algorithms]


def test_a_kind_of_list_is_proposed(tmp_path):
    assert {*LISTED} <= set(proposals("oasis-bench list ", tmp_path))


def test_data_sets_and_experiments_are_names_or_files(tmp_path):
    (tmp_path / "digits.csv").write_text("a,kind\n1,x\n")
    assert sorted(proposals("oasis-bench run --dataset dig", tmp_path)) == ["digits", "digits.csv"]
    assert proposals("oasis-bench data describe dig", tmp_path) == ["digits", "digits.csv"]
    (tmp_path / "suite-of-mine.toml").write_text("title = 'mine'\n")
    found = proposals("oasis-bench run --experiment suite", tmp_path)
    assert sorted(found) == ["suite", "suite-of-mine.toml"]
    assert "file" not in proposals("oasis-bench run --dataset fil", tmp_path)
