"""The measurements of a run: its trials, the measures of its tasks, and compared learners."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from oasis_bench.analysis.statistics import LEAST_CLUSTERS, LEAST_SETS, Comparison, compare_to_best
from oasis_bench.experiment import Experiment, cell_name
from oasis_bench.runs import RunFacts, StoredRun
from oasis_bench.trial import TRAINING

COSTS = (
    "tuning_seconds",
    "fit_seconds",
    "fit_cpu_seconds",
    "fit_waiting_seconds",
    "seconds_per_query",
    "fit_peak_bytes",
    "model_bytes",
)

QUANTITIES = [*("tuning_fit_seconds", "tuning_score_seconds", "query_seconds"), *COSTS, "n_steps"]
"""The quantities of `RunAnalysis.costs`; the first three are parts of other costs."""

NOISY_SHARE, NOISY_SECONDS = 0.05, 0.010
"""A fit's time is noisy if its threads waited for a core longer than this share of its wall time,
and longer than these seconds.  A single time slice of another process is shorter."""

SHOWN_AT = {"precision": (1, 10, 50), "recall": (8,), "mean recognition": (1,), "reliability": ()}
"""The k of a measure that a table of headlines shows; other measures are shown for all k.

Recall at 1 is precision at 1; reliability is a figure."""

COMPARED_AT = {
    "mAP": (0,),
    "precision": (1, 10),
    "accuracy": (1,),
    "mean recognition": (1,),
    "similarity precision": (0,),
    "agreement": (0,),
    "ROC AUC": (0,),
    "1 - equal error rate": (0,),
}
"""Measures in a comparison or a line on the terminal, with their k; 0: no k."""


SETTINGS = ["scaling", "params", "n_steps", "use", "tau", "blend"]
"""What the inner folds tune, in the table `tuned`."""

USES = ["direct", "posterior"]


def measure_name(measure: str, k: float | None) -> str:
    """Name a measure in words, such as 'precision at 10' or 'accuracy, k = 3'."""
    if pd.isna(k):
        return measure
    if measure.endswith(" K"):
        return f"{measure[:-1]}{k:.0f}"
    return (
        f"{measure} at {k:.0f}" if measure in ("precision", "recall") else f"{measure}, k = {k:.0f}"
    )


@dataclass(frozen=True, eq=False)
class RunAnalysis:
    """A stored run: its trials, its measures by task, and its learners compared by them.

    Each frame is computed at its first use.
    """

    stored: StoredRun

    # Learners, tasks, splits and class subsets.

    @property
    def info(self) -> RunFacts:
        """The facts of the run."""
        return self.stored.info

    @property
    def experiment(self) -> Experiment:
        """The settings of the run."""
        return self.info.experiment

    @cached_property
    def learners(self) -> list[str]:
        """The learners' labels in the order of the experiment."""
        return list(self.experiment.learners)

    @cached_property
    def tasks(self) -> list[str]:
        """The tasks in the order of the experiment, also those of kept scores."""
        return list(self.info.sources.tasks)

    def split_of(self, task: str) -> str:
        """Return how items are divided for a task."""
        return self.info.sources.tasks[task].split

    @cached_property
    def splits(self) -> list[str]:
        """The splits of the tasks, each once."""
        return list(dict.fromkeys(map(self.split_of, self.tasks)))

    @cached_property
    def subsets(self) -> dict[str, int]:
        """The number of classes of each subset, the smallest subset first."""
        sizes = {name: len(classes) for name, classes in self.info.classes.items()}
        return dict(sorted(sizes.items(), key=lambda item: item[1]))

    def subsets_of(self, split: str) -> dict[str, int]:
        """Return the subsets that a split uses: some are too small for unseen classes."""
        known = self.info.identities
        own = {
            name: size
            for name, size in self.subsets.items()
            if any(cell_name(learner, name, split) in known for learner in self.learners)
        }
        return own or self.subsets

    # Trials and their validation on inner folds.

    @cached_property
    def trials(self) -> pd.DataFrame:
        """All trials, with each of `COSTS`, NaN if it is not known, and `noisy`.

        tuning_seconds is the time of learning and validation, summed over the inner folds.
        seconds_per_query is the time of embedding and scoring, divided by the number of queries.
        noisy says whether other programs used the cores during the fit.
        """
        trials = self.stored.trials
        waiting = trials["fit_waiting_seconds"]  # NaN where not measurable
        return trials.assign(
            tuning_seconds=trials["tuning_fit_seconds"] + trials["tuning_score_seconds"],
            seconds_per_query=trials["query_seconds"] / trials["n_timed_queries"],
            noisy=(waiting > NOISY_SHARE * trials["fit_seconds"]) & (waiting > NOISY_SECONDS),
        )

    @cached_property
    def finished(self) -> pd.DataFrame:
        """The trials that gave a result."""
        return self.trials[self.trials["status"] == "ok"]

    def finished_on(self, split: str) -> pd.DataFrame:
        """Return the trials of one split that gave a result."""
        return self.finished[self.finished["split"] == split]

    @property
    def validation(self) -> pd.DataFrame:
        """The values of each candidate on the inner folds, by the first tuning measure."""
        rows = self.stored.validation
        return rows[rows["task"] == rows.groupby("trial_id")["task"].transform("first")]

    @cached_property
    def validated(self) -> pd.DataFrame:
        """The mean over inner folds (validation) at each checkpoint of each candidate, and n_folds.

        There is a row for each task with a tuning measure.  If there are many candidates, most are
        validated on the first fold only.
        """
        rows = self.stored.validation
        keys = [name for name in rows.columns if name not in ("fold", "value")]
        of_folds = rows.groupby(keys, dropna=False, sort=False)["value"]
        return of_folds.agg(validation="mean", n_folds="size").reset_index()

    @cached_property
    def tuned(self) -> pd.DataFrame:
        """The finished trials, by split and partition, with the settings that each measure tuned.

        A row for each trial and measure: its `task` and `measure`, the tuned settings, and the
        value of the measure on the inner folds (validation), on test items (test), for each use
        (direct and posterior), and of the learner alone (as_learned).  training is the value of the
        first measure for the learner alone, among the training items; NaN if it is not known.
        """
        trials = self.finished.sort_values("partition").drop(columns=SETTINGS, errors="ignore")
        own = self._selected.drop_duplicates(["trial_id", "task"])
        names = [measure_name(*pair) for pair in zip(own["measure"], own["k"], strict=True)]
        own = own[["trial_id", "task", *SETTINGS]]
        own = own.assign(measure=pd.Series(names, own.index, dtype="str"))
        rows = trials.merge(own, on="trial_id", how="left")
        keys = ["trial_id", "task", "scaling", "params", "n_steps"]
        rows = rows.merge(self.validated[[*keys, "validation"]], on=keys, how="left")
        values = pd.concat([held.assign(task=task) for task, held in self.values.items()])
        values = values.drop(columns="measure")
        values = values.rename(columns={"name": "measure", "value": "test"})
        keys = ["trial_id", "task", "measure"]
        rows = rows.merge(values[[*keys, "test", *USES, "as_learned"]], on=keys, how="left")
        first = rows["task"] == rows.groupby("trial_id")["task"].transform("first")
        numbers = self.stored.fit_numbers
        training = numbers[numbers["name"] == TRAINING].set_index("trial_id")["value"]
        rows["training"] = rows["trial_id"].map(training).astype(float).where(first)
        return pd.concat([rows[rows["split"] == split] for split in self.splits])

    def tuned_for(self, task: str) -> pd.DataFrame:
        """Return the `SETTINGS` of a task, by trial_id."""
        gallery = self.info.sources.tasks[task].gallery
        tuned = self._selected[self._selected["gallery"] == gallery]
        return tuned.set_index("trial_id")[SETTINGS]

    @cached_property
    def _selected(self) -> pd.DataFrame:
        """The table `tuned`, with tau and blend of the selected use."""
        rows = self.stored.tuned
        by_votes = rows["use"] == "posterior"
        blend = rows["posterior_blend"].where(by_votes, rows["blend"])
        return rows.assign(tau=rows["tau"].where(by_votes), blend=blend)

    @cached_property
    def measures_that_tuned(self) -> pd.DataFrame:
        """The tuning measures, in order: split, task and measure."""
        found = self.tuned[["split", "task", "measure"]].drop_duplicates().dropna()
        if found.empty:
            rows = [(split, *by) for split, by in self.tuned_by.items()]
            found = pd.DataFrame(rows, columns=["split", "task", "measure"])
        return found

    @cached_property
    def n_tried(self) -> pd.DataFrame:
        """The numbers of candidates and of validated settings of each tuned trial, by trial_id.

        A setting is a candidate after a number of steps.
        """
        candidate = ["trial_id", "scaling", "params"]
        settings = self.validation.drop_duplicates([*candidate, "n_steps"])
        counts = {"candidates": settings.drop_duplicates(candidate), "settings": settings}
        return pd.DataFrame(
            {name: rows["trial_id"].value_counts() for name, rows in counts.items()}
        )

    def costs(self, split: str) -> pd.DataFrame:
        """Return median, min, max and n of the costs of the trials of a split.

        A row for each subset, learner and quantity: subset, n_classes, learner, quantity, median,
        min, max, n.
        """
        values = self.finished_on(split).groupby(["subset", "learner"])[QUANTITIES]
        found: Any = values.agg(["median", "min", "max", "count"]).stack(0, future_stack=True)
        cells = pd.MultiIndex.from_product(
            [self.subsets_of(split), self.learners, QUANTITIES],
            names=["subset", "learner", "quantity"],
        )
        found = found.rename(columns={"count": "n"}).reindex(cells).fillna({"n": 0}).reset_index()
        found = found.assign(n_classes=found["subset"].map(self.subsets)).astype({"n": int})
        columns = ["subset", "n_classes", "learner", "quantity", "median", "min", "max", "n"]
        return pd.DataFrame(found[columns])

    def by_subset_and_learner(
        self, rows: pd.DataFrame, split: str
    ) -> Iterator[tuple[str, str, pd.DataFrame]]:
        """Yield each subset of a split, and learner, with its rows, which may be none."""
        held = rows.groupby(["subset", "learner"], sort=False).indices  # faster than filters
        for subset in self.subsets_of(split):
            for learner in self.learners:
                yield subset, learner, rows.iloc[held.get((subset, learner), [])]

    @cached_property
    def rho(self) -> dict[tuple[str, str], float]:
        """The mean correlation of the partitions that have a trial, by subset and split.

        It is 0 for splits of judgements, where groups are compared.
        """
        trials = self.stored.trials
        trials = trials.assign(rho=trials["rho"].where(~trials["split"].isin(self.judged), 0))
        return dict(trials.groupby(["subset", "split"])[["rho"]].mean().itertuples())

    @cached_property
    def judged(self) -> frozenset[str]:
        """The splits of judgements, in which each judgement is tested once."""
        return frozenset(self.stored.groups["split"])

    # Measures of tasks, and comparisons of learners.

    @cached_property
    def is_blended(self) -> bool:
        """Whether a learner was blended with the Euclidean baseline."""
        return bool(self.stored.trials["blend"].notna().any())

    @cached_property
    def has_posterior(self) -> bool:
        """Whether the posterior use of a learner was evaluated."""
        return bool(self.stored.measures["posterior"].notna().any())

    @cached_property
    def measures(self) -> dict[str, pd.DataFrame]:
        """The measures of each task in order: measure, k and name, and where they are shown.

        is_headline: tables show it; is_shown: also true for measures of the data; is_compared:
        comparisons of runs and the terminal show it, or else the first headline.  If the run has no
        values, they are the measures of the task, without k.
        """
        return {task: self._measures(task) for task in self.tasks}

    def _measures(self, task: str) -> pd.DataFrame:
        source, rows = self.info.sources.tasks[task], self.stored.measures
        rows = rows.loc[rows["task"] == task, ["measure", "k"]].drop_duplicates()
        if rows.empty:
            rows = pd.DataFrame({"measure": list(source.measures), "k": math.nan})
        order = {name: place for place, name in enumerate(source.measures)}
        rows = rows.assign(place=rows["measure"].map(order)).sort_values(["place", "measure", "k"])
        pairs = list(zip(rows["measure"], rows["k"], strict=True))
        of_data = rows["measure"].isin(source.of_data)
        shown = [name not in SHOWN_AT or k in SHOWN_AT[name] for name, k in pairs]
        first = ~of_data & np.array(shown, dtype=bool)
        known = zip(rows["measure"], rows["k"].fillna(0), strict=True)
        compared = np.array([k in COMPARED_AT.get(name, ()) for name, k in known], dtype=bool)
        return rows[["measure", "k"]].assign(
            name=[measure_name(*pair) for pair in pairs],
            is_headline=first,
            is_shown=shown,
            is_compared=compared if compared.any() else first & (first.cumsum() == 1),
        )

    def names(self, task: str, which: str = "is_headline") -> list[str]:
        """Name the headlines of a task, or the measures marked by another column of `measures`."""
        known = self.measures[task]
        return [str(name) for name in known.loc[known[which], "name"]]

    @cached_property
    def values(self) -> dict[str, pd.DataFrame]:
        """The values of each trial for each task, with the name of the measure."""
        rows = self.stored.measures
        return {
            task: rows[rows["task"] == task].merge(known[["measure", "k", "name"]], how="left")
            for task, known in self.measures.items()
        }

    def groups(
        self, task: str, subset: str, name: str
    ) -> tuple[pd.DataFrame, pd.Series[float]] | None:
        """Return the means of groups of judgements (n_groups, n_learners), and the groups' sizes.

        The rows are by partition and group; None if the measure has no groups.
        """
        rows, known = self.stored.groups, self.measures[task][["measure", "k", "name"]]
        rows = rows[(rows["task"] == task) & (rows["subset"] == subset)]
        rows = rows.merge(known[known["name"] == name], on=["measure", "k"])
        if rows.empty:
            return None
        rows = rows.assign(mean=rows["value"] / rows["n"])
        where = ["partition", "cluster"]
        sizes = rows.drop_duplicates(where).set_index(where)["n"].astype(float)
        means = rows.pivot(index=where, columns="learner", values="mean")
        return means, sizes[means.index]

    @cached_property
    def tuned_by(self) -> dict[str, tuple[str, str]]:
        """The task and the name of the first tuning measure, by split.

        It is the measure that the experiment names, in the split's first task that has it; or else
        the first measure of the split's first task.  See `measures_that_tuned` for others.
        """
        return {split: self._tuned_by(split) for split in self.splits}

    def _tuned_by(self, split: str) -> tuple[str, str]:
        sources = self.info.sources.tasks
        of_split = [task for task in self.tasks if self.split_of(task) == split]
        text = self.experiment.choose_by or ""
        for task in of_split:
            if text in sources[task].measures:  # MAP@R is a name
                return task, self._first_name(task, text)
            measure, _, k = text.rpartition("@")
            if measure in sources[task].measures:
                return task, measure_name(measure, float(k))
        return of_split[0], self._first_name(of_split[0], sources[of_split[0]].measures[0])

    def _first_name(self, task: str, measure: str) -> str:
        """Name a measure with the smallest k that it has in the run."""
        known = self.measures[task]
        return next(iter(known.loc[known["measure"] == measure, "name"]), measure)

    @cached_property
    def comparisons(self) -> dict[str, list[Comparison]]:
        """The learners of each task compared with the best, by subset and headline."""
        return {task: self.compare(task) for task in self.tasks}

    def compare(self, task: str, baseline: str | None = None) -> list[Comparison]:
        """Compare the learners with the best, or a baseline, for each subset and headline.

        With judgements, a measure without values for groups is not tested, because folds of
        judgements share most of their training data.
        """
        found, values = [], self.values[task]
        for subset in self.subsets_of(self.split_of(task)):
            rho = self.rho.get((subset, self.split_of(task)), 0)  # without a trial: no scores
            of_subset = values[values["subset"] == subset]
            for name in self.names(task):
                chosen = of_subset[of_subset["name"] == name]
                scores = chosen.pivot(index="partition", columns="learner", values="value")
                sizes, least = None, LEAST_SETS if self.experiment.replicates else 2
                if (groups := self.groups(task, subset, name)) is not None:
                    (scores, sizes), least = groups, LEAST_CLUSTERS
                elif self.split_of(task) in self.judged:
                    least = len(scores) + 1  # never reached
                scores = scores.reindex(columns=self.learners).astype(float)
                margin = self.experiment.margin
                own = compare_to_best(scores, rho, baseline, least, sizes, margin)
                found.append(replace(own, subset=subset, name=name))
        return found

    def compare_uses(
        self, task: str, subset: str, learned: Sequence[str], baseline: str
    ) -> Comparison | None:
        """Compare the best use of some learners with both uses of a baseline.

        By the first measure of the task.  The scores have a column for each use, such as 'posterior
        OASIS'.  A use that was not offered on all partitions is left out.  None if there is nothing
        to compare.
        """
        rows, name = self.values[task], self.names(task, "is_compared")[0]
        rows = rows[(rows["subset"] == subset) & (rows["name"] == name)]
        scores = rows.pivot(index="partition", columns="learner", values=USES).astype(float)
        means = scores.loc[:, scores.notna().all()].mean()
        own, others = (means[means.index.isin(it, level=1)] for it in (learned, [baseline]))
        if own.empty or others.empty:
            return None
        pairs: list[Any] = [own.idxmax(), *others.index]
        scores = scores[pairs].set_axis([f"{use} {learner}" for use, learner in pairs], axis=1)
        best, rho = str(scores.columns[0]), self.rho[subset, self.split_of(task)]
        least = LEAST_SETS if self.experiment.replicates else 2
        found = compare_to_best(scores, rho, best, least, margin=self.experiment.margin)
        return replace(found, subset=subset, name=name)

    @cached_property
    def numbers(self) -> dict[str, pd.DataFrame]:
        """Mean, spread, chance and comparison of each measure of each task.

        A row for each subset, measure and learner: subset, n_classes, learner, measure, k, name
        (see `measures`), mean, sd, direct and posterior (the means of both uses, NaN if not offered
        on all partitions), as_learned (the mean of the learner alone), blend (the largest weight of
        the learner, NaN if not blended), n (partitions), n_measured (partitions with a
        value of any learner), chance (mean over the partitions, each counted once), verdict (see
        `Comparison`; '' for a measure that is not a headline), and bold.
        """
        return {task: self._numbers(task) for task in self.tasks}

    def _numbers(self, task: str) -> pd.DataFrame:
        values, measures = self.values[task], self.measures[task]
        keys = ["subset", "name"]
        spread = values.groupby([*keys, "learner"])["value"].agg(["mean", "std", "count"])
        blends = self.tuned_for(task)["blend"].astype(float)
        values = values.assign(
            blend=values["trial_id"].map(blends), voted=values["posterior"].notna()
        )
        of_learner = values.groupby([*keys, "learner"])
        learned = of_learner.agg(
            {**dict.fromkeys([*USES, "as_learned"], "mean"), "blend": "max", "voted": "all"}
        )
        learned["posterior"] = learned["posterior"].where(learned.pop("voted"))
        partitions = values.drop_duplicates([*keys, "partition"]).groupby(keys)["chance"]
        each_once = partitions.agg(["mean", "size"]).set_axis(["chance", "n_measured"], axis=1)
        cells = pd.MultiIndex.from_product(
            [self.subsets_of(self.split_of(task)), measures["name"], self.learners],
            names=[*keys, "learner"],
        )
        spread = spread.set_axis(["mean", "sd", "n"], axis=1).join(learned)
        numbers = spread.reindex(cells).reset_index()
        numbers = numbers.merge(measures[["measure", "k", "name"]], on="name").join(
            each_once, on=keys
        )
        verdicts = pd.DataFrame(
            [
                (it.subset, it.name, learner, verdict)
                for it in self.comparisons[task]
                for learner, verdict in it.verdicts.items()
            ],
            columns=[*keys, "learner", "verdict"],
        )
        numbers = numbers.merge(verdicts, on=[*keys, "learner"], how="left")
        numbers = numbers.fillna({"n": 0, "n_measured": 0, "verdict": ""})
        numbers = numbers.astype({"n": int, "n_measured": int})
        for it in self.comparisons[task]:
            if it.sizes is not None:
                rows = (numbers["subset"] == it.subset) & (numbers["name"] == it.name)
                errors = {name: it.standard_error(name) for name in self.learners}
                unblended = rows & (numbers["as_learned"] == numbers["mean"])
                numbers.loc[rows, "mean"] = numbers.loc[rows, "learner"].map(it.means)
                numbers.loc[rows, "direct"] = numbers.loc[rows, "mean"]
                numbers.loc[unblended, "as_learned"] = numbers.loc[unblended, "mean"]
                numbers.loc[rows, "sd"] = numbers.loc[rows, "learner"].map(errors)
        on_all = numbers["n"] == numbers["n_measured"]
        is_worse = numbers["verdict"].eq("worse").groupby([numbers[key] for key in keys])
        stands_out = is_worse.transform("any")  # if no learner is worse, none is the best
        numbers["bold"] = numbers["verdict"].isin(("best", "as good", "unclear")) & on_all
        numbers["bold"] &= stands_out
        numbers["n_classes"] = numbers["subset"].map(self.subsets)
        columns = ["subset", "n_classes", "learner", "measure", "k", "name", "mean", "sd", "n"]
        columns += [*USES, "as_learned", "blend", "n_measured", "chance", "verdict", "bold"]
        return numbers[columns]
