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
from functools import cached_property, partial

import numpy as np

from muster.engine.evictions.budgets import Budgets, told
from muster.engine.evictions.surplus import job_surplus
from muster.engine.gangs import NOBODY
from muster.engine.waiting import made_anew
from muster.framework import Eviction, Evictor, Session
from muster.snapshot import CRITICAL, FOREIGN, NO_ROW, PREEMPTABLE, Mask, Rows, Snapshot, TaskStatus
from muster.snapshot.records import stamp_text

#: Pods that are on a node and can be told to leave it.
ON_NODE: Mask = np.isin(np.arange(len(TaskStatus)), (TaskStatus.RUNNING, TaskStatus.BOUND))
_HOLDS_PLACE: Mask = np.isin(
    np.arange(len(TaskStatus)), (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.BINDING, TaskStatus.ALLOCATED)
)
#: The same, and pods that will be on one: they were given or promised a place.
SOON_ON_NODE: Mask = _HOLDS_PLACE | (np.arange(len(TaskStatus)) == TaskStatus.PIPELINED)


#: So many jobs are named where several are kept by the same; of the others it is said how many they are.
_NAMED = 3
#: Why pods are kept, for one job and for several.
_FIRM = ("is not preemptible", "are not preemptible")
_LOST = ("would not come back, as nobody owns it", "would not come back, as nobody owns them")
_MINIMUM = ("must keep its minimum", "must keep their minimum")


@dataclass(frozen=True, slots=True)
class Kept:
    """Pods that nobody gets, and why."""

    snapshot: Snapshot
    why: tuple[str, str]
    tasks: Rows
    #: Whether it ends: what plugins say about these very jobs; None: nobody knows an end.
    ends: Callable[[Rows], float | None] | None = None

    def told(self) -> str:
        """As explanations have it: the jobs, why, until when, and how many pods."""
        snapshot, jobs = self.snapshot, owners_of(self.snapshot, self.tasks)
        named = ", ".join(sorted(snapshot.jobs.records[job].id for job in jobs.tolist())[:_NAMED])
        who = f"{named} and {len(jobs) - _NAMED} more" if len(jobs) > _NAMED else named
        end = None if self.ends is None else self.ends(jobs)
        first = "the first " if len(jobs) > 1 else ""
        until = "" if end is None else f" {first}until {stamp_text(math.ceil(end))}"
        pods = "1 pod" if len(self.tasks) == 1 else f"{len(self.tasks)} pods"
        return f"{who} {self.why[len(jobs) > 1]}{until} ({pods})"


@dataclass(frozen=True)
class Candidates:
    """Tasks that might be evicted, and their jobs."""

    tasks: Rows
    #: Each once.
    jobs: Rows
    #: Those of the jobs that must keep their minimum: only what they can spare may go.
    protected: Rows = field(default_factory=lambda: np.empty(0, np.intp))
    #: Why jobs that the kind of eviction could take from give nothing, with their pods.
    kept: tuple[Kept, ...] = ()
    #: When protection of some jobs ends, as plugins say.
    ends: Callable[[Rows], float | None] | None = None

    def __bool__(self) -> bool:
        return len(self.tasks) > 0

    @cached_property
    def obstacles(self) -> str:
        """Who stands in the way, kept by what and until when, with numbers."""
        return ", ".join(kept.told() for kept in self.kept)

    def keeping(self, snapshot: Snapshot, jobs: Rows) -> Candidates:
        """The same when these jobs must keep their minimum: of them those that can spare nothing are left out."""
        can_spare = job_surplus(snapshot, jobs)[jobs] > 0
        barred: Mask = np.zeros(len(snapshot.jobs), np.bool_)
        barred[jobs[~can_spare]] = True
        stays = barred[snapshot.tasks.job[self.tasks]]
        kept = (*self.kept, Kept(snapshot, _MINIMUM, self.tasks[stays], self.ends)) if stays.any() else self.kept
        protected = np.union1d(self.protected[~barred[self.protected]], jobs[can_spare]).astype(np.intp)
        return replace(
            self, tasks=self.tasks[~stays], jobs=self.jobs[~barred[self.jobs]], protected=protected, kept=kept
        )


