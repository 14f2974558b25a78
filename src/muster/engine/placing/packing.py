"""Packing equal tasks into a domain so that they touch as few smaller domains as possible, at every tier.

The plan is made from slot counts alone (how many of the tasks each node can take), from the top of the domain
down: one child that holds all is best (the one that already has tasks of the gang, then the one that needs the
fewest domains below, then the one that is left with the least room); otherwise as few children as possible, those
with the most room, or others if that touches fewer domains below. Nobody is split that need not be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import Boards
from muster.engine.domains import count_classes
from muster.framework import Session
from muster.kernels.placement import FUTURE
from muster.snapshot import Rows, TopologyTable

#: So many of the largest parts are compared; the others are hardly better.
_COMPARED: Final = 32


@dataclass(frozen=True, slots=True)
class Share:
    """So many tasks go to node rows lo..hi; `full`: as many as there is room for."""

    lo: int
    hi: int
    tasks: int
    full: bool


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece of a domain: a smaller domain, or (-1) the nodes that belong to none."""

    domain: int
    lo: int
    hi: int
    room: int
    own: int


class Packer:
    """Plans for one class of tasks at one moment."""

    def __init__(self, topology: TopologyTable, domain: int, slots: Rows, own_nodes: Rows) -> None:
        """`slots`: how many tasks each node of the domain takes; `own_nodes`: where the gang already has tasks."""
        self._topology = topology
        self._domain = domain
        self._base = int(topology.lo[domain])
        self._room = _sums(slots)
        own = own_nodes[(own_nodes >= self._base) & (own_nodes < self._base + len(slots))] - self._base
        self._own = None if len(own) == 0 else _sums(np.bincount(own, minlength=len(slots)))

    def plan(self, tasks: int) -> list[Share]:
        """Shares of up to `tasks` tasks inside the domain, as many as there is room for."""
        return self._plan(self._domain, tasks)

    def _plan(self, domain: int, tasks: int) -> list[Share]:
        lo, hi = int(self._topology.lo[domain]), int(self._topology.hi[domain])
        room = int(self._room[hi - self._base] - self._room[lo - self._base])
        if tasks >= room:
            return [Share(lo, hi, room, full=True)] if room else []
        children = self._topology.children[domain]
        if not children:
            return [Share(lo, hi, tasks, full=False)]
        shares: list[Share] = []
        for part, amount in self._divide(self._parts(domain), tasks):
            if amount == part.room:
                shares.append(Share(part.lo, part.hi, amount, full=True))
            elif part.domain < 0:
                shares.append(Share(part.lo, part.hi, amount, full=False))
            else:
                shares += self._plan(part.domain, amount)
        return shares

    def _parts(self, domain: int) -> list[_Part]:
        """What a domain consists of, pieces without room left out."""
        topology = self._topology
        children = np.array(topology.children[domain], np.int32)
        lo, hi = topology.lo[children], topology.hi[children]
        end = int(hi[-1])
        if end < topology.hi[domain]:
            children = np.append(children, np.int32(-1))
            lo, hi = np.append(lo, np.int32(end)), np.append(hi, topology.hi[domain])
        begin, stop = lo - self._base, hi - self._base
        room = self._room[stop] - self._room[begin]
        own = np.zeros(len(lo), np.int64) if self._own is None else self._own[stop] - self._own[begin]
        return [
            _Part(*values)
            for values in zip(children.tolist(), lo.tolist(), hi.tolist(), room.tolist(), own.tolist(), strict=True)
            if values[3]
        ]

    def _divide(self, parts: list[_Part], tasks: int) -> list[tuple[_Part, int]]:
        """Which parts get how many tasks; the parts together have room for all."""
        # Parts that the gang is in already cost nothing new, so they are filled first.
        parts.sort(key=lambda part: (part.own == 0, -part.room, part.lo))
        chosen: list[tuple[_Part, int]] = []
        left = tasks
        first_new = sum(part.own > 0 for part in parts)
        for k, part in enumerate(parts):
            whole = [other for other in parts[k:] if other.room >= left]
            if whole and (part.own == 0 or any(other.own for other in whole)):
                chosen.append((self._best_fit(whole, left), left))
                break
            others = self._fewer_below(parts[k:], left) if k == first_new else None
            if others is not None:
                return chosen + others
            chosen.append((part, part.room))
            left -= part.room
        return chosen

    def _fewer_below(self, parts: list[_Part], tasks: int) -> list[tuple[_Part, int]] | None:
        """Shares of no more parts than the largest ones, but of fewer domains below; None: the largest do."""
        rooms = np.array([part.room for part in parts], np.int64)  # the largest first
        count = int(np.searchsorted(np.cumsum(rooms), tasks)) + 1
        below = [self._rooms_below(part) for part in parts[:_COMPARED]]
        if count >= len(below) or all(len(inner) == 1 for inner in below[:count]):
            return None
        largest = list(range(count))
        chosen = _exchanged(rooms, below, largest, tasks)
        if chosen == largest:
            return None
        return self._share_out([parts[k] for k in chosen], [below[k] for k in chosen], tasks)

    def _share_out(self, parts: list[_Part], below: list[NDArray[np.int64]], tasks: int) -> list[tuple[_Part, int]]:
        """How many tasks each of the parts gets: the largest domains below are filled first, whosever they are."""
        owners = np.repeat(np.arange(len(parts)), [len(inner) for inner in below])
        rooms = np.concatenate(below)
        order = np.lexsort((owners, -rooms))
        filled = np.minimum(np.cumsum(rooms[order]), tasks)
        amounts = np.zeros(len(parts), np.int64)
        np.add.at(amounts, owners[order], np.diff(filled, prepend=0))
        return [(part, amount) for part, amount in zip(parts, amounts.tolist(), strict=True) if amount]

    def _rooms_below(self, part: _Part) -> NDArray[np.int64]:
        """The room of what a part consists of, the largest first; nodes that belong to no smaller domain as one."""
        rows = np.array(self._topology.children[part.domain] if part.domain >= 0 else (), np.int32)
        begin, stop = self._topology.lo[rows] - self._base, self._topology.hi[rows] - self._base
        rooms = self._room[stop] - self._room[begin]
        rest = part.room - int(rooms.sum())
        return np.sort(np.append(rooms, rest) if rest else rooms)[::-1]

    def _best_fit(self, parts: list[_Part], tasks: int) -> _Part:
        """The part, of those that hold all tasks, that is the closest and leaves the least behind."""
        return min(parts, key=lambda part: (-part.own, self._fewest(part.domain, tasks), part.room, part.lo))

    def _fewest(self, domain: int, tasks: int) -> int:
        """How many children of a domain so many tasks must touch."""
        children = self._topology.children[domain] if domain >= 0 else ()
        if not children:
            return 0
        rows = np.array(children)
        begin, stop = self._topology.lo[rows] - self._base, self._topology.hi[rows] - self._base
        rooms = np.sort(self._room[stop] - self._room[begin])[::-1]
        return int(np.searchsorted(np.cumsum(rooms), tasks)) + 1


