"""Claims: effects measured in stored runs, and the verdicts that follow from them."""

import ast
import inspect
import json
import math
import re
from dataclasses import replace
from importlib import import_module
from itertools import product

import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trial, write_run
from scipy import stats

from oasis_bench.analysis import measure_name
from oasis_bench.claims import (
    CHANGES,
    CLAIMS,
    Claim,
    decide,
    experiments,
    measured_effects,
)
from oasis_bench.claims.claim import (
    gain,
    gap,
    growth,
    last_over_first,
    of_trials,
    on_curve,
    operations_of,
    saturation,
    stored_runs,
    times_as_long,
    training_gain,
    web_growth,
)
from oasis_bench.experiment import built_in_names, read_experiment
from oasis_bench.plugins import Registry
from oasis_bench.runs import read_run
from oasis_bench.sampling import RelevanceTripletSampler, seed_state

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


def claim_of(*effects, name="X1", experiments=("experiment",)):
    return Claim(name, "it is so", "here", experiments, effects)


def row_of(effect, runs):
    """Measure one effect in runs: the only row."""
    rows = measured_effects([claim_of(effect)], {"experiment": runs})
    assert len(rows) == 1
    return rows.iloc[0]


def test_a_gain_is_the_difference_on_each_partition(tmp_path):
    (found,) = gain("A", "B").measured(pair_of_learners(tmp_path))
    assert found.values.tolist() == pytest.approx(GAINS)
    assert found.rho == 250 / 650


def test_a_gain_without_one_of_the_learners_is_not_measured(tmp_path):
    runs = {"experiment": pair_of_learners(tmp_path)}
    claim = claim_of(gain("A", "C"))
    measured = measured_effects([claim], runs)
    assert measured["values"].tolist() == [0]
    verdicts, effects = decide([claim], measured)
    assert verdicts.loc["X1", "verdict"] == "not tested"
    assert effects.empty


@pytest.mark.parametrize(("above", "below"), [(0.0, math.inf), (-math.inf, 0.045), (0.03, 0.06)])
def test_the_p_value_is_that_of_the_corrected_one_sided_t_test(tmp_path, above, below):
    """A mean within two bounds: the larger of the p-values of each."""
    row = row_of(gain("A", "B", above, below), pair_of_learners(tmp_path))
    error = np.std(GAINS, ddof=1) * AN_OVERLAP
    t = [(np.mean(GAINS) - above) / error, (below - np.mean(GAINS)) / error]
    assert row["p_value"] == pytest.approx(max(stats.t.sf(t, 4)))
    assert row["low"] == pytest.approx(np.mean(GAINS) - stats.t.ppf(0.95, 4) * error)
    assert row["high"] == pytest.approx(np.mean(GAINS) + stats.t.ppf(0.95, 4) * error)


@pytest.mark.parametrize("gains", [(0.25, 0.2501, 0.25, 0.25), (0.25,) * 5])
def test_fewer_than_five_partitions_or_equal_ones_are_not_tested(tmp_path, gains):
    row = row_of(gain("A", "B"), pair_of_learners(tmp_path, gains))
    assert row[["low", "high", "p_value"]].isna().all()
    assert row["mean"] == pytest.approx(np.mean(gains))


def test_the_interval_of_a_gain_ends_at_one(tmp_path):
    gains = (0.5, -0.4, 0.5, -0.5, 0.5)
    row = row_of(gain("A", "B"), pair_of_learners(tmp_path, gains))
    half = stats.t.ppf(0.95, 4) * np.std(gains, ddof=1) * AN_OVERLAP
    assert np.mean(gains) + half > 1
    assert (row["low"], row["high"]) == (pytest.approx(np.mean(gains) - half), 1)


