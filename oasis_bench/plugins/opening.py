"""Makes the data set that a user names, by its name or by a path, with its options.

The options of a data set are the keyword parameters of its `__init__`: names, types and defaults.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from oasis_bench.plugins.dataset import Dataset
from oasis_bench.plugins.names import find_dataset
from oasis_bench.plugins.registry import BrokenPluginError, Registry
from oasis_bench.system import (
    LONGEST_PATH,
    NEEDED,
    UsageError,
    check_value,
    cut,
    unknown_name,
    value_of_text,
)


def open_dataset(
    name: str, registry: Registry, options: Mapping[str, Any] | None = None
) -> Dataset:
    """Make a data set: a registered one, the user's own file, or a folder of pictures.

    `name` is a registered name or a path: see `oasis_bench.plugins.names.find_dataset`.
    `options` are values of the data set's parameters; the other parameters keep their defaults.

    Raises
    ------
    UsageError
        Where there is no such data set, it has no such option, the option has another type, or
        an option without a default is missing.
    """
    dataset, arguments = _find(name, registry)
    kinds = _option_kinds(name, dataset, arguments)
    name = cut(name, LONGEST_PATH)
    for option in needed_options(dataset):
        if option not in {**arguments, **(options or {})}:
            raise UsageError(f"data set {name} needs --data-option {option}=VALUE")
    for option, value in (options or {}).items():
        if option not in kinds:
            raise UsageError(f"data set {name}: {unknown_name('option', option, kinds)}")
        if kind := kinds[option]:
            check_value(f"data set {name}: {option}", value, kind)
    return dataset(**arguments, **(options or {}))


def needed_options(dataset: type[Dataset]) -> list[str]:
    """Name the options of a data set that have no default."""
    return [name for name, option in _parameters(dataset) if option.default is option.empty]


def read_options(name: str, registry: Registry, texts: Mapping[str, str]) -> dict[str, Any]:
    """Read options of a data set from text, each as the type that the data set takes.

    `open_dataset` refuses what is wrong with them.

    Raises
    ------
    UsageError
        Where there is no such data set.
    """
    dataset, arguments = _find(name, registry)
    kinds = _option_kinds(name, dataset, arguments)
    return {option: value_of_text(text, kinds.get(option) or str) for option, text in texts.items()}


def _find(name: str, registry: Registry) -> tuple[type[Dataset], dict[str, Path]]:
    """Find the class of a data set, and the path that it is made of, if any."""
    registered, path = find_dataset(name, registry.datasets)
    return registry.datasets[registered], {} if path is None else {"path": path}


def _option_kinds(
    name: str, dataset: type[Dataset], arguments: Mapping[str, Path]
) -> dict[str, type | None]:
    """Return the type of each option, those of `arguments` apart; None: a type not in `NEEDED`."""
    try:
        hints = get_type_hints(dataset.__init__)
    except NameError as error:
        raise BrokenPluginError(f"data set {name}: its options cannot be read: {error}") from error
    kinds: dict[str, type | None] = {}
    for option, _ in _parameters(dataset):
        if option not in arguments:
            hint = hints.get(option)
            choices = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
            known = [kind for kind in choices if kind in NEEDED]
            kinds[option] = known[0] if len(known) == 1 else None
    return kinds


def _parameters(dataset: type[Dataset]) -> list[tuple[str, inspect.Parameter]]:
    """Return the parameters of `__init__` by name, those of ``*args`` and ``**kwargs`` apart."""
    return [
        (name, parameter)
        for name, parameter in inspect.signature(dataset).parameters.items()
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]
