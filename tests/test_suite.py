"""The suite: corpora in pieces, results that are skipped or made again, identity of code."""

import ast
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import oasis_bench
from oasis_bench.command_line import main
from oasis_bench.experiment import Experiment, LearnerSpec, changed, package_hash, read_experiment
from oasis_bench.experiment.identity import CODE, DECIDING, _meaning
from oasis_bench.plugins import Registry
from oasis_bench.runs import has_result
from oasis_bench.system import UsageError

SUITE = """
title = "Two tables"
protocol = {protocol}
classes = ["all"]
tasks = ["classification"]
split = "stratified"
test_share = 0.5
partitions = 1
inner_folds = 2
search = "2"
budget = "30s"
traces = false
examples = 0
[quick]
corpora = ["near"]
partitions = 1
[learners]
Euclidean = {{}}
LDA = {{}}
[corpora.near]
dataset = "{folder}/near.csv"
[corpora.far]
dataset = "{folder}/far.csv"
learners = ["Euclidean"]
scaling = ["none"]
"""


MINE = """from oasis_bench.algorithms import LDA

class Mine(LDA):
    name = "Mine"
"""


@pytest.fixture
def suite(tmp_path):
    rng = np.random.default_rng(0)
    for name, apart in (("near", 1), ("far", 9)):
        label = np.arange(60) % 3
        X = rng.normal(size=(60, 4)) + apart * label[:, None]
        table = pd.DataFrame(X, columns=list("abcd")).assign(
            label=list(map("class {}".format, label))
        )
        table.to_csv(tmp_path / f"{name}.csv", index=False)

    def write(protocol=1):
        path = tmp_path / "suite.toml"
        path.write_text(SUITE.format(protocol=protocol, folder=tmp_path))
        return path

    return write


def results(folder):
    return {path.stem: pd.read_csv(path) for path in (folder / "results").iterdir()}


def test_each_corpus_is_exported_with_its_protocol_and_code_and_not_run_again(
    suite, tmp_path, capsys
):
    """And Python runs a suite as the command line does."""
    command = ["run", "--experiment", str(suite()), "--output", str(tmp_path / "out")]
    assert main(command) == 0
    found = results(tmp_path / "out")
    assert {name: set(rows["learner"]) for name, rows in found.items()} == {
        "near": {"Euclidean", "LDA"},
        "far": {"Euclidean"},
    }
    for rows in found.values():
        assert set(rows["protocol"]) == {1}
        assert set(rows["code"]) == {package_hash()}
        assert set(rows["partitions"]) == {1}
    assert found["far"]["scaling"].iloc[0].startswith("none")
    capsys.readouterr()
    assert main(command) == 0
    again = capsys.readouterr()
    assert "0 of 2 corpora have no result" in again.err
    assert "LDA" not in again.err
    assert main([*command, "--seed", "1"]) == 2
    assert "near has a run with other settings (seed)" in capsys.readouterr().err
    by_python = oasis_bench.run(experiment=suite(), output=tmp_path / "python")
    assert list(by_python) == ["near", "far"]
    assert sorted(by_python["near"].trials["learner"]) == ["Euclidean", "LDA"]
    ours = results(tmp_path / "python")
    assert ours.keys() == found.keys()
    keys = ["learner", "task", "measure", "k", "protocol", "code", "mean"]
    for name in ours:
        pd.testing.assert_frame_equal(ours[name][keys], found[name][keys])


def test_a_finished_run_of_other_code_is_refused(suite, tmp_path, capsys, monkeypatch):
    """Of an edited plug-in, also where the result is there; of ours, where a run would be used."""
    plugin, out = tmp_path / "mine.py", tmp_path / "out"
    plugin.write_text(MINE)
    command = ["run", "--experiment", str(suite()), "--corpora", "near", "--output", str(out)]
    command += ["--plugin", str(plugin), "--algorithms", "Mine,Euclidean"]
    assert main(command) == 0
    kept = results(out)["near"]
    plugin.write_text(MINE + "CHANGED = True\n")
    assert main(command) == 2
    assert "the code of 'Mine' has changed since: choose another" in capsys.readouterr().err
    plugin.write_text(MINE)
    monkeypatch.setattr("oasis_bench.runs.several.package_hash", lambda: "0" * 64)
    assert main(command) == 1
    assert "near is left out: " in (told := capsys.readouterr().err)
    assert "has changed since" in told
    pd.testing.assert_frame_equal(results(out)["near"], kept)


