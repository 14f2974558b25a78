"""The door: every gang, part of a gang and lone task that gets places gets them here.

`place` asks once what kind of job it is, hands the tasks to the routine that fits, and answers with an `Outcome`.
Invariant: what the goal asks for has places in the statement, or the statement is as it was.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from muster.engine.boards import boards_of
from muster.engine.constraints import constraint_of, domain_of, has_topology, why_not_placeable
from muster.engine.domains import ROOT, count_classes, holding, ranked, search_gradients
from muster.engine.gangs import NOBODY, best_effort_tasks, next_tasks, relies_on_best_effort
from muster.engine.placing.contract import (
    EVERYWHERE,
    NOW_OR_LATER,
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
from muster.engine.placing.nested import Nested
from muster.engine.placing.runs import Attempt, Runs
from muster.engine.placing.search import Search
from muster.engine.placing.start_rule import StartRule
from muster.engine.placing.subgroups import Work, is_entangled, make_work
from muster.engine.waiting import gated_verdict
from muster.framework import JobVerdict, Session, points
from muster.framework.reasons import GANG_INCOMPLETE, INSUFFICIENT, PLACES_SEARCH_ENDED, QUEUE_FULL, TOPOLOGY
from muster.kernels.placement import FUTURE
from muster.snapshot import BEST_EFFORT, GATED, NO_ROW, OperationKind, Rows, Snapshot, Statement, TaskStatus


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
        self._start_rule = StartRule(session, self._boards, self._runs, search, hard_starts_whole=hard_starts_whole)
        self._nested = Nested(session, self._boards, self._runs, search)
        #: Jobs with tasks that are not all alike.
        self._is_mixed = _mixed_jobs(session.snapshot)
        #: Where queues are a tree, a gang without constraints starts and grows chunk by chunk.
        self._by_chunks = bool(session.asked(points.QUEUE_TURN))

    def place(
        self,
        job: int,
        tasks: Rows,
        statement: Statement,
        scope: Scope = EVERYWHERE,
        modes: Modes = NOW_OR_LATER,
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
        if not self._is_mixed[job] or len(tasks) < 2 or not is_entangled(session, job, tasks):
            return False  # nearly always, and asked in every turn
        return len(tasks) > max(1, session.job_deficit(job))

    # -- starting and growing ----------------------------------------------------------------------------------

    def _start(self, job: int, tasks: Rows, statement: Statement, scope: Scope, modes: Modes) -> Outcome:
        """Place what the job lacks to start; a gang that relies on members that ask for nothing starts with them."""
        session, waiting = self._session, tasks
        if self._by_chunks:
            waiting = tasks[(session.snapshot.tasks.flags[tasks] & BEST_EFFORT) == 0]
            chunk = next_tasks(session, job, tasks)
            verdict = self._over_capacity(job, chunk) if len(chunk) and len(waiting) else self._incomplete(job)
            if verdict is not None:
                return Outcome(Found.NOTHING, verdict=verdict)
        mark = statement.mark()
        if self._has_domains(job, waiting):
            work = make_work(session, job, waiting)
            found = self._start_rule.place(work, statement, scope.domain)
        else:
            work = Work(job, [Attempt(job, waiting)])
            found = self._start_rule.place_anywhere(work, statement, scope, modes)
        if found is Found.READY and not self._has_all_members(job, statement):
            statement.rollback(mark)
            return Outcome(Found.NOTHING, verdict=JobVerdict(GANG_INCOMPLETE))
        placed = sum(len(operation.tasks) for operation in statement.operations[mark:])
        return Outcome(found, placed, work.tasks() if found is Found.READY else NOBODY, work.verdict)

    def _has_all_members(self, job: int, statement: Statement) -> bool:
        """Place the best-effort members that the gang's minimums rely on; False: too few found a node."""
        session = self._session
        if not session.has_action("backfill") or not relies_on_best_effort(session, job):
            return True
        members = best_effort_tasks(session, job)
        for k in range(len(members)):
            self._place_first(job, members[k : k + 1], statement, EVERYWHERE, NOW_OR_LATER)
            if not relies_on_best_effort(session, job):
                return True
        return False

    def _start_by_chunk(self, job: int, tasks: Rows, statement: Statement, scope: Scope, modes: Modes) -> Outcome:
        """Place what comes next of a gang, as a whole: what it lacks to its minimum, or one more."""
        chunk = next_tasks(self._session, job, tasks)
        if len(chunk) == 0:
            return Outcome(Found.NOTHING, verdict=self._incomplete(job))
        verdict = None if self._by_chunks else self._beyond_queue(job, chunk)
        if verdict is not None:
            return Outcome(Found.NOTHING, verdict=verdict)
        outcome = self._place_chunk(job, chunk, statement, scope, modes)
        if not outcome and not self._is_nested(job) and len(chunk) < len(tasks):
            chunk = self._others(job, tasks, statement, scope, outcome.verdict)
            outcome = self._place_chunk(job, chunk, statement, scope, NOW_OR_LATER) if len(chunk) else outcome
        return replace(outcome, left=tasks[~np.isin(tasks, chunk)]) if outcome else outcome

    def _others(self, job: int, tasks: Rows, statement: Statement, scope: Scope, verdict: JobVerdict | None) -> Rows:
        """Tasks that have places where those whose turn it is have none, and make the gang whole too."""
        session, table = self._session, self._session.snapshot.tasks
        waiting = tasks[(table.flags[tasks] & BEST_EFFORT) == 0]
        if verdict is None or verdict.reason not in (INSUFFICIENT, PLACES_SEARCH_ENDED) or len(waiting) == 0:
            return NOBODY
        mark = statement.mark()
        self._start_rule.search(make_work(session, job, waiting), statement, scope)
        placed = [operation.tasks for operation in statement.operations[mark:]]
        statement.rollback(mark)
        return session.sort_tasks(np.concatenate(placed)) if placed else NOBODY

    def _incomplete(self, job: int) -> JobVerdict:
        """Too few tasks wait to make the gang whole."""
        snapshot = self._session.snapshot
        own = snapshot.tasks_of(job)
        held = (snapshot.tasks.status[own] == TaskStatus.PENDING) & ((snapshot.tasks.flags[own] & GATED) != 0)
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
        mark = statement.mark()
        verdict = self._over_capacity(job, tasks) or self._place_all(job, tasks, statement, scope, modes)
        if verdict is not None:
            statement.rollback(mark)
            return Outcome(Found.NOTHING, verdict=verdict)
        placed = statement.operations[mark:]
        if modes != PROMISES and not any(operation.kind is OperationKind.PIPELINE for operation in placed):
            return Outcome(Found.READY, len(tasks))
        if any(operation.kind is OperationKind.ALLOCATE for operation in placed):
            statement.rollback(mark)
            statement.redo(promise(placed))
        return Outcome(Found.PROMISED, len(tasks))

    def _place_all(self, job: int, tasks: Rows, statement: Statement, scope: Scope, modes: Modes) -> JobVerdict | None:
        """Place exactly these tasks; the verdict says why they have no places together."""
        if self._is_nested(job):
            return self._nested.place(job, tasks, statement, modes, scope)
        if not self._has_domains(job):
            work = Work(job, [Attempt(job, tasks)])
            return None if self._start_rule.place_anywhere(work, statement, scope, modes, whole=True) else work.verdict
        if self._session.snapshot.tasks.status[tasks[0]] == TaskStatus.RELEASING:
            return self._bring_back(job, tasks, statement, modes)
        work = make_work(self._session, job, tasks)
        if self._start_rule.place(work, statement, scope.domain, whole=True):
            return None
        return work.verdict or JobVerdict(TOPOLOGY)

    def _bring_back(self, job: int, tasks: Rows, statement: Statement, modes: Modes) -> JobVerdict | None:
        """Let evicted tasks have places together, in the first domain that has them, near where they were.

        A gang whose sub-groups have constraints of their own is not moved.
        """
        session, snapshot = self._session, self._session.snapshot
        if snapshot.jobs.records[job].sub_groups or why_not_placeable(session, job) is not None:
            return JobVerdict(TOPOLOGY)
        placed = domain_of(snapshot, job)
        near = snapshot.topology.domain_of_nodes(snapshot.tasks.node[tasks]) if placed == NO_ROW else placed
        mark = statement.mark()
        for step in search_gradients(session, job, NO_ROW, ROOT, constraint_of(session, job), placed):
            domains = holding(session, self._boards, tasks, len(tasks), step)
            for domain, _ in ranked(session, job, NO_ROW, domains, near):
                if self._runs.in_order(tasks, statement, Scope(domain), modes) == len(tasks):
                    return None
                statement.rollback(mark)
        return JobVerdict(TOPOLOGY)

    # -- as many as fit ----------------------------------------------------------------------------------------

    def _place_first(self, job: int, tasks: Rows, statement: Statement, scope: Scope, modes: Modes) -> Outcome:
        """Place tasks in order where the job's constraints let them, until one does not fit."""
        done = 0
        if scope.is_final or scope.mask is not None or not self._is_bound(job):
            done = self._runs.in_order(tasks, statement, scope, modes)
        else:
            while done < len(tasks) and not self._place_all(job, tasks[done : done + 1], statement, scope, modes):
                done += 1
        return Outcome(Found.READY if done else Found.NOTHING, done, tasks[done:])

    def _is_bound(self, job: int) -> bool:
        """Whether the network matters for where tasks of a job go."""
        return job != NO_ROW and (self._is_nested(job) or has_topology(self._session, job))


def _mixed_jobs(snapshot: Snapshot) -> list[bool]:
    table = snapshot.tasks
    mixed, some = np.zeros(len(snapshot.jobs) + 1, np.bool_), np.zeros(len(snapshot.jobs) + 1, np.int32)
    some[table.job] = table.cls  # the last place is that of NO_ROW
    mixed[table.job[table.cls != some[table.job]]] = True
    found: list[bool] = mixed.tolist()
    return found


def door_of(session: Session) -> Door:
    """The door that all actions of a session share."""
    door = session.workspace.get("door")
    if not isinstance(door, Door):
        door = session.workspace["door"] = Door(session)
    return door
