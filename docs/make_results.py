"""Writes the tables and findings of the site's pages from CSV; the prose stays.

    python docs/make_results.py            # write the pages, and leaderboard.csv
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
'ranks docs/results/suite' shows, or 'ranks docs/results' where the suite has no results:

    <!-- leaderboard: classification accuracy@1; pictures -->
    <!-- end of results -->

The planned comparisons of the suite's learners, by a task and one of its measures, are marked so:

    <!-- planned: retrieval mAP -->
    <!-- end of results -->

with 'in words' in place of 'planned' for some of them in sentences, and 'choices' for others, which
also say what tuning gains.  What tuning gains on the data sets that 'suite-defaults' has, too (the
suite with `search = "1"`), for tasks and their measures:

    <!-- tuning: retrieval mAP; classification accuracy@1 -->
    <!-- end of results -->

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
from contextlib import chdir
from functools import cache
from pathlib import Path

import pandas as pd

DOCS = Path(__file__).parent
PUBLISHED = DOCS.parent / "oasis_bench" / "claims" / "published" / "knn_keel.csv"
MARKED = re.compile(
    r"(<!-- (results|published|leaderboard|planned|in words|choices|tuning|uses|claims): (.*?)"
    r" -->\n)"
    r".*?(<!-- end of results -->)",
    re.DOTALL,
)

FACTS = {
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
    is_best = rows["verdict"].isin(["best", "tied", "better"])
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
    days = " to ".join(sorted({rows["started"].min()[:10], rows["started"].max()[:10]}))
    shared = " Times are of shared cores." if rows["shared_cores"].max() else ""
    return (
        f"*{of['planned']} partition{'s' * (of['planned'] != '1')}, training + test items: "
        f"{sizes}. {scaling}"
        f"Budget of tuning: {budget}. Threads: {of['threads']}.{shared}* "
        f"`{command}`, {days}, commit {short(of['commit'])}, {of['processor']}."
    )


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
    column = f"classification accuracy@{k}"
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


NOTHING_YET = "The suite has no results for this task yet.\n"


def ranked_folder(results):
    """Return the folder whose files are ranked: the suite's, where it has any."""
    suite = results / "suite"
    return suite if any(suite.glob("*.csv")) else results


@cache
def leaderboard(spec, folder):
    """Return the leaderboard that a comment asks for: learners over the corpora of a folder.

    None where the suite has no corpus with the task, or none of the group.
    """
    from oasis_bench.reports.leaderboard import ALL, read_boards

    asked, _, corpora = (part.strip() for part in spec.partition(";"))
    task, measure = asked.split(" ", 1)
    ranked = ranked_folder(folder)
    files = ranked.glob("*.csv")  # of a folder that is missing there are none
    if not any(task in set(pd.read_csv(it, usecols=["task"])["task"]) for it in files):
        return None
    with chdir(ranked):
        boards, _ = read_boards([Path()], task, measure)
    return next((board for board in boards if board.group == (corpora or ALL)), None)


