"""What commands draw with: the console, plain tables, and a picture of the cluster.

Colours on a terminal, plain text of 100 columns elsewhere; machine-readable output does not go through here. In the
picture nodes are rows and devices cells, each coloured and lettered by job. `cluster_picture` is pure data made from
a snapshot; `draw` turns it into text. The resource that is drawn is the scarce one: GPUs or another device where
there are any, else CPUs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import string
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import typer
import yaml
from rich.console import Console, Group, JustifyMethod, RenderableType
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from muster.api import format_amount
from muster.explain.lists import scarce_resource
from muster.explain.words import amount_text, counted, joined, resource_word
from muster.snapshot import NO_ROW, Snapshot, TaskStatus

PLAIN_WIDTH = 100
WIDE = 1000
#: Variables of the environment that change the shape of the output, here or in the library below.
SHAPING = ("COLUMNS", "LINES", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
#: Clears a terminal and goes to its top.
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
FREE = ""
#: Columns of names, and up to which length a name stays whole.
_NAMES = ("job", "workload")
_WHOLE_NAME = 42
LETTERS = string.ascii_uppercase + string.ascii_lowercase + string.digits
#: For jobs beyond the letters.
OTHER = "#"
FREE_MARK = "·"
_MAX_CELLS = 32
#: One CPU or one device, in base units.
_UNIT = 1000
_ON_NODE = (
    TaskStatus.ALLOCATED,
    TaskStatus.BINDING,
    TaskStatus.BOUND,
    TaskStatus.RUNNING,
    TaskStatus.RELEASING,
    TaskStatus.UNKNOWN,
)
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "red", "bright_cyan", "bright_green", "bright_magenta")


def make_console(*, wide: bool = False) -> Console:
    """Return a console on the standard output of this process; `wide`: no line is broken."""
    if wide:
        return Console(width=WIDE, highlight=False, soft_wrap=False, emoji=False, markup=False)
    width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PLAIN_WIDTH
    return Console(width=width, highlight=False, soft_wrap=False, emoji=False, markup=False)


def print_document(document: Mapping[str, Any] | list[Any], output: str) -> bool:  # Any: JSON
    """Print what programs read, if that is the wanted format; False: people are to be shown something."""
    if output == "json":
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    elif output == "yaml":
        typer.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)
    else:
        return False
    return True


def watched(show: Callable[[], None], interval: float | None) -> None:
    """Show something once or, with an interval, again whenever it has changed, until interrupted.

    On a terminal each takes the place of the one before; elsewhere they follow each other.
    """
    if interval is None:
        show()
        return
    before = None
    while True:
        with contextlib.redirect_stdout(_Copy(sys.stdout.isatty())) as copy:
            show()
        if (text := copy.getvalue()) != before:
            sys.stdout.write(f"{_CLEAR if sys.stdout.isatty() else ''}{text}")
            sys.stdout.flush()
            before = text
        time.sleep(interval)


class _Copy(io.StringIO):
    """What would be written, for a terminal if the real output is one."""

    def __init__(self, is_terminal: bool) -> None:  # noqa: FBT001
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


class _NameTable(Table):
    """A table that breaks sentences before it breaks names, unless those are very long."""

    def add_row(self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False) -> None:
        super().add_row(*cells, style=style, end_section=end_section)
        for column, cell in zip(self.columns, cells, strict=False):
            if isinstance(cell, Text) and cell.cell_len > _WHOLE_NAME:
                column.no_wrap = False


def plain_table(*columns: str, right: tuple[str, ...] = ()) -> Table:
    """Return an empty table with a header and no borders; columns named in `right` are numbers."""
    table = _NameTable(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        justify: JustifyMethod = "right" if column in right else "left"
        table.add_column(Text(column), justify=justify, overflow="fold", no_wrap=column in _NAMES)
    return table


def heading(text: str) -> Text:
    """Return a line that opens a part of the output."""
    return Text(text, style="bold")


# -- a picture of the cluster ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node: the job of each cell, FREE where there is none."""

    name: str
    cells: tuple[str, ...]
    used: int
    allocatable: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class Picture:
    """The cluster, one resource of it."""

    resource: str
    #: Base units that one cell stands for.
    per_cell: int
    rows: tuple[NodeRow, ...]
    #: Nodes that are not drawn because there are too many.
    n_hidden: int
    #: Nodes that have none of the resource.
    without: tuple[str, ...]
    letters: dict[str, str]


