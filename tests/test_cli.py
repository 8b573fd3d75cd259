"""The command line: what it says of the user's mistakes, its lists, helps and reports."""

import pkgutil
import re
import subprocess
import sys
import tomllib

import pytest

from oasis_bench import __version__
from oasis_bench.algorithms import OASIS
from oasis_bench.command_line import main
from oasis_bench.command_line.entry import VERBS
from oasis_bench.experiment import (
    BUILT_IN,
    Experiment,
    LearnerSpec,
    built_in_experiments,
    known_settings,
)
from oasis_bench.plugins import load_registry
from oasis_bench.runs import read_run, run as runner

SMALL = (
    "--algorithms Euclidean --dataset digits --classes 2 --partitions 1 --inner-folds 2 "
    "--train 6 --test 4"
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Keep listings in a folder of the test's own: another test's must not be shown."""
    monkeypatch.setenv("OASIS_BENCH_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Return the folder of a small run made by the command line."""
    folder = tmp_path_factory.mktemp("cli") / "run"
    assert main(["run", *SMALL.split(), "--output", str(folder)]) == 0
    return folder


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ("--algorithms OASSIS", ["unknown algorithm 'OASSIS'", "did you mean 'OASIS'"]),
        ("--algorithms Euclidean,lmmn", ["unknown algorithm 'lmmn'", "did you mean 'LMNN'"]),
        ("--algorithms ,", ["--algorithms", "names separated by commas"]),
        ("--experiment defualt", ["unknown experiment 'defualt'", "did you mean 'default'"]),
        ("--experiment no/such.toml", ["no/such.toml", "No such file"]),
        ("--dataset digit", ["unknown data set 'digit'", "did you mean 'digits'"]),
        ("--dataset no/such.csv", ["no/such.csv", "No such file"]),
        ("--tasks retrieve", ["unknown task 'retrieve'", "did you mean 'retrieval'"]),
        ("--label kind", ["data set digits", "unknown option 'label'"]),
        ("--data-option label", ["--data-option", "'label'", "NAME=VALUE is needed"]),
        ("--dataset web-scale --data-option n_imges=9", ["'n_imges': did you mean 'n_images'"]),
        ("--dataset web-scale --visterms many", ["visterms = 'many'", "whole number"]),
        ("--dataset images", ["data set images is yours", "give the path"]),
        ("--classes 11", ["11 classes", "has 10", "2 to 10"]),
        ("--classes 1", ["classes = 1", "at least 2"]),
        ("--classes 2,two", ["unknown class subset 'two'", "all", "number of classes"]),
        ("--classes 2,2", ["classes", "2"]),
        ("--train 100 --test 80", ["100 training", "80 test", "have 180", "to 174 together"]),
        ("--train 1", ["train_per_class = 1", "at least 2"]),
        ("--partitions 0", ["partitions = 0", "at least 1"]),
        ("--partitions many", ["partitions = 'many'", "whole number"]),
        ("--partitions 2.5", ["partitions = '2.5'", "whole number"]),
        ("--seed -1", ["seed = -1", "at least 0"]),
        ("--jobs 0", ["--jobs: '0'", "at least 1"]),
        ("--inner-folds 50", ["inner_folds = 50", "train_per_class = 40"]),
        ("--scaling l3", ["scaling 'l3'", "did you mean"]),
        ("--partition 3", ["--partition"]),
        ("--plugin no_such.py", ["--plugin: no_such.py: No such file"]),
    ],
)
def test_a_mistake_is_told_in_one_line_and_nothing_is_written(command, tmp_path, options, parts):
    output = tmp_path / "run"
    status, out, errors = command("run", *options.split(), "--output", output)
    assert status == 2
    assert len(errors) == 1, errors
    assert all(part in errors[0] for part in parts), errors
    assert errors[0].startswith("oasis-bench: ")
    assert out == ""
    assert not output.exists()


@pytest.mark.parametrize(
    ("words", "part"), [([], "VERB"), (["rum"], "'rum'"), (["report"], "RUN"), (["list", "x"], "x")]
)
def test_a_command_that_is_not_one_is_told_in_one_line(command, words, part):
    status, out, errors = command(*words)
    assert status == 2
    assert len(errors) == 1, errors
    assert part in errors[0]
    assert out == ""


