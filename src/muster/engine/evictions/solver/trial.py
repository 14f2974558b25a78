"""A dry run of the solver: evict, let everybody find a place in turn, and look at who has none.

The beneficiary and the jobs of the victims are served down the queue tree, as in the next allocate. A victim that
finds room on its own node stays, one that finds it elsewhere is moved, the others are evicted. The trial succeeds when
the beneficiary has all its places; validators judge the outcome. Nothing is rolled back here: the caller marks.

The other jobs that wait stand in line too, and are passed over when their turn comes: so what a dry run promises is
what allocate will do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping

import numpy as np

from muster.engine.evictions.simulation import Plan, Simulation
from muster.engine.evictions.solver.places import FreePlaces
from muster.engine.gangs import next_tasks
from muster.engine.lines import Key, QueueTree
from muster.engine.placing import EVERYWHERE, PROMISES, Goal, Scope
from muster.engine.placing.contract import Modes
from muster.engine.waiting import tasks_by_job
from muster.framework import Eviction, Scenario, Session
from muster.kernels.planes import ALLOCATABLE, PIPELINED, RELEASING, USED
from muster.snapshot import Mask, OperationKind, Rows, TaskStatus

_RELEASING, _PIPELINED = int(TaskStatus.RELEASING), int(TaskStatus.PIPELINED)
_RECALL = OperationKind.RECALL
_NOBODY: Rows = np.empty(0, np.intp)


class Trials:
    """Dry runs for one beneficiary."""

    def __init__(
        self,
        session: Session,
        simulation: Simulation,
        kind: Eviction,
        waiting: Waiting,
        places: FreePlaces,
        *,
        looks_ahead: bool,
    ) -> None:
        """`looks_ahead`: turns are those of the next allocate; if not, as KAI takes them in its dry runs."""
        self._session = session
        self._simulation = simulation
        self._job = simulation.job
        self._kind = kind
        self._waiting = waiting
        self._places = places
        self._looks_ahead = looks_ahead
        #: Whether the beneficiary can only be served on nodes where GPUs are free, or go free and are promised to
        #: nobody, and which these were before the dry runs.
        snapshot = session.snapshot
        classes = snapshot.tasks.cls[snapshot.tasks_of(self._job)].tolist()
        self._needs_gpus = all(places.gpu_classes[cls] for cls in classes)
        if self._needs_gpus:
            state = snapshot.nodes.state
            gpus = sum((state[:, :, column] for column in places.gpus), np.zeros_like(state[:, :, 0]))
            self._with_gpus = (gpus[ALLOCATABLE] > gpus[USED]) | (gpus[RELEASING] > gpus[PIPELINED])
        #: Nodes of earlier dry runs that stay open; see `keep_open`.
        self._kept_open: Mask = np.zeros(len(snapshot.nodes), np.bool_)

    def begin_offers(self) -> None:
        """Others are offered from now on: no nodes are open but those that the next dry runs open."""
        self._kept_open[:] = False

    def keep_open(self) -> None:
        """The last dry run had worked and was not valid: as in KAI, who is offered later may move to its nodes."""
        if not self._looks_ahead:
            self._kept_open[self._origins] = True

    def _scope(self, tasks: Rows) -> Scope:
        """The nodes for a victim's tasks; a task that needs a GPU fits nowhere else anyway.

        A beneficiary that needs GPUs can be served where one is or goes free: nobody is moved anywhere else for it.
        """
        classes = self._session.snapshot.tasks.cls[tasks].tolist()
        if not self._closed and any(self._places.gpu_classes[cls] for cls in classes):
            return EVERYWHERE
        return self._open()

    def _open(self) -> Scope:
        """The nodes where GPUs are or go free, those of the victims, and those that were kept open."""
        if not self._needs_gpus:
            return EVERYWHERE
        reach: Mask = self._with_gpus | self._kept_open
        reach[self._origins] = True
        return Scope(mask=reach)

    def run(
        self,
        pending: Rows,
        victims: Rows,
        stayed: Rows = _NOBODY,
        opening: Rows | None = None,
        *,
        modes: Modes = PROMISES,
    ) -> Plan | None:
        """Place `pending` and, in turn, whoever of `victims` (all evicted by now) still fits; None: no place.

        `stayed`: victims that are only here because others of their gang had to go; their nodes are not opened.
        `opening`: those whose nodes are, if these are others than the victims.
        """
        in_order = self._session.sort_tasks(victims) if len(victims) > 1 else victims
        by_job = dict(tasks_by_job(self._session, in_order))
        if opening is None:
            opening = victims[~np.isin(victims, stayed)] if len(stayed) else victims
        self._origins = self._session.snapshot.tasks.node[opening]
        #: Whether a node of some victim is not opened.
        self._closed = len(stayed) > 0
        turns = Turns(self._session, self._waiting, (*by_job, self._job), self._key)
        placed = False
        while (job := turns.pop()) is not None:
            if job == self._job:
                scope = self._open() if self._closed else EVERYWHERE
                if not self._simulation.place(pending, scope, modes, Goal.ALL):
                    return None
                placed = True
            else:
                found = self._bring_back(job, by_job.pop(job), modes)
                if not found and placed and by_job and not self._places.any_for(victims):
                    break
        status = self._session.snapshot.tasks.status[victims]
        if set(status.tolist()) == {_RELEASING}:
            return Plan(pending, victims)
        return Plan(pending, victims[status == _RELEASING], victims[status == _PIPELINED])

    def _bring_back(self, job: int, evicted: Rows, modes: Modes) -> bool:
        """Let a victim's gang have the next chunk of what was taken from it; False: it has no place, or goes whole."""
        if self._session.snapshot.jobs.goes_whole[job]:
            return False
        tasks = next_tasks(self._session, job, evicted if self._looks_ahead else self._with_waiting(job, evicted))
        if len(tasks) == 0 or not self._places.suffices(tasks):
            return False
        return bool(self._simulation.place(tasks, self._scope(tasks), modes, Goal.ALL, job=job))

    def _with_waiting(self, job: int, evicted: Rows) -> Rows:
        """In KAI a victim's gang is served anew, with its first pods: also with some that waited, while others go."""
        waiting = self._waiting.tasks_of(job)
        return self._session.sort_tasks(np.concatenate((evicted, waiting))) if len(waiting) else evicted

    def _key(self, job: int) -> Key:
        """Where a job stands in its queue; in KAI the beneficiary stands there as a gang that has nothing yet."""
        if job == self._job and not self._looks_ahead:
            return self._session.victim_key(job, _NOBODY)
        return self._session.job_key(job)

    def judge(self, outcome: Plan, offered: Rows) -> bool:
        """Is the outcome of a trial acceptable? `offered` are all victims that the search has come across."""
        if self._kind is Eviction.CONSOLIDATE and len(outcome.evicted):
            return False
        pods = self._session.snapshot.tasks.pods
        for operation in self._simulation.statement.operations:
            if operation.kind is _RECALL:
                lost = operation.tasks[np.isin(operation.tasks, outcome.evicted)].tolist()
                if not all(pods[task].spec.node_name for task in lost):
                    return False  # who waited was promised a place at the cost of others, who would go for nothing
        scenario = Scenario(self._kind, self._job, outcome.placed, offered, outcome.evicted, outcome.moved)
        return self._session.is_valid_scenario(scenario)


