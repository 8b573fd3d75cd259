"""The learners of several runs side by side, a row for each run; published figures beside.

Not for the figure: `side_by_side_figure`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd

from oasis_bench.analysis import measures_of, task_measures
from oasis_bench.claims import published_figures
from oasis_bench.experiment import known_settings
from oasis_bench.reports.formatting import number_text, plural
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.run.facts import (
    chooser,
    dataset_name,
    learners,
    split_of,
    subsets,
    tasks,
)
from oasis_bench.reports.side_by_side_figure import along_values
from oasis_bench.reports.table import Cell, Table
from oasis_bench.runs import StoredRun, read_run

PAGE = "side_by_side.html"
A_POINT = 0.01


def write_side_by_side(folders: Mapping[str, Path], output: Path, what: str) -> tuple[Path, str]:
    """Write a table of the measure that chooses in several runs, and its page.

    Where the runs are named by numbers, such as training items a class, a figure too.

    Parameters
    ----------
    folders : mapping of str to Path
        The runs, by the value that each is of.
    output : Path
        'tables/', 'figures/' and 'side_by_side.html' in it are written, each file whole.
    what : str
        The setting, or the option of the data set, that has these values.

    Returns
    -------
    Path
        The page.
    str
        What differs from published figures, in plain text.

    Raises
    ------
    UsageError
        Where a folder holds no run, or the files cannot be written.
    """
    runs = {name: read_run(folder) for name, folder in folders.items()}
    numbers = pd.concat([_numbers(name, run) for name, run in runs.items()], ignore_index=True)
    if what in known_settings():
        what = known_settings()[what].help.split(",")[0]
    table = _table("side_by_side", numbers, what.capitalize())
    figures = along_values(next(iter(runs.values())), numbers, what)
    lines = list(_differences(numbers))
    page = render(
        "side_by_side.html.j2", table=table, figures=figures, lines=lines, n_runs=len(runs), by=what
    )
    return write_files(output, PAGE, page, [table], figures), "\n".join(lines)


def published_beside(run: StoredRun) -> list[Table]:
    """Make the table of a run's figures that were published for its data; none where none was."""
    name = run.info.experiment.dataset_options.get("table", dataset_name(run))
    numbers = _numbers(str(name), run)
    if numbers["published"].isna().all():
        return []
    return [_table("published", numbers, "Data set")]


def _numbers(name: str, run: StoredRun) -> pd.DataFrame:
    """Return the means of each learner by the measure that chose on the first task's split.

    Returns
    -------
    DataFrame
        dataset, measure, k, learner, ours and sd (NaN unless all partitions gave it), published
        (NaN where nothing is), difference, chance.
    """
    task, chosen = chooser(run, split_of(run, tasks(run)[0]))
    known = measures_of(run, task)
    measure = known.loc[known["name"] == chosen, "measure"].iloc[0]
    values = task_measures(run, task)
    values = values[values["subset"] == list(subsets(run))[-1]]
    means = values.groupby(["name", "learner"]).agg(
        ours=("value", "mean"), sd=("value", "std"), n=("value", "count"), chance=("chance", "mean")
    )
    means = means[means["n"] == run.info.experiment.n_partitions].drop(columns="n")
    rows: pd.DataFrame = known[known["measure"] == measure].merge(
        pd.DataFrame({"learner": learners(run)}), how="cross"
    )
    rows = rows.merge(means, on=["name", "learner"], how="left").assign(dataset=name)
    rows = rows.merge(published_figures(run), on=["measure", "k", "learner"], how="left")
    rows["difference"] = rows["ours"] - rows["published"]
    columns = ["name", "k", "learner", "ours", "sd", "published", "difference", "chance"]
    return rows[["dataset", *columns]].rename(columns={"name": "measure"})


def _table(name: str, numbers: pd.DataFrame, what: str) -> Table:
    """Make a row for each run and measure, a column for each learner."""
    names = list(dict.fromkeys(numbers["learner"]))
    rows: list[list[str | Cell]] = []
    for (dataset, measure), own in numbers.groupby(["dataset", "measure"], sort=False):
        by_learner = own.set_index("learner").reindex(names)
        texts = zip(by_learner["ours"], by_learner["published"], strict=True)
        rows.append([str(dataset), str(measure), *(_cell(*pair) for pair in texts)])
    return Table(
        name=name,
        title="Means over all partitions"
        + " (in brackets: what was published)" * bool(numbers["published"].notna().any()),
        header=(what, "Measure", *names),
        align="ll" + "r" * len(names),
        rows=rows,
        numbers=numbers,
        notes=["'-': not measured on all partitions."] * bool(numbers["ours"].isna().any()),
    )


def _cell(ours: float, published: float) -> str:
    text = number_text(ours, "{:.4f}", missing="-")
    return text if pd.isna(published) else f"{text} ({published:.4f})"


def _differences(numbers: pd.DataFrame) -> Iterator[str]:
    """Say for each learner how far its figures are from the published ones."""
    beside = numbers.dropna(subset=["difference"])
    for learner, own in beside.groupby("learner", sort=False):
        far = int((own["difference"].abs() > A_POINT).sum())
        most = own.sort_values("difference", key=abs).iloc[-1]
        yield (
            f"{learner}: {far} of {plural(len(own), 'published figure')} differ by more than a "
            f"point; mean difference {100 * own['difference'].mean():+.1f} points, largest "
            f"{100 * most['difference']:+.1f} ({most['dataset']}, {most['measure']})"
        )
