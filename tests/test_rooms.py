"""The floors and the doors of the harness.

A module imports from its own room and, through their doors, from lower floors.  A room's door is
its `__init__`: the names in `__init__.pyi`.  A test may look inside one room, that which it tests.
"""

import ast
import importlib
import re
from functools import cache
from itertools import product
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FLOORS = {
    "notebook": 12,
    "command_line": 11,
    "reports": 11,
    "claims": 10,
    "web_scale": 9,
    "analysis": 9,
    "runs": 8,
    "execution": 7,
    "trial": 6,
    "experiment": 5,
    "plugins": 4,
    "tasks": 3,
    "sampling": 2,
    "data": 1,
    "system": 0,
}
BETWEEN_WINGS = {
    # Its network is the one whose outputs are a data set's features: one definition of its layers.
    "algorithms/_ranking_network.py": "oasis_bench.datasets.efficientnet_lite0",
}
"""Modules of a wing that import one module of another wing, each with its reason."""
WINGS = ("algorithms", "datasets", "reports")
LOOK_INSIDE_SEVERAL = {
    "test_clock.py",
    "test_deep_ranking.py",
    "test_experiment.py",
    "test_isolation.py",
    "test_keel.py",
    "test_paper.py",
    "test_projection.py",
    "test_published.py",
    "test_ranking.py",
    "test_sabotage.py",
    "test_selection.py",
    "test_web_scale_report.py",
}
"""Tests that look inside several rooms; no other may be added."""


@cache
def tree_of(path):
    return ast.parse(path.read_text())


