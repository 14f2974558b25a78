"""Victims for the solver: who may go, unit by unit, from the last queue and job in line to the first.

The pool sorts the jobs of every queue once and keeps them over a whole action; a line is one beneficiary's view of
it. A line hands out units: one task that its gang can spare, else the whole gang. What is left of a gang goes back
in line with a key of its own. Callers: the solver. Nothing here changes the snapshot.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from muster.engine.chunks import next_victims
from muster.engine.evictions.protection import keep_minimum, without_barred
from muster.engine.lines import Key
from muster.engine.queue_tree import QueueTree
from muster.engine.waiting import cut_by_job
from muster.framework import Eviction, Session
from muster.snapshot import CRITICAL, FOREIGN, NO_ROW, Mask, Rows, Snapshot, TaskStatus

#: Tasks on a node, and tasks that were promised one in this cycle: their places may be dealt anew.
_TAKEABLE = (int(TaskStatus.RUNNING), int(TaskStatus.BOUND), int(TaskStatus.PIPELINED))


@dataclass(frozen=True, slots=True)
class Unit:
    """Tasks of one job that go together, in eviction order."""

    job: int
    tasks: Rows
    #: Node rows of the tasks, each once, ascending, and what goes free on each of them.
    nodes: tuple[int, ...]
    freed: tuple[list[int], ...]


def make_unit(snapshot: Snapshot, job: int, tasks: Rows) -> Unit:
    """Sum up what goes free when the tasks go."""
    freed: dict[int, list[int]] = {}
    requests = snapshot.classes.requests
    amounts = requests[snapshot.tasks.cls[tasks], 0].tolist()
    for node, amount in zip(snapshot.tasks.node[tasks].tolist(), amounts, strict=True):
        known = freed.get(node)
        freed[node] = amount if known is None else [a + b for a, b in zip(known, amount, strict=True)]
    nodes = sorted(freed)
    return Unit(job, tasks, tuple(nodes), tuple(freed[node] for node in nodes))


#: Key, job, and the tasks that it still has.
_Entry = tuple[Key, int, Rows]


class VictimPool:
    """All jobs that the action may take from, by queue."""

    def __init__(self, session: Session, kind: Eviction) -> None:
        self._session = session
        self._kind = kind
        snapshot = session.snapshot
        self._entries: dict[int, _Entry] = {}
        self._by_queue: dict[int, list[_Entry]] = {}
        #: By queue and priority of the beneficiary.
        self._known: dict[tuple[int, int], tuple[Mask, list[int], list[int]]] = {}
        rows = np.arange(len(snapshot.tasks), dtype=np.int32)
        rows = session.sort_tasks(rows[self._takeable(rows)])
        #: Which jobs are in the pool, by row.
        self._present: Mask = np.zeros(len(snapshot.jobs), np.bool_)
        self._fill(*cut_by_job(session, rows[self._eligible(snapshot.tasks.job[rows])]))

    def __bool__(self) -> bool:
        """Is anybody in the pool?"""
        return bool(self._entries)

    def _fill(self, jobs: Sequence[int], tasks: Sequence[Rows]) -> None:
        """Take in all jobs, in the order of their rows, with their tasks."""
        self._present[jobs] = True
        queues = self._session.snapshot.jobs.queue[self._present].tolist()
        entries = zip(self._session.victim_keys(jobs, tasks), jobs, tasks, strict=True)
        for queue, entry in zip(queues, entries, strict=True):
            self._entries[entry[1]] = entry
            self._by_queue.setdefault(queue, []).append(entry)
        for line in self._by_queue.values():
            line.sort(key=_entry_key)

    def _takeable(self, rows: Rows) -> Mask:
        tasks = self._session.snapshot.tasks
        status = tasks.status[rows]
        here = (status == _TAKEABLE[0]) | (status == _TAKEABLE[1]) | (status == _TAKEABLE[2])
        takeable: Mask = here & ((tasks.flags[rows] & (FOREIGN | CRITICAL)) == 0) & (tasks.job[rows] != NO_ROW)
        return takeable

    def _eligible(self, jobs: Rows) -> Mask:
        snapshot = self._session.snapshot
        queues = snapshot.jobs.queue[jobs]
        eligible: Mask = snapshot.jobs.preemptible[jobs] & (queues != NO_ROW)
        if self._kind is Eviction.RECLAIM:
            spared = [row for row, record in enumerate(snapshot.queues.records) if not record.reclaimable]
            eligible &= ~np.isin(queues, spared)
        if snapshot.queues.broken:
            eligible &= ~np.isin(queues, list(snapshot.queues.broken))
        return eligible

    def refresh(self, jobs: Iterable[int]) -> None:
        """Tasks of these jobs were evicted or moved for good."""
        gone = []
        for job in jobs:
            before = self._entries.pop(job, None)
            if before is None:
                continue
            line = self._by_queue[int(self._session.snapshot.jobs.queue[job])]
            del line[bisect_left(line, before[0], key=_entry_key)]
            rows = self._session.snapshot.tasks_of(job)
            left = rows[self._takeable(rows)]
            if len(left):
                left = self._session.sort_tasks(left)
                self._entries[job] = entry = self._session.victim_key(job, left), job, left
                insort(line, entry, key=_entry_key)
            else:
                gone.append(job)
        if gone:
            self._present[gone] = False
            for allowed, _, _ in self._known.values():
                allowed[gone] = False

    def line(self, evictor: int) -> VictimLine:
        """The victims of one beneficiary."""
        jobs = self._session.snapshot.jobs
        asker = int(jobs.queue[evictor]), int(jobs.priority[evictor])
        # A beneficiary that may be a victim itself must not be offered to itself, so it is asked for alone.
        known = None if evictor in self._entries else self._known.get(asker)
        if known is None:
            known = self._choose(evictor)
            if evictor not in self._entries:
                self._known[asker] = known
        allowed, queues, protected = known
        kept = {job: self._entries[job][2] for job in protected if job in self._entries}
        return VictimLine(self._session, {queue: self._by_queue[queue] for queue in queues}, allowed, kept)

    def _choose(self, evictor: int) -> tuple[Mask, list[int], list[int]]:
        """Which jobs a beneficiary may take from, their queues, and those that must keep their minimum."""
        jobs = self._session.snapshot.jobs
        candidates = np.flatnonzero(self._present).astype(np.int32)
        candidates = candidates[candidates != evictor]
        if self._kind is Eviction.PREEMPT:
            same = jobs.queue[candidates] == jobs.queue[evictor]
            candidates = candidates[same & (jobs.priority[candidates] < jobs.priority[evictor])]
        elif self._kind is Eviction.RECLAIM:
            candidates = candidates[jobs.queue[candidates] != jobs.queue[evictor]]
        candidates = self._session.filter_victims(self._kind, evictor, candidates)
        candidates, protected = without_barred(self._session, self._kind, evictor, candidates)
        allowed = np.zeros(len(jobs), np.bool_)
        allowed[candidates] = True
        return allowed, np.unique(jobs.queue[candidates]).tolist(), protected.tolist()


class VictimLine:
    """Units in the order in which they go; made as far as somebody asks."""

    def __init__(
        self, session: Session, by_queue: dict[int, list[_Entry]], allowed: Mask, protected: Mapping[int, Rows]
    ) -> None:
        """`protected`: jobs that must keep their minimum, and the tasks that they have."""
        self._session = session
        self._protected = protected
        self._by_queue = by_queue
        self._allowed = allowed
        self._next = {queue: len(entries) for queue, entries in by_queue.items()}
        self._returned: dict[int, list[_Entry]] = {}
        self._offered: dict[int, list[int]] = {}
        self._tree = QueueTree(session.snapshot.queues, self._turn_key, last_first=True)
        for queue in by_queue:
            self._tree.changed(queue, occupied=self._peek(queue) is not None)

    def pop(self) -> Unit | None:
        """The next unit; None: nobody is left."""
        while True:
            leaf = self._tree.next_leaf()
            if leaf is None:
                return None
            job, tasks, rest = self._take(leaf)
            if job not in self._protected or self._can_go(job, rest):
                return make_unit(self._session.snapshot, job, tasks)

    def _can_go(self, job: int, rest: Rows) -> bool:
        """Whether a protected job has its minimum with what is left; if not, all later scenarios would be refused."""
        own = self._protected[job]
        gone = own[~np.isin(own, rest)]
        return keep_minimum(self._session.snapshot, np.array([job], np.int32), gone, gone[:0])

    def _take(self, leaf: int) -> tuple[int, Rows, Rows]:
        """Take the next unit out of a leaf: its job, its tasks, and what is left of the job."""
        entry = self._peek(leaf)
        assert entry is not None
        self._drop(leaf)
        _, job, left = entry
        offered = self._offered.setdefault(leaf, [])
        if not offered or offered[-1] != job:
            offered.append(job)
        snapshot = self._session.snapshot
        tasks = next_victims(snapshot, job, left)
        rest = left[:0] if len(tasks) == len(left) else left[~np.isin(left, tasks)]
        if len(rest):
            insort(
                self._returned.setdefault(leaf, []), (self._session.victim_key(job, rest), job, rest), key=_entry_key
            )
        self._tree.changed(leaf, occupied=self._peek(leaf) is not None)
        return job, tasks, rest

    def _peek(self, leaf: int) -> _Entry | None:
        """The last entry of a leaf, of those that were there and those that came back."""
        entries, at = self._by_queue[leaf], self._next[leaf]
        while at and not self._allowed[entries[at - 1][1]]:
            at -= 1
        self._next[leaf] = at
        back = self._returned.get(leaf)
        if not back:
            return entries[at - 1] if at else None
        if at and entries[at - 1][0] > back[-1][0]:
            return entries[at - 1]
        return back[-1]

    def _drop(self, leaf: int) -> None:
        entries, at = self._by_queue[leaf], self._next[leaf]
        back = self._returned.get(leaf)
        if back and not (at and entries[at - 1][0] > back[-1][0]):
            back.pop()
        else:
            self._next[leaf] = at - 1

    def _turn_key(self, queue: int, leaf: int) -> Key:
        entry = self._peek(leaf)
        assert entry is not None
        offered = self._offered.get(leaf, [])
        leaving = offered if offered and offered[-1] == entry[1] else [*offered, entry[1]]
        return self._session.queue_turn_key(queue, NO_ROW, np.array(leaving, np.int32))


def _entry_key(entry: _Entry) -> Key:
    return entry[0]
