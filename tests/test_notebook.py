"""`oasis_bench.run` from Python: the same numbers as the command, what it takes, what it shows."""

import base64
import doctest
import importlib.util
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from fake_runs import fake_trials, make_run
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler

import oasis_bench
from oasis_bench import scorers
from oasis_bench.algorithms import LMNN, OASIS, Euclidean
from oasis_bench.command_line import ProgressDisplay, main
from oasis_bench.notebook import RunResult
from oasis_bench.notebook.result import find_best
from oasis_bench.notebook.running import learners_of, rows_as_file
from oasis_bench.plugins import MahalanobisLearner
from oasis_bench.reports import summary_html
from oasis_bench.runs import resume_experiment
from oasis_bench.system import UsageError

X, Y = load_iris(return_X_y=True)
KINDS = np.array(["setosa", "versicolor", "virginica"])[Y]
SIZES = {"partitions": 2, "train_per_class": 20, "test_per_class": 10, "inner_folds": 2}
SMALL = {**SIZES, "max_steps": 500, "traces": False, "use": "direct"}

PLUGIN = """
from oasis_bench.algorithms import Euclidean

class Mine(Euclidean):
    name, summary = "Mine", "as Euclidean"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def result(folder):
    learners = ["Euclidean", OASIS(n_steps=300, random_state=0)]
    return oasis_bench.run((X, Y), learners, output=folder / "iris", **SMALL)


def values(result):
    keys = ["learner", "subset", "partition", "task", "measure", "k"]
    return result.measures.set_index(keys)["value"].sort_index()


def test_quick_and_the_columns_of_a_table_are_those_of_the_command(folder, monkeypatch):
    monkeypatch.chdir(folder)
    table = pd.DataFrame(X, columns=list("abcd")).assign(kind=KINDS, place="x")
    table["fold"] = np.arange(len(X)) % 3
    table.to_csv("columns.csv", index=False)
    given = "--label kind --drop place,a --fold-column fold --max-steps 300 --no-traces --quick"
    command = f"run --dataset columns.csv --algorithms OASIS --output quick-command {given}"
    assert main(command.split()) == 0
    theirs = RunResult("quick-command")
    how = {"quick": True, "label": "kind", "drop": ["place", "a"], "fold_column": "fold"}
    ours = oasis_bench.run(
        "columns.csv", "OASIS", output="quick-python", max_steps=300, traces=False, **how
    )
    pd.testing.assert_series_equal(values(ours), values(theirs))
    assert ours.trials["partition"].nunique() == 2  # of three folds: it is quick
    assert ours._run.info.experiment == theirs._run.info.experiment
    (remark,) = ours._run.info.remarks
    assert remark.endswith("For the full run, leave out quick=True")


def test_what_a_run_keeps_is_there_and_can_go_on(result, folder):
    assert (folder / "iris.npz").is_file()
    assert resume_experiment(folder / "iris") == 0
    assert len(RunResult(folder / "iris").trials) == len(result.trials) == 4
    assert result.report() == folder / "iris" / "report.html"
    assert str(result) in repr(result)
    assert "mAP" in str(result)
    table = result.trials
    table["status"] = "changed"
    assert result.trials["status"].eq("ok").all()


def test_an_instance_is_taken_as_it_is_and_a_class_is_searched(result):
    params = result.trials.set_index("learner")["params"]
    assert '"n_steps": 300' in params["OASIS"].iloc[0]
    given = [OASIS, OASIS(n_steps=5), OASIS(n_steps=7, aggressiveness=0.2)]
    specs, files = learners_of(given, {}, [])
    assert files == []
    assert list(specs) == ["OASIS", "OASIS(n_steps=5)", "OASIS(aggressiveness=0.2 n_steps=7)"]
    assert specs["OASIS"].params == {}
    assert specs["OASIS(n_steps=5)"].params["n_steps"] == 5
    assert "random_state" not in specs["OASIS(n_steps=5)"].params
    assert list(learners_of({"a": "LMNN", "b": LMNN}, {}, [])[0]) == ["a", "b"]


def test_the_best_learner_is_fitted_on_all_rows(result):
    best = result.best()
    of_best = result.trials[result.trials["learner"] == best[-1].name]
    steps = [type(step) for _, step in best.steps[:-1]]
    own = {
        "standard": [StandardScaler],
        "standard+l2": [StandardScaler, Normalizer],
        "minmax": [MinMaxScaler],
    }
    assert steps in [own[name] for name in of_best["scaling"]]
    by_hand = make_pipeline(*[step() for step in steps], clone(best[-1])).fit(X, Y)
    rows = by_hand[:-1].transform(X)
    expected = scorers.similarity_of(by_hand, X[:5], X)
    assert hasattr(best, "blend_") == (best[-1].name != "Euclidean")
    if hasattr(best, "blend_"):
        b = best.blend_.weight
        assert b == of_best["blend"].median()
        for step in best.blend_.steps or ():  # the baseline has a scaling of its own
            rows = X if step is best.blend_.steps[0] else rows
            rows = clone(step).fit_transform(rows)
        s0 = -(cdist(rows[:5], rows) ** 2) / 2 / best.blend_.baseline_sd
        is_distance = isinstance(best[-1], MahalanobisLearner)
        s1 = -(expected**2) / 2 if is_distance else expected
        expected = (1 - b) * s0 + b * s1 / best.blend_.learned_sd if b < 1 else s1
    assert scorers.similarity_of(best, X[:5], X) == pytest.approx(expected)
    means = result.measures.query("measure == 'mAP'").groupby("learner")["value"].mean()
    assert best[-1].name == means.idxmax()
    assert best.score(X, Y) == pytest.approx(by_hand.score(X, Y))


def test_the_best_is_found_on_the_largest_subset_among_the_most_partitions(tmp_path):
    def trials(learner, scores, n_classes, chosen):
        made = fake_trials(learner, scores, n_classes=n_classes)
        for trial, (scaling, n_steps) in zip(made, chosen, strict=True):
            trial.columns.update(scaling=scaling, n_steps=n_steps, params='{"aggressiveness": 0.1}')
        return made

    chosen = [("l2", 10), ("none", 90), ("l2", 30)]
    rows = [
        *trials("small", [0.9] * 3, 2, chosen),
        *trials("OASIS", [0.7, 0.5, 0.6], 5, chosen),
        *trials("worse", [0.5, 0.5, 0.5], 5, chosen),
        *trials("partly", [0.99], 5, chosen[:1]),
    ]
    run = make_run(tmp_path, rows, ["small", "OASIS", "worse", "partly"], 3, classes=(2, 5))
    best = find_best(run)
    assert (best.label, best.scaling, best.params) == ("OASIS", "l2", {"aggressiveness": 0.1})
    assert (best.n_steps, best.use, best.tau, best.blend) == (20, "direct", None, None)


def test_a_class_of_a_module_comes_from_its_file(folder, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN)
    spec = importlib.util.spec_from_file_location("mine", path)
    module = sys.modules["mine"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    try:
        for plugin_files in ([], [path]):
            specs, files = learners_of(module.Mine, {}, plugin_files)
            assert (specs["Mine"].algorithm, files) == ("Mine", [path])
        result = oasis_bench.run((X, Y), module.Mine, output=folder / "mine", **SMALL)
    finally:
        del sys.modules["mine"]
    assert result.trials["status"].eq("ok").all()
    assert result.best()[-1].name == "Mine"
    with pytest.raises(UsageError, match=r"whose code runs again.*mine\.py"):
        RunResult(folder / "mine").best()
    assert RunResult(folder / "mine", [path]).best()[-1].name == "Mine"


def test_the_summary_of_a_notebook_needs_no_other_file_and_is_escaped(tmp_path):
    evil = "<script>alert(1)</script>"
    trials = fake_trials(evil, [0.5, 0.6]) + fake_trials("b", [0.4, 0.3])
    run = make_run(tmp_path, trials, [evil, "b"], 2, title=evil)
    html = summary_html(run)
    assert evil not in html
    assert "&lt;script&gt;" in html
    assert "data:image/svg+xml;base64," in html
    assert not re.search(r'(src|href)=(?!"data:)', html)
    assert "<script" not in html


class InThisFile(Euclidean):
    name = "InThisFile"


InThisFile.__module__ = "__main__"


class TakenName(Euclidean):
    pass


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learners": InThisFile}, r"%%writefile mine.py.*plugin_files=\['mine.py'\]"),
        ({"learners": TakenName}, "name 'Euclidean' of TakenName belongs to another learner"),
        ({"learners": [OASIS, OASIS]}, "two learners are called 'OASIS"),
        ({"learners": {"a": OASIS(n_steps=[1, 2])}}, r"learner 'a': n_steps = \[1, 2\]: a run"),
        (
            {
                "dataset": pd.DataFrame({"a": [1, np.nan], "kind": [0, 1]}),
                "label": "kind",
                "prepare": "none",
            },
            "^the rows given: 1 value is NaN or missing",
        ),
        (
            {"dataset": pd.DataFrame({"a": [1, 2], "kind": [0, 1]}), "label": "knd"},
            "did you mean 'kind'.* name one with label$",
        ),
        ({"dataset": (X, Y), "label": "kind"}, "label = 'kind' of .X, y.: y has the labels"),
        ({"dataset": "digits", "queries": 3}, "queries chooses pictures, and digits has none"),
        ({"dataset": "digits", "most_items": 9}, "most_items=9 has .* add split='stratified'$"),
        (
            {"dataset": "digits", "train_per_class": 999},
            ": lower train_per_class and test_per_class until",
        ),
    ],
)
def test_what_cannot_run_is_one_clear_line_and_leaves_nothing(
    given, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message) as error:
        oasis_bench.run(**given)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_each_value_of_a_list_is_a_run_which_the_same_call_continues(tmp_path, capsys):
    file = tmp_path / "seeds.toml"
    file.write_text(
        'title = "S"\ndataset = "digits"\n[each]\nseed = [1, 2]\n[learners.Euclidean]\n'
    )
    given = {"experiment": file, "output": tmp_path / "two", "tasks": "retrieval", **SMALL}
    found = oasis_bench.run(classes=2, **given)
    assert list(found) == ["1", "2"]
    assert not values(found["1"]).equals(values(found["2"]))
    assert (tmp_path / "two" / "side_by_side.html").exists()
    alone = oasis_bench.run(
        "digits", Euclidean, output=tmp_path / "one", seed=2, classes=2, **SMALL
    )
    retrieval = values(alone).loc[values(found["2"]).index]
    pd.testing.assert_series_equal(retrieval, values(found["2"]))
    capsys.readouterr()
    oasis_bench.run(classes=2, **given)
    assert capsys.readouterr().err.count("is finished") == 2


def test_numbers_of_numpy_are_taken(tmp_path):
    sizes = {name: np.int64(n) for name, n in SIZES.items()}
    settings = {**sizes, "classes": np.array([2, 3]), "traces": np.False_}
    result = oasis_bench.run((X, Y), "Euclidean", output=tmp_path / "run", **settings)
    assert sorted(result.trials["n_classes"].unique()) == [2, 3]
    assert scorers.knn_accuracy(np.int64(3)).k == 3
    with pytest.raises(UsageError, match="k = True: a whole number"):
        scorers.knn_accuracy(True)


def test_a_used_folder_is_refused_before_rows_are_written(result, folder):
    before = (folder / "iris.npz").read_bytes()
    with pytest.raises(UsageError, match="already has a run"):
        oasis_bench.run((X + 1, Y), output=folder / "iris")
    assert (folder / "iris.npz").read_bytes() == before


def test_a_file_beside_the_run_is_neither_replaced_nor_removed(tmp_path):
    mine = tmp_path / "iris.npz"
    mine.write_text("years of work")
    with pytest.raises(UsageError, match=r"iris\.npz is another file, not these rows"):
        oasis_bench.run((X, Y), Euclidean, output=tmp_path / "iris", **SMALL)
    assert mine.read_text() == "years of work"
    mine.write_bytes(rows_as_file((X, Y))[1])  # the same rows, of another run
    with pytest.raises(UsageError, match="classes"):
        oasis_bench.run((X, Y), Euclidean, output=tmp_path / "iris", **{**SMALL, "classes": 99})
    assert mine.exists()


def test_an_interrupt_keeps_what_is_finished_and_says_how_to_go_on(folder, monkeypatch):
    def interrupted(self, record, done, planned):
        told(self, record, done, planned)
        if done == 1:
            raise KeyboardInterrupt

    told = ProgressDisplay.trial
    monkeypatch.setattr(ProgressDisplay, "trial", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"after 1 of 2 trials.*--resume .*cut'"):
        oasis_bench.run((X, Y), Euclidean, output=folder / "cut", **SMALL)
    assert len(RunResult(folder / "cut").trials) == 1
    assert resume_experiment(folder / "cut") == 0
    assert len(RunResult(folder / "cut").trials) == 2


def test_the_package_itself_stays_light():
    code = (
        "import sys, oasis_bench; assert not {'numpy', 'sklearn', 'pandas'} & set(sys.modules); "
        "assert oasis_bench.run.__module__ == 'oasis_bench.notebook.running'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match="no attribute 'runner'"):
        _ = oasis_bench.runner


@pytest.mark.parametrize("name", ["run", "fit"])
def test_the_example_of_the_documentation_runs(name, tmp_path, monkeypatch):
    function = getattr(oasis_bench, name)
    monkeypatch.chdir(tmp_path)
    module = sys.modules[function.__module__]
    (example,) = doctest.DocTestFinder().find(function, name, module=module)
    assert doctest.DocTestRunner().run(example).failed == 0


def test_tables_of_other_libraries_and_mixed_columns_are_as_a_data_frame():
    pyarrow = pytest.importorskip("pyarrow")
    frame = pd.DataFrame({"a": X[:, 0], "colour": KINDS, "label": Y})
    expected = rows_as_file(frame)
    assert rows_as_file(pyarrow.table(frame)) == expected
    assert rows_as_file(pyarrow.record_batch(frame)) == expected  # has Arrow's stream
    assert rows_as_file((frame[["a", "colour"]], frame["label"])) == expected
    mixed = frame[["a", "colour"]].to_numpy(dtype=object)
    ending, content = rows_as_file((mixed, Y))
    assert ending == ".table.npz"
    assert content == rows_as_file(frame.set_axis(["0", "1", "label"], axis=1))[1]
    with pytest.raises(UsageError, match="X has a column 'label'"):
        rows_as_file((frame, Y))


NOTEBOOK = """
import oasis_bench
from sklearn.datasets import load_iris
result = oasis_bench.run(load_iris(return_X_y=True), ["LDA", "Euclidean"], output="run", {settings})
---
result
"""


def test_a_cell_of_a_notebook_ends_with_the_answer_the_tables_and_the_figures(tmp_path):
    client = pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")
    nbformat = pytest.importorskip("nbformat")
    settings = ", ".join(f"{name}={value!r}" for name, value in SMALL.items())
    cells = NOTEBOOK.format(settings=settings).split("---")
    new = nbformat.v4
    notebook = new.new_notebook(cells=[new.new_code_cell(cell.strip()) for cell in cells])
    place = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=place).execute()
    running, ended = (cell.outputs for cell in notebook.cells)
    texts = [one.text for one in running if one.output_type == "stream"]
    widgets = [one for one in running if one.output_type == "display_data"]
    assert widgets or any(text.startswith("\rtrials: 100%") for text in texts)
    assert "kept in run\n" in "".join(texts)
    assert "Warning" not in "".join(texts)

    (shown,) = ended
    answer = str(RunResult(tmp_path / "run"))
    assert shown.data["text/plain"].endswith(answer)
    page = ElementTree.fromstring(re.sub(r"(<img [^>]*)>", r"\1/>", shown.data["text/html"]))
    assert page.find("pre").text == answer
    means = RunResult(tmp_path / "run").measures.query("measure == 'mAP'")
    for learner, mean in means.groupby("learner")["value"].mean().items():
        rows = [line for line in answer.splitlines() if line.strip(" *").startswith(learner)]
        assert any(f"{mean:.3f}" in row for row in rows), (learner, mean)
    figures = page.findall("figure")
    assert figures
    for figure in figures:
        kind, content = figure.find("img").get("src").split(",")
        assert kind == "data:image/svg+xml;base64"
        assert ElementTree.fromstring(base64.b64decode(content)).tag.endswith("}svg")
