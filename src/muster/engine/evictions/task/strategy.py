"""The task strategy: Volcano's preempt and reclaim, task by task, with the sticky domain and without needless victims.

A job's tasks are placed in order, on room that there is and then on room that evictions make, while the job is in need.
That is a plan when the job would have its minimum once the victims are gone. Equal tasks are served together; that a
class of tasks finds no room is remembered until something is committed, so that jobs without hope cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.engine.boards import boards_of
from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.candidates import ON_NODE, Pool, on_node, willing
from muster.engine.evictions.pipeline import Need, Plan, jobs_in_need, queue_by_queue
from muster.engine.evictions.simulation import Simulation, joined, trim
from muster.engine.evictions.surplus import roles_hold
from muster.engine.evictions.task.node_evictions import NodeEvictions
from muster.engine.evictions.task.offers import CandidateFilter, Supply, free_on, sums_by_node
from muster.engine.evictions.task.picking import NodePicker, PickOptions
from muster.engine.evictions.task.sticky import NodeScope, scope_for
from muster.engine.gangs import requests_of
from muster.engine.waiting import schedulable_tasks, tasks_by_job
from muster.framework import FITS, Eviction, Session
from muster.snapshot import NO_ROW, Mask, Rows, TaskStatus

_RUNNING: Mask = np.arange(len(TaskStatus)) == TaskStatus.RUNNING
#: Queue, priority of the job, and the job itself if it has candidates of its own.
_SupplyKey = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TaskOptions:
    """What the actions' arguments say."""

    ignore_pdb: bool = False
    #: Dry runs on many nodes, the best of them chosen by its victims; None: the best scored node that works.
    candidates: PickOptions | None = None


