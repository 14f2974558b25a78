"""Hope: which of the jobs that wait cannot be served for want of room, told without a turn for each.

A cluster that is full has hundreds of jobs in line, of which a cycle can start a few. Sessions that need not say why
each of them waits leave the others out by counting before anybody gives them a turn, and all sessions learn from those
whose turn was in vain. Both are bounds: nobody is left out who would have found a place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from muster.engine.constraints import has_topology
from muster.framework import JobVerdict, Session, points
from muster.framework.reasons import INSUFFICIENT
from muster.snapshot import ACTIVE_STATUSES, Amounts, Mask, Rows, Snapshot, TaskStatus, run_bounds

#: They follow each other.
_ACTIVE = slice(min(ACTIVE_STATUSES), max(ACTIVE_STATUSES) + 1)
_SUCCEEDED = int(TaskStatus.SUCCEEDED)


class Waiters(NamedTuple):
    """Tasks that are ordered by job, cut into one piece for each."""

    tasks: Rows
    jobs: Rows
    #: Where the piece of each job begins, and how many tasks it has.
    starts: Rows
    sizes: Rows

    @classmethod
    def of(cls, snapshot: Snapshot, tasks: Rows) -> Waiters:
        owners = snapshot.tasks.job[tasks]
        bounds = run_bounds(owners)
        starts = bounds[:-1]
        return cls(tasks, owners[starts], starts, bounds[1:] - starts)

    def pieces(self, wanted: Mask) -> Rows:
        """The tasks of some of the jobs."""
        chosen: Rows = self.tasks[np.repeat(wanted, self.sizes)]
        return chosen


def without_room(session: Session, waiters: Waiters) -> Mask:
    """Which jobs need more places than all nodes have for them, now or once everybody who leaves has left."""
    snapshot, nodes = session.snapshot, session.snapshot.nodes
    free: Amounts = np.maximum(np.maximum(nodes.future_idle(), nodes.idle())[nodes.ready], 0)

    def slots_of(request: Rows) -> int:
        asked = request.nonzero()[0]
        # For those that ask for nothing there is always room.
        return int((free[:, asked] // request[asked]).min(axis=1).sum()) if len(asked) else len(snapshot.tasks)

    kinds = snapshot.tasks.cls[waiters.tasks]
    first = kinds[waiters.starts]
    countable: Mask = snapshot.jobs.is_plain[waiters.jobs]
    if len(kinds) > len(first):
        countable &= np.logical_and.reduceat(kinds == np.repeat(first, waiters.sizes), waiters.starts)
    by_class: Rows = np.zeros(len(snapshot.classes.requests), np.intp)
    for cls in set(first.tolist()):
        by_class[cls] = slots_of(snapshot.classes.requests[cls, 0])
    slots = by_class[first]
    lost: Mask = countable & (slots < 1)
    # How many tasks of a gang must have a place is asked only where there are too few for all.
    for place in np.flatnonzero(countable & (slots >= 1) & (slots < waiters.sizes)).tolist():
        lost[place] = session.job_deficit(int(waiters.jobs[place])) > slots[place]
    return lost


def beyond_total(snapshot: Snapshot, waiters: Waiters, free: Amounts) -> Mask:
    """Which jobs would get nothing even if all that is free lay in one place; those that are not plain are in doubt."""
    jobs = snapshot.jobs
    counts = jobs.counts[waiters.jobs]
    missing = np.maximum(1, jobs.min_member[waiters.jobs] - counts[:, _ACTIVE].sum(axis=1) - counts[:, _SUCCEEDED])
    amounts = snapshot.classes.requests[snapshot.tasks.cls[waiters.tasks], 0]
    if len(waiters.tasks) > len(waiters.jobs):
        places = np.arange(len(waiters.tasks)) - np.repeat(waiters.starts, waiters.sizes)
        next_ones = places < np.repeat(missing, waiters.sizes)
        amounts = np.add.reduceat(amounts * next_ones[:, None], waiters.starts, axis=0)
    beyond: Mask = jobs.is_plain[waiters.jobs] & ((waiters.sizes < missing) | (amounts > free).any(axis=1))
    return beyond


class Crowd:
    """Jobs that wait in a cycle, and for which of them there is too little room, which becomes less and less."""

    def __init__(self, session: Session, tasks: Rows, *, is_tree: bool) -> None:
        self._session = session
        self._waiters = Waiters.of(session.snapshot, tasks)
        queues = session.snapshot.jobs.queue[self._waiters.jobs]
        #: Whether those without room need not stand in line. Somebody may want to know who waits, and in which order;
        #: and in a tree a queue is judged by its first job.
        self.may_leave = not session.asked(points.JOB_WAITS) and not (is_tree and (queues != queues[0]).any())
        #: Jobs that were found to be without room.
        self.lost: set[int] = set()
        #: What had been touched when room was counted last.
        self._counted = -1

    @property
    def tasks(self) -> Rows:
        """The tasks of the others."""
        return self._waiters.tasks

    def count_out(self) -> list[int]:
        """Jobs that have no room as things stand, without those that were told before."""
        snapshot, waiters = self._session.snapshot, self._waiters
        if self._counted == snapshot.touched or len(waiters.jobs) == 0:
            return []
        self._counted = snapshot.touched
        lost = without_room(self._session, waiters)
        self._waiters = Waiters.of(snapshot, waiters.pieces(~lost))
        found: list[int] = waiters.jobs[lost].tolist()
        self.lost.update(found)
        return found


class InVain:
    """Jobs that found no room: another one of the kind that needs as much finds none either.

    While room is given out it only becomes less. Not for jobs whose network or neighbours matter.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        #: By kind, the fewest tasks for which there was no room, and the verdict.
        self._failed: dict[tuple[object, ...], tuple[int, JobVerdict]] = {}
        self._live = session.live_tasks()
        #: Where jobs might start, each kept while its identity stands for it.
        self._wheres: list[object] = []

    def tell(self, job: int, tasks: Rows, where: object) -> bool:
        """Note the verdict on a job of whose kind one found no room that needed no more; False: there may be room.

        Who has to explain it wants one that needed just as much.
        """
        fewest, verdict = self._failed.get(self._kind(job, tasks, where), (0, None)) if self._failed else (0, None)
        if verdict is None:
            return False
        needed = self._needed(job, tasks)
        if needed < fewest or (self._session.explains and needed != fewest):
            return False
        if self._session.explains:
            verdict = replace(verdict, task=int(tasks[verdict.placed]))
        self._session.record(job, verdict)
        return True

    def note(self, job: int, tasks: Rows, where: object) -> bool:
        """Remember a job that found no room; whether it was one."""
        if self._session.verdicts[job].reason is not INSUFFICIENT:
            return False
        self._wheres.append(where)
        kind, needed = self._kind(job, tasks, where), self._needed(job, tasks)
        if kind and (kind not in self._failed or needed < self._failed[kind][0]):
            self._failed[kind] = needed, self._session.verdicts[job]
        return True

    def _needed(self, job: int, tasks: Rows) -> int:
        """How many of the tasks must find room together."""
        return max(1, min(self._session.job_deficit(job), len(tasks)))

    def _kind(self, job: int, tasks: Rows, where: object) -> tuple[object, ...]:
        """All that decides, beside how many tasks are needed; empty: more does, or it has places of this cycle."""
        snapshot = self._session.snapshot
        jobs, kinds = snapshot.jobs, snapshot.tasks.cls[tasks]
        has_places = jobs.counts[job, TaskStatus.ALLOCATED] or jobs.counts[job, TaskStatus.PIPELINED]
        is_plain = jobs.is_plain[job] and not has_places and not has_topology(self._session, job)
        if not is_plain or (kinds != kinds[0]).any() or (self._live and not self._live.isdisjoint(tasks.tolist())):
            return ()
        return id(where), int(jobs.queue[job]), int(kinds[0]), bool(jobs.preemptible[job])
