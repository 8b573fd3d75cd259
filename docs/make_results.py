"""Writes the tables and findings of the site's pages from CSV; the prose stays.

    python docs/make_results.py            # write the pages, leaderboard.csv, and what advice reads
    python docs/make_results.py --check    # status 1 where one is not what the files give

A table stands between two comments of the page.  The first says which files, each with a subset
after a colon or all of its subsets, and which columns:

    <!-- results: libraries, mnist:10; retrieval mAP; classification accuracy@1; fit CPU -->
    <!-- end of results -->

A column is a task and one of its measures, or a key of `FACTS`, which are those of the first
measure's fit.  Learners are in the order of the first measure.  Bold: best, or tied with
the best (corrected paired t-test, Holm), and measured on all partitions; nothing is bold where that
is true of all learners that have a verdict, or on two partitions, where a test can tell hardly
anything.

A table of KEEL's data sets beside the published figures, for so many neighbours, is marked so:

    <!-- published: keel; 3 -->
    <!-- end of results -->

A leaderboard over all corpora, or over a group of them, is marked so; it is what the command
'ranks docs/results/suite' shows, or 'ranks docs/results' where the suite has no results.  With
'; directly' all learners are used directly:

    <!-- leaderboard: classification accuracy@1; pictures -->
    <!-- end of results -->

The planned comparisons of the suite (docs/suite.md), by a task and one of its measures, and for new
classes by the fewest classes of a data set, are marked so:

    <!-- planned: unseen-classes mAP; 7 -->
    <!-- end of results -->

The suite has several random splits: one in its folder, the others in the folders `second-split`
and `third-split` (new classes only) in it.  All of the above has the mean of them.  'splits' in
place of 'planned' gives each split alone, for several tasks 'noise' how far they differ, and 'own
choice' what the choice of a metric in one split gives in another ('own choice in words' in a
sentence).  'directly' compares metrics and Euclidean if all are used directly ('directly in words'
in a sentence).

For several tasks, 'in words' in place of 'planned' gives their first two in sentences ('in short'
with fewer tests), 'advice' the learner to take, 'variance' the shares of the variance ('shares' in
words), and 'rules' what rules gain:

    <!-- in words: retrieval mAP; unseen-classes mAP -->
    <!-- end of results -->

For an experiment, 'coverage: suite' says what is measured, and 'budgets: budgets' what learning
adds at each label budget ('labels' in words).

The error reductions of both uses against Euclidean distance, from a folder of files of one suite:

    <!-- uses: uses; mAP -->
    <!-- end of results -->

What the command 'paper' found is marked so, with 'verdicts' (decided by docs/claims/effects.csv),
'counts' (of the verdicts), 'notes' (of the claims themselves), 'changes' (of their rules) or the
name of a file in docs/claims/, which it wrote:

    <!-- claims: verdicts -->
    <!-- end of results -->
"""

import re
import sys
from contextlib import chdir, suppress
from functools import cache, partial
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pandas as pd

DOCS = Path(__file__).parent
PUBLISHED = DOCS.parent / "oasis_bench" / "claims" / "published" / "knn_keel.csv"
MARKED = re.compile(r"(<!-- ([a-z ]+): (.*?) -->\n).*?(<!-- end of results -->)", re.DOTALL)

FACTS = {
    "directly": ("directly", "direct", 1),
    "fit": ("fit, s", "fit_seconds", 1),
    "fit CPU": ("fit, CPU s", "fit_cpu_seconds", 1),
    "tuning": ("tuning, s", "tuning_seconds", 1),
    "query": ("query, ms", "seconds_per_query", 1e-3),
    "peak": ("peak, MiB", "fit_peak_bytes", 2**20),
    "model": ("model, KiB", "model_bytes", 2**10),
    "steps": ("steps", "n_steps", 1),
    "candidates": ("candidates", "candidates", 1),
    "tuned": ("tuned", "params", 1),
    "scaling": ("scaling", "scaling", 1),
    "partitions": ("partitions", "partitions", 1),
}


def fact_cell(row, fact):
    """Write a cost, with its range where that is known, or another fact of a row."""
    _, column, unit = FACTS[fact]
    value = row[column]
    if isinstance(value, str) or pd.isna(value):
        return value if isinstance(value, str) else "-"
    if fact == "directly":
        return f"{value:.3f}"
    if fact == "partitions" and value < row["planned"]:
        return f"{value} of {row['planned']}"
    ends = [row[f"{column}{end}"] for end in ("_min", "_max") if f"{column}{end}" in row]
    middle, *limits = (
        f"{number:,.0f}" if number >= 10 or number == int(number) else f"{number:.2g}"
        for number in (value / unit, *(end / unit for end in ends))
    )
    return f"{middle} ({' - '.join(limits)})" if limits else middle


def measure_cells(rows):
    """Write mean ± standard deviation of each learner, bold only if that tells something."""
    is_best = rows["verdict"].isin(["best", "as good", "unclear", "tied", "better"])
    is_best &= (rows["partitions"] == rows["planned"]) & (rows["planned"] > 2)
    is_best &= not is_best[(rows["partitions"] > 0) & rows["verdict"].notna()].all()
    texts = {}
    for learner, row in rows.iterrows():
        text = f"{row['mean']:.3f}" + ("" if pd.isna(row["sd"]) else f" ± {row['sd']:.3f}")
        texts[learner] = f"**{text}**" if is_best[learner] else text if row["partitions"] else "-"
    return texts


def read_rows(folder, name, columns):
    """Return the rows of one file and its subset whose measures are columns of a table."""
    file, _, subset = name.partition(":")
    path = folder / f"{file}.csv"
    if not path.exists():
        raise SystemExit(f"{path} is missing: make it with 'export RUN --format summary'")
    types = {"subset": str, "n_train": "Int64", "n_test": "Int64", "threads": "Int64"}
    rows = pd.read_csv(path, dtype=types, keep_default_na=False, na_values=[""])
    k = rows["k"].map(lambda k: "" if pd.isna(k) else f"@{k:.0f}")
    rows = rows.assign(file=file, column=rows["task"] + " " + rows["measure"] + k)
    for wanted, known in (
        ([subset or rows["subset"][0]], rows["subset"]),
        (columns, rows["column"]),
    ):
        for name in wanted:
            if name not in FACTS and name not in set(known):
                raise SystemExit(f"{path} has no {name!r}: there are {', '.join(known.unique())}")
    return rows[rows["column"].isin(columns) & ((rows["subset"] == subset) | (not subset))]


def table_lines(rows, columns):
    """Yield the cells of the lines of one data set and subset, the best first and chance last."""
    measures = [name for name in columns if name not in FACTS]
    cells = {name: rows[rows["column"] == name].set_index("learner") for name in measures}
    values = {name: measure_cells(own) for name, own in cells.items()}
    first = cells[measures[0]]
    for learner in first["mean"].sort_values(ascending=False, kind="stable").index:
        if not any(own.loc[learner, "partitions"] for own in cells.values()):
            note = str(first.loc[learner, "note"]).replace("|", r"\|")
            yield [learner, note, *[""] * (len(columns) - 1)]
            continue
        texts = {name: own[learner] for name, own in values.items()}
        texts |= {name: fact_cell(first.loc[learner], name) for name in columns if name in FACTS}
        yield [learner, *(texts[name] for name in columns)]
    chances = {name: own["chance"].mean() for name, own in cells.items()}
    texts = [f"{chances[name]:.3f}" if chances.get(name, 0) > 0 else "" for name in columns]
    if any(texts):
        yield ["chance", *texts]


