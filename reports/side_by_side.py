"""The learners of several runs side by side, a row for each data set; published figures beside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pandas as pd

from oasis_bench.analysis.headlines import named, task_measures
from oasis_bench.reports.formatting import number_text, plural
from oasis_bench.reports.report_files import render, write_files
from oasis_bench.reports.run.facts import learners, subsets, tasks
from oasis_bench.reports.table import Cell, Table
from oasis_bench.store.run_file import RunRecord, read_run
from oasis_bench.tasks.classification import ACCURACY

PAGE = "side_by_side.html"
PUBLISHED = Path(__file__).parent / "published" / "knn_keel.csv"
A_POINT = 0.01


def write_side_by_side(folders: Mapping[str, Path], output: Path) -> tuple[Path, str]:
    """Write a table of the first measure of the first task of several runs, and its page.

    Parameters
    ----------
    folders : mapping of str to Path
        The runs, by the names of their data sets.
    output : Path
        'tables/' and 'side_by_side.html' in it are written, each file whole.

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
    table = _table("side_by_side", numbers)
    lines = list(_differences(numbers))
    page = render("side_by_side.html.j2", table=table, lines=lines, n_datasets=len(runs))
    return write_files(output, PAGE, page, [table], []), "\n".join(lines)


def published_beside(run: RunRecord) -> list[Table]:
    """Make the table of a run's figures that were published for its data; none where none was."""
    numbers = _numbers(str(run.info.experiment.dataset_options.get("table", "")), run)
    return [_table("published", numbers)] if numbers["published"].notna().any() else []


@cache
def _published() -> pd.DataFrame:
    """Return the published accuracies: dataset, k, learner, published."""
    names = {"table": "dataset", "accuracy": "published"}
    cells: pd.DataFrame = pd.read_csv(PUBLISHED, dtype={"k": float})
    return cells.rename(columns=names)


def _numbers(name: str, run: RunRecord) -> pd.DataFrame:
    """Return the means of each learner by the first measure of the first task.

    Returns
    -------
    DataFrame
        dataset, measure, k, learner, ours and sd (NaN unless all partitions gave it), published
        (NaN where nothing is), difference.
    """
    task = tasks(run)[0]
    known = named(run, task)
    first = known[known["measure"] == known["measure"].iloc[0]]
    values = task_measures(run, task)
    values = values[values["subset"] == list(subsets(run))[-1]]
    means = values.groupby(["name", "learner"])["value"].agg(ours="mean", sd="std", n="count")
    means = means[means["n"] == run.info.experiment.n_partitions].drop(columns="n")
    rows: pd.DataFrame = first.merge(pd.DataFrame({"learner": learners(run)}), how="cross")
    rows = rows.merge(means, on=["name", "learner"], how="left").assign(dataset=name)
    of_accuracy = rows["measure"] == ACCURACY
    rows = rows.merge(_published(), on=["dataset", "k", "learner"], how="left")
    rows["published"] = rows["published"].where(of_accuracy & _as_published(run))
    rows["difference"] = rows["ours"] - rows["published"]
    columns = ["dataset", "name", "k", "learner", "ours", "sd", "published", "difference"]
    return rows[columns].rename(columns={"name": "measure"})


def _as_published(run: RunRecord) -> bool:
    """Tell whether a run has the data, the folds and the scaling of the published figures."""
    info = run.info
    return (
        info.experiment.dataset == "keel"
        and info.experiment.n_partitions == info.n_folds
        and tuple(info.scaling) == ("minmax",)
    )


def _table(name: str, numbers: pd.DataFrame) -> Table:
    """Make a row for each data set and measure, a column for each learner."""
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
        header=("Data set", "Measure", *names),
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
