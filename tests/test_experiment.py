"""Experiment files, what is refused in them, and the identity of trials."""

import json
import pickle
from collections import Counter
from copy import deepcopy
from dataclasses import asdict, fields, replace
from itertools import product

import numpy as np
import pytest
from msgspec.structs import astuple
from scipy import sparse
from small_runs import small, trials_of

from oasis_bench.algorithms import LMNN
from oasis_bench.data import JudgedTriplets, LabelledRows, Patches
from oasis_bench.datasets import Digits
from oasis_bench.datasets.picture_sets import CALTECH256_FOLDERS
from oasis_bench.experiment import (
    Duration,
    Experiment,
    LearnerSpec,
    Plan,
    Search,
    built_in_names,
    changed,
    read_experiment,
    refuse_unknown_subsets,
)
from oasis_bench.experiment.data_use import choose_subsets
from oasis_bench.experiment.file import BUILT_IN
from oasis_bench.experiment.setting import Size
from oasis_bench.experiment.trials import candidates, find_grids
from oasis_bench.plugins import Registry
from oasis_bench.system import UsageError
from oasis_bench.tasks import NotSplittableError, SeenClassesSplit
from oasis_bench.trial import Assignment
from oasis_bench.trial.wall.assignment import Stage

MINIMAL = 'title = "T"\ndataset = "digits"\n'
LEARNERS = "[learners.Euclidean]\n"
CORPORA = f'title = "T"\n{LEARNERS}[corpora.iris]\ndataset = "digits"\n'

PLUGIN = """
from oasis_bench.algorithms import Euclidean

class Plugged(Euclidean):
    name = "Plugged"
"""


@pytest.fixture
def parse(tmp_path):
    """Write text to a file and read it as an experiment."""

    def parse(text):
        path = tmp_path / "experiment.toml"
        path.write_text(text, "utf-8")
        return read_experiment(str(path))

    return parse


def as_toml(experiment):
    """Write an experiment as TOML: for strings, numbers, booleans and lists JSON is TOML."""
    values = {k: v for k, v in asdict(experiment).items() if v is not None}
    tables = {"dataset": {"name": values.pop("dataset"), **values.pop("dataset_options")}}
    for label, learner in values.pop("learners").items():
        table = {"algorithm": learner["algorithm"], **learner["params"]}
        tables[f"learners.{json.dumps(label)}"] = table
    lines = [f"{key} = {json.dumps(value)}" for key, value in values.items()]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines)


def ids(experiment, rows, plugin_files=()):
    """Return the trial ids by learner, subset and partition."""
    trials = trials_of(experiment, rows, plugin_files)
    return {(t.learner, t.where.subset, t.where.partition): t.trial_id for t in trials}


def test_what_is_written_as_toml_is_read_back(parse):
    written = Experiment(
        title='Quoted "title" \\ é',
        dataset="some/file.csv",
        learners={
            "fast C=1": LearnerSpec("OASIS", {"aggressiveness": 1.0, "n_steps": 10}),
            "LMNN": LearnerSpec("LMNN", {"pull_weight": [0.25, 0.5]}),
        },
        dataset_options={"label": "kind", "n": 3, "share": 0.5, "all": True},
        classes=(3, 7),
        tasks=("classification", "retrieval"),
        choose_by="accuracy@3",
        partitions=2,
        inner_folds=4,
        train_per_class=8,
        test_per_class=3,
        seed=11,
        scaling=("none",),
        max_steps=900,
        traces=False,
        threads=2,
    )
    assert parse(as_toml(written)) == written


@pytest.mark.parametrize(
    ("kind", "text", "values"),
    [
        (Duration, "1.5h", {"seconds": 5400}),
        (Duration, "off", {"seconds": None}),
        (Size, "4GiB", {"n_bytes": 2**32}),
        (Size, "off", {"n_bytes": None}),
        (Search, "20", {"candidates": 20}),
        (Search, "off", {"candidates": None}),
    ],
)
def test_a_limit_is_read_once_and_printed_as_it_was_written(kind, text, values):
    limit = kind.of("limit", text)
    assert kind.of("limit", limit) is limit
    for one in (limit, pickle.loads(pickle.dumps(limit)), deepcopy(limit)):
        assert {name: getattr(one, name) for name in values} == values
        assert f"{one}, {json.loads(json.dumps(one))}" == f"{text}, {text}"