def without_folder(command):
    """Leave out the output folder, which is each reader's own; name a copy by its experiment."""
    return re.sub(r" --output \S+", "", re.sub(r"(--experiment [\w-]+)\.toml\b", r"\1", command))


def origin(rows):
    """Say in one line where the rows of a file come from."""
    of = {name: " and ".join(map(str, rows[name].dropna().unique())) for name in rows}
    draws = rows[["n_train", "n_test"]].drop_duplicates().to_numpy().tolist()
    sizes = ", ".join(f"{train} + {test}" for train, test in draws)
    is_suite = rows["file"].iloc[0].startswith("suite/")
    # The suite ran in parts, so the command of a row is that of its part.
    of_suite = "python -m oasis_bench run --experiment suite"
    command = of_suite if is_suite else without_folder(of["command"])
    # A number without a unit counts candidates.
    budget = of["search"] + " candidates" * of["search"].isdigit()
    scaling = f"Scaling: {of['scalings']}. " * bool(of["scalings"])  # learners of pixels have none
    days = days_of(rows)
    shared = " Times are of shared cores." if rows["shared_cores"].max() else ""
    return (
        f"*{of['planned']} partition{'s' * (of['planned'] != '1')}, training + test items: "
        f"{sizes}. {scaling}"
        f"Budget of tuning: {budget}. Threads: {of['threads']}.{shared}* "
        f"`{command}`, {days}, commit {short(of['commit'])}, {of['processor']}."
    )


def days_of(rows):
    """Write the first and the last day on which rows were measured."""
    return " to ".join(sorted({rows["started"].min()[:10], rows["started"].max()[:10]}))


def short(commits):
    """Cut the hash of each commit to 8 digits."""
    return re.sub(r"\b([0-9a-f]{8})[0-9a-f]{32}\b", r"\1", commits)


def piped(lines):
    """Write lines of cells as those of a table in Markdown."""
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def make_table(spec, folder):
    """Write the table that a comment asks for, in Markdown."""
    files, *columns = [part.strip() for part in spec.split(";")]
    of_files = [read_rows(folder, name.strip(), columns) for name in files.split(",")]
    keys = ["dataset", "subset_title"]
    groups = [group for rows in of_files for group in rows.groupby(keys, sort=False)]
    names = {row["column"]: (row["task"], row["name"]) for _, row in of_files[0].iterrows()}
    one_task = len({task for task, _ in names.values()}) == 1
    heads = [
        FACTS[name][0] if name in FACTS else ", ".join(names[name][one_task:]) for name in columns
    ]
    lines = [[*["data"] * (len(groups) > 1), "learner", *heads]]
    for key, rows in groups:
        label = [", ".join(key)] if len(groups) > 1 else []
        lines += [[*label, *line] for line in table_lines(rows, columns)]
    rule = "|---" * len(lines[0]) + "|\n"
    origins = "".join(f"\n{origin(rows)}\n" for rows in of_files)
    return piped(lines[:1]) + rule + piped(lines[1:]) + origins


def make_published(spec, folder):
    """Write accuracies of several data sets beside the published ones, in Markdown."""
    name, k = (part.strip() for part in spec.split(";"))
    published = pd.read_csv(PUBLISHED).query("k == @k", local_dict={"k": int(k)})
    theirs = published.set_index(["table", "learner"])["accuracy"]
    column = f"knn-classification accuracy@{k}"
    files = sorted(folder.glob(f"{name}/*.csv"))
    of_files = {path.stem: read_rows(folder, f"{name}/{path.stem}", [column]) for path in files}
    learners = next(iter(of_files.values()))["learner"].tolist()
    lines = [["data", *learners], ["---"] * (1 + len(learners))]
    for data, rows in of_files.items():
        ours = rows.set_index("learner")["mean"]
        pairs = [(ours[learner], theirs.get((data, learner))) for learner in learners]
        cells = [f"{own:.4f}" + (f" ({other:.4f})" if other else "") for own, other in pairs]
        lines.append([data, *cells])
    first = next(iter(of_files.values())).iloc[0]
    return piped(lines) + (
        f"\nMean accuracy over {first['planned']} folds, k = {k}; in brackets: published values. "
        f"`{without_folder(first['command'])}`,\n{first['started'][:10]}, "
        f"commit {short(first['commit'])}.\n"
    )


NOTHING_YET = "There are no results yet.\n"


def ranked_folder(results):
    """Return the folder whose files are ranked: the suite's, where it has any."""
    suite = results / "suite"
    return suite if any(suite.glob("*.csv")) else results


SPLITS = {
    "first split": "*.csv",
    "second split": "second-split/*.csv",
    "third split": "third-split/*.csv",
    "all splits": "**/*.csv",
}
"""The files of each random split in the folder of the suite, and of all."""


@cache
def results_of(ranked):
    """Return the rows of all files in a folder that are ranked."""
    from oasis_bench.reports.export import read_results

    with chdir(ranked):
        return read_results(sorted(Path().rglob("*.csv")))


@cache
def leaderboard(spec, folder, split="all splits"):
    """Return the leaderboard that a comment asks for: learners over the corpora of a folder.

    None where the suite has no corpus with the task, or none of the group.
    """
    from oasis_bench.reports.leaderboard import ALL, boards_of

    asked, _, corpora = (part.strip() for part in spec.partition(";"))
    task, measure = asked.split(" ", 1)
    ranked = ranked_folder(folder)
    files = [str(it.relative_to(ranked)) for it in ranked.glob(SPLITS[split])]
    if not files:  # or the folder is missing
        return None
    rows = results_of(ranked)
    rows = rows[rows["source"].isin(files)]
    if task not in set(rows["task"]):
        return None
    boards, _ = boards_of(rows, task, measure)
    return next((board for board in boards if board.group == (corpora or ALL)), None)


