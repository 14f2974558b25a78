"""The task strategy: Volcano's preempt and reclaim, task by task, with the sticky domain and without needless victims.

A job's tasks are placed in order, on room that there is and then on room that evictions make, while the job is in need.
That is a plan when the job would have its minimum once the victims are gone. Equal tasks are served together, and jobs
for which there would not be room enough if everybody went cost a few sums.
"""

from __future__ import annotations

import numpy as np

from muster.engine.domains import ROOT
from muster.engine.evictions.candidates import ON_NODE, Candidates, Pool, on_node, willing
from muster.engine.evictions.options import TaskOptions
from muster.engine.evictions.pipeline import Strategy
from muster.engine.evictions.simulation import Plan, Simulation, trim
from muster.engine.evictions.supply import Supply, demands_of, held_on_nodes
from muster.engine.evictions.surplus import job_surplus, roles_hold
from muster.engine.evictions.task.rooms import Rooms
from muster.engine.evictions.task.sticky import scope_for
from muster.engine.gangs import requests_of
from muster.framework import Eviction, Session
from muster.snapshot import BEST_EFFORT, NO_ROW, Mask, Rows, TaskStatus

_RUNNING: Mask = np.arange(len(TaskStatus)) == TaskStatus.RUNNING


class TaskStrategy(Strategy[Supply]):
    """Serves jobs in need, one after the other."""

    breaks_gangs = False
    piecewise = True

    def __init__(self, session: Session, kind: Eviction, options: TaskOptions, action: str) -> None:
        super().__init__(session, kind, options, action)
        # Across queues only pods that run may go; inside a queue plugins are asked about those of equal priority too.
        self._pool = Pool(session, kind, _RUNNING if kind is Eviction.RECLAIM else ON_NODE, equals=True)
        self._live = session.live_tasks()
        self._rooms = Rooms(session, kind, self._budgets, options)
        #: The jobs that were in need when the action began.
        self.asked: frozenset[int] = frozenset()
        self._supply: Supply | None = None
        #: Domains that were tried for the job in vain, and the one that is being tried; NO_ROW: none was picked.
        self._failed: list[int] = []
        self._domain = NO_ROW

    def jobs(self, waiting: dict[int, Rows]) -> dict[int, Rows]:
        found = super().jobs(waiting)
        self.asked = frozenset(found)
        return found

    def need(self, job: int, pending: Rows) -> Rows:
        pods = self.session.snapshot.tasks.pods
        allowed: Rows = pending[[pods[task].spec.preemption_policy != "Never" for task in pending.tolist()]]
        return allowed

    def candidates(self, job: int) -> Supply:
        found = self._pool.of(job)
        if self._supply is None or self._supply.found is not found:
            snapshot, divided = self.session.snapshot, self._divided(found.jobs)
            # First it is tried whether no role and no sub-group has to fall below its minimum.
            keeping = found.keeping(snapshot, divided) if len(divided) else None
            self._supply = Supply(snapshot, found, None if keeping is None else Supply(snapshot, keeping))
        return self._supply

    def _divided(self, jobs: Rows) -> Rows:
        """Those of the jobs whose roles or sub-groups have minimums of their own."""
        snapshot, groups = self.session.snapshot, self.session.snapshot.subgroups
        found: Rows = jobs[roles_hold(snapshot, jobs) | np.isin(jobs, groups.job[groups.policy != NO_ROW])]
        return found

    def solve(self, tasks: Rows, candidates: Supply, simulation: Simulation) -> Plan | None:
        plan = None if candidates.gentle is None else self._solve_with(tasks, candidates.gentle, simulation)
        if plan is not None:
            return plan
        mark = simulation.statement.mark()
        plan = self._solve_with(tasks, candidates, simulation)
        if plan is None or candidates.gentle is None:
            return plan
        return self._breaking_fewest(tasks, candidates.found, simulation, plan, mark)

    def _breaking_fewest(
        self, tasks: Rows, found: Candidates, simulation: Simulation, plan: Plan, mark: int
    ) -> Plan | None:
        """A plan that breaks no divided gang which another one could do without; `plan` is in the simulation."""
        session, snapshot = self.session, self.session.snapshot
        divided = self._divided(found.jobs)
        losers = np.intersect1d(divided, snapshot.tasks.job[plan.evicted])
        broken = losers[job_surplus(snapshot, losers)[losers] < 0].tolist()
        if len(broken) < 2:
            return plan  # that one has to be broken is known
        best, done = plan, list(simulation.statement.operations[mark:])

        def works(kept: list[int]) -> bool:
            """Whether it is enough that these are broken; that is the plan then."""
            nonlocal best, done
            simulation.statement.rollback(mark)
            keeping = found.keeping(snapshot, np.setdiff1d(divided, kept))
            other = self._solve_with(tasks, Supply(snapshot, keeping), simulation) if kept else None
            if other is not None:
                best, done = other, list(simulation.statement.operations[mark:])
            return other is not None

        trim(sorted(broken, key=session.job_key, reverse=True), works)
        simulation.statement.rollback(mark)
        simulation.statement.redo(done)
        return best

    def _solve_with(self, tasks: Rows, supply: Supply, simulation: Simulation) -> Plan | None:
        self._failed.clear()
        self._rooms.begin(simulation, supply)
        while not self._is_hopeless(simulation.job, tasks, supply):
            mark = simulation.statement.mark()
            self._domain = NO_ROW
            self._place_all(simulation.job, tasks, supply)
            self.session.tally.dry_runs += 1
            plan = self._plan(supply, simulation)
            if plan is not None and simulation.accepts(plan):
                return plan
            simulation.statement.rollback(mark)
            if self._domain == NO_ROW:
                return None
            self._failed.append(self._domain)  # the next one may do
        return None

    def _promises(self, placed: Rows, supply: Supply) -> bool:
        """Whether room that is free may be promised: not what backfill gives to tasks that ask for nothing.

        By reclaim, where allocate never runs, beside those who could go.
        """
        table = self.session.snapshot.tasks
        if self.kind is Eviction.PREEMPT:
            return not ((table.flags[placed] & BEST_EFFORT) != 0).all()
        nodes = table.node[placed]
        return self._rooms.promises_beside and bool(supply.has_candidates[nodes].all())

    def _plan(self, supply: Supply, simulation: Simulation) -> Plan | None:
        """What was done for the job, trimmed; None: it is not enough."""
        placed = simulation.placed()
        if len(placed) == 0 or self.session.job_pipelined_deficit(simulation.job) > 0:
            return None
        if self._live.isdisjoint(placed.tolist()):
            self._trim(simulation)
        evicted = simulation.evicted()
        if len(evicted) == 0 and not self._promises(placed, supply):
            return None  # what is free is allocate's or backfill's to give, also where that comes later
        return Plan(placed, evicted)

    def _trim(self, simulation: Simulation) -> None:
        """Let victims stay that nobody needs, where their queue may hold them too; placements stay as they are.

        Each step evicts no more than it needs, but a later one may leave enough for an earlier one too.
        """
        snapshot, queue = self.session.snapshot, int(self.session.snapshot.jobs.queue[simulation.job])
        evicted, free = simulation.evicted(), snapshot.nodes.future_idle()
        held = snapshot.classes.requests[snapshot.tasks.cls[evicted], 0]
        spare = evicted[(free[snapshot.tasks.node[evicted]] >= held).all(axis=1)]

        def can_stay(kept: list[int]) -> bool:
            """Whether all but the kept ones fit beside all that is promised."""
            back = spare[~np.isin(spare, kept)]
            amounts = held_on_nodes(snapshot, back)
            if not ((free >= amounts) | (amounts == 0)).all():
                return False
            within = self.kind is not Eviction.PREEMPT
            return within or self.session.queue_slots(queue, requests_of(snapshot, back)) > 0

        back = spare[~np.isin(spare, trim(spare.tolist(), can_stay))]
        if len(back):
            simulation.statement.restore(back)

    # -- tasks of a job --------------------------------------------------------------------------------------

    def _place_all(self, job: int, tasks: Rows, supply: Supply) -> None:
        table = self.session.snapshot.tasks
        while len(tasks) and (self.session.job_starving(job) or self.session.job_pipelined_deficit(job) > 0):
            wanted = min(self._run_end(tasks), max(1, self.session.job_pipelined_deficit(job)))
            placed = self._place(job, tasks, supply, wanted)
            if placed == 0:
                # What one of them did not find, the others will not find either.
                alike = np.logical_and.reduce([own[tasks] == own[tasks[0]] for own in (table.cls, table.subgroup)])
                tasks = tasks[~alike]
                if len(tasks) < self.session.job_pipelined_deficit(job):
                    return
            tasks = tasks[placed:]

    def _run_end(self, tasks: Rows) -> int:
        """How many tasks from the first on are alike and may be served together."""
        table = self.session.snapshot.tasks
        first = int(tasks[0])
        if first in self._live or table.nominated[first] != NO_ROW:
            return 1
        columns = table.cls, table.role, table.subgroup, table.priority, table.nominated
        differs = np.any([column[tasks] != column[first] for column in columns], axis=0)
        if self._live:
            differs |= np.fromiter((task in self._live for task in tasks.tolist()), np.bool_, len(tasks))
        return int(np.argmax(np.append(differs, True)))

    def _place(self, job: int, tasks: Rows, supply: Supply, wanted: int) -> int:
        """Place some of the first `wanted` tasks, which are alike; return how many have a place, always the first."""
        scope = scope_for(self.session, job, tasks, supply, self._failed)
        self._domain = scope.domain if self._domain == NO_ROW else self._domain
        # The first task in a domain pins it; only then is it known where the others may go.
        run = self._permitted(job, tasks[: 1 if scope.is_open else wanted])
        return self._rooms.place(run, scope) if len(run) else 0

    def _permitted(self, job: int, run: Rows) -> Rows:
        """Across queues: as many tasks as the queue may take from others for, all of them or one at a time."""
        queue = int(self.session.snapshot.jobs.queue[job])
        if self.kind is Eviction.PREEMPT or self.session.preemptive(queue, run):
            return run
        return run[:1] if self.session.preemptive(queue, run[:1]) else run[:0]

    # -- what could be -----------------------------------------------------------------------------------------

    def _is_hopeless(self, job: int, tasks: Rows, supply: Supply) -> bool:
        """Whether not even everybody's eviction would give the job what it lacks."""
        places = supply.places(np.array([ROOT]), demands_of(self.session, tasks))
        return bool(places[0] < self.session.job_pipelined_deficit(job))