@pytest.mark.parametrize("name", ["default", "paper-table4"])
def test_an_experiment_knows_the_built_in_one_that_it_is_made_from(name, tmp_path):
    found = read_experiment(name)
    assert found.built_in == Experiment.from_dict(json.loads(json.dumps(asdict(found)))).built_in
    assert changed(found, {"seed": 3}, dataset=found.dataset).built_in == name
    path = tmp_path / "copy.toml"
    path.write_text((BUILT_IN / f"{name}.toml").read_text())
    assert read_experiment(str(path)).built_in is None


def test_a_share_of_1_may_be_whole(parse):
    assert parse(f"{MINIMAL}test_share = 1\n{LEARNERS}").test_share == 1


def test_what_is_left_out_is_as_in_the_papers(parse):
    found = parse(MINIMAL + LEARNERS)
    protocol = (found.n_partitions, found.inner_folds, *found.per_class)
    assert protocol == (5, 5, 40, 25)  # JMLR 2010, section 5.3.2
    assert found.learners == {"Euclidean": LearnerSpec("Euclidean")}


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("classes", "2,B10,bear+dog", (2, "B10", ("bear", "dog"))),
        ("classes", "5", (5,)),
        ("tasks", "retrieval,classification", ("retrieval", "classification")),
        ("scaling", "l2,none", ("l2", "none")),
        ("queries", "bear,7", ("bear", "7")),
        ("queries", "bear", ("bear",)),
    ],
)
def test_a_list_may_be_given_as_list_tuple_or_text_in_python_and_in_a_file(
    parse, name, text, values
):
    listed = [list(one) if isinstance(one, tuple) else one for one in values]
    for given in (listed, values, text):
        assert Experiment.settings()[name].held(given) == values
    assert Experiment.settings()[name].read(text) == values
    for written in (json.dumps(listed), json.dumps(text)):  # what TOML reads, too
        assert getattr(parse(f"{MINIMAL}{name} = {written}\n{LEARNERS}"), name) == values


def test_another_data_set_has_all_classes_a_title_and_options_of_its_own():
    usual = Experiment(
        "Usual",
        "mine/faces.csv",
        {"Euclidean": LearnerSpec("Euclidean", budget="1m")},
        dataset_options={"label": "kind"},
        each={"seed": [1, 2]},
        built_in="usual",
        classes=(3,),
        budget="2m",
    )
    same = changed(
        usual, {"partitions": 2}, dataset="mine/faces.csv", dataset_options={"drop": "a"}
    )
    assert (same.title, same.classes, same.partitions) == ("Usual", (3,), 2)
    assert (same.built_in, same.budget.seconds) == ("usual", 120)
    assert same.dataset_options == {"label": "kind", "drop": "a"}
    assert same.each == {"seed": [1, 2]}
    other = changed(usual, {}, dataset="mine/birds.csv", dataset_options={"drop": "a"}, quick=True)
    assert (other.title, other.dataset, other.classes) == ("birds.csv", "mine/birds.csv", ("all",))
    assert (other.dataset_options, other.partitions) == ({"drop": "a"}, 2)
    assert other.built_in == "usual"
    own = changed(
        usual,
        {"classes": (2,), "seed": 3, "budget": "3m"},
        dataset="mine/birds.csv",
        learners={"b": LearnerSpec("LMNN", budget="1m")},
        title="Own",
    )
    assert (own.title, own.classes, own.each) == ("Own", (2,), {})
    assert (own.budget, own.learners) == ("3m", {"b": LearnerSpec("LMNN")})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINIMAL + "partition = 3\n" + LEARNERS, "unknown key 'partition': did you mean 'partit"),
        (MINIMAL + "[learners]\n", "no learners: name at least one"),
        (MINIMAL + "classes = [2, 1]\n" + LEARNERS, "classes = 1: a whole number of at least 2"),
        ('title = "T"\n[dataset]\nvisterms = 9\n' + LEARNERS, "the table [dataset] needs a name"),
        (MINIMAL + "classes = [2\n", "is not TOML"),
        (MINIMAL + "each = 5\n" + LEARNERS, "each must be a table, [each]"),
        (MINIMAL + 'corpora = ["digits"]\n' + LEARNERS, "corpora must be a table"),
        (MINIMAL + "[corpora]\niris = 1\n" + LEARNERS, "corpora.iris must be a table"),
        (MINIMAL + LEARNERS + "features = 3\n", "features of Euclidean = 3: a text is needed"),
        (CORPORA + 'learners = ["LNMM"]\n', "unknown learner 'LNMM'"),
        (CORPORA + '[quick]\ncorpora = ["typo"]\n', "unknown corpus 'typo'"),
        (CORPORA + "[quick]\ncorpora = 3\n", "3: a list of names is needed"),
        (CORPORA + 'learners = "Euclidean"\n', "'Euclidean': a list of names is needed"),
        (CORPORA + 'learners = [["x"]]\n', "unknown learner"),
        (MINIMAL + "test_share = 2\n" + LEARNERS, "a number above 0 and at most 1 is needed"),
        (MINIMAL + "margin = nan\n" + LEARNERS, "margin = nan: a number"),
    ],
)
def test_a_file_that_is_no_experiment_is_refused_in_one_line(parse, text, message):
    with pytest.raises(UsageError) as error:
        parse(text)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", built_in_names())
