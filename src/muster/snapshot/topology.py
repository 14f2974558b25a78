"""The topology tree as arrays: every domain is a contiguous range of node rows.

Domains are numbered by a depth-first walk from the virtual root (row 0), so that the domains inside `d` are
`d + 1 .. last[d]` and its nodes are rows `lo[d] .. hi[d]`. Inside a domain, smaller domains come first, in natural
order of their names, then the nodes that belong to none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from muster.api import HyperNode, Node
from muster.snapshot.hypernodes import ROOT, HyperNodeForest, build_forest, natural
from muster.snapshot.rows import NO_ROW, Rows


@dataclass(slots=True)
class TopologyTable:
    """Domains of the network, the virtual root first."""

    names: list[str]
    index: dict[str, int]
    tier: Rows
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
    _owners: list[tuple[int, Rows]] = field(default_factory=list, repr=False)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def ready(self) -> bool:
        """False: some HyperNode is wrong, see `forest.faults`; there is only the root then."""
        return self.forest.ready

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

    def owners_by_tier(self) -> list[tuple[int, Rows]]:
        """For each tier, the lowest first, the domain that holds each node, NO_ROW if there is none; made once."""
        if not self._owners:
            for tier in range(int(self.tier.min()), self.root_tier + 1):
                owner = np.full(len(self.leaf), NO_ROW, np.int32)
                domains = np.flatnonzero(self.tier == tier).astype(np.int32)
                sizes = self.hi[domains] - self.lo[domains]
                # Domains of one tier do not overlap: the rows of each are its first row and those after it.
                rows = np.arange(sizes.sum()) + np.repeat(self.lo[domains] - (np.cumsum(sizes) - sizes), sizes)
                owner[rows] = np.repeat(domains, sizes)
                self._owners.append((tier, owner))
        return self._owners


def build_topology(hyper_nodes: Mapping[str, HyperNode], nodes: Mapping[str, Node]) -> tuple[TopologyTable, list[str]]:
    """Lay domains and nodes out; the second part is the order of the node rows."""
    forest = build_forest(hyper_nodes, nodes)
    walk = _Walk(forest)
    if forest.ready:
        tops = [name for name in forest.tiers if name not in forest.parents]
        walk.visit_root(tops, nodes, max(forest.tiers.values(), default=0) + 1)
    else:
        walk.visit_root([], nodes, 1)
    return walk.table(), walk.order


class _Walk:
    """The depth-first walk that numbers domains and nodes."""

    def __init__(self, forest: HyperNodeForest) -> None:
        self.forest = forest
        self.order: list[str] = []
        self.names: list[str] = []
        self.tier: list[int] = []
        self.parent: list[int] = []
        self.last: list[int] = []
        self.lo: list[int] = []
        self.hi: list[int] = []
        self.children: list[tuple[int, ...]] = []
        self.leaf: list[int] = []

    def visit_root(self, tops: list[str], nodes: Mapping[str, Node], tier: int) -> None:
        inside = {name for top in tops for name in self.forest.nodes[top]}
        # Without HyperNodes plain name order is kept: it is what users see everywhere else.
        outside = sorted(name for name in nodes if name not in inside)
        self._visit(ROOT, tier, NO_ROW, tops, outside)

    def _visit(self, name: str, tier: int, parent: int, inner: Iterable[str], own: Iterable[str]) -> int:
        row = len(self.names)
        self.names.append(name)
        self.tier.append(tier)
        self.parent.append(parent)
        self.lo.append(len(self.order))
        for column in (self.last, self.hi):
            column.append(row)
        self.children.append(())
        below = []
        taken: set[str] = set()
        for child in sorted(inner, key=natural):
            forest = self.forest
            taken.update(forest.nodes[child])
            own_nodes = sorted(forest.own_nodes[child], key=natural)
            below.append(self._visit(child, forest.tiers[child], row, forest.children[child], own_nodes))
        for node in own:
            if node not in taken:
                self.order.append(node)
                self.leaf.append(row)
        self.children[row] = tuple(below)
        self.last[row] = len(self.names) - 1
        self.hi[row] = len(self.order)
        return row

    def table(self) -> TopologyTable:
        def column(values: list[int]) -> Rows:
            return np.array(values, np.int32)

        return TopologyTable(
            names=self.names,
            index={name: row for row, name in enumerate(self.names)},
            tier=column(self.tier),
            parent=column(self.parent),
            last=column(self.last),
            lo=column(self.lo),
            hi=column(self.hi),
            leaf=column(self.leaf),
            children=self.children,
            forest=self.forest,
        )
