"""The tree as lines: what a terminal shows, folded so that a large cluster stays readable.

More than `MAX_SIDE` nodes side by side are summed up, and so are all nodes once there are more than `MAX_NODES` in
the tree; of more than `MAX_SIDE` domains side by side the first are shown and the rest summed up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from muster.topology.view import DomainView, NodeView, TopologyView
from muster.topology.words import bar, counted, free_text, state_text, tier_text

MAX_SIDE = 20
MAX_NODES = 200


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
