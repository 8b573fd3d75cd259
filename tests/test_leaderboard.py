"""Learners over corpora: hand cases, SciPy's tests and bootstrap, and the page of `ranks`."""

import json
import math
import re
from dataclasses import asdict
from itertools import chain

import fake_runs
import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trial, fake_trials
from PIL import Image
from scipy import stats

from oasis_bench.analysis import (
    Leaderboard,
    best_elsewhere,
    bootstrap_intervals,
    domains_of,
    p_values_against,
    rule_gains,
)
from oasis_bench.command_line import main
from oasis_bench.experiment import LearnerSpec, read_experiment
from oasis_bench.reports.leaderboard import sentences, standing_table

NAN = math.nan


def cells_of(scores, **columns):
    """Make the cells of corpora, one of each, from a dict from learners to their scores."""
    rows = [
        {"corpus": f"c{place:02}", "cell": f"c{place:02}", "learner": name, "score": score}
        | {"seconds": 1.0}
        | {key: values[place] for key, values in columns.items()}
        for name, own in scores.items()
        for place, score in enumerate(own)
    ]
    return pd.DataFrame(rows)


def test_the_reference_is_the_baseline_used_directly():
    cells = cells_of({"Euclidean": [0.8, 0.6], "A": [0.75, 0.9]}, direct=[0.5, 0.6])
    saved = Leaderboard.of(cells, "Euclidean").saved  # of the errors .5 and .4
    assert saved["Euclidean"].tolist() == pytest.approx([0.6, 0.0])
    assert saved["A"].tolist() == pytest.approx([0.5, 0.75])


def test_what_a_learner_saves_in_each_use_by_hand():
    cells = cells_of(
        {"Euclidean": [0.6, 0.5, 0.5], "A": [0.75, 0.6, NAN], "B": [0.6, 0.6, 0.6]},
        direct=[0.5, 0.5, 0.5],  # of Euclidean, and so the reference
        posterior=[0.6, 0.4, 0.9],
    )
    cells.loc[cells["learner"] == "A", "direct"] = 0.75
    cells.loc[cells["learner"] == "B", "posterior"] = NAN  # it is not offered
    board = Leaderboard.of(cells, "Euclidean")
    direct = board.of_use("direct").median().to_dict()
    assert direct == pytest.approx({"A": 0.5, "B": 0, "Euclidean": 0})
    # A saves .2 and -.2, and has no result on the third; Euclidean .2, -.2 and .8.
    posterior = {"A": 0.0, "B": NAN, "Euclidean": 0.2}
    found = board.of_use("posterior").median().to_dict()
    assert found == pytest.approx(posterior, nan_ok=True)


def test_who_saves_less_than_the_baseline_by_its_labels_is_not_better():
    """Of the error .5 Euclidean saves 60 % by votes, A 20 to 31 % and B 80 to 91 %."""
    places = range(12)
    scores = {"A": [0.6 + it / 200 for it in places], "B": [0.9 + it / 200 for it in places]}
    cells = cells_of({"Euclidean": [0.8] * 12, **scores}, direct=[0.5] * 12)
    board = Leaderboard.of(cells.assign(task="retrieval", name="mAP"), "Euclidean")
    assert (board.learners.loc[["A", "B"], "p_baseline"] < 0.05).all()
    assert " B is significantly better than Euclidean. " in f" {' '.join(sentences(board))}"


def test_error_reductions_and_ranks_by_hand():
    found = Leaderboard.of(
        cells_of(
            {
                "Euclidean": [0.5, 0.8, 0.6, 0.5, 0.9, 1.0, NAN],
                "A": [0.75, 0.9, 0.7, 0.25, 0.9, 0.9, 0.9],  # saves .5, .5, .25, -.5, 0
                "B": [0.6, 0.85, 0.68, 0.6, 0.8, 1.0, 0.9],  # saves .2, .25, .2, .2, -1
            }
        ),
        "Euclidean",
    )
    assert found.corpora == ["c00", "c01", "c02", "c03", "c04"]  # others: no error, no result
    rows = found.learners
    assert rows["error_reduction"].to_dict() == pytest.approx({"A": 0.25, "B": 0.2, "Euclidean": 0})
    assert rows["error_reduction_mean"].to_dict() == pytest.approx(
        {"A": 0.75 / 5, "B": -0.15 / 5, "Euclidean": 0}
    )
    assert rows["ranked"].all()
    # Of A 1, 1, 1, 3, 1.5; of B 2, 2, 2, 1, 3; of Euclidean 3, 3, 3, 2, 1.5.
    assert rows["average_rank"].to_dict() == pytest.approx({"A": 1.5, "B": 2, "Euclidean": 2.5})
    assert found.ranked == ["A", "B", "Euclidean"]
    assert rows["error_reduction_low"].isna().all()  # five corpora are too few for an interval


