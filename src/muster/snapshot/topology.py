"""The topology tree as arrays: every domain is a contiguous range of node rows.

Domains are numbered by a depth-first walk from the virtual root (row 0), so that the domains inside `d` are
`d + 1 .. last[d]` and its nodes are rows `lo[d] .. hi[d]`. Inside a domain, smaller domains come first, in natural
order of their names, then the nodes that belong to none of them. HyperNodes with a fault are not in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from muster.api import HyperNode, Node
from muster.snapshot.hypernodes import ROOT, HyperNodeForest, build_forest, natural
from muster.snapshot.rows import NO_ROW, Rows
from muster.snapshot.usable_tree import UsableTree

#: Tiers are labels in order; their numbers are the users', up to the largest of 32 bits and one more for the root.
Tiers = NDArray[np.int64]


@dataclass(slots=True)
class TopologyTable:
    """Domains of the network, the virtual root first."""

    names: list[str]
    index: dict[str, int]
    tier: Tiers
    parent: Rows
    #: Last domain inside, itself if there is none.
    last: Rows
    lo: Rows
    hi: Rows
    #: Per node: the smallest domain that holds it; the root's row if it is in no HyperNode.
    leaf: Rows
    #: Domains directly inside each domain.
    children: list[tuple[int, ...]]
    forest: HyperNodeForest
    _owners: tuple[Rows, ...] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def root_tier(self) -> int:
        return int(self.tier[0])

    def contains(self, outer: int, inner: int) -> bool:
        """Whether the domain `inner` is inside `outer`, or the same."""
        return outer <= inner <= int(self.last[outer])

    def lca(self, a: int, b: int) -> int:
        """The smallest domain that holds both."""
        while not self.contains(a, b):
            a = int(self.parent[a])
        return a

    def domain_of_nodes(self, nodes: Rows) -> int:
        """The smallest domain that holds all the nodes; NO_ROW for no nodes."""
        if len(nodes) == 0:
            return NO_ROW
        leaves = self.leaf[nodes]
        return self.lca(int(leaves.min()), int(leaves.max()))

    def highest_within(self, domain: int, limit: int) -> int:
        """The largest domain around `domain` whose tier is at most `limit`; NO_ROW if its own is above."""
        if self.tier[domain] > limit:
            return NO_ROW
        while self.parent[domain] != NO_ROW and self.tier[self.parent[domain]] <= limit:
            domain = int(self.parent[domain])
        return domain

    def inside(self, domain: int) -> Rows:
        """The domain and all domains inside it."""
        return np.arange(domain, int(self.last[domain]) + 1, dtype=np.int32)

    def owners_by_tier(self) -> tuple[Rows, ...]:
        """For each tier, the lowest first, the domain that holds each node, NO_ROW if there is none; made once."""
        if not self._owners:
            made = []
            for tier in np.unique(self.tier).tolist():
                owner = np.full(len(self.leaf), NO_ROW, np.int32)
                domains = np.flatnonzero(self.tier == tier).astype(np.int32)
                sizes = self.hi[domains] - self.lo[domains]
                # Domains of one tier do not overlap: the rows of each are its first row and those after it.
                rows = np.arange(sizes.sum()) + np.repeat(self.lo[domains] - (np.cumsum(sizes) - sizes), sizes)
                owner[rows] = np.repeat(domains, sizes)
                made.append(owner)
            self._owners = tuple(made)
        return self._owners


def build_topology(hyper_nodes: Mapping[str, HyperNode], nodes: Mapping[str, Node]) -> tuple[TopologyTable, list[str]]:
    """Lay domains and nodes out; the second part is the order of the node rows."""
    forest = build_forest(hyper_nodes, nodes)
    walk = _Walk(forest)
    walk.visit_all(nodes)
    return walk.table(), walk.order


class _Walk:
    """The depth-first walk that numbers domains and nodes."""

    def __init__(self, forest: HyperNodeForest) -> None:
        self.forest = forest
        self.tree = UsableTree(forest)
        self.order: list[str] = []
        self.names: list[str] = []
        self.tier: list[int] = []
        self.parent: list[int] = []
        self.last: list[int] = []
        self.lo: list[int] = []
        self.hi: list[int] = []
        self.children: list[list[int]] = []
        self.leaf: list[int] = []

    def visit_all(self, nodes: Mapping[str, Node]) -> None:
        tiers, tree = self.forest.tiers, self.tree
        # Of a tier above all that are named, so that what is out of use does not widen what a constraint allows.
        left = [self._enter("", max(tiers.values(), default=0) + 1, NO_ROW)]
        while left:
            row, name, inner = left[-1]
            child = next(inner, None)
            if child is not None:
                self.children[row].append(len(self.names))
                left.append(self._enter(child, tiers[child], row))
                continue
            own = sorted(tree.own_nodes[name], key=natural)
            # Plain name order for nodes in no domain: it is what users see everywhere else.
            self._leave(
                row, own if name else sorted([*own, *(node for node in nodes if node not in self.forest.owners)])
            )
            left.pop()

    def _enter(self, name: str, tier: int, parent: int) -> tuple[int, str, Iterator[str]]:
        row = len(self.names)
        self.names.append(name or ROOT)
        self.tier.append(tier)
        self.parent.append(parent)
        self.lo.append(len(self.order))
        for column in (self.last, self.hi):
            column.append(row)
        self.children.append([])
        return row, name, iter(sorted(self.tree.children[name], key=natural))

    def _leave(self, row: int, own: list[str]) -> None:
        self.order += own
        self.leaf += [row] * len(own)
        self.last[row] = len(self.names) - 1
        self.hi[row] = len(self.order)

    def table(self) -> TopologyTable:
        def column(values: list[int]) -> Rows:
            return np.array(values, np.int32)

        return TopologyTable(
            names=self.names,
            index={name: row for row, name in enumerate(self.names)},
            tier=np.array(self.tier, np.int64),
            parent=column(self.parent),
            last=column(self.last),
            lo=column(self.lo),
            hi=column(self.hi),
            leaf=column(self.leaf),
            children=[tuple(inner) for inner in self.children],
            forest=self.forest,
        )