VERDICTS = [
    ([0.01, 0.05], "supported"),
    ([0.02, 0.2], "partly supported (1 of 2 effects)"),  # Holm: .04
    ([0.03, 0.2], "inconclusive"),  # Holm: .06
    ([0.01, 0.02, 0.2], "partly supported (2 of 3 effects)"),  # Holm: .03 and .04
    ([0.01, 0.976], "contradicted"),  # .024 against it, of .05 / 2
    ([0.01, 0.974], "partly supported (1 of 2 effects)"),
    ([0.01, math.nan], "partly supported (1 of 2 effects)"),
    ([math.nan, math.nan], "inconclusive"),
]


def rows_of(p_values, effects, name="X1"):
    return [
        {"id": name, "experiment": "experiment", "effect": effect.words, "p_value": p, "values": 5}
        for p, effect in zip(p_values, effects, strict=False)
    ]


@pytest.mark.parametrize(("p_values", "expected"), VERDICTS)
def test_a_verdict_follows_from_the_p_values(p_values, expected):
    effects = [gain("A", other) for other in "BCD"[: len(p_values)]]
    verdicts, found = decide([claim_of(*effects)], pd.DataFrame(rows_of(p_values, effects)))
    assert verdicts.loc["X1", "words"] == expected
    assert (found["outcome"] == "supported").sum() == verdicts.loc["X1", "n_supported"]
    largest = max(1 if math.isnan(p) else p for p in p_values)
    assert verdicts.loc["X1", "p_value"] == largest
    assert p_values[verdicts.loc["X1", "weakest"]] in (
        largest,
        pytest.approx(math.nan, nan_ok=True),
    )


def test_an_effect_that_no_run_shows_leaves_the_claim_untested_unless_another_contradicts_it():
    effects = gain("A", "B"), gain("A", "C")
    for p, expected in ((0.01, "not tested"), (0.99, "contradicted")):
        verdicts, _ = decide([claim_of(*effects)], pd.DataFrame(rows_of([p], effects)))
        assert verdicts.loc["X1", "verdict"] == expected
    assert (
        decide([claim_of(*effects)], pd.DataFrame(rows_of([0.01], effects)))[0]["q_value"]
        .isna()
        .all()
    )
    second = claim_of(effects[0], experiments=("experiment", "another"))
    verdicts, _ = decide([second], pd.DataFrame(rows_of([0.01], effects)))
    assert verdicts.loc["X1", "verdict"] == "not tested"
    rows = pd.DataFrame(rows_of([0.01, 0.01], [effects[0]] * 2))
    rows.loc[1, ["values", "p_value"]] = 0, math.nan  # a class subset without a value
    verdicts, measured = decide([claim_of(effects[0])], rows)
    assert verdicts.loc["X1", ["verdict", "n_effects"]].tolist() == ["not tested", 1]
    assert measured["outcome"].tolist() == ["supported"]


@pytest.mark.parametrize(
    ("p_values", "expected"),
    [
        ([0.2, 0.001], "inconclusive"),  # only the effect without a difference is significant
        ([0.001, 0.2], "partly supported (1 of 2 effects)"),
        ([0.001, 0.001], "supported"),
    ],
)
def test_a_claimed_difference_is_not_supported_by_an_effect_that_allows_none(p_values, expected):
    effects = gain("A", "B"), gain("A", "C", -0.02, 0.02)
    verdicts, _ = decide([claim_of(*effects)], pd.DataFrame(rows_of(p_values, effects)))
    assert verdicts.loc["X1", "words"] == expected


def test_a_described_effect_is_measured_and_decides_nothing(tmp_path):
    runs = {"experiment": pair_of_learners(tmp_path)}
    described = gain("B", "A", above=-math.inf)
    claim = replace(claim_of(gain("A", "B")), described=[described])
    measured = measured_effects([claim], runs)
    assert measured["effect"].tolist() == ["mAP of A minus that of B: above 0", described.what]
    assert measured["mean"].tolist() == pytest.approx([np.mean(GAINS), -np.mean(GAINS)])
    assert measured["p_value"].isna().tolist() == [False, True]
    verdicts, effects = decide([claim], measured)
    assert effects["outcome"].tolist() == ["supported", "described"]
    assert verdicts.loc["X1", ["words", "n_effects"]].tolist() == ["supported", 1]
    alone = replace(claim, effects=(), note="why")
    verdicts, effects = decide([alone], measured_effects([alone], runs))
    assert verdicts.loc["X1", "verdict"] == "not tested"
    assert effects["outcome"].tolist() == ["described"]


