"""The tree as a picture: a box per domain, boxes in boxes by tier, nodes as cells coloured by what is used.

Self-contained SVG: no script, no fonts or images from elsewhere, light and dark. In small clusters a cell names its
node and shows each device; in large ones it is a square whose colour says how full the node is. Names and
numbers of everything are in the tooltips. Boxes get their sizes from the inside out, in rows that are about as wide as
high; lengths are whole pixels, and positions relative to the box around.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from muster.topology.drawings import counted, free_text, tier_text
from muster.topology.view import DomainView, NodeView, TopologyView

_MARGIN = 16
_LEGEND = 34
_N_LEVELS = 4
_UNIT = 1000
_MAX_DEVICES = 16
_FONTS = 'ui-sans-serif, system-ui, "Segoe UI", Helvetica, Arial, sans-serif'
#: Fills and outlines of classes, by light and by dark background. Plain rules: not every viewer knows variables.
_COLOURS = (
    ("text", "fill", "#0f172a", "#e6edf3"),
    (".soft", "fill", "#64748b", "#8b98a9"),
    (".bad", "fill", "#dc2626", "#ff7b72"),
    (".bg", "fill", "#ffffff", "#0d1117"),
    (".box", "stroke", "#cbd5e1", "#30405a"),
    (".t0", "fill", "#f8fafc", "#11161f"),
    (".t1", "fill", "#eef4ff", "#162033"),
    (".t2", "fill", "#e3ecfd", "#1b2942"),
    (".t3", "fill", "#d6e2fa", "#213252"),
    (".rail", "fill", "#cbd5e1", "#30405a"),
    (".used", "fill", "#2563eb", "#4c8dff"),
    (".free", "fill", "#ffffff", "#0d1117"),
    (".free", "stroke", "#94a3b8", "#50617c"),
    (".cell", "fill", "#ffffff", "#0d1117"),
    (".cell", "stroke", "#cbd5e1", "#30405a"),
    (".u1", "fill", "#bfdbfe", "#1e3a6b"),
    (".u2", "fill", "#7db0fb", "#2c56a3"),
    (".u3", "fill", "#4a85f0", "#3b73d6"),
    (".u4", "fill", "#1d4ed8", "#6aa5ff"),
    (".wrong", "stroke", "#dc2626", "#ff7b72"),
    (".away", "stroke", "#dc2626", "#ff7b72"),
)
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


def svg_text(view: TopologyView) -> str:
    """Return the picture."""
    box = lay_out(view.root)
    width, height = box.width + 2 * _MARGIN, box.height + 2 * _MARGIN + _LEGEND
    painter = _Painter(view.resource)
    summary = f"{counted(view.root.n_nodes, 'node')}, {free_text(view.resource, view.root.free, view.root.total)}"
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    label = quoteattr(f"network topology: {summary}")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label={label}>',
        _style(),
        f'<rect class="bg" width="{width}" height="{height}"/>',
        *painter.box(box, _MARGIN, _MARGIN, 0),
        *painter.legend(_MARGIN, height - _LEGEND, compact=box.compact),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _style() -> str:
    light = [f"{name} {{ {what}: {colour}; }}" for name, what, colour, _ in _COLOURS]
    dark = [f"  {name} {{ {what}: {colour}; }}" for name, what, _, colour in _COLOURS]
    lines = [
        "<style>",
        f"text {{ font: 11px {_FONTS}; }}",
        ".name { font-size: 12px; font-weight: 600; }",
        ".end { text-anchor: end; }",
        ".wrong { stroke-width: 1.5; }",
        ".away { stroke-dasharray: 3 2; }",
        *light,
        "@media (prefers-color-scheme: dark) {",
        *dark,
        "}",
        "</style>",
    ]
    return "\n".join(lines)


class _Painter:
    def __init__(self, resource: str) -> None:
        self._resource = resource

    def box(self, box: Box, x: int, y: int, depth: int) -> Iterator[str]:
        domain = box.domain
        wrong = " wrong" if domain.faults else ""
        where = f'x="{x}" y="{y}" width="{box.width}" height="{box.height}" rx="8"'
        yield "<g>"
        yield f'<rect class="box t{min(depth, 3)}{wrong}" {where}/>'
        name = "whole cluster" if domain.is_root else domain.name
        tier = "" if domain.is_root else tier_text(domain)
        facts = f"{free_text(self._resource, domain.free, domain.total)} · {counted(domain.n_nodes, 'node')}"
        told = " · ".join(part for part in (domain.name, tier, facts) if part)
        yield f"<title>{escape(told)}</title>"
        room = box.width - 2 * PAD
        tier = shortened(tier, room // 2)
        yield _text(x + PAD, y + 18, shortened(name, room - text_width(tier), bold=True), "name")
        yield _text(x + PAD + room, y + 18, tier, "soft end")
        yield _text(x + PAD, y + 33, shortened(facts, room), "soft")
        yield from self._bar(x + PAD, y + 39, room, domain.used, domain.total)
        for number, line in enumerate(box.faults):
            yield _text(x + PAD, y + HEADER + 10 + number * FAULT_LINE, line, "bad")
        for inner, at_x, at_y in box.inner:
            yield from self.box(inner, x + at_x, y + at_y, depth + 1)
        for node, at_x, at_y in box.cells:
            yield from self._cell(node, x + at_x, y + at_y, box)
        yield "</g>"

    def _bar(self, x: int, y: int, width: int, used: int, total: int) -> Iterator[str]:
        yield f'<rect class="rail" x="{x}" y="{y}" width="{width}" height="{BAR}" rx="2"/>'
        if filled := _part(width, used, total):
            yield f'<rect class="used" x="{x}" y="{y}" width="{filled}" height="{BAR}" rx="2"/>'

    def _cell(self, node: NodeView, x: int, y: int, box: Box) -> Iterator[str]:
        width, height = box.cell
        away = " away" if node.note else ""
        facts = free_text(self._resource, node.free, node.total) + (f", {node.note}" if node.note else "")
        title = f"<title>{escape(f'{node.name}: {facts}')}</title>"
        level = f" u{_level(node)}" if box.compact else ""
        where = f'x="{x}" y="{y}" width="{width}" height="{height}" rx="{3 if box.compact else 5}"'
        yield f'<g><rect class="cell{level}{away}" {where}/>{title}'
        if not box.compact:
            label = f"{node.name} ({node.note})" if node.note else node.name
            yield _text(x + 7, y + 15, shortened(label, width - 14), "")
            yield from self._devices(node, x + 7, y + 22, width - 14)
        yield "</g>"

    def _devices(self, node: NodeView, x: int, y: int, width: int) -> Iterator[str]:
        n_devices = node.total // _UNIT
        if not 0 < n_devices <= _MAX_DEVICES:
            yield from self._bar(x, y + 3, width, node.used, node.total)
            return
        side = min(9, width // n_devices - 2)
        n_used = -(-n_devices * min(node.used, node.total) // node.total)
        for device in range(n_devices):
            kind = "used" if device < n_used else "free"
            at = x + device * (side + 2)
            yield f'<rect class="{kind}" x="{at}" y="{y}" width="{side}" height="{side}" rx="2"/>'

    def legend(self, x: int, y: int, *, compact: bool) -> Iterator[str]:
        if compact:
            for level in range(_N_LEVELS + 1):
                at = x + level * (14 + CELL_GAP)
                yield f'<rect class="cell u{level}" x="{at}" y="{y}" width="14" height="14" rx="3"/>'
            words = "one square is one node: all free … full"
            yield _text(x + 5 * (14 + CELL_GAP) + 6, y + 11, words, "soft")
            return
        for at, kind, word in ((x, "used", "used"), (x + 60, "free", "free")):
            yield f'<rect class="{kind}" x="{at}" y="{y}" width="11" height="11" rx="2"/>'
            yield _text(at + 17, y + 10, word, "soft")


def _text(x: int, y: int, text: str, kind: str) -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x}" y="{y}"{style}>{escape(text)}</text>'


def _part(width: int, used: int, total: int) -> int:
    return width * min(used, total) // total if total else 0


def _level(node: NodeView) -> int:
    """From 0, all free, to 4, full; anything used at all is at least 1, anything free at most 3."""
    if not node.used:
        return 0
    if not node.free:
        return _N_LEVELS
    return min(_N_LEVELS - 1, max(1, round(_N_LEVELS * node.used / node.total)))


# -- where boxes and cells are ---------------------------------------------------------------------------------


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
