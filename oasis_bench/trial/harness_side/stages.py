"""The harness's half of a trial, stage by stage, in step with the learner's process.

Each function is a generator that mirrors one of `oasis_bench.trial.learner_side.stages` line by
line.  Timed work lies between `line.clock()` and `clock.charge(...)`; the test labels are in the
`Evaluator` and the `Traces` of the trial's findings.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from oasis_bench.experiment import ChooseBy, TrialSpec
from oasis_bench.plugins import (
    Blend,
    IncrementalLearner,
    MetricLearner,
    load_blend,
    refusal_of_votes,
    sd_of_baseline,
)
from oasis_bench.tasks import Task
from oasis_bench.trial import wall
from oasis_bench.trial.harness_side.evaluator import Evaluator, Traces, galleries_of, reason_against
from oasis_bench.trial.harness_side.findings import EndsTrialError, Findings, Fit, task_at_work
from oasis_bench.trial.harness_side.inbox import ROUGH_SECONDS, HarnessClock, Line, Talk
from oasis_bench.trial.harness_side.items import Sealed, SealedItems, TrialItems
from oasis_bench.trial.harness_side.result import KeptFiles, Votes, row_of
from oasis_bench.trial.harness_side.rows import TunedRow, ValidationRow


@dataclass
class Trial:
    """The data of a trial's stages; `winners` are the tuned settings of each measure.

    ``sealed_in(scaling)`` returns the items in files; `saved_model` is the file of a model that
    replaces the fit.
    """

    spec: TrialSpec
    assignment: wall.Assignment
    items: TrialItems
    sealed_in: Sealed
    learner: type[MetricLearner]
    tuner: Task  # the task of the first tuning measure
    findings: Findings
    winners: list[wall.Tuned]
    saved_model: int | None

    @classmethod
    def of(
        cls,
        spec: TrialSpec,
        items: TrialItems,
        sealed_in: Sealed,
        learner: type[MetricLearner],
        tasks: Sequence[Task],
        folder: Path,
        saved_model: int | None,
    ) -> Self:
        """Begin a trial; raise NotApplicableError if the learner can do none of the tasks."""
        refused = {task.name: reason for task in tasks if (reason := reason_against(task, learner))}
        evaluated = [task for task in tasks if task.name not in refused]
        if not evaluated:
            raise wall.NotApplicableError(next(iter(refused.values())))
        asked = tuple(by for by in spec.chooses_by if by.task not in refused)
        if not asked:  # then tune by the first possible measure
            measure = evaluated[0].parse_measure(evaluated[0].measures[0])
            asked = (ChooseBy(evaluated[0].name, *measure),)
        spec = replace(spec, chooses_by=asked)
        task_of = {task.name: task for task in evaluated}
        tunes = {task_of[by.task].gallery: place for place, by in reversed([*enumerate(asked)])}
        tuner = task_of[asked[0].task]
        findings = Findings(
            row=row_of(spec, items, learner),
            learner=learner,
            evaluator=Evaluator(evaluated, items, spec),
            traces=Traces(tuner, asked[0], items),
            kept=KeptFiles(spec, items, folder),
            refused=refused,
            places={gallery: tunes.get(gallery, 0) for gallery in galleries_of(evaluated)},
        )
        scaling, params = spec.candidates[0]
        winners = [wall.Tuned(scaling, dict(params))] * len(asked)
        known = wall.Assignment.of(spec)
        of_items = items, sealed_in, learner
        trial = cls(
            spec, known, *of_items, tuner, findings, winners=winners, saved_model=saved_model
        )
        for kind in known.scalings if trial.needs_tuning else [scaling]:
            sealed_in(kind)  # raises if the items cannot be scaled so
        return trial

    @property
    def needs_tuning(self) -> bool:
        """Whether the inner folds have anything to tune."""
        return self.saved_model is None and self.assignment.needs_tuning(self.learner)

    @property
    def fit(self) -> Fit:
        """The current fit."""
        return self.findings.fits[-1]

    def begun(self, name: wall.StageName, server: int) -> wall.Stage:
        """Return a stage as its process gets it, below the process `server`."""
        tuned, galleries = self.winners[0], tuple(self.findings.places)
        if self.findings.fits:
            tuned, galleries = self.fit.tuned, self.fit.galleries
        if name == "replay":
            galleries = (self.tuner.gallery,)
        return wall.Stage(name, self.assignment, tuned, galleries, server, self.taus)

    @property
    def taus(self) -> dict[str, float]:
        """The tau of the votes for each gallery of the current fit that has votes."""
        fits, places = self.findings.fits, self.findings.places
        galleries = fits[-1].galleries if fits else ()
        found = {gallery: self.winners[places[gallery]].tau for gallery in galleries}
        return {gallery: tau for gallery, tau in found.items() if tau is not None}

    @property
    def has_learned(self) -> bool:
        """Whether the learner was fitted on the training items and can be evaluated on them.

        A saved model was not.  A split may leave no judgements to train on.
        """
        judgements = self.items.judgements
        return self.saved_model is None and (judgements is None or len(judgements.items) > 0)

    def galleries_of_fits(self) -> list[tuple[str, ...]]:
        """Return the galleries of each fit to make; the fit of the first measure comes last.

        The trial's row reports that fit.

        Galleries with equal tuned values share one fit.
        """
        places = self.findings.places
        of_fit: dict[str, tuple[str, ...]] = {}
        for gallery in sorted(places, key=lambda it: (-places[it], it == "test")):
            won = self.winners[places[gallery]]
            key = json.dumps([won.scaling, won.params, won.n_steps])
            of_fit[key] = (gallery, *of_fit.pop(key, ()))
        return list(of_fit.values())


def stages_of(trial: Trial, line: Line) -> Iterator[tuple[wall.StageName, Talk]]:
    """Yield the stages of a trial, each with the harness's half of it."""
    if trial.needs_tuning:
        yield "tune", tune(trial, line)
    _note_missing_votes(trial)
    findings = trial.findings
    for galleries in trial.galleries_of_fits():
        if findings.fits:
            trial.fit.close()
        tuned = trial.winners[findings.places[galleries[0]]]
        findings.fits.append(Fit(galleries, tuned, trial.sealed_in(tuned.scaling)))
        if trial.saved_model is None:
            yield "fit", fit(trial, line)
        else:
            yield "load", load(trial, line)
        if trial.taus:
            yield "vote", vote(trial, line)
        if not findings.row.transductive:
            yield "score alone", score_alone(trial, line)
    findings.is_measured = True
    if trial.spec.experiment.traces:
        steps = issubclass(trial.learner, IncrementalLearner)
        # If the number of steps was given, there is no checkpoint to stop at.
        if steps and trial.fit.tuned.last_checkpoint is not None:
            yield "replay", replay(trial, line)
        elif trial.tuner.gallery == "test" and trial.has_learned:
            yield "score training items", score_training_items(trial, line)


