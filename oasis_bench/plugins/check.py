"""Runs the contract over what a plugin file defines, and reports the result of each check.

It needs pytest.  Not for printing: that is in `command_line.check`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oasis_bench.plugins import contract
from oasis_bench.plugins.dataset import Dataset
from oasis_bench.plugins.metric_learner import MetricLearner
from oasis_bench.plugins.registry import plugins_in
from oasis_bench.tasks import Split, Task

OPTIONS = (
    *("-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "-p", "no:terminal"),
    *("--import-mode", "importlib", "-o", "python_classes=*Contract"),
)
"""No configuration of pytest that the user may have is read, and pytest prints nothing."""


FIXTURES = {
    "unfitted": (MetricLearner, contract.LearnerContract),
    "dataset": (Dataset, contract.DatasetContract),
    "task": (Task, contract.TaskContract),
    "split": (Split, contract.SplitContract),
}
"""For each kind of plugin, what its tests ask for: its base class, and the tests."""


@dataclass(frozen=True)
class Outcome:
    """The result of one check of one plugin.

    Attributes
    ----------
    plugin : type
        A class of the file.
    check : str
        What is checked, in words.
    status : {'ok', 'failed', 'skipped'}
    reason : str
        Why it failed, in one line or more, and where; or why the check is not for this plugin.
    """

    plugin: type[Any]
    check: str
    status: str
    reason: str = ""


def check_plugins(path: Path, on_outcome: Callable[[Outcome], None]) -> None:
    """Run the contract over each learner, data set, task and split that a plugin file defines.

    Call it once in a process: it sets environment variables that pytest reads.

    Parameters
    ----------
    path : Path
    on_outcome : callable
        Called with each outcome as soon as it is known, plugin after plugin.

    Raises
    ------
    UsageError
        Where the file cannot be imported or defines no plugin.
    """
    plugins = plugins_in(path)
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    tests = [
        f"{contract.__file__}::{tests.__name__}"
        for base, tests in FIXTURES.values()
        if any(issubclass(plugin, base) for plugin in plugins)
    ]
    ended = pytest.main([*tests, *OPTIONS], plugins=[_Suite(plugins, on_outcome)])
    if ended == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {ended!r}")


class _Suite:
    """A plugin of pytest: it says which plugins are tested, and passes on the results."""

    def __init__(self, plugins: Sequence[type[Any]], on_outcome: Callable[[Outcome], None]) -> None:
        self._plugins = plugins
        self._on_outcome = on_outcome

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        fixture = next(name for name in FIXTURES if name in metafunc.fixturenames)
        numbers = [
            number
            for number, plugin in enumerate(self._plugins)
            if issubclass(plugin, FIXTURES[fixture][0])
        ]
        given = [self._plugins[number] for number in numbers]
        if fixture == "unfitted":
            given = [contract.quick(learner()) for learner in given]
        metafunc.parametrize(fixture, given, ids=[str(number) for number in numbers])

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: int(item.callspec.id))
        for item in items:
            name = item.originalname.removeprefix("test_").replace("_", " ")
            item.user_properties += [("plugin", int(item.callspec.id)), ("check", name)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        status = {"passed": "ok", "failed": "failed", "skipped": "skipped"}[report.outcome]
        if report.when != "call" and status == "ok":
            return
        properties: Any = dict(report.user_properties)
        plugin = self._plugins[properties["plugin"]]
        self._on_outcome(Outcome(plugin, properties["check"], status, _reason(report)))


def _reason(report: pytest.TestReport) -> str:
    """Return why a test failed, and where, or why it was skipped."""
    detail: Any = report.longrepr
    if report.skipped:
        return str(detail[2]).removeprefix("Skipped: ")
    if report.passed:
        return ""
    crash = detail.reprcrash
    return f"{crash.message}\nin {crash.path}, line {crash.lineno}"