def test_a_corpus_with_none_of_the_learners_is_left_out(suite, tmp_path):
    command = ["run", "--experiment", str(suite()), "--output", str(tmp_path / "out")]
    assert main([*command, "--algorithms", "LDA"]) == 0
    assert list(results(tmp_path / "out")) == ["near"]


def test_a_corpus_without_data_is_told_and_left_out(suite, tmp_path, capsys):
    (tmp_path / "near.csv").write_text("a,b,label\n1,2,only\n")
    command = ["run", "--experiment", str(suite()), "--output", str(tmp_path / "out")]
    assert main(command) == 1
    assert "near is left out: " in capsys.readouterr().err
    assert list(results(tmp_path / "out")) == ["far"]


def test_a_quick_suite_has_its_own_corpora_and_settings(suite, tmp_path):
    folder = tmp_path / "out"
    command = ["run", "--experiment", str(suite()), "--quick", "--output", str(folder)]
    assert main(command) == 0
    found = results(folder)
    assert list(found) == ["near"]
    assert set(found["near"]["planned"]) == {1}


def test_only_named_corpora_are_run(suite, tmp_path, capsys):
    command = ["run", "--experiment", str(suite()), "--output", str(tmp_path / "out")]
    assert main([*command, "--corpora", "far"]) == 0
    assert list(results(tmp_path / "out")) == ["far"]
    assert main([*command, "--corpora", "fat"]) == 2
    assert "unknown corpus 'fat': did you mean 'far'?" in capsys.readouterr().err
    run = oasis_bench.run(experiment=suite(), corpora="far", output=tmp_path / "python")
    assert [*run] == list(results(tmp_path / "python")) == ["far"]
    assert main(["run", "--corpora", "far", "--quick"]) == 2
    assert "--corpora is for a suite" in capsys.readouterr().err


def test_a_suite_may_have_a_run_for_each_value_on_each_corpus(suite):
    each = replace(read_experiment(str(suite())), each={"label_budget": [4, 8]})
    found = {name: one.label_budget for name, one in each.one_for_each_value().items()}
    assert found == {"near-4": 4, "near-8": 8, "far-4": 4, "far-8": 8}


def test_what_is_given_replaces_the_settings_of_each_corpus(suite):
    experiment = read_experiment(str(suite()))
    experiment = replace(
        experiment, corpora={"far": {**experiment.corpora["far"], "partitions": 3}}
    )
    given = changed(experiment, {"partitions": 2}).one_for_each_value()["far"]
    assert (given.partitions, given.scaling, [*given.learners]) == (2, ("none",), ["Euclidean"])
    assert changed(experiment, {}).one_for_each_value()["far"].partitions == 3


def test_a_limit_that_is_given_replaces_that_of_each_corpus(suite):
    experiment = read_experiment(str(suite()))
    corpora = {"far": {**experiment.corpora["far"], "budget": "30s"}}
    experiment = replace(experiment, corpora=corpora)
    assert changed(experiment, {}).one_for_each_value()["far"].budget == "30s"
    assert changed(experiment, {"budget": "5m"}).one_for_each_value()["far"].budget == "5m"


def test_one_data_set_takes_the_place_of_a_suite_s_corpora_and_options_are_not_lost(
    suite, tmp_path, capsys
):
    near = str(tmp_path / "near.csv")  # it is that of the first corpus, too
    one = changed(read_experiment(str(suite())), {}, dataset=near, dataset_options={"drop": "a"})
    assert (one.dataset, one.dataset_options, one.corpora) == (near, {"drop": "a"}, {})
    command = ["run", "--experiment", str(suite()), "--output", str(tmp_path / "out")]
    for words, said in (
        (["--drop", "a"], "an option of the data set is for one data set"),
        (["--corpora", "far", "--dataset", near], "--corpora and --dataset both name data"),
    ):
        assert main([*command, *words]) == 2
        assert said in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../evil", "a/b", "..", "."])
