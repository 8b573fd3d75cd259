"""Finds learners, data sets, tasks and splits, and makes the data set that a user names.

Plug-ins come from entry points of installed packages and from plugin files.  A broken plugin of an
installed package raises its error only when it is used by name.  The options of a data set are
the keyword parameters of its `__init__`: names, types and defaults.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import walk_tb
from types import ModuleType, UnionType
from typing import Any, Generic, Self, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from oasis_bench.data import LabelledRows, Patches
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.plugins.metric_learner import MetricLearner
from oasis_bench.plugins.names import find_dataset, installed
from oasis_bench.system import (
    UsageError,
    check_value,
    error_line,
    no_progress,
    read_value,
    short_path,
    spelled,
    unknown_name,
)
from oasis_bench.tasks import Split, Task

T = TypeVar("T", bound=MetricLearner | Dataset | Task | Split)

BASES: dict[str, type[Any]] = {
    "algorithm": MetricLearner,
    "data set": Dataset,
    "task": Task,
    "split": Split,
}
"""The base class of each kind of plugin."""

PLUGIN_MODULE = "oasis_bench_plugin_"
"""The prefix of the module names of plugin files."""

_import_lock = threading.RLock()
"""Held while a plugin file is imported: no other thread must use a module before it is complete."""

OPTION_TYPES = (int, float, str, bool)
"""The types of the options of data sets."""


class BrokenPluginError(UsageError):
    """A plugin that cannot be imported, or does not fit its group."""


class Catalogue(Generic[T]):
    """The learners, data sets, tasks or splits, by name; they are imported when they are used.

    Iteration gives the names.  `kind` is 'algorithm', 'data set', 'task' or 'split', and `modules`
    are the plugin files, imported.
    """

    def __init__(self, kind: str, modules: Mapping[Path, ModuleType]) -> None:
        self.kind, self._modules = kind, modules
        if modules:  # report their errors now
            _ = self._load

    @cached_property
    def _load(self) -> dict[str, Callable[[], type[T]]]:
        """Functions that import and check each plugin, by name; `installed` may import a wing."""
        base, points = BASES[self.kind], dict[str, list[EntryPoint]]()
        for point in installed(self.kind):
            points.setdefault(point.name, []).append(point)
        load: dict[str, Callable[[], type[T]]] = {
            name: partial(_import_entry_point, same_name, base)
            for name, same_name in points.items()
        }
        for path, module in self._modules.items():
            for plugin in _plugins_in(module, base):
                where = f"{path}: {plugin.__name__}"
                name = _checked(plugin, base, where).name
                if name in load:
                    raise UsageError(
                        f"{path} calls its {self.kind} {name!r}, a name that is taken: rename it"
                    )
                load[name] = partial(_checked, plugin, base, where)
        return load

    def __iter__(self) -> Iterator[str]:
        return iter(self._load)

    def __getitem__(self, name: str) -> type[T]:
        """Return the class of that name."""
        if name not in self._load:
            raise UsageError(unknown_name(self.kind, name, self._load))
        return self._load[name]()


class Registry:
    """All that can be named on the command line; `load` makes it."""

    def __init__(self, modules: Mapping[Path, ModuleType]) -> None:
        self.algorithms: Catalogue[MetricLearner] = Catalogue("algorithm", modules)
        self.datasets: Catalogue[Dataset] = Catalogue("data set", modules)
        self.tasks: Catalogue[Task] = Catalogue("task", modules)
        self.splits: Catalogue[Split] = Catalogue("split", modules)

    @classmethod
    def load(cls, plugin_files: Sequence[Path] = ()) -> Self:
        """Find the plugins of installed distributions and of `plugin_files`."""
        modules = {path: _import_file(path) for path in plugin_files}
        for path, module in modules.items():
            if not any(_plugins_in(module, base) for base in BASES.values()):
                raise UsageError(
                    f"{path} defines no learner, no data set, no task and no split: derive a class "
                    "from Task, Split, Dataset or a form of learner, such as MahalanobisLearner"
                )
        return cls(modules)

    def open_dataset(self, name: str, options: Mapping[str, Any] | None = None) -> Dataset:
        """Make a data set: a registered one, the user's own file, or a folder of pictures.

        `name` is a registered name or a path: see `find_dataset`.
        `options` are values of the data set's parameters; the other parameters keep their defaults.
        """
        dataset, arguments = self._find(name)
        kinds = _option_kinds(name, dataset, arguments)
        name = short_path(name)
        for option in dataset.needed_options():
            if option not in {**arguments, **(options or {})}:
                asked = spelled("dataset_options")
                raise UsageError(f"data set {name} needs {asked} {option}=VALUE")
        for option, value in (options or {}).items():
            if option not in kinds:
                raise UsageError(f"data set {name}: {unknown_name('option', option, kinds)}")
            if kind := kinds[option]:
                check_value(f"data set {name}: {option}", value, kind)
        return dataset(**arguments, **(options or {}))

    def read_options(self, name: str, texts: Mapping[str, str]) -> dict[str, Any]:
        """Read options of a data set from text, each as the type that the data set takes.

        `open_dataset` refuses wrong options.
        """
        kinds = _option_kinds(name, *self._find(name))
        return {
            option: read_value(text, kinds.get(option) or str) for option, text in texts.items()
        }

    def _find(self, name: str) -> tuple[type[Dataset], dict[str, Path]]:
        """Find the class of a data set, and the path of its data, if any."""
        registered, path = find_dataset(name, self.datasets)
        return self.datasets[registered], {} if path is None else {"path": path}


def plugins_in(path: Path) -> list[type[Any]]:
    """Return the learners, data sets, tasks and splits that a plugin file defines."""
    Registry.load([path])
    module = _import_file(path)
    return [plugin for base in BASES.values() for plugin in _plugins_in(module, base)]


def plugin_files_of(plugin: type) -> list[Path]:
    """Return the plugin file that a class was loaded from, or nothing for one of a package."""
    module = plugin.__module__
    file = sys.modules[module].__file__ if module.startswith(PLUGIN_MODULE) else None
    return [] if file is None else [Path(file)]


def place_in_plugin(error: BaseException) -> str | None:
    """Return the file and line of the plugin that raised an error; None if no plugin did."""
    packages = {point.module.partition(".")[0] for kind in BASES for point in installed(kind)}
    for frame, line in reversed([*walk_tb(error.__traceback__)]):
        module = str(frame.f_globals.get("__name__"))
        own = module.partition(".")[0] in packages - {"oasis_bench"}
        if own or module.startswith(PLUGIN_MODULE):
            return f"{Path(frame.f_code.co_filename).name}, line {line}"
    return None


def load_reports() -> ModuleType:
    """Import `oasis_bench.reports`, which makes pages and tables of stored runs.

    Its import takes a second, for plotting.
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
    """Import a plugin file once, and again if it was edited: the module's name has its content.

    Python's stored byte code is not used: it may be that of an earlier content.
    """
    path = path.resolve()
    with _as_broken_plugin(f"plugin {path} cannot be read"):
        content = path.read_bytes() if path.is_file() else b""
    digest = hashlib.sha256(os.fsencode(path) + content).hexdigest()
    name = f"{PLUGIN_MODULE}{path.stem}_{digest[:8]}"
    with _import_lock:
        if name in sys.modules:
            return sys.modules[name]
        spec = importlib.util.spec_from_file_location(name, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise UsageError(
                f"no plugin file {path}: give a Python file ('data describe PATH' checks a table)"
            )
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            with _as_broken_plugin(f"plugin {path} cannot be imported"):
                exec(compile(content, path, "exec"), vars(module))
        except BaseException:
            del sys.modules[name]
            raise
    return module


def _plugins_in(module: ModuleType, base: type[T]) -> list[type[T]]:
    """Return the classes derived from `base` that the module itself defines.

    An abstract class with derived classes is not a plugin.
    """
    with _as_broken_plugin(f"the classes of {module.__file__} cannot be used"):
        return [
            member
            for member in vars(module).values()
            if isinstance(member, type)
            and issubclass(member, base)
            and member.__module__ == module.__name__
            and not (inspect.isabstract(member) and member.__subclasses__())
        ]


def _checked(plugin: object, base: type[T], where: str) -> type[T]:
    """Return the plugin, or raise BrokenPluginError if it does not fit its group."""
    with _as_broken_plugin(f"{where} cannot be used"):
        _check(plugin, base, where)
    return cast("type[T]", plugin)


def _check(plugin: Any, base: type[T], where: str) -> None:
    is_one = isinstance(plugin, type) and issubclass(plugin, base)
    if not is_one:
        raise BrokenPluginError(f"{where} is not a class derived from {base.__name__}")
    if missing := sorted(getattr(plugin, "__abstractmethods__", ())):
        raise BrokenPluginError(f"{where} must define {' and '.join(missing)}")
    of_kind: dict[type, tuple[str, ...]]
    of_kind = {MetricLearner: ("cost",), Dataset: ("items", "licence", "home")}
    for attribute in ("name", "summary", "citation", *of_kind.get(base, ())):
        if not isinstance(getattr(plugin, attribute, None), str):
            raise BrokenPluginError(f"{where} has no class attribute {attribute!r} of type str")
    if issubclass(plugin, Task):
        _check_task(plugin, where)
    is_data = issubclass(plugin, Dataset)  # it gives both kinds separately; a learner takes both
    known = [kind for kind in LabelledRows.KINDS if not (is_data and kind == Patches.AND_PIXELS)]
    kinds = plugin.gives if is_data else (getattr(plugin, "takes", "rows"),)
    for kind in kinds:
        if kind not in known:
            raise BrokenPluginError(f"{where} has items of kind {kind!r}: {', '.join(known)}")
    if issubclass(plugin, MetricLearner):
        with _as_broken_plugin(f"{where} cannot be made without arguments"):
            plugin()
    if is_data:
        try:
            inspect.signature(plugin.load).bind(None, no_progress)
        except TypeError as error:
            raise BrokenPluginError(
                f"{where}: def load(self, progress=no_progress) is needed ({error})"
            ) from error


def _check_task(task: type[Task], where: str) -> None:
    files = [module for name, module in sys.modules.items() if name.startswith(PLUGIN_MODULE)]
    own = [split.name for module in files for split in _plugins_in(module, BASES["split"])]
    splits = [*(point.name for point in installed("split")), *own]
    for attribute, known in (("split", splits), ("gallery", Task.GALLERIES)):
        value = getattr(task, attribute, None)
        if value not in known:
            raise BrokenPluginError(
                f"{where}: {attribute} is {value!r}: one of {', '.join(known)} is needed"
            )
    if not getattr(task, "measures", ()):
        raise BrokenPluginError(f"{where} names no measures")


@contextmanager
def _as_broken_plugin(problem: str) -> Iterator[None]:
    """Raise BrokenPluginError for any exception of a plugin's code, also for `sys.exit`."""
    try:
        yield
    except (KeyboardInterrupt, BrokenPluginError):
        raise
    except BaseException as error:
        raise BrokenPluginError(f"{problem}: {error_line(error)}") from error


# --- the options of data sets


def _option_kinds(
    name: str, dataset: type[Dataset], arguments: Mapping[str, Path]
) -> dict[str, type | None]:
    """Return the type of each option except `arguments`; None if not in `OPTION_TYPES`."""
    try:
        hints = get_type_hints(dataset.__init__)
    except NameError as error:
        raise BrokenPluginError(f"data set {name}: its options cannot be read: {error}") from error
    kinds: dict[str, type | None] = {}
    for option in dataset.options():
        if option not in arguments:
            hint = hints.get(option)
            choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            known = [kind for kind in choices if kind in OPTION_TYPES]
            kinds[option] = known[0] if len(known) == 1 else None
    return kinds
