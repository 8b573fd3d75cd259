"""What `check FILE` prints: each check of each learner, and why those failed that did."""

from __future__ import annotations

import argparse
from itertools import islice

from oasis_bench.command_line.listing import form_of
from oasis_bench.system import UsageError, printable

CHECK_FAILED = 1

REASON_LINES = 12
"""Of a reason, at most."""


def check(options: argparse.Namespace) -> int:
    """Check the learners of a plugin file and print the outcomes; the status says if all are well.

    Raises
    ------
    UsageError
        Where the file defines no learner, or pytest is not installed.
    """
    try:
        from oasis_bench.plugins import Outcome, check_learners
    except ModuleNotFoundError as error:
        if error.name != "pytest":
            raise
        raise UsageError("check needs pytest: pip install pytest") from error

    outcomes: list[Outcome] = []

    def tell(outcome: Outcome) -> None:
        learner = outcome.learner
        if not outcomes or outcomes[-1].learner is not learner:
            print(f"{learner.name} ({form_of(learner)}, takes {learner.takes}):")
        aside = f" ({outcome.reason})" if outcome.status == "skipped" else ""
        print(f"  {outcome.status:<10}  {outcome.check}{aside}", flush=True)
        if outcome.status == "failed":
            told = any(outcome.reason == earlier.reason for earlier in outcomes)
            for line in ["as above"] if told else _lines(outcome.reason):
                print(f"              {printable(line)}")
        outcomes.append(outcome)

    check_learners(options.file, tell)
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    names = dict.fromkeys(outcome.learner.name for outcome in failed)
    n_learners = len({outcome.learner for outcome in outcomes})
    print(
        f"{len(failed)} checks failed: {', '.join(names)}"
        if failed
        else f"all checks passed: {n_learners} learner{'s' * (n_learners > 1)}"
    )
    return CHECK_FAILED if failed else 0


def _lines(reason: str) -> list[str]:
    """Return the first lines of a reason that are not blank, and the last: where it was."""
    *what, where = [line for line in reason.splitlines() if line.strip()]
    return [*islice(what, REASON_LINES), where]
