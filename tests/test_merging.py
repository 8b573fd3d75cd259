"""Several runs merged into one: which trials and information it has, and what is refused."""

import sqlite3
from contextlib import closing
from dataclasses import asdict

import pytest

from oasis_bench.analysis import compare_runs
from oasis_bench.command_line import main
from oasis_bench.experiment import LearnerSpec, MergedRun
from oasis_bench.reports import write_report
from oasis_bench.runner import merge_runs
from oasis_bench.store import FILE_NAME, Store, read_run
from oasis_bench.store.schema import TRIAL_TABLES
from oasis_bench.system import UsageError
from oasis_bench.trial import TrialResult

FAILED = {"status": "failed", "reason": "no"}


@pytest.fixture
def merge(tmp_path):
    """Merge runs into 'all'; return the merged run."""

    def call(*folders):
        merge_runs(folders, tmp_path / "all")
        return read_run(tmp_path / "all")

    return call


def rows(folder, table):
    with closing(sqlite3.connect(folder / FILE_NAME)) as connection:
        connection.row_factory = sqlite3.Row
        held = map(dict, connection.execute(f"SELECT * FROM {table}"))
        return sorted(({**row, "run": ""} for row in held), key=repr)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_merged_run_holds_every_row_of_the_runs_as_it_was(write_run, merge, tmp_path):
    a = write_run("a", [{"partition": 1, **FAILED, "traceback": "line"}, {"n_steps": 500}])
    b = write_run("b", [{"learner": "B", "mAP": 1 / 3}])
    with Store.open(a) as store:
        store.add_pictures([{"row": 1, "caption": "x", "thumbnail": b"\xff\0"}])
        store.add(
            TrialResult(
                {**read_run(b).trials.iloc[0].dropna().to_dict(), "trial_id": "t", "learner": "A"}
                | {"partition": 2},
                confusion=[{"task": "classification", "label": 0, "predicted": 1, "n": 3}],
                validation=[
                    {"scaling": "l2", "params": "{}", "n_steps": 5, "fold": 0, "value": 0.1 + 0.2}
                ],
                traces=[{"part": "test", "n_steps": 5, "value": 0.1}],
                symmetry=[{"n_steps": 5, "symmetry_index": 0.9}],
                retrievals=[{"query": 1, "rank": 1, "retrieved": 2, "relevant": 0}],
                projections=[
                    {"row": 1, "label": 0, "x": 0.1, "y": 0.2, "x_before": None, "y_before": None}
                ],
                fit_numbers=[{"name": "gap_", "value": 0.1 + 0.2}],
            )
        )
    before = [contents(folder) for folder in (a, b)]
    run = merge(a, b)
    in_order = [trial for it in (a, b) for trial in read_run(it).trials["trial_id"]]
    assert run.trials["trial_id"].tolist() == in_order
    assert run.trials["run"].tolist() == [str(a)] * 3 + [str(b)]
    for table in ("trials", *TRIAL_TABLES, "pictures"):
        held = sorted(rows(a, table) + rows(b, table), key=repr)
        assert rows(tmp_path / "all", table) == held
        assert table == "pictures" or held
    assert [contents(folder) for folder in (a, b)] == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "all", "b"]


def test_a_merged_run_says_what_the_runs_said(write_run, merge):
    a = write_run(
        "a",
        [{}, {"partition": 1}],
        experiment={"partitions": 2, "title": "First"},
        provenance={"processor": "old one", "commit": "aaa"},
        notes={"10": "a note"},
        resumed=[{"started": "2026-11-22", "provenance": {"commit": "ccc"}, "load_at_start": 0.5}],
    )
    b = write_run(
        "b",
        [{"learner": "B"}, {"learner": "B", "subset": "20", "n_classes": 20}],
        experiment={"partitions": 3, "title": "Second"},
        started="2026-11-20T07:00:00+00:00",
        provenance={"processor": "new one", "commit": "bbb"},
    )
    run = merge(a, b)
    assert list(run.info.experiment.learners) == ["A", "B"]
    assert run.info.experiment.classes == (10, 20)
    assert run.info.experiment.partitions == 3
    assert run.info.experiment.title == "First + Second"
    assert list(run.info.classes) == ["10", "20"]
    assert run.info.notes == {"10": "a note"}
    assert set(run.info.sources.learners) == {"A", "B"}
    assert run.info.planned_trials == 2 + 2 * 3
    assert run.info.started == "2026-11-20T07:00:00+00:00"
    assert run.info.finished == "2026-11-21T09:00:00+00:00"
    assert run.info.merged == {
        str(a): MergedRun(
            started="2026-11-21T07:00:00+00:00", commit="aaa", resumed=read_run(a).info.resumed
        ),
        str(b): MergedRun(started="2026-11-20T07:00:00+00:00", commit="bbb"),
    }
    assert run.info.provenance == {
        f"{a}, started 2026-11-21T07:00:00+00:00": {
            **{"processor": "old one", "commit": "aaa", "load at start": 0.1}
        },
        f"{a}, resumed 2026-11-22": {"commit": "ccc", "load at start": 0.5},
        f"{b}, started 2026-11-20T07:00:00+00:00": {
            **{"processor": "new one", "commit": "bbb", "load at start": 0.1}
        },
    }
    commands = run.info.command.splitlines()
    assert commands[:2] == [f"python -m oasis_bench run --output {name}" for name in "ab"]
    assert commands[2] == f"python -m oasis_bench merge {a} {b} --into {a.with_name('all')}"


