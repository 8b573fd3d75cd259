"""One view of a stored run: the names, frames and comparisons that the parts of its report share.

Each is made once, when it is first asked for.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pandas as pd

from oasis_bench.analysis import (
    COSTS,
    LEAST_CLUSTERS,
    LEAST_SETS,
    BestLearners,
    PairedInterval,
    cluster_interval,
    compare_to_best,
    group_means,
    headlines,
    measure_name,
    measures_of,
    task_measures,
    with_costs,
)
from oasis_bench.experiment import Experiment, cell_name
from oasis_bench.plugins import PATH_DATASETS
from oasis_bench.reports.table import Column, clip, plural
from oasis_bench.runs import RunFacts, StoredRun
from oasis_bench.system import Text, UsageError
from oasis_bench.trial import TRAINING

DAGGER = " †"
TITLE_WIDTH, LABEL_WIDTH, REASON_WIDTH = 60, 24, 240

BASELINE = "Euclidean"
"""The algorithm that others are compared with, where it runs; else the first learner."""

QUANTITIES = [*("tuning_fit_seconds", "tuning_score_seconds", "query_seconds"), *COSTS, "n_steps"]
"""What `RunView.costs` has; the first three are what other costs are made of."""

CELL = ["subset", "learner", "split"]

BOLD = ("best", "tied")
"""The verdicts that are shown in bold, of learners that were measured on all partitions."""


Part = TypeVar("Part")


class Comparison(NamedTuple):
    """Learners compared with the best by one measure: scores are (n_partitions, n_learners).

    Of judgements they are (n_groups, n_learners), and `sizes` the judgements of each group.
    """

    subset: str
    name: str
    scores: pd.DataFrame
    best: BestLearners
    sizes: pd.Series[float] | None = None


def transductive_note(items: str = "items") -> str:
    """Say what the dagger means, of a data set that calls its items so."""
    return (
        f"† transductive: the learner may use the unlabelled test {items}, which the others "
        "never see."
    )


def task_title(task: str) -> str:
    """Return a task's name as a heading has it."""
    return task.replace("-", " ").capitalize()


