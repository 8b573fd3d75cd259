"""`check FILE`: the contract over the learners of a plugin file, by one command."""

import subprocess
import sys

import pytest

from oasis_bench.command_line import main


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
    assert failed == [[], [], [checked], [checked]]  # Overlap, CentredGallery, the two others
    assert "a pair asked alone has another score" in parts[3]
    assert "scores of the items in another order" in parts[4]
    assert "contract_checks.py, line " in parts[4]
    assert printed.endswith("2 checks failed: HiddenlyCentred, RowNumbers\n")


def test_what_is_wrong_in_the_plugin_s_own_code_is_said_once(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from oasis_bench.plugins import EmbeddingLearner\n"
        "class Mine(EmbeddingLearner):\n"
        "    name = summary = citation = 'mine'\n"
        "    takes = 'pixels'\n"
        "    def fit(self, X, y):\n"
        "        raise KeyError('no such picture')\n"
        "    def embed(self, X):\n"
        "        return self._check_items(X)\n"
    )
    status, printed = check(path)
    assert status == 1
    assert printed.count("KeyError: 'no such picture'") == 1
    assert f"in {path}, line 6" in printed
    assert printed.count("as above") > 5


def test_a_file_without_a_learner_is_refused(plugins, capsys):
    assert main(["check", str(plugins / "data_sets.py")]) == 2
    assert "data_sets.py defines no learner: give a file that does" in capsys.readouterr().err
