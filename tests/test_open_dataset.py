"""A data set by its name or a path, and its options: read from text, checked, refused."""

from types import SimpleNamespace

import pytest
from small_runs import digit_rows

from oasis_bench.plugins import BrokenPluginError, Dataset, Registry
from oasis_bench.system import UsageError

PLUGIN = """
from __future__ import annotations
from pathlib import Path
from typing import Optional
from oasis_bench.plugins.dataset import Dataset

class Several(Dataset):
    name, summary, citation, licence = "several", "with options", "none", "none"

    def __init__(self, n: int = 1, share: float | None = None, *, kind: Optional[str] = None,
                 fast: bool = False, shape=(8, 8)):
        self.given = n, share, kind, fast, shape

    def load(self, progress=None):
        raise NotImplementedError

class Listed(Several):
    name = "listed"

    def __init__(self, kinds: list[str], **others):
        self.kinds = kinds

class Unknown(Several):
    name = "unknown-type"

    def __init__(self, n: NoSuchType = 1):
        self.n = n
"""


@pytest.fixture
def registry(tmp_path):
    """The registry with a data set that has options of all kinds."""
    path = tmp_path / "several.py"
    path.write_text(PLUGIN)
    return Registry.load([path])


def test_options_are_given_to_the_data_set_and_the_others_keep_their_defaults(registry):
    options = {"n": 3, "share": 1, "fast": True, "shape": [4, 4]}
    assert registry.open_dataset("several", options).given == (3, 1, None, True, [4, 4])
    assert registry.open_dataset("several").given == (1, None, None, False, (8, 8))


def test_options_in_text_are_read_as_the_types_that_the_data_set_takes(registry):
    texts = {"n": "3", "share": "0.5", "kind": "3", "fast": "true", "shape": "4,4"}
    expected = {"n": 3, "share": 0.5, "kind": "3", "fast": True, "shape": "4,4"}
    assert registry.read_options("several", texts) == expected


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("n", "many", "data set several: n = 'many': a whole number is needed"),
        ("n", True, "n = True: a whole number is needed"),
        ("share", "half", "share = 'half': a number is needed"),
        ("kind", 3, "kind = 3: a text is needed"),
        ("fast", "yes", "fast = 'yes': true or false is needed"),
        ("N", 3, "unknown option 'N': did you mean 'n'? there are n, share, kind, fast, shape"),
    ],
)
def test_a_wrong_option_is_refused_in_one_line(registry, option, value, message):
    with pytest.raises(UsageError) as error:
        registry.open_dataset("several", {option: value})
    assert message in str(error.value)
    if isinstance(value, str):  # the same from the command line
        with pytest.raises(UsageError) as again:
            registry.open_dataset("several", registry.read_options("several", {option: value}))
        assert str(again.value) == str(error.value)


def test_an_option_without_a_default_is_needed_and_others_by_keyword_are_not_options(registry):
    with pytest.raises(UsageError, match="listed needs --data-option kinds=VALUE"):
        registry.open_dataset("listed")
    assert registry.open_dataset("listed", {"kinds": ["a", "b"]}).kinds == ["a", "b"]
    with pytest.raises(UsageError, match="unknown option 'others'"):
        registry.open_dataset("listed", {"kinds": [], "others": 1})


def test_options_whose_types_cannot_be_read_are_a_broken_plugin(registry):
    with pytest.raises(BrokenPluginError, match=r"unknown-type.*NoSuchType"):
        registry.open_dataset("unknown-type")


def test_the_path_of_a_file_is_not_an_option(registry, tmp_path):
    (tmp_path / "rows.csv").write_text("a,label\n1,x\n2,y\n")
    path = str(tmp_path / "rows.csv")
    assert registry.open_dataset(path, {"label": "a"}).label == "a"
    with pytest.raises(UsageError, match="unknown option 'path': there are label"):
        registry.open_dataset(path, {"path": "other.csv"})


def test_the_name_of_a_data_set_goes_before_a_path(registry, tmp_path, monkeypatch):
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert registry.open_dataset("digits").name == "digits"
    assert registry.open_dataset("./digits").name == "images"


@pytest.mark.parametrize("name", ["", " ", "a\0b.csv"])
def test_a_name_that_is_empty_or_holds_nul_is_refused_and_is_not_this_folder(registry, name):
    with pytest.raises(UsageError, match="a name or a path is needed") as error:
        registry.open_dataset(name)
    assert str(error.value).startswith(f"data set {name!r}: ")


class Pictures(Dataset):
    name = "pictures"

    def __init__(self, patches=None, features="histograms", pixels=None):
        pass

    def load(self, progress=None):
        raise NotImplementedError


EITHER = "patches=gb70+gb42 or features=lab+hog"


@pytest.mark.parametrize(
    ("takes", "gives", "advice"),
    [
        ("patches", ("rows", "patches"), f": give --data-option {EITHER}"),
        (
            *("patches+pixels", ("rows", "pixels", "patches")),
            f": give --data-option {EITHER} and --data-option pixels=SIZE",
        ),
        (  # it has the options, but not for patches
            *("patches+pixels", ("rows", "pixels")),
            "gives rows and pixels: choose another learner or data set",
        ),
    ],
)
def test_the_advice_names_the_options_that_give_what_is_missing(takes, gives, advice):
    pictures, learner = Pictures(), SimpleNamespace(name="Mine", takes=takes)
    pictures.gives = gives
    with pytest.raises(UsageError) as error:
        pictures.refuse_unless_taken_by(learner, digit_rows())
    assert str(error.value).endswith(advice)
