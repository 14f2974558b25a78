"""Packing equal tasks into a domain so that they touch as few smaller domains as possible, at every tier.

The plan is made from slot counts alone (how many of the tasks each node can take), from the top of the domain
down: one child that holds all is best (the one that already has tasks of the gang, then the one that needs the
fewest domains below, then the one that is left with the least room); otherwise the child with the most room is
filled and the rest goes on. Largest first gives the fewest children; nobody is split that need not be.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.snapshot import Rows, TopologyTable


@dataclass(frozen=True, slots=True)
class Share:
    """So many tasks go to node rows lo..hi."""

    lo: int
    hi: int
    tasks: int


class Packer:
    """Plans for one class of tasks at one moment."""

    def __init__(self, topology: TopologyTable, slots: Rows, own_nodes: Rows) -> None:
        """`slots`: per node, how many tasks it takes; `own_nodes`: nodes of tasks that the gang already has."""
        self._topology = topology
        self._room = _sums(slots)
        self._own = _sums(np.bincount(own_nodes, minlength=len(slots)).astype(np.int32))

    def room(self, lo: int, hi: int) -> int:
        return int(self._room[hi] - self._room[lo])

    def plan(self, domain: int, tasks: int) -> list[Share]:
        """Shares of up to `tasks` tasks inside the domain, as many as there is room for."""
        topology = self._topology
        lo, hi = int(topology.lo[domain]), int(topology.hi[domain])
        tasks = min(tasks, self.room(lo, hi))
        if tasks == 0:
            return []
        parts = self._parts(domain)
        if len(parts) == 1 and parts[0][0] < 0:
            return [Share(lo, hi, tasks)]
        shares: list[Share] = []
        while tasks > 0:
            chosen = self._choose(parts, tasks)
            parts.remove(chosen)
            child, begin, end = chosen
            amount = min(tasks, self.room(begin, end))
            shares += self.plan(child, amount) if child >= 0 else [Share(begin, end, amount)]
            tasks -= amount
        return shares

    def _parts(self, domain: int) -> list[tuple[int, int, int]]:
        """What a domain consists of: (child domain, lo, hi), and (-1, lo, hi) for nodes in no child."""
        topology = self._topology
        parts = [(child, int(topology.lo[child]), int(topology.hi[child])) for child in topology.children[domain]]
        begin = parts[-1][2] if parts else int(topology.lo[domain])
        if begin < topology.hi[domain]:
            parts.append((-1, begin, int(topology.hi[domain])))
        return parts

    def _choose(self, parts: list[tuple[int, int, int]], tasks: int) -> tuple[int, int, int]:
        whole = [part for part in parts if self.room(part[1], part[2]) >= tasks]
        if whole:
            return min(whole, key=lambda part: (-self._own_tasks(part), self._fewest(part[0], tasks), self._left(part)))
        # Domains that the gang is in already cost nothing new, so they are filled first.
        return min(
            parts, key=lambda part: (not (self._own_tasks(part) and self._left(part)), -self._left(part), part[1])
        )

    def _own_tasks(self, part: tuple[int, int, int]) -> int:
        return int(self._own[part[2]] - self._own[part[1]])

    def _left(self, part: tuple[int, int, int]) -> int:
        return self.room(part[1], part[2])

    def _fewest(self, domain: int, tasks: int) -> int:
        """How many children of a domain so many tasks must touch."""
        children = self._topology.children[domain] if domain >= 0 else ()
        if not children:
            return 0
        rows = np.array(children)
        rooms = np.sort(self._room[self._topology.hi[rows]] - self._room[self._topology.lo[rows]])[::-1]
        return int(np.searchsorted(np.cumsum(rooms), tasks)) + 1


def _sums(values: NDArray[np.int32]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(values, dtype=np.int64)))
