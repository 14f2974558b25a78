"""Pieces of Markdown that the pages share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

GENERATED = "<!-- Made by `python -m muster.docs`; edit the code that it describes. -->"


def page(title: str, *blocks: str) -> str:
    """Return a page: the title, then its blocks with empty lines between them."""
    return "\n\n".join([f"# {title}", GENERATED, *(block for block in blocks if block)]) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = [_row(header), "|" + "---|" * len(header), *(_row(row) for row in rows)]
    return "\n".join(lines)


def code(text: str, language: str = "") -> str:
    """Return a block of code."""
    return f"```{language}\n{text.rstrip()}\n```"


def _row(cells: Sequence[str]) -> str:
    # A bar would end the cell, a line break the row.
    shown = (" ".join(cell.split()).replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(shown)} |"