@pytest.mark.parametrize(
    ("name", "content", "part"),
    [
        ("binary.csv", b"\x00\xff\xfe\x00", "binary.csv"),
        ("empty.csv", b"", "is empty"),
        ("table.csv", b"a,b\n1,2\n3,4\n", "no column to take the label from"),
        ("rows.npz", b"PK not really", "is not an npz file"),
        ("rows.txt", b"1 2 3", "unknown kind of file"),
    ],
)
def test_a_file_that_cannot_be_read_is_told_in_one_line(command, tmp_path, name, content, part):
    path = tmp_path / name
    path.write_bytes(content)
    status, _, errors = command("run", "--dataset", path, "--output", tmp_path / "run")
    assert status == 2
    assert len(errors) == 1, errors
    assert str(path) in errors[0]
    assert part in errors[0]


@pytest.mark.parametrize("plugin", ["broken.py", "no_learner.py", "taken_name.py"])
def test_a_plugin_that_cannot_be_used_is_told_in_one_line(command, plugins, plugin):
    status, _, errors = command("list", "--plugin", plugins / plugin)
    assert status == 2
    assert len(errors) == 1, errors
    assert plugin in errors[0]


def test_an_output_folder_with_a_run_is_left_alone(command, finished):
    before = (finished / "results.sqlite").read_bytes()
    status, _, errors = command("run", *SMALL.split(), "--output", finished)
    assert status == 2
    assert len(errors) == 1, errors
    assert "holds another run: choose another --output" in errors[0]
    assert f"report {finished}" in errors[0]
    assert (finished / "results.sqlite").read_bytes() == before


def test_a_file_of_the_users_own_is_run(command, tmp_path):
    lines = [f"{x},{x % 3},{'odd' if x % 2 else 'even'}" for x in range(24)]
    (tmp_path / "mine.csv").write_text("\n".join(["length,width,kind", *lines]))
    options = ["--dataset", tmp_path / "mine.csv", "--label", "kind", "--output", tmp_path / "run"]
    status, out, errors = command("run", *SMALL.split(), *options)
    scaling, remark, trial = errors
    assert (status, scaling.split(",")[0]) == (
        0,
        "rows are scaled by standard or standard+l2 or minmax",
    )
    assert remark.endswith("column 'length': if it is an id, --drop length")
    assert "[1/1] Euclidean, classes 2, partition 0: mAP" in trial
    assert "Euclidean" in out


def test_the_signs_of_numbers_can_be_said(command, tmp_path):
    (tmp_path / "mine.csv").write_text("length;kind\n1,234;odd\n2,345;even\n")
    describe = ["data", "describe", tmp_path / "mine.csv", "--label", "kind"]
    status, out, errors = command(*describe)
    assert status == 2
    assert "say --decimal ',' or --thousands ','" in errors[-1]
    for option, numbers in (("--decimal", "1.234 to 2.345"), ("--thousands", "1234 to 2345")):
        status, out, _ = command(*describe, option, ",")
        assert status == 0
        assert f"number, {numbers}" in out


def test_a_link_to_nothing_is_told_as_one(command, tmp_path):
    for name in ("mine", "mine.csv"):
        (tmp_path / name).symlink_to("gone")
        status, _, (error,) = command("run", "--dataset", tmp_path / name)
        assert status == 2
        assert f"{name}' is a link to 'gone', where nothing is: give a path that exists" in error


def test_columns_of_unlike_scales_are_told_where_nothing_makes_them_alike(command, tmp_path):
    lines = [f"{x},{1000 * x},{'odd' if x % 2 else 'even'}" for x in range(24)]
    (tmp_path / "mine.csv").write_text("\n".join(["length,width,kind", *lines, "0,30000,odd"]))
    options = ["--dataset", tmp_path / "mine.csv", "--label", "kind"]
    warning = "warning: columns have ranges from 23 to 3e+04: the widest decide"
    for scaling, expected in (("l2", True), ("minmax", False)):
        where = ["--scaling", scaling, "--output", tmp_path / scaling]
        status, _, errors = command("run", *SMALL.split(), *options, *where)
        assert status == 0
        assert any(line.startswith(warning) for line in errors) == expected
        assert (warning[9:40] in (tmp_path / scaling / "report.html").read_text()) == expected


