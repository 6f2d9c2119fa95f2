"""The printed form of a table, and its Markdown and LaTeX."""

from dataclasses import dataclass

import pandas as pd

#: Tables with more columns are scaled to the width of the text.
_COLUMNS_OF_A_PAGE = 5


@dataclass(frozen=True)
class Printed:
    """A table for people: a caption, cells as text, and the notes that must stay with it.

    empty: what stands in place of cells and notes where there is no line.
    """

    caption: str
    cells: pd.DataFrame
    notes: tuple[str, ...]
    empty: str = "Nothing that this table shows was requested in this run."


def to_markdown(printed: Printed) -> str:
    """A Markdown table (GitHub's dialect) with its caption above and its notes below."""
    if printed.cells.empty:
        return f"{printed.caption}\n\n{printed.empty}\n"
    cells = printed.cells.map(lambda text: text.replace("|", "\\|"))
    body = cells.to_markdown(index=False, disable_numparse=True)
    remarks = "".join(f"- {note}\n" for note in printed.notes)
    return f"{printed.caption}\n\n{body}\n\n{remarks}"


def to_latex(printed: Printed, label: str) -> str:
    """A LaTeX table with its caption above and its notes below.

    Needs the packages booktabs and, for a table wider than the page, graphicx.
    """
    if printed.cells.empty:
        return (
            f"\\begin{{table}}[t]\n\\caption{{{latex_text(printed.caption)}}}\n"
            f"\\label{{tab:{label}}}\n{latex_text(printed.empty)}\n\\end{{table}}\n"
        )
    cells = printed.cells.map(latex_text).rename(columns=latex_text)
    body = cells.to_latex(
        index=False,
        escape=False,
        caption=latex_text(printed.caption),
        label=f"tab:{label}",
        position="t",
        column_format="l" * cells.shape[1],
    )
    remarks = "".join(f"\n\\par\\footnotesize {latex_text(note)}" for note in printed.notes)
    start, end = "\\begin{tabular}", "\\end{tabular}"
    if cells.shape[1] > _COLUMNS_OF_A_PAGE:
        body = body.replace(start, "\\resizebox{\\linewidth}{!}{" + start)
        body = body.replace(end, end + "}")
        end += "}"
    return body.replace(end, end + remarks)


_LATEX = str.maketrans(
    {
        **{symbol: "\\" + symbol for symbol in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "ε": "$\\varepsilon$",
        "δ": "$\\delta$",
        "σ": "$\\sigma$",
        "μ": "$\\mu$",
        "ℓ": "$\\ell$",
        "²": "$^2$",
        "±": "$\\pm$",
        "∞": "$\\infty$",
        "√": "$\\surd$",
        "≥": "$\\ge$",
        "≤": "$\\le$",
        "–": "--",
        "—": "---",
        "×": "$\\times$",
    }
)


def latex_text(text: str) -> str:
    """Text for LaTeX: its special characters escaped, the symbols of the tables as commands."""
    return text.translate(_LATEX)
