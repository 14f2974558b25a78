"""Domains and nodes in words: "2 nodes, 12 of 16 GPUs free"."""

from __future__ import annotations

from muster.api import format_amount
from muster.topology.view import DomainView, NodeView

USED = "■"
FREE = "□"
_BAR = 8
#: One device, or one CPU.
_UNIT = 1000


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