def test_a_merged_run_of_one_that_was_cut_short_is_cut_short(write_run, merge):
    a, b = write_run("a", [{}]), write_run("b", [{"learner": "B"}])
    with Store.open(b) as store:
        store.connection.execute("DELETE FROM run WHERE key = 'finished'")
    assert merge(a, b).info.finished is None


def test_the_report_of_a_merged_run_names_the_runs(write_run, merge, tmp_path):
    folders = [
        write_run("a", [{}, {"partition": 1}], provenance={"commit": "commit of a"}),
        write_run("b", [{"learner": "B", "processor": "x"}], provenance={"commit": "commit of b"}),
    ]
    merge(*folders)
    page = write_report(tmp_path / "all").read_text("utf-8")
    assert "Merged from 2 runs" in page
    for folder, count in zip(folders, ("2 trials", "1 trial"), strict=True):
        assert f"{folder} ({count}, started 2026-11-21T07:00:00+00:00)" in page
    assert "commit of a" in page
    assert "commit of b" in page
    assert "B: 1 of 2 partitions finished; 1 not run." in page
    assert "on different processors" in (tmp_path / "all/tables/costs.tex").read_text()


def test_runs_can_be_merged_by_the_command_line(write_run, tmp_path, capsys):
    folders = [str(write_run(name, [{"learner": name}])) for name in "ab"]
    assert main(["merge", *folders, "--into", str(tmp_path / "new" / "all")]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "merged: 2 trials of 2 runs"
    assert (tmp_path / "new" / "all" / "report.html").is_file()


def test_of_a_trial_in_several_runs_a_result_is_taken_first(write_run, merge):
    a = write_run("a", [{**FAILED}, {"partition": 1}, {"partition": 2, **FAILED}])
    b = write_run("b", [{"fit_seconds": 2.0}, {"partition": 1, "fit_seconds": 2.0}])
    c = write_run("c", [{"fit_seconds": 3.0}, {"partition": 2, "status": "crashed", "reason": ""}])
    run = merge(a, b, c)
    trials = run.trials.sort_values("partition")
    assert trials["status"].tolist() == ["ok", "ok", "failed"]
    assert trials["fit_seconds"].tolist()[:2] == [2.0, 1.0]
    assert trials["run"].tolist() == [str(b), str(a), str(a)]
    assert list(run.info.merged) == [str(a), str(b), str(c)]
    assert len(run.measures) == 2 * 51


@pytest.mark.parametrize("measure", ["mAP", "precision at k"])
def test_a_trial_with_two_results_is_refused(write_run, merge, measure):
    a, b = write_run("a", [{}]), write_run("b", [{"mAP": 0.51}])
    if measure == "precision at k":
        b = write_run("c", [{}])
        with Store.open(b) as store:
            store.connection.execute("UPDATE measures SET value = 0 WHERE k = 7")
    with pytest.raises(UsageError, match=r"A on classes 10, partition 0 has other measures"):
        merge(a, b)


@pytest.mark.parametrize(
    ("of_b", "reason"),
    [
        ({"experiment": {"dataset": "mnist"}}, r"in dataset \(made up, mnist\) \('ranks' compares"),
        ({"identity": {"data": "other"}}, "in the rows of the data set"),
        ({"experiment": {"seed": 1}}, r"in seed \(0, 1\)"),
        ({"experiment": {"train_per_class": 20}}, r"in train_per_class \(40, 20\)"),
        ({"experiment": {"inner_folds": 2}}, r"in inner_folds \(5, 2\)"),
        ({"experiment": {"threads": 2}}, r"in threads \(1, 2\)"),
        ({"experiment": {"budget": "10m"}}, r"in budget \(1h, 10m\)"),
        ({"scaling": ("none",)}, r"in scaling \(l2, none\)"),
        ({"classes": {"10": ["other"] * 10}}, "'10' names other classes"),
        (
            {
                "experiment": {
                    "learners": {
                        "A": asdict(LearnerSpec("OASIS", {"n_steps": 1})),
                        "B": asdict(LearnerSpec("OASIS")),
                    }
                }
            },
            "'A' names other parameters",
        ),
    ],
)
def test_runs_that_do_not_belong_in_one_report_are_refused(
    write_run, tmp_path, capsys, of_b, reason
):
    a, b = write_run("a", [{}]), write_run("b", [{"learner": "B"}], **of_b)
    into = str(tmp_path / "all")
    with pytest.raises(UsageError, match=rf"^cannot merge {a} and {b}: .*{reason}"):
        merge_runs([a, b], tmp_path / "all")
    assert main(["merge", str(a), str(b), "--into", into]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_one_label_of_two_sources_on_the_same_classes_is_refused(write_run, merge):
    a = write_run("a", [{}])
    b = write_run("b", [{"partition": 1}], identity={"source": "changed", "partition": 1})
    with pytest.raises(UsageError, match="they differ in the source code of A, classes 10"):
        merge(a, b)


def test_a_run_is_merged_with_another_one(write_run, merge):
    a = write_run("a", [{}])
    with pytest.raises(UsageError, match="1 run to merge"):
        merge(a)
    with pytest.raises(UsageError, match="1 run to merge"):
        merge(a, a)


def test_a_folder_in_use_is_refused(write_run, capsys):
    a, b = write_run("a", [{}]), write_run("b", [{"learner": "B"}])
    before = contents(b)
    assert main(["merge", str(a), str(b), "--into", str(b)]) == 2
    assert "holds another run: choose another --into" in capsys.readouterr().err
    assert contents(b) == before


def test_an_empty_folder_is_used(write_run, merge, tmp_path):
    (tmp_path / "all").mkdir()
    assert len(merge(write_run("a", [{}]), write_run("b", [{"learner": "B"}])).trials) == 2


def test_a_target_that_cannot_be_made_is_told(write_run, tmp_path):
    a, b = write_run("a", [{}]), write_run("b", [{"learner": "B"}])
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=r"cannot use .*: Not a directory"):
        merge_runs([a, b], tmp_path / "file" / "all")


def test_where_the_disk_is_full_nothing_is_written(write_run, tmp_path):
    resource = pytest.importorskip("resource")
    a = write_run("a", [{"partition": number} for number in range(100)])
    b = write_run("b", [{"learner": "B"}])
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**17, before[1]))  # enough for a store of no trial
    try:
        with pytest.raises(UsageError, match=rf"^cannot write {tmp_path / 'all'}: "):
            merge_runs([a, b], tmp_path / "all")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_merged_run_is_merged_again_and_compared(write_run, tmp_path):
    a, b, c = (write_run(name, [{"learner": name}]) for name in "abc")
    merge_runs([a, b], tmp_path / "ab")
    merge_runs([tmp_path / "ab", c], tmp_path / "abc")
    run = read_run(tmp_path / "abc")
    assert run.trials["run"].tolist() == list(run.info.merged) == [str(a), str(b), str(c)]
    assert run.trials["learner"].tolist() == ["a", "b", "c"]
    assert run.info.planned_trials == 3 * 2
    comparison = compare_runs(run, read_run(b))
    assert {line.verdict for line in comparison.lines} == {"same"}
    assert {line.learner for line in comparison.lines} == {"b"}


