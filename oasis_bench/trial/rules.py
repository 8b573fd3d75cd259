"""What the process of a trial may send at each stage, and how often.

A plugin's code runs there: a message that is not allowed ends the trial.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from oasis_bench.experiment import TrialSpec
from oasis_bench.trial.choice import LEARNING, VALIDATION, checkpoints
from oasis_bench.trial.messages import Answered, Chosen, Fitted, Loaded, Message, Saved, Validated
from oasis_bench.trial.stages import ANSWER, FIT, LOAD, REPLAY, WARM_UP, StageName

RESULTS: dict[StageName, tuple[type[Message], ...]] = {
    "choose": (Chosen,),
    "fit": (Fitted, Answered),
    "load": (Loaded, Answered),
    "answer alone": (),
    "replay": (),
    "training items": (),
}
"""What each stage must send before it ends well, in this order and each once."""


class Rules:
    """What the processes of one trial may send.

    Parameters
    ----------
    spec : TrialSpec
    """

    def __init__(self, spec: TrialSpec) -> None:
        self._spec = spec
        self._as_sent = json.loads(json.dumps(spec.candidates))
        self._checkpoints = checkpoints(spec.experiment.max_steps)
        points = len(spec.candidates) * (1 + len(self._checkpoints)) * spec.experiment.inner_folds
        self._most_points = points
        self._most_phases: dict[StageName, dict[str, int]] = {
            "choose": {LEARNING: points, VALIDATION: points},
            "fit": {WARM_UP: 1, FIT: 1, ANSWER: 1},
            "load": {WARM_UP: 1, LOAD: 1, ANSWER: 1},
            "answer alone": {ANSWER: 1},
            "replay": {REPLAY: len(self._checkpoints)},
            "training items": {REPLAY: 1},
        }

    def results(self, stage: StageName) -> list[type[Message]]:
        """Return what a stage must send before it ends well, in this order and each once."""
        results = list(RESULTS[stage])
        if stage == "fit" and self._spec.keeps.model:
            results.insert(1, Saved)
        return results

    def most_phases(self, stage: StageName, phase: str) -> int:
        """Return how often a phase may begin: each time it has the whole budget."""
        return self._most_phases[stage].get(phase, 0)

    def is_candidate(self, scaling: str, params: Mapping[str, Any]) -> bool:
        """Tell whether a candidate, as it was sent, is among those that are tried."""
        return [scaling, params] in self._as_sent

    def is_point(self, point: Validated, n_before: int) -> bool:
        """Tell whether this is a setting that the inner folds try, after `n_before` others."""
        return (
            self.is_candidate(point.scaling, point.params)
            and point.n_steps in (None, 0, *self._checkpoints)
            and point.fold < self._spec.experiment.inner_folds
            and n_before < self._most_points
        )

    def is_checkpoint(self, n_steps: int) -> bool:
        """Tell whether a replay sends scores after so many steps."""
        return n_steps in self._checkpoints