def test_trials_that_wait_for_one_another_s_threads_are_told(command, tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "available_cores", lambda: 3)
    for threads, expected in ((1, False), (2, True)):
        where = ["--jobs", "2", "--threads", threads, "--output", tmp_path / str(threads)]
        status, _, errors = command("run", *SMALL.split(), *where)
        assert status == 0
        told = [line for line in errors if "2 trials at a time" in line]
        assert len(told) == expected
    assert told[0].endswith("Choose --jobs and --threads whose product is at most 3")
    _, _, errors = command("run", "--resume", tmp_path / "2", "--jobs", "2")
    assert told[0] in errors


def test_list_shows_all_that_can_be_named(command, plugins):
    status, out, errors = command("list", "--plugin", plugins / "sleeper.py")
    assert (status, errors) == (0, [])
    names = [line.split()[0] for line in out.splitlines() if not line.startswith("    ")]
    expected = ["algorithms:", "OASIS", "Sleeper", "datasets:", "digits", "file"]
    expected += ["tasks:", "retrieval", "experiments:"]
    assert [name for name in names if name in expected] == expected
    assert set(built_in_experiments()) <= set(names)
    assert "BROKEN" not in out


def test_list_shows_one_kind_alone(command):
    status, out, _ = command("list", "datasets")
    assert status == 0
    assert "digits" in out
    assert "OASIS" not in out


def test_list_shows_the_columns_of_each_algorithm(command):
    status, out, errors = command("list", "algorithms")
    assert (status, errors) == (0, [])
    title, heading, *lines = out.splitlines()
    groups = [line.strip() for line in lines if line.endswith("rows:")]
    lines = [line for line in lines if not line.endswith("rows:")]
    assert groups[:2] == [
        "bilinear, for any number of rows:",
        "Mahalanobis, for any number of rows:",
    ]
    starts = [heading.index(column) for column in ("name", "form", "takes", "cost of a fit")]
    ends = [*starts[1:], None]
    found = {}
    for number in range(0, len(lines), 3):
        cells = [lines[number][start:end].strip() for start, end in zip(starts, ends, strict=True)]
        summary, paper = (line.strip() for line in lines[number + 1 : number + 3])
        found[cells[0]] = (*cells[1:], summary, paper)
    assert title == "algorithms:"
    assert set(found) == set(load_registry().algorithms)
    assert found["OASIS"] == (
        *("bilinear", "sparse", OASIS.cost, OASIS.summary),
        "paper: Chechik, Sharma, Shalit & Bengio, JMLR 11 (2010)",
    )
    assert found["metric-learn-LMNN"][:2] == ("Mahalanobis", "dense")
    assert found["CosineOASIS"][0] == "other"
    assert max(map(len, lines)) <= 120


def test_list_shows_the_measures_of_each_task(command, plugins):
    status, out, errors = command("list", "tasks", "--plugin", plugins / "reciprocal_rank.py")
    assert (status, errors) == (0, [])
    lines = out.splitlines()
    names = [line.split()[0] for line in lines[1:] if not line.startswith("    ")]
    assert names == [*load_registry().tasks, "reciprocal-rank"]
    start = 1 + 4 * names.index("classification")
    assert [line.strip() for line in lines[start + 1 : start + 3]] == [
        "training and test items of each class; compared with the training items",
        "measures: accuracy@1, 3, 5 or 7, accuracy by Frome's rule, "
        "mean recognition@1, 3, 5 or 7, mean recognition by Frome's rule",
    ]
    assert lines[start + 3].startswith("      paper: Cover & Hart (1967)")


def test_list_shows_a_broken_plugin_with_its_error(command, tmp_path, monkeypatch):
    info = tmp_path / "broken_learners-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-learners\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[oasis_bench.algorithms]\nBad = no_such_module:Bad\n")
    monkeypatch.syspath_prepend(tmp_path)
    status, out, _ = command("list", "algorithms")
    assert status == 0
    (line,) = [line for line in out.splitlines() if line.startswith("  Bad ")]
    assert "BROKEN: " in line
    assert "No module named 'no_such_module'" in line
    assert "  OASIS " in out


def test_report_is_remade_from_the_store_alone(command, finished):
    page = finished / "report.html"
    page.unlink()
    status, out, errors = command("report", finished)
    assert (status, errors) == (0, [])
    assert str(page) in out
    assert "Euclidean" in out
    assert "</html>" in page.read_text("utf-8")


def test_an_unknown_baseline_of_a_report_is_told_in_one_line(command, finished):
    status, out, errors = command("report", finished, "--baseline", "euclid")
    assert (status, out, len(errors)) == (2, "", 1)
    assert "unknown baseline 'euclid': did you mean 'Euclidean'? there are " in errors[0]


