"""Formulas as MathML, which browsers draw themselves: no script, no font and no LaTeX is needed."""

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator


def visit_math(self: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def visit_math_block(self: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula of its own, with its number and a link to it."""
    self.body.append(self.starttag(node, "div", CLASS="math"))
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append(convert(node.astext(), display="block"))
    self.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Make it the site's way to write formulas."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math_block, None))
    app.config["html_math_renderer"] = "mathml"
    return {"parallel_read_safe": True, "parallel_write_safe": True}