def test_a_corpus_counts_once_whatever_its_cells():
    names = {"Euclidean": [0.5, 0.6, 0.5], "A": [0.75, 0.7, 0.5]}
    cells = cells_of(names).assign(corpus=["x", "x", "y"] * 2)
    found = Leaderboard.of(cells, "Euclidean").learners.loc["A"]
    assert found["error_reduction_mean"] == pytest.approx(((0.5 + 0.25) / 2 + 0) / 2)
    # Who was not run in a cell of a corpus is judged by the others; for who failed, one stands in.
    untried = cells[(cells["learner"] != "A") | (cells["cell"] != "c01")]
    found = Leaderboard.of(untried, "Euclidean").learners.loc["A"]
    assert (found["error_reduction_mean"], found["stand_ins"]) == (pytest.approx(0.5 / 2), 0)
    failed = cells.assign(score=cells["score"].where(cells["cell"] != "c01", NAN))
    failed.loc[failed["learner"] == "Euclidean", "score"] = names["Euclidean"]
    found = Leaderboard.of(failed, "Euclidean").learners.loc["A"]
    assert (found["stand_ins"], found["ranked"]) == (1, False)


@pytest.mark.parametrize(("lowest", "stand_in"), [(0.6, -0.01), (0.3, -0.4), (-0.2, -1)])
def test_a_learner_without_a_result_is_last_and_loses_at_least_a_point(lowest, stand_in):
    """A saves .2 everywhere but on the last corpus, where B has no result; Euclidean saves 0."""
    scores = {"Euclidean": [0.5] * 20, "A": [0.6] * 19 + [lowest], "B": [0.7] * 19 + [NAN]}
    found = Leaderboard.of(cells_of(scores), "Euclidean")
    assert found.saved.loc["c19", "B"] == pytest.approx(stand_in)
    row = found.learners.loc["B"]
    assert (row["ranked"], row["stand_ins"], row["average_rank"]) == (True, 1, 22 / 20)
    assert row["error_reduction_mean"] == pytest.approx((19 * 0.4 + stand_in) / 20)
    of_b = [0.4] * 19 + [stand_in]
    exact = max(stats.wilcoxon(of_b).pvalue, stats.ttest_1samp(of_b, 0).pvalue)
    assert exact <= row["p_baseline"] <= 2.001 * exact  # Holm, for two learners


def test_stand_ins_on_more_than_one_corpus_in_twenty_take_the_rank():
    rng = np.random.default_rng(0)
    scores = {name: 0.5 + 0.4 * rng.random(20) for name in ("Euclidean", "A", "B")}
    scores["A"][0] = scores["B"][1] = scores["B"][2] = NAN
    scores["B"][0] = 0.99  # so that the value that stands in for A is not that of B
    cells = cells_of(scores)
    rows = Leaderboard.of(cells, "Euclidean").learners
    assert rows["ranked"].to_dict() == {"A": True, "B": False, "Euclidean": True}
    assert rows.index[-1] == "B"
    assert rows.loc["B", ["average_rank", "p_baseline", "error_reduction_low"]].isna().all()
    own = 1 - (1 - scores["B"]) / (1 - scores["Euclidean"])
    assert rows.loc["B", "error_reduction"] == pytest.approx(np.nanmedian(own))
    without = Leaderboard.of(cells[cells["learner"] != "B"], "Euclidean").learners
    pd.testing.assert_frame_equal(rows.loc[without.index], without)


def test_the_interval_of_the_median_is_scipys():
    rng = np.random.default_rng(1)
    saved = rng.normal(0.1, 0.2, 41)
    cells = cells_of({"Euclidean": np.full(41, 0.5), "A": 0.5 + 0.5 * saved})
    row = Leaderboard.of(cells, "Euclidean").learners.loc["A"]
    theirs = stats.bootstrap([saved], np.median, method="percentile", rng=rng).confidence_interval
    ends = row[["error_reduction_low", "error_reduction_high"]].tolist()
    assert ends == pytest.approx(list(theirs), abs=0.02)