def _note_missing_votes(trial: Trial) -> None:
    """Note why the posterior use is not offered, unless nobody asked for it or expects it."""
    use, items = trial.assignment.use, trial.items
    is_asked = trial.spec.experiment.use == "posterior"
    is_tuned = all(won.tau is not None for won in trial.winners)
    if trial.saved_model is not None or is_tuned or (use == "direct" and not is_asked):
        return
    reason = refusal_of_votes(trial.learner, items.y, items.judgements is not None)
    if reason is not None and not is_asked:
        return
    if reason is None and use == "direct":
        reason = f"the split {trial.spec.where.split} does not say whether test classes are known"
    reason = reason or (
        "on an inner fold the nearest rows are as similar as the tenth nearest, or there are too "
        "few classes for inner folds"
    )
    trial.findings.notes.append(f"the posterior use is not offered: {reason}")


def tune(trial: Trial, line: Line) -> Talk:
    """Receive the validation values and the tuned settings."""
    known, spec = trial.assignment, trial.spec
    candidates = json.loads(json.dumps(spec.candidates))  # as messages have them
    steps = [None, *wall.checkpoints(known.max_steps)]
    n_measures, validation = len(known.chooses_by), trial.findings.validation
    most = (len(candidates) * len(steps) + n_measures) * known.inner_folds
    n_begun: Counter[str] = Counter()
    clock = None
    for scaling in (None, *known.scalings):
        line.give(trial.sealed_in(scaling).training)
    while not isinstance(
        message := (yield wall.PhaseBegan, wall.Validated, wall.Tuned), wall.Tuned
    ):
        if isinstance(message, wall.PhaseBegan):
            n_begun[message.phase] += 1
            if n_begun[message.phase] > most:
                line.refuse(message)
            line.begin(message, wall.LEARNING, wall.VALIDATION)
            clock = clock or HarnessClock(line.server, ROUGH_SECONDS, ROUGH_SECONDS)
        else:
            is_candidate = [message.scaling, message.params] in candidates
            is_point = message.n_steps in steps and message.fold < known.inner_folds
            is_point &= len(message.values) == n_measures
            if not (is_candidate and is_point and len(validation) < most * n_measures):
                line.refuse(message)
            where = message.scaling, json.dumps(message.params), message.n_steps, message.fold
            validation += [
                ValidationRow(by.task, *where, value)
                for by, value in zip(known.chooses_by, message.values, strict=True)
            ]
    winners = trial.winners = [message]
    while len(winners) < n_measures:
        winners.append((yield wall.Tuned))
    ways = known.ways(trial.learner)
    for winner in winners:
        is_candidate = [winner.scaling, winner.params] in candidates
        is_blend = winner.blend in (Blend.WEIGHTS if known.is_blended(trial.learner) else (None,))
        is_blend &= winner.blend is None or winner.baseline_scaling in known.scalings
        voted = wall.Way("posterior", winner.posterior_blend or 0.0, winner.tau)
        is_use = (winner.use, winner.tau) == ("direct", None) or voted in ways
        if not (is_candidate and is_blend and is_use):
            raise wall.MessageError("what was tuned is not among what was to be tried")
    validation.sort(  # parallel folds send their values in any order
        key=lambda row: (
            candidates.index([row.scaling, json.loads(row.params)]),
            steps.index(row.n_steps),
            row.fold,
        )
    )
    seconds = message.fit_seconds + message.score_seconds
    if clock is not None:
        if known.folds_at_once > 1:  # the clock sees only the longest fold
            seconds = max(clock.charge(seconds, seconds))
        else:
            seconds, _ = clock.charge(seconds, math.inf)
    message.fit_seconds = seconds - message.score_seconds


