"""The door: every gang, part of a gang and lone task that gets places gets them here.

`place` asks once what kind of job it is, hands the tasks to the routine that fits, and answers with an `Outcome`.
Invariant: what the goal asks for has places in the statement, or the statement is as it was.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import takewhile

import numpy as np

from muster.engine.constraints import has_topology, why_not_placeable
from muster.engine.gangs import NOBODY, next_tasks, relies_on_best_effort
from muster.engine.placing.contract import (
    DEFAULTS,
    EVERYWHERE,
    NOW_OR_LATER,
    PROMISES,
    Found,
    Goal,
    Modes,
    Options,
    Outcome,
    Scope,
    promise,
)
from muster.engine.placing.nested import Nested
from muster.engine.placing.runs import Runs, Work
from muster.engine.placing.search import Search, is_entangled
from muster.engine.placing.start_rule import PLANNED, StartRule, take_back
from muster.engine.waiting import gated_verdict, pending_tasks, queue_holds, schedulable_tasks
from muster.framework import JobVerdict, Session, points
from muster.framework.reasons import GANG_INCOMPLETE, QUEUE_FULL, TOPOLOGY
from muster.kernels.placement import FUTURE
from muster.snapshot import NO_ROW, OperationKind, Rows, Statement, TaskStatus


class Door:
    """The door of one session."""

    def __init__(self, session: Session, options: Options = DEFAULTS) -> None:
        self._session = session
        self._runs = Runs(session, options)
        self._search = Search(self._runs)
        self._start_rule = StartRule(self._runs, self._search)
        self._nested = Nested(self._runs, self._search)
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
        work = Work(self._session, job, tasks, statement, modes, whole=goal is not Goal.START)
        if goal is Goal.FIRST:
            return self._place_first(work, scope)
        if goal is Goal.ALL:
            return self._place_chunk(work, scope)
        return self._start(work, scope)

    def put(self, tasks: Rows, nodes: Rows, statement: Statement, mode: int = FUTURE) -> None:
        """Put equal tasks on these very nodes, which somebody has just cleared for them."""
        statement.place_batch(tasks, nodes, mode)

    @cached_property
    def _is_mixed(self) -> list[bool]:
        """Jobs with tasks that are not all alike."""
        table, n_jobs = self._session.snapshot.tasks, len(self._session.snapshot.jobs)
        mixed, some = np.zeros(n_jobs + 1, np.bool_), np.zeros(n_jobs + 1, np.intp)
        some[table.job] = table.cls  # the last place is that of NO_ROW
        mixed[table.job[table.cls != some[table.job]]] = True
        found: list[bool] = mixed.tolist()
        return found

    # -- what kind of job --------------------------------------------------------------------------------------

    def _is_nested(self, job: int) -> bool:
        return self._session.snapshot.jobs.records[job].groups is not None

    def _has_domains(self, work: Work) -> bool:
        """Whether HyperNodes or sub-groups matter, or tasks that are not alike and of which not all are needed."""
        if work.is_divided or has_topology(self._session, work.job):
            return True
        if work.whole or len(work.tasks) < 2 or not self._is_mixed[work.job] or not is_entangled(work):
            return False  # nearly always, and asked in every turn
        return len(work.tasks) > max(1, self._session.job_deficit(work.job))

    # -- starting and growing ----------------------------------------------------------------------------------

    def _start(self, work: Work, scope: Scope) -> Outcome:
        """Place what comes next: what the job lacks to start, or more of one that has started.

        Where queues are a tree, and with nested groups, that is a chunk which is placed as a whole.
        """
        session, table, job, tasks = self._session, self._session.snapshot.tasks, work.job, work.tasks
        is_nested, has_domains = self._is_nested(job), self._has_domains(work)
        if is_nested or self._by_chunks:
            chunk = next_tasks(session, job, tasks)
            if len(chunk) == 0:
                return Outcome(Found.NOTHING, verdict=self._incomplete(job))
            if is_nested or not has_domains:
                first = replace(work, tasks=chunk, whole=True)
                outcome = self._place_nested(work, first, scope) if is_nested else self._place_chunk(first, scope)
                return replace(outcome, left=tasks[table.status[tasks] == TaskStatus.PENDING]) if outcome else outcome
            verdict = self._over_capacity(job, chunk)
            if verdict is not None:
                return Outcome(Found.NOTHING, verdict=verdict)
        mark = work.statement.mark()
        found = (self._start_rule.place if has_domains else self._start_rule.place_anywhere)(work, scope)
        placed = sum(len(operation.tasks) for operation in work.statement.operations[mark:])
        if found is Found.READY and not self._has_all_members(work):
            work.statement.rollback(mark)
            return Outcome(Found.NOTHING, verdict=JobVerdict(GANG_INCOMPLETE))
        is_part = found is Found.READY and 0 < placed < len(tasks)
        left = tasks[table.status[tasks] == TaskStatus.PENDING] if is_part else NOBODY
        return Outcome(found, placed, left, work.verdict)

    def _has_all_members(self, work: Work) -> bool:
        """Place the members that ask for nothing and that the gang's minimums rely on; False: too few found a node."""
        session, job = self._session, work.job
        if not session.has_action("backfill") or not relies_on_best_effort(session, job):
            return True
        members = schedulable_tasks(session, best_effort=True)
        for member in members[session.snapshot.tasks.job[members] == job].tolist():
            self.place(job, np.array([member], np.intp), work.statement, goal=Goal.FIRST)
            if not relies_on_best_effort(session, job):
                return True
        return False

    def _incomplete(self, job: int) -> JobVerdict:
        """Too few tasks wait to make the gang whole."""
        is_gated = job in self._session.snapshot.tasks.job[pending_tasks(self._session, gated=True)]
        return gated_verdict(self._session, job) if is_gated else JobVerdict(GANG_INCOMPLETE)

    def _over_capacity(self, job: int, tasks: Rows) -> JobVerdict | None:
        rejection = self._session.over_capacity(job, tasks)
        return None if rejection is None else JobVerdict(rejection.reason, rejection.detail)

    # -- all or none -------------------------------------------------------------------------------------------

    def _place_chunk(self, work: Work, scope: Scope) -> Outcome:
        """Place exactly these tasks, or none; if one has to wait for room, all are only promised theirs."""
        session, statement, count = self._session, work.statement, len(work.tasks)
        mark = statement.mark()
        verdict = self._over_capacity(work.job, work.tasks)
        if verdict is not None or not self._place_all(work, scope):
            statement.rollback(mark)
            return Outcome(Found.NOTHING, verdict=verdict or work.verdict or JobVerdict(TOPOLOGY))
        placed = statement.operations[mark:]
        is_promised = any(operation.kind is OperationKind.PIPELINE for operation in placed)
        # What a job has beyond its minimum does not start before that, which may only be promised yet.
        is_early = session.snapshot.jobs.counts[work.job, TaskStatus.PIPELINED] and session.job_deficit(work.job) > 0
        if work.modes != PROMISES and not is_promised and not is_early:
            return Outcome(Found.READY, count)
        if any(operation.kind is OperationKind.ALLOCATE for operation in placed):
            statement.rollback(mark)
            statement.redo(promise(placed))
        return Outcome(Found.PROMISED, count)

    def _place_nested(self, work: Work, chunk: Work, scope: Scope) -> Outcome:
        """Place a chunk of a nested gang: where it would be if all that waits had places, else by itself.

        Where it has no place, others may have that serve as well.
        """
        table, tasks, is_small = self._session.snapshot.tasks, work.tasks, self._runs.options.groups_start_small
        is_alike = not is_entangled(work) and bool((table.role[tasks] == table.role[tasks[0]]).all())
        is_settled = is_alike and self._session.job_deficit(work.job) == 0
        is_promised = bool((table.nominated[chunk.tasks] != NO_ROW).any())
        if not (is_small or is_settled or is_promised) and len(chunk.tasks) < len(tasks) <= PLANNED:
            mark = work.statement.mark()
            is_found = self._nested.place(replace(work, whole=True), scope)
            if is_found and (outcome := self._place_held(chunk, Scope(places=take_back(work.statement, mark)))):
                return outcome
        outcome = self._place_held(chunk, scope)
        if outcome or is_alike or scope.mask is not None or len(chunk.tasks) == len(tasks):
            return outcome
        found = self._nested.least(work)
        if found is None:
            return replace(outcome, verdict=self._search.qualify(work.job, outcome.verdict))
        return self._place_held(replace(chunk, tasks=tasks[found[tasks] != NO_ROW]), Scope(places=found)) or outcome

    def _place_held(self, chunk: Work, scope: Scope) -> Outcome:
        """As `_place_chunk`, of what the queue may hold; where queues are a tree, those above it are asked there."""
        if self._by_chunks or queue_holds(self._session, chunk.job, chunk.tasks):
            return self._place_chunk(chunk, scope)
        cls = int(self._session.snapshot.tasks.cls[chunk.tasks[0]])
        return Outcome(Found.NOTHING, verdict=JobVerdict(QUEUE_FULL, cls=cls))

    def _place_all(self, work: Work, scope: Scope) -> bool:
        """Place exactly these tasks, or none."""
        session, job = self._session, work.job
        if scope.places is not None:
            return self._runs.all_of(work, work.tasks, scope)
        if self._is_nested(job):
            return self._nested.place(work, scope)
        if not self._has_domains(work):
            return bool(self._start_rule.place_anywhere(work, scope))
        is_moved = session.snapshot.tasks.status[work.tasks[0]] == TaskStatus.RELEASING
        if is_moved and (work.is_divided or why_not_placeable(session, job) is not None):
            return False  # a gang whose sub-groups have constraints of their own stays
        return bool(self._start_rule.place(work, scope))

    # -- as many as fit ----------------------------------------------------------------------------------------

    def _place_first(self, work: Work, scope: Scope) -> Outcome:
        """Place tasks in order where the job's constraints let them, until one does not fit."""
        job, tasks = work.job, work.tasks
        is_bound = self._is_nested(job) or has_topology(self._session, job)
        if scope.is_final or scope.mask is not None or not is_bound:
            done = self._runs.in_order(work, tasks, scope)
        else:
            single = (replace(work, tasks=tasks[k : k + 1]) for k in range(len(tasks)))
            done = sum(1 for _ in takewhile(lambda one: self._place_all(one, scope), single))
        return Outcome(Found.READY if done else Found.NOTHING, done, tasks[done:])


def door_of(session: Session) -> Door:
    """The door that all actions of a session share."""
    door = session.workspace.get("door")
    if not isinstance(door, Door):
        door = session.workspace["door"] = Door(session)
    return door
