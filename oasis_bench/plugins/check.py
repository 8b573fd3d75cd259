"""Tests the plugins of a file by the contract, with pytest, which prints the results."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from oasis_bench.plugins import contract
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.plugins.metric_learner import MetricLearner
from oasis_bench.plugins.registry import plugins_in
from oasis_bench.tasks import Split, Task

OPTIONS = (
    *("-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "--no-header", "--tb", "short"),
    *("--import-mode", "importlib", "-o", "python_classes=*Contract", "--verbose"),
    *("--rootdir", str(Path(contract.__file__).parent)),
)
"""Options of pytest, to ignore any configuration of the user."""

FIXTURES = {
    "unfitted": (MetricLearner, contract.LearnerContract),
    "dataset": (Dataset, contract.DatasetContract),
    "task": (Task, contract.TaskContract),
    "split": (Split, contract.SplitContract),
}
"""By the fixture of each kind of plugin, its base class and its tests."""


def check_plugins(path: Path) -> bool:
    """Test each learner, data set, task and split of a plugin file by the contract.

    Return whether all tests passed.  Call this only once in a process, because it sets environment
    variables for pytest.
    """
    plugins = plugins_in(path)
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    tests = [
        f"{contract.__file__}::{tests.__name__}"
        for base, tests in FIXTURES.values()
        if any(issubclass(plugin, base) for plugin in plugins)
    ]
    ended = pytest.main([*tests, *OPTIONS], plugins=[_Suite(plugins)])
    if ended == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {ended!r}")
    return ended == pytest.ExitCode.OK


class _Suite:
    """A plugin of pytest, which selects the plugins to test, one after another."""

    def __init__(self, plugins: Sequence[type[Any]]) -> None:
        self._plugins = plugins

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        fixture = next(name for name in FIXTURES if name in metafunc.fixturenames)
        given = [plugin for plugin in self._plugins if issubclass(plugin, FIXTURES[fixture][0])]
        made = [contract.quick(it()) for it in given] if fixture == "unfitted" else given
        metafunc.parametrize(fixture, made, ids=[plugin.name for plugin in given])

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        names = [plugin.name for plugin in self._plugins]
        items.sort(key=lambda item: names.index(next(iter(item.callspec.params.values())).name))
