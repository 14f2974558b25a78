"""Questions to a tree of domains, answered the slow way: by sets of node names."""

from __future__ import annotations

from collections.abc import Collection, Mapping


def nodes_inside(own: Mapping[str, Collection[str]], children: Mapping[str, Collection[str]], name: str) -> set[str]:
    """Nodes of a domain and of everything inside it."""
    found = set(own[name])
    for child in children[name]:
        found |= nodes_inside(own, children, child)
    return found


def smallest_around(sets: Mapping[str, set[str]], depth: Mapping[str, int], nodes: Collection[str]) -> str:
    """The deepest domain whose nodes include all the given ones."""
    around = [name for name, inside in sets.items() if set(nodes) <= inside]
    return max(around, key=lambda name: depth[name])
