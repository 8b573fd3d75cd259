"""The words of the command line: its verbs and options, with their help; not what they do."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from oasis_bench import __version__
from oasis_bench.command_line.parsing import (
    MOST,
    RETRIED,
    Parser,
    add_data_options,
    add_input,
    add_path,
    add_plugin,
    add_verb,
    batch_of_text,
    each_of_text,
    names_of_text,
    positive_of_text,
    refuse_missing,
    statuses_of_text,
    tolerance_of_text,
)
from oasis_bench.experiment import Experiment, known_settings
from oasis_bench.plugins import find_dataset, installed, refuse_unknown

LEAST_IMAGES = 10
"""Of fewer web images none may be relevant to another."""

JUDGED_SETTINGS = (
    *("tasks", "split", "classes", "partitions", "train_per_class", "test_per_class"),
    *("test_share", "seed", "scaling", "threads", "examples", "queries", "budget", "memory"),
)
"""The settings of an experiment that also decide how a saved model is evaluated."""

FIT_SETTINGS = (
    *("choose_by", "inner_folds", "seed", "scaling", "search", "max_steps", "threads"),
    *("classes", "blend", "budget", "memory"),
)
"""The settings of an experiment that decide how one learner is fitted on all rows."""

FILE_KEYS = (
    "title: of the report (needed). "
    "dataset: a name or a path, or a table [dataset] with its name and options (needed; a list as "
    "the value of one option makes a run for each). "
    "each: a table [each] with a setting and a list of its values, which makes a run for each "
    "(default: one run). "
    "corpora: a table [corpora.NAME] with a dataset, names of learners and settings, a run for "
    "each, whose result is exported (default: one run). protocol: the version of these tables, "
    "which an exported result names. quick: settings of a quick run, and its corpora. "
    "learners: a table [learners.LABEL] for each (at least one). In it, algorithm: a name of 'list "
    "algorithms' (default LABEL); budget and memory: its own limits (default those of the run); "
    "and its hyper-parameters: a value is fixed, a list is searched on the inner folds (default "
    "its search space, and what the algorithm says of the others)."
)
"""What an experiment file says and no option does."""


def parse_words(words: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the words of a command, read its experiment, and look for what its words name.

    What is wrong in them is told before imports that take two seconds.
    """
    options = make_parser().parse_args(words)
    if getattr(options, "experiment", None) is not None:
        options.experiment = Experiment.from_toml(options.experiment)
    if not getattr(options, "plugin", None) and getattr(options, "resume", None) is None:
        _refuse_unknown_words(options)
    return options


def _refuse_unknown_words(options: argparse.Namespace) -> None:
    """Raise UsageError for a name that no installed package has, or a path with nothing there."""
    dataset = getattr(options, "dataset", None)
    if options.verb in ("run", "fit"):
        experiment = options.experiment or Experiment.from_toml("default")
        own = experiment.learners
        for label in options.algorithms or own:
            name = own[label].algorithm if label in own else label
            refuse_unknown("algorithm", name, also=own)
        for task in options.tasks or experiment.tasks:
            refuse_unknown("task", task)
        if (split := options.split or experiment.split) is not None:
            refuse_unknown("split", split)
        dataset = experiment.dataset if dataset is None else dataset
    elif options.verb == "evaluate" and options.judged.is_dir():
        return  # a run has its own data
    if dataset is not None:
        _, path = find_dataset(dataset, [point.name for point in installed("data set")])
        if path is not None:
            refuse_missing(path)


def make_parser() -> argparse.ArgumentParser:
    """Make the parser; parsed options have the attribute `verb`, such as 'run' or 'data list'."""
    parser = Parser(
        prog="python -m oasis_bench",
        description="Compare metric learners: how well they rank, and how long they take.",
    )
    parser.add_argument("--version", action="version", version=f"oasis-bench {__version__}")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    _add_run(verbs)
    _add_evaluate(verbs)
    _add_fit(verbs)
    _add_neighbours(verbs)
    _add_embed(verbs)
    _add_list(verbs)
    _add_check(verbs)
    _add_data(verbs)
    _add_paper(verbs)
    _add_web_scale(verbs)
    _add_compare(verbs)
    _add_export(verbs)
    report = add_verb(verbs, "report", "remake the report of a run")
    add_input(report, "run", "RUN", "the output folder of the run")
    report.add_argument(
        "--baseline",
        metavar="LEARNER",
        help="the learner that tables and box plots of differences are relative to (default: the "
        "best in tables; in box plots Euclidean, where it is there, or the first)",
    )
    _add_judge(verbs)
    _add_ranks(verbs)
    return parser


