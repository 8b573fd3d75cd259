"""The replay of a trial's steps: its measure and the symmetry of W at each checkpoint."""

from __future__ import annotations

from typing import Any

from oasis_bench.experiment.plan import ChooseBy
from oasis_bench.tasks.task import Evaluation, Task
from oasis_bench.trial.items import TrialItems
from oasis_bench.trial.judge import ScoreReader
from oasis_bench.trial.messages import Replayed


class Traces:
    """Takes the scores of each checkpoint and keeps the measure by which inner folds choose.

    Parameters
    ----------
    task : Task
    by : ChooseBy
        The measure of that task.
    items : TrialItems

    Attributes
    ----------
    values, symmetry : list of dict
        Rows of the tables `traces` and `symmetry`.
    """

    def __init__(self, task: Task, by: ChooseBy, items: TrialItems) -> None:
        self._task, self._by, self._items = task, by, items
        self.values: list[dict[str, Any]] = []
        self.symmetry: list[dict[str, Any]] = []
        self._pending: tuple[Replayed, list[tuple[str, Evaluation]]] | None = None

    def has(self, n_steps: int) -> bool:
        """Tell whether a checkpoint has come."""
        return any(row["n_steps"] == n_steps for row in self.values)

    def begin(self, message: Replayed) -> list[ScoreReader]:
        """Return what takes the scores of a checkpoint: of training items, and of test items.

        Where the gallery is the training items, these find themselves there and are left out.
        """
        task, items, only = self._task, self._items, (self._by.measure,)
        ties, training = items.ties[task.gallery], items.ties["training"]
        test = task.evaluation(items.truth, len(ties), ties, only)
        readers = [ScoreReader(task.gallery, len(items.test_rows), len(ties), [test])]
        parts = [("test", test)]
        if task.gallery == "test":
            own = task.evaluation(items.training_truth, len(training), training, only)
            readers.insert(0, ScoreReader(task.gallery, len(training), len(training), [own]))
            parts.insert(0, ("train", own))
        self._pending = message, parts
        return readers

    def finish(self) -> None:
        """Keep the values of the checkpoint whose scores have all come, if there is one."""
        if self._pending is None:
            return
        (message, parts), self._pending = self._pending, None
        for part, evaluation in parts:
            value = evaluation.value(self._by.measure, self._by.k)
            self.values.append({"part": part, "n_steps": message.n_steps, "value": value})
        if message.symmetry_index is not None:
            point = {"n_steps": message.n_steps, "symmetry_index": message.symmetry_index}
            self.symmetry.append(point)
