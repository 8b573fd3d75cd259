"""Moved: import its names from `oasis_bench.tasks` and `oasis_bench.plugins`."""

from oasis_bench.system import moved_names

__getattr__ = moved_names(__name__, "oasis_bench.tasks", "oasis_bench.plugins")