def _add_run(verbs: Any) -> None:
    """Add the verb `run`."""
    run = add_verb(
        verbs,
        "run",
        "run an experiment and write its report",
        "Run an experiment: every learner on every class subset and partition. "
        "Options override the experiment file.",
    )
    run.add_argument(
        "--experiment",
        metavar="NAME|FILE",
        help="a built-in experiment of 'list experiments', or a TOML file (default: default, "
        "scanned digits)",
    )
    run.add_argument(
        "--algorithms",
        type=names_of_text,
        metavar="A,B",
        help="learners of the experiment or by name; in a file, tables [learners.NAME] "
        "(default: all of the experiment)",
    )
    _add_param(run)
    run.add_argument(
        "--dataset",
        metavar="NAME|PATH",
        help="a data set, your own file, or a folder of pictures (default: the experiment's)",
    )
    run.add_argument(
        "--quick",
        action="store_true",
        help="a first answer in some seconds: one class subset, 2 partitions, 2 inner folds, a "
        "search of 4 candidates, 64000 steps and no traces, where these are not given (default: "
        "no)",
    )
    _add_settings(
        run,
        "Each is a key of an experiment file too: its name with _ in place of -, or the key in "
        "brackets. A default holds where the file does not have the key.",
        tuple(known_settings()),
    )
    add_data_options(run)
    _add_place(run)
    add_path(run, "--output", "DIR", "a new folder (default: runs/DATASET-TIME)")
    add_input(
        run,
        "--resume",
        "RUN",
        "go on with a run that was cut short, by its output folder: with its settings, and "
        "without the trials that it has; its plugin files are to be named again with --plugin "
        "(default: a new run)",
    )
    run.add_argument(
        "--retry",
        type=statuses_of_text,
        default=[],
        metavar="STATUS,STATUS",
        help=f"with --resume: run trials of these statuses again ({', '.join(RETRIED)}; "
        "default: none)",
    )
    for flag, what in (
        ("save-models", "each fitted learner as RUN/models/LEARNER_SUBSET_PARTITION.npz"),
        ("predictions", "all scores, in RUN/predictions, so that 'evaluate RUN' needs no new fit"),
    ):
        run.add_argument(f"--{flag}", action="store_true", help=f"keep {what} (default: no)")
    add_plugin(run)
    run.add_argument_group("keys of an experiment file alone", FILE_KEYS)


def _add_evaluate(verbs: Any) -> None:
    """Add the verb `evaluate`."""
    parser = add_verb(
        verbs,
        "evaluate",
        "evaluate a saved model on other data, or the kept scores of a run by other tasks",
        "Evaluate without a new fit. A model (of 'run --save-models' or save_model) is evaluated "
        "on --dataset: a run like any other, except that the model is loaded, not fitted. For a "
        "run with --predictions, --tasks evaluate the scores that it kept; their measures are "
        "added to those of the run.",
    )
    add_input(parser, "judged", "MODEL|RUN", "a model file, or the output folder of a run")
    parser.add_argument("--dataset", metavar="NAME|PATH", help="the data to evaluate a model on")
    _add_settings(
        parser,
        "--tasks is for a run as well, the others for a model. Rows are scaled as the model's file "
        "says; where it holds no scaling, as --scaling or the data set says, and what scaling "
        "learns comes from the training part of the data that the model is evaluated on.",
        JUDGED_SETTINGS,
        of_a_file=False,
    )
    add_data_options(parser)
    _add_place(parser)
    what = "a new folder, for a model (default: runs/DATASET-TIME)"
    add_path(parser, "--output", "DIR", what)
    add_plugin(parser)


