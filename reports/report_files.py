"""The files of a report: an HTML page, CSV and LaTeX of each table, SVG of each figure."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from oasis_bench.reports.figure_style import Drawing
from oasis_bench.reports.table import Table, clip, page_text, plural, series, to_csv, to_latex
from oasis_bench.system import Folder, UsageError, encodable

VARIABLES = {
    "#262626": "--ink",  # texts
    "#ffffff": "--paper",
    "#ebebeb": "--grid",
    "#999999": "--edge",
    "#595959": "--soft",  # chance, legends
}
"""Variables of `report.css` for the greys of `figure_style.STYLE`."""

OUTSIDE = re.compile(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", re.DOTALL)
GREY = re.compile(r"(?<=[: ])(" + "|".join(VARIABLES) + r")\b")
WHOLE = re.compile(r"(?<![^\s(])--?[a-z][\w-]*|\d %")
"""An option, or the end of a percentage: a line is not broken inside these."""

GROUP_ID = re.compile(r'<g id="[^"]*"')
"""The ids of groups: nothing refers to them, and other figures of a page have the same."""


def render(template: str, **context: Any) -> str:
    """Fill a template of `reports/templates`; in that of a page every value is escaped."""
    return _templates().get_template(template).render(**context)


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("oasis_bench.reports"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        finalize=_without_controls,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        clip=clip,
        data_uri=data_uri,
        inline_svg=inline_svg,
        plural=plural,
        series=series,
        sha256=lambda text: b64encode(sha256(text.encode()).digest()).decode(),
        unbroken=unbroken,
    )
    return environment


def _without_controls(value: object) -> object:
    return type(value)(page_text(value)) if isinstance(value, str) else value  # Markup stays so


def unbroken(text: str) -> Markup:
    """Keep each option and percentage in a text on one line: browsers break at hyphens, too."""
    return Markup(WHOLE.sub(r'<span class="whole">\g<0></span>', str(escape(text))))


def data_uri(content: bytes, kind: str) -> str:
    """Return a file of the media type `kind` as a URI that contains all of it."""
    return f"data:{kind};base64,{b64encode(content).decode()}"


def write_page(folder: Path, name: str, template: str, **context: Any) -> Path:
    """Write a page `name`, and its tables and figures in 'tables/' and 'figures/', each file whole.

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
    for part in _parts(context):
        if isinstance(part, Drawing):
            files[f"figures/{part.name}.svg"] = part.svg
        else:
            files[f"tables/{part.name}.csv"] = to_csv(part.numbers)
            files[f"tables/{part.name}.tex"] = encodable(to_latex(part)).encode()
    files[name] = encodable(render(template, **context)).encode()
    try:
        for path, content in files.items():
            Folder(folder).write(path, content)
    except OSError as error:
        raise UsageError(
            f"cannot write the report to {folder}: {error.strerror}: "
            "free or change what is in the way and make the report again"
        ) from error
    return folder / name


def _parts(values: object) -> Iterator[Table | Drawing]:
    """Find the tables and figures among the values that a template fills in."""
    if isinstance(values, Table | Drawing):
        yield values
    elif isinstance(values, Mapping):
        yield from _parts([*values.values()])
    elif isinstance(values, list | tuple):
        for value in values:
            yield from _parts(value)


def inline_svg(svg: bytes) -> Markup:
    """Return an SVG of matplotlib as an element of a page.

    Its greys become those of the page, so that they follow a dark one.
    Texts of it are escaped as matplotlib wrote them.
    """
    text = svg.decode()
    text = OUTSIDE.sub("", text[text.index("<svg") :])
    text = GROUP_ID.sub("<g", text)
    text = re.sub(
        r'style="[^"]*"',
        lambda style: GREY.sub(lambda grey: f"var({VARIABLES[grey[0]]})", style[0]),
        text,
    )
    return Markup(text)