def test_p_values_against_one_learner_are_exact_and_corrected_by_holm():
    scores = pd.DataFrame(np.random.default_rng(3).random((8, 4)), columns=list("abcd"))
    scores["a"] += [0.5, 0.1, 0.9, 0.2, 0.4, 0.7, 0.3, 0.6]

    def exact(name):
        differences = (scores["a"] - scores[name]).to_numpy()
        ranks = stats.rankdata(abs(differences))
        signs = np.array(np.meshgrid(*[[-1, 1]] * 8)).reshape(8, -1)
        signed = np.mean(abs(signs.T @ ranks) >= abs(np.sign(differences) @ ranks) - 1e-9)
        return max(signed, stats.ttest_1samp(differences, 0).pvalue)  # each is its own domain

    ordered = sorted("bcd", key=exact)
    steps = np.maximum.accumulate([3, 2, 1] * np.array([exact(name) for name in ordered]))
    found = p_values_against(scores, "a")[ordered]
    assert found.tolist() == pytest.approx(np.minimum(steps, 1))


MEDICINE = ["keel bupa", "keel pima", "keel thyroid", "keel wdbc"]
ARTIFICIAL = ["keel banana", "keel ring", "keel twonorm", "keel led7digit"]


def test_many_corpora_of_few_domains_are_no_proof():
    """Signed ranks alone find a gain on ten corpora: p is 2 ** -9."""
    domains = {"medicine": MEDICINE, "artificial": ARTIFICIAL, "digits": ["digits", "mnist"]}
    gains = {"medicine": [0.1, 0.2, 0.15, 0.25], "artificial": [0.01] * 4, "digits": [0.6, 0.5]}
    values = pd.Series([*chain(*gains.values())], [*chain(*domains.values())])
    assert domains_of(values.index) == [name for name, own in domains.items() for _ in own]
    scores = pd.DataFrame({"A": values, "B": 0.0})
    means = [np.mean(own) for own in gains.values()]
    expected = stats.ttest_1samp(means, 0).pvalue
    assert expected > 0.05
    assert p_values_against(scores, "B")["A"] == pytest.approx(expected)
    one = [*MEDICINE, *MEDICINE[:2]]
    assert p_values_against(scores.loc[one], "B")["A"] == 1
    assert domains_of(["not listed"]) == ["not listed"]


def test_a_learner_within_two_points_of_the_leader_is_as_good_and_bold():
    """B saves a point less than A everywhere, which is significant, and C 20 points less."""
    saved = np.linspace(0.3, 0.5, 12)
    scores = {"Euclidean": np.full(12, 0.5)}
    scores |= {name: (1 + saved - less) / 2 for name, less in (("A", 0), ("B", 0.01), ("C", 0.2))}
    found = Leaderboard.of(cells_of(scores).assign(task="retrieval", name="mAP"), "Euclidean")
    assert found.learners.loc["B", "p_leader"] < 0.05
    expected = {"A": "best", "B": "as good", "C": "worse", "Euclidean": "worse"}
    assert found.learners["verdict"].to_dict() == expected
    _, text, *_ = sentences(found)
    assert "B is as good as A, within ±2 points. All others are significantly worse" in text
    bold = [row[0].bold for row in standing_table(found).cells]
    assert bold == [True, True, False, False]
    two = cells_of({name: scores[name] for name in "AB"}).assign(task="retrieval", name="mAP")
    alike = Leaderboard.of(two, "B")
    assert alike.learners["verdict"].to_dict() == {"A": "best", "B": "as good"}
    _, text, *_ = sentences(alike)
    assert "worse" not in text
    assert not any(row[0].bold for row in standing_table(alike).cells)


def test_a_learner_with_the_higher_mean_is_not_worse_than_who_leads_by_ranks():
    """B is above A by .10 on 13 data sets, and below it by .03, and Euclidean, on 7."""
    scores = {
        "Euclidean": [0.5] * 20,
        "A": [0.55] * 13 + [0.505] * 7,
        "B": [0.65 + 0.001 * i for i in range(13)] + [0.475 - 0.0005 * i for i in range(7)],
    }
    found = Leaderboard.of(cells_of(scores).assign(task="retrieval", name="mAP"), "Euclidean")
    assert found.ranked[0] == "A"
    assert found.learners.loc["B", "p_leader"] < 0.05
    assert found.learners.loc["B", "verdict"] == "better"
    _, text, *_ = sentences(found)
    assert "B is significantly better than A in the mean, with lower ranks" in text


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_an_interval_draws_domains_and_then_corpora_of_them(statistic):
    rng = np.random.default_rng(5)
    groups = [MEDICINE, ARTIFICIAL[:3], ["mnist"], ["other"]]
    values = [rng.normal(place, 0.3, len(own)) for place, own in enumerate(groups)]
    drawn = []
    for _ in range(20_000):
        picked = [values[place] for place in rng.integers(len(groups), size=len(groups))]
        sample = np.concatenate([rng.choice(own, len(own)) for own in picked])
        drawn.append(np.mean(sample) if statistic == "mean" else np.median(sample))
    of_all = pd.DataFrame({"A": np.concatenate(values)}, [*chain(*groups)])
    found = bootstrap_intervals(of_all, statistic).loc["A"]
    assert found.tolist() == pytest.approx(np.quantile(drawn, [0.025, 0.975]), abs=0.08)