def make_picture(docs):
    """Draw the error reductions of each task, over all data sets, as one picture for the README."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from oasis_bench.reports.figure_style import STYLE
    from oasis_bench.reports.leaderboard import draw_reductions

    specs = "retrieval mAP", "unseen-classes mAP"
    boards = [board for it in specs if (board := compared(it, docs / "results")) is not None]
    most = max(len(board.ranked) for board in boards)
    with mpl.rc_context(STYLE):
        # README shows it 800 pixels wide: a narrower figure has larger letters there.
        figure = Figure(figsize=(3.6 * len(boards), 1.4 + 0.2 * most), layout="constrained")
        for axes, board in zip(
            figure.subplots(1, len(boards), squeeze=False)[0], boards, strict=True
        ):
            places = range(len(board.ranked))
            for use, face in (("direct", "0.6"), ("posterior", "white")):
                of_use = board.of_use(use)[board.ranked[::-1]]
                values = 100 * of_use.median().where(of_use.notna().mean() > 0.5)
                axes.plot(values, places, "s", color="0.6", markerfacecolor=face, label=use)
            draw_reductions(axes, board)
            axes.set_xlim(left=min(axes.get_xlim()[0], -3))
            axes.set_title(f"{TASKS[board.task][0]}\n{len(board.corpora)} data sets", y=1.0)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        figure.savefig(docs / "leaderboard.png", dpi=167)


def markdown(table):
    """Write a table with its notes in Markdown."""
    rows = [[f"**{cell.text}**" if cell.bold else cell.text for cell in row] for row in table.cells]
    lines = [table.header, ["---"] * len(table.header), *rows]
    lines = [[text.replace("|", r"\|") for text in line] for line in lines]
    return piped(lines) + "".join(f"\n{note}\n" for _, note in table.marked_notes)


DIRECTLY = "; directly"


def asked_board(spec, folder):
    """Return the leaderboard of a comment, in the tuned use or directly; None without results."""
    board = leaderboard(spec.removesuffix(DIRECTLY), folder)
    return board.in_uses[-1] if board is not None and spec.endswith(DIRECTLY) else board


def make_leaderboard(spec, folder):
    """Write a leaderboard and what it says in Markdown."""
    from oasis_bench.reports.leaderboard import sentences, standing_table

    if (board := asked_board(spec, folder)) is None:
        return NOTHING_YET
    return markdown(standing_table(board)) + "\n" + " ".join(sentences(board)) + "\n"


LABELS = "Euclidean in its tuned use minus Euclidean used directly (the labels alone)"
LEARNING = "the metric that is best on the other data sets, minus Euclidean (what learning adds)"
TYPICAL = "a typical metric (the median of them) minus Euclidean"
CLASSIFIER = "ClassifierPosterior minus the metric that is best on the other data sets"
POSTERIOR = "by posterior minus directly, the median over the metrics"

# The plan of docs/suite.md.  Each comparison gives one value for each data set, from the board's
# error reductions against Euclidean used directly, in the use that inner folds select.
PLANNED = {
    LABELS: lambda board: board.saved["Euclidean"],
    LEARNING: lambda board: best_metric(board) - board.saved["Euclidean"],
    TYPICAL: lambda board: board.saved[board.metrics].median(axis=1) - board.saved["Euclidean"],
    CLASSIFIER: lambda board: board.saved["ClassifierPosterior"] - best_metric(board),
    "PLDA minus LDA": lambda board: board.saved["PLDA"] - board.saved["LDA"],
    "pml-SupCon minus Euclidean": (
        lambda board: board.saved["pml-SupCon"] - board.saved["Euclidean"]
    ),
    POSTERIOR: lambda board: (
        (board.of_use("posterior") - board.of_use("direct"))[board.metrics].median(axis=1).dropna()
    ),
}

TASKS = {
    "retrieval": ("Known classes", 2),
    "unseen-classes": ("New classes", 10),
    "classification": ("Known classes, by the nearest neighbour", 2),
}
"""The words for each task, and the fewest classes of a data set in its comparisons."""


def best_metric(board):
    """Return, on each data set, the error reduction of the metric that is best on the others."""
    from oasis_bench.analysis import best_elsewhere

    return best_elsewhere(board.saved[board.metrics])


def task_of(spec):
    """Return the words for the task of a comment."""
    return TASKS[spec.strip().split(" ", 1)[0]][0]


@cache
def compared(spec, folder, split="all splits"):
    """Return the leaderboard of a task and a measure over the data sets with enough classes.

    'unseen-classes mAP; 7' also has those of seven to nine classes.  None without results.
    """
    from oasis_bench.analysis import Leaderboard

    asked, _, least = (part.strip() for part in spec.partition(";"))
    if (board := leaderboard(asked, folder, split)) is None:
        return None
    cells = board.cells
    least = int(least or TASKS[board.task][1])
    return Leaderboard.of(cells[cells["n_classes"] >= least], board.baseline)


@cache
def planned(spec, folder, split="all splits"):
    """Return the planned comparisons of a task: medians, intervals, means, tests with Holm.

    A comparison whose learners have no results yet is left out; None without results.
    """
    if (board := compared(spec, folder, split)) is None:
        return None
    values = {}
    for name, compare in PLANNED.items():
        with suppress(KeyError):
            values[name] = compare(board)
    return tested({name: own for name, own in values.items() if own.notna().all() and len(own)})


def tested(values):
    """Test whether each of several comparisons, a value for each data set, is other than 0.

    `p` is the larger one of `over_sets` (Wilcoxon's test) and `over_domains` (the t-test over the
    means of the domains), with Holm's correction.
    """
    from oasis_bench.analysis import Leaderboard, bootstrap_intervals, holm, tests_over_corpora

    rows = {}
    for name, own in values.items():
        [(low, high)] = bootstrap_intervals(own.to_frame(), "median").to_numpy()
        is_few = len(own) < Leaderboard.LEAST_CORPORA
        over = (float("nan"),) * 2 if is_few else tests_over_corpora(own)
        ends = own.median(), low, high, own.mean(), (own > 0).sum()
        rows[name] = [len(own), *ends, *over, max(over)]
    columns = ["n", "median", "low", "high", "mean", "above", "over_sets", "over_domains", "p"]
    table = pd.DataFrame.from_dict(rows, "index", columns=columns)
    return table.assign(p=holm(table["p"]))


def make_planned(spec, folder):
    """Write the planned comparisons of a task as a table."""
    from oasis_bench.reports.leaderboard import percent, percents
    from oasis_bench.reports.table import p_text

    if (table := planned(spec, folder)) is None:
        return NOTHING_YET
    head = ["Compared", "Median, points", "95 % interval", "Mean", "Above 0"]
    head += ["p, data sets", "p, domains", "p, both, Holm"]
    lines = [head, ["---"] * len(head)]
    for name, row in table.iterrows():
        interval, above = percents(row["low"], row["high"]), f"{row['above']:.0f} of {row['n']:.0f}"
        values = percent(row["median"]), interval, percent(row["mean"]), above
        lines.append([name, *values, *map(p_text, row[["over_sets", "over_domains", "p"]])])
    return piped(lines)


def in_each_split(of, spec, folder):
    """Return what a function gives for each random split that has results, and for all of them."""
    found = {split: of(spec, folder, split) for split in SPLITS}
    return {split: own for split, own in found.items() if own is not None}


def in_splits(name, tables):
    """Write a comparison in each split, with its p-value."""
    from oasis_bench.reports.table import p_text

    rows = [table.loc[name] for table in tables.values()]
    return [f"{in_points(row, '')} ({p_text(row['p'])})" for row in rows]


def make_splits(spec, folder):
    """Write each planned comparison of a task from each random split alone."""
    if not (tables := in_each_split(planned, spec, folder)):
        return NOTHING_YET
    head = ["Compared, points", *(f"{split} (p)" for split in tables)]
    names = tables["all splits"].index
    return piped([head, ["---"] * len(head), *([name, *in_splits(name, tables)] for name in names)])


@cache
def reductions_by_split(spec, folder):
    """Return the error reductions of the metrics and of Euclidean in each split, if several.

    They are those of the data sets that all of these splits have.
    """
    boards = in_each_split(compared, spec, folder)
    if len(boards) <= 2:  # one split, and all of them
        return None
    names = [*boards.pop("all splits").metrics, "Euclidean"]
    saved = [board.saved for board in boards.values()]
    whole = pd.concat(saved, axis=1, join="inner").index
    return [own.loc[whole, names] for own in saved]


NORMAL = 0.6745
"""The median of the absolute values of a normal distribution with the standard deviation 1."""


def make_noise(specs, folder):
    """Write how far the error reductions of random splits differ, as a table."""
    head = ["", "sd of one split", "the same, minus Euclidean", "sd between metrics"]
    head += ["rank correlation on one data set", "rank correlation of the means"]
    lines = [head, ["---"] * len(head)]
    for spec in specs.split(";"):
        if (splits := reductions_by_split(spec.strip(), folder)) is None:
            return NOTHING_YET
        metrics = [own.drop(columns="Euclidean") for own in splits]
        added = [own.sub(it["Euclidean"], axis=0) for own, it in zip(metrics, splits, strict=True)]
        of_split = [
            100 * pd.concat([(a - b).abs() for a, b in pairs]).median() / (NORMAL * 2**0.5)
            for pairs in (combinations(metrics, 2), combinations(added, 2))
        ]
        noise = [f"{own.median():.1f} ({own.min():.1f} to {own.max():.1f})" for own in of_split]
        between = 100 * (sum(metrics) / len(metrics)).std(axis=1).median()
        alike, means = [], []
        for one, other in combinations(metrics, 2):
            alike.append(one.corrwith(other, axis=1, method="spearman"))
            means.append(one.mean().corr(other.mean(), method="spearman"))
        title = f"{task_of(spec)} ({len(metrics[0])} data sets, {len(splits)} splits)"
        ranks = pd.concat(alike).median(), np.median(means)
        lines.append([title, *noise, f"{between:.1f}", *map("{:.2f}".format, ranks)])
    return piped(lines)


def own_choice(spec, folder):
    """Return, on each data set, what its best metric of one split adds in another, or None.

    It is the mean over all pairs of splits, in both orders.
    """
    if (splits := reductions_by_split(spec, folder)) is None:
        return None
    gains = []
    for one, other in permutations(splits, 2):
        best = one.drop(columns="Euclidean").idxmax(axis=1)
        chosen = pd.Series({name: other.at[name, metric] for name, metric in best.items()})
        gains.append(chosen - other["Euclidean"])
    return sum(gains) / len(gains)


LARGE = (
    *("20newsgroups", "caltech101", "caltech256", "corel5k-cds", "keel banana", "keel letter"),
    *("keel magic", "keel optdigits", "keel page-blocks", "keel phoneme", "keel ring"),
    *("keel spambase", "keel texture", "keel thyroid", "keel twonorm", "many-classes banking77"),
    *("many-classes clinc150", "many-classes frogs", "many-classes hwu64", "many-classes omniglot"),
    *("mnist", "tiny-imagenet"),
)
"""Data sets of more than 4500 items: two splits have at most about a fifth of the test items, of
which there are at most 1000, in common."""


def own_choices(specs, folder):
    """Test what `own_choice` is for each task: on all data sets, and on the large ones alone.

    None without results.
    """
    values = {task_of(spec): own_choice(spec.strip(), folder) for spec in specs.split(";")}
    if any(own is None for own in values.values()):
        return None
    large = {task: own[own.index.isin(LARGE)] for task, own in values.items()}
    return tested(values), tested(large)


def make_own_choice(specs, folder):
    """Write what the choice of a metric on the data set itself adds, for each task."""
    from oasis_bench.reports.table import p_text

    if (found := own_choices(specs, folder)) is None:
        return NOTHING_YET
    lines = []
    for (task, row), (_, large) in zip(*(it.iterrows() for it in found), strict=True):
        p_values = [p_text(row[name]) for name in ("over_sets", "over_domains", "p")]
        lines.append(
            f"- **{task}**: {in_points(row, ' points')}, mean "
            f"{100 * row['mean']:+.0f}, above 0 on {row['above']:.0f} of {row['n']:.0f} (p "
            f"{p_values[0]} over data sets, {p_values[1]} over their domains, {p_values[2]} "
            f"corrected). On the {large['n']:.0f} data sets of more than 4500 items: "
            f"{in_points(large, ' points')}, mean {100 * large['mean']:+.0f}, above 0 on "
            f"{large['above']:.0f} (p {p_text(large['over_sets'])}, "
            f"{p_text(large['over_domains'])}).\n"
        )
    return "".join(lines)


def is_gain(row):
    """Return whether a comparison is significantly above 0."""
    from oasis_bench.analysis import LEVEL

    return row["p"] <= LEVEL and row["mean"] > 0


def over_tasks(helps, rows, unit, plus=""):
    """Say for which tasks a comparison is a gain, after the words `helps`, and its value in each.

    `rows` has the comparison by the words for its task.
    """
    from oasis_bench.reports.table import p_text, series

    gains = [task for task, row in rows.items() if is_gain(row)]
    told = [
        f"{in_points(row, unit, plus)} for {task} ({row['above']:.0f} of {row['n']:.0f} data sets, "
        f"corrected p {p_text(row['p'])})"
        for task, row in rows.items()
    ]
    return f"{helps} for {series(gains)}" if gains else "no significant gain", series(told)


def make_own_choice_in_words(specs, folder):
    """Write in a sentence what the choice of a metric on the data set itself adds."""
    from oasis_bench.reports.table import p_text

    if (found := own_choices(specs, folder)) is None:
        return NOTHING_YET
    rows = {task.lower(): row for task, row in found[0].iterrows()}
    head, told = over_tasks("that helps", rows, " points", "+")
    task, large = next(iter(rows)), found[1].iloc[0]
    if is_gain(found[0].iloc[0]) and not is_gain(large):
        head += ", not significantly where splits hardly share items"
    return (
        f"- **Choose the metric on your own data: {head}.** The metric that is best on a data set "
        "in one random split changes the error reduction of Euclidean with the same labels, in "
        f"another split, by {told}. Two splits share about half of their test items, which makes "
        "these values too high; that one split alone chooses makes them too low. On the "
        f"{large['n']:.0f} data sets of more than 4500 items, whose "
        f"splits share at most about a fifth, it is {in_points(large, ' points', '+')} for {task} "
        f"({large['above']:.0f} of {large['n']:.0f}, p {p_text(large['over_sets'])} over data "
        f"sets, {p_text(large['over_domains'])} over their domains).\n"
    )


@cache
def directly(spec, folder, split="all splits"):
    """Return what metrics add to Euclidean distance if all are used directly; None if unknown.

    The first two rows are of the metrics blended with Euclidean, as tuned; the others of the
    metrics alone.
    """
    from oasis_bench.analysis import best_elsewhere

    if (board := compared(spec, folder, split)) is None:
        return None
    parts = []
    for use, how in (("direct", ""), ("as_learned", ", not blended")):
        saved = board.of_use(use)[board.metrics]
        best, typical = f"best on the other data sets{how}", f"typical{how}"
        parts.append(tested({best: best_elsewhere(saved), typical: saved.median(axis=1)}))
    return pd.concat(parts)


def make_directly(spec, folder):
    """Write what metrics add to Euclidean distance if all are used directly, in each split."""
    from oasis_bench.reports.leaderboard import percent

    if not (tables := in_each_split(directly, spec, folder)):
        return NOTHING_YET
    head = ["Metric, used directly", *(f"{split}, points (p)" for split in tables)]
    lines = [[*head, "Mean", "Above 0"], ["---"] * (len(head) + 2)]
    for name, whole in tables["all splits"].iterrows():
        above = f"{whole['above']:.0f} of {whole['n']:.0f}"
        lines.append([name, *in_splits(name, tables), percent(whole["mean"]), above])
    return piped(lines)


def make_directly_in_words(specs, folder):
    """Write in a sentence what the best metric elsewhere removes if all are used directly."""
    specs = [spec.strip() for spec in specs.split(";")]
    tables = [directly(spec, folder) for spec in specs]
    if any(table is None for table in tables):
        return NOTHING_YET
    rows = {task_of(it).lower(): table.iloc[0] for it, table in zip(specs, tables, strict=True)}
    head, told = over_tasks("a metric helps", rows, " %")
    labels = planned(specs[0], folder).loc[LABELS]
    return (
        f"- **Without votes: {head}** (exploratory). If Euclidean distance and the metric that is "
        "best on the other data sets are both used directly, the metric removes "
        f"{told} of the error. Votes without a metric remove {in_points(labels, ' %')} "
        f"for {next(iter(rows))}.\n"
    )


def make_chosen(spec, folder):
    """Write which metrics are best on the other data sets, and what each adds on all of them."""
    from oasis_bench.analysis import chosen_elsewhere
    from oasis_bench.reports.leaderboard import percent, percents

    if (board := compared(spec, folder)) is None:
        return NOTHING_YET
    saved = board.saved[board.metrics]
    counts = chosen_elsewhere(saved).value_counts()
    gains = tested({name: saved[name] - board.saved["Euclidean"] for name in counts.index})
    each = [
        f"{name} on {counts[name]} ({percent(row['median'])} points "
        f"[{percents(row['low'], row['high'])}], mean {percent(row['mean'])}, above 0 on "
        f"{row['above']:.0f} of {row['n']:.0f})"
        for name, row in gains.iterrows()
    ]
    return f"The metric that is best on the other data sets is {', '.join(each)}.\n"


def make_words(specs, folder, short=False):
    """Write in sentences for each task what the labels give, and what learning adds."""
    return "".join(f"- {in_words(spec.strip(), folder, short)}\n" for spec in specs.split(";"))


def in_words(spec, folder, short):
    """Write what the labels give without a learned metric, and what the best metric adds.

    `short`: without the tests over data sets and domains, and without the best in hindsight.
    """
    from oasis_bench.reports.table import p_text

    table, task = planned(spec, folder), task_of(spec)
    if table is None:
        return f"**{task}**: {NOTHING_YET.strip()}"
    labels, learning = table.loc[LABELS], table.loc[LEARNING]
    helps = is_gain(learning)
    if is_gain(labels):
        adds = (
            "and learning a metric adds to them"
            if helps
            else "but no single metric adds significantly to them"
        )
        head = f"the labels help, {adds}"
    else:
        head = "learning a metric helps" if helps else "no single metric gains significantly"
    p_values = [p_text(learning[name]) for name in ("over_sets", "over_domains", "p")]
    tests = f"corrected p {p_values[2]})."
    if not short:
        tests = (
            f"p = {p_values[0]} over data sets, {p_values[1]} over their domains, {p_values[2]} "
            f"corrected). In hindsight, {best_in_hindsight(spec, folder)}."
        )
    return (
        f"**{task}: {head}.** The labels alone remove {in_points(labels, ' %')} of the error of "
        f"Euclidean distance. The metric that is best on the other data sets changes this by "
        f"{in_points(learning, ' points', '+')}, with a gain on {learning['above']:.0f} of "
        f"{learning['n']:.0f} data sets ({tests}"
    )


def best_in_hindsight(spec, folder):
    """Write which metrics have the best mean and median gain over Euclidean, and the gains."""
    from oasis_bench.reports.leaderboard import percent

    board = compared(spec, folder)
    gains = board.saved[board.metrics].sub(board.saved["Euclidean"], axis=0)
    best = {}
    for what, values in (("mean", gains.mean()), ("median", gains.median())):
        best.setdefault(values.idxmax(), []).append(what)
    return " and ".join(
        f"{name} has the best {' and '.join(best[name])} (median "
        f"{in_points(row, ' points', '+')}, mean {percent(row['mean'])}, a gain on "
        f"{row['above']:.0f})"
        for name, row in tested({name: gains[name] for name in best}).iterrows()
    )


def in_points(row, unit, plus=""):
    """Write the median of a comparison with its interval; `plus` is before a positive median."""
    from oasis_bench.reports.leaderboard import percent, percents

    interval = percents(row["low"], row["high"])
    median = percent(row["median"]).replace("+", plus)
    return f"{median}{unit.removesuffix('s' * (median.strip('+-') == '1'))} [{interval}]"


def make_advice(specs, folder):
    """Write for each task which learner to take, and how to use it, or to learn nothing."""
    from oasis_bench.reports.leaderboard import advice

    lines = []
    for spec in specs.split(";"):
        board = leaderboard(spec.strip(), folder)
        told = [NOTHING_YET.strip()] if board is None else [told for _, told in advice(board)]
        lines += [f"- **{task_of(spec)}**: {told[0]}\n", *(f"    - {it}\n" for it in told[1:])]
    return "".join(lines)


def make_variance(specs, folder):
    """Write which shares of the variance of error reductions the parts of a comparison have."""
    parts = variance_of_tasks(specs, folder)
    if not parts:
        return NOTHING_YET
    names = list(next(iter(parts.values())))
    lines = [["", *names], ["---"] * (1 + len(names))]
    lines += [[task, *(f"{100 * own[it]:.0f} %" for it in names)] for task, own in parts.items()]
    return piped(lines)


def make_shares(specs, folder):
    """Write in two sentences what the use and the method decide, for known and for new classes."""
    parts = variance_of_tasks(specs, folder)
    if len(parts) < 2:
        return NOTHING_YET
    known, new = (
        {name: f"{100 * share:.0f} %" for name, share in it.items()} for it in parts.values()
    )
    shares = next(iter(parts.values()))
    more, less = ("use", "method") if shares["use"] > shares["method"] else ("method", "use")
    return (
        f"- **Known classes: the {more} matters more than the {less}.** Of the variance of error "
        f"reductions the use has {known['use']} and the method {known['method']}; which method "
        f"helps on which data set has {known['data set x method']}, noise of the splits included. "
        f"Among new classes these are {new['use']}, {new['method']} and "
        f"{new['data set x method']}. Many methods are much alike, which makes the share of the "
        "method small.\n"
    )


@cache
def variance_of_tasks(specs, folder):
    """Return the shares of variance by task, over the metrics that have both uses."""
    parts = {}
    for spec in specs.split(";"):
        if (board := compared(spec.strip(), folder)) is None:
            continue
        uses = [board.of_use(use)[board.metrics] for use in ("direct", "posterior")]
        known = (uses[0] + uses[1]).dropna(axis=1, how="all").dropna()
        values = np.stack([use.loc[known.index, known.columns] for use in uses], axis=-1)
        task = f"{TASKS[board.task][0]} ({len(known)} data sets, {len(known.columns)} metrics)"
        parts[task] = shares_of_variance(values)
    return parts


def shares_of_variance(values):
    """Return the share of each part of an analysis of variance of (data sets, methods, uses).

    Each cell has one value, so that the last part, of all three together, includes the noise.
    """
    names, effects = ("data set", "method", "use"), {}
    for size in range(4):
        for kept in combinations(range(3), size):
            others = tuple(axis for axis in range(3) if axis not in kept)
            within = sum(own for part, own in effects.items() if set(part) < set(kept))
            effects[kept] = values.mean(axis=others, keepdims=True) - within
    squares = {
        " x ".join(names[axis] for axis in kept): float(np.broadcast_to(own, values.shape).var())
        for kept, own in effects.items()
        if kept
    }
    return {name: own / sum(squares.values()) for name, own in squares.items()}


def make_coverage(name, folder):
    """Say which part of an experiment is measured, when, and by which commands."""
    from oasis_bench.experiment import read_experiment
    from oasis_bench.reports.table import plural

    if not (files := sorted(folder.glob(f"{name}/**/*.csv"))):
        return NOTHING_YET
    every = pd.concat([pd.read_csv(file).assign(file=file.stem) for file in files])
    n_methods = len(read_experiment(name).learners)
    holes = every["partitions"].lt(every["planned"])
    lost = every[holes].groupby(["learner", "dataset", "task"]).ngroups
    cells = every.groupby(["file", "learner", "task", "name"])
    # Where corpora ran one by one, the command is shown for all of them.
    ran = zip(every["command"].map(without_folder), every["file"], strict=True)
    commands = dict.fromkeys(it.removesuffix(f" --corpora {file}") for it, file in ran)
    days = days_of(every)
    of_task = cells["planned"].sum().groupby("task").min().astype(int)
    splits = plural(of_task.min(), "random split")
    if (more := of_task.get("unseen-classes", 0)) > of_task.min():
        splits += f", and {more} of new classes"
    return (
        f"Measured so far: {every['learner'].nunique()} of {n_methods} methods on "
        f"{every['corpus'].nunique()} data sets, with {splits}. {plural(lost, 'pair')} of a "
        f"method and a task of a data set lack a result. {days}, commit "
        f"{short(' and '.join(every['commit'].unique()))}:\n\n"
        + "".join(f"    {it}\n" for it in commands)
    )


def choices(board):
    """Return the error reductions of the options of each choice (data sets, options)."""
    adapted = {"adapt": best_metric(board), "leave": board.saved[board.baseline]}
    uses = {use: board.of_use(use)[board.metrics] for use in ("posterior", "direct")}
    typical = {use: own.median(axis=1) for use, own in uses.items()}
    return {
        "adapt or leave": pd.DataFrame(adapted),
        "which method": board.saved[board.ranked],
        "which use": pd.DataFrame(typical).dropna(),
    }


@cache
def tested_rules(spec, folder):
    """Return each choice of a board with its options and the gains of its rules."""
    from oasis_bench.analysis import rule_gains

    board = compared(spec, folder)
    groups = board.groups(board.known)
    return [
        (choice, options, rule_gains(options, groups)) for choice, options in choices(board).items()
    ]


def make_rules(specs, folder):
    """Write what rules gain that know something of the data, against one answer for all data."""
    from oasis_bench.reports.leaderboard import percent, percents
    from oasis_bench.reports.table import p_text

    lines = []
    for spec in specs.split(";"):
        if (board := compared(spec.strip(), folder)) is None:
            return NOTHING_YET
        for choice, options, gains in tested_rules(spec.strip(), folder):
            answer = f"{options.mean().idxmax()} ({percent(options.mean().max())} %)"
            ends = zip(gains["gain"], gains["low"], gains["high"], gains["p"], strict=True)
            cells = [
                f"{percent(gain)} ({percents(low, high)}, p {p_text(p_value)})"
                for gain, low, high, p_value in ends
            ]
            lines.append([f"{TASKS[board.task][0]}: {choice}", answer, *cells])
    head = ["Choice", "For all data", *(f"Gain by {facet}" for facet in gains.index)]
    return piped([head, ["---"] * len(head), *lines])


def values_by_rule(options, groups):
    """Return, on each data set, the value of the option that a rule chooses from other domains.

    `groups` has the group of each data set.  `rule_gains` compares this with one answer for all.
    """
    from oasis_bench.analysis import Leaderboard, domains_of

    domains, values = pd.Series(domains_of(options.index), options.index), {}
    for name in options.index:
        others = options[domains != domains[name]]
        alike = others[groups.loc[others.index] == groups[name]]
        seen = alike if len(alike) >= Leaderboard.LEAST_CORPORA else others
        values[name] = options.at[name, seen.mean().idxmax()]
    return pd.Series(values)


def make_rules_in_words(specs, folder):
    """Write what each recommended rule chooses, and what it gains over Euclidean and one metric."""
    from oasis_bench.analysis import bootstrap_intervals
    from oasis_bench.reports.leaderboard import percent, percents

    lines = []
    for spec in specs.split(";"):
        if (board := compared(spec.strip(), folder)) is None:
            return NOTHING_YET
        groups = board.groups(board.known)
        for choice, options, gains in tested_rules(spec.strip(), folder):
            for facet in gains.index[gains["is_better"]]:
                own = groups.loc[options.index, facet]
                best = options.groupby(own).mean().idxmax(axis=1)
                chosen = ", ".join(f"{name} for {group}" for group, name in best.items())
                values, best = values_by_rule(options, own), options.mean().idxmax()
                over = {"Euclidean": board.saved["Euclidean"], f"{best} for all": options[best]}
                differences = pd.DataFrame({name: values - other for name, other in over.items()})
                ends = bootstrap_intervals(differences, "mean")
                told = [
                    f"{percent(differences[name].mean())} [{percents(*ends.loc[name])}] over {name}"
                    for name in over
                ]
                what = f"**{TASKS[board.task][0]}: {choice}, by {facet}**"
                lines.append(f"- {what}: {chosen}. In points: {', '.join(told)} in hindsight.\n")
    return "".join(lines) or "No rule is recommended.\n"


BUDGETS = {"budgets": "training rows of each class", "budgets-new-classes": "training classes"}
TITLES = {"budgets": "Known classes", "budgets-new-classes": "New classes"}


@cache
def budget_values(name, folder):
    """Return, for each label budget, what `LABELS` and `LEARNING` are on each data set."""
    from oasis_bench.reports.export import read_results
    from oasis_bench.reports.leaderboard import boards_of

    files = {}
    for path in sorted(folder.glob(f"{name}/**/*.csv")):
        files.setdefault(int(path.stem.rpartition("-")[2]), []).append(path)
    boards = {
        "all" if budget == 1000 else budget: next(boards_of(read_results(files[budget]))[0])
        for budget in sorted(files)
    }
    return {
        comparison: {budget: PLANNED[comparison](board) for budget, board in boards.items()}
        for comparison in (LABELS, LEARNING)
    }


def make_budgets(name, folder):
    """Write what the labels give, and what learning adds, at each label budget, as a table.

    The smallest budget comes first, from an experiment of its own in which nothing is tuned.
    """
    from oasis_bench.reports.table import p_text

    if not budget_values(name, folder)[LABELS]:
        return NOTHING_YET
    head = [BUDGETS[name], "the labels alone, %", "learning adds, points", "mean", "above 0", "p"]
    lines = [head, ["---"] * len(head)]
    for experiment, defaults in ((f"{name}-few", " (defaults)"), (name, "")):
        values = budget_values(experiment, folder)
        labels, learning = (tested(values[comparison]) for comparison in (LABELS, LEARNING))
        for budget, row in learning.iterrows():
            above = f"{row['above']:.0f} of {row['n']:.0f}"
            alone = "-" if defaults else in_points(labels.loc[budget], "")  # it has no votes
            cells = alone, in_points(row, ""), f"{100 * row['mean']:.0f}"
            lines.append([f"{budget}{defaults}", *cells, above, p_text(row["p"])])
    return piped(lines)


def make_labels(name, folder):
    """Say from how many labels on it is significant that learning adds to them."""
    values = budget_values(name, folder)
    if not values[LABELS]:
        return NOTHING_YET
    learning = tested(values[LEARNING])
    enough = learning.index[learning.apply(is_gain, axis=1)[::-1].cummin()[::-1]]  # from there on
    first, of = tested(values[LABELS]).iloc[0], BUDGETS[name]
    if len(enough):
        head = f"learning adds significantly to the labels from {enough[0]} {of} on"
    else:
        head = f"at no number of {of} that we tested does learning add significantly to the labels"
    return (
        f"**{TITLES[name]}: {head}.** {first['n']:.0f} data sets find only large gains. With "
        f"{learning.index[0]} {of}, the labels alone remove {in_points(first, ' %')} of the "
        "error.\n"
    )


def draw_budgets(docs):
    """Draw the error reductions of Euclidean by its labels and of the best metric by budget."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from oasis_bench.analysis import bootstrap_intervals
    from oasis_bench.reports.figure_style import STYLE

    drawn = {
        name: own for name in BUDGETS if (own := budget_values(name, docs / "results"))[LABELS]
    }
    if not drawn:
        return
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(3.6 * len(drawn), 2.8), layout="constrained")
        panels = figure.subplots(1, len(drawn), squeeze=False)[0]
        for axes, (name, values) in zip(panels, drawn.items(), strict=True):
            budgets = list(values[LABELS])
            of = {
                "Euclidean, with the labels": values[LABELS],
                "the metric that is best elsewhere": {
                    budget: values[LABELS][budget] + values[LEARNING][budget] for budget in budgets
                },
            }
            for place, (label, by_budget) in enumerate(of.items()):
                means = [100 * by_budget[budget].mean() for budget in budgets]
                ends = [
                    100 * bootstrap_intervals(by_budget[budget].to_frame(), "mean").to_numpy()[0]
                    for budget in budgets
                ]
                at = np.arange(len(budgets)) + 0.08 * place
                axes.plot(at, means, "o-", color=("0.5", "#0173b2")[place], label=label)
                axes.vlines(at, *np.transpose(ends), color=("0.5", "#0173b2")[place])
            axes.set_xticks(range(len(budgets)), [f"{budget}" for budget in budgets])
            axes.set(xlabel=BUDGETS[name], ylabel="error reduction, %", title=TITLES[name])
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        figure.savefig(docs / "budgets.png", dpi=167)