def cluster_picture(snapshot: Snapshot, max_nodes: int = 40, known: dict[str, str] | None = None) -> Picture:
    """Draw the first nodes, by name, of those that have the scarce resource.

    `known`: letters of jobs in earlier pictures, which they keep; new ones are added.
    """
    column = snapshot.axis.index[scarce_resource(snapshot)]
    offered = snapshot.nodes.allocatable()[:, column]
    largest = int(offered.max(initial=0))
    per_cell = _UNIT * max(1, -(-largest // (_UNIT * _MAX_CELLS)))
    order = sorted(np.flatnonzero(offered > 0).tolist(), key=lambda row: _natural(snapshot.nodes.names[row]))
    shown = order[:max_nodes]
    held = _held_by_node(snapshot, column, frozenset(shown))
    rows = tuple(_row(snapshot, row, column, per_cell, held.get(row, [])) for row in shown)
    return Picture(
        resource=snapshot.axis.names[column],
        per_cell=per_cell,
        rows=rows,
        n_hidden=len(order) - len(shown),
        without=tuple(sorted(snapshot.nodes.names[row] for row in np.flatnonzero(offered == 0).tolist())),
        letters=_letters(snapshot, {job for row in rows for job in row.cells if job != FREE}, known),
    )


def _letters(snapshot: Snapshot, shown: set[str], known: dict[str, str] | None) -> dict[str, str]:
    """Give letters to jobs, and so colours; a job keeps what it has."""
    letters = {} if known is None else known
    live = sorted(snapshot.jobs.records[row].id for row in np.flatnonzero(snapshot.jobs.live).tolist())
    named = live if len(live) <= len(LETTERS) else sorted(shown)
    left = iter([letter for letter in LETTERS if letter not in letters.values()])
    for job in named:
        if job not in letters:
            letters[job] = next(left, OTHER)
    return {job: letters[job] for job in sorted(shown, key=lambda job: (LETTERS.find(letters[job]), job))}


def _held_by_node(snapshot: Snapshot, column: int, nodes: frozenset[int]) -> dict[int, list[tuple[str, int]]]:
    """What each job holds on each node, jobs by id."""
    tasks = snapshot.tasks
    held: dict[int, dict[str, int]] = {}
    for task in np.flatnonzero((tasks.node != NO_ROW) & np.isin(tasks.status, _ON_NODE)).tolist():
        node = int(tasks.node[task])
        amount = int(snapshot.classes.requests[tasks.cls[task], 0, column])
        if node in nodes and amount:
            jobs = held.setdefault(node, {})
            job = snapshot.jobs.records[tasks.job[task]].id
            jobs[job] = jobs.get(job, 0) + amount
    return {node: sorted(jobs.items()) for node, jobs in held.items()}


def _row(snapshot: Snapshot, node: int, column: int, per_cell: int, held: list[tuple[str, int]]) -> NodeRow:
    allocatable = int(snapshot.nodes.allocatable()[node, column])
    used = sum(amount for _, amount in held)
    # The middle of a cell decides, so that half a GPU is drawn and a hundredth is not.
    middles = range(per_cell // 2, -(-allocatable // per_cell) * per_cell, per_cell)
    cells = tuple(_holder_at(held, middle) for middle in middles)
    note = ""
    if not snapshot.nodes.ready[node]:
        note = "not ready"
    elif snapshot.nodes.objects[node].spec.unschedulable:
        note = "cordoned"
    return NodeRow(snapshot.nodes.names[node], cells, used, allocatable, note)


def _holder_at(held: list[tuple[str, int]], place: int) -> str:
    for job, amount in held:
        if place <= amount:
            return job
        place -= amount
    return FREE


def _natural(name: str) -> tuple[object, ...]:
    """Sort key that puts node-2 before node-10."""
    digits = "".join(character if character.isdigit() else " " for character in name).split()
    return (name.rstrip(string.digits), int(digits[-1]) if digits and name[-1:].isdigit() else -1, name)


def draw(picture: Picture, width: int) -> Group:
    """Return the picture with its legend; on consoles without colours the letters tell jobs apart."""
    grid = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for row in picture.rows:
        cells = Text()
        for job in row.cells:
            if job == FREE:
                cells.append(f" {FREE_MARK} ", style="dim")
            else:
                letter = picture.letters[job]
                cells.append(f" {letter} ", style=f"bold black on {_colour(letter)}")
        amount = f"{format_amount(picture.resource, row.used)}/{format_amount(picture.resource, row.allocatable)}"
        grid.add_row(Text(f"  {row.name}"), cells, Text(amount), Text(row.note, style="red"))
    return Group(grid, *_legend(picture, width), *_remarks(picture))


def _colour(letter: str) -> str:
    return "white" if letter == OTHER else _COLOURS[LETTERS.index(letter) % len(_COLOURS)]


def _legend(picture: Picture, width: int) -> list[Text]:
    """Name the jobs, as many to a line as fit."""
    entries = [
        Text.assemble((letter, f"bold {_colour(letter)}"), f" {job}   ") for job, letter in picture.letters.items()
    ]
    entries.append(Text(f"{FREE_MARK} free", style="dim"))
    lines = [Text("  ")]
    for entry in entries:
        if len(lines[-1]) + len(entry.plain.rstrip()) > width and len(lines[-1]) > 2:
            lines.append(Text("  "))
        lines[-1].append_text(entry)
    return lines


def _remarks(picture: Picture) -> list[Text]:
    lines = []
    word = resource_word(picture.resource)
    if picture.per_cell != _UNIT:
        lines.append(f"one cell: {amount_text(picture.resource, picture.per_cell)}")
    if picture.n_hidden:
        lines.append(f"and {counted(picture.n_hidden, 'more node')} with {word}s")
    if picture.without:
        names = list(picture.without[:4])
        more = len(picture.without) - len(names)
        shown = f"{', '.join(names)} and {more} more" if more else joined(names)
        lines.append(f"without {word}s: {shown}")
    return [Text(f"  {line}", style="dim") for line in lines]
