"""Makes a learner for use: tunes it as in a trial, fits it on all rows, writes its model file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from oasis_bench import __version__
from oasis_bench.data import LabelledRows
from oasis_bench.execution import executor
from oasis_bench.experiment import (
    Experiment,
    LearnerSpec,
    Plan,
    TrialSpec,
    refuse_unknown_names,
)
from oasis_bench.plugins import BASELINE, Registry, add_about
from oasis_bench.runs.run import SILENT, Watcher
from oasis_bench.system import Folder, UsageError, refuse_input, spelled, whole_file
from oasis_bench.trial import Assignment, TrialResult

COMPARED_WITH = {"test": "the other rows of the fold", "training": "the rows outside of the fold"}
"""The gallery of an inner fold, by that of the task."""

MOST_ROWS = 100_000
"""With more rows and classes, a sample is used for tuning and fitting: tuning takes hours."""


class Fitted(NamedTuple):
    """A learner fitted on all rows, and its expected quality.

    Attributes
    ----------
    result : TrialResult
        The trial that fitted it, without test rows.
    measure : str
        The task and measure by which it was tuned.
    values : mapping of str to list of float
        The measure on each inner fold, for the learner as learned and for the Euclidean baseline.
        Empty if the search ran out of time before all folds.
    tuned : mapping of str to value
        Its scaling and hyper-parameters.
    is_tuned : bool
        Whether these were tuned on the same folds.
    n_rows, n_in_all : int
        The number of items of the fit, and of the data set.
    remarks : sequence of str
        Remarks on the data for the user.
    """

    result: TrialResult
    measure: str
    values: Mapping[str, list[float]]
    tuned: Mapping[str, Any]
    is_tuned: bool
    n_rows: int
    n_in_all: int
    remarks: Sequence[str]

    def __str__(self) -> str:
        by, learner = self.result.tuned[0], self.result.row.learner
        keeps_frequencies = self.result.row.split == "stratified"
        tuned = ", ".join(f"{name} {value}" for name, value in self.tuned.items())
        few = f"{self.n_rows:,} of {self.n_in_all:,} rows, the same share of each class"
        which = few if self.n_rows < self.n_in_all else "all rows"
        lines = [*self.remarks, f"{learner} is fitted on {which}: {tuned}"]
        of_data = ", in which classes are as frequent as in the data" * keeps_frequencies
        lines.append(
            "what to expect of new rows, as mean and standard deviation over inner folds"
            f"{of_data} (each row of a fold is compared with {COMPARED_WITH[by.gallery]}):"
        )
        values = {**self.values}
        if by.blend is not None and learner in values:
            as_learned = values.pop(learner)
            if by.blend < 1:
                name = f"{learner}, blended with Euclidean (weight {by.blend:g})"
                values[name] = [*self.result.blend_values]
            is_alone = " (blend weight 1)" * (by.blend == 1)
            values[f"{learner}, as learned{is_alone}"] = as_learned
        if by.tau is not None:
            weight = f"weight {by.posterior_blend:g}"
            name = f"{learner}, votes of the training rows ({weight}, tau {by.tau:g})"
            values[name] = [*self.result.posterior_values]
        for name, found in values.items():
            spread = f" ± {np.std(found, ddof=1):.3f}" if len(found) > 1 else ""
            mean = f"{np.mean(found):.3f}{spread}" if found else "not known: the search ended"
            lines.append(f"  {name}: {self.measure} {mean}")
        if by.tau is not None:
            how = "these votes" if by.use == "posterior" else "the similarity, without votes"
            lines.append(f"The model is of the {by.use} use: 'neighbours' ranks by {how}.")
        if by.blend == 0 and by.use == "direct":
            lines.append(
                f"The blend weight is 0: on these data nothing that {learner} learned beat "
                "the Euclidean baseline, and 'neighbours' ranks by this baseline."
            )
        how = "'run --split stratified'" if keeps_frequencies else "'run'"
        if self.is_tuned:
            lines.append(
                "Tuning selected the best candidate on these folds, so its value is slightly "
                f"optimistic. {how} measures on rows that were not used for tuning."
            )
        if keeps_frequencies:
            lines.append(
                "'run' alone takes equally many rows of each class, so its values are others."
            )
        return "\n".join(lines)


def fit_on_all(
    experiment: Experiment,
    output: Path,
    plugin_files: Sequence[Path] = (),
    watcher: Watcher = SILENT,
) -> Fitted:
    """Tune the one learner of an experiment, fit it on all rows and write its model file.

    It is an ordinary trial in separate processes, except that there are no test rows.  The file
    appears whole or not at all.
    """
    (label,) = experiment.learners
    with executor(1, None) as place:
        registry = Registry.load(plugin_files)
        refuse_unknown_names(experiment, registry)
        if output.is_dir():
            raise UsageError(f"{output} is a folder: give a file, such as {output / 'metric.npz'}")
        given = experiment.dataset_options
        dataset = registry.open_dataset(experiment.dataset, given)
        refuse_input(output, [dataset.location(), *given.values(), *plugin_files])
        Folder(output.absolute().parent).make_writable()
        whole = replace(dataset.load_checked(watcher.download), folds=None)
        rows = _sample(whole, MOST_ROWS, experiment.seed)
        if "rows" in dataset.gives:
            baseline = {BASELINE: LearnerSpec(BASELINE)}
            experiment = replace(experiment, learners={**baseline, **experiment.learners})
        of_task = registry.splits[registry.tasks[experiment.tasks[0]].split](experiment)
        is_judged = of_task.judgements(rows) is not None
        split = experiment.split or (None if rows.multi_label or is_judged else "stratified")
        e = replace(experiment, split=split, partitions=1, traces=False, examples=0, queries=None)
        plugins = tuple(path.resolve() for path in plugin_files)
        specs = Plan.of(e, dataset, rows, registry, plugins).trials
        is_tuned = Assignment.of(specs[-1]).needs_tuning(registry.algorithms[specs[-1].algorithm])
        specs = [_on_all(spec, label, registry) for spec in specs]
        if len(specs) > len(e.learners):
            setting = spelled("classes")
            raise UsageError(f"a learner is fitted on one class subset: give one {setting}")
        found: dict[str, TrialResult] = {}
        watcher.download(f"tuning and fitting {label}", 0, len(specs))
        with TemporaryDirectory() as folder:
            with place.run(specs, rows, Path(folder) / Folder.OUTPUT_LOG) as results:
                for done, one in enumerate(results, start=1):
                    found[one.row.learner] = one
                    watcher.download(f"tuning and fitting {label}", done, len(specs))
            result = found[label]
            if Folder.MODELS not in result.files:
                raise UsageError(
                    f"{label} was not fitted: {result.row.status}: {result.row.reason}"
                )
            by = result.tuned[0]
            tuned = {"scaling": by.scaling, **json.loads(by.params), "n_steps": by.n_steps}
            fitted = Fitted(
                result=result,
                measure=f"{by.task} {by.measure}" + (f"@{by.k}" if by.k is not None else ""),
                values={
                    name: _on_inner_folds(one) for name, one in found.items() if one.validation
                },
                tuned={name: value for name, value in tuned.items() if value is not None},
                is_tuned=is_tuned,
                n_rows=result.row.n_train,
                n_in_all=whole.y.shape[0],
                remarks=rows.remarks,
            )
            about = {"data": Path(experiment.dataset).name, "licence of the data": dataset.licence}
            about |= {"made by": f"oasis-bench {__version__}", "fit": str(fitted)}
            add_about(result.files[Folder.MODELS], about)
            with whole_file(output) as file, result.files[Folder.MODELS].open("rb") as model:
                shutil.copyfileobj(model, file)
    return fitted


def _sample(rows: LabelledRows, most: int, seed: int) -> LabelledRows:
    """Return a share of the rows of each class if there are more rows than `most`."""
    others = (rows.judged, rows.ratings, rows.pixels, rows.patches)
    n = rows.y.shape[0]
    if n <= most or rows.multi_label or any(part is not None for part in others):
        return rows
    y = pd.Series(rows.y).iloc[np.random.default_rng(seed).permutation(n)]
    of_class = y.groupby(y)
    is_drawn = of_class.cumcount() < np.ceil(of_class.transform("size") * (most / n))
    drawn = np.sort(y.index[is_drawn])
    images = None if rows.images is None else tuple(rows.images[i] for i in drawn)
    groups = None if rows.groups is None else np.unique(rows.groups[drawn], return_inverse=True)[1]
    return replace(rows, X=rows.X[drawn], y=rows.y[drawn], images=images, groups=groups)


def _on_all(spec: TrialSpec, label: str, registry: Registry) -> TrialSpec:
    """Return a trial without test rows that keeps the model of the learner `label`."""
    where = replace(spec.where, n_train=spec.where.n_train + spec.where.n_test, n_test=0)
    learner = registry.algorithms[spec.algorithm]
    # A single candidate is not validated, so give it twice.
    n = 1 if Assignment.of(spec).needs_tuning(learner) else 2
    several, keeps = spec.candidates * n, spec.learner == label
    return replace(spec, where=where, projection=False, candidates=several, keeps_model=keeps)


def _on_inner_folds(result: TrialResult) -> list[float]:
    """Return the value of the tuned settings on each inner fold."""
    tuned = result.tuned[0]
    by_fold = {
        row.fold: row.value
        for row in result.validation
        if row.task == result.validation[0].task
        and (row.scaling, row.params) == (tuned.scaling, tuned.params)
        and row.n_steps in (None, tuned.n_steps)
    }
    return [by_fold[fold] for fold in sorted(by_fold)]