def test_report_of_no_run_is_told_in_one_line(command, tmp_path):
    status, out, errors = command("report", tmp_path)
    assert (status, out, len(errors)) == (2, "", 1)
    assert "holds no run" in errors[0]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        ([], "report"),
        (["run"], "--algorithms"),
        (["list"], "--plugin"),
        (["report"], "the output folder of the run"),
    ],
)
def test_help_is_shown(command, words, part):
    status, out, errors = command(*words, "--help")
    assert (status, errors) == (0, [])
    assert part in out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_carried_out_by_a_function(command, verb):
    assert command(*verb.split(), "--help")[0] == 0
    assert callable(pkgutil.resolve_name(VERBS[verb]))


def test_the_version_is_shown(command):
    assert command("--version") == (0, f"oasis-bench {__version__}\n", [])


def test_a_folder_without_pictures_is_told_in_one_line(command, tmp_path):
    (tmp_path / "empty").mkdir()
    status, _, errors = command("run", "--dataset", tmp_path / "empty", "--output", tmp_path / "o")
    assert status == 2
    assert len(errors) == 1
    assert "holds no pictures" in errors[0]
    assert not (tmp_path / "o").exists()


def test_a_data_set_is_described_by_its_numbers(command):
    status, out, _ = command("data", "describe", "digits")
    assert status == 0
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert facts["images"].strip() == "1,797"
    assert facts["classes"].strip().startswith("10, of 174 (8) to 183 images (3)")  # as sklearn's
    status, out, _ = command("data", "list")
    assert status == 0
    assert "caltech256: " in out
    prepared = command("data", "prepare", "digits")[1]
    assert prepared.splitlines()[0].split() == ["images", "1,797"]
    assert "licence" not in prepared  # facts are told by 'describe' alone


@pytest.mark.parametrize("words", ["--visterms 500", "--data-option visterms=500"])
def test_options_of_a_data_set_have_two_spellings(command, words):
    few = "--data-option n_images=40"
    status, out, _ = command("data", "prepare", "web-scale", *words.split(), *few.split())
    assert status == 0
    facts = dict(line.split("  ", 1) for line in out.splitlines())
    assert facts["images"].strip() == "40"
    assert facts["features"].strip().startswith("500 ")


def test_options_of_a_data_set_are_kept_in_the_store(command, tmp_path):
    words = "--dataset web-scale --visterms 500 --data-option n_images=200 --classes all"
    few = "--algorithms Euclidean --partitions 1 --inner-folds 2 --no-traces"
    status, _, errors = command("run", *words.split(), *few.split(), "--output", tmp_path / "run")
    assert status == 0, errors
    experiment = read_run(tmp_path / "run").info.experiment
    assert experiment.dataset_options == {"visterms": 500, "n_images": 200}


def test_options_are_put_over_those_of_the_file_for_the_same_data_set_alone(command, tmp_path):
    (tmp_path / "mine.toml").write_text(
        'title = "T"\nclasses = [2]\n[dataset]\nname = "web-scale"\nvisterms = 1\nn_images = 9\n'
        "[learners.Euclidean]\n"
    )
    words = ["run", "--experiment", tmp_path / "mine.toml", "--output", tmp_path / "run"]
    assert "1 visterms: 400 to 50000" in command(*words)[2][0]
    assert "2 visterms: 400 to 50000" in command(*words, "--visterms", "2")[2][0]
    status, _, errors = command(*words, "--dataset", "digits", *SMALL.split())
    assert status == 0, errors


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("partitions = 0", "--partitions 0"),
        ('partitions = "many"', "--partitions many"),
        ("train_per_class = 1", "--train 1"),
        ('seed = "2.5"', "--seed 2.5"),
        ("test_share = 1.5", "--test-share 1.5"),
        ('test_share = "half"', "--test-share half"),
        ('scaling = "L2"', "--scaling L2"),
        ("classes = [2, 5, 2]", "--classes 2,5,2"),
        ("classes = []", "--classes ,"),
        ("tasks = []", "--tasks ,"),
        ('tasks = ["retrieval", "retrieval"]', "--tasks retrieval,retrieval"),
        ('budget = "10x"', "--budget 10x"),
        ('memory = "4"', "--memory 4"),
        ('dataset = "digit"', "--dataset digit"),
        ('[dataset]\nname = "web-scale"\nvisterms = "x"', "--dataset web-scale --visterms x"),
        ('[dataset]\nname = "digits"\nblock = 3', "--dataset digits --block 3"),
    ],
)
def test_a_mistake_in_a_file_is_told_as_the_same_mistake_in_an_option(
    command, tmp_path, line, words
):
    usual = "" if "dataset" in line else 'dataset = "digits"\n'
    (tmp_path / "mine.toml").write_text(
        f'title = "T"\n{usual}{line}\n[learners.Euclidean]\n', "utf-8"
    )
    in_file = command("run", "--experiment", tmp_path / "mine.toml", "--output", tmp_path / "a")
    in_option = command("run", *words.split(), "--output", tmp_path / "b")
    assert in_file == in_option
    assert (in_file[0], len(in_file[2])) == (2, 1)
    assert not (tmp_path / "a").exists()


