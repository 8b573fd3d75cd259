"""Every built-in learner keeps the contract."""

import pytest

from oasis_bench.plugins import contract

# Until they converge, these two take half of the contract's time.
QUICK = {"ITML": {"max_iter": 20}, "LMNN": {"max_iter": 100}, "LocalDistances": {"C": 0.1}}
QUICK["DeepRanking"] = {"n_steps": 320, "dimension": 16}
QUICK["DeepRankingOASIS"] = {"n_steps": 320, "dimension": 16, "n_oasis_steps": 1000}
QUICK["DeepRankingAndFeatures"] = {"n_steps": 320, "dimension": 16}
QUICK["GoldenDeepRanking"] = {"n_triplets": 320, "dimension": 16}
PML = ("ArcFace", "MultiSimilarity", "ProxyAnchor", "ProxyNCA", "SupCon", "Triplet")
QUICK |= {name: {"max_iter": 10} for name in ("pylmnn-LMNN", "scikit-learn-NCA")}
QUICK |= {f"pml-{loss}": {"n_epochs": 20} for loss in PML}


class TestRegisteredLearners(contract.TestRegisteredLearners):
    @pytest.fixture(autouse=True)
    def quick(self, unfitted):
        unfitted.set_params(**QUICK.get(unfitted.name, {}))