def _exchanged(rooms: NDArray[np.int64], below: list[NDArray[np.int64]], chosen: list[int], tasks: int) -> list[int]:
    """Exchange chosen parts for others, one at a time, as long as that touches fewer domains below."""

    def touched(parts: list[int]) -> int:
        inner = np.sort(np.concatenate([below[k] for k in parts]))[::-1]
        return int(np.searchsorted(np.cumsum(inner), tasks)) + 1

    fewest = touched(chosen)
    improved = True
    while improved:
        improved = False
        total = int(rooms[chosen].sum())
        for place, old in enumerate(chosen):
            for new in range(len(below)):
                if new in chosen or total - rooms[old] + rooms[new] < tasks:
                    continue
                other = [*chosen[:place], new, *chosen[place + 1 :]]
                count = touched(other)
                if count < fewest:
                    chosen, fewest, improved = sorted(other), count, True
                    break
            if improved:
                break
    return chosen


def _sums(values: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(values, dtype=np.int64)))


def fewest_domains(session: Session, boards: Boards, tasks: Rows, domains: Rows) -> Rows | None:
    """How many smaller domains equal tasks would touch in each of some domains; None: that cannot be told, or none."""
    topology = session.snapshot.topology
    classes, counts = count_classes(session.snapshot.tasks.cls[tasks])
    if len(domains) < 2 or len(classes) > 1 or not any(topology.children[domain] for domain in domains.tolist()):
        return None
    base, end = int(topology.lo[domains].min()), int(topology.hi[domains].max())
    room = _sums(boards.get(int(classes[0]), FUTURE).slots(session.snapshot, base, end))
    found = np.zeros(len(domains), np.int32)
    for k, domain in enumerate(domains.tolist()):
        children = np.array(topology.children[domain], np.int32)
        if len(children):
            rooms = np.sort(room[topology.hi[children] - base] - room[topology.lo[children] - base])[::-1]
            found[k] = int(np.searchsorted(np.cumsum(rooms), int(counts[0]))) + 1
    return found


def domains_used(topology: TopologyTable, domain: int, nodes: Rows) -> tuple[int, ...]:
    """How many domains of each tier below that of a domain some of its nodes are in, from the top tier down."""
    tiers = np.unique(topology.tier)
    below = [
        owner for tier, owner in zip(tiers, topology.owners_by_tier(), strict=True) if tier < topology.tier[domain]
    ]
    return tuple(len(np.unique(owner[nodes])) for owner in reversed(below))
