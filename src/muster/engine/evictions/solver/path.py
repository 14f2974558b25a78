"""The solver strategy: let waiting gangs make room for themselves, one after the other, down the queue tree.

Callers: consolidation, and preempt and reclaim with `strategy: solver`. For each job whose action lets it take from
others a search finds victims that work; they are evicted or moved, and the job is promised its places, in one
commit. A job that is passed over or fails leaves no trace.
"""

from __future__ import annotations

from muster.engine.boards import boards_of
from muster.engine.chunks import next_tasks, requests_of
from muster.engine.evictions.budgets import Budgets, warn_of_limit
from muster.engine.evictions.solver.options import SolverOptions
from muster.engine.evictions.solver.pool import VictimPool
from muster.engine.evictions.solver.records import SolverReasons
from muster.engine.evictions.solver.room import Room
from muster.engine.evictions.solver.search import Allowance, Search, Solution, TrialsUsedUp
from muster.engine.evictions.solver.signatures import FailedJobs
from muster.engine.evictions.solver.trial import Trials
from muster.engine.evictions.solver.turns import Waiting
from muster.engine.tree_line import TreeLine
from muster.engine.waiting import schedulable_tasks, tasks_by_job, why_not_schedulable
from muster.framework import Eviction, JobVerdict, Session
from muster.framework.reasons import SEARCH_ENDED
from muster.snapshot import NO_ROW, OperationKind, Rows, Statement, TaskStatus

#: Members of an enum are slow to look up.
_TAKES = (OperationKind.EVICT, OperationKind.RECALL)
_PENDING = int(TaskStatus.PENDING)


def run_solver(session: Session, kind: Eviction, options: SolverOptions, action: str) -> None:
    """Let every waiting gang that may look for victims do so, in the order of queues and jobs."""
    warn_of_limit(options.max_disruption_ratio, action)
    _SolverPath(session, kind, options, action).run()


class _SolverPath:
    """One run of the strategy."""

    def __init__(self, session: Session, kind: Eviction, options: SolverOptions, action: str) -> None:
        self._session = session
        self._kind = kind
        self._options = options
        self._action = action
        self._room = Room(session.snapshot, boards_of(session))
        self._failed = FailedJobs(session, kind)
        self._trials_left = options.max_trials_per_cycle
        #: Pending tasks, in order, of all jobs that could be placed.
        self._pending: dict[int, Rows] = {}
        for job, tasks in tasks_by_job(session, schedulable_tasks(session)):
            with session.turn(job):
                if job != NO_ROW and why_not_schedulable(session, job) is None:
                    self._pending[job] = tasks
        # Who may never have what it waits for keeps nobody waiting.
        able = self._pending
        if options.pass_over_blocked:
            able = {job: tasks for job, tasks in self._pending.items() if self._could_run(job, tasks)}
        self._waiting = Waiting(session, able)
        self._trials = Trials(session, self._waiting, kind)

    def run(self) -> None:
        session = self._session
        if self._kind is Eviction.RECLAIM and not session.asked("can_reclaim"):
            return  # nobody says what queues may take back
        jobs = session.snapshot.jobs
        # Only those move others that may be moved themselves.
        asking = [job for job in self._pending if self._kind is not Eviction.CONSOLIDATE or jobs.preemptible[job]]
        if not asking:
            return
        pool = VictimPool(
            session,
            self._kind,
            pass_over_protected=self._options.pass_over_protected,
            take_back_binds=self._options.take_back_binds,
        )
        if not pool:
            return
        budgets = Budgets(session, self._options.ignore_budgets)
        line = TreeLine(session, asking, depth=self._options.max_jobs_per_queue)
        while (job := line.pop()) is not None:
            with session.turn(job):
                tasks = next_tasks(session, job, self._pending[job])
                if len(tasks) and self._may_search(job, tasks):
                    solution = self._serve(job, tasks, self._pending[job], pool, budgets)
                    if solution is not None:
                        # Queues that had to give may come earlier now.
                        line.rank_anew(jobs.queue[session.snapshot.tasks.job[solution.outcome.evicted]].tolist())

    def _could_run(self, job: int, tasks: Rows) -> bool:
        """Whether what the job waits for next is within what its queues are guaranteed, where that is the limit."""
        chunk = next_tasks(self._session, job, tasks)
        return len(chunk) > 0 and self._session.over_quota(job, chunk) is None

    def _may_search(self, job: int, tasks: Rows) -> bool:
        session = self._session
        if self._kind is Eviction.PREEMPT:
            allowed = session.over_quota(job, tasks) is None and self._asks_for_evictions(tasks)
        elif self._kind is Eviction.RECLAIM:
            allowed = session.can_reclaim(job, tasks) is None
        else:
            allowed = bool((requests_of(session.snapshot, tasks) <= session.snapshot.nodes.future_total()).all())
        return allowed and not (self._options.use_signatures and self._failed.rule_out(job, tasks))

    def _asks_for_evictions(self, tasks: Rows) -> bool:
        pods = self._session.snapshot.tasks.pods
        return all(pods[task].spec.preemption_policy != "Never" for task in tasks.tolist())

    def _serve(self, job: int, tasks: Rows, waiting: Rows, pool: VictimPool, budgets: Budgets) -> Solution | None:
        session = self._session
        statement = session.statement()
        statement.release(waiting)
        session.start_solution(self._kind, job)
        allowance = Allowance(self._options.max_trials_per_job, self._trials_left)
        self._trials.start(job, statement)
        line = pool.line(job)
        search = Search(
            session, self._kind, job, line, self._trials, self._room, statement, budgets, allowance, self._options
        )
        solution = None
        try:
            solution = search.solve(tasks)
        except TrialsUsedUp:
            made = self._options.max_trials_per_job - allowance.per_job
            session.record(job, JobVerdict(SEARCH_ENDED, f"{self._action}: after {made} dry runs"))
        self._trials_left = allowance.per_cycle
        if solution is None:
            statement.rollback()
            # Where the disruption is limited, a larger job may succeed although a smaller one failed.
            if self._options.max_disruption_ratio is None:
                self._failed.note(job, tasks)
            return None
        self._commit(job, statement, solution, pool)
        return solution

    def _commit(self, job: int, statement: Statement, solution: Solution, pool: VictimPool) -> None:
        """Evict, move and promise, all at once."""
        session, outcome = self._session, solution.outcome
        snapshot = session.snapshot
        reasons = SolverReasons(
            snapshot=snapshot,
            beneficiary=job,
            victims=len(outcome.victims),
            moved=len(outcome.moved),
            trials=solution.trials,
            offered=solution.offered,
        )
        touched = sorted(set(snapshot.tasks.job[outcome.victims].tolist()))
        for operation in statement.operations:
            if operation.kind in _TAKES:
                operation.note = f"makes room for {snapshot.jobs.records[job].id}"
                operation.record = reasons
        session.commit(statement, self._action)
        self._failed.forget()
        self._pending[job] = pending = self._pending[job][snapshot.tasks.status[self._pending[job]] == _PENDING]
        if len(pending) == 0:
            self._waiting.discard(job)
        # Those who were promised places may be dealt others for the sake of the next ones.
        pool.refresh([*touched, job])
