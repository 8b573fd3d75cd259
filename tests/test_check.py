"""`check FILE`: the contract over the learners of a plugin file, by one command."""

import subprocess
import sys
from pathlib import Path

import pytest

from oasis_bench.plugins import load_registry
from oasis_bench.plugins.contract import TaskContract


def check(path):
    """Run the command as a user does, in a process of its own."""
    command = [sys.executable, "-m", "oasis_bench", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert not done.stderr
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("file", "title"),
    [
        ("pixel_embedding", "Eigenpictures (embedding, takes pixels):"),
        ("patch_sets", "SetDistance (exemplar, takes patches):"),
    ],
)
def test_sound_learners_pass(plugins, file, title):
    status, printed = check(plugins / f"{file}.py")
    lines = printed.splitlines()
    assert (status, lines[0], lines[-1]) == (0, title, "all checks passed: 1 learner")
    assert "  ok          saved and loaded it is the same" in lines
    assert "  ok          its form is what it claims" in lines
    assert not any(line.startswith("  failed") for line in lines)


def test_a_learner_that_looks_at_more_than_the_pair_fails_unless_it_says_so(plugins):
    status, printed = check(plugins / "other_forms.py")
    assert status == 1
    parts = printed.split("takes rows):\n")
    failed = [[line for line in part.splitlines() if "  failed  " in line] for part in parts[1:]]
    checked = "  failed      a pair has the same score whatever else is asked"
    # `score` presents items in a random order, which changes what row numbers say.
    by_order = "  failed      its score is the mean average precision"
    assert failed[:3] == [[], [], [checked]]  # Overlap, CentredGallery, HiddenlyCentred
    assert failed[3] == [checked, by_order]  # RowNumbers
    assert "a pair asked alone has another score" in parts[3]
    assert "scores of the items in another order" in parts[4]
    assert "contract_items.py, line " in parts[4]
    assert printed.endswith("3 checks failed: HiddenlyCentred, RowNumbers\n")


@pytest.mark.parametrize(
    ("file", "last"), [("data_sets", "2 data sets"), ("reciprocal_rank", "1 task")]
)
def test_sound_data_sets_and_tasks_pass(plugins, file, last):
    status, printed = check(plugins / f"{file}.py")
    assert (status, printed.splitlines()[-1]) == (0, f"all checks passed: {last}")


def test_the_data_set_of_the_readme_passes(tmp_path):
    blocks = (Path(__file__).parents[1] / "README.md").read_text().split("```python\n")
    (block,) = (block.split("```")[0] for block in blocks if "(Dataset)" in block)
    assert len(block.splitlines()) < 15
    (tmp_path / "wine.py").write_text(block)
    assert check(tmp_path / "wine.py")[0] == 0


UNSOUND = """
import numpy as np
from oasis_bench.data import LabelledRows
from oasis_bench.plugins import Dataset
from oasis_bench.system import no_progress
from oasis_bench.tasks.retrieval import Retrieval

class Drawn(Dataset):
    name, summary, citation = "drawn", "another each time", "none"

    def load(self, progress=no_progress):
        return LabelledRows(np.random.normal(size=(4, 2)), np.repeat([0, 1], 2), ("a", "b"))

class Pair(Drawn):
    name, summary = "pair", ""

    def load(self, progress=no_progress):
        return np.eye(4), [0, 0, 1, 1]

class Percent(Retrieval):
    name = "percent"

    def evaluation(self, *how):
        made = super().evaluation(*how)
        values = made.values
        made.values = lambda measure: {k: 100 * value for k, value in values(measure).items()}
        return made

class Distance(Retrieval):
    name = "distance"

    def evaluation(self, *how):
        made = super().evaluation(*how)
        values = made.values
        made.values = lambda measure: {k: 1 - value for k, value in values(measure).items()}
        return made
"""


def test_unsound_data_sets_and_tasks_fail(tmp_path):
    (tmp_path / "unsound.py").write_text(UNSOUND)
    status, printed = check(tmp_path / "unsound.py")
    failed, name = {}, ""
    for line in printed.splitlines():
        name = line.split()[0] if not line.startswith(" ") else name
        if line.startswith("  failed"):
            failed.setdefault(name, []).append(line.removeprefix("  failed").strip())
    assert status == 1
    assert failed == {
        "drawn": ["it is the same each time it is loaded"],
        "pair": ["it says what it is", "it is the same each time it is loaded"],
        "percent": ["its measures lie in their ranges"],
        "distance": ["a right answer is no worse than its reverse"],
    }
    assert "load returns an object of type tuple: return LabelledRows" in printed


@pytest.mark.parametrize("name", list(load_registry().tasks))
class TestBuiltInTasks(TaskContract):
    @pytest.fixture
    def task(self, name):
        return load_registry().tasks[name]