def test_each_corpus_of_the_suite_has_a_domain():
    """If this fails for a new data set, add it to oasis_bench/analysis/domains.toml."""
    for one in read_experiment("suite").one_for_each_value().values():
        options = [it for key, it in one.dataset_options.items() if key in ("table", "problem")]
        name = " ".join([one.dataset, *options])
        assert domains_of([name]) != [name]


def test_a_rule_by_kind_gains_where_a_kind_has_another_best_option():
    kinds = pd.DataFrame({"kind": ["tables"] * 6 + ["pictures"] * 6})
    options = pd.DataFrame({"A": [0.5] * 6 + [0.2] * 6, "B": [0.1] * 6 + [0.6, 0.5, 0.4] * 2})
    gains = rule_gains(options, kinds).loc["kind"]
    # A is the best of all, .35 against .3, also where one is left out: five others are too few.
    assert gains[["gain", "p", "is_better"]].tolist() == [0, 1, False]
    options, kinds = (pd.concat([it, it], ignore_index=True) for it in (options, kinds))
    gains = rule_gains(options, kinds).loc["kind"]
    # Now eleven are alike: pictures get B, which gains .3 on average, and tables stay at A.
    assert gains["gain"] == pytest.approx(0.15)
    assert gains["is_better"]
    assert 0.05 < gains["low"] < 0.15 < gains["high"] < 0.25


def test_a_rule_learns_nothing_from_the_domain_that_is_left_out(monkeypatch):
    """All pictures are of one domain, so the rule has no picture to learn from."""
    pictures = [f"keel {name}" for name in "abcdefgh"]
    names = [*"abcdefghi", *pictures]
    options = pd.DataFrame({"A": [0.5] * 9 + [0.2] * 8, "B": [0.1] * 9 + [0.6] * 8}, names)
    kinds = pd.DataFrame({"kind": ["tables"] * 9 + ["pictures"] * 8}, names)
    assert rule_gains(options, kinds).loc["kind", "gain"] == pytest.approx(0.4 * 8 / 17)
    monkeypatch.setattr(
        "oasis_bench.analysis.leaderboard._domains", lambda: dict.fromkeys(pictures, "animals")
    )
    assert rule_gains(options, kinds).loc["kind", "gain"] == 0


def test_chance_alone_seldom_makes_a_rule():
    rng, n_found = np.random.default_rng(2), 0
    kinds = pd.DataFrame({"kind": ["x", "y"] * 8})
    for _ in range(60):
        options = pd.DataFrame(0.3 * rng.random((16, 4)), columns=[*"ABCD"])
        n_found += rule_gains(options, kinds).loc["kind", "is_better"]
    assert n_found <= 4


def test_the_best_elsewhere_is_chosen_without_the_corpus():
    saved = pd.DataFrame({"A": [0.0, 0.5, 0.4], "B": [0.9, 0.0, 0.1]})
    # Without the first A is best, .45 against .05; without the others B, .5 and .45.
    assert best_elsewhere(saved).tolist() == [0.0, 0.0, 0.1]


@pytest.fixture
def recommended(tmp_path, capsys):
    """Ask which learner to take for data, by the results of twelve corpora of two kinds."""
    kinds = ["tables"] * 6 + ["pictures"] * 6
    scores = {
        "Euclidean": [0.0] * 12,
        "DeepRanking": [0.9] * 12,  # of pixels: for neither of the data below
        "LDA": [0.5] * 6 + [0.2] * 6,
        "OASIS": [0.1] * 6 + [0.6, 0.5, 0.4] * 2,
    }
    cells = cells_of(scores, kind=kinds).rename(columns={"score": "mean"})
    cells = pd.concat([cells.assign(task=task) for task in ("retrieval", "unseen-classes")])
    cells = cells.assign(
        dataset=cells["corpus"],
        subset="all",
        measure="mAP",
        name="mAP",
        partitions=3,
    )
    cells = cells.assign(subset_title="all", n_classes=2, n_train=200, n_features=64)
    folder = tmp_path / "suite"
    folder.mkdir()
    for name, own in cells.groupby("dataset"):
        own.to_csv(folder / f"{name}.csv", index=False)

    def call(*words, results=folder):
        status = main(["list", "algorithms", *map(str, words), "--results", str(results)])
        told = capsys.readouterr()
        return status, " ".join(told.out.split()), told.err

    return call


