"""Packages that come with extras: what to install where they are missing."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence

from oasis_bench.system.errors import UsageError

TORCH = ("torch", "torch._dynamo")
"""What learners of torch name as their imports: optimizers import the latter when first made."""


def require_packages(what: str, packages: Sequence[str], extra: str) -> None:
    """Check that packages are installed, without importing them.

    Parameters
    ----------
    what : str
        What needs them, as the error names it.
    packages : sequence of str
        The names by which they are imported.
    extra : str
        The extra of oasis-bench that installs them.

    Raises
    ------
    UsageError
        Where one is missing.
    """
    if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
        names = " and ".join(name.replace("_", "-") for name in missing)
        raise UsageError(f'{what} needs {names}: pip install "oasis-bench[{extra}]"')