def fit(trial: Trial, line: Line) -> Talk:
    """Receive the fitted learner and its costs, then its scores of the test items."""
    now, findings = trial.fit, trial.findings
    yield from line.began(wall.WARM_UP)
    line.give(now.items.few)
    yield from line.began(wall.FIT)
    training = now.items.training
    clock = line.clock()
    line.give(training)
    now.came = fitted = yield wall.Fitted
    now.model = line.inbox.take_file()
    clock.subtract(n_bytes=os.fstat(now.model).st_size)
    now.seconds, now.cpu_seconds = clock.charge(fitted.seconds, fitted.cpu_seconds)
    line.give(now.model)  # its process waits for this: the clock sees no later work
    _add_tuned(trial)
    if trial.assignment.keeps_model:
        saved = yield wall.Saved
        if saved.reason is not None:
            findings.notes.append(f"its model is not saved: {saved.reason}")
        elif 0 in map(findings.places.get, now.galleries):
            takes_rows = trial.learner.takes == "rows"
            findings.kept.add_model(line.inbox.take_file(), now.items.steps if takes_rows else None)
    if now.tuned.blend is not None:
        compared, seed = (yield wall.Compared), trial.assignment.seeds.blend
        for gallery in now.galleries:
            won = trial.winners[findings.places[gallery]]
            rows = trial.sealed_in(won.baseline_scaling)
            sds = sd_of_baseline(rows.training_rows, seed), compared.learned_sd
            steps = None if won.baseline_scaling == won.scaling else tuple(rows.steps)
            _begin_blend(trial, gallery, Blend(won.blend or 0.0, *sds, steps), rows)
    yield from _score(trial, line)


