"""What the papers published, beside ours."""

import pytest
from fake_runs import fake_trial, make_run
from report_helpers import texts

from oasis_bench.claims import ClassList, published, published_figures
from oasis_bench.claims.paper_figures import CLASS_LISTS, PUBLISHED
from oasis_bench.datasets import Caltech256
from oasis_bench.experiment import read_experiment
from oasis_bench.reports.claims_page import beside_published

LEARNERS = ["OASIS", "Euclidean"]


def run_of(folder, classes, built_in=None, n_classes=10, dataset="caltech256", **more):
    """A run of two learners on class subsets: mAP .6 and .5, a CPU second a fit."""
    names = [one if isinstance(one, str) else str(one) for one in classes]
    trials = [
        fake_trial(learner, n_classes, partition, mAP, subset=subset)
        for subset in names
        for learner, mAP in zip(LEARNERS, (0.6, 0.5), strict=True)
        for partition in range(2)
    ]
    settings = {"built_in": built_in, "dataset": dataset, "classes": list(classes), "partitions": 2}
    return make_run(folder, trials, LEARNERS, **settings, **more)


def planned(name):
    return read_experiment(name)


def test_each_file_of_published_figures_has_its_source():
    readme = (PUBLISHED / "README.md").read_text()
    files = [path.name for path in PUBLISHED.glob("*.csv")]
    assert len(files) == 9
    for name in files:
        _, _, about = readme.partition(f"`{name}`")
        assert "Source: " in about, name


def test_numbers_of_the_papers_are_those_of_their_tables():
    """JMLR table 4 and preprint table 1 of precision; JMLR table 5 and preprint table 2 of time."""
    for name, measure, learner, value in (
        ("B10", "mAP", "OASIS", 0.33),
        ("B20", "precision at 10", "MCML", 0.21),
        ("B50", "mAP", "Euclidean", 0.09),
        ("Easy10", "mAP", "OASIS", 0.57),
        ("Easy10", "precision at 50", "Euclidean", 0.27),
        ("Var20", "mAP", "OASIS", 0.21),
    ):
        found = ClassList(name, False).precision()
        cell = found[(found["name"] == measure) & (found["learner"] == learner)]
        assert cell["mean"].tolist() == [value], (name, measure)
    assert ClassList("B249", False).precision().empty
    for name, learner, minutes in (
        ("B10", "OASIS", 0.12),
        ("B20", "MCML", 7425),
        ("Easy10", "OASIS", 18),
        ("Var10", "OASIS", 42),
        ("Var20", "DissimOASIS", 111),
    ):
        found = ClassList(name, False).minutes()
        assert found.loc[found["learner"] == learner, "mean"].tolist() == [minutes]


def test_each_model_of_deep_ranking_s_tables_stands_beside_a_learner_of_its_experiment():
    """The values are of tables 1 and 2 of Wang et al.; DeepRanking is in both."""
    found = published("deep_ranking_tables").set_index("model")
    assert len(found) == 14
    assert set(found["learner"]) <= set(planned("deep-ranking").learners)
    assert found["learner"].is_unique
    for model, learner, precision in (
        ("L1HashKPCA", "PCA: hand-made", 0.762),
        ("Single-scale and visual feature", "single-scale ranking and hand-made", 0.841),
        ("DeepRanking", "DeepRanking", 0.857),
    ):
        assert found.loc[model].tolist() == [learner, precision]


def test_lists_of_experiments_are_lists_of_the_data_set_with_published_figures():
    for experiment, lists in CLASS_LISTS.items():
        assert len(planned(experiment).classes) <= len(lists)
        for name in lists:
            assert name in Caltech256.class_subsets
            assert len(ClassList(name, False).precision())
            assert len(ClassList(name, False).minutes())


def test_runs_of_all_caltech101_have_the_figures_of_frome_et_al(tmp_path):
    run = run_of(tmp_path, [101], n_classes=101, dataset="caltech101", train_per_class=20)
    found = published_figures(run).set_index("learner")["published"]
    assert found["LocalPatchDistances"] == 0.666


def test_a_subset_is_a_list_of_the_papers_or_stands_in_for_one(tmp_path):
    own = run_of(tmp_path / "own", ["B10", "Easy10"])
    assert ClassList.of(own, "Easy10") == ClassList("Easy10", stand_in=False)
    experiment = planned("paper-table4-more")
    assert experiment.test_per_class == 24
    fewer = {"test_per_class": 24}
    more = run_of(tmp_path / "more", [20, 50], "paper-table4-more", dataset="caltech101", **fewer)
    for n_classes in (20, 50):  # in any order, as in a run of an older version
        assert ClassList.of(more, f"{n_classes}") == ClassList(f"B{n_classes}", stand_in=True)


def test_ours_and_the_published_stand_in_one_cell_and_are_not_mixed(tmp_path):
    """JMLR: mAP .33 and .23, .12 minutes of OASIS; preprint: mAP .57 and .42, 18 minutes."""
    runs = {
        "paper-table4": {"paper-table4": run_of(tmp_path / "4", ["B10"])},
        "paper-easy": {"paper-easy": run_of(tmp_path / "1", ["Easy10"])},
    }
    tables = {table.name: table for table in beside_published(runs)}
    assert list(tables) == ["table4", "table5", "preprint_table1", "preprint_table2"]
    assert texts(tables["table4"])[0] == ["B10", "mAP", "0.60 (0.33)", "0.50 (0.23)"]
    assert texts(tables["table5"]) == [["B10", "seconds", "1.00 (7.20)"]]
    assert texts(tables["preprint_table1"])[0] == ["Easy10", "mAP", "0.60 (0.57)", "0.50 (0.42)"]
    assert texts(tables["preprint_table2"]) == [["Easy10", "seconds", "1.00 (1,080)"]]
    assert not any(table.notes for table in tables.values())
    rows = tables["table4"].numbers
    of_mAP = rows[(rows["name"] == "mAP") & (rows["learner"] == "OASIS")]
    assert of_mAP[["ours", "published"]].to_numpy().tolist() == [[pytest.approx(0.6), 0.33]]