#: Where a job stands in its queue, and the job.
Place = tuple[Key, int]


class Waiting:
    """All jobs that wait, by queue, in the order of their turns; sorted once for a whole run of the action."""

    def __init__(self, session: Session, jobs: Mapping[int, Rows]) -> None:
        """`jobs`: the tasks that wait, by job."""
        self._session = session
        self._jobs = dict(jobs)
        self._shapes: dict[int, Hashable] = {}
        self.lines: dict[int, list[Place]] = {}
        for job in jobs:
            queue = int(session.snapshot.jobs.queue[job])
            self.lines.setdefault(queue, []).append((session.job_key(job), job))
        for line in self.lines.values():
            line.sort()

    def keys(self) -> dict[int, Key]:
        """Where the jobs stood among those of their queues when they were sorted."""
        return {job: key for line in self.lines.values() for key, job in line}

    def tasks_of(self, job: int) -> Rows:
        """The tasks of a job that wait."""
        return self._jobs.get(job, _NOBODY)

    def shape(self, job: int) -> Hashable:
        """Equal for jobs that may be passed over together: their next chunks ask for the same."""
        shape, jobs = self._shapes.get(job), self._session.snapshot.jobs
        if shape is None and jobs.has_pod_sets(job):
            shape = self._shapes[job] = job
        elif shape is None:
            tasks = self._jobs[job]
            held = sum(jobs.counts[job].tolist()) - len(tasks)
            classes = self._session.snapshot.tasks.cls[tasks].tobytes()
            shape = self._shapes[job] = classes, int(jobs.min_member[job]), held if held == 0 else -job
        return shape

    def served(self, job: int, left: Rows) -> None:
        """A job has been served but for these tasks; one that stood in no line has none to leave."""
        self._shapes.pop(job, None)
        line = self.lines.get(int(self._session.snapshot.jobs.queue[job]), []) if job in self._jobs else []
        if len(left):
            self._jobs[job] = left
            return
        self._jobs.pop(job, None)
        # Who is served stood near the beginning.
        at = next((at for at, (_, other) in enumerate(line) if other == job), None)
        if at is not None:
            del line[at]


