"""Moved: import its names from `oasis_bench.plugins`."""

from oasis_bench.system import moved_names

__getattr__ = moved_names(__name__, "oasis_bench.plugins")
