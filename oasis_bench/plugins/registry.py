"""Finds learners, data sets and tasks: entry points of installed packages, and plugin files.

A broken plugin of an installed package raises its error only when it is asked for by name.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Generic, TypeVar

from oasis_bench.data import KINDS, PATCHES_AND_PIXELS
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.plugins.learner import MetricLearner
from oasis_bench.plugins.names import installed
from oasis_bench.system import UsageError, error_line, unknown_name
from oasis_bench.tasks import GALLERIES, SPLITS, Task

T = TypeVar("T", bound=MetricLearner | Dataset | Task)

PLUGIN_MODULE = "oasis_bench_plugin_"
"""How the names of modules begin that were imported from plugin files."""

_import_lock = threading.RLock()
"""Held while a plugin file is imported: no other thread must use a module before it is complete."""


class BrokenPluginError(UsageError):
    """A plugin that cannot be imported, or is not what its group asks for."""


class Catalogue(Generic[T]):
    """The learners, the data sets or the tasks, by name: imported when they are asked for.

    Iteration gives the names.

    Parameters
    ----------
    kind : {'algorithm', 'data set', 'task'}
    base : type
        The class that plugins of this kind are derived from.
    modules : mapping of Path to module
        The plugin files, imported.
    """

    def __init__(self, kind: str, base: type[T], modules: Mapping[Path, ModuleType]) -> None:
        self.kind = kind
        points: dict[str, list[EntryPoint]] = {}
        for point in installed(kind):
            points.setdefault(point.name, []).append(point)
        self._load: dict[str, Callable[[], type[T]]] = {
            name: partial(_import_entry_point, same_name, base)
            for name, same_name in points.items()
        }
        for path, module in modules.items():
            for plugin in _plugins_in(module, base):
                where = f"{path}: {plugin.__name__}"
                name = _checked(plugin, base, where).name
                if name in self._load:
                    raise UsageError(
                        f"{path} calls its {kind} {name!r}, a name that is taken: rename it"
                    )
                self._load[name] = partial(_checked, plugin, base, where)

    def __iter__(self) -> Iterator[str]:
        return iter(self._load)

    def __getitem__(self, name: str) -> type[T]:
        """Return the class of that name.

        Raises
        ------
        UsageError
            Where there is none, with the nearest name; `BrokenPluginError` where it is broken.
        """
        if name not in self._load:
            raise UsageError(unknown_name(self.kind, name, self._load))
        return self._load[name]()


@dataclass(frozen=True)
class Registry:
    """All that can be named on the command line."""

    algorithms: Catalogue[MetricLearner]
    datasets: Catalogue[Dataset]
    tasks: Catalogue[Task]


def load_registry(plugin_files: Sequence[Path] = ()) -> Registry:
    """Find the plugins of installed distributions and of `plugin_files`.

    Raises
    ------
    UsageError
        Where a plugin file cannot be read or holds no plugin, or a name is taken.
    """
    modules = {path: _import_file(path) for path in plugin_files}
    for path, module in modules.items():
        if not any(_plugins_in(module, base) for base in (MetricLearner, Dataset, Task)):
            raise UsageError(
                f"{path} defines no learner, no data set and no task: derive a class from Task, "
                "Dataset or a form of `oasis_bench.plugins`, such as MahalanobisLearner"
            )
    return Registry(
        Catalogue("algorithm", MetricLearner, modules),  # type: ignore[type-abstract]
        Catalogue("data set", Dataset, modules),  # type: ignore[type-abstract]
        Catalogue("task", Task, modules),  # type: ignore[type-abstract]
    )


def learners_in(path: Path) -> dict[str, type[MetricLearner]]:
    """Return the learners that a plugin file defines, by name.

    Raises
    ------
    UsageError
        As in `load_registry`.
    """
    catalogue = load_registry([path]).algorithms
    found = _plugins_in(_import_file(path), MetricLearner)  # type: ignore[type-abstract]
    return {learner.name: catalogue[learner.name] for learner in found}


def plugin_files_of(plugin: type) -> list[Path]:
    """Return the plugin file that a class was loaded from, or nothing for one of a package."""
    module = plugin.__module__
    file = sys.modules[module].__file__ if module.startswith(PLUGIN_MODULE) else None
    return [] if file is None else [Path(file)]


def load_reports() -> ModuleType:
    """Import what makes pages and tables of stored runs: `oasis_bench.reports`.

    Plotting takes a second to import.
    """
    (point,) = entry_points(group="oasis_bench.reports")
    reports: ModuleType = point.load()
    return reports


def _import_entry_point(same_name: Sequence[EntryPoint], base: type[T]) -> type[T]:
    """Import the class behind a name, for which there should be one entry point."""
    point, *others = same_name
    where = f"plugin {point.name!r} ({point.value})"
    if others:
        values = ", ".join(other.value for other in others)
        raise BrokenPluginError(f"{where} has its name from {values} too: uninstall one of them")
    with _as_broken_plugin(f"{where} cannot be imported"):
        plugin = point.load()
    return _checked(plugin, base, where)


def _import_file(path: Path) -> ModuleType:
    """Import a plugin file once, under a name that its path decides."""
    path = path.resolve()
    name = f"{PLUGIN_MODULE}{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    with _import_lock:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise UsageError(f"no plugin file {path}: give a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with _as_broken_plugin(f"plugin {path} cannot be imported"):
                spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return module


def _plugins_in(module: ModuleType, base: type[T]) -> list[type[T]]:
    """Return the classes derived from `base` that the module itself defines."""
    return [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, base)
        and member.__module__ == module.__name__
        and not inspect.isabstract(member)
    ]


def _checked(plugin: object, base: type[T], where: str) -> type[T]:
    """Return the plugin, or raise BrokenPluginError where it is not what its group asks for."""
    if not (isinstance(plugin, type) and issubclass(plugin, base)):
        raise BrokenPluginError(f"{where} is not a class derived from {base.__name__}")
    of_data = ("items",) if issubclass(plugin, Dataset) else ()
    for attribute in ("name", "summary", "citation", *of_data):
        if not isinstance(getattr(plugin, attribute, None), str):
            raise BrokenPluginError(f"{where} has no class attribute {attribute!r} of type str")
    if issubclass(plugin, Task):
        _check_task(plugin, where)
    is_data = issubclass(plugin, Dataset)  # it gives the two apart, and a learner takes both
    known = [kind for kind in KINDS if not (is_data and kind == PATCHES_AND_PIXELS)]
    kinds = plugin.gives if issubclass(plugin, Dataset) else (getattr(plugin, "takes", "rows"),)
    for kind in kinds:
        if kind not in known:
            raise BrokenPluginError(f"{where} has items of kind {kind!r}: {', '.join(known)}")
    if issubclass(plugin, MetricLearner):
        with _as_broken_plugin(f"{where} cannot be made without arguments"):
            plugin()
    return plugin


def _check_task(task: type[Task], where: str) -> None:
    for attribute, known in (("split", SPLITS), ("gallery", GALLERIES)):
        value = getattr(task, attribute, None)
        if value not in known:
            raise BrokenPluginError(
                f"{where}: {attribute} is {value!r}: one of {', '.join(known)} is needed"
            )
    if not getattr(task, "measures", ()):
        raise BrokenPluginError(f"{where} names no measures")


@contextmanager
def _as_broken_plugin(problem: str) -> Iterator[None]:
    """Raise BrokenPluginError for whatever a plugin's own code raises, also for `sys.exit`."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise BrokenPluginError(f"{problem}: {error_line(error)}") from error