MEASURED = {
    "O1": "claims.md#table-4-of-the-jmlr-paper",
    **dict.fromkeys(("D1", "D2", "D5"), "claims.md#tables-1-and-2-of-deep-ranking"),
    **dict.fromkeys(("D3", "D4"), "tables/judgements.md#sampling-of-deep-ranking"),
    "K1": "tables/keel.md",
}
"""Where the site has more measurements of a claim than its effects."""


def make_uses(spec, folder):
    """Write the mean error reduction of each use, for known and for new classes, in Markdown."""
    from scipy.stats import wilcoxon

    name, measure = (part.strip() for part in spec.split(";"))
    files = sorted(folder.glob(f"{name}/*.csv"))
    if not files:
        return NOTHING_YET
    every = pd.concat([pd.read_csv(path).assign(file=path.stem) for path in files])
    rows = every[(every["measure"] == measure) & every["mean"].notna()]
    text = ""
    for task, words in (("retrieval", "Known classes"), ("unseen-classes", "New classes")):
        own = rows[rows["task"] == task].set_index(["file", "learner"])
        if own.empty:
            continue
        errors = 1 - own[["direct", "posterior", "mean"]].unstack()
        saved = 100 * (1 - errors.div(errors[("direct", "Euclidean")], axis=0))
        lines = [["", "direct", "posterior", "posterior - direct", "selected"], ["---"] * 5]
        for learner in every["learner"].unique():
            uses = ("direct", "posterior", "mean")
            direct, posterior, selected = (saved[use, learner] for use in uses)
            gain = (posterior - direct).dropna()
            p_value = wilcoxon(gain).pvalue if gain.any() else 1.0
            test = f" (above 0 on {(gain > 0).sum()}, p {p_value:.2g})"
            of = f" (on {len(gain)})" * (len(gain) < len(saved))  # elsewhere it is not offered
            voted = f"{posterior.mean():+.1f}{of}"
            cells = f"{direct.mean():+.1f}", voted, f"{gain.mean():+.1f}{test}"
            lines.append([learner, *cells, f"{selected.mean():+.1f}"])
        text += f"{words}, {len(saved)} data sets, %:\n\n{piped(lines)}\n"
    commits = short(" and ".join(every["commit"].unique()))
    command = f"python -m oasis_bench run --experiment {name}"
    days = days_of(every)
    return (
        f"{text}Mean reduction of the error 1 - {measure} against Euclidean distance, used "
        "directly. p: Wilcoxon's signed-rank test over data sets, not corrected. "
        f"`{command}`, {days}, commit {commits}.\n"
    )