def _add_fit(verbs: Any) -> None:
    """Add the verb `fit`."""
    parser = add_verb(
        verbs,
        "fit",
        "tune a learner, fit it on all rows of a table and write it to a model file",
        "Tune a learner on inner folds as a trial of 'run' does, fit it on all rows (of more than "
        "100,000 with labels, on so many, the same share of each class), and write it "
        "with its scaling to a model file, whole or not at all. What to expect is printed: the "
        "measure by which it was tuned on the inner folds, beside the Euclidean baseline's. "
        "Example: fit table.csv --label kind --learner OASIS --output metric.npz",
    )
    parser.set_defaults(experiment=None, quick=False, **dict.fromkeys(known_settings()))
    parser.add_argument("dataset", metavar="NAME|PATH", help="your table, or a data set")
    one: dict[str, Any] = {"type": lambda text: [text], "metavar": "NAME"}
    what = "a learner of 'list algorithms' (default OASIS)"
    parser.add_argument("--learner", dest="algorithms", default=["OASIS"], help=what, **one)
    what = (
        "what it is tuned for: unseen-classes where classes will be others (default retrieval, or "
        "what --pairs and --triplets ask)"
    )
    parser.add_argument("--task", dest="tasks", help=what, **one)
    add_path(parser, "--output", "FILE.npz", "the model file", required=True)
    _add_param(parser)
    said = "As of 'run': they decide how the learner is tuned."
    _add_settings(parser, said, FIT_SETTINGS, of_a_file=False)
    add_data_options(parser)
    add_plugin(parser)


def _add_param(parser: Parser) -> None:
    """Add values of hyper-parameters."""
    parser.add_argument(
        "--param",
        action="append",
        default=[],
        dest="params",
        metavar="LEARNER.NAME=A,B",
        help="a hyper-parameter of a learner: one value is fixed, several are searched, such as "
        "LMNN.pull_weight=0.5,0.9,0.99; may be given many times (default: its search space)",
    )


def _add_neighbours(verbs: Any) -> None:
    """Add the verb `neighbours`."""
    parser = add_verb(
        verbs,
        "neighbours",
        "find the nearest rows of a gallery for each query, by a saved model",
        "Find the rows of a gallery that are most similar to each query, by a model of 'fit' or "
        "'run --save-models'. Tables hold rows as they are, not scaled, and need no labels; their "
        "columns are matched by name, and others are not looked at. The output is CSV: query, "
        "rank, neighbour, similarity; rows count from 0, without the line of names. "
        "Example: neighbours metric.npz gallery.csv queries.csv -k 10 --output neighbours.csv",
    )
    add_input(parser, "model", "MODEL", "a model file")
    parser.add_argument("gallery", metavar="GALLERY", help="the table, or data set, to search")
    parser.add_argument("queries", metavar="QUERIES", help="the table, or data set, of the queries")
    count: dict[str, Any] = {"type": positive_of_text, "metavar": "N"}
    parser.add_argument("-k", default=10, help="neighbours of each query (default 10)", **count)
    what = "look at a part of a large gallery alone: sooner, but some are missed; needs the extra"
    parser.add_argument("--faiss", action="store_true", help=f"{what} [faiss] (default: no)")
    what = "with --faiss: lists that a query looks into: more miss fewer (default 8)"
    parser.add_argument("--probes", default=8, help=what, **count)
    add_path(parser, "--output", "FILE.csv", "where to write them (default: the terminal)")
    _add_tables(parser)


def _add_embed(verbs: Any) -> None:
    """Add the verb `embed`."""
    parser = add_verb(
        verbs,
        "embed",
        "write the points of rows in the learned space of a saved model",
        "Write the point of each row in the learned space: of a learner of a distance the "
        "Euclidean distance of points is that of the rows; of PsdOASIS, CosineOASIS and the like "
        "their inner product is the similarity. The table is read as 'neighbours' does. "
        "Example: embed metric.npz table.csv --output embedding.parquet",
    )
    add_input(parser, "model", "MODEL", "a model file")
    parser.add_argument("dataset", metavar="TABLE", help="the table, or data set")
    what = "a .csv, .npy or .parquet file (the last needs the extra [parquet])"
    add_path(parser, "--output", "FILE", what, required=True)
    _add_tables(parser)


def _add_tables(parser: Parser) -> None:
    """Add how the tables of a model are read."""
    what = "the column that names the rows (default: they are called by their numbers)"
    parser.add_argument("--name", metavar="COLUMN", help=what)
    add_data_options(parser)
    add_plugin(parser)


def _add_place(parser: Parser) -> None:
    """Add where trials run."""
    parser.add_argument(
        "--jobs",
        type=partial(positive_of_text, most=1024),
        default=1,
        metavar="N",
        help="trials at a time (default 1: timings are clean; above 1 they are marked)",
    )
    parser.add_argument(
        "--cluster",
        metavar="ADDRESS",
        help="run the trials on the workers of a Dask cluster, by the address of its scheduler "
        "(default: on this machine)",
    )


