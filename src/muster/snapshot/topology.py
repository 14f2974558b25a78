"""The topology tree as arrays: every domain is a contiguous range of node rows.

Domains are numbered by a depth-first walk from the virtual root (row 0), so that the domains inside `d` are
`d + 1 .. last[d]` and its nodes are rows `lo[d] .. hi[d]`. Inside a domain, smaller domains come first, in natural
order of their names, then the nodes that belong to none of them. HyperNodes with a fault are out of use, all others
stay. What one that is out of use holds belongs to the smallest HyperNode in use that surely holds it: the next one
around, or, for what several claim, the smallest around all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from muster.api import HyperNode, Node
from muster.snapshot.columns import NO_ROW, Rows
from muster.snapshot.hypernodes import ROOT, HyperNodeForest, build_forest, natural

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
        return np.arange(domain, int(self.last[domain]) + 1, dtype=np.intp)

    def sums(self, values: NDArray[np.integer], domains: Rows, first: int = 0) -> NDArray[np.int64]:
        """Sums over the nodes of some domains; `values` begins at node row `first`, and may have any further shape."""
        running = np.zeros((len(values) + 1, *values.shape[1:]), np.int64)
        np.cumsum(values, axis=0, out=running[1:])
        totals: NDArray[np.int64] = running[self.hi[domains] - first] - running[self.lo[domains] - first]
        return totals

    def owners_by_tier(self) -> tuple[Rows, ...]:
        """For each tier, the lowest first, the domain that holds each node, NO_ROW if there is none; made once."""
        if not self._owners:
            made = []
            for tier in np.unique(self.tier).tolist():
                owner = np.full(len(self.leaf), NO_ROW, np.intp)
                domains = np.flatnonzero(self.tier == tier).astype(np.intp)
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
            return np.array(values, np.intp)

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


class UsableTree:
    """Children and own nodes of the HyperNodes in use, by name; "" is the whole cluster."""

    def __init__(self, forest: HyperNodeForest) -> None:
        self._forest = forest
        #: Of every HyperNode, the smallest one in use around it.
        self.parents: dict[str, str] = {}
        self.children: dict[str, list[str]] = {"": []}
        self.own_nodes: dict[str, list[str]] = {"": []}
        for name in self._outside_in():
            parent = self._around(() if name in forest.circular else forest.containers[name])
            while parent and forest.tiers[parent] <= forest.tiers[name]:  # something wrong stands between the two
                parent = self.parents[parent]
            self.parents[name] = parent
            if name not in forest.faults:
                self.children[name], self.own_nodes[name] = [], []
                self.children[self.parents[name]].append(name)
        homes: dict[tuple[str, ...], str] = {}
        for node, owners in forest.owners.items():
            claim = tuple(owners)
            if claim not in homes:
                homes[claim] = self._around(claim)
            self.own_nodes[homes[claim]].append(node)

    def nodes_inside(self, name: str) -> list[str]:
        """Nodes of a HyperNode in use and of all those inside it."""
        found, left = [], [name]
        while left:
            inner = left.pop()
            found += self.own_nodes[inner]
            left += self.children[inner]
        return sorted(found)

    def _outside_in(self) -> list[str]:
        """Names so that each comes after all that name it; circles count as named by nobody."""
        forest = self._forest
        waiting = {
            name: 0 if name in forest.circular else len(containers) for name, containers in forest.containers.items()
        }
        members: dict[str, list[str]] = {name: [] for name in forest.tiers}
        for name, count in waiting.items():
            for container in forest.containers[name] if count else ():
                members[container].append(name)
        order = [name for name, count in waiting.items() if not count]
        for name in order:  # grows while it is walked
            for member in members[name]:
                waiting[member] -= 1
                if not waiting[member]:
                    order.append(member)
        return order

    def _around(self, holders: Sequence[str]) -> str:
        """The smallest HyperNode in use that is around all of these, or one of them."""
        faults = self._forest.faults
        believed = [self.parents[name] if name in faults else name for name in holders]
        return reduce(self._common, believed) if believed else ""

    def _common(self, one: str, other: str) -> str:
        above = {one}
        while one:
            one = self.parents[one]
            above.add(one)
        while other not in above:
            other = self.parents[other]
        return other
