"""A table as LaTeX; whatever is in its cells is text, never a command."""

from __future__ import annotations

from oasis_bench.reports.tables import Cell, Table

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
