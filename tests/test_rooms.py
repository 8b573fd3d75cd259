"""The floors and the doors of the harness.

A module imports from its own room and, through their doors, from lower floors.  A room's door is
its `__init__`: the names in `__init__.pyi`.  A test may look inside one room, that which it tests.
"""

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

FLOORS = {
    "notebook": 12,
    "command_line": 11,
    "reports": 11,
    "web_scale": 10,
    "claims": 10,
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
    "test_help.py",
    "test_isolation.py",
    "test_keel.py",
    "test_messages.py",
    "test_paper.py",
    "test_projection.py",
    "test_published.py",
    "test_ranking.py",
    "test_sabotage.py",
    "test_selection.py",
    "test_web_scale_report.py",
}
"""Tests that look inside several rooms; no other may be added."""
TOP = sorted(path.name for path in (ROOT / "oasis_bench").glob("*.py"))


def imported(path: Path) -> Iterator[str]:
    """Name what a module imports, also inside functions; not what is for type checkers alone."""
    tree = ast.parse(path.read_text())
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
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(name: str) -> str | None:
    """Return the room that a dotted name of oasis_bench is in, None for a module at the top."""
    package, _, rest = name.partition(".")
    part = rest.partition(".")[0]
    return part if package == "oasis_bench" and (part in FLOORS or part in WINGS) else None


MODULES = {
    path.relative_to(ROOT).as_posix(): path.parent.relative_to(ROOT / "oasis_bench").parts[0]
    for path in sorted((ROOT / "oasis_bench").rglob("*.py"))
    if path.parent != ROOT / "oasis_bench"
} | {
    path.relative_to(ROOT).as_posix(): "reports"
    for path in sorted((ROOT / "reports").rglob("*.py"))
}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_its_own_room_and_lower_floors_only(module: str) -> None:
    room = MODULES[module]
    rooms = {name: other for name in imported(ROOT / module) if (other := room_of(name))}
    refused = {
        name
        for name, other in rooms.items()
        if other != room and FLOORS.get(other, 13) >= FLOORS[room]
    }
    assert not refused


@pytest.mark.parametrize(
    "module",
    sorted(
        path.relative_to(ROOT).as_posix()
        for wing in ("algorithms", "datasets")
        for path in (ROOT / wing).rglob("*.py")
    ),
)
def test_plugins_import_from_the_room_of_plugins_and_lower_floors_only(module: str) -> None:
    wing = module.partition("/")[0]
    refused = {
        name
        for name in imported(ROOT / module)
        if (room := room_of(name)) not in (None, wing)
        and FLOORS.get(str(room), 13) > FLOORS["plugins"]
        and name.rpartition(".")[0] != BETWEEN_WINGS.get(module)
    }
    assert not refused


@pytest.mark.parametrize("module", BETWEEN_WINGS)
def test_a_stated_exception_is_still_one(module: str) -> None:
    names = {name.rpartition(".")[0] for name in imported(ROOT / module)}
    assert BETWEEN_WINGS[module] in names