def make_claims(what, folder):
    """Write the verdicts of the claims, or a published table beside ours, in Markdown."""
    from oasis_bench.claims import CHANGES, CLAIMS, decide
    from oasis_bench.reports.table import series

    folder = folder.parent / "claims"
    verdicts, effects = decide(CLAIMS, pd.read_csv(folder / "effects.csv"))
    if what == "verdicts":
        head = ["claim", "verdict", "found [90 % interval]", "what is claimed", "weakest effect"]
        lines = [[*head, "values", "q"], ["---"] * 7]
        for claim in CLAIMS:
            row, q = verdicts.loc[claim.id], ""
            own = effects[(effects["id"] == claim.id) & (effects["outcome"] == "described")]
            if row["verdict"] != "not tested":
                own, q = effects.loc[[row["weakest"]]], f"{row['q_value']:.2g}"
            found = values = ""
            words = "see the note" if claim.note else f"not run: {', '.join(claim.experiments)}"
            for _, one in own[:1].iterrows():
                found, values = with_interval(one), f"{one['values']}"
                words = f"{'' if q else 'described: '}{one['effect']} ({one['where']})"
            about = f"{claim.sentence} ({claim.place})"
            name = f"[{claim.id}]({MEASURED.get(claim.id, 'claims.md#every-effect')})"
            verdict = re.sub(r"^[^(]*\w", r"**\g<0>**", row["words"])
            lines.append([name, verdict, found, about, words, values, q])
    elif what == "counts":
        found = verdicts["verdict"].value_counts()
        counts = series(
            [f"{n} {'is' if n == 1 else 'are'} {name}" for name, n in found[found > 0].items()]
        )
        return f"Of {len(verdicts)} claims, {counts}.\n"
    elif what == "notes":
        lines = [["claim", "note"], ["---"] * 2]
        lines += [[claim.id, claim.note] for claim in CLAIMS if claim.note]
    elif what == "changes":
        lines = [["since", "claims", "change of the rule", "seen before the change"], ["---"] * 4]
        lines += [[it["when"], it["claims"], it["change"], it["seen"]] for it in CHANGES]
    elif what == "effects":
        if old := set(effects["effect"]) - {it.words for claim in CLAIMS for it in claim.measured}:
            sys.exit(f"effects.csv has effects of an earlier rule: remake it: {old}")
        head = ["claim", "effect", "run", "found [90 % interval]", "values", "p", "outcome"]
        lines = [head, ["---"] * len(head)]
        for _, row in effects.iterrows():
            own = [row["effect"], row["where"], with_interval(row), str(row["values"])]
            p = "" if pd.isna(row["p_value"]) else f"{row['p_value']:.2g}"
            lines.append([row["id"], *own, p, row["outcome"]])
    elif what == "deep_ranking":
        rows = pd.read_csv(folder / "deep_ranking.csv").dropna(subset="mean")
        lines = [["model of the paper", "ours", "similarity precision ± sd", "published"]]
        lines += [["---"] * 4]
        for model, own, published, mean, sd in rows.itertuples(index=False):
            lines.append([model, own, f"{mean:.3f} ± {sd:.3f}", f"{published:.3f}"])
    else:
        rows = pd.read_csv(folder / f"{what}.csv")
        learners = rows["learner"].unique().tolist()
        lines = [["classes", "measure", *learners], ["---"] * (2 + len(learners))]
        # 'class_list' is the papers' list of classes; files from before it was written have none.
        rows["classes"] = rows["n_classes"].astype(str)
        if "class_list" in rows:
            own_list = rows["class_list"].where(~rows["stand_in"])
            rows["classes"] = own_list.fillna(rows["classes"] + " for " + rows["class_list"])
        for (classes, measure), own in rows.groupby(["classes", "name"], sort=False):
            own = own.set_index("learner").reindex(learners)
            pairs = zip(own["ours"], own["published"], strict=True)
            cells = [beside(*pair) for pair in pairs]
            lines.append([classes, measure, *cells])
    return piped(lines)