def _add_settings(
    parser: Parser, description: str, names: Sequence[str], *, of_a_file: bool = True
) -> None:
    """Add an option for each of the settings of an experiment, which checks their values.

    Without a file of it their keys are not named, and all classes are the default.
    """
    group = parser.add_argument_group("settings of the experiment", description)
    own = vars(Experiment.from_toml("default")) if of_a_file else {}
    for name in names:
        setting = known_settings()[name]
        key = f"key {name}; " if setting.flag and of_a_file else ""
        default = setting.default_in_words if of_a_file or name != "classes" else "all"
        if (used := own.get(name, setting.default)) != setting.default:
            text = ",".join(map(str, used)) if isinstance(used, tuple) else used
            default = f"{text}; in a file without this key default {default}"
        how: dict[str, Any] = {"type": setting.read, "metavar": setting.metavar}
        if not setting.metavar:
            how = {"action": argparse.BooleanOptionalAction}
        group.add_argument(
            setting.flag or f"--{name.replace('_', '-')}",
            dest=name,
            default=None,
            help=f"{setting.help} ({key}default {default})",
            **how,
        )


def _add_list(verbs: Any) -> None:
    what = ("algorithms", "datasets", "tasks", "splits", "experiments")
    parser = add_verb(verbs, "list", "list algorithms, data sets, tasks, splits and experiments")
    parser.add_argument("what", nargs="?", choices=what, help="only these (default: all)")
    parser.add_argument(
        "--for",
        dest="dataset",
        metavar="NAME|PATH",
        help="try every algorithm on one small partition of this data set: which apply, what they "
        "cost there, and which to begin with (with 'list algorithms'; a minute or two)",
    )
    add_data_options(parser)
    add_plugin(parser)


def _add_check(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "check",
        "test the learners, data sets and tasks of a plugin file",
        "Test that what a plugin file defines does what it must: of learners scikit-learn's own "
        "checks, the same score for a pair whatever else is asked, saving and loading, and more; "
        "that a data set is the same each time; that measures of a task lie in their ranges. "
        "The exit status is 1 where a check fails.",
    )
    add_input(parser, "file", "FILE", "a Python file that defines learners, data sets or tasks")


def _add_data(verbs: Any) -> None:
    data = verbs.add_parser("data", help="describe and prepare data sets")
    actions = data.add_subparsers(required=True, metavar="ACTION")
    for action, what in (
        ("list", "list the data sets, and how to get each"),
        ("describe", "say what a data set holds, preparing it first where it is not yet"),
        ("prepare", "download and make the features of a data set now"),
    ):
        parser = add_verb(actions, action, what)
        parser.set_defaults(verb=f"data {action}")
        if action != "list":
            parser.add_argument("dataset", metavar="NAME|PATH", help="a name, a file or a folder")
            add_data_options(parser)
        add_plugin(parser)


def _add_web_scale(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "web-scale",
        "train OASIS on millions of generated web images and write a report",
        "The web-scale experiment of the papers (JMLR 2010, section 5.2) on generated images: "
        "train OASIS, rank all test images, write a report. The same command goes on where it was "
        "stopped. All of it takes 4 GB of disk, 4 GB of memory and, on two cores, under an hour: "
        "try --images 10000 first. What is written, where, and the chance level are said before "
        "the first training.",
    )
    for flag, default, least, most, what in (
        ("test-images", 402_164, LEAST_IMAGES, MOST, "test images, which are ranked"),
        ("visterms", 10_000, 1, MOST, "visual words: the number of features"),
        ("steps-per-image", 70, 1, 10**6, "steps for each training image"),
        ("seeds", 1, 1, 1000, "trainings of each kind, with triplets of their own"),
        ("queries", 1000, 1, MOST, "test images that are queries; all where there are fewer"),
        ("threads", None, 1, 1024, "threads that learn and rank"),
    ):
        parser.add_argument(
            f"--{flag}",
            type=partial(positive_of_text, least=least, most=most),
            default=default,
            metavar="N",
            help=f"{what} (default {default or 'all cores'})",
        )
    parser.add_argument(
        "--images",
        type=each_of_text(partial(positive_of_text, least=LEAST_IMAGES)),
        default=[2_292_259],
        metavar="N,N",
        help="training images; several numbers show how time grows (default 2292259)",
    )
    parser.add_argument(
        "--batch",
        type=each_of_text(batch_of_text),
        default=[65_536],
        metavar="N,exact",
        help="triplets of a mini-batch, or exact for OASIS; several show what batches cost "
        "(default 65536)",
    )
    what = "results and the last model of each training (default: runs/web-scale)"
    add_path(parser, "--output", "DIR", what, default=Path("runs") / "web-scale")