def past_doors(path: Path, own: str | None) -> dict[str, set[str]]:
    """Return what a file imports past the doors of other rooms, by room; also for type checkers."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(ast.parse(path.read_text())):
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
SOURCES = [
    path for folder in ("oasis_bench", *WINGS) for path in sorted((ROOT / folder).rglob("*.py"))
]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_other_rooms_are_entered_through_their_doors(path: Path) -> None:
    parts = path.relative_to(ROOT).parts
    own = parts[0] if parts[0] in WINGS else parts[1] if parts[0] == "oasis_bench" else None
    named = BETWEEN_WINGS.get("/".join(parts), "")
    past = {name for names in past_doors(path, own).values() for name in names}
    assert not {name for name in past if name.rpartition(".")[0] != named}


@pytest.mark.parametrize(
    "path",
    [*sorted((ROOT / "tests").rglob("*.py")), *sorted((ROOT / "docs").rglob("*.py"))],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_a_test_and_a_script_of_docs_look_inside_one_room_at_most(path: Path) -> None:
    past = past_doors(path, None)
    assert (len(past) > 1) == (path.name in LOOK_INSIDE_SEVERAL), past


FOLDERS = [
    stub.parent
    for wing in ("algorithms", "datasets")
    for stub in ROOT.glob(f"{wing}/*/__init__.pyi")
]
"""The folders of learners and of data sets that have doors as rooms have."""


@pytest.mark.parametrize(
    "path",
    [path for wing in ("algorithms", "datasets") for path in sorted((ROOT / wing).rglob("*.py"))],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_the_folders_of_a_wing_are_entered_through_their_doors(path: Path) -> None:
    stated = BETWEEN_WINGS.get(path.relative_to(ROOT).as_posix())
    for place in FOLDERS:
        door = f"oasis_bench.{place.parent.name}.{place.name}."
        names = {
            name.removeprefix(door)
            for name in imported(path)
            if name.startswith(door) and name.rpartition(".")[0] != stated
        }
        inside = {name for name in names if "." in name or (place / f"{name}.py").exists()}
        assert path.parent == place or not inside


DOORS = [
    *(ROOT / "oasis_bench").glob("*/__init__.pyi"),
    *(folder / "__init__.pyi" for folder in FOLDERS),
]


@pytest.mark.parametrize("stub", sorted(DOORS), ids=str)
def test_each_name_at_a_door_is_there_and_is_no_module(stub: Path) -> None:
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
SIDES = ("learner_side", "harness_side")


def across_the_wall(path: Path) -> set[str]:
    """Return what a module of `trial` imports from another side than its own, but for the wall."""
    room = "oasis_bench.trial."
    inside = {f"{name}." for name in imported(path) if f"{name}.".startswith(room)}
    own = {name for name in inside if name.startswith(f"{room}{path.parent.name}.")}
    return {name[:-1] for name in inside - own - {f"{room}wall."}}


@pytest.mark.parametrize("path", sorted(TRIAL.glob("*/*.py")), ids=lambda path: path.stem)
def test_neither_side_of_the_wall_imports_the_other(path: Path) -> None:
    assert path.parent.name in SIDES
    assert not across_the_wall(path)


def test_the_wall_imports_no_side_and_nothing_else_is_beside_it() -> None:
    assert {path.name for path in TRIAL.glob("*.py")} == {"__init__.py", "wall.py"}
    assert not {name for name in imported(TRIAL / "wall.py") if "oasis_bench.trial" in name}


@pytest.mark.parametrize("side", SIDES)
def test_an_import_across_the_wall_is_found(side: str, tmp_path: Path) -> None:
    other = next(one for one in SIDES if one != side)
    module = tmp_path / side / "module.py"
    module.parent.mkdir()
    module.write_text(
        f"from oasis_bench.trial.{side} import own\n"
        "from oasis_bench.trial import TrialResult, wall\n"
        f"def late():\n    import oasis_bench.trial.{other}.module\n"
    )
    found = {"oasis_bench.trial.TrialResult", f"oasis_bench.trial.{other}.module"}
    assert across_the_wall(module) == found


def test_a_learners_process_begins_without_any_module_of_the_harness_side() -> None:
    code = (
        "import pkgutil, sys\n"
        "from oasis_bench.execution.fork_server import PREPARE_TRIALS\n"
        "pkgutil.resolve_name(PREPARE_TRIALS)()\n"
        "print([name for name in sys.modules if 'oasis_bench.trial.harness_side' in name])\n"
        "print('oasis_bench.trial.learner_side.stages' in sys.modules)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["[]", "True"]


def test_every_room_has_a_floor() -> None:
    assert set(MODULES.values()) <= set(FLOORS)


def test_at_most_three_modules_stay_at_the_top() -> None:
    assert len(TOP) <= 3, TOP


@pytest.mark.parametrize(
    "module",
    sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "algorithms").rglob("*.py")),
)
def test_a_learner_imports_no_module_of_another_family(module: str) -> None:
    if module == "algorithms/__init__.py":
        pytest.skip("the index names them all")
    own = ".".join(["oasis_bench", *Path(module).parent.parts])
    for name in imported(ROOT / module):
        if name.startswith("oasis_bench.algorithms."):
            shared = name.removeprefix("oasis_bench.algorithms.").startswith(("_", "shared."))
            assert shared or name.startswith(own + "."), name


FORMER_NAMES = {
    "TrialState": "Conversation",
    "RunRecord": "StoredRun",
    "TrialRecord": "TrialResult",
    "RunInfo": "RunFacts",
    "carrying_out": "running",
    "setting_checks": "setting",
    r"choice_\w*seconds": "tuning_seconds",
    r"answer_\w*seconds": "query_seconds",
    r"selection_\w*(seconds|steps)": "tuning_seconds, n_steps",
    r"[A-Z]+[A-Z0-9_]*_AN?_[A-Z0-9_]+": "a constant named *_PER_*",
}
"""Names of code and columns that were replaced, and what took their place."""


@pytest.mark.parametrize(("former", "now"), FORMER_NAMES.items())
def test_a_name_that_was_replaced_does_not_come_back(former: str, now: str) -> None:
    compiled = [path for wing in ("oasis_bench", *WINGS) for path in (ROOT / wing).rglob("*.pyx")]
    named = re.compile(rf"\b{former}\b")
    found = [path.name for path in (*SOURCES, *compiled) if named.search(path.read_text())]
    assert not found, f"say {now}"
