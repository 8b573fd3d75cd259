"""Claims: effects measured in stored runs, and the verdicts that follow from them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from fake_runs import fake_trial, write_run
from scipy import stats

from oasis_bench.analysis import measure_name
from oasis_bench.claims import CLAIMS, decide, experiments
from oasis_bench.claims.claim import Claim, Condition
from oasis_bench.claims.effects import (
    Column,
    Difference,
    FitNumber,
    Gain,
    GainOfLastOverFirst,
    Growth,
    Measured,
    OnCurve,
    TimesAsLong,
    TrainingGain,
)
from oasis_bench.experiment import Experiment, built_in_experiments
from oasis_bench.plugins import load_registry
from oasis_bench.runs import read_run

GAINS = (0.05, 0.06, 0.04, 0.055, 0.045)
AN_OVERLAP = math.sqrt(1 / 5 + 250 / 400)


def make_run(folder, trials):
    return read_run(write_run(folder / "run", trials))


def pair_of_learners(folder, gains=GAINS, **columns):
    trials = [
        fake_trial(learner, partition=number, mAP=0.5 + (gain if learner == "A" else 0), **columns)
        for number, gain in enumerate(gains)
        for learner in "AB"
    ]
    return {"run": make_run(folder, trials)}


def judged(conditions, runs, others=0):
    """Judge one claim among `others` of the same conditions, which it is corrected for.

    The level is 0.1, so that each of two directions has 0.05.
    """
    where = "here", ["experiment"]
    claims = [Claim(str(n), "it is so", *where, conditions) for n in range(1 + others)]
    return decide(claims, {"experiment": runs}, level=0.1)[0]


def gain(above=-math.inf, below=math.inf):
    return Condition(Gain("A", "B"), above, below)


def test_a_gain_is_the_difference_on_each_partition(tmp_path):
    (found,) = Gain("A", "B").measured(pair_of_learners(tmp_path))
    assert found.values.tolist() == pytest.approx(GAINS)
    assert found.rho == 250 / 650


def test_a_gain_without_one_of_the_learners_is_not_measured(tmp_path):
    assert not list(Gain("A", "C").measured(pair_of_learners(tmp_path)))


@pytest.mark.parametrize("others", [0, 4])
@pytest.mark.parametrize("bound", [0.0, 0.02, 0.03, 0.045, 0.055, 0.1])
def test_the_verdict_is_that_of_the_corrected_one_sided_t_test(tmp_path, bound, others):
    """At level 0.05 over the number of claims; out of bounds likewise, of one finding."""
    found = judged([gain(above=bound)], pair_of_learners(tmp_path), others)
    t = (np.mean(GAINS) - bound) / (np.std(GAINS, ddof=1) * AN_OVERLAP)
    level = 0.05 / (1 + others)
    expected = (
        "holds"
        if stats.t.sf(t, 4) <= level
        else "does not hold"
        if stats.t.cdf(t, 4) <= level
        else "cannot be told"
    )
    assert found.outcome == expected


def test_an_interval_leaves_out_the_bound_where_the_condition_holds(tmp_path):
    """Its ends are those of two one-sided tests at the level of the claim."""
    (finding,) = judged([gain(above=0.0)], pair_of_learners(tmp_path), others=4).findings
    half = stats.t.ppf(1 - 0.05 / 5, 4) * np.std(GAINS, ddof=1) * AN_OVERLAP
    assert finding.interval.low == pytest.approx(np.mean(GAINS) - half)
    assert finding.interval.high == pytest.approx(np.mean(GAINS) + half)


def test_between_two_bounds_both_must_be_told(tmp_path):
    runs = pair_of_learners(tmp_path)
    assert judged([gain(0.0, 0.1)], runs).outcome == "holds"
    assert judged([gain(0.0, 0.04)], runs).outcome == "cannot be told"
    assert judged([gain(0.06, 0.1)], runs).outcome == "cannot be told"
    assert judged([gain(-0.1, 0.0)], runs).outcome == "does not hold"


def test_two_partitions_tell_nothing_even_where_they_are_equal(tmp_path):
    near = 0.25, 0.2501, 0.25
    assert judged([gain(above=0)], pair_of_learners(tmp_path / "3", near)).outcome == "holds"
    two = judged([gain(above=0)], pair_of_learners(tmp_path / "2", near[:2]))
    assert two.outcome == "cannot be told"


@pytest.mark.parametrize("value", [0.0, 0.25])
def test_equal_partitions_tell_nothing_however_many(tmp_path, value):
    runs = pair_of_learners(tmp_path, (value,) * 5)
    for bound in (-1.0, 0.2, 1.0):
        (finding,) = judged([gain(above=bound)], runs).findings
        assert (finding.outcome, finding.needed) == ("cannot be told", None)
        assert math.isnan(finding.interval.low)


def test_the_interval_of_a_gain_ends_at_one(tmp_path):
    (finding,) = judged([gain(above=0)], pair_of_learners(tmp_path, (0.1, 0.4)), others=20).findings
    assert (finding.interval.low, finding.interval.high) == (-1, 1)


def test_a_claim_holds_where_all_its_conditions_do(tmp_path):
    runs = pair_of_learners(tmp_path)
    assert judged([gain(above=0), gain(above=0.01)], runs).outcome == "holds"
    assert judged([gain(above=0), gain(above=0.2)], runs).outcome == "does not hold"
    assert judged([gain(above=0), gain(above=0.05)], runs).outcome == "cannot be told"


def test_a_condition_that_no_run_shows_leaves_the_claim_untested(tmp_path):
    other = Condition(Gain("A", "C"), above=0.0)
    verdict = judged([gain(above=0), other], pair_of_learners(tmp_path))
    assert (verdict.outcome, verdict.unmeasured) == ("not tested", [("experiment", other)])
    assert judged([gain(above=0)], {}).outcome == "not tested"


def test_a_claim_without_conditions_says_why():
    with pytest.raises(ValueError, match="claim X1 has no conditions: its note must say why"):
        Claim("X1", "it is so", "here")


def test_what_cannot_be_told_says_how_many_partitions_would(tmp_path):
    """With 15 the least difference that is told is below the one found, with 10 it is not."""
    gains = (0.05, -0.03, 0.06, 0.01, 0.02)
    runs = pair_of_learners(tmp_path, gains, n_test=4)  # hardly any overlap
    (finding,) = judged([gain(above=0.0)], runs).findings
    assert finding.outcome == "cannot be told"

    def power(n):
        """Of the one-sided test by simulation: differences are normal, and share what overlaps."""
        rng, sd = np.random.default_rng(0), np.std(gains, ddof=1)
        draws = rng.normal(np.mean(gains), sd, (20_000, n))
        draws += rng.normal(0, sd * math.sqrt(4 / 400), (20_000, 1))
        t = draws.mean(axis=1) / (draws.std(axis=1, ddof=1) * math.sqrt(1 / n + 4 / 400))
        return (stats.t.sf(t, n - 1) <= 0.05).mean()

    assert finding.needed == next(n for n in (10, 15, 20, 30) if power(n) >= 0.8)


def test_a_claim_on_two_experiments_holds_where_both_show_it(tmp_path):
    found, none = (
        pair_of_learners(tmp_path / "found"),
        pair_of_learners(tmp_path / "none", (0,) * 5),
    )
    claim = Claim("1", "it is so", "here", ["first", "second"], [gain(above=0)])
    for second, outcome in ((found, "holds"), (none, "cannot be told"), ({}, "not tested")):
        (verdict,) = decide([claim], {"first": found, "second": second}, level=0.1)
        assert verdict.outcome == outcome


def test_each_condition_says_for_itself_how_many_partitions_would_tell(tmp_path):
    """5 partitions of mean .022 and deviation .036, with 400 training and 4 test items.

    n partitions tell with probability .8 what is about (1.64 + .84) sqrt(1 / n + .01) deviations
    away: .53 of 30, .44 of 50, .25 of any number.  The bounds 0, .006 and .02 are .62, .45 and .06
    deviations away.
    """
    runs = pair_of_learners(tmp_path, (0.05, -0.03, 0.06, 0.01, 0.02), n_test=4)
    verdict = judged([gain(above=bound) for bound in (0.0, 0.006, 0.02)], runs)
    assert [one.needed for one in verdict.findings] == [30, 50, None]


def test_no_number_of_partitions_tells_what_their_overlap_hides(tmp_path):
    runs = pair_of_learners(tmp_path, (0.05, -0.04, 0.06, -0.03, 0.01))
    (finding,) = judged([gain(above=0.0)], runs).findings
    assert (finding.outcome, finding.needed) == ("cannot be told", None)


def test_times_as_long_is_a_logarithm_of_seconds(tmp_path):
    trials = [
        fake_trial(learner, partition=number, fit_cpu_seconds=seconds)
        for number in range(3)
        for learner, seconds in (("slow", 20.0), ("fast", 0.2))
    ]
    runs = {"run": make_run(tmp_path, trials)}
    (found,) = TimesAsLong("slow", "fast").measured(runs)
    assert found.values.tolist() == pytest.approx([2.0] * 3)
    assert found.rho == 0


def test_the_exponent_of_growth_is_that_of_the_power_law(tmp_path):
    runs = {
        str(n): make_run(
            tmp_path / str(n),
            [
                fake_trial("A", n_train=n, fit_cpu_seconds=0.01 * n**1.5, partition=p)
                for p in (0, 1)
            ],
        )
        for n in (10, 100, 1000)
    }
    (found,) = Growth("A", "n_train").measured(runs)
    assert found.values.tolist() == pytest.approx([1.5, 1.5])


def test_a_number_on_a_curve_is_of_each_partition(tmp_path):
    """Traces of a made-up trial rise to its mAP at 4000 steps, training items 0.1 above."""
    trials = [fake_trial("A", partition=p, mAP=0.5 + p / 10, n_steps=4000) for p in range(2)]
    runs = {"run": make_run(tmp_path, trials)}
    last = OnCurve("A", "train", lambda steps, values: values[steps == 4000].item(), "the last")
    (found,) = last.measured(runs)
    assert found.values.tolist() == pytest.approx([0.6, 0.7])


def test_a_curve_that_ends_too_early_is_left_out(tmp_path):
    trials = [fake_trial("A", partition=p, mAP=0.5 + p / 10, n_steps=4000) for p in range(2)]
    runs = {"run": make_run(tmp_path, trials)}
    late = OnCurve(
        "A", "test", lambda steps, values: values[-1] if values[-1] > 0.55 else math.nan, ""
    )
    (found,) = late.measured(runs)
    assert found.values.index.tolist() == [1]
    assert not list(OnCurve("A", "test", lambda steps, values: math.nan, "").measured(runs))


def test_a_gain_grows_partition_by_partition_where_one_failed(tmp_path):
    first = pair_of_learners(tmp_path / "5", (0.01, 0.02, 0.03))["run"]
    trials = [
        fake_trial(learner, partition=number, mAP=0.5 + (gain if learner == "A" else 0))
        for number, gain in ((0, 0.05), (2, 0.09))
        for learner in "AB"
    ]
    last = make_run(tmp_path / "15", trials)
    (found,) = GainOfLastOverFirst(Gain("A", "B")).measured({"5": first, "15": last})
    assert found.values.to_dict() == pytest.approx({0: 0.04, 2: 0.06})


def test_effects_of_no_partition_in_common_are_none(tmp_path):
    zero, one = (
        make_run(tmp_path / name, [fake_trial(learner, partition=p) for learner in ("A", other)])
        for p, other, name in ((0, "B", "zero"), (1, "B", "one"))
    )
    assert not list(GainOfLastOverFirst(Gain("A", "B")).measured({"5": zero, "15": one}))
    both = (("A", 0), ("B", 0), ("A", 1), ("C", 1))
    trials = [fake_trial(learner, partition=p) for learner, p in both]
    run = make_run(tmp_path / "both", trials)
    assert not list(Difference(Gain("A", "B"), Gain("A", "C")).measured({"run": run}))


def test_a_column_is_that_of_the_learners_trials(tmp_path):
    trials = [fake_trial("A", partition=p, symmetry_index=0.9 + p / 100) for p in range(3)]
    (found,) = Column("A", "symmetry_index", "the index").measured(
        {"run": make_run(tmp_path, [*trials, fake_trial("B", symmetry_index=0.1)])}
    )
    assert found.values.tolist() == pytest.approx([0.9, 0.91, 0.92])


def test_what_is_gained_on_training_items_beyond_test_items(tmp_path):
    trials = [
        replace(
            fake_trial(learner, partition=number, mAP=0.5 + gain),
            fit_numbers=[
                {"name": "training", "value": 0.7 + 3 * gain},
                {"name": "gap_", "value": number},
            ],
        )
        for number, gains in enumerate([(0.1, 0.0), (0.05, 0.01)])
        for learner, gain in zip("AB", gains, strict=True)
    ]
    runs = {"run": make_run(tmp_path, trials)}
    training = TrainingGain("A", "B")
    assert next(training.measured(runs)).values.tolist() == pytest.approx([0.3, 0.12])
    (found,) = Difference(training, Gain("A", "B")).measured(runs)
    assert found.values.tolist() == pytest.approx([0.2, 0.08])
    assert found.rho == 250 / 650
    (gap,) = FitNumber("B", "gap_", "gap").measured(runs)
    assert gap.values.tolist() == [0, 1]
    assert not list(Difference(training, Gain("A", "C")).measured(runs))


def test_a_gain_grows_from_the_first_run_to_the_last(tmp_path):
    runs = {
        "5": pair_of_learners(tmp_path / "5", (0.01, 0.02))["run"],
        "15": pair_of_learners(tmp_path / "15", (0.05, 0.04))["run"],
    }
    (found,) = GainOfLastOverFirst(Gain("A", "B")).measured(runs)
    assert isinstance(found, Measured)
    assert found.values.tolist() == pytest.approx([0.04, 0.02])


def test_a_relative_gain_grows_from_the_first_class_subset_to_the_last(tmp_path):
    values = {"easy": (0.8, 0.4), "hard": (0.3, 0.1)}
    trials = [
        fake_trial(learner, subset=subset, partition=number, mAP=value)
        for subset, pair in values.items()
        for learner, value in zip("AB", pair, strict=True)
        for number in range(2)
    ]
    runs = {"run": make_run(tmp_path, trials)}
    (found,) = GainOfLastOverFirst(Gain("A", "B", relative=True)).measured(runs)
    assert found.values.tolist() == pytest.approx([math.log(3 / 2)] * 2)


def test_a_gain_that_grows_has_the_overlap_of_the_part_that_overlaps_more(tmp_path):
    """10 and 20 classes of 40 and 25: 25/40 in both.  5 pictures a class in place of 40: 5."""
    trials = [
        fake_trial(learner, n, number, 0.5 + number / 100)
        for n in (10, 20)
        for learner in "AB"
        for number in range(2)
    ]
    (found,) = GainOfLastOverFirst(Gain("A", "B")).measured(
        {"run": make_run(tmp_path / "a", trials)}
    )
    assert found.rho == 25 / 65
    few = pair_of_learners(tmp_path / "few", (0.01, 0.02), n_train=50)["run"]
    many = pair_of_learners(tmp_path / "many", (0.05, 0.04))["run"]
    for runs in ({"5": few, "40": many}, {"40": many, "5": few}):
        (found,) = GainOfLastOverFirst(Gain("A", "B")).measured(runs)
        assert found.rho == 250 / 300


def test_each_claim_has_an_id_of_its_own_and_experiments_that_exist():
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    assert set(experiments()) <= set(built_in_experiments())


MEASURES = [
    (claim.id, experiment, effect.task, effect.measure)
    for claim in CLAIMS
    for experiment in claim.experiments
    for condition in claim.conditions
    if hasattr(effect := getattr(condition.effect, "gain", condition.effect), "measure")
]


@pytest.mark.parametrize(("claim", "experiment", "task", "measure"), MEASURES)
def test_a_measure_of_a_claim_is_one_of_a_task_of_its_experiment(claim, experiment, task, measure):
    assert task in Experiment.from_toml(experiment).tasks
    kind = load_registry().tasks[task]
    assert measure in [
        measure_name(name, k) for name in kind.measures for k in kind.ks.get(name, (math.nan,))
    ]


LABELS = [
    (claim.id, experiment, label)
    for claim in CLAIMS
    for experiment in claim.experiments
    for condition in claim.conditions
    for field in ("first", "second", "slow", "fast", "learner")
    if (label := getattr(getattr(condition.effect, "gain", condition.effect), field, None))
]


@pytest.mark.parametrize(("claim", "experiment", "label"), LABELS)
def test_learners_of_a_claim_are_those_of_its_experiment(claim, experiment, label):
    assert label in Experiment.from_toml(experiment).learners
