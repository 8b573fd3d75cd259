"""Learners that cheat: they score chance, are found out, or are charged for what they do."""

import sys

import pytest
from small_runs import small

from oasis_bench.experiment import LearnerSpec
from oasis_bench.runs import How, read_run, run_experiment
from oasis_bench.trial.harness_side.inbox import CPU_SECONDS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs Linux's /proc")

BLIND = (
    *("SearchesFrames", "SearchesMemory", "SearchesDescriptors", "DerivesOrder"),
    *("PatchesModules", "ItemOrder"),
)
BEHIND = ("itself", "infinity", "far")
FOUND_OUT = ("HiddenItemOrder", "HidesSpreading", *BEHIND)
COSTLY = (
    *("WorksInSimilarity", "WorksInChild", "WorksInThread", "WorksWhenCopied"),
    *("PreparesInWarmUp", "WorksInRefusal", "StopsClocks", "FreezesClocks"),
)
OTHERS = (
    *("SpreadsLabels", "TicksOn", "OverwritesItems", "ForgesModel", "AnswersSlowly"),
    "Euclidean",
)
FIVE = {"classes": (5,), "train_per_class": 12, "test_per_class": 12}


@pytest.fixture(scope="module")
def cheats(tmp_path_factory, plugins):
    """Run them all on five digits; the tables `trials` and `measures`, by learner."""
    folder = tmp_path_factory.mktemp("cheats") / "run"
    names = (*BLIND, *FOUND_OUT, *COSTLY, *OTHERS)
    learners = {name: LearnerSpec(name) for name in names}
    for what in BEHIND:
        learners[what] = LearnerSpec("HidesSpreadingBehind", {"what": what})
    learners["TicksOn"] = LearnerSpec("TicksOn", budget="3s")
    # Not blended: they cheat in the fit and when they are asked.  Inner folds, which come before,
    # have no test item to look for, and would end some of them.
    return run_cheats(folder, learners, plugins, blend="off")


def run_cheats(folder, learners, plugins, **settings):
    experiment = small(learners, **FIVE, examples=0, **settings)
    run_experiment(experiment, folder, How(plugin_files=[plugins / "cheats.py"]))
    run = read_run(folder)
    average = run.measures[run.measures["measure"] == "mAP"].set_index("learner")
    return run.trials.set_index("learner"), average


def test_a_blend_hides_no_cheat(plugins, tmp_path):
    learners = names = ("SearchesDescriptors", "DerivesOrder", "HiddenItemOrder", "WorksInRefusal")
    settings = {"inner_folds": 2, "traces": False}
    trials, average = run_cheats(tmp_path / "run", learners, plugins, **settings)
    for name in names[:2]:
        found, chance = average.loc[name, ["as_learned", "chance"]]
        assert found == pytest.approx(chance, abs=0.05)
        assert trials.loc[name, "blend"] < 1
    assert trials.loc["HiddenItemOrder", "status"] == "failed"  # by its own scores
    assert "transductive" in trials.loc["HiddenItemOrder", "reason"]
    assert trials.loc["WorksInRefusal", "tuning_fit_seconds"] >= 0.3  # it is asked there, first


@pytest.mark.parametrize("learner", BLIND)
def test_who_looks_for_labels_scores_chance(cheats, learner):
    trials, average = cheats
    assert trials.loc[learner, "status"] == "ok"
    assert average.loc[learner, "value"] == pytest.approx(average.loc[learner, "chance"], abs=0.05)
    assert average.loc["Euclidean", "value"] > average.loc[learner, "chance"] + 0.2


@pytest.mark.parametrize("learner", FOUND_OUT)
def test_scores_that_depend_on_the_other_test_items_are_found_out(cheats, learner):
    trials, average = cheats
    assert trials.loc[learner, "status"] == "failed"
    assert "transductive" in trials.loc[learner, "reason"]
    assert learner not in average.index


def test_a_new_order_of_the_nearest_items_alone_is_found_out(plugins, tmp_path):
    cheats = {
        f"{share} {factor:g}": LearnerSpec("RanksAnew", {"share": share, "factor": factor})
        for share in (0.04, 0.07, 0.1, 0.13, 0.15)
        for factor in (1.0, 1e6, 1e9)
    }
    sizes = {"classes": (10,), "train_per_class": 4, "test_per_class": 25, "partitions": 1}
    experiment = small(cheats, **sizes, examples=0, blend="off")
    run_experiment(experiment, tmp_path / "run", How(plugin_files=[plugins / "cheats.py"]))
    trials = read_run(tmp_path / "run").trials
    assert trials["reason"].str.contains("two items get another score").tolist() == [True] * 15


