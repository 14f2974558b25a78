"""The sticky domain: tasks that are placed one by one still end up where their job's topology constraint allows.

Before the first task of a job, or sub-group, has a place, every domain that could hold the rest is open; from then on
the largest allowed domain around what is placed is the only one. The pin is read from the snapshot, so running gangs
are held by what they already have, and a rollback unpins. Soft constraints leave all nodes open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.engine.constraints import (
    Constraint,
    constraint_of,
    domain_of,
    has_topology,
)
from muster.framework import Purpose, Session
from muster.snapshot import NO_ROW, Mask, Rows

#: Class -> how many of its tasks each node could hold at most.
SlotsOf = Callable[[int], NDArray[np.int64]]


@dataclass(slots=True)
class NodeScope:
    """Where tasks may go now: node rows lo..hi, of these only the open ones."""

    lo: int
    hi: int
    #: None: all of lo..hi. Otherwise the next task that is placed decides which domain it will be.
    open: Mask | None = None
    #: The domain that was picked for the job out of several, NO_ROW: none was.
    domain: int = NO_ROW

    def covers(self, n_nodes: int) -> bool:
        """Whether it is all nodes."""
        return self.open is None and self.lo == 0 and self.hi == n_nodes

    def mask(self, n_nodes: int) -> Mask:
        inside = np.zeros(n_nodes, np.bool_)
        inside[self.lo : self.hi] = True
        return inside if self.open is None else inside & self.open


def scope_for(session: Session, job: int, tasks: Rows, slots_of: SlotsOf, failed: Sequence[int] = ()) -> NodeScope:
    """The scope of the first of `tasks`, which are all that the job still wants to place.

    Domains in `failed` were tried for the job in vain.
    """
    snapshot = session.snapshot
    if snapshot.jobs.records[job].groups is not None:
        # What groups ask of a label topology cannot be kept node by node.
        return NodeScope(0, 0)
    scope = NodeScope(0, len(snapshot.nodes))
    if not has_topology(session, job):
        return scope

    def able(domains: Rows, wanted: Rows, needed: int) -> Rows:
        """Domains that could hold what is needed of the tasks if everybody who might be evicted went."""
        lo, hi = snapshot.topology.lo[domains], snapshot.topology.hi[domains]
        room = np.zeros(len(domains), np.int64)
        classes, counts = np.unique(snapshot.tasks.cls[wanted], return_counts=True)
        for cls, count in zip(classes.tolist(), counts.tolist(), strict=True):
            sums = np.concatenate(([0], np.cumsum(np.minimum(slots_of(cls), count))))
            room += np.minimum(sums[hi] - sums[lo], count)
        found: Rows = domains[(room >= min(needed, len(wanted))) & ~np.isin(domains, failed)]
        return found

    def narrow(constraint: Constraint, placed: int, wanted: Rows, needed: int, proposed: Rows | None) -> None:
        """Stay within a constraint: around what is placed, else in a domain that could hold what is needed."""
        topology = snapshot.topology
        if constraint.limit is None or constraint.soft:
            return
        if placed != NO_ROW:
            around = topology.highest_within(placed, constraint.limit)
            lo, hi = (0, 0) if around == NO_ROW else (int(topology.lo[around]), int(topology.hi[around]))
            scope.lo, scope.hi = max(scope.lo, lo), max(scope.lo, lo, min(scope.hi, hi))
            return
        # The first proposed domain that could hold what is needed, else all of the largest ones that could.
        domains = wanted[:0]
        if proposed is not None:
            domains = able(proposed[topology.tier[proposed] <= constraint.limit], wanted, needed)[:1]
            scope.domain = int(domains[0]) if len(domains) else NO_ROW
        if len(domains) == 0:
            above = np.where(topology.parent == NO_ROW, constraint.limit + 1, topology.tier[topology.parent])
            largest = np.flatnonzero((topology.tier <= constraint.limit) & (above > constraint.limit))
            domains = able(largest.astype(np.int32), wanted, needed)
        chosen = np.zeros(len(snapshot.nodes), np.bool_)
        for domain in domains.tolist():
            chosen[topology.lo[domain] : topology.hi[domain]] = True
        scope.open = chosen if scope.open is None else scope.open & chosen

    needed = max(1, session.job_pipelined_deficit(job))
    answer = session.search_space(job, Purpose.EVICT)
    narrow(constraint_of(session, job), domain_of(snapshot, job), tasks, needed, answer)
    if snapshot.jobs.records[job].sub_groups:
        subgroup = int(snapshot.tasks.subgroup[tasks[0]])
        own = tasks[snapshot.tasks.subgroup[tasks] == subgroup]
        needed = max(1, session.subgroup_pipelined_deficit(subgroup))
        narrow(constraint_of(session, job, subgroup), domain_of(snapshot, job, subgroup), own, needed, None)
    return scope
