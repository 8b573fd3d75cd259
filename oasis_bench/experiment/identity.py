"""Whether a run can continue: the code that decides its results must be unchanged."""

from __future__ import annotations

import ast
import hashlib
import inspect
from functools import cache
from importlib import import_module
from pathlib import Path

from oasis_bench.plugins import MetricLearner, remembered

DECIDING = (
    *("system", "data", "sampling", "tasks", "plugins", "experiment", "trial", "execution"),
    *("algorithms", "datasets"),
)
"""The packages whose code decides results."""

CODE = {".py", ".pyx", ".pxd", ".h", ".so"}


def source_hash(plugin: type[MetricLearner]) -> str:
    """Hash the source files of a learner and of its bases in its package and in oasis_bench."""
    package = plugin.__module__.partition(".")[0]
    files = {
        file
        for base in plugin.__mro__
        if base.__module__.partition(".")[0] in {package, "oasis_bench"}
        if (file := inspect.getsourcefile(base))
    }
    contents = sorted(hashlib.sha256(Path(file).read_bytes()).digest() for file in files)
    return hashlib.sha256(b"".join(contents)).hexdigest()


@cache
def package_hash() -> str:
    """Hash the code of the packages in `DECIDING`, without comments and docstrings.

    Python is hashed as parsed, kernels (.pyx, .h) as written.  Compiled files are hashed only if
    their sources are missing, as in a wheel.  The hash is computed once, because a process runs the
    code that it began with; it is remembered for later processes until a file changes.
    """
    return str(remembered("code", _package_hash))


def _package_hash() -> str:
    digest = hashlib.sha256()
    for name in DECIDING:
        for folder in map(Path, import_module(f"oasis_bench.{name}").__path__):
            files = {file for file in folder.rglob("*") if file.suffix in CODE}
            kernels = {file.with_suffix("") for file in files if file.suffix == ".pyx"}
            for file in sorted(files):
                if file.suffix == ".so" and file.parent / file.name.partition(".")[0] in kernels:
                    continue
                digest.update(f"{name}/{file.relative_to(folder)}".encode())
                content = file.read_bytes()
                is_python = file.suffix == ".py"
                digest.update(_meaning(ast.parse(content)).encode() if is_python else content)
    return digest.hexdigest()


def _meaning(node: object) -> str:
    """Write a parsed program without its docstrings, alike for all versions of Python."""
    if isinstance(node, list):
        return "".join(_meaning(part) for part in node if not _is_docstring(part))
    if not isinstance(node, ast.AST):
        return repr(node)
    held = [(name, value) for name, value in ast.iter_fields(node) if value not in (None, [])]
    fields = "".join(f" {name}={_meaning(value)}" for name, value in held)
    return f"({type(node).__name__}{fields})"


def _is_docstring(node: object) -> bool:
    """Tell whether a statement is only a text: a docstring, or the text below a constant."""
    held = node.value if isinstance(node, ast.Expr) else None
    return isinstance(held, ast.Constant) and isinstance(held.value, str)
