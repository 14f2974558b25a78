"""A dry run of the solver: evict, let everybody find a place in turn, and look at who has none.

The beneficiary and the jobs of the victims are served down the queue tree, as in the next allocate. A victim that
finds room on its own node stays, one that finds it elsewhere is moved, the others are evicted. The trial succeeds when
the beneficiary has all its places; validators judge the outcome. Nothing is rolled back here: the caller marks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from muster.api.resources import is_gpu
from muster.engine.evictions.simulation import Simulation
from muster.engine.evictions.solver.places import FreePlaces
from muster.engine.evictions.solver.turns import Turns, Waiting
from muster.engine.gangs import next_tasks
from muster.engine.lines import Key
from muster.engine.placing import EVERYWHERE, PROMISES, Goal, Scope
from muster.engine.waiting import tasks_by_job
from muster.framework import Eviction, Scenario, Session
from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, USED
from muster.snapshot import NEEDS_LIVE_CHECK, NO_ROW, Mask, Rows, TaskStatus

_RELEASING, _PIPELINED = int(TaskStatus.RELEASING), int(TaskStatus.PIPELINED)
_ALLOCATED = int(TaskStatus.ALLOCATED)
_NOBODY: Rows = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Outcome:
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

    def run(self, pending: Rows, victims: Rows, stayed: Rows = _NOBODY) -> Outcome | None:
        """Place `pending` and, in turn, whoever of `victims` (all evicted by now) still fits; None: no place.

        `stayed`: victims that are only here because others of their gang had to go; their nodes are not opened.
        """
        by_job = self._by_job(victims)
        opening = victims[~np.isin(victims, stayed)] if len(stayed) else victims
        self._origins = self._session.snapshot.tasks.node[opening]
        self._closed = len(stayed) > 0
        turns = Turns(self._session, self._waiting, [(self._key(job), job) for job in (*by_job, self._job)])
        hopeless = _Hopeless(self._session)
        placed = False
        while (job := turns.pop()) is not None:
            if job == self._job:
                scope = self._open() if self._closed else EVERYWHERE
                if not self._simulation.place(pending, scope, PROMISES, Goal.ALL):
                    return None
                placed = True
                continue
            found = self._bring_back(job, by_job.pop(job), hopeless)
            if found is None or not by_job:
                continue
            hopeless.note(found)
            if placed and all(hopeless.knows(self._next(other, by_job[other])) for other in by_job):
                break
        status = self._session.snapshot.tasks.status[victims]
        evicted = victims[status == _RELEASING]
        if len(evicted) == len(victims):
            return Outcome(evicted, victims[:0], evicted)
        moved = victims[status == _PIPELINED]
        return Outcome(evicted, moved, np.concatenate((evicted, moved)))

    def _bring_back(self, job: int, evicted: Rows, hopeless: _Hopeless) -> Rows | None:
        """Let a victim's gang have the next chunk of what was taken from it; return the chunk if it has no place."""
        tasks = self._next(job, evicted)
        if len(tasks) == 0 or hopeless.knows(tasks):
            return None
        scope = self._scope(tasks)
        if self._places.suffices(tasks) and self._simulation.place(tasks, scope, PROMISES, Goal.ALL, job=job):
            return None
        return tasks

    def _next(self, job: int, evicted: Rows) -> Rows:
        return next_tasks(self._session, job, evicted)

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

    def judge(self, outcome: Outcome, pending: Rows, offered: Rows) -> bool:
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


class _Hopeless:
    """Chunks that found no room in this trial: a larger one of the same class finds none either.

    Room only shrinks while a trial goes on, so the answer holds to its end.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._tables = session.snapshot.tasks
        self._failed: dict[int, int] = {}

    def _class(self, tasks: Rows) -> int | None:
        """The class of tasks that are all alike, and whose places depend on nothing else; None: they are not."""
        cls = self._tables.cls[tasks]
        first = int(cls[0])
        if (cls != first).any() or (self._tables.flags[tasks] & NEEDS_LIVE_CHECK).any():
            return None
        record = self._session.snapshot.jobs.records[int(self._tables.job[tasks[0]])]
        return None if record.groups is not None or record.topology is not None or record.sub_groups else first

    def note(self, tasks: Rows) -> None:
        cls = self._class(tasks)
        if cls is not None:
            self._failed[cls] = min(len(tasks), self._failed.get(cls, len(tasks)))

    def knows(self, tasks: Rows) -> bool:
        if not self._failed or len(tasks) == 0:
            return len(tasks) == 0
        cls = self._class(tasks)
        return cls is not None and self._failed.get(cls, len(tasks) + 1) <= len(tasks)
