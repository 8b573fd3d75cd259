"""Moved: import its names from `oasis_bench.plugins` and `oasis_bench.data`."""

from oasis_bench.system import moved_names

__getattr__ = moved_names(__name__, "oasis_bench.plugins", "oasis_bench.data", "oasis_bench.system")