def test_built_in_experiments_parse_and_plan(name):
    found = read_experiment(name)
    found = next(iter(found.one_for_each_value().values()), found)
    options = {k: v for k, v in found.dataset_options.items() if k != "features"}  # an extra's
    dataset = Registry.load().open_dataset(found.dataset, options)
    refuse_unknown_subsets(found, dataset)
    listed = [c for subset in found.classes if isinstance(subset, tuple) for c in subset]
    names = tuple(listed or "abcdefghij" * 20)
    if found.dataset == "caltech256":
        names = tuple(CALTECH256_FOLDERS)
    n_rows = len(names) * sum(found.per_class)
    y = np.arange(n_rows) % len(names)
    if name == "corel5k":
        y = sparse.csr_array(np.eye(len(names), dtype=np.float32)[y])
    kinds = str(found.dataset_options.get("features", "")).replace("-", "_").split("+")
    patches = Patches.one_each({name: np.zeros((n_rows, 2)) for name in {"gb70", *kinds} - {""}})
    pixels = np.zeros((n_rows, 1, 1, 3), np.uint8)
    judged = JudgedTriplets(np.arange(30).reshape(10, 3), None, np.arange(10))
    rows = LabelledRows(
        np.zeros((n_rows, 2)), y, names, judged=judged, pixels=pixels, patches=patches
    )
    trials = Plan.of(found, dataset, rows, Registry.load()).trials
    n_cells = len(found.classes) * (found.tasks != ("unseen-classes",))
    if "unseen-classes" in found.tasks:  # not on fewer than seven classes
        n_cells += len([subset for subset in found.classes if subset not in (2, 5)])
    assert len(trials) == n_cells * found.n_partitions * len(found.learners)
    assert len({trial.trial_id for trial in trials}) == len(trials)


def test_unseen_classes_are_asked_of_subsets_that_can_be_tuned_where_there_are_some():
    rows = LabelledRows(np.eye(96)[:, :4], np.arange(96) % 8, tuple("abcdefgh"))

    def subsets(classes, **params):
        sizes = {"train_per_class": 6, "test_per_class": 5, "inner_folds": 3, "classes": classes}
        learners, tasks = {"LMNN": LearnerSpec("LMNN", params)}, ("retrieval", "unseen-classes")
        trials = trials_of(small(learners, tasks=tasks, **sizes), rows)
        return [t.where.subset for t in trials if t.where.split == "unseen-classes"]

    assert subsets((2, 6, 7, 8)) == ["7", "8"]
    assert subsets((2, 6)) == ["2", "6"]  # whose trials say why there is no result
    nothing_is_tuned = {"n_neighbors": 3, "pull_weight": 0.5, "stop_after": 0}
    assert subsets((4, 7), **nothing_is_tuned) == ["4", "7"]