def test_the_help_of_run_shows_every_setting_with_its_default(command):
    text = " ".join(command("run", "--help")[1].split())
    for name, default in (
        Experiment("T", "digits", {"OASIS": LearnerSpec("OASIS")}).to_dict().items()
    ):
        if isinstance(default, int | float | str) and name not in ("title", "dataset", "traces"):
            flag = {"train_per_class": "--train", "test_per_class": "--test"}.get(name)
            found = text.split(f" {flag or '--' + name.replace('_', '-')} ")[-1].split("--")[0]
            assert f"default {default})" in found, name
            assert not flag or f"key {name};" in found


def test_the_help_of_run_shows_what_the_default_experiment_sets(command):
    text = " ".join(command("run", "--help")[1].split())
    own = tomllib.loads((BUILT_IN / "default.toml").read_text("utf-8"))
    for name in set(own) & set(known_settings()):
        value = own[name] if isinstance(own[name], int) else ",".join(map(str, own[name]))
        found = text.split(f" --{name.replace('_', '-')} ")[-1].split(" --")[0]
        assert re.search(rf"\(default {value}[;)]", found), name


@pytest.mark.parametrize("words", [["run", "--dataset"], ["data", "describe"]])
@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "data set '': a name or a path is needed"),
        ("x" * 5000, "unknown data set 'xxx"),
        ("x" * 5000 + ".csv", "File name too long: give a path that exists"),
        ("missing.csv", "missing.csv: No such file or directory: give a path that exists"),
    ],
)
def test_a_data_set_that_is_none_is_one_short_line_and_nothing_else(
    command, tmp_path, monkeypatch, words, name, told
):
    monkeypatch.chdir(tmp_path)
    status, out, errors = command(*words, name)
    assert (status, out) == (2, "")
    (line,) = errors
    assert told in line
    assert len(line) < 500
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        *("run --dataset no.csv", "data describe a/b", "run --experiment none", "report absent"),
        *("run --algorithms OASSIS", "run --tasks retrieve", "run --dataset digit"),
        *("data describe digit", "list algorithms --for digit"),
    ],
)
def test_what_is_not_there_is_told_before_the_slow_imports(words, tmp_path):
    code = f"""
import sys
from oasis_bench.command_line import main
assert main({words.split()}) == 2
assert "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


@pytest.mark.parametrize("name", ["acme/iris", "iris.csv"])
def test_a_data_set_of_a_plugin_may_be_called_like_a_path(name, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plugin = tmp_path / "plugin.py"
    plugin.write_text(
        "from oasis_bench.datasets import Digits\n"
        f"class Own(Digits):\n    name = {name!r}\n    summary = 'digits once more'\n"
    )
    status, out, errors = command("data", "describe", name, "--plugin", plugin)
    assert (status, errors) == (0, [])
    assert "digits once more" in out


INTERRUPTED_AT = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

signal.signal(signal.SIGINT, signal.default_int_handler)
sys.meta_path.insert(0, Interrupt())
from oasis_bench.__main__ import main
sys.argv = ["oasis-bench", "list"]
sys.exit(main())
"""


@pytest.mark.parametrize(
    "name",
    ["oasis_bench.command_line.entry", "numpy._core._multiarray_umath", "pandas"],
)
def test_an_interrupt_while_modules_are_imported_is_one_line(name):
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT.format(name=name)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (ended.returncode, ended.stdout) == (130, "")
    assert ended.stderr == "oasis-bench: interrupted\n"