def with_interval(row):
    """Write an effect with its interval; without it where that is of one partition."""
    ends = "" if pd.isna(row["low"]) else f" [{row['low']:.3f}, {row['high']:.3f}]"
    return f"{row['mean']:.3f}{ends}"


def beside(ours, published):
    """Write a number and a published one in brackets; '-' where there is none."""
    texts = [
        "-" if pd.isna(x) else f"{x:.3g}" if abs(x) < 100 else f"{x:,.0f}"
        for x in (ours, published)
    ]
    return f"{texts[0]} ({texts[1]})"


def make_rows(page, folder):
    """Return the CSV of all leaderboards that a page asks for."""
    from oasis_bench.reports.leaderboard import standing_table
    from oasis_bench.reports.table import to_csv

    parts = []
    for spec in [found[3] for found in MARKED.finditer(page) if found[2] == "leaderboard"]:
        if (board := asked_board(spec, folder)) is None:
            continue
        about = {"task": board.task, "measure": board.measure, "use": board.use}
        about["corpora_of"] = board.group
        parts.append(standing_table(board).numbers.assign(**about))
    return to_csv(pd.concat(parts)).decode() if parts else ""


def make_page(text, folder):
    """Return the page with each of its tables made anew."""
    make = {
        "results": make_table,
        "published": make_published,
        "leaderboard": make_leaderboard,
        "planned": make_planned,
        "splits": make_splits,
        "directly": make_directly,
        "directly in words": make_directly_in_words,
        "noise": make_noise,
        "own choice": make_own_choice,
        "own choice in words": make_own_choice_in_words,
        "chosen": make_chosen,
        "in short": partial(make_words, short=True),
        "in words": make_words,
        "advice": make_advice,
        "variance": make_variance,
        "shares": make_shares,
        "rules": make_rules,
        "rules in words": make_rules_in_words,
        "coverage": make_coverage,
        "labels": make_labels,
        "budgets": make_budgets,
        "uses": make_uses,
        "claims": make_claims,
    }
    return MARKED.sub(lambda found: found[1] + make[found[2]](found[3], folder) + found[4], text)


