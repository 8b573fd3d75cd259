"""All that the learner's side knows of its trial, and the rules that both sides follow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from msgspec import Struct

from oasis_bench.data import Encoding, Scaling
from oasis_bench.experiment import Candidate, ChooseBy, TrialSpec
from oasis_bench.plugins import (
    TAUS,
    Blend,
    IncrementalLearner,
    MetricLearner,
    Registry,
    is_the_baseline,
)
from oasis_bench.system import n_cores
from oasis_bench.trial.wall.messages import Tuned, Use

MOST_CHECKPOINTS, FIRST_CHECKPOINT = 8, 500
"""A fit is validated at most so often, and not before so many steps."""

StageName = Literal["tune", "fit", "load", "vote", "score alone", "replay", "score training items"]


class NotApplicableError(Exception):
    """The learner cannot learn from this kind of data set, for a reason known beforehand."""


class Seeds(Struct, frozen=True):
    """The seeds of a trial's random numbers on the learner's side, each for one purpose."""

    fit: int  # of the learner, in the final fit
    warm_up: int
    folds: tuple[int, ...]  # of the learner, on each inner fold
    inner_split: int
    judgements: int
    ties: int
    blend: int


class Way(NamedTuple):
    """A way to use a fitted learner: its use, its weight b in the blend, and tau of the votes."""

    use: Use
    weight: float
    tau: float | None = None


class SplitNumbers(Struct, frozen=True):
    """The settings of a split (`tasks.split.SplitSettings`), for inner folds."""

    per_class: tuple[int, int]
    seed: int
    test_share: float
    most_items: int | None


class Assignment(Struct, frozen=True):
    """All that the learner's side knows of a trial, besides its items.

    It names no class, no row and no partition; its seeds are not those of the outer split.
    """

    algorithm: str
    plugin_files: tuple[Path, ...]
    candidates: tuple[Candidate, ...]
    chooses_by: tuple[ChooseBy, ...]
    scalings: tuple[str, ...]
    encoding: Encoding | None
    split: str
    split_numbers: SplitNumbers
    inner_folds: int
    folds_at_once: int
    max_steps: int
    budget_seconds: float | None
    memory_bytes: int | None
    threads: int
    traces: bool
    blends: bool
    use: str
    knows_classes: bool
    keeps_model: bool
    seeds: Seeds

    @classmethod
    def of(cls, spec: TrialSpec) -> Self:
        """Return the assignment of a trial."""
        e = spec.experiment

        def of_learner(purpose: str) -> int:
            return spec.seed_for(purpose, of_learner=True)

        knows_classes = spec.where.knows_classes
        use = e.use or ("tuned" if e.blend == "on" else "direct")
        seeds = Seeds(
            fit=of_learner("fit"),
            warm_up=of_learner("warm-up"),
            folds=tuple(of_learner(f"fold {fold}") for fold in range(e.inner_folds)),
            inner_split=spec.seed_for("folds"),
            judgements=spec.seed_for("judged triplets"),
            ties=spec.seed_for("ties"),
            blend=spec.seed_for("blend"),
        )
        return cls(
            algorithm=spec.algorithm,
            plugin_files=spec.plugin_files,
            candidates=spec.candidates,
            chooses_by=spec.chooses_by,
            scalings=spec.scalings,
            encoding=spec.encoding,
            split=spec.where.split,
            split_numbers=SplitNumbers(e.per_class, seeds.inner_split, e.test_share, e.most_items),
            inner_folds=e.inner_folds,
            folds_at_once=_folds_at_once(spec),
            max_steps=e.max_steps,
            budget_seconds=spec.budget.seconds,
            memory_bytes=spec.memory.n_bytes,
            threads=e.threads,
            traces=e.traces,
            blends=e.blend == "on",
            use="direct" if knows_classes is None else use,
            knows_classes=bool(knows_classes),
            keeps_model=spec.keeps_model,
            seeds=seeds,
        )

    def learner(self) -> type[MetricLearner]:
        """Return the class of the learner; its module is imported."""
        return Registry.load(self.plugin_files).algorithms[self.algorithm]

    def is_blended(self, learner: type[MetricLearner]) -> bool:
        """Tell whether a learner's similarity is blended with the Euclidean baseline's."""
        return self.blends and learner.takes == "rows" and not is_the_baseline(learner)

    def ways(self, learner: type[MetricLearner], with_votes: bool = True) -> list[Way]:
        """Return the ways to use a learner that the inner folds try: first the direct ones.

        Of these, the last is the learner as it is.
        """
        weights = Blend.WEIGHTS if self.is_blended(learner) else (1.0,)
        of_votes = Blend.WEIGHTS[1:] if self.blends else (1.0,)
        of_learner = TAUS[-1:] if learner.embeds_probabilities else TAUS  # tau changes nothing
        has_votes = with_votes and self.use != "direct" and learner.takes == "rows"
        taus = of_learner if has_votes else ()
        voted = [Way("posterior", b, tau) for tau in taus for b in of_votes]
        return [*(Way("direct", b) for b in weights), *voted]

    def needs_search(self, learner: type[MetricLearner]) -> bool:
        """Tell whether the inner folds have hyper-parameters or a number of steps to tune."""
        by_steps = (
            issubclass(learner, IncrementalLearner) and "n_steps" not in self.candidates[0].params
        )
        return by_steps or len(self.candidates) > 1

    def needs_tuning(self, learner: type[MetricLearner]) -> bool:
        """Tell whether the inner folds have anything to tune: the way to use the learner, too."""
        return self.needs_search(learner) or len(self.ways(learner)) > 1


@dataclass(frozen=True)
class Stage:
    """One stage of a trial, as its process gets it."""

    name: StageName
    assignment: Assignment
    tuned: Tuned  # what to fit; in the stage 'tune' the first candidate
    galleries: tuple[str, ...]  # of the tasks that this fit is for: 'test', 'training'
    server: int  # the process number below which all processes of the trial are
    taus: Mapping[str, float]  # of the votes, by gallery


def checkpoints(max_steps: int) -> list[int]:
    """Halve `max_steps` again and again, within the limits; return the smallest number first."""
    halves = [max_steps // 2**power for power in range(MOST_CHECKPOINTS)]
    return [step for step in halves[:0:-1] if step >= FIRST_CHECKPOINT] + [max_steps]


def _folds_at_once(spec: TrialSpec) -> int:
    """Return how many inner folds run in parallel; they are not timed, and use idle cores.

    It is one if trials share cores, if fits use several threads, or if memory has a limit: several
    folds together could exceed it.
    """
    alone = spec.experiment.threads == 1 and not spec.shares_cores and spec.memory.n_bytes is None
    return min(n_cores(), spec.experiment.inner_folds) if alone else 1


def learn_preparation(
    learner: type[MetricLearner],
    scaling: str,
    X: Any,
    encoding: Encoding | None = None,
    saved: Sequence[Any] | None = None,
) -> list[Any]:
    """Fit the transformers that prepare the items of a data set for a learner.

    Rows with an `encoding` are encoded.  All rows are scaled with statistics of `X`, or by the
    steps `saved` with a model.  They are made dense if the learner takes no sparse rows.  Pixels
    and patches stay as they are.
    """
    if learner.takes != "rows":
        return []
    return Scaling(scaling).learn(X, learner.takes_sparse, encoding, saved)