def _add_compare(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "compare",
        "say what got better or worse from one run to another",
        "Compare the trials that two runs have in common. The exit status is 1 where something "
        "got worse beyond noise, 0 where not, and 3 where nothing could be judged.",
    )
    add_input(parser, "old", "OLD", "the output folder of the run before")
    add_input(parser, "new", "NEW", "the output folder of the run after")
    parser.add_argument(
        "--tolerance",
        type=tolerance_of_text,
        default=0.1,
        metavar="P",
        help="share by which seconds and peak memory may grow (default 0.1)",
    )


def _add_export(verbs: Any) -> None:
    parser = add_verb(verbs, "export", "write the numbers of a run for other programs")
    add_input(parser, "run", "RUN", "the output folder of the run")
    parser.add_argument(
        "--format",
        required=True,
        choices=("csv", "parquet", "latex", "summary", "trec"),
        help="csv and parquet: every table of the store; latex: the tables of the report; summary: "
        "one CSV of means, spreads, costs and their origin, named after RUN; trec: of a run with "
        "--predictions, a run file and a qrels file for each trial of retrieval or unseen-classes, "
        "so that trec_eval and its like can check the measures",
    )
    add_path(parser, "--output", "DIR", "where to write them (default: RUN/export)")
    add_plugin(parser, "for trec: a plugin file of the run (may be repeated; default: none)")


def _add_judge(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "judge",
        "have people rate the pictures that a run retrieves",
        "Write a page on which people rate the pictures that the learners of a run retrieve for "
        "its example queries (JMLR 2010, 5.2.3).  It is one file to send around, names no learner, "
        "and saves each rater's marks as a file.  --collect takes those files; the report of the "
        "run then has precision by raters, beside that by labels and the raters' own.",
    )
    add_input(parser, "run", "RUN", "the output folder of a run on pictures")
    for name, default, what in (
        ("queries", 25, "query pictures, of those that 'run --examples' keeps"),
        ("candidates", 20, "pictures to rate of each query, the first of all learners"),
    ):
        parser.add_argument(
            f"--{name}",
            type=positive_of_text,
            metavar="N",
            help=f"at most so many {what} (default: {default})",
        )
    add_path(parser, "--output", "FILE", "the page (default: RUN/judge.html)")
    add_input(
        parser,
        "--collect",
        "FILE",
        "files that raters saved: add their marks to RUN/ratings.csv (default: write the page)",
        nargs="+",
    )


def _add_paper(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "paper",
        "what the papers claimed, and what we found",
        "Run the experiments that decide the papers' claims, then write a page of the claims with "
        "their verdicts, and beside it claims.csv. The same command goes on where it stopped.",
    )
    parser.add_argument(
        "--experiments",
        type=names_of_text,
        metavar="A,B",
        help="only these, each with its own report (default: all that decide a claim)",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="1 partition and short searches: whether it works, not what is true (default: no)",
    )
    what = "where runs and page are written (default: runs/paper, with --quick runs/paper-quick)"
    add_path(parser, "--output", "DIR", what)
    parser.set_defaults(
        **dict.fromkeys(("cluster", "resume")),
        **dict.fromkeys(("save_models", "predictions"), False),
        plugin=[],
        jobs=1,
    )


def _add_ranks(verbs: Any) -> None:
    parser = add_verb(
        verbs,
        "ranks",
        "compare learners over the data sets of several runs: a leaderboard",
        "Compare learners over data sets, task by task: error reduction against the baseline, "
        "average ranks, Wilcoxon's signed-rank test against the baseline and the leader, time, and "
        "which learner to take for which data. A data set counts once, whatever its runs, class "
        "subsets and features. Where a learner has no result the baseline stands in; with "
        "stand-ins on more than a fifth of the data sets it is not ranked.",
    )
    what = "output folders of runs, CSV files of 'export --format summary', or folders of these"
    add_input(parser, "runs", "RUN|FILE.csv", what, nargs="+")
    parser.add_argument("--task", help="a task of the runs (default: each)")
    parser.add_argument(
        "--measure", help="of the tasks, such as mAP or accuracy@3 (default: the first of each)"
    )
    parser.add_argument(
        "--baseline",
        metavar="LEARNER",
        default="Euclidean",
        help="the learner whose error the others reduce (default: Euclidean)",
    )
    what = "where tables, figures and page are written (default: runs/ranks)"
    add_path(parser, "--output", "DIR", what, default=Path("runs") / "ranks")
