"""What `check FILE` prints: each check of each plugin, and why those failed that did."""

from __future__ import annotations

import argparse
from collections import Counter
from itertools import islice
from typing import Any

from oasis_bench.command_line.listing import form_of
from oasis_bench.plugins import Dataset, MetricLearner
from oasis_bench.system import UsageError, printable
from oasis_bench.tasks import Split, Task

CHECK_FAILED = 1

REASON_LINES = 12
"""Of a reason, at most."""


def check(options: argparse.Namespace) -> int:
    """Check what a plugin file defines and print the outcomes; the status says if all are well.

    Raises
    ------
    UsageError
        Where the file defines no plugin, or pytest is not installed.
    """
    try:
        from oasis_bench.plugins import Outcome, check_plugins
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        raise UsageError("check needs pytest: pip install pytest") from error

    outcomes: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        plugin, kind = outcome.plugin, _kind(outcome.plugin)
        if not outcomes or outcomes[-1].plugin is not plugin:
            takes = f"{form_of(plugin)}, takes {plugin.takes}" if kind == "learner" else kind
            print(f"{plugin.name} ({takes}):")
        aside = f" ({outcome.reason})" if outcome.status == "skipped" else ""
        print(f"  {outcome.status:<10}  {outcome.check}{aside}", flush=True)
        if outcome.status == "failed":
            told = any(outcome.reason == earlier.reason for earlier in outcomes)
            for line in ["as above"] if told else _lines(outcome.reason):
                print(f"              {printable(line)}")
        outcomes.append(outcome)

    check_plugins(options.file, tell)
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    names = dict.fromkeys(outcome.plugin.name for outcome in failed)
    kinds = Counter(_kind(plugin) for plugin in {outcome.plugin for outcome in outcomes})
    passed = ", ".join(f"{n} {kind}{'s' * (n > 1)}" for kind, n in sorted(kinds.items()))
    print(
        f"{len(failed)} checks failed: {', '.join(names)}"
        if failed
        else f"all checks passed: {passed}"
    )
    return CHECK_FAILED if failed else 0


def _kind(plugin: type[Any]) -> str:
    kinds = {MetricLearner: "learner", Dataset: "data set", Task: "task", Split: "split"}
    return next(name for base, name in kinds.items() if issubclass(plugin, base))


def _lines(reason: str) -> list[str]:
    """Return the first lines of a reason that are not blank, and the last: where it was."""
    *what, where = [line for line in reason.splitlines() if line.strip()]
    return [*islice(what, REASON_LINES), where]
