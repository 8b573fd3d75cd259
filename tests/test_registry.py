"""Finding plugins: installed distributions and files, sound and broken."""

import numpy as np
import pytest

from oasis_bench.algorithms import OASIS, Euclidean
from oasis_bench.plugins import BrokenPluginError, Dataset, Fields, Registry
from oasis_bench.system import UsageError
from oasis_bench.tasks import Truth

DISTRIBUTION = """\
Metadata-Version: 2.1
Name: third-party-learners
Version: 1.0
"""

ENTRY_POINTS = """\
[oasis_bench.algorithms]
Sound = third_party_learners:Sound
Missing = third_party_missing:Learner
NotALearner = third_party_learners:NotALearner
NotAClass = third_party_learners:NOT_A_CLASS
Nameless = third_party_learners:Nameless
Leaves = third_party_leaves:Learner
LeavesWhenMade = third_party_learners:LeavesWhenMade
LMNN = third_party_learners:Sound
OASIS = oasis_bench.algorithms:OASIS
"""
"""The last is what an older version of this package had registered."""

MODULE = """\
import sys

from oasis_bench.algorithms import Euclidean
from oasis_bench.plugins.learner import MahalanobisLearner

NOT_A_CLASS = 42

class NotALearner:
    name = summary = citation = "x"

class Sound(Euclidean):
    name = "Sound"

class Nameless(MahalanobisLearner):
    def fit(self, X, y):
        return self

class LeavesWhenMade(Euclidean):
    name = "LeavesWhenMade"

    def __init__(self):
        sys.exit(0)
"""

LEAVES = "import sys; sys.exit(0)"


@pytest.fixture
def third_party(tmp_path, monkeypatch):
    """Install a distribution with a sound learner, broken ones and a name that is taken."""
    info = tmp_path / "third_party_learners-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(DISTRIBUTION)
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (tmp_path / "third_party_learners.py").write_text(MODULE)
    (tmp_path / "third_party_leaves.py").write_text(LEAVES)
    monkeypatch.syspath_prepend(tmp_path)


FAULTS = {
    "class E(Exception):\n    def __str__(self): 1 / 0\nraise E": "E: its message cannot be made",
    "raise ValueError('x' * 10**7)": "characters ...] xxx",
    "raise ImportError('of two\\nlines')": "cannot be imported: ImportError: of two",
    "import sys; sys.exit(0)": "cannot be imported: SystemExit: 0",
    "raise GeneratorExit": "cannot be imported: GeneratorExit",
    "ANSWER = 42": "mine.py",
    "from oasis_bench.algorithms import Euclidean\nclass O(Euclidean): name = 'OASIS'": "'OASIS'",
    "class D(Dataset):\n    name = summary = citation = 'd'\n    def load(self): pass": (
        "def load(self, progress=no_progress) is needed"
    ),
    "class D(Dataset):\n    name = summary = 'd'\n    citation = 3\n"
    "    def load(self, progress): pass": "no class attribute 'citation' of type str",
    "class D(Dataset):\n    name = summary = citation = 'd'\n    home = 3\n"
    "    def load(self, progress): pass": "no class attribute 'home' of type str",
    "class L(MetricLearner):\n    name = summary = citation = 'l'\n    cost = None\n"
    "    def fit(self, X, y=None): pass": "no class attribute 'cost' of type str",
}


@pytest.mark.parametrize("code", FAULTS)
def test_whatever_is_wrong_with_a_plugin_is_one_short_line(tmp_path, code):
    path = tmp_path / "mine.py"
    path.write_text(f"from oasis_bench.plugins import Dataset, MetricLearner\n{code}\n")
    with pytest.raises(UsageError) as raised:
        Registry.load([path])
    text = str(raised.value)
    assert FAULTS[code] in text
    assert text.isprintable()
    assert len(text) < 2500


