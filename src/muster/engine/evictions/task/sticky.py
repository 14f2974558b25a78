"""The sticky domain: tasks that are placed one by one still end up where their job's topology constraint allows.

Callers: the task strategy, before each run of tasks. Before the first task of a job, or sub-group, has a place, every
domain that could hold the rest is open; from then on the largest allowed domain around what is placed is the only
one. The pin is read from the snapshot, so running gangs are held by what they already have, and a rollback unpins.
Soft constraints leave all nodes open.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.engine.constraints import (
    Constraint,
    has_topology,
    job_constraint,
    job_domain,
    subgroup_constraint,
    subgroup_domain,
)
from muster.framework import Purpose, Session
from muster.snapshot import NO_ROW, Mask, Rows

#: Class -> how many of its tasks each node could hold at most.
SlotsOf = Callable[[int], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
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
        if self.open is not None:
            return self.open
        inside = np.zeros(n_nodes, np.bool_)
        inside[self.lo : self.hi] = True
        return inside


def scope_for(session: Session, job: int, tasks: Rows, slots_of: SlotsOf, failed: Sequence[int] = ()) -> NodeScope:
    """The scope of the first of `tasks`, which are all that the job still wants to place.

    Domains in `failed` were tried for the job in vain.
    """
    snapshot = session.snapshot
    if snapshot.jobs.records[job].groups is not None:
        # What groups ask of a label topology cannot be kept node by node.
        return NodeScope(0, 0)
    if not has_topology(session, job):
        return NodeScope(0, len(snapshot.nodes))
    scope = _Narrowing(session, slots_of, failed)
    needed = max(1, session.job_pipelined_deficit(job))
    answer = session.search_space(job, Purpose.EVICT)
    scope.hold(job_constraint(session, job), job_domain(snapshot, job), tasks, needed, answer)
    if snapshot.jobs.records[job].sub_groups:
        subgroup = int(snapshot.tasks.subgroup[tasks[0]])
        own = tasks[snapshot.tasks.subgroup[tasks] == subgroup]
        needed = max(1, session.subgroup_pipelined_deficit(subgroup))
        scope.hold(subgroup_constraint(session, subgroup), subgroup_domain(snapshot, subgroup), own, needed, None)
    return scope.result()


class _Narrowing:
    """A scope that shrinks with every constraint."""

    def __init__(self, session: Session, slots_of: SlotsOf, failed: Sequence[int]) -> None:
        self._failed = failed
        self._domain = NO_ROW
        self._session = session
        self._topology = session.snapshot.topology
        self._slots_of = slots_of
        self._lo, self._hi = 0, len(session.snapshot.nodes)
        self._open: Mask | None = None

    def hold(self, constraint: Constraint, placed: int, tasks: Rows, needed: int, proposed: Rows | None) -> None:
        """Stay within a constraint: around what is placed, else in a domain that could hold what is needed."""
        if constraint.limit is None or constraint.soft:
            return
        topology = self._topology
        if placed == NO_ROW:
            self._choose(constraint.limit, tasks, needed, proposed)
            return
        around = topology.highest_within(placed, constraint.limit)
        if around == NO_ROW:
            self._hi = self._lo
            return
        self._lo, self._hi = max(self._lo, int(topology.lo[around])), min(self._hi, int(topology.hi[around]))

    def result(self) -> NodeScope:
        if self._open is not None:
            self._open[: self._lo] = False
            self._open[max(self._lo, self._hi) :] = False
        return NodeScope(self._lo, max(self._lo, self._hi), self._open, self._domain)

    def _choose(self, limit: int, tasks: Rows, needed: int, proposed: Rows | None) -> None:
        """Open the first proposed domain that could hold what is needed, else all of the largest ones that could."""
        topology = self._topology
        able = np.empty(0, np.int32)
        if proposed is not None:
            able = self._able(proposed[topology.tier[proposed] <= limit], tasks, needed)[:1]
            self._domain = int(able[0]) if len(able) else NO_ROW
        if len(able) == 0:
            above = np.where(topology.parent == NO_ROW, limit + 1, topology.tier[topology.parent])
            largest = np.flatnonzero((topology.tier <= limit) & (above > limit)).astype(np.int32)
            able = self._able(largest, tasks, needed)
        chosen = np.zeros(len(self._session.snapshot.nodes), np.bool_)
        for domain in able.tolist():
            chosen[topology.lo[domain] : topology.hi[domain]] = True
        self._open = chosen if self._open is None else self._open & chosen

    def _able(self, domains: Rows, tasks: Rows, needed: int) -> Rows:
        """Domains that could hold what is needed of the tasks if everybody who might be evicted went."""
        topology = self._topology
        lo, hi = topology.lo[domains], topology.hi[domains]
        room = np.zeros(len(domains), np.int64)
        classes, counts = np.unique(self._session.snapshot.tasks.cls[tasks], return_counts=True)
        for cls, count in zip(classes.tolist(), counts.tolist(), strict=True):
            sums = np.concatenate(([0], np.cumsum(np.minimum(self._slots_of(cls), count))))
            room += np.minimum(sums[hi] - sums[lo], count)
        able: Rows = domains[(room >= min(needed, len(tasks))) & ~np.isin(domains, self._failed)]
        return able
