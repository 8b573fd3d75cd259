"""The leaderboard: a page that compares learners over the corpora of runs and summaries.

The command `ranks` writes it for any runs and summaries.  The command `run` writes it for several
values of a setting or several data sets, and shows their runs side by side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from scipy import sparse

from oasis_bench.analysis import (
    LEVEL,
    Leaderboard,
    best_elsewhere,
    bootstrap_intervals,
    rule_gains,
    tests_over_corpora,
)
from oasis_bench.data import LabelledRows
from oasis_bench.experiment import Experiment
from oasis_bench.plugins import BASELINE
from oasis_bench.reports import figure_style as fs, figures
from oasis_bench.reports.export import kind_of, read_results
from oasis_bench.reports.measures import side_by_side
from oasis_bench.reports.report_files import write_page
from oasis_bench.reports.table import (
    Cell,
    Column,
    Table,
    clip,
    number_text,
    numbers_as,
    p_text,
    plural,
    seconds_text,
    series,
    some,
    table_lines,
    wrapped,
)
from oasis_bench.reports.verdict import CLASSIFIER
from oasis_bench.reports.view import task_title, view_of
from oasis_bench.reports.words import WORDS, defined, notes_where, sentence
from oasis_bench.runs import read_run
from oasis_bench.system import Folder, UsageError, unknown_name

PAGE, PAGE_OF_VALUES = "leaderboard.html", "side_by_side.html"
LEAST_SHOWN = -100
"""The axis of the figure ends at this error reduction, in per cent, to keep others readable."""

ALL, SELECTED = "all", "selected"
"""The values of the filters that show all corpora, and learners in the use of the inner folds."""

VALUES = {"Direct": "direct", "Posterior": "posterior", "As learned": "as_learned"}
OF_USE = {"Use": "use", "tau": "tau", "b": "blend"}
"""Columns of results by their headers, which only some results have."""

SUITE = Path(__file__).with_name("suite.csv")
"""Of the suite's published results, what advice needs; `docs/make_results.py` writes it."""

LEAST_WORDS = 101
"""Columns from which on rows of counts count as texts."""

LEAST_EMBEDDED = 200
"""Columns from which on rows of real numbers count as embeddings."""


def write_ranks(
    paths: Sequence[Path],
    output: Path,
    task: str | None = None,
    measure: str | None = None,
    baseline: str = BASELINE,
) -> tuple[Path, str, pd.DataFrame]:
    """Compare learners over the corpora of runs and summaries.

    Return the page, a summary, and a row for each learner on each task and group of corpora.

    `paths` are runs, summaries, or folders of these.  `measure`, such as 'accuracy@3', is the
    measure of the comparison; the default is the first one of the task.  Without `task`, learners
    are compared on each task.
    """
    found, notes = boards_of(read_results(paths), task, measure, baseline)
    boards = list(found)
    Folder(output).make_writable()
    title = f"Learners over {max(len(it.corpora) for it in boards)} data sets"
    page = _write(output, PAGE, title, boards, notes)
    rows = [
        it.learners.reset_index(names="learner").assign(
            task=it.task, measure=it.measure, use=it.use, group=it.group
        )
        for it in boards
    ]
    return page, "\n".join(_summary(boards, notes)), pd.concat(rows)


def write_side_by_side(folders: Mapping[str, Path], output: Path, what: str) -> Path:
    """Write the page of runs that differ in the value of `what`, a setting or a data set's option.

    If the values are data sets, the page also compares learners over them.
    """
    views = {name: view_of(read_run(folder)) for name, folder in folders.items()}
    if what in Experiment.settings():
        what = Experiment.settings()[what].help.split(",")[0]
    beside = side_by_side(views, what)
    try:
        found, notes = boards_of(read_results(list(folders.values())))
    except UsageError:  # of one data set, or without the baseline
        found, notes = iter(()), []
    title = f"{plural(len(views), 'run')} side by side, by {what}"
    return _write(output, PAGE_OF_VALUES, title, list(found), notes, beside)


