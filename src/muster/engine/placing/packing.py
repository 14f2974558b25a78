"""Packing equal tasks into a domain so that they touch as few smaller domains as possible, at every tier.

The plan is made from slot counts alone (how many of the tasks each node can take), from the top of the domain
down: one child that holds all is best (the one that already has tasks of the gang, then the one that needs the
fewest domains below, then the one that is left with the least room); otherwise as few children as possible, those
with the most room, or others if that touches fewer domains below. Nobody is split that need not be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.snapshot import NO_ROW, Rows, TopologyTable

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
    """A piece of a domain: a smaller domain, or (NO_ROW) the nodes that belong to none."""

    domain: int
    lo: int
    hi: int
    room: int
    own: int


class Packer:
    """Plans for one class of tasks at one moment."""

    def __init__(self, topology: TopologyTable, base: int, slots: Rows, own_nodes: Rows | None = None) -> None:
        """`slots`: how many tasks each node from `base` on takes; `own_nodes`: where the gang already has tasks."""
        self._topology = topology
        self._base = base
        self._room = _sums(slots)
        own = np.zeros(0, np.intp) if own_nodes is None else own_nodes - base
        self._own = _sums(np.bincount(own[(own >= 0) & (own < len(slots))], minlength=len(slots)))

    def fewest(self, domain: int, tasks: int) -> int:
        """How many pieces of a domain so many tasks must touch; 0: it has none."""
        return _touched(self._rooms_inside(domain), tasks) if self._children(domain) else 0

    def plan(self, domain: int, tasks: int) -> list[Share]:
        """Shares of up to `tasks` tasks inside a domain, as many as there is room for."""
        lo, hi = int(self._topology.lo[domain]), int(self._topology.hi[domain])
        room = int(self._room[hi - self._base] - self._room[lo - self._base])
        if tasks >= room:
            return [Share(lo, hi, room, full=True)] if room else []
        if not self._children(domain):
            return [Share(lo, hi, tasks, full=False)]
        shares: list[Share] = []
        for part, amount in self._divide(self._parts(domain), tasks):
            if amount == part.room or part.domain == NO_ROW:
                shares.append(Share(part.lo, part.hi, amount, full=amount == part.room))
            else:
                shares += self.plan(part.domain, amount)
        return shares

    def _children(self, domain: int) -> tuple[int, ...]:
        return self._topology.children[domain] if domain != NO_ROW else ()

    def _pieces(self, domain: int) -> tuple[Rows, Rows, Rows]:
        """What a domain consists of: smaller domains, and as NO_ROW the nodes that belong to none; first and last."""
        topology = self._topology
        pieces = np.array(self._children(domain), np.intp)
        lo, hi = topology.lo[pieces], topology.hi[pieces]
        if len(pieces) and hi[-1] < topology.hi[domain]:
            pieces = np.append(pieces, np.intp(NO_ROW))
            lo, hi = np.append(lo, hi[-1]), np.append(hi, topology.hi[domain])
        return pieces, lo, hi

    def _parts(self, domain: int) -> list[_Part]:
        """The pieces of a domain that have room."""
        pieces, lo, hi = self._pieces(domain)
        begin, stop = lo - self._base, hi - self._base
        room, own = self._room[stop] - self._room[begin], self._own[stop] - self._own[begin]
        columns = (pieces.tolist(), lo.tolist(), hi.tolist(), room.tolist(), own.tolist())
        return [_Part(*values) for values in zip(*columns, strict=True) if values[3]]

    def _rooms_inside(self, domain: int) -> NDArray[np.int64]:
        """The room of the pieces of a domain, the largest first."""
        _, lo, hi = self._pieces(domain)
        return np.sort(self._room[hi - self._base] - self._room[lo - self._base])[::-1]

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

    def _best_fit(self, parts: list[_Part], tasks: int) -> _Part:
        """The part, of those that hold all tasks, that is the closest and leaves the least behind."""
        return min(parts, key=lambda part: (-part.own, self.fewest(part.domain, tasks), part.room, part.lo))

    def _fewer_below(self, parts: list[_Part], tasks: int) -> list[tuple[_Part, int]] | None:
        """Shares of no more parts than the largest ones, but of fewer domains below; None: the largest do."""
        rooms = np.array([part.room for part in parts], np.int64)  # the largest first
        count = _touched(rooms, tasks)
        compared = parts[:_COMPARED]
        if count >= len(compared) or not any(self._children(part.domain) for part in parts[:count]):
            return None
        below = [self._rooms_inside(part.domain) for part in compared]
        below = [inner if len(inner) else rooms[k : k + 1] for k, inner in enumerate(below)]
        largest = list(range(count))
        chosen = _exchanged(rooms, below, largest, tasks)
        if chosen == largest:
            return None
        # The largest domains below are filled first, whosever they are.
        owners = np.repeat(np.arange(count), [len(below[k]) for k in chosen])
        inner = np.concatenate([below[k] for k in chosen])
        order = np.lexsort((owners, -inner))
        amounts = np.zeros(count, np.int64)
        np.add.at(amounts, owners[order], np.diff(np.minimum(np.cumsum(inner[order]), tasks), prepend=0))
        return [(parts[k], amount) for k, amount in zip(chosen, amounts.tolist(), strict=True) if amount]


def _exchanged(rooms: NDArray[np.int64], below: list[NDArray[np.int64]], chosen: list[int], tasks: int) -> list[int]:
    """Exchange chosen parts for others, one at a time, as long as that touches fewer domains below."""

    def touched(parts: list[int]) -> int:
        return _touched(np.sort(np.concatenate([below[k] for k in parts]))[::-1], tasks)

    def exchanges() -> Iterator[list[int]]:
        spare = int(rooms[chosen].sum()) - tasks
        for old, new in product(chosen, range(len(below))):
            if new not in chosen and rooms[old] - rooms[new] <= spare:
                yield sorted({*chosen, new} - {old})

    fewest = touched(chosen)
    while (other := next((one for one in exchanges() if touched(one) < fewest), None)) is not None:
        chosen, fewest = other, touched(other)
    return chosen


def _touched(rooms: NDArray[np.int64], tasks: int) -> int:
    """How many pieces with these rooms, the largest first, so many tasks take."""
    return int(np.searchsorted(np.cumsum(rooms), tasks)) + 1


def _sums(values: NDArray[np.integer]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(values, dtype=np.int64)))


def domains_used(topology: TopologyTable, domain: int, nodes: Rows) -> tuple[int, ...]:
    """How many domains of each tier below that of a domain some of its nodes are in, from the top tier down."""
    tiers = np.unique(topology.tier)
    below = [
        owner for tier, owner in zip(tiers, topology.owners_by_tier(), strict=True) if tier < topology.tier[domain]
    ]
    return tuple(len(np.unique(owner[nodes])) for owner in reversed(below))
