"""Where the boxes and cells of the picture are: sizes from the inside out, rows that are about as wide as high.

All lengths are whole pixels. Positions of inner boxes and cells are relative to the box around them.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.topology.view import DomainView, NodeView

PAD = 10
GAP = 10
#: Height of the part with name, numbers and bar.
HEADER = 52
BAR = 4
FAULT_LINE = 14
FAULT_GAP = 6
CELL_GAP = 4
#: With more nodes than this, cells are small squares without names.
MAX_NAMED = 96
_NAMED_CELL = (118, 38)
_SMALL_CELL = (14, 14)
_MIN_WIDTH = 200
_CHARACTER = 6.0
_BOLD_CHARACTER = 7.0
#: Width to height of what stands inside a domain.
_RATIO = 3.2


@dataclass(slots=True)
class Box:
    """A domain and what is drawn in it."""

    domain: DomainView
    compact: bool
    width: int = 0
    height: int = 0
    faults: list[str] = field(default_factory=list)
    inner: list[tuple[Box, int, int]] = field(default_factory=list)
    cells: list[tuple[NodeView, int, int]] = field(default_factory=list)

    @property
    def cell(self) -> tuple[int, int]:
        return _SMALL_CELL if self.compact else _NAMED_CELL


def lay_out(root: DomainView) -> Box:
    """Place everything inside the root."""
    return _lay_out(root, compact=root.n_nodes > MAX_NAMED)


def shortened(text: str, width: int, *, bold: bool = False) -> str:
    """Cut a text that would not fit into a width."""
    n_fit = max(3, int(width / (_BOLD_CHARACTER if bold else _CHARACTER)))
    return text if len(text) <= n_fit else f"{text[: n_fit - 1]}…"


def text_width(text: str) -> int:
    """About how wide a text of the small size is."""
    return math.ceil(len(text) * _CHARACTER)


def _lay_out(domain: DomainView, *, compact: bool) -> Box:
    box = Box(domain, compact)
    boxes = [_lay_out(inner, compact=compact) for inner in domain.domains]
    spots, boxes_width, boxes_height = _flow([(inner.width, inner.height) for inner in boxes])
    cells, cells_width, cells_height = _grid(len(domain.nodes), box.cell, CELL_GAP)
    box.width = max(boxes_width, cells_width, _MIN_WIDTH - 2 * PAD) + 2 * PAD
    for fault in domain.faults:
        box.faults += textwrap.wrap(fault, max(20, int((box.width - 2 * PAD) / _CHARACTER)))
    top = HEADER + (len(box.faults) * FAULT_LINE + FAULT_GAP if box.faults else 0)
    box.inner = [(inner, PAD + x, top + y) for inner, (x, y) in zip(boxes, spots, strict=True)]
    if boxes:
        top += boxes_height + (GAP if domain.nodes else 0)
    box.cells = [(node, PAD + x, top + y) for node, (x, y) in zip(domain.nodes, cells, strict=True)]
    box.height = top + cells_height + (PAD if boxes or domain.nodes or box.faults else 0)
    return box


def _grid(n_cells: int, size: tuple[int, int], gap: int) -> tuple[list[tuple[int, int]], int, int]:
    """Put equal rectangles into rows of equal length; return their places, the width and the height."""
    if not n_cells:
        return [], 0, 0
    width, height = size[0] + gap, size[1] + gap
    wanted = max(_MIN_WIDTH - 2 * PAD, math.isqrt(int(n_cells * width * height * _RATIO)))
    n_rows = -(-n_cells // max(1, wanted // width))
    n_columns = -(-n_cells // n_rows)
    spots = [(place % n_columns * width, place // n_columns * height) for place in range(n_cells)]
    return spots, n_columns * width - gap, n_rows * height - gap


def _flow(sizes: Sequence[tuple[int, int]]) -> tuple[list[tuple[int, int]], int, int]:
    """Put rectangles into rows from left to right; return their places, the width and the height."""
    if len(set(sizes)) <= 1:
        return _grid(len(sizes), sizes[0] if sizes else (0, 0), GAP)
    area = sum((width + GAP) * (height + GAP) for width, height in sizes)
    limit = max(math.isqrt(int(area * _RATIO)), *(width for width, _ in sizes))
    spots: list[tuple[int, int]] = []
    x = y = row_height = widest = 0
    for width, height in sizes:
        if x and x + width > limit:
            x, y, row_height = 0, y + row_height + GAP, 0
        spots.append((x, y))
        widest, row_height = max(widest, x + width), max(row_height, height)
        x += width + GAP
    return spots, widest, y + row_height