class TaskStrategy:
    """Serves jobs in need, one after the other."""

    breaks_gangs = False
    piecewise = True
    asks_validators = False
    grows = False

    def __init__(self, session: Session, kind: Eviction, options: TaskOptions) -> None:
        self._session = session
        self._kind = kind
        self._options = options
        self._boards = boards_of(session)
        self._live = session.live_tasks()
        self._budgets = Budgets(session, options.ignore_pdb)
        may_go = CandidateFilter(session, kind, self._budgets)
        self._asks_at_once = may_go.at_once
        self._evictions = NodeEvictions(session, self._boards, may_go, kind, self._live)
        self._picker = None
        if options.candidates is not None:
            self._picker = NodePicker(session, self._evictions, may_go, options.candidates, self._live)
        # Across queues only pods that run may go; inside a queue plugins are asked about those of equal priority too.
        self._pool = Pool(session, kind, _RUNNING if kind is Eviction.RECLAIM else ON_NODE, equals=True)
        #: The jobs that were in need when the action began.
        self.asked: frozenset[int] = frozenset()
        self._supplies: dict[_SupplyKey, Supply] = {}
        #: The same where minimums of roles and sub-groups are kept.
        self._keeping: dict[_SupplyKey, Supply | None] = {}
        self._obstacles: dict[_SupplyKey, str] = {}
        #: Nodes where something was evicted, for good or not, since supplies were counted.
        self._touched: Rows = np.empty(0, np.int32)
        #: Domains that were tried for the job in vain, and the one that is being tried; NO_ROW: none was picked.
        self._failed: list[int] = []
        self._domain = NO_ROW
        #: How many tasks of a class found room, where not all did; holds until something is committed.
        self._known: dict[tuple[_SupplyKey, int, bool], int] = {}
        #: Whether minimums of roles and sub-groups are being kept.
        self._keeps = False

    # -- jobs ----------------------------------------------------------------------------------------------

    def jobs(self) -> dict[int, Rows]:
        found = jobs_in_need(self._session, self._kind, best_effort=True)
        self.asked = frozenset(found)
        return found

    def line(self, jobs: dict[int, Rows]) -> Iterator[int]:
        return queue_by_queue(self._session, self._kind, jobs)

    def need(self, job: int, pending: Rows) -> Rows:
        pods = self._session.snapshot.tasks.pods
        allowed: Rows = pending[[pods[task].spec.preemption_policy != "Never" for task in pending.tolist()]]
        return allowed

    def candidates(self, job: int) -> Supply:
        key = self._supply_key(job)
        supply = self._supplies.get(key)
        if supply is None:
            found = self._pool.find(job)
            supply = self._supplies[key] = Supply(self._session, found.tasks, found.protected)
            self._obstacles[key] = found.obstacles(self._session)
        return supply

    def obstacles(self, job: int) -> str:
        return self._budgets.and_kept_by(self._obstacles.get(self._supply_key(job), ""))

    def settled(self, need: Need, plan: Plan | None) -> None:
        self._budgets.kept_by.clear()
        if plan is not None:
            self._known.clear()
        for supply in (*self._supplies.values(), *self._keeping.values()):
            if supply is not None:
                supply.refresh(self._touched)

    def solve(
        self, need: Need, candidates: Supply, simulation: Simulation, accepts: Callable[[Plan], bool]
    ) -> Plan | None:
        key = self._supply_key(need.job)
        self._touched = self._touched[:0]
        sparing = self._sparing(key, candidates)
        plan = None if sparing is None else self._solve_with(need, sparing, key, simulation, accepts)
        return plan or self._solve_with(need, candidates, key, simulation, accepts)

    def _sparing(self, key: _SupplyKey, supply: Supply) -> Supply | None:
        """The same candidates when no role and no sub-group may fall below its minimum; None: there are no such."""
        if key not in self._keeping:
            snapshot = self._session.snapshot
            owners = np.unique(snapshot.tasks.job[supply.tasks])
            divided = roles_hold(snapshot, owners)
            divided |= np.array([bool(snapshot.jobs.records[job].sub_groups) for job in owners.tolist()], np.bool_)
            protected = np.union1d(supply.protected, owners[divided]).astype(np.int32)
            self._keeping[key] = Supply(self._session, supply.tasks, protected) if divided.any() else None
        return self._keeping[key]

    def _solve_with(
        self, need: Need, candidates: Supply, key: _SupplyKey, simulation: Simulation, accepts: Callable[[Plan], bool]
    ) -> Plan | None:
        self._failed.clear()
        self._keeps = candidates is not self._supplies[key]
        touched = [self._touched]
        plan = None
        while not self._is_hopeless(need.job, need.tasks, key, candidates):
            mark = simulation.statement.mark()
            self._domain = NO_ROW
            self._evictions.begin(simulation, candidates)
            self._place_all(need.job, need.tasks, candidates, key)
            self._session.tally.dry_runs += 1
            touched.append(self._session.snapshot.tasks.node[simulation.evicted()])
            plan = self._plan(need.job, simulation)
            if plan is not None and accepts(plan):
                break
            plan = None
            simulation.statement.rollback(mark)
            candidates.refresh(np.unique(touched[-1]))
            if self._domain == NO_ROW:
                break
            self._failed.append(self._domain)  # the next one may do
        self._touched = np.unique(joined(touched))
        return plan

    def _plan(self, job: int, simulation: Simulation) -> Plan | None:
        """What was done for a job, trimmed; None: it is not enough."""
        placed = simulation.placed()
        if len(placed) == 0 or self._session.job_pipelined_deficit(job) > 0:
            return None
        if self._live.isdisjoint(placed.tolist()):
            self._trim(simulation)
        evicted = simulation.evicted()
        if self._kind is Eviction.RECLAIM and len(evicted) == 0:
            return None  # what is free is allocate's to give, also where that comes later
        return Plan(placed, evicted)

    def _trim(self, simulation: Simulation) -> None:
        """Let victims stay that nobody needs, where their queue may hold them too; placements stay as they are.

        Each step evicts no more than it needs, but a later one may leave enough for an earlier one too.
        """
        snapshot, queue = self._session.snapshot, int(self._session.snapshot.jobs.queue[simulation.job])
        evicted = simulation.evicted()
        held = snapshot.classes.requests[snapshot.tasks.cls[evicted], 0]
        spare = evicted[(free_on(snapshot, snapshot.tasks.node[evicted]) >= held).all(axis=1)]

        def can_stay(kept: Rows) -> bool:
            """Whether all but the kept ones fit beside all that is promised."""
            back = spare[~np.isin(spare, kept)]
            back = back[np.argsort(snapshot.tasks.node[back], kind="stable")]
            nodes, where = np.unique(snapshot.tasks.node[back], return_inverse=True)
            amounts = sums_by_node(snapshot.classes.requests[snapshot.tasks.cls[back], 0], where, len(nodes))
            if not (free_on(snapshot, nodes) >= amounts).all():
                return False
            return (
                self._kind is not Eviction.PREEMPT or self._session.queue_slots(queue, requests_of(snapshot, back)) > 0
            )

        needed = joined(trim([np.array([task], np.int32) for task in spare.tolist()], can_stay))
        back = spare[~np.isin(spare, needed)]
        if len(back):
            simulation.statement.restore(back)

    # -- tasks of a job --------------------------------------------------------------------------------------

    def _place_all(self, job: int, tasks: Rows, supply: Supply, key: _SupplyKey) -> None:
        table = self._session.snapshot.tasks
        first = True
        while len(tasks) and self._wants_more(job):
            end = self._run_end(tasks)
            wanted = min(end, max(1, self._session.job_pipelined_deficit(job)))
            run = tasks[:wanted]
            cls = int(table.cls[run[0]])
            placed = self._place_run(job, tasks, supply, wanted)
            if placed < wanted:
                if first and self._is_plain(job, run):
                    self._known[key, cls, self._keeps] = placed
                # What one of them did not find, the others will not find either.
                alike = (table.cls[tasks] == cls) & (table.subgroup[tasks] == table.subgroup[run[0]])
                alike[:placed] = True
                tasks = tasks[~alike]
                if len(tasks) < self._session.job_pipelined_deficit(job):
                    return
            else:
                tasks = tasks[wanted:]
            first = False

    def _wants_more(self, job: int) -> bool:
        return self._session.job_starving(job) or self._session.job_pipelined_deficit(job) > 0

    def _run_end(self, tasks: Rows) -> int:
        """How many tasks from the first on are alike and may be served together."""
        table = self._session.snapshot.tasks
        first = int(tasks[0])
        if first in self._live or table.nominated[first] != NO_ROW:
            return 1
        alike = (
            (table.cls[tasks] == table.cls[first])
            & (table.role[tasks] == table.role[first])
            & (table.subgroup[tasks] == table.subgroup[first])
            & (table.priority[tasks] == table.priority[first])
            & (table.nominated[tasks] == NO_ROW)
        )
        if self._live:
            alike &= np.fromiter((task not in self._live for task in tasks.tolist()), np.bool_, len(tasks))
        return int(np.argmin(np.append(alike, False)))

    def _place_run(self, job: int, tasks: Rows, supply: Supply, wanted: int = 1) -> int:
        """Place the first `wanted` tasks, which are alike; return how many found a place."""
        placed = 0
        while placed < wanted:
            scope = self._scope(job, tasks[placed:], supply)
            # The first task in a domain pins it; only then is it known where the others may go.
            count = wanted - placed if scope.open is None else 1
            run = self._permitted(job, tasks[placed : placed + count])
            done = self._place_some(run, scope) if len(run) else 0
            if done == 0:
                break
            placed += done
        return placed

    def _permitted(self, job: int, run: Rows) -> Rows:
        """Across queues: as many tasks as the queue may take from others for, all of them or one at a time."""
        queue = int(self._session.snapshot.jobs.queue[job])
        if self._kind is Eviction.PREEMPT or self._session.preemptive(queue, run):
            return run
        return run[:1] if self._session.preemptive(queue, run[:1]) else run[:0]

    def _place_some(self, run: Rows, scope: NodeScope) -> int:
        if self._evictions.use_nominated(int(run[0]), scope):
            return 1
        placed = self._evictions.use_free(run, scope, picks=self._picker is not None)
        if placed:
            return placed
        if self._picker is not None:
            return self._picker.open_best(run, scope)
        return self._evictions.make(run, scope)

    # -- what could be -----------------------------------------------------------------------------------------

    def _supply_key(self, job: int) -> _SupplyKey:
        """Jobs that may evict the same tasks share a supply."""
        jobs = self._session.snapshot.jobs
        queue = int(jobs.queue[job])
        if self._kind is Eviction.RECLAIM:
            return queue, 0, NO_ROW
        return queue, int(jobs.priority[job]), job if jobs.allocated_count(job) else NO_ROW

    def _is_hopeless(self, job: int, tasks: Rows, key: _SupplyKey, supply: Supply) -> bool:
        """Whether not even everybody's eviction would give the job what it lacks."""
        needed = self._session.job_pipelined_deficit(job)
        classes, counts = np.unique(self._session.snapshot.tasks.cls[tasks], return_counts=True)
        plain = self._is_plain(job, tasks)
        room = 0
        for cls, count in zip(classes.tolist(), counts.tolist(), strict=True):
            known = self._known.get((key, cls, self._keeps)) if plain else None
            if known is None or known >= count:
                known = int(np.minimum(self._slots(cls, supply), count).sum())
            room += min(known, count)
            if room >= needed:
                return False
        return True

    def _is_plain(self, job: int, tasks: Rows) -> bool:
        """Whether room for the tasks depends on their class alone: then what one job learns holds for others."""
        table = self._session.snapshot.tasks
        if not self._asks_at_once or self._session.snapshot.jobs.records[job].topology is not None:
            return False
        if self._session.snapshot.jobs.records[job].sub_groups or (table.nominated[tasks] != NO_ROW).any():
            return False
        return self._options.candidates is None and self._live.isdisjoint(tasks.tolist())

    def _slots(self, cls: int, supply: Supply) -> NDArray[np.int64]:
        """How many tasks of a class each node could hold if everybody who might be evicted went."""
        slots = supply.slots(self._session.snapshot.classes.requests[cls, 0])
        return np.where(self._boards.verdicts(cls) == FITS, slots, 0)

    def _scope(self, job: int, tasks: Rows, supply: Supply) -> NodeScope:
        scope = scope_for(self._session, job, tasks, lambda cls: self._slots(cls, supply), self._failed)
        self._domain = scope.domain if self._domain == NO_ROW else self._domain
        return scope


