"""The part of a forest of HyperNodes that can be believed: faults stay where they are.

HyperNodes with a fault are out of use, all others stay. What one that is out of use holds belongs to the smallest
HyperNode in use that surely holds it: the next one around, or, for what several claim, the smallest around all of them.
Used to lay out the tree, and to tell whether a constraint can ever be met.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from muster.snapshot.hypernodes import HyperNodeForest


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
