"""Every built-in learner keeps the contract."""

from oasis_bench.plugins.contract import TestRegisteredLearners

__all__ = ["TestRegisteredLearners"]
