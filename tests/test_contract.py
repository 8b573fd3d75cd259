"""Every built-in learner keeps the contract."""

from oasis_bench.contract import TestRegisteredLearners

__all__ = ["TestRegisteredLearners"]