def test_hyper_parameters_of_the_command_line_are_put_over_those_of_the_experiment():
    learners = {"A": LearnerSpec("LMNN", {"pull_weight": 0.3, "tol": 0.1}), "B": LearnerSpec("RCA")}
    experiment = Experiment("T", "digits", learners)
    params = ["A.pull_weight=.5,0.97", "B.n_axes=None,8", "A.n_neighbors=1"]
    found = changed(experiment, {}, params=params).learners
    assert found["A"].params == {"pull_weight": [0.5, 0.97], "tol": 0.1, "n_neighbors": 1}
    assert found["B"].params == {"n_axes": [None, 8]}
    wrongs = (("A.x", "is needed"), ("x=1", "is needed"), ("C.x=1", "unknown learner 'C'"))
    for wrong, why in wrongs:
        with pytest.raises(UsageError, match=why):
            changed(experiment, {}, params=[wrong])


def test_a_value_is_fixed_a_list_is_searched_and_the_rest_is_the_learners_own(
    experiment, numbered_rows
):
    learners = {
        "own": LearnerSpec("LMNN"),
        "fixed": LearnerSpec("LMNN", {"pull_weight": 0.3, "stop_after": 0}),
        "searched": LearnerSpec(
            "LMNN", {"pull_weight": [0.3, 0.6], "n_neighbors": 2, "stop_after": 8}
        ),
    }
    trials = trials_of(replace(experiment, learners=learners), numbered_rows)
    tried = {trial.learner: [one.params for one in trial.candidates] for trial in trials}
    space = LMNN.search_space
    every = [dict(zip(space, values, strict=True)) for values in product(*space.values())]
    assert tried["own"][0] == {"n_neighbors": 3, "pull_weight": 0.5, "stop_after": 0}  # defaults
    assert len(tried["own"]) == 12
    assert all(one in every for one in tried["own"])
    neighbours = space["n_neighbors"]
    assert tried["fixed"] == [
        {"pull_weight": 0.3, "stop_after": 0, "n_neighbors": n} for n in neighbours
    ]
    assert tried["searched"] == [
        {"pull_weight": w, "n_neighbors": 2, "stop_after": 8} for w in (0.3, 0.6)
    ]


