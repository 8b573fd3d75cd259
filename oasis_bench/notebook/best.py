"""The best learner of a run, fitted on all rows of its data set."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from oasis_bench.analysis import headlines, task_measures
from oasis_bench.data import JudgedTriplets, LabelledRows, scaling_steps
from oasis_bench.plugins import MetricLearner, Registry, load_registry, load_rows, open_dataset
from oasis_bench.runs import StoredRun
from oasis_bench.system import UsageError, derive_seed
from oasis_bench.trial import FitData, preferences


class Winner(NamedTuple):
    """The best learner of a run, and what most of its partitions chose."""

    label: str
    scaling: str
    params: dict[str, Any]
    n_steps: int | None


def refit_best(run: StoredRun) -> Pipeline:
    """Fit the best learner on all rows: the scaling, if there is one, then the learner.

    Raises
    ------
    UsageError
        Where no trial ended well, the best is a saved model, or the data is not what it was.
    """
    won, e = find_best(run), run.info.experiment
    spec = e.learners[won.label]
    if spec.model is not None:
        raise UsageError(
            f"{won.label} is a saved model, which is not fitted again: load_model({spec.model!r})"
        )
    registry = load_registry([Path(path) for path in run.info.plugin_files])
    rows = _rows(run, registry)
    learner = registry.algorithms[spec.algorithm]().set_params(**won.params)
    if "random_state" in learner.get_params() and "random_state" not in won.params:
        learner.set_params(random_state=derive_seed(e.seed, "best"))
    if won.n_steps is not None:
        learner.set_params(n_steps=won.n_steps)
    X = rows.items(learner.takes, spec.features)
    steps = [(type(step).__name__.lower(), step) for step in _steps_before(learner, won, X)]
    for _, step in steps:
        X = step.fit_transform(X)
    split = registry.splits[next(iter(run.info.sources.tasks.values())).split](e)
    judged = split.judgements(rows)
    triplets = preferences(judged) if isinstance(judged, JudgedTriplets) else None
    FitData(X, rows.y, triplets, derive_seed(e.seed, "judged triplets")).fit(learner)
    return Pipeline([*steps, (type(learner).__name__.lower(), learner)])


def find_best(run: StoredRun) -> Winner:
    """Find the learner of the highest mean of the first measure, on the largest class subset.

    Only learners with the most partitions are compared.

    Raises
    ------
    UsageError
        Where no learner has a value.
    """
    task = next(iter(run.info.sources.tasks))
    values = task_measures(run, task)
    values = values[values["name"] == headlines(run, task)[0]]
    classes = {name: len(held) for name, held in run.info.classes.items()}
    if values.empty:
        raise UsageError(f"no learner has a result of {task}: the summary says why")
    subset = max(values["subset"].unique(), key=lambda name: classes[name])
    of_learners = values[values["subset"] == subset].groupby("learner")["value"]
    complete = of_learners.count() == of_learners.count().max()
    label = str(of_learners.mean()[complete].idxmax())
    trial_ids = values.loc[values["subset"].eq(subset) & values["learner"].eq(label), "trial_id"]
    trials = run.trials[run.trials["trial_id"].isin(trial_ids)].sort_values("partition")
    chosen = trials["scaling"] + "\n" + trials["params"]
    most = trials[chosen == chosen.mode().iloc[0]]
    first, n_steps = most.iloc[0], most["n_steps"]
    return Winner(
        label,
        first["scaling"],
        json.loads(first["params"]),
        None if n_steps.isna().all() else int(n_steps.median()),
    )


def _rows(run: StoredRun, registry: Registry) -> LabelledRows:
    """Load the rows of a run; refuse others than it was made with."""
    e = run.info.experiment
    rows = load_rows(open_dataset(e.dataset, registry, e.dataset_options))
    if {identity["data"] for identity in run.info.identities.values()} != {rows.content_hash()}:
        raise UsageError(f"the rows of {e.dataset} have changed since the run: run it again")
    return rows


def _steps_before(learner: MetricLearner, won: Winner, X: Any) -> list[Any]:
    """Return the unfitted steps that make of items what the learner takes."""
    if learner.takes != "rows":
        return []
    steps = list(scaling_steps(won.scaling))
    if sparse.issparse(X) and not learner.takes_sparse:
        steps.append(FunctionTransformer(sparse.csr_array.toarray, accept_sparse=True))
    return steps
