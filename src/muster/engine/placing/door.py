"""The door: every gang, part of a gang and lone task that gets places gets them here.

`place` asks once what kind of job it is, hands the tasks to the routine that fits, and answers with an `Outcome`.
Callers: allocate, backfill, and the dry runs and moves of all eviction strategies. Invariant: what the goal asks for
has places in the statement, or the statement is as it was.
"""

from __future__ import annotations

import numpy as np

from muster.engine.boards import boards_of
from muster.engine.constraints import (
    Constraint,
    has_topology,
    job_constraint,
    job_domain,
    subgroup_constraint,
    subgroup_domain,
    why_not_placeable,
)
from muster.engine.domains import ROOT, count_classes, gradients, holding, ranked, search_gradients
from muster.engine.gangs import best_effort_tasks, next_tasks, relies_on_best_effort
from muster.engine.placing.nested import Nested
from muster.engine.placing.runs import ANYWHERE, Attempt, Ground, Runs, Stretch
from muster.engine.placing.search import Search
from muster.engine.placing.terms import (
    EARNEST,
    EVERYWHERE,
    NOBODY,
    PROMISES,
    STEPS_PER_CYCLE,
    STEPS_PER_JOB,
    Found,
    Goal,
    Modes,
    Outcome,
    Scope,
    promise,
)
from muster.engine.placing.walk import Walk, Work, is_entangled, make_work
from muster.engine.waiting import gated_verdict
from muster.framework import JobVerdict, Session
from muster.framework.reasons import (
    GANG_INCOMPLETE,
    INSUFFICIENT,
    PLACES_SEARCH_ENDED,
    QUEUE_CLOSED,
    QUEUE_FULL,
    TOPOLOGY,
)
from muster.kernels.placement import FUTURE
from muster.snapshot import BEST_EFFORT, NO_ROW, OperationKind, Rows, Statement, TaskStatus
from muster.snapshot import GATED as GATED_TASK


