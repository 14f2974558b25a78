"""Asking who may be evicted on which nodes: candidates in the order in which they go, as far as everybody agrees.

Callers: the task strategy. Plugins are asked by `Session.evictable`; what they allow is then cut
down to what protected gangs, PodDisruptionBudgets and, across queues, deserved shares allow, whatever tier said yes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.deserved import have_too_much
from muster.engine.evictions.protection import spared_by
from muster.engine.evictions.task.eligibility import takes_from
from muster.engine.evictions.task.node_victims import NodeOffers
from muster.engine.evictions.task.supply import Supply
from muster.engine.evictions.victims import victim_order
from muster.framework import Eviction, Evictor, Session
from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, USED
from muster.snapshot import Amounts, Mask, Rows


class Asking:
    """Questions of one action."""

    def __init__(self, session: Session, kind: Eviction, budgets: Budgets) -> None:
        self._session = session
        self._kind = kind
        self._budgets = budgets
        #: Whether one question may be about many nodes.
        self.at_once = session.has_steady_victims(kind)

    def offers(self, task: int, nodes: Rows, supply: Supply) -> NodeOffers:
        """What the nodes could offer to the task together: whoever is named may go with all others that are named."""
        everybody = self.line_up(task, nodes, supply)
        return everybody.keep(self.allowed(task, everybody.candidates, supply))

    def line_up(self, task: int, nodes: Rows, supply: Supply) -> NodeOffers:
        """All candidates on the nodes, in the order in which they would go; nobody has been asked yet."""
        snapshot = self._session.snapshot
        found, where = supply.on(nodes)
        candidates = takes_from(self._session, task, found)
        if len(candidates) < len(found):
            where = where[np.isin(found, candidates)]
        candidates, where = self._in_order(task, candidates, where)
        held = snapshot.classes.requests[snapshot.tasks.cls[candidates], 0]
        return NodeOffers(free_on(self._session, nodes), candidates, held, where)

    def _in_order(self, task: int, candidates: Rows, where: NDArray[np.int64]) -> tuple[Rows, NDArray[np.int64]]:
        """Order the candidates of each node as victims."""
        if len(candidates) < 2:
            return candidates, where
        table = self._session.snapshot.tasks
        jobs = table.job[candidates]
        if (jobs[1:] == jobs[:-1])[where[1:] == where[:-1]].all():
            # One job per node: no need to know how the jobs stand to each other.
            ordered = self._session.sort_tasks(candidates)[::-1]
        else:
            ordered = victim_order(self._session, candidates, int(table.job[task]))
        places = np.empty(len(table), np.int64)
        places[candidates] = where
        by_node = np.argsort(places[ordered], kind="stable")
        return ordered[by_node], where

    def allowed(self, task: int, candidates: Rows, supply: Supply) -> Mask:
        """Which candidates the task may evict, all of them together, taken in the order given."""
        session = self._session
        mask: Mask = np.isin(candidates, session.evictable(self._kind, evictor_of(session, task), candidates))
        mask[mask] = spared_by(session.snapshot, supply.protected, candidates[mask])
        if self._budgets:
            mask[mask] = self._budgets.allowed(candidates[mask])
        if self._kind is Eviction.RECLAIM:
            mask[mask] = have_too_much(session, candidates[mask], session.snapshot.request(task) > 0)
        return mask


def evictor_of(session: Session, task: int) -> Evictor:
    """A task that asks for room by itself."""
    return Evictor(int(session.snapshot.tasks.job[task]), np.array([task], np.int32))


def free_on(session: Session, nodes: Rows) -> Amounts:
    """What nodes will have free; int64[nodes, resources]."""
    state = session.snapshot.nodes.state
    free: Amounts = state[ALLOCATABLE, nodes] - state[USED, nodes] + state[RELEASING, nodes] - state[PIPELINED, nodes]
    return free
