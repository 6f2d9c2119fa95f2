"""The Markdown of privacy statements as HTML: headings, lists, tables, bold, code, rules."""

import html
import re
from collections.abc import Sequence

#: A word that must break to let its column be narrower; columns are as wide as all others.
_LONG_WORD = re.compile(r"[^\s\-–]{21,}")
_ITEM = re.compile(r"(?:- |(\d+)\. )(.*)")


def to_html(text: str, depth: int = 3) -> str:
    """HTML of a text; its first level of headings is `depth`. Everything else is escaped."""
    lines, made = text.splitlines(), []
    while lines:
        line = lines.pop(0)
        if head := re.fullmatch(r"(#+) (.*)", line):
            level = min(depth + len(head[1]) - 1, 6)
            made.append(f"<h{level}>{_inline(head[2])}</h{level}>")
        elif line.startswith("|"):
            made.append(_table([line, *_taken(lines, lambda one: one.startswith("|"))]))
        elif item := _ITEM.fullmatch(line):
            kind = "ol" if item[1] else "ul"
            items = [item[2], *(_ITEM.fullmatch(one)[2] for one in _taken(lines, _ITEM.fullmatch))]
            listed = "".join(f"<li>{_inline(one)}</li>" for one in items)
            made.append(f"<{kind}>{listed}</{kind}>")
        elif line == "---":
            made.append("<hr>")
        elif line.strip():
            made.append(f"<p>{_inline(line)}</p>")
    return "\n".join(made)


def has_long_word(text: str) -> bool:
    """Whether a text has more than 20 characters in a row between which no line may end."""
    return _LONG_WORD.search(text) is not None


def _taken(lines: list[str], wanted) -> list[str]:
    """The first lines that are wanted, taken away from `lines`."""
    taken = []
    while lines and wanted(lines[0]):
        taken.append(lines.pop(0))
    return taken


def _table(lines: Sequence[str]) -> str:
    head, _, *rows = ([cell.strip() for cell in line[2:-2].split(" | ")] for line in lines)
    titles = "".join(f'<th scope="col">{_inline(title)}</th>' for title in head)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-label="{html.escape(title)}"{_kind(cell)}>{_inline(cell)}</td>'
            for title, cell in zip(head, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    table = f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll">{table}</div>'


def _kind(cell: str) -> str:
    return ' class="long"' if has_long_word(cell) else ""


def _inline(text: str) -> str:
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