def test_q_values_are_those_of_benjamini_and_hochberg_over_the_tested_claims():
    """Of .01, .02, .03 and .5 with four tests: .04, .04, .04 and .5."""
    effect, p_values = gain("A", "B"), [0.02, 0.01, 0.5, 0.03]
    claims = [claim_of(effect, name=str(n)) for n in range(5)]
    rows = [row for n, p in enumerate(p_values) for row in rows_of([p], [effect], str(n))]
    verdicts, _ = decide(claims, pd.DataFrame(rows))
    assert verdicts["q_value"].tolist() == pytest.approx(
        [0.04, 0.04, 0.5, 0.04, math.nan], nan_ok=True
    )


def test_times_as_long_is_a_logarithm_of_seconds(tmp_path):
    trials = [
        fake_trial(learner, partition=number, fit_cpu_seconds=seconds)
        for number in range(3)
        for learner, seconds in (("slow", 20.0), ("fast", 0.2))
    ]
    runs = {"run": make_run(tmp_path, trials)}
    (found,) = times_as_long("slow", "fast", 0.0).measured(runs)
    assert found.values.tolist() == pytest.approx([2.0] * 3)
    assert found.rho == 0


def test_the_exponent_of_growth_is_that_of_the_power_law(tmp_path):
    runs = {
        str(n): make_run(
            tmp_path / str(n),
            [
                fake_trial("A", n_features=n, fit_cpu_seconds=0.01 * n**1.5, partition=p)
                for p in (0, 1)
            ],
        )
        for n in (10, 100, 1000)
    }
    (found,) = growth("A", "n_features").measured(runs)
    assert found.where == "10 to 1000"
    assert found.values.tolist() == pytest.approx([1.5, 1.5])


def test_operations_are_the_products_of_entries_of_the_sampled_triplets(tmp_path):
    """Counted here one by one, in outer products of dense rows."""
    run = make_run(tmp_path, [fake_trial("OASIS")])
    options = {"visterms": 400, "n_images": 300}
    e = replace(run.info.experiment, dataset="web-scale", dataset_options=options)
    found = operations_of(replace(run, info=replace(run.info, experiment=e)), 50)(3)
    rows = Registry.load().open_dataset("web-scale", options).load()
    sampler = RelevanceTripletSampler(rows.y, seed_state(3))
    X = rows.X.toarray()
    counts = [
        np.count_nonzero(np.outer(X[q], X[p])) + np.count_nonzero(np.outer(X[q], X[n]))
        for q, p, n in sampler.draw(50)
    ]
    assert found == pytest.approx(np.mean(counts))


def test_map_is_saturated_where_twice_the_steps_add_less_than_a_twentieth_of_the_gain():
    """From 100 steps on, 200 add a half; from 200 on, 400 add nothing: 5 % is at 9/10 between."""
    assert saturation({0: 0.1, 100: 0.3, 200: 0.4, 400: 0.4}) == pytest.approx(100 * 2**0.9)
    assert saturation({0: 0.1, 100: 0.3, 200: 0.3, 400: 0.4}) == pytest.approx(100)
    assert math.isnan(saturation({0: 0.1, 100: 0.3, 200: 0.4, 400: 0.5}))  # 400 is not known
    assert saturation({0: 0.1, 50: 0.0, 100: 0.3, 150: 0.9, 200: 0.3}) == pytest.approx(100)