class WithinJobs(TaskStrategy):
    """Volcano's second phase of preempt: tasks take the place of less important ones of their own job."""

    def __init__(self, session: Session, kind: Eviction, options: TaskOptions, asked: frozenset[int]) -> None:
        """`asked`: the jobs of the first phase."""
        super().__init__(session, kind, options)
        self.asked = asked

    def jobs(self) -> dict[int, Rows]:
        waiting = tasks_by_job(self._session, schedulable_tasks(self._session))
        # Where more than one task is missing, one more does not complete the gang.
        return {
            job: tasks for job, tasks in waiting if job in self.asked and self._session.job_pipelined_deficit(job) <= 1
        }

    def need(self, job: int, pending: Rows) -> Rows:
        waiting = pending[self._session.snapshot.tasks.status[pending] == TaskStatus.PENDING]
        return super().need(job, waiting)

    def candidates(self, job: int) -> Supply:
        snapshot = self._session.snapshot
        own = snapshot.tasks_of(job)
        return Supply(self._session, np.sort(own[(on_node(snapshot) & willing(snapshot))[own]]))

    def solve(
        self, need: Need, candidates: Supply, simulation: Simulation, accepts: Callable[[Plan], bool]
    ) -> Plan | None:
        """One task after the other, until one finds nobody to replace."""
        plan = None
        self._failed.clear()
        self._evictions.begin(simulation, candidates)
        for task in need.tasks.tolist():
            mark = simulation.statement.mark()
            self._place_run(need.job, np.array([task], np.int32), candidates)
            self._session.tally.dry_runs += 1
            found = self._plan(need.job, simulation)
            if found is None or not accepts(found):
                simulation.statement.rollback(mark)
                break
            plan = found
        return plan
