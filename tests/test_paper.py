"""The verb `paper`: what it says of its experiments, and the page that follows from the stores."""

import csv
import math
import shutil
import sqlite3
from contextlib import closing

import pandas as pd
import pytest
from fake_runs import fake_trials, write_run

from oasis_bench.claims import CLAIMS, decided_by, experiments, needs_quiet_cores, published
from oasis_bench.command_line import main, paper as verb
from oasis_bench.command_line.options import make_parser
from oasis_bench.command_line.paper import asked_experiments, paper_experiment
from oasis_bench.datasets.picture_sets import CALTECH256_SUBSETS
from oasis_bench.experiment import read_experiment
from oasis_bench.plugins import Registry
from oasis_bench.reports.claims_page import effect_plot, write_claims
from oasis_bench.runs.several import Ended
from oasis_bench.system import UsageError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a made-up run where the experiment on words belongs."""
    folder = tmp_path_factory.mktemp("paper")
    of_euclidean = fake_trials("Euclidean", [0.5, 0.55], algorithm="Euclidean")
    write_run(folder / "paper-words", [*fake_trials("OASIS", [0.7, 0.72]), *of_euclidean])
    write_claims(folder)
    return folder


def test_claims_csv_has_a_line_for_each_claim(folder):
    with open(folder / "claims.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == [claim.id for claim in CLAIMS]
    (words,) = [row for row in rows if row["id"] == "O10"]
    run = decided_by(folder)[2]["paper-words"]["paper-words"]
    measures = run.measures[run.measures["measure"] == "mAP"]
    means = measures.groupby("learner")["value"].mean()
    assert float(words["mean"]) == pytest.approx(means["OASIS"] - means["Euclidean"])
    assert float(words["values"]) == 2


def test_effects_csv_has_a_line_for_each_effect(folder):
    (words,) = [claim for claim in CLAIMS if claim.id == "O10"]
    effects = pd.read_csv(folder / "effects.csv")
    assert effects["id"].unique().tolist() == ["O10"]
    assert effects["effect"].tolist() == [effect.words for effect in words.effects]
    weakest = pd.read_csv(folder / "claims.csv").set_index("id").loc["O10"]
    assert weakest["effect"] in effects["effect"].tolist()


def test_a_run_that_has_not_ended_decides_nothing(folder, tmp_path):
    shutil.copytree(folder / "paper-words", tmp_path / "paper-words")
    with closing(sqlite3.connect(tmp_path / "paper-words" / "results.sqlite")) as connection:
        connection.execute("DELETE FROM run WHERE key = 'finished'")
        connection.commit()
    write_claims(tmp_path)
    assert "paper-words (not finished)" in (tmp_path / "claims.html").read_text()
    with open(tmp_path / "claims.csv", encoding="utf-8") as file:
        assert {row["verdict"] for row in csv.DictReader(file)} == {"not tested"}
    (tmp_path / "paper-words" / "results.sqlite").write_bytes(b"no store")
    write_claims(tmp_path)
    assert "is not a readable run" in (tmp_path / "claims.html").read_text()


def test_an_experiment_that_cannot_run_is_told_and_left_out(capsys, folder):
    """The folder has a run with other settings: nothing of it is lost."""
    before = (folder / "paper-words" / "results.sqlite").read_bytes()
    status = main(["paper", "--experiments", "paper-words", "--output", str(folder)])
    captured = capsys.readouterr()
    assert status == 1
    assert "paper-words is left out:" in captured.err
    assert "has a run with other settings" in captured.err
    assert "paper-words is left out: " in (folder / "claims.html").read_text()
    assert "1 inconclusive" in captured.out
    assert (folder / "paper-words" / "results.sqlite").read_bytes() == before


def test_missing_packages_are_told_before_the_first_experiment(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(verb, "go_on_or_leave_out", lambda *given: Ended(0))
    names = "paper-words,deep-ranking"
    assert main(["paper", "--experiments", names, "--output", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("deep-ranking will be left out: features = ")
    assert "run pip install -e" in lines[0]
    assert lines[1].startswith("paper-words (1 of 2): ")


def test_trials_share_the_cores_only_where_no_claim_is_about_time(monkeypatch, tmp_path, capsys):
    """And the page is written after each experiment."""
    jobs, names = {}, ["paper-words", "paper-features"]
    assert [*map(needs_quiet_cores, names)] == [False, True]

    def ended(name, experiment, folder, how, watcher, report):
        jobs[name] = how.jobs
        assert (tmp_path / "claims.html").exists() == (len(jobs) > 1)
        return Ended(0)

    monkeypatch.setattr(verb, "go_on_or_leave_out", ended)
    monkeypatch.setattr(verb, "n_cores", lambda: 6)
    words = ["paper", "--experiments", ",".join(names), "--output", str(tmp_path)]
    assert main(words) == 0
    assert jobs == {"paper-words": 6 // read_experiment("paper-words").threads, "paper-features": 1}
    assert f"report: {tmp_path / 'claims.html'}" in capsys.readouterr().out


def test_what_takes_too_long_runs_only_if_asked():
    def asked(*options):
        return asked_experiments(make_parser().parse_args(["paper", *options]))

    assert asked("--large") == asked("--experiments", "keel") == ["keel"]
    assert {*asked(), "keel"} == {*asked("--quick")} == {*experiments()}
    assert "keel" not in asked()
    for others in (["--quick"], ["--experiments", "keel"]):
        with pytest.raises(UsageError, match="--large has no effect"):
            asked("--large", *others)


@pytest.mark.parametrize("name", experiments())
def test_a_quick_experiment_has_options_that_its_data_set_takes_and_rows_where_they_count(name):
    quick, registry = paper_experiment(name, quick=True), Registry.load()
    assert (quick.partitions, quick.threads) == (1, 1)
    if "efficientnet" in str(quick.dataset_options):
        pytest.importorskip("torch", reason='pip install -e ".[deep]" is needed')
    runs = quick.one_for_each_value() or {name: quick}
    assert len(runs) <= 3  # ten tables of KEEL would take more than a minute
    for one in runs.values():
        registry.open_dataset(one.dataset, one.dataset_options)  # refuses unknown options
    kinds = {registry.algorithms[spec.algorithm].takes for spec in quick.learners.values()}
    assert "rows" not in kinds or "patches" not in quick.dataset_options


@pytest.fixture
def caltech256(tmp_path, monkeypatch):
    """Return a function that makes a Caltech256 of empty files, 65 for each class of some lists."""
    monkeypatch.setenv("OASIS_BENCH_DATA", str(tmp_path))
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path / "cache"))
    home = tmp_path / "caltech256" / "256_ObjectCategories"

    def make(*lists, pictures=65):
        for name in {one for own in lists for one in CALTECH256_SUBSETS[own]}:
            (home / name).mkdir(parents=True, exist_ok=True)
            for number in range(1, pictures + 1):
                (home / name / f"{name[:3]}_{number:04}.jpg").touch()
        return home

    return make


PAPERS = {
    "paper-table4": ("B10",),
    "paper-table4-more": ("B50", "B20"),
    "paper-easy": ("Easy10", "Var10", "Var20"),
    "paper-curve": ("B10",),
    "paper-family": ("B10", "B20"),
}


def test_experiments_take_the_papers_lists_where_the_folder_has_all_of_their_classes(caltech256):
    caltech256("B10", "B20", "B50", "Easy10")
    for name, lists in PAPERS.items():
        planned, found = read_experiment(name), paper_experiment(name, quick=False)
        assert (found.dataset, found.classes, found.per_class) == ("caltech256", lists, (40, 25))
        assert (found.replicates, found.n_partitions) == (None, planned.partitions or 10)
        same = {"learners", "search", "budget", "seed", "traces"}
        assert all(getattr(found, key) == getattr(planned, key) for key in same)
        assert all(one in found.title for one in lists)
    assert paper_experiment("paper-table4", quick=True).classes == ("B10",)
    assert paper_experiment("paper-words", quick=False) == read_experiment("paper-words")


def test_without_caltech256_nothing_is_downloaded_and_stand_ins_are_taken(caltech256, tmp_path):
    for name in PAPERS:
        assert paper_experiment(name, quick=False) == read_experiment(name)
    assert not list(tmp_path.iterdir())


def test_experiments_of_claims_about_time_have_the_cores_for_one_trial():
    about_time = ["O2", "O4", "O7"]  # faster, depends on, and times as long
    named = [name for claim in CLAIMS if claim.id in about_time for name in claim.experiments]
    assert [name for name in experiments() if needs_quiet_cores(name)] == list(dict.fromkeys(named))


def test_tables_and_figures_of_the_papers_name_experiments_that_paper_runs_or_say_why_not():
    for item in published("tables_and_figures").itertuples():
        assert item.experiment in ("", *experiments()), item.place
        assert item.experiment or item.note, item.place


def test_an_effect_is_drawn_on_an_axis_from_its_least_to_its_largest_number():
    """By hand: 0 to .6 are 9 to 81 of 90 pixels, and a bound that is infinite is at the end."""
    effect = {"mean": 0.5, "low": 0.4, "high": 0.6, "above": 0.0, "below": math.inf}
    drawn = effect_plot(effect)
    assert 'rect x="9.0" width="81.0"' in drawn
    assert 'd="M57.0 8H81.0"' in drawn
    assert 'cx="69.0"' in drawn
    assert "path" not in effect_plot({**effect, "low": math.nan, "high": math.nan})