class Door:
    """The door of one session."""

    def __init__(
        self,
        session: Session,
        *,
        rank_order: bool = True,
        steps_per_job: int = STEPS_PER_JOB,
        steps_per_cycle: int = STEPS_PER_CYCLE,
        hard_starts_whole: bool = False,
    ) -> None:
        """`rank_order`: equal tasks that are packed get nodes in topology order, by their index.

        Steps: what the exact search may take at most.
        """
        self._session = session
        self._boards = boards_of(session)
        self._runs = Runs(session, self._boards, rank_order=rank_order)
        search = Search(session, self._boards, steps_per_job, steps_per_cycle)
        self._walk = Walk(session, self._boards, self._runs, search, hard_starts_whole=hard_starts_whole)
        self._nested = Nested(session, self._boards, self._runs, search)
        #: Where queues are a tree, a gang without constraints starts and grows chunk by chunk.
        self._by_chunks = bool(session.asked("queue_turn"))

    def place(
        self,
        job: int,
        tasks: Rows,
        statement: Statement,
        scope: Scope = EVERYWHERE,
        modes: Modes = EARNEST,
        goal: Goal = Goal.START,
    ) -> Outcome:
        """Give tasks of a job, in their order, places as far as the goal asks."""
        if len(tasks) == 0:
            return Outcome(Found.NOTHING)
        if goal is Goal.FIRST:
            return self._place_first(job, tasks, statement, scope, modes)
        if goal is Goal.ALL:
            return self._place_chunk(job, tasks, statement, scope, modes)
        if self._is_nested(job) or (self._by_chunks and not self._has_domains(job, tasks)):
            return self._start_by_chunk(job, tasks, statement, scope, modes)
        return self._start(job, tasks, statement, scope, modes)

    def put(self, tasks: Rows, nodes: Rows, statement: Statement, mode: int = FUTURE) -> None:
        """Put equal tasks on these very nodes, which somebody has just cleared for them."""
        statement.place_batch(tasks, nodes, mode)

    # -- what kind of job --------------------------------------------------------------------------------------

    def _is_nested(self, job: int) -> bool:
        return self._session.snapshot.jobs.records[job].groups is not None

    def _has_domains(self, job: int, tasks: Rows = NOBODY) -> bool:
        """Whether HyperNodes or sub-groups matter, or tasks that are not alike and of which not all are needed."""
        session = self._session
        if session.snapshot.jobs.records[job].sub_groups or has_topology(session, job):
            return True
        if len(tasks) < 2 or session.snapshot.jobs.min_member[job] == session.snapshot.jobs.task_count(job):
            return False  # nearly always, and asked in every turn
        return len(tasks) > max(1, session.job_deficit(job)) and is_entangled(session, job, tasks)

    # -- starting and growing ----------------------------------------------------------------------------------

    def _start(self, job: int, tasks: Rows, statement: Statement, scope: Scope, modes: Modes) -> Outcome:
        """Place what the job lacks to start; a gang that relies on members that ask for nothing starts with them."""
        session, table = self._session, self._session.snapshot.tasks
        waiting = tasks
        if self._by_chunks:
            waiting = tasks[(table.flags[tasks] & BEST_EFFORT) == 0]
            chunk = next_tasks(session, job, tasks)
            verdict = self._incomplete(job) if len(chunk) == 0 else self._over_capacity(job, chunk)
            if verdict is not None:
                return Outcome(Found.NOTHING, verdict=verdict)
        mark = statement.mark()
        found = Found.NOTHING
        if len(waiting) == 0:
            return Outcome(found, verdict=JobVerdict(GANG_INCOMPLETE))
        if self._has_domains(job, waiting):
            work = make_work(session, job, waiting)
            found = self._walk.place(work, statement, scope.domain)
        else:
            work = Work(job, [Attempt(job, waiting)])
            found = self._place_plain(work, statement, scope, modes)
        if found is Found.READY and not self._has_all_members(job, statement):
            statement.rollback(mark)
            return Outcome(Found.NOTHING, verdict=JobVerdict(GANG_INCOMPLETE))
        placed = sum(len(operation.tasks) for operation in statement.operations[mark:])
        left = work.tasks() if found is Found.READY else NOBODY
        return Outcome(found, placed, left, work.verdict)

    def _place_plain(self, work: Work, statement: Statement, scope: Scope, modes: Modes) -> Found:
        """Place a job that may go anywhere: in order, else by an exact search."""
        attempt = work.attempts[0]
        tasks = attempt.tasks
        found = self._runs.until_ready(attempt, statement, _ground(scope), modes)
        work.verdict = attempt.verdict
        if found or (work.verdict is not None and work.verdict.reason in (QUEUE_FULL, QUEUE_CLOSED)):
            return found
        work.attempts = [Attempt(work.job, tasks)]
        return self._walk.search(work, statement, scope.domain or ROOT)

    def _has_all_members(self, job: int, statement: Statement) -> bool:
        """Place the best-effort members that the gang's minimums rely on; False: too few found a node."""
        session = self._session
        if not session.has_action("backfill") or not relies_on_best_effort(session, job):
            return True
        members = best_effort_tasks(session, job)
        for k in range(len(members)):
            self._place_first(job, members[k : k + 1], statement, EVERYWHERE, EARNEST)
            if not relies_on_best_effort(session, job):
                return True
        return False

    def _start_by_chunk(self, job: int, tasks: Rows, statement: Statement, scope: Scope, modes: Modes) -> Outcome:
        """Place what comes next of a gang, as a whole: what it lacks to its minimum, or one more."""
        session = self._session
        chunk = next_tasks(session, job, tasks)
        if len(chunk) == 0:
            return Outcome(Found.NOTHING, verdict=self._incomplete(job))
        if not self._by_chunks:
            verdict = self._beyond_queue(job, chunk)
            if verdict is not None:
                return Outcome(Found.NOTHING, verdict=verdict)
        outcome = self._place_chunk(job, chunk, statement, scope, modes)
        if outcome:
            return Outcome(outcome.found, outcome.placed, tasks[~np.isin(tasks, chunk)], outcome.verdict)
        if self._is_nested(job) or len(chunk) == len(tasks):
            return outcome
        return self._start_with_others(job, tasks, statement, scope, outcome)

    def _start_with_others(
        self, job: int, tasks: Rows, statement: Statement, scope: Scope, outcome: Outcome
    ) -> Outcome:
        """The tasks whose turn it is have no places: start with others, if these make the gang whole too."""
        session, table = self._session, self._session.snapshot.tasks
        if outcome.verdict is None or outcome.verdict.reason not in (INSUFFICIENT, PLACES_SEARCH_ENDED):
            return outcome
        mark = statement.mark()
        work = make_work(session, job, tasks[(table.flags[tasks] & BEST_EFFORT) == 0])
        if not work.attempts[0] or not self._walk.search(work, statement, scope.domain or ROOT):
            return outcome
        placed = np.concatenate([operation.tasks for operation in statement.operations[mark:]])
        statement.rollback(mark)
        again = self._place_chunk(job, session.sort_tasks(placed), statement, scope, EARNEST)
        return Outcome(again.found, again.placed, tasks[~np.isin(tasks, placed)], again.verdict)

    def _incomplete(self, job: int) -> JobVerdict:
        """Too few tasks wait to make the gang whole."""
        snapshot = self._session.snapshot
        own = snapshot.tasks_of(job)
        held = (snapshot.tasks.status[own] == TaskStatus.PENDING) & ((snapshot.tasks.flags[own] & GATED_TASK) != 0)
        return gated_verdict(self._session, job) if held.any() else JobVerdict(GANG_INCOMPLETE)

    def _over_capacity(self, job: int, tasks: Rows) -> JobVerdict | None:
        rejection = self._session.over_capacity(job, tasks)
        return None if rejection is None else JobVerdict(rejection.reason, rejection.detail)

    def _beyond_queue(self, job: int, tasks: Rows) -> JobVerdict | None:
        """Whether the job's queue may not hold the tasks of a class, each class counted by itself."""
        session, snapshot = self._session, self._session.snapshot
        queue = int(snapshot.jobs.queue[job])
        for cls, count in zip(*count_classes(snapshot.tasks.cls[tasks]), strict=True):
            if session.queue_slots(queue, snapshot.classes.requests[cls, 0]) < count:
                return JobVerdict(QUEUE_FULL, cls=int(cls))
        return None

    # -- all or none -------------------------------------------------------------------------------------------

    def _place_chunk(self, job: int, tasks: Rows, statement: Statement, scope: Scope, modes: Modes) -> Outcome:
        """Place exactly these tasks, or none; if one has to wait for room, all are only promised theirs."""
        verdict = self._over_capacity(job, tasks)
        if verdict is not None:
            return Outcome(Found.NOTHING, verdict=verdict)
        mark = statement.mark()
        if self._is_nested(job):
            verdict = self._nested.place(job, tasks, statement, modes, scope.mask)
        elif self._has_domains(job):
            verdict = self._chunk_in_domains(job, tasks, statement, scope, modes)
        else:
            verdict = self._chunk_anywhere(job, tasks, statement, scope, modes)
        if verdict is not None:
            statement.rollback(mark)
            return Outcome(Found.NOTHING, verdict=verdict)
        found = Found.READY
        placed = statement.operations[mark:]
        if modes == PROMISES or any(operation.kind is OperationKind.PIPELINE for operation in placed):
            found = Found.PROMISED
            if any(operation.kind is OperationKind.ALLOCATE for operation in placed):
                statement.rollback(mark)
                statement.redo(promise(placed))
        return Outcome(found, len(tasks))

    def _chunk_anywhere(
        self, job: int, tasks: Rows, statement: Statement, scope: Scope, modes: Modes
    ) -> JobVerdict | None:
        mark = statement.mark()
        placed = self._runs.in_order(tasks, statement, _ground(scope), modes)
        if placed == len(tasks):
            return None
        task, table = int(tasks[placed]), self._session.snapshot.tasks
        verdict = JobVerdict(INSUFFICIENT, cls=int(table.cls[task]), task=task, placed=placed)
        statement.rollback(mark)
        if scope.mask is not None or (table.status[tasks] != TaskStatus.PENDING).any():
            return verdict
        work = make_work(self._session, job, tasks)
        work.verdict = verdict
        found = self._walk.search(work, statement, scope.domain or ROOT, modes, whole=True)
        return None if found else work.verdict

    def _chunk_in_domains(
        self, job: int, tasks: Rows, statement: Statement, scope: Scope, modes: Modes
    ) -> JobVerdict | None:
        """Place a gang with HyperNode constraints; a part of its minimum has no place of its own."""
        status = self._session.snapshot.tasks.status
        if status[tasks[0]] == TaskStatus.RELEASING:
            return self._bring_back(job, tasks, statement, modes)
        work = make_work(self._session, job, tasks)
        if self._walk.place(work, statement, scope.domain, whole=True):
            return None
        return work.verdict or JobVerdict(TOPOLOGY)

    def _bring_back(self, job: int, tasks: Rows, statement: Statement, modes: Modes) -> JobVerdict | None:
        """Let evicted tasks have places together, in the first domain that has them, near where they were.

        A gang whose sub-groups have constraints of their own is not moved.
        """
        session, snapshot = self._session, self._session.snapshot
        if snapshot.jobs.records[job].sub_groups or why_not_placeable(session, job) is not None:
            return JobVerdict(TOPOLOGY)
        placed = job_domain(snapshot, job)
        near = snapshot.topology.domain_of_nodes(snapshot.tasks.node[tasks]) if placed == NO_ROW else placed
        mark = statement.mark()
        for step in search_gradients(session, job, NO_ROW, ROOT, job_constraint(session, job), placed):
            domains = holding(session, self._boards, tasks, len(tasks), step)
            for domain, _ in ranked(session, job, NO_ROW, domains, near):
                if self._runs.in_order(tasks, statement, Ground(domain), modes) == len(tasks):
                    return None
                statement.rollback(mark)
        return JobVerdict(TOPOLOGY)

    # -- as many as fit ----------------------------------------------------------------------------------------

    def _place_first(self, job: int, tasks: Rows, statement: Statement, scope: Scope, modes: Modes) -> Outcome:
        """Place tasks in order where the job's constraints let them, until one does not fit."""
        done = 0
        if scope.is_final:
            done = self._runs.in_order(tasks, statement, _ground(scope), modes)
        elif self._is_nested(job):
            while done < len(tasks) and self._nested.place(job, tasks[done : done + 1], statement, modes) is None:
                done += 1
        elif scope.mask is not None or job == NO_ROW or not has_topology(self._session, job):
            done = self._runs.in_order(tasks, statement, _ground(scope), modes)
        else:
            owners = self._session.snapshot.tasks.subgroup[tasks]
            for run in np.split(tasks, np.flatnonzero(np.diff(owners)) + 1):
                domain = self._domain_for(job, run)
                placed = 0 if domain == NO_ROW else self._runs.in_order(run, statement, Ground(domain), modes)
                done += placed
                if placed < len(run):
                    break
        return Outcome(Found.READY if done else Found.NOTHING, done, tasks[done:])

    def _domain_for(self, job: int, tasks: Rows) -> int:
        """The domain that tasks of one sub-group may go to; NO_ROW: none."""
        session, snapshot = self._session, self._session.snapshot
        domain = self._narrow(tasks, ROOT, job_constraint(session, job), job_domain(snapshot, job))
        if domain == NO_ROW or not snapshot.jobs.records[job].sub_groups:
            return domain
        subgroup = int(snapshot.tasks.subgroup[tasks[0]])
        constraint, placed = subgroup_constraint(session, subgroup), subgroup_domain(snapshot, subgroup)
        return self._narrow(tasks, domain, constraint, placed)

    def _narrow(self, tasks: Rows, scope: int, constraint: Constraint, placed: int) -> int:
        """The widest domain allowed around what is placed, else the smallest that holds the tasks."""
        steps = gradients(self._session.snapshot.topology, constraint, scope, placed)
        if not steps:
            return NO_ROW
        if placed != NO_ROW:
            return int(steps[-1][0])
        domains = np.concatenate(steps)
        for needed in (len(tasks), 1):
            held = holding(self._session, self._boards, tasks, needed, domains)
            if len(held):
                return int(held[0])
        return NO_ROW


def _ground(scope: Scope) -> Ground:
    if scope.mask is None:
        return ANYWHERE if scope.domain is None else Ground(scope.domain)
    return Ground(stretches=(Stretch(0, len(scope.mask), scope.mask),))


def door_of(session: Session) -> Door:
    """The door that all actions of a session share."""
    door = session.workspace.get("door")
    if not isinstance(door, Door):
        door = session.workspace["door"] = Door(session)
    return door