def test_the_exponents_of_trainings_are_those_of_their_seed(tmp_path):
    """Seconds a step are n^.5 and, for seed 1, n; mAP is saturated after 2n^2 steps."""
    for seed, n in product((0, 1), (10, 100, 1000)):
        values = {0: 0.1, n * n: 0.2, 2 * n * n: 0.3, 4 * n * n: 0.3}
        points = [
            {"n_steps": steps, "cpu_seconds": steps * n ** (0.5 + seed / 2)}
            | {"mean_average_precision": value, "n_updates": 0, "learn_seconds": 0.0}
            | {"standard_error": 0.0, "precision_at": {}, "n_queries": 1, "peak_bytes": None}
            for steps, value in values.items()
        ]
        training = {"n_images": n, "n_steps": 4 * n * n, "batch_size": None, "seed": seed}
        record = {"data": {}, "training": training, "n_threads": 1, "checkpoints": points}
        path = tmp_path / "web-scale" / f"images-{n}.seed-{seed}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**record, "provenance": {}, "version": 1}))
    batches = {**training, "batch_size": 64, "seed": 0}  # it is no training of OASIS
    other = {**record, "training": batches, "provenance": {}, "version": 1}
    (path.parent / "batch-64.json").write_text(json.dumps(other))
    runs, left_out = stored_runs(tmp_path)
    for of, expected in (
        ("CPU seconds of a step", [0.5, 1.0]),
        ("steps to saturation", [2.0, 2.0]),
    ):
        for least in (1, 100):
            (found,) = web_growth(of, least=least).measured(runs["web-scale"])
            assert found.values.tolist() == pytest.approx(expected)
    record["checkpoints"] = points[:-1]
    path.write_text(json.dumps({**record, "provenance": {}, "version": 1}))
    runs, left_out = stored_runs(tmp_path)
    assert (runs, left_out) == ({}, {"web-scale": "not finished"})


def test_a_number_on_a_curve_is_of_each_partition_whose_curve_has_it(tmp_path):
    """Traces of a made-up trial rise to its mAP at 4000 steps, training items 0.1 above."""
    trials = [fake_trial("OASIS", partition=p, mAP=0.5 + p / 10, n_steps=4000) for p in range(2)]
    runs = {"run": make_run(tmp_path, trials)}
    last = on_curve("train", lambda steps, values: values[steps == 4000].item(), "the last", 0.0)
    (found,) = last.measured(runs)
    assert found.values.tolist() == pytest.approx([0.6, 0.7])
    high = on_curve("test", lambda _, values: values[-1] if values[-1] > 0.55 else math.nan, "", 0)
    (found,) = high.measured(runs)
    assert found.values.index.tolist() == [1]


def test_a_gain_grows_partition_by_partition_where_one_failed(tmp_path):
    first = pair_of_learners(tmp_path / "5", (0.01, 0.02, 0.03))["run"]
    trials = [
        fake_trial(learner, partition=number, mAP=0.5 + (gain if learner == "A" else 0))
        for number, gain in ((0, 0.05), (2, 0.09))
        for learner in "AB"
    ]
    last = make_run(tmp_path / "15", trials)
    (found,) = last_over_first(gain("A", "B")).measured({"5": first, "15": last})
    assert found.values.to_dict() == pytest.approx({0: 0.04, 2: 0.06})


def test_effects_of_no_partition_in_common_are_none(tmp_path):
    zero, one = (
        make_run(tmp_path / name, [fake_trial(learner, partition=p) for learner in ("A", other)])
        for p, other, name in ((0, "B", "zero"), (1, "B", "one"))
    )
    apart = {"5": zero, "15": one}
    assert not any(len(it.values) for it in last_over_first(gain("A", "B")).measured(apart))


