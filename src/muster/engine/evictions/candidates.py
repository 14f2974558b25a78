"""Who might give way to a job, and where it could fit if all of them did; made before any plugin is asked.

Callers: the gang strategy. Jobs of the same queue and priority have the same candidates, so they are kept until
something is committed: a gang that no eviction can help costs a few sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from muster.engine.evictions.clearing import Demand
from muster.engine.evictions.protection import without_barred
from muster.engine.victims import jobs_in_other_queues, jobs_in_queue_of, may_be_evicted, tasks_of
from muster.framework import Eviction, Session
from muster.kernels.totals import sum_requests
from muster.snapshot import Amounts, Mask, Rows, Snapshot


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tasks that might be evicted, their jobs, and what they hold on each node."""

    tasks: Rows
    #: Each once.
    jobs: Rows
    #: int64[nodes, resources]
    held: Amounts
    #: Jobs that must keep their minimum: only what they can spare may go.
    protected: Rows = field(default_factory=lambda: np.empty(0, np.int32))

    def inside(self, snapshot: Snapshot, domain: int) -> Rows:
        """Those on the nodes of a domain."""
        nodes = snapshot.tasks.node[self.tasks]
        lo, hi = snapshot.topology.lo[domain], snapshot.topology.hi[domain]
        tasks: Rows = self.tasks[(nodes >= lo) & (nodes < hi)]
        return tasks


class Pool:
    """Candidates of a session for one kind of eviction."""

    def __init__(self, session: Session, kind: Eviction) -> None:
        self._session = session
        self._kind = kind
        self._known: dict[tuple[int, int], Candidates] = {}
        self._commits = -1

    def of(self, job: int) -> Candidates:
        """Candidates for a job: in its queue those of lower priority, or those in other queues that give."""
        jobs = self._session.snapshot.jobs
        if self._commits != len(self._session.committed):
            self._commits = len(self._session.committed)
            self._known.clear()
        key = int(jobs.queue[job]), int(jobs.priority[job])
        if key not in self._known:
            self._known[key] = self._find(job)
        return self._known[key]

    def _find(self, job: int) -> Candidates:
        session, snapshot = self._session, self._session.snapshot
        jobs, tasks = snapshot.jobs, snapshot.tasks
        if self._kind is Eviction.PREEMPT:
            asked = jobs_in_queue_of(session, job) & (jobs.priority < jobs.priority[job])
        else:
            asked = jobs_in_other_queues(session, job)
        rows = np.flatnonzero(may_be_evicted(session) & tasks_of(session, asked & ~jobs.spared)).astype(np.int32)
        owners = _owners(snapshot, rows)
        givers, protected = without_barred(session, self._kind, job, owners)
        if len(givers) < len(owners):
            stays = np.ones(len(jobs), np.bool_)
            stays[givers] = False
            rows = rows[~stays[tasks.job[rows]]]
        held = np.zeros_like(snapshot.nodes.used())
        sum_requests(snapshot.classes.requests, tasks.cls[rows], tasks.node[rows], held)
        return Candidates(rows, givers, held, protected)


def _owners(snapshot: Snapshot, tasks: Rows) -> Rows:
    """The jobs of tasks, each once."""
    owners = np.zeros(len(snapshot.jobs), np.bool_)
    owners[snapshot.tasks.job[tasks]] = True
    return np.flatnonzero(owners).astype(np.int32)


def domains_with_room(snapshot: Snapshot, candidates: Candidates, demands: tuple[Demand, ...], domains: Rows) -> Mask:
    """Which domains would have places for every demand if all candidates were gone."""
    free = snapshot.nodes.future_idle() + candidates.held
    mask: Mask = np.ones(len(domains), np.bool_)
    lo, hi = snapshot.topology.lo[domains], snapshot.topology.hi[domains]
    for demand in demands:
        places = np.where(demand.nodes, places_on(free, demand.request), 0)
        sums = np.concatenate(([0], np.cumsum(np.minimum(places, demand.count), dtype=np.int64)))
        mask &= sums[hi] - sums[lo] >= demand.count
    return mask


def places_on(free: Amounts, request: Amounts) -> NDArray[np.int64]:
    """How many tasks with the request fit into each row of free amounts."""
    asked = request > 0
    places: NDArray[np.int64] = np.maximum(free[:, asked] // request[asked], 0).min(axis=1)
    return places


def nearness(snapshot: Snapshot, candidates: Candidates, demand: Demand) -> Rows:
    """Rank of every node by how little is missing for one more place, nodes that can never have one last."""
    free = snapshot.nodes.future_idle()
    asked = demand.request > 0
    target = (places_on(free, demand.request)[:, None] + 1) * demand.request[asked]
    missing = np.maximum(target - free[:, asked], 0)
    far = (missing / demand.request[asked]).sum(axis=1)
    far[~demand.nodes | (missing > candidates.held[:, asked]).any(axis=1)] = np.inf
    rank = np.empty(len(far), np.int32)
    rank[np.argsort(far, kind="stable")] = np.arange(len(far), dtype=np.int32)
    return rank


def bottlenecks(snapshot: Snapshot, demands: tuple[Demand, ...], domain: int) -> Mask:
    """Resources that are scarce in a domain: of each alone its nodes have too little, node by node, for some demand.

    When none is scarce by itself, all that is asked for are.
    """
    span = slice(int(snapshot.topology.lo[domain]), int(snapshot.topology.hi[domain]))
    free = np.maximum(snapshot.nodes.future_idle()[span], 0)
    scarce: Mask = np.zeros(free.shape[1], np.bool_)
    asked: Mask = np.zeros_like(scarce)
    for demand in demands:
        request = demand.request
        places = (free[demand.nodes[span]] // np.maximum(request, 1)).sum(axis=0)
        asked |= request > 0
        scarce |= (request > 0) & (places < demand.count)
    pods = snapshot.axis.index["pods"]
    asked[pods] &= not np.delete(asked, pods).any()
    scarce &= asked
    return scarce if scarce.any() else asked


def domain_free(snapshot: Snapshot, domain: int) -> Amounts:
    """What a domain has idle or will have."""
    lo, hi = int(snapshot.topology.lo[domain]), int(snapshot.topology.hi[domain])
    total: Amounts = np.maximum(snapshot.nodes.future_idle()[lo:hi], 0).sum(axis=0)
    return total
