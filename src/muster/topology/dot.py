"""The tree in Graphviz's language, for `dot -Tpng` and its kin; folded like the outline."""

from __future__ import annotations

from collections.abc import Iterator

from muster.topology.outline import Line, outline
from muster.topology.view import TopologyView

_STYLES = {
    "domain": 'shape=box, style="rounded,filled", fillcolor="#dbeafe"',
    "node": 'shape=box, style=filled, fillcolor="#f1f5f9"',
    "folded": 'shape=box, style="dashed,filled", fillcolor="#f8fafc"',
    "fault": 'shape=note, style=filled, fillcolor="#fee2e2", color="#b91c1c", fontcolor="#b91c1c"',
}


def dot_text(view: TopologyView, *, everything: bool = False) -> str:
    """Return a directed graph from the root to the nodes."""
    lines = [
        "digraph topology {",
        '  graph [rankdir=TB, nodesep=0.2, ranksep=0.5, fontname="sans-serif"];',
        '  node [fontname="sans-serif", fontsize=10];',
        '  edge [arrowhead=none, color="#64748b"];',
    ]
    lines += (f"  {text}" for text in _statements(outline(view, everything=everything), "d"))
    return "\n".join([*lines, "}", ""])


def _statements(line: Line, place: str) -> Iterator[str]:
    # Positions in the tree are names that cannot clash: a HyperNode and a node may be called the same.
    label = "\\n".join(_quoted(part) for part in (line.name, line.detail, line.bar, line.note) if part)
    yield f'{place} [label="{label}", {_STYLES[line.kind]}];'
    for number, inner in enumerate(line.inner):
        yield from _statements(inner, f"{place}_{number}")
        yield f"{place} -> {place}_{number};"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
