"""The tree as text: the lines that a terminal shows, Graphviz, and JSON.

Lines and graphs are folded so that a large cluster stays readable: more than `MAX_SIDE` nodes side by side are summed
up, and so are all nodes once there are more than `MAX_NODES` in the tree; of more than `MAX_SIDE` domains side by side
the first are shown and the rest summed up. In JSON nothing is folded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from muster.api import format_amount
from muster.topology.view import DomainView, NodeView, TopologyView

MAX_SIDE = 20
MAX_NODES = 200
_STYLES = {
    "domain": 'shape=box, style="rounded,filled", fillcolor="#dbeafe"',
    "node": 'shape=box, style=filled, fillcolor="#f1f5f9"',
    "folded": 'shape=box, style="dashed,filled", fillcolor="#f8fafc"',
    "fault": 'shape=note, style=filled, fillcolor="#fee2e2", color="#b91c1c", fontcolor="#b91c1c"',
}
#: What each field means; the reference page is made from it.
VIEW_FIELDS = (
    ("`resource`", "what is counted: the scarce resource of the cluster, or that of `--resource`"),
    ("`tiers[]`", "`tier`, `names` and number of `domains` of each, the highest tier first"),
    ("`root`", "the domain that holds the whole cluster"),
    ("`root.name`, `.tier`, `.tierName`", "of the HyperNode; `tierName` is empty where it has none"),
    ("`root.nodeCount`, `.free`, `.total`", "nodes inside, and the resource on them, as quantities"),
    ("`root.faults[]`", "what is wrong with the HyperNode"),
    ("`root.domains[]`", "domains inside, with the same fields"),
    ("`root.nodes[]`", "nodes that are in no smaller domain: `name`, `free`, `total`, `note`"),
)
USED = "■"
FREE = "□"
_BAR = 8
#: One device, or one CPU.
_UNIT = 1000


@dataclass(frozen=True, slots=True)
class Line:
    """One line, and the lines below it."""

    kind: Literal["domain", "node", "folded", "fault"]
    name: str
    detail: str = ""
    bar: str = ""
    #: What is unusual: cordoned, not ready.
    note: str = ""
    inner: tuple[Line, ...] = ()


def outline(view: TopologyView, *, everything: bool = False) -> Line:
    """Return the line of the root; `everything` folds nothing."""
    return _Outliner(view, everything=everything).domain(view.root)


def text_lines(line: Line) -> Iterator[str]:
    """Yield the lines as plain text, with the branches drawn."""
    yield _text(line)
    yield from _below(line, "")


def _below(line: Line, indent: str) -> Iterator[str]:
    for place, inner in enumerate(line.inner):
        is_last = place == len(line.inner) - 1
        yield f"{indent}{'└── ' if is_last else '├── '}{_text(inner)}"
        yield from _below(inner, indent + ("    " if is_last else "│   "))


def _text(line: Line) -> str:
    if line.kind == "fault":
        return f"! {line.name}"
    return "  ".join(part for part in (line.name, line.bar, line.detail, line.note) if part)


class _Outliner:
    def __init__(self, view: TopologyView, *, everything: bool) -> None:
        self._resource = view.resource
        self._everything = everything
        self._sum_nodes = not everything and view.root.n_nodes > MAX_NODES

    def domain(self, domain: DomainView) -> Line:
        parts = [] if domain.is_root else [tier_text(domain)]
        parts += [counted(domain.n_nodes, "node"), free_text(self._resource, domain.free, domain.total)]
        inner = [Line("fault", text) for text in domain.faults]
        inner += self._domains(domain.domains)
        inner += self._nodes(domain.nodes)
        return Line("domain", domain.name, ", ".join(parts), bar(domain.free, domain.total), inner=tuple(inner))

    def _domains(self, domains: tuple[DomainView, ...]) -> list[Line]:
        n_shown = len(domains) if self._everything or len(domains) <= MAX_SIDE else MAX_SIDE
        lines = [self.domain(domain) for domain in domains[:n_shown]]
        if rest := domains[n_shown:]:
            free, total = sum(domain.free for domain in rest), sum(domain.total for domain in rest)
            n_nodes = counted(sum(domain.n_nodes for domain in rest), "node")
            detail = f"{n_nodes}, {free_text(self._resource, free, total)}"
            lines.append(Line("folded", f"and {counted(len(rest), 'more domain')}", detail, bar(free, total)))
        return lines

    def _nodes(self, nodes: tuple[NodeView, ...]) -> list[Line]:
        if self._everything or not (self._sum_nodes or len(nodes) > MAX_SIDE):
            return [self._node(node) for node in nodes]
        if not nodes:
            return []
        free, total = sum(node.free for node in nodes), sum(node.total for node in nodes)
        return [Line("folded", counted(len(nodes), "node"), state_text(nodes), bar(free, total))]

    def _node(self, node: NodeView) -> Line:
        return Line(
            "node", node.name, free_text(self._resource, node.free, node.total), bar(node.free, node.total), node.note
        )


# -- Graphviz --------------------------------------------------------------------------------------------------


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


# -- JSON ------------------------------------------------------------------------------------------------------


def view_document(view: TopologyView) -> dict[str, Any]:  # Any: a JSON document
    """Return the document."""
    return {
        "resource": view.resource,
        "tiers": [{"tier": tier, "names": list(names), "domains": n} for tier, names, n in view.tiers],
        "root": _domain(view.resource, view.root),
    }


def _domain(resource: str, domain: DomainView) -> dict[str, Any]:  # Any: a JSON document
    return {
        "name": domain.name,
        "tier": domain.tier,
        "tierName": domain.tier_name,
        "nodeCount": domain.n_nodes,
        "free": format_amount(resource, domain.free),
        "total": format_amount(resource, domain.total),
        "faults": list(domain.faults),
        "domains": [_domain(resource, inner) for inner in domain.domains],
        "nodes": [_node(resource, node) for node in domain.nodes],
    }


def _node(resource: str, node: NodeView) -> dict[str, str]:
    return {
        "name": node.name,
        "free": format_amount(resource, node.free),
        "total": format_amount(resource, node.total),
        "note": node.note,
    }


# -- in words --------------------------------------------------------------------------------------------------


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: "1 node", "3 nodes"."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def free_text(resource: str, free: int, total: int) -> str:
    """Return how much is free: "12 of 16 GPUs free"."""
    if not total:
        return f"no {_word(resource)}"
    return f"{format_amount(resource, free)} of {format_amount(resource, total)} {_word(resource)} free"


def _word(resource: str) -> str:
    if resource.endswith("/gpu"):
        return "GPUs"
    return "CPUs" if resource == "cpu" else resource


def tier_text(domain: DomainView) -> str:
    """Return the tier and its name: "tier 1, rack"."""
    return f"tier {domain.tier}, {domain.tier_name}" if domain.tier_name else f"tier {domain.tier}"


def bar(free: int, total: int) -> str:
    """Return a small bar; up to eight devices are drawn one by one, and what is partly used counts as used."""
    if not total:
        return ""
    n_cells = min(_BAR, max(1, total // _UNIT))
    n_free = n_cells * free // total
    return USED * (n_cells - n_free) + FREE * n_free


def state_text(nodes: tuple[NodeView, ...]) -> str:
    """Return how many of several nodes are free: "20 free, 3 partly used, 1 full"."""
    empty = sum(node.used == 0 for node in nodes)
    full = sum(node.used > 0 and node.free == 0 for node in nodes)
    parts = ((empty, "free"), (len(nodes) - empty - full, "partly used"), (full, "full"))
    notes = sorted({node.note for node in nodes if node.note})
    away = [f"{sum(node.note == note for node in nodes)} {note}" for note in notes]
    return ", ".join([f"{n} {word}" for n, word in parts if n] + away)