@pytest.mark.parametrize("n", [1, 4, 9, 40])
def test_a_short_search_lies_evenly_in_the_space(n):
    grid = {"C": [10.0**power for power in range(-4, 5)], "kind": ["a", "b"], "n": [*range(5)]}
    defaults = {"C": 1.0, "kind": "b", "n": 0}
    drawn = [
        candidates(grid, ["l2", "none"], defaults, Search.of("search", str(n)), seed, "L")
        for seed in range(20)
    ]
    assert {(one[0].scaling, *one[0].params.items()) for one in drawn} == {
        ("l2", *defaults.items())
    }
    for tried in drawn:
        assert len({(it.scaling, *it.params.values()) for it in tried}) == n
        for name, values in grid.items():
            held = Counter(it.params[name] for it in tried)
            # But for a place that is drawn twice, each part of an axis is drawn as often.
            assert max(held.values()) <= -(-n // len(values)) + 1 + n // 8
            if n == len(values):
                assert len(held) >= n - 2
    assert len({tuple(map(str, tried)) for tried in drawn}) == (1 if n == 1 else 20)
    for seed in range(20):  # one of each quarter; the default, in the middle, has two halves
        few = candidates({"C": grid["C"]}, ["l2"], defaults, Search.of("search", "4"), seed, "L")
        assert few[0].params["C"] == 1
        assert min(it.params["C"] for it in few) <= 1e-2
        assert max(it.params["C"] for it in few) >= 1e2


NUMBERS = [
    (algorithm, name)
    for algorithm in Registry.load().algorithms
    for name in Registry.load().algorithms[algorithm]()._parameter_constraints
    if name.rpartition("__")[2] not in ("kinds", "random_state")  # a text; any whole number
    and name in Registry.load().algorithms[algorithm]().get_params()
]


@pytest.mark.parametrize(("algorithm", "name"), NUMBERS)
def test_a_hyper_parameter_out_of_bounds_is_refused_before_the_run(experiment, algorithm, name):
    for bad in (np.inf, -np.inf, np.nan, -1, "x"):
        for value in (bad, [Registry.load().algorithms[algorithm]().get_params()[name], bad]):
            learners = {"mine": LearnerSpec(algorithm, {name: value})}
            said = rf"^learner 'mine': The '{name}' parameter of {algorithm} must .* Got {bad!r} "
            with pytest.raises(UsageError, match=said):
                find_grids(replace(experiment, learners=learners), Registry.load())


def test_trials_go_partition_by_partition_so_that_early_ones_compare_all_learners(
    experiment, numbered_rows
):
    trials = trials_of(experiment, numbered_rows)
    order = [(trial.where.subset, trial.where.partition, trial.learner) for trial in trials]
    assert order == [
        (subset, partition, learner)
        for subset in "23"
        for partition in (0, 1)
        for learner in ("OASIS", "Euclidean")
    ]


def test_learners_share_the_draw_the_folds_and_the_order_of_ties(experiment, numbered_rows):
    trials = trials_of(experiment, numbered_rows)
    for purpose in ("partition", "folds", "ties"):
        seeds = {}
        for trial in trials:
            cell = (trial.where.subset, trial.where.partition)
            seeds.setdefault(cell, set()).add(trial.seed_for(purpose))
        assert all(len(found) == 1 for found in seeds.values())
        assert len(set.union(*seeds.values())) == 4
    assert len({trial.seed_for("fit", of_learner=True) for trial in trials}) == len(trials)


def test_identities_do_not_depend_on_titles_other_learners_other_subsets_or_traces(
    experiment, numbered_rows
):
    expected = ids(experiment, numbered_rows)
    changed = replace(
        experiment,
        title="Another",
        learners={**dict(reversed(experiment.learners.items())), "x": LearnerSpec("LMNN")},
        classes=(3, 4, 2),
        partitions=3,
        traces=False,
    )
    found = ids(changed, numbered_rows)
    assert {key: found[key] for key in expected} == expected
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"inner_folds": 3},
        {"train_per_class": 5},
        {"test_per_class": 5},
        {"scaling": ("none",)},
        {"max_steps": 999},
        {"threads": 2},
        {"label_budget": 3},
        {"blend": "off"},
        {"use": "direct"},
        {"search": "5"},
        {"learners": {"OASIS": LearnerSpec("OASIS", {"aggressiveness": 0.2})}},
        {"learners": {"OASIS": LearnerSpec("Euclidean")}},
    ],
)
def test_identities_change_with_what_decides_the_result(experiment, numbered_rows, change):
    before = ids(experiment, numbered_rows)
    after = ids(replace(experiment, **change), numbered_rows)
    assert not set(before.values()) & set(after.values())


def test_trials_train_on_the_label_budget(experiment, numbered_rows):
    whole = trials_of(experiment, numbered_rows)
    for trial, free in zip(
        trials_of(replace(experiment, label_budget=3), numbered_rows), whole, strict=True
    ):
        drawn, of_free = trial.drawn(numbered_rows), free.drawn(numbered_rows)
        assert set(Counter(numbered_rows.y[drawn.train].tolist()).values()) == {3}
        assert len(drawn.train) == trial.where.n_train == 3 * len(trial.where.classes)
        assert {*drawn.train} < {*of_free.train}
        assert {*drawn.test} == {*of_free.test}


def test_a_label_budget_leaves_classes_that_cannot_be_divided_to_the_trial(
    experiment, numbered_rows
):
    few = replace(experiment, classes=(3,), tasks=("unseen-classes",), label_budget=3)
    (trial, *_) = trials_of(few, numbered_rows)
    with pytest.raises(NotSplittableError):
        trial.drawn(numbered_rows)


def test_identities_change_with_the_data(experiment, numbered_rows):
    before = set(ids(experiment, numbered_rows).values())
    X, y = numbered_rows.X.copy(), numbered_rows.y.copy()
    X[70, 3] += 1e-9
    y[[0, 1]] = y[[1, 0]]
    for rows in (
        LabelledRows(X, numbered_rows.y, numbered_rows.class_names),
        LabelledRows(numbered_rows.X, y, numbered_rows.class_names),
        LabelledRows(numbered_rows.X, numbered_rows.y, tuple("uvwxyz")),
        LabelledRows(numbered_rows.X.astype(np.float32), numbered_rows.y, tuple("abcdef")),
    ):
        assert not before & set(ids(experiment, rows).values())