def load(trial: Trial, line: Line) -> Talk:
    """Receive the learner of a saved model, then its scores of the test items."""
    assert trial.saved_model is not None
    assert trial.spec.model is not None
    now = trial.fit
    yield from line.began(wall.WARM_UP)
    line.give(now.items.few)
    yield from line.began(wall.LOAD)
    line.give(trial.saved_model)
    now.came = loaded = yield wall.Loaded
    now.model = line.inbox.take_file()
    _add_tuned(trial)
    blend = load_blend(trial.spec.model)
    if loaded.tau is not None:
        now.blend = blend or Blend(1.0, 1.0, 1.0)
        for won in trial.winners:
            won.use, won.tau = "posterior", loaded.tau
    elif trial.assignment.is_blended(trial.learner) and blend is not None:
        for gallery in now.galleries:
            _begin_blend(trial, gallery, blend, _rows_of(trial, blend))
    yield from _score(trial, line)


def _rows_of(trial: Trial, blend: Blend) -> SealedItems:
    """Return the items as the baseline in the blend of a saved model gets them."""
    if blend.steps is None:
        return trial.fit.items
    return SealedItems(trial.items, trial.learner, "none", blend.steps)


def vote(trial: Trial, line: Line) -> Talk:
    """Receive the votes of the training items for the classes of test items; evaluate them."""
    now, findings = trial.fit, trial.findings
    yield from line.began(wall.VOTE)
    for file in (now.model, now.items.training, now.items.test):
        line.give(file)
    voted = yield wall.Voted
    if voted.reason is not None:
        findings.notes.append(voted.reason)
        for gallery in now.galleries:
            won = trial.winners[findings.places[gallery]]
            won.use, won.tau = "direct", None
        return
    seed, n_test = trial.assignment.seeds.blend, len(trial.items.test_rows)
    for gallery, sd in zip([*trial.taus], voted.sds, strict=True):
        won, tuned = trial.winners[findings.places[gallery]], findings.tuned[gallery]
        points = [(yield from line.points("test", n_test, voted.n_classes))]
        if gallery == "training":
            n_training = len(trial.items.train_rows)
            points.append((yield from line.points(gallery, n_training, voted.n_classes)))
        if trial.saved_model is None:
            rows = trial.sealed_in(won.baseline_scaling or won.scaling)
            steps = None if rows is now.items else tuple(rows.steps)
            sd_of_rows = sd_of_baseline(rows.training_rows, seed)
            blend = Blend(won.posterior_blend or 0.0, sd_of_rows, sd, steps)
            classes = trial.items.classes
        else:
            assert now.blend is not None
            blend, classes = now.blend, None
            rows = _rows_of(trial, blend)
        votes = Votes(points[0], points[-1], blend, classes)
        with task_at_work():
            findings.evaluator.add_votes(gallery, votes, rows, won.use == "posterior")
        findings.kept.add_votes(gallery, votes)
        tuned.use, tuned.tau, tuned.posterior_blend = won.use, won.tau, blend.weight
        tuned.baseline_sd, tuned.affinity_sd = blend.baseline_sd, blend.learned_sd
        tuned.baseline_scaling = won.baseline_scaling
        if won.use == "posterior" and findings.places[gallery] == 0:
            now.blend = blend


