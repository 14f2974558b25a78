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
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

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


#: So many jobs are named where several are kept by the same; of the others it is said how many they are.
_NAMED = 3
#: Why pods are kept, for one job and for several.
_FIRM = ("is not preemptible", "are not preemptible")
_MINIMUM = ("must keep its minimum", "must keep their minimum")


@dataclass(frozen=True, slots=True)
class Kept:
    """Pods that nobody gets, and why."""

    why: tuple[str, str]
    tasks: Rows
    #: Whether it ends: what plugins say about these very jobs; None: nobody knows an end.
    ends: Callable[[Rows], float | None] | None = None

    def told(self, session: Session) -> str:
        """As explanations have it: the jobs, why, until when, and how many pods."""
        snapshot = session.snapshot
        jobs = owners_of(snapshot, self.tasks)
        named = ", ".join(sorted(snapshot.jobs.records[job].id for job in jobs.tolist())[:_NAMED])
        who = f"{named} and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else named
        end = None if self.ends is None else self.ends(jobs)
        first = "the first " if len(jobs) > 1 else ""
        until = "" if end is None else f" {first}until {stamp_text(math.ceil(end))}"
        pods = "1 pod" if len(self.tasks) == 1 else f"{len(self.tasks)} pods"
        return f"{who} {self.why[len(jobs) > 1]}{until} ({pods})"


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tasks that might be evicted, and their jobs."""

    tasks: Rows
    #: Each once.
    jobs: Rows
    #: Those of the jobs that must keep their minimum: only what they can spare may go.
    protected: Rows = field(default_factory=lambda: np.empty(0, np.int32))
    #: Why jobs that the kind of eviction could take from give nothing, with their pods.
    kept: tuple[Kept, ...] = ()

    def __bool__(self) -> bool:
        return len(self.tasks) > 0

    def obstacles(self, session: Session) -> str:
        """Who stands in the way, kept by what and until when, with numbers."""
        return ", ".join(kept.told(session) for kept in self.kept)

    def sparing(self, snapshot: Snapshot) -> Candidates:
        """The same when everybody must keep its minimum: for those who would only be more than they need."""
        can_spare = job_surplus(snapshot, self.jobs)[self.jobs] > 0
        stays: Mask = np.zeros(len(snapshot.jobs), np.bool_)
        stays[self.jobs[~can_spare]] = True
        jobs, tasks = self.jobs[can_spare], self.tasks[~stays[snapshot.tasks.job[self.tasks]]]
        barred = self.tasks[stays[snapshot.tasks.job[self.tasks]]]
        kept = (*self.kept, Kept(_MINIMUM, barred)) if len(barred) else self.kept
        return replace(self, tasks=tasks, jobs=jobs, protected=jobs, kept=kept)

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
        self._told: dict[tuple[int, int], str] = {}
        self._commits = -1

    def of(self, job: int) -> Candidates:
        """Candidates for a job: in its queue those of lower priority, or those in other queues that give."""
        jobs = self._session.snapshot.jobs
        if self._commits != len(self._session.committed):
            self._commits = len(self._session.committed)
            self._known.clear()
            self._told.clear()
        key = int(jobs.queue[job]), int(jobs.priority[job])
        if key not in self._known:
            self._known[key] = self.find(job)
        return self._known[key]

    def obstacles(self, job: int) -> str:
        """Who stands in the way of a job, as `Candidates.obstacles`."""
        found, jobs = self.of(job), self._session.snapshot.jobs
        key = int(jobs.queue[job]), int(jobs.priority[job])
        if key not in self._told:
            self._told[key] = found.obstacles(self._session)
        return self._told[key]

    def find(self, job: int) -> Candidates:
        """As `of`, as things stand now."""
        snapshot = self._session.snapshot
        jobs, tasks = snapshot.jobs, snapshot.tasks
        reach = np.append(self._jobs_for(job), np.False_)[tasks.job] & on_node(snapshot, self._statuses)
        asked = np.flatnonzero(reach & willing(snapshot)).astype(np.int32)
        evictor = Evictor(job, snapshot.tasks_of(job), breaks_gangs=True, each_alone=True)
        by_plugin: dict[str, Rows] = {}
        rows = self._session.may_go(self._kind, evictor, asked, by_plugin)
        owners = owners_of(snapshot, rows)
        protected = self._must_keep_minimum(job, owners, rows)
        firm = np.flatnonzero(reach & ~willing(snapshot)).astype(np.int32)
        kept = [Kept(_FIRM, firm)] if len(firm) else []
        ends = partial(self._end, job)
        kept += [Kept((f"is kept by {name}", f"are kept by {name}"), own, ends) for name, own in by_plugin.items()]
        if len(protected) == 0 or not self._bars:
            return Candidates(rows, owners, protected, tuple(kept))
        can_spare = job_surplus(snapshot)[protected] > 0
        barred: Mask = np.zeros(len(jobs), np.bool_)
        barred[protected[~can_spare]] = True
        stays = barred[tasks.job[rows]]
        if stays.any():
            kept.append(Kept(_MINIMUM, rows[stays], ends))
        return Candidates(rows[~stays], owners[~barred[owners]], protected[can_spare], tuple(kept))

    def _end(self, job: int, victims: Rows) -> float | None:
        """When the first of the jobs will no longer be protected against a job, as far as plugins know."""
        snapshot = self._session.snapshot
        rows = np.flatnonzero(np.isin(snapshot.tasks.job, victims) & on_node(snapshot, self._statuses)).astype(np.int32)
        evictor = Evictor(job, snapshot.tasks_of(job), breaks_gangs=True, each_alone=True)
        with self._session.hearing_until() as moments:
            self._session.may_go(self._kind, evictor, rows)
            self._session.protected(self._kind, job, victims)
        return min(moments, default=None)

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
