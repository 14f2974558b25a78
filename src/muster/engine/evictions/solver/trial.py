"""A dry run of the solver: evict, let everybody find a place in turn, and look at who has none.

The beneficiary and the jobs of the victims are served down the queue tree, as in the next allocate. A victim that
finds room on its own node stays, one that finds it elsewhere is moved, the others are evicted. The trial succeeds when
the beneficiary has all its places; validators judge the outcome. Nothing is rolled back here: the caller marks.

The other jobs that wait stand in line too, and are passed over when their turn comes: so what a dry run promises is
what allocate will do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from muster.api.resources import is_gpu
from muster.engine.evictions.simulation import Simulation
from muster.engine.evictions.solver.places import FreePlaces
from muster.engine.gangs import next_tasks
from muster.engine.lines import Key
from muster.engine.placing import EVERYWHERE, PROMISES, Goal, Scope
from muster.engine.queue_tree import QueueTree
from muster.engine.waiting import tasks_by_job
from muster.framework import Eviction, Scenario, Session
from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, USED
from muster.snapshot import NO_ROW, Mask, Rows, TaskStatus

_RELEASING, _PIPELINED = int(TaskStatus.RELEASING), int(TaskStatus.PIPELINED)
_ALLOCATED = int(TaskStatus.ALLOCATED)
_NOBODY: Rows = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class TrialResult:
    """Who has no place at the end of a trial, and who has another one."""

    evicted: Rows
    moved: Rows
    #: Both.
    victims: Rows


class Trials:
    """Dry runs, for one beneficiary after the other."""

    def __init__(self, session: Session, waiting: Waiting, kind: Eviction, places: FreePlaces) -> None:
        self._session = session
        self._places = places
        self._waiting = waiting
        self._kind = kind
        self._gpus = _gpu_columns(session)
        #: Classes that ask for a GPU.
        self._gpu_classes: Mask = np.any(session.snapshot.classes.requests[:, 0, self._gpus] > 0, axis=1)
        self._job = NO_ROW
        #: Nodes where GPUs were or would go free before the dry runs, as of a length of the touch log.
        self._with_gpus: Mask = np.zeros(len(session.snapshot.nodes), np.bool_)
        self._counted = -1
        #: Whether the beneficiary can only be served on such nodes.
        self._needs_gpus = False
        self._keys: dict[tuple[int, int], Key] = {}
        self._origins: Rows = _NOBODY
        #: Whether a node of some victim is not opened.
        self._closed = False
        #: Tasks that the cycle had placed when the dry runs began: they may wait again, as nobody went for them.
        self._placed: Mask = session.snapshot.tasks.status == _ALLOCATED

    def start(self, simulation: Simulation) -> None:
        """The next dry runs are for the job of this simulation."""
        tasks = self._session.snapshot.tasks
        self._job = job = simulation.job
        self._simulation = simulation
        self._placed = tasks.status == _ALLOCATED
        self._needs_gpus = all(self._gpu_classes[tasks.cls[self._session.snapshot.tasks_of(job)]].tolist())
        if self._needs_gpus:
            self._count_gpus()
        self._keys.clear()

    def _count_gpus(self) -> None:
        """Find the nodes with a GPU that is free, or that goes free and is promised to nobody."""
        snapshot = self._session.snapshot
        rows = slice(None) if self._counted < 0 else snapshot.touch_log[self._counted : snapshot.touched]
        gpus = snapshot.nodes.state[:, rows][:, :, self._gpus].sum(axis=2)
        self._with_gpus[rows] = (gpus[ALLOCATABLE] > gpus[USED]) | (gpus[RELEASING] > gpus[PIPELINED])
        self._counted = snapshot.touched

    def _scope(self, tasks: Rows) -> Scope:
        """The nodes for a victim's tasks; a task that needs a GPU fits nowhere else anyway.

        A beneficiary that needs GPUs can be served where one is or goes free: nobody is moved anywhere else for it.
        """
        if not self._closed and True in self._gpu_classes[self._session.snapshot.tasks.cls[tasks]].tolist():
            return EVERYWHERE
        return self._open()

    def _open(self) -> Scope:
        """The nodes where GPUs are or go free, and those of the victims."""
        if not self._needs_gpus:
            return EVERYWHERE
        reach = self._with_gpus.copy()
        reach[self._origins] = True
        return Scope(mask=reach)

    def run(self, pending: Rows, victims: Rows, stayed: Rows = _NOBODY) -> TrialResult | None:
        """Place `pending` and, in turn, whoever of `victims` (all evicted by now) still fits; None: no place.

        `stayed`: victims that are only here because others of their gang had to go; their nodes are not opened.
        """
        by_job = self._by_job(victims)
        opening = victims[~np.isin(victims, stayed)] if len(stayed) else victims
        self._origins = self._session.snapshot.tasks.node[opening]
        self._closed = len(stayed) > 0
        turns = Turns(self._session, self._waiting, [(self._key(job), job) for job in (*by_job, self._job)])
        classes = set(self._session.snapshot.tasks.cls[victims].tolist())
        placed = False
        while (job := turns.pop()) is not None:
            if job == self._job:
                scope = self._open() if self._closed else EVERYWHERE
                if not self._simulation.place(pending, scope, PROMISES, Goal.ALL):
                    return None
                placed = True
            else:
                found = self._bring_back(job, by_job.pop(job))
                if not found and placed and not self._places.any_for(classes):
                    break
        status = self._session.snapshot.tasks.status[victims]
        evicted = victims[status == _RELEASING]
        if len(evicted) == len(victims):
            return TrialResult(evicted, victims[:0], evicted)
        moved = victims[status == _PIPELINED]
        return TrialResult(evicted, moved, np.concatenate((evicted, moved)))

    def _bring_back(self, job: int, evicted: Rows) -> bool:
        """Let a victim's gang have the next chunk of what was taken from it; False: it has no place."""
        tasks = next_tasks(self._session, job, evicted)
        if len(tasks) == 0 or not self._places.suffices(tasks):
            return False
        return bool(self._simulation.place(tasks, self._scope(tasks), PROMISES, Goal.ALL, job=job))

    def _by_job(self, victims: Rows) -> dict[int, Rows]:
        """Victims by job, in task order."""
        if len(victims) == 1:
            return {int(self._session.snapshot.tasks.job[victims[0]]): victims}
        return dict(tasks_by_job(self._session, self._session.sort_tasks(victims)))

    def _key(self, job: int) -> Key:
        """Order of a job in its queue; it depends on how much of its gang is left."""
        counts = self._session.snapshot.jobs.counts[job]
        state = (job, int(counts[_RELEASING]))
        key = self._keys.get(state)
        if key is None:
            key = self._keys[state] = self._session.job_key(job)
        return key

    def judge(self, outcome: TrialResult, pending: Rows, offered: Rows) -> bool:
        """Is the outcome of a trial acceptable? `offered` are all victims that the search has come across."""
        if self._kind is Eviction.CONSOLIDATE and len(outcome.evicted):
            return False
        pods = self._session.snapshot.tasks.pods
        if any(not pods[task].spec.node_name and not self._placed[task] for task in outcome.evicted.tolist()):
            return False  # it was promised a place at the cost of others, who would then go for nothing
        scenario = Scenario(self._kind, self._job, pending, offered, outcome.evicted, outcome.moved)
        return self._session.is_valid_scenario(scenario)


