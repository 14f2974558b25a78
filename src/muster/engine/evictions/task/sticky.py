"""The sticky domain: tasks that are placed one by one still end up where their job's topology constraint allows.

Before the first task of a job, or sub-group, has a place, every domain that could hold the rest is open; from then on
the largest allowed domain around what is placed is the only one. The pin is read from the snapshot, so running gangs
are held by what they already have, and a rollback unpins. Soft constraints leave all nodes open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.constraints import Constraint, constraint_of, domain_of, has_topology
from muster.engine.evictions.supply import Supply, demands_of
from muster.framework import Purpose, Session
from muster.snapshot import NO_ROW, Mask, Rows


@dataclass(slots=True)
class NodeScope:
    """Where tasks may go now."""

    #: None: all nodes.
    mask: Mask | None = None
    #: Whether the next task that is placed decides which of several domains it will be.
    is_open: bool = False
    #: The domain that was picked for the job out of several, NO_ROW: none was.
    domain: int = NO_ROW

    def of(self, nodes: Mask) -> Mask:
        """Those of the nodes that are inside."""
        return nodes if self.mask is None else nodes & self.mask


def scope_for(session: Session, job: int, tasks: Rows, supply: Supply, failed: Sequence[int]) -> NodeScope:
    """The scope of the first of `tasks`, which are all that the job still wants to place.

    Domains in `failed` were tried for the job in vain.
    """
    snapshot, topology = session.snapshot, session.snapshot.topology
    if snapshot.jobs.records[job].groups is not None:
        # What groups ask of a label topology cannot be kept node by node.
        return NodeScope(np.zeros(len(snapshot.nodes), np.bool_))
    scope = NodeScope()
    if not has_topology(session, job):
        return scope

    def able(domains: Rows, wanted: Rows, needed: int) -> Rows:
        """Domains that could hold what is needed of the tasks if everybody who might be evicted went."""
        enough = supply.places(domains, demands_of(session, wanted)) >= min(needed, len(wanted))
        found: Rows = domains[enough & ~np.isin(domains, failed)]
        return found

    def narrow(constraint: Constraint, placed: int, wanted: Rows, needed: int, proposed: Rows | None) -> None:
        """Stay within a constraint: around what is placed, else in a domain that could hold what is needed."""
        if constraint.limit is None or constraint.soft:
            return
        domains = np.empty(0, np.intp)
        if placed != NO_ROW:
            around = topology.highest_within(placed, constraint.limit)
            domains = np.array([around] if around != NO_ROW else [], np.intp)
        else:
            # The first proposed domain that could hold what is needed, else all of the largest ones that could.
            scope.is_open = True
            if proposed is not None:
                domains = able(proposed[topology.tier[proposed] <= constraint.limit], wanted, needed)[:1]
                scope.domain = int(domains[0]) if len(domains) else NO_ROW
            if len(domains) == 0:
                above = np.where(topology.parent == NO_ROW, constraint.limit + 1, topology.tier[topology.parent])
                largest = np.flatnonzero((topology.tier <= constraint.limit) & (above > constraint.limit))
                domains = able(largest.astype(np.intp), wanted, needed)
        inside = np.zeros(len(snapshot.nodes), np.bool_)
        for domain in domains.tolist():
            inside[topology.lo[domain] : topology.hi[domain]] = True
        scope.mask = scope.of(inside)

    needed = max(1, session.job_pipelined_deficit(job))
    answer = session.search_space(job, Purpose.EVICT)
    narrow(constraint_of(session, job), domain_of(snapshot, job), tasks, needed, answer)
    if snapshot.jobs.records[job].sub_groups:
        subgroup = int(snapshot.tasks.subgroup[tasks[0]])
        own = tasks[snapshot.tasks.subgroup[tasks] == subgroup]
        needed = max(1, session.subgroup_pipelined_deficit(subgroup))
        narrow(constraint_of(session, job, subgroup), domain_of(snapshot, job, subgroup), own, needed, None)
    return scope