@dataclass(frozen=True, eq=False)
class RunView:
    """What the parts of a report ask of a run, whose tables are in `stored`."""

    stored: StoredRun

    # Names: learners, tasks, splits and class subsets, and how a reader sees them.

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
    def dataset_name(self) -> str:
        """What the data set is called; a file or a folder of the user's by its own name."""
        source = self.info.sources.dataset.name
        own = source in PATH_DATASETS
        return Text.encodable(Path(self.experiment.dataset).name) if own else source

    @cached_property
    def transductive(self) -> frozenset[str]:
        """The learners that may use the unlabelled test items."""
        trials = self.stored.trials
        return frozenset(trials.loc[trials["transductive"] == 1, "learner"])

    def marked(self, learner: str) -> str:
        """Return a learner's label, with a dagger where it is transductive."""
        return learner + DAGGER * (learner in self.transductive)

    @property
    def dagger_notes(self) -> list[str]:
        """What the dagger means, where a learner has one."""
        return [transductive_note(self.info.items)] * bool(self.transductive)

    def find_baseline(self, asked: str | None = None) -> str:
        """Return the label of the learner that others are compared with.

        It raises a UsageError where no learner has the label that was asked for.
        """
        specs = self.experiment.learners
        if asked is not None:
            if asked not in specs:
                raise UsageError(Text.unknown_name("baseline", asked, specs))
            return asked
        return next(
            (label for label, it in specs.items() if it.algorithm == BASELINE), next(iter(specs))
        )

    @cached_property
    def tasks(self) -> list[str]:
        """The tasks in the order of the experiment, also of kept scores."""
        return list(self.info.sources.tasks)

    def split_of(self, task: str) -> str:
        """Return how items are divided for a task."""
        return self.info.sources.tasks[task].split

    @cached_property
    def splits(self) -> list[str]:
        """The splits of the tasks, each once."""
        return list(dict.fromkeys(map(self.split_of, self.tasks)))

    def of_splits(self, *parts: Part) -> tuple[Part, ...]:
        """Return texts or columns that name splits: none where the run has one split."""
        return parts if len(self.splits) > 1 else ()

    @cached_property
    def partitions_text(self) -> str:
        """The number of outer partitions, or of class sets, with its noun."""
        noun = "class set" if self.experiment.replicates else "partition"
        return plural(self.experiment.n_partitions, noun)

    @cached_property
    def subsets(self) -> dict[str, int]:
        """The number of classes of each subset, the smallest subset first."""
        sizes = {name: len(classes) for name, classes in self.info.classes.items()}
        return dict(sorted(sizes.items(), key=lambda item: item[1]))

    def subsets_of(self, split: str) -> dict[str, int]:
        """Return those that trials of a split are of: some are too small for unseen classes."""
        known = self.info.identities
        own = {
            name: size
            for name, size in self.subsets.items()
            if any(cell_name(learner, name, split) in known for learner in self.learners)
        }
        return own or self.subsets

    @property
    def class_noun(self) -> str:
        """What the labels of this run are called, in the plural."""
        return "words" if self.info.multi_label else "classes"

    def subset_title(self, subset: str) -> str:
        """Name a subset for a heading."""
        size = f"{self.subsets[subset]} {self.class_noun}"
        if self.experiment.replicates:
            return f"{self.partitions_text} of {size}"
        return size if self._is_number(subset) else f"{clip(subset, TITLE_WIDTH)} ({size})"

    def subset_label(self, subset: str) -> str:
        """Name a subset for a table's cell or an axis."""
        size = str(self.subsets[subset])
        return size if self._is_number(subset) else f"{clip(subset, LABEL_WIDTH)} ({size})"

    def _is_number(self, subset: str) -> bool:
        """Tell whether the name of a subset is its number of classes."""
        return subset == str(self.subsets[subset])

    def class_names(self, subset: str, split: str) -> dict[int, str]:
        """Return the names of a subset's classes by their number in the data set, in its order."""
        cells = (cell_name(learner, subset, split) for learner in self.learners)
        identity = next(self.info.identities[it] for it in cells if it in self.info.identities)
        return dict(zip(identity["classes"], self.info.classes[subset], strict=True))

    def facets(self, task: str, subset: str | None = None) -> dict[str, str]:
        """Return what a page is filtered by, of what belongs to one task, and to one subset."""
        of = {"Task": task_title(task)}
        if subset is not None:
            of[self.class_noun.capitalize()] = self.subset_label(subset)
        return of

    # Trials and what their inner folds validated.

    @cached_property
    def trials(self) -> pd.DataFrame:
        """All trials: costs and steps as numbers, whether a fit's time is noisy, what was tuned.

        measure names what the inner folds tuned by on the trial's split; test is its value on test
        items, as_learned that of the learner alone, training that of the learner alone on training
        items among themselves, NaN where it is not known.
        """
        trials = with_costs(self.stored.trials)
        numbers = self.stored.fit_numbers
        training = numbers[numbers["name"] == TRAINING].set_index("trial_id")["value"]
        test: dict[str, float] = {}
        own_test: dict[str, float] = {}
        for split in self.splits:
            task, name = self.tuned_by[split]
            values = self.values[task]
            own = values[values["name"] == name]
            test.update(zip(own["trial_id"], own["value"], strict=True))
            own_test.update(zip(own["trial_id"], own["as_learned"], strict=True))
        names = {split: name for split, (_, name) in self.tuned_by.items()}
        return trials.assign(
            measure=trials["split"].map(names),
            test=trials["trial_id"].map(test).astype(float),
            as_learned=trials["trial_id"].map(own_test).astype(float),
            training=trials["trial_id"].map(training.to_dict()).astype(float),
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
        """What each candidate gave on the inner folds, by the first measure that tuned."""
        rows = self.stored.validation
        return rows[rows["task"] == rows.groupby("trial_id")["task"].transform("first")]

    @cached_property
    def validated(self) -> pd.DataFrame:
        """The mean over inner folds (validation) at each checkpoint of each candidate, and n_folds.

        A row for each task whose measure tuned.  Of many candidates most are validated on the first
        fold alone.
        """
        rows = self.stored.validation
        keys = [name for name in rows.columns if name not in ("fold", "value")]
        of_folds = rows.groupby(keys, dropna=False, sort=False)["value"]
        return of_folds.agg(validation="mean", n_folds="size").reset_index()

    @cached_property
    def tuned(self) -> pd.DataFrame:
        """The finished trials, by split and partition, as each measure tuned them.

        A row for each trial and measure: its `task` and `measure`, what was tuned, and the value of
        the measure on the inner folds (validation), on test items (test), and of the learner alone
        (as_learned).
        """
        of_measure = ["measure", "scaling", "params", "n_steps", "blend", "test", "as_learned"]
        trials = self.finished.sort_values("partition").drop(columns=of_measure)
        own = self.stored.tuned.drop_duplicates(["trial_id", "task"])
        names = [measure_name(*pair) for pair in zip(own["measure"], own["k"], strict=True)]
        own = own[["trial_id", "task", *of_measure[1:5]]]
        own = own.assign(measure=pd.Series(names, own.index, dtype="str"))
        rows = trials.merge(own, on="trial_id", how="left")
        keys = ["trial_id", "task", "scaling", "params", "n_steps"]
        rows = rows.merge(self.validated[[*keys, "validation"]], on=keys, how="left")
        values = pd.concat([held.assign(task=task) for task, held in self.values.items()])
        values = values.rename(columns={"value": "test"}).drop(columns="measure")
        values = values.rename(columns={"name": "measure"})
        keys = ["trial_id", "task", "measure"]
        rows = rows.merge(values[[*keys, "test", "as_learned"]], on=keys, how="left")
        first = rows["task"] == rows.groupby("trial_id")["task"].transform("first")
        rows["training"] = rows["training"].where(first)
        return pd.concat([rows[rows["split"] == split] for split in self.splits])

    @cached_property
    def measures_that_tuned(self) -> pd.DataFrame:
        """The measures that tuned, in order: split, task and measure."""
        found = self.tuned[["split", "task", "measure"]].drop_duplicates().dropna()
        if found.empty:
            rows = [(split, *by) for split, by in self.tuned_by.items()]
            found = pd.DataFrame(rows, columns=["split", "task", "measure"])
        return found

    @property
    def has_several_measures(self) -> bool:
        """Whether the tasks of a split were tuned by several measures."""
        return bool(self.measures_that_tuned["split"].duplicated().any())

    @cached_property
    def n_candidates(self) -> pd.Series[int]:
        """How many candidates the inner folds compared, by trial_id; none of nothing to tune."""
        tried = self.validation[["trial_id", "scaling", "params"]].drop_duplicates()
        return tried["trial_id"].value_counts()

    @cached_property
    def costs(self) -> dict[str, pd.DataFrame]:
        """Median, min, max and n of what the trials of each split took.

        A row for each subset, learner and quantity: subset, n_classes, learner, quantity, median,
        min, max, n.
        """
        return {split: self._costs(self.finished_on(split), split) for split in self.splits}

    def _costs(self, trials: pd.DataFrame, split: str) -> pd.DataFrame:
        values = trials.groupby(["subset", "learner"])[QUANTITIES]
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
        self, rows: pd.DataFrame, split: str | None = None
    ) -> Iterator[tuple[str, str, pd.DataFrame]]:
        """Yield each subset, of a split, and learner with its rows, which may be none."""
        held = rows.groupby(["subset", "learner"], sort=False).indices  # sooner than a filter each
        for subset in self.subsets if split is None else self.subsets_of(split):
            for learner in self.learners:
                yield subset, learner, rows.iloc[held.get((subset, learner), [])]

    def by_cell(self, rows: pd.DataFrame) -> Iterator[tuple[str, str, str, pd.DataFrame]]:
        """Yield each split, subset and learner with its rows, which may be none."""
        for split in self.splits:
            of_split = rows[rows["split"] == split]
            for subset, learner, own in self.by_subset_and_learner(of_split, split):
                yield split, subset, learner, own

    def learner_column(self, rows: pd.DataFrame) -> Column:
        """Return the column of the learners of rows, with daggers."""
        return Column("Learner", rows["learner"], self.marked, "l")

    def subset_column(self, rows: pd.DataFrame) -> Column:
        """Return the column of the class subsets of rows."""
        return Column(self.class_noun.capitalize(), rows["subset"], self.subset_label)

    def split_columns(self, rows: pd.DataFrame) -> tuple[Column, ...]:
        """Return the column of the splits of rows; none where the run has one split."""
        return self.of_splits(Column("Split", rows["split"], align="l"))

    @cached_property
    def retrievals(self) -> pd.DataFrame:
        """What was retrieved in the first partition of one split: others have other test images."""
        rows = self.stored.retrievals
        rows = rows[rows["partition"] == 0]
        split = next((it for it in self.splits if it in set(rows["split"])), None)
        return rows[rows["split"] == split]

    @cached_property
    def sizes(self) -> dict[tuple[str, str], tuple[int, int]]:
        """The training and test items of a partition by subset and split, of those with a trial.

        Folds of a data set need not be of one size: then the means, rounded.
        """
        keys = ["subset", "split"]
        of_partitions = self.stored.trials.drop_duplicates([*keys, "partition"])
        means = of_partitions.groupby(keys)[["n_train", "n_test"]].mean().round().astype(int)
        return {key: (train, test) for key, train, test in means.itertuples()}

    @cached_property
    def rho(self) -> dict[tuple[str, str], float]:
        """The correlation of partitions by subset and split, of those with a trial: their mean.

        It is 0 of judgements, whose groups are compared.
        """
        trials = self.stored.trials
        trials = trials.assign(rho=trials["rho"].where(~trials["split"].isin(self.judged), 0))
        return dict(trials.groupby(["subset", "split"])[["rho"]].mean().itertuples())

    @cached_property
    def judged(self) -> frozenset[str]:
        """The splits whose tasks are of judgements, each of which tests once."""
        return frozenset(self.stored.groups["split"])

    def spread_text(self, task: str) -> str:
        """Say what stands behind the means of a task: a deviation, or an error of judgements."""
        if self.split_of(task) in self.judged:
            return "standard error, by a bootstrap over queries"
        return f"standard deviation over {self.partitions_text}"

    @cached_property
    def _n_trials(self) -> Counter[tuple[str, str, str]]:
        """The number of trials of each subset, learner and split."""
        trials = self.stored.trials
        return Counter(zip(*(trials[key] for key in CELL), strict=True))

    @cached_property
    def _lost(self) -> defaultdict[tuple[str, ...], Counter[str]]:
        """Why there is no result, by subset, learner and split of trials, or also by task."""
        lost: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)
        trials, answers = self.stored.trials, self.stored.answers
        failed = trials["status"] != "ok"
        of_failed = answers["trial_id"].isin(trials.loc[failed, "trial_id"])
        unanswered = answers[(answers["status"] != "ok") & ~of_failed]
        for rows, key in ((trials[failed], CELL), (unanswered, [*CELL, "task"])):
            for *cell, status, reason in rows[[*key, "status", "reason"]].itertuples(index=False):
                lost[tuple(cell)][f"{status}: {reason}"] += 1
        return lost

    def shortfall(
        self, subset: str, learner: str, split: str, task: str | None = None
    ) -> tuple[str, ...]:
        """Say why a learner has results on fewer partitions than planned; nothing if it has all.

        With a task, also where a trial gave a result but none for the task.
        """
        planned, cell = self.experiment.n_partitions, (subset, learner, split)
        if subset not in self.subsets_of(split):
            return ()
        n_trials = self._n_trials[cell]
        reasons = self._lost[cell] + (Counter() if task is None else self._lost[(*cell, task)])
        if n_trials == planned and not reasons:
            return ()
        name, n_lost = self.marked(learner), reasons.total()
        if n_lost == planned and len(reasons) == 1:
            reason = next(iter(reasons))
            if reason.startswith("not applicable:"):
                return (f"{name}: {clip(reason, REASON_WIDTH)}.",)
        parts = [f"{count} {clip(reason, REASON_WIDTH)}" for reason, count in reasons.items()]
        if not_run := planned - n_trials:
            parts.append(f"{not_run} not run")
        return (
            f"{name}: {n_trials - n_lost} of {plural(planned, 'partition')} finished; "
            f"{'; '.join(parts)}.",
        )

    # Measures of tasks, and learners compared by them.

    @cached_property
    def is_blended(self) -> bool:
        """Whether a learner was blended with the Euclidean baseline."""
        return bool(self.stored.trials["blend"].notna().any())

    @cached_property
    def measures(self) -> dict[str, pd.DataFrame]:
        """The measures of each task in order: measure, k, name and option."""
        return {task: measures_of(self.stored, task) for task in self.tasks}

    @cached_property
    def headlines(self) -> dict[str, list[str]]:
        """The names of the measures of learners that tables of each task show."""
        return {task: headlines(self.stored, task) for task in self.tasks}

    @cached_property
    def values(self) -> dict[str, pd.DataFrame]:
        """What each trial measured of each task, with the name of the measure."""
        return {task: task_measures(self.stored, task) for task in self.tasks}

    @cached_property
    def tuned_by(self) -> dict[str, tuple[str, str]]:
        """The task and the name of the first measure by which inner folds tune, by split.

        It is the measure that the experiment names, of the split's first task that has it; else the
        first measure of the split's first task.  See `measures_that_tuned` for others.
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
        """Compare the learners with the best, or a baseline, for each subset and headline."""
        found, values = [], self.values[task]
        least = LEAST_SETS if self.experiment.replicates else 2
        for subset in self.subsets_of(self.split_of(task)):
            rho = self.rho.get((subset, self.split_of(task)), 0)  # without a trial: no scores
            of_subset = values[values["subset"] == subset]
            for name in self.headlines[task]:
                chosen = of_subset[of_subset["name"] == name]
                scores = chosen.pivot(index="partition", columns="learner", values="value")
                sizes = None
                if (groups := group_means(self.stored, task, subset, name)) is not None:
                    (scores, sizes), least = groups, LEAST_CLUSTERS
                scores = scores.reindex(columns=self.learners).astype(float)
                best = compare_to_best(scores, rho, baseline=baseline, least=least, sizes=sizes)
                found.append(Comparison(subset, name, scores, best, sizes))
        return found

    @cached_property
    def numbers(self) -> dict[str, pd.DataFrame]:
        """Mean, spread, chance and comparison of each measure of each task.

        A row for each subset, measure and learner: subset, n_classes, learner, measure, k, name
        (see `analysis.headlines`), mean, sd, as_learned (the mean of the learner alone), blend (the
        largest weight of what was learned, NaN where it was not blended), n (partitions),
        n_measured (partitions with a value of any learner), chance (mean over the partitions, each
        counted once), verdict (see `analysis.BestLearners`) and n_shared (partitions shared with
        the best), which are '' and 0 but for headlines, and bold.
        """
        return {task: self._numbers(task) for task in self.tasks}

    def _numbers(self, task: str) -> pd.DataFrame:
        values, measures = self.values[task], self.measures[task]
        keys = ["subset", "name"]
        spread = values.groupby([*keys, "learner"])["value"].agg(["mean", "std", "count"])
        gallery = self.stored.info.sources.tasks[task].gallery
        tuned = self.stored.tuned[self.stored.tuned["gallery"] == gallery]
        blends = tuned.set_index("trial_id")["blend"].astype(float)
        values = values.assign(blend=values["trial_id"].map(blends))
        learned = values.groupby([*keys, "learner"]).agg({"as_learned": "mean", "blend": "max"})
        partitions = values.drop_duplicates([*keys, "partition"]).groupby(keys)["chance"]
        each_once = partitions.agg(["mean", "size"]).set_axis(["chance", "n_measured"], axis=1)
        cells = pd.MultiIndex.from_product(
            [self.subsets_of(self.split_of(task)), measures["name"], self.learners],
            names=[*keys, "learner"],
        )
        spread = spread.set_axis(["mean", "sd", "n"], axis=1).join(learned)
        numbers = spread.reindex(cells).reset_index()
        numbers = numbers.merge(measures, on="name").join(each_once, on=keys)
        verdicts = pd.DataFrame(
            [
                (subset, name, learner, verdict, comparison.n_shared[learner])
                for subset, name, _, comparison, _ in self.comparisons[task]
                for learner, verdict in comparison.verdicts.items()
            ],
            columns=[*keys, "learner", "verdict", "n_shared"],
        )
        numbers = numbers.merge(verdicts, on=[*keys, "learner"], how="left")
        numbers = numbers.fillna({"n": 0, "n_measured": 0, "verdict": "", "n_shared": 0})
        numbers = numbers.astype({"n": int, "n_measured": int, "n_shared": int})
        for it in self.comparisons[task]:
            if it.sizes is not None:
                rows = (numbers["subset"] == it.subset) & (numbers["name"] == it.name)
                errors = {name: self._error(it, name) for name in self.learners}
                numbers.loc[rows, "mean"] = numbers.loc[rows, "learner"].map(it.best.means)
                numbers.loc[rows, "sd"] = numbers.loc[rows, "learner"].map(errors)
        on_all = numbers["n"] == numbers["n_measured"]
        numbers["bold"] = numbers["verdict"].isin(BOLD) & on_all
        numbers["n_classes"] = numbers["subset"].map(self.subsets)
        columns = ["subset", "n_classes", "learner", "measure", "k", "name", "mean", "sd", "n"]
        columns += ["as_learned", "blend", "n_measured", "chance", "verdict", "n_shared", "bold"]
        return numbers[columns]

    def interval(self, of: Comparison, learner: str) -> PairedInterval:
        """Return the bootstrap interval of the mean of a learner over all judgements."""
        own = of.scores[learner].dropna()
        assert of.sizes is not None
        return cluster_interval(own, of.sizes[own.index])

    def _error(self, of: Comparison, learner: str) -> float:
        interval = self.interval(of, learner)
        return interval.sd / interval.n**0.5 if interval.n >= LEAST_CLUSTERS else math.nan


@lru_cache(maxsize=2)
def view_of(run: StoredRun) -> RunView:
    """Return the view of a run, the same one for its summary and its report."""
    return RunView(run)


def find_baseline(run: StoredRun, asked: str | None = None) -> str:
    """Return the label of the learner that others are compared with, as `RunView` does."""
    return view_of(run).find_baseline(asked)