def test_a_corpus_whose_name_leads_out_of_the_folder_is_refused(suite, name):
    path = suite()
    path.write_text(path.read_text().replace("[corpora.far]", f'[corpora."{name}"]'))
    with pytest.raises(UsageError, match="a name without / is needed"):
        read_experiment(str(path))
    one = Experiment("T", "keel", {"LDA": LearnerSpec("LDA")}, {"table": ["wine", name]})
    with pytest.raises(UsageError, match="different values that can name folders are needed"):
        one.one_for_each_value()


def test_a_protocol_is_a_number(suite):
    with pytest.raises(UsageError, match="protocol = 'two': a whole number of at least 1"):
        read_experiment(str(suite(protocol='"two"')))


def test_tasks_are_asked_of_the_corpora_that_ask_them():
    suite = read_experiment("suite")
    new = changed(suite, {"tasks": "unseen-classes"}).corpora
    assert len(new) == 39
    assert {"iris", "pendigits"}.isdisjoint(new)
    # No corpus asks this one, so it is asked of all.
    assert [*changed(suite, {"tasks": ("verification",)}).corpora] == [*suite.corpora]


def test_a_result_of_other_learners_or_code_is_made_again(suite, tmp_path):
    one = read_experiment(str(suite())).one_for_each_value()["near"]
    needed = {"dataset": "near", "subset": "all", "subset_title": "all", "n_classes": 3}
    needed |= {"task": "classification", "measure": "accuracy", "name": "accuracy"}
    needed |= {"mean": 0.9, "partitions": 1, "protocol": 1, "code": package_hash()}
    rows = pd.DataFrame({**needed, "learner": ["Euclidean", "LDA"]})
    folder = tmp_path / "results"
    folder.mkdir()
    file = folder / "near.csv"
    assert not has_result(file, one)
    rows.to_csv(file)
    assert has_result(file, one)
    rows.assign(protocol=2).to_csv(file)
    assert not has_result(file, one)
    rows.iloc[:1].to_csv(file)
    assert not has_result(file, one)
    rows.assign(code="a" * 64).to_csv(file)
    assert not has_result(file, one)
    (folder / "equal-code.txt").write_text("a" * 64 + " the same values on iris\n")
    assert not has_result(file, one)  # it says nothing of the code of now
    (folder / "equal-code.txt").write_text(f"{'a' * 64} as\n{package_hash()} now\n")
    assert has_result(file, one)
    file.write_text("")
    with pytest.raises(UsageError, match=r"near\.csv is not a summary of a run: "):
        has_result(file, one)


@pytest.mark.parametrize(
    ("other", "is_same"),
    [
        ('def f(x):\n    "What it does."\n    # why\n    return x + 1\n', True),
        ("def f(x): return (x\n + 1)", True),
        ("def f(x):\n    return x + 2", False),
        ("def f(x):\n    return x - 1", False),
        ("def f(y):\n    return y + 1", False),
    ],
)
def test_words_do_not_change_the_identity_of_code(other, is_same):
    before = _meaning(ast.parse("def f(x):\n    return x + 1"))
    assert (_meaning(ast.parse(other)) == before) == is_same
    nested = "if a:\n    b()\nc()", "if a:\n    b()\n    c()"
    assert len({_meaning(ast.parse(text)) for text in nested}) == 2


def test_every_kind_of_source_file_counts_for_the_code():
    folders = [
        Path(it) for name in DECIDING for it in import_module(f"oasis_bench.{name}").__path__
    ]
    kinds = {file.suffix for folder in folders for file in folder.rglob("*.*")}
    assert kinds - CODE <= {".pyi", ".pyc", ".toml"}  # of the last the data's hash knows


def test_every_corpus_and_learner_of_the_built_in_suite_is_known():
    whole, registry = read_experiment("suite"), Registry.load()
    each = whole.one_for_each_value()
    assert len(each) == len(whole.corpora) >= 29
    for one in each.values():
        assert (one.protocol, one.corpora) == (whole.protocol, {})
        options = {k: v for k, v in one.dataset_options.items() if k != "features"}  # an extra's
        registry.open_dataset(one.dataset, options)
        assert all(registry.algorithms[spec.algorithm] for spec in one.learners.values())
