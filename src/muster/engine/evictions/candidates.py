"""Who might give way to a job: one pool for every strategy, made before anybody looks for room.

What holds whatever plugins and strategies say is applied here, once: pods of other schedulers, pods that the cluster
itself depends on, pods and jobs that say that they are not to be evicted are nobody's victims; inside a queue nobody
takes from a higher priority; queues that do not let themselves be taken from keep what they have. Plugins that protect
are asked about each candidate by itself. A gang of which some pod cannot go, or whose minimum is protected, gives what
it can spare and no more. Jobs of the same queue and priority have the same candidates, so these are kept until
something is committed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from muster.engine.evictions.surplus import job_surplus
from muster.framework import Eviction, Evictor, Session
from muster.snapshot import CRITICAL, FOREIGN, NO_ROW, PREEMPTABLE, Mask, Rows, Snapshot, TaskStatus
from muster.snapshot.records import stamp_text

#: Pods that are on a node and can be told to leave it.
ON_NODE: Mask = np.isin(np.arange(len(TaskStatus)), (TaskStatus.RUNNING, TaskStatus.BOUND))
_HOLDS_PLACE: Mask = np.isin(
    np.arange(len(TaskStatus)), (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.ALLOCATED)
)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tasks that might be evicted, and their jobs."""

    tasks: Rows
    #: Each once.
    jobs: Rows
    #: Those of the jobs that must keep their minimum: only what they can spare may go.
    protected: Rows = field(default_factory=lambda: np.empty(0, np.int32))
    #: Pods that the kind of eviction could take, but that are not preemptible or marked, and that plugins protect;
    #: gangs that give nothing because they must keep their minimum.
    spared: int = 0
    shielded: int = 0
    barred: int = 0
    #: When the first protection that plugins know the end of is over; None: they know of none.
    until: float | None = None

    def __bool__(self) -> bool:
        return len(self.tasks) > 0

    def __str__(self) -> str:
        """What stands in the way, with numbers."""
        parts = [
            (self.spared, "pod is not preemptible", "pods are not preemptible"),
            (self.shielded, "pod is kept by plugins", "pods are kept by plugins"),
            (self.barred, "gang must keep its minimum", "gangs must keep their minimum"),
        ]
        told = [f"{count} {one if count == 1 else more}" for count, one, more in parts if count]
        if self.until is not None:
            told.append(f"the first protection ends at {stamp_text(math.ceil(self.until))}")
        return ", ".join(told)

    def sparing(self, snapshot: Snapshot) -> Candidates:
        """The same when everybody must keep its minimum: for those who would only be more than they need."""
        can_spare = job_surplus(snapshot, self.jobs)[self.jobs] > 0
        stays: Mask = np.zeros(len(snapshot.jobs), np.bool_)
        stays[self.jobs[~can_spare]] = True
        jobs, tasks = self.jobs[can_spare], self.tasks[~stays[snapshot.tasks.job[self.tasks]]]
        return replace(self, tasks=tasks, jobs=jobs, protected=jobs, barred=self.barred + int(stays.sum()))

    def inside(self, snapshot: Snapshot, domain: int) -> Rows:
        """Those on the nodes of a domain."""
        nodes = snapshot.tasks.node[self.tasks]
        lo, hi = snapshot.topology.lo[domain], snapshot.topology.hi[domain]
        tasks: Rows = self.tasks[(nodes >= lo) & (nodes < hi)]
        return tasks