def test_items_are_scored_a_second_time_with_the_same_numbers(plugins, tmp_path):
    """A projection of fewer rows at once may round otherwise, which is not the learner's fault."""
    sizes = {**FIVE, "test_per_class": 25, "examples": 0}
    experiment = small(["ReadsLastBits"], **sizes, blend="off", scaling=("standard+pca16",))
    run_experiment(experiment, tmp_path / "run", How(plugin_files=[plugins / "cheats.py"]))
    assert read_run(tmp_path / "run").trials["status"].tolist() == ["ok"]


def test_who_says_transductive_may_use_the_gallery_and_is_marked(cheats):
    trials, average = cheats
    assert average.loc["SpreadsLabels", "value"] > average.loc["Euclidean", "value"]
    marked = trials[trials["transductive"] == 1].index
    assert {"SpreadsLabels", "ItemOrder"} <= set(marked)
    assert not {"Euclidean", *FOUND_OUT} & set(marked)


def test_work_in_similarity_is_in_the_cost_of_answering(cheats):
    trials, _ = cheats
    assert trials.loc["WorksInSimilarity", "query_cpu_seconds"] >= 0.3
    assert trials.loc["WorksInSimilarity", "query_seconds"] >= 0.3
    assert trials.loc["Euclidean", "query_cpu_seconds"] < 0.3


@pytest.mark.parametrize("learner", ["WorksInChild", "WorksInThread"])
def test_work_beside_the_fit_is_in_its_processor_time(cheats, learner):
    trials, _ = cheats
    assert trials.loc[learner, "fit_cpu_seconds"] >= 0.3 - CPU_SECONDS
    assert trials.loc[learner, "query_cpu_seconds"] >= 0.15 - CPU_SECONDS
    assert trials.loc["AnswersSlowly", "query_cpu_seconds"] < 0.05
    assert trials.loc["Euclidean", "fit_cpu_seconds"] < 0.1


@pytest.mark.parametrize("learner", ["PreparesInWarmUp", "WorksInRefusal", "WorksWhenCopied"])
def test_work_that_is_done_elsewhere_than_in_the_timed_fit_is_charged(cheats, learner):
    trials, _ = cheats
    measure = "fit_seconds" if learner == "WorksWhenCopied" else "fit_cpu_seconds"
    assert trials.loc[learner, measure] >= (0.25 if learner == "WorksWhenCopied" else 0.3)


@pytest.mark.parametrize("cost", ["fit", "query"])
def test_who_stops_the_clocks_is_charged_by_that_of_the_harness(cheats, cost):
    trials, _ = cheats
    for learner, least in (("StopsClocks", 0.5), ("FreezesClocks", 0.15)):
        seconds = trials.loc[learner, [f"{cost}_seconds", f"{cost}_cpu_seconds"]]
        assert (seconds > least - CPU_SECONDS).all()
    assert trials.loc["FreezesClocks", f"{cost}_cpu_seconds"] < 1


def test_a_fitted_learner_that_can_still_be_changed_is_refused(cheats):
    trials, average = cheats
    assert trials.loc["ForgesModel", "status"] == "crashed"
    assert "not sealed" in trials.loc["ForgesModel", "reason"]
    assert "ForgesModel" not in average.index


def test_messages_do_not_lengthen_the_budget(cheats):
    trials, _ = cheats
    assert trials.loc["TicksOn", "status"] == "crashed"
    assert "may not come" in trials.loc["TicksOn", "reason"]


def test_the_items_of_a_trial_cannot_be_changed(cheats):
    trials, average = cheats
    assert trials.loc["OverwritesItems", "status"] == "ok"
    assert average.loc["OverwritesItems", "value"] == average.loc["Euclidean", "value"]


def test_the_folder_of_the_run_tells_no_label_before_its_end(tmp_path, plugins):
    """The learners that read it come after one whose results are all in it."""
    folder, looks = tmp_path / "run", ("labels", "order", "ties")
    learners = {"Euclidean": LearnerSpec("Euclidean")}
    learners |= {what: LearnerSpec("ReadsFolder", {"what": what}) for what in looks}
    experiment = small(learners, **FIVE, tasks=("retrieval", "classification"), blend="off")
    run_experiment(
        experiment, folder, How(plugin_files=[plugins / "cheats.py"], keep=["predictions"])
    )
    run = read_run(folder)
    assert run.trials["status"].tolist() == ["ok"] * 4
    looked = (folder / "output.log").read_text().splitlines()[1:]
    assert {line.partition(", ")[2] for line in looked} == {"rows with labels: 0"}
    average = run.measures[run.measures["measure"] == "mAP"].set_index("learner")
    for what in looks:
        assert average.loc[what, "value"] == pytest.approx(average.loc[what, "chance"], abs=0.05)
    assert len(run.confusion) >= 5
    assert len(run.projections) > 20
