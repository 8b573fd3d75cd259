"""The options of what runs trials: those of `run` and `evaluate`, and of data sets and plugins."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from typing import Any

from oasis_bench.command_line.parsing import (
    RETRIED,
    Parser,
    add_input,
    add_path,
    add_verb,
    name_and_value,
    names_of_text,
    positive_of_text,
    statuses_of_text,
)
from oasis_bench.experiment import Experiment, known_settings

DATA_OPTIONS = (
    ("label", "COLUMN", "the label column of your own file (default: label, class, target or y)"),
    (
        "fold-column",
        "COLUMN",
        "the column of your own file that says in which fold each row tests: these are the "
        "partitions then (default: none, partitions are drawn)",
    ),
    (
        "drop",
        "A,B",
        "columns of your own file to leave out; one that holds a comma in double quotes "
        "(default: none)",
    ),
    ("decimal", "SIGN", "the decimal sign of your own CSV file, . or , (default: as columns show)"),
    (
        "thousands",
        "SIGN",
        "the sign of thousands of your own CSV file: , . ' or a space (default: as columns show)",
    ),
    ("visterms", "N", "visual words of a data set of pictures (default: its own, 1000)"),
    ("block", "PIXELS", "side of the blocks of pictures (default: the data set's, mostly 64)"),
    (
        "features",
        "NAME|FILE.npz",
        "what the rows of a data set of pictures are: visterms, efficientnet-lite0, timm:NAME (a "
        "network of timm), lab, hog, lbp, wavelet, sift-bow, fisher, texton, or several of these "
        "joined by +, or a file of your own (default: its own, mostly visterms)",
    ),
)
"""Options of data sets that have a short form of --data-option."""

JUDGED_SETTINGS = (
    *("tasks", "split", "classes", "partitions", "train_per_class", "test_per_class"),
    *("test_share", "seed", "scaling", "threads", "examples", "queries", "budget", "memory"),
)
"""The settings of an experiment that also decide how a saved model is evaluated."""

FILE_KEYS = (
    "title: of the report (needed). "
    "dataset: a name or a path, or a table [dataset] with its name and options (needed; a list as "
    "the value of one option makes a run for each). "
    "each: a table [each] with a setting and a list of its values, which makes a run for each "
    "(default: one run). "
    "learners: a table [learners.LABEL] for each (at least one). In it, algorithm: a name of 'list "
    "algorithms' (default LABEL); budget and memory: its own limits (default those of the run); "
    "and its hyper-parameters: a value is fixed, a list is searched on the inner folds (default "
    "its search space, and what the algorithm says of the others)."
)
"""What an experiment file says and no option does."""


def add_run(verbs: Any) -> None:
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


def add_evaluate(verbs: Any) -> None:
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
        "--tasks is for a run as well, the others for a model. Rows are scaled as --scaling or "
        "the data set says; what scaling learns, such as the weights of tfidf, it learns from the "
        "training part of the data that the model is evaluated on.",
        JUDGED_SETTINGS,
        of_a_file=False,
    )
    add_data_options(parser)
    _add_place(parser)
    what = "a new folder, for a model (default: runs/DATASET-TIME)"
    add_path(parser, "--output", "DIR", what)
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
            default = f"{used}; in a file without this key default {default}"
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


def add_data_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of data sets."""
    group = parser.add_argument_group(
        "options of the data set",
        "In an experiment file they stand in a table [dataset], beside its name.",
    )
    parser.set_defaults(data_options=[])
    append: dict[str, Any] = {"dest": "data_options", "action": "append"}
    for name, metavar, what in DATA_OPTIONS:
        pair = partial(lambda name, text: (name, text), name.replace("-", "_"))
        group.add_argument(f"--{name}", type=pair, metavar=metavar, help=what, **append)
    group.add_argument(
        "--data-option",
        type=name_and_value,
        metavar="NAME=VALUE",
        help="any option of the data set; --data-option visterms=100 is --visterms 100 (may be "
        "repeated; default: none)",
        **append,
    )


def add_plugin(
    parser: Parser,
    what: str = "a Python file that defines learners, data sets, tasks or splits (may be repeated; "
    "default: none)",
) -> None:
    """Add the option for plugin files."""
    add_input(parser, "--plugin", "FILE", what, action="append", default=[])
