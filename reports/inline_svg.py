"""An SVG of matplotlib as part of a page: its greys become the page's, so that they follow dark."""

from __future__ import annotations

import re
from html import escape

from markupsafe import Markup

VARIABLES = {
    "#262626": "--ink",  # texts
    "#ffffff": "--paper",
    "#ebebeb": "--grid",
    "#999999": "--edge",
    "#595959": "--soft",  # chance
    "#4d4d4d": "--soft",
}
"""Variables of `report.css` for the greys of `figure_style.STYLE`."""

OUTSIDE = re.compile(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", re.DOTALL)
GREY = re.compile(r"(?<=[: ])(" + "|".join(VARIABLES) + r")\b")
GROUP_ID = re.compile(r'<g id="[^"]*"')
"""The ids of groups: nothing refers to them, and other figures of a page have the same."""


def inline_svg(svg: bytes, label: str) -> Markup:
    """Return an SVG of matplotlib as an element of a page, which a screen reader calls `label`.

    Texts of it are escaped as matplotlib wrote them.
    """
    text = svg.decode()
    text = OUTSIDE.sub("", text[text.index("<svg") :])
    text = GROUP_ID.sub("<g", text)
    text = re.sub(r'style="[^"]*"', lambda style: GREY.sub(_variable, style[0]), text)
    return Markup(text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1))


def _variable(grey: re.Match[str]) -> str:
    return f"var({VARIABLES[grey[0]]})"