@cache
def imported(path):
    """Name what a module imports, also inside functions; not what is for type checkers alone."""
    tree, names = tree_of(path), set()
    for_types = {
        id(statement)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for statement in node.body
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def room_of(name):
    """Return the room that a dotted name of oasis_bench is in, None for a module at the top."""
    package, _, rest = name.partition(".")
    part = rest.partition(".")[0]
    return part if package == "oasis_bench" and (part in FLOORS or part in WINGS) else None


def own_room(path):
    """Return the room, or the wing, that a file of the package is in."""
    first, *rest = path.relative_to(ROOT).parts
    return first if first in WINGS else rest[0] if len(rest) > 1 else None


def stated(path):
    """Return the module of another wing that a module may import."""
    return BETWEEN_WINGS.get(path.relative_to(ROOT).as_posix(), "")


SOURCES = [
    path for folder in ("oasis_bench", *WINGS) for path in sorted((ROOT / folder).rglob("*.py"))
]


def test_a_module_imports_from_its_own_room_and_lower_floors_only():
    """Modules of algorithms and data sets stand just above the plugins."""
    assert {own_room(path) for path in SOURCES} == {None, *FLOORS, *WINGS}
    refused = {
        (path.name, name)
        for path in SOURCES
        for name in imported(path)
        if (room := own_room(path))
        and (other := room_of(name)) not in (None, room)
        and FLOORS.get(str(other), 13) >= FLOORS.get(room, FLOORS["plugins"] + 1)
        and name.rpartition(".")[0] != stated(path)
    }
    assert not refused


def test_a_stated_exception_is_still_one():
    for module, other in BETWEEN_WINGS.items():
        assert other in {name.rpartition(".")[0] for name in imported(ROOT / module)}


def past_doors(path, own):
    """Return what a file imports past the doors of other rooms, by room; also for type checkers."""
    found = {}
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            names = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [(node.module, alias.name) for alias in node.names]
        else:
            continue
        for module, name in names:
            room = room_of(module)
            inside = module.count(".") > 1 or name in MODULES_OF.get(room or "", ())
            if room not in (None, own) and inside:
                found.setdefault(str(room), set()).add(f"{module}.{name}".rstrip("."))
    return found


MODULES_OF = {
    room: {path.stem for path in folder.glob("*.py")} - {"__init__"}
    for room in (*FLOORS, *WINGS)
    for folder in (ROOT / room if room in WINGS else ROOT / "oasis_bench" / room,)
}


def test_other_rooms_are_entered_through_their_doors():
    past = {
        (path.name, name)
        for path in SOURCES
        for names in past_doors(path, own_room(path)).values()
        for name in names
        if name.rpartition(".")[0] != stated(path)
    }
    assert not past


def test_a_test_and_a_script_of_docs_look_inside_one_room_at_most():
    paths = [path for folder in ("tests", "docs") for path in (ROOT / folder).rglob("*.py")]
    assert {path.name for path in paths if len(past_doors(path, None)) > 1} == LOOK_INSIDE_SEVERAL


FOLDERS = [
    stub.parent
    for wing in ("algorithms", "datasets")
    for stub in ROOT.glob(f"{wing}/*/__init__.pyi")
]
"""The folders of learners and of data sets that have doors as rooms have."""


def test_the_folders_of_a_wing_are_entered_through_their_doors():
    for path, place in product(SOURCES, FOLDERS):
        door = f"oasis_bench.{place.parent.name}.{place.name}."
        names = {
            name.removeprefix(door)
            for name in imported(path)
            if name.startswith(door) and name.rpartition(".")[0] != stated(path)
        }
        inside = {name for name in names if "." in name or (place / f"{name}.py").exists()}
        assert path.parent == place or not inside, path


DOORS = [
    *(ROOT / "oasis_bench").glob("*/__init__.pyi"),
    ROOT / "oasis_bench" / "trial" / "wall" / "__init__.pyi",
    *(folder / "__init__.pyi" for folder in FOLDERS),
]


@pytest.mark.parametrize("stub", sorted(DOORS), ids=str)
def test_each_name_at_a_door_is_there_and_is_no_module(stub):
    room = stub.parent.relative_to(ROOT).as_posix().removeprefix("oasis_bench/").replace("/", ".")
    door = importlib.import_module(f"oasis_bench.{room}")
    names = {
        alias.name
        for node in ast.parse(stub.read_text()).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert names == set(dir(door))
    assert not names & {path.stem for path in stub.parent.glob("*.py")}
    assert all(hasattr(door, name) for name in names)


TRIAL = ROOT / "oasis_bench" / "trial"


def across_the_wall(path):
    """Return what a module of `trial` imports from another side than its own, but for the wall."""
    room = "oasis_bench.trial."
    inside = {f"{name}." for name in imported(path) if f"{name}.".startswith(room)}
    own = {name for name in inside if name.startswith(f"{room}{path.parent.name}.")}
    return {name[:-1] for name in inside - own if not name.startswith(f"{room}wall.")}


def test_neither_side_of_the_wall_imports_the_other():
    paths = [*TRIAL.glob("*/*.py")]
    assert {path.parent.name for path in paths} == {"learner_side", "harness_side", "wall"}
    assert not {name for path in paths for name in across_the_wall(path)}


def test_the_wall_imports_no_side_and_nothing_else_is_beside_it():
    assert [path.name for path in TRIAL.glob("*.py")] == ["__init__.py"]
    of_wall = {name for path in TRIAL.glob("wall/*.py") for name in imported(path)}
    of_wall = {name for name in of_wall if name.startswith("oasis_bench.trial")}
    assert all(name.startswith("oasis_bench.trial.wall") for name in of_wall)


def test_a_learner_imports_no_module_of_another_family():
    for path in (ROOT / "algorithms").rglob("*.py"):
        own = ".".join(["oasis_bench", *path.relative_to(ROOT).parent.parts])
        others = {name for name in imported(path) if name.startswith("oasis_bench.algorithms.")}
        for name in others if path.parent.name != "algorithms" or path.stem != "__init__" else ():
            shared = name.removeprefix("oasis_bench.algorithms.").startswith(("_", "shared."))
            assert shared or name.startswith(own + "."), (path, name)


def texts_with_options(tree):
    """Yield the texts of a module that have an option as the command line spells it.

    Commands in quotes, and words of one alone, are not meant; nor is what only `list` prints, the
    `home` and the `summary` of a data set.
    """
    others = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):  # a text comes before its parts
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) in ("home", "summary"):
            others.add(id(node.value))
        if id(node) in others or not isinstance(node, ast.JoinedStr | ast.Constant):
            continue
        parts = node.values if isinstance(node, ast.JoinedStr) else [node]
        others |= set(map(id, parts))
        text = "".join(
            str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts
        )
        is_word = re.fullmatch("--[a-z-]+", text)
        if not is_word and re.search("--[a-z{]", re.sub("'[^']*('|$)", "", text)):
            yield text


def test_messages_below_the_faces_name_settings_as_each_face_spells_them():
    """On the command line ``--split``, in Python ``split``: see `system.spelled`."""
    module = ast.parse("""say(f"{a}: see --{b} or 'run --quick'", "'--b {a}'", "--c", "use --d")""")
    assert {*texts_with_options(module)} == {"{}: see --{} or 'run --quick'", "use --d"}
    below = [path for path in SOURCES if FLOORS.get(own_room(path), 0) < FLOORS["command_line"]]
    found = {(path.name, text) for path in below for text in texts_with_options(tree_of(path))}
    assert found == {("errors.py", "--{}")}  # `spelled` itself
