"""Names that were imported from elsewhere in 0.1.0: they work on, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any


def moved_names(module: str, *rooms: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module whose names are now at the doors of `rooms`."""

    def find(name: str) -> Any:
        for room in rooms:
            if name in dir(door := import_module(room)):
                text = f"import {name} from {room}: the module {module} will be removed"
                warnings.warn(text, DeprecationWarning, stacklevel=2)
                return getattr(door, name)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