@pytest.mark.usefixtures("third_party")
def test_a_broken_plugin_is_listed_and_breaks_nothing_else():
    catalogue = Registry.load().algorithms
    names = {"Sound", "Missing", "NotALearner", "NotAClass", "Nameless", "OASIS"}
    assert names <= set(catalogue)
    assert catalogue["Sound"].name == "Sound"
    assert catalogue["OASIS"] is OASIS


@pytest.mark.usefixtures("third_party")
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("Missing", "cannot be imported: ModuleNotFoundError: No module named 'third_party_mis"),
        ("NotALearner", "is not a class derived from MetricLearner"),
        ("NotAClass", "is not a class derived from MetricLearner"),
        ("Nameless", "has no class attribute 'name'"),
        ("Leaves", "cannot be imported: SystemExit: 0"),
        ("LeavesWhenMade", "cannot be made without arguments: SystemExit: 0"),
    ],
)
def test_a_broken_plugin_says_what_is_wrong_with_it(name, problem):
    with pytest.raises(BrokenPluginError) as error:
        Registry.load().algorithms[name]
    assert problem in str(error.value)
    assert f"plugin {name!r}" in str(error.value)


@pytest.mark.usefixtures("third_party")
def test_a_name_that_two_distributions_claim_is_refused_and_breaks_nothing_else():
    catalogue = Registry.load().algorithms
    assert catalogue["OASIS"] is OASIS
    with pytest.raises(UsageError, match="LMNN") as error:
        catalogue["LMNN"]
    assert "oasis_bench.algorithms:LMNN" in str(error.value)
    assert "third_party_learners:Sound" in str(error.value)


def test_ctrl_c_in_an_import_is_no_fault_of_the_plugin_file(tmp_path, plugins):
    path = tmp_path / "slow_import.py"
    path.write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        Registry.load([path])
    path.write_text((plugins / "sleeper.py").read_text())
    assert Registry.load([path]).algorithms["Sleeper"].name == "Sleeper"


def test_a_plugin_file_that_was_edited_is_imported_again(tmp_path):
    path = tmp_path / "mine.py"
    text = (
        "from oasis_bench.algorithms import Euclidean\n"
        "class Mine(Euclidean):\n    name, summary = 'Mine', 'first'\n"
    )
    path.write_text(text)
    first = Registry.load([path]).algorithms["Mine"]
    assert Registry.load([path]).algorithms["Mine"] is first
    path.write_text(text.replace("first", "other"))
    assert Registry.load([path]).algorithms["Mine"].summary == "other"


def test_a_task_in_a_file_is_asked_like_those_that_are_installed(plugins):
    tasks = Registry.load([plugins / "reciprocal_rank.py"]).tasks
    assert {"retrieval", "unseen-classes", "classification", "judged-triplets", "ratings"} < {
        *tasks
    }
    y, X = np.array([0, 0, 1, 1]), np.array([[0.0], [3], [2], [9]])
    truth, found = Truth(y=y), {}
    for name in ("reciprocal-rank", "retrieval"):
        evaluation = tasks[name]().evaluate(truth, lambda q, g: -abs(q - g.T), X, seed=0)
        found[name] = evaluation.measurements()
    # One relevant item a query, at ranks 2, 2, 3 and 2: its average precision is 1 / rank, too.
    assert found["reciprocal-rank"][0].value == pytest.approx((1 / 2 + 1 / 2 + 1 / 3 + 1 / 2) / 4)
    assert found["reciprocal-rank"][0].value == pytest.approx(found["retrieval"][0].value)


def test_a_class_without_fields_of_its_own_keeps_the_constructor_of_its_base():
    class Written(Euclidean):
        def __init__(self, log="."):
            self.log = log

    class Derived(Written):
        name = "Derived"

    assert Derived("x").get_params() == {"log": "x"}

    class WrittenData(Fields, Dataset):
        def __init__(self, size):
            self.size = size

        def load(self, progress=None):
            raise NotImplementedError

    class DerivedData(WrittenData):
        name = "derived"

    assert DerivedData(3).size == 3