def _add_tuned(trial: Trial) -> None:
    """Add the rows of the tuned settings for the galleries of the current fit."""
    now, findings = trial.fit, trial.findings
    tuned = now.tuned.scaling, json.dumps(now.tuned.params), now.n_steps
    for gallery in now.galleries:
        by = trial.assignment.chooses_by[findings.places[gallery]]
        findings.tuned[gallery] = TunedRow(gallery, *by, *tuned)


def _begin_blend(trial: Trial, gallery: str, blend: Blend, rows: SealedItems) -> None:
    """Blend the scores that follow with those of the baseline on these rows."""
    findings, place = trial.findings, trial.findings.places[gallery]
    findings.evaluator.blend(gallery, blend, trial.learner, rows)
    tuned = findings.tuned[gallery]
    tuned.blend, tuned.baseline_scaling = blend.weight, trial.winners[place].baseline_scaling
    tuned.baseline_sd, tuned.learned_sd = blend.baseline_sd, blend.learned_sd
    if place == 0:
        trial.fit.blend = blend


def _score(trial: Trial, line: Line) -> Talk:
    """Receive the scores of all test items, and the time to compute them."""
    now, findings = trial.fit, trial.findings
    yield from line.began(wall.ANSWER)
    files = [now.items.test]  # before the clock: the first use of a file makes it
    if "training" in now.galleries:
        files.append(now.items.gallery)
    clock = line.clock()
    for file in files:
        line.give(file)
    for gallery in now.galleries:
        reader = findings.evaluator.readers[gallery]
        yield from line.scores(reader, clock, findings.kept.add_scores)
    queried = yield wall.Queried
    seconds, cpu_seconds = clock.charge(queried.seconds, queried.cpu_seconds)
    now.queried = seconds, cpu_seconds, len(trial.items.test_rows) * len(now.galleries)


def score_alone(trial: Trial, line: Line) -> Talk:
    """Receive the scores of some test items from a copy of the learner that has no others.

    If they are the same as before, no score depends on other test items.
    """
    now, evaluator = trial.fit, trial.findings.evaluator
    yield from line.began(wall.ANSWER)
    line.give(now.model)
    few = wall.seal_items(wall.Items(now.items.test_rows[evaluator.alone]))
    line.give(few)
    os.close(few)
    if "training" in now.galleries:
        line.give(now.items.gallery)
    alone = evaluator.readers_alone(now.galleries)
    for reader, _ in alone:
        yield from line.scores(reader)
    votes = {}
    if trial.taus:
        line.give(now.items.training)
        voted = yield wall.Voted
        for gallery in trial.taus:
            n_alone = len(evaluator.alone)
            votes[gallery] = yield from line.points("test", n_alone, voted.n_classes)
    try:
        evaluator.refuse_other_scores(alone)
        for gallery, points in votes.items():
            evaluator.refuse_other_votes(gallery, points)
    except ValueError as error:
        raise EndsTrialError(str(error)) from error


def replay(trial: Trial, line: Line) -> Talk:
    """Receive the scores at each checkpoint, for the traces."""
    now, traces = trial.fit, trial.findings.traces
    line.give(now.items.training)
    line.give(now.items.test)
    for n_steps in wall.checkpoints(trial.assignment.max_steps):
        if n_steps > (now.tuned.last_checkpoint or 0):
            break
        yield from line.began(wall.REPLAY)
        replayed = yield wall.Replayed
        if replayed.n_steps != n_steps:
            line.refuse(replayed)
        with task_at_work():
            parts = traces.parts()
        for _, reader, _ in parts:
            yield from line.scores(reader)
        with task_at_work():
            traces.add(replayed, parts)


def score_training_items(trial: Trial, line: Line) -> Talk:
    """Receive the scores among the training items, from a copy of the learner."""
    now, traces = trial.fit, trial.findings.traces
    yield from line.began(wall.REPLAY)
    line.give(now.model)
    line.give(now.items.gallery)
    with task_at_work():
        part = traces.of_training()
    yield from line.scores(part[1])
    with task_at_work():
        traces.of_fit = traces.value(part)
