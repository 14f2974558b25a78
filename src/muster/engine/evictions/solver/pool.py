"""Victims for the solver: who may go, unit by unit, from the last queue and job in line to the first.

The pool sorts the jobs of every queue once and keeps them over a whole action; a line is one beneficiary's view of
it. A line hands out units: one task that its gang can spare, else the whole gang. What is left of a gang goes back
in line with a key of its own. Nothing here changes the snapshot.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

import numpy as np

from muster.engine.evictions.candidates import Candidates, Pool, willing
from muster.engine.evictions.options import SolverOptions
from muster.engine.evictions.surplus import broken_by, holds_minimum, job_surplus
from muster.engine.gangs import next_victims, requests_of
from muster.engine.lines import Key, QueueTree
from muster.framework import Eviction, Session
from muster.snapshot import NO_ROW, Amounts, Mask, Pieces, Rows, Snapshot, TaskStatus

_PROMISED = int(TaskStatus.PIPELINED)
#: By state. Tasks on a node, and tasks that were promised one in this cycle: their places may be dealt anew.
_TAKEABLE: Mask = np.isin(np.arange(len(TaskStatus)), (TaskStatus.RUNNING, TaskStatus.BOUND, TaskStatus.PIPELINED))
#: The same with those that the cycle has placed but not yet bound.
_OR_TAKEN_BACK: Mask = _TAKEABLE | (np.arange(len(TaskStatus)) == TaskStatus.ALLOCATED)


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """Tasks of one job that go together, in eviction order; each is equal to itself alone."""

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


def _next_to_go(snapshot: Snapshot, job: int, left: Rows) -> Rows:
    """Which of the tasks `left` of a job leave together, as `next_victims` has it; sub-groups have minimums, too."""
    if not snapshot.jobs.records[job].sub_groups or snapshot.jobs.goes_whole[job]:
        return next_victims(snapshot, job, left)
    alike = set[tuple[int, int]]()
    for at in range(len(left) - 1, -1, -1):
        kind = int(snapshot.tasks.subgroup[left[at]]), int(snapshot.tasks.role[left[at]])
        if kind not in alike and holds_minimum(snapshot, job, np.delete(left, at)):
            return left[at : at + 1]
        alike.add(kind)
    return left[::-1]


#: Key, job, and the tasks that it still has.
_Entry = tuple[Key, int, Rows]


class VictimPool(Pool):
    """The pool with all jobs that the action may take from, by queue, in the order in which they go."""

    def __init__(self, session: Session, kind: Eviction, options: SolverOptions) -> None:
        statuses = _OR_TAKEN_BACK if options.take_back_binds else _TAKEABLE
        super().__init__(session, kind, statuses, bars=options.pass_over_protected)
        snapshot, tasks = session.snapshot, session.snapshot.tasks
        #: By queue and priority of the beneficiary.
        self._givers: dict[tuple[int, int], Givers] = {}
        #: By task: whether this action has anything to do with it at all. Others went for the place of a task that was
        #: nominated: who took it back would have them go for nothing.
        self._concerned: Mask = willing(snapshot)
        self._concerned &= (tasks.status != TaskStatus.ALLOCATED) | (tasks.nominated == NO_ROW)
        rows = session.sort_tasks(self._takeable(np.arange(len(tasks), dtype=np.intp)))
        bounds = np.searchsorted(tasks.job[rows], np.arange(len(snapshot.jobs) + 1)).astype(np.intp)
        #: By job, its tasks when the pool was made; those of jobs that have changed since; keys that were asked for.
        self._at_first = Pieces(rows, bounds)
        self._left: dict[int, Rows] = {}
        self._keys: dict[int, Key] = {}
        #: Which jobs are in the pool, by row.
        self._present: Mask = np.diff(bounds) > 0
        self._by_queue = self._lines()
        #: By queue, the jobs that have changed since somebody asked for its line, and whether they stand there.
        self._changed: dict[int, dict[int, bool]] = {}

    def _lines(self) -> dict[int, list[int]]:
        """The jobs of every queue; the last one goes first."""
        jobs = np.flatnonzero(self._present).astype(np.intp)
        bounds = np.append(self._at_first.bounds[jobs], np.intp(len(self._at_first.rows)))
        jobs = self.session.sort_victims(jobs, Pieces(self._at_first.rows, bounds))
        queues = self.session.snapshot.jobs.queue[jobs]
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
            key = self._keys[job] = self.session.victim_key(job, self.left(job))
        return key

    def _takeable(self, rows: Rows) -> Rows:
        """Those of the tasks that may be taken as things stand."""
        status = self.session.snapshot.tasks.status
        if len(rows) == 1:  # most jobs have one task, and arrays are slow to begin
            only = rows[0]
            return rows if self.statuses[status[only]] and self._concerned[only] else rows[:0]
        left: Rows = rows[self.statuses[status[rows]] & self._concerned[rows]]
        return left

    def refresh(self, jobs: Iterable[int]) -> None:
        """Tasks of these jobs were evicted, moved or promised a place for good."""
        snapshot = self.session.snapshot
        for job in jobs:
            own = snapshot.tasks_of(job)
            left = self._takeable(own)
            self._left[job] = self.session.sort_tasks(left) if len(left) > 1 else left
            self._keys.pop(job, None)
            was_present, is_present = bool(self._present[job]), len(left) > 0
            self._present[job] = is_present
            self._changed.setdefault(int(snapshot.jobs.queue[job]), {}).setdefault(job, was_present)
            # Keep what is known of choices in step with who is in the pool.
            if is_present and not was_present:
                kept = [asker for asker in self._givers if not self._concerns(job, *asker)]
                self._givers = {asker: self._givers[asker] for asker in kept}
            elif was_present and not is_present:
                for givers in self._givers.values():
                    givers.allowed[job] = False

    def _concerns(self, job: int, queue: int, priority: int) -> bool:
        """Whether a job could be a victim of beneficiaries of this queue and priority."""
        jobs = self.session.snapshot.jobs
        if self.kind is Eviction.PREEMPT:
            return bool(jobs.queue[job] == queue and jobs.priority[job] < priority)
        return self.kind is Eviction.CONSOLIDATE or bool(jobs.queue[job] != queue)

    def line(self, evictor: int, *, spare_only: bool = False) -> VictimLine:
        """The victims of one beneficiary; with `spare_only`, everybody keeps its minimum."""
        givers = self._givers_for(evictor)
        if spare_only:
            allowed = givers.allowed & (job_surplus(self.session.snapshot) > 0)
            givers = replace(givers, allowed=allowed, protected=frozenset(np.flatnonzero(allowed).tolist()))
        return VictimLine(self.session, self, givers, ends_there=not self.bars and not spare_only)

    def of(self, job: int) -> Candidates:
        return self._givers_for(job).found

    def _givers_for(self, evictor: int) -> Givers:
        jobs = self.session.snapshot.jobs
        asker = int(jobs.queue[evictor]), int(jobs.priority[evictor])
        # A beneficiary that may be a victim itself must not be offered to itself, so it is asked for alone.
        is_victim = evictor != NO_ROW and bool(self._present[evictor])
        givers = None if is_victim else self._givers.get(asker)
        if givers is None:
            givers = self._choose(evictor)
            if not is_victim:
                self._givers[asker] = givers
        return givers

    def jobs_of(self, queue: int) -> Sequence[int]:
        """The jobs of a queue; the last one goes first."""
        line = self._by_queue.setdefault(queue, [])
        changed = self._changed.pop(queue, {})
        for job in (job for job, stands_there in changed.items() if stands_there):
            # Who has just gone stood near the end.
            del line[next(at for at in range(len(line) - 1, -1, -1) if line[at] == job)]
        for job in (job for job in changed if self._present[job]):
            insort(line, job, key=self.key)
        return line

    def _choose(self, evictor: int) -> Givers:
        snapshot = self.session.snapshot
        found = self.find(evictor)
        jobs = found.jobs[self._present[found.jobs]]
        allowed = np.zeros(len(snapshot.jobs), np.bool_)
        allowed[jobs] = True
        refused = (
            self._concerned & self.statuses[snapshot.tasks.status] & np.append(allowed, np.False_)[snapshot.tasks.job]
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
        occupied = [queue for queue in givers.queues if self._peek(queue) != NO_ROW]
        self._tree = QueueTree(session.snapshot.queues.steps, occupied, self._turn_key, last_first=True)

    def __bool__(self) -> bool:
        """Is there anybody to take from?"""
        return self._tree.next_leaf(self._turn_key) is not None

    def pop(self) -> Unit | None:
        """The next unit; None: nobody is left."""
        snapshot = self._session.snapshot
        while not self._ended:
            leaf = self._tree.next_leaf(self._turn_key)
            if leaf is None:
                return None
            job, tasks, rest = self._take(leaf)
            if job not in self._givers.protected:
                return make_unit(snapshot, job, tasks)
            own = self.left(job)
            gone = own[~np.isin(own, rest)]
            # A protected job must have its minimum with what is left, or all later scenarios would be refused.
            if not broken_by(snapshot, gone, gone[:0]):
                return make_unit(snapshot, job, tasks)
            self._ended = self._ends_there
        return None

    def _take(self, leaf: int) -> tuple[int, Rows, Rows]:
        """Take the next unit out of a leaf: its job, its tasks, and what is left of the job."""
        job, left = self._drop(leaf)
        if len(self._jobs) > 1:  # else queues are never compared
            self._leaving[leaf] = self._leaving_with(leaf, left)
        tasks = _next_to_go(self._session.snapshot, job, left)
        rest = left[:0] if len(tasks) == len(left) else left[~np.isin(left, tasks)]
        self._tree.changed(leaf, self._turn_key, occupied=self._peek(leaf) != NO_ROW)
        if len(rest):
            back = self._returned.setdefault(leaf, [])
            insort(back, (self._session.victim_key(job, rest), job, rest), key=itemgetter(0))
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
        return job, self.left(job)

    def left(self, job: int) -> Rows:
        """The tasks that may be taken from a job, as long as it is in its first place in line."""
        left, staying = self._pool.left(job), self._givers.staying
        return left[[task not in staying for task in left.tolist()]] if staying else left

    def _turn_key(self, queue: int, leaf: int) -> Key:
        job, back = self._peek(leaf), self._returned.get(leaf)
        left = back[-1][2] if back and back[-1][1] == job else self.left(job)
        return self._session.queue_turn_key(queue, NO_ROW, self._leaving_with(leaf, left))

    def _leaving_with(self, leaf: int, tasks: Rows) -> Amounts:
        """What was held by all that has been offered from a leaf, and by these tasks."""
        # Who was only promised a place holds nothing yet; nobody who was not offered has been touched by a dry run.
        snapshot = self._session.snapshot
        states = snapshot.tasks.status[tasks]
        held = requests_of(snapshot, tasks[states != _PROMISED] if _PROMISED in states.tolist() else tasks)
        known = self._leaving.get(leaf)
        return held if known is None else known + held
