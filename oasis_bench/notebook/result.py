"""A stored run in Python or a notebook: tables, summary, report, and its best learner."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from sklearn.pipeline import Pipeline, make_pipeline

from oasis_bench.analysis import RunAnalysis
from oasis_bench.data import LabelledRows, ReadTable, Scaling, apply_steps
from oasis_bench.plugins import Blend, Model, NoScaleError, Posterior, Registry, load_reports
from oasis_bench.runs import StoredRun, read_run, refuse_missing_plugins
from oasis_bench.system import UsageError, derive_seed, for_terminal, in_python
from oasis_bench.trial import FitData


class RunResult:
    """The result of a run, which is stored in a folder.

    ``print(result)`` shows the summary.  A notebook shows the summary with figures.

    Parameters
    ----------
    folder : str or Path
        The output folder of `oasis_bench.run` or of the command ``run``.
    plugin_files : sequence of str or Path, default ()
        The plugin files of the run, for `best`, which executes them.

    Attributes
    ----------
    folder : Path
        The folder of the run.

    Raises
    ------
    UsageError
        If the folder has no run, or a run that cannot be read.
    """

    def __init__(self, folder: str | Path, plugin_files: Sequence[str | Path] = ()) -> None:
        self.folder = Path(folder)
        self._plugin_files = [Path(path) for path in plugin_files]
        self._run: StoredRun = read_run(self.folder)

    @property
    def trials(self) -> pd.DataFrame:
        """DataFrame with a row for each trial.

        Among the columns are ``learner``, ``subset``, ``partition``, ``status``, ``params`` (the
        tuned hyper-parameters), ``fit_seconds``, ``query_seconds`` (of all queries together) and
        ``fit_peak_bytes``.
        """
        return self._run.trials.copy()

    @property
    def measures(self) -> pd.DataFrame:
        """DataFrame with a row for each trial, task, measure and k.

        Among the columns are ``value`` (of the use that tuning selected), ``direct`` and
        ``posterior`` (of these uses), ``as_learned`` (of the direct use without the blend with the
        Euclidean baseline) and ``chance`` (the expected value for a random ranking).
        """
        return self._run.measures.copy()

    @in_python()
    def best(self) -> Pipeline:
        """Fit the best learner on all rows of the data set.

        The best learner has the highest mean of the first measure of the first task, on the largest
        class subset.  Only learners with the most partitions are compared.  The difference from
        other learners may not be significant: see the summary.  Scaling, hyper-parameters and use
        are the combination that tuning selected most often, and the number of steps is the median
        over the partitions with this combination.

        Returns
        -------
        Pipeline
            The fitted scaling, if there is one, and the fitted learner.  It accepts raw rows of the
            data set.  If the experiment limits the learner to some kinds of features, the rows must
            have these kinds only.  In the posterior use, the last step is a `Posterior` of the
            fitted learner.  If the learner was blended with the Euclidean baseline, the
            attribute `blend_` has a `Blend` with the median weight of the same partitions, and
            `oasis_bench.scorers.similarity_of` and `oasis_bench.neighbours` use it.

        Raises
        ------
        UsageError
            If no trial succeeded, if the data set is missing or has changed, if the best learner
            is a saved model, or if plugin files of the run are not among `plugin_files`.
        """
        refuse_missing_plugins(self._run.info, self._plugin_files, self.folder)
        return refit_best(self._run, self._plugin_files)

    def report(self) -> Path:
        """Write the report of the run again.

        Returns
        -------
        Path
            The HTML page, which works offline.
        """
        page: Path = load_reports().write_report(self.folder)
        return page

    def __str__(self) -> str:
        text: str = load_reports().summary_text(self._run, in_python=True)
        return for_terminal(text)

    def __repr__(self) -> str:
        return f"RunResult({str(self.folder)!r})\n{self}"

    def _repr_html_(self) -> str:
        return str(load_reports().summary_html(self._run))


def refit_best(run: StoredRun, plugin_files: Sequence[Path]) -> Pipeline:
    """Fit the best learner on all rows: the scaling, if there is one, then the learner."""
    best = find_best(run)
    e = run.info.experiment
    spec, params = e.learners[best.label], best.params
    if spec.model is not None:
        raise UsageError(
            f"{best.label} is a saved model, which is not fitted again: load_model({spec.model!r})"
        )
    registry = Registry.load(plugin_files)
    rows = _rows(run, registry)
    learner = registry.algorithms[spec.algorithm]().set_params(**params)
    if "random_state" in learner.get_params() and "random_state" not in params:
        learner.set_params(random_state=derive_seed(e.seed, "best"))
    if best.n_steps is not None:
        learner.set_params(n_steps=best.n_steps)
    given, takes_rows = rows.items(learner.takes, spec.features), learner.takes == "rows"

    def scaled(kind: str | None) -> tuple[tuple[Any, ...], Any]:
        encoding = rows.encoding if takes_rows else None
        steps = Scaling(kind or "none").learn(given, learner.takes_sparse, encoding)
        return tuple(steps), apply_steps(steps, given)

    steps, X = scaled(best.scaling if takes_rows else None)
    split = registry.splits[next(iter(run.info.sources.tasks.values())).split](e).for_rows(rows)
    seed = derive_seed(e.seed, "judged triplets")
    FitData.of(X, rows.y, split.judgements(rows), seed).fit(learner)
    is_other = best.baseline_scaling not in (None, best.scaling)
    of_baseline, rows_of_baseline = scaled(best.baseline_scaling) if is_other else (None, None)
    if rows.schema is not None and takes_rows and spec.features is None:
        steps = (ReadTable(rows.schema), *steps)
    if best.use == "posterior":
        assert best.tau is not None  # it is tuned with the use
        try:
            learner = Posterior(learner, best.tau, bool(split.knows_classes)).fit(X, rows.y)
        except NoScaleError as error:
            warnings.warn(f"{error}: it is used directly", stacklevel=3)
            best = best._replace(blend=best.direct_blend)
    model = Model(make_pipeline(*steps, learner).steps)
    if best.blend is not None:
        seed = derive_seed(e.seed, "blend")
        model.blend_ = Blend.of(learner, X, best.blend, seed, of_baseline, rows_of_baseline)
    return model


class Best(NamedTuple):
    """The best learner of a run, and what most of its partitions tuned."""

    label: str
    scaling: str
    params: dict[str, Any]
    n_steps: int | None
    use: str
    tau: float | None  # of its votes
    blend: float | None  # the weight of the learner, in this use
    direct_blend: float | None
    baseline_scaling: str | None  # of the blend's baseline


def find_best(run: StoredRun) -> Best:
    """Find the learner of the highest mean of the first measure, on the largest class subset.

    Only learners with the most partitions are compared.
    """
    task = next(iter(run.info.sources.tasks))
    analysis = RunAnalysis(run)
    values = analysis.values[task]
    values = values[values["name"] == analysis.names(task)[0]]
    if values.empty:
        raise UsageError(f"no learner has a result of {task}: the summary says why")
    subset = max(values["subset"].unique(), key=lambda name: analysis.subsets[name])
    of_learners = values[values["subset"] == subset].groupby("learner")["value"]
    complete = of_learners.count() == of_learners.count().max()
    label = str(of_learners.mean()[complete].idxmax())
    trial_ids = values.loc[values["subset"].eq(subset) & values["learner"].eq(label), "trial_id"]
    gallery = run.info.sources.tasks[task].gallery
    of_trials = run.tuned["trial_id"].isin(trial_ids) & run.tuned["gallery"].eq(gallery)
    tuned = run.tuned[of_trials].sort_values("partition")
    chosen = tuned["scaling"] + "\n" + tuned["params"] + "\n" + tuned["use"]
    most = tuned[chosen == chosen.mode().iloc[0]]
    first, use = most.iloc[0], most["use"].iloc[0]

    def middle(column: str) -> Any:
        return None if most[column].isna().all() else most[column].median()

    steps, taus, of_baseline = middle("n_steps"), most["tau"], most["baseline_scaling"].dropna()
    return Best(
        label=label,
        scaling=first["scaling"],
        params=json.loads(first["params"]),
        n_steps=None if steps is None else int(steps),
        use=use,
        tau=None if taus.isna().all() else float(taus.mode().iloc[0]),
        blend=middle("posterior_blend" if use == "posterior" else "blend"),
        direct_blend=middle("blend"),
        baseline_scaling=None if of_baseline.empty else str(of_baseline.mode().iloc[0]),
    )


def _rows(run: StoredRun, registry: Registry) -> LabelledRows:
    """Load the rows of a run; raise UsageError if they have changed since the run."""
    e = run.info.experiment
    dataset = registry.open_dataset(e.dataset, e.dataset_options)
    rows = dataset.read_as(run.info.table).load_checked()
    if {identity["data"] for identity in run.info.identities.values()} != {rows.content_hash()}:
        raise UsageError(f"the rows of {e.dataset} have changed since the run: run it again")
    return rows
