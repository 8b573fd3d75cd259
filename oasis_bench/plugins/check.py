"""Runs the contract over the learners of a plugin file, and reports the result of each check.

It needs pytest.  Not for printing: that is in `command_line.check`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from oasis_bench.plugins import contract
from oasis_bench.plugins.metric_learner import MetricLearner
from oasis_bench.plugins.registry import learners_in
from oasis_bench.system import UsageError

OPTIONS = (
    *("-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "-p", "no:terminal"),
    *("--import-mode", "importlib", "-o", "python_classes=LearnerContract"),
)
"""No configuration of pytest that the user may have is read, and pytest prints nothing."""


@dataclass(frozen=True)
class Outcome:
    """The result of one check of one learner.

    Attributes
    ----------
    learner : type
        A class of the file.
    check : str
        What is checked, in words.
    status : {'ok', 'failed', 'skipped'}
    reason : str
        Why it failed, in one line or more, and where; or why the check is not for this learner.
    """

    learner: type[MetricLearner]
    check: str
    status: str
    reason: str = ""


def check_learners(path: Path, on_outcome: Callable[[Outcome], None]) -> None:
    """Run the contract over each learner that a plugin file defines.

    Call it once in a process: it sets environment variables that pytest reads.

    Parameters
    ----------
    path : Path
    on_outcome : callable
        Called with each outcome as soon as it is known, learner after learner.

    Raises
    ------
    UsageError
        Where the file cannot be imported or defines no learner.
    """
    learners = learners_in(path)
    if not learners:
        raise UsageError(f"{path} defines no learner: give a file that does")
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    suite = _Suite(learners, on_outcome)
    ended = pytest.main([contract.__file__, *OPTIONS], plugins=[suite])
    if ended == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise RuntimeError(f"pytest ended with {ended!r}")


class _Suite:
    """A plugin of pytest: it says which learners are tested, and passes on the results."""

    def __init__(
        self, learners: Mapping[str, type[MetricLearner]], on_outcome: Callable[[Outcome], None]
    ) -> None:
        self._learners = learners
        self._on_outcome = on_outcome

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        made = [contract.quick(learner()) for learner in self._learners.values()]
        metafunc.parametrize("unfitted", made, ids=list(self._learners))

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        items.sort(key=lambda item: item.callspec.indices["unfitted"])
        for item in items:
            name = item.originalname.removeprefix("test_").replace("_", " ")
            item.user_properties += [("learner", item.callspec.id), ("check", name)]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        status = {"passed": "ok", "failed": "failed", "skipped": "skipped"}[report.outcome]
        if report.when != "call" and status == "ok":
            return
        properties: Any = dict(report.user_properties)
        learner = self._learners[properties["learner"]]
        self._on_outcome(Outcome(learner, properties["check"], status, _reason(report)))


def _reason(report: pytest.TestReport) -> str:
    """Return why a test failed, and where, or why it was skipped."""
    detail: Any = report.longrepr
    if report.skipped:
        return str(detail[2]).removeprefix("Skipped: ")
    if report.passed:
        return ""
    crash = detail.reprcrash
    return f"{crash.message}\nin {crash.path}, line {crash.lineno}"
