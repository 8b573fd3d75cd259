"""Which function carries out a verb: it is imported when the verb is used, with what it needs."""

from __future__ import annotations

import argparse
import pkgutil
from collections.abc import Callable
from functools import partial

HERE = "oasis_bench.command_line"

VERBS = {
    "run": f"{HERE}.run:run",
    "evaluate": f"{HERE}.run:evaluate",
    "report": f"{HERE}.stored_runs:report",
    "compare": f"{HERE}.stored_runs:compare",
    "export": f"{HERE}.stored_runs:export",
    "ranks": f"{HERE}.stored_runs:ranks",
    "judge": f"{HERE}.judge:judge",
    "list": f"{HERE}.registered:list_all",
    "check": f"{HERE}.check:check",
    "data list": f"{HERE}.registered:data_list",
    "data describe": f"{HERE}.registered:data_load",
    "data prepare": f"{HERE}.registered:data_load",
    "paper": f"{HERE}.paper:run_paper",
    "web-scale": f"{HERE}.web_scale:run_web_scale",
}
"""``module:function`` of each verb.  The function takes the options, gives the exit status."""


def function_of(options: argparse.Namespace) -> Callable[[], int]:
    """Import what the verb of parsed options needs, which may take a second, and return it."""
    return partial(pkgutil.resolve_name(VERBS[options.verb]), options)
