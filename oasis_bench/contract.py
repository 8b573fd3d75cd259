"""The tests that every learner must pass; see `oasis_bench.plugins.contract`."""

from oasis_bench.plugins import LearnerContract, TestRegisteredLearners

__all__ = ["LearnerContract", "TestRegisteredLearners"]