def test_a_column_is_that_of_the_learners_trials(tmp_path):
    trials = [fake_trial("A", partition=p, symmetry_index=0.9 + p / 100) for p in range(3)]
    (found,) = of_trials("A", "symmetry_index", "the index", 0.0).measured(
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
    training = training_gain("A", "B", 0.0)
    assert next(training.measured(runs)).values.tolist() == pytest.approx([0.3, 0.12])
    (found,) = gap("A", "B").measured(runs)
    assert found.values.tolist() == pytest.approx([0.2, 0.08])
    assert found.rho == 250 / 650
    (gaps,) = of_trials("B", "gap_", "gap", 0.0).measured(runs)
    assert gaps.values.tolist() == [0, 1]


def test_a_relative_gain_grows_from_the_first_class_subset_to_the_last(tmp_path):
    values = {"easy": (0.8, 0.4), "hard": (0.3, 0.1)}
    trials = [
        fake_trial(learner, subset=subset, partition=number, mAP=value)
        for subset, pair in values.items()
        for learner, value in zip("AB", pair, strict=True)
        for number in range(2)
    ]
    runs = {"run": make_run(tmp_path, trials)}
    (found,) = last_over_first(gain("A", "B", relative=True)).measured(runs)
    assert found.values.tolist() == pytest.approx([math.log(3 / 2)] * 2)


def test_a_gain_that_grows_has_the_overlap_of_the_part_that_overlaps_more(tmp_path):
    """10 and 20 classes of 40 and 25: 25/40 in both.  5 pictures a class in place of 40: 5."""
    trials = [
        fake_trial(learner, n, number, 0.5 + number / 100)
        for n in (10, 20)
        for learner in "AB"
        for number in range(2)
    ]
    (found,) = last_over_first(gain("A", "B")).measured({"run": make_run(tmp_path / "a", trials)})
    assert found.rho == 25 / 65
    few = pair_of_learners(tmp_path / "few", (0.01, 0.02), n_train=50)["run"]
    many = pair_of_learners(tmp_path / "many", (0.05, 0.04))["run"]
    for runs in ({"5": few, "40": many}, {"40": many, "5": few}):
        (found,) = last_over_first(gain("A", "B")).measured(runs)
        assert found.rho == 250 / 300


def test_each_claim_has_an_id_of_its_own_and_experiments_that_exist():
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    assert set(experiments()) <= set(built_in_names())
    changed = {name for it in CHANGES for name in re.findall(r"[A-Z]\d+", it["claims"])}
    assert changed <= {claim.id for claim in CLAIMS}
    assert all(claim.effects or claim.note for claim in CLAIMS)  # the note says why there is none


LABEL = r"(?:'(.+?)'|(\w+(?:-\d)?))"
WORDS = re.compile(
    r"(?:increase of )?\(?(?:log of )?(?P<measure>[\w' ]+) of "
    rf"{LABEL} (?:minus that|over that) of {LABEL}(?!\w)"
    rf"|.* a fit of {LABEL} over those of {LABEL}(?!\w)|.* a (?:fit|step) of {LABEL} over"
    rf"|accuracy of {LABEL} "
)


@pytest.mark.parametrize("name", experiments())
def test_an_experiment_has_the_learners_and_the_measures_of_its_claims(name):
    e, tasks = read_experiment(name), Registry.load().tasks
    measures = {
        measure_name(one, k)
        for kind in (tasks[task] for task in e.tasks)
        for one in kind.measures
        for k in kind.ks.get(one, (math.nan,))
    }
    own = [it.what for claim in CLAIMS if name in claim.experiments for it in claim.measured]
    found = [match for what in own if (match := WORDS.match(what))]
    assert len(found) >= len(own) - 3  # numbers on curves, and of W, name no pair of learners
    for match in found:
        measure, *labels = match.groups()
        assert measure in {None, "training mAP", "gap of mAP between training and test", *measures}
        assert {label for label in labels if label} <= set(e.learners)


BY_FROME = "mean recognition by Frome's rule"


@pytest.mark.parametrize(
    ("module", "named"),
    [
        ("claims.claim", {"accuracy", BY_FROME, "similarity precision"}),
        ("claims.paper_figures", {"accuracy", BY_FROME}),
        ("reports.claims_page", {"similarity precision"}),
    ],
)
def test_measures_that_claims_select_by_name_are_measures_of_tasks(module, named):
    tasks = Registry.load().tasks
    measures = {*tasks["classification"].measures, *tasks["judged-triplets"].measures}
    code = ast.walk(ast.parse(inspect.getsource(import_module(f"oasis_bench.{module}"))))
    texts = {node.value for node in code if isinstance(node, ast.Constant)}
    assert named <= texts & measures
