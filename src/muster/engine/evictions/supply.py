"""What nodes could give: who might be evicted on each, and how many tasks they would hold if all of those went.

That is an upper bound, made before any plugin is asked: a node, or a domain, that fails by it cannot work. Candidates
lie sorted by node, so that those of any set of nodes are gathered without a loop. What is evicted or comes back in a
simulation is seen by the log of nodes that were touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import boards_of
from muster.engine.domains import count_classes
from muster.engine.evictions.candidates import Candidates
from muster.framework import FITS, Session
from muster.kernels.totals import sum_requests
from muster.snapshot import Amounts, Mask, Rows, Snapshot, TaskStatus, run_bounds, slots_in


@dataclass(frozen=True, slots=True)
class Demand:
    """So many equal tasks, and the nodes of the cluster that they may go to."""

    request: Amounts
    count: int
    nodes: Mask


def demands_of(session: Session, tasks: Rows) -> list[Demand]:
    """What tasks, of which there is at least one, ask for, class by class."""
    boards, requests = boards_of(session), session.snapshot.classes.requests
    classes, counts = (found.tolist() for found in count_classes(session.snapshot.tasks.cls[tasks]))
    return [
        Demand(requests[cls, 0], count, boards.verdicts(cls) == FITS)
        for cls, count in zip(classes, counts, strict=True)
    ]


class Supply:
    """Candidates of one evictor, or of several that may evict the same tasks, by node."""

    def __init__(self, snapshot: Snapshot, found: Candidates, gentle: Supply | None = None) -> None:
        self._snapshot = snapshot
        self.found = found
        #: What is tried first: the same candidates, of whom more must keep a minimum.
        self.gentle = gentle
        self._room = held_on_nodes(snapshot, found.tasks)
        self._seen = snapshot.touched

    def __bool__(self) -> bool:
        return bool(self.found)

    @cached_property
    def _by_node(self) -> tuple[Rows, Rows]:
        """All candidates, gone ones included, by node, and where those of each node begin."""
        nodes = self._snapshot.tasks.node[self.found.tasks]
        order = np.argsort(nodes, kind="stable")
        starts = np.searchsorted(nodes[order], np.arange(len(self._snapshot.nodes) + 1))
        return self.found.tasks[order], starts.astype(np.intp)

    @property
    def has_candidates(self) -> Mask:
        """Nodes that have candidates, gone ones included."""
        mask: Mask = np.diff(self._by_node[1]) > 0
        return mask

    def on(self, nodes: Rows) -> tuple[Rows, NDArray[np.int64]]:
        """Candidates still there on the given nodes, node after node, and the position of each one's node."""
        every, begins = self._by_node
        starts = begins[nodes]
        lengths = begins[nodes + 1] - starts
        where = np.repeat(np.arange(len(nodes)), lengths)
        before = np.cumsum(lengths) - lengths
        tasks = every[np.arange(len(where)) + (starts - before)[where]]
        staying = self._snapshot.tasks.status[tasks] != TaskStatus.RELEASING
        return tasks[staying], where[staying]

    @property
    def room(self) -> Amounts:
        """int64[nodes, resources]: what the candidates that are still there hold."""
        snapshot = self._snapshot
        if self._seen < snapshot.touched:
            nodes = np.unique(snapshot.touch_log[self._seen : snapshot.touched])
            self._seen = snapshot.touched
            tasks, where = self.on(nodes)
            self._room[nodes] = sums_by_node(snapshot.classes.requests[snapshot.tasks.cls[tasks], 0], where, len(nodes))
        return self._room

    def slots(self, request: Amounts, nodes: Rows | slice = np.s_[:]) -> NDArray[np.int64]:
        """How many tasks with this request each node, or each of some nodes, could hold if every candidate went."""
        return slots_in(self._snapshot.nodes.future_idle(nodes) + self.room[nodes], request)

    def places(self, domains: Rows, demands: Iterable[Demand]) -> NDArray[np.int64]:
        """How many of the tasks each domain could hold if every candidate went."""
        lo, hi = self._snapshot.topology.lo[domains], self._snapshot.topology.hi[domains]
        places = np.zeros(len(domains), np.int64)
        for demand in demands:
            slots = np.where(demand.nodes, self.slots(demand.request), 0)
            sums = np.concatenate(([0], np.cumsum(np.minimum(slots, demand.count), dtype=np.int64)))
            places += np.minimum(sums[hi] - sums[lo], demand.count)
        return places


def held_on_nodes(snapshot: Snapshot, tasks: Rows) -> Amounts:
    """int64[nodes, resources]: what the tasks hold on each node."""
    held: Amounts = np.zeros_like(snapshot.nodes.state[0])
    sum_requests(snapshot.classes.requests, snapshot.tasks.cls[tasks], snapshot.tasks.node[tasks], held)
    return held


def sums_by_node(amounts: Amounts, where: NDArray[np.int64], n_nodes: int) -> Amounts:
    """Add up rows that are sorted by the position of their node; int64[nodes, resources]."""
    sums: Amounts = np.zeros((n_nodes, amounts.shape[1]), np.int64)
    if len(where):
        starts = run_bounds(where)[:-1]
        sums[where[starts]] = np.add.reduceat(amounts, starts, axis=0)
    return sums
