"""The console that commands print to: colours on a terminal, plain text of 100 columns elsewhere.

Machine-readable output does not go through here.
"""

from __future__ import annotations

import os
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

PLAIN_WIDTH = 100
#: Variables of the environment that change the shape of the output, here or in the library below.
SHAPING = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")


def make_console() -> Console:
    """Return a console on the standard output of this process."""
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return Console(width=width, highlight=False, soft_wrap=False, emoji=False, markup=False)


def plain_table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table with a header and no borders; columns named in `right` are numbers."""
    table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(Text(column), justify="right" if column in right else "left", overflow="fold")
    return table


def heading(text: str) -> Text:
    """Return a line that opens a part of the output."""
    return Text(text, style="bold")
