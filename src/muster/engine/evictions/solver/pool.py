"""Victims for the solver: who may go, unit by unit, from the last queue and job in line to the first.

The pool sorts the jobs of every queue once and keeps them over a whole action; a line is one beneficiary's view of
it. A line hands out units: one task that its gang can spare, else the whole gang. What is left of a gang goes back
in line with a key of its own. Nothing here changes the snapshot.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from muster.engine.evictions.candidates import Candidates, Pool, willing
from muster.engine.evictions.surplus import job_surplus, keep_minimum
from muster.engine.gangs import next_victims, requests_of
from muster.engine.lines import Key
from muster.engine.queue_tree import QueueTree
from muster.framework import Eviction, Session
from muster.snapshot import NO_ROW, Amounts, Mask, Pieces, Rows, Snapshot, TaskStatus

_PROMISED = int(TaskStatus.PIPELINED)
#: By state. Tasks on a node, and tasks that were promised one in this cycle: their places may be dealt anew.
_TAKEABLE: Mask = np.isin(np.arange(len(TaskStatus)), (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.PIPELINED))
#: The same with those that the cycle has placed but not yet bound.
_OR_TAKEN_BACK: Mask = _TAKEABLE | (np.arange(len(TaskStatus)) == TaskStatus.ALLOCATED)


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
    table, requests = snapshot.tasks, snapshot.classes.requests
    for task in tasks.tolist():
        node, amount = int(table.node[task]), requests[table.cls[task], 0].tolist()
        known = freed.get(node)
        freed[node] = amount if known is None else [a + b for a, b in zip(known, amount, strict=True)]
    nodes = sorted(freed)
    return Unit(job, tasks, tuple(nodes), tuple(freed[node] for node in nodes))


@dataclass(frozen=True, slots=True)
class Givers:
    """From whom beneficiaries of one queue and priority may take."""

    #: By job.
    allowed: Mask
    queues: list[int]
    #: Jobs that keep their minimum, and tasks that stay.
    protected: frozenset[int]
    staying: frozenset[int]
    #: Among whom they were chosen: knows who is kept from going.
    found: Candidates


#: Key, job, and the tasks that it still has.
_Entry = tuple[Key, int, Rows]


class VictimPool:
    """All jobs that the action may take from, by queue."""

    def __init__(
        self, session: Session, kind: Eviction, *, pass_over_protected: bool = True, take_back_binds: bool = False
    ) -> None:
        self._session = session
        self._kind = kind
        self._pass_over_protected = pass_over_protected
        self._may_go = _OR_TAKEN_BACK if take_back_binds else _TAKEABLE
        snapshot = session.snapshot
        #: By queue and priority of the beneficiary.
        self._known: dict[tuple[int, int], Givers] = {}
        tasks = snapshot.tasks
        #: By task: whether this action has anything to do with it at all.
        self._concerned: Mask = willing(snapshot)
        self._pool = Pool(session, kind, self._may_go, bars=pass_over_protected)
        rows = session.sort_tasks(self._takeable(np.arange(len(tasks), dtype=np.int32)))
        bounds = np.searchsorted(tasks.job[rows], np.arange(len(snapshot.jobs) + 1)).astype(np.int32)
        #: By job, its tasks when the pool was made; those of jobs that have changed since; keys that were asked for.
        self._at_first = Pieces(rows, bounds)
        self._left: dict[int, Rows] = {}
        self._keys: dict[int, Key] = {}
        #: Which jobs are in the pool, by row.
        self._present: Mask = np.diff(bounds) > 0
        self._by_queue = self._lines()

    def __bool__(self) -> bool:
        """Is anybody in the pool?"""
        return bool(self._by_queue)

    def _lines(self) -> dict[int, list[int]]:
        """The jobs of every queue; the last one goes first."""
        jobs = np.flatnonzero(self._present).astype(np.int32)
        bounds = np.append(self._at_first.bounds[jobs], np.int32(len(self._at_first.rows)))
        jobs = self._session.sort_victims(jobs, Pieces(self._at_first.rows, bounds))
        queues = self._session.snapshot.jobs.queue[jobs]
        order = np.argsort(queues, kind="stable")
        found, starts = np.unique(queues[order], return_index=True)
        lines = np.split(jobs[order], starts[1:])
        return {queue: line.tolist() for queue, line in zip(found.tolist(), lines, strict=False)}

    def left(self, job: int) -> Rows:
        """The tasks that may still be taken from a job, in task order."""
        left = self._left.get(job)
        return self._at_first[job] if left is None else left

    def key(self, job: int) -> Key:
        """Where a job stands in its queue; victims come from the last one."""
        key = self._keys.get(job)
        if key is None:
            key = self._keys[job] = self._session.victim_key(job, self.left(job))
        return key

    def _takeable(self, rows: Rows) -> Rows:
        """Those of the tasks that may be taken as things stand."""
        tasks = self._session.snapshot.tasks
        # Others went for the place that it was nominated to: who took it back would have them go for nothing.
        owed = (tasks.status[rows] == TaskStatus.ALLOCATED) & (tasks.nominated[rows] != NO_ROW)
        left: Rows = rows[self._may_go[tasks.status[rows]] & self._concerned[rows] & ~owed]
        return left

    def refresh(self, jobs: Iterable[int]) -> None:
        """Tasks of these jobs were evicted, moved or promised a place for good."""
        for job in jobs:
            line = self._by_queue.setdefault(int(self._session.snapshot.jobs.queue[job]), [])
            was_present = bool(self._present[job])
            if was_present:
                # Who has just gone stood near the end.
                del line[next(at for at in range(len(line) - 1, -1, -1) if line[at] == job)]
            left = self._takeable(self._session.snapshot.tasks_of(job))
            is_present = len(left) > 0
            if is_present:
                self._left[job] = self._session.sort_tasks(left) if len(left) > 1 else left
                self._keys.pop(job, None)
                insort(line, job, key=self.key)
            self._note(job, was_present=was_present, is_present=is_present)

    def _note(self, job: int, *, was_present: bool, is_present: bool) -> None:
        """Keep what is known of choices in step with who is in the pool."""
        self._present[job] = is_present
        if is_present and not was_present:
            kept = [asker for asker in self._known if not self._concerns(job, *asker)]
            self._known = {asker: self._known[asker] for asker in kept}
        elif was_present and not is_present:
            for givers in self._known.values():
                givers.allowed[job] = False

    def _concerns(self, job: int, queue: int, priority: int) -> bool:
        """Whether a job could be a victim of beneficiaries of this queue and priority."""
        jobs = self._session.snapshot.jobs
        if self._kind is Eviction.PREEMPT:
            return bool(jobs.queue[job] == queue and jobs.priority[job] < priority)
        return self._kind is Eviction.CONSOLIDATE or bool(jobs.queue[job] != queue)

    def line(self, evictor: int, *, spare_only: bool = False) -> VictimLine:
        """The victims of one beneficiary; with `spare_only`, everybody keeps its minimum."""
        jobs = self._session.snapshot.jobs
        asker = int(jobs.queue[evictor]), int(jobs.priority[evictor])
        # A beneficiary that may be a victim itself must not be offered to itself, so it is asked for alone.
        is_victim = evictor != NO_ROW and bool(self._present[evictor])
        givers = None if is_victim else self._known.get(asker)
        if givers is None:
            givers = self._choose(evictor)
            if not is_victim:
                self._known[asker] = givers
        self._last = givers.found
        if spare_only:
            allowed = givers.allowed & (job_surplus(self._session.snapshot) > 0)
            givers = replace(givers, allowed=allowed, protected=frozenset(np.flatnonzero(allowed).tolist()))
        ends_there = not self._pass_over_protected and not spare_only
        return VictimLine(self._session, self, givers, ends_there=ends_there)

    def jobs_of(self, queue: int) -> Sequence[int]:
        """The jobs of a queue; the last one goes first."""
        return self._by_queue[queue]

    def obstacles(self) -> str:
        """Who is kept from being evicted for the job whose line was asked for last."""
        return self._last.obstacles(self._session)

    def _choose(self, evictor: int) -> Givers:
        snapshot = self._session.snapshot
        found = self._pool.find(evictor)
        jobs = found.jobs[self._present[found.jobs]]
        allowed = np.zeros(len(snapshot.jobs), np.bool_)
        allowed[jobs] = True
        refused = (
            self._concerned & self._may_go[snapshot.tasks.status] & np.append(allowed, np.False_)[snapshot.tasks.job]
        )
        refused[found.tasks] = False
        staying = frozenset(np.flatnonzero(refused).tolist())
        queues = np.unique(snapshot.jobs.queue[jobs]).tolist()
        return Givers(allowed, queues, frozenset(found.protected.tolist()), staying, found)


class VictimLine:
    """Units in the order in which they go; made as far as somebody asks."""

    def __init__(self, session: Session, pool: VictimPool, givers: Givers, *, ends_there: bool) -> None:
        """`ends_there`: the line ends at a protected job that could only be broken; else it is passed over."""
        self._session = session
        self._pool = pool
        self._givers = givers
        self._ends_there = ends_there
        self._ended = False
        #: By queue, its jobs, and how many of them have not been offered.
        self._jobs = {queue: pool.jobs_of(queue) for queue in givers.queues}
        self._unseen = {queue: len(jobs) for queue, jobs in self._jobs.items()}
        self._returned: dict[int, list[_Entry]] = {}
        #: By leaf, what was held by all that has been offered.
        self._leaving: dict[int, Amounts] = {}
        #: Tasks that were only promised a place when the line was made: they hold nothing yet.
        self._promised: Mask = session.snapshot.tasks.status == _PROMISED
        occupied = [queue for queue in givers.queues if self._peek(queue) != NO_ROW]
        self._tree = QueueTree(session.snapshot.queues, occupied, self._turn_key, last_first=True)

    def __bool__(self) -> bool:
        """Is there anybody to take from?"""
        return self._tree.next_leaf(self._turn_key) is not None

    def pop(self) -> Unit | None:
        """The next unit; None: nobody is left."""
        while not self._ended:
            leaf = self._tree.next_leaf(self._turn_key)
            if leaf is None:
                return None
            job, tasks, rest = self._take(leaf)
            if job not in self._givers.protected or self._can_go(job, rest):
                return make_unit(self._session.snapshot, job, tasks)
            self._ended = self._ends_there
        return None

    def _can_go(self, job: int, rest: Rows) -> bool:
        """Whether a protected job has its minimum with what is left; if not, all later scenarios would be refused."""
        own = self._left(job)
        gone = own[~np.isin(own, rest)]
        return keep_minimum(self._session.snapshot, np.array([job], np.int32), gone, gone[:0])

    def _take(self, leaf: int) -> tuple[int, Rows, Rows]:
        """Take the next unit out of a leaf: its job, its tasks, and what is left of the job."""
        job, left = self._drop(leaf)
        self._leaving[leaf] = self._leaving_with(leaf, left)
        snapshot = self._session.snapshot
        tasks = next_victims(snapshot, job, left)
        rest = left[:0] if len(tasks) == len(left) else left[~np.isin(left, tasks)]
        self._tree.changed(leaf, self._turn_key, occupied=self._peek(leaf) != NO_ROW)
        if len(rest):
            insort(
                self._returned.setdefault(leaf, []), (self._session.victim_key(job, rest), job, rest), key=_entry_key
            )
            self._tree.changed(leaf, self._turn_key, occupied=True)
        return job, tasks, rest

    def _peek(self, leaf: int) -> int:
        """The next job of a leaf, of those that were there and those that came back; NO_ROW: nobody is left."""
        jobs, left = self._jobs[leaf], self._unseen[leaf]
        while left and not self._givers.allowed[jobs[left - 1]]:
            left -= 1
        self._unseen[leaf] = left
        back = self._returned.get(leaf)
        if back and (left == 0 or back[-1][0] > self._pool.key(jobs[left - 1])):
            return back[-1][1]
        return jobs[left - 1] if left else NO_ROW

    def _drop(self, leaf: int) -> tuple[int, Rows]:
        """Take the next job out of a leaf, with the tasks that it still has."""
        job, back = self._peek(leaf), self._returned.get(leaf)
        if back and back[-1][1] == job:
            return job, back.pop()[2]
        self._unseen[leaf] -= 1
        return job, self._left(job)

    def _left(self, job: int) -> Rows:
        """The tasks that may be taken from a job, as long as it is in its first place in line."""
        left, staying = self._pool.left(job), self._givers.staying
        return left[[task not in staying for task in left.tolist()]] if staying else left

    def _turn_key(self, queue: int, leaf: int) -> Key:
        job, back = self._peek(leaf), self._returned.get(leaf)
        left = back[-1][2] if back and back[-1][1] == job else self._left(job)
        return self._session.queue_turn_key(queue, NO_ROW, self._leaving_with(leaf, left))

    def _leaving_with(self, leaf: int, tasks: Rows) -> Amounts:
        """What was held by all that has been offered from a leaf, and by these tasks."""
        held = requests_of(self._session.snapshot, tasks[~self._promised[tasks]])
        known = self._leaving.get(leaf)
        return held if known is None else known + held


def _entry_key(entry: _Entry) -> Key:
    return entry[0]