def _gpu_columns(session: Session) -> list[int]:
    """Columns of GPUs and of slices of them."""
    index = session.snapshot.axis.index
    return [column for name, column in index.items() if is_gpu(name)]


#: Where a job stands in its queue, and the job.
Place = tuple[Key, int]


class Waiting:
    """All jobs that wait, by queue, in the order of their turns; sorted once for a whole run of the action."""

    def __init__(self, session: Session, jobs: Mapping[int, Rows]) -> None:
        """`jobs`: the tasks that wait, by job."""
        self.lines: dict[int, list[Place]] = {}
        #: Equal for jobs that may be passed over together.
        self.shapes = {job: _shape(session, job, tasks) for job, tasks in jobs.items()}
        self._places: dict[int, tuple[int, Place]] = {}
        for job in jobs:
            queue, place = int(session.snapshot.jobs.queue[job]), (session.job_key(job), job)
            self.lines.setdefault(queue, []).append(place)
            self._places[job] = queue, place
        for line in self.lines.values():
            line.sort()

    def discard(self, job: int) -> None:
        """A job has been served; one that stood in no line had none to leave."""
        if job in self._places:
            queue, place = self._places.pop(job)
            del self.lines[queue][bisect_left(self.lines[queue], place)]


def _shape(session: Session, job: int, tasks: Rows) -> Hashable:
    """Equal for jobs whose next chunk asks for the same."""
    snapshot = session.snapshot
    if snapshot.jobs.has_pod_sets(job):
        return job
    classes = snapshot.tasks.cls[tasks]
    held = sum(snapshot.jobs.counts[job].tolist()) - len(tasks)
    return classes.tobytes(), int(snapshot.jobs.min_member[job]), held if held == 0 else -job


