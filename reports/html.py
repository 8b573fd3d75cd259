"""The files of a report: CSV and LaTeX of each table, PNG and SVG of each figure, one HTML page.

Not for what is in them: that is in the tables and figures modules.
"""

from __future__ import annotations

import base64
import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import jinja2

from oasis_bench.errors import UsageError
from oasis_bench.reports.figures import draw_all
from oasis_bench.reports.tables import (
    Cell,
    Table,
    learners,
    plural,
    precision_tables,
    runtime_table,
    selection_table,
    subset_title,
    subsets,
    unfinished_table,
)
from oasis_bench.statistics import interval_reach
from oasis_bench.store import read_run

PAGE = "report.html"

# Beside the special characters: brackets and the star, which would be read as an option of a
# row's end, and what the fonts of plain LaTeX lack.
LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        "±": r"$\pm$",
        "–": "--",
        "…": r"\ldots{}",
        "\n": " ",
        **{char: f"\\{char}" for char in "%_&#${}"},
        **{char: f"{{{char}}}" for char in "[]*"},
    }
)


def write_report(folder: Path) -> Path:
    """Make tables, figures and the page of a run from its store alone.

    Parameters
    ----------
    folder : Path
        The run's; 'tables/', 'figures/' and 'report.html' in it are written, each file whole.

    Returns
    -------
    Path
        The HTML page.

    Raises
    ------
    UsageError
        Where the folder holds no run, or cannot be written.
    """
    run = read_run(folder)
    tables = {
        "precision": precision_tables(run),
        "runtime": [runtime_table(run)],
        "selection": [selection_table(run)],
        "unfinished": [unfinished_table(run)],
    }
    figures = draw_all(run)
    files = {}
    for table in (table for group in tables.values() for table in group):
        files[f"tables/{table.name}.csv"] = table.numbers.to_csv(index=False).encode()
        files[f"tables/{table.name}.tex"] = to_latex(table).encode()
    for drawing in figures.values():
        for kind, content in drawing.files.items():
            files[f"figures/{drawing.name}.{kind}"] = content
    e = run.info["experiment"]
    page = _template().render(
        e=e,
        run=run,
        tables=tables,
        figures=figures,
        learners=learners(run),
        subsets=subsets(run),
        lost=run.trials[run.trials["status"] != "ok"].to_dict("records"),
        reach=interval_reach(e["partitions"], e["train_per_class"], e["test_per_class"])
        if e["partitions"] > 1
        else None,
        subset_title=lambda subset: subset_title(run, subset),
    )
    files[PAGE] = page.encode()
    try:
        for name, content in files.items():
            _write_whole(folder / name, content)
    except OSError as error:
        raise UsageError(
            f"cannot write the report to {folder}: {error.strerror}; "
            "free or change what is in the way and run 'report' again"
        ) from error
    return folder / PAGE


def to_latex(table: Table) -> str:
    """Write a table as a plain LaTeX tabular, which needs no package, its notes below."""
    lines = [
        f"% {table.title}".translate({ord("\n"): " "}),
        f"\\begin{{tabular}}{{{table.align}}}",
        r"\hline",
        _latex_row([Cell(text, bold=True) for text in table.header]),
        r"\hline",
        *map(_latex_row, table.rows),
        r"\hline",
        r"\end{tabular}",
    ]
    for mark, text in table.notes:
        sign = f"\\textsuperscript{{{mark}}} " if mark else ""
        lines.append(f"\\par\\noindent{{\\footnotesize {sign}{text.translate(LATEX)}\\par}}")
    return "\n".join(lines) + "\n"


def _latex_row(cells: list[Cell]) -> str:
    texts = []
    for cell in cells:
        text = cell.text.translate(LATEX)
        text = f"\\textbf{{{text}}}" if cell.bold and text else text
        marks = ",".join(cell.marks)
        texts.append(text + (f"\\textsuperscript{{{marks}}}" if marks else ""))
    return " & ".join(texts) + r" \\"


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("oasis_bench.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["plural"] = plural
    environment.filters["command"] = _command_text
    environment.filters["data_uri"] = _data_uri
    return environment.get_template("report.html.j2")


def _command_text(command: str | list[str]) -> str:
    return command if isinstance(command, str) else shlex.join(command)


def _data_uri(files: Mapping[str, bytes]) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(files["svg"]).decode()


def _write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(content)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