@dataclass(slots=True)
class Pool:
    """Candidates of a session for one kind of eviction."""

    session: Session
    kind: Eviction
    #: By state: which tasks may be taken at all.
    statuses: Mask = field(default_factory=lambda: ON_NODE)
    #: Whether jobs of the same priority may be taken from inside a queue: it is for the plugins to say no.
    equals: bool = False
    #: Whether protected gangs that can spare nothing are left out.
    bars: bool = True
    #: For strategies that break gangs only whole; None: they look at budgets by themselves.
    budgets: Budgets | None = None
    _known: dict[tuple[int, int, int], Candidates] = field(default_factory=dict)
    _commits: int = -1

    def of(self, job: int) -> Candidates:
        """Candidates for a job: in its queue those of lower priority, or those in other queues that give."""
        if self._commits != len(self.session.committed):
            self._commits = len(self.session.committed)
            self._known.clear()
        key = self._key(job)
        if key not in self._known:
            self._known[key] = self.find(job)
        return self._known[key]

    def _key(self, job: int) -> tuple[int, int, int]:
        """Equal for jobs that have the same candidates; nobody is its own, so among equals those that run differ."""
        jobs = self.session.snapshot.jobs
        own = self.equals and self.kind is Eviction.PREEMPT and jobs.allocated_count(job)
        return int(jobs.queue[job]), int(jobs.priority[job]), job if own else NO_ROW

    def find(self, job: int) -> Candidates:
        """As `of`, as things stand now."""
        snapshot = self.session.snapshot
        gives = self._jobs_for(job)
        if not gives.any():
            return Candidates(NOBODY, NOBODY, ends=partial(self._end, job))
        reach = np.append(gives, np.False_)[snapshot.tasks.job] & on_node(snapshot, self.statuses)
        asked = np.flatnonzero(reach & willing(snapshot)).astype(np.intp)
        # Pods without a PodGroup and without an owner would not be made anew elsewhere.
        is_move = self.kind is Eviction.CONSOLIDATE
        lost = made_anew(snapshot, asked, has_owner=False) if is_move else asked[:0]
        asked = asked[~np.isin(asked, lost)] if len(lost) else asked
        evictor = Evictor(job, snapshot.tasks_of(job), breaks_gangs=True, each_alone=True)
        by_plugin: dict[str, Rows] = {}
        rows = self.session.may_go(self.kind, evictor, asked, by_plugin)
        owners = owners_of(snapshot, rows)
        protected = self._must_keep_minimum(job, owners, rows)
        firm = np.flatnonzero(reach & ~willing(snapshot)).astype(np.intp)
        kept = [Kept(snapshot, why, tasks) for why, tasks in ((_FIRM, firm), (_LOST, lost)) if len(tasks)]
        ends = partial(self._end, job)
        for name, own in by_plugin.items():
            kept.append(Kept(snapshot, (f"is kept by {name}", f"are kept by {name}"), own, ends))
        found = Candidates(rows, owners, protected, tuple(kept), ends)
        found = found.keeping(snapshot, protected) if self.bars and len(protected) else found
        return self._within_budgets(found, self.budgets) if self.budgets else found

    def _within_budgets(self, found: Candidates, budgets: Budgets) -> Candidates:
        """Without pods that budgets keep whoever else goes; gangs that they let not go whole must keep their minimum.

        A gang that was broken all the same could not be ended, as somebody keeps a pod of it.
        """
        snapshot = self.session.snapshot
        may_go, bound, names = budgets.alone(found.tasks)
        if len(bound) == 0:
            return found
        surplus = job_surplus(snapshot, bound)[bound]
        stays = ~may_go | np.isin(snapshot.tasks.job[found.tasks], bound[surplus == 0])
        kept = Kept(snapshot, (f"is kept by {told(names)}", f"are kept by {told(names)}"), found.tasks[stays])
        tasks = found.tasks[~stays]
        jobs, kept_too = owners_of(snapshot, tasks), (kept,) if stays.any() else ()
        within = replace(found, tasks=tasks, jobs=jobs, kept=(*found.kept, *kept_too))
        return within.keeping(snapshot, bound[surplus > 0])

    def _end(self, job: int, victims: Rows) -> float | None:
        """When the first of the jobs will no longer be protected against a job, as far as plugins know."""
        snapshot = self.session.snapshot
        rows = np.flatnonzero(np.isin(snapshot.tasks.job, victims) & on_node(snapshot, self.statuses)).astype(np.intp)
        evictor = Evictor(job, snapshot.tasks_of(job), breaks_gangs=True, each_alone=True)
        with self.session.hearing_until() as moments:
            self.session.may_go(self.kind, evictor, rows)
            self.session.protected(self.kind, job, victims)
        return min(moments, default=None)

    def _jobs_for(self, job: int) -> Mask:
        """Jobs that the kind of eviction lets the job take from."""
        jobs, queues = self.session.snapshot.jobs, self.session.snapshot.queues
        gives: Mask = jobs.queue != NO_ROW
        if job != NO_ROW:
            gives[job] = False
        if queues.broken:
            gives &= ~np.isin(jobs.queue, list(queues.broken))
        if self.kind is Eviction.PREEMPT:
            gives &= jobs.queue == jobs.queue[job]
            gives &= jobs.priority <= jobs.priority[job] if self.equals else jobs.priority < jobs.priority[job]
        elif self.kind is Eviction.RECLAIM:
            giving = np.array([record.reclaimable for record in queues.records] + [False], np.bool_)
            gives &= (jobs.queue != jobs.queue[job]) & giving[jobs.queue]
        return gives

    def _must_keep_minimum(self, job: int, owners: Rows, rows: Rows) -> Rows:
        """Those of the jobs that are protected, or of which some pod that holds or gets a place cannot go, or moves."""
        snapshot = self.session.snapshot
        table = snapshot.tasks
        stays = _HOLDS_PLACE[table.status] & (table.job != NO_ROW)
        # Who gets its place in this very cycle cannot go yet, and would be left alone.
        begins = table.status == TaskStatus.ALLOCATED
        stays &= self.statuses[table.status] | begins | ((table.flags & _MARKS) != PREEMPTABLE)
        stays[rows] = False
        stuck = np.zeros(len(snapshot.jobs), np.bool_)
        stuck[table.job[stays]] = True
        if not self.statuses[TaskStatus.PIPELINED]:
            # Whom one action moves or serves, the next one does not break: it would have been for nothing.
            promised = np.flatnonzero(table.status == TaskStatus.PIPELINED).tolist()
            stuck[table.job[[task for task in promised if table.pods[task].spec.node_name]]] = True
            stuck[list(served(self.session))] = True
        protected: Rows = owners[self.session.protected(self.kind, job, owners) | stuck[owners]]
        return protected


def served(session: Session) -> set[int]:
    """Jobs that were promised places in this session by those who evict and move; the pipeline adds to them."""
    known = session.workspace.setdefault("served", set())
    assert isinstance(known, set)
    return known


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
    return np.flatnonzero(owners).astype(np.intp)