def test_the_learner_for_data_of_a_kind_and_size(recommended, tmp_path):
    """LDA saves .5 or .2, a mean of .35; OASIS saves .1 or .5, a mean of .3: .05 too little."""
    table = tmp_path / "flowers.csv"
    table.write_text("w,x,kind\n" + "".join(f"1.5,{t},a\n2.5,{t},b\n" for t in "abcdefghijkl" * 2))
    status, out, err = recommended("--for", table, "--label", "kind")
    assert (status, err) == (0, "")
    assert out.startswith("This data: tables, 2 classes, 12 rows a class, 13 features (half of the")
    assert (
        "Known classes, retrieval (mAP): take LDA, used directly. Against Euclidean in "
        "its tuned use, the learner that is best on the other data sets changes the error "
        "reduction by +35 points [+" in out
    )
    assert (
        "New classes, retrieval (mAP): not on this data: it has 2 classes, and 7 are needed." in out
    )
    assert "(mean of 12 data sets). This is for all" in out
    assert out.endswith(f"bench run --dataset {table} --algorithms all --label kind")
    status, out, err = recommended("--for", "digits")
    assert (status, err) == (0, "")
    assert "Known classes, retrieval (mAP): take LDA, used directly. " in out


def test_a_rule_by_kind_is_used_where_it_gains(recommended, tmp_path):
    for path in list((tmp_path / "suite").glob("*.csv")):  # twelve of each kind: eleven are alike
        twin = pd.read_csv(path).assign(
            corpus=f"twin of {path.stem}", dataset=f"twin of {path.stem}"
        )
        twin.to_csv(tmp_path / "suite" / f"twin-{path.name}", index=False)
    status, out, err = recommended("--for", "digits")
    assert (status, err) == (0, "")
    assert (
        "Known classes, retrieval (mAP): take OASIS, used directly. Against Euclidean in "
        "its tuned use, the learner that is best on the other data sets changes the error "
        "reduction by +35 points [+" in out
    )
    assert "OASIS is for pictures: this rule gains 15.0% [" in out


def test_data_on_which_no_learner_gains_is_left_as_it_is(recommended, tmp_path):
    for path in (tmp_path / "suite").glob("*.csv"):
        rows = pd.read_csv(path)
        gain = (rows["learner"] == "LDA") * (0.02 if int(path.stem[1:]) % 2 else -0.01)
        rows.assign(mean=0.5 + gain).to_csv(path, index=False)
    status, out, err = recommended("--for", "digits")
    assert (status, err) == (0, "")
    assert "Known classes, retrieval (mAP): learn no metric: take Euclidean, used directly. " in out
    assert "(mean of 12 data sets), which is not significant" in out
    for number, path in enumerate(sorted((tmp_path / "suite").glob("*.csv"))):
        rows = pd.read_csv(path)  # each learner does harm
        harm = 0.1 + 0.001 * number
        rows.assign(mean=0.5 - harm * (rows["learner"] != "Euclidean")).to_csv(path, index=False)
    _, out, _ = recommended("--for", "digits")
    assert "learn no metric: take Euclidean, used directly. " in out
    assert "(mean of 12 data sets). " in out
    assert "not significant" not in out


def let_lda_gain_directly(folder):
    """Let LDA save a fifth of the error .5 directly, and all half of it with their labels."""
    for path in folder.glob("*.csv"):
        rows = pd.read_csv(path)
        direct = 0.5 + 0.1 * (rows["learner"] == "LDA")
        rows.assign(mean=0.75, posterior=0.75, direct=direct).to_csv(path, index=False)


def test_the_direct_use_has_an_advice_of_its_own(recommended, tmp_path):
    let_lda_gain_directly(tmp_path / "suite")
    status, out, err = recommended("--for", "digits")
    assert (status, err) == (0, "")
    assert "Known classes, retrieval (mAP): learn no metric: take Euclidean, used by " in out
    assert (
        "Known classes, retrieval (mAP): without the posterior use, take LDA, used directly. "
        "Against Euclidean used directly, the learner that is best on the other data sets changes "
        "the error reduction by +20 points [+20, +20] (mean of 12 data sets)." in out
    )