class Turns:
    """The jobs of a dry run in the order in which they are served, down the queue tree.

    Queues are compared only while several of them have jobs of the dry run; who else waits matters only then. Equal
    jobs that follow each other in a queue are passed over together.
    """

    def __init__(self, session: Session, waiting: Waiting, jobs: Collection[int], key_of: Callable[[int], Key]) -> None:
        self._session = session
        self._waiting = waiting
        self._own = set(jobs)
        #: By leaf, the next one at the end.
        self._left: dict[int, list[Place]] = {}
        #: By leaf, how many of those who wait have been passed over.
        self._passed: dict[int, int] = {}
        by_leaf: dict[int, list[int]] = {}
        for job in jobs:
            by_leaf.setdefault(int(session.snapshot.jobs.queue[job]), []).append(job)
        for leaf, own in by_leaf.items():
            # Who is compared with nobody needs no key.
            alone = len(own) == 1 and (len(by_leaf) == 1 or leaf not in waiting.lines)
            places: list[Place] = [(() if alone else key_of(job), job) for job in own]
            self._left[leaf] = sorted(places, reverse=True)
        #: By leaf, who stands first in it: of the dry run, or of those who wait.
        self._firsts: dict[int, Place] = {}
        if len(by_leaf) > 1:
            occupied = [leaf for leaf in {**waiting.lines, **self._left} if self._has_first(leaf)]
            self._tree = QueueTree(session.snapshot.queues.steps, occupied, self._turn_key)

    def pop(self) -> int | None:
        """The next job of the dry run; None: everybody had a turn."""
        while len(self._left) > 1:
            leaf = self._tree.next_leaf(self._turn_key)
            assert leaf is not None
            own, job = self._left.get(leaf), None
            if own and own[-1] is self._firsts[leaf]:
                job = self._serve(leaf)
            else:
                self._pass_over(leaf)
            if len(self._left) > 1:
                self._tree.changed(leaf, self._turn_key, occupied=self._has_first(leaf))
            if job is not None:
                return job
        return self._serve(next(iter(self._left))) if self._left else None

    def _has_first(self, leaf: int) -> bool:
        """Find out who stands first in a leaf; False: nobody."""
        line, at, own = self._waiting.lines.get(leaf, ()), self._passed.get(leaf, 0), self._left.get(leaf)
        while at < len(line) and line[at][1] in self._own:
            at += 1
        self._passed[leaf] = at
        if own and (at == len(line) or own[-1] < line[at]):
            self._firsts[leaf] = own[-1]
        elif at < len(line):
            self._firsts[leaf] = line[at]
        return bool(own) or at < len(line)

    def _pass_over(self, leaf: int) -> None:
        """Pass over who stands first in a leaf, and all behind it that are like it."""
        line, shape = self._waiting.lines[leaf], self._waiting.shape(self._firsts[leaf][1])
        while self._waiting.shape(self._firsts[leaf][1]) == shape:
            self._passed[leaf] += 1
            if not self._has_first(leaf) or self._passed[leaf] == len(line):
                return
            if self._firsts[leaf] is not line[self._passed[leaf]]:
                return

    def _serve(self, leaf: int) -> int:
        _, job = self._left[leaf].pop()
        if not self._left[leaf]:
            del self._left[leaf]
        return job

    def _turn_key(self, queue: int, leaf: int) -> Key:
        return self._session.queue_turn_key(queue, self._firsts[leaf][1])
