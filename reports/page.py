"""A report's files: CSV and LaTeX of each table, PNG and SVG of each figure, one HTML page.

Not for what is in them: each report has a module and a template of its own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jinja2

from oasis_bench.reports.canvas import Drawing
from oasis_bench.reports.latex import to_latex
from oasis_bench.reports.tables import Table
from oasis_bench.reports.text import clip, plural, series
from oasis_bench.system.errors import UsageError
from oasis_bench.system.files import write_whole


def render(template: str, **context: Any) -> str:
    """Fill a template of `reports/templates`; whatever is filled in is escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("oasis_bench.reports"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(clip=clip, data_uri=_data_uri, plural=plural, series=series)
    return environment.get_template(template).render(**context)


def write_files(
    folder: Path, name: str, page: str, tables: Iterable[Table], figures: Iterable[Drawing]
) -> Path:
    """Write 'tables/', 'figures/' and the page into a folder, each file whole.

    Parameters
    ----------
    folder : Path
    name : str
        Of the page.
    page : str
    tables : iterable of Table
    figures : iterable of Drawing

    Returns
    -------
    Path
        The page.

    Raises
    ------
    UsageError
        Where the folder cannot be written.
    """
    files = {}
    for table in tables:
        files[f"tables/{table.name}.csv"] = table.numbers.to_csv(index=False).encode()
        files[f"tables/{table.name}.tex"] = to_latex(table).encode()
    for drawing in figures:
        for kind, content in drawing.files.items():
            files[f"figures/{drawing.name}.{kind}"] = content
    files[name] = page.encode()
    try:
        for path, content in files.items():
            write_whole(folder / path, content)
    except OSError as error:
        raise UsageError(
            f"cannot write the report to {folder}: {error.strerror}: "
            "free or change what is in the way and make the report again"
        ) from error
    return folder / name


def _data_uri(files: Mapping[str, bytes]) -> str:
    return "data:image/svg+xml;base64," + base64.b64encode(files["svg"]).decode()