def test_the_page_ranks_learners_in_the_tuned_use_or_directly(recommended, tmp_path, capsys):
    let_lda_gain_directly(tmp_path / "suite")
    words = ["ranks", str(tmp_path / "suite"), "--output", str(tmp_path / "ranks"), "--json"]
    assert main(words) == 0
    found = pd.DataFrame(json.loads(capsys.readouterr().out)["rows"])
    found = found[found["learner"] == "LDA"].drop_duplicates(["task", "use", "group"])
    for use, saved in (("selected", 0.5), ("directly", 0.2)):
        own = found[found["use"] == use]
        assert own["error_reduction"].tolist() == pytest.approx([saved] * len(own))
        assert set(own["group"]) >= {"all", "pictures", "tables"}
    page = (tmp_path / "ranks" / "leaderboard.html").read_text()
    assert "learners over 12 data sets, directly" in page
    assert "learners over 6 data sets, pictures, directly" in page


def test_a_folder_of_pictures_is_recommended_for_without_features_of_them(recommended, tmp_path):
    for name in ("a/1.png", "a/2.png", "b/3.png", "b/4.png"):
        path = tmp_path / "mine" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 8)).save(path)  # too small for any visual word
    status, out, err = recommended("--for", tmp_path / "mine")
    assert (status, err) == (0, "")
    assert out.startswith("This data: pictures, 2 classes, 1 rows a class, ")


def test_a_table_of_counts_or_of_many_real_columns_is_of_their_kind(recommended, tmp_path):
    rng = np.random.default_rng(0)
    for kind, X in (
        ("text", rng.poisson(0.2, (30, 150)).astype(float)),
        ("embeddings", rng.normal(size=(30, 300))),
        ("tables", rng.normal(size=(30, 150))),
    ):
        np.savez(tmp_path / "X.npz", X=X, y=np.arange(30) % 3)
        _, out, _ = recommended("--for", tmp_path / "X.npz")
        assert out.startswith(
            f"This data: {kind}, 3 classes, 5 rows a class, {X.shape[1]} features "
        )


def test_for_judged_triplets_the_learners_of_triplets_are_named(recommended, tmp_path):
    table, triplets = tmp_path / "table.csv", tmp_path / "triplets.csv"
    table.write_text("id,a,b\n" + "".join(f"r{i},{i % 5},{i % 3}\n" for i in range(12)))
    triplets.write_text("q,p,n\n" + "".join(f"r{i},r{i + 1},r{i + 2}\n" for i in range(10)))
    words = ["--for", table, "--triplets", triplets, "--name-column", "id"]
    status, out, err = recommended(*words)
    assert (status, err) == (0, "")
    assert out.startswith("These items have judgements, for the task judged-triplets: the suite")
    named = out[out.index("such judgements: ") :].partition(".")[0]
    assert ", OASIS," in named
    assert "LDA" not in named
    assert "retrieval" not in out
    assert out.endswith(f"--triplets {triplets} --name-column id --tasks judged-triplets")


def test_without_results_no_learner_is_recommended(recommended, tmp_path):
    empty = tmp_path / "none"
    empty.mkdir()
    status, _, err = recommended("--for", "digits", results=empty)
    assert status == 2
    assert f"no results of the suite in {empty}" in err
    assert "run --dataset digits --algorithms all" in err
    for csv in list((tmp_path / "suite").glob("*.csv"))[5:]:
        csv.unlink()
    status, out, err = recommended("--for", "digits")
    assert (status, err) == (0, "")
    assert "Fewer than 6 data sets are too few for a recommendation." in out


def test_what_is_for_advice_is_refused_without_data(tmp_path, capsys):
    for words in (["--results", str(tmp_path)], ["--label", "kind"]):
        assert main(["list", "algorithms", *words]) == 2
        assert "name the data with --for" in capsys.readouterr().err


def test_where_only_the_baseline_is_ranked_the_page_is_written(recommended, tmp_path):
    for path in list((tmp_path / "suite").glob("*.csv"))[:3]:
        rows = pd.read_csv(path)
        rows.loc[rows["learner"] != "Euclidean", "mean"] = np.nan
        rows.to_csv(path, index=False)
    words = ["ranks", str(tmp_path / "suite"), "--output", str(tmp_path / "ranks")]
    assert main(words) == 0
    page = (tmp_path / "ranks" / "leaderboard.html").read_text()
    assert "No learner but Euclidean has results on enough data sets" in page