def make_picture(docs):
    """Draw the error reductions of each task, over all corpora, as one picture for the README."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    from oasis_bench.reports.figure_style import STYLE
    from oasis_bench.reports.leaderboard import ALL, draw_reductions, read_boards

    boards, _ = read_boards([ranked_folder(docs / "results")])
    shown = [board for board in boards if board.group == ALL]
    most = max(len(board.ranked) for board in shown)
    with mpl.rc_context(STYLE):
        # README shows it 800 pixels wide: a narrower figure has larger letters there.
        figure = Figure(figsize=(3.2 * len(shown), 1.1 + 0.2 * most), layout="constrained")
        for axes, board in zip(
            figure.subplots(1, len(shown), squeeze=False)[0], shown, strict=True
        ):
            draw_reductions(axes, board)
            task = board.task.replace("-", " ").capitalize()
            axes.set_title(f"{task}\n{board.measure}\n{len(board.corpora)} data sets", y=1.0)
        figure.savefig(docs / "leaderboard.png", dpi=167)


def markdown(table):
    """Write a table with its notes in Markdown."""
    rows = [[f"**{cell.text}**" if cell.bold else cell.text for cell in row] for row in table.cells]
    lines = [table.header, ["---"] * len(table.header), *rows]
    lines = [[text.replace("|", r"\|") for text in line] for line in lines]
    return piped(lines) + "".join(f"\n{note}\n" for _, note in table.marked_notes)


def make_leaderboard(spec, folder):
    """Write a leaderboard and what it says in Markdown."""
    from oasis_bench.reports.leaderboard import sentences, standing_table

    board = leaderboard(spec, folder)
    if board is None:
        return NOTHING_YET
    return markdown(standing_table(board)) + "\n" + " ".join(sentences(board)) + "\n"


BASELINES = ("Euclidean", "Covariance", "NearestNeighbourMemory", "ClassifierPosterior")
GROUP = ["LMNN", "MCML", "ITML", "LEGO", "OASIS"]
BESIDE = ["NCA", "pml-ProxyNCA", "pml-ProxyAnchor"]

POSTERIOR_MINUS_BEST = "ClassifierPosterior minus the metric that is best on the other data sets"
GROUP_MINUS_BESIDE = f"the mean of {', '.join(GROUP)} minus the mean of {', '.join(BESIDE)}"
BLENDED_MINUS_LEARNED = "metrics with blending minus the same without, median of them"

# Each comparison gives one value for each data set.  The list was written on 2026-11-25, an hour
# after the suite had its first seven data sets; nothing is added or left out since.
# `saved` has the error reductions against Euclidean (data sets, learners), `learned` those of the
# same metrics without blending.
PLANNED = {
    "a typical learned metric (the median of them) minus Euclidean": lambda saved, learned: saved[
        learned.columns
    ].median(axis=1),
    "the metric that is best on the other data sets, minus Euclidean": lambda saved, learned: (
        best_elsewhere(saved[learned.columns])
    ),
    "ClassifierPosterior minus Euclidean": lambda saved, learned: saved["ClassifierPosterior"],
    POSTERIOR_MINUS_BEST: (
        lambda saved, learned: saved["ClassifierPosterior"] - best_elsewhere(saved[learned.columns])
    ),
    GROUP_MINUS_BESIDE: (
        lambda saved, learned: saved[GROUP].mean(axis=1) - saved[BESIDE].mean(axis=1)
    ),
    "OASIS minus LMNN": lambda saved, learned: saved["OASIS"] - saved["LMNN"],
    BLENDED_MINUS_LEARNED: lambda saved, learned: (saved[learned.columns] - learned).median(axis=1),
}


def best_elsewhere(saved):
    """Return, for each data set, the value of the learner with the best mean over all others."""
    return pd.Series({it: saved.at[it, saved.drop(index=it).mean().idxmax()] for it in saved.index})


@cache
def planned(spec, folder):
    """Return the planned comparisons of a task: median, bootstrap interval, tests with Holm.

    Few data sets have neither interval nor p-value.  None where not all learners are there yet.
    """
    board = leaderboard(spec, folder)
    named = [*GROUP, *BESIDE, *BASELINES]
    if board is None or not {*named} <= {*board.saved.columns}:
        return None
    if len(board.saved) < 2:
        return None
    compared = [*dict.fromkeys([*board.ranked, *named])]
    saved, learned = board.saved[compared], board.learned[compared].drop(columns=[*BASELINES])
    return tested({name: compare(saved, learned) for name, compare in PLANNED.items()})


def tested(values):
    """Test whether each of several comparisons, a value for each data set, is other than 0."""
    from oasis_bench.analysis import bootstrap_intervals, holm, p_values_against

    rows = {}
    for name, own in values.items():
        [(low, high)] = bootstrap_intervals(own.to_frame(), "median").to_numpy()
        p_values = p_values_against(pd.DataFrame({"own": own, "nothing": 0.0}), "nothing")
        rows[name] = [len(own), own.median(), low, high, p_values["own"]]
    table = pd.DataFrame.from_dict(rows, "index", columns=["n", "median", "low", "high", "p"])
    return table.assign(p=holm(table["p"]))


def comparison_lines(first, value, table):
    """Write the comparisons that `tested` returns as a table; `first` and `value` head columns."""
    from oasis_bench.reports.leaderboard import percent, percents
    from oasis_bench.reports.table import p_text

    head = [first, value, "95 % interval", "p", "Data sets"]
    lines = [head, ["---"] * len(head)]
    for name, row in table.iterrows():
        interval = percents(row["low"], row["high"])
        lines.append([name, percent(row["median"]), interval, p_text(row["p"]), f"{row['n']:.0f}"])
    return piped(lines)


def make_planned(spec, folder):
    """Write the planned comparisons of a task as a table."""
    table = planned(spec, folder)
    return (
        NOTHING_YET
        if table is None
        else comparison_lines("Compared", "Error reduction, points", table)
    )


TASKS = {
    "retrieval": "Retrieval among classes seen in training",
    "unseen-classes": "Retrieval among unseen classes",
    "classification": "Classification by the nearest neighbour",
}

TUNED = ("retrieval mAP", "unseen-classes mAP", "classification accuracy@1")
"""Where the leaderboard page tests tuning: the p-values of these are corrected together."""


def make_words(specs, folder):
    """Write in a sentence for each task what a typical metric and the classifier gain."""
    return "".join(f"- {in_words(spec.strip(), folder)}\n" for spec in specs.split(";"))


def gain_in_words(row):
    """Write a median in per cent, with its interval and its p-value where there are any."""
    from oasis_bench.reports.leaderboard import percent

    gain = f"{percent(row['median']).lstrip('+')} %"
    return gain if pd.isna(row["p"]) else f"{gain} {tested_in_words(row, ' %')}"


def difference_in_words(row, other):
    """Write a difference of error reductions in points, above or below, with its test."""
    from oasis_bench.reports.table import plural

    points = plural(round(100 * abs(row["median"])), "point")
    direction = "above" if row["median"] > 0 else "below"
    return f"{points} {direction} {other} {tested_in_words(row, '')}"


def tested_in_words(row, unit):
    """Write an interval and a p-value in brackets."""
    from oasis_bench.reports.leaderboard import percents
    from oasis_bench.reports.table import p_text

    p_value = p_text(row["p"])
    sign = "" if p_value.startswith("<") else "= "
    return f"({percents(row['low'], row['high'])}{unit}, p {sign}{p_value})"


def in_words(spec, folder):
    """Write what a typical metric, the best one and the classifier gain over Euclidean."""
    from oasis_bench.reports.table import plural

    table, task = planned(spec, folder), TASKS[spec.split(" ", 1)[0]]
    if table is None:
        return f"**{task}**: {NOTHING_YET.strip()}"
    gains = [gain_in_words(row) for _, row in table.head(3).iterrows()]
    apart = table.loc[POSTERIOR_MINUS_BEST]
    last = "These are too few data sets for a test."
    if pd.notna(apart["p"]):
        points = plural(round(100 * abs(apart["median"])), "point")
        last = (
            f"Compared on each data set, ClassifierPosterior removes {points} "
            f"{'more' if apart['median'] > 0 else 'less'} than that metric "
            f"{tested_in_words(apart, '')}."
        )
    board = leaderboard(spec, folder)
    alone = board.learners.at["ClassifierPosterior", "error_reduction_as_learned"]
    if alone < 0:
        last += f" Without blending, ClassifierPosterior adds {round(-100 * alone)} % to the error."
    return (
        f"**{task}** ({table['n'].iloc[0]} data sets): a typical learned metric removes {gains[0]} "
        f"of Euclidean's error. The metric that is best on the other data sets removes {gains[1]}, "
        f"and ClassifierPosterior {gains[2]}. {last}"
    )


def make_choices(spec, folder):
    """Write in sentences what the loss, tuning and blending change in one task."""
    from oasis_bench.reports.table import plural, series

    table, gains = planned(spec, folder), tuning_gains_of_tasks(TUNED, folder)
    task = TASKS[spec.split(" ", 1)[0]]
    if table is None or task not in gains:
        return NOTHING_YET
    tuned, blended = tested(gains).loc[task], table.loc[BLENDED_MINUS_LEARNED]
    n_points = round(100 * blended["median"])
    points = plural(n_points, "point") if n_points else "less than half a point"
    beside = f"that of {series(BESIDE)}"
    return (
        f"- **Learners of the OASIS paper and ITML, against NCA and proxy losses**: the mean error "
        f"reduction of {series(GROUP)} is "
        f"{difference_in_words(table.loc[GROUP_MINUS_BESIDE], beside)}.\n"
        f"- **Tuning**, also of the scaling, removes {gain_in_words(tuned)} of the error that a "
        f"metric has with its defaults ({tuned['n']:.0f} tables).\n"
        f"- **Blending** with Euclidean adds {points} to the error reduction of a metric "
        f"{tested_in_words(blended, '')}.\n"
    )


@cache
def tuning_gains(spec, folder):
    """Return the share of its error that tuning removes on each data set: the median over metrics.

    Written on 2026-11-26, before anything was measured with defaults.  Both sides choose the number
    of steps and the blend on inner folds; only the tuned one tries values and scalings.
    """
    boards = leaderboard(spec, folder), leaderboard(spec, folder / "suite-defaults")
    if None in boards:
        return pd.Series(dtype=float)
    keys = ["corpus", "dataset", "subset", "learner"]
    tuned, default = (1 - board.cells.set_index(keys)["score"] for board in boards)
    gains = (1 - tuned / default.where(default > 0)).groupby(["corpus", "learner"]).mean().unstack()
    return gains.drop(columns=[*BASELINES], errors="ignore").median(axis=1).dropna()


def tuning_gains_of_tasks(specs, folder):
    """Return `tuning_gains` of each task that has some: they are tested together."""
    gains = {TASKS[it.split(" ", 1)[0]]: tuning_gains(it, folder) for it in map(str.strip, specs)}
    return {task: own for task, own in gains.items() if len(own)}


def make_tuning(specs, folder):
    """Write for each task what tuning gains a typical metric over its defaults, as a table."""
    gains = tuning_gains_of_tasks(specs.split(";"), folder)
    if not gains:
        return "This is not measured yet.\n"
    return comparison_lines("Task", "Error with defaults that tuning removes, %", tested(gains))


MEASURED = {
    "O1": "claims.md#table-4-of-the-jmlr-paper",
    "O2": "claims.md#table-5-of-the-jmlr-paper",
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
    days = " to ".join(sorted({every["started"].min()[:10], every["started"].max()[:10]}))
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
        if (board := leaderboard(spec, folder)) is None:
            continue
        about = {"task": board.task, "measure": board.measure, "corpora_of": board.group}
        parts.append(standing_table(board).numbers.assign(**about))
    return to_csv(pd.concat(parts)).decode() if parts else ""


def make_page(text, folder):
    """Return the page with each of its tables made anew."""
    make = {
        "results": make_table,
        "published": make_published,
        "leaderboard": make_leaderboard,
        "planned": make_planned,
        "in words": make_words,
        "choices": make_choices,
        "tuning": make_tuning,
        "uses": make_uses,
        "claims": make_claims,
    }
    return MARKED.sub(lambda found: found[1] + make[found[2]](found[3], folder) + found[4], text)


def made_files(docs):
    """Return each file that is made from results, with its text."""
    pages = [docs.parent / "README.md", *docs.glob("*.md"), *docs.glob("tables/*.md")]
    pages += docs.glob("guide/*.md")
    pages = [path for path in pages if path.exists() and MARKED.search(path.read_text())]
    made = {path: make_page(path.read_text(), docs / "results") for path in pages}
    if docs / "leaderboard.md" in made:
        made[docs / "leaderboard.csv"] = make_rows(made[docs / "leaderboard.md"], docs / "results")
    return made


if __name__ == "__main__":
    made = made_files(DOCS)
    if "--check" in sys.argv:
        sys.exit(any(not path.exists() or path.read_text() != made[path] for path in made))
    for path, text in made.items():
        path.write_text(text)
    make_picture(DOCS)
