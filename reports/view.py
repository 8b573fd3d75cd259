"""What the parts of a report need of a run: its analysis, and how a reader sees its names."""

from __future__ import annotations

from collections import Counter
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import pandas as pd

from oasis_bench.analysis import RunAnalysis
from oasis_bench.experiment import cell_name
from oasis_bench.plugins import PATH_DATASETS
from oasis_bench.reports.table import Column, clip, plural
from oasis_bench.reports.words import notes_where
from oasis_bench.runs import StoredRun
from oasis_bench.system import encodable

DAGGER = " †"
TITLE_WIDTH, LABEL_WIDTH, REASON_WIDTH = 60, 24, 240

CELL = ["subset", "learner", "split"]


def task_title(task: str) -> str:
    """Return a task's name as a heading has it."""
    return task.replace("-", " ").capitalize()


class RunView(RunAnalysis):
    """The analysis of a run, and how a reader sees its learners, splits and class subsets."""

    @cached_property
    def dataset_name(self) -> str:
        """The name of the data set, or the name of the user's file or folder."""
        source = self.info.sources.dataset.name
        own = source in PATH_DATASETS
        return encodable(Path(self.experiment.dataset).name) if own else source

    @cached_property
    def transductive(self) -> frozenset[str]:
        """The learners that may use the unlabelled test items."""
        trials = self.stored.trials
        return frozenset(trials.loc[trials["transductive"] == 1, "learner"])

    def marked(self, learner: str) -> str:
        """Return a learner's label, with a dagger if it is transductive."""
        return learner + DAGGER * (learner in self.transductive)

    @property
    def dagger_notes(self) -> list[str]:
        """The meaning of the dagger, if a learner has one."""
        return notes_where({"transductive": self.transductive}, items=self.info.items)

    def of_split(self, text: str) -> str:
        """Return a text that names a split; '' if the run has one split."""
        return text * (len(self.splits) > 1)

    @cached_property
    def partition_noun(self) -> str:
        """What a partition of this run is called."""
        return "class set" if self.experiment.replicates else "partition"

    @property
    def partitions_text(self) -> str:
        """The number of outer partitions, or of class sets, with its noun."""
        return plural(self.experiment.n_partitions, self.partition_noun)

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
        """Return the filter values for a part of a page about one task, or one subset."""
        of = {"Task": task_title(task)}
        if subset is not None:
            of[self.class_noun.capitalize()] = self.subset_label(subset)
        return of

    def learner_column(self, rows: pd.DataFrame) -> Column:
        """Return the column of the learners of rows, with daggers."""
        return Column("Learner", rows["learner"], self.marked, "l")

    def subset_column(self, rows: pd.DataFrame) -> Column:
        """Return the column of the class subsets of rows."""
        align = "r" if all(map(self._is_number, self.subsets)) else "l"  # by number, or by name
        return Column(self.class_noun.capitalize(), rows["subset"], self.subset_label, align)

    def split_columns(self, rows: pd.DataFrame) -> list[Column]:
        """Return the column of the splits of rows; none if the run has one split."""
        return [Column("Split", rows["split"], align="l")] * (len(self.splits) > 1)

    @cached_property
    def retrievals(self) -> pd.DataFrame:
        """What was retrieved in the first partition of one split: others have other test images."""
        rows = self.stored.retrievals
        rows = rows[rows["partition"] == 0]
        split = next((it for it in self.splits if it in set(rows["split"])), None)
        return rows[rows["split"] == split]

    @cached_property
    def sizes(self) -> pd.DataFrame:
        """The training and test items of a partition by subset and split, of those with a trial.

        Folds of a data set need not be of one size: then the means, rounded.
        """
        keys = ["subset", "split"]
        of_partitions = self.stored.trials.drop_duplicates([*keys, "partition"])
        return of_partitions.groupby(keys)[["n_train", "n_test"]].mean().round().astype(int)

    def spread_text(self, task: str) -> str:
        """Say what ± is for a task: a deviation, or an error of judgements."""
        if self.split_of(task) in self.judged:
            return "standard error, by the jackknife over queries"
        return f"standard deviation over {self.partitions_text}"

    @cached_property
    def lost(self) -> pd.DataFrame:
        """The trials without a result, and those without one of a task: a row for each partition.

        Its columns are those of `CELL`, partition, task ('' of a whole trial), status and reason.
        """
        trials, answers = self.stored.trials, self.stored.answers
        failed = trials[trials["status"] != "ok"].assign(task="")
        unanswered = answers[answers["trial_id"].isin(self.finished["trial_id"])]
        unanswered = unanswered[unanswered["status"] != "ok"]
        columns = [*CELL, "task", "status", "reason", "partition"]
        return pd.concat([failed[columns], unanswered[columns]])

    @cached_property
    def _lost_of(self) -> dict[Any, pd.DataFrame]:
        """The rows of `lost` of each subset, learner and split that has any."""
        return dict(iter(self.lost.groupby(CELL)))

    @cached_property
    def _n_trials(self) -> Counter[tuple[str, ...]]:
        """The number of trials of each subset, learner and split."""
        return Counter(self.stored.trials[CELL].itertuples(index=False, name=None))

    def shortfall(
        self, subset: str, learner: str, split: str, task: str | None = None
    ) -> tuple[str, ...]:
        """Say why a learner has results on fewer partitions than planned; nothing if it has all.

        With a task, also if a trial gave a result, but not for the task.
        """
        if subset not in self.subsets_of(split):
            return ()
        planned, cell = self.experiment.n_partitions, (subset, learner, split)
        rows = self._lost_of.get(cell, self.lost[:0])
        rows = rows[rows["task"].isin(["", task])]
        reasons = Counter(f"{own.status}: {own.reason}" for own in rows.itertuples())
        n_trials = self._n_trials[cell]
        if n_trials == planned and not reasons:
            return ()
        name, n_lost = self.marked(learner), len(rows)
        first = next(iter(reasons), "")
        if reasons[first] == planned and first.startswith("not applicable:"):
            return (f"{name}: {clip(first, REASON_WIDTH)}.",)
        parts = [f"{count} {clip(reason, REASON_WIDTH)}" for reason, count in reasons.items()]
        if not_run := planned - n_trials:
            parts.append(f"{not_run} not run")
        return (
            f"{name}: {n_trials - n_lost} of {plural(planned, 'partition')} finished; "
            f"{'; '.join(parts)}.",
        )


@lru_cache(maxsize=2)
def view_of(run: StoredRun) -> RunView:
    """Return the view of a run, the same one for its summary and its report."""
    return RunView(run)
