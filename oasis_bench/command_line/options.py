"""The words of the command line: its verbs and options, with their help."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from oasis_bench import __version__
from oasis_bench.command_line import parsing
from oasis_bench.experiment import FIT_SETTINGS, Experiment, read_experiment
from oasis_bench.plugins import BASELINE
from oasis_bench.system import spelled

LEAST_IMAGES = 10
"""With fewer web images, none may be relevant to another."""

LISTED = ("algorithms", "datasets", "tasks", "splits", "experiments")
EVERY_LEARNER = "all"
"""The value of --algorithms for all learners that take the data."""

MAIN_SETTINGS = (
    *("classes", "tasks", "split", "partitions", "train_per_class", "test_per_class"),
    *("scaling", "search", "seed"),
)
"""The settings of an experiment that --help shows; --help-all shows the others too."""

MODEL_SETTINGS = (
    *("tasks", "split", "classes", "partitions", "train_per_class", "test_per_class"),
    *("test_share", "seed", "scaling", "threads", "examples", "queries", "budget", "memory"),
)
"""The settings of an experiment that also decide how a saved model is evaluated."""

FILE_KEYS = (
    "title (required): the title of the report. dataset (required): a name or a path, or a table "
    "[dataset] with its name and options; a list of values of an option makes one run for each. "
    "each: a setting with a list of values, one run for each. corpora: a table [corpora.NAME] "
    "with a dataset, names of learners and settings, one run for each. protocol: a version number, "
    "which exported results repeat. quick: the settings and corpora of a quick run. learners: a "
    "table [learners.LABEL] for each learner, with these keys. algorithm: a name of 'list "
    "algorithms' (default LABEL). budget, memory: limits of this learner. features: the kinds of "
    "features that it uses. Hyper-parameters: a value is fixed, a list is searched on the inner "
    "folds (default: its search space)."
)
"""The keys of an experiment file that are no options."""


def make_parser() -> argparse.ArgumentParser:
    """Make the parser; parsed options have the attribute `verb`, such as 'run' or 'data list'."""
    prog = "python -m oasis_bench"
    parser = parsing.Parser(
        prog=prog,
        description="Compare metric learners: how well they rank, and how long they take.",
        examples=(
            f"{prog} run --quick          a first answer in some seconds",
            f"{prog} run --dataset table.csv --label kind",
            f"{prog} list algorithms      the learners, by kind and number of rows",
            f"{prog} run --help           the options of a verb",
        ),
    )
    parser.set_defaults(quick=False, save_models=False, predictions=False, plugin=[], cluster=None)
    parser.add_argument("--version", action="version", version=f"oasis-bench {__version__}")
    verbs: Any = parser.add_subparsers(required=True, metavar="VERB", help=argparse.SUPPRESS)
    for title, adders in {
        "compare learners": (
            _add_run,
            _add_report,
            _add_compare,
            _add_ranks,
            _add_verify,
            _add_export,
        ),
        "use a learner": (_add_fit, _add_evaluate, _add_neighbours, _add_embed, _add_model),
        "see what there is": (_add_list, _add_data, _add_check),
        "repeat published experiments": (_add_paper, _add_web_scale, _add_judge),
    }.items():
        n_before = len(verbs._choices_actions)
        for add in adders:
            add(verbs)
        shown = parser.add_argument_group(title)
        shown._group_actions.extend(verbs._choices_actions[n_before:])
    return parser


def _verb(
    verbs: Any, function: str, what: str, more: str = "", *examples: str, name: str = ""
) -> Any:
    """Add a verb that calls `what`, a 'module:function' of this room; its own help adds `more`.

    The verb has the name of the function by default.
    """
    name = name or function.partition(":")[2].replace("_", "-")
    words = tuple(f"{verbs._prog_prefix} {name} {one}".rstrip() for one in examples)
    parser = verbs.add_parser(name, help=what, description=more or what, examples=words)
    address = f"oasis_bench.command_line.{function}"
    parser.set_defaults(verb=parser.prog.partition("oasis_bench ")[2], function=address)
    return parser


def _add_run(verbs: Any) -> None:
    run = _verb(
        verbs,
        "run:run",
        "run an experiment and write its report",
        "Run an experiment: every learner on every class subset and partition. "
        "Options override the experiment file.",
        "--quick",
        "--dataset table.csv --label kind --drop id",
        "--dataset mnist --algorithms OASIS,LMNN,Euclidean --partitions 10",
        "--experiment mine.toml --output runs/mine",
        "--resume runs/mine",
    )
    run.group("what to compare")
    what = "a built-in experiment of 'list experiments', or a TOML file (default: default)"
    run.add("--experiment", "NAME|FILE", what)
    every = f"or '{EVERY_LEARNER}' for each that takes the data"
    what = f"names of learners, {every} (default: the experiment's)"
    run.add("--algorithms", "A,B", what, type=parsing.names_of_text)
    _add_param(run)
    what = "a data set, your own file, or a folder of pictures (default: the experiment's)"
    run.add("--dataset", "NAME|PATH", what)
    parsing.add_data_options(run)
    _add_settings(
        run,
        "Each is a key of an experiment file too: its name with _ in place of -, or the key in "
        "brackets. Defaults are those of a run without a file.",
        tuple(Experiment.settings()),
    )
    run.group("how to run it")
    run.switch(
        "--quick",
        "a first answer in some seconds: one class subset, 2 partitions, 2 inner folds, 4 "
        "candidates, at most 64000 steps and no learning curves, unless you set them",
    )
    run.writes("DIR", "a new folder (default: runs/DATASET-TIME)")
    what = "continue an interrupted run; name its plugin files again with --plugin"
    run.reads("--resume", "RUN", what)
    _add_tables(run)
    run.switch("--save-models", "keep each fitted learner in RUN/models")
    run.group("more ways to run it", rare=True)
    what = "of a suite: names of corpora (default: all)"
    run.add("--corpora", "A,B", what, type=parsing.names_of_text)
    what = "keep all scores in RUN/predictions, so that 'evaluate RUN' needs no new fit"
    run.switch("--predictions", what)
    what = f"with --resume: run trials of these statuses again ({', '.join(parsing.RETRIED)})"
    run.add("--retry", "STATUS,STATUS", what, type=parsing.statuses_of_text, default=[])
    _add_place(run)
    parsing.add_plugin(run)
    run.group("keys of an experiment file alone", FILE_KEYS, rare=True)


def _add_evaluate(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "run:evaluate",
        "evaluate a saved model on other data, or the kept scores of a run on other tasks",
        "Evaluate without a new fit. A model file is evaluated on --dataset, with the scaling of "
        "the file. If it has none, --scaling is used. A run with --predictions is evaluated by "
        "--tasks, from its kept scores; the measures are added to the run.",
        "metric.npz --dataset other.csv --label kind",
        "runs/mine --tasks my-task --plugin mine.py",
    )
    parser.reads("evaluated", "MODEL|RUN", "a model file, or the output folder of a run")
    parser.add("--dataset", "NAME|PATH", "the data to evaluate a model on")
    parser.writes("DIR", "a new folder, for a model (default: runs/DATASET-TIME)")
    _add_tables(parser)
    parsing.add_data_options(parser)
    _add_settings(
        parser,
        "--tasks is for a run as well, the others for a model. --scaling is for a model file "
        "without a scaling; it is learned from the training part of the data.",
        MODEL_SETTINGS,
        of_a_file=False,
    )
    parser.group("more ways to run it", rare=True)
    _add_place(parser)
    parsing.add_plugin(parser)


def _add_fit(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "use:fit",
        "tune a learner, fit it on all rows of a table and write it to a model file",
        "Tune a learner on inner folds as 'run' does, fit it on all rows (at most 100,000), and "
        "write it with its scaling to a model file. What to expect of it is printed.",
        "table.csv --label kind --learner OASIS --output metric.npz",
    )
    parser.set_defaults(**dict.fromkeys(("experiment", "corpora", *Experiment.settings())))
    parser.add("dataset", "NAME|PATH", "your table, or a data set")
    one: dict[str, Any] = {"type": lambda text: [text]}
    what = "a learner of 'list algorithms' (default OASIS)"
    parser.add("--learner", "NAME", what, dest="algorithms", default=["OASIS"], **one)
    what = (
        "what it is tuned for; take unseen-classes if new classes will come (default retrieval, or "
        "the task of --pairs or --triplets)"
    )
    parser.add("--task", "NAME", what, dest="tasks", **one)
    parser.writes("FILE.npz", "the model file", required=True)
    _add_param(parser)
    parsing.add_data_options(parser)
    _add_settings(parser, "They decide how the learner is tuned.", FIT_SETTINGS, of_a_file=False)
    parser.group("plugins", rare=True)
    parsing.add_plugin(parser)


def _add_param(parser: parsing.Parser) -> None:
    what = (
        "a hyper-parameter, such as LMNN.pull_weight=0.5,0.9: one value is fixed, "
        "several are searched (default: its search space); repeatable"
    )
    name = "LEARNER.NAME=A,B"
    parser.add("--param", name, what, action="append", default=[], dest="params")


def _add_neighbours(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "use:neighbours",
        "find the nearest rows of a gallery for each query, by a saved model",
        "Find the rows of a gallery that are most similar to each query, and write CSV: query, "
        "rank, neighbour, similarity. Tables need no scaling and no labels; their columns are "
        "matched by name. Rows count from 0. A name that a spreadsheet would run as a formula, "
        "such as =a, gets an apostrophe in front.",
        "metric.npz gallery.csv queries.csv -k 10 --output neighbours.csv",
    )
    parser.reads("model", "MODEL", "a model file")
    parser.add("gallery", "GALLERY", "the table, or data set, to search")
    parser.add("queries", "QUERIES", "the table, or data set, of the queries")
    count: dict[str, Any] = {"type": parsing.positive_of_text}
    parser.add("-k", "N", "neighbours of each query (default 10)", default=10, **count)
    parser.writes("FILE.csv", "where to write them (default: the terminal)")
    _add_named_rows(parser)


def _add_embed(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "use:embed",
        "write where rows lie in the learned space of a saved model",
        "Write the point of each row in the learned space. If the learner learns a distance, the "
        "Euclidean distance of two points is the learned one. If it learns a similarity, as "
        "PsdOASIS and CosineOASIS do, the inner product is. The table is read, and CSV written, as "
        "by 'neighbours'.",
        "metric.npz table.csv --output embedding.parquet",
        "metric.npz table.csv --for gallery --bound 1.5 --output vectors.npy",
    )
    parser.reads("model", "MODEL", "a model file")
    parser.add("dataset", "TABLE", "the table, or data set")
    what = "a .csv, .npy or .parquet file (the last needs the extra [parquet])"
    parser.writes("FILE", what, required=True)
    what = "vectors for an index, with the blend: inner products of both kinds are the similarity"
    vectors: dict[str, Any] = {"dest": "purpose", "choices": ("queries", "gallery")}
    parser.add("--for", "KIND", f"queries or gallery: {what}", **vectors)
    what = "with --for: vectors for an index of distances, which a graph needs (0, or as the error"
    parser.add("--bound", "NUMBER", f"{what} says), the same for both kinds", type=float)
    _add_named_rows(parser)


def _add_model(verbs: Any) -> None:
    what = "describe a saved model: a model card in Markdown"
    actions = verbs.add_parser("model", help=what).add_subparsers(required=True, metavar="ACTION")
    parser = _verb(actions, "use:describe", what, "", "metric.npz --output card.md")
    parser.reads("model", "MODEL", "a model file; the card of one in RUN/models has its measures")
    parser.writes("FILE.md", "where to write it (default: the terminal)")
    parsing.add_plugin(parser)


def _add_named_rows(parser: parsing.Parser) -> None:
    parser.add("--name", "COLUMN", "the column that names the rows (default: their numbers)")
    parsing.add_data_options(parser, 0)
    parsing.add_plugin(parser)


def _add_tables(parser: parsing.Parser) -> None:
    parser.switch("--tables", "print the tables of measures and costs, too")
    _add_json(parser)


def _add_json(parser: parsing.Parser) -> None:
    parser.switch("--json", "print the answer as JSON, for programs")


def _add_place(parser: parsing.Parser) -> None:
    jobs = partial(parsing.positive_of_text, most=1024)
    what = "trials at a time (default 1; with more, times are disturbed and marked as such)"
    parser.add("--jobs", "N", what, type=jobs, default=1)
    what = "the scheduler of a Dask cluster that runs the trials (default: this machine)"
    parser.add("--cluster", "ADDRESS", what)


def _add_settings(
    parser: parsing.Parser, description: str, names: Sequence[str], *, of_a_file: bool = True
) -> None:
    """Add an option for each of the settings of an experiment, which checks their values.

    Without an experiment file, keys are not named, and the default is all classes.
    """
    own = vars(read_experiment("default")) if of_a_file else {}
    for title, is_rare in (("settings", False), ("more settings", True)):
        parser.group(title, "" if is_rare else description, rare=is_rare)
        for name in names:
            if (name not in MAIN_SETTINGS) != is_rare:
                continue
            setting = Experiment.settings()[name]
            is_same = spelled(name) == f"--{name.replace('_', '-')}"
            key = f"key {name}; " if of_a_file and not is_same else ""
            default = setting.words if of_a_file or name != "classes" else "all"
            if (used := own.get(name, setting.default)) != setting.default:
                default = ",".join(used) if isinstance(used, tuple) else used
            if of_a_file and name in ("classes", "tasks"):
                of_others = "all" if name == "classes" else setting.words
                default = f"{default}; {of_others} with another --dataset"
            how: dict[str, Any] = {"type": setting.read, "metavar": setting.metavar}
            if not setting.metavar:
                how = {"action": argparse.BooleanOptionalAction}
            what = f"{setting.help} ({key}default {default})"
            action: Any = parser.add_argument(
                spelled(name), dest=name, default=None, help=what, **how
            )
            first = re.split(r"[;:,] | \(see", setting.help)[0]
            action.brief = f"{first} (default {default})"


def _add_list(verbs: Any) -> None:
    what = "list algorithms, data sets, tasks, splits and experiments"
    more = "List what a run can use."
    examples = "", "algorithms", "algorithms --for table.csv --label kind"
    parser = _verb(verbs, "lists:list_all", what, more, *examples, name="list")
    what = f"list only this kind, in more detail: {', '.join(LISTED)} (default: all)"
    parser.add("what", "KIND", what, nargs="?", choices=LISTED)
    what = (
        "with 'list algorithms': recommend one for this data and its use, or to learn nothing, for "
        "known and for new classes, from results"
    )
    parser.add("--for", "NAME|PATH", what, dest="dataset")
    what = "with --for: a folder of results (default: the published ones of the suite)"
    parser.reads("--results", "DIR", what)
    _add_json(parser)
    parsing.add_data_options(parser, 1)
    parsing.add_plugin(parser)


def _add_check(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "listing:check",
        "test the learners, data sets and tasks of a plugin file",
        "Test a plugin file. Learners must pass scikit-learn's checks, give correct scores, and be "
        "saved and loaded. Data sets must load the same rows each time. Measures of tasks must lie "
        "in their ranges. The exit status is 1 if a check fails.",
        "mine.py",
    )
    parser.reads("file", "FILE", "a Python file that defines learners, data sets, tasks or splits")


def _add_data(verbs: Any) -> None:
    data = verbs.add_parser("data", help="list, describe and prepare data sets")
    actions = data.add_subparsers(required=True, metavar="ACTION", title="arguments")
    what = "list the data sets, and how to get each; 'list datasets' does the same"
    parsing.add_plugin(parser := _verb(actions, "lists:list_all", what, name="list"))
    parser.set_defaults(what="datasets", dataset=None, results=None, data_options=[])
    _add_json(parser)
    for action, what in (
        ("describe", "describe a data set, and prepare its features if needed"),
        ("prepare", "download and make the features of a data set now"),
    ):
        parser = _verb(
            actions, "listing:data_load", what, "", "table.csv --label kind", name=action
        )
        parser.add("dataset", "NAME|PATH", "a name, a file or a folder")
        if action == "describe":
            parser.writes("FILE", "write a page with histograms and pictures, too")
        _add_json(parser)
        parsing.add_data_options(parser)
        parsing.add_plugin(parser)


def _add_web_scale(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "paper:web_scale",
        "train OASIS on millions of generated web images and write a report",
        "The web-scale experiment of the papers (JMLR 2010, section 5.2) on generated images. An "
        "interrupted run continues with the same command. The default takes 4 GB of disk and "
        "memory and under an hour on two cores.",
        "--images 10000",
    )
    for flag, default, least, most, what in (
        ("test-images", 402_164, LEAST_IMAGES, parsing.MOST, "test images, which are ranked"),
        ("visterms", 10_000, 1, parsing.MOST, "visual words: the number of features"),
        # 160 million steps for 2.3 million images (JMLR 2010, 5.2.3)
        ("steps-per-image", 70, 1, 10**6, "steps for each training image"),
        ("seeds", 1, 1, 1000, "number of trainings of each kind, each with different triplets"),
        ("queries", 1000, 1, parsing.MOST, "test images used as queries; all if there are fewer"),
        ("threads", None, 1, 1024, "threads for training and ranking"),
    ):
        number = partial(parsing.positive_of_text, least=least, most=most)
        what = f"{what} (default {default or 'all cores'})"
        parser.add(f"--{flag}", "N", what, type=number, default=default)
    images = parsing.each_of_text(partial(parsing.positive_of_text, least=LEAST_IMAGES))
    what = "training images; several numbers show how time grows (default 2292259)"
    parser.add("--images", "N,N", what, type=images, default=[2_292_259])
    what = "triplets in a mini-batch, or 'exact' for OASIS; several are compared (default 65536)"
    parser.add(
        "--batch",
        "N,exact",
        what,
        type=parsing.each_of_text(parsing.batch_of_text),
        default=[65_536],
    )
    what = "results and the last model of each training (default: runs/web-scale)"
    parser.writes("DIR", what, default=Path("runs") / "web-scale")


def _add_compare(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "run:compare",
        "show what became better or worse between two runs",
        "Compare the trials that two runs have in common. The exit status is 1 if something "
        "became worse beyond noise, 0 if not, and 3 if nothing could be compared.",
        "runs/before runs/after",
    )
    parser.reads("old", "OLD", "the output folder of the run before")
    parser.reads("new", "NEW", "the output folder of the run after")
    what = "share by which times and peak memory may grow (default 0.1)"
    parser.add("--tolerance", "P", what, type=float, default=0.1)
    _add_json(parser)


def _add_export(verbs: Any) -> None:
    what = "write the numbers of a run for other programs"
    example = "runs/mine --format csv"
    parser = _verb(verbs, "run:export", what, "", example)
    parser.reads("run", "RUN", "the output folder of the run")
    what = (
        "csv and parquet: every table of the store; summary: one "
        "CSV of means, spreads and costs; trec: run and qrels files of a run with --predictions"
    )
    kinds = ("csv", "parquet", "summary", "trec")
    parser.add("--format", f"{{{','.join(kinds)}}}", what, required=True, choices=kinds)
    parser.writes("DIR", "where to write them (default: RUN/export)")
    parsing.add_plugin(parser)


def _add_report(verbs: Any) -> None:
    what = "remake the report of a run"
    parser = _verb(verbs, "run:report", what, "", "runs/mine --tables")
    parser.reads("run", "RUN", "the output folder of the run")
    what = "the learner that the tables of differences are relative to (default: the best)"
    parser.add("--baseline", "LEARNER", what)
    _add_tables(parser)


def _add_judge(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "run:judge",
        "have people rate the pictures that a run retrieves",
        "Write a page on which people rate the pictures that the learners of a run retrieve for "
        "its example queries. It names no learner, and saves each rater's marks as a file. "
        "--collect reads those files; the report of the run then has precision by raters.",
        "runs/pictures",
        "runs/pictures --collect ratings-*.json",
    )
    parser.reads("run", "RUN", "the output folder of a run on pictures")
    count: dict[str, Any] = {"type": parsing.positive_of_text}
    what = "largest number of query pictures, from those that 'run --examples' keeps (default: 25)"
    parser.add("--queries", "N", what, **count)
    what = "largest number of pictures to rate for each query (default: 20)"
    parser.add("--candidates", "N", what, **count)
    parser.writes("FILE", "the page (default: RUN/judge.html)")
    what = "files that raters saved: add their marks to RUN/ratings.csv (default: write the page)"
    parser.reads("--collect", "FILE", what, nargs="+")


def _add_paper(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "paper:paper",
        "test the claims of published papers",
        "Run the experiments that test the papers' claims, then write a page of the claims with "
        "their verdicts, and claims.csv. Trials run side by side, except where a claim is about "
        "time. To continue an interrupted run, repeat the command.",
        "--quick",
    )
    what = "run only these, each with a report (default: all that test a claim, but not keel)"
    parser.add("--experiments", "A,B", what, type=parsing.names_of_text)
    parser.switch("--large", "run what takes too long to be among the others: keel")
    parser.switch(
        "--quick", "1 partition and short searches: shows that it works, decides no claim"
    )
    what = "where runs and page are written (default: runs/paper, with --quick runs/paper-quick)"
    parser.writes("DIR", what)


def _add_ranks(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "run:ranks",
        "compare learners over the data sets of several runs: a leaderboard",
        "Compare learners over data sets, task by task: error reduction against the baseline, "
        "average ranks, tests over data sets and their domains, time, and which learner to use for "
        "which data. A data set counts once. A learner without a result there has the last rank; "
        "if this is so on more than one data set in twenty, it is not ranked.",
        "runs/digits-... runs/mnist-...",
    )
    what = "output folders of runs, CSV files of 'export --format summary', or folders of these"
    parser.reads("runs", "RUN|FILE.csv", what, nargs="+")
    parser.add("--task", "TASK", "a task of the runs (default: each)")
    what = "a measure, such as mAP or accuracy@3 (default: the first of each task)"
    parser.add("--measure", "MEASURE", what)
    what = "the learner whose error the others reduce (default: Euclidean)"
    parser.add("--baseline", "LEARNER", what, default=BASELINE)
    what = "where tables, figures and page are written (default: runs/ranks)"
    parser.writes("DIR", what, default=Path("runs") / "ranks")
    _add_json(parser)


def _add_verify(verbs: Any) -> None:
    parser = _verb(
        verbs,
        "verify:verify",
        "check results of the suite that somebody sent",
        "Check that results of the suite are whole and agree with the published ones, then run "
        "corpora that are drawn at random again, and those where a learner failed, and compare "
        "the values. If the results of a tenth of the corpora were changed, 22 of 57 corpora "
        "find one with probability .955.",
        "sent/results --plugin sent/theirs.py",
    )
    parser.reads("sent", "FOLDER", "CSV files, one for each corpus, as 'run' writes to 'results'")
    what = "corpora that are run again (default: 22)"
    parser.add("--draw", "N", what, type=parsing.positive_of_text, default=22)
    what = "run these corpora again in place of drawn ones"
    parser.add("--corpora", "A,B", what, type=parsing.names_of_text)
    parser.reads("--results", "FOLDER", "the published results (default: those of the checkout)")
    parser.writes("DIR", "where corpora are run again (default: runs/verify-...)")
    _add_place(parser)
    parsing.add_plugin(parser)
