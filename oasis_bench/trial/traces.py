"""The measure of a trial on its training items and at each checkpoint, with the symmetry of W."""

from __future__ import annotations

from typing import Any

from oasis_bench.experiment import ChooseBy
from oasis_bench.tasks import Evaluation, Task
from oasis_bench.trial.evaluator import ScoreReader
from oasis_bench.trial.items import TrialItems
from oasis_bench.trial.messages import Replayed

TRAINING = "training"
"""The measure on the training items, among the numbers of a fit."""


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
        self._training: float | None = None
        self._pending: tuple[Replayed | None, list[tuple[str, Evaluation]]] | None = None

    def has(self, n_steps: int) -> bool:
        """Tell whether the scores of a checkpoint are there."""
        return any(row["n_steps"] == n_steps for row in self.values)

    def begin(self, message: Replayed) -> list[ScoreReader]:
        """Return what takes the scores of a checkpoint: of training items, and of test items.

        Where the gallery is the training items, these find themselves there and are left out.
        """
        task, items, only = self._task, self._items, (self._by.measure,)
        ties = items.ties[task.gallery]
        test = task.evaluation(items.truth, len(ties), ties, only)
        readers = [ScoreReader(task.gallery, len(items.test_rows), len(ties), [test])]
        parts = [("test", test)]
        if task.gallery == "test":
            reader, own = self._of_training()
            readers.insert(0, reader)
            parts.insert(0, ("train", own))
        self._pending = message, parts
        return readers

    def begin_training(self) -> ScoreReader:
        """Return what takes the scores of the training items by the fitted learner."""
        reader, own = self._of_training()
        self._pending = None, [("train", own)]
        return reader

    def training_value(self, n_steps: int | None) -> float | None:
        """Return the measure on training items after that many steps, or of the fitted learner."""
        for row in self.values:
            if (row["part"], row["n_steps"]) == ("train", n_steps):
                return float(row["value"])
        return self._training

    def finish(self) -> None:
        """Keep the values of the checkpoint whose scores have all come, if there is one."""
        if self._pending is None:
            return
        (message, parts), self._pending = self._pending, None
        if message is None:
            self._training = self._value(parts[0][1])
            return
        for part, evaluation in parts:
            value = self._value(evaluation)
            self.values.append({"part": part, "n_steps": message.n_steps, "value": value})
        if message.symmetry_index is not None:
            point = {"n_steps": message.n_steps, "symmetry_index": message.symmetry_index}
            self.symmetry.append(point)

    def _of_training(self) -> tuple[ScoreReader, Evaluation]:
        items, ties = self._items, self._items.ties["training"]
        n = len(ties)
        own = self._task.evaluation(items.training_truth, n, ties, (self._by.measure,))
        return ScoreReader("test", n, n, [own]), own

    def _value(self, evaluation: Evaluation) -> float:
        return evaluation.value(self._by.measure, self._by.k)