def boards_of(
    results: pd.DataFrame,
    task: str | None = None,
    measure: str | None = None,
    baseline: str = BASELINE,
) -> tuple[Iterator[Leaderboard], list[str]]:
    """Compare the learners of `read_results`, a board for each task.

    Each board is made when it is asked for.  The first board of a task is over all corpora.
    Further boards are over each group that has several corpora, but not all, and then the same if
    all learners are used directly.  Remarks on the inputs, for the reader, are returned too.
    """
    by_task, notes = _cells_by_task(results, task, measure, baseline)
    return chain.from_iterable(_boards_of(cells, baseline) for cells in by_task.values()), notes


def _cells_by_task(
    results: pd.DataFrame, task: str | None, measure: str | None, baseline: str
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return the cells of boards, by task, and remarks on the inputs."""
    sources = results["source"].unique().tolist()
    results = results[results["task"].isin(results.loc[results["partitions"] > 0, "task"])]
    tasks = results["task"].unique().tolist()
    if task is not None and task not in tasks:
        raise UsageError(unknown_name("task", task, tasks))
    found: dict[str, pd.DataFrame] = {}
    reasons: dict[str, str] = {}
    for name in [task] if task else tasks:
        try:
            found[name] = _cells_of(results[results["task"] == name], measure, baseline)
        except UsageError as error:
            reasons[name] = str(error)
    if not found:
        raise UsageError(
            "; ".join(f"{name}: {why}" for name, why in reasons.items())
            or f"no learner has a result in {some(sources)}"
        )
    budgets = results["search"].dropna().unique().tolist()
    notes = [f"The tuning budget differs between the runs: {some(budgets)}."] * (len(budgets) > 1)
    notes += notes_where({"transductive": (results["transductive"] > 0).any()}, items="items")
    return found, [*notes, *(f"{name} is left out: {why}." for name, why in reasons.items())]


def _cells_of(results: pd.DataFrame, measure: str | None, baseline: str) -> pd.DataFrame:
    """Return what learners are compared on for one task, over all corpora."""
    known = results.loc[results["partitions"] > 0, "option"].unique().tolist()
    measure = known[0] if measure is None else measure
    if measure not in known:
        raise UsageError(unknown_name("measure", measure, known))
    cells = results[results["option"] == measure]
    most = cells.groupby("cell")["partitions"].transform("max")
    is_whole = (cells["partitions"] == most) & (most > 0)
    cells = cells.assign(score=cells["mean"].where(is_whole))
    has_baseline = cells.loc[(cells["learner"] == baseline) & (cells["score"] < 1), "cell"]
    cells = cells[cells["cell"].isin(has_baseline)]
    if cells["corpus"].nunique() < 2:
        raise UsageError(
            f"{baseline} has results on {plural(cells['corpus'].nunique(), 'data set')}, but at "
            "least 2 are needed: name more runs, or another --baseline"
        )
    if cells["learner"].nunique() < 2:
        raise UsageError(f"{baseline} is the only learner: name runs of other learners too")
    if cells["score"].max() > 1:
        raise UsageError(f"{measure} has values above 1: it has no error to reduce")
    return cells


def _boards_of(cells: pd.DataFrame, baseline: str) -> Iterator[Leaderboard]:
    """Yield the board of all cells, and of each group that has several corpora, but not all.

    If there are uses to choose from, the same with all learners used directly follows.
    """
    whole = Leaderboard.of(cells, baseline)
    groups = whole.groups(whole.known)
    for board in whole.in_uses:
        yield board
        for facet in groups:
            of_corpora = groups[facet].loc[board.corpora]
            for name in of_corpora.unique():
                own = board.cells[board.cells["corpus"].map(of_corpora) == name]
                if 1 < own["corpus"].nunique() < len(of_corpora):
                    yield replace(Leaderboard.of(own, baseline), group=str(name), use=board.use)


def _write(
    output: Path,
    name: str,
    title: str,
    boards: Sequence[Leaderboard],
    notes: Sequence[str],
    beside: Table | None = None,
) -> Path:
    """Write the page, with the parts that there are, and its tables and figures."""
    parts = {
        task: _of_task([it for it in boards if it.task == task])
        for task in dict.fromkeys(it.task for it in boards)
    }
    return write_page(
        output,
        name,
        "leaderboard.html.j2",
        title=title,
        notes=notes,
        parts=parts,
        reading=defined(
            "standings",
            baseline=boards[0].baseline if boards else "",
            least=Leaderboard.LEAST_CORPORA,
            share=100 * Leaderboard.MOST_STAND_INS,
        ),
        beside=beside,
        start={"Task": task_title(boards[0].task) if boards else "", "Use": SELECTED, "Group": ALL},
    )


def _of_task(boards: Sequence[Leaderboard]) -> dict[str, Any]:
    """Return what the page shows of one task."""
    board, title = boards[0], task_title(boards[0].task)
    return {
        "title": title,
        "standings": [standing_table(it) for it in boards],
        "sentences": list(sentences(board)),
        "reductions": _reductions(board),
        "recommendations": [told for _, told in advice(board)],
        "against_time": _against_time(board),
        "scores": _scores_table(board),
        "results": _results_table(board),
    }


def _anchor(board: Leaderboard, place: Any) -> str:
    """Return the id of the row of a result in the page."""
    return f"{board.task}-{place}"


def standing_table(board: Leaderboard) -> Table:
    """Make the table: a row for each learner, the best first and those not ranked last."""
    rows = board.learners.reset_index(names="learner")
    first = board.cells.drop_duplicates("learner").reset_index().set_index("learner")["index"]
    direct, posterior = (board.of_use(use) for use in ("direct", "posterior"))
    ends = zip(rows["error_reduction_low"], rows["error_reduction_high"], strict=True)
    saved = [
        Cell(percent(value), link=_anchor(board, first[name]))
        for name, value in zip(rows["learner"], rows["error_reduction"], strict=True)
    ]
    n_corpora, leader = len(board.corpora), board.ranked[0]
    bold = ["best", "better", "as good", "unclear"] if rows["verdict"].eq("worse").any() else []
    of = "".join(f", {it}" for it in (board.group, board.use) if it not in (ALL, SELECTED))
    suffix = re.sub(r"\W+", "_", of[1:])
    return Table(
        name=f"leaderboard_{board.task}{suffix}",
        title=f"{task_title(board.task)}, {board.measure}: learners over {n_corpora} data sets{of}",
        columns=[
            Column("Learner", map(Cell, rows["learner"], rows["verdict"].isin(bold)), align="l"),
            Column("Rank", rows["average_rank"], numbers_as("{:.1f}", "-")),
            Column("Error reduction, %", saved),
            Column("95 % interval", [percents(*pair) for pair in ends]),
            Column("Mean, %", rows["error_reduction_mean"], percent),
            Column("Above 0", rows["above_0"]),
            *(
                Column(header, rows["learner"].map(own.median()), percent)
                for header, own in {"Directly, %": direct, "By posterior, %": posterior}.items()
                if posterior.notna().any(axis=None)
            ),
            Column(f"p, {board.baseline}", rows["p_baseline"], p_text),
            *[Column(f"p, {leader}", rows["p_leader"], p_text)] * (leader != board.baseline),
            Column("Seconds", rows["seconds"], lambda it: "-" if pd.isna(it) else seconds_text(it)),
            Column("Stand-ins", rows["stand_ins"]),
        ],
        numbers=rows.round(6),
        notes=notes_where(
            {"stand_ins": not rows["ranked"].all()}, share=100 * board.MOST_STAND_INS
        ),
        of={"Task": task_title(board.task), "Use": board.use, "Group": board.group},
    )


@mpl.rc_context(fs.STYLE)
def _against_time(board: Leaderboard) -> list[fs.Drawing]:
    """Draw the error reduction of the ranked learners against their time."""
    rows = board.learners.loc[board.ranked].query("seconds > 0").reset_index(names="learner")
    rows = rows.rename(columns=lambda name: name.removeprefix("error_reduction_"))
    if rows.empty:
        return []
    seconds = dict.fromkeys(("seconds_min", "seconds_max"), rows["seconds"])
    rows = rows.assign(middle=rows["error_reduction"], **seconds)
    styles = fs.learner_styles(board.ranked)
    figure, (axes,) = fs.panels_of([board.measure], "tuning and fit", "error reduction")
    figures.draw_against_time(axes, rows, styles)
    shown = {name: styles[name] for name in rows["learner"]}
    fs.draw_legend(figure, shown, {"Pareto front": figures.FRONT}, lines=False)
    return fs.finish(
        f"{board.task}_against_time",
        figure,
        "board_against_time",
        **{"task": task_title(board.task), "n": len(board.corpora)},
    )


def percent(share: float) -> str:
    """Write a share in per cent, with its sign; 0 without one."""
    return number_text(100 * share, "{:+.0f}", "-").replace("-0", "0").replace("+0", "0")


def percents(low: float, high: float) -> str:
    """Write an interval of shares in per cent."""
    return "-" if pd.isna(low) else f"{percent(low)} to {percent(high)}"


def sentences(board: Leaderboard) -> Iterator[str]:
    """Say in two sentences who leads, and what is significant."""
    rows, ranked = board.learners, board.ranked
    leader, best = ranked[0], rows.to_dict("index")[ranked[0]]
    between = percents(best["error_reduction_low"], best["error_reduction_high"])
    interval = "" if between == "-" else f" (95 % interval {between} %)"
    words = {"leader": leader, "rank": best["average_rank"], "n": len(board.corpora)}
    first = [sentence("leads", board=board, **words)]
    if leader != board.baseline:
        words = {"median": percent(best["error_reduction"]), "interval": interval}
        first.append(sentence("saves", baseline=board.baseline, **words))
    yield " ".join(first)
    tested = rows.loc[ranked]
    if len(board.corpora) < Leaderboard.LEAST_CORPORA:
        yield f"Nothing is significant on fewer than {Leaderboard.LEAST_CORPORA} data sets."
    elif len(ranked) > 1:
        mean = tested["error_reduction_mean"]
        is_above = tested["p_baseline"].le(LEVEL) & mean.gt(mean[board.baseline])
        above = _subject(tested.index[is_above].tolist(), len(ranked) - 1, "learners")
        good, unclear, better = (
            tested.index[tested["verdict"] == verdict].tolist()
            for verdict in ("as good", "unclear", "better")
        )
        subject = _subject(unclear, len(ranked) - 1)
        texts = [f"{above} significantly better than {board.baseline}. "] * (
            leader != board.baseline
        )
        within = f"as good as {leader}, within ±{100 * board.MARGIN:g} points. "
        texts += [f"{_subject(good, len(ranked) - 1)} {within}"] * bool(good)
        in_mean = f"significantly better than {leader} in the mean, with lower ranks. "
        texts += [f"{_subject(better, len(ranked) - 1)} {in_mean}"] * bool(better)
        unlike = f"{subject} not distinguishable from {leader} on {len(board.corpora)} data sets"
        if unclear or len(good) + len(better) < len(ranked) - 1:
            texts += [unlike if unclear else f"All others are significantly worse than {leader}"]
        tests = "Wilcoxon’s test over data sets and the t-test over domains, Holm’s correction"
        yield f"{''.join(texts).removesuffix('. ')} ({tests})."


MOST_NAMED = 5
"""More learners than these are counted in a sentence, not named."""


def _subject(names: Sequence[str], n_others: int, others: str = "others") -> str:
    """Write some of the other learners as the subject of a sentence, with its verb."""
    if len(names) > MOST_NAMED:
        of = f"All {n_others}" if len(names) == n_others else f"{len(names)} of {n_others}"
        return f"{of} {others} are"
    return f"{series(names) or 'No learner'} {'are' if len(names) > 1 else 'is'}"


@mpl.rc_context(fs.STYLE)
def _reductions(board: Leaderboard) -> list[fs.Drawing]:
    """Draw the error reduction of the ranked learners."""
    longest = min(max(map(len, board.ranked)), figures.NAME_WIDTH)
    panel = (2.4, 0.4 + 0.2 * len(board.ranked))
    figure = fs.Plot(1, panel, left=0.15 + 0.078 * longest)
    draw_reductions(figure.panels[0], board)
    return fs.finish(
        f"{board.task}_error_reduction",
        figure,
        "error_reduction",
        **{"board": board, "task": task_title(board.task), "n": len(board.corpora)},
    )


def draw_reductions(axes: Axes, board: Leaderboard) -> None:
    """Draw a dot and an interval for each ranked learner, the best average rank on top."""
    rows = board.learners.loc[board.ranked[::-1]]
    low, middle, high = (100 * rows[f"error_reduction{end}"] for end in ("_low", "", "_high"))
    places = list(range(len(rows)))
    axes.hlines(places, low, high, color="#0173b2", linewidth=1.4)
    axes.plot(middle, places, "o", color="#0173b2")
    axes.axvline(0, color="0.35", linewidth=1, zorder=1)
    axes.set_yticks(
        places, [clip(str(name), figures.NAME_WIDTH) for name in rows.index], parse_math=False
    )
    axes.set(xlabel="error reduction, %", ylim=(-0.6, len(rows) - 0.4))
    shown = middle.clip(lower=LEAST_SHOWN)
    ends = (low.fillna(middle).clip(lower=LEAST_SHOWN).min(), high.fillna(shown).max())
    room = 0.05 * (ends[1] - ends[0]) + 1
    axes.set_xlim(ends[0] - room, ends[1] + room)
    axes.grid(visible=False, axis="y")


def advice(board: Leaderboard, known: pd.DataFrame | None = None) -> list[tuple[str, str]]:
    """Return the learner to take, and say so, in any use, and then if all are used directly.

    `known` has one row: what is known of some data (`Leaderboard.known`).  Without it, and where no
    rule that knows it is better, the answer is the best one for all data.
    """
    if len(board.corpora) < Leaderboard.LEAST_CORPORA:
        return [("", sentence("too_few", least=Leaderboard.LEAST_CORPORA))]
    compared = [it for it in board.in_uses if len(it.ranked) > 1]
    nothing = [("", sentence("none_ranked", baseline=board.baseline))]
    return [_advice(it, known) for it in compared] or nothing


def _advice(board: Leaderboard, known: pd.DataFrame | None) -> tuple[str, str]:
    """Return the learner to take, and say so with its use and the gain of learning over none."""
    saved, baseline = board.saved[board.ranked], board.baseline
    learned = saved.drop(columns=baseline)
    gain = best_elsewhere(learned) - saved[baseline]
    [(low, high)] = bootstrap_intervals(gain.to_frame(), "mean").to_numpy()
    is_significant = max(tests_over_corpora(gain)) <= LEVEL
    is_gain = is_significant and gain.mean() > 0
    for_all = learned if is_gain else saved[[baseline]]
    best, why = _choice(board, for_all, saved, known)
    of_uses = pd.DataFrame({use: board.of_use(use)[best] for use in WORDS["uses"]}).dropna()
    use, why_use = _choice(board, of_uses, of_uses, known) if len(of_uses) else ("direct", "")
    how = f"used {WORDS['uses'][use]}"
    if len(of_uses) and not why_use:
        tests = tests_over_corpora(of_uses["posterior"] - of_uses["direct"])
        how = how if max(tests) <= LEVEL else sentence("either_use")
    words = {
        "learner": best + " (a classifier, no metric)" * (best == CLASSIFIER) + f", {how}",
        "gain": f"{percent(gain.mean())} points [{percent(low)}, {percent(high)}]",
        "reasons": " ".join(filter(None, (why, why_use)))
        or sentence("for_all") * (known is not None),
        "n": len(gain),
        "not_significant": "" if is_significant else sentence("not_significant"),
    }
    head = "leave" if best == baseline else "take"
    return best, sentence(head, baseline=baseline, **words, **WORDS["boards"][board.use]).rstrip()


def _choice(
    board: Leaderboard, for_all: pd.DataFrame, options: pd.DataFrame, known: pd.DataFrame | None
) -> tuple[str, str]:
    """Return the best option for all data, or by the best rule that is better, and why by a rule.

    A rule may choose among `options`, which may be more than those for all data.
    """
    best = str(for_all.mean().idxmax())
    if known is None or len(options.columns) == 1:
        return best, ""
    gains = rule_gains(options, groups := board.groups(board.known))
    if not gains["is_better"].any():
        return best, ""
    facet = str(gains["gain"].where(gains["is_better"]).idxmax())
    group = str(board.groups(known)[facet].iloc[0])
    alike = options[groups.loc[options.index, facet] == group]
    if len(alike) >= Leaderboard.LEAST_CORPORA:
        best = str(alike.mean().idxmax())
    words = {"best": WORDS["uses"].get(best, best), "group": group, "row": gains.loc[facet]}
    return best, sentence("by_rule", **words)


def recommend(
    paths: Sequence[Path],
    learners: Collection[str],
    items: str,
    features: str,
    rows: LabelledRows,
    no_task: Callable[[str], str | None],
    no_learner: Callable[[str], str | None],
) -> str:
    """Recommend one of `learners` and its use for a data set on each task, by results in `paths`.

    `items` is the noun for the items of the data set, and `features` is its option of this name.
    `no_task` says why the data set is not for a task, and `no_learner` why a learner cannot learn
    from it.
    """
    kind, n_classes = _kind_of_rows(items, features, rows), len(rows.class_names)
    sizes = (n_classes, rows.X.shape[0] / 2 / n_classes, rows.prepared().shape[1])
    known = pd.DataFrame([[kind, *sizes]], columns=["kind", "classes", "rows a class", "features"])
    sized = ", ".join(f"{own:,.0f} {name}" for name, own in known.loc[0].drop("kind").items())
    texts = [f"This data: {kind}, {sized} (half of the rows learn)."]
    for whole in _cells_by_task(read_results(paths), None, None, BASELINE)[0].values():
        board = Leaderboard.of(whole[whole["learner"].isin({*learners, BASELINE})], BASELINE)
        by = f"{WORDS['advised'].get(board.task, task_title(board.task))} ({board.measure})"
        if reason := no_task(board.task):
            texts.append(f"{by}: not on this data: {reason}.")
            continue
        for best, told in advice(board, known):
            reason = best and no_learner(best)
            texts.append(f"{by}: {told}" + f" But {reason}." * bool(reason))
    return "\n".join(line for text in texts for line in wrapped(text))


def _kind_of_rows(items: str, features: str, rows: LabelledRows) -> str:
    """Return the kind of a data set; that of a table also depends on its values.

    Counts of many words, and hundreds of columns, are not what the suite's tables are.
    """
    kind, X = kind_of(items, features), rows.X
    if kind != "tables" or rows.encoding is not None or X.shape[1] < LEAST_WORDS:
        return kind
    values = X.data if isinstance(X, sparse.csr_array) else X
    if (values >= 0).all() and (values == np.rint(values)).all():
        return "text"
    return "embeddings" if X.shape[1] >= LEAST_EMBEDDED else kind


def _scores_table(board: Leaderboard) -> Table:
    """Make the table of scores: a row for each class subset of a run, a column for each learner."""
    cells, names = board.cells, list(map(str, board.learners.index))
    rows = cells.drop_duplicates("cell").set_index("cell")
    columns = []
    for name in names:
        own = cells[cells["learner"] == name].reset_index().set_index("cell").reindex(rows.index)
        texts = own[["index", "score", "note"]].itertuples(index=False)
        columns.append(Column(name, [_score_cell(board, *it) for it in texts]))
    return Table(
        name=f"scores_{board.task}",
        title=f"{task_title(board.task)}, {board.measure}: every score",
        columns=[
            Column("Data set", rows["dataset"], align="l"),
            Column("Classes", rows["n_classes"], "{:.0f}".format),
            Column("Kind", rows["kind"], align="l"),
            Column("Training items", rows["n_train"], numbers_as("{:,.0f}", "-")),
            *columns,
        ],
        numbers=cells.pivot(
            index=["corpus", "cell"], columns="learner", values="score"
        ).reset_index(),
        notes=["'-': no result."],
        of={"Task": task_title(board.task)},
    )


def _score_cell(board: Leaderboard, place: float, score: float, reason: object) -> Cell:
    if math.isnan(place):
        return Cell("-", notes=("not run",))
    link = _anchor(board, int(place))
    if math.isnan(score):
        told = reason if isinstance(reason, str) and reason else "fewer partitions than others"
        return Cell("-", notes=(told,), link=link)
    return Cell(f"{score:.3f}", link=link)


def _results_table(board: Leaderboard) -> Table:
    """Make the table of all that is known of each score."""
    order = {name: place for place, name in enumerate(board.learners.index)}
    rows = board.cells.assign(place=board.cells["learner"].map(order))
    rows = rows.sort_values("place", kind="stable")
    settings = (*OF_USE.values(), "params", "scaling")
    missing = rows.fillna({**dict.fromkeys(settings, "-"), "note": ""})
    means = zip(rows["mean"], rows["sd"], strict=True)
    of_learners = (
        Cell(str(name), anchor=_anchor(board, key)) for key, name in rows["learner"].items()
    )
    return Table(
        name=f"results_{board.task}",
        title=f"{task_title(board.task)}, {board.measure}: details of each score",
        columns=[
            Column("Learner", of_learners, align="l"),
            Column("Data set", rows["dataset"], align="l"),
            Column("Classes", rows["subset_title"], align="l"),
            Column("Mean ± sd", [_mean_text(*pair) for pair in means]),
            *(
                Column(header, rows[name], numbers_as("{:.3f}", "-"))
                for header, name in VALUES.items()
                if rows[name].notna().any()
            ),
            *(
                Column(header, missing[name], align="l")
                for header, name in OF_USE.items()
                if rows[name].notna().any()
            ),
            Column("Partitions", rows["partitions"], "{:.0f}".format),
            Column("Training items", rows["n_train"], numbers_as("{:,.0f}", "-")),
            Column("Features", rows["n_features"], numbers_as("{:,.0f}", "-")),
            Column("Seconds", rows["seconds"], lambda it: "-" if pd.isna(it) else seconds_text(it)),
            Column("Scaling", missing["scaling"], align="l"),
            Column("Hyper-parameters", missing["params"], align="l"),
            Column("Note", missing["note"], align="l"),
            Column("Source", rows["source"], align="l"),
        ],
        numbers=rows.drop(columns=["place", "cell"]),
        of={"Task": task_title(board.task)},
    )


def _mean_text(mean: float, sd: float) -> str:
    return "-" if pd.isna(mean) else f"{mean:.3f} ± {number_text(sd, '{:.3f}')}"


def _summary(boards: Sequence[Leaderboard], notes: Sequence[str]) -> Iterator[str]:
    """Yield the sentences and the table of each task, over all corpora, as text."""
    for board in boards:
        if (board.use, board.group) != (SELECTED, ALL):
            continue
        for line in sentences(board):
            yield from wrapped(line)
        yield from ("", *table_lines(standing_table(board), least=24), "")
    for line in notes:
        yield from wrapped(line)