def test_two_runs_of_one_name_are_refused(write_run, merge, tmp_path):
    a, b, c = (write_run(name, [{"learner": name}]) for name in "abc")
    merge_runs([a, b], tmp_path / "ab")
    merge_runs([a, c], tmp_path / "ac")
    a.rename(tmp_path / "earlier")
    write_run("a", [{"learner": "d"}], started="2026-11-22T07:00:00+00:00")
    with pytest.raises(UsageError, match=f"{str(a)!r} is also the name of another run"):
        merge(tmp_path / "ab", a)
    assert len(merge(tmp_path / "ab", tmp_path / "ac").trials) == 3  # here both are one run


def test_trials_of_several_splits_are_kept_apart(write_run, merge):
    tasks = {"tasks": ["retrieval", "unseen-classes"]}
    a, b = (
        write_run(
            name,
            [{"learner": name, "tasks": (task,), "mAP": mAP} for task, mAP in of_tasks.items()],
            experiment=tasks,
        )
        for name, of_tasks in (
            ("a", {"retrieval": 0.5, "unseen-classes": 0.4}),
            ("b", {"retrieval": 0.6}),
        )
    )
    run = merge(a, b)
    found = run.measures[run.measures["measure"] == "mAP"].set_index(["learner", "split"])["value"]
    assert found.to_dict() == {
        ("a", "seen-classes"): 0.5,
        ("a", "unseen-classes"): 0.4,
        ("b", "seen-classes"): 0.6,
    }
    assert list(run.info.identities) == [
        *("a, classes 10", "a, classes 10, unseen-classes", "b, classes 10"),
    ]
    assert run.info.planned_trials == 3 * 2
    assert list(run.info.sources.tasks) == tasks["tasks"]


def test_runs_of_other_tasks_are_refused(write_run, merge):
    a = write_run("a", [{}])
    b = write_run("b", [{"learner": "B"}], experiment={"tasks": ["retrieval", "classification"]})
    with pytest.raises(UsageError, match="they differ in tasks"):
        merge(a, b)