class Pool:
    """Candidates of a session for one kind of eviction.

    `statuses` says, by state, which tasks may be taken at all; with `equals`, jobs of the same priority may be taken
    from inside a queue, and it is for the plugins to say no. With `bars`, protected gangs that can spare nothing are
    left out.
    """

    def __init__(
        self,
        session: Session,
        kind: Eviction,
        statuses: Mask = ON_NODE,
        *,
        equals: bool = False,
        bars: bool = True,
    ) -> None:
        self._bars = bars
        self._session = session
        self._kind = kind
        self._statuses = statuses
        self._equals = equals
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
            self._known[key] = self.find(job)
        return self._known[key]

    def find(self, job: int) -> Candidates:
        """As `of`, as things stand now."""
        snapshot = self._session.snapshot
        jobs, tasks = snapshot.jobs, snapshot.tasks
        reach = np.append(self._jobs_for(job), np.False_)[tasks.job] & on_node(snapshot, self._statuses)
        asked = np.flatnonzero(reach & willing(snapshot)).astype(np.int32)
        evictor = Evictor(job, snapshot.tasks_of(job), breaks_gangs=True, each_alone=True)
        with self._session.hearing_until() as moments:
            rows = self._session.may_go(self._kind, evictor, asked)
            owners = owners_of(snapshot, rows)
            protected = self._must_keep_minimum(job, owners, rows)
        until = min(moments, default=None)
        spared, shielded = int(np.count_nonzero(reach)) - len(asked), len(asked) - len(rows)
        if len(protected) == 0 or not self._bars:
            return Candidates(rows, owners, protected, spared, shielded, until=until)
        can_spare = job_surplus(snapshot)[protected] > 0
        barred: Mask = np.zeros(len(jobs), np.bool_)
        barred[protected[~can_spare]] = True
        rows, owners = rows[~barred[tasks.job[rows]]], owners[~barred[owners]]
        return Candidates(rows, owners, protected[can_spare], spared, shielded, int(barred.sum()), until)

    def _jobs_for(self, job: int) -> Mask:
        """Jobs that the kind of eviction lets the job take from."""
        jobs, queues = self._session.snapshot.jobs, self._session.snapshot.queues
        gives: Mask = jobs.queue != NO_ROW
        if job != NO_ROW:
            gives[job] = False
        if queues.broken:
            gives &= ~np.isin(jobs.queue, list(queues.broken))
        if self._kind is Eviction.PREEMPT:
            gives &= jobs.queue == jobs.queue[job]
            gives &= jobs.priority <= jobs.priority[job] if self._equals else jobs.priority < jobs.priority[job]
        elif self._kind is Eviction.RECLAIM:
            giving = np.array([record.reclaimable for record in queues.records] + [False], np.bool_)
            gives &= (jobs.queue != jobs.queue[job]) & giving[jobs.queue]
        return gives

    def _must_keep_minimum(self, job: int, owners: Rows, rows: Rows) -> Rows:
        """Those of the jobs that are protected, or of which some pod that holds a place cannot go."""
        snapshot = self._session.snapshot
        table = snapshot.tasks
        stays = _HOLDS_PLACE[table.status] & (table.job != NO_ROW)
        stays &= np.isin(table.status, np.flatnonzero(self._statuses)) | ((table.flags & _MARKS) != PREEMPTABLE)
        stays[rows] = False
        stuck = np.zeros(len(snapshot.jobs), np.bool_)
        stuck[table.job[stays]] = True
        protected: Rows = owners[self._session.protected(self._kind, job, owners) | stuck[owners]]
        return protected


_MARKS = PREEMPTABLE | FOREIGN | CRITICAL


def on_node(snapshot: Snapshot, statuses: Mask = ON_NODE) -> Mask:
    """Tasks in one of the states, and on a node."""
    mask: Mask = statuses[snapshot.tasks.status] & (snapshot.tasks.node != NO_ROW)
    return mask


def willing(snapshot: Snapshot) -> Mask:
    """Tasks that somebody might evict: of this scheduler, not of the cluster itself, and not marked otherwise."""
    tasks = snapshot.tasks
    mask: Mask = ((tasks.flags & _MARKS) == PREEMPTABLE) & (tasks.job != NO_ROW)
    mask &= ~np.append(snapshot.jobs.spared, np.True_)[tasks.job]
    return mask


def owners_of(snapshot: Snapshot, tasks: Rows) -> Rows:
    """The jobs of tasks, each once."""
    owners = np.zeros(len(snapshot.jobs), np.bool_)
    owners[snapshot.tasks.job[tasks]] = True
    return np.flatnonzero(owners).astype(np.int32)
