"""The search of a learner: the candidates that the inner folds compare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import ParameterGrid

from oasis_bench.experiment.budget import SearchBudget
from oasis_bench.system import derive_seed


class Candidate(NamedTuple):
    """What the inner folds compare: a scaling of the rows, and hyper-parameters."""

    scaling: str
    params: Mapping[str, Any]


def candidates(
    grid: Mapping[str, Sequence[Any]],
    scalings: Sequence[str],
    defaults: Mapping[str, Any],
    budget: SearchBudget,
    seed: int,
    learner: str,
) -> tuple[Candidate, ...]:
    """List the candidates of a learner in the order in which they are tried.

    All combinations of scalings and values, as the grid has them.  Where there are more than the
    budget allows, or the budget is one of time: first the one with the most values at their
    defaults, then the others in a random order.

    Parameters
    ----------
    grid : mapping of str to sequence
        Hyper-parameters and the values to try.
    scalings : sequence of str
        The first is the default.
    defaults : mapping of str to value
        The learner's own.
    budget : SearchBudget
    seed : int
        Of the run; the order does not change from partition to partition.
    learner : str
        Its name; the seed is derived from it, too.
    """
    all_of_them = [Candidate(s, p) for s in scalings for p in ParameterGrid(dict(grid))]
    n_tried = min(budget.candidates or len(all_of_them), len(all_of_them))
    if n_tried == len(all_of_them) and budget.seconds is None:
        return tuple(all_of_them)

    def n_at_default(candidate: Candidate) -> int:
        own = [name for name, value in candidate.params.items() if defaults.get(name) == value]
        return len(own) + (candidate.scaling == scalings[0])

    rng = np.random.default_rng(derive_seed(seed, "search", learner))
    first = max(range(len(all_of_them)), key=lambda i: n_at_default(all_of_them[i]))
    others = [i for i in rng.permutation(len(all_of_them)).tolist() if i != first]
    return tuple(all_of_them[i] for i in [first, *others][:n_tried])