def write_run(folder, dataset, scores, lost=(), subsets=(10,), options=None, **columns):
    """Write a run of two partitions of `dataset`; mAP on the largest subset is `scores`.

    `lost` are pairs of a learner and a partition without a result.
    """
    trials = [
        fake_trial(learner, n, partition, mAP=score + (max(subsets) - n) / 10, **columns)
        if (learner, partition) not in lost
        else fake_trial(learner, n, partition, status="timeout", reason="over 10 s")
        for learner, score in scores.items()
        for n in subsets
        for partition in range(2)
    ]
    specs = {name: asdict(LearnerSpec("OASIS")) for name in scores}
    experiment = {"dataset": dataset, "classes": list(subsets), "learners": specs}
    experiment |= {
        "dataset_options": options or {},
        "tasks": list(columns.get("tasks", ["retrieval"])),
    }
    return fake_runs.write_run(folder, trials, experiment)


def seven_runs(folder):
    """A is above Euclidean and B below it on each of seven data sets."""
    return [
        write_run(folder / f"run{n}", f"set{n}", {"Euclidean": 0.5, "A": 0.6, "B": 0.4 - n / 100})
        for n in range(7)
    ]


@pytest.fixture
def ranks(tmp_path, capsys):
    """Run the verb on runs and return its status, output and errors, and the folder written."""

    def call(*words):
        status = main(["ranks", *map(str, words), "--output", str(tmp_path / "a" / "out")])
        told = capsys.readouterr()
        return status, told.out, told.err, tmp_path / "a" / "out"

    return call


def board_of(folder, task="retrieval"):
    """Return the rows of the leaderboard by learner."""
    return pd.read_csv(folder / "tables" / f"leaderboard_{task}.csv").set_index("learner")


def test_the_leaderboard_of_several_runs_is_a_page_tables_and_a_summary(ranks, tmp_path):
    status, out, err, folder = ranks(*seven_runs(tmp_path))
    assert (status, err) == (0, "")
    rows = board_of(folder)
    assert rows["average_rank"].to_dict() == {"A": 1, "Euclidean": 2, "B": 3}
    assert rows.loc["A", "error_reduction"] == pytest.approx(0.2)
    assert rows.loc["B", "error_reduction"] == pytest.approx(-0.26)  # of set3, the median
    # All agree: p is 2 ** -6, twice as Holm corrects.
    assert rows["p_leader"].dropna().tolist() == [2 * 2 * 0.5**7] * 2
    text = " ".join(out.split())
    assert "A has the best average rank (1.0; retrieval; mAP; 7 data sets)." in text
    assert "Its median error reduction against Euclidean is +20 %" in text
    assert (
        "A is significantly better than Euclidean. All others are significantly worse than A"
        in text
    )
    assert max(map(len, out.splitlines()[:-1])) <= 110
    page = (folder / "leaderboard.html").read_text()
    anchors, links = (re.findall(rf'{name}="#?([\w-]+-\d+)"', page) for name in ("id", "href"))
    assert len(anchors) == len(set(anchors)) == 21
    assert set(links) == set(anchors)


@pytest.mark.parametrize("folders", [False, True])
def test_a_summary_counts_as_its_run_does(ranks, tmp_path, folders):
    runs = seven_runs(tmp_path)
    of_runs = board_of(ranks(*runs)[3])
    summaries = tmp_path / "summaries"
    for run in runs[:4]:
        assert main(["export", str(run), "--format", "summary", "--output", str(summaries)]) == 0
    inputs = [summaries] if folders else summaries.iterdir()
    status, _, err, folder = ranks(*inputs, *runs[4:], runs[4])
    assert (status, err) == (0, "")
    pd.testing.assert_frame_equal(board_of(folder), of_runs)


def test_results_of_before_the_uses_count_beside_those_with_them(ranks, tmp_path):
    """The published results of protocol 1 have no column of the uses."""
    scores, of_use = {"Euclidean": 0.5, "A": 0.6}, {"gain": 0.1, "use": "posterior"}
    runs = [write_run(tmp_path / f"run{n}", f"set{n}", scores, **of_use) for n in range(2)]
    assert main(["export", str(runs[0]), "--format", "summary", "--output", str(tmp_path)]) == 0
    summary = tmp_path / "run0.csv"
    rows = pd.read_csv(summary).drop(columns=["direct", "posterior", "use", "tau"])
    rows.to_csv(summary, index=False)
    status, _, err, folder = ranks(summary, runs[1])
    assert (status, err) == (0, "")
    found = pd.read_csv(folder / "tables" / "results_retrieval.csv").set_index("dataset")
    assert found.loc["set0", ["direct", "posterior", "use", "tau"]].isna().all(axis=None)
    new = found.loc["set1"].set_index("learner")
    assert new.loc["A", ["score", "direct", "posterior"]].tolist() == pytest.approx([0.7, 0.6, 0.7])
    assert new.loc["A", ["use", "tau"]].tolist() == ["posterior", 0.3]


