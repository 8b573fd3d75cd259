"""Rows that are legal and odd, given to every learner: it learns, or says why not.

Constant rows, one feature, one row a class, two classes of very different size.
"""

import re

import numpy as np
import pytest

from oasis_bench.plugins import load_registry
from oasis_bench.plugins.contract import quick
from oasis_bench.plugins.contract_checks import answers

REGISTRY = load_registry().algorithms
LEARNERS = [name for name in REGISTRY if REGISTRY[name].takes == "rows"]
STEPS = {"max_iter": 20, "n_basis": 10, "max_proj": 1000}
"""Enough to see an error."""


def drawn(n, d):
    return np.random.default_rng(0).normal(size=(n, d))


ODD = {
    "constant rows": (np.ones((12, 3)), np.arange(12) % 2),
    "one feature": (drawn(16, 1), np.arange(16) % 2),
    "one row a class": (drawn(6, 3), np.arange(6)),
    "one class has one row": (drawn(12, 3), np.array([0] * 11 + [1])),
    "classes of 60 rows and of 2": (drawn(62, 3), np.array([0] * 60 + [1] * 2)),
    "a constant feature": (np.column_stack([drawn(16, 2), np.ones(16)]), np.arange(16) % 2),
    "all rows twice": (np.repeat(drawn(8, 3), 2, axis=0), np.arange(16) % 2),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rows", ODD)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_learns_from_odd_rows_or_says_why_not(name, rows):
    X, y = ODD[rows]
    learner = quick(REGISTRY[name](), 50)
    known = learner.get_params()
    learner.set_params(**{key: value for key, value in STEPS.items() if key in known})
    reason = learner.refusal(X, y)
    if reason is not None and "pip install" in reason:
        pytest.skip(reason)
    if reason is None:
        try:
            learner.fit(X, y)
        except ValueError as error:
            reason = str(error)
    if reason is not None:
        assert re.search(r"\b(rows?|classes)\b", reason)
        assert "\n" not in reason
        return
    scores = answers(learner, X, X)
    assert scores.shape == (len(X), len(X))
    assert np.isfinite(scores).all()
