"""Supply: which tasks could be evicted on which node, and how many tasks a node could hold if all of them went.

Callers: the task strategy. Candidates lie sorted by node, so that those of any set of nodes are gathered without a
loop; what they would free is kept per node and brought up to date for the nodes that changed. Numbers here are upper
bounds, made before any plugin is asked: a node that fails by them cannot work.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from muster.framework import Session
from muster.snapshot import Amounts, Mask, Rows, TaskStatus

#: More tasks than any node holds.
MANY: Final = 2**31 - 1

_NOBODY: Rows = np.empty(0, np.int32)


class Supply:
    """Candidates of one evictor, or of several that may evict the same tasks."""

    def __init__(self, session: Session, candidates: Rows, protected: Rows = _NOBODY) -> None:
        self._snapshot = session.snapshot
        #: Jobs that must keep their minimum.
        self.protected = protected
        nodes = self._snapshot.tasks.node[candidates]
        order = np.argsort(nodes, kind="stable")
        #: All candidates, gone ones included, by node.
        self.tasks: Rows = candidates[order]
        self._starts = np.searchsorted(nodes[order], np.arange(len(self._snapshot.nodes) + 1))
        #: int64[nodes, resources]: what the candidates of a node hold.
        self.room: Amounts = np.zeros_like(self._snapshot.nodes.state[0])
        #: Nodes that have candidates, gone ones included.
        self.has_candidates: Mask = np.diff(self._starts) > 0
        self.refresh(np.flatnonzero(self.has_candidates).astype(np.int32))

    def __bool__(self) -> bool:
        return len(self.tasks) > 0

    def on(self, nodes: Rows) -> tuple[Rows, NDArray[np.int64]]:
        """Candidates still there on the given nodes, node after node, and the position of each one's node."""
        starts = self._starts[nodes]
        lengths = self._starts[nodes + 1] - starts
        where = np.repeat(np.arange(len(nodes)), lengths)
        before = np.cumsum(lengths) - lengths
        tasks = self.tasks[np.arange(len(where)) + (starts - before)[where]]
        staying = self._snapshot.tasks.status[tasks] != TaskStatus.RELEASING
        return tasks[staying], where[staying]

    def refresh(self, nodes: Rows) -> None:
        """Count again what could be freed on nodes where tasks were evicted, or came back."""
        tasks, where = self.on(nodes)
        held = self._snapshot.classes.requests[self._snapshot.tasks.cls[tasks], 0]
        self.room[nodes] = sums_by_node(held, where, len(nodes))

    def slots(self, request: Amounts, nodes: Rows | None = None) -> NDArray[np.int64]:
        """How many tasks with this request each node, or each of some nodes, could hold if every candidate went."""
        if nodes is None:
            return slots_in(self._snapshot.nodes.future_idle() + self.room, request)
        return slots_in(self._snapshot.nodes.future_idle()[nodes] + self.room[nodes], request)


def slots_in(free: Amounts, request: Amounts) -> NDArray[np.int64]:
    """How many tasks with this request fit into each row of free amounts; resources not asked for do not matter."""
    slots = np.full(len(free), MANY, np.int64)
    for column in np.flatnonzero(request > 0).tolist():
        np.minimum(slots, np.maximum(free[:, column], 0) // request[column], out=slots)
    return slots


def sums_by_node(amounts: Amounts, where: NDArray[np.int64], n_nodes: int) -> Amounts:
    """Add up rows that are sorted by the position of their node; int64[nodes, resources]."""
    sums: Amounts = np.zeros((n_nodes, amounts.shape[1]), np.int64)
    if len(where):
        starts = np.flatnonzero(np.diff(where, prepend=-1))
        sums[where[starts]] = np.add.reduceat(amounts, starts, axis=0)
    return sums
