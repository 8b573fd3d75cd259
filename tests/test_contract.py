"""Every built-in learner keeps the contract."""

import copy
from functools import cache

import pytest
from sklearn.base import clone

from oasis_bench.plugins import Registry, contract

# Until they converge, these two take half of the contract's time.
QUICK = {"ITML": {"max_iter": 20}, "LMNN": {"max_iter": 100}, "LocalDistances": {"C": 0.1}}
QUICK["DeepRanking"] = {"n_steps": 320, "dimension": 16}
EMBEDDER = {f"embedder__{name}": value for name, value in QUICK["DeepRanking"].items()}
QUICK["OnEmbedding"] = {**EMBEDDER, "learner__n_steps": 1000}
QUICK["OnEmbeddingAndFeatures"] = EMBEDDER
PML = ("ArcFace", "ProxyAnchor", "ProxyNCA", "SupCon")
QUICK |= {name: {"n_epochs": 20} for name in ("InfoNCE", *(f"pml-{loss}" for loss in PML))}


digit_items = cache(contract.digit_items)


@cache
def fitted_on_digits(name):
    """Return a learner that all tests have copies of."""
    learner = contract.quick(Registry.load().algorithms[name]()).set_params(**QUICK.get(name, {}))
    return learner.fit(*copy.deepcopy(digit_items(learner.takes)))


class TestRegisteredLearners(contract.TestRegisteredLearners):
    @pytest.fixture
    def items(self, unfitted):
        return copy.deepcopy(digit_items(unfitted.takes))

    @pytest.fixture(autouse=True)
    def quick(self, unfitted):
        unfitted.set_params(**QUICK.get(unfitted.name, {}))

    @pytest.fixture
    def fitted(self, unfitted):
        return copy.deepcopy(fitted_on_digits(unfitted.name))


@pytest.mark.parametrize("name", [*Registry.load().algorithms])
def test_every_learner_takes_a_random_state(name):
    learner = Registry.load().algorithms[name](random_state=3)
    assert clone(learner).get_params()["random_state"] == 3
    learner.set_params(random_state="x")
    with pytest.raises(ValueError, match="'random_state' parameter"):
        learner._validate_params()
