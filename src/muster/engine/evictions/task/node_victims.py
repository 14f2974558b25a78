"""The fewest victims per node, for many nodes at once: enough of them in order, then those back that are not needed.

Callers: the task strategy, for one node or for all nodes that a run of equal tasks needs. Candidates come in the order
in which they should go. A victim is given back, dearest first, while the tasks still fit without it; so the choice is
minimal: no single victim could stay.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.task.supply import slots_in, sums_by_node
from muster.snapshot import Amounts, Mask, Rows


@dataclass(frozen=True, slots=True)
class NodeOffers:
    """What nodes have free and whom they could lose; candidates are sorted by node, each node's in victim order."""

    #: int64[nodes, resources]: free in the future.
    free: Amounts
    candidates: Rows
    #: int64[candidates, resources]
    held: Amounts
    #: Position of each candidate's node.
    where: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.free)

    def slots(self, request: Amounts) -> NDArray[np.int64]:
        """How many tasks with this request each node could hold without its candidates."""
        return slots_in(self.free + sums_by_node(self.held, self.where, len(self)), request)

    def keep(self, mask: Mask) -> NodeOffers:
        """The same nodes with fewer candidates."""
        if mask.all():
            return self
        return NodeOffers(self.free, self.candidates[mask], self.held[mask], self.where[mask])


def share_out(slots: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Give `count` tasks to nodes in order, each as many as it can hold."""
    before = np.cumsum(slots) - slots
    given: NDArray[np.int64] = np.clip(count - before, 0, slots)
    return given


def fewest_victims(offers: NodeOffers, request: Amounts, counts: NDArray[np.int64]) -> Mask:
    """Which candidates go so that each node can hold its number of tasks; all of them must be able to (`slots`)."""
    columns = np.flatnonzero(request > 0)
    needed = counts[:, None] * request[columns] - offers.free[:, columns]
    needed[counts == 0] = 0
    held = offers.held[:, columns]
    # A candidate goes unless those before it on its node free enough already.
    freed = _freed_before(held, offers.where)
    chosen: Mask = np.logical_not(np.all(freed >= needed[offers.where], axis=1))
    spare = sums_by_node(np.where(chosen[:, None], held, 0), offers.where, len(offers)) - needed
    returnable = chosen & (held <= spare[offers.where]).all(axis=1)
    for node in np.unique(offers.where[returnable]).tolist():
        first, last = np.searchsorted(offers.where, (node, node + 1))
        victims = first + np.flatnonzero(chosen[first:last])
        _give_back(chosen, victims, held, spare[node])
    return chosen


def _freed_before(held: Amounts, where: NDArray[np.int64]) -> Amounts:
    """What the candidates before each one on the same node free together."""
    before: Amounts = np.cumsum(held, axis=0) - held
    if len(where) == 0:
        return before
    starts = np.flatnonzero(np.diff(where, prepend=-1))
    lengths = np.diff(np.append(starts, len(where)))
    return before - np.repeat(before[starts], lengths, axis=0)


def _give_back(chosen: Mask, victims: NDArray[np.int64], held: Amounts, spare: Amounts) -> None:
    """Let victims of one node stay, the dearest first, as long as what is left over allows it."""
    for victim in victims[::-1].tolist():
        if (held[victim] <= spare).all():
            chosen[victim] = False
            spare -= held[victim]