class Turns:
    """The jobs of a dry run in the order in which they are served, down the queue tree.

    Queues are compared only while several of them have jobs of the dry run; who else waits matters only then. Equal
    jobs that follow each other in a queue are passed over together.
    """

    def __init__(self, session: Session, waiting: Waiting, own: Iterable[Place]) -> None:
        self._session = session
        self._waiting = waiting
        places = sorted(own, reverse=True)
        self._own = {job for _, job in places}
        #: By leaf, the next one at the end.
        self._left: dict[int, list[Place]] = {}
        for place in places:
            self._left.setdefault(int(session.snapshot.jobs.queue[place[1]]), []).append(place)
        #: By leaf, how many of those who wait have been passed over.
        self._passed: dict[int, int] = {}
        leaves: Iterable[int] = {**waiting.lines, **self._left} if len(self._left) > 1 else ()
        occupied = [leaf for leaf in leaves if self._first(leaf) is not None]
        self._tree = QueueTree(session.snapshot.queues, occupied, self._turn_key)

    def pop(self) -> int | None:
        """The next job of the dry run; None: everybody had a turn."""
        while len(self._left) > 1:
            leaf = self._tree.next_leaf(self._turn_key)
            assert leaf is not None
            own, first = self._left.get(leaf), self._first(leaf)
            if own and own[-1] is first:
                job = self._serve(leaf)
                self._tree.changed(leaf, self._turn_key, occupied=self._first(leaf) is not None)
                return job
            self._pass_over(leaf)
            self._tree.changed(leaf, self._turn_key, occupied=self._first(leaf) is not None)
        return self._serve(next(iter(self._left))) if self._left else None

    def _first(self, leaf: int) -> Place | None:
        """Who stands first in a leaf: of the dry run, or of those who wait."""
        line, at = self._waiting.lines.get(leaf, ()), self._passed.get(leaf, 0)
        while at < len(line) and line[at][1] in self._own:
            at += 1
        self._passed[leaf] = at
        own = self._left.get(leaf)
        if at == len(line) or (own and own[-1] < line[at]):
            return own[-1] if own else None
        return line[at]

    def _pass_over(self, leaf: int) -> None:
        line, shapes, shape = self._waiting.lines[leaf], self._waiting.shapes, None
        while (first := self._first(leaf)) is not None and self._passed[leaf] < len(line):
            if first is not line[self._passed[leaf]] or shape not in (None, shapes[first[1]]):
                return
            shape = shapes[first[1]]
            self._passed[leaf] += 1

    def _serve(self, leaf: int) -> int:
        _, job = self._left[leaf].pop()
        if not self._left[leaf]:
            del self._left[leaf]
        return job

    def _turn_key(self, queue: int, leaf: int) -> Key:
        first = self._first(leaf)
        assert first is not None
        return self._session.queue_turn_key(queue, first[1])