FOR_ADVICE = (
    *("dataset", "corpus", "kind", "subset", "subset_title", "n_classes", "n_train", "n_features"),
    *("task", "measure", "k", "name", "learner", "mean", "direct", "posterior", "partitions"),
    "transductive",
)
"""The columns of the suite's results that advice reads."""


def make_suite(folder):
    """Return the CSV of what advice needs: the first measure of each task, from all splits."""
    from oasis_bench.reports import read_summary
    from oasis_bench.reports.table import to_csv

    parts = []
    for file in sorted(folder.rglob("*.csv")):
        rows = read_summary(file)
        rows = rows[rows["name"] == rows.groupby("task")["name"].transform("first")]
        where = f"{file.relative_to(folder).with_suffix('')}: "  # subsets of one name are of a file
        parts.append(rows.assign(subset=where + rows["subset"], subset_title=rows["subset"]))
    return to_csv(pd.concat(parts).reindex(columns=FOR_ADVICE)).decode()


def made_files(docs):
    """Return each file that is made from results, with its text."""
    pages = [docs.parent / "README.md", *docs.glob("*.md"), *docs.glob("tables/*.md")]
    pages += docs.glob("guide/*.md")
    pages = [path for path in pages if path.exists() and MARKED.search(path.read_text())]
    made = {path: make_page(path.read_text(), docs / "results") for path in pages}
    if docs / "leaderboard.md" in made:
        made[docs / "leaderboard.csv"] = make_rows(made[docs / "leaderboard.md"], docs / "results")
        made[docs.parent / "reports" / "suite.csv"] = make_suite(docs / "results" / "suite")
    return made


if __name__ == "__main__":
    made = made_files(DOCS)
    if "--check" in sys.argv:
        sys.exit(any(not path.exists() or path.read_text() != made[path] for path in made))
    for path, text in made.items():
        path.write_text(text)
    make_picture(DOCS)
    draw_budgets(DOCS)
