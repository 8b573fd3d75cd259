"""What the site takes from docstrings: the directives `mathematics` and `entry-points`.

`.. mathematics:: OASIS LMNN` makes a section for each learner, with formulas and source;
`.. entry-points:: learners` (or datasets, tasks) a table of what is registered, with its facts.
"""

import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, states
from docutils.statemachine import StringList
from numpydoc.docscrape import NumpyDocString
from sphinx.application import Sphinx

import oasis_bench.algorithms
from oasis_bench.plugins.names import installed

EXAMPLES = sorted(Path(__file__).parents[1].glob("examples/plot_*.py"))
READ_SECTIONS = NumpyDocString._read_sections


class Mathematics(Directive):
    """A section for each learner: its docstring above the parameters, its source, its examples."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Make the sections."""
        sections: list[nodes.Node] = []
        for name in self.arguments[0].split():
            text = NumpyDocString(getattr(oasis_bench.algorithms, name).__doc__)
            lines = [f"**{' '.join(text['Summary'])}**", "", *text["Extended Summary"], ""]
            if text["References"]:
                lines += ["*Source.* " + " ".join(text["References"]), ""]
            lines += [f"Parameters and methods: `{name}`. "]
            if using := [it.stem for it in EXAMPLES if re.search(rf"\b{name}\b", it.read_text())]:
                lines[-1] += "Examples: " + ", ".join(f":doc:`/gallery/{it}`" for it in using)
            section = nodes.section(ids=[f"mathematics-{name.lower()}"])
            section += nodes.title(text=name)
            self.state.nested_parse(StringList(lines, source=name), 0, section)
            sections.append(section)
        return sections


class EntryPoints(Directive):
    """A table of what is registered, from the class attributes that `list` shows."""

    required_arguments = 1
    kinds: ClassVar = {
        "learners": ("algorithm", ("summary", "takes", "cost", "citation")),
        "datasets": ("data set", ("summary", "home", "licence", "citation")),
        "tasks": ("task", ("summary", "citation")),
    }

    def run(self) -> list[nodes.Node]:
        """Make the table."""
        kind, facts = self.kinds[self.arguments[0]]
        lines = [".. list-table::", "   :header-rows: 1", "", "   * - name"]
        lines += [f"     - {fact}" for fact in facts]
        for point in installed(kind):
            lines += self.row(point, facts)
        found = nodes.Element()
        self.state.nested_parse(StringList(lines, source=kind), 0, found)
        return found.children

    def row(self, point: EntryPoint, facts: tuple[str, ...]) -> Iterator[str]:
        """Write the cells of a plugin."""
        plugin = point.load()
        yield f"   * - :py:obj:`{point.name} <{point.value.replace(':', '.')}>`"
        for fact in facts:
            yield f"     - {getattr(plugin, fact, '')}".replace("*", r"\*").replace("|", r"\|")


def read_sections(docstring: NumpyDocString) -> Iterator[tuple[str, list[str]]]:
    """Read the section 'Class attributes' as 'Attributes', the only one that numpydoc knows."""
    for name, lines in READ_SECTIONS(docstring):
        yield "Attributes" if name == "Class attributes" else name, lines


def bar_as_text(_: states.Inliner, match: Any, __: int) -> tuple[str, list[Any], str, list[Any]]:
    """Read | as text: it is a norm in docstrings, never a substitution."""
    end = match.end("start")
    return match.string[:end], [], match.string[end:], []


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the directives."""
    app.add_directive("mathematics", Mathematics)
    app.add_directive("entry-points", EntryPoints)
    states.Inliner.dispatch = {**states.Inliner.dispatch, "|": bar_as_text}
    NumpyDocString._read_sections = read_sections
    return {"parallel_read_safe": True, "parallel_write_safe": True}