def test_identities_change_with_the_learners_source_and_not_with_its_place(
    experiment, numbered_rows, tmp_path
):
    chosen = replace(experiment, learners={"Plugged": LearnerSpec("Plugged")})
    found = []
    for folder, text in (("a", PLUGIN), ("b", PLUGIN), ("c", PLUGIN + "# other\n")):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "plugin.py"
        path.write_text(text)
        found.append(set(ids(chosen, numbered_rows, (path,)).values()))
    assert found[0] == found[1]
    assert not found[0] & found[2]


def test_the_learners_process_gets_a_trial_without_what_the_order_of_test_items_is_made_of(
    experiment, numbered_rows
):
    trial = trials_of(experiment, numbered_rows)[0]
    crossing = pickle.dumps(Assignment.of(trial))
    for secret in (trial.trial_id, trial.identity["data"], trial.identity["source"]):
        assert secret.encode() not in crossing
    seeds = [trial.seed_for("partition"), trial.experiment.seed]
    assert not {*seeds} & {*astuple(Assignment.of(trial).seeds)}


def test_nothing_else_of_a_trial_crosses_the_wall():
    assert Assignment.__struct_fields__ == (
        *("algorithm", "plugin_files", "candidates", "chooses_by", "scalings", "encoding", "split"),
        *("split_numbers", "inner_folds", "folds_at_once", "max_steps", "budget_seconds"),
        *("memory_bytes", "threads", "traces", "blends", "use", "knows_classes", "keeps_model"),
        "seeds",
    )
    assert [one.name for one in fields(Stage)] == [
        *("name", "assignment", "tuned", "galleries", "server", "taus"),
    ]


@pytest.mark.parametrize(
    ("classes", "label", "numbers"),
    [
        ((("bear", "dog"),), "bear+dog", (0, 2)),
        ((("009.bear", "dog"),), "009.bear+dog", (0, 2)),
        ((("computer-keyboard", "computer-monitor", "bear"),), "computer-keyboard+2 more", None),
    ],
)
def test_classes_may_be_named_by_what_follows_their_number(experiment, classes, label, numbers):
    names = ("009.bear", "045.computer-keyboard", "056.dog", "046.computer-monitor")
    y = np.repeat(np.arange(4), 65)
    rows = LabelledRows(np.zeros((260, 2)), y, names)
    ten = replace(experiment, classes=classes, train_per_class=40, test_per_class=25)
    found = choose_subsets(ten, Digits(), rows, SeenClassesSplit(ten))
    assert list(found) == [label]
    assert numbers is None or found[label] == numbers


def test_a_number_of_classes_means_the_same_ones_on_each_split():
    """Three classes are too small for known classes, but not for new ones."""
    counts = [100] * 5 + [50] * 3
    y = np.repeat(np.arange(8), counts)
    rows = LabelledRows(np.arange(2.0 * len(y)).reshape(-1, 2), y, tuple("abcdefgh"))
    sizes = {"train_per_class": 40, "test_per_class": 25, "classes": (4,), "partitions": 1}
    both = small(["Euclidean"], tasks=("unseen-classes", "classification"), **sizes)
    of_splits = {}
    for trial in trials_of(both, rows):
        of_splits.setdefault(trial.where.split, set()).add(trial.where.classes)
    assert len(of_splits) == 2
    (classes,) = set().union(*of_splits.values())
    assert max(classes) < 5


def test_classes_of_too_few_groups_decide_no_sizes():
    """One of ten species has one recording of 8 rows: it is left out."""
    y = np.r_[np.repeat(np.arange(9), 100), np.full(8, 9)]
    groups = np.r_[np.arange(900) // 10, np.full(8, 90)]
    X = np.arange(2.0 * len(y)).reshape(-1, 2)
    rows = LabelledRows(X, y, tuple("abcdefghij"), groups=groups)
    how = {"partitions": 1, "train_per_class": None, "test_per_class": None}
    for classes, n_classes in ((("all",), 9), ((5,), 5)):
        (trial,) = trials_of(small(["Euclidean"], classes=classes, **how), rows)
        assert trial.experiment.per_class == (40, 25)
        assert len({*y[trial.drawn(rows).train]} - {9}) == n_classes