def test_kinds_of_features_are_one_corpus_and_two_kinds(ranks, tmp_path):
    scores = {"Euclidean": 0.5, "A": 0.6}
    network = {"features": "efficientnet-lite0"}
    runs = [write_run(tmp_path / name, name, scores) for name in ("x", "y", "z")]
    name = "x efficientnet-lite0"
    runs.append(write_run(tmp_path / "net", name, {"Euclidean": 0.5, "A": 0.8}, options=network))
    _, _, _, folder = ranks(*runs)
    assert board_of(folder)["corpora"].to_dict() == {"A": 3, "Euclidean": 3}
    assert board_of(folder).loc["A", "error_reduction_mean"] == pytest.approx(
        (0.4 + 0.4) / 3, abs=1e-5
    )
    results = pd.read_csv(folder / "tables" / "results_retrieval.csv")
    assert results.groupby("kind")["dataset"].unique().map(list).to_dict() == {
        "embeddings": [name],
        "pictures": ["x", "y", "z"],
    }


def test_each_task_has_its_board_and_a_measure_can_be_asked_for(ranks, tmp_path):
    scores, tasks = {"Euclidean": 0.5, "A": 0.55}, ("retrieval", "classification")
    runs = [write_run(tmp_path / name, name, scores, tasks=tasks) for name in ("x", "y")]
    _, _, _, folder = ranks(*runs)
    assert board_of(folder).loc["A", "error_reduction"] == pytest.approx(0.1)
    # Accuracy at 1 is mAP + .2.
    found = board_of(folder, "classification").loc["A", "error_reduction"]
    assert found == pytest.approx(0.05 / 0.3, abs=1e-5)
    _, out, _, folder = ranks(*runs, "--task", "classification", "--measure", "accuracy@3")
    assert "classification; accuracy, k = 3; 2 data sets" in " ".join(out.split())
    assert board_of(folder, "classification").loc["A", "error_reduction"] == pytest.approx(
        0.05 / 0.32, abs=1e-5
    )
    for wrong, said in (
        (["--task", "clasification"], "unknown task 'clasification': did you mean 'classification"),
        (["--measure", "accuracy@2"], "unknown measure 'accuracy@2'"),
        (["--baseline", "euclid"], "euclid has results on 0 data sets"),
    ):
        status, _, err, _ = ranks(*runs, *wrong)
        assert status == 2
        assert said in err


def test_seconds_are_the_median_corpus_of_tuning_and_fit(ranks, tmp_path):
    """Tuning takes 5 + 2 s in made-up trials; two runs of a corpus count by their mean."""
    runs = []
    for name, dataset, seconds in (
        ("r0", "x", (1, 3, 50)),
        ("r1", "x", (5, 5, 5)),
        ("r2", "y", (2, 2, 2)),
    ):
        trials = [
            fake_trial(learner, partition=p, mAP=0.5, fit_seconds=s)
            for learner in ("Euclidean", "A")
            for p, s in enumerate(seconds)
        ]
        experiment = {"partitions": 3, "dataset": dataset}
        runs.append(fake_runs.write_run(tmp_path / name, trials, experiment, {"data": dataset}))
    _, _, _, folder = ranks(*runs)
    expected = np.median([(7 + 3 + 7 + 5) / 2, 7 + 2])
    assert board_of(folder)["seconds"].to_dict() == {"Euclidean": expected, "A": expected}


def test_a_file_that_is_no_summary_is_refused_in_one_line(ranks, tmp_path):
    trials = [*fake_trials("Euclidean", [0.5, 0.5]), *fake_trials("A", [0.6, 0.6])]
    run = fake_runs.write_run(tmp_path / "run", trials)
    assert main(["export", str(run), "--format", "summary", "--output", str(tmp_path)]) == 0
    good = pd.read_csv(tmp_path / "run.csv")
    for wrong, said in (
        (good.drop(columns="learner"), "its column 'learner' is missing"),
        (good.iloc[:0], "it has no row"),
        (good.assign(mean="high"), "could not convert string to float"),
        (good.assign(partitions=NAN), "partitions is empty in row 2"),
        (pd.concat([good, good]), "twice on a class subset"),
    ):
        wrong.to_csv(tmp_path / "run.csv", index=False)
        status, _, err, _ = ranks(tmp_path / "run.csv")
        assert status == 2
        assert said in err
        assert "Traceback" not in err