class WithinJobs(TaskStrategy):
    """Volcano's second phase of preempt: tasks take the place of less important ones of their own job."""

    def __init__(
        self, session: Session, kind: Eviction, options: TaskOptions, action: str, asked: frozenset[int]
    ) -> None:
        """`asked`: the jobs of the first phase."""
        super().__init__(session, kind, options, action)
        self._of_first = asked

    def asks(self, job: int) -> bool:
        """Where more than one task is missing, one more does not complete the gang."""
        return job in self._of_first and self.session.job_pipelined_deficit(job) <= 1

    def need(self, job: int, pending: Rows) -> Rows:
        waiting = pending[self.session.snapshot.tasks.status[pending] == TaskStatus.PENDING]
        return super().need(job, waiting)

    def candidates(self, job: int) -> Supply:
        snapshot = self.session.snapshot
        own = snapshot.tasks_of(job)
        tasks = np.sort(own[(on_node(snapshot) & willing(snapshot))[own]])
        return Supply(snapshot, Candidates(tasks, np.array([job], np.intp)))

    def solve(self, tasks: Rows, candidates: Supply, simulation: Simulation) -> Plan | None:
        """One task after the other, until one finds nobody to replace."""
        plan = None
        self._failed.clear()
        self._rooms.begin(simulation, candidates)
        for task in tasks.tolist():
            mark = simulation.statement.mark()
            self._place(simulation.job, np.array([task], np.intp), candidates, 1)
            self.session.tally.dry_runs += 1
            found = self._plan(candidates, simulation)
            if found is None or not simulation.accepts(found):
                simulation.statement.rollback(mark)
                break
            plan = found
        return plan
