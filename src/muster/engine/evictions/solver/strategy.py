"""The solver strategy: let waiting gangs make room for themselves, one after the other, down the queue tree.

For each job a search finds victims that work; they are evicted or moved, and the job is promised its places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from muster.engine.boards import boards_of
from muster.engine.evictions.budgets import Budgets
from muster.engine.evictions.pipeline import Need, Plan
from muster.engine.evictions.solver.options import SolverOptions
from muster.engine.evictions.solver.pool import VictimLine, VictimPool
from muster.engine.evictions.solver.records import SolverReasons
from muster.engine.evictions.solver.room import Room
from muster.engine.evictions.solver.search import Allowance, Search, TrialsUsedUp
from muster.engine.evictions.solver.signatures import FailedJobs
from muster.engine.evictions.solver.trial import Trials
from muster.engine.evictions.solver.turns import Waiting
from muster.engine.gangs import next_tasks, requests_of
from muster.engine.queue_tree import TreeLine
from muster.engine.waiting import schedulable_tasks, tasks_by_job, why_not_schedulable
from muster.framework import Eviction, JobVerdict, Session, points
from muster.framework.reasons import SEARCH_ENDED
from muster.snapshot import NO_ROW, Rows, Statement, TaskStatus

_PENDING = int(TaskStatus.PENDING)


class SolverStrategy:
    """Victims gang by gang, by trying scenarios down the queue tree."""

    breaks_gangs = True
    piecewise = False
    asks_validators = True
    grows = False

    def __init__(self, session: Session, kind: Eviction, options: SolverOptions, action: str) -> None:
        self._session = session
        self._kind = kind
        self._options = options
        self._action = action
        self._room = Room(session.snapshot, boards_of(session))
        self._failed = FailedJobs(session, kind)
        self._trials_left = options.max_trials_per_cycle

    def jobs(self) -> dict[int, Rows]:
        session = self._session
        if self._kind is Eviction.RECLAIM and not session.asked(points.CAN_RECLAIM):
            return {}  # nobody says what queues may take back
        #: Pending tasks, in order, of all jobs that could be placed.
        self._pending: dict[int, Rows] = {}
        for job, tasks in tasks_by_job(session, schedulable_tasks(session)):
            with session.turn(job):
                if job != NO_ROW and why_not_schedulable(session, job) is None:
                    self._pending[job] = tasks
        # Only those move others that may be moved themselves.
        asking = dict(self._pending)
        if self._kind is Eviction.CONSOLIDATE:
            asking = {job: tasks for job, tasks in asking.items() if session.snapshot.jobs.preemptible[job]}
        if not asking:
            return {}
        options = self._options
        self._pool = VictimPool(
            session,
            self._kind,
            pass_over_protected=options.pass_over_protected,
            take_back_binds=options.take_back_binds,
        )
        self._budgets = Budgets(session, options.ignore_budgets)
        # Who may never have what it waits for keeps nobody waiting.
        able = self._pending
        if options.pass_over_blocked:
            able = {job: tasks for job, tasks in self._pending.items() if self._could_run(job, tasks)}
        self._waiting = Waiting(session, able)
        self._trials = Trials(session, self._waiting, self._kind, self._room)
        return asking if self._pool else {}

    def line(self, jobs: dict[int, Rows]) -> Iterator[int]:
        line = TreeLine(self._session, jobs, depth=self._options.max_jobs_per_queue)
        while (job := line.pop()) is not None:
            yield job

    def _could_run(self, job: int, tasks: Rows) -> bool:
        """Whether what the job waits for next is within what its queues are guaranteed, where that is the limit."""
        chunk = next_tasks(self._session, job, tasks)
        return len(chunk) > 0 and self._session.over_quota(job, chunk) is None

    def need(self, job: int, pending: Rows) -> Rows:
        session = self._session
        tasks = next_tasks(session, job, self._pending[job])
        if self._kind is Eviction.CONSOLIDATE and len(tasks):
            enough = (requests_of(session.snapshot, tasks) <= session.snapshot.nodes.future_total()).all()
            tasks = tasks if enough else tasks[:0]
        if len(tasks) and self._options.use_signatures and self._failed.rule_out(job, tasks):
            return tasks[:0]
        return tasks

    def candidates(self, job: int) -> VictimLine:
        return self._pool.line(job)

    def obstacles(self, job: int) -> str:
        return self._budgets.and_kept_by(self._pool.obstacles(job))

    def solve(
        self, need: Need, candidates: VictimLine, statement: Statement, accepts: Callable[[Plan], bool]
    ) -> Plan | None:
        session, job = self._session, need.job
        allowance = Allowance(self._options.max_trials_per_job, self._trials_left)
        self._trials.start(job, statement)
        search = Search(
            session,
            self._kind,
            job,
            candidates,
            self._trials,
            self._room,
            statement,
            self._budgets,
            allowance,
            self._options,
        )
        solution = None
        try:
            solution = search.solve(need.tasks)
        except TrialsUsedUp:
            made = self._options.max_trials_per_job - allowance.per_job
            session.tally.cut_short += 1
            session.record(job, JobVerdict(SEARCH_ENDED, f"{self._action}: after {made} dry runs"))
        self._trials_left = allowance.per_cycle
        if solution is None:
            return None
        outcome = solution.outcome
        reasons = SolverReasons(
            snapshot=session.snapshot,
            beneficiary=job,
            victims=len(outcome.victims),
            moved=len(outcome.moved),
            trials=solution.trials,
            offered=solution.offered,
        )
        plan = Plan(need.tasks, outcome.evicted, outcome.moved, reasons)
        return plan if accepts(plan) else None

    def settled(self, need: Need, plan: Plan | None) -> None:
        job, table = need.job, self._session.snapshot.tasks
        self._budgets.kept_by.clear()
        if plan is None:
            # Where the disruption is limited, a larger job may succeed although a smaller one failed.
            if self._options.max_disruption_ratio is None:
                self._failed.note(job, need.tasks)
            return
        self._failed.forget()
        self._pending[job] = pending = self._pending[job][table.status[self._pending[job]] == _PENDING]
        if len(pending) == 0:
            self._waiting.discard(job)
        # Those who were promised places may be dealt others for the sake of the next ones.
        touched = sorted(set(table.job[np.concatenate((plan.evicted, plan.moved))].tolist()))
        self._pool.refresh([*touched, job])
